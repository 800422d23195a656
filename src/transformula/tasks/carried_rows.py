"""What rows of batches carry from step to step, where a model says `carry`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from torch import Tensor

from ..errors import InputError
from ..model.segment_memory import Carried


class CarriedRows:
    """What the rows of each micro-batch carry into a step, for that step and the one after it: so a step can be made
    again, and begins from what the first time began from."""

    def __init__(self) -> None:
        self._into: dict[tuple[int, int], Carried] = {}  # by step and micro-batch

    def into(self, step: int, micro: int) -> Carried:
        """What was left for a step. Raises InputError where nothing was: steps are made one after another."""
        if (step, micro) not in self._into:
            raise InputError(
                f"step {step}, micro-batch {micro}, goes on from the step before it, which left nothing: make the "
                "steps in order, or go on from a checkpoint that holds what was carried"
            )
        return self._into[step, micro]

    def leave(self, step: int, micro: int, carried: Carried) -> None:
        """What a step leaves for the next one."""
        kept = {key: before for key, before in self._into.items() if key[1] != micro or key[0] == step}
        self._into = {**kept, (step + 1, micro): carried}

    def tensors(self) -> dict[str, Tensor]:
        """All that is carried into the next step, for a checkpoint: by step, micro-batch and name."""
        last = max((step for step, _ in self._into), default=0)
        return {
            f"{step}.{micro}.{name}": tensor
            for (step, micro), carried in self._into.items()
            if step == last
            for name, tensor in carried.flat().items()
        }

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave, and from nothing else."""
        parts: dict[tuple[int, int], dict[str, Tensor]] = defaultdict(dict)
        for path, tensor in tensors.items():
            step, micro, name = path.split(".", 2)
            parts[int(step), int(micro)][name] = tensor
        self._into = {key: Carried.read(flat) for key, flat in parts.items()}
