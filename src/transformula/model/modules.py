"""From calls to modules: which class stands at each path, what its constructor is given, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import nn

from ..errors import InputError
from ..language.graph import Architecture, Call, Section, Stack, Template, Value
from ..language.numbers import evaluate_text
from ..language.source import Place
from ..words.word import Word, word_class
from .codegen import SectionCode, sources_of
from .files import PseudoFile
from .formula import Formula, Recipe

NOT_BUILT = "is not built yet: it can be checked and explained, not run"


def at_place(what: str, place: Place | None, title: str = "") -> InputError:
    """An error that says where in the formula, with the place underlined."""
    if place is None:
        return InputError(what)
    # "before: before, line 1" would say it twice
    prefix = "" if not title or place.source.name == title else f"{title}: "
    return InputError(f"{prefix}{place.where}: {what}\n{place.underlined()}")


def is_function(call: Call) -> bool:
    """Whether a call needs no module."""
    return hasattr(word_class(call.word), "function")


@dataclass
class Spot:
    """One module of the model: all calls of one path. `call` is that of the face that is built.

    place, line  where that call stands; the line of its section that it belongs to
    """

    call: Call
    place: Place | None
    line: Place | None
    causal: bool
    section: Section
    calls: list[Call] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The section, in words."""
        return self.section.title


def refuse(architecture: Architecture) -> None:
    """Raise InputError for what can be checked and is not built, with its place."""
    if len(architecture.stacks) > 1:
        names = ", ".join(s.name for s in architecture.stacks)
        raise InputError(f"a model of several stacks ({names}) {NOT_BUILT}")
    for hook in architecture.hooks:
        if hook != "init":
            raise InputError(f"the hook `{hook}` {NOT_BUILT}; without that key in the file the model is built")
    stack = architecture.main
    if stack.share is not None:
        raise InputError(f"a stack whose layers share their weights (`share`) {NOT_BUILT}")
    for section in architecture.sections():
        for value in section.calls():
            refuse_call(value, section)


def refuse_call(value: Value, section: Section) -> None:
    call = value.call
    assert call is not None

    def no(what: str) -> InputError:
        return at_place(f"{what} {NOT_BUILT}", value.place, section.title)

    if not call.word.built:
        raise no(f"the word {call.word.name!r}")
    if call.share is not None or any(f.share is not None for f in value.frames):
        raise no("a module shared between layers (`share=`)")
    for name, option in call.word.options.items():
        if option.type == "definition" and call.options.get(name):
            raise no(f"{call.name}({name}=), a formula over scores,")
    if "scores" in call.ports:
        raise no(f"{call.name}(scores=)")
    sequences = {a.sequence for a in value.args[: len(call.streams)] if a.sequence}
    if call.word.kind == "positions" and len(sequences) > 1:
        raise no(f"{call.name} over another sequence")
    for template in call.inner.values():
        for inner in template.values:
            if inner.call is not None:
                refuse_call(inner, section)


def spots(architecture: Architecture) -> dict[str, Spot]:
    """Every path with its calls, in order of evaluation. Raises InputError where calls of one module differ."""
    found: dict[str, Spot] = {}
    for section in architecture.sections():
        stack = section_stack(architecture, section)
        for value in section.calls():
            call = value.call
            assert call is not None
            if is_function(call):
                continue
            spot = found.get(call.path)
            if spot is None:
                found[call.path] = Spot(call, value.place, line_at(section, value), stack.causal, section, [call])
                continue
            for other in spot.calls:
                if other.word is call.word and other.options != call.options:
                    differing = ", ".join(k for k in call.options if call.options[k] != other.options[k])
                    raise at_place(
                        f"calls of one module, {call.path!r}, that differ in {differing}: this {NOT_BUILT}",
                        value.place,
                        section.title,
                    )
            spot.calls.append(call)
            if len(sizes(call)) > len(sizes(spot.call)):
                spot.call = call
    return found


def line_at(section: Section, value: Value) -> Place | None:
    """The line of a section that a value belongs to: for one in a definition, the line that calls it."""
    place = value.frames[0].place if value.frames else value.place
    if place is None:
        return None
    for line, _, _ in section.lines:
        if line.source is place.source and line.line <= place.line <= line.end_line:
            start, end = (line.line, line.column), (line.end_line, line.end_column)
            if start <= (place.line, place.column) < end:
                return line
    return place


def text_of(place: Place) -> str:
    """The text at a place, on one line and without comments."""
    rows = [place.source.line(n) for n in range(place.line, place.end_line + 1)]
    rows[-1] = rows[-1][: place.end_column]
    rows[0] = rows[0][place.column :]
    return " ".join(" ".join(row.split("#")[0] for row in rows).split())


def section_stack(architecture: Architecture, section: Section) -> Stack:
    """The stack that a section belongs to; the output goes with the last."""
    return next((s for s in architecture.stacks if section in s.sections()), architecture.main)


def sizes(call: Call) -> dict[str, int]:
    """How many numbers each parameter of a call's own holds, those of none left out."""
    made = {name: int(evaluate_text(text, call.numbers)) for name, text in call.word.parameters.items()}
    return {name: size for name, size in made.items() if size}


def construct(recipe: Recipe, call: Call, causal: bool, place: Place | None, title: str, full: str = "") -> Word:
    """The module of a call, its parameters empty. `full` is its path in the model."""
    word = call.word
    given: dict[str, object] = {}
    for form in word.forms:
        for stream in form:
            if stream.startswith("*"):
                given |= {"entries": call.numbers["entries"], "entry": call.numbers["entry"]}
            else:
                given[stream] = call.numbers[stream] if stream in call.streams else None
    given |= call.options
    if word.inner:
        given["inner"] = {
            role: inner_module(recipe, template, full or call.path, role, place, title)
            for role, template in call.inner.items()
        }
    if word.reach == "past":
        given["causal"] = causal
    try:
        return word_class(word)(**given)
    except InputError as error:
        raise at_place(error.message, place, title) from None


def inner_module(
    recipe: Recipe, template: Template, path: str, role: str, place: Place | None, title: str
) -> nn.Module:
    """What the file's `norm` made for use inside a word: the norm's module itself, or one generated from a template."""
    values = [v for v in template.values if v.call is not None]
    if template.alias and not is_function(values[0].call):  # type: ignore[arg-type]
        return construct(recipe, values[0].call, True, place, title, f"{path}.{role}")  # type: ignore[arg-type]
    section = Section("layer", 0, "", "", template.values, {"x": template.argument}, [], {"x": template.result})

    def way(call: Call) -> tuple[str, ...]:
        return tuple(call.path.removeprefix(f"{role}.").split("."))

    file = PseudoFile(f"{title}, {role}", sources_of(section, place))
    forward = SectionCode(section, file, way, lambda call: word_class(call.word)).generate("norm")
    module = recipe.make((path, role), Formula, forward=forward)
    for value in values:
        call = value.call
        assert call is not None
        if not is_function(call):
            inner = construct(recipe, call, True, value.place, title, f"{path}.{call.path}")
            place_module(module, way(call), inner, f"{path}.{call.path}")
    return module


def place_module(root: nn.Module, path: Sequence[str], module: nn.Module, full: str) -> None:
    """Put a module at a path, making the containers on the way. Raises InputError for names that PyTorch needs."""
    at = root
    for number, part in enumerate(path):
        last = number == len(path) - 1
        known = at._modules.get(part)
        if known is None or (last and known is not module):
            if known is not None or hasattr(at, part):
                what = (
                    "PyTorch's modules have something of that name" if known is None else "two modules have that name"
                )
                raise InputError(
                    f"no module can be called {part!r} (in {full!r}): {what}; give the call a label of its own"
                )
            at.add_module(part, module if last else Container())
        at = at._modules[part]  # type: ignore[assignment]


class Container(nn.Module):
    """Holds the modules of a definition, of `before`, `after` or `output`; the formula's code calls them."""

    def forward(self) -> None:
        raise InputError("this module only holds others: its formula is part of the layer's code")
