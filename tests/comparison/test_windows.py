"""Windows of other lengths in a comparison: asked for with the plan or long after it, reported by pairs of seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests.comparison.arms import SIZES, arm_of, write_text
from tests.comparison.fake import fake_results
from transformula.comparison import running
from transformula.comparison.budget import whole_seconds
from transformula.comparison.jobs import jobs_of
from transformula.comparison.planning import make_plan
from transformula.comparison.records import Outcome, Results
from transformula.comparison.report.document import Paragraph, Picture, ReportTable, sections_of
from transformula.comparison.report.files import json_of, read_results
from transformula.comparison.report.terminal import text_of
from transformula.comparison.running import run_job
from transformula.comparison.settings import ComparisonSettings
from transformula.comparison.store import Store
from transformula.errors import ConfigError
from transformula.tasks.scores.by_token import LossBin, WindowLosses

WORSE = {"pre-norm": 0.2, "rezero": 0.05}  # how much worse a score becomes with each doubling of the window


def windows_of(outcome: Outcome) -> list[WindowLosses]:
    """Trained with 64; pre-norm has learned no more, and rezero is scored on other tokens by frequency."""
    score, windows = outcome.score or 0.0, []
    for doubled, context in enumerate((64, 128, 256)):
        value = score + WORSE.get(outcome.variant, 0.1) * doubled + 0.001 * outcome.seed * doubled
        scores, bins = {"bits_per_byte": value, "loss": value}, [LossBin(1, 1, 9, value), LossBin(2, 4, 20, 1.0)]
        other = [LossBin(0, 0, 7 + (outcome.variant == "rezero"), value)]
        window = WindowLosses(context, not doubled, scores, bins, other)
        if outcome.variant == "post-norm" and doubled:
            window = WindowLosses(context, False, reason="it has learned 64 positions")
        windows.append(window)
    return windows


@pytest.fixture(scope="module")
def results() -> Results:
    plain = fake_results(("pre-norm", "post-norm", "rezero"), sizes=("only",), points=8)
    confirmed = [replace(o, windows=windows_of(o)) if o.stage == "confirm" else o for o in plain.outcomes]
    return replace(plain, outcomes=confirmed)


def rows_of(results: Results, section: str, axis: str) -> dict[tuple[str, str], list[Any]]:
    (part,) = sections_of(results, [section])
    (table,) = [item for item in part.items if isinstance(item, ReportTable) and axis in item.columns]
    return {(row[0].text, row[1].text): list(row[2:]) for row in table.rows}


def test_scores_by_length_are_compared_by_pairs(results: Results) -> None:
    rows = rows_of(results, "other-contexts", "tokens of a window")
    verdict = next(v for v in results.verdicts if v.variant == "rezero")
    for doubled, context in enumerate(("64", "128", "256")):
        apart = [value - 0.15 * doubled for _, value in verdict.differences]
        low, high = stats.ttest_1samp(apart, 0).confidence_interval(0.95)
        difference, interval = rows["rezero", context][1:3]
        assert difference.value == pytest.approx(sum(apart) / len(apart))
        assert interval.value == pytest.approx(low)
        assert float(interval.text.split(" to ")[1]) == pytest.approx(high, abs=0.01)
    change, its = rows["rezero", "256"][3:]
    assert change.value == pytest.approx(2 * (0.05 + 0.001 * 13.5)) and its.value < change.value
    assert rows["rezero", "64"][3].value is None and rows["pre-norm", "64"][1].value is None
    assert ("post-norm", "128") not in rows


def test_a_length_that_is_not_read_has_its_reason_once(results: Results) -> None:
    (part,) = sections_of(results, ["other-contexts"])
    texts = [item.text for item in part.items if isinstance(item, Paragraph)]
    reasons = [text for text in texts if "no score" in text]
    assert reasons == [f"post-norm has no score with {n}: it has learned 64 positions." for n in ("128", "256")]
    assert "Trained with 64." in texts[0] and reasons[0] in " ".join(text_of(results).split())


def test_where_no_variant_reads_so_far_the_reasons_are_left(results: Results) -> None:
    refused = [WindowLosses(n, n == 64, reason="it carries on") for n in (64, 128)]
    (part,) = sections_of(
        replace(results, outcomes=[replace(o, windows=refused) for o in results.outcomes]), ["other-contexts"]
    )
    assert all(isinstance(item, Paragraph) for item in part.items)
    assert sum("it carries on" in item.text for item in part.items if isinstance(item, Paragraph)) == 6


def test_bins_of_other_tokens_are_not_compared(results: Results) -> None:
    position = rows_of(results, "loss-by-token", "tokens read before, in the window")
    frequency = rows_of(results, "loss-by-token", "times in the training text")
    assert position["rezero", "1"][1].value is not None and position["rezero", "2 to 4"][1].value == 0
    assert frequency["post-norm", "0"][1].value is not None and frequency["rezero", "0"][1].value is None
    pictures = [i for p in sections_of(results, ["loss-by-token"]) for i in p.items if isinstance(i, Picture)]
    assert [picture.name for picture in pictures] == ["by-position-only", "by-frequency-only"]
    assert all("rezero" in picture.svg for picture in pictures)


def test_results_without_windows_stay_readable(results: Results, tmp_path: Path) -> None:
    data = json.loads(json_of(results))
    for outcome in data["outcomes"]:
        del outcome["windows"]
    (tmp_path / "results.json").write_text(json.dumps(data))
    former = read_results(tmp_path)
    assert all(outcome.windows == () for outcome in former.outcomes)
    names = {part.name for part in sections_of(former)}
    assert not names & {"other-contexts", "loss-by-token"} and "verdicts" in names
    (tmp_path / "results.json").write_text(json_of(results))
    assert read_results(tmp_path).outcomes[-1].windows == tuple(results.outcomes[-1].windows)


def test_a_run_is_scored_at_lengths_that_are_asked_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    arm = arm_of(write_text(tmp_path), model="x = x + attention(norm(x), rotary=100); x = x + mlp(norm(x))")
    (job,) = jobs_of(arm, "confirm", [0.02], [1])
    first = run_job(job, store)
    assert first.windows == () and store.complete(job)
    monkeypatch.setattr(running, "train_job", None)
    asked = replace(job, contexts=[8, 32])
    assert store.complete(asked) is None
    scored = run_job(asked, store)
    assert [window.context for window in scored.windows] == [8, 16, 32]
    assert scored.windows[1].scores["loss"] == pytest.approx(first.scores["loss"], rel=1e-6)
    assert replace(scored, windows=()) == first and store.complete(asked) == scored
    further = run_job(replace(job, contexts=[24]), store)
    assert [window.context for window in further.windows] == [8, 16, 24, 32]
    assert further.windows[0] == scored.windows[0]


def test_lengths_may_be_added_to_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"data": str(write_text(tmp_path)), "tokenizer": "characters", **SIZES}
    settings = {"sizes": 1, "seeds": 2, "lr": "0.02", "out": "comparison"}
    plan, folder = make_plan(["pre-norm", "rezero"], ComparisonSettings.read(settings), given)
    plan.write(folder)
    again, _ = make_plan(["pre-norm", "rezero"], ComparisonSettings.read({**settings, "contexts": [32]}), given)
    assert again.hash == plan.hash and again.settings.contexts == [32]
    assert whole_seconds(replace(plan, settings=again.settings)) > whole_seconds(plan), "scoring takes its time"
    assert "scored in windows of 32 tokens" in repr(again) and "windows" not in repr(plan)


def test_lengths_are_asked_of_language_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contexts: is for language models, and tagging has no windows"):
        make_plan(["pre-norm", "rezero"], ComparisonSettings(contexts=[64]), {"task": "tagging", "data": "a.conllu"})
    assert ComparisonSettings.read({"contexts": "64,128"}).contexts == [64, 128]
    with pytest.raises(ConfigError, match=r"contexts\.0"):
        ComparisonSettings.read({"contexts": "0"})
