"""Which named model a text equals, and with which constants.

The text is compared in its canonical form, taken apart into tokens. For each named model: flags, strings and lists that
the text does not hold are changed one at a time until no token but numbers differs; then each number is read off where
it stands. What is found is checked: with these constants the named model's text has the same canonical form.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import zip_longest
from typing import Any

import yaml

from ...analysis.canonical import canonical
from ...errors import CheckpointError, shortened
from ...language.check import check
from ...language.graph import Architecture
from ...language.messages import FormulaError
from ...language.model_file import read_text
from ...language.model_text import INPUTS, STACK_KEYS, ModelText
from ...language.numbers import is_number
from ...language.parser import parse
from ...language.source import Source
from ...language.syntax import CallNode, Node, rewritten, spell
from ...words import vocabulary
from .config import LENGTH, Key, keys_of
from .entries import NamedModel, common, named_model, names
from .expressions import compute, names_of
from .expressions import parse as parse_test
from .text import NAME, text_of

NORM = re.compile(r"(?<!\w)norm@")  # the norm of a text that defines none, which is that of layers
TOKEN = re.compile(r"[A-Za-z_@][\w.@]*|'[^']*'|\d[\d.]*(?:e[+-]?\d+)?|\S")
DROPOUT = "dropout"
NONE = "the text equals no named model, so no class of transformers computes it"
MAX_ROUNDS = 3  # in which flags are changed, one after the other
MAX_ROW_CHARACTERS = 120  # characters of a row, in errors
BATCHES = ((0, 16), (16, 48))  # named models that are looked at, the likely ones first
MAX_CANDIDATES = 5  # of a batch that are tried, those first that begin nearest
MANY_LAYERS = 12  # layers; of deeper models so many are compared first
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # that of libyaml, for texts that nobody sees
MAX_STEPS = 4  # in which a number is sought that does not stand in the text as it is


@dataclass(frozen=True)
class Match:
    """A named model and the constants with which its text is the one that was asked for."""

    model: NamedModel
    constants: Mapping[str, Any]


FORMS: dict[str, tuple[NamedModel, dict[str, str]]] = {}  # canonical ones, by constants and by text: formats share them
MAX_FORMS = 2000  # of a model that are kept
WORDS: dict[str, tuple[NamedModel, frozenset[str], frozenset[str]]] = {}  # that data files call, and their inputs


def known_forms(model: NamedModel) -> dict[str, str]:
    """The canonical forms of a model by its constants, those that were made before among them."""
    if model.name not in names() or named_model(model.name) is not model:
        return {}
    known = FORMS.get(model.name)
    if known is None or known[0] is not model or len(known[1]) > MAX_FORMS:
        known = FORMS[model.name] = model, {}
    return known[1]


class Candidate:
    """A named model that is changed until it is the text that was asked for, or as near as it comes."""

    def __init__(self, model: NamedModel, architecture: Architecture, target: str) -> None:
        self.model, self.target = model, target
        self.tokens = TOKEN.findall(target)
        self.stated = stated_constants(model, architecture)
        said = {key.name for key in keys_of(model)}
        self.choices = {name: list(values) for name, values in model.choices.items() if name not in said}
        self.forms = known_forms(model)
        self.sought: list[str] = []  # numbers that the text does not hold under their names
        self.whole = {key.name for key in keys_of(model) if not key.fraction}  # sizes and counts
        self.constants: dict[str, Any] = {**self.stated, **{name: values[0] for name, values in self.choices.items()}}
        waiting = [key for key in keys_of(model) if key.name not in self.stated]
        for key in [*waiting, *waiting]:  # defaults may be made of others that come later
            self.begin(key, architecture)
        self.derive()

    def begin(self, key: Key, architecture: Architecture) -> None:
        """A first value of a constant that the text does not hold."""
        default = default_of(key, self.constants)
        stated = self.model.choices.get(key.name, [])
        few = [value for value in (computed(each, self.constants) for each in stated) if value is not None]
        if isinstance(default, str) and not key.table and not few:  # a name that nothing translates
            few = [default]
        values = [*few, default]
        if key.count:  # a list that the text does not hold is that of the default
            entries = default or ()
            self.constants |= {key.name: entries, key.count: len(entries)}
            return
        if not few:
            few = choices_of(key, default)
            values = [default, *few]
        if few:
            self.choices[key.name] = [value for value in dict.fromkeys(values) if value is not None]
            self.constants[key.name] = self.choices[key.name][0]
        else:
            self.sought = [*dict.fromkeys([*self.sought, key.name])]
            stand_in = architecture.numbers.get("width", 64)
            self.constants[key.name] = stand_in if default is None else default

    def derive(self) -> None:
        for name, text in self.model.derived.items():
            self.constants[name] = compute(text, self.constants)

    def form(self, changes: Mapping[str, Any]) -> str:
        """The canonical form with other constants; "" where they make no model."""
        constants = {**self.constants, **changes}
        key = repr(constants)  # in which 1 is not True
        if key not in self.forms:
            self.forms[key] = self.new_form(constants)
        return self.forms[key]

    def new_form(self, constants: dict[str, Any]) -> str:
        try:
            for name, text in self.model.derived.items():
                constants[name] = compute(text, constants)
            text = text_of(self.model, constants, DUMPER)
            if text not in self.forms:  # some constants stand in no text but with others
                self.forms[text] = evaluation_form(read_text(text))
            return self.forms[text]
        except (FormulaError, KeyError, ZeroDivisionError):
            return ""

    def distance(self, changes: Mapping[str, Any]) -> int:
        """How many tokens differ from the target's, numbers apart."""
        one, other = words_in(TOKEN.findall(self.form(changes))), self.words
        return (one - other).total() + (other - one).total()

    @cached_property
    def words(self) -> Counter[tuple[str, ...]]:
        return words_in(self.tokens)

    @cached_property
    def first_distance(self) -> int:
        return self.distance({})

    def rows_apart(self, changes: Mapping[str, Any]) -> int:
        """How many rows differ from the target's."""
        one, other = Counter(self.form(changes).splitlines()), Counter(self.target.splitlines())
        return (one - other).total() + (other - one).total()

    def settle(self, apart: Callable[[Mapping[str, Any]], int] | None = None) -> int:
        """Choose flags, strings and lists; how far the nearest is from the target, by default in tokens."""
        distance = apart or self.distance
        best = distance({})
        for _ in range(MAX_ROUNDS):
            before = best
            for name, values in self.choices.items():
                if best == 0:
                    return 0
                tried = {n: distance({name: value}) for n, value in enumerate(values)}
                nearest = min(tried, key=lambda n: (tried[n], n))
                if tried[nearest] < best:
                    best, self.constants[name] = tried[nearest], values[nearest]
            if best == before:
                break
        return best

    def solve(self) -> bool:
        """Read off numbers; where that does not do, change flags that numbers alone depend on. Whether the text then
        equals the target."""
        if self.read_all():
            return True
        for name, values in self.choices.items():
            before = dict(self.constants)
            for value in values:
                other = isinstance(value, bool) and value != before[name] and self.form({name: value}) != self.form({})
                if other and self.distance({name: value}) == 0:
                    self.constants[name] = value
                    if self.read_all():
                        return True
                    self.constants = dict(before)
        return False

    def refused(self) -> str:
        """Why a folder with these constants would be refused where it is read; "" where it would not."""
        for test, why in self.model.must.items():
            if not compute(test, self.constants):
                state = ", ".join(f"{name} is {self.constants[name]}" for name in sorted(names_of(parse_test(test))))
                return f"it would be {self.model.name} with {state}; {why}"
        return ""

    def read_all(self) -> bool:
        for _ in range(MAX_ROUNDS):  # a number may stand in the text with another that is not known yet
            before = dict(self.constants)
            for name in self.sought:
                self.read_off(name)
            for name, values in self.choices.items():  # numbers that may be none, and are some
                if any(map(is_number, values)) and self.constants[name] != 0:
                    self.read_off(name)
            self.derive()
            if self.form({}) == self.target:
                return True
            if self.constants == before:
                break
        return False

    def read_off(self, name: str) -> None:
        value = self.constants[name]
        for _ in range(MAX_STEPS):
            place = self.place_of(name, value)
            if place is None:
                return
            other, here, there, wanted = place
            if here == wanted:
                self.constants[name] = value
                return
            value = solution(value, other, here, there, wanted)
            if value is not None and name in self.whole:
                value = round(value)
            if value is None or (value == 0 and name in common().not_zero):
                return
        if (place := self.place_of(name, value)) and place[1] == place[3]:
            self.constants[name] = value

    def place_of(self, name: str, value: float) -> tuple[float, float, float, float] | None:
        """Another value, and a number of the form with this one, with the other, and of the target at its place; None
        where the form does not depend on it."""
        here = TOKEN.findall(self.form({name: value}))
        for other in (2 * value if value else 1, value + 1, value / 2, 1.25 * value):
            other = int(other) if float(other).is_integer() else other
            there = TOKEN.findall(self.form({name: other}))
            if len(there) != len(here) or len(here) != len(self.tokens):
                continue
            for one, two, wanted in zip(here, there, self.tokens, strict=True):
                if one != two and all(map(is_numeral, (one, two, wanted))):
                    return other, float(one), float(two), float(wanted)
        return None


def evaluation_form(text: ModelText) -> str:
    """The canonical form of what an evaluating model computes: without dropout, norms by their kind. Raises
    FormulaError."""
    numbers = {name: number for name, number in text.numbers.items() if not name.endswith(DROPOUT)}
    plain = replace(
        text,
        numbers=numbers,
        stacks=tuple(stack.rewritten(without_dropout) for stack in text.stacks),
        output=text.output and without_dropout(text.output),
        words={name: without_dropout(source) for name, source in text.words.items()},
    )
    return NORM.sub("layernorm@", canonical(check(plain, vocabulary())))


def without_dropout(formula: Source) -> Source:
    def change(node: Node) -> Node | None:
        if not isinstance(node, CallNode):
            return None
        if node.word == DROPOUT and node.items:
            return rewritten(node.items[0], change)
        options = tuple(option for option in node.options if option.name != DROPOUT)
        return None if options == node.options else rewritten(replace(node, options=options), change)

    if DROPOUT not in formula.text:
        return formula
    lines = [f"{line.name} = {spell(rewritten(line.value, change))}" for line in parse(formula, second=True)]
    return replace(formula, text="\n".join(lines))


def is_numeral(token: str) -> bool:
    return token[0].isdigit()


def words_in(tokens: list[str]) -> Counter[tuple[str, ...]]:
    """Runs of three tokens, as of `bias=True`, in which numbers are alike, and how often each occurs."""
    plain = ["0" if is_numeral(token) else token for token in tokens]
    return Counter(zip(plain, plain[1:], plain[2:], strict=False))


def solution(value: float, other: float, here: float, there: float, wanted: float) -> float | None:
    """The value at which f is `wanted`, where f(value) = here and f(other) = there: exact for lines and for powers."""
    if there == here:
        return None
    line = value + (wanted - here) * (other - value) / (there - here)
    straight = math.isclose(here * other, there * value) or here == value or wanted == here
    if not straight and min(value, other, here, there, wanted) > 0:
        power = math.log(there / here) / math.log(other / value)
        line = value * (wanted / here) ** (1 / power)
    near = round(line)
    return near if math.isclose(near, line, rel_tol=1e-9, abs_tol=1e-12) else float(f"{line:.12g}")


def default_of(key: Key, constants: Mapping[str, Any]) -> Any:
    return None if key.absent is None else computed(key.absent, constants)


def computed(expression: Any, constants: Mapping[str, Any]) -> Any:
    """None where a constant has no value yet."""
    try:
        return compute(expression, constants)
    except KeyError:
        return None


def choices_of(key: Key, default: Any) -> list[Any]:
    """The values that a constant may have, where they are few."""
    if key.table == LENGTH:
        return []
    if key.table:
        values = list(dict.fromkeys(common().tables[key.table].values()))
        return [(value,) for value in values] if isinstance(default, tuple) else values
    if isinstance(default, bool):
        return [True, False]
    if key.null == "0":
        return [default, 0] if default else [default]
    return []


def stated_constants(model: NamedModel, architecture: Architecture) -> dict[str, Any]:
    """The constants that a text holds under their names, lists too, and the numbers of its stacks."""
    stated: dict[str, Any] = {DROPOUT: architecture.numbers.get(DROPOUT, 0)}
    stated |= {key.name: architecture.numbers[key.name] for key in keys_of(model) if key.name in architecture.numbers}
    sources = architecture.text.numbers
    for row in (row for row in keys_of(model) if row.name in sources):
        text = sources[row.name].text
        if text.startswith("["):
            stated[row.name] = tuple(re.findall(r"\w+", text)) if row.table else compute(text, architecture.numbers)
            if row.count:
                stated[row.count] = len(stated[row.name])
    for (_, rows), stack in zip(stacks_of(model), architecture.stacks, strict=False):
        for key, value in rows.items():
            if isinstance(value, str) and value.isidentifier() and key in stack.numbers:
                stated[value] = stack.numbers[key]
    return stated


def stacks_of(model: NamedModel) -> list[tuple[str, Mapping[str, Any]]]:
    """The stacks of a data file by name; that of the only one is ""."""
    stacks: list[tuple[str, Mapping[str, Any]]]
    stacks = [(k, v) for k, v in model.body.items() if isinstance(v, dict) and not v.keys().isdisjoint(STACK_KEYS)]
    return stacks or [("", model.body)]


def same_stacks(model: NamedModel, architecture: Architecture) -> bool:
    ours = [(name, rows.get("causal", True)) for name, rows in stacks_of(model)]
    theirs = [(stack.name, stack.causal) for stack in architecture.stacks]
    return len(ours) == len(theirs) and all(
        name == other and (isinstance(causal, str) or bool(causal) is sees)  # a constant says it
        for (name, causal), (other, sees) in zip(ours, theirs, strict=True)
    )


def words_of(model: NamedModel) -> tuple[frozenset[str], frozenset[str]]:
    """The words that a data file's formulas call, those of all choices, and the inputs that they read."""
    known = WORDS.get(model.name)
    if known is None or known[0] is not model:
        text = json.dumps(model.body)
        inputs = {"tokens"} if "before" not in text else set()  # those of the line that stands for none
        inputs |= {*NAME.findall(text)} & {*INPUTS, *model.body.get("inputs", ())}
        known = WORDS[model.name] = model, called_words(text), frozenset(inputs)
    return known[1:]


def called_words(text: str) -> frozenset[str]:
    """The words in a text, but for names that tables give, such as those of activations."""
    return (frozenset(NAME.findall(text)) & frozenset(vocabulary())) - named_by_tables()


@cache
def named_by_tables() -> frozenset[str]:
    return frozenset(str(value) for table in common().tables.values() for value in table.values()) | {DROPOUT}


def likely_first(models: Sequence[NamedModel], architecture: Architecture) -> list[NamedModel]:
    """The models in an order that takes no time: the one whose name the text has, then those that read its inputs, call
    its words, and few others."""
    sources = (*architecture.text.formulas, *architecture.text.words.values())
    called = called_words(" ".join(source.text for source in sources))

    read = frozenset(architecture.inputs)

    def far(model: NamedModel) -> tuple[bool, bool, int, int]:
        own, inputs = words_of(model)
        return model.name != architecture.name, not read <= inputs, len(called - own), len(own - called)

    return sorted(models, key=far)


def match(architecture: Architecture, among: Sequence[NamedModel] = (), none: str = NONE) -> Match:
    """The named model whose text this is, of `among`, by default of all.

    Raises CheckpointError that says `none`, and which line differs from the nearest.
    """
    depth = architecture.numbers.get("depth", 0)
    if depth > MANY_LAYERS and architecture.text.single:
        with suppress(FormulaError, CheckpointError):  # a history or a list of so many layers: as it is, then
            fewer = check(architecture.text.override({"depth": MANY_LAYERS}), vocabulary())
            matched = match_as_it_is(fewer, among, none)
            constants = {**matched.constants, "depth": depth}
            if evaluation_form(read_text(text_of(matched.model, constants))) == evaluation_form(architecture.text):
                return Match(matched.model, constants)
    return match_as_it_is(architecture, among, none)


def match_as_it_is(architecture: Architecture, among: Sequence[NamedModel], none: str) -> Match:
    """As `match`, with all layers: each form that is tried costs time for each of them."""
    models = among or tuple(map(named_model, names()))
    likely = likely_first([model for model in models if same_stacks(model, architecture)], architecture)
    target = evaluation_form(architecture.text)
    tried: list[tuple[Candidate, int]] = []
    refusals: list[str] = []
    for first, last in BATCHES:
        candidates = [Candidate(model, architecture, target) for model in likely[first:last]]
        # of two that are alike, such as with sizes that are equal, the one whose name the text has
        candidates.sort(key=lambda each: (each.model.name != architecture.name, each.first_distance))
        for candidate in candidates[:MAX_CANDIDATES]:
            distance = candidate.settle()
            if distance == 0 and candidate.solve():
                if not (why := candidate.refused()):
                    return Match(candidate.model, candidate.constants)
                refusals.append(why)
            tried.append((candidate, distance))
    if refusals:
        raise CheckpointError(f"{none}: {refusals[0]}", brief=refusals[0])
    if not tried:
        known = ", ".join(model.name for model in models)
        raise CheckpointError(f"{none}: none has its stacks. Known: {known}", brief="other stacks")
    near, _ = min(tried, key=lambda each: (each[0].rows_apart({}), each[1]))
    near.settle(near.rows_apart)  # so that as few lines as may be differ
    own, other = first_difference(near.target, near.form({}))
    rows = f"    its text:   {other}\n    this text:  {own}"
    what = f"{none}; the nearest is {near.model.name}, which differs in:\n{rows}"
    raise CheckpointError(what, brief=f"nearest: {near.model.name}")


def first_difference(one: str, other: str) -> tuple[str, str]:
    """The first rows of two canonical forms that differ, from shortly before the place, with their section."""
    for (place, a), (another, b) in zip_longest(rows_of(one), rows_of(other), fillvalue=("", "")):
        if a != b:
            same = len(os.path.commonprefix((a, b)))
            start = max(a.rfind(" ", 0, same), 0)
            return tuple(f"{where}: {part(row, start)}" for where, row in ((place, a), (another, b)))  # type: ignore[return-value]
    return "the same lines", "the same lines"


def part(row: str, start: int) -> str:
    """A row from a place on, as an error shows it."""
    return shortened(("..." if start else "") + row[start:], MAX_ROW_CHARACTERS) or "nothing"


def rows_of(form: str) -> Iterator[tuple[str, str]]:
    section = ""
    for row in form.splitlines():
        if row.startswith("  "):
            yield section, row.strip()
        else:
            section = row.rstrip(":")
