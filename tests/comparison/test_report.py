"""The report of a comparison, from made-up results: what it says, the same in every form."""

from __future__ import annotations

import csv
import importlib.util
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.comparison.fake import fake_results
from tests.comparison.rendered import Page, links_lead_to_pictures
from tests.comparison.statistics.simulated import outcomes_of
from tests.comparison.statistics.test_factorial import GRID, measured
from tests.comparison.statistics.test_scale import made
from transformula.comparison.records import Results, Variant, Verdict
from transformula.comparison.report import (
    document,
    html_of,
    markdown_of,
    notebook_html_of,
    read_results,
    text_of,
    write_report,
)
from transformula.comparison.report.document import Paragraph, Picture, ReportTable, sections, sections_of
from transformula.comparison.report.files import json_of
from transformula.comparison.report.numbers import NOTHING
from transformula.comparison.report.sections import rates
from transformula.comparison.report.sections.forest import forest_of
from transformula.comparison.report.sections.plain_words import lead_of
from transformula.errors import CheckpointError, InputError

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page(results: Results) -> Page:
    """The page of two sizes; its pictures are not drawn."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Picture, "svg", "<svg/>")
        return Page(html_of(results))


def test_results_come_back_from_json_exactly(results, folder, tmp_path):
    (tmp_path / "results.json").write_text(json_of(results))
    assert read_results(tmp_path / "results.json") == results == read_results(tmp_path)
    (tmp_path / "results.json").write_text(json_of(replace(results, rates={})))
    assert read_results(tmp_path).rates == {}
    assert json_of(read_results(folder)) == (folder / "results.json").read_text()
    assert results.verdicts[1].speedup["seconds"][2] == math.inf, "that there is no bound above is kept, too"


def test_curves_of_rates_are_fitted_once_for_all_sections(results, monkeypatch):
    fitted, fit = [], rates.fit_rates
    monkeypatch.setattr(rates, "fit_rates", lambda *given: fitted.append(given) or fit(*given))
    fresh = replace(results)
    said = [rates.chosen_in_words(fresh, size) for size in fresh.sizes]
    assert len(fresh.sizes) > 1 and [rates.chosen_in_words(fresh, size) for size in fresh.sizes] == said
    assert len(fitted) == 1 and fresh == results and json_of(fresh) == json_of(results)
    changed = replace(fresh, outcomes=[o for o in fresh.outcomes if o.stage != "tune"])
    assert not rates.fit_of(changed, changed.sizes[0]).curves and len(fitted) == 2


def test_what_is_no_file_of_results_is_refused_by_its_place(folder, tmp_path):
    path = tmp_path / "results.json"

    def refused(change) -> str:
        data = json.loads((folder / "results.json").read_text())
        change(data)
        path.write_text(json.dumps(data))
        with pytest.raises(InputError) as error:
            read_results(path)
        return str(error.value)

    wrong = refused(lambda data: data["outcomes"][3].update(score="low"))
    assert "results.outcomes[3].score: input should be a valid number" in wrong and "(got 'low')" in wrong
    wrong = refused(lambda data: data["verdicts"][0].update(word="best"))
    assert "results.verdicts[0].word: input should be 'better'" in wrong
    assert "results.variant: unexpected keyword" in refused(lambda data: data.update(variant=[]))
    assert "results.base: " in (wrong := refused(lambda data: data.pop("base"))) and "required" in wrong
    assert "version 1" in refused(lambda data: data.update(version=2))
    with pytest.raises(InputError, match="cannot be read"):
        read_results(tmp_path / "nowhere.json")


def test_all_files_are_written_and_every_link_of_the_markdown_leads_to_one(folder):
    links_lead_to_pictures(folder)


def test_pictures_of_an_earlier_report_go_and_those_of_others_stay(tmp_path):
    results = fake_results(("pre-norm", "post-norm"), sizes=("only",), points=8)
    few = replace(results, verdicts=(), outcomes=(), variants=())
    drawn = write_report(results, tmp_path)[-1].name
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    write_report(few, tmp_path)
    left = {path.name for path in (tmp_path / "figures").iterdir()}
    assert left == {"mine.svg"} and (tmp_path / "notes.txt").exists()
    (tmp_path / "figures" / drawn).write_text("mine")
    with pytest.raises(CheckpointError, match=f"holds figures/{drawn}, which .transformula.json does not list"):
        write_report(results, tmp_path)
    assert (tmp_path / "figures" / drawn).read_text() == "mine"


def test_a_report_without_runs_says_so(results):
    few = replace(results, verdicts=(), outcomes=(), variants=())
    said = " ".join(text_of(few).split())
    assert "No run is made yet" in said and "no variant has a verdict" in said


def test_a_report_that_cannot_be_written_says_so(results, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        write_report(replace(results, verdicts=(), outcomes=(), variants=()), tmp_path / "file")


def test_the_page_shows_the_numbers_of_the_json(page, results):
    """Every score, difference, interval, p, rate and cost: as text in the digits shown, and in full behind it."""
    data = json.loads(json_of(results))
    rows = {(r["variant"][0], r["size"][0]): r for r in page.table("difference", "95 % interval", "verdict")}
    assert len(rows) == len(data["arms"])
    for verdict in data["verdicts"]:
        row = rows[verdict["variant"], verdict["size"]]
        assert row["verdict"][1] == verdict["word"]
        if verdict["mean"] is not None:
            assert float(row["difference"][1]) == verdict["mean"]
            shown = [float(end) for end in row["95 % interval"][0].split(" to ")]
            assert (
                shown == pytest.approx(verdict["interval"], abs=6e-4) and float(row["p (Holm)"][1]) == verdict["p_holm"]
            )
            assert float(row["difference"][0]) == pytest.approx(verdict["mean"], abs=6e-4)
    for variant, size, rate in data["rates"]:
        assert float(rows[variant, size]["best rate"][1]) == rate
    seeds = {(r["variant"][0], r["size"][0]): r for r in page.table("seed 11", "mean")}
    for outcome in data["outcomes"]:
        if outcome["stage"] == "confirm":
            text, value = seeds[outcome["variant"], outcome["size"]][f"seed {outcome['seed']}"]
            assert value == outcome["status"] if outcome["score"] is None else float(value) == outcome["score"]
            assert text == "diverged" if outcome["score"] is None else abs(float(text) - outcome["score"]) < 6e-4
    costs = {(r["variant"][0], r["size"][0]): r for r in page.table("FLOPs a token")}
    for arm in data["arms"]:
        row = costs[arm["variant"], arm["size"]]
        assert float(row["FLOPs a token"][1]) == arm["costs"]["flops_per_token"]
        assert int(row["parameters"][1]) == arm["costs"]["parameters"]


def test_csv_holds_every_run_and_every_verdict(folder):
    results = read_results(folder)
    with open(folder / "runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    assert [(r["variant"], r["stage"], int(r["seed"])) for r in runs] == [
        (o.variant, o.stage, o.seed) for o in results.outcomes
    ]
    assert [r["score"] for r in runs] == ["" if o.score is None else str(o.score) for o in results.outcomes]
    with open(folder / "verdicts.csv", newline="") as file:
        verdicts = list(csv.DictReader(file))
    for row, verdict in zip(verdicts, results.verdicts, strict=True):
        assert row["word"] == verdict.word and row["interval.1"] == (
            "" if verdict.interval is None else str(verdict.interval[0])
        )
        assert row["diverged.1"] == str(verdict.diverged[0])


@pytest.mark.parametrize("form", [text_of, markdown_of, notebook_html_of])
def test_the_five_lines_come_first_and_say_what_was_found(form, results, monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    said = " ".join(re.sub(r"<[^>]*>", "", form(results)).replace("**", "").split())
    labels = ["Found", "How sure", "May be claimed", "May not be claimed", "To be surer"]
    places = [said.index(label) for label in labels]
    assert places == sorted(places)
    assert "post-norm is unstable (2 of 6 runs diverged, and 0 of 6 of pre-norm)" in said
    assert "rezero is better by" in said and "parallel about 14 seeds (now 6)" in said
    assert all(verdict.may in said for verdict in results.verdicts[3:])
    assert "Of parallel: that parallel and pre-norm are equal." in said


def test_more_seeds_are_asked_for_what_no_variant_would_show(results):
    """Of two variants the smaller detectable difference: a difference between the two would be found in one of them."""
    decided = [
        replace(verdict, size=results.sizes[-1], word="no difference", detectable=detectable)
        for verdict, detectable in zip(results.verdicts, (0.2, 0.05), strict=False)
    ]
    said = " ".join(text_of(replace(results, verdicts=decided)).split())
    assert "more seeds for differences below 0.05" in said and "below 0.2" not in said


def test_late_layers_are_compared_by_pairs_of_seeds(results):
    """Of the made-up models, ReZero's late layers cost 0.08 nats more for each layer before them."""
    (part,) = sections_of(results, ["trained-models"])
    small, large = (
        {(row[0].text, row[1].text): row[2:] for row in item.rows}
        for item in part.items
        if isinstance(item, ReportTable)
    )
    assert small["pre-norm", "attention"][3].text == "base" and small["pre-norm", "mlp"][0].text == NOTHING
    assert small["rezero", "attention"][3].value == pytest.approx(3 * 0.08, abs=0.01)  # of four layers the last one
    assert large["rezero", "mlp"][3].value == pytest.approx(5.5 * 0.08, abs=0.01)  # of seven the last two
    for row in small.values():
        for mean, interval in ((row[1], row[2]), (row[3], row[4])):
            low, high = map(float, interval.text.split(" to ")) if mean.value is not None else (-1, 1)
            assert low < (mean.value or 0) < high
    assert len([item for item in part.items if isinstance(item, Picture)]) == 4


def test_a_variant_that_no_simple_model_falls_short_of_is_said(results):
    behind = [replace(o, score=o.score and o.score + 3 * (o.variant == "parallel")) for o in results.outcomes]
    said = " ".join(text_of(replace(results, outcomes=behind)).split())
    assert "parallel did not come up to the 3-gram, a simple model (2.9" in said
    assert "simple model (" not in text_of(results)
    assert "simple models of the same data: 3-gram 2.9" in markdown_of(results)


def unlearned(results: Results, *past: str) -> Results:
    """The same, of models that are no better than the 3-gram, but for those that are `past` it."""
    behind = [o if o.variant in past else replace(o, score=o.score and o.score + 3) for o in results.outcomes]
    early = [replace(verdict, early=1000) for verdict in results.verdicts]
    return replace(results, outcomes=behind, verdicts=early)


@pytest.mark.parametrize("form", [text_of, markdown_of, notebook_html_of, html_of])
def test_that_nothing_was_learned_leads_every_form(form, results, monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    said = " ".join(re.sub(r"<[/a-z][^>]*>|\\|\*", "", form(unlearned(results))).split())
    lead = "Nothing was learned that a 3-gram does not know: this comparison says only how fast the first steps go."
    assert said.index(lead) < said.index("Found") < said.index("In the first 1,000 steps, beside pre-norm")
    assert re.search(r"After 1,000 steps pre-norm reaches 4\.6\d+, and the 3-gram of the same data 2\.90* bits", said)
    if form in (markdown_of, html_of):
        assert "better (first 1,000 steps)" in said and "Differences to pre-norm in the first 1,000 steps" in said
    assert "did not come up to" not in said and lead not in form(results)


def test_a_variant_that_passes_the_bar_where_the_base_does_not_is_named(results):
    lead = lead_of(unlearned(results, "rezero"))
    assert lead.startswith("pre-norm, the base, learned nothing that a 3-gram does not know: this comparison says only")
    assert re.search(r"Beyond that came rezero \(1\.6\d*\)\.$", lead)
    whole = unlearned(results)
    mixed = [replace(o, score=1.0) if (o.variant, o.seed) == ("pre-norm", 11) else o for o in whole.outcomes]
    start = "In 5 of 6 runs and in the mean pre-norm, the base, learned nothing that a 3-gram does not know: this"
    assert lead_of(replace(whole, outcomes=mixed)).startswith(start)


def test_the_bar_of_another_task_is_called_by_its_name():
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), points=8, lower=False)
    known = {"copy": 60.0, "word by word": 70.0}
    lead = lead_of(replace(results, outcomes=[replace(o, baselines=known) for o in results.outcomes]))
    assert lead.startswith('Nothing was learned that the simple model "copy" does not know')
    assert "the copy of the same data 60.0" in lead and "higher is better" in lead
    few = {"copy": 1.0, "word by word": 70.0}
    assert lead_of(replace(results, outcomes=[replace(o, baselines=few) for o in results.outcomes])) == ""


@pytest.mark.parametrize("form, point", [(text_of, "  - "), (markdown_of, "- "), (html_of, "<li>")])
def test_several_variants_are_a_list_of_a_line_each(form, point, results, monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    rows = form(results).replace("<li>", "\n<li>").splitlines()
    points = [row for row in rows if row.startswith(point)]
    for name in ("post-norm is unstable", "rezero is better by", "parallel is not decided"):
        assert len([row for row in points if row.startswith(point + name)]) == 1
    assert [row for row in points if "Of parallel: that parallel and pre-norm are equal." in row]
    one = form(fake_results(("pre-norm", "rezero"), sizes=("only",), points=8))
    assert "</li>" not in one and f"{point}rezero is" not in one and "(lower is better): rezero is" in one


def test_effects_of_a_grid_are_a_table_and_a_picture() -> None:
    names = ["-".join(cell.values()) for cell in GRID]
    variants = [Variant(name, "", "", levels=cell) for name, cell in zip(names, GRID, strict=True)]
    runs = outcomes_of(dict(zip(names, measured(GRID).T.tolist(), strict=True)))
    whole = replace(fake_results(sizes=("only",), points=8), variants=variants, outcomes=runs, base=names[0])
    (part,) = sections_of(whole, ["effects-of-settings"])
    _, table, picture = part.items
    rows = {row[0].text: row[1:] for row in table.rows}
    assert len(rows) == 9 and table.brief
    mean, interval, p = rows["norm=layer"]
    assert mean.value == pytest.approx(0.03, abs=0.004) and " to " in interval.text and p.value < 0.05
    assert rows["norm=layer with optimizer=muon"][0].value == pytest.approx(0.04, abs=0.004)
    assert "norm=layer with optimizer=muon +0.04" in picture.alt and "<svg" in picture.svg
    assert sections_of(fake_results(points=8), ["effects-of-settings"]) == []
    few = replace(whole, outcomes=[o for o in runs if o.variant != names[3]])
    assert sections_of(few, ["effects-of-settings"]) == []


def test_the_law_over_three_sizes_is_said_and_drawn(monkeypatch) -> None:
    runs, arms = made(["small", "large", "huge"], floor=1.0, noise=1e-4)
    variants = [Variant(name, name, "") for name in ("base", "fast", "slow")]
    whole = replace(fake_results(points=8), variants=variants, arms=arms, outcomes=runs, base="base", verdicts=())
    (part,) = sections_of(whole, ["compute"])
    law, speedups, picture = part.items
    assert law.text.startswith("Over the sizes the loss is 1") and "interval of the exponent: 0." in law.text
    assert [(row[0].text, row[1].text[:3]) for row in speedups.rows] == [("fast", "1.5"), ("slow", "0.8")]
    assert "Dotted" in picture.caption and "<svg" in picture.svg
    two = replace(whole, arms=[arm for arm in arms if arm.size != "huge"])
    assert [type(item) for item in sections_of(two, ["compute"])[0].items] == [Picture]


def test_the_report_says_which_variants_share_a_learning_rate_and_draws_their_curves(results) -> None:
    def said(results: Results) -> list[str]:
        (part,) = sections_of(results, ["rates"])
        return [item.text for item in part.items if isinstance(item, Paragraph)][:-1]

    names = "pre-norm, post-norm, rezero and parallel"
    assert all(text.startswith(names) and "0.002" in text and "one rate" in text for text in said(results))
    outcomes = [
        replace(o, score=o.score - 0.06 * math.log2(o.lr / 2e-3))
        if (o.variant, o.stage) == ("rezero", "tune") and o.score is not None
        else o
        for o in results.outcomes
    ]
    moved = replace(results, outcomes=outcomes)
    (own,) = (text for text in said(moved) if text.startswith("rezero, small"))
    assert "a rate of its own, since its curve differs (p " in own
    lines = [line.get_xydata() for line in rates.draw(moved, "small").axes[0].lines if len(line.get_xydata()) == 40]
    lowest = [line[line[:, 1].argmin(), 0] for line in lines]  # in the order of the names
    assert lowest[0] == pytest.approx(2e-3, rel=0.1) and lowest[2] > 3e-3


def test_runs_that_were_lost_are_shown_with_their_reason(results, monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    for said in (text_of(results), markdown_of(results), html_of(replace(results, verdicts=(), variants=()))):
        assert "out of memory" in said
        assert "4.61" in said, "a check that failed"


def test_a_check_that_is_neither_passed_nor_failed_is_called_by_its_word(results):
    slow = [replace(g, passed=None, word="learns slowly", text="slow") for g in results.gates if g.name == "G2"]
    said = text_of(replace(results, gates=slow[:1]), width=100)
    assert "No check failed; of these there is more to say:" in said and "learns slowly" in said
    assert "Every check passed" not in said and "learns slowly" in markdown_of(replace(results, gates=slow))


def test_the_table_counts_the_runs_that_diverged_as_the_verdicts_do(results):
    """A run that ended at a loss far above the base's has diverged, too: the table said 0 where the sentence said 1."""
    counted = [replace(v, diverged=(3, 6), base_diverged=(1, 6)) for v in results.verdicts]
    said = text_of(replace(results, verdicts=counted), width=200)
    rows = [row.split() for row in said.splitlines() if row.startswith(("pre-norm", "post-norm")) and " of 6" in row]
    assert [row[row.index("of") - 1] for row in rows] == ["1", "3", "1", "3"], rows


def test_a_variant_that_was_not_run_is_shown_with_the_check_that_it_fails(results):
    name, why = "post-norm", "G1, loss at initialization: loss 4.61"
    stopped = [
        Verdict(name, v.base, v.size, "inconclusive", f"{name} was not run.", stopped=why) if v.variant == name else v
        for v in results.verdicts
    ]
    ended = [outcome for outcome in results.outcomes if outcome.variant != name]
    there = replace(results, verdicts=stopped, outcomes=ended, rates={}, sensitivity={})
    said = " ".join(text_of(there).split())
    assert f"{name} was not run (it fails {why})" in said and f"Not run for that: {name}." in said
    assert f"{name} mended" in said and "0 of 0" in said
    assert "not run, fails G1" in markdown_of(there) and name not in forest_of(there, "large").alt


def test_a_score_of_which_more_is_better():
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), seeds=3, points=12, lower=False)
    said = " ".join(text_of(results).split())
    assert "BLEU (higher is better)" in said and "rezero is better by" in said
    assert "an indication only" in said and "only size" not in said and "a second size" in said
    assert results.verdicts[0].mean > 0


def test_what_is_missing_is_left_out(results):
    bare = replace(
        results,
        gates=(),
        environment={},
        outcomes=[
            replace(o, telemetry=(), learned={}, samples=(), curve=(), inspected=None, baselines={})
            for o in results.outcomes
        ],
        rates={},
        sensitivity={},
    )
    names = {part.name for part in sections_of(bare)}
    assert not names & {"by-depth", "learned-coefficients", "samples", "gates", "trained-models"}
    assert {"plain-words", "verdicts", "forest", "curves"} <= names
    (table, *_) = [i for p in sections_of(bare, ["verdicts"]) for i in p.items if isinstance(i, ReportTable)]
    assert "best rate" not in table.columns and "difference" in table.columns


def test_sections_register_themselves(results):
    assert sections.names() == sorted(sections.names())
    try:

        @document.section(35)
        def weather(results):
            return document.ReportSection("The weather", [document.Paragraph("Rain.", brief=True)])

        assert [part.title for part in sections_of(results)].index("The weather") == 4
        assert "Rain." in text_of(results) and "Rain." in markdown_of(results)
    finally:
        sections._known.pop("weather"), sections._needed.pop("weather")


def test_the_picture_of_the_docs_is_as_drawn():
    specification = importlib.util.spec_from_file_location("make_report_picture", DOCS / "make_report_picture.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    drawn, kept = (re.findall(r">([^<]+)</text>", svg) for svg in (module.picture(), module.FILE.read_text("utf-8")))
    assert drawn == kept and "rezero" in drawn, "python docs/make_report_picture.py"


def test_what_papers_claim_stands_beside_what_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), seeds=3, points=8)
    study = replace(results, question="Which is it?", claims=(("A <b>better</b> way.", "Somebody 2020"),))
    (tmp_path / "results.json").write_text(json_of(study))
    assert read_results(tmp_path) == study
    page_text, lines = html_of(study), markdown_of(study)
    assert all(text in lines for text in ("Which is it?", "Somebody 2020"))
    assert "A &lt;b&gt;better&lt;/b&gt; way." in page_text and "Somebody 2020" in page_text
    assert "Which is it?" in text_of(study) and "what papers claim" not in text_of(results)
