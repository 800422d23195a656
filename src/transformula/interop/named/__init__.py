"""Named models: folders of published families, read and written by what their data files say."""

from __future__ import annotations

from pathlib import Path

FILE = "config.json"


def is_theirs(folder: Path) -> bool:
    """Whether a folder is one of transformers, and none of ours."""
    return (folder / FILE).is_file() and not (folder / "model.yaml").is_file()
