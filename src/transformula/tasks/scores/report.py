"""Scores with their intervals and the trivial baselines beside them, and the best and the worst predictions.

Intervals are those of a bootstrap (Koehn 2004, "Statistical significance tests for machine translation"). A resample
draws as many examples as there are, with replacement. Its score needs only how often each example was drawn.
"""

from __future__ import annotations

import math
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ...cost.words import table
from .measured import Measured, Numbers, ReportPart

INTERVAL_LEVEL = 0.95  # in an interval lies the score of so large a part of the resamples, the middle ones
AT_ONCE = 1 << 22  # counts of a bootstrap held at one time: 32 MiB
SHOWN_EXAMPLES = 10  # of the best ones, and of the worst
EXAMPLE_COLUMNS = 100  # columns of a line of an example


def resample(measured: Measured, resamples: int = 1000, seed: int = 1) -> Numbers:
    """The scores of resamples, (resamples,). Which examples each draws follows from the seed and their number."""
    examples = len(measured)
    generator = np.random.default_rng(seed)
    scores = []
    for start in range(0, resamples, step := max(1, AT_ONCE // examples)):
        drawn = generator.integers(examples, size=(min(step, resamples - start), examples))
        counts = np.stack([np.bincount(row, minlength=examples) for row in drawn])
        scores.append(measured.value(counts.astype(np.float64)))
    return np.concatenate(scores)


def interval_of(resampled: Sequence[float] | Numbers) -> tuple[float, float] | tuple[()]:
    """The ends of the middle INTERVAL_LEVEL of the scores of resamples; nothing where all score alike, as with 4 right
    answers of 4: that says nothing of other examples."""
    low, high = np.quantile(np.asarray(resampled), [(1 - INTERVAL_LEVEL) / 2, (1 + INTERVAL_LEVEL) / 2])
    return (float(low), float(high)) if low < high else ()


class Report(ABC):
    """What an evaluation found: its `repr` is for people, `.data` for programs, `.written` what the model wrote,
    `.parts` what there is beside the scores, and `.svg` the picture of one of these, such as a reliability diagram;
    None where there is none."""

    written: Sequence[str] | None = None
    parts: Sequence[ReportPart] = ()

    @property
    def svg(self) -> str | None:
        return next((part.svg for part in self.parts if part.svg is not None), None)

    @property
    @abstractmethod
    def data(self) -> dict[str, Any]:
        """As plain data."""


@dataclass(frozen=True, repr=False)
class Evaluation(Report):
    """Scores of a whole validation split, beside the baselines. `intervals`: of a score by its name, the middle
    INTERVAL_LEVEL of those of resamples; `parts`: what was asked for beside them."""

    scores: Mapping[str, float]
    baselines: Mapping[str, float]
    verdict: str
    validation: str
    notes: Sequence[str] = ()
    parts: Sequence[ReportPart] = ()
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """Each field, and each further part under its name."""
        fields = {key: value for key, value in vars(self).items() if key != "parts"}
        return {**fields, **{part.name: part.data for part in self.parts}}

    def __repr__(self) -> str:
        rows = [("validation", self.validation)] if self.validation else []
        for name, value in self.scores.items():
            number = f"{value:,.0f}" if value == int(value) and value >= 1000 else f"{value:.4f}"
            ends = self.intervals.get(name)
            rows.append((name, number if ends is None else f"{number} ({ends[0]:.4f} to {ends[1]:.4f})"))
        rows += [(f"baseline: {name}", f"{value:.4f}") for name, value in self.baselines.items()]
        rows += [("note", note) for note in self.notes]
        width = max(20, *(len(name) + 2 for name, _ in rows))
        lines = [*(f"{name:<{width}}{value}" for name, value in rows), self.verdict]
        return "\n".join([*lines, *(f"\n{part}" for part in self.parts)])


@dataclass(frozen=True)
class ScoreRow:
    """One score: the system's, its interval, empty where none is known, and those of the baselines by name."""

    measured: Measured
    interval: tuple[float, float] | tuple[()]
    baselines: dict[str, float]

    def spans(self, value: float) -> bool:
        """Whether a value lies within the interval."""
        return bool(self.interval) and min(self.interval) <= value <= max(self.interval)


@dataclass(frozen=True)
class Example:
    """One prediction beside its references, and its source; "" for none. `index` counts from 0; `confidence` is the
    probability of the prediction, where there is one."""

    index: int
    score: float
    prediction: str
    references: list[str]
    source: str
    confidence: float | None = None

    @property
    def data(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        """A few lines: number and score, then source, prediction and references, each under a name."""
        rows = [("source", self.source)] if self.source else []
        rows += [("prediction", self.prediction), *(("reference", text) for text in self.references)]
        sure = "" if self.confidence is None else f", confidence {self.confidence:.2f}"
        lines = [f"example {self.index + 1:,}: {self.score:.1f}{sure}"]
        for name, text in rows:
            head = f"  {name:10}  "
            wrapped = textwrap.wrap(text, EXAMPLE_COLUMNS, initial_indent=head, subsequent_indent=" " * len(head))
            lines += wrapped or [head + "-"]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, repr=False)
class ScoreReport(Report):
    """Scores of what was written, or said, for some rows.

    rows         the scores, the main one first
    best, worst  examples of the highest and of the lowest main score, best and worst first
    search       how targets were searched for, in words; "" for none
    notes        what is to be known of the rows
    written      what was written for each row
    parts        further parts, such as a table of confusions
    """

    rows: list[ScoreRow]
    best: list[Example]
    worst: list[Example]
    search: str
    notes: Sequence[str]
    written: Sequence[str]
    parts: Sequence[ReportPart] = ()

    @property
    def data(self) -> dict[str, Any]:
        """{"examples": 1000, "scores": {"BLEU": {"score": ..., "interval": [low, high], "baselines": {...}, ...}},
        "search": ..., "notes": [...], "examples_shown": {"score": "BLEU", "best": [...], "worst": [...]}}, and each
        further part under its name."""
        scores = {
            row.measured.name: {
                "score": row.measured.score,
                "interval": list(row.interval) or None,
                "level": INTERVAL_LEVEL,
                "baselines": dict(row.baselines),
                "signature": row.measured.signature,
            }
            for row in self.rows
        }
        best, worst = ([example.data for example in examples] for examples in (self.best, self.worst))
        return {
            "examples": len(self.written),
            "scores": scores,
            "search": self.search,
            "notes": list(self.notes),
            **{part.name: part.data for part in self.parts},
            "examples_shown": {"score": self.rows[0].measured.name, "best": best, "worst": worst},
        }

    def __repr__(self) -> str:
        names = list(dict.fromkeys(name for row in self.rows for name in row.baselines))
        cells, lines = [["", "score", f"{100 * INTERVAL_LEVEL:.0f} % interval", *names]], []
        for row in self.rows:
            name, score, digits = row.measured.name, row.measured.score, row.measured.digits
            interval = f"[{', '.join(f'{end:.{digits}f}' for end in row.interval)}]" if row.interval else "-"
            beside = [f"{row.baselines[each]:.{digits}f}" if each in row.baselines else "" for each in names]
            cells.append([name, f"{score:.{digits}f}", interval, *beside])
            better = [each for each, value in row.baselines.items() if not row.measured.beats(value)]
            if better:
                side = "above" if row.measured.higher else "below"
                lines.append(f"{name} is not {side} {', '.join(better)}: no result")
            within = [each for each, value in row.baselines.items() if row.spans(value)]
            if near := [each for each in within if each not in better]:
                lines.append(f"{name}: {', '.join(near)} lies within the interval")
        if alike := [row.measured.name for row in self.rows if not row.interval]:
            lines.append(f"{', '.join(alike)}: no interval, as all resamples of these examples score alike")
        for signature in dict.fromkeys(row.measured.signature for row in self.rows):
            alike = [row.measured.name for row in self.rows if row.measured.signature == signature]
            lines.append(f"{', '.join(alike)}: {signature}")
        lines.append(f"{len(self.written):,} examples")
        lines += [f"search: {self.search}"] if self.search else []
        lines += [*(f"note: {note}" for note in self.notes), ""]
        lines += [f"{part}\n" for part in self.parts]
        for title, examples in (("best", self.best), ("worst", self.worst)):
            lines.append(f"{len(examples)} {title} by {self.rows[0].measured.name} of the single text\n")
            lines += map(str, examples)
        return "\n".join([*table(cells), *lines])


def score_rows(measured: Iterable[Measured], baselines: Mapping[str, Sequence[float]]) -> list[ScoreRow]:
    """Scores with their intervals; `baselines` are the same scores of each baseline, in the same order."""
    rows = []
    for place, each in enumerate(measured):
        beside = {name: scores[place] for name, scores in baselines.items()}
        rows.append(ScoreRow(each, interval_of(resample(each)), beside))
    return rows


def score_report(
    measure: Callable[[Any], Iterable[Measured]], predicted: Any, baselines: Mapping[str, Any],
    texts: Sequence[tuple[str, str, Sequence[str]]], search: str = "", notes: Sequence[str] = (),
    parts: Sequence[ReportPart] = (), confidence: Sequence[float] | None = None, confident: bool = True,
) -> ScoreReport:  # fmt: skip
    """Score what was predicted, and beside it what each baseline predicts. Raises InputError, MissingExtra.

    measure     predictions -> scores, the main one first
    texts       of each row its source, the prediction and the right answers
    confidence  of each prediction; of equal examples the surest come first, else they are in the order of the data
    confident   whether these are probabilities, which are shown
    """
    beside = {name: [each.score for each in measure(others)] for name, others in baselines.items()}
    rows = score_rows(measure(predicted), beside)
    scores = rows[0].measured.sentences

    def example(place: int) -> Example:
        source, prediction, references = texts[place]
        sure = confidence[place] if confidence is not None and confident else None
        return Example(place, float(scores[place]), prediction, list(references), source, sure)

    order = scores if rows[0].measured.higher else -scores
    best, worst = (list(map(example, places)) for places in best_and_worst(order, confidence))
    return ScoreReport(rows, best, worst, search, notes, [prediction for _, prediction, _ in texts], parts)


def best_and_worst(scores: Numbers, confidence: Sequence[float] | None = None) -> tuple[list[int], list[int]]:
    """The places of the examples that are shown, best and worst first, of equal ones the surest: none is in both."""
    sure = np.zeros(len(scores)) if confidence is None else np.asarray(confidence)
    best = np.lexsort((-sure, -scores))[: min(SHOWN_EXAMPLES, (len(scores) + 1) // 2)].tolist()
    worst = [place for place in np.lexsort((-sure, scores)).tolist() if place not in best]
    return best, worst[:SHOWN_EXAMPLES]


def standing(score: float, baselines: Mapping[str, float]) -> str:
    """Where a score (lower is better) stands among baselines, in words: the two nearest are named."""
    if not math.isfinite(score):
        return "not a finite number"
    ranked = [(value, f"the {name} ({value:.2f})") for value, name in sorted((v, n) for n, v in baselines.items())]
    worse = [text for value, text in ranked if value > score]
    better = [text for value, text in reversed(ranked) if value <= score]
    if not baselines:
        return "no baseline"
    if worse and better:
        return f"below {worse[0]}, above {better[0]}"
    return f"{'below' if worse else 'above'} {' and '.join((worse or better)[:2])}"


def standing_above(score: float, baselines: Mapping[str, float], digits: int = 1) -> str:
    """Where a score (higher is better) stands among baselines, in words."""
    ranked = sorted(baselines.items(), key=lambda baseline: -baseline[1])
    beaten = [f"{name} ({value:.{digits}f})" for name, value in ranked if value < score]
    others = [f"{name} ({value:.{digits}f})" for name, value in ranked if value >= score]
    parts = [f"above {' and '.join(beaten[:2])}"] if beaten else []
    parts += [f"not above {' and '.join(others)}"] if others else []
    return "; ".join(parts) or "no baseline"
