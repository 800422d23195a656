"""Each line of a formula in words: what it reads, what it sets, which of its terms skip and which branch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..language.depth import Steps, deep
from ..language.graph import OPERATIONS, Section, Value
from ..language.messages import FormulaError
from ..language.parser import parse
from ..language.rewriting import rewritten, spell
from ..language.source import Place, Source
from ..language.syntax import CallNode, Name, Node
from .initial_scale import Scales
from .residual_path import is_sublayer, line_of, own_place, past_sublayers, walk
from .vectors import ZERO, UnknownVector

BINDING = {"add": 1, "sub": 1, "mul": 2, "div": 2, "neg": 3, "pow": 4}
"""How tightly an operation binds, for brackets."""

AROUND = ("norm", "chance", "function")
"""Kinds of words that may stand around the sum of a whole line."""

RUNS = 6
"""More runs of layers are not listed one by one."""

LONGEST = 56
"""Terms of more characters are listed without options for a person, and cut if they still have more."""


def text_of(place: Place) -> str:
    """All of a place's text on one line, without comments."""
    rows = [place.source.line(n) for n in range(place.line, place.end_line + 1)]
    rows[-1] = rows[-1][: place.end_column]
    rows[0] = rows[0][place.column :]
    return " ".join(" ".join(row.split("#")[0] for row in rows).split())


class Speller:
    """Writes values of a section as its formula does: names for what lines before have made."""

    def __init__(self, section: Section) -> None:
        self.source = section.lines[0][0].source if section.lines else None
        self.names: dict[int, list[str]] = {}
        self.given: set[str] = set()
        self.line = ""
        """The text of the line that is read: of several names of one value the one that stands in it is meant."""

    def name(self, value: Value) -> str:
        """The name that a line before has given to a value, "" if none has."""
        names = self.names.get(id(value), [])
        if value.op in ("name", "input") and not value.stack and value.name not in self.given:
            names = [value.name, *names]
        found = {n: m.start() for n in names if (m := re.search(rf"\b{n}\b", self.line.partition("=")[2]))}
        return min(found, key=lambda n: found[n]) if found else names[0] if names else ""

    def give(self, value: Value, name: str) -> None:
        """From here on the value has this name, and no other value has."""
        for names in self.names.values():
            if name in names:
                names.remove(name)
        self.given.add(name)
        self.names.setdefault(id(value), []).append(name)

    def spell(self, value: Value, outer: int = 0) -> str:
        """The value's text. `outer`: how tightly what it stands in binds."""
        return str(deep(self.spelled(value, outer)))

    def spelled(self, value: Value, outer: int) -> Steps:
        name = self.name(value)
        if name:
            return name
        if value.op in ("name", "input"):
            return text_of(value.place) if value.stack and value.place is not None else value.name
        if value.op == "number":
            return f"{value.number:g}"
        if value.op == "history":
            return _history(value)
        if value.op == "tap":
            whole = yield self.spelled(value.args[0], 9)
            return f"{whole.split('(')[0]}.{value.name}"
        place = own_place(value)
        if value.op == "call" or value.frames:
            return text_of(place) if place is not None else value.name
        binding = BINDING.get(value.op, 9)
        if value.op == "neg":
            text = f"-{yield self.spelled(value.args[0], binding)}"
        else:
            left, right = value.args
            tighter = binding + (0 if value.op in ("add", "mul") else 1)
            sign = OPERATIONS.get(value.op, value.op)
            text = f"{yield self.spelled(left, binding)} {sign} {yield self.spelled(right, tighter)}"
        return f"({text})" if binding < outer else text


def brief(text: str) -> str:
    """A term's text; if it is long, its calls without their options: `attention(norm(x), ...)`."""
    if len(text) <= LONGEST:
        return text
    try:
        (line,) = parse(Source("a term", f"x = {text}"))
    except FormulaError:
        return text

    def less(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not node.options:
            return None
        items = (*(rewritten(item, less) for item in node.items), Name(node.place, "..."))
        return replace(node, items=items, options=())

    return spell(rewritten(line.value, less))


@dataclass(frozen=True)
class LineAnalysis:
    """One line. `skips` and `branches` are the terms of its sum, as written, `mixed` those that are both in one,
    `added` those that are neither (numbers, positions); `around` what stands around the sum; `merged_by` the word that
    merges them in the place of a sum; `stream`: whether `name` is carried from layer to layer."""

    number: int
    text: str
    name: str
    kind: str
    width: int
    reads: tuple[str, ...]
    skips: tuple[str, ...]
    branches: tuple[str, ...]
    around: tuple[str, ...]
    merged_by: str = ""
    stream: bool = True
    mixed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        return {
            "line": self.number,
            "text": self.text,
            "sets": self.name,
            "kind": self.kind,
            "width": self.width,
            "reads": list(self.reads),
            "skips": list(self.skips),
            "branches": list(self.branches),
            "mixed": list(self.mixed),
            "added": list(self.added),
            "around": list(self.around),
            "merged_by": self.merged_by,
        }

    def __str__(self) -> str:
        parts = [f"reads {_listed(self.reads) or 'nothing'}"]
        what = {"stream": f" (width {self.width:,})", "number": " (a number)"}.get(self.kind, f" (a {self.kind})")
        parts.append(f"sets {self.name}{what}")
        skips = f"{'skip' if len(self.skips) == 1 else 'skips'} {_listed(self.skips) or 'none'}"
        branches = f"{'branch' if len(self.branches) == 1 else 'branches'} {_listed(self.branches)}"
        if (self.branches and (self.skips or self.merged_by)) or self.mixed:
            parts += [skips, branches] if self.branches else [skips]
            parts += [f"both in one: {_listed(self.mixed)}"] if self.mixed else []
        elif self.branches:
            some = ("one branch" if self.stream else "a branch") if len(self.branches) == 1 else branches
            parts.append(f"{some}, no skip" if self.stream else some)
        elif len(self.skips) > 1 or (self.skips and self.added):
            parts.append(skips)
        if self.added:
            parts.append(f"added {_listed(self.added)}")
        if self.merged_by:
            parts.append(f"merged by {self.merged_by}")
        if self.around and (self.branches or self.mixed or len(self.skips) > 1):
            parts.append(f"all within {_listed(self.around)}")
        return "; ".join(parts)


def _listed(names: tuple[str, ...]) -> str:
    """Names and terms, long ones cut: the whole stands in the line above."""
    return ", ".join(name if len(name) <= LONGEST else name[: LONGEST - 3] + "..." for name in names)


def analyze_lines(section: Section, scales: Scales, streams: Collection[str] = ()) -> list[LineAnalysis]:
    """The lines of a section that `scales` has evaluated, those that are not built left out. `streams`: the names
    that are carried from layer to layer."""
    speller = Speller(section)
    found: list[LineAnalysis] = []
    made: set[int] = set()
    for index, (place, name, value) in enumerate(section.lines):
        if value is None:
            continue
        fresh = id(value) not in made and line_of(section, own_place(value)) == index
        around: list[str] = []
        merged_by = ""
        terms: list[tuple[str, Value]] = []
        speller.line = text_of(place)
        if value.kind == "stream" and fresh and value.op != "name":
            inner = _opened(value, around, made)
            terms, merged_by = _terms(inner, made)
        kinds: dict[str, list[str]] = {"skip": [], "branch": [], "mixed": [], "added": []}
        for sign, term in terms:
            kind = "skip" if speller.name(term) in streams else term_kind(term, scales, made)
            kinds[kind].append(sign + brief(speller.spell(term, 2 if sign else 1)))
        if len(terms) == 1 and not kinds["branch"]:
            kinds = dict.fromkeys(kinds, [])
        found.append(
            LineAnalysis(
                index + 1,
                text_of(place),
                name,
                value.kind,
                value.width,
                tuple(_reads(value, speller, made)) if value.op != "number" else (),
                tuple(kinds["skip"]),
                tuple(kinds["branch"]),
                tuple(around),
                merged_by,
                name in streams,
                tuple(kinds["mixed"]),
                tuple(kinds["added"]),
            )
        )
        if value.op != "number":
            speller.give(value, name)
            made.add(id(value))
    return found


def term_kind(term: Value, scales: Scales, made: Collection[int]) -> str:
    """What a term of a sum is: "branch", "skip", "mixed" (both in one), or "added": nothing of the stream is in it.

    made  what lines before have made: it is read by its name, and not looked into
    """
    if is_branch(term, scales):
        return "branch"
    if not carries(term):
        return "added"
    return "mixed" if scales.has_sublayer(term) and _in_one(term, scales, made) else "skip"


def _in_one(term: Value, scales: Scales, made: Collection[int]) -> bool:
    """Whether a sum within a term has a branch beside what is none."""

    def into(value: Value) -> bool:
        inside = id(value) not in made and value.op in (*BINDING, "call") and not is_sublayer(value)
        return inside and (value is term or value.op != "call")

    sums = (v for v in walk(term, into) if v.op in ("add", "sub") and id(v) not in made)
    return any(len({is_branch(a, scales) for a in v.args}) == 2 for v in sums)


def carries(term: Value) -> bool:
    """Whether a stream is in a term, and not only its length, as in positions."""
    ends = ("name", "history", "input", "list", "tap")

    def into(value: Value) -> bool:
        word = value.call.word if value.call is not None else None
        return value.op not in ends and (word is None or word.kind != "input" or word.sublayer)

    return any(value.op in ends and value.kind != "coefficient" for value in walk(term, into))


def is_branch(term: Value, scales: Scales) -> bool:
    """Whether a term goes through a sublayer, and nothing of the stream is left of it while sublayers yield zero."""
    if not scales.has_sublayer(term):
        return False
    vector = scales.of(term)
    return vector == ZERO or (isinstance(vector, UnknownVector) and not any(past_sublayers(term)))


def _opened(value: Value, around: list[str], made: set[int]) -> Value:
    """What stands inside a norm, a dropout, a function around the whole line; their names go into `around`."""
    here = value
    while not here.frames and here.call is not None and here.word_kind in AROUND and len(here.call.streams) == 1:
        inner = here.args[0]
        if inner.op not in ("add", "sub", "call") or id(inner) in made or inner.word_kind not in ("", *AROUND):
            break
        around.append(here.call.name)
        here = inner
    return here


def _terms(value: Value, made: set[int], sign: str = "") -> tuple[list[tuple[str, Value]], str]:
    """The terms of a sum with their signs ("" or "-"), in written order; of a word that merges streams its streams, and
    the word's name."""
    after: list[list[tuple[str, Value]]] = []
    while value.op in ("add", "sub") and not value.frames and id(value) not in made:
        other = sign if value.op == "add" else "" if sign else "-"
        after.append(_terms(value.args[1], made, other)[0])
        value = value.args[0]
    if after:
        first, _ = _terms(value, made, sign)
        return [*first, *(term for terms in reversed(after) for term in terms)], ""
    if value.frames or id(value) in made:
        return [(sign, value)], ""
    call = value.call
    if call is not None and call.word.kind in ("gate", "streams") and len(call.streams) > 1:
        return [(sign, v) for v in value.args[: len(call.streams)]], call.name
    return [(sign, value)], ""


def _reads(value: Value, speller: Speller, made: set[int]) -> list[str]:
    """The names that a line reads: of lines before, carried ones, history, inputs."""
    if id(value) in made and speller.name(value):
        return [speller.name(value)]  # another name for what a line before has made
    names: list[str] = []
    seen = {id(value)}
    ahead = [value]
    for here in ahead:
        if here is not value and id(here) in made and speller.name(here):
            names.append(speller.name(here))
            continue
        if here.op in ("name", "input"):
            names.append(here.stack or here.name)
        elif here.op == "history":
            names.append(_history(here))
        for argument in here.args:
            if id(argument) not in seen:
                seen.add(id(argument))
                ahead.append(argument)
    return list(dict.fromkeys(names))


def _history(value: Value) -> str:
    """A piece of history as written: "x[depth + 1 - layer]", "h[:]"."""
    return text_of(value.place) if value.place is not None else f"{value.stack or value.name}[{value.number:g}]"


def spans(numbers: Iterable[int]) -> str:
    """'0-3, 7' of whole numbers in order; of many runs the first and the last."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join(shown if len(shown) <= RUNS else [*shown[:3], "...", shown[-1]])
