"""The files of a report: pictures, Markdown, HTML, JSON and CSV; and results read back from JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ...atomic_io import write_whole
from ...errors import InputError
from ...ownership import claim, mark, marked_files
from ...settings import read_back
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
    listed = marked_files(folder)
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
        results: Results = read_back(Results, data, "results")
        return results
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}; give a results.json that `compare` wrote") from None


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
