"""Memory and time of one layout, part by part.

Time is a roofline: a matrix product takes its FLOPs at the rate that large products reach, and then the bytes of its
operands at the memory's bandwidth, so that small ones reach less; attention takes its FLOPs at a lower rate; all else
takes the bytes that it moves. Collectives follow the formulas of rings, in a node over its links, between nodes over
all links of a node at once; those of data parallelism hide under computing, those of tensor parallelism do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...cost.memory import Moment, of_parameters
from ...errors import InputError
from ...plain import by_keys
from .setting import ParallelLayout, PlannedSetting
from .work import WorkPart


@dataclass(frozen=True)
class StepTime:
    """Seconds of one update of one rank.

    matmul         products with weights
    attention      scores, and what else is no product with weights
    memory         reading and writing beside the products: norms, activations, sums, the loss
    launch         waiting for kernels that start more slowly than they run
    update         the optimizer
    communication  collectives that do not hide under computing, and what those that hide slow it down
    hidden         collectives that hide; no part of the sum
    teacher        the forward pass of a teacher
    """

    matmul: float
    attention: float
    memory: float
    launch: float
    update: float
    communication: float
    hidden: float
    teacher: float = 0.0

    @property
    def computing(self) -> float:
        """Forward and backward."""
        return self.matmul + self.attention + self.memory + self.launch

    @property
    def total(self) -> float:
        return self.computing + self.update + self.communication + self.teacher

    @property
    def data(self) -> dict[str, float]:
        taught = {"teacher": self.teacher} if self.teacher else {}
        parts = by_keys(self, "matmul attention memory launch update communication hidden")
        return {**parts, **taught, "total": self.total}


@dataclass(frozen=True)
class LayoutEstimate:
    """One layout with the memory of a rank at the peak and the time of a step, and the device's memory that is free for
    tensors, in bytes. Under fsdp, the rank's weights are those of two units, gathered from all."""

    layout: ParallelLayout
    memory: Moment
    time: StepTime
    free: float
    tokens: int

    @property
    def fits(self) -> bool:
        return self.memory.total <= self.free

    @property
    def rate(self) -> float:
        """Tokens a second of all ranks."""
        return self.tokens / self.time.total

    @property
    def parts(self) -> dict[str, int]:
        """The memory as a plan names it: `weights` in float32, and `copies` of them in which the model runs."""
        held = self.memory
        weights = {"weights": held.masters or held.weights, "copies": held.weights if held.masters else 0}
        parts = {**weights, **by_keys(held, "gradients optimizer activations logits=loss")}
        return parts | ({"teacher": held.buffers} if held.buffers else {}) | {"total": held.total}

    @property
    def data(self) -> dict[str, object]:
        shown = by_keys(self.layout, "parallel tensor data micro_batch accumulate recompute")
        times = {"memory": self.parts, "step_seconds": self.time.data}
        return {**shown, **times, "tokens_per_second": self.rate, "fits": self.fits}


def estimate(setting: PlannedSetting, layout: ParallelLayout, measured: float = 1.0) -> LayoutEstimate:
    """Memory and time of a layout; `measured` is the measured time of computing over that of the model of time."""
    tokens = layout.data * layout.micro_batch * layout.accumulate * setting.work.context
    time = time_of(setting, layout, measured)
    return LayoutEstimate(layout, memory_of(setting, layout), time, setting.most_memory, tokens)


def memory_of(setting: PlannedSetting, layout: ParallelLayout) -> Moment:
    """What one rank holds at the peak."""
    work, half = setting.work, setting.precision == "bf16"
    split, rest = held(setting, layout)
    share = work.share(layout.tensor)
    own = of_parameters({"matrix": split / layout.shards, "table": rest / layout.shards}, setting.keeps)
    if layout.shards > 1:  # the unit at work and the next, gathered
        copies = 2 * setting.number_bytes * work.unit * max(share.layers, share.outside)
    else:
        copies = setting.number_bytes * (split + rest) if half else 0.0
    rows = layout.micro_batch * work.context
    kept = work.kept(layer=True) * share.layers
    # A layer that is recomputed keeps what enters it; while it is computed again, one has all.
    entering = layout.again * work.depth * work.width
    one = kept / max(1, work.depth) * (layout.again > 0)
    activations = (kept * (1 - layout.again) + entering + one + work.kept(layer=False)) * setting.number_bytes * rows
    logits = work.logits * rows * setting.either("logit_kept") * setting.number_bytes / 2
    if copies:
        own = replace(own, weights=round(copies), masters=own.weights)
    held_too = 0
    if setting.teacher is not None:  # its weights; its logits, and the gradient of the loss that it adds
        held_too = setting.teacher.parameters * setting.number_bytes
        logits += (setting.teacher.logits + work.logits) * rows * setting.number_bytes
    return replace(own, activations=round(activations), loss=round(logits), buffers=held_too)


def held(setting: PlannedSetting, layout: ParallelLayout) -> tuple[float, float]:
    """Parameters of layers, and others, of one of the ranks that share matrices; those of the data not yet divided."""
    work, share = setting.work, setting.work.share(layout.tensor)
    return work.layered * share.layers, (work.parameters - work.layered) * share.outside


def time_of(setting: PlannedSetting, layout: ParallelLayout, measured: float = 1.0) -> StepTime:
    """Seconds of an update."""
    work, times = setting.work, layout.accumulate * measured
    sums = [part_time(setting, layout, part) for part, _ in work.parts]
    counts = [count for _, count in work.parts]
    matmul, attention, moved = (
        times * sum(one[n] * count for one, count in zip(sums, counts, strict=True)) for n in range(3)
    )
    kernels = setting.either("kernels") * sum(counts) * (1 + layout.again / 3)
    least = times * kernels * setting.assumptions.launch
    launch = max(0.0, least - matmul - attention - moved)
    update = update_time(setting, layout)
    shown, hidden = communication(setting, layout, matmul + attention + moved + launch)
    return StepTime(matmul, attention, moved, launch, update, shown, hidden, teacher_time(setting, layout, measured))


def teacher_time(setting: PlannedSetting, layout: ParallelLayout, measured: float) -> float:
    """Seconds in which a teacher runs forward over all rows of a rank: a third of forward and backward."""
    if setting.teacher is None:
        return 0.0
    alone = replace(setting, work=setting.teacher, teacher=None)
    own = replace(layout, parallel="none", tensor=1, data=1, recompute="none")
    return time_of(alone, own, measured).computing / 3


def part_time(setting: PlannedSetting, layout: ParallelLayout, part: WorkPart) -> tuple[float, float, float]:
    """Seconds of the products, of attention and of all else of one part, forward and backward, of a micro-batch."""
    given, rows = setting.assumptions, layout.micro_batch * setting.work.context
    again = layout.again if part.layer else 0.0
    passes, size = 3 + again, setting.number_bytes
    whole = setting.work.share(layout.tensor)
    share, scores = (whole.layers, whole.scores) if part.layer else (whole.outside, 1.0)
    matmul = moved = 0.0
    for one, other in part.matrices:
        aligned = setting.precision != "bf16" or (one % 8 == 0 and other % 8 == 0)
        rate = setting.rate * (1 if aligned else given.unaligned)
        numbers = rows * (one + other * share) + one * other * share
        matmul += passes * (2 * rows * one * other * share / rate + size * numbers / setting.bandwidth)
    kept = setting.either("passes") * part.kept * rows * size * (share if part.layer else 1)
    logits = setting.either("logit_bytes") * part.logits * rows * size / 2
    moved = (kept * (1 + again / 3) + logits) / setting.bandwidth
    return matmul, score_time(setting, part, rows, again) * scores, moved


def score_time(setting: PlannedSetting, part: WorkPart, rows: int, again: float) -> float:
    """Seconds of attention's scores, or of what else a call does that is no product with weights."""
    given = setting.assumptions
    if setting.attention == "fused" or not part.heads:
        passes = 1 + given.attention_backward + again
        return passes * part.scores * rows / (given.attention_share * setting.rate)
    length = setting.work.context
    products = (3 + again) * 2 * part.scores * rows / setting.rate  # all scores, not the mean span
    written = (1 + again / 3) * given.score_bytes * part.heads * length * rows * setting.number_bytes / 2
    return products + written / setting.bandwidth


def update_time(setting: PlannedSetting, layout: ParallelLayout) -> float:
    """Seconds of the optimizer: its traffic, and Muon's products."""
    work = setting.work
    own = sum(held(setting, layout)) / layout.shards
    seconds = setting.assumptions.update_bytes * own / setting.bandwidth
    if setting.newton_schulz:
        ranks = min(setting.assumptions.muon_ranks, layout.data * layout.tensor)
        for part, count in work.parts:
            for one, other in part.matrices if part.layer else ():
                low, high = min(one, other), max(one, other)
                flops = setting.newton_schulz * (4 * low * low * high + 2 * low**3)  # three products a step
                seconds += count * flops / ranks / setting.rate
    return seconds


def communication(setting: PlannedSetting, layout: ParallelLayout, computing: float) -> tuple[float, float]:
    """Seconds of collectives in an update: those that show, and those that hide under `computing` seconds."""
    given, work = setting.assumptions, setting.work
    own, share = sum(held(setting, layout)), work.share(layout.tensor)
    shown = tensor_communication(setting, layout)
    if layout.data == 1:
        return shown, 0.0
    gradients, weights = own * given.reduce_bytes, own * setting.number_bytes
    if layout.shards == 1:  # ddp: one sum of the gradients, under the last backward pass
        seconds = 2 * collective(setting, layout, gradients)
        cover = computing / layout.accumulate * 2 / 3
    else:
        each = 2 * collective(setting, layout, weights) + collective(setting, layout, gradients)
        seconds, cover = each * layout.accumulate, computing
        # Nothing runs before the first unit is there.
        first = setting.number_bytes * work.unit * max(share.layers, share.outside)
        shown += layout.accumulate * collective(setting, layout, first)
    hidden = min(seconds, given.overlap * cover)
    return shown + seconds - hidden + given.contention * hidden, hidden


def tensor_communication(setting: PlannedSetting, layout: ParallelLayout) -> float:
    """Seconds in which ranks that share matrices sum streams, four times a layer, and gather logits."""
    if layout.tensor == 1:
        return 0.0
    given, work = setting.assumptions, setting.work
    rows = layout.micro_batch * work.context * setting.number_bytes
    number = (layout.tensor - 1) / layout.tensor / (setting.device.within * 1e9) / given.link_share
    each = 2 * rows * work.width * number + given.link_latency
    gathered = rows * work.logits * number + given.link_latency if work.share(layout.tensor).outside < 1 else 0.0
    return (each * work.depth * (4 + 2 * layout.again) + gathered) * layout.accumulate


def collective(setting: PlannedSetting, layout: ParallelLayout, size: float) -> float:
    """Seconds to gather, or to sum and scatter, `size` bytes over the ranks of the data, by rings.

    Each rank takes in all but its part over its link; a node takes in what the others have over all links it has to
    them, one a rank.
    """
    given, ranks = setting.assumptions, layout.data
    nodes = math.ceil(ranks * layout.tensor / setting.node)
    within = (ranks - 1) / ranks * size / (setting.device.within * 1e9)
    between = 0.0
    if nodes > 1:
        inside = max(1, setting.node // layout.tensor)
        between = (nodes - 1) / nodes * size / (setting.device.between * 1e9 * inside)
    return max(within, between) / given.link_share + given.link_latency


def check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise InputError for a choice that there is not."""
    if value not in known:
        raise InputError(f"{name}: expected {', '.join(known)}; this is {value!r}")
