"""The text of a model file, written so that it reads as the model it was written for: what a checkpoint carries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from ..errors import InputError
from .messages import FormulaError
from .model_file import HOOKS, LANGUAGE, ModelText, StackText, read_text
from .source import Source

Content = str | list[Any] | dict[str, Any]
"""What YAML says at one place: a text, or texts in a list or under keys. Numbers are texts, too, as they were typed."""

FORMULAS = ("words", "before", "layer", "layers", "after", "output")
"""Keys whose texts of several lines stand below them, line by line."""

PROSE = ("name", "about", "inputs", "extra", *HOOKS)
"""Keys under which nothing is a formula, whatever its name."""


class Dumper(yaml.SafeDumper):
    """YAML's library, with double quotes wherever it quotes: those of the formula language."""

    def choose_scalar_style(self) -> str:
        style: str = super().choose_scalar_style()
        return '"' if style == "'" else style


def write_text(model: ModelText) -> str:
    """The text of a model file that reads as `model`.

    Raises InputError where no YAML says what the model says (half a character in a note, a name that a key of the file
    has), so that nothing is trained that could not be read again.
    """
    content = content_of(model)
    document = (yaml.DocumentStartEvent(), *events(content, FORMULAS), yaml.DocumentEndEvent())
    stream = (yaml.StreamStartEvent(), *document, yaml.StreamEndEvent())
    text: str = yaml.emit(stream, Dumper=Dumper, allow_unicode=True, width=float("inf"))
    try:
        place = difference(content, content_of(read_text(text)))
    except FormulaError as error:
        place = unwritable(content) or f"all of it ({error.what})"
    if place is not None:
        raise InputError(
            f"the model's text cannot be written to a model file and read again: {place} would not come back as it is;"
            " rename it, or take signs out of it that are no characters"
        )
    return text


def content_of(model: ModelText) -> dict[str, Any]:
    """All that a model file says of a model, under the keys of the file and in their order."""
    content: dict[str, Any] = {"language": str(LANGUAGE)}
    content |= {"name": model.name} if model.name else {}
    content |= {"about": dict(model.about)} if model.about else {}
    content |= {key: value.text for key, value in model.numbers.items()}
    content |= {"inputs": dict(model.inputs)} if model.inputs else {}
    extra = {
        word: {"reach": said.reach, "package": said.package} if said.package else said.reach
        for word, said in model.extra.items()
    }
    content |= {"extra": extra} if extra else {}
    words = {key: formula(value) for key, value in model.words.items()}
    content |= {"words": words} if words else {}
    for stack in model.stacks:
        content |= {stack.name: stack_content(stack)} if stack.name else stack_content(stack)
    if model.output:
        content["output"] = formula(model.output)
    for key, hook in model.hooks.items():
        content[key] = {name: plain(one) for name, one in hook.items()} if isinstance(hook, Mapping) else plain(hook)
    return content


def stack_content(stack: StackText) -> dict[str, Any]:
    """What a file says of one stack."""
    content: dict[str, Any] = {} if stack.causal else {"causal": "false"}
    content |= {key: value.text for key, value in stack.numbers.items()}
    if stack.before:
        content["before"] = formula(stack.before)
    layers = {key: formula(value) for key, value in stack.layers.items()}
    content |= layers if list(layers) == ["layer"] else {"layers": layers} if layers else {}
    if isinstance(stack.order, tuple):
        content["order"] = [one.text for one in stack.order]
    elif stack.order:
        content["order"] = stack.order.text
    if stack.share:
        content["share"] = stack.share.text
    if stack.after:
        content["after"] = formula(stack.after)
    return content


def formula(source: Source) -> str:
    """A formula without tabs, white space at the ends of its lines, and empty lines around it."""
    return "\n".join(row.rstrip().expandtabs() for row in source.text.split("\n")).strip("\n")


def plain(value: Any) -> str:
    """A text as it stands in the file, or as a program gave it."""
    return value.text if isinstance(value, Source) else str(value)


def events(content: Content, formulas: Sequence[str] = (), block: bool = False) -> Iterator[yaml.Event]:
    """The content as YAML's library writes it: what it quotes is quoted, mappings stand by lines, lists on one.

    formulas  keys under which texts of several lines stand below the key
    block     the content is, or holds, such texts
    """
    if isinstance(content, dict):
        on_one_line = list(content) == ["reach", "package"]
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=on_one_line)
        for key, value in content.items():
            yield from events(key)
            yield from events(value, () if key in PROSE else formulas, block or key in formulas)
        yield yaml.MappingEndEvent()
    elif isinstance(content, list):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=True)
        for one in content:
            yield from events(one)
        yield yaml.SequenceEndEvent()
    elif block and "\n" in content and content.replace("\n", "").isprintable():  # other line ends would become "\n"
        yield yaml.ScalarEvent(None, None, (True, True), content + "\n", style="|")
    else:
        yield yaml.ScalarEvent(None, None, (True, True), content, style=None if content.isprintable() else '"')


def unwritable(content: dict[str, Any]) -> str | None:
    """The place of the first key or text that has no UTF-8; None where there is none."""

    def written(content: Content) -> Content:
        if isinstance(content, dict):
            return {str(written(key)): written(value) for key, value in content.items()}
        if isinstance(content, list):
            return [written(one) for one in content]
        return content.encode("utf-8", "replace").decode("utf-8")

    return difference(content, written(content))


def difference(one: Content, two: Content) -> str | None:
    """Where two contents differ first, as "'about', 'note'"; "" at the top, None where they are equal."""
    if isinstance(one, dict) and isinstance(two, dict):
        if list(one) != list(two):
            named = [key for key in one if key not in two] or [key for key in two if key not in one] or list(one)
            return repr(named[0])
        for key, value in one.items():
            place = difference(value, two[key])
            if place is not None:
                return f"{key!r}, {place}" if place else repr(key)
        return None
    return None if one == two else ""
