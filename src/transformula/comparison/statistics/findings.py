"""What a comparison found beside its verdicts, in sentences: effects of a grid of settings, and the law over sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ..numbers import between, decimals, equation_of_p
from ..records import Arm, Outcome, Variant
from .factorial import Effect, effects
from .fit import fit_scaling
from .wording import amount


def further_findings(
    variants: Sequence[Variant], arms: Sequence[Arm], outcomes: Sequence[Outcome], base: str, unit: str, lower: bool
) -> list[str]:
    """Sentences on a grid of two settings or more, at the largest size, and on three sizes or more; else none."""
    grid = [variant for variant in variants if variant.levels]
    size = max(arms, key=lambda arm: arm.costs.flops).size
    of_effects = [sentence(effect, unit) for effect in effects(grid, outcomes, size)] if len(grid) > 1 else []
    return [*of_effects, *(law(outcomes, arms, base) if lower else [])]


def sentence(effect: Effect, unit: str) -> str:
    """norm=layer: +0.030 bits per byte, 95 % interval 0.021 to 0.039, p = 0.002 after Holm's correction"""
    levels = [f"{name}={level}" for name, level in effect.levels.items()]
    name = " with ".join(levels) + (", beyond what each adds" if len(levels) > 1 else ", over all other settings")
    estimate = effect.estimate
    if estimate is None or estimate.mean is None or estimate.interval is None or effect.p_holm is None:
        return f"{name}: not told apart by the runs that were made"
    places = decimals(estimate.interval, estimate.mean)
    change = amount(estimate.mean, places, unit, signed=True)
    p = f"{equation_of_p(effect.p_holm)} after Holm's correction"
    return f"{name}: {change}, 95 % interval {between(estimate.interval, places)}, {p}"


def law(outcomes: Sequence[Outcome], arms: Sequence[Arm], base: str) -> list[str]:
    """The fit over three sizes or more, and each variant's speed-up by it."""
    fit = fit_scaling(outcomes, arms, base)
    if fit is None:
        return []
    exponent, low, high = fit.exponent
    text = f"over all sizes the loss is {fit.floor:.3g} + A FLOPs^-{exponent:.2g}, 95 % interval of the exponent"
    return [
        f"{text} {low:.2g} to {high:.2g}; it holds between the sizes that were run",
        *(
            f"{name}: over all sizes the base needs {speedup:.2f} times its FLOPs for the same loss, 95 % interval"
            f" {start:.2f} to {end:.2f}"
            for name, (speedup, start, end) in fit.speedups.items()
        ),
    ]
