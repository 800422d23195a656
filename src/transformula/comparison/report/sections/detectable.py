"""How small a difference so many seeds find."""

from __future__ import annotations

import math
from functools import partial
from statistics import fmean
from typing import Any

from ....figure import MUTED, whole_steps
from ...numbers import fixed
from ...records import Results, Verdict
from ...statistics.power import detectable
from ..document import Item, Paragraph, Picture, ReportSection, section
from ..drawing import looks_of, panels
from ..numbers import digits_of

CAPTION = (
    "The smallest true difference that a paired test finds in four of five comparisons, from the noise that was"
    " measured; the variants share the level. A mark: the seeds of this comparison."
)


@section(90)
def detectable_differences(results: Results) -> ReportSection | None:
    items: list[Item] = [
        Picture(f"detectable-{size}", alt(results, size), partial(draw, results, size))
        for size in results.sizes
        if noisy(results, size)
    ]
    if not items:
        return None
    squares = [verdict.noise["seeds"] ** 2 for verdict in noisy(results, results.sizes[-1])]
    varied = fixed(math.sqrt(fmean(squares or [0.0])), digits_of(results))
    then = f"In the runs that confirm, paired differences varied by {varied}."
    said = Paragraph(f"{results.revision[:1].upper()}{results.revision[1:]}. {then}", brief=True)
    said_or_none = [said] if results.revision and squares else []
    return ReportSection("What so many seeds can find", [Paragraph(CAPTION), *said_or_none, *items])


def noisy(results: Results, size: str) -> list[Verdict]:
    return [verdict for verdict in results.verdicts_of(size) if verdict.noise.get("seeds")]


def alt(results: Results, size: str) -> str:
    digits = digits_of(results)
    differences = [f"{v.variant} {fixed(v.detectable, digits)}" for v in noisy(results, size)]
    seeds = len(results.seeds)
    what = f"Detectable difference in {results.unit_of_differences} against seeds{results.at_size(size)}"
    return f"{what}; at {seeds} seeds: {', '.join(differences)}"


def draw(results: Results, size: str) -> Any:
    looks, verdicts = looks_of(results), noisy(results, size)
    most = max(20, 2 * max(len(verdict.differences) for verdict in verdicts))
    with panels([f"detectable difference, {results.unit_of_differences}"]) as (figure, (axes,)):
        for verdict in verdicts:
            look = looks[verdict.variant]
            seeds, rates = verdict.noise["seeds"], verdict.noise.get("rates", 0.0)
            curve = [(k, detectable(seeds, k, len(verdicts), common=rates)) for k in range(3, most + 1)]
            axes.plot(*zip(*curve, strict=True), label=verdict.variant, linewidth=1.5, **look.line)
            now = [point for point in curve if point[0] == len(verdict.differences)]
            axes.plot([x for x, _ in now], [y for _, y in now], look.marker, color=look.color, markersize=7)
        for effect in {verdict.effect for verdict in verdicts if verdict.effect}:
            axes.axhline(effect, color=MUTED, linewidth=1, label="stated effect")
        axes.set_ylim(0, None)
        whole_steps(axes, f"paired seeds{results.at_size(size)}")
    return figure
