"""What `--parallel` says, for the plan of a run and for the run: auto, none, ddp, fsdp, tp=2, or fsdp,tp=2."""

from __future__ import annotations

import re

EXPECTED = "expected auto, none, ddp, fsdp, tp=2, or fsdp,tp=2, with the number of ranks behind tp"
LAYOUT = re.compile(r"(auto|none|ddp|fsdp)|(?:(fsdp),)?tp=([1-9][0-9]{0,5})")


def parallel_of(text: str) -> tuple[str, int]:
    """How ranks share the data, and how many share each matrix: ("fsdp", 2) of "fsdp,tp=2", ("none", 2) of "tp=2",
    ("auto", 1) of "auto". Raises ValueError, which says what is expected."""
    match = LAYOUT.fullmatch(text)
    if match is None:
        raise ValueError(EXPECTED)
    return match[1] or match[2] or "none", int(match[3] or 1)
