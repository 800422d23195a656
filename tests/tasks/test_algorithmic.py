"""Algorithmic tasks: answers that are right, splits that share nothing, scores inside and beyond what was learned."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from transformula.api.reading import check_model
from transformula.errors import ConfigError, DataError, InputError
from transformula.families.conversion import as_encoder_decoder
from transformula.model import build
from transformula.tasks.algorithmic import FURTHER, Algorithmic
from transformula.tasks.base import tasks
from transformula.tasks.seq2seq_data import Seq2SeqData
from transformula.tokenizers.base import tokenizers
from transformula.words import vocabulary

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
FEW = {"rows": 300, "validation_rows": 40, "test_rows": 50}


def recalled(source: str) -> str:
    pairs, asked = source.split("?")
    return dict(zip(pairs[::2], pairs[1::2], strict=True))[asked]


ANSWERS: dict[str, Callable[[str], str]] = {
    "copy": lambda source: source,
    "reverse": lambda source: "".join(reversed(source)),
    "sort": lambda source: "".join(sorted(source)),
    "add": lambda source: str(sum(int(part) for part in source.split("+"))),
    "recall": recalled,
}
LENGTHS: dict[str, Callable[[str], int]] = {
    "add": lambda source: max(map(len, source.split("+"))),
    "recall": lambda source: len(source) // 2 - 1,
}


def made(name: str, inputs: Any = ("source", "tokens"), numbers: Any = None, seed: int = 1, **given: Any) -> Any:
    kind = tasks.get(name)
    return kind.make(kind.settings.read({**FEW, **given}), numbers or {}, inputs=inputs, seed=seed)


@pytest.fixture(params=sorted(ANSWERS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_answers_are_right_and_of_the_lengths_asked_for(name):
    task = made(name, shortest=2, longest=4)
    rows, length = task.data.rows, LENGTHS.get(name, len)
    for part, lengths in (
        ([*rows.training, *rows.validation, *rows.test], range(2, 5)),
        (task.data.beyond.records, range(5, 5 + FURTHER)),
    ):
        assert all(row["target"] == ANSWERS[name](row["source"]) for row in part)
        assert {length(row["source"]) for row in part} == set(lengths)


def test_no_row_is_on_two_sides(name):
    rows = made(name, shortest=1, longest=2, **({} if name == "add" else {"symbols": 12})).data.rows
    same = tasks.get(name).same
    sides = [{same(row["source"]) for row in part} for part in (rows.training, rows.validation, rows.test)]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
    assert len(sides[1]) == len(rows.validation) and len(sides[2]) == len(rows.test)


def test_a_row_depends_on_its_number_alone(name):
    some, more = made(name), made(name, rows=500, seed=2)
    assert [dict(row) for row in more.data.rows.training[:300]] == [dict(row) for row in some.data.rows.training]
    assert [dict(row) for row in more.data.rows.validation] == [dict(row) for row in some.data.rows.validation]
    assert more.describe()["identity"] != some.describe()["identity"]


def test_few_different_rows_are_said():
    task = made("copy", shortest=1, longest=2, symbols=10)
    assert any("want of" in note for note in task.data.notes) and "want of" in repr(task.preview())
    with pytest.raises(DataError, match="too few different rows"):
        made("copy", shortest=1, longest=1, symbols=2)


@pytest.mark.parametrize("alone", [False, True])
def test_scores_in_both_families(name, alone, monkeypatch):
    inputs = ("tokens",) if alone else ("source", "tokens")
    task = made(name, inputs, longest=3, shortest=2)
    read = check_model(LAYER, {"depth": 1, "width": 16, "heads": 2, "after": "x = norm(x)", **task.numbers})
    if not alone:
        read = check_model(as_encoder_decoder(read.text, vocabulary()))
    type(task).check(read)
    model = build(read, seed=1)
    scores = task.evaluate(model)
    assert set(task.measures) <= set(scores) and 0 <= scores["exact_match"] <= 100 and model.training
    assert scores.loss == pytest.approx(math.log(task.numbers["vocab"]), rel=0.5)
    assert task.loss(model, task.batch(3)).isfinite()
    # What an oracle would write is right in all rows, those beyond too; and one that is always wrong in none.
    monkeypatch.setattr(Seq2SeqData, "texts", lambda _, __, rows, *___: [ANSWERS[name](row["source"]) for row in rows])
    scores = task.evaluate(model)
    assert (scores["exact_match"], scores["beyond"]) == (100, 100)
    assert task.verdict(scores).startswith("exact_match 100.0 on 40 validation rows")
    monkeypatch.setattr(Seq2SeqData, "texts", lambda _, __, rows, *___: ["!"] * len(rows))
    assert task.evaluate(model)["beyond"] == 0


def test_answers_beyond_have_room():
    task = made("copy", longest=2)
    assert task.data.limited.longest == 2 + FURTHER + 1
    assert task.numbers["context"] == 2 + FURTHER + 1
    alone = made("copy", ("tokens",), longest=2)
    assert alone.numbers["context"] == 2 * (2 + FURTHER + 1)
    with pytest.raises(ConfigError, match="context: the model says 9"):
        made("copy", ("tokens",), {"context": 9})


def test_without_writing_the_loss_is_the_score():
    task = made("sort", written=0)
    assert task.score == "loss"


def test_sums_may_be_written_from_their_end():
    plain, turned = made("add"), made("add", reversed=True)
    assert [r["source"] for r in plain.data.rows.training] == [r["source"] for r in turned.data.rows.training]
    assert all(
        r["target"] == t["target"][::-1]
        for r, t in zip(plain.data.rows.training, turned.data.rows.training, strict=True)
    )
    assert tasks.get("add").same("12+7") == tasks.get("add").same("7+12")


def test_baselines(name):
    found = made(name).baselines()
    assert found and all(0 <= value < 60 for value in found.values())
    assert ("copy" in found) == (name not in ("copy", "recall"))


def test_what_is_refused():
    read = tasks.get("copy").settings.read
    with pytest.raises(ConfigError, match="longest: must be at least shortest, which is 3"):
        read({"shortest": 3, "longest": 2})
    with pytest.raises(ConfigError, match="symbols: evaluation rows have up to 30 pairs"):
        tasks.get("recall").settings.read({"longest": 25})
    with pytest.raises(ConfigError, match="unknown key"):
        read({"data": "x.tsv"})
    with pytest.raises(ConfigError, match="counted in tokens"):
        tasks.get("copy").make(read({}), {}, batch=3)
    with pytest.raises(ConfigError, match="vocab: the model says 5"):
        made("copy", numbers={"vocab": 5})


def test_a_tokenizer_of_another_run(tmp_path):
    made("copy").predictor().save(tmp_path)
    assert (
        made("reverse", tokenizer=str(tmp_path)).data.writing.target.identity
        == made("reverse").data.writing.target.identity
    )
    tokenizers.get("characters").train(["abc", ""]).save(tmp_path)
    with pytest.raises(InputError, match="is not among"):
        made("reverse", tokenizer=str(tmp_path))


def test_a_rule_from_outside():
    from transformula.tasks.base import task

    @task("doubled")
    class Doubled(Algorithmic):
        """Each symbol twice."""

        @classmethod
        def row(cls, settings, length, chance):
            source = "".join(chance.choices(cls.alphabet(settings), k=length))
            return source, "".join(2 * symbol for symbol in source)

    try:
        found = made("doubled", longest=3)
        batch = found.batch(0)
        assert batch.inputs["source"].dtype == torch.int64 and found.units(batch) > 0
        assert found.data.limited.longest == 2 * (3 + FURTHER) + 1
    finally:
        tasks._known.pop("doubled")
