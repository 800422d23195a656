"""Rows that a rule draws: each split has about its share of all content, whatever is asked for."""

from random import Random

import pytest

from transformula.errors import DataError
from transformula.tasks.algorithmic import SHARE, DrawnRows


def numbers(length: int, chance: Random) -> tuple[str, str]:
    source = "".join(chance.choices("0123456789", k=length))
    return source, source


def test_each_split_has_its_share():
    rows = DrawnRows("numbers", numbers, 4, 4)
    splits = [rows.split(f"{number:04}") for number in range(10_000)]
    for split in ("validation", "test"):
        assert splits.count(split) / 10_000 == pytest.approx(SHARE, rel=0.2)


def test_held_rows_are_distinct_and_theirs():
    rows = DrawnRows("numbers", numbers, 2, 3)
    held = [str(row["source"]) for row in rows.held("test", 60)]
    assert len(set(held)) == len(held) > 30 and {rows.split(source) for source in held} == {"test"}
    assert {rows.split(str(row["source"])) for row in rows.training(300)} == {"training"}


def test_equal_rows_by_name_and_by_what_makes_them_the_same():
    one, other = DrawnRows("one", numbers, 3, 9), DrawnRows("other", numbers, 3, 9)
    assert [dict(row) for row in one.training(20)] != [dict(row) for row in other.training(20)]
    first = DrawnRows("first", numbers, 3, 3, same=lambda source: source[0])
    for source in ("000", "123", "987"):
        assert first.split(source) == first.split(source[0] + "55")


def test_too_few_rows():
    with pytest.raises(DataError, match="of the lengths 1 to 1 there are too few different rows for validation"):
        DrawnRows("one", lambda *_: ("same", "same"), 1, 1).held("validation", 3)
    with pytest.raises(DataError, match="too few different rows for (training|test)"):
        alone = DrawnRows("one", lambda *_: ("same", "same"), 1, 1)
        alone.held("test", 3), alone.training(3)
