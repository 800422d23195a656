"""Plain data: what JSON can say, of whatever a program holds."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, overload

READING = threading.RLock()


def several(value: Any) -> list[Any]:
    """The values where one may stand for a list of them: none of None; a text, a name of a file or a mapping is one,
    as is what cannot be walked. A text is never walked as its characters."""
    if value is None:
        return []
    one = isinstance(value, (str, bytes, Mapping)) or hasattr(value, "__fspath__") or not isinstance(value, Iterable)
    return [value] if one else list(value)


@overload
def python_tree(text: str, mode: Literal["exec"] = "exec") -> ast.Module: ...


@overload
def python_tree(text: str, mode: Literal["eval"]) -> ast.Expression: ...


@overload
def python_tree(text: str, mode: str) -> ast.AST: ...


def python_tree(text: str, mode: str = "exec") -> ast.AST:
    """The syntax tree of a text of Python, by one thread at a time: Python 3.11 counts in one place how deep it is, and
    two that read at once end in a SystemError. Raises as `ast.parse` does."""
    with READING:
        return ast.parse(text, mode=mode)


def between_commas(stated: Any) -> Any:
    """['words.*', 'layers.1.*'], also of the text 'words.*,layers.1.*' and of a list of such texts."""
    texts = several(stated)
    if not all(isinstance(text, str) for text in texts):
        return texts
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def not_utf8(name: str) -> str:
    """What is wrong with a name of bytes that are no UTF-8, which Python holds as lone surrogates: neither JSON nor
    YAML can record it. "" for any other text."""
    try:
        name.encode("utf-8")
        return ""
    except UnicodeEncodeError:
        pass
    try:
        shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character that no name of a file has
        shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"is not in UTF-8, so that no run can record it; rename it: {shown[:200]}"


NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def of_xml(text: str) -> str:
    """A text of XML in which signs that XML has no place for, such as a zero in a name, are U+FFFD."""
    return NOT_XML.sub("\ufffd", text)


def plain(value: Any) -> Any:
    """The same as dicts, lists, texts and numbers. What is not finite is None; names of files are texts. Raises
    TypeError for a value that says nothing outside Python."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, Set)):
        return [plain(inner) for inner in (sorted(value) if isinstance(value, Set) else value)]
    if hasattr(value, "__fspath__"):
        return str(value)
    if hasattr(value, "tolist"):  # numbers of numpy and torch
        return plain(value.tolist())
    raise TypeError(f"{type(value).__name__} is no plain data: {value!r}")


def records_as_json(value: Any) -> Any:
    """Records and what they hold as JSON can say it: a mapping of pairs is a list of [key, key, value]."""
    if is_dataclass(value):
        return {field.name: records_as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        if any(isinstance(key, tuple) for key in value):
            return [[*key, records_as_json(inner)] for key, inner in value.items()]
        return {str(key): records_as_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [records_as_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.tolist() if hasattr(value, "tolist") else str(value) if isinstance(value, Path) else value


def columns_of(values: Mapping[str, Any]) -> dict[str, Any]:
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


def by_keys(thing: object, keys: str) -> dict[str, Any]:
    """The attributes that `keys` names, as plain data, in that order: "name layers=numbers norming=norms.kind" where
    the attribute is called otherwise than the key. What has a `data` of its own gives that."""
    names = {key: name or key for key, _, name in (part.partition("=") for part in keys.split())}
    return {key: data_of(attrgetter(name)(thing)) for key, name in names.items()}


def keys(names: str) -> property:
    """A property `data`: the attributes of an object by these keys."""
    return property(lambda thing: by_keys(thing, names))


def data_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: data_of(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [data_of(inner) for inner in value]
    return value.data if hasattr(value, "data") else plain(value)


class TextPage:
    """What a notebook shows as its `repr`."""

    def _repr_html_(self) -> str:
        from .notebook import page

        return page(repr(self))
