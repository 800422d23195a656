"""The command line: one thin file a verb. What it prints is made by the rooms; nothing is decided here."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    from .door import main as run

    return run(arguments)
