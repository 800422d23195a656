"""A batch in micro-batches, and the largest ones that fit in memory, found by trying.

    gradient of a batch = sum over its parts of (c_i / c) times the gradient of part i

where a loss is a mean over c positions, rows or marks, c_i of them in part i: what accumulation adds up. It is the same
gradient but for rounding and for what looks at a batch as a whole: the drawn numbers of dropout, the balance of
experts. A task whose loss looks at it as a whole (contrastive pairs) is refused, and so is a model that carries on from
batch to batch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..cost.machine import free_memory, of_process
from ..cost.memory import of_parameters
from ..errors import ConfigError, RunError
from ..runs import random_state
from ..tasks.base import Batch, Task
from .failure import lacks_memory, unallocated
from .gradients import make_gradients, named_losses
from .optimizer import numbers_of
from .optimizers import keeps_of
from .parallel.data_parallel import parts_of_rank
from .parallel.world import ALONE, Ranks
from .settings import TrainingSettings
from .state import RunState
from .telemetry import Telemetry

T = TypeVar("T")
TRIED_STEPS = 32  # steps of which the largest batch is tried
USABLE_SHARE = 0.9  # of the memory that is free; the rest is for what does not ask so politely
LOSS_TOLERANCE = 1e-3  # a loss of parts may differ from that of the whole by rounding


def parts_of(batch: Batch, count: int) -> list[Batch]:
    """A batch in `count` parts (or as many as it has rows) of nearly equal rows, the larger ones first."""
    rows = len(batch.targets)
    count = min(count, rows)
    if count <= 1:
        return [batch]

    def part(tensors: Mapping[str, Tensor], number: int) -> dict[str, Tensor]:
        return {name: tensor.tensor_split(count)[number] for name, tensor in tensors.items()}

    return [
        replace(
            batch,
            inputs=part(batch.inputs, number),
            targets=targets,
            lengths=part(batch.lengths, number),
            said=part(batch.said, number),
        )
        for number, targets in enumerate(batch.targets.tensor_split(count))
    ]


def shares_of(task: Task, batches: Sequence[Batch], count: int) -> list[tuple[Batch, float]]:
    """A step's batches in `count` parts each; every part with its share of the step's loss. One without any is left
    out, unless all are."""
    shared = task.shared([part for batch in batches for part in parts_of(batch, count)])
    return [each for each in shared if each[1]] or shared[:1]


def check_parts(settings: TrainingSettings, task: Task, model: nn.Module, batch: Batch, ranks: Ranks = ALONE) -> None:
    """Raise ConfigError where batches are to be cut and the task's loss of a batch is not the mean of its parts'."""
    if settings.micro_batches * ranks.data_size == 1 and not settings.fit:
        return
    what = why_whole(task, model, batch)
    if what and ranks.data_size > 1:
        remedy = "each rank makes a part of every batch: train by one process (without torchrun)"
        raise ConfigError(f"parallel: {what}, and {remedy}")
    if what:
        raise ConfigError(f"{'fit' if settings.fit else 'micro_batches'}: {what}; leave it out, and lower --batch")


def why_whole(task: Task, model: nn.Module, batch: Batch) -> str:
    """Why the gradient of a batch is not that of its parts; "" where it is. What the task does not say is tried."""
    carry = int(getattr(model, "carry", 0)) if task.carries else 0
    if carry:
        return f"the model says `carry: {carry}`, so that a batch goes on from the one before it and cannot be cut"
    if task.compares:
        return f"{task.name} has a contrastive loss, which compares all rows of a batch, so that it cannot be cut"
    tensors = [*batch.inputs.values(), *batch.lengths.values()]
    alike = batch.by_rows and all(len(tensor) == len(batch.targets) for tensor in tensors)
    if alike and len(batch.targets) > 1:
        few = parts_of(batch, -(-len(batch.targets) // 3))[0]
        training = model.training
        with random_state.preserve(), torch.no_grad():
            model.eval()
            whole = float(task.loss(model, few))
            parts = sum(share * float(task.loss(model, part)) for part, share in shares_of(task, [few], 2))
            model.train(training)
        alike = abs(parts - whole) <= LOSS_TOLERANCE * max(1.0, abs(whole))
    return "" if alike else f"{task.name} looks at a batch as a whole, so that its parts have not the same gradient"


def on_a_part(settings: TrainingSettings, batch: Batch, work: Callable[[Batch], T], ranks: Ranks = ALONE) -> T:
    """What is measured on a batch as it will be cut: where it is to be found out how, on as much of it as fits."""
    count = settings.micro_batches * ranks.data_size
    while True:
        try:
            return work(parts_of(batch, count)[0])
        except (MemoryError, RuntimeError) as error:
            if not settings.fit or unallocated(error) is None or count >= len(batch.targets):
                raise
        count *= 2


def fewest(fits: Callable[[int], bool], most: int) -> int | None:
    """The smallest count from 1 to `most` that fits: powers of two, then what lies between the last two."""
    failed, count = 0, 1
    while not fits(count):
        if count >= most:
            return None
        failed, count = count, min(2 * count, most)
    while count - failed > 1:
        middle = (failed + count) // 2
        if fits(middle):
            count = middle
        else:
            failed = middle
    return count


def fit(state: RunState, telemetry: Telemetry) -> None:
    """Find the largest micro-batches that fit, say so, and go on with them. Raises RunError where not a row fits."""
    batches, task = largest_batches(state), state.task
    ranks = state.ranks
    rows = -(-max(len(batch.targets) for batch in batches) // ranks.data_size)

    def fits_all(number: int) -> bool:
        return not ranks.any(not all(fits(state, telemetry, batch, number) for batch in batches))

    count = fewest(fits_all, rows)
    if count is None:
        raise RunError(f"{state.folder.path}: not even a single row of a batch fits: {lacks_memory('', task)}")
    state.settings = state.settings.model_copy(update={"micro_batches": count})
    state.folder.write_config({**state.folder.config(), "micro_batches": count, "fit": False})
    size = f"{-(-rows // count)} of {rows} rows" + (" of a rank" if ranks.several else "")
    state.shown.say(f"micro-batches: {count} for each batch, of up to {size}: the largest that fit in memory")


def largest_batches(state: RunState) -> list[Batch]:
    """The batch with the most numbers in the next steps, and the one with the longest rows."""
    begin, task = state.position.step, state.task
    places = [(begin + i, micro) for i in range(TRIED_STEPS) for micro in range(state.settings.accumulate)]
    with random_state.preserve():
        sizes = {place: sizes_of(task.batch(*place)) for place in places}
        chosen = {max(places, key=lambda place: sizes[place][key]) for key in (0, 1)}
        return [task.batch(*place).to(state.device) for place in sorted(chosen)]


def sizes_of(batch: Batch) -> tuple[int, int]:
    """The numbers in a batch, and those of its longest row."""
    tensors = [*batch.inputs.values(), batch.targets]
    return sum(t.numel() for t in tensors), max(t.numel() // max(1, len(t)) for t in tensors)


def fits(state: RunState, telemetry: Telemetry, batch: Batch, count: int) -> bool:
    """Whether a batch's gradients can be made in so many parts, beside what the optimizer keeps. Nothing changes."""
    master = state.weights.master
    buffers = {name: buffer.clone() for name, buffer in master.named_buffers()}
    kept = of_parameters(numbers_of(state.trained), keeps_of(state.settings.optimizer)).optimizer
    kept = 0 if state.optimizer.tensors() else kept  # those are held already
    training = state.weights.model.training
    try:
        with random_state.preserve(), memory_limited(state.device):
            held = torch.empty(kept, dtype=torch.uint8, device=state.device)
            state.weights.model.train()
            parts = parts_of_rank(state.ranks, shares_of(state.task, [batch], count * state.ranks.data_size))
            make_gradients(state, telemetry, parts[:2])  # the second one beside gradients
            del held
    except (MemoryError, RuntimeError) as error:
        if unallocated(error) is None:
            raise
        return False
    finally:
        state.batch = None
        state.weights.clear()
        state.weights.model.train(training)
        for name, buffer in master.named_buffers():
            buffer.copy_(buffers[name])
        for value in named_losses(state.weights.model).values():
            value.detach_()  # a model keeps it, and with it all activations of a trial that failed
        if state.device.type in ("cuda", "mps"):
            getattr(torch, state.device.type).empty_cache()
    return True


@contextmanager
def memory_limited(device: torch.device) -> Iterator[None]:
    """Within it an allocation beyond a CPU's free memory fails. Linux would grant it, and end the process later."""
    free = free_memory() if device.type == "cpu" and sys.platform == "linux" else None
    if free is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    used = of_process("VmData:")
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(USABLE_SHARE * free), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
