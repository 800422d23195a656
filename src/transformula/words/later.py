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
