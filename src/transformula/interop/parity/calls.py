"""What a model of transformers and ours are called with, and which of their results are compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import CheckpointError
from ...plain import several
from ..named import FILE
from .theirs import parameter_names

LENGTHS: Mapping[str, tuple[int, int]] = {"tokens": (12, 8), "source": (9, 6)}
"""How many positions of each of two rows are no padding."""
CHUNKS = (5, 1, 3, 1, 1, 1)  # in which tokens are decoded
KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "tokens": ("input_ids",),
    "source": ("input_ids",),
    "types": ("langs", "token_type_ids"),
    "image": ("pixel_values",),
    "audio": ("input_values",),
}
"""Our inputs -> the keywords of transformers that mean the same, the first of which its model takes."""
MASK = "attention_mask"  # of tokens, or of the source where there is one
SAMPLES = 4000  # of sound
LATEST = 2  # an end token up to it is that of old CLIPs, which read at the largest id


def real(lengths: Tensor, length: int) -> Tensor:
    """(batch, length): whether a position is no padding."""
    return torch.arange(length) < lengths[:, None]


def real_positions(inputs: Mapping[str, Any]) -> Any:
    """Which results are compared: those of tokens that are no padding."""
    lengths = inputs.get("lengths", {}).get("tokens")
    return ... if lengths is None else real(lengths, inputs["tokens"].shape[1])


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def same(tensor: Tensor) -> Tensor:
    return tensor


def by_positions(result: Tensor) -> Tensor:
    """What theirs gives as a picture, (batch, channels, rows, columns), as ours: (batch, positions, channels)."""
    return result.flatten(2).mT if result.dim() == 4 else result


@dataclass(frozen=True)
class ParityCall:
    """How both are called: this is the part that says what with, and what is compared."""

    names: Mapping[str, str]
    """Our inputs -> their keywords."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """Our inputs that are padded -> their keywords of masks."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keywords of theirs."""
    prepare: Callable[[dict[str, Any]], None] = lambda inputs: None
    """Changes our inputs."""
    result: Callable[[Any], Tensor] = lambda result: result
    """What is compared of our result."""
    decodes: bool = False
    """Whether the model writes tokens."""
    output: str = "logits"
    """What is compared of theirs."""
    layout: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    """Our inputs -> from our layout to theirs."""
    drawn: Mapping[str, Callable[[], Tensor]] = field(default_factory=dict)
    """Our inputs -> what is given."""
    written: int | None = None
    """How many ids, from 0, may be written; None: all."""

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        """Ours by name, and `lengths`."""
        tensors = {name: self.drawn[name]() for name in self.names}
        inputs: dict[str, Any] = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        if self.masks:
            inputs["lengths"] = {name: torch.tensor(LENGTHS[name]) for name in self.masks}
        self.prepare(inputs)
        return inputs

    def theirs(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """Their result."""
        given = {self.names[name]: self.layout.get(name, same)(inputs[name]) for name in self.names}
        for name, mask in self.masks.items():
            if "lengths" in inputs:
                given[mask] = real(inputs["lengths"][name], inputs[name].shape[1]).long()
        results: Any = model(**given, **self.options)
        return self.taken(results, inputs)

    def taken(self, results: Any, inputs: Mapping[str, Any]) -> Tensor:
        """What is compared, of all that their model gives."""
        return by_positions(getattr(results, self.output))

    def ours(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        return self.result(model(**inputs))

    def writes(self, model: Any) -> bool:
        """Whether our model gives logits of tokens that are decoded one after the other."""
        return self.decodes


class Pooled(ParityCall):
    """Theirs is the mean of the last layer's real positions."""

    def taken(self, results: Any, inputs: Mapping[str, Any]) -> Tensor:
        hidden, (name,) = super().taken(results, inputs), self.masks
        if "lengths" not in inputs:
            return hidden.mean(1)
        seen = real(inputs["lengths"][name], hidden.shape[1])[..., None]
        return (hidden * seen).sum(1) / seen.sum(1)


def products(result: Mapping[str, Tensor]) -> Tensor:
    """Images by texts."""
    return result["image_vector"][:, 0] @ result["text_vector"][:, 0].T


@dataclass(frozen=True)
class Inferred(ParityCall):
    """What is compared follows from what both give: logits, those of both ends of a span, images by texts, the hidden
    states, or one vector of a text: their mean, or what theirs makes of them."""

    pooled: bool = False
    """Whether ours gives one vector of a text."""

    def taken(self, results: Any, inputs: Mapping[str, Any]) -> Tensor:
        if "start_logits" in results:
            return torch.stack((results.start_logits, results.end_logits), -1)
        if "predicted_depth" in results:
            return by_positions(results.predicted_depth[:, None])
        for name in ("logits", "logits_per_image", "reconstruction", "heatmaps"):
            if name in results:
                return by_positions(results[name])
        output = "last_hidden_state" if "last_hidden_state" in results else "pooler_output"
        kind = Pooled if self.pooled and output == "last_hidden_state" else ParityCall
        return kind(self.names, self.masks, output=output).taken(results, inputs)

    def ours(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        given = model(**inputs)
        if isinstance(given, Mapping):
            return products(given)
        result: Tensor = given
        if inputs.get("tokens") is None or result.shape[:2] != inputs["tokens"].shape:
            return result[:, 0] if result.dim() == 3 and result.shape[1] == 1 else result  # one vector a row
        return result[..., 0] if result.dim() == 3 and result.shape[2] == 1 else result  # one number a token

    @torch.no_grad()
    def writes(self, model: Any) -> bool:
        inputs = self.inputs(next(model.parameters()).dtype)
        if "tokens" not in inputs or not model.architecture.main.causal:
            return False
        return bool(self.ours(model, inputs).shape[:2] == inputs["tokens"].shape)


def call_of(folder: Path, module: Any, theirs: Any, padded: bool = True) -> ParityCall:
    """The call of a folder's two models, by the inputs of ours and by what theirs takes; with rows of different lengths
    where they are to be `padded` and theirs takes a mask.

    Raises CheckpointError for inputs that theirs takes in another form, and for too short a context."""
    config, known = json.loads((folder / FILE).read_text(encoding="utf-8")), parameter_names(theirs.forward)
    names = {name: keyword_of(name, known, folder) for name in module.architecture.inputs}
    called = {v.called.word.name for part in module.architecture.sections() for v in part.calls() if v.call}
    twice = names.keys() == {"tokens"} and "decoder_input_ids" in known  # an encoder reads them, and a decoder
    if "tokens" in names and "decoder_input_ids" in known and not twice:
        names["tokens"] = "decoder_input_ids"
    elif "masked_scatter" in called:
        what = f"{folder}: a picture or a sound stands among its tokens, at ids that only its processor places"
        raise CheckpointError(f"{what}; it is not compared here: hold it to transformers by a test of your own")
    for name in names.keys() & LENGTHS.keys():
        limit = module.positions_of(name)
        if limit is not None and limit < LENGTHS[name][0]:
            what = f"{folder}: its positions end at {limit}; they are compared at {LENGTHS[name][0]}"
            raise CheckpointError(f"{what}: use a folder of more")
    masked = "source" if "source" in names else "tokens"
    masks = {masked: MASK} if padded and masked in names and MASK in known else {}
    options = {"use_cache": False} if "use_cache" in known else {}
    call = Inferred(names, masks, options, ends(config, module, -1 if twice else LATEST), drawn=draws(config, module))
    with torch.no_grad():
        result = call.ours(module, call.inputs(next(module.parameters()).dtype))
    return replace(call, pooled=result.dim() == 2)


def keyword_of(name: str, known: Collection[str], folder: Path) -> str:
    for keyword in KEYWORDS.get(name, ()):
        if keyword in known:
            return keyword
    what = f"{folder}: the input `{name}` of its text is none that transformers' model takes as it is"
    raise CheckpointError(f"{what}; compared are {', '.join(KEYWORDS)}")


def values_of(config: Any, endings: tuple[str, ...]) -> Iterator[Any]:
    """The values of all keys that end so, those of configs within it, too."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from values_of(value, endings)
        elif key.endswith(endings):
            yield from several(value)


def draws(config: Mapping[str, Any], module: Any) -> dict[str, Callable[[], Tensor]]:
    """What each input is given: ids that mean nothing special, a picture, sound."""
    vocab = int(module.architecture.numbers["vocab"])
    special = {*values_of(config, ("_token_id", "_token_index"))} | {0, vocab - 1}
    usual = torch.tensor([n for n in range(vocab) if n not in special] or [0])
    size = next((n for n in values_of(config, ("image_size",)) if n), 32)
    channels = next((n for n in values_of(config, ("num_channels",)) if n), 3)
    kinds = next((n for n in values_of(config, ("type_vocab_size", "n_langs")) if n), 1)

    def ids(name: str, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return usual[torch.randint(len(usual), (2, LENGTHS[name][0]), generator=generator)]

    return {
        "tokens": lambda: ids("tokens", 2),
        "source": lambda: ids("source", 5),
        "types": lambda: (torch.arange(LENGTHS["tokens"][0]) > 5).long().expand(2, -1) % kinds,
        "image": lambda: drawn(2, channels, size, size),
        "audio": lambda: drawn(2, SAMPLES) / 4,
    }


def ends(config: Mapping[str, Any], module: Any, latest: int) -> Callable[[dict[str, Any]], None]:
    """Each row ends in the token at which some models read: the end if its id is above `latest`, or the largest id."""
    end = next((n for n in values_of(config, ("eos_token_id",)) if isinstance(n, int)), 0)
    largest = int(module.architecture.numbers["vocab"]) - 1

    def put(inputs: dict[str, Any]) -> None:
        last = LENGTHS["tokens"] if "lengths" in inputs else (LENGTHS["tokens"][0],) * 2
        tokens = inputs["tokens"].clone()
        tokens[torch.arange(2), torch.tensor(last) - 1] = end if latest < end <= largest else largest
        inputs["tokens"] = tokens

    return put if "tokens" in module.architecture.inputs else lambda inputs: None
