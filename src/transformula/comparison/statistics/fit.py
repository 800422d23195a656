"""The loss over three sizes or more: L = E + A C^-a, with E and a shared by all variants and A of each its own.

Hoffmann et al. 2022 (2203.15556, appendix D.3) fit such a law by the Huber loss of log residuals, and so does this.
With a shared E and a, the base needs (A_base / A_v)^(1/a) times a variant's compute for its loss: one speed-up at all
sizes.
The intervals are the fit's deviation under resampling of the seeds, the same for all arms of a size, each without what
its learning rate may cost by one draw of `rates.py`, times t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ...extras import need
from ..records import Arm, Outcome
from .pairs import runs_of
from .power import LEVEL, PURPOSE
from .rates import fit_rates

HUBER = 1e-3  # log residuals above it count linearly
RESAMPLES = 200
MAX_LOG_AMPLITUDE = 20.0
STARTS = ((0.3, 0.1), (0.6, 0.3), (0.9, 0.5))  # (E as a share of the smallest loss, a)


@dataclass(frozen=True)
class ScalingFit:
    """The fitted law. FLOPs are those of a run; `flops`: the smallest and the largest that were run.

    speedups  by variant, in FLOPs at equal loss: (estimate, low, high)
    """

    floor: float
    exponent: tuple[float, float, float]
    amplitudes: Mapping[str, float]
    center: float  # FLOPs that C is counted in
    flops: tuple[float, float]
    speedups: Mapping[str, tuple[float, float, float]]

    def loss(self, variant: str, flops: float) -> float:
        """The law's loss. Raises InputError outside the sizes that were run: three sizes carry no extrapolation."""
        low, high = self.flops
        if not low <= flops <= high:
            raise InputError(
                f"{flops:.3g} FLOPs lie outside the sizes that were run, {low:.3g} to {high:.3g}; the fitted law holds"
                " between them only: run a size there"
            )
        return self.floor + self.amplitudes[variant] * math.pow(flops / self.center, -self.exponent[0])


def fit_scaling(outcomes: Sequence[Outcome], arms: Sequence[Arm], base: str) -> ScalingFit | None:
    """Fit losses of runs that confirm, of all variants that ended with two of the base's seeds at each of its sizes.
    None with fewer than three sizes, or fewer than two seeds that all of them have."""
    by_arm = {arm.arm_key: losses_of(outcomes, *arm.arm_key) for arm in arms}
    sizes = {arm.size for arm in arms if arm.variant == base}
    names = [
        name
        for name in dict.fromkeys([base, *(arm.variant for arm in arms)])
        if all(len(by_arm.get((name, size), {}).keys() & by_arm[base, size].keys()) > 1 for size in sizes)
    ]
    arms = [arm for arm in arms if arm.variant in names and arm.size in sizes]
    shared = {size: set.intersection(*({*by_arm[arm.arm_key]} for arm in arms if arm.size == size)) for size in sizes}
    fewest = min(map(len, shared.values()), default=0)
    if len(sizes) < 3 or fewest < 2:
        return None
    losses = [np.array([by_arm[arm.arm_key][seed] for seed in sorted(shared[arm.size])]) for arm in arms]
    owner = np.array([names.index(arm.variant) for arm in arms])
    flops = np.array([arm.costs.flops for arm in arms])
    center = float(np.exp(np.log(flops).mean()))
    place = np.log(flops / center)
    law = fit_law(np.array([each.mean() for each in losses]), place, owner)
    fits = fit_rates(outcomes, arms, lower=True)
    lost = np.array([fits[arm.size].lost(arm.variant, RESAMPLES) for arm in arms])
    draws = resampled(losses, lost, [arm.size for arm in arms], place, owner, law)
    t = float(need("scipy.stats", PURPOSE).t.ppf(1 - LEVEL / 2, fewest - 1)) * math.sqrt(fewest / (fewest - 1))
    half = t * float(draws[:, 1].std(ddof=1))
    gains, halves = log_speedups(law[None])[0], t * log_speedups(draws).std(axis=0, ddof=1)
    return ScalingFit(
        float(law[0]),
        (float(law[1]), float(law[1]) - half, float(law[1]) + half),
        {name: math.exp(value) for name, value in zip(names, law[2:], strict=True)},
        center,
        (float(flops.min()), float(flops.max())),
        {
            name: (math.exp(gain), math.exp(gain - wide), math.exp(gain + wide))
            for name, gain, wide in zip(names[1:], gains[1:], halves[1:], strict=True)
        },
    )


def losses_of(outcomes: Sequence[Outcome], variant: str, size: str) -> dict[int, float]:
    """By seed, of the runs that ended with a positive loss."""
    runs = runs_of(outcomes, variant, size).items()
    return {seed: run.score for seed, run in runs if run.status == "done" and run.score is not None and run.score > 0}


def fit_law(losses: np.ndarray, place: np.ndarray, owner: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """[E, a, log A of each variant] for mean losses at log costs; `owner`: whose each is. From `start`, or from three
    places, of which the best end counts."""
    own = np.eye(owner.max() + 1)[owner]
    top = 0.999 * losses.min()  # E lies below all losses

    def power(law: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(own @ law[2:] - law[1] * place))

    def residuals(law: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(law[0] + power(law)) - np.log(losses))

    def slopes(law: np.ndarray) -> np.ndarray:
        above = power(law)
        columns = np.column_stack([np.ones(len(place)), -place * above, own * above[:, None]])
        return np.asarray(columns / (law[0] + above)[:, None])

    if start is None:
        floors = [(share * losses.min(), a) for share, a in STARTS]
        starts = [np.array([e, a, *(np.log(losses - e) @ own / own.sum(axis=0))]) for e, a in floors]
    else:
        starts = [np.array([min(start[0], top), *start[1:]])]
    count = own.shape[1]
    bounds = ([0.0, 0.001, *[-MAX_LOG_AMPLITUDE] * count], [losses.min(), 3.0, *[MAX_LOG_AMPLITUDE] * count])
    solve = need("scipy.optimize", PURPOSE).least_squares
    fits = [solve(residuals, s, slopes, bounds, loss="huber", f_scale=HUBER, x_scale="jac") for s in starts]
    return np.asarray(min(fits, key=lambda one: one.cost).x)


def resampled(
    losses: Sequence[np.ndarray], lost: np.ndarray, sizes: Sequence[str], place: np.ndarray, owner: np.ndarray,
    fitted: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """(draws, parameters): fits to means over seeds drawn with replacement, the same seeds for all arms of a size, less
    what is `lost` (arms, draws) by the rates."""
    rng = np.random.default_rng(0)
    draws = []
    for draw in range(RESAMPLES):
        chosen = {size: rng.integers(len(x), size=len(x)) for size, x in zip(sizes, losses, strict=True)}
        means = np.array([x[chosen[size]].mean() for size, x in zip(sizes, losses, strict=True)])
        draws.append(fit_law(np.maximum(means - lost[:, draw], means / 2), place, owner, fitted))
    return np.array(draws)


def log_speedups(laws: np.ndarray) -> np.ndarray:
    """(laws, variants): log of (A_v / A_base)^(-1/a)."""
    return np.asarray((laws[:, 2:3] - laws[:, 2:]) / laws[:, 1:2])
