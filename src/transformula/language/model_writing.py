"""The text of a model file, written so that it reads as the model it was written for: what a checkpoint carries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml

from ..errors import InputError
from .messages import FormulaError
from .model_file import LANGUAGE, read_text
from .model_text import FLAGS, HOOKS, NAME, ModelText, StackText
from .parser import parse_constant
from .source import Source
from .syntax import Listing, Literal, Node, spell

# What YAML says at one place: a text, or texts in a list or under keys. Numbers are texts, too, as they were typed.
Content = str | list[Any] | dict[str, Any]
# Keys whose texts of several lines stand below them, line by line.
FORMULAS = ("words", "before", "layer", "layers", "after", "output")
PROSE = ("name", "about", "inputs", "extra", *HOOKS)  # keys under which nothing is a formula, whatever its name


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
        place = difference(content, in_utf8(content)) or f"all of it ({error.what})"
    if place is not None:
        raise InputError(
            f"the model's text cannot be written to a model file and read again: {place} would not come back as it is;"
            " rename it, or take signs out of it that are no characters"
        )
    return text


def content_of(model: ModelText) -> dict[str, Any]:
    """All that a model file says of a model, under the keys of the file and in their order."""
    extra = {
        word: {"reach": said.reach, "package": said.package} if said.package else said.reach
        for word, said in model.extra.items()
    }
    content = {"language": str(LANGUAGE)} | written(name=model.name or None, about=dict(model.about))
    content |= constants(model.numbers) | written(inputs=dict(model.inputs), extra=extra, words=formulas(model.words))
    for stack in model.stacks:
        inside = stack_content(stack, model.numbers)
        content |= {stack.name: inside} if stack.name else inside
    content |= written(output=formula(model.output))
    return content | {key: plain(hook) for key, hook in model.hooks.items()}


def stack_content(stack: StackText, others: Collection[str]) -> dict[str, Any]:
    layers = formulas(stack.layers)
    content = written(causal=None if stack.causal else "false")
    content |= constants(stack.numbers, others) | written(before=formula(stack.before))
    content |= layers if list(layers) == ["layer"] else written(layers=layers)
    order = [plain(one) for one in stack.order] if isinstance(stack.order, tuple) else plain(stack.order)
    return content | written(order=order, share=plain(stack.share), after=formula(stack.after))


def written(**content: Any) -> dict[str, Any]:
    """Those keys under which something stands."""
    return {key: value for key, value in content.items() if value is not None and value != {}}


def formula(source: Source | None) -> str | None:
    """A formula without tabs, white space at the ends of its lines, and empty lines around it."""
    if source is None:
        return None
    return "\n".join(row.rstrip().expandtabs() for row in source.text.split("\n")).strip("\n")


def formulas(sources: Mapping[str, Source]) -> dict[str, Any]:
    return {key: formula(source) for key, source in sources.items()}


def constants(sources: Mapping[str, Source], others: Collection[str] = ()) -> dict[str, Any]:
    """Constants as they are written, lists by their parts; a string that would be another constant keeps its quotes."""
    content: dict[str, Any] = plain(sources)
    for key, source in sources.items():
        if source.text.lstrip().startswith("["):
            node, known = parse_constant(source), {*sources, *others, *FLAGS, "pi"}
            parts = node.parts if isinstance(node, Listing) else ()
            content[key] = [bare(part, known) or spell(part) for part in parts]
    return content


def bare(node: Node, known: Collection[str]) -> str:
    """A string without its quotes; "" for what is none, or would be read as another constant."""
    value = node.value if isinstance(node, Literal) else None
    return value if isinstance(value, str) and NAME.match(value) and value not in known else ""


def plain(value: Any) -> Any:
    """A text as it stands in the file, or as a program gave it; also several under keys."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    return value.text if isinstance(value, Source) else value if value is None else str(value)


def events(content: Content, formulas: Sequence[str] = (), block: bool = False) -> Iterator[yaml.Event]:
    """The content as YAML's library writes it: what it quotes is quoted, mappings stand by lines, lists on one. Under
    the keys `formulas`, or where `block` says so, texts of several lines stand below the key."""
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


def in_utf8(content: Content) -> Content:
    if isinstance(content, dict):
        return {str(in_utf8(key)): in_utf8(value) for key, value in content.items()}
    if isinstance(content, list):
        return [in_utf8(value) for value in content]
    return content.encode("utf-8", "replace").decode("utf-8")


def difference(one: Content, two: Content) -> str | None:
    """Where two contents differ first, as "'about', 'note'"; "" at the top, None where they are equal."""
    if not isinstance(one, dict) or not isinstance(two, dict):
        return None if one == two else ""
    if list(one) != list(two):
        named = [key for key in one if key not in two] or [key for key in two if key not in one] or list(one)
        return repr(named[0])
    for key, value in one.items():
        place = difference(value, two[key])
        if place is not None:
            return f"{key!r}, {place}" if place else repr(key)
    return None
