"""`plan`: what a training run would take on given devices, and how published runs compare with their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .model import Model
from .reading import check_model

if TYPE_CHECKING:
    from ..analysis.planning.planned import PlannedRun
    from ..analysis.planning.setting import PlannedSetting
    from ..language.graph import Architecture

BATCH_TOKENS = 2**19
"""Tokens of an update where nothing is said, or a row for each device where that is more."""


def plan(
    model: str | Path | Model, *, tokens: str | float, gpu: str, gpus: int = 1, gpus_per_node: int | None = None,
    batch_tokens: str | float | None = None, length: int | None = None, precision: str = "bf16",
    optimizer: str = "muon", attention: str = "fused", compiled: bool = True, parallel: str = "auto",
    micro_batch: int | None = None, recompute: str = "auto", price: float | None = None,
    assume: Mapping[str, float] | Sequence[str] = (), measure: bool = False,
    teacher: str | Path | Model | None = None, use: Sequence[str] = (), **changes: Any,
) -> PlannedRun:  # fmt: skip
    """What a training run would take: memory by rank, time of a step, hours, cost, and the parallel layout to choose.

        plan("gpt2", tokens="10B", gpu="a100-80", gpus=8, vocab=50304)
        plan("llama", tokens="15T", gpu="h100", gpus=1024, batch_tokens="16M", price=2.5).gpu_hours

    tokens         of the run: "10B", "300e9", 5e8
    gpu, gpus      a device's name, and how many; gpus_per_node of them in a node (default: as they are sold). "cpu" is
                   this machine, which is measured
    batch_tokens   tokens of an update (default: 0.5M, or a row for each device)
    length         of a row (default: the context)
    precision      bf16 (float32 masters) or float32
    optimizer      muon or adamw
    attention      fused, or unfused: it writes the scores to memory
    parallel       auto, none, ddp, fsdp, tp=N or fsdp,tp=N
    micro_batch    rows of a rank that are computed at once (default: the best)
    recompute      auto (none or layers), none, half (every second layer) or layers
    price          of one device for an hour
    assume         assumptions by name: {"overlap": 0.5} or ["overlap=0.5"]
    measure        measure some steps of two of the model's layers on this machine's device, and use that
    teacher        a model that the run asks in each step (`train --teacher`): its weights stand on each device, and it
                   runs forward over each row

    The result's `repr` is the page that a person reads, `.data` what a program reads. Raises InputError where no layout
    fits, with what would, UnknownName for a device or an assumption that there is not, FormulaError.
    """
    from ..analysis.accounting import usual_length
    from ..analysis.planning.assumptions import Assumptions
    from ..analysis.planning.devices import MEASURED, device
    from ..analysis.planning.estimate import check_choice
    from ..analysis.planning.planned import planned
    from ..analysis.planning.search import LayoutChoices
    from ..analysis.planning.setting import ATTENTION, PlannedSetting, amount
    from ..analysis.planning.work import work_of
    from ..training.optimizers import keeps_of, newton_schulz_steps, optimizers

    architecture = model.architecture if isinstance(model, Model) else check_model(model, changes, use)
    length = usual_length(architecture) if length is None else length
    for name, number in (("gpus", gpus), ("gpus_per_node", gpus_per_node or 1), ("length", length)):
        if number < 1:
            raise InputError(f"{name} must be at least 1; given: {number}")
    check_choice("optimizer", optimizer, tuple(optimizers.records()))
    check_choice("attention", attention, ATTENTION)
    choices = LayoutChoices(parallel, micro_batch, recompute)
    here = gpu.strip().lower() == MEASURED
    whole, usual = amount(tokens, "tokens"), max(BATCH_TOKENS, gpus * length * (micro_batch or 1))
    if not here:
        machine = device(gpu)
        machine.peak(precision)
    assumptions = Assumptions.read(pairs(assume))
    if here:
        from .measuring import this_machine

        machine = this_machine()
    setting = PlannedSetting(
        work=work_of(architecture, length), device=machine, gpus=gpus, node=gpus_per_node or machine.node,
        tokens=whole, batch_tokens=usual if batch_tokens is None else amount(batch_tokens, "batch_tokens"),
        keeps=keeps_of(optimizer), precision=precision, optimizer=optimizer, attention=attention, compiled=compiled,
        newton_schulz=newton_schulz_steps(optimizer), assumptions=assumptions,
        teacher=None if teacher is None else work_of(teacher_of(teacher, use), length),
    )  # fmt: skip
    ratio, notes = 1.0, []
    if measure:
        ratio, note = measured_share(architecture, setting, here)
        notes.append(note)
    return planned(architecture.name, setting, choices, price, ratio, notes)


def teacher_of(teacher: str | Path | Model, use: Sequence[str]) -> Architecture:
    """The model that is asked in each step."""
    return teacher.architecture if isinstance(teacher, Model) else check_model(teacher, use=use)


def pairs(assume: Mapping[str, float] | Sequence[str]) -> Mapping[str, Any]:
    """Assumptions by name, of NAME=NUMBER. Raises InputError."""
    if isinstance(assume, Mapping):
        return assume
    for one in assume:
        if "=" not in one:
            raise InputError(f"assume: expected NAME=NUMBER; this is {one!r:.40}")
    return dict(one.split("=", 1) for one in assume)


def measured_share(architecture: Any, setting: PlannedSetting, here: bool) -> tuple[float, str]:
    """The measured time of some steps over what the model of time says of them, and that as a sentence."""
    from ..analysis.planning.estimate import time_of
    from ..analysis.planning.setting import ParallelLayout
    from ..analysis.planning.work import work_of
    from ..cost.words import of_a_step
    from .measuring import seconds_of_a_step, small_copy

    small, length = small_copy(architecture), setting.work.context
    rows, seconds, name = seconds_of_a_step(small, length, setting.precision, setting.compiled, cuda=not here)
    layout = ParallelLayout("none", 1, 1, rows, 1, "none")
    modeled = time_of(replace(setting, work=work_of(small, length)), layout).computing
    what = f"{small.main.depth} layers forward and backward, {rows} x {length:,} tokens"
    ratio = seconds / modeled
    return ratio, f"measured on {name}: {what} in {of_a_step(seconds)}, {ratio:.2f} times the model"


def compare_published() -> list[dict[str, Any]]:
    """The published runs that a plan is held to: each with its figures, its plan's, and where it stands."""
    from ..analysis.planning import published as file
    from ..cost.words import DAY

    rows = []
    for row in file.published_runs():  # all of a device's memory may be taken: the run is known to have fitted
        made = plan(row.model, tokens=row.tokens, assume={"memory_share": 1}, **row.settings, **row.sizes)
        figures: list[tuple[str, float | None, float]] = [
            ("tokens/s a GPU", row.rate, made.rate),
            ("days", row.days, made.seconds / DAY),
            ("GiB a GPU", row.memory, made.chosen.memory.total / 2**30),
        ]
        for what, said, ours in figures:
            if said is not None:
                rows.append({"run": row, "what": what, "published": said, "planned": ours, "plan": made})
    return rows
