"""The report of a search: what was found and what may be claimed, how it was found, and what luck alone gives."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import ndiff
from pathlib import Path
from typing import Any

from ..analysis.audit import model_differences
from ..api.reading import check_model
from ..comparison.compare import environment_of
from ..comparison.plan import MATCHED
from ..comparison.records import Verdict
from ..comparison.report.document import (
    Cell,
    Item,
    Literally,
    Paragraph,
    Picture,
    ReportSection,
    ReportTable,
    pictures_of,
)
from ..comparison.report.files import write_files
from ..comparison.report.markdown import markdown
from ..comparison.report.page import page
from ..comparison.report.sections.environment import flat
from ..comparison.report.terminal import section_lines
from ..cost.words import duration
from ..figure import FAINT, INK, SERIES, new_panels
from .confirm import TUNED, Confirmed
from .curves import drawn_curves
from .hunt import Hunt
from .plan import FREE
from .records import Contender

FILES = ("report.md", "report.html")
DIGITS = 4
LISTED = 12  # wirings that the terminal lists


def sections_of(hunt: Hunt) -> list[ReportSection]:
    """All sections of a search's report."""
    made = [
        plain_words(hunt),
        confirmed(hunt),
        formulas(hunt),
        climbed(hunt),
        descent(hunt),
        worth(hunt),
        tried(hunt),
        one_by_one(hunt),
        settings(hunt),
        how_it_ran(hunt),
    ]
    return [one for one in made if one is not None]


def plain_words(hunt: Hunt) -> ReportSection:
    """The question, the answer, and what may be claimed."""
    plan, count = hunt.plan, len([one for one in hunt.candidates if not one.twin])
    ran = [one for one in hunt.candidates if one.name in hunt.race.standings and not one.twin]
    question = (
        f"Which wirings are better than {plan.settings.base} on this data, at equal {MATCHED[plan.settings.match]}?"
    )
    looked = f"{count} wirings were proposed, {len(ran)} of them trained, {len(hunt.race.made)} runs in all."
    items: list[Item] = [Paragraph(question, "Question", brief=True), Paragraph(looked, "Looked at", brief=True)]
    items += [Paragraph(text, label, brief=True) for label, text in answers(hunt)]
    return ReportSection("In plain words", items, "plain-words")


def answers(hunt: Hunt) -> Iterator[tuple[str, str]]:
    done = hunt.confirmed
    if done is None:
        yield "Answer", "Nothing was confirmed, so nothing may be claimed: what follows looked good while searching."
        return
    if done.lead:
        yield "First of all", done.lead
    found = [one for one in hunt.finalists if done.found(one.name)]
    sizes = "at one size" if len(done.sizes) == 1 else f"at {len(done.sizes)} sizes"
    text = "on data that no race was scored on" if done.fresh else "on the validation set of the races"
    fresh = f"with fresh seeds, {text}, {sizes}"
    if found:
        names = "; ".join(f"{one.name} ({hunt.lineage_in_words(one)}): {said(done, one)}" for one in found)
        yield "Found", f"{names}. Confirmed {fresh}, corrected for {len(hunt.finalists)} finalists."
    elif not hunt.finalists:
        yield "Found", "Nothing: no wiring was better than the base in the last rung, so that none was confirmed."
    else:
        yield "Found", f"Nothing: no finalist was better than the base {fresh}."
    lost = [one for one in hunt.finalists if one not in found]
    if lost:
        yield (
            "Looked good while searching",
            "; ".join(f"{one.name} ({one.reason}): {said(done, one)}" for one in lost) + ".",
        )
    tuned = done.verdict(TUNED)
    if tuned is not None:
        words = f"The base with the best settings of the tuning arm, beside the base: {verdict_in_words(tuned)}"
        yield "Tuning", f"{words} {hunt.plan.unit}. That is no wiring's."


def said(done: Confirmed, one: Contender) -> str:
    verdict = done.verdict(one.name)
    return "no verdict" if verdict is None else verdict_in_words(verdict)


def verdict_in_words(verdict: Verdict) -> str:
    """'better, +0.0120 (+0.0050 to +0.0190)'."""
    if verdict.gain is None:
        return verdict.word
    low, high = interval_of_gain(verdict)
    return f"{verdict.word}, {verdict.gain:+.{DIGITS}f} ({low:+.{DIGITS}f} to {high:+.{DIGITS}f})"


def interval_of_gain(verdict: Verdict) -> tuple[float, float]:
    """The interval of the gain: that of the difference, turned where less is better."""
    if verdict.interval is None or verdict.mean is None or verdict.gain is None:
        return verdict.gain or 0.0, verdict.gain or 0.0
    low, high = verdict.interval
    return (low, high) if (verdict.gain >= 0) == (verdict.mean >= 0) else (-high, -low)


def confirmed(hunt: Hunt) -> ReportSection | None:
    """The finalists: what each gained while searching, and what was left of it."""
    done = hunt.confirmed
    if done is None:
        return None
    rows = []
    names = [*((one.name, one.reason, hunt.standing(one.name).gain) for one in hunt.finalists)]
    if hunt.best_settings is not None:
        names.append((TUNED, hunt.best_settings.reason, hunt.standing(hunt.best_settings.name).gain))
    for name, reason, before in names:
        verdict = done.verdict(name)
        gain = verdict.gain if verdict else None
        mark = "good" if done.found(name) else ""
        rows.append([
            Cell(name), Cell(reason), number(before), number(gain),
            Cell("" if verdict is None else "{:+.4f} to {:+.4f}".format(*interval_of_gain(verdict))),
            p_cell(verdict),
            Cell("no verdict" if verdict is None else verdict.word, mark=mark),  # type: ignore[arg-type]
        ])  # fmt: skip
    columns = ["name", "what is changed", "gain while searching", "gain confirmed", "interval", "p (Holm)", "verdict"]
    head = f"Gains in {hunt.plan.unit}; more is better. The comparison's own report is {done.folder.name}/report.html."
    return ReportSection(
        "Confirmed", [Paragraph(head, brief=True), ReportTable(columns, rows, brief=True)], "confirmed"
    )


def p_cell(verdict: Verdict | None) -> Cell:
    p = None if verdict is None else verdict.p_holm
    return Cell("" if p is None else f"{p:.3f}", p)


def formulas(hunt: Hunt) -> ReportSection | None:
    """The best wirings beside the base: their texts, and in what they differ."""
    shown = hunt.finalists or hunt.leaders()[:1]
    if not shown:
        return None
    base = hunt.race.admission.base.architecture
    items: list[Item] = [Literally("base", formula_of(str(hunt.plan.base.config["model"])))]
    for one in shown:
        differences = model_differences(check_model(hunt.race.admission.read(one.model), use=hunt.plan.use), base)
        items.append(Literally(f"{one.name}: {hunt.lineage_in_words(one)}", formula_of(one.model), brief=True))
        items.append(
            Paragraph("; ".join(map(str, differences)) or "names of parameters alone", f"{one.name} differs in")
        )
    return ReportSection("Formulas", items, "formulas")


def formula_of(model: str) -> str:
    """A model file's text without its sizes, which all have alike."""
    left = ("language:", "name:", "depth:", "width:", "heads:", "context:", "vocab:")
    return "\n".join(line for line in model.splitlines() if not line.startswith(left))


def climbed(hunt: Hunt) -> ReportSection | None:
    """Gain against number tried, beside the twins' bar."""
    rows = [
        (n, one, hunt.race.standings[one.name])
        for n, one in enumerate(hunt.candidates, 1)
        if one.name in hunt.race.standings
    ]
    if not rows:
        return None
    bar = hunt.twins_bar

    def draw() -> Any:
        with new_panels([5.5], 3.2) as (figure, (axes,)):
            for rung in range(len(hunt.plan.steps)):
                for twin in (False, True):
                    points = [
                        (n, one.gain)
                        for n, which, one in rows
                        if one.rung == rung and which.twin is twin and one.gain > float("-inf")
                    ]
                    if points:
                        label = f"{'twins' if twin else 'wirings'}, rung {rung + 1}"
                        color = INK if twin else SERIES[rung]
                        axes.plot(
                            *zip(*points, strict=True),
                            "x" if twin else "o",
                            color=color,
                            ms=3 + 1.5 * rung,
                            label=label,
                            alpha=0.9,
                        )
            axes.axhline(0, color=FAINT, lw=0.8)
            if bar is not None:
                axes.axhline(bar, color=INK, lw=1, ls="--", label="best twin")
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("wirings tried")
            axes.set_ylabel(f"gain over the base ({hunt.plan.unit})")
            axes.legend(fontsize=7, frameon=False, ncols=2)
        return figure

    alt = "gain of each wiring over the base, in the order in which they were tried; a dashed line is the best twin"
    caption = "A twin is the base with other initial values: how far the best of them climbs is what luck gives."
    return ReportSection("What luck alone gives", [Picture("climbed", alt, draw, caption)], "climbed")


def descent(hunt: Hunt) -> ReportSection | None:
    """The tree of descent: who was made of whom."""
    ran = [one for one in hunt.candidates if one.name in hunt.race.standings and not one.twin]
    ran = [one for one in ran if hunt.standing(one.name).gain > float("-inf")]
    if not ran:
        return None

    def draw() -> Any:
        with new_panels([5.5], 3.4) as (figure, (axes,)):
            places = {"base": (0.0, 0.0)} | {one.name: (float(one.round), hunt.standing(one.name).gain) for one in ran}
            for one in ran:
                if one.parent in places:
                    (x0, y0), (x1, y1) = places[one.parent], places[one.name]
                    axes.plot([x0, x1], [y0, y1], color=FAINT, lw=0.8, zorder=1)
            for name, (x, y) in places.items():
                (mark,) = axes.plot([x], [y], "o", color=INK if name == "base" else SERIES[0], ms=6, zorder=2)
                mark.set_url(f"#{name}")
            for name in ["base", *(one.name for one in hunt.leaders()[:LISTED])]:
                axes.annotate(name, places[name], xytext=(3, 3), textcoords="offset points", fontsize=7)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.set_xlabel("round")
            axes.set_ylabel(f"gain ({hunt.plan.unit})")
        return figure

    alt = "each wiring by its round and gain, with a line to the wiring it was made of"
    caption = "A line leads to what a wiring was made of. A click on a wiring leads to its difference and its curve."
    return ReportSection(
        "Descent", [Picture("descent", alt, draw, caption, linked=True)], "descent"
    )


def worth(hunt: Hunt) -> ReportSection | None:
    """What each part of the best wiring is worth."""
    if not hunt.ablated:
        return None
    rows = [
        [
            Cell(name),
            Cell(one.part),
            Cell(one.kept),
            Cell(one.base),
            number(one.mean),
            Cell(", ".join(f"{v:+.4f}" for v in one.lost.values())),
        ]
        for name, parts in hunt.ablated.items()
        for one in parts
    ]
    head = (
        "Each part in which a wiring differs from the base is put back alone; what is lost is what the part was worth."
    )
    columns = ["wiring", "put back", "the wiring's", "the base's", "gain lost", "by seed"]
    return ReportSection("What carried the gain", [Paragraph(head), ReportTable(columns, rows, 2, brief=True)], "worth")


def tried(hunt: Hunt) -> ReportSection:
    """All wirings that were proposed."""
    rows = []
    for one in sorted(hunt.candidates, key=hunt.place):
        standing = hunt.race.standings.get(one.name)
        rows.append([
            Cell(one.name), Cell(one.reason), Cell(one.parent), Cell(one.proposer),
            number(None if standing is None else standing.gain),
            Cell("" if standing is None else str(standing.rung + 1), None if standing is None else standing.rung + 1),
            Cell(one.refused or hunt.race.reasons.get(one.name, ""), mark="bad" if one.refused else ""),
        ])  # fmt: skip
    columns = ["name", "what is changed", "of", "by", "gain", "rung", "why not"]
    short = ReportTable(columns[:6], [row[:6] for row in rows[:LISTED]])
    return ReportSection("All that was tried", [ReportTable(columns, rows, terminal=short, brief=True)], "tried")


def one_by_one(hunt: Hunt) -> ReportSection | None:
    """Each wiring that ran: in which lines it differs from what it was made of, and how it learned."""
    texts = {"base": formula_of(str(hunt.plan.base.config["model"]))}
    texts |= {one.name: formula_of(one.model) for one in hunt.candidates}
    items = [Literally("base", texts["base"], name="base")]
    for one in sorted(hunt.candidates, key=hunt.place):
        standing = hunt.race.standings.get(one.name)
        if standing is None or one.twin:
            continue
        parent = one.parent if one.parent in texts else "base"
        title = f"{one.name}, from {parent}: {one.reason}; {number(standing.gain).text or 'no run ended'}"
        lines = ndiff(texts[parent].splitlines(), texts[one.name].splitlines())
        changed = "\n".join(line for line in lines if not line.startswith("?"))
        items.append(Literally(title, changed, name=one.name, picture=curve_of(hunt, one, standing.rung)))
    return ReportSection("Each wiring beside what it was made of", items, "one-by-one") if items[1:] else None


def curve_of(hunt: Hunt, one: Contender, rung: int) -> Picture | None:
    """A wiring's curve in the last rung that it ran in, beside the base's."""
    steps = hunt.plan.steps[rung]
    own, base = (hunt.race.curves.get((name, steps), ()) for name in (one.name, "base"))
    if min(len(own), len(base)) < 2:
        return None
    alt = f"loss of {one.name} beside the base"
    return Picture(f"curve-{one.name}", alt, lambda: drawn_curves(one.name, own, base))


def settings(hunt: Hunt) -> ReportSection | None:
    """The tuning arm."""
    ran = [one for one in hunt.tuned if one.name in hunt.race.standings]
    if not ran:
        return None
    ran.sort(key=lambda one: -hunt.standing(one.name).gain)
    rows = [
        [
            Cell(one.name),
            Cell(one.reason),
            number(hunt.standing(one.name).gain),
            Cell(str(hunt.standing(one.name).rung + 1)),
        ]
        for one in ran
    ]
    head = "The base with other settings: what it gains is tuning, and had as many runs as the wirings."
    return ReportSection(
        "The tuning arm", [Paragraph(head), ReportTable(["name", "settings", "gain", "rung"], rows)], "settings"
    )


def how_it_ran(hunt: Hunt) -> ReportSection:
    """The plan, what all runs have in common, and with what they were made."""
    plan, config = hunt.plan, dict(hunt.plan.base.config)
    model = config.pop("model")
    made = hunt.race.made
    rate = f"learning rate: {hunt.race.rate:g}, {'the best of the base' if len(plan.rates) > 1 else 'as stated'}"
    trained = f"the {len(made)} runs of the races took {duration(sum(made.values()))} together"
    lines = [*repr(plan).splitlines(), f"{rate}; {trained}"]
    items: list[Item] = [Paragraph(line) for line in lines]
    own = {key: value for key, value in plan.settings.plain().items() if key not in FREE}
    parts = {"Search": own, "All runs": config, "Made with": environment_of(config, plan.hash, plan.given)}
    for label, values in parts.items():
        rows = [[Cell(key), Cell(text)] for key, text in flat(values)]
        items += [Paragraph(f"{label}:"), ReportTable(("key", "value"), rows)]
    return ReportSection("How it was run", [*items, Literally("the base, whole", str(model))], "how")


def number(value: float | None) -> Cell:
    return Cell("") if value is None or value == float("-inf") else Cell(f"{value:+.{DIGITS}f}", value)


def write_hunt_report(hunt: Hunt, folder: Path) -> list[Path]:
    """Write report.md and report.html."""
    title, parts = f"search from {hunt.plan.settings.base}", sections_of(hunt)
    pictures = {f"figures/{picture.name}.svg": picture.svg.encode() for picture in pictures_of(parts)}
    files = {FILES[0]: markdown(title, parts), FILES[1]: page(title, parts)}
    return write_files(folder, {**{name: text.encode("utf-8", "replace") for name, text in files.items()}, **pictures})


def text_of(hunt: Hunt) -> str:
    """The report for a terminal."""
    return "\n".join([f"search from {hunt.plan.settings.base}", *section_lines(sections_of(hunt))]).rstrip() + "\n"
