"""Attention inside windows of pictures, where a picture has fewer positions than a window."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.interop.named import tiny
from tests.interop.named.calls import CALLS
from transformula.errors import CheckpointError, InputError
from transformula.interop.folder import load_model
from transformula.interop.parity.compare import LIMITS, compare


@pytest.mark.slow
@pytest.mark.parametrize("window", [4, 16])
def test_windows_become_as_small_as_the_picture(window: int, tmp_path: Path) -> None:
    """The last stages have 2 x 2 positions, or fewer than 16 x 16 all but the first; they are one window."""
    row = tiny.rows()["swinv2"]
    row = replace(row, keys={**row.keys, "window_size": window})
    row.make().save_pretrained(tmp_path)
    ours, theirs = load_model(tmp_path, dtype=torch.float64)[0], row.load(tmp_path, torch.float64)
    assert compare(CALLS[row.call], ours, theirs, torch.float64) <= LIMITS[torch.float64]
    with pytest.raises(InputError, match=f"a grid of 18 x 18 positions does not divide into windows of {window}"):
        ours(image=torch.zeros(1, 3, 36, 36, dtype=torch.float64))


@pytest.mark.slow
@pytest.mark.parametrize(("side", "window"), [(32, 4), (36, 2), (33, 2)])
def test_pictures_that_do_not_divide_into_windows_are_refused(side: int, window: int, tmp_path: Path) -> None:
    row = tiny.rows()["swin"]
    replace(row, keys={**row.keys, "image_size": side, "window_size": window}).make().save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=re.escape("config.json")):
        load_model(tmp_path)
