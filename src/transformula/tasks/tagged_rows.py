"""Rows of sentences whose tokens have tags: their columns, and what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.lines import BadRows
from ..data.records import BadRecord, Record, columns_of, read_records, unknown_column
from ..errors import DataError, InputError
from .label_spelling import is_label

TOKEN_COLUMNS = ("tokens", "words", "form", "forms", "token", "word")  # common names of the columns
TAG_COLUMNS = ("tags", "ner_tags", "pos_tags", "upos", "labels", "ner", "pos", "tag")


def tokens_of(record: Record) -> list[str]:
    return record["tokens"]  # type: ignore[return-value]  # the reader asks for lists of texts


def tags_of(record: Record) -> list[str]:
    return record["tags"]  # type: ignore[return-value]


def strip_tags(row: Record, column: str | int) -> Record:
    """A row whose tags are stripped of blanks. Raises DataError for a token that has none."""
    tags = [tag.strip() for tag in tags_of(row)]
    place = next((place for place, tag in enumerate(tags) if not is_label(tag)), None)
    if place is not None:
        raise DataError(
            f"{row.place}: token {place + 1}, {tokens_of(row)[place]!r:.60}, has no tag ({column}); give it one,"
            " such as O, or take the row out"
        )
    return row.changed(tags=tags)


def sentences_in(path: Path, column: str | None, bad_rows: BadRows = None) -> list[Record]:
    """What a column of a file of rows holds, by default that of the tokens, as the field `source`: lists of tokens, or
    texts. Raises InputError, DataError."""
    names, _ = columns_of(path, bad_rows=bad_rows)
    chosen = column or next(
        (name for name in (*TOKEN_COLUMNS, "text", "source", *names[: len(names) == 1]) if name in names), ""
    )
    if not chosen:
        raise InputError(f"{path} has the columns {', '.join(names)}: say which holds the tokens: --column NAME")
    reading: dict[str, Any] = {"empty": "keep", "whole": True, "bad_rows": bad_rows}
    rows = list(read_records(path, {"source": chosen}, kinds={"source": "list"}, **reading))
    good = [row for row in rows if not isinstance(row, BadRecord)]
    if not all(len(row["source"]) == 1 for row in good):  # type: ignore[arg-type]
        return rows
    return [row if isinstance(row, BadRecord) else row.changed(source=row["source"][0]) for row in rows]  # type: ignore[index]


def word_counts(records: Sequence[Record], lower: bool) -> Counter[str]:
    """How often each word stands in the training set."""
    return Counter(word.lower() if lower else word for row in records for word in tokens_of(row))


def columns_for(sources: str | list[str], settings: Any) -> dict[str, str | int]:
    """Which columns are the tokens and the tags. Raises ConfigError where nothing says so."""
    names, _ = columns_of(sources, **settings.reading)
    columns: dict[str, str | int] = {}
    for field, common in (("tokens", TOKEN_COLUMNS), ("tags", TAG_COLUMNS)):
        column = getattr(settings, f"{field}_column") or next((name for name in common if name in names), None)
        if column is None:
            raise unknown_column(f"{field}_column", sources, names, names[0 if field == "tokens" else -1], field)
        columns[field] = column
    return columns
