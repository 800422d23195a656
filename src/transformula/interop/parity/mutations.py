"""A config.json with one key changed: what ours and transformers make of it.

Equal logits, or a refusal that says what is wrong; never other numbers without a word.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...errors import CheckpointError
from ..folder import load_model
from ..named import FILE
from .calls import ParityCall
from .compare import LIMITS, where
from .theirs import TheirClass

ABSENT: Any = object()
ACTIVATIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu2", "silu", "tanh")
NAMES: Mapping[str, tuple[str, ...]] = {
    "rope_type": ("default", "linear", "dynamic", "yarn", "longrope", "llama3"),
    "feed_forward_proj": ("relu", "gelu", "gated-gelu", "gated-silu", "gated-relu"),
    "position_embedding_type": ("absolute", "relative_key", "relative_key_query"),
}
"""Other values of keys that hold a name."""
EXTRA: Mapping[str, Any] = {
    "logit_scale": 0.5,
    "residual_multiplier": 0.3,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "rope_theta": 777.0,
    "sliding_window": 3,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    "attention_bias": True,
    "use_qk_norm": True,
    "head_dim": 16,
    "partial_rotary_factor": 0.5,
    "scale_embedding": True,
    "tie_word_embeddings": False,
    "original_max_position_embeddings": 4,
}
"""Keys that some models know."""
LEFT_ALONE = ("model_type", "transformers_version", "dtype", "id2label", "label2id")
"""What names the family and the type of the numbers, and names of classes, which are counted and not read."""


@dataclass(frozen=True)
class KeyChange:
    """One key, `a.b` of nested ones, and its new value."""

    path: tuple[str, ...]
    value: Any

    @property
    def key(self) -> str:
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.key} {'absent' if self.value is ABSENT else json.dumps(self.value)}"

    def of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration with this change."""
        new = copy.deepcopy(dict(config))
        inside: Any = new
        for key in self.path[:-1]:
            inside = inside[key]
        if self.value is ABSENT:
            del inside[self.path[-1]]
        else:
            inside[self.path[-1]] = self.value
        return new


def leaves(config: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key and its value; a mapping's own key, and those in it."""
    for key, value in config.items():
        if key not in LEFT_ALONE:
            yield (*at, key), value
            if isinstance(value, dict):
                yield from leaves(value, (*at, key))


def others(key: str, value: Any) -> list[Any]:
    """Values that a key might have in the place of its own."""
    if isinstance(value, bool):
        return [not value, 0, 1]
    if key in NAMES:
        return list(NAMES[key])
    if key.endswith(("act", "activation", "activation_function", "act_fn")):
        return list(ACTIVATIONS)
    if isinstance(value, int):
        return [value + 1, value - 1, 2 * value, value // 2, 0, 0.5, True]
    if isinstance(value, float):
        return [value * 3 + 0.01, value / 2, value + 1, 0.0, 0, 1]
    if value is None:
        return [True, False, 0, 1, 2, 0.5, "other"]
    if isinstance(value, str):
        return ["other", ""]
    if isinstance(value, list):
        return [value[::-1], value + value[:1], value[:1] * len(value), value[-1:] * len(value), []]
    return [{}]


def changes(config: Mapping[str, Any]) -> list[KeyChange]:
    """Every key changed, null, and absent; keys added."""
    every = []
    for path, value in leaves(config):
        tried = [*others(path[-1], value), None]
        every += [KeyChange(path, new) for new in distinct(tried) if not same(new, value)]
        every.append(KeyChange(path, ABSENT))
    return every + [KeyChange((key,), value) for key, value in EXTRA.items() if key not in config]


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def distinct(values: list[Any]) -> list[Any]:
    return [value for n, value in enumerate(values) if not any(same(value, other) for other in values[:n])]


class Mutated:
    """A copy of a folder in `work` whose config.json is changed."""

    def __init__(self, theirs: TheirClass, call: ParityCall, folder: Path, work: Path) -> None:
        self.theirs, self.call, self.work = theirs, call, work
        self.config = json.loads((folder / FILE).read_text(encoding="utf-8"))
        shutil.copytree(folder, work)

    def outcome(self, change: KeyChange) -> str:
        """`equal`; `refused`; `theirs fails`: transformers opens no such folder, or finds no numbers; else what is
        wrong."""
        config = json.dumps(change.of(self.config))
        (self.work / FILE).write_text(config, encoding="utf-8")
        try:
            ours, _ = load_model(self.work, dtype=torch.float32)
        except CheckpointError as error:
            return "refused" if tells(str(error), change) else f"refused without its key: {error}"
        except Exception as error:  # whatever else comes is a defect
            return f"raises {type(error).__name__}: {error}"
        return self.compared(ours)

    @torch.no_grad()
    def compared(self, ours: Any) -> str:
        inputs = self.call.inputs()
        try:
            theirs = self.call.theirs(self.theirs.load(self.work), inputs).float()
        except Exception:  # it raises errors of many kinds
            return "theirs fails"
        places = where(inputs, theirs)
        if not torch.isfinite(theirs[places]).all():
            return "theirs fails"
        mine = self.call.ours(ours, inputs)
        if mine.shape != theirs.shape:
            return f"shape {tuple(mine.shape)}, not {tuple(theirs.shape)}"
        most = max(1.0, theirs[places].abs().max().item())
        off = (mine - theirs)[places].abs().max().item() / most
        return "equal" if off <= LIMITS[torch.float32] else f"off by {off:.0e}"


SIZES = ("has the shape", "in its place", "missing", "no place", "make no model", "differs from")
"""What errors say of tensors that do not fit what config.json says."""


def tells(error: str, change: KeyChange) -> bool:
    """Whether an error says which key is wrong, or which tensor does not fit; and what was expected."""
    names = change.path[-1] in error or change.path[0] in error or any(words in error for words in SIZES)
    return names and ";" in error


FINE = ("equal", "refused", "theirs fails")
