"""How a program of a decoding's steps is made, and held to the model's own code before it is used."""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Mapping
from contextlib import suppress

import torch
from torch import Tensor

from ..model.decoding import Decoding
from .kinds import FEWEST_STEPS, FLOAT32, LARGEST, TOLERANCE, OwnStep
from .packing import Packing
from .program import StepProgram, seconds
from .recording import NoProgram, Recording, Walker

ROOMS = ((512, 64), (4096, 512), (LARGEST, 4096))  # up to so many positions, in steps of so many
TURNS, MAX_SLOWDOWN = 3, 1.5  # of a program's step beside the model's own


def room_of(decoding: Decoding) -> int:
    """Positions that caches get room for: programs are of one such number, so there are few."""
    step = next(step for most, step in ROOMS if decoding.capacity <= most)
    return -(-decoding.capacity // step) * step


def program_for(
    model: OwnStep, decoding: Decoding, inputs: Mapping[str, Tensor], packing: Packing, must: bool = False,
    varying: Collection[int] = (),
) -> StepProgram:  # fmt: skip
    """A program of the steps from here on, as far as they are alike; unless it `must` be, one that is worth making.
    `varying`: sizes that programs for other rows have otherwise. Raises NoProgram."""
    length = inputs["tokens"].shape[1]
    first, last = decoding.longest, min(room_of(decoding), model.limit or LARGEST) - length
    collects = gc.isenabled()
    gc.disable()  # among all objects that PyTorch has, a third of the time
    try:
        return checked_program(model, decoding, inputs, (first, last), packing, must, varying)
    except NoProgram:
        raise
    except Exception as error:  # whatever a word does: the text is written all the same, by its own code
        raise NoProgram(f"{type(error).__name__}: {error}") from error
    finally:
        if collects:
            gc.enable()


def checked_program(
    model: OwnStep, decoding: Decoding, inputs: Mapping[str, Tensor], ends: tuple[int, int], packing: Packing,
    must: bool, varying: Collection[int],
) -> StepProgram:  # fmt: skip
    first, last = ends
    with suppress(Exception):  # tables of positions grow now, not within a recording
        Walker(model, decoding, inputs, last + 2).plain(last)
    walker = Walker(model, decoding, inputs, last + 2)
    recordings: dict[int, Recording] = {}

    def record() -> int:
        """Record the first two steps; how many operations the first has."""
        recordings.clear()
        recordings.update((past, walker.step(past)) for past in (first, first + 1))
        return len(recordings[first].operations)

    operations = record()
    expected = results_of(recordings[first])

    def up_to(end: int) -> StepProgram | None:
        try:
            for past in {(first + end) // 2, end} - recordings.keys():
                recordings[past] = walker.step(past)
            used = [recordings[past] for past in (first, first + 1, (first + end) // 2, end)]
            program = StepProgram(distinct(used), first, end, packing, varying)
        except Exception:  # a length at which the step is another, or none
            return None
        return program if program.last == end else None

    program = up_to(last)
    if program is None and record() < operations:  # one had grown all the same
        program = up_to(last)
    if program is None:
        three = [recordings[first], recordings[first + 1], walker.step(first + 2)]
        near = StepProgram(three, first, last, packing, varying)
        low, high = first + 2, min(near.last, last)
        program = up_to(high)
        while program is None and high - low > 1:
            middle = (low + high) // 2
            found = up_to(middle)
            low, high = (middle, high) if found else (low, middle)
            program = found if found and high - low <= 1 else None
        program = program or up_to(low)
    short = program is None or (program.last - first < FEWEST_STEPS // 2 and last - first >= FEWEST_STEPS)
    if program is None or (short and not must):
        raise NoProgram("its steps are alike for a few tokens only")
    walker = Walker(model, decoding, inputs, program.last + 1)
    hold_to(expected, program, walker, first, TOLERANCE[packing.weights])
    if not must and packing.weights == FLOAT32:  # who asks for kernels, or for other weights, gets them
        hold_to_speed(program, walker, first)
    return program


def results_of(recording: Recording) -> dict[str, Tensor]:
    """What a step came to: its outputs, and of states those that it replaces. What it writes into caches its outputs
    show."""
    replaced = {name: tensor for name, tensor in recording.left.items() if tensor is not recording.given.get(name)}
    return {name: tensor.to(torch.float32, copy=True) for name, tensor in (recording.outputs | replaced).items()}


def distinct(recordings: list[Recording]) -> list[Recording]:
    return list({recording.past: recording for recording in recordings}.values())


def hold_to(
    expected: Mapping[str, Tensor], program: StepProgram, walker: Walker, past: int, tolerance: float
) -> None:
    """Hold a program's first step, of a copy, to the model's own: its outputs, and what it leaves for later ones.
    Raises NoProgram."""
    given = {f"input.{name}": tensor for name, tensor in walker.inputs.items()}
    program.bind({**given, "lengths": walker.lengths + past, **walker.before})
    outputs = program.run(past)
    for name, own in expected.items():
        tensor = (outputs[name] if name in outputs else walker.before[name]).to(own)
        finite = torch.isfinite(own)
        largest = own[finite].abs().max() if bool(finite.any()) else torch.ones(())
        far = (tensor - own)[finite].abs() > tolerance * largest
        if not torch.equal(finite, torch.isfinite(tensor)) or bool(far.any()):
            raise NoProgram("its kernels come to other numbers than the model's own code")


def hold_to_speed(program: StepProgram, walker: Walker, past: int) -> None:
    """Hold a program's step to the time of the model's own, by the least of a few turns, or of the first where it is
    faster. Raises NoProgram."""
    ours = theirs = math.inf
    for _ in range(TURNS):
        ours, theirs = min(ours, seconds(program.run, past)), min(theirs, seconds(walker.plain, past))
        if ours <= theirs:
            return
    if ours > MAX_SLOWDOWN * theirs:
        raise NoProgram(f"its kernels take {ours / theirs:.1f} times as long as PyTorch")
