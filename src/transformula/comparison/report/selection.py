"""What a report picks from the results: sizes, arms, outcomes and verdicts by their keys, and words for the score."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import shortened
from ..records import Arm, Outcome, Results, Stage, Verdict

Key = tuple[str, str]  # (variant, size)


def names_of(results: Results) -> list[str]:
    """The variants, the base first."""
    return [results.base, *(variant.name for variant in results.variants if variant.name != results.base)]


def sizes_of(results: Results) -> list[str]:
    """The sizes, the smallest first."""
    flops: dict[str, float] = {}
    for arm in results.arms:
        flops[arm.size] = min(flops.get(arm.size, arm.costs.flops), arm.costs.flops)
    return sorted(flops, key=lambda size: flops[size])


def at_size(results: Results, size: str) -> str:
    """', small size', where there are several sizes."""
    return f", {size} size" if len(sizes_of(results)) > 1 else ""


def arms_of(results: Results) -> list[Arm]:
    """The arms, by size, and the base first."""
    known = {(arm.variant, arm.size): arm for arm in results.arms}
    keys = [(name, size) for size in sizes_of(results) for name in names_of(results)]
    return [known[key] for key in keys if key in known]


def arm_of(results: Results, variant: str, size: str) -> Arm | None:
    return next((arm for arm in results.arms if (arm.variant, arm.size) == (variant, size)), None)


def verdict_of(results: Results, variant: str, size: str) -> Verdict | None:
    return next((v for v in results.verdicts if (v.variant, v.size) == (variant, size)), None)


def verdicts_of(results: Results, size: str) -> list[Verdict]:
    """The verdicts at one size, in the order of the variants."""
    verdicts = [verdict_of(results, name, size) for name in names_of(results)]
    return [verdict for verdict in verdicts if verdict is not None]


def outcomes_of(results: Results, variant: str, size: str, stage: Stage = "confirm") -> list[Outcome]:
    """The outcomes of an arm at one stage, by seed."""
    chosen = [o for o in results.outcomes if (o.variant, o.size, o.stage) == (variant, size, stage)]
    return sorted(chosen, key=lambda outcome: (outcome.seed, outcome.lr))


def scores_of(results: Results, variant: str, size: str) -> dict[int, float]:
    """Seed -> score, of the runs that confirm an arm and reached their end."""
    return {o.seed: o.score for o in outcomes_of(results, variant, size) if o.score is not None}


def seeds_of(results: Results) -> list[int]:
    return sorted({outcome.seed for outcome in results.outcomes if outcome.stage == "confirm"})


def baselines_of(results: Results) -> dict[str, float]:
    """The score of simple models of the same data, the worst first."""
    known = next((outcome.baselines for outcome in results.outcomes if outcome.baselines), {})
    return dict(sorted(known.items(), key=lambda item: item[1], reverse=results.lower))


def score_in_words(results: Results) -> str:
    """'bits per byte', 'accuracy (%)'."""
    words = results.score.replace("_", " ")
    return words if results.unit in ("", words, results.score) else f"{words} ({results.unit})"


def unit_of(results: Results) -> str:
    """The unit of differences: 'bits per byte'; the score's name where it has no unit."""
    return results.unit or results.score.replace("_", " ")


def direction(results: Results) -> str:
    return "lower is better" if results.lower else "higher is better"


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def shortened_name(name: str, most: int = 28) -> str:
    """A variant's name where there is little room."""
    return shortened(" ".join(name.split()), most)
