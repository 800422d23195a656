"""What is unsound in a wiring, why, where, and its remedy: the finders of the warnings of `warning_table.py`.

A remedy made from the user's own text is checked and analyzed again before it is shown (`remedies.py`); otherwise the
gallery's entry alone is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..language.graph import Architecture, Section, Value
from ..language.parser import parse
from ..language.rewriting import terms
from ..language.syntax import CallNode, Name, Node, walk
from ..language.vocabulary import Vocabulary
from . import rewrites
from .budget import Budget
from .initial_scale import Scales, StreamScale, number
from .lines import is_branch
from .remedies import Adviser, final_norm, settled, steady, with_layer
from .residual_path import fewest, is_norm, is_sublayer, line_of
from .stack_analysis import LayerGroup, StackAnalysis
from .vectors import KnownVector
from .warning_table import Remedy, Warning

WEIGHTED = 1 + 1e-9
"""From this weight on a skip under a norm counts as weighted."""


def growing(adviser: Adviser) -> Iterator[Warning]:
    """scale-compounds."""
    for scale in adviser.analysis.stream_scales:
        growth = scale.growth
        if growth is None or growth == 0 or 0.5 < growth < 2:
            continue
        gated = any(v.word_kind == "gate" for s in adviser.stack.layers for v in s.calls())
        if growth < 1 and gated:
            continue  # a gate decides in every layer
        group, index, before, after = first_growth(adviser, scale)
        what = f"while sublayers yield zero, {scale.stream} {'grows' if growth > 1 else 'shrinks'}: {scale}"
        entries = ["pre-norm"]
        remedies: list[Remedy] = []
        more = ""
        if growth > 1 and index is not None and before and after:
            skips = skips_of(adviser, group, index)
            holds = settled(scale.stream)
            formula = adviser.formula(group)
            spots = [rewrites.spot(node.place) for _, node in skips]
            new = rewrites.weighted_skips(formula, index, spots, float(f"{before / after:.6g}"))
            words = "the skips weighted, so that their sum is one"
            remedies = adviser.in_layer("scale-compounds", group, new, holds, words)
            if len(skips) > 1:
                entries = ["skip-2-half", "b2t"]
                new = rewrites.norms_after_sums(formula)
                words = "or B2T, with the norms after the sums"
                remedies += adviser.in_layer("scale-compounds", group, new, holds, words)
                if group.norms.kind == "pre-norm":
                    more = (
                        "Its look-alike skip-2 norms the stream itself (x = norm(x) before each sublayer), and there "
                        "nothing compounds: the two differ by more than the place of a norm."
                    )
        yield adviser.warning("scale-compounds", what, adviser.where(group, index), remedies, entries, more)


def first_growth(adviser: Adviser, scale: StreamScale) -> tuple[LayerGroup, int | None, float | None, float | None]:
    """Where the stream first changes its size: layers, line (from 0), the size before and after."""
    before: float | None = 1.0
    for section, size in zip(adviser.stack.layers, scale.sizes, strict=True):
        if scale.kind == "normed" and section.number == 1:
            before = size
            continue
        if before and size and abs(size / before - 1) > 1e-6:
            group = next(g for g in adviser.analysis.layers if section.number in g.numbers)
            for index, (_, _, value) in enumerate(section.lines):
                here = adviser.analysis.scales.of(value).size if value is not None else None
                if here and abs(here / before - 1) > 1e-6:
                    return group, index, before, here
            return group, None, before, size
        before = size
    return adviser.analysis.layers[0], None, None, None


def skips_of(adviser: Adviser, group: LayerGroup, index: int) -> list[tuple[str, Node]]:
    """The terms of a line (from 0) that are skips, as signs and nodes of the formula's tree."""
    section, formula = adviser.section(group), adviser.formula(group)
    branches = {
        name for _, name, value in section.lines[:index] if value is not None and is_branch(value, group.scales)
    }

    def is_skip(node: Node) -> bool:
        through = any(rewrites.spot(n.place) in formula.sublayers for n in walk(node) if isinstance(n, CallNode))
        return not through and branches.isdisjoint(n.name for n in walk(node) if isinstance(n, Name))

    return [(sign, node) for sign, node in terms(formula.lines[index].value) if is_skip(node)]


def skipless(adviser: Adviser) -> Iterator[Warning]:
    """no-skip."""

    def lost(group: LayerGroup) -> list[str]:
        read = {v.name for v in group.path.section.reads.values()}
        return [name for name in group.path.lost if name in read]

    for group, (stream, *_), where in adviser.faulty(lost):
        section = adviser.section(group)
        index = next((i for i, (_, name, _) in enumerate(section.lines) if name == stream), None)
        formula = adviser.formula(group)

        def holds(again: StackAnalysis, stream: str = stream) -> bool:
            scale = again.scale_of(stream)
            return scale is not None and scale.kind in ("compounds", "normed") and steady(scale)

        remedies: list[Remedy] = []
        bare = [
            line.number - 1
            for line in group.lines
            if line.branches and not line.skips and not any(b.isidentifier() for b in line.branches)
        ]
        last = [line.number - 1 for line in group.lines if line.name == stream][-1:]
        for lines in (bare, bare[:1], last):
            if not remedies:
                new = rewrites.added_skips(formula, stream, lines)
                remedies = adviser.in_layer("no-skip", group, new, holds, "a skip around each branch")
        least = fewest([section], norm=0, sublayer=1).get(stream, 0)
        sublayers = sum(map(is_sublayer, section.calls()))
        note = 0 < 2 * least <= sublayers
        more = f"Here a way passes only {least} of the {sublayers} sublayers of a layer." if note else ""
        what = f"{stream} passes only through sublayers{where}"
        yield adviser.warning("no-skip", what, adviser.where(group, index), remedies, ["pre-norm"], more, note)


def normed(adviser: Adviser) -> Iterator[Warning]:
    """norm-on-residual-path."""

    def blocked(group: LayerGroup) -> list[str]:
        return [] if any(group.path.plain.values()) else group.path.only_normed

    code = "norm-on-residual-path"
    for group, on, where in adviser.faulty(blocked):
        section, formula = adviser.section(group), adviser.formula(group)
        norms = group.path.of_kind("norm")
        index = next((i for n in norms if (i := line_of(section, n)) is not None), None)
        scale = adviser.analysis.scale_of(on[0])
        size = scale.size if scale is not None and scale.kind == "normed" else None
        what = f"a norm stands on the residual path of {' and '.join(on)}{where}"
        passed = fewest(adviser.stack.layers, norm=1, sublayer=math.inf).get(on[0])
        layers = sum(len(g.numbers) for g in adviser.analysis.layers if g.formula == group.formula)
        around = passed is not None and passed < layers
        if passed and not around:
            what += f"; {passed} {'norm' if passed == 1 else 'norms'} on the way through {adviser.stack.depth} layers"
        more = spared(adviser, passed if around else None, max(weights(norms, section, group.scales), default=0.0))
        note = bool(more)
        remedies: list[Remedy] = []
        entries: tuple[str, ...] = ("pre-norm", "b2t", "deepnorm")
        if size is not None and size > 1.5 and not is_norm(section.leaves[on[0]]):
            # skip-2 and its kin: two skips meet in the last sum, and the next layer's norm takes the size away
            what += f"; nothing compounds, it leaves each layer with size {number(size)}"
            entries = ("b2t",)
            norm = next((n.called.name for n in norms), "norm")
            new = rewrites.norms_after_sums(formula, norm)
            holds = settled(on[0], "post-norm", group.formula)
            remedies = adviser.in_layer(code, group, new, holds, "B2T: the same, the norms after the sums")
            more = look_alike(adviser, group, formula)
        elif not note:
            new = rewrites.norms_into_branches(formula)
            remedies = adviser.in_layer(code, group, new, settled(on[0], "pre-norm", group.formula), "pre-norm")
        yield adviser.warning(code, what, adviser.where(group, index), remedies, entries, more, note)


def spared(adviser: Adviser, passed: int | None, weight: float) -> str:
    """Why the gradient is spared though a norm stands on the residual path; "" if it is not.

    passed  how many norms a way around them passes; None: there is no such way
    weight  that of the skip under the norm
    """
    if passed is not None:
        return f"Here a way through history passes only {passed} of them, however deep the stack is."
    if "calibrate" in adviser.text.hooks:
        return "Here the hook `calibrate` weights the skips before training, which spares the gradient."
    if weight > WEIGHTED:
        return f"Here the skip under the norm weighs {number(weight)} to the branch's 1, which spares the gradient."
    return ""


def look_alike(adviser: Adviser, group: LayerGroup, formula: rewrites.LayerFormula) -> str:
    """What becomes of skip-2 if it is tidied up to pre-norm: another model, whose stream grows."""
    new = rewrites.norms_into_branches(formula)
    again = adviser.analyzed(with_layer(adviser.text, adviser.index, group.formula, new))
    scales = again[0].stream_scales if again else []
    grown = next((s for s in scales if s.growth is not None and s.growth >= 2), None)
    if grown is None:
        return ""
    text = "; ".join(new.splitlines())
    return (
        f"In size it is sound. Its pre-norm look-alike, {text}, is not: there the scale of {grown.stream} is {grown}."
    )


def weights(norms: Sequence[Value], section: Section, scales: Scales) -> Iterator[float]:
    """How large the skip is, beside what its branches weigh and the stream that enters, where a norm stands around a
    sum with a branch."""
    for norm in norms:
        inner = norm.args[0]
        lines = {None if v.frames else line_of(section, v) for v in (inner, norm)}
        if inner.op not in ("add", "sub") or len(lines) > 1:
            continue
        size = scales.of(inner).size
        entering = [scales.of(v).size for v in section.reads.values() if v.kind == "stream"]
        largest = max((e for e in entering if e), default=None)
        branch = max(factors(inner, 1.0, scales), default=1.0)
        if size and largest and branch:
            yield size / largest / branch


def factors(value: Value, factor: float, scales: Scales) -> Iterator[float]:
    """The factors of the branches of a sum, at the initial values of coefficients."""
    if value.op in ("add", "sub", "neg"):
        for argument in value.args:
            yield from factors(argument, factor, scales)
    elif value.op in ("mul", "div"):
        left, right = (v.constant if isinstance(v, KnownVector) else None for v in map(scales.of, value.args))
        if right:
            yield from factors(value.args[0], factor * (right if value.op == "mul" else 1 / right), scales)
        elif value.op == "mul" and left:
            yield from factors(value.args[1], factor * left, scales)
    elif is_branch(value, scales):
        yield abs(factor)


def on_residual_path(kind: str, code: str) -> Callable[[Adviser], Iterator[Warning]]:
    """The finder of dropout-on-residual-path and function-on-residual-path."""

    def calls_on(group: LayerGroup) -> list[Value]:
        return [v for v in group.path.of_kind(kind) if v.called.options.get("p", 1)]

    def find(adviser: Adviser) -> Iterator[Warning]:
        for group, calls, _ in adviser.faulty(calls_on):
            names = " and ".join(dict.fromkeys(v.called.name for v in calls))
            index = line_of(adviser.section(group), calls[0])
            what = f"{names} stands on the residual path"
            if kind == "chance":
                least = min(float(v.called.options.get("p", 0)) for v in calls)
                left, depth = (1 - least) ** len(group.numbers), len(group.numbers)
                what += f": at {number(least)} a layer, {left:.0%} of a channel's way survives {depth}"
            new = rewrites.without_calls(adviser.formula(group), rewrites.places_of(calls))

            def holds(again: StackAnalysis, formula: str = group.formula) -> bool:
                return not any(g.path.of_kind(kind) for g in again.layers if g.formula == formula)

            remedies = adviser.in_layer(code, group, new, holds, f"without {names} on the residual path")
            yield adviser.warning(code, what, adviser.where(group, index), remedies, ["pre-norm"])

    return find


def unnormed_end(adviser: Adviser) -> Iterator[Warning]:
    """no-final-norm."""
    if adviser.analysis.layers[-1].norms.kind != "pre-norm" or not reaches_output_bare(adviser):
        return
    source = adviser.text.stacks[adviser.index].after
    where = f"{adviser.prefix}after", "" if source is None else source.text.strip().splitlines()[-1]
    new = final_norm(adviser.text, adviser.index)
    remedies = adviser.in_part("no-final-norm", "after", new, lambda again: True)
    what = "the stream is read by the output as the last layer leaves it"
    yield adviser.warning("no-final-norm", what, where, remedies, ["pre-norm"])


def reaches_output_bare(adviser: Adviser) -> bool:
    """Whether a stream of the last layer reaches a sublayer beyond the layers without a norm on its way."""
    stack, architecture = adviser.stack, adviser.architecture
    bare_names: set[str] = set(adviser.analysis.streams)
    ends = [stack.after, *(s for other in architecture.stacks if other is not stack for s in other.sections())]
    for section in [*ends, architecture.output]:
        bare: set[int] = set()
        own = section is stack.after or (section.where == "output" and stack is architecture.main)
        for value in section.values:
            if value.op in ("name", "history"):
                here = value.stack == stack.name if value.stack else own
                if here and value.name in bare_names:
                    bare.add(id(value))
            elif any(id(a) in bare for a in value.args):
                if not is_norm(value):
                    bare.add(id(value))
                if value.call is not None and value.call.word.sublayer and value.call.word.parameters:
                    return True
        if section is stack.after:
            for name, value in section.leaves.items():
                bare_names.discard(name)
                if id(value) in bare:
                    bare_names.add(name)
    return False


def positions(adviser: Adviser) -> Iterator[Warning]:
    """positions-twice, no-positions."""
    analysis, stack = adviser.analysis, adviser.stack
    encodings = analysis.positional_encodings
    if analysis.receptive_field.reach == "token":
        return
    absolute = [e for e in encodings if e.absolute]
    inside = [e for e in encodings if e.kind in ("rotary", "scores")]
    source = stack.before.lines[0][0].source if stack.before.lines else None
    where = f"{adviser.prefix}before", ""
    remedies: list[Remedy] = []
    if (absolute and inside) or len({e.kind for e in absolute}) > 1:
        tables = [v for v in stack.before.calls() if v.word_kind == "input" and v.called.word.order]
        new = rewrites.without_terms(parse(source), rewrites.places_of(tables)) if source and inside else None
        if new is not None:

            def holds(again: StackAnalysis) -> bool:
                return not any(e.absolute for e in again.positional_encodings)

            remedies = adviser.in_part("positions-twice", "before", new, holds, "encoded once, inside")
        what = f"positions are encoded twice: {' and '.join(map(str, [*absolute, *inside]))}"
        yield adviser.warning("positions-twice", what, where, remedies, ["llama", "gpt2"])
    elif not encodings and not any(v.stack for v in stack.before.values):
        what = "nothing tells positions apart" + (" but the causal mask" if stack.causal else "")
        inputs = [v.name for v in stack.before.values if v.op == "input"]
        if source and len(stack.before.lines) == 1 and inputs and "positions" in adviser.vocabulary:
            new = f"{source.text.strip()} + positions({inputs[0]})"
            remedies = adviser.in_part(
                "no-positions", "before", new, lambda again: bool(again.positional_encodings), "learned positions"
            )
        yield adviser.warning("no-positions", what, where, remedies, ["gpt2", "llama"], note=True)


def no_norm(adviser: Adviser) -> Iterator[Warning]:
    """no-norm."""
    calls = [v.called for s in adviser.stack.layers for v in s.calls()]
    spare = any(c.word.kind in ("norm", "coefficient", "gate", "streams") for c in calls)
    if spare or "init" in adviser.text.hooks or not any(s.kind == "compounds" for s in adviser.analysis.stream_scales):
        return
    if any(map(is_norm, (v for c in calls for template in c.inner.values() for v in template.values))):
        return
    where = adviser.where(adviser.analysis.layers[0], None)
    what, entries = "no norm stands anywhere in the layers", ["pre-norm", "rezero", "t-fixup"]
    yield adviser.warning("no-norm", what, where, entries=entries, note=True)


FINDERS: Sequence[Callable[[Adviser], Iterator[Warning]]] = (
    growing,
    skipless,
    normed,
    on_residual_path("chance", "dropout-on-residual-path"),
    on_residual_path("function", "function-on-residual-path"),
    unnormed_end,
    positions,
    no_norm,
)


def find_all(adviser: Adviser) -> list[Warning]:
    """The warnings and notes of one stack."""
    return [warning for find in FINDERS for warning in find(adviser)]


def known_words(architecture: Architecture) -> Vocabulary:
    """The words that a model uses: enough to check most changes of its text."""
    calls = [v.called for s in architecture.sections() for v in s.calls()]
    calls += [v.call for c in calls for template in c.inner.values() for v in template.values if v.call is not None]
    return Vocabulary({call.word.name: call.word for call in calls}.values())


def codes(analysis: StackAnalysis, architecture: Architecture, vocabulary: Vocabulary) -> list[str]:
    """The codes of a stack's warnings, notes left out; no remedies are made."""
    adviser = Adviser(analysis, architecture, vocabulary, None, Budget())
    return [warning.code for warning in find_all(adviser) if not warning.note]


def mended(adviser: Adviser, warnings: Sequence[Warning]) -> list[Remedy]:
    """Where there are several warnings: the text without any, one remedy after the other."""
    text = adviser.text
    for _ in range(len(warnings) + 2):
        remedy = next((r for w in warnings if not w.note for r in w.remedies), None)
        if remedy is None or remedy.made is None:
            return []
        text = remedy.made
        again = adviser.analyzed(text)
        if again is None:
            return []
        warnings = find_all(Adviser(*again, adviser.vocabulary, codes, adviser.budget))
        if all(w.note for w in warnings):
            return adviser.remedy("", text, lambda again: True, "all of it mended")
    return []


def warnings_of(
    analyses: Sequence[StackAnalysis],
    architecture: Architecture,
    vocabulary: Vocabulary | None = None,
    budget: Budget | None = None,
) -> list[Warning]:
    """The warnings of a model, then the notes.

    vocabulary  to check the texts that are offered; by default the words that the model uses
    budget      how much is checked again for texts that are offered
    """
    words = known_words(architecture) if vocabulary is None else vocabulary
    found: list[Warning] = []
    for analysis in analyses:
        adviser = Adviser(analysis, architecture, words, codes, budget or Budget())
        here = find_all(adviser)
        strong = [w for w in here if not w.note]
        if len({w.code for w in strong}) > 1 and all(r.left for w in strong for r in w.remedies):
            n = here.index(strong[0])
            here[n] = replace(here[n], remedies=(*here[n].remedies, *mended(adviser, here)))
        found += here
    return sorted(found, key=lambda w: w.note)
