"""Settings of a search: what is looked at, what it may cost, and how much of that judges what it found."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from ..cost.words import seconds_of_text
from ..plain import several
from ..settings import Facts, Settings

FACTOR = 3  # steps of a rung over those of the one before; one of so many candidates goes on
SEEDS_OF_RUNGS = (1, 2, 3)  # paired seeds with which a candidate is run, by rung


class HuntSettings(Settings):
    """How wirings are looked for."""

    base: Annotated[str, Facts(basic=True)] = Field(
        "pre-norm", description="where the search begins: a name of the gallery, a formula or a model file"
    )
    budget: Annotated[str, Facts(basic=True)] = Field(
        "4h", description="time for the whole search, such as 40m or 4h; it sets the steps and the rounds"
    )
    proposers: Annotated[list[str], BeforeValidator(several), Facts(basic=True)] = Field(
        ["edits", "crossing"], description="what proposes wirings: edits, crossing; each an equal part of a round"
    )
    proposer: Annotated[str | None, Facts(basic=True)] = Field(
        None, description='a command that proposes wirings too, over lines of JSON: "python mine.py"'
    )
    children: int = Field(9, ge=3, le=243, description="wirings that are tried in a round")
    twins: int = Field(
        1, ge=0, le=81, description="renamed copies of the base that run in each round beside them: how far the best of"
        " these climbs is what luck alone gives",
    )  # fmt: skip
    rounds: int | None = Field(None, ge=1, le=1000, description="rounds of proposals (default: by the budget)")
    finalists: int = Field(3, ge=1, le=20, description="wirings that are confirmed, at most")
    seed: int = Field(1, ge=0, lt=2**31, description="of all chance: which edits are tried, and the runs' first seed")
    score: str | None = Field(None, description="the score that is compared (default: the task's main score)")
    match: Literal["tokens", "parameters", "flops"] = Field(
        "flops", description="what is equal for all: tokens, parameters or FLOPs"
    )
    dearest: float = Field(
        2.0, ge=1, le=100, description="FLOPs a token of a wiring over those of the base, at most: others are refused"
    )
    confirm: float = Field(
        0.3, ge=0, le=0.9, description="the part of the budget that confirms what was found; 0: nothing is confirmed,"
        " and nothing may be claimed",
    )  # fmt: skip
    tuning: bool = Field(
        True, description="spend as much as on wirings on rates, schedules and dropout of the base, so that the gain of"
        " a wiring is told from that of tuning",
    )  # fmt: skip
    engine: str = Field("local", description="what runs the jobs: local, ray or slurm")
    at_once: int | None = Field(
        None, ge=1, le=1024, description="runs at the same time (default: as many as cores and memory allow)"
    )
    store: str = Field("comparisons/runs", description="the folder of runs, which comparisons use, too")
    out: str | None = Field(None, description="the search's folder (default: hunts/ and the base's name)")
    dry_run: Annotated[bool, Facts(basic=True)] = Field(
        False, description="show what would be run and what it would cost, and stop"
    )

    @field_validator("budget")
    @classmethod
    def _is_time(cls, value: str) -> str:
        seconds_of_text(value)
        return value
