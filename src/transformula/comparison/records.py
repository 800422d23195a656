"""What travels between the stages of a comparison: variants, arms, jobs, outcomes, verdicts. Plain data.

variant   what is compared: a text and the settings that differ
arm       a variant at one size: a configuration that lacks only its learning rate and its seed
job       one run of an arm, of the stage that tunes the rate or of the one that confirms
outcome   what came of a job; a run that diverged is one, too
verdict   what the outcomes say of an arm beside the base's
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict

from ..analysis.audit import NamedDifference
from ..cost.ratio import Ratio
from ..tasks.scores.by_token import WindowLosses

Stage = Literal["tune", "confirm"]
Status = Literal["done", "diverged", "failed"]
Word = Literal["better", "worse", "no difference found", "equivalent", "unstable", "inconclusive", "the same"]
Key = tuple[str, str]  # of an arm: its variant and its size


T = TypeVar("T")
Row = Annotated[Sequence[T], AfterValidator(tuple)]


def in_numbers(things: Sequence[str]) -> str:
    """'2 things'."""
    return "1 thing" if len(things) == 1 else f"{len(things)} things"


def by_key(rows: Any) -> Any:
    """A mapping by arms, of which JSON holds rows: [variant, size, value]."""
    return {tuple(key): value for *key, value in rows} if isinstance(rows, list) else rows


ByKey = Annotated[Mapping[Key, float], BeforeValidator(by_key)]


class ReadBack:
    """What is read back from JSON by the types of its fields, and refused where it has others."""

    __pydantic_config__ = ConfigDict(extra="forbid")


class OfArm(ReadBack):
    """A record of one arm."""

    variant: str
    size: str

    @property
    def arm_key(self) -> Key:
        return self.variant, self.size


@dataclass(frozen=True)
class Variant(ReadBack):
    """What is compared.

    name      as the report shows it; no two variants share it
    typed     as the user gave it
    model     the text of its model file
    settings  keys of a run's configuration that differ from the others' (optimizer, warmup, ...)
    levels    the values that `vary` gave it, by key
    notes     what it takes from others, in sentences that its name begins
    """

    name: str
    typed: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Any] = field(default_factory=dict)
    notes: Row[str] = ()

    @property
    def states_rate(self) -> bool:
        """Whether it has a learning rate of its own, so that none is tuned."""
        return "lr" in self.settings or "lr" in self.levels


@dataclass(frozen=True)
class Audit(ReadBack):
    """In what a variant differs from the base: (what, its value, the base's), in words. `same`: each of its runs is one
    of the base's, bit for bit."""

    variant: str
    differences: Row[tuple[str, str, str]]
    same: bool = False

    @property
    def names(self) -> list[str]:
        """What differs, without the values."""
        return [what for what, *_ in self.differences]

    def text(self, base: str) -> str:
        """'differs from pre-norm in 1 thing: output norm: none, base norm(x)'."""
        if self.same:
            return f"is the same as {base}: equal equations and settings, so that its runs are those of {base}"
        if not self.differences:
            return f"differs from {base} in names of parameters alone, and so in random initial values"
        each = "; ".join(str(NamedDifference(*one)) for one in self.differences)
        return f"differs from {base} in {in_numbers(self.names)}: {each}"


@dataclass(frozen=True)
class RunCosts(ReadBack):
    """What one run of an arm costs, by our own accounting.

    step_seconds  by a short measurement, None before it
    time_ratio    of the time of a run to that of the base's, as `Ratio` has it; () where it was not measured
    """

    parameters: int
    parameters_without_embeddings: int
    flops_per_token: float
    activation_bytes: float
    memory_bytes: float
    tokens: int
    steps: int
    step_seconds: float | None = None
    time_ratio: Row[float] = ()

    @property
    def ratio(self) -> Ratio | None:
        return Ratio(*self.time_ratio) if self.time_ratio else None

    @property
    def flops(self) -> float:
        """Floating-point operations of the whole run, forward and backward."""
        return self.flops_per_token * self.tokens

    @property
    def seconds(self) -> float | None:
        return None if self.step_seconds is None else self.steps * self.step_seconds


@dataclass(frozen=True)
class Arm(OfArm):
    """A variant at one size.

    size      "small", "large", ...; with one size "only"
    config    the complete configuration of its runs, but for `lr`, `seed` and `out`
    adjusted  what was changed to match the base, in words: "depth 12 to 11: 1.2 % fewer parameters"
    lr        the middle of the grid from which its learning rate is tuned
    """

    variant: str
    size: str
    config: Mapping[str, Any]
    costs: RunCosts
    lr: float
    adjusted: str = ""


class WithArms(ReadBack):
    """A record of all arms: those of the smallest size stand first, and of each size the base's."""

    arms: Sequence[Arm]

    @property
    def sizes(self) -> list[str]:
        """The sizes, the smallest first."""
        return list(dict.fromkeys(arm.size for arm in self.arms))

    @property
    def arms_by_key(self) -> dict[Key, Arm]:
        return {arm.arm_key: arm for arm in self.arms}

    def arms_of(self, size: str) -> list[Arm]:
        return [arm for arm in self.arms if arm.size == size]


@dataclass(frozen=True)
class GateResult(OfArm):
    """One check of an arm before its runs. `passed` None: neither passed nor failed, as `word` says ("": it does not
    apply), and `text` says why."""

    variant: str
    size: str
    name: str  # "G1" to "G6"
    title: str  # "loss at initialization"
    passed: bool | None
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    word: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.title}: {self.text}"


@dataclass(frozen=True)
class Job(OfArm):
    """One run: an arm's configuration with its learning rate and seed.

    score    the score that is compared; "": the task's main score
    samples  texts that the model writes in the end, for the report; of a task that writes none, other answers
    inspect_rows  rows of the validation set over which the trained model is inspected, for the report
    contexts  lengths of window, beside that of training, at which a trained language model is scored
    key      the hash of all that decides its numbers: the configuration, the data's content, the code, the versions of
             libraries
    """

    variant: str
    size: str
    stage: Stage
    seed: int
    lr: float
    config: Mapping[str, Any]
    score: str = ""
    key: str = ""
    samples: int = 0
    inspect_rows: int = 0
    contexts: Row[int] = ()


@dataclass(frozen=True)
class Outcome(OfArm):
    """What came of a job.

    score      the score that is compared, of the model at the end of its schedule, on the whole validation set; None
               where the run diverged or failed
    scores     all scores of that evaluation
    rows       the score on each part of the validation set, in order, the same parts for each run: what the noise of
               the evaluation is estimated from; weights: how much each counts (its number of bytes, tokens or rows).
               Empty where a task has no parts, and where they were not asked for
    in_parts   whether they were
    curve      of the log's steps: (step, tokens, seconds, loss in training)
    evaluated  of evaluations on the way: (step, tokens, seconds, score)
    telemetry  the log's events of telemetry
    learned    learned coefficients of the formula by name: one number, or one for each layer
    samples    what the model wrote from the same prompts and sampling seeds, for a task that writes
    inspected  what a look into the trained model showed, see `inspection/overview.py`; None before it
    windows    the loss of a trained language model in windows of several lengths, by position and by frequency
    baselines  the score of simple models of the same data, by name; empty for another score than the task's main one
    seconds    that training took; cpu_seconds: those of its one processor, 0 where it had others, or a GPU
    ended      when that was, in seconds since 1970; 0 where it is not known
    reason     why it diverged or failed, in words
    """

    variant: str
    size: str
    stage: Stage
    seed: int
    lr: float
    key: str
    status: Status
    score: float | None
    scores: Mapping[str, float] = field(default_factory=dict)
    rows: Row[float] = ()
    weights: Row[float] = ()
    in_parts: bool = True
    curve: Row[tuple[int, int, float, float]] = ()
    evaluated: Row[tuple[int, int, float, float]] = ()
    telemetry: Row[Mapping[str, Any]] = ()
    learned: Mapping[str, Any] = field(default_factory=dict)
    samples: Row[str] = ()
    inspected: Mapping[str, Any] | None = None
    windows: Row[WindowLosses] = ()
    baselines: Mapping[str, float] = field(default_factory=dict)
    tokens: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    ended: float = 0.0
    folder: str = ""
    reason: str = ""

    def lacks(self, job: Job) -> set[str]:
        """What the job asks for and was not made: scores on parts of the validation set, which a run that tunes a rate
        does without; texts, a look into the model, scores in windows of other lengths."""
        asked = {
            "rows": job.stage == "confirm" and not self.in_parts,
            "samples": len(self.samples) < job.samples,
            "inspected": job.inspect_rows > 0 and self.inspected is None,
            "windows": not {*job.contexts} <= {window.context for window in self.windows},
        }
        return {name for name in asked if asked[name] and self.status == "done"}


@dataclass(frozen=True)
class Verdict(OfArm):
    """What the runs say of a variant beside the base at one size. Differences are variant minus base, of pairs of the
    same seed, in the score's own unit; `gain` is the mean difference with the sign that makes more better.

    interval      of the mean difference, 95 %; p of the paired t-test, and after Holm's correction over all variants
    sign_flip     exact two-sided p of the sign-flip test, and the smallest that it can reach with so many pairs
    bca           the bootstrap's BCa interval, from 8 pairs on
    equivalence   p of the equivalence test against `effect`, after Holm's correction; None where no effect is stated
    noise         standard deviations: of the differences ("seeds"), the same without what seeds and parts of the
                  validation set do together ("seeds alone"), and of the mean if the validation set were another one
                  ("evaluation"); these two where the score is a mean over parts. "rates": what the uncertainty of
                  the learning rates adds to the mean, where the two have not one rate
    diverged      runs of the variant that diverged, and how many there were; base_diverged: the same of the base's
    needed        pairs that would decide it, for an inconclusive one
    detectable    the smallest difference that so many pairs find with a power of 80 %
    speedup       in FLOPs and in seconds, each (estimate, low, high), where there are two sizes or more
    stopped       the check that the variant fails, with what it said, so that no runs of it were made; else ""
    early         steps of the base's runs, where they taught it nothing that the simplest model of the data does not
                  know, so that all that is said is said of early learning; else 0
    sentence      the verdict in one plain sentence; may and may_not: what may be claimed of it, and what may not
    """

    variant: str
    base: str
    size: str
    word: Word
    sentence: str
    differences: Row[tuple[int, float]] = ()
    mean: float | None = None
    gain: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_holm: float | None = None
    sign_flip: tuple[float, float] | None = None
    bca: tuple[float, float] | None = None
    equivalence: float | None = None
    effect: float | None = None
    noise: Mapping[str, float] = field(default_factory=dict)
    diverged: tuple[int, int] = (0, 0)
    base_diverged: tuple[int, int] = (0, 0)
    needed: int | None = None
    detectable: float | None = None
    speedup: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    stopped: str = ""
    early: int = 0
    may: str = ""
    may_not: str = ""


def outcomes_of(outcomes: Iterable[Outcome], variant: str, size: str, stage: Stage = "confirm") -> list[Outcome]:
    """The outcomes of an arm at one stage."""
    return [o for o in outcomes if (o.variant, o.size, o.stage) == (variant, size, stage)]


@dataclass(frozen=True)
class Results(WithArms):
    """All of a comparison: what its report is made from.

    settings     those of the comparison, resolved; score and unit: "bits_per_byte", "bits per byte"; lower: less of it
                 is better
    rates        the learning rates that were chosen: (variant, size) -> rate; sensitivity: how much the score changes
                 over the grid, by the same keys
    environment  versions, machine, commit, data
    audit        in what each variant differs from the base
    lead         what is to be read before all else: that nothing was learned; else ""
    revision     what the runs that tuned rates said of the noise, beside what the plan expected
    question     what a study asks; claims: what papers say of it, each with its source
    """

    name: str
    settings: Mapping[str, Any]
    base: str
    score: str
    unit: str
    lower: bool
    variants: Row[Variant]
    arms: Row[Arm]
    gates: Row[GateResult]
    outcomes: Row[Outcome]
    verdicts: Row[Verdict]
    rates: ByKey
    sensitivity: ByKey
    environment: Mapping[str, Any]
    notes: Row[str] = ()
    lead: str = ""
    question: str = ""
    claims: Row[tuple[str, str]] = ()
    audit: Row[Audit] = ()
    revision: str = ""

    @property
    def names(self) -> list[str]:
        """The variants, the base first."""
        return [self.base, *(variant.name for variant in self.variants if variant.name != self.base)]

    @property
    def seeds(self) -> list[int]:
        """Those of the runs that confirm."""
        return sorted({outcome.seed for outcome in self.outcomes if outcome.stage == "confirm"})

    def at_size(self, size: str) -> str:
        """', small size', where there are several sizes."""
        return f", {size} size" if len(self.sizes) > 1 else ""

    def verdicts_of(self, size: str) -> list[Verdict]:
        """The verdicts at one size, in the order of the variants."""
        return [verdict for verdict in self.verdicts if verdict.size == size]

    def outcomes_of(self, variant: str, size: str, stage: Stage = "confirm") -> list[Outcome]:
        """The outcomes of an arm at one stage, by seed."""
        return sorted(outcomes_of(self.outcomes, variant, size, stage), key=lambda outcome: (outcome.seed, outcome.lr))

    def scores_of(self, variant: str, size: str) -> dict[int, float]:
        """Seed -> score, of the runs that confirm an arm and reached their end."""
        return {o.seed: o.score for o in self.outcomes_of(variant, size) if o.score is not None}

    @property
    def baselines(self) -> dict[str, float]:
        """The score of simple models of the same data, the worst first."""
        known = next((outcome.baselines for outcome in self.outcomes if outcome.baselines), {})
        return dict(sorted(known.items(), key=lambda item: item[1], reverse=self.lower))

    @property
    def score_in_words(self) -> str:
        """'bits per byte', 'accuracy (%)'."""
        words = self.score.replace("_", " ")
        return words if self.unit in ("", words, self.score) else f"{words} ({self.unit})"

    @property
    def unit_of_differences(self) -> str:
        """'bits per byte'; the score's name where it has no unit."""
        return self.unit or self.score.replace("_", " ")

    @property
    def direction(self) -> str:
        return "lower is better" if self.lower else "higher is better"
