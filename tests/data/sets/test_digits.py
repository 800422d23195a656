"""Pictures of digits with their captions."""

import itertools

import numpy as np
import pytest
import torch

from transformula.data.records import read_records
from transformula.data.sets.digits import DOTS, MAX_DIGITS, NAMES, draw_row
from transformula.errors import DataError


def test_rows_are_pictures_and_words() -> None:
    rows = list(itertools.islice(read_records("digits", images=["source"]), 50))
    for number, row in enumerate(rows):
        assert isinstance(row["source"], torch.Tensor) and row["source"].shape == (1, 16, 48)
        digits, picture = draw_row(number)
        assert str(row["target"]) == " ".join(NAMES[d] for d in digits) and 1 <= len(digits) <= MAX_DIGITS
        assert torch.equal(row["source"], torch.from_numpy(picture)) and row.place == f"digits:{number + 1}"


def test_every_digit_of_a_caption_is_in_its_picture() -> None:
    """Its glyph, at one of its sizes, is found in its part of the picture: ink where there are dots, none beside."""
    for number in range(40):
        digits, picture = draw_row(number)
        ink = picture[0].astype(float)
        for digit in digits:
            best = -1.0
            for high, wide in itertools.product((1, 2), (1, 2)):
                glyph = np.kron(DOTS[digit], np.ones((high, wide))) * 2 - 1
                windows = np.lib.stride_tricks.sliding_window_view(ink, glyph.shape)
                flat = windows - windows.mean((-1, -2), keepdims=True)
                centred = glyph - glyph.mean()
                norms = np.sqrt((flat**2).sum((-1, -2)) * (centred**2).sum()) + 1e-9
                best = max(best, float(((flat * centred).sum((-1, -2)) / norms).max()))
            assert best > 0.85, (number, digits, digit, best)


def test_there_is_one_set() -> None:
    with pytest.raises(DataError, match="digits:7: there is one such set"):
        list(read_records("digits:7", images=["source"]))
