"""What the invariants stand on: an entry at a small size, random weights, and its equation by hand."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.layer_runs import run_layers, zero_sublayers
from tests.references.plain import Parameters
from transformula import gallery
from transformula.analysis.word_reference import parts_of
from transformula.errors import TransformulaError
from transformula.language.check import check
from transformula.language.graph import Architecture, Section
from transformula.language.model_text import ModelText, from_formula
from transformula.model.dataflow import description
from transformula.words import vocabulary

REFERENCES = Path(__file__).parents[1] / "references"
LENGTH = 7
SAMPLES = 1680
"""Of sound: all of it is in some window of 400."""

STRUCTURES = ["pre-norm", "skip-2", "unet", "attention-residuals", "value-residual", "gemma3", "hyper-connections"]
"""Entries that differ in structure: one stream, norms on it, history, lists of history, taps, rotary and windows,
several streams."""

MORE = ["highway", "gtrxl", "mhc", "mudd", "vaswani", "transparent-attention", "albert", "mixtral", "t5", "conformer"]
LONGER = [
    "orthogonal", "dyt", "mpt", "xlnet", "realformer", "retnet", "residual-lstm", "linear-transformer", "vit", "clip",
]  # fmt: skip
"""One of every further structure: gates, dot products, functions for norms, doubly stochastic and dynamic mixtures,
several stacks and their history, shared layers, experts, scores as values, as formulas, of inputs and carried,
recurrences, convolutions, images, several outputs. Other entries put the same sums and norms in other places: that they
are traced whole, forward and backward, is held of every one by the longer tests; kernels are made from
what is traced."""

EVERY_DAY = {*STRUCTURES, *MORE, *LONGER, "mamba2", "gated-deltanet", "yoco", "mla", "gpt-oss", "whisper"}
"""Entries that stand for all in the everyday run, where a test of each would take long."""

FEW = {*STRUCTURES, "mudd", "vaswani", "t5", "mixtral"}
"""Those where even so many take long."""

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
    "routed": 5,
    "active": 2,
    "expert": 10,
    "routed_experts": 8,
    "expert_groups": 4,
    "active_groups": 2,
    "chunk": 5,
    "head": 6,
    "rotating": 4,
    "latent_width": 7,
    "query_width": 9,
    "part": 0.5,
    "span": 4,
    "token": 8,
    "sparse": 2,
    "own": 5,
    "state": 3,
    "turned": 1,
    "expand": 2,
    "key_heads": 2,
    "value_heads": 4,
    "state_size": 4,
    "head_size": 8,
    "decay_rank": 3,
    "rate_rank": 4,
    "first_rank": 5,
    "gate_rank": 6,
}
"""Numbers for the tests, by name; an entry takes those that it has. A `depth` of 4 shows the layers of entries whose
second half, or first quarter, differs from the rest."""

DEEPER: Mapping[str, int] = {"gemma3": 6, "gemma3n": 10, "jamba": 6, "minimax": 8, "recurrentgemma": 3, "qwen3-next": 4}
"""Entries with a layer that comes later."""


GRIDS = {"conv2d", "pool2d", "space_to_depth", "depth_to_space", "upsample", "window_attention"}
"""Words whose positions are a grid, by default a square one."""


@cache
def small(name: str, deep: bool = True) -> Architecture:
    """An entry, checked, at a small size; `deep=False`: as few layers as show all of it, usually 2."""
    return reduced(text_of(name), DEEPER.get(name, SMALL["depth"]) if deep else 2)


EXAMPLE = "the word "
"""Before the name of a word, whose example is meant."""


def text_of(name: str) -> ModelText:
    """An entry of the gallery, or the example of a word."""
    if not name.startswith(EXAMPLE):
        return gallery.load(name)
    parts = parts_of(vocabulary()[name.removeprefix(EXAMPLE)].example)
    return from_formula(parts.pop("layer").replace("; ", "\n")).override(parts)


def reduced(text: ModelText, depth: float = SMALL["depth"], **others: float) -> Architecture:
    """A model's text, checked, at a small size; `others`: numbers that are not as in SMALL."""
    free = ("depth", "width", "heads", "vocab", "context")
    numbers = {key: value for key, value in SMALL.items() if key in text.numbers or key in free}
    return check(text, vocabulary(), {**numbers, "depth": depth, **others})


@cache
def built(name: str, dtype: torch.dtype = torch.float64, *, randomly: bool = True, deep: bool = True) -> nn.Module:
    """The model of an entry, evaluating; with random weights, or with its initial ones. It is the same one for all who
    ask: who trains or changes it takes `fresh`."""
    return fresh(name, dtype, randomly=randomly, deep=deep)


def fresh(name: str, dtype: torch.dtype = torch.float64, *, randomly: bool = True, deep: bool = True) -> nn.Module:
    """A new model of an entry, as `built`."""
    from transformula.model import build

    model = build(small(name, deep), seed=0, dtype=dtype).eval()
    return randomize(model) if randomly else model


@torch.no_grad()
def randomize(model: nn.Module) -> nn.Module:
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


def inputs(name: str, batch: int = 2, length: int = LENGTH, seed: int = 2) -> dict[str, Tensor]:
    """Random values of every input of an entry: `tokens` as above, a `source` of another length, ..."""
    architecture = small(name)
    generator = torch.Generator().manual_seed(seed)
    calls = [v for s in architecture.sections() for v in s.calls() if v.call]
    called = {v.called.word.name for v in calls}
    length = 9 if called & GRIDS and "patches" not in called else length
    made: dict[str, Tensor] = {}
    for name_of in built(name).inputs:
        readers = [v for v in calls if any(a.name == name_of and a.op == "input" for a in v.args)]
        rows = [int(v.called.options["rows"]) for v in readers if v.called.word.name == "embed"]
        numbers = [int(v.called.options["size"]) for v in readers if v.called.word.name == "values"]
        if name_of == "tokens":
            made[name_of] = tokens(batch, length, seed)
        elif name_of == "image":
            side = next(int(v.called.options["size"]) for v in calls if v.called.word.name == "patches")
            columns = 2 if called & GRIDS else 3
            made[name_of] = torch.randn(batch, 3, 2 * side, columns * side, dtype=torch.float64, generator=generator)
        elif name_of == "rank":
            made[name_of] = torch.stack([torch.randperm(length, generator=generator) for _ in range(batch)])
        elif name_of == "audio":
            made[name_of] = torch.randn(batch, SAMPLES, dtype=torch.float64, generator=generator)
        elif numbers:
            made[name_of] = torch.randn(batch, length, numbers[0], dtype=torch.float64, generator=generator)
        elif name_of == "characters":
            made[name_of] = torch.randint(int(SMALL["vocab"]), (batch, length, 4), generator=generator)
        elif name_of == "document":
            made[name_of] = torch.randint(2, (batch, length), generator=generator).cumsum(1)
        else:
            size = (batch, length if name_of in ("types", "targets") else length + 2)
            made[name_of] = torch.randint(min(rows, default=int(SMALL["vocab"])), size, generator=generator)
    for call in (v.called for v in calls if v.called.word.name == "masked_scatter"):  # one id a patch
        others = made["tokens"].masked_fill(made["tokens"] == call.options["id"], 0)
        made["tokens"] = others.index_fill(1, torch.arange(6), call.options["id"])
    return made


def inputs_read(name: str) -> set[str]:
    """The names of an entry's inputs."""
    try:
        return {v.name for s in small(name).sections() for v in s.reads.values() if v.op == "input"}
    except TransformulaError:  # which the tests of that entry say
        return {"tokens"}


def sees_the_past_only(name: str) -> bool:
    """Whether the entry can be decoded step by step: its last stack is causal, reads the tokens, and nothing made of
    them is taken of all positions at once."""
    try:
        architecture = small(name)
    except TransformulaError:
        return True
    last = [*architecture.main.sections(), architecture.output]
    whole = any(v.call and v.call.word.reach == "all" for section in last for v in section.calls())
    return architecture.main.causal and "tokens" in inputs_read(name) and not whole


CAUSAL = [name for name in gallery.names() if sees_the_past_only(name)]
"""The entries that write text."""


def fixed_inputs(name: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those inputs that decoding is given at its start."""
    return {key: given[key] for key in built(name).given_at_start}


def chunk_of(name: str, given: Mapping[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    """Positions begin to end of those that it is given step by step."""
    return {key: value[:, begin:end] for key, value in given.items() if key not in built(name).given_at_start}


def outputs(made: Any) -> list[Tensor]:
    """What a model returns, as a list."""
    return list(made.values()) if isinstance(made, Mapping) else [made]


def every_day(names: Iterable[str], chosen: Collection[str] = EVERY_DAY) -> list[Any]:
    """Names for a test's parameters: those that are chosen, and the others marked slow."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in names]


def joined(made: Any) -> Tensor:
    """What a model returns, several outputs side by side."""
    return torch.cat(outputs(made), -1)


def single(given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs in float32."""
    return {key: value.float() if value.is_floating_point() else value for key, value in given.items()}


def loss_of(made: Any) -> Tensor:
    """Some number that depends on every output."""
    # logarithms of probabilities have no logsumexp, vectors of length 1 no other square
    return sum((o.logsumexp(-1).square().mean() + o.square().mean() for o in outputs(made)), torch.zeros(()))


def left_by(model: nn.Module, scale: float = 1.0) -> list[dict[str, float]]:
    """For each layer the size (root mean square) of the streams that it leaves, branches silent, entered with `scale`.

    All streams enter as one: random, without mean, so that a LayerNorm and an RMSNorm are the identity on it; several
    side by side, as so many copies. The model has its initial weights."""
    stack = model.architecture.main
    other = {s.name for s in model.architecture.stacks if s is not stack}
    width = int(model.architecture.numbers["width"])
    x = torch.randn(2, LENGTH, width, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    x = x - x.mean(-1, keepdim=True)
    x = scale * x / x.square().mean(-1, keepdim=True).sqrt()
    widths = {key: value.width for section in stack.layers for key, value in section.reads.items()}
    widths |= {value.stack: value.width for section in stack.layers for value in section.reads.values() if value.stack}
    entering = {
        key: x.repeat(1, 1, max(1, widths.get(key, 0) // x.shape[-1]))
        for key in {*stack.before.leaves, *stack.before.keeps, *other}
    }
    own = stack.before.leaves["x" if "x" in stack.before.leaves else next(iter(stack.before.leaves))].sequence
    for section in stack.layers:
        for key, value in section.reads.items():
            if value.kind == "scores":  # of what enters no distance is preferred
                entering[key] = torch.zeros(1, 1, LENGTH, LENGTH, dtype=torch.float64)
            elif value.op == "input":  # what the masks of a formula read
                entering[key] = torch.arange(LENGTH).expand(2, -1)
            elif value.sequence not in (own, "") and (rows := description(value.sequence, model.architecture)):
                if rows[0] == "rows":  # a table of distances
                    entering[key] = torch.randn(1, rows[1], value.width, dtype=torch.float64)
    left: list[dict[str, float]] = []

    def note(_: Section, made: Mapping[str, Tensor]) -> None:
        left.append({key: value.square().mean().sqrt().item() for key, value in made.items()})

    with torch.no_grad(), zero_sublayers(model):
        run_layers(model, entering, note)
    return left


def reference(name: str) -> Callable[[Parameters, Any, Mapping[str, Any]], Any]:
    """The equation by hand: `logits` of `references/NAME.py`. Missing is a failure that says what to write."""
    path = REFERENCES / f"{name.replace('-', '_')}.py"
    assert path.is_file(), f"write the equation of {name} by hand: tests/references/{path.name}; see plain.py there"
    spec = importlib.util.spec_from_file_location(f"tests.references.{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.logits


def close(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    """Equal up to `tolerance` times the larger's size; mappings of outputs too."""
    if isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for key in one:
            close(one[key], other[key], tolerance)
        return
    assert one.shape == other.shape
    assert torch.isfinite(one).all() and torch.isfinite(other).all()
    off = (one - other).abs().max().item()
    most = max(one.abs().max().item(), other.abs().max().item())
    assert off <= tolerance * max(most, 1e-300), f"differ by {off:.3g}, the largest number is {most:.3g}"
    assert most > 1e-6, "all numbers are 0: nothing was compared"


def same(one: Any, other: Any) -> bool:
    """Bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(outputs(one), outputs(other), strict=True))


def finite(made: Any) -> bool:
    """Whether all outputs are numbers."""
    return all(bool(torch.isfinite(o).all()) for o in outputs(made))


def parts(total: int, sizes: Iterator[int]) -> Iterator[tuple[int, int]]:
    """(begin, end) of pieces of these sizes, until `total`."""
    begin = 0
    for size in sizes:
        if begin >= total:
            return
        yield begin, min(begin + size, total)
        begin += size
