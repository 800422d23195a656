"""What a data file of a family may say, checked before it is used: a mistake names its key and the remedy."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...errors import InputError, did_you_mean, nearest
from ...language.messages import FormulaError
from ...language.model_text import FLAGS, FREE_NUMBERS, NAME
from ...language.parser import split_list
from ...language.source import Source
from .config import LENGTH, Key
from .entries import NamedModel, common, named_model_of
from .expressions import EACH, NOTHING, STACK, names_of, parse

OF_THE_FILE = ("name", "body")  # fields of a NamedModel that the block `folder` has not
NEEDED = ("model_type", "architectures", "config", "weights")
ALWAYS = (*FREE_NUMBERS, *FLAGS, "pi", "dropout", "layer", STACK)  # names that an expression may read in any file


def mistakes_in(name: str, whole: Mapping[str, Any]) -> list[str]:
    """What is wrong with all that a data file says, what it is like included: one line each, none where it is right."""
    folder = whole.get("folder")
    if not isinstance(folder, dict):
        return ["folder: the block is missing; it says what config.json and the tensors mean"]
    fields = {field.name: str(field.type) for field in dataclasses.fields(NamedModel) if field.name not in OF_THE_FILE}
    shapes = list(wrong_shapes(folder, fields))
    if shapes:
        return shapes
    model = named_model_of(name, whole)
    known = {*ALWAYS, *model.choices, *model.derived}
    keys = [Key.read(keys, said) for keys, said in model.config.items() if said is not None]
    known |= {name for key in keys for name in (key.name, key.count) if name}
    return [*of_config(model, known), *of_expressions(model, known), *of_weights(model.weights, known)]


def wrong_shapes(folder: Mapping[str, Any], fields: Mapping[str, str]) -> Iterator[str]:
    """Keys that are unknown or missing, and values that are no mapping or no list where one is needed."""
    for key in folder.keys() - fields.keys():
        yield f"folder: {key}: no key of a family;{did_you_mean(nearest(str(key), fields))} known: {', '.join(fields)}"
    for key in NEEDED:
        if not folder.get(key):
            yield f"folder: {key}: is missing, or empty"
    for key, value in folder.items():
        kind = fields.get(key, "Any")
        if kind.startswith("Mapping") and not isinstance(value, dict):
            yield f"folder: {key}: expected a mapping, `key: value`; this is {value!r:.40}"
        elif kind == "str" and not isinstance(value, str):
            yield f"folder: {key}: expected a text; this is {value!r:.40}"
        elif kind == "Sequence[str]" and not is_texts(value, alone=key == "model_type"):
            yield f"folder: {key}: expected a list of texts, such as [one, other]; this is {value!r:.40}"


def is_texts(value: Any, alone: bool) -> bool:
    """Whether a value is a list of texts, or one text where that may stand `alone`."""
    if isinstance(value, str):
        return alone
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def of_config(model: NamedModel, known: Collection[str]) -> Iterator[str]:
    """Mistakes in the rows of `config`."""
    for keys, said in model.config.items():
        where = f"folder: config: {keys}"
        if not isinstance(said, str):
            yield f"{where}: expected `constant`, `constant = its value where the key is absent`; this is {said!r:.40}"
            continue
        key = Key.read(keys, said)
        if not NAME.match(key.name):
            yield f"{where}: {key.name!r:.40} is no name of a constant"
        if key.table not in ("", LENGTH, *common().tables):
            near = did_you_mean(nearest(key.table, common().tables))
            yield f"{where}: no table is called {key.table};{near} known: {', '.join(common().tables)}"
        for text in (key.absent, key.null):
            if text is not None:
                yield from wrong_expression(text, where, known)


def of_expressions(model: NamedModel, known: Collection[str]) -> Iterator[str]:
    """Mistakes in what is computed of the constants."""
    for name, values in model.choices.items():
        where = f"folder: choices: {name}"
        if not isinstance(values, list) or not values:
            yield f"{where}: expected a list of the values that are tried; this is {values!r:.40}"
            continue
        for value in values:
            yield from wrong_expression(value, where, known)
    for name, text in model.derived.items():
        yield from wrong_expression(text, f"folder: derived: {name}", known)
    for test, why in model.must.items():
        yield from wrong_expression(test, "folder: must", known)
        if not isinstance(why, str):
            yield f"folder: must: {test}: expected the reason, a text; this is {why!r:.40}"
    for key, value in model.fixed.items():
        if isinstance(value, str) and value.startswith("= "):
            yield from wrong_expression(value[2:], f"folder: fixed: {key}", known)


def wrong_expression(text: Any, where: str, known: Collection[str]) -> Iterator[str]:
    """What is wrong with an expression of constants; what is no text stands for itself."""
    if isinstance(text, (list, tuple)):
        for one in text:
            yield from wrong_expression(one, where, known)
    if not isinstance(text, str):
        return
    text = text.strip()
    try:
        if text.endswith(EACH):
            parts = [text[1:].removesuffix(EACH)]
        elif text[:1] == "[":
            parts = [part.text for part in split_list(Source("list", text))]
        else:
            parts = [text]
        names = {name for part in parts for name in names_of(parse(part))}
    except FormulaError as error:
        yield f"{where}: `{text}`: {str(error).splitlines()[0]}"
        return
    for name in sorted(names - {*known}):
        near = did_you_mean(nearest(name, known))
        yield f"{where}: `{text}`: no constant is called {name};{near} a text is quoted, as in '\"{name}\"'"


def of_weights(rows: Mapping[str, Any], known: Collection[str], at: str = "") -> Iterator[str]:
    """Mistakes in the expressions of tensors."""
    from .tensors import parse_tensor, read_expression

    for key, value in rows.items():
        where = f"folder: weights: {at}{key}"
        if isinstance(value, dict):
            yield from of_weights(value, known, f"{at}{key}: ")
            continue
        if not isinstance(value, str):
            yield f"{where}: expected our tensor, or an expression of ours; this is {value!r:.40}"
            continue
        try:
            waiting = [parse_tensor(value)]
            while waiting:
                node = waiting.pop()
                if isinstance(node, ast.IfExp):
                    waiting += [node.body, node.orelse]
                    yield from wrong_expression(ast.unparse(node.test), where, known)
                    continue
                if isinstance(node, ast.BoolOp):
                    node = node.values[0]
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "again":
                    node = node.args[0]
                if not (isinstance(node, ast.Name) and node.id == NOTHING):
                    read_expression(node)
        except (InputError, IndexError) as error:
            yield f"{where}: `{value}`: {re.sub(r'^.*?: ', '', str(error).splitlines()[0])}"
