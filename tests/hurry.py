"""What the tests leave out of every run because it takes long and is tested by itself: the disk, and the picture.

`os.fsync` is for a loss of power; a process that is killed loses nothing that the system holds. The picture of a run is
half of the time of a short one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

PICTURES = ("loss.svg", "loss.png")


def leave_out() -> None:
    """From here on this process waits for no disk, and runs have empty pictures."""
    from transformula.training import report

    os.fsync = lambda handle: None
    report.draw_curve = no_curve  # type: ignore[attr-defined]


def no_curve(folder: Path, *given: Any) -> None:
    """In place of `draw_curve`, which tests that look at the picture call themselves."""
    for name in PICTURES:
        (folder / name).write_bytes(b"")
