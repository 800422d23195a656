"""Time in the tests: none asks for a speed in seconds, for machines differ by a factor of five and more.

A limit on what must be fast is a multiple of `unit()`, which this process takes for a piece of work that is known and
none of ours. A wait for what must come ends after `PATIENCE`, so that a test that hangs fails; no machine is too slow
for that.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import time
from collections.abc import Callable
from functools import cache

PATIENCE = 600
"""Seconds."""


def measured_unit() -> float:
    """Seconds of CPU time in which this process now parses argparse.py and writes it again, at best of five."""
    source = inspect.getsource(argparse)
    return min(cpu_time(lambda: ast.unparse(ast.parse(source))) for _ in range(5))


unit = cache(measured_unit)


def cpu_time(work: Callable[[], object]) -> float:
    """Seconds of CPU time of a piece of work."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def wait_until(come: Callable[[], object]) -> None:
    """Wait for what another process or thread does. Fails after `PATIENCE`."""
    until = time.monotonic() + PATIENCE
    while not come():
        assert time.monotonic() < until, f"nothing came in {PATIENCE} seconds"
        time.sleep(0.02)
