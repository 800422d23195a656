"""The report of a comparison, from made-up results: every form says the same, and nothing that a user typed gets out
of its place."""

from __future__ import annotations

import csv
import html
import importlib.util
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.fake import fake_results
from tests.comparison.statistics.simulated import outcomes_of
from tests.comparison.statistics.test_factorial import GRID, measured
from tests.comparison.statistics.test_scale import made
from tests.pace import PATIENCE
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
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = 'x = x + "</pre><script>alert(1)</script><img src=http://evil/x.png onerror=alert(1)>" | `a` [b](http://evil)'


class Page(HTMLParser):
    """What a browser would make of a page: its elements, and the fields of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[tuple[str, str | None]]]] = []
        self.text: list[str] = []
        self.inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(("", given.get("data-value")))
        self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.inside in ("td", "th"):
            text, value = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, value)

    def table(self, *columns: str) -> list[dict[str, tuple[str, str | None]]]:
        """The rows of the first table that has these columns: column -> (text, value)."""
        for table in self.tables:
            names = [text for text, _ in table[0]]
            if set(columns) <= set(names):
                return [dict(zip(names, row, strict=True)) for row in table[1:]]
        raise AssertionError(f"no table has {columns}")


@pytest.fixture(scope="module")
def results() -> Results:
    return fake_results(points=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of one size. All its pictures are drawn; the first one is rendered, the others would take seconds."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(document, "svg_of", once(document.svg_of, "<svg/>"))
        patched.setattr(document, "png_of", once(document.png_of, b"\x89PNG"))
        write_report(fake_results(("pre-norm", "post-norm", "rezero"), sizes=("only",), points=8), folder)
    return folder


def once(render: Callable[[Any], Any], otherwise: str | bytes) -> Callable[[Any], Any]:
    """The same, and `otherwise` after its first call."""
    calls = []

    def rendered(figure: Any) -> Any:
        calls.append(figure)
        return render(figure) if len(calls) == 1 else otherwise

    return rendered


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


def links_lead_to_pictures(folder: Path) -> None:
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    links = re.findall(r"!\[[^\n]*\]\((\S+)\)", markdown)
    assert len(links) > 10 and all((folder / link).is_file() for link in links)
    for picture in (folder / "figures").iterdir():
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG") if picture.suffix == ".png" else b"<svg" in content


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


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_is_wide_enough(results, width):
    lines = text_of(results, width).splitlines()
    assert max(map(len, lines)) <= width
    long = replace(
        results, variants=[*results.variants, replace(results.variants[1], name=EVIL)], notes=["\x1b[31mred"]
    )
    assert "\x1b" not in text_of(long, width)


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


def hostile(results: Results) -> Results:
    """The same results, with all that a user or a model could have written replaced by something that wants out."""

    def name(known: str) -> str:
        return EVIL if known == "rezero" else known

    def renamed(records):
        return [replace(record, variant=name(record.variant)) for record in records]

    outcomes = [
        replace(o, samples=(EVIL,) * 3, reason=o.reason and EVIL, learned={EVIL: [1.0, 2.0]}) for o in results.outcomes
    ]
    return replace(
        results,
        name=EVIL,
        unit="</style><script>alert(2)</script>",
        variants=[replace(v, name=name(v.name), typed=EVIL, model=EVIL) for v in results.variants],
        arms=[replace(arm, adjusted=EVIL) for arm in renamed(results.arms)],
        gates=[replace(gate, text=EVIL, title=EVIL) for gate in renamed(results.gates)],
        outcomes=renamed(outcomes),
        verdicts=[replace(v, sentence=EVIL, may=EVIL, may_not=EVIL) for v in renamed(results.verdicts)],
        rates={},
        settings={EVIL: EVIL},
        environment={EVIL: {EVIL: EVIL}},
        notes=[EVIL],
    )  # fmt: skip


def test_texts_of_users_stay_texts(monkeypatch):
    monkeypatch.setattr(Picture, "svg", "<svg/>")
    page = Page(html_of(hostile(fake_results(("pre-norm", "rezero"), sizes=("only",), points=8))))
    assert [tag for tag, _ in page.elements].count("script") == 1 and "alert(1)" in "".join(page.text)
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    loads(page)


def test_names_in_pictures_are_as_written():
    results = fake_results(("pre-norm", "rezero"), sizes=("only",), points=8)
    name = "<b>$x_{$ & co"
    odd = replace(results, verdicts=[replace(results.verdicts[0], variant=name)], variants=[Variant(name, name, "")])
    svg = forest_of(odd, "only").svg
    assert f">{html.escape(name, quote=False)}</text>" in svg


def loads(page: Page) -> None:
    """Nothing refers outside the page."""
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "srcset", "action", "data"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:image/svg+xml,")), address[:60]
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    assert policy and "default-src 'none'" in policy and "http" not in policy


def test_the_page_loads_nothing_and_says_what_its_pictures_show(folder):
    page_stands_alone(folder)


def page_stands_alone(folder: Path) -> None:
    style = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(style)
    loads(page)
    assert "@import" not in style and all(at.startswith("%23") for at in re.findall(r"url\((...)", style))
    pictures = [attributes for tag, attributes in page.elements if tag == "img"]
    assert len(pictures) > 10 and all(len(picture["alt"] or "") > 20 for picture in pictures)
    links = [a["href"] for tag, a in page.elements if tag == "a"]
    assert {f"#{a['id']}" for tag, a in page.elements if tag == "section"} == set(links)


def test_markdown_keeps_texts_in_their_cells(results):
    markdown = markdown_of(hostile(results))
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert not re.search(r"(?<!\\)[<`\[]", line)
    widths = [
        len(re.findall(r"(?<!\\)\|", row)) for row in markdown.splitlines() if row.startswith("| variant | size |")
    ]
    assert widths and "<script>" not in re.sub(r"```.*?```", "", markdown, flags=re.DOTALL)


def test_a_notebook_shows_the_verdicts_and_one_picture(results):
    shown = notebook_html_of(results)
    page = Page(shown)
    assert len(shown) < 2**20
    assert [tag for tag, _ in page.elements].count("img") == 1
    assert not [tag for tag, _ in page.elements if tag in ("script", "style", "link")]
    assert [row["variant"][0] for row in page.table("difference")] == [arm.variant for arm in results.arms]


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


@pytest.mark.slow
def test_a_large_report_is_small(tmp_path):
    names = ("pre-norm", "post-norm", "rezero", "parallel", "e", "f", "g", "h")
    written = write_report(fake_results(names, seeds=10, points=200), tmp_path)
    assert (tmp_path / "report.html").stat().st_size < 2_000_000 and len(written) > 20
    links_lead_to_pictures(tmp_path)
    page_stands_alone(tmp_path)


PROBE = """<!doctype html><body>
<iframe id="page" src="report.html" style="width:WIDTHpx;height:3000px;border:0"></iframe>
<script>
document.getElementById("page").onload = () => {
  const frame = document.getElementById("page"), page = frame.contentDocument;
  const rows = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const tables = [...page.querySelectorAll("table")].map(rows);
  const head = [...page.querySelectorAll("#verdicts th button")].find((b) => b.textContent === "bits per byte");
  if (head) head.click();
  const sorted = rows(page.querySelector("#verdicts table"));
  const pictures = [...page.images].map((image) => [image.naturalWidth, image.getBoundingClientRect().width]);
  const beyond = [...page.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > frame.contentWindow.innerWidth + 1)
    .filter((e) => !e.closest(".scroll, figure")).map((e) => e.outerHTML.slice(0, 80));
  const scroll = page.documentElement.scrollWidth;
  document.title = JSON.stringify({ tables, sorted, pictures, beyond, scroll });
};
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium: apt-get install chromium")
@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser_from_the_disk_without_a_network(results, tmp_path, width):
    """The page fits, its pictures are there, its tables sort, and the numbers in them are those of the JSON."""
    write_report(results, tmp_path)
    (tmp_path / "probe.html").write_text(PROBE.replace("WIDTH", str(width)))
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=20000",
        f"--user-data-dir={tmp_path}/own",
    ]
    command += ["--dump-dom", (tmp_path / "probe.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert title, done.stdout[:500] + done.stderr[-500:]
    seen = json.loads(html.unescape(title.group(1)))
    assert seen["scroll"] <= width and seen["beyond"] == [], "no sideways scrolling"
    assert len(seen["pictures"]) > 20 and all(min(sizes) > 100 for sizes in seen["pictures"])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert seen["tables"] == [[[text for text, _ in row] for row in table] for table in page.tables]
    data = json.loads((tmp_path / "results.json").read_text())
    (differences,) = [table for table in seen["tables"] if "95 % interval" in table[0] and "verdict" in table[0]]
    at = differences[0].index("difference")
    shown = {(row[0], row[1]): row[at] for row in differences[1:]}
    for verdict in data["verdicts"]:
        if verdict["mean"] is not None:
            assert abs(float(shown[verdict["variant"], verdict["size"]]) - verdict["mean"]) < 6e-4
    column = seen["sorted"][0].index("bits per byte")
    scores = [float(row[column]) for row in seen["sorted"][1:]]
    assert scores == sorted(scores), "a click on a head sorts"


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
