"""Five lines of plain language: what was found, how sure it is, what may be claimed, what may not, what is surer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from statistics import fmean

from ....errors import join_words
from ....tasks.scores.bar import bar_of, passes
from ...numbers import SMALLEST_P, between, fixed, probability
from ...records import Results, Verdict, in_numbers
from ...statistics.learning import unlearned
from ...statistics.wording import divergences
from ..document import Paragraph, ReportSection, section
from ..numbers import digits_of

Said = list[str]  # a line, and the points of a list below it


@section(10)
def plain_words(results: Results) -> ReportSection | None:
    lines = {
        "First of all": [lead_of(results)],
        "Found": what_was_found(results),
        "How sure": [how_sure(results)],
        "May be claimed": may_be_claimed(results),
        "May not be claimed": may_not_be_claimed(results),
        "To be surer": [to_be_surer(results)],
    }
    items = [Paragraph(text, label, True, points) for label, (text, *points) in lines.items() if text]
    return ReportSection("In plain words", items)


def lead_of(results: Results) -> str:
    """That nothing was learned, where the base is no better than the simplest model of its data at the size whose
    verdicts are claimed; else ""."""
    size = verdicts[0].size if (verdicts := headline(results)) else results.sizes[-1]
    early = unlearned(results.outcomes, results.arms_by_key.get((results.base, size)), results.lower)
    if early is None:
        return ""
    digits = digits_of(results)
    means = {name: fmean(scores.values()) for name in results.names if (scores := results.scores_of(name, size))}
    past = [f"{n} ({fixed(mean, digits)})" for n, mean in means.items() if passes(mean, early.bar, results.lower)]
    own = [not passes(score, early.bar, results.lower) for score in results.scores_of(results.base, size).values()]
    who = f"{results.base}, the base, learned nothing" if past or not all(own) else "Nothing was learned"
    who = who if all(own) else f"In {sum(own)} of {len(own)} runs and in the mean {who}"
    text = f"{who} that {early.model} does not know: this comparison says only how fast the first steps go. After"
    text += f" {early.steps:,} steps {results.base} reaches {fixed(early.mean, digits)}, and the {early.name} of the"
    text += f" same data {fixed(early.bar, digits)} {results.unit_of_differences} ({results.direction})."
    return text + (f" Beyond that came {join_words(past, 'and')}." if past else "")


def headline(results: Results) -> list[Verdict]:
    """The verdicts at the largest size that has any."""
    return next((v for size in reversed(results.sizes) if (v := results.verdicts_of(size))), [])


def what_was_found(results: Results) -> Said:
    verdicts = headline(results)
    if not verdicts:
        return ["Nothing yet: no variant has a verdict."]
    several = len(results.sizes) > 1
    place = f", at the {verdicts[0].size} size" if several else ""
    tested = next((verdict for verdict in verdicts if verdict.p is not None), verdicts[0])
    early = f"In the first {tested.early:,} steps, beside" if tested.early else "Beside"
    start = f"{early} {results.base}, in {results.unit_of_differences} ({results.direction}){place}:"
    digits = digits_of(results)
    more = []
    lost, runs = tested.base_diverged
    if lost and not any(verdict.word == "unstable" for verdict in verdicts):
        more.append(f"Of {results.base} itself, {lost} of {runs} runs diverged.")
    more += below_baselines(results, verdicts[0].size)
    more += [other_size(verdicts, results.verdicts_of(size), size) for size in (results.sizes[:-1] if several else [])]
    changed = {audit.variant: audit.names for audit in results.audit if len(audit.names) > 1}
    also = {name: f"; it differs in {in_numbers(names)}" for name, names in changed.items()}
    return listed(start, [f"{finding_in_brief(v, digits)}{also.get(v.variant, '')}." for v in verdicts], more)


def listed(start: str, points: Sequence[str], more: Sequence[str] = ()) -> Said:
    """A line for one point, with what else there is to say; for several a list below the line."""
    return [" ".join([start, *points, *more])] if len(points) < 2 else [start, *points, *more]


def below_baselines(results: Results, size: str) -> list[str]:
    """Which variants learned so little that the simplest model has the better score, where the base learned more."""
    bar, base = bar_of(results.baselines, results.lower), results.arms_by_key.get((results.base, size))
    if bar is None or unlearned(results.outcomes, base, results.lower):
        return []
    scores = {variant: results.scores_of(variant, size).values() for variant in results.names}
    behind = [v for v, own in scores.items() if own and not any(passes(s, bar[1], results.lower) for s in own)]
    reached = f"the {bar[0]}, a simple model ({fixed(bar[1], digits_of(results))})"
    return [f"{join_words(behind, 'and')} did not come up to {reached}, in any run."] if behind else []


def finding_in_brief(verdict: Verdict, digits: int) -> str:
    """'rezero is better by 0.015 (95 % interval 0.011 to 0.018)'."""
    interval = f"95 % interval {between(verdict.interval, digits, sign=True)}" if verdict.interval else ""
    if verdict.word in ("better", "worse") and verdict.mean is not None and verdict.interval:
        ends = sorted(map(abs, verdict.interval))
        by = f"{fixed(abs(verdict.mean), digits)} (95 % interval {between(ends, digits)})"
        return f"{verdict.variant} is {verdict.word} by {by}"
    if verdict.word in ("better", "worse", "unstable"):
        return f"{verdict.variant} is {verdict.word} ({divergences(verdict)})"
    if verdict.word == "equivalent":
        effect = "the stated effect" if verdict.effect is None else fixed(verdict.effect, digits)
        return f"{verdict.variant} is equivalent within {effect} ({interval})"
    if verdict.word == "the same":
        return f"{verdict.variant} is the same as {verdict.base}"
    if verdict.word == "no difference found":
        return f"no difference of {verdict.variant} was found ({interval})"
    if verdict.stopped:
        return f"{verdict.variant} was not run (it fails {verdict.stopped})"
    lost, runs = verdict.diverged
    why = interval or (f"{lost} of {runs} runs diverged" if lost else "")
    return f"{verdict.variant} is not decided" + (f" ({why})" if why else "")


def other_size(here: Iterable[Verdict], there: list[Verdict], size: str) -> str:
    """Whether another size says the same."""
    words = {verdict.variant: verdict.word for verdict in here}
    apart = [v for v in there if v.word != words.get(v.variant)]
    if not there:
        return f"The {size} size has no verdict."
    if not apart:
        return f"The {size} size says the same."
    kinds = {"inconclusive": "not decided", "no difference found": "not found to differ"}
    return f"At the {size} size {join_words([f'{v.variant} is {kinds.get(v.word, v.word)}' for v in apart], 'and')}."


def how_sure(results: Results) -> str:
    verdicts, pairs = headline(results), len(results.seeds)
    if not pairs:
        return "No run that confirms has ended."
    rates = {o.lr for o in results.outcomes_of(results.base, verdicts[0].size, "tune")} if verdicts else set()
    tuned = f"the learning rate tuned for all variants ({len(rates)} rates)" if rates else "no learning rate tuned"
    if results.settings.get("lr", "tune") != "tune":
        tuned = "the learning rate not tuned for each variant"
    text = f"{pairs} {'pair' if pairs == 1 else 'pairs'} of runs a variant, {tuned}."
    text += " With so few seeds this is an indication only." if pairs <= 3 else ""
    decided = [v for v in verdicts if v.word in ("better", "worse") and v.p_holm is not None]
    if decided:
        largest = max(v.p_holm or 0.0 for v in decided)
        p = probability(largest, "below ") if largest < SMALLEST_P else f"of {probability(largest)} at most"
        text += f" What is called better or worse has p {p} after Holm's correction"
        flips = [v.sign_flip[1] for v in decided if v.sign_flip]
        text += f"; the exact test of so many pairs cannot say less than {probability(max(flips))}." if flips else "."
    failed = sorted({f"{gate.variant} ({gate.name})" for gate in results.gates if gate.passed is False})
    return text + (f" Checks before the runs failed: {', '.join(failed)}." if failed else "")


def may_be_claimed(results: Results) -> Said:
    said = list(dict.fromkeys(verdict.may for verdict in headline(results) if verdict.may))
    if len(said) < 2:
        return said or ["Nothing: no difference is decided."]
    shared = os.path.commonprefix(said)
    start = shared.rfind(", ") + 2 if ", " in shared else 0  # what holds of all of them is said once
    return listed(f"{shared[: start - 2]}:" if start else "Each by itself:", [text[start:] for text in said])


def may_not_be_claimed(results: Results) -> Said:
    """What holds of all variants once, then what holds of some."""
    verdicts = [verdict for verdict in headline(results) if not verdict.stopped]
    who: dict[str, list[str]] = {}  # part of a sentence -> the variants of which it may not be claimed
    for verdict in verdicts:
        parts = verdict.may_not.removeprefix("That ").rstrip(".").split("; that ") if verdict.may_not else []
        for part in parts:
            who.setdefault(part, []).append(verdict.variant)
    said: dict[str, list[str]] = {}
    for part, names in sorted(who.items(), key=lambda item: -len(item[1])):
        start = "" if len(names) == len(verdicts) else f"of {join_words(names, 'and')}: "
        said.setdefault(start, []).append(f"that {part}")
    sentences = [start + "; ".join(parts) for start, parts in said.items()]
    sentences.append("anything of far larger models or of other data")
    first, *others = (f"{text[:1].upper()}{text[1:]}." for text in sentences)
    return listed("Any of these:", [first, *others]) if said and "" not in said else listed(first, others)


def to_be_surer(results: Results) -> str:
    verdicts, pairs = headline(results), len(results.seeds)
    undecided = [verdict for verdict in verdicts if verdict.word == "inconclusive" and not verdict.stopped]
    lost = [v.variant for v in undecided if 0 < v.diverged[0] == v.diverged[1]]
    needs = [
        f"{v.variant} {f'about {v.needed}' if v.needed else 'more'} seeds" for v in undecided if v.variant not in lost
    ]
    steps = [f"{join_words(needs, 'and')} (now {pairs})"] if needs else []
    steps += [f"settings with which runs of {join_words(lost, 'and')} end"] if lost else []
    steps += [f"{verdict.variant} mended, so that it passes its checks" for verdict in verdicts if verdict.stopped]
    found_from = [v.detectable for v in verdicts if v.detectable is not None]
    if found_from and not undecided:
        digits = digits_of(results)
        steps.append(
            f"more seeds for differences below {fixed(min(found_from), digits)}, which {pairs} would often miss"
        )
    if len(results.sizes) < 2:
        steps.append("a second size, since the order of variants changes with size")
    steps.append("other data" if steps else "larger sizes and other data")
    return f"It would take {'; '.join(steps)}."
