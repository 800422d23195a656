"""A model file: YAML whose values are texts of the language. Read by hand from YAML's nodes, so that every text knows
its line, numbers stay as written (`1e-3`), and a key that stands twice, an anchor or a tag is an error.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ..errors import did_you_mean, nearest
from ..structured import LOADER, MAX_YAML_BYTES, Malformed, half_character, load_text, yaml_events
from .messages import FormulaError, unknown
from .model_text import (
    FREE_NUMBERS,
    HOOKS,
    MODEL_KEYS,
    NAME,
    STACK_KEYS,
    ModelText,
    Outside,
    StackText,
    checked_flag,
    checked_name,
    layers_wanted,
    unknown_key,
)
from .parser import MOST_CHARACTERS, MOST_LEVELS
from .source import Place, Source
from .vocabulary import REACHES

LANGUAGE = 1
# What a model's call, a step of decoding or a segment is given beside its inputs, by name.
OF_A_CALL = ("self", "lengths", "new", "decoding", "carried", "fixed", "states", "at")
MAPPINGS = {"inputs": "write inputs: {NAME: tokens}", "words": "write words: {NAME: y = expression of x}"}
YAML = "a model file is YAML: keys with a colon"
ASSIGNMENT = re.compile(r"(?<![<>=!])=(?!=)")
PACKAGE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z")


def not_a_model_file(place: Place | None, detail: str, remedy: str = YAML) -> FormulaError:
    return FormulaError("not-yaml", place, detail=detail, remedy=remedy)


def read_file(path: str | Path) -> ModelText:
    """Read a model file. Raises FormulaError with the file and line."""
    path = Path(path)
    remedy = YAML
    try:
        return read_text(load_text(path, MAX_YAML_BYTES), file=str(path))
    except FileNotFoundError:
        beside = {file.stem: str(file) for file in path.parent.glob("*.y*ml")}
        near = did_you_mean([beside[name] for name in nearest(path.stem, beside)])
        what = f"does not exist;{near}" if near else "does not exist"
        remedy = "name a file that is there, an entry of the gallery, or write a formula: a text with ="
    except Malformed as error:
        what = "is a folder" if path.is_dir() else f"cannot be read: {error}"
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
    raise not_a_model_file(None, detail=f"{path} {what}", remedy=remedy)


def read_text(text: str, file: str = "") -> ModelText:
    for model in read_documents(text, file):
        return model
    raise not_a_model_file(None, detail=f"{file or 'the text'} is empty")


def read_documents(text: str, file: str = "") -> Iterator[ModelText]:
    """The models of a text that holds several YAML documents."""
    whole = Source("file", text, file)

    def at(mark: yaml.Mark) -> Place:
        return Place(whole, mark.line + 1, mark.column, mark.line + 1, mark.column + 1)

    if len(text) > 50 * MOST_CHARACTERS:
        raise FormulaError("too-long", Place(whole, 1, 0, 1, 10), count=len(text))
    try:
        for event in yaml_events(text, MOST_LEVELS):
            if getattr(event, "anchor", None) or getattr(event, "tag", None):
                detail = "anchors, aliases and tags are not part of it"
                raise not_a_model_file(at(event.start_mark), detail=detail)
        for node in yaml.compose_all(text, Loader=LOADER):
            yield ModelReader(whole).model(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        detail = getattr(error, "problem", None) or str(error)
        tab = mark is not None and "\t" in whole.line(mark.line + 1)
        remedy = "lines are indented by blanks, not by tabs" if tab else YAML
        raise not_a_model_file(at(mark) if mark else None, detail=detail, remedy=remedy) from None
    except Malformed as error:
        place = None if error.line is None else Place(whole, error.line, 0, error.line, 1)
        raise not_a_model_file(place, detail=error.said) from None
    except UnicodeEncodeError as error:
        raise not_a_model_file(None, detail=f"it holds {half_character(error)}") from None


Row = tuple[str, yaml.Node, yaml.Node]  # a key's text, the key and its value


class ModelReader:
    """Turns YAML's nodes into a ModelText."""

    def __init__(self, whole: Source) -> None:
        self.whole = whole

    def place(self, node: yaml.Node) -> Place:
        start, end = node.start_mark, node.end_mark
        return Place(self.whole, start.line + 1, start.column, end.line + 1, end.column)

    def wrong(self, node: yaml.Node, name: str, detail: str, remedy: str) -> FormulaError:
        return FormulaError("key-value", self.place(node), name=name, detail=detail, remedy=remedy)

    def mapping(self, node: yaml.Node, name: str) -> list[Row]:
        """The rows of a mapping, whose keys are names that stand once."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, name, "is not a mapping", MAPPINGS.get(name, "write keys with a colon"))
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, name, "has a key that is not a name", "write a plain name")
            if node.flow_style and key.value.count(")") > key.value.count("("):
                remedy = (
                    "in braces YAML ends a text at each comma: write each formula on a line of its own, or in quotes"
                )
                raise self.wrong(key, name, "a formula is cut at a comma", remedy)
            if key.value in seen:
                raise FormulaError("key-twice", self.place(key), name=key.value)
            seen.add(key.value)
        return [(key.value, key, value) for key, value in node.value]

    def text(self, node: yaml.Node, name: str, source: str | None = None) -> Source:
        """A scalar as a source that knows where it stands in the file."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, name, "is not a text", "write it on one line, or after | on lines of its own")
        line, indent, text = node.start_mark.line + 1, node.start_mark.column, node.value
        if node.style in ("|", ">"):
            rows = self.whole.text.splitlines()
            line += 1
            while line <= len(rows) and not rows[line - 1].strip():
                line += 1
            indent = len(rows[line - 1]) - len(rows[line - 1].lstrip()) if line <= len(rows) else 0
            text = text.lstrip("\n").rstrip()
        elif node.style:
            indent += 1
        return Source(source or name, text, self.whole.file, line, indent)

    def texts(self, node: yaml.Node, name: str) -> dict[str, str]:
        return {key: self.text(value, key).text for key, _, value in self.mapping(node, name)}

    def inputs(self, node: yaml.Node) -> dict[str, str]:
        for key, key_node, sequence in self.mapping(node, "inputs"):
            if key in OF_A_CALL:
                raise self.wrong(key_node, key, "is what a model's call gives beside its inputs", "call it otherwise")
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*|", str(sequence.value)):  # nothing: a sequence of its own
                what = "is an input, and its value no name of a sequence"
                raise self.wrong(sequence, key, what, f"write {key}: tokens if it goes along with the tokens")
        return self.texts(node, "inputs")

    def sources(self, node: yaml.Node, name: str, called: Callable[[str], str]) -> dict[str, Source]:
        """A mapping of formulas; `called`: a key -> what a person calls the formula under it."""
        return {key: self.text(value, key, called(key)) for key, _, value in self.mapping(node, name)}

    def model(self, node: yaml.Node) -> ModelText:
        here: dict[str, Any] = {"file": self.whole.file, "numbers": {}, "hooks": {}}
        stacks: list[StackText] = []
        own: list[Row] = []
        for key, key_node, value in self.mapping(node, "the file"):
            if key in self.KEYS:
                here[key] = self.KEYS[key](self, value)
            elif key == "language":
                self.check_language(value)
            elif key in HOOKS:
                inside = self.mapping(value, key) if isinstance(value, yaml.MappingNode) else None
                texts = {k: self.text(v, f"{key}, {k}") for k, _, v in inside or ()}
                here["hooks"][key] = self.text(value, key) if inside is None else texts
            elif key in STACK_KEYS:
                own.append((key, key_node, value))
            elif key and isinstance(value, yaml.MappingNode) and any(k.value in STACK_KEYS for k, _ in value.value):
                stacks.append(self.stack(key, self.mapping(value, key), key_node))
            elif not self.take_number(here["numbers"], key, key_node, value):
                known = [*MODEL_KEYS, *(() if isinstance(value, yaml.MappingNode) else FREE_NUMBERS)]
                raise unknown_key(self.place(key_node), key, known, getattr(value, "value", None), "file")
        if own and stacks:
            raise self.wrong(own[0][1], own[0][0], "stands beside named stacks", "put it into one of them")
        return ModelText(stacks=tuple(stacks) or (self.stack("", own, node),), **here)

    # Keys of a file that are fields of a ModelText.
    KEYS: ClassVar[dict[str, Callable[[ModelReader, yaml.Node], Any]]] = {
        "name": lambda self, node: checked_name(self.text(node, "name").text, self.place(node)),
        "about": lambda self, node: self.texts(node, "about"),
        "words": lambda self, node: self.sources(node, "words", lambda key: f"definition {key.split('(')[0]}"),
        "inputs": lambda self, node: self.inputs(node),
        "output": lambda self, node: self.text(node, "output"),
        "extra": lambda self, node: {k: self.outside(v, k) for k, _, v in self.mapping(node, "extra")},
    }

    def check_language(self, node: yaml.Node) -> None:
        written = self.text(node, "language").text
        if not re.fullmatch("[0-9]{1,9}", written):
            raise self.wrong(node, "language", f"is {written[:40]!r}", f"write language: {LANGUAGE}")
        if int(written) > LANGUAGE:
            raise FormulaError("newer-language", self.place(node), given=written, known=LANGUAGE)

    def take_number(self, numbers: dict[str, Source], key: str, key_node: yaml.Node, node: yaml.Node) -> bool:
        """Take a key into `numbers` if its text, or each of its list, holds no assignment. Raises FormulaError."""
        many = isinstance(node, yaml.SequenceNode) and key not in FREE_NUMBERS
        parts = node.value if many else [node]
        plain = [isinstance(n, yaml.ScalarNode) and n.value.strip() and not ASSIGNMENT.search(n.value) for n in parts]
        if plain and all(plain) and NAME.match(key):
            if keyword.iskeyword(key):
                raise FormulaError("keyword-name", self.place(key_node), name=key)
            numbers[key] = self.listed(node, key) if many else self.text(node, key, f"number {key}")
            return True
        if key in FREE_NUMBERS:
            what = "is no number" if getattr(node, "value", "") else "is empty"
            raise self.wrong(node, key, what, "write a number, or an expression of the file's numbers")
        return False

    def listed(self, node: yaml.Node, key: str) -> Source:
        """A list of constants, as it is written on one line."""
        quoted = (part.style and part.value[0] not in "\"'" for part in node.value)
        parts = [f'"{part.value}"' if quotes else part.value for part, quotes in zip(node.value, quoted, strict=True)]
        place = self.place(node)
        return Source(f"number {key}", f"[{', '.join(parts)}]", self.whole.file, place.line, place.column)

    def outside(self, node: yaml.Node, word: str) -> Outside:
        """`noise: token`, or `noise: {reach: token, package: my_words}`."""
        name = f"extra, {word}"
        rows = self.mapping(node, word) if isinstance(node, yaml.MappingNode) else [("reach", node, node)]
        texts = {key: self.text(value, name).text for key, _, value in rows}
        for key, key_node, value in rows:
            if key not in ("reach", "package"):
                raise unknown("unknown-key", self.place(key_node), key, ["reach", "package"])
            if key == "reach" and texts[key] not in REACHES:
                raise self.wrong(value, name, f"reach is {texts[key]!r}", "write token, past or all")
            if key == "package" and not PACKAGE.match(texts[key]):
                raise self.wrong(value, name, f"{texts[key]!r} is no package", "write its name, as it is imported")
        if "reach" not in texts:
            raise self.wrong(node, name, "does not say its reach", "write reach: token, past or all")
        return Outside(**texts, place=self.place(node))

    def stack(self, name: str, rows: Sequence[Row], node: yaml.Node) -> StackText:
        here: dict[str, Any] = {"numbers": {}}
        prefix = f"{name}, " if name else ""
        for key, key_node, value in rows:
            if key == "order" and isinstance(value, yaml.SequenceNode):
                here[key] = tuple(self.text(v, key) for v in value.value)
            elif key in ("before", "after", "order", "share"):
                here[key] = self.text(value, key, prefix + key if key in ("before", "after") else None)
            elif key == "layer":
                here["layers"] = {"layer": self.text(value, key, prefix + key)}
            elif key == "layers":
                if not isinstance(value, yaml.MappingNode):
                    written = getattr(value, "value", "")
                    remedy = "write one formula under `layer`"
                    raise layers_wanted(self.place(value), written, "holds no formulas by name", remedy)
                here[key] = self.sources(value, key, lambda formula: f"{prefix}layers, {formula}")
            elif key == "causal":
                here[key] = checked_flag(self.text(value, key).text, self.place(value))
            elif not self.take_number(here["numbers"], key, key_node, value):
                raise unknown("unknown-key", self.place(key_node), key, [*STACK_KEYS, *FREE_NUMBERS])
        if {"layer", "layers"} <= {key for key, _, _ in rows}:
            raise self.wrong(node, "layers", "stands beside `layer`", "keep one of them")
        return StackText(name, place=self.place(node), **here)
