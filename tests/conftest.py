"""What holds for all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Twelve thousand tests are some millions of objects: from here on the garbage collector passes over them. It
    took a twelfth of the suite's time, most of it in passes over all that is alive: these come more seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 50)
