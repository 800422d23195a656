"""The rows of pairs: read, held out, told apart from those that measure, encoded, and those that are too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError, DataError, did_you_mean, nearest
from .held_out import split_records
from .pair_settings import PairSettings, Rows
from .pairs import find_overlap, without_overlap
from .record import Record
from .records import Columns, columns_of, read_records
from .working import working


@dataclass(frozen=True)
class PairRows:
    """Records with the fields `source` and `target`, and `references` where there are such.

    name   of the data
    notes  what a person is told of them
    """

    name: str
    training: Sequence[Record]
    validation: Sequence[Record]
    test: Sequence[Record]
    notes: tuple[str, ...]


def read_pairs(settings: PairSettings, usual: str, images: bool = False) -> PairRows:
    """The rows that the settings name.

    usual   the built-in set that is taken where none is named
    images  the source is a picture

    Raises DataError at the row that cannot be read, for rows that measure and are learned from, and for none at all;
    ConfigError for columns that are not there.
    """
    data = settings.data or usual
    notes: list[str] = []
    with working("reading the data"):
        training: Sequence[Record] = read_rows(data, settings, images, "data", notes)
        share, named = settings.held_out, ("validation", "test")
        held: dict[str, Sequence[Record]] = {
            name: read_rows(getattr(settings, name), settings, images, name, notes)
            for name in named
            if getattr(settings, name) is not None
        }
        # Rows that choose the best of a run's models are not those that score it, unless they alone were named.
        for seed, name in enumerate(named if "validation" not in held else (), 1):
            if name not in held:
                training, held[name] = split_records(training, share, seed)
                notes.append(f"{len(held[name]):,} rows ({100 * share:g} %) are held back for {name}")
    with working("looking for rows that measure and are learned from"):
        both = ("source", "target")
        # Of rows that were held back by their sources no source is left, unless groups decided.
        grouped = any(record.group for record in training)
        overlaps = [
            find_overlap(training, rows, f"the {name} rows", both)
            for name, rows in held.items()
            if grouped or getattr(settings, name) is not None
        ]
        training, removed = without_overlap(training, overlaps, settings.overlap)
    if removed:
        notes.append(f"{removed:,} rows that measure were left out of training")
    elif any(one.rows for one in overlaps):
        notes.append("kept, though they are learned from: " + "; ".join(str(one).splitlines()[0] for one in overlaps))
    name = ", ".join(map(str, data)) if isinstance(data, list) else str(data)
    return PairRows(name, training, held["validation"], held.get("test", held["validation"]), tuple(notes))


def read_rows(given: Rows, settings: PairSettings, images: bool, key: str, notes: list[str]) -> list[Record]:
    """The rows of one source with the fields `source`, `target` and perhaps `references`; `key` names it in errors."""
    fields, assumed = columns(given, settings)
    notes += [f"{key}: {assumed}"] if assumed else []
    if settings.references is not None:
        fields["references"] = settings.references
    assert given is not None
    kinds = {**({"source": "picture"} if images else {}), **({"references": "list"} if "references" in fields else {})}
    records = read_records(given, fields, kinds=kinds, join=settings.join, quoted=settings.quoted)
    rows = list(records)
    if not rows:
        raise DataError(f"{key}: {records.name} holds no rows", path=records.name)
    if records.tally.empty:
        notes.append(f"{key}: {records.tally}")
    notes += records.notes
    return rows


def columns(given: Rows, settings: PairSettings) -> tuple[dict[str, str | int], str]:
    """Which columns are the source and the target: those that are named, `source` and `target`, or the only two; and
    what a person is told of what was assumed."""
    if settings.source is not None and settings.target is not None:
        return {"source": settings.source, "target": settings.target}, ""
    assert given is not None
    table = columns_of(given, settings.quoted)
    names = table.names
    found: dict[str, str | int] = {}
    for key, place, said in (("source", 0, settings.source), ("target", 1, settings.target)):
        if said is not None:
            found[key] = said
        elif key in names:
            found[key] = key
        elif len(names) == 2:
            other = settings.target if key == "source" else settings.source
            found[key] = names[place] if other is None else next((n for n in names if n != other), names[place])
        else:
            near = did_you_mean(nearest(key, names))
            raise ConfigError(
                f"{key}: the rows of {given} have the columns {', '.join(names)}: say which is the {key}, as in"
                f" --{key} {names[min(place, len(names) - 1)]}{';' + near if near else ''}"
            )
    return found, _assumed(table, found)


def _assumed(table: Columns, found: Mapping[str, str | int]) -> str:
    """What is told of the first row of a table."""
    if table.header is None:
        return ""
    source, target = found["source"], found["target"]
    if table.header:
        return (
            f"the first row names the columns: source {source!r}, target {target!r}; if it is a row like the others,"
            " say --source 1 --target 2"
        )
    return (
        f"no header: columns {source} and {target}; if the first row names the columns, say these names with --source"
        " and --target"
    )


def texts_of(records: Sequence[Record], side: str) -> list[str]:
    """The texts of one side."""
    return [str(row[side]) for row in records]


def references_of(records: Sequence[Record]) -> list[list[str]]:
    """What a score takes for right: the references of each row, or its target."""
    return [
        [text for text in row["references"] if text.strip()]  # type: ignore[union-attr]
        if "references" in row
        else [str(row["target"])]
        for row in records
    ]


def fitting(
    lengths: Mapping[str, np.ndarray],
    most: Mapping[str, int | None],
    too_long: str,
    records: Sequence[Record],
    name: str,
) -> tuple[np.ndarray, str]:
    """Which rows may be learned from: (rows,) bool; and what is said of the others.

    too_long  "refuse": an error that shows the first such row; "drop": they are left out; "cut": all stay
    """
    fits = np.ones(len(records), dtype=bool)
    for side, limit in most.items():
        if limit is not None and side in lengths:
            fits &= lengths[side] <= limit
    over = int((~fits).sum())
    if not over:
        return fits, ""
    limits = ", ".join(f"{side} {limit}" for side, limit in most.items() if limit is not None)
    if too_long == "cut":
        return np.ones_like(fits), f"{over:,} rows of {name} are cut ({limits} tokens)"
    if too_long == "refuse" or not fits.any():
        place = int(np.flatnonzero(~fits)[0])
        said = ", ".join(f"{side} {int(each[place])} tokens" for side, each in lengths.items())
        raise DataError(
            f"{records[place].place}: a row of {said} is longer than the limits ({limits}); rows like it: {over:,}."
            " Raise --max-source or --max-target, or say --too-long drop or cut"
        )
    return fits, f"{over:,} rows of {name} are left out: longer than {limits} tokens"


def described(settings: PairSettings) -> dict[str, Any]:
    """What of the settings decides which rows are learned from."""
    keys = ("max_source", "max_target", "too_long", "overlap", "held_out")
    return {key: getattr(settings, key) for key in keys}
