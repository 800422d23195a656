"""What a model of transformers and ours are called with, and which of their results are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests.interop.named.tiny import FRAMES, MELS
from tests.peers.case import VOCAB, real
from tests.references.whisper import log_mel

LENGTH, SOURCE_LENGTH = 12, 9
LENGTHS: Mapping[str, Tensor] = {
    "tokens": torch.tensor([LENGTH, LENGTH - 4]),
    "source": torch.tensor([SOURCE_LENGTH, SOURCE_LENGTH - 3]),
}
"""How many positions of each row are no padding."""


def ids(length: int, seed: int) -> Tensor:
    """Random token ids (2, length), none of which is a special one of the tiny models: 0, 1, 2, and the last."""
    return torch.randint(3, VOCAB - 1, (2, length), generator=torch.Generator().manual_seed(seed))


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


INPUTS: Mapping[str, Callable[[], Tensor]] = {
    "tokens": lambda: ids(LENGTH, 2),
    "source": lambda: ids(SOURCE_LENGTH, 5),
    "types": lambda: (torch.arange(LENGTH) > 5).long().expand(2, -1),
    "image": lambda: drawn(2, 3, 32, 32),
    "audio": lambda: drawn(2, 160 * FRAMES) / 4,
}
"""Each input of ours."""


@dataclass(frozen=True)
class Call:
    """How both are called."""

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

    def inputs(self, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        """Ours by name, and `lengths`."""
        tensors = {name: INPUTS[name]() for name in self.names}
        inputs: dict[str, Any] = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
        if self.masks:
            inputs["lengths"] = {name: LENGTHS[name] for name in self.masks}
        self.prepare(inputs)
        return inputs

    def theirs(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        """Their result."""
        given = {self.names[name]: self.layout.get(name, lambda t: t)(inputs[name]) for name in self.names}
        for name, mask in self.masks.items():
            if "lengths" in inputs:
                given[mask] = real(inputs["lengths"][name], inputs[name].shape[1]).long()
        result: Tensor = getattr(model(**given, **self.options), self.output)
        return result

    def ours(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        return self.result(model(**inputs))


class Pooled(Call):
    """Theirs is the mean of the last layer's real positions."""

    def theirs(self, model: Any, inputs: Mapping[str, Any]) -> Tensor:
        hidden, (name,) = super().theirs(model, inputs), self.masks
        seen = real(inputs["lengths"][name], hidden.shape[1])[..., None]
        return (hidden * seen).sum(1) / seen.sum(1)


def end_tokens(inputs: dict[str, Any]) -> None:
    """CLIP reads the text at the last token's place, which holds the largest id."""
    tokens = inputs["tokens"].clone()
    inputs["lengths"] = {"tokens": LENGTHS["tokens"]}
    tokens[torch.arange(2), LENGTHS["tokens"] - 1] = VOCAB - 1
    inputs["tokens"] = tokens


def products(result: Mapping[str, Tensor]) -> Tensor:
    """Images by texts."""
    return result["image_vector"][:, 0] @ result["text_vector"][:, 0].T


CALLS: Mapping[str, Call] = {
    "tokens": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, {"use_cache": False}, decodes=True),
    "encoder": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}),
    "types": Call({"tokens": "input_ids", "types": "token_type_ids"}, {"tokens": "attention_mask"}),
    "languages": Call({"tokens": "input_ids", "types": "langs"}, {"tokens": "attention_mask"}),
    "replaced": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda replaced: replaced[..., 0],
    ),
    "classes": Call({"tokens": "input_ids"}, {"tokens": "attention_mask"}, result=lambda logits: logits[:, 0]),
    "classes of types": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[:, 0],
    ),
    "spans": Call(
        {"tokens": "input_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[..., 0],
        output="start_logits",
    ),
    "spans of types": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda logits: logits[..., 1],
        output="end_logits",
    ),
    "vectors": Pooled(
        {"tokens": "input_ids"},
        {"tokens": "attention_mask"},
        result=lambda sentence: sentence[:, 0],
        output="last_hidden_state",
    ),
    "vectors of types": Pooled(
        {"tokens": "input_ids", "types": "token_type_ids"},
        {"tokens": "attention_mask"},
        result=lambda sentence: sentence[:, 0],
        output="last_hidden_state",
    ),
    "whole": Call({"tokens": "input_ids"}),
    "whole of types": Call({"tokens": "input_ids", "types": "token_type_ids"}),
    "classes of the whole": Call(
        {"tokens": "input_ids", "types": "token_type_ids"}, result=lambda logits: logits[:, 0]
    ),
    "spans of the whole": Call(
        {"tokens": "input_ids", "types": "token_type_ids"},
        result=lambda logits: logits[..., 0],
        output="start_logits",
    ),
    "source": Call(
        {"source": "input_ids", "tokens": "decoder_input_ids"},
        {"source": "attention_mask"},
        {"use_cache": False},
        decodes=True,
    ),
    "image": Call({"image": "pixel_values"}, result=lambda logits: logits[:, 0]),
    "audio": Call(
        {"audio": "input_features", "tokens": "decoder_input_ids"},
        options={"use_cache": False},
        decodes=True,
        layout={"audio": lambda t: log_mel(t.double(), MELS).mT.to(t.dtype)},
    ),
    "clip": Call(
        {"image": "pixel_values", "tokens": "input_ids"},
        prepare=end_tokens,
        result=products,
        output="logits_per_image",
    ),
    "images by texts": Call(
        {"image": "pixel_values", "tokens": "input_ids"}, result=products, output="logits_per_image"
    ),
}
