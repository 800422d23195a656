"""Folders of transformers opened here: logits, decoding and greedy tokens are those of transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.interop.named import tiny
from tests.interop.named.calls import CALLS, Call
from transformula.errors import CheckpointError
from transformula.interop.folder import load_model
from transformula.interop.parity.compare import LIMITS, compare, decoding_off, same_greedy

Folder = Callable[[str], Path]
READ = [row for row in tiny.rows().values() if not row.refused]


def marked(rows: list[tiny.Tiny]) -> list[object]:
    return [pytest.param(row.name, marks=pytest.mark.slow) if row.slow else row.name for row in rows]


@pytest.mark.parametrize("name", marked(READ))
def test_logits_decoding_and_greedy_tokens(name: str, tiny_folder: Folder) -> None:
    """In float32; rows of different lengths."""
    call, ours, theirs = both(name, tiny_folder, torch.float32)
    if call.decodes:
        assert same_greedy(call, ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.name for row in READ])
def test_in_float64(name: str, tiny_folder: Folder) -> None:
    both(name, tiny_folder, torch.float64)


def both(name: str, tiny_folder: Folder, dtype: torch.dtype) -> tuple[Call, Any, Any]:
    """The call of a row, ours and theirs, which agree in one pass and in decoding."""
    row = tiny.rows()[name]
    call, folder = CALLS[row.call], tiny_folder(name)
    ours, theirs = load_model(folder, dtype=dtype)[0], row.load(folder, dtype)
    assert compare(call, ours, theirs, dtype) <= LIMITS[dtype]
    if call.decodes:
        assert decoding_off(ours, call, dtype) <= LIMITS[dtype]
    return call, ours, theirs


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row in tiny.rows().values() if row.refused], ids=lambda row: row.name)
def test_refused(row: tiny.Tiny, tiny_folder: Folder) -> None:
    with pytest.raises(CheckpointError, match=row.refused):
        load_model(tiny_folder(row.name))
