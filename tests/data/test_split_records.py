"""What is held out: the same each time, whole groups, about as much as asked for."""

from collections import Counter

import pytest
import torch

from transformula.data.records import Record, read_records
from transformula.data.splits import find_overlap, split_records
from transformula.errors import DataError


def records(count: int, **others: str) -> list[Record]:
    return [Record({"source": f"s{n}", "target": f"t{n}", **others}, f"train:{n}") for n in range(count)]


def places(split) -> tuple[list[str], list[str]]:
    return tuple([record.place for record in side] for side in split)


def test_each_record_is_on_one_side_in_its_order_and_each_time_on_the_same():
    rows = records(2000)
    training, held = places(split_records(rows, 0.1, seed=3))
    assert sorted([*training, *held]) == sorted(record.place for record in rows)
    assert [p for p in (r.place for r in rows) if p in set(held)] == held
    assert 150 < len(held) < 250
    assert places(split_records(iter(rows), 0.1, seed=3)) == (training, held)
    assert set(places(split_records(rows, 0.1, seed=4))[1]) != set(held)
    assert set(held) < set(places(split_records(rows, 0.3, seed=3))[1])


def test_the_side_depends_on_the_content_alone():
    rows = records(300)
    held = set(places(split_records(rows))[1])
    moved = [Record(dict(record), f"other:{n}") for n, record in enumerate(rows)]
    again = {f"train:{record.place.split(':')[1]}" for record in split_records(moved)[1]}
    assert again == held
    fewer = split_records(rows[::2])
    assert set(places(fewer)[1]) == {place for place in held if int(place.split(":")[1]) % 2 == 0}


def test_equal_sources_are_on_one_side_whatever_their_targets():
    rows = [Record({"source": f"s  {n % 50}", "target": f"t{n}"}, f"x:{n}") for n in range(400)]
    training, held = split_records(rows, 0.2)
    assert not {r["source"] for r in training} & {r["source"] for r in held}
    assert find_overlap(training, held).rows == 0


def test_fields_that_keep_records_together():
    pictures = [torch.full((1, 2, 2), n, dtype=torch.uint8) for n in range(30)]
    rows = [Record({"image": pictures[n % 30], "text": f"t{n}"}) for n in range(120)]
    training, held = split_records(rows, 0.3, together=["image"])
    values = [{int(r["image"][0, 0, 0]) for r in side} for side in (training, held)]
    assert not values[0] & values[1] and len(values[0]) + len(values[1]) == 30
    alone = split_records(rows, 0.3)  # by all fields, as there is no source
    assert {int(r["image"][0, 0, 0]) for r in alone[0]} & {int(r["image"][0, 0, 0]) for r in alone[1]}


def test_groups_stay_whole():
    rows = [Record({"source": f"s{n}", "target": "t"}, f"m{n % 40}:{n}", f"m{n % 40}") for n in range(400)]
    training, held = split_records(rows, 0.2)
    assert held and not {r.group for r in training} & {r.group for r in held}


@pytest.mark.parametrize("share", [1e-9, 0.999999999])
def test_neither_side_is_empty(share):
    training, held = split_records(records(20), share)
    assert training and held and min(len(training), len(held)) == 1


@pytest.mark.parametrize(
    ("rows", "said"), [([], "are no records"), (records(1), "only one record"), (records(1) * 5, "only one record")]
)
def test_what_cannot_be_split(rows, said):
    with pytest.raises(DataError, match=f"{said}.*validation data"):
        split_records(rows)


def test_rows_of_files_have_no_group(tmp_path):
    (tmp_path / "a.tsv").write_text("source\ttarget\n1\t2\n")
    assert [record.group for record in read_records(str(tmp_path / "a.tsv"))] == [""]


def labeled(counts: dict[str, int]) -> list[Record]:
    return [Record({"text": f"{name}{n}", "label": name}) for name, count in counts.items() for n in range(count)]


def counts_of(rows) -> dict[str, int]:
    return dict(Counter(row["label"] for row in rows))


def test_a_stratified_split_holds_out_the_same_share_of_each_label():
    rows = labeled({"ham": 866, "spam": 134, "once": 1, "rare": 4})
    training, held = split_records(rows, 0.1, labels=lambda row: [row["label"]])
    counts = counts_of(held)
    assert counts["ham"] in (86, 87) and counts["spam"] in (13, 14)
    assert "once" not in counts and counts.get("rare", 0) <= 1
    assert len(held) == round(0.1 * len(rows)) and len(training) + len(held) == len(rows)
    assert list(training) == [row for row in rows if row in training], "the order stays"
    again = split_records(rows[::-1], 0.1, labels=lambda row: [row["label"]])
    assert {row["text"] for row in again[1]} == {row["text"] for row in held}
    other = split_records(rows, 0.1, seed=2, labels=lambda row: [row["label"]])
    assert {row["text"] for row in other[1]} != {row["text"] for row in held}


def test_a_stratified_split_never_holds_out_all_that_a_label_has():
    for share in (0.05, 0.5):
        training, held = split_records(labeled({"a": 2, "b": 1, "c": 30}), share, labels=lambda row: [row["label"]])
        assert held and counts_of(training).keys() == {"a", "b", "c"}
    training, held = split_records(labeled({"a": 1, "b": 1}), 0.5, labels=lambda row: [row["label"]])
    assert len(training) == len(held) == 1


def test_stratified_rows_stay_with_their_equals_whatever_their_labels():
    rows = [Record({"text": f"t{n % 60}", "label": "abc"[n % 7 % 3]}) for n in range(420)]
    training, held = split_records(rows, 0.2, together=["text"], labels=lambda row: [row["label"]])
    assert held and not {row["text"] for row in training} & {row["text"] for row in held}


def test_rows_of_several_labels_are_stratified_by_the_rarest():
    rows = [Record({"text": f"t{n}", "label": ["all", *(["tenth"] if n % 10 == 0 else [])]}) for n in range(400)]
    _, held = split_records(rows, 0.1, labels=lambda row: row["label"])
    assert sum("tenth" in row["label"] for row in held) == 4 and len(held) == 40
