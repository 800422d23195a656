"""Requests and replies in a style that a script scores: repeatable, apart from each other, and as the judge says."""

from collections import Counter

import pytest

from transformula.data.built_in import built_in_names
from transformula.data.judges import judges
from transformula.data.records import read_records
from transformula.data.sets.polite_replies import BANNED, MOST_WORDS, POLITE, score_of
from transformula.errors import DataError, UnknownName


def test_the_sets():
    replies, pairs = (list(read_records(name)) for name in ("polite-replies", "polite-pairs"))
    assert (len(replies), len(pairs)) == (4000, 3000) and list(map(dict, replies)) == [
        dict(row) for row in read_records("polite-replies")
    ]
    assert not {row["instruction"] for row in replies} & {row["prompt"] for row in pairs}
    assert built_in_names("replies") == ["polite-pairs", "polite-replies"]
    for name in ("polite-replies:de", "polite-pairs:de"):
        with pytest.raises(DataError, match="there is one such set; leave out :de"):
            list(read_records(name))


def test_each_rule_is_kept_as_often_as_not():
    kept = Counter()
    for row in read_records("polite-replies"):
        reply = row["output"]
        kept += Counter(polite=reply.startswith(POLITE), brief=len(reply.split()) <= MOST_WORDS,
                        clean=not any(word in reply for word in BANNED), asks=reply.endswith("?"))  # fmt: skip
    assert {*kept} == {"polite", "brief", "clean", "asks"} and all(1850 < count < 2150 for count in kept.values())


def test_the_judge_prefers_what_is_chosen():
    judge = judges.get("polite")
    for row in read_records("polite-pairs"):
        assert judge(row["prompt"], row["chosen"]) > judge(row["prompt"], row["rejected"])
    assert judge is score_of
    with pytest.raises(UnknownName, match="polite"):
        judges.get("polit")
