"""Words that are checked, explained and counted, and not yet built: their records alone."""

from __future__ import annotations

from .word import word


@word(
    "relative",
    streams=("q", "table"),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    ordered=True,
    positional=True,
    built=False,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "help": "how many heads"},
        "span": {
            "type": "whole",
            "default": 0,
            "minimum": 0,
            "help": "furthest distance told apart; 0: the table's rows",
        },
        "by": {"type": "choice", "default": "query", "choices": ["query", "key"], "help": "whose content is compared"},
        "buckets": {"type": "flag", "default": False, "help": "distances in logarithmic buckets (DeBERTa v3)"},
    },
    checks={"q % heads == 0": "the width {q} does not divide into {heads} heads"},
    equal=True,
    flops="2 * q * span",
    silent="unknown",
    equation="s_ij = q_i . table[i - j], by key: s_ij = q_j . table[j - i]",
    source="Transformer-XL, 1901.02860; DeBERTa, 2006.03654",
)
def relative() -> None:
    """Scores of queries against a table of distances, head by head."""


@word(
    "relative_bias",
    streams=("x",),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    ordered=True,
    positional=True,
    built=False,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "shapes": True, "help": "how many heads"},
        "buckets": {
            "type": "whole",
            "default": 32,
            "minimum": 2,
            "shapes": True,
            "help": "how many distances told apart",
        },
        "reach": {"type": "whole", "default": 128, "minimum": 1, "help": "distance from which all share a bucket"},
    },
    parameters={"weight": "buckets * heads"},
    silent="unknown",
    equation="s_ij = B[bucket(i - j), head]",
    source="T5: Raffel et al., 1910.10683",
)
def relative_bias() -> None:
    """Scores that depend on the distance, in logarithmic buckets, and on the head; made once, given to every layer."""


@word(
    "expand",
    streams=("x",),
    numbers=("n",),
    kind="streams",
    width="n * x",
    built=False,
    options={"n": {"type": "whole", "minimum": 1, "help": "how many streams"}},
    silent="same",
    equation="X = [x, ..., x]",
    source="Hyper-Connections, 2409.19606",
)
def expand() -> None:
    """n copies of a stream, side by side."""


@word(
    "read",
    streams=("X",),
    kind="streams",
    width="width",
    built=False,
    options={
        "kind": {"type": "choice", "default": "hc", "choices": ["hc", "mhc"], "help": "free weights, or positive ones"},
    },
    parameters={
        "norm.weight": "X",
        "static": "X // width",
        "dynamic.weight": "X // width * X",
        "scale": "1",
    },
    checks={"X % width == 0": "its {X} channels are not streams of width {width}; make them by expand(x, n)"},
    flops="2 * X + 2 * X // width * X",
    saved="2 * X",
    silent="unknown",
    equation="y = a(X) X, a weight for each stream",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880",
)
def read() -> None:
    """What a branch reads of n streams: their weighted sum."""


@word(
    "write",
    streams=("X", "y"),
    kind="streams",
    width="X",
    built=False,
    options={
        "kind": {"type": "choice", "default": "hc", "choices": ["hc", "mhc"], "help": "free, or doubly stochastic"},
        "steps": {"type": "whole", "default": 20, "minimum": 1, "help": "Sinkhorn's steps (mhc)"},
    },
    parameters={
        "norm.weight": "X",
        "mix": "(X // y) ** 2",
        "mix.weight": "(X // y) ** 2 * X",
        "gain": "X // y",
        "gain.weight": "X // y * X",
        "scale": "2",
    },
    checks={"X % y == 0": "its {X} channels are not streams of the branch's width {y}"},
    flops="2 * X * X // y * (1 + X // y) + 2 * X * X // y",
    saved="2 * X + y",
    silent="unknown",
    equation="X = A(X) X + b(X) y^T",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880",
)
def write() -> None:
    """Mixes n streams and adds a branch's result to each."""


@word(
    "collapse",
    streams=("X",),
    kind="streams",
    width="width",
    built=False,
    checks={"X % width == 0": "its {X} channels are not streams of width {width}; make them by expand(x, n)"},
    silent="unknown",
    equation="x = sum of the streams",
    source="Hyper-Connections, 2409.19606",
)
def collapse() -> None:
    """The sum of n streams."""
