"""Five lines of plain language: what was found, how sure it is, what may be claimed, what may not, what is surer."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ....errors import join_words
from ...numbers import SMALLEST_P, between, fixed, probability
from ...records import Results, Verdict
from ...statistics.wording import divergences
from ..document import Paragraph, ReportSection, section
from ..numbers import digits_of


@section(10)
def plain_words(results: Results) -> ReportSection | None:
    lines = {
        "Found": what_was_found(results),
        "How sure": how_sure(results),
        "May be claimed": may_be_claimed(results),
        "May not be claimed": may_not_be_claimed(results),
        "To be surer": to_be_surer(results),
    }
    return ReportSection("In plain words", [Paragraph(text, label, brief=True) for label, text in lines.items()])


def headline(results: Results) -> list[Verdict]:
    """The verdicts at the largest size that has any."""
    return next((v for size in reversed(results.sizes) if (v := results.verdicts_of(size))), [])


def what_was_found(results: Results) -> str:
    verdicts = headline(results)
    if not verdicts:
        return "Nothing yet: no variant has a verdict."
    several = len(results.sizes) > 1
    place = f", at the {verdicts[0].size} size" if several else ""
    digits = digits_of(results)
    findings = "; ".join(finding_in_brief(verdict, digits) for verdict in verdicts)
    text = f"Beside {results.base}, in {results.unit_of_differences} ({results.direction}){place}: {findings}."
    lost, runs = verdicts[0].base_diverged
    if lost and not any(verdict.word == "unstable" for verdict in verdicts):
        text += f" Of {results.base} itself, {lost} of {runs} runs diverged."
    text += below_baselines(results, verdicts[0].size)
    for size in results.sizes[:-1] if several else []:
        text += " " + other_size(verdicts, results.verdicts_of(size), size)
    return text


def below_baselines(results: Results, size: str) -> str:
    """Which variants learned so little that a model as simple as the worst baseline has the better score."""
    if not results.baselines:
        return ""
    name, value = next(iter(results.baselines.items()))
    sign = 1 if results.lower else -1
    scores = {variant: results.scores_of(variant, size).values() for variant in results.names}
    behind = [variant for variant, own in scores.items() if own and all(sign * (s - value) > 0 for s in own)]
    if not behind or len(behind) == len(scores):
        return ""
    reached = f"the {name}, a simple model ({fixed(value, digits_of(results))})"
    return f" {join_words(behind, 'and')} did not come up to {reached}, in any run."


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
    tuned = f"the learning rate tuned for each variant ({len(rates)} rates)" if rates else "no learning rate tuned"
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


def may_be_claimed(results: Results) -> str:
    said = list(dict.fromkeys(verdict.may for verdict in headline(results) if verdict.may))
    shared = os.path.commonprefix(said)
    start = shared.rfind(", ") + 2 if len(said) > 1 and ", " in shared else 0
    if start:  # what holds of all of them is said once
        return f"{shared[: start - 2]}: {'; '.join(text[start:].rstrip('.') for text in said)}."
    return " ".join(said) or "Nothing: no difference is decided."


def may_not_be_claimed(results: Results) -> str:
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
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences)


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
            f"more seeds for differences below {fixed(max(found_from), digits)}, which {pairs} would often miss"
        )
    if len(results.sizes) < 2:
        steps.append("a second size, since the order of variants changes with size")
    steps.append("other data" if steps else "larger sizes and other data")
    return f"It would take {'; '.join(steps)}."
