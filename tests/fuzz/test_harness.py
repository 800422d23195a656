"""The fuzzers' harness notices what it is there for."""

from __future__ import annotations

import random
import time

import pytest

from tests import pace
from tests.fuzz import harness
from transformula.errors import InputError


def draw(generator: random.Random) -> int:
    return generator.randrange(1_000)


def test_a_case_depends_on_its_number_alone():
    seen: list[int] = []
    harness.check("toy", range(20), draw, seen.append)
    again: list[int] = []
    harness.check("toy", range(10, 20), draw, again.append)
    assert again == seen[10:] and len(set(seen)) > 10


def test_errors_of_ours_pass():
    def refuse(case: int) -> None:
        raise InputError(f"{case} is refused")

    harness.check("toy", range(5), draw, refuse)


@pytest.mark.parametrize("error", [ValueError("inner"), RecursionError("deep"), SystemExit(0), InputError("")])
def test_any_other_error_fails(error):
    def fail(case: int) -> None:
        raise error

    assert len(list(harness.failures("toy", range(3), draw, fail))) == 3


def test_a_slow_case_fails(monkeypatch):
    def wait(case: int) -> None:
        begin = time.process_time()
        while time.process_time() - begin < pace.unit():
            pass

    monkeypatch.setattr(harness, "TIMES", 0.1)
    assert not list(harness.failures("toy", range(1), draw, lambda case: None))
    assert "CPU time" in next(harness.failures("toy", range(1), draw, wait))


def test_memory_is_counted(monkeypatch):
    monkeypatch.setattr(harness, "peak_memory", iter([0, harness.MEMORY + 1]).__next__)
    assert "memory" in next(harness.failures("toy", range(1), draw, lambda case: None))
