"""Each line of a formula in words: what it reads, what it sets, which of its terms skip and which branch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby

from ..language.graph import OPERATIONS, Section, Value
from ..language.messages import FormulaError
from ..language.parser import parse
from ..language.source import Place, Source
from ..language.syntax import CallNode, Name, Node, rewritten, spell
from ..plain import keys
from .canonical import Steps, deep
from .initial_scale import Scales
from .residual_path import is_sublayer, line_of, own_place, past_sublayers, walk
from .vectors import ZERO, UnknownVector

BINDING = {"add": 1, "sub": 1, "mul": 2, "div": 2, "neg": 3, "pow": 4}  # how tightly an operation binds, for brackets
AROUND = ("norm", "chance", "function")  # kinds of words that may stand around the sum of a whole line
MAX_RUNS = 6  # more runs of layers are not listed one by one
MAX_TERM_CHARACTERS = 56  # terms of more characters are listed without options for a person


def text_of(place: Place) -> str:
    """All of a place's text on one line, without comments."""
    rows = [place.source.line(n) for n in range(place.line, place.end_line + 1)]
    rows[-1] = rows[-1][: place.end_column]
    rows[0] = rows[0][place.column :]
    return " ".join(" ".join(row.split("#")[0] for row in rows).split())


def brief(text: str) -> str:
    """A term's text; if it is long, its calls without their options: `attention(norm(x), ...)`."""
    if len(text) <= MAX_TERM_CHARACTERS:
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
    mixed: tuple[str, ...]
    added: tuple[str, ...]
    around: tuple[str, ...]
    merged_by: str
    stream: bool

    data = keys("line=number text sets=name kind width reads skips branches mixed added around merged_by")

    def __str__(self) -> str:
        what = {"stream": f" (width {self.width:,})", "number": " (a number)"}.get(self.kind, f" (a {self.kind})")
        parts = [f"reads {_listed(self.reads) or 'nothing'}", f"sets {self.name}{what}"]
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
    most = MAX_TERM_CHARACTERS
    return ", ".join(name if len(name) <= most else f"{name[: most - 3]}..." for name in names)


def analyze_lines(section: Section, scales: Scales, streams: Collection[str] = ()) -> list[LineAnalysis]:
    """The lines of an evaluated section that are built. `streams`: names carried from layer to layer."""
    reader = _Reader(section, scales, streams)
    lines = enumerate(section.lines)
    return [reader.read(n, place, name, value) for n, (place, name, value) in lines if value is not None]


class _Reader:
    """Reads the lines of a section in order, and writes its values as they do: names for what lines before have made.

    line   the text of the line that is read: of several names of one value the one that stands in it is meant
    named  the names that lines before have set -> their values
    earlier  the values that lines before have set: they are read by their names, and not looked into
    """

    def __init__(self, section: Section, scales: Scales, streams: Collection[str]) -> None:
        self.section, self.scales, self.streams = section, scales, streams
        self.line = ""
        self.named: dict[str, Value] = {}
        self.earlier: set[Value] = set()

    def read(self, index: int, place: Place, name: str, value: Value) -> LineAnalysis:
        self.line = text_of(place)
        around: list[str] = []
        terms: list[tuple[str, Value]] = []
        merged_by = ""
        fresh = value not in self.earlier and line_of(self.section, value) == index
        if value.kind == "stream" and fresh and value.op != "name":
            inner = self.opened(value, around)
            terms, merged_by = self.terms(inner), inner.called.name if self.merged(inner) else ""
        kinds: dict[str, list[str]] = {"skip": [], "branch": [], "mixed": [], "added": []}
        for sign, term in terms:
            kind = "skip" if self.name(term) in self.streams else self.kind_of(term)
            kinds[kind].append(sign + brief(str(deep(self.spelled(term, 2 if sign else 1)))))
        if len(terms) == 1 and not kinds["branch"]:
            kinds = dict.fromkeys(kinds, [])
        skips, branches, mixed, added = (tuple(texts) for texts in kinds.values())
        line = LineAnalysis(
            index + 1, self.line, name, value.kind, value.width, tuple(self.reads(value)),
            skips, branches, mixed, added, tuple(around), merged_by, name in self.streams,
        )  # fmt: skip
        if value.op != "number":
            self.named.pop(name, None)
            self.named[name] = value
            self.earlier.add(value)
        return line

    def name(self, value: Value) -> str:
        """The name that a line before has given to a value, "" if none has."""
        names = [name for name, named in self.named.items() if named is value]
        if value.op in ("name", "input") and not value.stack and value.name not in self.named:
            names = [value.name, *names]
        places = {n: m.start() for n in names if (m := re.search(rf"\b{n}\b", self.line.partition("=")[2]))}
        return min(places or names, key=lambda name: places.get(name, 0), default="")

    def spelled(self, value: Value, outer: int) -> Steps:
        """The value's text. `outer`: how tightly what it stands in binds."""
        name = self.name(value)
        if name:
            return name
        match value.op:
            case "name" | "input":
                return text_of(value.place) if value.stack and value.place is not None else value.name
            case "number":
                return f"{value.number:g}"
            case "history":
                return _history(value)
            case "tap":
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

    def reads(self, value: Value) -> Iterable[str]:
        """The names that a line reads, each once: of lines before, carried ones, history, inputs."""
        names: dict[str, None] = {}
        ahead = [] if value.op == "number" else [value]
        seen = set(ahead)
        for here in ahead:
            name = self.name(here) if here in self.earlier else ""
            if not name and here.op in ("name", "input", "history"):
                name = _history(here) if here.op == "history" else here.stack or here.name
            if name:
                names[name] = None
            else:
                ahead += [a for a in dict.fromkeys(here.args) if a not in seen]
                seen.update(here.args)
        return names

    def opened(self, value: Value, around: list[str]) -> Value:
        """What stands inside a norm, a dropout, a function around the whole line; their names go into `around`."""
        while not value.frames and value.word_kind in AROUND and len(value.called.streams) == 1:
            inner = value.args[0]
            if inner.op not in ("add", "sub", "call") or inner in self.earlier or inner.word_kind not in ("", *AROUND):
                break
            around.append(value.called.name)
            value = inner
        return value

    def merged(self, value: Value) -> Sequence[Value]:
        """The streams that a word merges in the place of a sum; none for other values."""
        whole = value.frames or value in self.earlier or value.word_kind not in ("gate", "streams")
        return () if whole or len(value.called.streams) < 2 else value.args[: len(value.called.streams)]

    def terms(self, value: Value, sign: str = "") -> list[tuple[str, Value]]:
        """The terms of a sum with their signs ("" or "-"), in written order; of a word that merges streams these."""
        later: list[list[tuple[str, Value]]] = []
        negated = "" if sign else "-"
        while value.op in ("add", "sub") and not value.frames and value not in self.earlier:
            later.append(self.terms(value.args[1], sign if value.op == "add" else negated))
            value = value.args[0]
        first = [(sign, term) for term in self.merged(value) or (value,)]
        return [*first, *chain.from_iterable(reversed(later))]

    def kind_of(self, term: Value) -> str:
        """What a term of a sum is: "branch", "skip", "mixed" (both), or "added": nothing of the stream is in it."""
        if is_branch(term, self.scales):
            return "branch"
        if not carries(term):
            return "added"

        def into(value: Value) -> bool:
            inside = value not in self.earlier and value.op in (*BINDING, "call") and not is_sublayer(value)
            return inside and (value is term or value.op != "call")

        sums = (v for v in walk(term, into) if v.op in ("add", "sub") and v not in self.earlier)
        both = any(len({is_branch(a, self.scales) for a in v.args}) == 2 for v in sums)
        return "mixed" if both and self.scales.has_sublayer(term) else "skip"


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


def _history(value: Value) -> str:
    """A piece of history as written: "x[depth + 1 - layer]", "h[:]"."""
    return text_of(value.place) if value.place is not None else f"{value.stack or value.name}[{value.number:g}]"


def spans(numbers: Iterable[int], most: float = MAX_RUNS) -> str:
    """'0-3, 7' of whole numbers in order; of more runs than `most` the first and the last."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs]
    return ", ".join(shown if len(shown) <= most else [*shown[:3], "...", shown[-1]])
