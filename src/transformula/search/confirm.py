"""What survives a race is confirmed by `compare`: with seeds that no race used, on a part of the data that no race
was scored on where there is such, at two sizes where the budget allows, each at a rate tuned for it, and corrected for
how many are confirmed.

Beside the finalists stands the base with the best settings of the tuning arm. What the base gains by settings alone is
tuning; what a wiring gains over the base, both tuned, is the wiring's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..api.configuration import settings_fields
from ..api.reading import TASK
from ..comparison.compare import Comparison, compare
from ..comparison.costs import model_text, prepare
from ..comparison.records import Verdict
from ..cost.words import seconds_of_text
from ..errors import InputError
from ..language.model_text import FREE_NUMBERS
from .admission import own_settings
from .plan import HuntPlan
from .records import Contender

FRESH_SEEDS = 1000  # above those of races
TUNED = "base, tuned"
FOUND = "better"


@dataclass(frozen=True)
class Confirmed:
    """What came of the finalists.

    verdicts  by name: that of the largest size, and those of all sizes before it
    fresh     whether the validation set is another part of the data than that of the races
    folder    of the comparison, with its report
    lead      what is to be read before all else: that the base learned nothing; else ""
    """

    verdicts: Mapping[str, Sequence[Verdict]]
    sizes: Sequence[str]
    fresh: bool
    folder: Path
    lead: str = ""

    def verdict(self, name: str) -> Verdict | None:
        """At the largest size."""
        known = self.verdicts.get(name, ())
        return known[-1] if known else None

    def found(self, name: str) -> bool:
        """Whether a wiring is better at the largest size, and worse at none."""
        known = self.verdicts.get(name, ())
        return bool(known) and known[-1].word == FOUND and all(one.word != "worse" for one in known)


def confirm(
    plan: HuntPlan, finalists: Sequence[Contender], tuned: Contender | None, folder: Path, quiet: bool
) -> Confirmed:
    """Run the comparison of the base with the finalists, and with its own best settings."""
    config, settings = plan.base.config, plan.settings
    text = model_text(config)
    sizes = {key: text.numbers[key].text for key in FREE_NUMBERS if key in text.numbers and key != "vocab"}
    rows: list[dict[str, Any]] = [{"model": str(config["model"]), "name": "base"}]
    rows += [{"model": one.model, "name": one.name} for one in finalists]
    if tuned is not None:
        rows.append({"model": str(config["model"]), "name": TUNED, **own_settings(tuned)})
    given = {key: value for key, value in {**sizes, **plan.given}.items() if key != "use"}
    fold = fresh_fold(plan)
    given |= {} if fold is None else {"fold": fold}
    seconds = seconds_of_text(settings.budget) * settings.confirm
    comparison = compare(
        rows, **given, base="base", budget=duration_text(seconds), seed=settings.seed + FRESH_SEEDS,
        score=settings.score,
        match=settings.match, engine=settings.engine, at_once=settings.at_once, store=settings.store,
        out=str(folder), use=plan.use, quiet=quiet, samples=0, force=True,
    )  # fmt: skip
    results = cast(Comparison, comparison).results
    verdicts: dict[str, list[Verdict]] = {}
    for verdict in results.verdicts:
        verdicts.setdefault(verdict.variant, []).append(verdict)
    return Confirmed(verdicts, list(cast(Comparison, comparison).plan.sizes), fold is not None, folder, results.lead)


def fresh_fold(plan: HuntPlan) -> int | None:
    """A part of the data on which no race was scored; None where the validation set is named, made by the task, or
    lies apart already."""
    config = plan.base.config
    if "fold" not in settings_fields(str(config.get("task", TASK))) or config.get("validation") is not None:
        return None
    fold = 0 if config.get("fold") else 1
    try:
        prepare({**config, "fold": fold})
    except InputError:  # such as of shards that were prepared
        return None
    return fold


def duration_text(seconds: float) -> str:
    """A time as settings have it."""
    return f"{max(1, round(seconds / 60))}m"
