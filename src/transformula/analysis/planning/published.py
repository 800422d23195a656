"""Published runs, as data: `published.yaml`. Tests hold the plans to them, and a page of the reference shows both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...structured import load_yaml


@dataclass(frozen=True)
class PublishedRun:
    """One run.

    model, sizes  what `plan` takes as the model, and the numbers that are changed
    settings      what else `plan` takes
    tokens        of the whole run
    rate          tokens a second of one device; days of the whole run; memory in GiB of a device at the peak
    source        where that stands; `note` says what the source does not
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    source: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    tokens: float = 1e9
    rate: float | None = None
    days: float | None = None
    memory: float | None = None
    note: str = ""


SETTINGS = ("gpu", "gpus", "batch_tokens", "parallel", "micro_batch", "recompute", "attention", "compiled")


def published_runs() -> list[PublishedRun]:
    """All rows of the file. All were trained with AdamW in bf16; what a row does not recompute it keeps."""
    runs = []
    for row in load_yaml(Path(__file__).parent / "published.yaml"):
        settings = {name: row.pop(name) for name in SETTINGS if name in row}
        usual = {"optimizer": "adamw", "precision": "bf16", "recompute": "none"}
        runs.append(PublishedRun(settings={**usual, **settings}, **row))
    return runs
