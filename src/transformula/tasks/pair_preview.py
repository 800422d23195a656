"""What is said of pairs before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..data.buckets import Fill
from ..data.pair_settings import BatchSettings
from ..data.pairs import RecordsPreview


@dataclass(frozen=True, repr=False)
class PairsPreview:
    """What rows hold and how they are batched: its `repr` is for people, `.data` for programs."""

    name: str
    training: int
    validation: int
    tokenizer: str
    chosen: BatchSettings
    fill: Fill
    records: RecordsPreview

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "data": self.name,
            "training_rows": self.training,
            "validation_rows": self.validation,
            "tokenizer": self.tokenizer,
            "batches": str(self.fill),
            **self.records.data,
        }

    def __repr__(self) -> str:
        chosen = self.chosen
        rows = [
            ("data", f"{self.name}: {self.training:,} rows to train, {self.validation:,} to validate"),
            ("tokenizer", self.tokenizer),
            ("batches", f"{chosen.batch_tokens:,} {chosen.batch_counted} tokens ({chosen.batch_side}): {self.fill}"),
        ]
        return "\n".join([*(f"{name:<12}{text}" for name, text in rows), repr(self.records)])
