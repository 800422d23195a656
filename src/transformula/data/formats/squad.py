"""SQuAD: questions on paragraphs of articles, with their answers as they stand there (Rajpurkar et al. 2016 and 2018).

{"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...,
  "answers": [{"text": ..., "answer_start": 7}], "is_impossible": false}]}]}]}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..format import Grouped, Row, kind_of, place_of
from ..lines import excerpt


def squad_rows(content: Mapping[str, Any], path: Path) -> Iterator[Row]:
    """A row for each question: `id`, `title`, `context`, `question`, `answers` (texts), `starts` (the character of the
    context at which each begins) and `impossible`. Questions on an article are a group, which a split keeps together.
    Raises DataError for a part that is missing or of another kind, and for an answer that does not stand at its start.
    """
    for number, article in enumerate(part(content, "data", list, str(path)), 1):
        place = place_of(path, f"article {number}")
        title = part(article, "title", str, place, "")
        for paragraph_number, paragraph in enumerate(part(article, "paragraphs", list, place), 1):
            inside = f"article {number}, paragraph {paragraph_number}"
            context = part(paragraph, "context", str, place_of(path, inside))
            for question_number, question in enumerate(part(paragraph, "qas", list, place_of(path, inside)), 1):
                at = f"{inside}, question {question_number}"
                answers, starts = answers_of(question, context, place_of(path, at))
                row = {
                    "id": part(question, "id", (str, int), place_of(path, at), ""),
                    "title": title,
                    "context": context,
                    "question": part(question, "question", str, place_of(path, at)),
                    "answers": answers,
                    "starts": starts,
                    "impossible": part(question, "is_impossible", bool, place_of(path, at), False),
                }
                yield at, Grouped(row, title or f"article {number}")


def answers_of(question: Any, context: str, place: str) -> tuple[list[str], list[int]]:
    """The texts of a question's answers, and where they begin."""
    answers = part(question, "answers", list, place, [])
    texts = [part(answer, "text", str, place) for answer in answers]
    starts = [part(answer, "answer_start", int, place) for answer in answers]
    for text, start in zip(texts, starts, strict=True):
        there = context[max(0, start) : max(0, start) + len(text)]
        if start < 0 or there != text:
            stands = context.find(text)
            elsewhere = f"; it begins at {stands}" if stands >= 0 else "; it stands nowhere in the context"
            raise DataError(
                f"{place}: the answer {excerpt(text)} is not at its answer_start {start}, where {excerpt(there)} stands"
                f"{elsewhere}: set that right, or take it out"
            )
    return texts, starts


def part(of: Any, key: str, kind: type | tuple[type, ...], place: str, default: Any = None) -> Any:
    """The value under a key, of some kind; the default, if there is one, where the key is missing or null."""
    if not isinstance(of, dict):
        raise DataError(f"{place}: is {kind_of(of)}; expected an object with {key!r}")
    value = of.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        names = {list: "a list", str: "a string", int: "a number", bool: "true or false"}
        wanted = " or ".join(names[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise DataError(f"{place}: {key!r} is {kind_of(value)}; expected {wanted}")
    return value
