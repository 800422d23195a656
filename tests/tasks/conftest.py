"""A cache of its own for every test."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(folder))
    return folder
