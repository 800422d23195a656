"""What is unsound in a wiring, why, where, and its sound relative.

`TABLE` is the closed list: it feeds the warnings, their tests and the page of `explain` in the docs. A relative made
from the user's own text is checked and analysed again before it is shown; otherwise the gallery's entry alone is named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import rewrite
from .check import check
from .gain import Gain, number
from .graph import Architecture, Section, Value
from .lines import is_branch, text_of
from .messages import FormulaError
from .model_file import ModelText
from .parser import parse
from .reading import Layers, StackReading, read_stack
from .silence import Silence
from .source import Source
from .syntax import Call as CallNode
from .syntax import Name, walk
from .trunk import line_of, own_place
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Row:
    """One kind of warning. `example` is a formula that causes it; a `note` is worth saying, and not unsound."""

    what: str
    why: str
    example: str
    note: bool = False


TABLE: dict[str, Row] = {
    "gain-compounds": Row(
        "the stream grows or shrinks from layer to layer by itself",
        "What the branches of early layers add is drowned or multiplied, and half precision overflows in deep stacks.",
        "y = x + attention(norm(x)); x = x + y + mlp(norm(y))",
    ),
    "no-skip": Row(
        "the stream passes only through sublayers",
        "Signal and gradient go through every matrix of every layer, so deep stacks do not train without special "
        "initial weights.",
        "x = attention(norm(x)); x = mlp(norm(x))",
    ),
    "norm-on-trunk": Row(
        "a norm stands on the stream",
        "The gradient passes a norm for every sublayer and fades, so deep stacks need a warm-up of the learning rate "
        "or a weighed skip.",
        "x = norm(x + attention(x)); x = norm(x + mlp(x))",
    ),
    "dropout-on-trunk": Row(
        "dropout stands on the stream",
        "In training it deletes the stream's own channels, layer after layer, and what is left differs in size from "
        "what evaluation sees.",
        "x = dropout(x, 0.1) + attention(norm(x)); x = x + mlp(norm(x))",
    ),
    "function-on-trunk": Row(
        "a function stands on the stream",
        "Each layer can only move the stream within the function's range: after relu nothing is ever negative.",
        "x = relu(x + attention(norm(x))); x = x + mlp(norm(x))",
    ),
    "no-final-norm": Row(
        "pre-norm layers, and no norm before the output",
        "The stream grows with depth as branches add to it, and the output reads it at that size.",
        "x = x + attention(norm(x)); x = x + mlp(norm(x))",
    ),
    "positions-twice": Row(
        "positions are told twice",
        "Positions added to the stream and positions told inside attention say the same, and the first limit the "
        "length.",
        "before: x = embed.words(tokens) + positions(tokens)\n"
        "layer: x = x + attention(norm(x), rotary=10000) + mlp(norm(x))\nafter: x = norm(x)",
    ),
    "no-positions": Row(
        "nothing tells positions apart",
        "Without positions attention sees a bag of tokens; in a causal stack only the number of tokens before differs.",
        "before: x = embed.words(tokens)\nlayer: x = x + attention(norm(x)) + mlp(norm(x))\nafter: x = norm(x)",
        note=True,
    ),
    "no-norm": Row(
        "no norm stands anywhere in the layers",
        "What a branch adds grows with what it reads, so sizes can run away with depth unless the initial weights "
        "are made for it.",
        "x = x + attention(x); x = x + mlp(x)",
        note=True,
    ),
}
"""Code -> the warning."""


@dataclass(frozen=True)
class Relative:
    """A sound relative made from the user's text: `key` is the key of the model file whose text it is."""

    key: str
    text: str
    words: str = ""

    @property
    def data(self) -> dict[str, str]:
        return {"key": self.key, "text": self.text, "words": self.words}


@dataclass(frozen=True)
class Warning:
    """One warning. `where` is a person's name of the place, `line` its text ("" where it is no line's).

    relatives  sound texts made from the user's own; entries: names of the gallery
    """

    code: str
    what: str
    where: str
    line: str
    relatives: tuple[Relative, ...] = ()
    entries: tuple[str, ...] = ()
    more: str = ""
    note: bool = False

    @property
    def why(self) -> str:
        """The reason, from the table."""
        return TABLE[self.code].why

    @property
    def data(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "note": self.note,
            "what": self.what,
            "why": self.why,
            "where": self.where,
            "line": self.line,
            "more": self.more,
            "relatives": [relative.data for relative in self.relatives],
            "gallery": list(self.entries),
        }


def with_layer(text: ModelText, stack: int, formula: str, new: str) -> ModelText:
    """The model with another text for one formula of a stack."""
    return _with(text, stack, layers={**text.stacks[stack].layers, formula: Source(formula, new)})


def with_part(text: ModelText, stack: int, key: str, new: str) -> ModelText:
    """The model with another `before` or `after` of a stack."""
    return _with(text, stack, **{key: Source(key, new)})


def _with(text: ModelText, stack: int, **changes: Any) -> ModelText:
    stacks = list(text.stacks)
    stacks[stack] = dataclasses.replace(stacks[stack], **changes)
    return dataclasses.replace(text, stacks=tuple(stacks))


class Adviser:
    """Finds the warnings of one stack."""

    def __init__(self, reading: StackReading, architecture: Architecture, vocabulary: Vocabulary) -> None:
        self.reading, self.architecture, self.vocabulary = reading, architecture, vocabulary
        self.text: ModelText = architecture.text
        self.index = architecture.stacks.index(reading.stack)
        self.prefix = f"{reading.title}, " if reading.title else ""

    def read_again(self, text: ModelText) -> StackReading | None:
        """A changed text, checked and read; None if it is no formula any more."""
        try:
            changed = check(text, self.vocabulary)
        except FormulaError:
            return None
        return read_stack(changed.stacks[self.index], changed)

    def relative(
        self, key: str, new: str, holds: Callable[[StackReading], bool], formula: str = "", words: str = ""
    ) -> list[Relative]:
        """The relative with this text, if it checks and what should hold does."""
        if key == "layer":
            made = with_layer(self.text, self.index, formula, new)
        else:
            made = with_part(self.text, self.index, key, new)
        again = self.read_again(made)
        if again is None or not holds(again):
            return []
        shown = formula if key == "layer" and formula != "layer" else key
        return [Relative(f"{self.prefix}{shown}", new, words)]

    def section(self, group: Layers) -> Section:
        return self.reading.stack.layers[group.numbers[0] - 1]

    def formula(self, group: Layers) -> rewrite.Formula:
        section = self.section(group)
        return rewrite.formula_of(section, parse(section.lines[0][0].source))

    def where(self, group: Layers, line: int | None) -> tuple[str, str]:
        """A person's name of a line (from 0) of a group of layers, and its text."""
        section = self.section(group)
        if group.formula != "layer":
            name = group.formula
        else:
            same = all(layers.formula == group.formula for layers in self.reading.layers)
            name = "layer" if same else group.title
        if line is None or line >= len(section.lines):
            return f"{self.prefix}{name}", ""
        return f"{self.prefix}{name}, line {line + 1}", text_of(section.lines[line][0])

    def all(self) -> Iterator[Warning]:
        """All warnings of this stack."""
        yield from self.growing()
        yield from self.skipless()
        yield from self.normed()
        for kind, code in (("chance", "dropout-on-trunk"), ("function", "function-on-trunk")):
            yield from self.on_trunk(kind, code)
        yield from self.unnormed_end()
        yield from self.positions()
        yield from self.no_norm()

    def growing(self) -> Iterator[Warning]:
        for gain in self.reading.gains:
            growth = gain.growth
            if growth is None or growth == 0 or 0.5 < growth < 2:
                continue
            if growth < 1 and any(c.call and c.call.word.kind == "gate" for s in self.sections() for c in s.calls()):
                continue  # a gate decides anew in every layer
            group, index, before, after = self.first_growth(gain)
            what = f"with branches silent {gain.stream} {'grows' if growth > 1 else 'shrinks'}: {gain}"
            where, line = self.where(group, index)
            entries = ["pre-norm"]
            relatives: list[Relative] = []
            more = ""
            if growth > 1 and index is not None and before and after:
                skips = self.skips(group, index)
                holds = _settled(gain.stream)
                formula = self.formula(group)
                spots = [rewrite.spot(node.place) for _, node in skips]
                new = rewrite.weighed_skips(formula, index, spots, float(f"{before / after:.6g}"))
                relatives = self.relative(
                    "layer", new, holds, group.formula, "the skips weighed, so that their sum is one"
                )
                if len(skips) > 1:
                    entries = ["skip-2-half", "b2t"]
                    new = rewrite.norms_after_sums(formula)
                    relatives += self.relative(
                        "layer", new, holds, group.formula, "or B2T, with the norms after the sums"
                    )
                    if group.norming.kind == "pre-norm":
                        more = (
                            "Its look-alike skip-2 norms the stream itself (x = norm(x) before both sublayers); there "
                            "nothing compounds. The two differ by more than the place of a norm."
                        )
            yield Warning("gain-compounds", what, where, line, tuple(relatives), tuple(entries), more)

    def sections(self) -> list[Section]:
        return self.reading.stack.layers

    def first_growth(self, gain: Gain) -> tuple[Layers, int | None, float | None, float | None]:
        """Where the stream first changes its size: layers, line (from 0), the size before and after."""
        before: float | None = 1.0
        silence = self.reading.silence
        for section, size in zip(self.sections(), gain.sizes, strict=True):
            if gain.kind == "normed" and section.number == 1:
                before = size
                continue
            if before and size and abs(size / before - 1) > 1e-6:
                group = next(g for g in self.reading.layers if section.number in g.numbers)
                for index, (_, _, value) in enumerate(section.lines):
                    here = silence.directions.size(silence.of(value)) if value is not None else None
                    if here and abs(here / before - 1) > 1e-6:
                        return group, index, before, here
                return group, None, before, size
            before = size
        return self.reading.layers[0], None, None, None

    def skips(self, group: Layers, index: int) -> list[tuple[str, Any]]:
        """The terms of a line (from 0) that are skips, as signs and nodes of the formula's tree."""
        section = self.section(group)
        formula = self.formula(group)
        branches = {
            name for _, name, value in section.lines[:index] if value is not None and is_branch(value, group.silence)
        }
        found = []
        for sign, node in rewrite.terms(formula.lines[index].value):
            inside = walk(node)
            through = any(rewrite.spot(n.place) in formula.sublayers for n in inside if isinstance(n, CallNode))
            names = {n.name for n in inside if isinstance(n, Name)}
            if not through and not names & branches:
                found.append((sign, node))
        return found

    def skipless(self) -> Iterator[Warning]:
        done: set[str] = set()
        for group in self.reading.layers:
            trunk = group.trunk
            read = {v.name for v in trunk.section.reads.values()}
            lost = [n for n in trunk.plain if not trunk.plain[n] and not trunk.normed[n] and n in read]
            if not lost or group.formula in done:
                continue
            done.add(group.formula)
            stream = lost[0]
            section = self.section(group)
            index = next((i for i, (_, name, _) in enumerate(section.lines) if name == stream), None)
            formula = self.formula(group)

            def holds(again: StackReading, stream: str = stream) -> bool:
                gain = next((g for g in again.gains if g.stream == stream), None)
                return gain is not None and gain.kind in ("compounds", "normed") and _calm(gain)

            relatives: list[Relative] = []
            bare = [
                line.number - 1
                for line in group.lines
                if line.branches and not line.skips and not any(b.isidentifier() for b in line.branches)
            ]
            last = [line.number - 1 for line in group.lines if line.name == stream][-1:]
            for lines in (bare, last):
                if not relatives:
                    new = rewrite.added_skips(formula, stream, lines)
                    relatives = self.relative("layer", new, holds, group.formula, "a skip around each branch")
            where, line = self.where(group, index)
            what = f"{stream} passes only through sublayers"
            if len(self.reading.layers) > 1:
                what += f" in {group.title}"
            yield Warning("no-skip", what, where, line, tuple(relatives), ("pre-norm",))

    def normed(self) -> Iterator[Warning]:
        done: set[str] = set()
        for group in self.reading.layers:
            trunk = group.trunk
            on = [n for n in trunk.plain if trunk.normed[n] and not trunk.plain[n]]
            if not on or any(trunk.plain.values()) or group.formula in done:
                continue
            done.add(group.formula)
            section = self.section(group)
            norms = trunk.of_kind("norm")
            index = next((i for n in norms if (i := line_of(section, own_place(n))) is not None), None)
            gain = next((g for g in self.reading.gains if g.stream == on[0]), None)
            size = gain.size if gain is not None and gain.kind == "normed" else None
            formula = self.formula(group)
            holds = _settled(on[0], "pre-norm", group.formula)
            new = rewrite.norms_into_branches(formula)
            relatives = self.relative("layer", new, holds, group.formula, "pre-norm; with after: x = norm(x)")
            entries: tuple[str, ...] = ("pre-norm", "b2t", "deepnorm")
            more = ""
            what = f"a norm stands on the stream {' and '.join(on)}"
            weighed = any(w > 1 + 1e-9 for w in self.weights(norms, section, group.silence))
            if size is not None and size > 1.5 and not _ends_normed(trunk.section.leaves[on[0]]):
                # skip-2 and its kin: two skips meet in the last sum, and the next layer's norm takes the size away
                what += f"; nothing compounds, it leaves each layer with size {number(size)}"
                entries = ("b2t",)
                norm = next((n.call.name for n in norms if n.call is not None), "norm")
                new = rewrite.norms_after_sums(formula, norm)
                relatives = self.relative(
                    "layer",
                    new,
                    _settled(on[0], "post-norm", group.formula),
                    group.formula,
                    "B2T: the same, the norms after the sums",
                )
                more = self.look_alike(group, formula)
            where, line = self.where(group, index)
            yield Warning("norm-on-trunk", what, where, line, tuple(relatives), entries, more, note=weighed)

    def look_alike(self, group: Layers, formula: rewrite.Formula) -> str:
        """What becomes of skip-2 if it is tidied up to pre-norm: another model, whose stream grows."""
        new = rewrite.norms_into_branches(formula)
        again = self.read_again(with_layer(self.text, self.index, group.formula, new))
        grown = next((g for g in again.gains if g.growth is not None and g.growth >= 2), None) if again else None
        if grown is None:
            return ""
        text = "; ".join(new.splitlines())
        return f"In size it is sound. Its pre-norm look-alike, {text}, is not: there {grown.stream} grows {grown}."

    def weights(self, norms: Sequence[Value], section: Section, silence: Silence) -> Iterator[float]:
        """How large the skip is, against the stream that enters, where a norm stands around a sum with a branch."""
        for norm in norms:
            inner = norm.args[0]
            if inner.op not in ("add", "sub") or line_of(section, inner.place) != line_of(section, norm.place):
                continue
            size = silence.directions.size(silence.of(inner))
            entering = [silence.directions.size(silence.of(v)) for v in section.reads.values() if v.kind == "stream"]
            largest = max((e for e in entering if e), default=None)
            if size and largest:
                yield size / largest

    def on_trunk(self, kind: str, code: str) -> Iterator[Warning]:
        done: set[str] = set()
        for group in self.reading.layers:
            calls = [v for v in group.trunk.of_kind(kind) if v.call is not None and v.call.options.get("p", 1)]
            if not calls or group.formula in done:
                continue
            done.add(group.formula)
            section = self.section(group)
            names = list(dict.fromkeys(v.call.name for v in calls if v.call is not None))
            index = line_of(section, own_place(calls[0]))
            what = f"{' and '.join(names)} stands on the stream"
            if kind == "chance":
                least = min(float(v.call.options.get("p", 0)) for v in calls if v.call is not None)
                left, depth = (1 - least) ** len(group.numbers), len(group.numbers)
                what += f": at {number(least)} a layer, {left:.0%} of a channel's way survives {depth}"
            new = rewrite.without_calls(self.formula(group), rewrite.places_of(calls))

            def holds(again: StackReading, formula: str = group.formula) -> bool:
                return not any(g.trunk.of_kind(kind) for g in again.layers if g.formula == formula)

            relatives = self.relative(
                "layer", new, holds, group.formula, f"without {' and '.join(names)} on the stream"
            )
            where, line = self.where(group, index)
            yield Warning(code, what, where, line, tuple(relatives), ("pre-norm",))

    def unnormed_end(self) -> Iterator[Warning]:
        reading = self.reading
        if reading.layers[-1].norming.kind != "pre-norm" or not self.reaches_output_bare():
            return
        source = self.text.stacks[self.index].after
        new = f"{source.text}\nx = norm(x)" if source is not None else "x = norm(x)"
        relatives = self.relative("after", new, lambda again: True)
        yield Warning(
            "no-final-norm",
            "the stream is read by the output as the last layer leaves it",
            f"{self.prefix}after",
            "" if source is None else source.text.strip().splitlines()[-1],
            tuple(relatives),
            ("pre-norm",),
        )

    def reaches_output_bare(self) -> bool:
        """Whether a stream of the last layer reaches a sublayer beyond the layers without a norm on its way."""
        stack, streams = self.reading.stack, set(self.reading.streams)
        bare_names: set[str] = set(streams)
        ends = [stack.after, *(s for other in self.architecture.stacks if other is not stack for s in other.sections())]
        for section in [*ends, self.architecture.output]:
            bare: set[int] = set()
            own = section is stack.after or (section.where == "output" and stack is self.architecture.main)
            for value in section.values:
                if value.op in ("name", "history"):
                    here = value.stack == stack.name if value.stack else own
                    if here and value.name in bare_names:
                        bare.add(id(value))
                elif any(id(a) in bare for a in value.args):
                    call = value.call
                    if call is None or call.word.kind != "norm":
                        bare.add(id(value))
                    if call is not None and call.word.sublayer and call.word.parameters:
                        return True
            if section is stack.after:
                for name, value in section.leaves.items():
                    bare_names.discard(name)
                    if id(value) in bare:
                        bare_names.add(name)
        return False

    def positions(self) -> Iterator[Warning]:
        reading, stack = self.reading, self.reading.stack
        if reading.reach.reach == "token":
            return
        absolute = [o for o in reading.order if o.absolute]
        inside = [o for o in reading.order if o.kind in ("rotary", "scores")]
        source = stack.before.lines[0][0].source if stack.before.lines else None
        if (absolute and inside) or len({o.kind for o in absolute}) > 1:
            told = [*absolute, *inside] if inside else absolute
            calls = [
                v
                for v in stack.before.calls()
                if v.call is not None and v.call.word.kind == "input" and v.call.word.positional
            ]
            relatives: list[Relative] = []
            if source is not None and inside:
                new = rewrite.without_terms(parse(source), rewrite.places_of(calls))
                if new is not None:
                    relatives = self.relative(
                        "before", new, lambda again: not any(o.absolute for o in again.order), words="told once, inside"
                    )
            what = f"positions are told twice: {' and '.join(str(o) for o in told)}"
            yield Warning("positions-twice", what, f"{self.prefix}before", "", tuple(relatives), ("llama", "gpt2"))
        elif not reading.order and not any(v.stack for v in stack.before.values):
            what = "nothing tells positions apart" + (" but the causal mask" if stack.causal else "")
            relatives = []
            if source is not None and len(stack.before.lines) == 1:
                inputs = [v.name for v in stack.before.values if v.op == "input"]
                if inputs and "positions" in self.vocabulary:
                    new = f"{source.text.strip()} + positions({inputs[0]})"
                    relatives = self.relative("before", new, lambda again: bool(again.order), words="learned positions")
            yield Warning(
                "no-positions", what, f"{self.prefix}before", "", tuple(relatives), ("gpt2", "llama"), note=True
            )

    def no_norm(self) -> Iterator[Warning]:
        reading = self.reading
        calls = [v.call for s in self.sections() for v in s.calls() if v.call is not None]
        if any(c.word.kind in ("norm", "coefficient", "gate", "streams") for c in calls) or "init" in self.text.hooks:
            return
        if not reading.gains or not any(g.kind == "compounds" for g in reading.gains):
            return
        if any(
            t.call is not None and t.call.word.kind == "norm" for c in calls for i in c.inner.values() for t in i.values
        ):
            return
        where, _ = self.where(reading.layers[0], None)
        entries = ("pre-norm", "rezero", "t-fixup")
        yield Warning("no-norm", "no norm stands anywhere in the layers", where, "", (), entries, note=True)


def _calm(gain: Gain) -> bool:
    return gain.growth is not None and 0.5 < gain.growth < 2


def _settled(stream: str, kind: str = "", formula: str = "") -> Callable[[StackReading], bool]:
    """Whether, read again, the stream keeps its size and, if said, the layers of a formula are of that kind."""

    def holds(again: StackReading) -> bool:
        gain = next((g for g in again.gains if g.stream == stream), None)
        kinds = {g.norming.kind for g in again.layers if g.formula == formula}
        return gain is not None and _calm(gain) and (not kind or kinds == {kind})

    return holds


def _ends_normed(value: Value) -> bool:
    return value.call is not None and value.call.word.kind == "norm"


def known_words(architecture: Architecture) -> Vocabulary:
    """The words that a model uses: enough to check most changes of its text."""
    calls: Iterable[Any] = (v.call for s in architecture.sections() for v in s.calls() if v.call is not None)
    found = {}
    for call in calls:
        found[call.word.name] = call.word
        for template in call.inner.values():
            found |= {v.call.word.name: v.call.word for v in template.values if v.call is not None}
    return Vocabulary(found.values())


def warnings_of(
    readings: Sequence[StackReading], architecture: Architecture, vocabulary: Vocabulary | None = None
) -> list[Warning]:
    """The warnings of a model, then the notes.

    vocabulary  to check the texts that are offered; by default the words that the model uses
    """
    words = known_words(architecture) if vocabulary is None else vocabulary
    found = [w for reading in readings for w in Adviser(reading, architecture, words).all()]
    return sorted(found, key=lambda w: w.note)
