"""One page on a run, for whoever finds its folder: `summary.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..atomic_io import write_whole


@dataclass(frozen=True)
class RunPage:
    """What the page says. Times in seconds; `commands` are those by which one goes on, each on a line."""

    title: str
    text: str
    parameters: int
    task: str
    data: Mapping[str, Any]
    verdict: str
    scores: Mapping[str, float]
    best_step: int
    baselines: Mapping[str, float]
    steps: int
    units: int
    unit: str
    seconds: float
    stopped: str
    machine: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    sample: str = ""
    commands: Sequence[str] = ()
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The page."""
        rows = [f"# {self.title}", "", f"**{self.verdict}**" if self.verdict else "", "", "![loss](loss.svg)", ""]
        rows += ["## Result", "", "| | |", "| --- | --- |"]
        rows += [f"| {name.replace('_', ' ')}, validation | {number(value)} |" for name, value in self.scores.items()]
        rows += [f"| baseline: {name} | {value:.4f} |" for name, value in self.baselines.items()]
        rate = self.units / self.seconds if self.seconds else 0.0
        rows += [
            f"| best at step | {self.best_step:,} |",
            f"| steps; {self.unit} | {self.steps:,}; {self.units:,} |",
            f"| time | {duration(self.seconds)} ({rate:,.0f} {self.unit} a second) |",
            f"| ended | {self.stopped} |",
            f"| machine | {self.machine} |",
            "",
            f"## Model: {self.parameters:,} parameters",
            "",
            fence(self.text.rstrip(), "yaml"),
            "",
            f"## Data: {self.task}",
            "",
            *[f"- {key}: {value}" for key, value in self.data.items()],
            "",
            "## Training",
            "",
            *[f"- {key}: {value}" for key, value in self.settings.items()],
            "",
        ]
        if self.notes:
            rows += [*[f"- {note}" for note in self.notes], ""]
        if self.sample:
            rows += ["## What it writes", "", fence(self.sample.rstrip()), ""]
        rows += [
            "## How to go on",
            "",
            fence("\n".join(self.commands)),
            "",
        ]
        return "\n".join(rows)

    def write(self, folder: Path) -> Path:
        """Write summary.md; returns the file."""
        path = folder / "summary.md"
        write_whole(path, self.markdown().encode("utf-8", "replace"))
        return path


def number(value: float) -> str:
    """'1.7200', '111,539': counts without decimals."""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) >= 100 else f"{value:,.4f}"


def fence(text: str, kind: str = "") -> str:
    """A block of code in Markdown, whatever the text holds."""
    marks = "```"
    while marks in text:
        marks += "`"
    return f"{marks}{kind}\n{text}\n{marks}"


def duration(seconds: float) -> str:
    """'8 s', '3 min 20 s', '2 h 5 min'."""
    whole = int(round(seconds))
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
