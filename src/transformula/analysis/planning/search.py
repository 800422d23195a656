"""The layouts that a run could have, and the one to choose: the fastest that fits, or a simpler one about as fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...cost.words import bytes_in_words
from ...errors import InputError
from ..parallel_text import parallel_of
from .estimate import LayoutEstimate, check_choice, estimate
from .setting import PARALLEL, RECOMPUTE, ParallelLayout, PlannedSetting

AUTO = "auto"
LEAST_SPEEDUP = 0.02  # a layout that is less simple is taken if it is at least so much faster
MOST_GPUS = 2**17


@dataclass(frozen=True)
class LayoutChoices:
    """What is said of the layout; what is auto, or None, is searched.

    parallel   auto, none, ddp, fsdp, tp=N, or fsdp,tp=N
    recompute  auto (none or layers), none, half or layers
    """

    parallel: str = AUTO
    micro_batch: int | None = None
    recompute: str = AUTO

    def __post_init__(self) -> None:
        check_choice("recompute", self.recompute, (AUTO, *RECOMPUTE))
        if self.micro_batch is not None and self.micro_batch < 1:
            raise InputError(f"micro_batch must be at least 1; given: {self.micro_batch}")
        try:
            parallel_of(self.parallel)
        except ValueError as error:
            raise InputError(f"parallel: {error}; this is {self.parallel!r:.40}") from None

    def allows(self, layout: ParallelLayout) -> bool:
        named = self.parallel in (AUTO, layout.name)
        again = layout.recompute != "half" if self.recompute == AUTO else layout.recompute == self.recompute
        return named and again


def layouts(setting: PlannedSetting, choices: LayoutChoices) -> Iterator[ParallelLayout]:
    """All layouts of a run that the choices allow, in which every rank has a row."""
    for tensor in ranks_of_tensors(setting):
        data = setting.gpus // tensor
        kinds = {(True, True): ["none"], (True, False): ["tp"], (False, True): ["ddp", "fsdp"]}
        for parallel in kinds.get((data == 1, tensor == 1), ["fsdp+tp"]):
            rows = setting.batch_tokens // (setting.work.context * data)
            for recompute in RECOMPUTE:
                for rows_at_once in micro_batches(rows, choices.micro_batch):
                    layout = ParallelLayout(parallel, tensor, data, rows_at_once, round(rows / rows_at_once), recompute)
                    if choices.allows(layout):
                        yield layout


def ranks_of_tensors(setting: PlannedSetting) -> list[int]:
    """How many ranks of a node can share matrices: what divides the devices, and something of the model."""
    most = min(setting.node, setting.gpus)
    return [n for n in range(1, most + 1) if setting.gpus % n == 0 and not setting.work.share(n).refusal]


def micro_batches(rows: int, wanted: int | None) -> list[int]:
    """Rows at once that a rank of so many rows could take: powers of 2, and all."""
    if wanted is not None:
        return [wanted] if wanted <= rows else []
    return sorted({*(2**n for n in range(rows.bit_length()) if 2**n <= rows), *([rows] if rows else [])})


@dataclass(frozen=True)
class LayoutSearch:
    """What was compared: `chosen`, and of each way to lay out the best, or, where none fits, the smallest."""

    chosen: LayoutEstimate
    compared: tuple[LayoutEstimate, ...]


def search(setting: PlannedSetting, choices: LayoutChoices, measured: float = 1.0) -> LayoutSearch:
    """Choose a layout. Raises InputError, which says what would fit, where none does."""
    estimates = [estimate(setting, layout, measured) for layout in layouts(setting, choices)]
    if not estimates:
        raise no_layout(setting, choices)
    ways: dict[tuple[str, str], list[LayoutEstimate]] = {}
    for one in estimates:
        ways.setdefault((one.layout.name, one.layout.recompute), []).append(one)
    best = [best_of(many) for many in ways.values()]
    fitting = [one for one in best if one.fits]
    if not fitting:
        raise nothing_fits(setting, choices, min(estimates, key=lambda one: one.memory.total))
    fastest = max(one.rate for one in fitting)
    about = [one for one in fitting if one.rate >= (1 - LEAST_SPEEDUP) * fastest]
    chosen = min(about, key=lambda one: (PARALLEL.index(one.layout.parallel), one.layout.again, -one.rate))
    return LayoutSearch(chosen, tuple(sorted(best, key=lambda one: (not one.fits, -one.rate))))


def best_of(many: Sequence[LayoutEstimate]) -> LayoutEstimate:
    fitting = [one for one in many if one.fits]
    if fitting:
        return max(fitting, key=lambda one: one.rate)
    return min(many, key=lambda one: one.memory.total)


def no_layout(setting: PlannedSetting, choices: LayoutChoices) -> InputError:
    """Why there is none at all: too few rows, or choices that contradict each other."""
    rows = setting.batch_tokens // setting.work.context
    if rows < 1:
        what = f"batch_tokens: {setting.batch_tokens:,} tokens are less than one row of {setting.work.context:,}"
        return InputError(f"{what}; take at least {setting.work.context:,}")
    each = choices.micro_batch or 1
    least = setting.gpus * setting.work.context * each
    known = sorted({layout.name for layout in layouts(replace(setting, batch_tokens=least), LayoutChoices())})
    if choices.parallel not in (AUTO, *known):
        what = f"parallel: {choices.parallel} is no layout of {setting.gpus:,} devices, {setting.node} in a node"
        _, tensor = parallel_of(choices.parallel)
        why = setting.work.share(tensor).refusal if tensor > 1 else ""
        return InputError(f"{what}{f' ({why})' if why else ''}; these are: {', '.join(known)}")
    what = f"a batch of {setting.batch_tokens:,} tokens has {rows:,} rows"
    remedy = f"take --batch-tokens {least:,}, fewer devices, or a smaller --micro-batch"
    return InputError(f"{what}, too few for {setting.gpus:,} devices with micro-batch {each}; {remedy}")


def nothing_fits(setting: PlannedSetting, choices: LayoutChoices, smallest: LayoutEstimate) -> InputError:
    """The error where no layout fits: the smallest, and what would."""
    need, free = bytes_in_words(smallest.memory.total), bytes_in_words(smallest.free)
    layout = smallest.layout
    what = (
        f"no layout fits {setting.gpus:,} x {setting.device.title}: the smallest ({layout.name}, micro-batch"
        f" {layout.micro_batch}, recompute {layout.recompute}) takes {need} of {free}"
    )
    remedies = []
    if choices != LayoutChoices() and any(estimate(setting, one).fits for one in layouts(setting, LayoutChoices())):
        fitting = search(setting, LayoutChoices()).chosen.layout
        said = f"--parallel {fitting.name} --micro-batch {fitting.micro_batch} --recompute {fitting.recompute}"
        remedies.append(f"what would: {said}")
    gpus = setting.gpus * 2
    while not remedies and gpus <= MOST_GPUS:
        more = replace(setting, gpus=gpus, batch_tokens=max(setting.batch_tokens, gpus * setting.work.context))
        if any(estimate(more, one).fits for one in layouts(more, choices)):
            remedies.append(f"what would: --gpus {gpus:,}")
        gpus *= 2
    return InputError(f"{what}; {remedies[0] if remedies else 'take a device with more memory, or a shorter context'}")
