"""The table, the examples, the baselines; exact match; what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.tasks.scores.fixture import PREDICTIONS, REFERENCES, texts
from transformula.data.records import Record
from transformula.errors import InputError
from transformula.tasks.base import tasks
from transformula.tasks.scores.baselines import (
    constant,
    copy_source,
    first_sentence,
    function_name,
    predicted_by,
    word_by_word,
)
from transformula.tasks.scores.measured import bleu, chrf, exact_match, rouge
from transformula.tasks.scores.report import ScoreReport, score_report

ALL = [bleu, chrf, exact_match, lambda p, r: rouge(p, r)[2]]


def test_exact_match() -> None:
    found = exact_match(["a b ", "A b", "c"], ["a b", "a b", ["x", " c"]])
    assert found.score == pytest.approx(200 / 3) and list(found.sentences) == [100, 0, 100]
    assert found.signature == "nrefs:var|case:mixed"


@pytest.mark.parametrize("score", ALL)
def test_what_is_refused(score) -> None:
    with pytest.raises(InputError, match="2 predictions, but references for 1"):
        score(["a", "b"], ["a"])
    with pytest.raises(InputError, match="at least one"):
        score([], [])
    with pytest.raises(InputError, match="example 2 has no reference"):
        score(["a", "b"], ["a", []])
    with pytest.raises(InputError, match="not one text"):
        score("a", ["a"])


@pytest.mark.parametrize("score", ALL)
def test_scores_lie_between_0_and_100_and_order_does_not_matter(score) -> None:
    found = score(PREDICTIONS, REFERENCES)
    assert 0 <= found.score <= 100 and ((0 <= found.sentences) & (found.sentences <= 100 + 1e-9)).all()
    assert score(PREDICTIONS[::-1], REFERENCES[::-1]).score == pytest.approx(found.score)
    assert len(found) == len(PREDICTIONS)


def report_of(
    measure: Any, written: list[str], right: list[str], baselines: dict[str, list[str]], sources: list[str]
) -> ScoreReport:
    return score_report(
        lambda texts: measure(texts, right), written, baselines,
        [(source, text, [one]) for source, text, one in zip(sources, written, right, strict=True)],
    )  # fmt: skip


def test_the_best_and_the_worst() -> None:
    made, asked = texts(50)
    found = report_of(lambda *texts: [chrf(*texts)], made, asked, {}, [f"source {i}" for i in range(50)])
    ranked = sorted(chrf(made, asked).sentences)
    assert [e.score for e in found.best] == ranked[::-1][:10] and [e.score for e in found.worst] == ranked[:10]
    for example in [*found.best, *found.worst]:
        assert example.prediction == made[example.index] and example.references == [asked[example.index]]
        assert example.source == f"source {example.index}"
    assert json.loads(json.dumps(found.data))["examples_shown"]["best"][0]["index"] == found.best[0].index
    text = repr(found)
    assert "\n\n10 best by chrF2 of the single text\n\n" in text
    assert "\n\n10 worst by chrF2 of the single text\n\n" in text
    worst = found.worst[0]
    assert f"example {worst.index + 1}: {worst.score:.1f}\n  source      source {worst.index}\n" in text


def matched(predictions: list[str], references: list[str], sources: list[str]) -> ScoreReport:
    return report_of(tasks.get("copy").measure, predictions, references, {}, sources)


def test_few_examples_are_shown_once_and_equal_ones_in_order() -> None:
    found = matched(["a"] * 5, ["a"] * 5, [""] * 5)
    assert [e.index for e in found.best] == [0, 1, 2] and [e.index for e in found.worst] == [3, 4]
    assert "source" not in repr(found)
    assert "  prediction  -\n" in repr(matched([""], ["a"], ["s"]))


def rows(sources: Sequence[str] = (), targets: Sequence[str] = ()) -> list[Record]:
    sides = zip(sources or [""] * len(targets), targets or [""] * len(sources), strict=True)
    return [Record({"source": source, "target": target}, "here:1") for source, target in sides]


def test_baselines() -> None:
    assert copy_source([], rows(["a", "b"])) == ["a", "b"]
    assert first_sentence([], rows(["It costs 3.5 euros! Dr. Who?\nNo.", "Dr. Who", ""])) == [
        "It costs 3.5 euros!",
        "Dr.",
        "",
    ]
    two = rows(["x", "y"])
    assert constant(rows(targets=["a b", "c", "c"]), two) == ["c", "c"]
    assert constant(rows(targets=["a dog", "a dog runs", "a cat runs fast", "x y z"]), two[:1]) == ["a dog runs"]
    # what is there twice among thousands is no template
    some = constant(rows(targets=["odd"] * 2 + [f"a man number {i}" for i in range(1000)]), two[:1])
    assert some is not None and some[0].startswith("a man")
    assert predicted_by({"copy": copy_source, "constant": constant}, [], two, []) == {"copy": ["x", "y"]}


def test_word_by_word() -> None:
    sources = ["the cat sleeps", "the dog sleeps", "a very old cat", "the odd"]
    targets = ["die Katze schläft", "der Hund schläft", "eine Katze", "die seltsame"]
    learnt = word_by_word(rows(sources, targets), rows(["the cat  and the dog", "a cat", ""]))
    assert learnt == ["die Katze  and die Hund", "a Katze", ""]
    assert word_by_word([], rows(["x y"])) is None


def test_the_name_of_a_function_in_words() -> None:
    sources = [
        "def read_all_lines(x):\n    return def_y",
        "x = 1\n  async def parseHTTPHeader2(): 0",
        "def __init__(a):\n",
    ]
    assert function_name([], rows(sources)) == ["read all lines", "parse http header 2", "init"]
    assert function_name([], rows(["def f(): 1", "class A: pass"])) is None


def test_a_report_has_baselines_intervals_and_signatures() -> None:
    made, asked = texts(40)
    measure = tasks.get("translation").measure
    beside = {"copy": asked[::-1], "constant": [asked[0]] * 40}
    found = report_of(measure, made, asked, beside, made)
    assert list(found.data["scores"]) == ["BLEU", "BLEU lower-cased", "chrF2"] and found.data["examples"] == 40
    for name, score in json.loads(json.dumps(found.data["scores"])).items():
        assert score["interval"][0] < score["score"] < score["interval"][1] and score["level"] == 0.95
        assert set(score["baselines"]) == {"copy", "constant"} and score["signature"] in repr(found), name
    assert found.data["scores"]["BLEU"]["baselines"]["copy"] == bleu(asked[::-1], asked).score
    first, second, *rest = repr(found).splitlines()
    assert first.split() == ["score", "95", "%", "interval", "copy", "constant"]
    assert second.startswith("BLEU ") and f"{bleu(made, asked).score:.1f}" in second and "40 examples" in rest
    assert "no result" not in repr(found)
    assert report_of(measure, made, asked, beside, made).data == found.data


def test_answers_that_are_all_right_have_no_interval() -> None:
    """All resamples of 4 right answers are right, which says nothing of the fifth: no "100.0 to 100.0"."""
    (made, _), same = texts(4), tasks.get("translation").measure
    found = report_of(same, made, made, {"copy": made}, made)
    assert json.loads(json.dumps(found.data["scores"]["BLEU"]))["interval"] is None
    first = repr(found).splitlines()[1].split()
    assert first == ["BLEU", "100.0", "-", "100.0"] and "BLEU, BLEU lower-cased, chrF2: no interval" in repr(found)


def test_a_report_says_what_is_no_result() -> None:
    found = report_of(
        tasks.get("copy").measure, ["a", "b"], ["a", "c"], {"copy": ["a", "c"], "constant": ["x", "x"]}, ["s"] * 2
    )
    assert "exact match is not above copy: no result" in repr(found)


def test_each_kind_of_task_has_its_scores() -> None:
    def names(task: str) -> list[str]:
        return [row.measured.name for row in report_of(tasks.get(task).measure, ["a b"], ["a b"], {}, ["s"]).rows]

    assert names("summarization") == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert names("captioning") == ["BLEU", "exact match"]
    assert names("sort") == ["exact match"]


def test_scores_load_no_torch() -> None:
    program = (
        "import sys, transformula.tasks.scores.report as r, transformula.tasks.scores.measured as b;"
        "r.score_report(lambda texts: [b.bleu(texts, ['a b'])], ['a b'], {}, [('s', 'a b', ['a b'])]);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
