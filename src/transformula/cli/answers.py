"""How a task's verb writes its answers: as lines, as objects, as a table, as an array.

    text   [number of the input, where it has several answers] [score, with --scores] text, with tabs between
    jsonl  {"source": ..., "text": ...}, or {"source": ..., "written": [{"text": ...}, ...]}; with --scores all that is
           known of an answer beside its text. Of a file of rows, `id` stands in front, and `row` has its other columns
    csv    the columns of the input, or its text; `rank`, where it has several answers; `prediction`; `score`, with
           --scores; `error`, with --bad-rows skip
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import Given
from .output import Notes, line_of
from .verb_inputs import VerbInputs, main_column

if TYPE_CHECKING:
    from ..tasks.predictor import Answer
    from ..tasks.verb import Verb

FORMATS = ("text", "jsonl", "csv")
INPUTS = {"PICTURE": "picture", "SOUND": "sound"}  # what an input is called that is no text


def format_of(given: Given) -> str:
    """The format that is named; else a table is answered by a table, where no other file is written."""
    named = given["output"] or given["input"] or ""
    return str(given["format"] or ("csv" if Path(named).suffix.lower() == ".csv" else "text"))


class Answers:
    """Answers in the making.

    number    of inputs that are answered
    texts     the answers as objects, for --json
    as_array  whether what is written is one array of vectors
    """

    def __init__(self, verb: Verb, given: Given, several: bool, inputs: VerbInputs) -> None:
        self.verb, self.given, self.several, self.inputs = verb, given, several, inputs
        self.key = verb.columns[0] if verb.columns else INPUTS.get(verb.takes, "source")
        self.format = format_of(given)
        self.as_array = verb.arrays and str(given["output"]).endswith(".npy")
        self.number = 0
        self.texts: list[dict[str, Any]] = []
        self._lines: list[Any] = []  # of text, or vectors
        self._notes, self._bad, self._first = Notes(), 0, ""
        columns = dict.fromkeys(name for row in inputs.rows or ({self.key: ""},) for name in row)
        self._columns = list(columns)
        scored = ["score"] if given["scores"] else []
        failed = ["error"] if given["bad_rows"] == "skip" else []
        self._more = [*(["rank"] if several else []), "prediction", *scored, *failed]
        if self.format == "csv":
            self._lines.append(csv_row([*self._columns, *(free_name(name, columns) for name in self._more)]))

    def add(self, value: Any, best: Sequence[Answer]) -> None:
        """The answers to the next input, best first; an `Unanswered` where there are none."""
        from ..api.inputs import Unanswered

        error = best.reason if isinstance(best, Unanswered) else ""
        row = {} if self.inputs.rows is None else self.inputs.rows[self.number]
        self.number += 1
        if error:
            self._bad += 1
            self._first = self._first or f"input {self.number}: {error}"
        for answer in best[:1]:
            self._notes.add(answer)
        if self.as_array:
            self._lines.append(best[0].value)
        elif self.format == "jsonl":
            self._lines.append(json.dumps(self._object(value, row, best, error), ensure_ascii=False, default=str))
        else:
            self._lines += self._table(value, row, best, error) if self.format == "csv" else self._text(best)
        if self.given["json"]:
            self.texts.append(self._whole(value, row, best, error))

    def take(self) -> list[Any]:
        """The lines, or vectors, that were not taken yet."""
        lines, self._lines = self._lines, []
        return lines

    def print(self) -> None:
        """Say on standard error what is to be known of the answers, and how many inputs have none."""
        if self._bad:
            what = f"{self._bad:,} inputs could not be read or answered; the first: {self._first}"
            self._notes.met[what] = self._bad
        self._notes.answers = max(self._notes.answers, self.number)
        self._notes.print()

    def _text(self, best: Sequence[Answer]) -> Iterator[str]:
        for answer in best or (None,):
            head = [str(self.number)] if self.several else []
            score = "" if answer is None else f"{answer.score:.5f}"
            head += [score] if self.given["scores"] else []
            yield "\t".join([*head, "" if answer is None else line_of(answer.text)])

    def _identify(self, value: Any, row: Mapping[str, Any]) -> dict[str, Any]:
        """What an input is called in JSON."""
        from ..data.lines import BadLine

        fields = value if self.verb.columns and isinstance(value, Mapping) else {self.key: self._shown(value)}
        named = {"id": row["id"]} if "id" in row else {}
        named[self.key] = None if isinstance(value, BadLine) else fields[self.key]
        others = {name: each for name, each in row.items() if name not in ("id", *self.inputs.read)}
        return {**named, **({"row": others} if others else {})}

    def _shown(self, value: Any) -> Any:
        """An input as it was typed, without the pictures that all have beside it."""
        beside = isinstance(value, Mapping) and not self.verb.columns and self.verb.picture in value
        return value[main_column(self.verb)] if beside else value

    def _shared(self, best: Sequence[Answer]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """All that is known of each answer, and what is known of the input."""
        each = [answer.full for answer in best]
        shared = {name: each[0][name] for name in best[0].of_input} if best else {}
        return [{name: one[name] for name in one if name not in shared} for one in each], shared

    def _object(self, value: Any, row: Mapping[str, Any], best: Sequence[Answer], error: str) -> dict[str, Any]:
        each, shared = self._shared(best) if self.given["scores"] else ([answer.brief for answer in best], {})
        if error:
            shared = {"error": error}
            each = [] if self.several else [{"text": None}]
        answers: dict[str, Any] = {self.verb.answers: each} if self.several else each[0]
        return {**self._identify(value, row), **answers, **shared}

    def _whole(self, value: Any, row: Mapping[str, Any], best: Sequence[Answer], error: str) -> dict[str, Any]:
        each, shared = self._shared(best)
        return {**self._identify(value, row), self.verb.answers: each, **shared, **({"error": error} if error else {})}

    def _table(self, value: Any, row: Mapping[str, Any], best: Sequence[Answer], error: str) -> Iterator[str]:
        columns = row if self.inputs.rows is not None else {self.key: self._shown(value)}
        given = [columns.get(name) for name in self._columns]
        for rank, answer in enumerate(best or (None,), 1):
            known = {"rank": rank, "error": error, "prediction": "" if answer is None else answer.text}
            known["score"] = "" if answer is None else f"{answer.score:.5f}"
            yield csv_row([*given, *(known[name] for name in self._more)])


def free_name(name: str, taken: Mapping[str, Any]) -> str:
    """A name of a column that the input does not have."""
    return free_name(f"{name}_", taken) if name in taken else name


def csv_row(values: Sequence[Any]) -> str:
    """A row of comma-separated values."""
    empty = ("" if value is None else value for value in values)
    plain = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str) for value in empty]
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerow(plain)  # so that both are quoted within a field
    return file.getvalue().removesuffix("\r\n")
