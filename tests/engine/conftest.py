"""Tests of the engine wait for its kernels; where they cannot be compiled they are skipped, with the reason."""

import pytest

from transformula.engine import machine, making, quickening
from transformula.engine.build import library
from transformula.engine.recording import NoProgram


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled; programs are made for texts of a few tokens, and are not held to be faster than PyTorch."""
    try:
        library(wait=True)
    except NoProgram as error:
        pytest.skip(str(error))
    for module in (machine, making, quickening):
        monkeypatch.setattr(module, "FEWEST_STEPS", 4)
    monkeypatch.setattr(making, "MAX_SLOWDOWN", 1e9)
