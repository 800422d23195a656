"""How long a step of training takes, by a short trial whose steps change nothing that lasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from ..language.graph import Architecture
from ..model import build
from ..tasks.base import Task
from . import machine
from .optimizer import optimizers, parameters_of
from .settings import TrainingSettings
from .weights import Weights

RATE = 1e-9  # of learning, so that nothing diverges
FEWEST = 3  # rounds, however long they take


def trial_step(task: Task, architecture: Architecture, training: TrainingSettings) -> Callable[[int], None]:
    """A function that makes step 0, 1, 2, ... of training a new model, and returns once the device has made it."""
    device = machine.pick_device(training.device)
    model = build(architecture, seed=training.seed).to(device)
    precision = machine.FLOAT32 if training.precision == "auto" else training.precision
    weights = Weights(model, precision)
    optimizer = optimizers.get(training.optimizer)(parameters_of(model), training, machine.DTYPES[precision])

    def make(step: int) -> None:
        for micro in range(training.accumulate):
            loss = task.loss(weights.model.train(), task.batch(step, micro).to(device))
            torch.autograd.backward(loss)
            weights.collect()
        optimizer.step(RATE)
        weights.publish()
        weights.clear()
        float(loss.detach())  # waits for the device

    return make


def times_of_steps(
    makers: Sequence[Callable[[int], None]], rounds: int, most: float
) -> list[list[tuple[float, float]]]:
    """(seconds, those of this process's processors) of each step but the first, of each maker.

    A round is one step of each, so that what else the machine does meets all alike; every other round goes backwards.
    It ends after `rounds`, or once `most` seconds are spent on each, but not before three rounds.
    """
    times: list[list[tuple[float, float]]] = [[] for _ in makers]
    begun = time.perf_counter()
    for step in range(rounds + 1):
        order = [*enumerate(makers)]
        for place, make in order[:: -1 if step % 2 else 1]:
            begin = time.perf_counter(), time.process_time()
            make(step)
            times[place].append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
        if step >= FEWEST and time.perf_counter() - begun > most * len(makers):
            break
    return [each[1:] for each in times]
