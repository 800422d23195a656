"""What is measured on this machine during tests is kept for the tests alone."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.getbasetemp() / "machine"))


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a toy run's time would go into its picture; `test_loop.py` looks at one."""
    from transformula.training import report

    monkeypatch.setattr(report, "draw_curve", lambda *given: [])
