"""What is said of pairs before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..data.pairs import RecordsPreview

if TYPE_CHECKING:
    from .pairs import Pairs


class PairsPreview:
    """What rows hold and how they are batched: its `repr` is for people, `.data` for programs."""

    def __init__(self, task: Pairs, records: RecordsPreview) -> None:
        fill = task.buckets.fill()
        self.records, self.fill, self.task = records, fill, task
        self.data: dict[str, Any] = {
            "data": task.rows.name,
            "training_rows": len(task.training),
            "validation_rows": len(task.validation),
            "tokenizer": task.about,
            "batches": str(fill),
            **records.data,
        }

    def __repr__(self) -> str:
        task, chosen = self.task, self.task.chosen
        rows = [
            ("data", f"{task.rows.name}: {len(task.training):,} rows to train, {len(task.validation):,} to validate"),
            ("tokenizer", task.about),
            ("batches", f"{chosen.batch_tokens:,} {chosen.batch_counted} tokens ({chosen.batch_side}): {self.fill}"),
        ]
        return "\n".join([*(f"{name:<12}{text}" for name, text in rows), repr(self.records)])
