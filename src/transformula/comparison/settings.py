"""Settings of a comparison: what is varied, what is held equal, how many runs there are and where they go. How each of
them trains is said by the settings of `train`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from ..cost.words import seconds_of_text
from ..data.settings import Contexts
from ..errors import setting
from ..plain import several
from ..settings import Facts, Settings

if TYPE_CHECKING:
    from .records import Variant

SEEDS = {"quick": 3, "standard": 6, "strict": 10}  # paired runs of each arm, by protocol
SIZES = {"quick": 1, "standard": 2, "strict": 2}
TUNING_SEEDS = 1_000_000  # seeds of tuning begin so far above the others: neither meets the other
LOOKS = (4, 6, 9, 12)  # numbers of seeds at which `until decided` looks
BUDGET = "20m"  # where neither a budget nor a length of the runs is said

Protocol = Literal["quick", "standard", "strict"]
Matched = Literal["tokens", "parameters", "flops", "time"]


def unpaired() -> dict[str, str]:
    """Keys of `train` that no run of a comparison can take, each with what to do."""
    return {
        "minutes": f"runs that end by the clock see different data; say {setting('budget', '20m')}, or steps",
        "patience": "each run goes to the end of its schedule; leave it out",
        "resume": "a comparison that was interrupted goes on by the same command; leave it out",
        "from_scratch": "all runs begin from initial weights; leave it out",
        "model": "variants are named before the options; leave it out",
    }


def for_all(key: str) -> str:
    """Why a key cannot differ among variants, and what to do; "" where it can."""
    if key == "lr" or key not in (*unpaired(), "seed", "out", "task", "use", *ComparisonSettings.model_fields):
        return ""
    reasons = {
        **unpaired(),
        "seed": f"the same seeds pair the runs of all variants; {setting('seeds')} and {setting('seed')} say which",
        "out": "the runs lie in the store; leave it out",
    }
    return reasons.get(key, f"it goes for all variants; give it beside them: {setting(key, 'VALUE')}")


def listed_rows(rows: Any) -> Any:
    """['optimizer=adamw,muon'], also of one such text and of a mapping {"optimizer": ["adamw", "muon"]}."""
    if isinstance(rows, dict):
        return [f"{key}={' | '.join('none' if v is None else str(v) for v in values)}" for key, values in rows.items()]
    return several(rows)


class ComparisonSettings(Settings):
    """How variants are compared."""

    base: str | None = Field(None, description="the variant that the others are compared with (default: the first)")
    vary: Annotated[list[str], BeforeValidator(listed_rows), Facts(basic=True)] = Field(
        [],
        description="values of one key, each of them a variant: optimizer=adamw,muon; of a word: norm=rms,layer;"
        " several are a grid. Values that hold commas are separated by ' | '. lr=auto: 1/4, 1/2, 1, 2 and 4 times the"
        " default learning rate",
    )
    fraction: str = Field("1", description="the part of that grid which is run, balanced: 1/2, 1/4, ...")

    protocol: Annotated[Protocol, Facts(basic=True)] = Field(
        "standard",
        description="how much is needed to believe it: quick (3 seeds, one size), standard (6 seeds, two sizes) or"
        " strict (10 seeds, two sizes); quick is an indication only",
    )
    seeds: int | None = Field(
        None, ge=2, le=1000, description="paired runs of each arm: 3, 6 or 10 by the protocol, unless said"
    )
    seed: int = Field(1, ge=0, lt=2**31, description="the first of the seeds; the others follow it")
    until: Literal["fixed", "decided"] = Field(
        "fixed",
        description="fixed: so many seeds; decided: looks after 4, 6, 9 and 12 seeds and stops once the answer is"
        " clear, by a rule that keeps the error rate",
    )
    score: str | None = Field(None, description="the score that is compared (default: the task's main score)")
    effect: float | None = Field(
        None, gt=0, description="the smallest difference of the score that matters: smaller ones are called equivalent"
    )
    noise: float | None = Field(
        None, gt=0,
        description="standard deviation of the paired differences, for the plan's detectable effect, as measured"
        " before (default: that of earlier runs on the same data, or an assumption)",
    )  # fmt: skip

    lr: str = Field(
        "tune", description="the learning rate: tune (for each variant), shared (tuned for the base), or a number"
    )
    lr_points: int = Field(5, ge=2, le=25, description="learning rates that are tried for each arm, in powers of two")
    lr_seeds: int = Field(2, ge=1, le=100, description="seeds of each of these; none of them is used later")

    match: Matched = Field(
        "tokens",
        description="what is equal for all: tokens seen; or parameters, for which the hidden size that a variant"
        " changed is adjusted, else width and depth; or FLOPs or time, for which steps are",
    )
    sizes: int | None = Field(
        None, ge=1, le=6,
        description="sizes of model, of which the given one is the smallest (default: by the protocol)",
    )  # fmt: skip
    size_ratio: float = Field(3.0, ge=1.5, le=30, description="FLOPs of a size over those of the next smaller one")
    budget: Annotated[str | None, Facts(basic=True)] = Field(
        None, description=f"time for the whole comparison, such as 20m or 2h; it sets the steps (default: {BUDGET})"
    )

    engine: str = Field("local", description="what runs the jobs: local, ray or slurm")
    at_once: int | None = Field(
        None, ge=1, le=1024, description="runs at the same time (default: as many as cores and memory allow)"
    )
    store: str = Field("comparisons/runs", description="the folder of runs, which other comparisons use again")
    out: str | None = Field(None, description="the comparison's folder (default: comparisons/ and the variants' names)")
    samples: int = Field(
        3, ge=0, le=100, description="texts that each arm writes for the report, of a task that writes"
    )
    inspect_rows: int = Field(
        32, ge=0, le=100_000,
        description="rows of the validation set over which each trained model is inspected for the report; 0: none",
    )  # fmt: skip
    contexts: Contexts = Field(
        [], description="score each confirmed language model in windows of these lengths, too, such as 128,256,512"
    )
    repeat_on: Annotated[list[str], BeforeValidator(several)] = Field(
        [], description="other data, on which all is made again; the report says whether what was found repeats"
    )
    dry_run: Annotated[bool, Facts(basic=True)] = Field(
        False, description="show what would be run and what it would cost, and stop"
    )
    force: bool = Field(
        False, description="go on where a check fails, or where the plan cannot show the effect; the report says so"
    )

    @field_validator("budget")
    @classmethod
    def _is_time(cls, value: str | None) -> str | None:
        if value is not None:
            seconds_of_text(value)
        return value

    @field_validator("until")
    @classmethod
    def _ends_at_the_last_look(cls, value: str, info: ValidationInfo) -> str:
        if value == "decided" and (info.data.get("seeds") or 0) > max(LOOKS):
            raise ValueError(f"the last look is after {max(LOOKS)} seeds, so seeds are at most so many")
        return value

    @field_validator("fraction")
    @classmethod
    def _is_part(cls, value: str) -> str:
        try:
            part = Fraction(value)
        except (ValueError, ZeroDivisionError):
            raise ValueError("expected a part such as 1/2") from None
        if not 0 < part <= 1:
            raise ValueError("expected a part above 0 and of at most 1")
        return value

    @field_validator("lr", mode="before")
    @classmethod
    def _is_rate(cls, value: Any) -> str:
        if value in ("tune", "shared"):
            return str(value)
        try:
            rate = float(value)
        except (TypeError, ValueError):
            rate = 0.0
        if not 0 < rate <= 1000:
            raise ValueError("expected tune, shared, or a number above 0")
        return f"{rate:.12g}"

    @property
    def rate(self) -> float | None:
        """The learning rate of all arms, where one is given; None where it is tuned."""
        return None if self.lr in ("tune", "shared") else float(self.lr)

    @property
    def tunes(self) -> bool:
        """Whether any rate is tuned."""
        return self.rate is None

    @property
    def seed_count(self) -> int:
        """Paired runs of each arm; with `until decided` at most."""
        if self.until == "decided":
            return max(LOOKS) if self.seeds is None else self.seeds
        return SEEDS[self.protocol] if self.seeds is None else self.seeds

    @property
    def paired_seeds(self) -> list[int]:
        return list(range(self.seed, self.seed + self.seed_count))

    @property
    def tuning_seeds(self) -> list[int]:
        return list(range(TUNING_SEEDS + self.seed, TUNING_SEEDS + self.seed + self.lr_seeds))

    @property
    def size_count(self) -> int:
        return SIZES[self.protocol] if self.sizes is None else self.sizes

    @property
    def part(self) -> Fraction:
        """The part of the grid that is run."""
        return Fraction(self.fraction)

    def unread(self, variants: Sequence[Variant], former: ComparisonSettings) -> dict[str, str]:
        """Settings that nothing reads, beside the others and the variants, each with the reason; those that are as in
        the former settings are passed over."""
        tunes = self.tunes and not all(variant.states_rate for variant in variants)
        rate_read = not all("lr" in variant.settings for variant in variants) if self.rate else tunes
        counts_read = self.sizes is None or (self.seeds is None and self.until == "fixed")
        rules = {
            "fraction": (bool(self.vary), f"is read only with {setting('vary')}"),
            "protocol": (counts_read, "says how many seeds and sizes there are, and both are given"),
            "lr": (rate_read, "every variant states a learning rate of its own"),
            "lr_points": (tunes, "is read only where a learning rate is tuned"),
            "lr_seeds": (tunes, "is read only where a learning rate is tuned"),
            "size_ratio": (self.size_count > 1, f"is read only with two sizes or more: {setting('sizes', '2')}"),
        }
        changed = {key for key in self.model_fields_set if getattr(self, key) != getattr(former, key)}
        return {key: reason for key, (read, reason) in rules.items() if key in changed and not read}
