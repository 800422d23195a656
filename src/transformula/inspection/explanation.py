"""What a formula says, on one page: diagram, text, analysis, size, relatives in the gallery. From its text alone.

The gallery's entries are compared by edits of their layers' graphs.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import gallery
from ..analysis.accounting import parameters_in_words, summary
from ..analysis.analysis import WIDTH, Analysis, analyze, wrapped
from ..analysis.budget import Budget
from ..analysis.canonical import at_wiring_depth, first_of_kind, formula_hash
from ..analysis.graph_distance import distance, pairs_of_nodes, shape, unseen
from ..analysis.lines import text_of
from ..diagram.text import draw_text
from ..errors import InputError
from ..language.graph import Architecture, Section
from ..language.model_text import FREE_NUMBERS
from ..language.parser import parse
from ..language.source import Source
from ..language.syntax import CallNode, walk
from ..language.vocabulary import Vocabulary
from ..plain import plain

if TYPE_CHECKING:
    from ..diagram.differences import ModelDifference

LAST = ("teaching", "whole model")
"""Kinds of entries that come after others of the same wiring."""

LEFT_OUT = "neighbors in the gallery: its layers are too large, or too many of them differ, to compare them with all"


@dataclass(frozen=True)
class Neighbor:
    """One entry. `distance` in edits a layer, 0 for the same wiring; `differs`: what the wiring key does not count."""

    name: str
    title: str
    distance: float
    differs: tuple[str, ...] = ()
    wiring: str = ""


@dataclass(frozen=True)
class Nearest:
    """What `nearest` returns: `neighbors`, nearest first, and the `difference` from the first.

    Its `repr` is the page for a person; `.data` is for programs.
    """

    architecture: Architecture
    neighbors: Sequence[Neighbor]
    first: Architecture

    @cached_property
    def difference(self) -> ModelDifference:
        """What differs between the wiring and the nearest entry: equations, parts, edges."""
        from ..diagram.differences import difference

        name = self.architecture.name
        other = name if name and name != self.first.name else "yours"
        return difference(self.first, replace(self.architecture, name=other))

    @property
    def data(self) -> dict[str, Any]:
        keys = ("name", "title", "distance", "differs")
        rows = [{key: plain(getattr(neighbor, key)) for key in keys} for neighbor in self.neighbors]
        return {"neighbours": rows, "difference": self.difference.data}

    def table(self) -> list[str]:
        """The entries, a line each."""
        rows = ["nearest in the gallery, by edits a layer (0: the same wiring)"]
        width = max(len(n.name) for n in self.neighbors)
        for n in self.neighbors:
            label = f"{n.title} ({', '.join(n.differs)})" if n.differs else n.title
            first = f"  {n.distance:<5.3g} {n.name:<{width}}  "
            rows += textwrap.wrap(label, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))
        return rows

    def text(self, ascii: bool = False) -> str:
        """The page; `ascii` draws without other characters."""
        return "\n".join([*self.table(), "", self.difference.text(ascii)])

    def _repr_html_(self) -> str:
        from ..notebook import page

        return page("\n".join(self.table())) + self.difference._repr_html_()

    def __repr__(self) -> str:
        return self.text()


def differences_in_words(mine: Mapping[str, Sequence[str]], theirs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """What an entry of the same wiring has that mine has not, or the other way, in words; see `distance.unseen`."""
    more = {what: [name for name in theirs[what] if name not in mine[what]] for what in mine}
    less = {what: [name for name in mine[what] if name not in theirs[what]] for what in mine}
    own = [name for name in more["shared"] if name != "layers"]
    norms = theirs["norms"] if theirs["norms"] != mine["norms"] else ()
    differences = {
        f"its norm is {' and '.join(norms)}": norms,
        f"with {' and '.join(more['chance'])}": more["chance"],
        f"without {' and '.join(less['chance'])}": less["chance"],
        f"with the formula {' and '.join(more['scores'])}": more["scores"],
        f"without the formula {' and '.join(less['scores'])}": less["scores"],
        "its layers share weights": "layers" in more["shared"],
        f"one {' and one '.join(own)} for several calls": own,
        "each layer has weights of its own": "layers" in less["shared"],
        "each call has weights of its own": {*less["shared"]} - {"layers"},
    }
    return tuple(text for text, holds in differences.items() if holds)


def neighbors(
    architecture: Architecture, vocabulary: Vocabulary, hash: str, budget: Budget, relatives_suffice: bool = False
) -> tuple[list[Neighbor], float]:
    """All entries but the model itself, nearest first; among equals those first that differ least otherwise. And the
    size of the model's wiring, in edits a layer. Without entries where the budget is too small for all, and of size 0
    where it is too small for the model.

    hash               that of the model
    relatives_suffice  entries of the same wiring alone, where there are some: the others are not compared
    """
    size = max((len(section.values) for stack in architecture.stacks for section in stack.layers), default=0)
    if not budget.allows("a graph", size, LEFT_OUT):
        return [], 0.0
    wiring, own = shape(at_wiring_depth(architecture, vocabulary)), unseen(architecture)
    entries = gallery.indexed()
    relatives = [entry for entry in entries if entry.wiring == wiring.key and entry.name != architecture.name]
    if relatives and relatives_suffice:
        entries = relatives
    if not budget.spend("compared", sum(pairs_of_nodes(wiring, entry.shape) for entry in entries), LEFT_OUT):
        return [], wiring.size
    ranked: list[tuple[tuple[object, ...], Neighbor]] = []
    for entry in entries:
        apart = distance(wiring, entry.shape)
        if entry.name != architecture.name or apart:
            different = differences_in_words(own, entry.unseen)
            order = (apart, entry.hash != hash, len(different), entry.about["kind"] in LAST, entry.name)
            ranked.append((order, Neighbor(entry.name, entry.title, apart, () if apart else different, entry.wiring)))
    return [neighbor for _, neighbor in sorted(ranked, key=lambda pair: pair[0])], wiring.size


def nearest(architecture: Architecture, vocabulary: Vocabulary, count: int = 5) -> Nearest:
    """The `count` nearest entries of the gallery. `vocabulary` is what the model was checked with."""
    from ..language.check import check

    budget = Budget()
    near, _ = neighbors(architecture, vocabulary, formula_hash(architecture), budget)
    if budget.left_out:
        raise InputError(f"no neighbors are looked for: {LEFT_OUT}; write smaller layers")
    return Nearest(architecture, near[:count], check(gallery.load(near[0].name), vocabulary))


def name_of_wiring(wiring: str, but: str) -> tuple[str, ...]:
    """The entry of this wiring that is most about the wiring, unless it is `but`."""
    kinds = [*(kind for kind in gallery.KINDS if kind not in LAST), *LAST]
    entries = [entry for entry in gallery.indexed() if entry.wiring == wiring]
    first = min(entries, key=lambda entry: (kinds.index(entry.about["kind"]), entry.name), default=None)
    return () if first is None or first.name == but else (first.name,)


@dataclass(frozen=True)
class TextPart:
    """A row of the model's text beside its layers: `left_out` says that the text has none, and this was filled in."""

    key: str
    text: str
    left_out: bool = False


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns. Its `repr` is the page for a person, at most 100 columns wide; `.data` is for programs.

    parts      the text beside the layers, what it leaves out filled in: before, after, output, words, hooks, numbers
    relatives  gallery entries of the same wiring, each with what its wiring key does not count (`Neighbor.differs`)
    nearest    where there are none: the three nearest, with their distances in edits a layer
    edits      how many edits a layer the wiring is away from nothing at all
    hash       of the canonical form: equal hashes are equal functions with equal names of parameters
    left_out   what the page leaves out of so large a model, in words (`language.budget`)
    """

    analysis: Analysis
    diagram: str
    parts: list[TextPart]
    totals: dict[str, Any]
    relatives: list[Neighbor]
    nearest: list[Neighbor]
    edits: float
    hash: str
    architecture: Architecture
    left_out: list[str]

    @property
    def text(self) -> str:
        """The text as a model file."""
        from ..language.model_writing import write_text

        return write_text(self.architecture.text)

    @property
    def svg(self) -> str:
        """The diagram as SVG, for a page or a paper."""
        from ..diagram.svg import draw_svg

        return draw_svg(self.architecture)

    def _repr_html_(self) -> str:
        from ..notebook import page

        figures = [(f"diagram of {self.architecture.name or 'the layers'}", self.svg)] if self.diagram else []
        return page("\n".join(self.rows()), figures)

    @property
    def filled_in(self) -> dict[str, str]:
        """Formulas that the text leaves out, as they were filled in: {"before": "x = ...", "output": ...}."""
        return {part.key: part.text for part in self.parts if part.left_out and "=" in part.text}

    @property
    def data(self) -> dict[str, Any]:
        """As plain data: that of the analysis, text, filled_in, totals, relatives, differs, nearest, edits, left_out,
        hash."""
        return {
            **self.analysis.data,
            "text": self.text,
            "filled_in": self.filled_in,
            "totals": self.totals,
            "relatives": [neighbor.name for neighbor in self.relatives],
            "differs": {neighbor.name: list(neighbor.differs) for neighbor in self.relatives},
            "nearest": {neighbor.name: neighbor.distance for neighbor in self.nearest},
            "edits": self.edits,
            "left_out": list(self.left_out),
            "hash": self.hash,
        }

    def __repr__(self) -> str:
        return "\n".join([*([self.diagram, ""] if self.diagram else []), *self.rows()])

    def rows(self) -> Iterator[str]:
        """The page without its diagram: the parts under each other, the analysis, the size, the gallery."""
        width = max((len(part.key) for part in self.parts), default=0) + 2
        for part in self.parts:
            shown = part.text + ("   (default)" if part.left_out else "")
            yield from wrapped(shown, f"{part.key:<{width}}", " " * (width + 2))
        yield from ("", repr(self.analysis).rstrip(), "")
        totals = self.totals
        size = (
            f"{parameters_in_words(totals)}; "
            f"{totals['flops_per_token']:,.0f} FLOPs a token, forward and backward; "
            f"cache {totals['cache_bytes']:,.0f} bytes a position; hash {self.hash[:12]}"
        )
        yield from wrapped(size, rest="")
        yield from self.gallery_rows()
        if self.left_out:
            yield from ("", "left out, for so large a model")
        for said in self.left_out:
            yield from wrapped(said, "  ", "    ")

    def gallery_rows(self) -> Iterator[str]:
        """The entries of the same wiring, those together that differ alike; without any, the nearest."""
        if self.relatives:
            yield "the same wiring in the gallery (sizes, options, labels, dropout, kind of norm do not count)"
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for neighbor in self.relatives:
            alike[neighbor.differs].append(neighbor.name)
        for differs, names in alike.items():
            yield from wrapped(f"{', '.join(names)}{': ' if differs else ''}{', '.join(differs)}", "  ", "    ")
        if self.nearest:
            near = ", ".join(f"{n.name} {n.distance:.3g}" for n in self.nearest)
            row = f"nearest in the gallery, by edits a layer ({self.edits:.3g} from nothing): {near}"
            yield from wrapped(row, "", "    ")


def explanation_of(architecture: Architecture, vocabulary: Vocabulary, ascii: bool = False) -> Explanation:
    """Explain a checked model. `vocabulary` is what it was checked with; `ascii` draws without other characters."""
    budget = Budget()
    analysis = analyze(architecture, vocabulary, budget)
    for n, warning in enumerate(analysis.warnings):  # the gallery's names of the remedies that they offer
        offered = tuple(replace(r, names=name_of_wiring(r.wiring, architecture.name)) for r in warning.remedies)
        analysis.warnings[n] = replace(warning, remedies=offered)
    diagram = draw_text(architecture, ascii=ascii) if drawable(architecture, budget) else ""
    hash = formula_hash(architecture)
    near, edits = neighbors(architecture, vocabulary, hash, budget, relatives_suffice=True)
    relatives = [neighbor for neighbor in near if not neighbor.distance]
    firsts = {neighbor.wiring: neighbor for neighbor in reversed(near)}  # of each wiring
    return Explanation(
        analysis,
        diagram,
        parts_of(architecture, vocabulary),
        summary(architecture).data["totals"],
        relatives,
        [] if relatives else [neighbor for neighbor in near if firsts[neighbor.wiring] is neighbor][:3],
        edits,
        hash,
        architecture,
        budget.left_out,
    )


def drawable(architecture: Architecture, budget: Budget) -> bool:
    """Whether a model is small enough to be drawn, layers of one kind once."""
    skipped = "the diagram: it would have too many parts"
    firsts = [stack.layers[n - 1] for stack in architecture.stacks for n in dict.fromkeys(first_of_kind(stack))]
    sizes = [len(section.values) for section in firsts]
    return budget.allows("a picture", max(sizes, default=0), skipped) and budget.spend("drawn", sum(sizes), skipped)


def parts_of(architecture: Architecture, vocabulary: Vocabulary) -> list[TextPart]:
    """The text beside the layers, with what was left out filled in."""
    text, parts = architecture.text, []
    for stack, stated in zip(architecture.stacks, text.stacks, strict=True):
        prefix = f"{stack.name}, " if stack.name else ""
        parts.append(TextPart(f"{prefix}before", formula_text(stack.before), stated.before is None))
        parts.append(TextPart(f"{prefix}after", formula_text(stack.after) or "nothing", stated.after is None))
    if architecture.output.lines:
        parts.append(TextPart("output", formula_text(architecture.output), text.output is None))
    parts += [TextPart(name, one_line(source)) for name, source in text.words.items()]
    for key, hook in text.hooks.items():
        rows = hook.items() if isinstance(hook, Mapping) else [("", hook)]
        texts = {name: one_line(value) if isinstance(value, Source) else str(value) for name, value in rows}
        parts.append(TextPart(key, "; ".join(f"{name}: {text}" if name else text for name, text in texts.items())))
    parts += [TextPart(name, f"a word from {said.package or 'outside'}") for name, said in text.extra.items()]
    numbers = {*text.numbers, *(key for stack in text.stacks for key in stack.numbers)}
    missing = [key for key in FREE_NUMBERS if key in architecture.numbers and key not in numbers]
    if missing:
        parts.append(TextPart("numbers", ", ".join(f"{key} {architecture.numbers[key]:,}" for key in missing), True))
    why = "p = 0, so it does nothing: the text has no number of that name"
    return parts + [TextPart(name, why) for name in idle_chances(architecture, vocabulary)]


def formula_text(section: Section) -> str:
    """A section's lines on one line, those included that nothing needs."""
    return "; ".join(text_of(place) for place, _, _ in section.lines)


def one_line(source: Source) -> str:
    """A definition's lines on one."""
    rows = (row.split("#")[0].strip() for row in source.text.splitlines())
    return "; ".join(filter(None, rows))


def idle_chances(architecture: Architecture, vocabulary: Vocabulary) -> dict[str, None]:
    """Words of chance without a p, where the file has no number of their name: they do nothing, and that is said."""
    text = architecture.text
    formulas = [source for stack in text.stacks for source in stack.formulas]
    idle: dict[str, None] = {}
    for source in filter(None, (*formulas, *text.words.values(), text.output)):
        try:
            calls = [n for line in parse(source) for n in walk(line.value) if isinstance(n, CallNode)]
        except InputError:
            continue  # a formula over scores
        for call in calls:
            record = vocabulary.get(call.word)
            chance = record is not None and record.kind == "chance" and "p" in record.options
            if chance and len(call.items) == 1 and not call.options and call.word not in architecture.numbers:
                idle[call.word] = None
    return idle
