"""What a search has left in its folder, for whoever goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..structured import Malformed, load_json
from .plan import read_plan

RESULTS = "results.json"


def variants_of(folder: str | Path) -> list[dict[str, Any]]:
    """Variants for `compare`: a search's base, and the wirings that it found, or else its finalists. Raises InputError
    for a folder without such, CheckpointError where its plan is damaged."""
    folder = Path(folder)
    try:
        results, plan = load_json(folder / RESULTS), read_plan(folder)
        if not results["ended"]:
            raise KeyError("ended")
        names = results["found"] or results["finalists"]
        models = {one["name"]: one["model"] for one in results["candidates"]}
        wirings = [{"name": name, "model": models[name]} for name in names]
    except (OSError, Malformed, KeyError, TypeError):
        plan = None
    if plan is None:
        raise InputError(f"{folder}: holds no search that has come to its end; run it: transformula search --out ...")
    if not wirings:
        raise InputError(f"{folder}: no wiring of this search was better than its base, so there is nothing to compare")
    return [{"name": "base", "model": str(plan.base.config["model"])}, *wirings]
