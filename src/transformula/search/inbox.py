"""Proposals that others leave in a search's folder while it runs: a line of JSON each, read before a round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..structured import Malformed, parse_json
from .outside import MAX_MODEL, MAX_REASON

FILE = "inbox.jsonl"
MOST = 10_000  # proposals that may wait


def leave(folder: Path, model: str, reason: str) -> int:
    """Leave a proposal; returns how many are there. Raises InputError for one that is too long, or one too many."""
    if not model.strip() or len(model) > MAX_MODEL:
        raise InputError(f"a model is a text of 1 to {MAX_MODEL:,} characters; this has {len(model):,}")
    count = len(waiting(folder))
    if count >= MOST:
        raise InputError(f"{folder / FILE}: {MOST:,} proposals are there already")
    line = json.dumps({"model": model, "reason": " ".join(reason.split())[:MAX_REASON]})
    with open(folder / FILE, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    return count + 1


def waiting(folder: Path) -> list[tuple[str, str]]:
    """(model, reason) of all that were left, in order; a line that is none is passed over, such as one half written."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    rows = []
    for line in lines[:MOST]:
        try:
            row: Any = parse_json(line)
            rows.append((str(row["model"]), str(row.get("reason", ""))))
        except (Malformed, KeyError, TypeError, AttributeError):
            continue
    return rows
