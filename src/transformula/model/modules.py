"""From calls to modules: which class stands at each path, what its constructor is given, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..errors import InputError
from ..language.graph import Architecture, Call, Section, Template, Value
from ..language.options import sizes_of
from ..language.score_formula import ScoreFormula
from ..language.source import Place
from ..words.word import module_of, word_class
from .blueprint import Blueprint, FormulaModule
from .codegen import SectionCode, Ways, sources_of
from .files import PseudoFile
from .hook import check_hooks
from .second_level import second_level
from .sequences import across, stack_of

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
    causal       for each call, by identity: whether it sees only the past of its own sequence
    faces        calls whose options differ from those of the module and of one another, shapes of weights apart
    """

    call: Call
    place: Place | None
    line: Place | None
    section: Section
    calls: list[Call] = field(default_factory=list)
    causal: dict[int, bool] = field(default_factory=dict)
    faces: list[Call] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The section, in words."""
        return self.section.title

    @property
    def shared(self) -> bool:
        """Whether several words use the module."""
        return any(call.word is not self.call.word for call in self.calls)

    def setting(self, call: Call) -> tuple[Any, ...]:
        """What a face is made with."""
        return (
            call.word.name,
            tuple(call.options.items()),
            self.causal[id(call)] if call.word.reach == "past" else True,
        )

    def face(self, call: Call) -> int:
        """Which face a call is: 0 the module itself."""
        if call.word is not self.call.word:
            return 0
        known = [self.setting(c) for c in (self.call, *self.faces)]
        return known.index(self.setting(call))


def refuse(architecture: Architecture) -> None:
    """Raise InputError for what can be checked and is not built, with its place."""
    check_hooks(architecture)
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
    for template in call.inner.values():
        for inner in template.values:
            if inner.call is not None:
                refuse_call(inner, section)


def spots(architecture: Architecture) -> dict[str, Spot]:
    """Every path with its calls, in order of evaluation. Raises InputError where calls of one module differ in what
    no face can: the learned tables of a formula over scores."""
    by_path: dict[str, Spot] = {}
    for section in architecture.sections():
        stack = stack_of(architecture, section)
        for value in section.calls():
            call = value.call
            assert call is not None
            if is_function(call):
                continue
            spot = by_path.get(call.path)
            if spot is None:
                spot = by_path[call.path] = Spot(call, value.place, line_at(section, value), section)
            spot.calls.append(call)
            spot.causal[id(call)] = stack.causal and not across(value)
            if len(sizes(call)) > len(sizes(spot.call)):
                spot.call = call
            for name, formula in call.options.items():
                other = spot.call.options.get(name, formula)
                if formula != other and any(isinstance(f, ScoreFormula) and f.tables for f in (formula, other)):
                    raise at_place(
                        f"calls of one module, {call.path!r}, have different tables in their formulas {name}=; give "
                        "them labels of their own",
                        value.place,
                        section.title,
                    )
    for spot in by_path.values():
        known = {spot.setting(spot.call)}
        for call in spot.calls:
            if call.word is spot.call.word and spot.setting(call) not in known:
                known.add(spot.setting(call))
                spot.faces.append(call)
    return by_path


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


def sizes(call: Call) -> dict[str, int]:
    """How many numbers each parameter of a call's own holds, those of none left out."""
    return {name: int(size) for name, size in sizes_of(call).items() if size}


def construct(
    blueprint: Blueprint,
    call: Call,
    causal: bool,
    place: Place | None,
    title: str,
    full: str = "",
    shared: bool = False,
) -> nn.Module:
    """The module of a call, its parameters empty. `full` is its path in the model; `shared`: other words use it too."""
    word = call.word
    arguments: dict[str, object] = {}
    for form in word.forms:
        for stream in form:
            if stream.startswith("*"):
                arguments |= {"entries": call.numbers["entries"], "entry": call.numbers["entry"]}
            else:
                arguments[stream] = call.numbers[stream] if stream in call.streams else None
    arguments |= {name: second_level(value) for name, value in call.options.items()}
    if word.inner:
        arguments["inner"] = {
            role: inner_module(blueprint, template, full or call.path, role, place, title)
            for role, template in call.inner.items()
        }
    if word.reach == "past":
        arguments["causal"] = causal
    cls = word_class(word)
    if cls.__init__ is nn.Module.__init__ and not (word.options or word.inner):
        # a word that is its `forward` and no more needs no constructor to be told the widths of its streams
        return cls()
    try:
        return module_of(cls, arguments, shared)
    except InputError as error:
        raise at_place(error.message, place, title) from None


def inner_module(
    blueprint: Blueprint, template: Template, path: str, role: str, place: Place | None, title: str
) -> nn.Module:
    """What the file's `norm` made for use inside a word: the norm's module itself, or one generated from a template."""
    values = [v for v in template.values if v.call is not None]
    if template.alias and not is_function(values[0].call):  # type: ignore[arg-type]
        return construct(blueprint, values[0].call, True, place, title, f"{path}.{role}")  # type: ignore[arg-type]
    section = Section("layer", 0, "", "", template.values, {"x": template.argument}, [], {"x": template.result})

    def way(call: Call) -> tuple[str, ...]:
        return tuple(call.path.removeprefix(f"{role}.").split("."))

    file = PseudoFile(f"{title}, {role}", sources_of(section, place))
    ways = Ways(way, lambda call: word_class(call.word), lambda call: 0, [(("now", "x"), [template.argument])], set())
    forward = SectionCode(section, file, ways).generate("norm")
    module = blueprint.make((path, role), FormulaModule, forward=forward)
    for value in values:
        call = value.call
        assert call is not None
        if not is_function(call):
            inner = construct(blueprint, call, True, value.place, title, f"{path}.{call.path}")
            place_module(module, way(call), inner, f"{path}.{call.path}")
    return module


def make_face(blueprint: Blueprint, module: nn.Module, spot: Spot, call: Call) -> nn.Module:
    """The module with another call's options: it has the module's own tables of parameters and of modules."""
    with torch.device("meta"):
        other = construct(blueprint, call, spot.causal[id(call)], spot.place, spot.title)
    tables = {k: v for k, v in vars(module).items() if k.startswith("_") and isinstance(v, dict)}
    other.__dict__.update(tables)
    return other


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
