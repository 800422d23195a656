"""A toy vocabulary: records made in place, so that the language is tested without any word's module."""

from __future__ import annotations

from typing import Any

from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.language.vocabulary import Vocabulary, record_from

WHOLE = {"type": "whole", "minimum": 1, "shapes": True}


def record(name: str, **stated: Any) -> Any:
    return record_from(name, stated, "toy")


TOY = Vocabulary(
    [
        record(
            "embed",
            streams=("tokens",),
            ids=("tokens",),
            kind="input",
            family="table",
            width="size",
            options={"rows": WHOLE | {"default": "vocab"}, "size": WHOLE | {"default": "width"}},
            parameters={"weight": "rows * size"},
        ),
        record(
            "positions",
            streams=("x",),
            kind="input",
            width="size",
            options={"rows": WHOLE | {"default": "context"}, "size": WHOLE | {"default": "width"}},
            parameters={"weight": "rows * size"},
            positional=True,
            order="'learned'",
        ),
        record(
            "unembed",
            streams=("x",),
            kind="output",
            family="table",
            width="vocab",
            parameters={"weight": "vocab * x"},
            flops="2 * vocab * x",
        ),
        record("norm", streams=("x",), kind="norm", width="x", parameters={"weight": "x"}, initial_scale="unit"),
        record(
            "attention",
            streams=(("x",), ("x", "memory"), ("q", "k", "v")),
            ports=("scores",),
            kind="positions",
            reach="past",
            width="x if x else q",
            options={
                "heads": WHOLE | {"default": "heads"},
                "size": WHOLE | {"default": "(x if x else q) / heads"},
                "rotary": {"type": "number", "minimum": 0, "default": 0},
                "score": {"type": "definition"},
            },
            attends="streams",
            rotary="rotary",
            distances=("rotary", "score", "scores"),
            taps={"v": "heads * size", "scores": ""},
            parameters={"query.weight": "(x if x else q) * heads * size"},
            checks={"size * heads <= 4096": "{heads} heads of {size} are too many"},
        ),
        record(
            "linear",
            streams=("x",),
            numbers=("size",),
            kind="channels",
            width="size",
            linear=True,
            options={"size": WHOLE, "bias": {"type": "flag", "default": True, "shapes": True}},
            parameters={"weight": "x * size", "bias": "size if bias else 0"},
        ),
        record(
            "mlp",
            streams=("x",),
            kind="channels",
            width="x",
            options={
                "hidden": WHOLE | {"default": "4 * x"},
                "activation": {"type": "choice", "choices": ["gelu", "relu"], "default": "gelu"},
            },
            parameters={"up.weight": "x * hidden", "down.weight": "x * hidden"},
        ),
        record("relu", streams=("x",), kind="function", width="x", constant="max(c, 0)", nonzero="positive"),
        record("sqrt", streams=("x",), kind="function", width="x", constant="sqrt(c)", partial=True),
        record(
            "dropout",
            streams=("x",),
            numbers=("p",),
            kind="chance",
            width="x",
            options={"p": {"type": "number", "minimum": 0, "maximum": 1, "default": "dropout", "absent": 0}},
        ),
        record(
            "scalar",
            streams=(),
            numbers=("init",),
            kind="coefficient",
            value="coefficient",
            width="1",
            sequence="none",
            options={"init": {"type": "number", "default": 0}},
            parameters={"weight": "1"},
            initial_scale="init",
        ),
        record(
            "vector",
            streams=(),
            numbers=("init",),
            kind="coefficient",
            value="coefficient",
            width="size",
            sequence="none",
            options={"init": {"type": "number", "default": 0}, "size": WHOLE | {"default": "width"}},
            parameters={"weight": "size"},
            initial_scale="init",
        ),
        record("mix", streams=("*entries",), kind="depth", width="entry", parameters={"weight": "entries"}),
        record("mean", streams=("x",), kind="positions", width="x", reach="all"),
        record("join", streams=("a", "b"), kind="shape", width="a + b"),
    ]
)


def checked(text: str, **numbers: Any) -> Architecture:
    """A formula, or a whole file if it has a line with a key, checked against the toy words."""
    whole = any(line.split(":")[0].isidentifier() and ":" in line for line in text.splitlines())
    return check(read_text(text) if whole else from_formula(text), TOY, numbers)


def paths(architecture: Architecture, layer: int = 1) -> list[str]:
    """Paths of the modules of one layer, in order of evaluation, without 'layers.N.'."""
    stack = architecture.main
    return [c.call.path.removeprefix(f"layers.{layer}.") for c in stack.layers[layer - 1].calls() if c.call]
