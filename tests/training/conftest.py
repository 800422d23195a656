"""What is measured on this machine during tests is kept for the tests alone."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.getbasetemp() / "machine"))
