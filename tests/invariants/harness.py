"""What the invariants stand on: an entry at a small size, random weights, and its equation by hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from tests.references.plain import Parameters
from transformula import gallery
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.words import vocabulary

REFERENCES = Path(__file__).parents[1] / "references"
LENGTH = 7

SMALL: Mapping[str, float] = {
    "depth": 4,
    "width": 16,
    "heads": 2,
    "vocab": 19,
    "context": 12,
    "hidden": 24,
    "kv_heads": 1,
    "size": 6,
    "window": 3,
    "k": 1,
    "rank": 3,
}
"""Numbers for the tests, by name; an entry takes those that it has. A `depth` of 4 shows the layers of entries whose
second half, or first quarter, differs from the rest."""

DEEPER: Mapping[str, int] = {"gemma3": 6}
"""Entries with a layer that comes later."""


@cache
def small(name: str, deep: bool = True) -> Architecture:
    """An entry, checked, at a small size; `deep=False`: as few layers as show all of it, usually 2."""
    text = gallery.load(name)
    free = ("depth", "width", "heads", "vocab", "context")
    numbers = {key: value for key, value in SMALL.items() if key in text.numbers or key in free}
    numbers["depth"] = DEEPER.get(name, numbers["depth"]) if deep else 2
    return check(text, vocabulary(), numbers)


def built(name: str, dtype: torch.dtype = torch.float64, *, randomly: bool = True, deep: bool = True) -> nn.Module:
    """The model of an entry, evaluating; with random weights, or with its initial ones."""
    from transformula.model import build

    model = build(small(name, deep), seed=0, dtype=dtype).eval()
    return randomise(model) if randomly else model


@torch.no_grad()
def randomise(model: nn.Module) -> nn.Module:
    """Draw every parameter: at their initial values, of 0s and 1s, wrong equations can agree."""
    generator = torch.Generator().manual_seed(1)
    for _, parameter in sorted(model.named_parameters()):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        spread = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.5
        parameter.copy_(drawn * spread + (0.3 if parameter.dim() < 2 else 0))
    return model


def tokens(batch: int = 2, length: int = LENGTH, seed: int = 2) -> Tensor:
    """Random ids (batch, length)."""
    return torch.randint(int(SMALL["vocab"]), (batch, length), generator=torch.Generator().manual_seed(seed))


def left_by_silent_layers(name: str, scale: float = 1.0) -> list[dict[str, float]]:
    """For each layer the size (root mean square) of the streams that it leaves, branches silent, entered with `scale`.

    All streams enter as one: random, without mean, so that a LayerNorm and an RMSNorm are the identity on it. Weights
    are the initial ones."""
    model = built(name, randomly=False)
    x = torch.randn(2, LENGTH, int(SMALL["width"]), dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    x = x - x.mean(-1, keepdim=True)
    x = scale * x / x.square().mean(-1, keepdim=True).sqrt()
    stack = model.architecture.main
    left: list[dict[str, float]] = []

    def note(names: list[str], made: Any) -> None:
        values = made if len(names) > 1 else (made,)
        left.append({key: v.square().mean().sqrt().item() for key, v in zip(names, values, strict=True)})

    hooks = []
    for section in stack.layers:
        names = [key for key, value in section.leaves.items() if value.op != "number"]
        layer = model.get_submodule(f"layers.{section.number}")
        hooks.append(layer.register_forward_hook(lambda _, given, made, names=names: note(names, made)))
    with torch.no_grad(), model.silent():
        model.run_layers({key: x for key in {*stack.before.leaves, *stack.before.keeps}})
    for hook in hooks:
        hook.remove()
    return left


def reference(name: str) -> Callable[[Parameters, Tensor, Mapping[str, Any]], Tensor]:
    """The equation by hand: `logits` of `references/NAME.py`. Missing is a failure that says what to write."""
    path = REFERENCES / f"{name.replace('-', '_')}.py"
    assert path.is_file(), f"write the equation of {name} by hand: tests/references/{path.name}; see plain.py there"
    spec = importlib.util.spec_from_file_location(f"tests.references.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.logits


def close(one: Tensor, other: Tensor, tolerance: float = 1e-9) -> None:
    """Equal up to `tolerance` times the larger's size."""
    assert one.shape == other.shape
    assert torch.isfinite(one).all() and torch.isfinite(other).all()
    off = (one - other).abs().max().item()
    most = max(one.abs().max().item(), other.abs().max().item())
    assert off <= tolerance * max(most, 1e-300), f"differ by {off:.3g}, the largest number is {most:.3g}"
    assert most > 1e-6, "all numbers are 0: nothing was compared"


def parts(total: int, sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """(begin, end) of pieces of these sizes, until `total`."""
    begin = 0
    for size in sizes:
        if begin >= total:
            return
        yield begin, min(begin + size, total)
        begin += size
