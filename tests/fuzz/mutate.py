"""Damage of every kind, for fuzzers of files: bits, cuts, and other values within JSON and YAML."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

DIGITS = "@digits"
"""Stands for a whole number of 5,000 digits, which Python would not write: `as_json` does."""

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, DIGITS, 0.5, -1e308, float("nan"), float("inf"),
    "", "a", "\0", "\ud800", "é", "/", "../..", " ", "a" * 10_000, "x = x", "[",
    [], [[]], [None], ["a", "a"], {}, {"": None}, {"type": "Sequence"}, {"a": {"a": {}}},
]  # fmt: skip
"""Values that nobody expected at their place."""


def as_json(value: Any) -> bytes:
    """JSON, halves of characters and numbers without end included."""
    return json.dumps(value).replace(json.dumps(DIGITS), "9" * 5_000).encode("utf-8")


def nested(levels: int = 5_000) -> bytes:
    """JSON and YAML that no recursive reader survives."""
    return b"[" * levels


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Bytes with a few bits flipped, cut off, zeroed, repeated, or replaced as a whole."""
    kind = draw.randrange(8)
    start = draw.randrange(len(content) + 1)
    stop = draw.randrange(start, len(content) + 1)
    if kind < 3:
        changed = bytearray(content)
        for _ in range(draw.choice([1, 1, 2, 20]) if content else 0):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return bytes(changed)
    if kind == 3:
        return content[:start]
    if kind == 4:
        return content[:start] + bytes(stop - start) + content[stop:]
    if kind == 5:
        return content[:start] + content[stop:]
    if kind == 6:
        return content[:stop] + content[start:]
    return draw.choice(
        [b"", b"\0", b"\xff\xfe", nested(), b"9" * 5_000, b"null", b"[]", b"{}", b'"a"', draw.randbytes(40)]
    )


def changed(draw: random.Random, value: Any, times: int = 1) -> Any:
    """Plain data with a few places changed: another value, one of its own from elsewhere, or a key less or more."""
    if not isinstance(value, (dict, list)):
        return draw.choice(STRANGE)
    result = copy.deepcopy(value)
    for _ in range(times):
        holder: Any = result
        while True:
            keys = list(holder) if isinstance(holder, dict) else range(len(holder))
            if not keys:
                break
            key = draw.choice(keys)
            inner = holder[key]
            if isinstance(inner, (dict, list)) and draw.random() < 0.7:
                holder = inner
                continue
            if draw.random() < 0.2:
                del holder[key]
            elif draw.random() < 0.2 and isinstance(holder, dict):
                holder[draw.choice(["", "a", "type", "é"])] = inner
            else:
                holder[key] = copy.deepcopy(draw.choice([draw.choice(STRANGE), somewhere(draw, value)]))
            break
    return result


def somewhere(draw: random.Random, value: Any) -> Any:
    """A value from anywhere within plain data."""
    while isinstance(value, (dict, list)) and value and draw.random() < 0.8:
        value = draw.choice(list(value.values()) if isinstance(value, dict) else value)
    return value
