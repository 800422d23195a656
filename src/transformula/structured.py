"""JSON and YAML, of files that a stranger may have made: read within limits, refused with the reason and the line.

Python's own readers end in RecursionError, in a number of too many digits, in the stack's overflow (libyaml, from some
ten thousand levels) or in hours of work (YAML's aliases, which stand for each other). None of that passes here.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import yaml

MAX_LEVELS = 100  # how deep values may be nested in each other
MAX_JSON_BYTES = 256 * 2**20  # bytes of a JSON file, at most: the largest tokenizers of others have some 30 MiB
MAX_YAML_BYTES = 2**20
MAX_NODES = 100_000  # values of a YAML text, at most; what an alias stands for counts each time
MAX_NUMBER_CHARACTERS = 400  # signs of a whole number in YAML, at most: beyond about 310 digits no float has it
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML has it: ten times as fast


class Malformed(ValueError):
    """A text that is not the JSON or YAML that was expected, or beyond the limits. Whoever reads adds the file.

    `said` is what is wrong, `line` where, counted from 1; None where that is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.said, self.line = message, line


def half_character(error: UnicodeEncodeError) -> str:
    """What a text has that cannot be written in UTF-8, and where."""
    surrogate = ord(error.object[error.start])
    return f"a lone surrogate, U+{surrogate:04X}, as character {error.start + 1}: half a character, which has no UTF-8"


def is_yaml(name: str) -> bool:
    """Whether a name is that of a YAML file."""
    return name.endswith((".yaml", ".yml"))


def load_json(path: Path) -> Any:
    """The content of a JSON file. Raises OSError, Malformed."""
    return parse_json(load_text(path, MAX_JSON_BYTES))


def load_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises OSError, Malformed."""
    return parse_yaml(load_text(path, MAX_YAML_BYTES))


def load_text(path: Path, most: int) -> str:
    """The text of a plain file of at most `most` bytes, in UTF-8. Raises OSError, Malformed."""
    stated = path.stat()
    if not stat.S_ISREG(stated.st_mode):  # a pipe would be waited for, a device never ends
        raise Malformed("it is no plain file")
    with open(path, "rb") as file:
        content = file.read(min(most, stated.st_size) + 1)  # as much memory as that is taken at once
    if len(content) > most:
        raise Malformed(f"it is larger than {most:,} bytes, the most that is read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Malformed(f"it is not text in UTF-8 (byte {error.start})") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text. Raises Malformed."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise Malformed(f"no JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise Malformed(f"it is nested deeper than {MAX_LEVELS} levels") from None
    except ValueError as error:  # a whole number of more than 4,300 digits
        raise Malformed(str(error).partition(";")[0]) from None
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_LEVELS):
        parts = chain.from_iterable(outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for inner in parts if isinstance(inner, (dict, list))]
        if not level:
            return value
    raise Malformed(f"it is nested deeper than {MAX_LEVELS} levels")


class _Loader(LOADER):  # type: ignore[misc]
    """YAML as plain data, whose whole numbers have an end."""


def _whole_number(loader: Any, node: yaml.ScalarNode) -> int:
    if len(node.value) > MAX_NUMBER_CHARACTERS:
        line = node.start_mark.line + 1
        raise Malformed(f"a whole number of {len(node.value):,} signs; at most {MAX_NUMBER_CHARACTERS} are read", line)
    return int(loader.construct_yaml_int(node))


def _mapping(loader: Any, node: yaml.MappingNode) -> Iterator[dict[Any, Any]]:
    """A mapping, without a key that stands twice: YAML would keep the last, and ignore the others."""
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            if key.value in seen:
                raise Malformed(f"the key {key.value[:80]!r} stands twice; keep one", key.start_mark.line + 1)
            seen.add(key.value)
    return cast(Iterator[dict[Any, Any]], loader.construct_yaml_map(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text of one document, plain data alone; None where it is empty. Raises Malformed."""
    try:
        for _ in yaml_events(text):
            pass
        return yaml.load(text, Loader=_Loader)
    except Malformed:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        raise Malformed(f"no YAML: {problem}", mark.line + 1 if mark else None) from None
    except UnicodeEncodeError as error:
        raise Malformed(f"no YAML: it holds {half_character(error)}") from None
    except (ValueError, OverflowError) as error:  # a date that no calendar has
        raise Malformed(f"no YAML: {error}") from None


def yaml_events(text: str, most_levels: int = MAX_LEVELS) -> Iterator[Any]:
    """libyaml's events of a text, as long as it stays within the limits.

    Raises Malformed beyond them, yaml.YAMLError. Until all are read, no tree may be built from the text: libyaml's own
    way to a tree overflows the stack where it is nested too deep.
    """
    sizes: dict[str | None, tuple[int, int]] = {}  # what each anchor stands for: values, levels
    open_: list[tuple[str | None, int, int]] = [(None, 0, 0)]
    event: Any
    for event in yaml.parse(text, Loader=LOADER):
        line = event.start_mark.line + 1
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            open_.append((event.anchor, 1, 1))
            if len(open_) > most_levels + 1:
                raise Malformed(f"it is nested deeper than {most_levels} levels", line)
        elif isinstance(event, (yaml.ScalarEvent, yaml.AliasEvent, yaml.CollectionEndEvent)):
            anchor, count, levels = (event.anchor, 1, 1) if isinstance(event, yaml.ScalarEvent) else (None, 0, 0)
            if isinstance(event, yaml.AliasEvent):
                if any(event.anchor == outer for outer, _, _ in open_):
                    raise Malformed(f"*{event.anchor} stands within itself", line)
                count, levels = sizes.get(event.anchor, (0, 0))
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, count, levels = open_.pop()
            if anchor is not None:
                sizes[anchor] = count, levels
            outer, before, deep = open_[-1]
            open_[-1] = outer, before + count, max(deep, levels + 1)
            if before + count > MAX_NODES:
                raise Malformed(f"it holds more than {MAX_NODES:,} values, aliases counted each time", line)
            if len(open_) + levels > most_levels + 1:
                raise Malformed(f"it is nested deeper than {most_levels} levels", line)
        yield event
