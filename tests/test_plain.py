"""Texts of Python are read by one thread at a time."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any

import transformula
from transformula.plain import python_tree


def test_formulas_are_read_in_several_threads() -> None:
    """A server that loads two models reads both texts at once. Another thread goes on where code of Python runs in the
    middle of a tree, such as what the collector of garbage calls."""
    text, errors = "\n".join(f"x = x + attention(norm(x + {n} * (x - {n})))" for n in range(100)), []

    def read() -> None:
        try:
            for n in range(6):
                python_tree(f"{text}\ny{n} = x")
        except SystemError as error:
            errors.append(error)

    def give_way(*_: Any) -> None:
        time.sleep(0)

    before, threads = gc.get_threshold(), [threading.Thread(target=read) for _ in range(3)]
    gc.callbacks.append(give_way)
    gc.set_threshold(50)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*before)
    assert not errors


def test_nothing_else_reads_python() -> None:
    folder = Path(transformula.__file__).parent
    reading = [path.name for path in folder.rglob("*.py") if "ast.parse(" in path.read_text(encoding="utf-8")]
    assert reading == ["plain.py"]
