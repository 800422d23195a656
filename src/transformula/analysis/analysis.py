"""What a formula says, from its text alone: no tensor is made.

`analyze` reads each stack (`stack_analysis.py`) and finds what is unsound (`warnings.py`), with remedies: texts made
from the user's own, offered only if they check, if what they were made for holds when they are analyzed again, and if
the warning is gone. Warnings that stay are named; where only the final norm lacks, it is added.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..language.check import check
from ..language.graph import Architecture
from ..language.messages import FormulaError
from ..language.model_text import ModelText
from ..language.vocabulary import Vocabulary
from ..plain import keys
from .budget import Budget
from .canonical import WIRING_DEPTH, at_wiring_depth, wiring_key
from .lines import spans
from .rewrites import with_final_norm
from .stack_analysis import LayerGroup, StackAnalysis, analyze_stack, history_words
from .warning_table import Proposal, Remedy, Warning
from .warnings import find_all

WIDTH = 100
LEFT_OUT = "some remedies of what is warned of: the model is too large to check its changed texts"


@dataclass
class Analysis:
    """What a model says. Its `repr` is the page for a person, at most 100 columns wide; `.data` is plain data."""

    name: str
    stacks: list[StackAnalysis]
    warnings: list[Warning]

    data = keys("name stacks warnings")

    def __repr__(self) -> str:
        rows = [row for stack in self.stacks for row in (*stack_rows(stack), "")]
        return "\n".join([*rows, *warning_rows(self.warnings)])


def analyze(architecture: Architecture, vocabulary: Vocabulary | None = None, budget: Budget | None = None) -> Analysis:
    """Analyze a checked model.

    vocabulary  the words that texts of remedies are checked with; by default those that the model uses, so that a
                remedy which needs another word (a norm, say) is named by its gallery entry only
    budget      how much of it is looked at; it notes what is left out
    """
    budget = budget or Budget()
    stacks = [analyze_stack(stack, architecture, budget) for stack in architecture.stacks]
    if vocabulary is None:
        calls = [v.called for s in architecture.sections() for v in s.calls()]
        inner = [v.call for c in calls for template in c.inner.values() for v in template.values if v.call is not None]
        vocabulary = Vocabulary({call.word.name: call.word for call in (*calls, *inner)}.values())
    warnings = [w for stack in stacks for w in Adviser(stack, vocabulary, budget).warnings()]
    return Analysis(architecture.name, stacks, sorted(warnings, key=lambda warning: warning.note))


class Adviser:
    """Gives the warnings of one stack their remedies."""

    def __init__(self, analysis: StackAnalysis, vocabulary: Vocabulary, budget: Budget) -> None:
        self.analysis, self.vocabulary, self.budget = analysis, vocabulary, budget
        architecture = analysis.architecture
        self.size = sum(len(section.values) for section in architecture.sections())
        self.wired = WIRING_DEPTH * max(len(layer.values) for stack in architecture.stacks for layer in stack.layers)

    def warnings(self) -> list[Warning]:
        """The warnings and notes; where several warnings stay whatever one mends, with the text that mends all."""
        warnings = [self.with_remedies(warning) for warning in find_all(self.analysis)]
        strong = [w for w in warnings if not w.note]
        if len({w.code for w in strong}) > 1 and all(r.left for w in strong for r in w.remedies):
            n = warnings.index(strong[0])
            warnings[n] = replace(warnings[n], remedies=(*warnings[n].remedies, *self.remedy_of_all(warnings)))
        return warnings

    def with_remedies(self, warning: Warning) -> Warning:
        remedies: dict[str, Remedy] = {}
        for proposal in warning.proposals:
            remedy = self.remedy(warning.code, proposal) if proposal.words not in remedies else None
            if remedy is not None:
                remedies[proposal.words] = remedy
        entries = tuple(name for name in warning.entries if name != self.analysis.architecture.name)
        more = warning.more or (self.growth_of(warning.look_alike.text) if warning.look_alike is not None else "")
        return replace(warning, remedies=tuple(remedies.values()), entries=entries, more=more)

    def growth_of(self, look_alike: ModelText) -> str:
        """What becomes of skip-2 if it is tidied up to pre-norm: another model, whose stream grows."""
        again, parts = self.analysis_of(look_alike), self.changed_parts(look_alike)
        scales = again.stream_scales if again is not None else []
        scale = next((s for s in scales if s.growth is not None and s.growth >= 2), None)
        if scale is None or not parts:
            return ""
        layer = "; ".join(next(iter(parts.values())).splitlines())
        verdict = f"is not: there the scale of {scale.stream} is {scale}."
        return f"In size it is sound. Its pre-norm look-alike, {layer}, {verdict}"

    def remedy_of_all(self, warnings: Sequence[Warning]) -> list[Remedy]:
        """Where there are several warnings: the text without any, one remedy after the other."""
        for _ in range(len(warnings) + 2):
            remedy = next((r for w in warnings if not w.note for r in w.remedies), None)
            if remedy is None:
                break
            adviser = Adviser(remedy.analysis, self.vocabulary, self.budget)
            warnings = [adviser.with_remedies(warning) for warning in find_all(remedy.analysis)]
            if all(w.note for w in warnings):
                parts = self.changed_parts(remedy.analysis.architecture.text)
                return [replace(remedy, parts=parts, words="all of it mended")] if parts else []
        return []

    def analysis_of(self, text: ModelText) -> StackAnalysis | None:
        """A changed text, checked and analyzed; None if it is no formula any more, or the model is too large."""
        allowed = self.budget.allows("a changed text", self.size, LEFT_OUT)
        if not allowed or not self.budget.spend("advised", self.size, LEFT_OUT):
            return None
        try:
            changed = check(text, self.vocabulary)
        except FormulaError:
            return None
        return analyze_stack(changed.stacks[self.analysis.index], changed, Budget())

    def remedy(self, code: str, proposal: Proposal) -> Remedy | None:
        """The remedy with this text, if it checks, what should hold does, and the warning is gone."""
        again = self.analysis_of(proposal.text)
        if again is None or not proposal.holds(again):
            return None
        left = codes_of(again)
        if "no-final-norm" in left and code != "no-final-norm":
            ended = self.analysis_of(with_final_norm(proposal.text, self.analysis.index))
            if ended is not None and proposal.holds(ended) and len(codes_of(ended)) < len(left):
                again, left = ended, codes_of(ended)
        parts = self.changed_parts(again.architecture.text)
        if code in left or not parts:  # a text is no remedy of itself
            return None
        checked = self.budget.spend("advised", self.wired, LEFT_OUT)
        wiring = wiring_key(at_wiring_depth(again.architecture, self.vocabulary)) if checked else ""
        return Remedy(parts, proposal.words, left, again, wiring)

    def changed_parts(self, text: ModelText) -> dict[str, str]:
        """What a changed text says otherwise: the key of each part -> its text."""
        mine, other = (whole.stacks[self.analysis.index] for whole in (self.analysis.architecture.text, text))
        only = len(other.layers) == 1
        layers = [("layer" if only else name, mine.layers.get(name), new) for name, new in other.layers.items()]
        parts = [("before", mine.before, other.before), *layers, ("after", mine.after, other.after)]
        changed = {key: new.text for key, old, new in parts if new and (old is None or old.text != new.text)}
        return {f"{self.analysis.prefix}{key}": text for key, text in changed.items()}


def codes_of(analysis: StackAnalysis) -> tuple[str, ...]:
    """The codes of a stack's warnings, each once."""
    return tuple(dict.fromkeys(warning.code for warning in find_all(analysis) if not warning.note))


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    indent = " " * len(first) if rest is None else rest
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=True, break_on_hyphens=False
    ) or [first.rstrip()]


def stack_rows(analysis: StackAnalysis) -> Iterator[str]:
    stack, scales, layers = analysis.stack, analysis.stream_scales, analysis.layers
    title = f"stack {analysis.title}: " if analysis.title else ""
    sees = "causal" if stack.causal else "sees all positions"
    yield f"{title}{stack.depth} {'layer' if stack.depth == 1 else 'layers'} of width {analysis.width:,}, {sees}"
    for group in layers:
        yield from layer_rows(group, stack.depth)
    sets = len(set(stack.share)) if stack.share is not None else stack.depth
    shared = f"shared: {sets} {'set' if sets == 1 else 'sets'} for {stack.depth} layers"
    carried = {name: what for name, what in analysis.carried.items() if name not in analysis.held}
    sorts = {name: f"width {width:,}" if kind == "stream" else kind for name, (kind, width) in carried.items()}
    held = {n: f"layer{'s' if len(at) > 1 else ''} {spans(at)}" for n, at in analysis.held.items()}
    constants = f"{', '.join(analysis.constants)}: set in `before`, the same for all layers"
    kept = [history_words(name, numbers, stack.depth) for name, numbers in analysis.history.items()]
    starting = " (gates and coefficients as they start)" if any(g.path.weighed for g in layers) else ""
    sizes = [f"{scale}{starting if scale.kind != 'unknown' else ''}" for scale in scales]
    if len(scales) > 1:
        sizes = [f"{scale.stream}: {size}" for scale, size in zip(scales, sizes, strict=True)]
    segments = f"each sees the last {analysis.carry:,} positions before it, through which no gradient flows"
    fields = [
        ("weights", shared if sets < stack.depth else ""),
        ("carried", ", ".join(f"{name} ({sort})" for name, sort in sorts.items()) or "nothing by name"),
        *(("held", f"{name}, as {at} made it") for name, at in held.items()),
        ("constant", constants if analysis.constants else ""),
        ("history", ", ".join(kept)),
        ("alive", f"{analysis.alive} streams between layers, at most" if analysis.alive != 1 else ""),
        *(("initial scale", size) for size in sizes or ["not predicted: no stream is carried on, layers read history"]),
        ("receptive field", str(analysis.receptive_field)),
        ("segments", segments if analysis.carry else ""),
        ("positions", "; ".join(map(str, analysis.positional_encodings)) or "nothing tells them apart"),
    ]
    for label, text in fields:
        yield from wrapped(text, f"  {label:<17}") if text else ()


def layer_rows(group: LayerGroup, depth: int) -> Iterator[str]:
    title = group.title if depth > 1 else "layer"
    name = f" ({group.formula})" if group.formula != "layer" else ""
    equal = ", all equal" if group.equal else ", alike but for numbers"
    alike = equal if len(group.numbers) > 1 else ""
    yield from wrapped(f"{title}{name}{alike}: {group.norms.kind}, {group.norms.words}", "  ", "      ")
    for line in group.lines:
        yield from wrapped(line.text, "    ", "        ")
        yield from wrapped(str(line), "        ", "        ")


def warning_rows(warnings: list[Warning]) -> Iterator[str]:
    if all(warning.note for warning in warnings):
        yield "no warnings"
    for title, note in (("warnings", False), ("notes", True)):
        alike = [warning for warning in warnings if warning.note == note]
        if alike:
            yield title
        for warning in alike:
            yield from wrapped(f"{warning.code}: {warning.what}", "  ", "      ")
            line = f"{warning.where}: {warning.line}" if warning.line else ""
            for text in filter(None, (line, warning.why, warning.more)):
                yield from wrapped(text, "      ")
            for remedy in warning.remedies:
                yield from remedy_rows(remedy)
            if warning.entries:
                yield from wrapped(f"in the gallery: {', '.join(warning.entries)}", "      ")


def remedy_rows(remedy: Remedy) -> Iterator[str]:
    left = f"still {' and '.join(remedy.left)}" if remedy.left else ""
    wiring = f"the wiring of {' and '.join(remedy.names)}" if remedy.names else ""
    words = "; ".join(filter(None, (remedy.words, left, wiring)))
    rows = [f"{key}: {'; '.join(text.strip().splitlines())}" for key, text in remedy.parts.items()]
    rows[-1] += f"  ({words})" if words else ""
    first = f"      {'better' if remedy.left else 'sound'}: "
    for n, row in enumerate(rows):
        yield from wrapped(row, " " * len(first) if n else first, "          ")
