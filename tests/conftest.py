"""What holds for all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Twelve thousand tests are some millions of objects: from here on the garbage collector passes over them."""
    gc.collect()
    gc.freeze()
