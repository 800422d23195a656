"""Which of a test's cases are looked at every day, where all take long: the others are marked slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every_third(cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the first, the fourth, ...; the others in the slow set."""
    return [pytest.param(case, marks=pytest.mark.slow) if at % 3 else case for at, case in enumerate(cases)]
