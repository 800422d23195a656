"""The table of verdicts, and the numbers behind it."""

from __future__ import annotations

from statistics import mean

from ....errors import join_words
from ...numbers import NOTHING, between, fixed, probability
from ...records import Arm, Results, Verdict
from ..document import Cell, Item, Mark, Paragraph, ReportSection, ReportTable, section
from ..numbers import amount, digits_of, interval_cell, number_cell, rate_in_words
from ..tables import arm_table

LEGEND = (
    "Difference: variant minus base, the mean over pairs of runs with the same seed. p: of the paired t-test, corrected"
    " by Holm for the number of variants; sign-flip: an exact test that assumes no distribution, and in brackets the"
    " smallest p that it can reach with so many seeds. Rate sensitivity: how much the score changes over the learning"
    " rates that were tried."
)
MARKS: dict[str, Mark] = {"better": "good", "worse": "bad", "unstable": "bad", "inconclusive": "open"}


@section(30)
def verdicts(results: Results) -> ReportSection | None:
    if not results.arms:
        return None
    brief = ["variant", "size", results.score_in_words, "difference", "95 % interval", "verdict", "p (Holm)"]
    brief.append("diverged")
    others = ["p (sign-flip)", "best rate", "rate sensitivity", "speed-up, FLOPs", "speed-up, time", "parameters"]
    known = {verdict.arm_key: verdict for verdict in results.verdicts}
    rows = [row(results, arm, known.get(arm.arm_key)) for arm in results.arms]
    items: list[Item] = [arm_table(results, [*brief, *others], rows, terminal=brief)]
    items.append(Paragraph(legend(results)))
    baselines = [f"{name} {fixed(value, digits_of(results))}" for name, value in results.baselines.items()]
    if baselines:
        items.append(Paragraph(f"For scale, simple models of the same data: {join_words(baselines, 'and')}."))
    for size in results.sizes:
        spoken = [verdict.sentence for verdict in results.verdicts_of(size)]
        items += [Paragraph(" ".join(spoken))] if spoken else []
    if results.verdicts:
        items.append(statistics(results))
    return ReportSection("Verdicts", items)


def legend(results: Results) -> str:
    """What the columns mean."""
    text = f"{results.score_in_words}: the mean over the runs that reached their end; {results.direction}. {LEGEND}"
    if any(verdict.speedup for verdict in results.verdicts):
        text += " Speed-up: how much less the variant needs for the score of the base, with its 95 % interval."
    return text[:1].upper() + text[1:]


def row(results: Results, arm: Arm, verdict: Verdict | None) -> list[Cell]:
    key, digits = arm.arm_key, digits_of(results)
    scores, lost = [*results.scores_of(*key).values()], lost_of(results, arm, verdict)
    interval, p, flip = (verdict.interval, verdict.p_holm, verdict.sign_flip) if verdict else (None, None, None)
    rate, sensitivity = results.rates.get(key), results.sensitivity.get(key)
    return [
        *map(Cell, arm.arm_key),
        number_cell(mean(scores) if scores else None, digits),
        number_cell(verdict.mean if verdict else None, digits, sign=True),
        interval_cell(interval, digits),
        word_cell(results, arm, verdict),
        Cell(probability(p), p),
        Cell(f"{lost} of {len(results.outcomes_of(*key))}", lost, "bad" if lost else ""),
        Cell(f"{probability(flip[0])} ({probability(flip[1])})", flip[0]) if flip else Cell(NOTHING),
        Cell(rate_in_words(rate), rate),
        number_cell(sensitivity, digits),
        *(speedup(verdict, what) for what in ("flops", "seconds")),
        Cell(amount(arm.costs.parameters), arm.costs.parameters),
    ]


def lost_of(results: Results, arm: Arm, verdict: Verdict | None) -> int:
    """How many runs diverged as the verdicts count them: by a loss far above the base's, too."""
    if verdict is not None:
        return verdict.diverged[0]
    beside = results.verdicts_of(arm.size) if arm.variant == results.base else []
    if beside:
        return beside[0].base_diverged[0]
    return sum(outcome.status == "diverged" for outcome in results.outcomes_of(arm.variant, arm.size))


def word_cell(results: Results, arm: Arm, verdict: Verdict | None) -> Cell:
    if verdict is None:
        return Cell("base" if arm.variant == results.base else "no verdict")
    early = f" (first {verdict.early:,} steps)" if verdict.early else ""
    return Cell(word_of(verdict, digits_of(results)) + early, verdict.word, MARKS.get(verdict.word, ""))


def word_of(verdict: Verdict, digits: int) -> str:
    """The verdict as the protocol words it: 'inconclusive: needs about 14 seeds'."""
    if verdict.stopped:
        return f"inconclusive: not run, fails {verdict.stopped.split(',')[0]}"
    if verdict.word == "inconclusive" and verdict.needed:
        return f"inconclusive: needs about {verdict.needed} seeds"
    if verdict.word == "equivalent" and verdict.effect is not None:
        return f"equivalent within {fixed(verdict.effect, digits)}"
    if verdict.word == "no difference found" and verdict.interval is not None:
        return f"no difference larger than {fixed(max(map(abs, verdict.interval)), digits)} found"
    return verdict.word


def speedup(verdict: Verdict | None, what: str) -> Cell:
    if verdict is None or what not in verdict.speedup:
        return Cell(NOTHING)
    estimate, low, high = verdict.speedup[what]
    return Cell(f"{fixed(estimate, 2)} ({between((low, high), 2)})", estimate)


def statistics(results: Results) -> ReportTable:
    """What stands behind the verdicts."""
    columns = ["variant", "size", "pairs", "p, uncorrected", "BCa interval", "p of equivalence", "stated effect"]
    columns += ["noise of seeds", "noise of evaluation", "noise of rates"]
    columns += [f"detectable ({results.unit_of_differences})", "seeds needed"]
    digits = digits_of(results)
    rows = [
        [
            *map(Cell, verdict.arm_key),
            number_cell(len(verdict.differences), 0),
            Cell(probability(verdict.p), verdict.p),
            interval_cell(verdict.bca, digits),
            Cell(probability(verdict.equivalence), verdict.equivalence),
            number_cell(verdict.effect, digits),
            *(number_cell(verdict.noise.get(kind), digits) for kind in ("seeds", "evaluation", "rates")),
            number_cell(verdict.detectable, digits),
            number_cell(verdict.needed, 0),
        ]
        for size in results.sizes
        for verdict in results.verdicts_of(size)
    ]
    return arm_table(results, columns, rows)
