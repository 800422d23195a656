"""Sheets of a spreadsheet, .xlsx: the one that is named, or the first that holds something; needs the extra
`documents`."""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError, did_you_mean, listing, nearest, setting
from ...extras import need
from ..format import Options, Row, formats
from ..zipped import damaged_file, open_zip
from .table import table

MAX_COLUMNS, MAX_ROWS = 4096, 2**20  # of a sheet; a row is held as wide as its last cell says


@formats.register("xlsx", takes=("header", "ragged", "sheet"), needs=["openpyxl"])
def read_sheet(path: Path, options: Options) -> Iterator[Row]:
    """The rows of a sheet, by their numbers; the first names the columns, as in every table. Cells are texts: numbers
    as JSON writes them, dates as 2024-05-31, formulas as the values that were saved with them. Empty cells at the end
    of a row are none; a shorter row is filled up. Raises DataError for what is damaged or far too large."""
    excel = need("openpyxl", "reading .xlsx files")
    with open_zip(path) as packed:
        try:
            with warnings.catch_warnings():  # of what it does not read: pictures, rules for cells
                warnings.simplefilter("ignore")
                sheets = excel.load_workbook(packed.fp, read_only=True, data_only=True).worksheets
        except Exception as error:  # damaged files raise many kinds
            raise damaged_file(path, error) from None
        asked = sheets if options.sheet is None else [sheet_called(options.sheet, sheets, path)]
        filled = [sheet for sheet in asked if next(rows_of(sheet, path), None)]
        if not filled:
            what = "no sheet of it" if options.sheet is None else f"its sheet {options.sheet!r}"
            raise DataError(f"{what} holds {'a' if options.sheet is None else 'no'} row", path=path)
        first, *others = filled
        if others:
            left_out = listing([repr(sheet.title) for sheet in others], 5)
            told = f"the sheet {first.title!r} is read, the first of {{n}}; left out: {left_out}; to read another, say"
            options.met[f"{told} {setting('sheet', repr(others[0].title))}"] = len(filled)
        yield from table(path, options, of_one_width(rows_of(first, path)))


def sheet_called(name: str, sheets: Sequence[Any], path: Path) -> Any:
    """The sheet of a name. Raises DataError, with the names that there are."""
    known = {sheet.title: sheet for sheet in sheets}
    if name not in known:
        names = listing(list(map(repr, known)), 5)
        message = f"has no sheet {name!r};{did_you_mean(nearest(name, known))} its sheets: {names}"
        raise DataError(message, path=path)
    return known[name]


def of_one_width(rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, str, list[str]]]:
    """The rows of a table, short ones filled up to the width of the first."""
    width = 0
    for number, row in rows:
        width = width or len(row)
        yield number, "\t".join(row), row + [""] * (width - len(row))


def rows_of(sheet: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(number, texts of cells) of the rows that hold something. Raises DataError with the row."""
    sheet.reset_dimensions()  # what a file says of them may be wrong
    number = 0
    try:
        for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
            if len(cells) > MAX_COLUMNS or number > MAX_ROWS:
                limits = f"{MAX_COLUMNS:,} columns or {MAX_ROWS:,} rows"
                raise DataError(f"has more than {limits}; save what is meant as .csv", path=path, line=number)
            texts = [text_of(cell) for cell in cells]
            while texts and not texts[-1]:
                texts.pop()
            if texts:
                yield number, texts
    except DataError:
        raise
    except Exception as error:
        raise damaged_file(path, f"row {number + 1}: {error}") from None


def text_of(cell: object) -> str:
    """The text of a cell."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ").removesuffix(" 00:00:00")
    return json.dumps(cell) if isinstance(cell, (bool, int, float)) else str(cell)
