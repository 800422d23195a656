"""Whether probabilities mean what they say: of all that is said with 0.8, 80 % should be right.

The expected calibration error (Naeini et al. 2015, Guo et al. 2017) parts what is said by its confidence into 15 bins
of equal width, (0, 1/15], (1/15, 2/15], ...:

    error = sum over bins of rows in it / all rows * |accuracy in it - mean confidence in it|

The Brier score (1950) is the mean over rows of sum over labels of (p - y)^2, with y = 1 for right labels and 0 for the
others: from 0 to 2 for one label a row. Of both, lower is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cost.words import table
from ...errors import InputError
from ...figure import FAINT, INK, SERIES, new_figure, svg_of
from .measured import Measured, Numbers, ReportPart, check_as_many, mean_of, of_sums, ratio
from .selective import risk_coverage, threshold_for

BINS = 15
ACCURACIES = (0.9, 0.95, 0.99)  # of which is said from which confidence on they are reached
BAR_CHARACTERS = 30  # characters of a bar


@dataclass(frozen=True)
class Calibration(ReportPart):
    """confidence  (decisions,): the probability of what was decided
    right       (decisions,): whether it was right
    error       the expected calibration error, from 0 to 100
    brier       the Brier score; None where the probabilities of what was not decided are not known"""

    confidence: Numbers
    right: NDArray[np.bool_]
    error: Measured
    brier: Measured | None = None

    name = "calibration"

    @cached_property
    def bins(self) -> Numbers:
        """(15, 3): of each bin how many decisions it has, their mean confidence and their accuracy, 0 where none."""
        numbers = bin_of(self.confidence)
        each = np.stack([np.ones_like(self.confidence), self.confidence, self.right])
        sums: list[Numbers] = [np.bincount(numbers, weights, minlength=BINS).astype(np.float64) for weights in each]
        counts, confidences, rights = sums
        return np.stack([counts, ratio(confidences, counts), ratio(rights, counts)], axis=1)

    @property
    def data(self) -> dict[str, Any]:
        """{"expected_calibration_error": ..., "brier_score": ..., "bins": [{"rows": ..., "confidence": ..., "accuracy":
        ...}, ...]}: the error and the accuracies from 0 to 1, bins without rows left out."""
        filled = [each for each in self.bins.tolist() if each[0]]
        return {
            "expected_calibration_error": self.error.score / 100,
            **({} if self.brier is None else {"brier_score": self.brier.score}),
            "bins": [{"rows": int(rows), "confidence": mean, "accuracy": right} for rows, mean, right in filled],
        }

    def __str__(self) -> str:
        rows = [["confidence", "rows", "right", ""]]
        for number, (count, mean, right) in enumerate(self.bins.tolist()):
            if count:
                bar = ("#" * round(BAR_CHARACTERS * right)).ljust(BAR_CHARACTERS + 1)
                place = round(BAR_CHARACTERS * mean)
                ends = f"{number / BINS:.2f}-{(number + 1) / BINS:.2f}"
                rows.append([ends, f"{count:,.0f}", f"{100 * right:.1f} %", f"{bar[:place]}|{bar[place + 1 :]}"])
        head = f"calibration: expected error {self.error.score:.1f} % ({BINS} bins)"
        if self.brier is not None:
            head += f", Brier score {self.brier.score:.3f}"
        return "\n".join([head, *table(rows), "# is what was right, | where it should end", *self.selective])

    @property
    def selective(self) -> list[str]:
        """From which confidence on some accuracies above that of all are reached, and on what share of all."""
        curve, lines = risk_coverage(self.confidence, self.right), []
        for accuracy in ACCURACIES:
            point = threshold_for(curve, accuracy)
            if point is not None and point.rows < len(self.right):
                share = 100 * point.rows / len(self.right)
                reached = f"accuracy {100 * accuracy:.0f} % from confidence {point.threshold:.3f} on"
                lines.append(f"{reached}: {share:.1f} % of them")
        return lines

    @property
    def svg(self) -> str:
        """The reliability diagram: accuracy against confidence, the diagonal where both are equal, and in gray how the
        decisions spread over the bins."""
        with new_figure(4.4, 4.0) as (figure, axes):
            filled = self.bins[self.bins[:, 0] > 0]
            edges = np.arange(BINS) / BINS
            share = self.bins[:, 0] / len(self.right)
            axes.bar(edges, share, width=1 / BINS, align="edge", color=FAINT, label="share of rows")
            axes.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=INK, label="as it should be")
            axes.plot(filled[:, 1], filled[:, 2], marker="o", markersize=4, color=SERIES[0], label="model")
            axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
            axes.set_title(f"expected calibration error {self.error.score:.1f} %", fontsize=9, loc="left")
            axes.legend(frameon=False, loc="upper left", fontsize=9)
        return svg_of(figure)


def bin_of(confidence: Numbers) -> NDArray[np.int64]:
    return np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)


def calibration(probabilities: Numbers, right: Sequence[int] | NDArray[Any]) -> Calibration:
    """How far probabilities can be trusted.

    probabilities  (rows, labels), from 0 to 1
    right          (rows,): the number of each row's label; a row's decision is its most probable label. Of several
                   labels a row, (rows, labels): 1 for those of the row; each label is a decision, yes from 0.5 on

    Raises InputError.
    """
    each, chosen = np.asarray(probabilities, dtype=np.float64), np.asarray(right)
    check_as_many(each, chosen)
    if each.ndim != 2 or not ((each >= 0) & (each <= 1 + 1e-6)).all():
        raise InputError("probabilities have the shape (rows, labels) and lie from 0 to 1")
    if chosen.ndim == 1:
        truth = chosen[:, None] == np.arange(each.shape[1])
        confidence, correct = each.max(axis=1, keepdims=True), (each.argmax(axis=1) == chosen)[:, None]
    else:
        truth = chosen.astype(bool)
        confidence, correct = np.maximum(each, 1 - each), (each >= 0.5) == truth
    squares = ((each - truth) ** 2).sum(axis=1)
    brier = mean_of("Brier score", f"labels:{each.shape[1]}|sum", squares, digits=3, higher=False)
    return replace(decision_calibration(confidence.tolist(), correct.tolist()), brier=brier)


def decision_calibration(confidence: Sequence[Sequence[float]], right: Sequence[Sequence[bool]]) -> Calibration:
    """The same of rows of several decisions, such as the tags of a sentence, by the probability of each decision and
    whether it is right. Raises InputError."""
    check_as_many(confidence, right)
    rows = np.repeat(np.arange(len(confidence)), [len(each) for each in confidence])
    sure, correct = np.array([p for row in confidence for p in row]), np.array([each for row in right for each in row])
    if sure.shape != correct.shape:
        raise InputError(f"{len(sure):,} decisions, but {len(correct):,} that are right or wrong")
    statistics = np.zeros((len(confidence), BINS + 1))
    np.add.at(statistics, (rows, bin_of(sure)), sure - correct)
    statistics[:, BINS] = [len(each) for each in confidence]
    error = of_sums(
        "calibration error",
        f"bins:{BINS}|width:equal",
        statistics,
        lambda sums: 100 * ratio(np.abs(sums[:, :BINS]).sum(axis=1), sums[:, BINS]),
        100 * ratio(np.abs(statistics[:, :BINS]).sum(axis=1), statistics[:, BINS]),
        higher=False,
    )
    return Calibration(sure, correct, error)
