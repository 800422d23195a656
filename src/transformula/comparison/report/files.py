"""The files of a report: pictures, Markdown, HTML, JSON and CSV; and results read back from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ...atomic_io import write_whole
from ...errors import InputError
from ...ownership import claim, mark, marked_files
from ...plain import columns_of, csv_of, records_as_json
from ...settings import read_back
from ...structured import load_json
from ..records import Outcome, Results, Verdict
from .document import pictures_of, sections_of
from .markdown import FIGURES, markdown
from .page import page

VERSION = 1
FILES = ("report.md", "report.html", "results.json", "runs.csv", "verdicts.csv")
LONG = ("rows", "weights", "curve", "evaluated", "telemetry", "samples", "windows")
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
    return write_files(folder, files)


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write the files of a report, each whole, and remove the pictures of an earlier one; raises as `write_report`."""
    claim(folder, files)
    listed = marked_files(folder)
    dropped = {name for name in listed - files.keys() if name.startswith(f"{FIGURES}/")}  # of an earlier report
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
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
    return json.dumps({"version": VERSION, **records_as_json(results)}, allow_nan=False) + "\n"


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
            row |= {f"{field.name}.{key}": inner for key, inner in columns_of(value).items()}
        elif field.name not in (*LONG, "learned", "differences"):
            row |= columns_of({field.name: value})
    return row
