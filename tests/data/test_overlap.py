"""Evaluation rows that are also training rows; lengths of texts."""

import numpy as np
import pytest
import torch

from transformula.data.preview import lengths_in_words, lengths_of
from transformula.data.records import Record
from transformula.data.splits import Overlap, find_overlap, remove_overlap, row_digest
from transformula.errors import ConfigError, DataError


def pairs(*rows: tuple[str, str], name: str = "train") -> list[Record]:
    return [Record({"source": s, "target": t}, f"{name}:{n}") for n, (s, t) in enumerate(rows, 1)]


def test_lengths():
    lengths = lengths_of(np.arange(1, 101))
    assert (lengths["texts"], lengths["mean"], lengths["longest"]) == (100, 50.5, 100)
    for most, share in (("half", 0.5), ("most", 0.95), ("nearly_all", 0.99)):
        assert (np.arange(1, 101) <= lengths[most]).mean() == pytest.approx(share, abs=0.011)
    shown = lengths_in_words(lengths)
    assert shown.startswith("50.5 tokens on average") and "the longest 100" in shown
    assert lengths_of(np.array([7]))["half"] == 7


def test_a_row_is_its_content():
    same = [{"a": "x  y", "b": "z"}, {"b": "z ", "a": "x\ty"}]
    assert row_digest(same[0]) == row_digest(same[1])
    others = [{"a": "x y z", "b": ""}, {"a": "x", "b": "y z"}, {"a": "x y", "c": "z"}, {"a": "X y", "b": "z"}]
    assert len({row_digest(row) for row in [same[0], *others]}) == 5
    image = torch.zeros(1, 2, 3, dtype=torch.uint8)
    assert row_digest({"i": image}) != row_digest({"i": image.reshape(1, 3, 2)})


def test_overlap_is_counted_and_listed():
    training = pairs(*((f"s{n}", f"t{n}") for n in range(50)))
    held = pairs(*((f"s{n}", f"t{n} ") for n in range(20, 35)), ("s1", "other"), name="val")
    found = find_overlap(training, held, "val")
    assert (found.rows, found.of, len(found.listed)) == (15, 16, 10)
    assert found.listed[0][:2] == ("val:1", "train:21") and "source: 's20'" in found.listed[0][2]
    assert str(found).startswith("15 of the 16 rows of val are also training rows:\n  val:1 = train:21")
    none = find_overlap(training, pairs(("new", "row")))
    assert none.rows == 0 and "none of the 1 rows" in str(none)

    with pytest.raises(DataError, match="(?s)15 of the 16.*overlap=drop, .*overlap=keep"):
        remove_overlap(training, [none, found])
    kept, removed = remove_overlap(training, [none, found], "drop")
    assert removed == 15 and find_overlap(kept, held).rows == 0 and len(kept) == 35
    assert remove_overlap(training, [found], "keep") == (training, 0)
    assert remove_overlap(training, [none]) == (training, 0)
    with pytest.raises(ConfigError, match="overlap: 'ignore' is none of: refuse, drop, keep"):
        remove_overlap(training, [], "ignore")
    with pytest.raises(DataError, match="nothing is left"):
        remove_overlap(held[:1], [find_overlap(held[:1], held)], "drop")


def test_repeated_rows_count_each():
    held = pairs(("a", "b"), ("a", "b"), name="val")
    found = find_overlap(pairs(("a", "b"), ("a", "b")), held)
    assert isinstance(found, Overlap) and found.rows == 2 and found.listed[1][:2] == ("val:2", "train:1")


def test_rows_of_other_fields_cannot_be_compared():
    with pytest.raises(ConfigError, match="fields: val has text, and the training data source, target"):
        find_overlap(pairs(("a", "b")), [Record({"text": "a"}, "val:1")], "val")


def test_the_source_alone_can_be_compared():
    training, held = pairs(("a", "b"), ("c", "d")), pairs(("a", "other"), name="val")
    assert find_overlap(training, held).rows == 0
    found = find_overlap(training, held, compared=["source"])
    assert found.rows == 1 and found.listed[0][:2] == ("val:1", "train:1")
    kept, removed = remove_overlap(training, [found], "drop")
    assert removed == 1 and kept[0]["source"] == "c"
