"""In what two models differ, read off their checked graphs: each difference a short phrase with both values.

    activation: relu, base gelu
    output norm: none, base norm(x)

Names of lines and labels, and definitions that are opened, are no difference: what counts is what is computed, from
which weights, and how these begin. Two models without a difference compute the same function of the same parameters;
only the names of these may differ, and with them the initial values that a seed gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..language.graph import Architecture, Call, Section, Stack
from ..language.inherited import READ, name_of, one_line
from ..language.parser import parse
from ..language.syntax import CallNode, Line, Node, rewritten, spell
from .canonical import ExactWiring, Wiring, meaning

NONE, OUTPUT_NORM = "none", "output norm"
HOOK_NAMES = {"init": "initial values", "calibrate": "calibration", "after_step": "after each step"}
SIZES = ("width", "heads", "context")
Values = dict[tuple[str, str], set[str]]  # word, option -> the values that calls give it


@dataclass(frozen=True)
class NamedDifference:
    """One thing in which a model, or a run, differs from a base: what it is, and both values, in words; the base's is
    "" where it is told elsewhere."""

    what: str
    value: str
    base: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value}" + (f", base {self.base}" if self.base else "")


def model_differences(model: Architecture, base: Architecture) -> list[NamedDifference]:
    """All in which a model differs from a base, but the size of its vocabulary."""
    found = [*of_equations(model, base), *of_norms(model, base), *of_options(model, base), *of_sharing(model, base)]
    sizes, vocabularies = [*size_differences(model, base)], {one.numbers.get("vocab") for one in (model, base)}
    if not found and not sizes and len(vocabularies) == 1 and exact(model) != exact(base):
        found = [NamedDifference("places", "the same words and options, otherwise placed", "as written")]
    found += [*of_hooks(model, base), *sizes]
    return [*{one.what: one for one in found}.values()]


def of_equations(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """What is computed of what: the formulas of layers and around them, without options, kinds of norm and chance."""
    if len(model.stacks) != len(base.stacks):
        yield NamedDifference("stacks", str(len(model.stacks)), str(len(base.stacks)))
        return
    for own, other in zip(model.stacks, base.stacks, strict=True):
        if own.causal != other.causal:
            yield NamedDifference(titled("causal", own), str(own.causal).lower(), str(other.causal).lower())
        if digests(own, Wiring) != digests(other, Wiring):
            definitions = [*of_definitions(model, base)]
            texts = written_layers(own), written_layers(other)
            if texts[0] != texts[1] or not definitions:
                yield NamedDifference(titled("layer", own), *texts)
            yield from definitions
    for one, two in zip(around(model), around(base), strict=True):
        if Wiring(one, {}).layer(one) != Wiring(two, {}).layer(two):
            title, norm = title_around(one, two), title_around(one, two).startswith(OUTPUT_NORM)
            lines = lines_of(one), lines_of(two)
            yield NamedDifference(title, *(text.removeprefix("x = ") if norm else text for text in lines))


def titled(what: str, part: Stack | Section) -> str:
    name = part.name if isinstance(part, Stack) else part.stack
    return f"{what} of {name}" if name else what


def around(model: Architecture) -> list[Section]:
    """The formulas of a model that are no layers."""
    return [section for stack in model.stacks for section in (stack.before, stack.after)] + [model.output]


def title_around(own: Section, other: Section) -> str:
    """OUTPUT_NORM where the one norms what leaves the layers, and the other does nothing there."""
    kinds = [{value.word_kind for value in section.calls()} for section in (own, other)]
    alone = own.where == "after" and kinds in ([{"norm"}, set()], [set(), {"norm"}])
    return titled(OUTPUT_NORM if alone else own.where, own)


def lines_of(section: Section) -> str:
    """The lines of a formula that are evaluated; `none` where nothing is."""
    return "; ".join(place.text for place, _, value in section.lines if value is not None) or NONE


def digests(stack: Stack, kind: type[Wiring]) -> list[str]:
    """The layers' digests, of a run of equal ones the first."""
    names: dict[str, str] = {}
    return list(dict.fromkeys(kind(section, names).layer(section) for section in stack.layers))


def exact(model: Architecture) -> list[list[str]]:
    """What all formulas of a model are known by, options and kinds of norm included."""
    others = [ExactWiring(section, {}).layer(section) for section in around(model)]
    return [*(digests(stack, ExactWiring) for stack in model.stacks), others]


def written_layers(stack: Stack) -> str:
    """The equations of a stack's layers, without options and words of chance: of several formulas each by its name."""
    sections = {section.formula: section for section in stack.layers}
    texts = {
        name: "; ".join(f"{line.name} = {spell(line.value)}" for line in plain_lines(section))
        for name, section in sections.items()
    }
    return next(iter(texts.values())) if len(texts) == 1 else ", ".join(f"{name}: {t}" for name, t in texts.items())


def plain_lines(section: Section) -> list[Line]:
    """The lines of a formula without options, and without words of chance, even those that vanish with a rate of 0."""
    calls = [value.called for value in section.calls()]
    options = {name: call.word.options for call in calls for name in (call.name, call.word.name)}
    kept = {call.name for call in calls if call.word.kind != "chance"}
    kept |= {frame.name for value in section.values for frame in value.frames}

    def plain(node: Node) -> Node | None:
        if not isinstance(node, CallNode):
            return None
        if node.word not in kept and node.items and not node.label:
            return rewritten(node.items[0], plain)
        left = tuple(option for option in node.options if option.name not in options.get(node.word, ()))
        return replace(node, items=tuple(rewritten(item, plain) for item in node.items), options=left)

    lines = parse(section.lines[0][0].source) if section.lines else []
    return [replace(line, value=rewritten(line.value, plain)) for line in lines]


def of_definitions(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Words that both models call and that only one of them redefines, or both in different ways."""
    own, other = opened(model), opened(base)
    called = [{call.name for call in calls_of(one)} | known.keys() for one, known in ((model, own), (base, other))]
    for name in sorted((own.keys() | other.keys()) & called[0] & called[1]):
        texts = [known.get(name, f"the word {name}") for known in (own, other)]
        if texts[0] != texts[1]:
            yield NamedDifference(name, *texts)


def opened(model: Architecture) -> dict[str, str]:
    """The definitions that are opened in a model, by name: their lines."""
    frames = {frame.name for section in model.sections() for value in section.values for frame in value.frames}
    return {name_of(header): one_line(body) for header, body in model.text.words.items() if name_of(header) in frames}


def calls_of(model: Architecture, layers: bool = True) -> Iterator[Call]:
    """The calls of a model; `layers`: those of its layers too."""
    for section in model.sections():
        if layers or section.where != "layer":
            yield from (value.called for value in section.calls())


def of_norms(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Kinds of norm, where both have any."""
    kinds = [{c.word.same_as or c.word.name for c in calls_of(one) if c.word.kind == "norm"} for one in (model, base)]
    if all(kinds) and kinds[0] != kinds[1]:
        yield NamedDifference("norm", *map(listed, kinds))


def of_options(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Options of words that both call, and rates of chance; not what is worked out of these, of sizes and of widths."""
    stated = {(call.word.name, option) for one in (model, base) for call in calls_of(one) for option in call.given}
    own, other = values_of(model, stated), values_of(base, stated)
    words: dict[str, set[str]] = defaultdict(set)
    for word, option in [*own, *other]:
        words[option].add(word)
    for key in dict.fromkeys([*own, *other]):
        word, option = key
        chance = option == word
        both = chance or (key in own and key in other)
        values = own.get(key, set()), other.get(key, set())
        if both and values[0] != values[1]:
            alone = chance or len(words[option]) == 1
            yield NamedDifference(option if alone else f"{option} of {word}", *map(listed, values))


def values_of(model: Architecture, stated: Collection[tuple[str, str]]) -> Values:
    """The values of each option of the words that are called, where it is stated or its default is a constant; of a
    word of chance, its rates under its own name."""
    values: Values = defaultdict(set)
    for call in calls_of(model):
        for name, value in call.options.items():
            word, option = call.word.name, call.word.options[name]
            if call.word.kind == "chance":
                values[word, word].add(value_text(value))
            elif (word, name) in stated or option.type == "choice" or not isinstance(option.default, str):
                values[word, name].add(value_text(value))
    return values


def value_text(value: Any) -> str:
    """An option's value in words: of a formula over scores its text, whatever it is called."""
    return value if isinstance(value, str) else NONE if value is None else meaning(value)


def listed(values: Iterable[str]) -> str:
    """'layernorm and rmsnorm'; 'none'."""
    return " and ".join(sorted(values)) or NONE


def of_sharing(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Which layers, and which calls of words that both models have, share their weights."""
    for own, other in zip(model.stacks, base.stacks, strict=False):
        if own.share != other.share:
            yield NamedDifference(titled("layers that share weights", own), shares(own), shares(other))
    called = [{call.word.name for call in calls_of(one)} for one in (model, base)]
    groups = [{group for group in shared(one) if {*group} <= called[0] & called[1]} for one in (model, base)]
    if groups[0] != groups[1]:
        apart = groups[0] - groups[1], groups[1] - groups[0]
        yield NamedDifference("shared weights", *(listed(map(" with ".join, one)) for one in apart))


def shares(stack: Stack) -> str:
    return NONE if stack.share is None else f"{len({*stack.share})} for {stack.depth} layers"


def shared(model: Architecture) -> set[tuple[str, ...]]:
    """The words of calls of one module, apart from layers that share all weights."""
    groups: dict[str, list[str]] = defaultdict(list)
    for section in model.sections():
        for value in section.calls():
            if value.called.word.parameters:
                place = f"{section.number}/" if section.where == "layer" and value.called.share is None else ""
                groups[f"{place}{value.called.path}"].append(value.called.word.name)
    return {tuple(sorted(names)) for names in groups.values() if len(names) > 1}


def of_hooks(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Initial values, calibration, and what else the models say besides equations."""
    for key in dict.fromkeys([*model.hooks, *base.hooks]):
        texts = [hook_text(one, key) for one in (model, base)]
        if texts[0] != texts[1]:
            yield NamedDifference(HOOK_NAMES.get(key, key), *texts)


def hook_text(model: Architecture, key: str) -> str:
    """A hook in words, with the values of the numbers that it reads."""
    hook = model.hooks.get(key)
    if hook is None:
        return NONE
    text = one_line(hook)
    names = {*READ.findall(text)}
    read = [f"{name} {number:g}" for name, number in model.numbers.items() if name in names]
    return f"{text} ({', '.join(read)})" if read else text


def size_differences(model: Architecture, base: Architecture) -> Iterator[NamedDifference]:
    """Depth, width, heads and context."""
    for own, other in zip(model.stacks, base.stacks, strict=False):
        if own.depth != other.depth:
            yield NamedDifference(titled("depth", own), str(own.depth), str(other.depth))
    for key in SIZES:
        numbers = [one.numbers.get(key) for one in (model, base)]
        if numbers[0] != numbers[1]:
            yield NamedDifference(key, *(NONE if number is None else f"{number:g}" for number in numbers))
