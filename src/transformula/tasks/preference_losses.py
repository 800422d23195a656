"""Losses of pairs of replies, of which one is preferred: by what a model, and a frozen reference, say of both.

    log P(y | x) = sum over the tokens of the reply y, its end included, of log P(token | all before)

    dpo     -log sigmoid(beta h),  h = [log P(w) - log P_ref(w)] - [log P(l) - log P_ref(l)]    Rafailov et al. 2023
    ipo     (h - 1 / (2 beta))^2,  with means over tokens in the place of sums                 Azar et al. 2023
    orpo    nll(w) - beta log sigmoid(log odds(w) - log odds(l)),  odds = p / (1 - p),  p = exp of the mean log P
                                                                                               Hong et al. 2024
    simpo   -log sigmoid(beta [mean log P(w) - mean log P(l)] - gamma)                         Meng et al. 2024
    sft     nll(w): supervised learning of the chosen reply alone

w is the chosen reply, l the rejected one, nll(w) the mean of -log P of the tokens of w. With label smoothing e each
-log sigmoid(z) of dpo and simpo is (1 - e) times itself plus e times -log sigmoid(-z): conservative DPO.

These are trl's conventions but for one: trl's ORPO learns the prompt too, and takes the mean over all tokens of a
batch; here nll(w) is of the reply, so that the loss of a pair does not depend on what stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError

MEANS = frozenset(["ipo", "orpo", "simpo"])  # losses of means over tokens; the others take sums
COMPARING = frozenset(["dpo", "ipo"])  # with a reference
BETAS = {"dpo": 0.1, "ipo": 0.1, "orpo": 0.1, "simpo": 2.0, "sft": 0.0}


class Said(NamedTuple):
    """What a model says of pairs.

    sums       (pairs, 2): log P of the chosen and of the rejected reply, of the model
    reference  (pairs, 2): the same of the frozen reference
    tokens     (pairs, 2): how many there are
    """

    sums: Tensor
    reference: Tensor
    tokens: Tensor

    @property
    def nll(self) -> Tensor:
        """(pairs,): the mean of -log P of the tokens of the chosen reply."""
        return -self.sums[:, 0] / self.tokens[:, 0]

    def margins(self, means: bool, compared: bool) -> Tensor:
        """(pairs,): by how much the chosen reply is more probable than the rejected one, in log P; beyond what it is
        to the reference, where these are `compared`."""
        log_p = self.sums - self.reference if compared else self.sums
        log_p = log_p / self.tokens if means else log_p
        return log_p[:, 0] - log_p[:, 1]


@dataclass(frozen=True)
class PairLoss:
    """A loss by its name, its numbers, and what the reference says of pairs.

    learned, held  (pairs, 2): log P_ref of the replies of training, and of validation; None: there is no reference
    """

    name: str
    options: LossOptions
    learned: np.ndarray | None = None
    held: np.ndarray | None = None

    @property
    def gains(self) -> bool:
        """Whether margins are what was gained since the reference, as the loss has them; else the model's own."""
        return self.held is not None and self.name not in ("orpo", "simpo")

    def before(self, log_probs: np.ndarray | None, rows: np.ndarray) -> Tensor:
        """(rows, 2) float64: what the reference says of some pairs; 0 where none is asked. Raises InputError where the
        loss asks for one that was not given."""
        if log_probs is None and self.name in COMPARING:
            raise InputError(f"{self.name} compares with a reference, and this task was not given one: call `refer`")
        return torch.from_numpy(np.zeros((len(rows), 2)) if log_probs is None else log_probs[rows])

    def each(self, said: Said) -> Tensor:
        """(pairs,): the loss of each pair."""
        return LOSSES[self.name](said, self.options)


class LossOptions(NamedTuple):
    """The numbers of a loss; see above."""

    beta: float
    gamma: float = 0.0
    smoothing: float = 0.0
    means: bool = False


def smoothed(z: Tensor, smoothing: float) -> Tensor:
    """-log sigmoid(z), with its label smoothed."""
    return -(1 - smoothing) * F.logsigmoid(z) - smoothing * F.logsigmoid(-z)


def dpo(said: Said, options: LossOptions) -> Tensor:
    """-log sigmoid(beta h)."""
    return smoothed(options.beta * said.margins(options.means, True), options.smoothing)


def ipo(said: Said, options: LossOptions) -> Tensor:
    """(h - 1 / (2 beta))^2."""
    return (said.margins(options.means, True) - 1 / (2 * options.beta)) ** 2


def simpo(said: Said, options: LossOptions) -> Tensor:
    """-log sigmoid(beta [mean log P(w) - mean log P(l)] - gamma)."""
    return smoothed(options.beta * said.margins(options.means, False) - options.gamma, options.smoothing)


def orpo(said: Said, options: LossOptions) -> Tensor:
    """nll(w) - beta log sigmoid(log odds(w) - log odds(l))."""
    means = said.sums / said.tokens
    log_odds = means - log_one_less(means)
    return said.nll - options.beta * F.logsigmoid(log_odds[:, 0] - log_odds[:, 1])


def sft(said: Said, options: LossOptions) -> Tensor:
    """nll(w)."""
    return said.nll


def log_one_less(log_p: Tensor) -> Tensor:
    """log(1 - exp(log_p)), finite for a log_p that rounding has made 0."""
    return torch.log(-torch.expm1(log_p.clamp(max=-1e-6)))


LOSSES: dict[str, Callable[[Said, LossOptions], Tensor]] = {
    "dpo": dpo, "ipo": ipo, "orpo": orpo, "simpo": simpo, "sft": sft,
}  # fmt: skip
"""By name: what a model says of pairs -> the loss of each, (pairs,)."""
