"""The inputs of a task's verb: of its arguments, of a file, or of a pipe as they come."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .options import Given
from .output import check_output

if TYPE_CHECKING:
    from ..data.lines import BadRows
    from ..data.records import Record
    from ..tasks.verb import Verb


@dataclass(frozen=True)
class VerbInputs:
    """Inputs.

    pieces    as they come: texts, names of pictures, rows with columns; a `BadLine` where one cannot be read
    count     how many they are, where that is known
    rows      the rows of a file in which they stand, with all their columns; an empty one could not be read
    read      the columns in which they stand
    bad_rows  what is done with those that cannot be read or answered
    """

    pieces: Iterable[Sequence[Any]]
    count: int | None = None
    rows: Sequence[Mapping[str, Any]] | None = None
    read: tuple[str, ...] = ()
    bad_rows: BadRows = None


def first_column(verb: Verb) -> str:
    return verb.columns[0] if verb.columns else "source"


def main_column(verb: Verb) -> str:
    """What an input is called among what stands beside it."""
    return "messages" if verb.converses else first_column(verb)


def check(verb: Verb, given: Given) -> None:
    """Raise InputError for arguments that contradict each other."""
    from ..data.format import has_columns
    from ..data.sources import need_sources

    if given["sources"] and given["input"] is not None:
        raise InputError(f"{verb.takes} and --input are both given: leave one out")
    if given["column"] is not None and (given["input"] is None or not has_columns(Path(given["input"]))):
        raise InputError("--column: names a column of --input FILE with rows (.jsonl, .tsv, .csv, .parquet)")
    if given["input"] is not None:
        need_sources(given["input"])
    shown, named = verb.picture and given[verb.picture], [name for name in verb.columns[1:] if given[name] is not None]
    if shown and named:
        raise InputError(f"--{verb.picture} and --{named[0]} are both given: leave one out")
    without = [] if shown else [name for name in verb.columns[1:] if name not in named]
    if without and (given["input"] is None or not has_columns(Path(given["input"]))):
        pictured = f"; for a model of pictures --{verb.picture} FILE" if verb.picture else ""
        raise InputError(
            f"--{without[0]}: name the file of the {without[0]} of all inputs; or rows with the columns"
            f" {', '.join(verb.columns)}: --input FILE (.jsonl, .json, .tsv, .csv, .parquet){pictured}"
        )
    if "ensemble" in given.arguments and not given["others"]:
        raise InputError("--ensemble: says how models are averaged; name a second model: --with RUN")
    if given["json"] and (given["format"] not in (None, "text") or given["scores"]) and given["output"] is None:
        raise InputError("--json is one object that has the scores: leave --format and --scores out")
    if given["bad_rows"] == "skip" and str(given["output"]).endswith(".npy"):
        raise InputError("--bad-rows skip: an array has numbers in each row, none for a bad one; write lines instead")
    check_output(given["output"])


def inputs_of(verb: Verb, given: Given) -> VerbInputs:
    """The inputs. Raises InputError, DataError for a file that cannot be read, at its first mistake or at none."""
    from ..data.lines import BadLine, utf8_of
    from ..data.records import columns_of, read_records

    bad_rows = None if given["sources"] and len(given["sources"]) == 1 else given["bad_rows"]
    beside = {name: given[name] for name in verb.columns[1:]}
    if verb.picture and given[verb.picture]:
        beside = {verb.picture: given[verb.picture]}
    if any(path is None for path in beside.values()):
        names, _ = columns_of(given["input"], bad_rows=bad_rows)
        columns = {name: given["column"] or name if name == verb.columns[0] else name for name in verb.columns}
        columns |= {"id": "id"} if "id" in names else {}
        pictured = picture_column(verb, names)
        if pictured:
            columns = {name: at for name, at in columns.items() if name not in verb.columns[1:]}
            columns[verb.picture] = pictured
        kinds = {verb.picture: "pictures"} if pictured else {}
        reading: dict[str, Any] = {"empty": "keep", "whole": True, "bad_rows": bad_rows, "kinds": kinds}
        records = list(read_records(given["input"], columns, **reading))
        return of_records(records, lambda row: {name: row.held(name) for name in row}, columns.values(), bad_rows)
    main = main_inputs(verb, given, bad_rows)
    if not beside:
        return main
    texts = {
        name: path if name == verb.picture else str(utf8_of(Path(path).expanduser()), "utf-8")
        for name, path in beside.items()
    }
    pieces = (
        [text if isinstance(text, BadLine) else {main_column(verb): text, **texts} for text in piece]
        for piece in main.pieces
    )
    return VerbInputs(pieces, main.count, main.rows, main.read, bad_rows)


def picture_column(verb: Verb, names: Sequence[str]) -> str | None:
    """The column of rows that has a picture, where a verb knows one and no text takes its place; None for none."""
    from ..data.pictures import NAMING

    if not verb.picture or {*verb.columns[1:]} & {*names}:
        return None
    return next((name for name in (verb.picture, f"{verb.picture}s", "images", *NAMING) if name in names), None)


def main_inputs(verb: Verb, given: Given, bad_rows: BadRows) -> VerbInputs:
    """Inputs that are texts, messages or names of pictures. A file is read whole, its lines or one column of its rows:
    a mistake is seen at once."""
    from ..data.format import has_columns
    from ..data.lines import arriving_lines, open_binary
    from ..data.records import columns_of, read_records

    if given["sources"]:
        return VerbInputs([given["sources"]], bad_rows=bad_rows)
    if given["input"] is None:
        if sys.stdin.isatty():
            print("one input per line; Ctrl-D ends", file=sys.stderr)
        return VerbInputs(arriving_lines(sys.stdin.buffer, Path("standard input"), bad_rows), bad_rows=bad_rows)
    path, column = Path(given["input"]).expanduser(), given["column"]
    if not has_columns(path):
        with open_binary(path, once=True) as file:
            inputs = [line for piece in arriving_lines(file, path, bad_rows) for line in piece]
        return VerbInputs([inputs], len(inputs), bad_rows=bad_rows)
    if verb.reads:
        records = list(pkgutil.resolve_name(verb.reads)(path, column, bad_rows))
        return of_records(records, itemgetter("source"), (), bad_rows)
    if column is None:
        names, _ = columns_of(path, bad_rows=bad_rows)
        main = first_column(verb)
        column = main if main in names else names[0]
        if column != main and len(names) > 1:
            raise InputError(f"{path} has the columns {', '.join(names)}: say which is the {main}: --column NAME")
    reading: dict[str, Any] = {"empty": "keep", "whole": True, "bad_rows": bad_rows}
    records = list(read_records(path, {"source": column}, **reading))

    def value(record: Record) -> str:
        text = str(record["source"])
        # a picture or a sound is named as the file that names it sees it
        return str(path.parent / text) if verb.takes in ("PICTURE", "SOUND") and text.strip() else text

    return of_records(records, value, (column,), bad_rows)


def of_records(
    records: Sequence[Record], value: Callable[[Record], Any], read: Iterable[Any], bad_rows: BadRows
) -> VerbInputs:
    from ..data.lines import BadLine
    from ..data.records import BadRecord

    values = [BadLine.of(row.error) if isinstance(row, BadRecord) else value(row) for row in records]
    return VerbInputs([values], len(values), [row.row or {} for row in records], tuple(map(str, read)), bad_rows)
