"""The table, the examples, the baselines; exact match; what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.tasks.scores.fixture import PREDICTIONS, REFERENCES, texts
from transformula.errors import InputError
from transformula.tasks.scores import report as reports
from transformula.tasks.scores.baselines import constant, copy, function_name, lead, word_by_word
from transformula.tasks.scores.bleu import bleu
from transformula.tasks.scores.chrf import chrf
from transformula.tasks.scores.exact import exact_match
from transformula.tasks.scores.examples import best_and_worst
from transformula.tasks.scores.report import report
from transformula.tasks.scores.rouge import rouge

ALL = [bleu, chrf, exact_match, lambda p, r: rouge(p, r)["ROUGE-L"]]


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


def test_the_best_and_the_worst() -> None:
    made, asked = texts(50)
    measured = chrf(made, asked)
    found = best_and_worst(measured, made, asked, sources=[f"source {i}" for i in range(50)])
    ranked = sorted(measured.sentences)
    assert [e.score for e in found.best] == ranked[::-1][:10] and [e.score for e in found.worst] == ranked[:10]
    for example in [*found.best, *found.worst]:
        assert example.prediction == made[example.index] and example.references == [asked[example.index]]
        assert example.source == f"source {example.index}"
    assert json.loads(json.dumps(found.data))["best"][0]["index"] == found.best[0].index
    text = repr(found)
    assert text.startswith("10 best by chrF2 of the single text\n") and "\n10 worst by chrF2" in text
    worst = found.worst[0]
    assert f"example {worst.index + 1}: {worst.score:.1f}\n  source      source {worst.index}\n" in text


def test_few_examples_are_shown_once_and_equal_ones_in_order() -> None:
    found = best_and_worst(exact_match(["a"] * 5, ["a"] * 5), ["a"] * 5, ["a"] * 5)
    assert [e.index for e in found.best] == [0, 1, 2] and [e.index for e in found.worst] == [3, 4]
    assert "source" not in repr(found)
    empty = best_and_worst(exact_match([""], ["a"]), [""], ["a"])
    assert "  prediction  -\n" in repr(empty)
    with pytest.raises(InputError, match="1 sources for 2 predictions"):
        best_and_worst(exact_match(["a", "b"], ["a", "b"]), ["a", "b"], ["a", "b"], sources=["a"])
    with pytest.raises(InputError, match="1 scores for 2 predictions"):
        best_and_worst(exact_match(["a"], ["a"]), ["a", "b"], ["a", "b"])


def test_baselines() -> None:
    assert copy(("a", "b")) == ["a", "b"]
    text = "It costs 3.5 euros! Dr. Who?\nNo."
    assert lead([text, ["One. Two.", "Three."], ""]) == ["It costs 3.5 euros!", "One. Two.", ""]
    assert lead([text, ["One.", "Two.", "Three."]], sentences=2) == ["It costs 3.5 euros! Dr.", "One. Two."]
    assert constant(["a b", "c", "c"], 2) == ["c", "c"]
    assert constant(["a dog", "a dog runs", "a cat runs fast", "x y z"], 1) == ["a dog runs"]
    # what is there twice among thousands is no template
    assert constant(["odd"] * 2 + [f"a man number {i}" for i in range(1000)], 1)[0].startswith("a man")
    with pytest.raises(InputError, match="there are none"):
        constant([], 3)


def test_word_by_word() -> None:
    sources = ["the cat sleeps", "the dog sleeps", "a very old cat", "the odd"]
    targets = ["die Katze schläft", "der Hund schläft", "eine Katze", "die seltsame"]
    learnt = word_by_word(sources, targets, ["the cat  and the dog", "a cat", ""])
    assert learnt == ["die Katze  and die Hund", "a Katze", ""]
    assert word_by_word([], [], ["x y"]) == ["x y"]
    with pytest.raises(InputError, match="4 training sources and 3 targets"):
        word_by_word(sources, targets[:3], [])


def test_the_name_of_a_function_in_words() -> None:
    sources = [
        "def read_all_lines(x):\n    return def_y",
        "x = 1\n  async def parseHTTPHeader2(): 0",
        "def __init__(a):\n",
    ]
    assert function_name(sources) == ["read all lines", "parse http header 2", "init"]
    with pytest.raises(InputError, match="source 2 defines no function.*`def`"):
        function_name(["def f(): 1", "class A: pass"])


def test_a_report_has_baselines_intervals_and_signatures() -> None:
    made, asked = texts(40)
    beside = {"copy": asked[::-1], "constant": constant(asked, 40)}
    found = report(reports.translation, made, asked, beside, resamples=100)
    assert list(found.data["scores"]) == ["BLEU", "BLEU lower-cased", "chrF2"] and found.data["examples"] == 40
    for name, score in json.loads(json.dumps(found.data["scores"])).items():
        assert score["interval"][0] < score["score"] < score["interval"][1] and score["level"] == 0.95
        assert set(score["baselines"]) == {"copy", "constant"} and score["signature"] in repr(found), name
    assert found.data["scores"]["BLEU"]["baselines"]["copy"] == bleu(asked[::-1], asked).score
    first, second, *rest = repr(found).splitlines()
    assert first.split() == ["score", "95", "%", "interval", "copy", "constant"]
    assert second.startswith("BLEU ") and f"{bleu(made, asked).score:.1f}" in second and rest[-1] == "40 examples"
    assert all(row.above for row in found.rows) and "no result" not in repr(found)
    assert report(reports.translation, made, asked, beside, resamples=100).data == found.data
    assert report(reports.translation, made, asked, resamples=100, seed=2).rows[0].interval != found.rows[0].interval


def test_a_report_says_what_is_no_result() -> None:
    found = report(reports.algorithmic, ["a", "b"], ["a", "c"], {"copy": ["a", "c"], "constant": ["x", "x"]})
    assert not found.rows[0].above
    assert "exact match is not above copy: no result" in repr(found)


def test_each_kind_of_task_has_its_scores() -> None:
    def names(measure) -> list[str]:
        return [row.name for row in report(measure, ["a b"], ["a b"], resamples=10).rows]

    assert names(reports.summarization) == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert names(reports.captioning) == ["BLEU", "exact match"]
    assert names(reports.algorithmic) == ["exact match"]


def test_scores_load_no_torch() -> None:
    program = (
        "import sys, transformula.tasks.scores.report as r, transformula.tasks.scores.examples;"
        "r.report(r.translation, ['a b'], ['a b']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
