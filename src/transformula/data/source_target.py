"""Rows with a source and a target: read, split, checked for overlap, and limited in length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ..errors import DataError
from .records import Record, columns_of, read_records, unknown_column
from .settings import Named, RowSettings
from .splits import SplitRows, read_split


def read_source_target(settings: RowSettings, default: str, images: bool = False) -> SplitRows:
    """Records with the fields `source` and `target`, and `references` where there are such: those that the settings
    name, or of the built-in set `default`; with `images` the source is a picture. Raises as `read_split` does, and
    ConfigError for columns that are not there."""
    return read_split(settings, partial(read_rows, images=images), ("source", "target"), ("source",), default)


def read_rows(sources: Named, settings: RowSettings, key: str, notes: list[str], images: bool) -> list[Record]:
    """The rows of some sources with the fields `source`, `target` and perhaps `references`; `key` names them in errors.
    What a person is told is added to `notes`."""
    assert sources is not None
    fields, note = source_target_columns(sources, settings)
    notes += [f"{key}: {note}"] if note else []
    kinds = {"source": "picture"} if images else {}
    if settings.references is not None:
        fields["references"], kinds["references"] = settings.references, "list"
    records = read_records(sources, fields, kinds=kinds, join=settings.join, like=settings.data, **settings.reading)
    return records.read_all(key, notes)


def source_target_columns(sources: str | list[str], settings: RowSettings) -> tuple[dict[str, str | int], str]:
    """Which columns are the source and the target: those that are named, `source` and `target`, or the only two; and
    what a person is told of the first row of a table."""
    named = {"source": settings.source, "target": settings.target}
    if None not in named.values():
        return {key: str(column) for key, column in named.items()}, ""
    names, header = columns_of(sources, **settings.reading)
    chosen: dict[str, str | int] = {}
    for place, (key, column) in enumerate(named.items()):
        other = named["target" if key == "source" else "source"]
        if column is not None or key in names:
            chosen[key] = key if column is None else column
        elif len(names) == 2:
            chosen[key] = names[place] if other is None else next((n for n in names if n != other), names[place])
        else:
            raise unknown_column(key, sources, names, names[min(place, len(names) - 1)])
    notes = {
        True: "the first row names the columns: source {source!r}, target {target!r}; if it is a row like the others,"
        " say --source 1 --target 2",
        False: "no header: columns {source} and {target}; if the first row names the columns, say these names with"
        " --source and --target",
        None: "",
    }
    return chosen, notes[header].format(**chosen)


def texts_of(records: Sequence[Record], side: str) -> list[str]:
    return [str(row[side]) for row in records]


def references_of(records: Sequence[Record]) -> list[list[str]]:
    """The texts that a score accepts as right: the references of each row, or its target."""
    references = [row["references"] if "references" in row else [str(row["target"])] for row in records]
    return [[text for text in texts if text.strip()] for texts in references if isinstance(texts, list)]


def within_limits(
    lengths: Mapping[str, np.ndarray], most: Mapping[str, int | None], too_long: str, records: Sequence[Record]
) -> tuple[np.ndarray, str]:
    """Which rows may be trained on: (rows,) bool; and what is said of the others, which, as `too_long` says, are
    refused (an error that shows the first), dropped or cut."""
    limits = {side: limit for side, limit in most.items() if limit is not None}
    fits = np.ones(len(records), dtype=bool)
    for side in limits.keys() & lengths.keys():
        fits &= lengths[side] <= limits[side]
    over = int((~fits).sum())
    if not over:
        return fits, ""
    listed = ", ".join(f"{side} {limit}" for side, limit in limits.items())
    if too_long == "cut":
        return np.ones_like(fits), f"{over:,} rows of training are cut ({listed} tokens)"
    if too_long == "refuse" or not fits.any():
        place = int(fits.argmin())
        row = ", ".join(f"{side} {int(each[place])} tokens" for side, each in lengths.items())
        raise DataError(
            f"{records[place].place}: a row of {row} is longer than the limits ({listed}); rows like it: {over:,}."
            " Raise --max-source or --max-target, or say --too-long drop or cut"
        )
    return fits, f"{over:,} rows of training are left out: longer than {listed} tokens"
