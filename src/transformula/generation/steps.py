"""What sampling and beam search ask of a model: steps, logits, ids in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError, NotFinite
from ..model.transformer import Transformer

ONE_IMAGE = 3  # dimensions of one; several have one more
MOST_STEPS, BURST = 16, 0.02  # that are made before anything else is looked at; and in how many seconds
Burst = Callable[[Tensor, Any, int, int], "tuple[Tensor, Tensor] | None"]
"""(tokens (batch, 1), decoding, count, vocab) -> the most likely tokens of `count` steps at most, (batch, count), each
after what the one before wrote, and their log probabilities; None where they cannot be made so."""


class HasInputs(Protocol):
    """A text in the making, with what the model is given for it once, by name."""

    inputs: dict[str, Any]


class Decoder(Protocol):
    """What a model must offer: `model.start`, `model.step` and how far its positions reach."""

    @property
    def context_limit(self) -> int | None:
        """The number of learned positions; None where a text may be longer than any seen in training."""

    def start(self, batch: int, capacity: int, **inputs: Any) -> Any:
        """Empty caches for `batch` rows of at most `capacity` positions; `inputs` are those of other sequences."""

    def step(self, tokens: Tensor, decoding: Any, new: Tensor | None = None) -> Tensor | Mapping[str, Tensor]:
        """Logits (batch, length, vocab) of a chunk (batch, length); `new` (batch,) says how many of it are real. A
        model of several outputs gives them by name: the text is written by `logits`."""


def step_model(
    model: Decoder, tokens: Tensor, decoding: Any, new: Tensor | None = None, last: bool = False
) -> Any:
    """A step of a model. One that reads which document each token is of is told that all are of one. `last`: no other
    logits are wanted than those behind each row, and a model of a formula may leave out the others."""
    more: dict[str, Any] = {"last": True} if last and isinstance(model, Transformer) else {}
    if "document" in getattr(model, "inputs", ()):
        more["document"] = torch.zeros_like(tokens)
    return model.step(tokens, decoding, new=new, **more)


def burst_of(model: Any) -> Burst | None:
    """What makes several steps of a model at once, where something does: what Python does between steps is then done
    once."""
    return None if "document" in getattr(model, "inputs", ()) else getattr(model, "greedy", None)


def burst_size(pace: float, left: Iterable[int]) -> int:
    """How many steps to make at once, of `pace` seconds each, where texts have so many tokens `left`."""
    return min(MOST_STEPS, int(BURST / pace), *left)


def logits_behind(model: Any, texts: Sequence[Sequence[int]], decoding: Any) -> Tensor:
    """Read texts; the logits behind the last token of each, (batch, vocab)."""
    tokens, lengths = pad_ids(texts, device_of(model))
    return last_logits(logits_of(model, step_model(model, tokens, decoding, lengths, last=True)), texts)


def last_logits(logits: Tensor, texts: Sequence[Sequence[int]]) -> Tensor:
    """The logits behind the last token of each text, (batch, vocab), among those of all that was read."""
    if logits.shape[1] == 1:
        return logits[:, 0]
    last = torch.tensor([len(text) - 1 for text in texts], device=logits.device)
    return logits[torch.arange(len(texts), device=logits.device), last]


def logits_of(model: Any, outputs: Tensor | Mapping[str, Tensor]) -> Tensor:
    """What a text is written by: the one output of a model, or of several that named `logits`; of an output that is
    wider than the vocabulary only the tokens that there are. Raises InputError."""
    if not isinstance(outputs, Tensor):
        if "logits" not in outputs:
            raise InputError(f"a text is written by an output named logits; those of this model: {', '.join(outputs)}")
        outputs = outputs["logits"]
    architecture, vocab = getattr(model, "architecture", None), outputs.shape[-1]
    if architecture is not None and "vocab" in architecture.text.numbers:  # the text says how many there are
        vocab = min(vocab, int(architecture.numbers["vocab"]))
    return outputs if outputs.shape[-1] == vocab else outputs[..., :vocab]


def device_of(model: Any) -> torch.device:
    """Where a model's parameters are; the CPU for what has none."""
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def pad_ids(texts: Sequence[Sequence[int]], device: torch.device, least: int = 0) -> tuple[Tensor, Tensor | None]:
    """Token ids as (batch, length), 0 on the right of shorter texts; the lengths (batch,), None where none is padded.
    `least`: of the length of the batch."""
    lengths = torch.tensor([len(text) for text in texts])
    tokens = torch.zeros(len(texts), max(least, int(lengths.max())), dtype=torch.long)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.as_tensor(text, dtype=torch.long)
    return tokens.to(device), None if lengths.min() == tokens.shape[1] else lengths.to(device)


def is_ids(given: Any) -> bool:
    """Whether what a text is given is a list of ids, not a tensor such as an image or a sound."""
    return not isinstance(given, Tensor) or (given.dim() == 1 and not given.is_floating_point())


def given_at_start(
    batch: Sequence[HasInputs], device: torch.device, length_of: Callable[[str, int], int] | None = None
) -> dict[str, Any]:
    """What texts are given as tensors by name, ids and sounds padded on the right, with `lengths` where they differ. Of
    several images each, those of the first text stand first, and `lengths` says how many each has.

    length_of  the length of a padded input, by its name and the length of the longest
    """
    tensors: dict[str, Any] = {}
    lengths: dict[str, Tensor] = {}
    for name in batch[0].inputs:
        values = [s.inputs[name] for s in batch]
        if not is_ids(values[0]) and values[0].dim() == 1:
            real = torch.tensor([len(value) for value in values])
            tensors[name] = pad_sequence(values, batch_first=True).to(device)
            if real.min() < real.max():
                lengths[name] = real.to(device)
            continue
        if not is_ids(values[0]):
            several = values[0].dim() > ONE_IMAGE
            tensors[name] = (torch.cat if several else torch.stack)(values).to(device)
            counts = [len(value) if several else 1 for value in values]
            if {*counts} != {1}:
                lengths[name] = torch.tensor(counts, device=device)
            if not any(counts):  # what a model makes of a picture is of one at least
                tensors[name] = values[0].new_zeros(1, *values[0].shape[1:]).to(device)
            continue
        sizes_of = {len(value) for value in values}  # those of one size are not padded: not every encoder has padding
        least = 0 if length_of is None or len(sizes_of) == 1 else length_of(name, max(sizes_of))
        tensors[name], sizes = pad_ids(values, device, least)
        if sizes is not None:
            lengths[name] = sizes
    return {**tensors, "lengths": lengths} if lengths else tensors


def not_finite(models: Sequence[Any], written: int) -> NotFinite:
    """The error of logits that are no numbers after `written` tokens; names the first parameter that is not finite."""
    for model in models:
        for name, parameter in model.named_parameters() if isinstance(model, nn.Module) else ():
            if not bool(torch.isfinite(parameter).all()):
                what = f"the model's logits are NaN or infinite, because its weights are: {name} holds numbers that are"
                remedy = "load a checkpoint from before that"
                return NotFinite(f"{what} not finite; {remedy}", step=written, place=name)
    what = f"the model's logits are NaN or infinite after {written} tokens, though its weights are finite"
    remedy = "run it in float32, or train with a smaller learning rate"
    return NotFinite(f"{what}: a value inside it grows past its dtype; {remedy}", step=written)
