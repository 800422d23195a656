"""Every key of every family's config.json changed, one at a time: computed alike, or refused with its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.named import tiny
from tests.interop.named.calls import CALLS
from transformula.interop.parity.mutations import FINE, Mutated, changes

Folder = Callable[[str], Path]
READ = [row.name for row in tiny.rows().values() if not row.refused]
EVERYDAY, EVERY = "gemma3", 12  # the row of every day, and one of how many of its changes


def mutated_row(name: str, tiny_folder: Folder, work: Path) -> Mutated:
    row = tiny.rows()[name]
    return Mutated(row.theirs, CALLS[row.call], tiny_folder(name), work / name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READ)
def test_no_change_is_silently_another_model(name: str, tiny_folder: Folder, tmp_path: Path) -> None:
    mutated = mutated_row(name, tiny_folder, tmp_path)
    outcomes = {str(change): mutated.outcome(change) for change in changes(mutated.config)}
    assert {change: outcome for change, outcome in outcomes.items() if outcome not in FINE} == {}
    assert {"equal", "refused"} <= set(outcomes.values())


@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_changes(tiny_folder: Folder, tmp_path: Path) -> None:
    mutated = mutated_row(EVERYDAY, tiny_folder, tmp_path)
    sample = changes(mutated.config)[::EVERY]
    outcomes = {str(change): mutated.outcome(change) for change in sample}
    assert {change: outcome for change, outcome in outcomes.items() if outcome not in FINE} == {}
    assert {"equal", "refused"} <= set(outcomes.values())
