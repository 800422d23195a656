from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.named import tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model of transformers by the name of its row; not to be changed."""
    root = tmp_path_factory.mktemp("named")
    return lambda name: tiny.written(root, name)
