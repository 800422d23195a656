"""Texts of one stack, written at random, as encoders and as encoders with decoders: refused with a reason, or whole."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, note

from tests.generated.examine import BUILT, VOCABULARY, examine
from tests.generated.test_generated import many
from tests.generated.writer import models
from transformula.errors import InputError
from transformula.families.conversion import as_encoder, as_encoder_decoder
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text

EVERY_DAY, SLOW = 60, 1000


def turn_many(count: int) -> None:
    """Turn so many texts and examine what they were turned into."""
    found: Counter[str] = Counter()

    @many(count)
    @given(models())
    def each(text: str) -> None:
        note(text)
        try:
            one = read_text(text)
            check(one, VOCABULARY)
        except InputError:
            return
        for turn in (as_encoder, as_encoder_decoder) if one.single else ():
            try:
                turned = write_text(turn(one, VOCABULARY))
            except InputError as error:
                assert str(error).startswith("the formula cannot be an encoder") and "\n" in str(error)
                found[f"{turn.__name__} refused"] += 1
            else:
                note(turned)
                found[f"{turn.__name__} {examine(turned, whole_text=False, files=False)}"] += 1

    each()
    for turn, share in ((as_encoder, 0.5), (as_encoder_decoder, 0.15)):
        built, refused = found[f"{turn.__name__} {BUILT}"], found[f"{turn.__name__} refused"]
        assert built > share * (built + refused) > 0.05 * count, found


def test_every_day() -> None:
    turn_many(EVERY_DAY)


@pytest.mark.slow
def test_a_thousand() -> None:
    turn_many(SLOW)
