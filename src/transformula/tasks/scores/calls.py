"""Whether the calls of tools in replies are those that stand in the data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from ..tool_calls import read_calls
from .measured import Measured, mean_of

NAME = "call accuracy"


def calls_in(reply: str) -> Counter[str]:
    """The calls of a reply, in no order: of each its name, and its arguments in one spelling. One that was cut, or
    whose arguments are no JSON, is like no other."""
    calls: Counter[str] = Counter()
    for call in read_calls(reply)[1]:
        try:
            arguments = json.dumps(json.loads(call.arguments), sort_keys=True) if call.whole else "cut"
        except (ValueError, RecursionError):
            arguments = f"no JSON: {call.arguments}"
        calls[f"{call.name} {arguments}"] += 1
    return calls


def call_accuracy(replies: Sequence[str], references: Sequence[str]) -> Measured | None:
    """100 times the share of replies whose calls have the names and arguments of their reference's, in any order. Only
    those count that call a tool, or whose reference does; None where there are none."""
    pairs = [(calls_in(one), calls_in(other)) for one, other in zip(replies, references, strict=True)]
    right = [100.0 * (one == other) for one, other in pairs if one or other]
    return mean_of(NAME, "names and arguments", right) if right else None


def most_frequent_call(training: Sequence[str], references: Sequence[str]) -> float:
    """The call accuracy of who always writes the calls that stand most often in replies of training."""
    known = Counter(frozenset(calls_in(text).items()) for text in training)
    known.pop(frozenset(), None)
    best = known.most_common(1)[0][0] if known else frozenset()
    held_out = [frozenset(calls_in(text).items()) for text in references]
    held_out = [one for one in held_out if one]
    return 100 * sum(one == best for one in held_out) / len(held_out) if held_out else 0.0
