"""One comparison on several data sets: as many comparisons, and one report that says whether what was found repeats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.arms import SIZES, write_text
from tests.comparison.fake import fake_results
from tests.comparison.test_compare import EFFECTS, Runs
from transformula import compare
from transformula.api.configuration import on_each_data
from transformula.comparison import gate
from transformula.comparison.compare import StudyReport
from transformula.comparison.records import Results
from transformula.comparison.repeated import in_words, repeats
from transformula.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["better", "better"], "better on both: it repeats"),
        (["worse", "worse", "worse"], "worse on all 3: it repeats"),
        (["better", "inconclusive"], "better on a, not decided on b: not shown to repeat"),
        (["better", "worse", "better"], "better on a and c, worse on b: it depends on the data"),
        (["inconclusive", "inconclusive"], "not decided on either"),
        (["no difference found", "inconclusive"], "no difference found on a, not decided on b"),
        (["the same", "the same", "the same"], "the same on all 3"),
    ],
)
def test_what_is_said_of_several_data_sets(words: list[str], said: str) -> None:
    assert in_words(dict(zip("abc", words, strict=False))) == said


def results_with(word: str) -> Results:
    results = fake_results(("pre-norm", "rezero"), sizes=("small", "large"), points=8)
    return replace(results, verdicts=[replace(v, word=word) if v.size == "large" else v for v in results.verdicts])


def test_the_largest_size_says_whether_it_repeats() -> None:
    part = repeats({"a.txt": results_with("better"), "b.txt": results_with("worse")})
    said, table, _ = part.items
    assert said.text == "rezero beside pre-norm: better on a.txt, worse on b.txt: it depends on the data."
    assert table.columns == ["variant", "a.txt", "b.txt", "together"] and len(table.rows) == 1
    early = results_with("better")
    early = replace(early, verdicts=[replace(verdict, early=60) for verdict in early.verdicts])
    said = repeats({"a.txt": results_with("better"), "b.txt": early}).items[0]
    assert said.text == "rezero beside pre-norm: better on both: it repeats (of the first steps only on b.txt)."


@pytest.mark.parametrize(
    ("given", "mistake"),
    [
        ({"data": "a.txt", "validation": "v.txt"}, "validation: is that of one data set"),
        ({}, "name the first one"),
        ({"data": ["b.txt"]}, "the same data twice"),
    ],
)
def test_data_that_cannot_be_columns_is_refused(given: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigError, match=mistake):
        on_each_data("", {**given, "repeat_on": "b.txt"})


def test_names_of_data_are_as_long_as_they_must_be() -> None:
    parts = on_each_data("", {"data": "x/a.txt", "repeat_on": ["y/b.txt"], "steps": 3})
    assert {name: given["data"] for name, given in parts.items()} == {"a.txt": "x/a.txt", "b.txt": "y/b.txt"}
    assert all(given["steps"] == 3 and "repeat_on" not in given for given in parts.values())
    alike = on_each_data("long", {"data": "x/a.txt", "repeat_on": ["y/a.txt", "b.txt"]})
    assert [*alike] == ["long on x/a.txt", "long on y/a.txt", "long on b.txt"]
    several = {"data": ["a.txt", "b.txt"]}
    assert on_each_data("short", {**several, "repeat_on": []}) == {"short": several}


def test_a_comparison_on_two_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Runs()
    monkeypatch.setattr("transformula.comparison.engines.here.run_job", runs)
    monkeypatch.setattr(gate, "check_arms", lambda plan: [])
    monkeypatch.setattr("transformula.comparison.report.document.svg_of", lambda figure: "<svg/>")
    monkeypatch.setattr("transformula.comparison.report.document.png_of", lambda figure: None)
    text = write_text(tmp_path).read_text()
    Path("other.txt").write_text(text.replace("cat", "owl"))
    given: dict[str, Any] = {"data": "text.txt", "tokenizer": "characters", "engine": "here", "sizes": 1, "seeds": 4,
                             "lr": 0.02, "quiet": True, "out": "both", "contexts": [8], **SIZES}  # fmt: skip
    planned = compare(["pre-norm", "rezero"], repeat_on="other.txt", dry_run=True, **given)
    assert isinstance(planned, StudyReport) and not Path("both").exists()
    report = compare(["pre-norm", "rezero"], repeat_on="other.txt", **given)
    assert isinstance(report, StudyReport) and report.exit_status == 0 and EFFECTS["rezero"] < 0
    assert [*report.parts] == ["text.txt", "other.txt"] and len(runs.jobs) == 16
    assert all(job.contexts == [8] for job in runs.jobs)
    assert report.data["repeats"][0] == "rezero beside pre-norm: better on both: it repeats."
    assert {path.name for path in Path("both").iterdir()} == {
        ".transformula.json", "report.html", "report.md", "text.txt", "other.txt"
    }  # fmt: skip
    assert "better on both: it repeats" in Path("both/report.md").read_text() and "Does it repeat?" in repr(report)
    assert "Does it repeat?" in report._repr_html_()
    compare(["pre-norm", "rezero"], repeat_on="other.txt", **given)
    assert len(runs.jobs) == 16
    alone = compare(["pre-norm", "rezero"], **{**given, "out": "alone"})
    assert not isinstance(alone, StudyReport) and len(runs.jobs) == 16
