"""What rows of batches carry from step to step, where a model says `carry`."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from ..errors import InputError
from ..model.segment_memory import Carried


class CarriedRows:
    """For each micro-batch what its rows carry into a step, for that step and the one after it: so a step can be made
    again, and begins from what the first time began from."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Carried]] = {}

    def into(self, step: int, micro: int) -> Carried:
        """What was left for a step. Raises InputError where nothing was: steps are made one after another."""
        found = self._known.get(micro, {}).get(step)
        if found is None:
            raise InputError(
                f"step {step}, micro-batch {micro}, goes on from the step before it, which left nothing: make the "
                "steps in order, or go on from a checkpoint that holds what was carried"
            )
        return found

    def leave(self, step: int, micro: int, carried: Carried) -> None:
        """What a step leaves for the next one."""
        known = self._known.get(micro, {})
        self._known[micro] = {s: c for s, c in known.items() if s == step} | {step + 1: carried}

    def tensors(self) -> dict[str, Tensor]:
        """All that is carried into the next step, for a checkpoint: by step, micro-batch and name."""
        last = max((step for known in self._known.values() for step in known), default=0)
        return {
            f"{last}.{micro}.{name}": tensor
            for micro, known in self._known.items()
            if last in known
            for name, tensor in known[last].flat().items()
        }

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave, and from nothing else."""
        found: dict[int, dict[int, dict[str, Tensor]]] = {}
        for path, tensor in tensors.items():
            step, micro, name = path.split(".", 2)
            found.setdefault(int(micro), {}).setdefault(int(step), {})[name] = tensor
        self._known = {
            micro: {step: Carried.read(parts) for step, parts in steps.items()} for micro, steps in found.items()
        }
