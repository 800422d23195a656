"""Scores with their intervals, the trivial baselines beside them, and how each was computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .bleu import bleu
from .bootstrap import Interval, interval
from .chrf import chrf
from .exact import exact_match
from .measured import Measured, References
from .rouge import rouge

Measure = Callable[..., Iterable[Measured]]
"""Predictions and references (and options by name) -> scores, the main one first."""


def translation(predictions: Sequence[str], references: References) -> list[Measured]:
    """BLEU, cased; the same lower-cased, as older papers print it; chrF."""
    return [bleu(predictions, references), bleu(predictions, references, lowercase=True), chrf(predictions, references)]


def summarization(predictions: Sequence[str], references: References, stem: bool = False) -> list[Measured]:
    """ROUGE-1, -2 and -L; see `rouge`."""
    return list(rouge(predictions, references, stem=stem).values())


def captioning(predictions: Sequence[str], references: References) -> list[Measured]:
    """BLEU, cased, and exact match."""
    return [bleu(predictions, references), exact_match(predictions, references)]


def algorithmic(predictions: Sequence[str], references: References) -> list[Measured]:
    """Exact match."""
    return [exact_match(predictions, references)]


@dataclass(frozen=True)
class ScoreRow:
    """One score: the system's, its interval, and those of the baselines by name."""

    name: str
    score: float
    interval: Interval
    baselines: dict[str, float]
    signature: str

    @property
    def above(self) -> bool:
        """Whether the score is above every baseline's."""
        return all(self.score > value for value in self.baselines.values())


@dataclass(frozen=True)
class ScoreReport:
    """What was found. Its `repr` is the table, `data` is for programs, `measured` for bootstraps and examples."""

    rows: list[ScoreRow]
    measured: list[Measured]
    examples: int

    @property
    def data(self) -> dict[str, Any]:
        """{"examples": 1000, "scores": {"BLEU": {"score": ..., "interval": [low, high], "baselines": {...}, ...}}}."""
        return {
            "examples": self.examples,
            "scores": {
                row.name: {
                    "score": row.score,
                    "interval": [row.interval.low, row.interval.high],
                    "level": row.interval.level,
                    "baselines": dict(row.baselines),
                    "signature": row.signature,
                }
                for row in self.rows
            },
        }

    def __repr__(self) -> str:
        level = self.rows[0].interval.level
        names = list(self.rows[0].baselines)
        table = [["", "score", f"{100 * level:.0f} % interval", *names]]
        table += [
            [row.name, f"{row.score:.1f}", str(row.interval), *(f"{row.baselines[name]:.1f}" for name in names)]
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
        lines = [
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in table
        ]
        lines += [
            f"{row.name} is not above {', '.join(n for n, v in row.baselines.items() if row.score <= v)}: no result"
            for row in self.rows
            if not row.above
        ]
        lines += [f"{row.name}: {row.signature}" for row in self.rows]
        return "\n".join([*lines, f"{self.examples:,} examples"])


def report(
    measure: Measure,
    predictions: Sequence[str],
    references: References,
    baselines: Mapping[str, Sequence[str]] | None = None,
    *,
    resamples: int = 1000,
    seed: int = 1,
) -> ScoreReport:
    """Score predictions, and beside them what each baseline predicts: {"copy": [...], "constant": [...]}.

    `measure` is one of `translation`, `summarization`, `captioning`, `algorithmic`, or a function like them.

    Raises InputError, MissingExtra.
    """
    found = list(measure(predictions, references))
    beside: dict[str, dict[str, float]] = {measured.name: {} for measured in found}
    for name, texts in (baselines or {}).items():
        for measured in measure(texts, references):
            beside[measured.name][name] = measured.score
    rows = [
        ScoreRow(m.name, m.score, interval(m, resamples=resamples, seed=seed), beside[m.name], m.signature)
        for m in found
    ]
    return ScoreReport(rows, found, len(predictions))
