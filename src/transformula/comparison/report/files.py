"""The files of a report: pictures, Markdown, HTML, JSON and CSV; and results read back from JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ...atomic_io import write_whole
from ...errors import InputError, nearest
from ...ownership import claim, mark, marked
from ...structured import load_json
from ..records import Outcome, Results, Verdict
from .document import pictures_of, sections_of
from .markdown import FIGURES, markdown
from .page import page

VERSION = 1
FILES = ("report.md", "report.html", "results.json", "runs.csv", "verdicts.csv")
LONG = ("rows", "weights", "curve", "evaluated", "telemetry", "samples")
"""Fields of an outcome that a table has no room for: results.json holds them."""


def write_report(results: Results, folder: str | Path) -> list[Path]:
    """Write report.md, report.html, results.json, runs.csv, verdicts.csv and figures/ into a folder, each whole; those
    of an earlier report are replaced. Returns their paths. Raises InputError where they cannot be written,
    CheckpointError where a file of others is in their place."""
    folder = Path(folder)
    parts = sections_of(results)
    contents = (
        markdown(results.name, parts),
        page(results.name, parts),
        json_of(results),
        csv_of([row_of(outcome) for outcome in results.outcomes], Outcome),
        csv_of([row_of(verdict) for verdict in results.verdicts], Verdict),
    )
    files = {name: content.encode("utf-8", "replace") for name, content in zip(FILES, contents, strict=True)}
    for picture in pictures_of(parts):
        files[f"{FIGURES}/{picture.name}.svg"] = picture.svg.encode("utf-8")
        if picture.png is not None:
            files[f"{FIGURES}/{picture.name}.png"] = picture.png
    claim(folder, files)
    listed = marked(folder)
    dropped = {name for name in listed - files.keys() if name.startswith(f"{FIGURES}/")}  # of an earlier report
    try:
        (folder / FIGURES).mkdir(exist_ok=True)
        for name, content in files.items():
            write_whole(folder / name, content)
        for name in dropped:
            (folder / FIGURES / Path(name).name).unlink(missing_ok=True)
        if dropped:
            mark(folder, listed - dropped)
    except OSError as error:
        raise InputError(f"{folder}: the report cannot be written ({error.strerror})") from None
    return [folder / name for name in files]


def json_of(results: Results) -> str:
    """Results as JSON, which `read_results` takes back. Numbers that are not finite are "inf", "-inf" and "nan"."""
    return json.dumps({"version": VERSION, **encoded(results)}, allow_nan=False) + "\n"


def encoded(value: Any) -> Any:
    """Records and what they hold as JSON can say it: a mapping of pairs is a list of [key, key, value]."""
    if is_dataclass(value):
        return {field.name: encoded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        if any(isinstance(key, tuple) for key in value):
            return [[*key, encoded(inner)] for key, inner in value.items()]
        return {str(key): encoded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else str(value) if isinstance(value, Path) else value


def read_results(path: str | Path) -> Results:
    """The results that `write_report` wrote: sequences are tuples, all else is as it was.

    Raises InputError, naming the file and the place, for what is no such file.
    """
    path = Path(path)
    path = path / "results.json" if path.is_dir() else path
    try:
        data = load_json(path)
        if not isinstance(data, dict) or data.pop("version", None) != VERSION:
            raise ValueError(f"expected the results of a comparison, version {VERSION}")
        results: Results = decoded(Results, data, "results")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}; give a results.json that `compare` wrote") from None
    return results


def decoded(kind: Any, value: Any, place: str) -> Any:
    """A value of the type that a record states. Raises ValueError with the place."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return None if value is None else decoded(next(k for k in inner if k is not NoneType), value, place)
    if is_dataclass(kind):
        return record(kind, value, place)
    if origin is tuple or origin is not None and issubclass_of(origin, Sequence):
        return items(origin, inner, value, place)
    if origin is not None and issubclass_of(origin, Mapping):
        return mapping(inner, value, place)
    return simple(kind, value, place)


def issubclass_of(origin: Any, kind: type) -> bool:
    return isinstance(origin, type) and issubclass(origin, kind)


def record(kind: Any, value: Any, place: str) -> Any:
    expect(isinstance(value, dict), place, "a mapping", value)
    hints, known = types_of(kind), {field.name: field for field in fields(kind)}
    for key in value.keys() - known.keys():
        expect(False, f"{place}.{key}", f"one of {', '.join(nearest(key, known) or known)}", key)
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        expect(name in value or not needed, f"{place}.{name}", "a value", None)
    return kind(**{key: decoded(hints[key], inner, f"{place}.{key}") for key, inner in value.items()})


types_of = cache(get_type_hints)


def items(origin: Any, inner: tuple[Any, ...], value: Any, place: str) -> tuple[Any, ...]:
    expect(isinstance(value, list), place, "a list", value)
    kinds = inner if origin is tuple else inner * len(value)
    expect(len(kinds) == len(value), place, f"{len(kinds)} values", value)
    return tuple(decoded(k, v, f"{place}[{n}]") for n, (k, v) in enumerate(zip(kinds, value, strict=True)))


def mapping(inner: tuple[Any, ...], value: Any, place: str) -> dict[Any, Any]:
    keys, kind = inner
    if get_origin(keys) is tuple and value != {}:  # an empty mapping says nothing of its keys
        expect(isinstance(value, list), place, "a list", value)
        rows = [items(tuple, (*get_args(keys), kind), row, f"{place}[{n}]") for n, row in enumerate(value)]
        return {row[:-1]: row[-1] for row in rows}
    expect(isinstance(value, dict), place, "a mapping", value)
    return {key: decoded(kind, part, f"{place}.{key}") for key, part in value.items()}


def simple(kind: Any, value: Any, place: str) -> Any:
    """A text, a number, a truth value, or one of a few words."""
    if get_origin(kind) is Literal:
        expect(value in get_args(kind), place, f"one of {', '.join(get_args(kind))}", value)
    elif kind is float:
        expect(type(value) in (int, float) or value in ("inf", "-inf", "nan"), place, "a number", value)
        return float(value)
    else:
        expect(type(value) is kind, place, {str: "a text", int: "a whole number"}.get(kind, "true or false"), value)
    return value


def expect(holds: bool, place: str, what: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{place}: expected {what}, got {str(value)[:80]!r}")


def row_of(thing: Outcome | Verdict) -> dict[str, Any]:
    """A record's short fields; numbers in mappings and pairs have columns of their own: 'scores.loss'."""
    row: dict[str, Any] = {}
    for field in fields(thing):
        value = getattr(thing, field.name)
        if isinstance(value, Mapping) and field.name != "learned":
            row |= {f"{field.name}.{key}": inner for key, inner in flat(value).items()}
        elif field.name not in (*LONG, "learned", "differences"):
            row |= flat({field.name: value})
    return row


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Pairs and triples as columns of their own: 'interval.1', 'interval.2'."""
    row: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, (tuple, list)):
            row |= {f"{key}.{n}": part for n, part in enumerate(value, 1)}
        else:
            row[key] = value
    return row


def csv_of(rows: Sequence[Mapping[str, Any]], kind: Any) -> str:
    """A table of comma-separated values with a head; a number that is missing is an empty field."""
    names = list(dict.fromkeys(key for row in rows for key in row)) or [field.name for field in fields(kind)]
    order = {field.name: n for n, field in enumerate(fields(kind))}
    names.sort(key=lambda name: order[name.partition(".")[0]])
    names = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()
