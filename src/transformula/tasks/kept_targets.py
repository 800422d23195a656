"""What a teacher says of the batches of a run, kept from run to run."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from ..data.cache import cached_entry
from ..generation.steps import device_of
from .base import Batch, Task

KEPT_TOGETHER = 64  # micro-batches that one entry of the cache holds


class KeptTargets:
    """What a teacher says of the batches of a run, kept in the cache: of each distribution the logits of its k most
    probable classes, float32, and their ids. The loss takes softmax over these alone: it renormalizes.

    An entry has KEPT_TOGETHER micro-batches. Its key has the teacher's weights and formula, k, the kind of device, and
    the content of these batches: so runs of equal batches share it, whatever their models, rates and temperatures are.
    """

    def __init__(self, task: Task, asked: Any, most: int, accumulate: int) -> None:
        self.task, self.asked, self.most, self.accumulate = task, asked, most, accumulate
        self.device = device_of(asked.teacher.module)
        self._block, self._tensors = -1, dict[str, Tensor]()

    def of(self, step: int, micro: int) -> dict[str, Tensor]:
        """`logits` and `ids` of a micro-batch, (rows, distributions of each, k)."""
        place = step * self.accumulate + micro
        block = place // KEPT_TOGETHER
        if block != self._block:
            self._tensors, self._block = self._read(block), block
        number = place % KEPT_TOGETHER
        return {name: self._tensors[f"{name} {number}"] for name in ("logits", "ids")}

    def _read(self, block: int) -> dict[str, Tensor]:
        places = [divmod(block * KEPT_TOGETHER + n, self.accumulate) for n in range(KEPT_TOGETHER)]
        batches = [self.task.batch(*place) for place in places]
        about = self.asked.teacher.about
        known = [about.get("sha256"), about.get("formula"), self.device.type, self.most]
        digest = hashlib.sha256(f"{known}".encode())
        for batch in batches:
            lengths = [(f"length of {name}", tensor) for name, tensor in batch.lengths.items()]
            for name, tensor in sorted([*batch.inputs.items(), *lengths, ("targets", batch.targets)]):
                digest.update(f"{name} {tuple(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes())

        def make(folder: Path) -> dict[str, Any]:
            tensors: dict[str, Tensor] = {}
            for number, batch in enumerate(batches):
                tensors |= {f"{name} {number}": each for name, each in self._ask(batch).items()}
            save_file(tensors, folder / "said.safetensors")
            return {"teacher": str(about.get("folder", "")), "classes": self.most, "batches": len(batches)}

        entry = cached_entry("teacher", digest.hexdigest()[:32], make)
        return {name: tensor.long() if name.startswith("ids") else tensor
                for name, tensor in load_file(entry / "said.safetensors").items()}  # fmt: skip

    def _ask(self, batch: Batch) -> dict[str, Tensor]:
        said = self.asked.teacher_says(batch.to(self.device))
        logits, ids = said.logits.float().topk(min(self.most, said.logits.shape[-1]), dim=-1)
        rows = len(batch.targets)
        return {"logits": logits.view(rows, -1, logits.shape[-1]).cpu().contiguous(),
                "ids": ids.view(rows, -1, ids.shape[-1]).int().cpu().contiguous()}  # fmt: skip
