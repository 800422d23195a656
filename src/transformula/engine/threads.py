"""Kernels run on PyTorch's own threads, so that none takes a core from another."""

from __future__ import annotations

import math

from .build import library
from .kinds import pool


def use_threads(count: int) -> None:
    """Let so many of PyTorch's threads make what kernels are asked for next, where they can."""
    library().use_threads(count, pool())


class ThreadChoice:
    """How many threads the steps of a program take: one, or as many as PyTorch has, whichever is faster of late. Beside
    a busy process more threads make a step many times slower, so both are tried in turns: at first, when steps have
    become slow, and now and then, less often the more trials have ended alike."""

    FEWEST, MOST = 256, 4096  # steps from one trial to the next
    TURNS, TOO_SLOW = 4, 2  # steps of each in a trial; times the usual step, two steps in a row

    def __init__(self) -> None:
        self.best, self.usual = 1, math.inf
        self.left, self.every, self.slow = 0, self.FEWEST, 0
        self.tried: dict[int, list[float]] = {}

    def next(self, most: int) -> int:
        """How many threads the next step takes, of `most`."""
        if most == 1:
            return 1
        if self.left == 0 or (self.tried and most not in self.tried):
            self.left, self.tried = self.every, {1: [], most: []}
        self.left -= 1
        if self.tried:
            return 1 if len(self.tried[1]) == len(self.tried[most]) else most
        return min(self.best, most)

    def took(self, count: int, seconds: float) -> None:
        """Note how long a step took."""
        if count in self.tried:
            self.tried[count].append(seconds)
            one, more = self.tried.values()
            if more and (len(more) == self.TURNS or more[-1] > self.TOO_SLOW * one[-1]):
                self._choose()
            return
        self.slow = self.slow + 1 if seconds > self.TOO_SLOW * self.usual else 0
        if self.slow == 2 and self.best > 1:
            self.left = 0

    def _choose(self) -> None:
        best = min(self.tried, key=lambda each: sum(self.tried[each]))
        self.every = min(2 * self.every, self.MOST) if best == self.best else self.FEWEST
        times, self.best, self.slow = self.tried[best], best, 0
        self.usual, self.tried = sum(times) / len(times), {}
