"""The score against the learning rate: a rate that is tuned for one arm alone is the usual fault of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import Any

import numpy as np

from ....errors import join_words
from ....figure import INK, ticks_at
from ....inspection.rate_curves import FittedCurve
from ...numbers import equation_of_p, fixed
from ...records import Arm, Outcome, Results
from ...statistics.rates import RateFit, fit_rates, octaves
from ...statistics.sweep import RateSweep, sweeps
from ...vary import factor_of, multiplied
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import Look, looks_of, panels
from ..numbers import digits_of, rate_in_words

TESTED = (
    "Which of two rates beside each other is better was not tested: the verdicts compare each with the base. The rate"
    " with the best mean of several is partly the luckiest one, so its score is a little better than it would be again."
    " Small marks in the picture: single runs; the line: their mean; a ring: the best."
)
CAPTION = (
    "Small marks: single runs; the line: the parabola that was fitted to them near the best; a ring: the rate that was"
    " chosen, with the 95 % interval of the best one. Crosses at the edge: runs that diverged or failed at that rate."
)
SHOWN = 1.5  # octaves from the best, over which a fitted curve is drawn


@section(70)
def rates(results: Results) -> ReportSection | None:
    swept = sweeps(results.variants, results.outcomes, results.rates, results.lower)
    if swept:
        items: list[Item] = [Paragraph(in_words(results, sweep), brief=True) for sweep in swept]
        items.append(Paragraph(TESTED))
        items += [
            Picture(f"rates-{number}", in_words(results, sweep), partial(draw_sweep, results, sweep))
            for number, sweep in enumerate(swept)
        ]
        return ReportSection("Learning rates", items)
    sizes = [size for size in results.sizes if any(tuned(results, name, size) for name in results.names)]
    if not sizes:
        shared = results.settings.get("lr", "tune") != "tune"
        text = "All variants were trained at one learning rate; it was not tuned for each." if shared else ""
        return ReportSection("Learning rates", [Paragraph(text)]) if text else None
    items = [Paragraph(text, brief=True) for size in sizes for text in chosen_in_words(results, size)]
    items.append(Paragraph(CAPTION))
    items += [Picture(f"rates-{size}", alt(results, size), partial(draw, results, size)) for size in sizes]
    return ReportSection("Learning rates", items)


def in_words(results: Results, sweep: RateSweep) -> str:
    """Which rate has the best mean, and whether it lies inside of those that were run."""
    scores, best, digits = dict(sweep.curve.scores), sweep.curve.best, digits_of(results)
    whose = f"{sweep.others}{results.at_size(sweep.size)}".removeprefix(", ")
    ends = f"{rate_in_words(min(scores))} to {rate_in_words(max(scores))}"
    runs = "1 run" if sweep.seeds == 1 else f"{sweep.seeds} runs"
    text = f"{whose}: of" if whose else "Of"
    text += f" {len(scores)} learning rates, {ends}, {named(sweep, best)} has the best mean of {runs},"
    text += f" {fixed(scores[best], digits)} {results.unit_of_differences}. "
    if sweep.curve.at_edge:
        low = best == min(scores)
        further = multiplied(sweep.typed(best), 0.5 if low else 2.0)
        text += f"It is the {'lowest' if low else 'highest'} that was run: a {'lower' if low else 'higher'} one may be"
        text += f" better, so run lr={further}, too."
    else:
        text += "It lies inside of those that were run."
    lost = [f"{count} at {rate_in_words(rate)}" for rate, count in sorted(sweep.lost.items()) if count]
    return text + (f" Runs that did not come to their end: {join_words(lost, 'and')}." if lost else "")


def named(sweep: RateSweep, rate: float) -> str:
    """'0.0112 (auto)'; a rate that was typed as such stands alone."""
    typed = sweep.typed(rate)
    return rate_in_words(rate) + (f" ({typed})" if factor_of(typed) is not None else "")


def draw_sweep(results: Results, sweep: RateSweep) -> Any:
    title = f"{results.score_in_words} ({results.direction}){results.at_size(sweep.size)}"
    with panels([title]) as (figure, (axes,)):
        line = [(rate, score) for rate, score in sweep.curve.scores if score is not None]
        axes.plot(*zip(*line, strict=True), color=INK, linewidth=1.5)
        for rate, variant in sweep.variants.items():
            own = list(results.scores_of(variant.name, sweep.size).values())
            axes.plot([rate] * len(own), own, "o", color=INK, markersize=3.5, alpha=0.7)
        best = sweep.curve.best
        axes.plot([best], [dict(line)[best]], "o", markersize=10, markerfacecolor="none", color=INK)
        rate_axis(axes, sorted(sweep.variants))
    return figure


def rate_axis(axes: Any, rates: Sequence[float]) -> None:
    ticks_at(axes, rates, [rate_in_words(rate) for rate in rates], "learning rate", base=2)


def tuned(results: Results, name: str, size: str) -> list[Outcome]:
    return results.outcomes_of(name, size, "tune")


def fit_of(results: Results, size: str) -> RateFit:
    """The curves at a size: fitted once for a report, whose sections all ask for them."""
    known = vars(results).get("rate_fits")
    fits: dict[str, RateFit] = known or fit_rates(results.outcomes, results.arms, results.lower)
    vars(results)["rate_fits"] = fits  # beside its fields, as `cached_property` has it
    return fits[size]


def chosen_in_words(results: Results, size: str) -> list[str]:
    """The rate of each curve, and why some arms have one."""
    fit, arms, said = fit_of(results, size), results.arms_by_key, []
    for curve in {id(curve): curve for curve in fit.curves.values()}.values():
        names = [name for name in results.names if fit.curves.get(name) is curve]
        rates = {rate_in_words(results.rates.get((name, size))): arms[name, size].lr for name in names}
        text = f"{join_words(names, 'and')}{results.at_size(size)}: {join_words([*rates], 'and')}"
        if len(rates) == 1:
            ends = [rate_in_words(default * 2.0**place) for default in rates.values() for place in curve.interval]
            text += f", 95 % interval of the best {' to '.join(ends)}"
        p = [fit.p[name] for name in names if name in fit.p]
        if p:
            alike = "one rate, since their curves were not found to differ"
            why = alike if len(names) > 1 else "a rate of its own, since its curve differs"
            text += f"; {why} ({equation_of_p(min(p))})"
        said.append(f"{text}.")
    return said


def alt(results: Results, size: str) -> str:
    chosen = {name: results.rates.get((name, size)) for name in results.names}
    rates = ", ".join(f"{name} {rate_in_words(rate)}" for name, rate in chosen.items())
    return f"{results.score_in_words} against the learning rate{results.at_size(size)}; chosen: {rates}"


def draw(results: Results, size: str) -> Any:
    looks, worst, fit = looks_of(results), 0.0 if results.lower else 1.0, fit_of(results, size)
    title = f"{results.score_in_words} ({results.direction}){results.at_size(size)}"
    with panels([title]) as (figure, (axes,)):
        for n, (name, look) in enumerate(looks.items()):
            runs = tuned(results, name, size)
            ended = [(o.lr, o.score) for o in runs if o.score is not None]
            axes.plot(*zip(*ended, strict=True), look.marker, color=look.color, markersize=3.5, alpha=0.7)
            if name in fit.curves:
                draw_fit(axes, results, results.arms_by_key[name, size], fit.curves[name], look, ended)
            lost = sorted({o.lr for o in runs if o.status != "done"})
            height = [abs(1 - worst - 0.04 * n)] * len(lost)
            axes.plot(lost, height, "x", color=look.color, markersize=6, transform=axes.get_xaxis_transform())
        rate_axis(axes, sorted({o.lr for name in looks for o in tuned(results, name, size)}))
    return figure


def draw_fit(
    axes: Any, results: Results, arm: Arm, curve: FittedCurve, look: Look, ended: Sequence[tuple[float, float]]
) -> None:
    """The parabola through an arm's runs near the best, and the rate that was chosen."""
    sign = 1 if results.lower else -1

    def above(rate: float) -> float:
        return sign * float(curve.above(octaves(rate, arm))[0])

    low, high = (np.clip(curve.best + side * SHOWN, *curve.span) for side in (-1, 1))
    level = mean(score - above(rate) for rate, score in ended if low <= octaves(rate, arm) <= high)
    line = arm.lr * 2.0 ** np.linspace(low, high, 40)
    axes.plot(line, [level + above(rate) for rate in line], label=arm.variant, linewidth=1.5, **look.line)
    chosen = results.rates.get(arm.arm_key, arm.lr)
    at = level + above(chosen)
    axes.plot([chosen], [at], "o", markersize=10, markerfacecolor="none", color=look.color)
    axes.plot([arm.lr * 2.0**place for place in curve.interval], [at, at], color=look.color, linewidth=3, alpha=0.4)
