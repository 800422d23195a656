"""Fuzzing: a case is drawn from its number alone, so that a failure can be repeated; what may happen is a short list.

A case passes if it is taken or refused with an error of ours, in at most `TIMES` as long as this process takes for
known work (`pace.unit`): so a slow machine passes, and an explosion does not. All cases of a test together may add at
most `MEMORY` to the process's peak.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import pace
from transformula.errors import TransformulaError

EVERYDAY = 100
"""Cases of one fuzzer in the everyday run."""
SLOW = 4_000
"""Cases of one fuzzer in the slow set, in portions of `PORTION`."""
PORTION = 500
TIMES = 80
"""Units of time that one case may take; the slowest take 33."""
MEMORY = 600 * 2**20
"""Bytes that the cases of one test may add to the peak of the process."""


def portions() -> list[Any]:
    """Parameters of a fuzzing test: the numbers of its everyday cases, and those of its slow ones."""
    slow = [range(first, min(first + PORTION, SLOW)) for first in range(EVERYDAY, SLOW, PORTION)]
    return [
        pytest.param(range(EVERYDAY), id="everyday"),
        *(pytest.param(cases, id=f"from {cases.start}", marks=pytest.mark.slow) for cases in slow),
    ]


def failures(
    name: str, cases: range, draw: Callable[[random.Random], Any], run: Callable[[Any], object]
) -> Iterator[str]:
    """One line for each case that fails: its number, the case, what happened.

    draw  makes a case from a generator of random numbers, and from nothing else
    run   does with a case what a user would do; it may be called again with a case that was slow
    """
    before = peak_memory()
    for number in cases:
        case = draw(random.Random(f"{name}/{number}"))
        what = trouble(case, run)
        if what:
            yield f"case {number}: {what}\n  {shortened(repr(case))}"
    grown = peak_memory() - before
    if grown > MEMORY:
        yield f"cases {cases.start} to {cases.stop - 1} added {grown / 2**20:,.0f} MiB to the peak of memory"


def trouble(case: Any, run: Callable[[Any], object]) -> str:
    """What went wrong with a case; nothing if it was taken, or refused with an error of ours, in time."""
    unit = pace.unit()
    fastest = float("inf")
    for _ in range(3):  # a busy machine makes a case slow now and then; a slow case is slow each time
        begin = time.process_time()
        try:
            run(case)
        except TransformulaError as error:
            if not str(error).strip():
                return f"{type(error).__name__} without a message"
        except (KeyboardInterrupt, pytest.fail.Exception):
            raise
        except BaseException as error:  # SystemExit, and panics of libraries that are no Exception
            return f"{type(error).__name__}: {shortened(str(error))}"
        fastest = min(fastest, time.process_time() - begin)
        if fastest <= TIMES * unit:
            return ""
        unit = max(unit, pace.measured_unit())  # the machine may have become slower
    return f"took {fastest:.1f} s of CPU time, {fastest / unit:.0f} units"


def peak_memory() -> int:
    """The most memory that this process ever had, in bytes (Linux counts it in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shortened(text: str, most: int = 1_000) -> str:
    """A text that fits into a report."""
    return text if len(text) <= most else f"{text[:most]} ... ({len(text):,} characters)"


def check(name: str, cases: range, draw: Callable[[random.Random], Any], run: Callable[[Any], object]) -> None:
    """Fail with the first ten cases that fail."""
    found = list(failures(name, cases, draw, run))
    if found:
        pytest.fail(f"{len(found)} of {len(cases)} cases\n" + "\n".join(found[:10]))
