"""Recursion over graphs as deep as a formula makes them: 10,000 values one inside the other are no stack of calls.

A recursive function is written as a generator that yields the calls it would make, and `deep` runs it:

    def size(value):
        total = 1
        for argument in value.args:
            total += yield size(argument)
        return total

    deep(size(value))
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

Steps = Generator[Any, Any, Any]  # a function that yields the calls it makes, and returns its result


def deep(first: Steps) -> Any:
    """The result of a function written as steps, however deep it calls itself."""
    waiting, result = [first], None
    while waiting:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as done:
            waiting.pop()
            result = done.value
    return result
