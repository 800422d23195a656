"""What is unsound in a wiring, why, where, and what would mend it: the finders of the warnings of `warning_table.py`.

A finder reads the analysis of one stack and makes changed texts; `analysis.py` checks and analyzes these again before
they are shown. Otherwise the gallery's entries alone are named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ..language.graph import Section, Value
from ..language.parser import parse
from ..language.syntax import Name, terms, walk
from . import rewrites
from .canonical import Steps, deep
from .initial_scale import Scales, StreamScale, number
from .lines import is_branch, spans, text_of
from .residual_path import fewest, is_norm, is_sublayer, line_of
from .rewrites import LayerFormula, Rewritten, places_of, text_of_lines, with_final_norm, with_layer, with_part
from .stack_analysis import LayerGroup, StackAnalysis
from .warning_table import Holds, Proposal, Warning

WEIGHTED = 1 + 1e-9  # from this weight on a skip under a norm counts as weighted
T = TypeVar("T")


def faulty(analysis: StackAnalysis, find: Callable[[LayerGroup], list[T]]) -> Iterator[tuple[LayerGroup, list[T], str]]:
    """The first layers of each formula with a fault, the faults, and ' in layers 1-3', or '' for all layers."""
    done: set[str] = set()
    for group in analysis.layers:
        faults = find(group)
        if faults and group.formula not in done:
            done.add(group.formula)
            alike = [g for g in analysis.layers if g.formula == group.formula and find(g)]
            numbers = sorted(n for g in alike for n in g.numbers)
            where = f" in layer{'s' if len(numbers) > 1 else ''} {spans(numbers)}"
            yield group, faults, "" if len(numbers) == analysis.stack.depth else where


def place(analysis: StackAnalysis, group: LayerGroup, line: int | None) -> tuple[str, str]:
    """A person's name of a line (from 0) of a group of layers, and its text."""
    name = group.formula
    if name == "layer" and any(layers.formula != name for layers in analysis.layers):
        name = group.title
    if line is None or line >= len(group.section.lines):
        return f"{analysis.prefix}{name}", ""
    return f"{analysis.prefix}{name}, line {line + 1}", text_of(group.section.lines[line][0])


def in_layer(analysis: StackAnalysis, group: LayerGroup, new: Rewritten, words: str, holds: Holds) -> Proposal:
    text = with_layer(analysis.architecture.text, analysis.index, group.formula, text_of_lines(new))
    return Proposal(text, words, holds)


def settled(stream: str, kind: str = "", formula: str = "") -> Holds:
    """Whether, analyzed again, the stream keeps its size and, if said, the layers of a formula are of that kind."""

    def holds(again: StackAnalysis) -> bool:
        scale = again.scale_of(stream)
        kinds = {g.norms.kind for g in again.layers if g.formula == formula}
        return scale is not None and scale.steady and (not kind or kinds == {kind})

    return holds


def growing(analysis: StackAnalysis) -> Iterator[Warning]:
    gated = any(v.word_kind == "gate" for s in analysis.stack.layers for v in s.calls())
    for scale in analysis.stream_scales:
        growth = scale.growth
        if not growth or scale.steady or (growth < 1 and gated):  # a gate decides in every layer
            continue
        group, index, factor = first_growth(analysis, scale)
        what = f"while sublayers yield zero, {scale.stream} {'grows' if growth > 1 else 'shrinks'}: {scale}"
        entries: tuple[str, ...] = ("pre-norm",)
        proposals: list[Proposal] = []
        more = ""
        if growth > 1 and index is not None:
            formula, holds = LayerFormula.of(group.section), settled(scale.stream)
            lines = group.section.lines[:index]
            branches = {name for _, name, value in lines if value is not None and is_branch(value, group.scales)}
            parts = [node for _, node in terms(formula.lines[index].value) if not formula.has_sublayer(node)]
            skips = [n.place for n in parts if not any(isinstance(x, Name) and x.name in branches for x in walk(n))]
            new = rewrites.weighted_skips(formula, index, skips, factor)
            words = "the skips weighted, so that their sum is one"
            proposals.append(in_layer(analysis, group, new, words, holds))
            if len(skips) > 1:
                entries = ("skip-2-half", "b2t")
                new, words = rewrites.norms_after_sums(formula), "or B2T, with the norms after the sums"
                proposals.append(in_layer(analysis, group, new, words, holds))
                if group.norms.kind == "pre-norm":
                    more = (
                        "Its look-alike skip-2 norms the stream itself (x = norm(x) before each sublayer), and there "
                        "nothing compounds: the two differ by more than the place of a norm."
                    )
        where = place(analysis, group, index)
        yield Warning("scale-compounds", what, *where, entries, more, proposals=tuple(proposals))


def first_growth(analysis: StackAnalysis, scale: StreamScale) -> tuple[LayerGroup, int | None, float]:
    """Where the stream first changes its size: layers, line (from 0), and the factor that takes the change back."""
    before: float | None = 1.0
    for section, size in zip(analysis.stack.layers, scale.sizes, strict=True):
        entered = scale.kind == "normed" and section.number == 1
        if before and size and abs(size / before - 1) > 1e-6 and not entered:
            group = next(g for g in analysis.layers if section.number in g.numbers)
            for index, (_, _, value) in enumerate(section.lines):
                here = analysis.scales.of(value).size if value is not None else None
                if here and abs(here / before - 1) > 1e-6:
                    return group, index, float(f"{before / here:.6g}")
            return group, None, 1.0
        before = size
    return analysis.layers[0], None, 1.0


def skipless(analysis: StackAnalysis) -> Iterator[Warning]:

    def lost(group: LayerGroup) -> list[str]:
        read = {v.name for v in group.section.reads.values()}
        return [name for name in group.path.lost if name in read]

    for group, (stream, *_), layers in faulty(analysis, lost):
        section, formula = group.section, LayerFormula.of(group.section)
        index = next((i for i, (_, name, _) in enumerate(section.lines) if name == stream), None)

        def holds(again: StackAnalysis, stream: str = stream) -> bool:
            scale = again.scale_of(stream)
            return scale is not None and scale.kind in ("compounds", "normed") and scale.steady

        lines = [line for line in group.lines if line.branches and not line.skips]
        bare = [line.number - 1 for line in lines if not any(map(str.isidentifier, line.branches))]
        last = [line.number - 1 for line in group.lines if line.name == stream][-1:]
        texts = [rewrites.added_skips(formula, stream, lines) for lines in (bare, bare[:1], last)]
        proposals = (in_layer(analysis, group, new, "a skip around each branch", holds) for new in texts)
        least = fewest([section], norm=0, sublayer=1).get(stream, 0)
        sublayers = sum(map(is_sublayer, section.calls()))
        more = f"Here a way passes only {least} of the {sublayers} sublayers of a layer."
        note = 0 < 2 * least <= sublayers
        what, where = f"{stream} passes only through sublayers{layers}", place(analysis, group, index)
        yield Warning("no-skip", what, *where, ("pre-norm",), more if note else "", note, tuple(proposals))


def normed(analysis: StackAnalysis) -> Iterator[Warning]:

    def blocked(group: LayerGroup) -> list[str]:
        return [] if group.path.bare else group.path.only_normed

    code = "norm-on-residual-path"
    for group, on, where in faulty(analysis, blocked):
        section, formula = group.section, LayerFormula.of(group.section)
        norms = group.path.of_kind("norm")
        index = next((i for n in norms if (i := line_of(section, n)) is not None), None)
        scale = analysis.scale_of(on[0])
        size = scale.size if scale is not None and scale.kind == "normed" else None
        what = f"a norm stands on the residual path of {' and '.join(on)}{where}"
        passed = fewest(analysis.stack.layers, norm=1, sublayer=math.inf).get(on[0])
        layers = sum(len(g.numbers) for g in analysis.layers if g.formula == group.formula)
        around = passed is not None and passed < layers
        if passed and not around:
            what += f"; {passed} {'norm' if passed == 1 else 'norms'} on the way through {analysis.stack.depth} layers"
        more = spared(analysis, passed if around else None, max(weights(norms, section, group.scales), default=0.0))
        spot = place(analysis, group, index)
        new, holds = rewrites.norms_into_branches(formula), settled(on[0], "pre-norm", group.formula)
        pre_norm = in_layer(analysis, group, new, "pre-norm", holds)
        if size is not None and size > 1.5 and not is_norm(section.leaves[on[0]]):
            # skip-2 and its kin: two skips meet in the last sum, and the next layer's norm takes the size away
            what += f"; nothing compounds, it leaves each layer with size {number(size)}"
            new = rewrites.norms_after_sums(formula, norms[0].called.name if norms else "norm")
            words, holds = "B2T: the same, the norms after the sums", settled(on[0], "post-norm", group.formula)
            post_norm = in_layer(analysis, group, new, words, holds)
            yield Warning(code, what, *spot, ("b2t",), note=bool(more), proposals=(post_norm,), look_alike=pre_norm)
        else:
            entries, proposals = ("pre-norm", "b2t", "deepnorm"), () if more else (pre_norm,)
            yield Warning(code, what, *spot, entries, more, bool(more), proposals)


def spared(analysis: StackAnalysis, passed: int | None, weight: float) -> str:
    """Why the gradient is spared though a norm stands on the residual path; "" if it is not.

    passed  how many norms a way around them passes; None: there is no such way
    weight  that of the skip under the norm
    """
    if passed is not None:
        return f"Here a way through history passes only {passed} of them, however deep the stack is."
    if "calibrate" in analysis.architecture.text.hooks:
        return "Here the hook `calibrate` weights the skips before training, which spares the gradient."
    if weight > WEIGHTED:
        return f"Here the skip under the norm weighs {number(weight)} to the branch's 1, which spares the gradient."
    return ""


def weights(norms: Sequence[Value], section: Section, scales: Scales) -> Iterator[float]:
    """How large the skip is, beside its branches and what enters, where a norm stands around a sum with a branch."""
    for norm in norms:
        inner = norm.args[0]
        lines = {None if v.frames else line_of(section, v) for v in (inner, norm)}
        if inner.op not in ("add", "sub") or len(lines) > 1:
            continue
        size = scales.of(inner).size
        entering = [scales.of(v).size for v in section.reads.values() if v.kind == "stream"]
        largest = max((e for e in entering if e), default=None)
        branch = deep(largest_factor(inner, scales, {})) or 1.0
        if size and largest and branch:
            yield size / largest / branch


def largest_factor(value: Value, scales: Scales, known: dict[Value, float]) -> Steps:
    """The largest factor of the branches of a sum, at the initial values of coefficients; 0 without a branch. `known`
    holds those found so far: a sum may read another one twice, and that again."""
    if value not in known:
        largest = 0.0
        if value.op in ("add", "sub", "neg"):
            for argument in value.args:
                largest = max(largest, (yield largest_factor(argument, scales, known)))
        elif value.op in ("mul", "div"):
            left, right = (scales.of(argument).constant for argument in value.args)
            if right:
                factor = abs(right if value.op == "mul" else 1 / right)
                largest = factor * (yield largest_factor(value.args[0], scales, known))
            elif value.op == "mul" and left:
                largest = abs(left) * (yield largest_factor(value.args[1], scales, known))
        elif is_branch(value, scales):
            largest = 1.0
        known[value] = largest
    return known[value]


def chance_or_function(analysis: StackAnalysis) -> Iterator[Warning]:
    for kind, code in (("chance", "dropout-on-residual-path"), ("function", "function-on-residual-path")):

        def calls_on(group: LayerGroup, kind: str = kind) -> list[Value]:
            return [v for v in group.path.of_kind(kind) if v.called.options.get("p", 1)]

        for group, calls, _ in faulty(analysis, calls_on):
            names = " and ".join(dict.fromkeys(v.called.name for v in calls))
            what = f"{names} stands on the residual path"
            if kind == "chance":
                least = min(float(v.called.options.get("p", 0)) for v in calls)
                left, depth = (1 - least) ** len(group.numbers), len(group.numbers)
                what += f": at {number(least)} a layer, {left:.0%} of a channel's way survives {depth}"
            new = rewrites.without_calls(LayerFormula.of(group.section), places_of(calls))

            def holds(again: StackAnalysis, kind: str = kind, formula: str = group.formula) -> bool:
                return not any(g.path.of_kind(kind) for g in again.layers if g.formula == formula)

            proposal = in_layer(analysis, group, new, f"without {names} on the residual path", holds)
            where = place(analysis, group, line_of(group.section, calls[0]))
            yield Warning(code, what, *where, ("pre-norm",), proposals=(proposal,))


def unnormed_end(analysis: StackAnalysis) -> Iterator[Warning]:
    if analysis.layers[-1].norms.kind == "pre-norm" and reaches_output_bare(analysis):
        source = analysis.architecture.text.stacks[analysis.index].after
        where = f"{analysis.prefix}after", "" if source is None else source.text.strip().splitlines()[-1]
        proposal = Proposal(with_final_norm(analysis.architecture.text, analysis.index), "")
        what = "the stream is read by the output as the last layer leaves it"
        yield Warning("no-final-norm", what, *where, ("pre-norm",), proposals=(proposal,))


def reaches_output_bare(analysis: StackAnalysis) -> bool:
    """Whether a stream of the last layer reaches a sublayer beyond the layers without a norm on its way."""
    stack, architecture = analysis.stack, analysis.architecture
    bare_names = set(analysis.streams)
    others = [s for other in architecture.stacks if other is not stack for s in other.sections()]
    for section in [stack.after, *others, architecture.output]:
        bare: set[Value] = set()
        own = section is stack.after or (section.where == "output" and stack is architecture.main)
        for value in section.values:
            if value.op in ("name", "history"):
                if value.name in bare_names and (value.stack == stack.name if value.stack else own):
                    bare.add(value)
            elif not bare.isdisjoint(value.args):
                if not is_norm(value):
                    bare.add(value)
                if value.call is not None and value.call.word.sublayer and value.call.word.parameters:
                    return True
        if section is stack.after:
            bare_names -= section.leaves.keys()
            bare_names |= {name for name, value in section.leaves.items() if value in bare}
    return False


def positions_twice(analysis: StackAnalysis) -> Iterator[Warning]:
    lines = analysis.stack.before.lines
    absolute = [e for e in analysis.positional_encodings if e.absolute]
    inside = [e for e in analysis.positional_encodings if e.kind in ("rotary", "scores")]
    twice = (absolute and inside) or len({e.kind for e in absolute}) > 1
    if twice and analysis.receptive_field.reach != "token":
        tables = [v for v in analysis.stack.before.calls() if v.word_kind == "input" and v.called.word.order]
        new = rewrites.without_terms(parse(lines[0][0].source), places_of(tables)) if lines and inside else None
        proposals: tuple[Proposal, ...] = ()
        if new is not None:
            text = with_part(analysis.architecture.text, analysis.index, "before", text_of_lines(new))
            once = Proposal(text, "encoded once, inside", lambda a: not any(e.absolute for e in a.positional_encodings))
            proposals = (once,)
        what = f"positions are encoded twice: {' and '.join(map(str, [*absolute, *inside]))}"
        yield Warning("positions-twice", what, f"{analysis.prefix}before", "", ("llama", "gpt2"), proposals=proposals)


def no_positions(analysis: StackAnalysis) -> Iterator[Warning]:
    before = analysis.stack.before
    main = before.leaves["x"].sequence if "x" in before.leaves else ""
    rows = [v for v in before.calls() if not v.args and v.called.word.parameters and main and v.sequence == main]
    encoded = analysis.positional_encodings or any(v.stack for v in before.values) or rows  # learned rows differ
    if not encoded and analysis.receptive_field.reach != "token":
        what = "nothing tells positions apart" + (" but the causal mask" if analysis.stack.causal else "")
        inputs = [v.name for v in before.values if v.op == "input"]
        proposals: tuple[Proposal, ...] = ()
        if len(before.lines) == 1 and inputs:
            new = f"{before.lines[0][0].source.text.strip()} + positions({inputs[0]})"
            text = with_part(analysis.architecture.text, analysis.index, "before", new)
            proposals = (Proposal(text, "learned positions", lambda again: bool(again.positional_encodings)),)
        yield Warning("no-positions", what, f"{analysis.prefix}before", "", ("gpt2", "llama"), "", True, proposals)


def no_norm(analysis: StackAnalysis) -> Iterator[Warning]:
    calls = [v.called for s in analysis.stack.layers for v in s.calls()]
    spare = any(c.word.kind in ("norm", "coefficient", "gate", "streams") for c in calls)
    spare |= any(map(is_norm, (v for c in calls for template in c.inner.values() for v in template.values)))
    grows = any(scale.kind == "compounds" for scale in analysis.stream_scales)
    if grows and not spare and "init" not in analysis.architecture.text.hooks:
        where = place(analysis, analysis.layers[0], None)
        entries = ("pre-norm", "rezero", "t-fixup")
        yield Warning("no-norm", "no norm stands anywhere in the layers", *where, entries, note=True)


def scaled_by_width(analysis: StackAnalysis) -> Iterator[Warning]:

    def by_width(group: LayerGroup) -> list[Value]:
        """Calls of attention with several heads whose scores are divided by the root of the width of all of them."""
        calls = [v for v in group.section.calls() if v.called.options.get("scale") and v.args]
        several = [v for v in calls if v.called.options.get("heads", 1) > 1]
        return [v for v in several if math.isclose(v.called.options["scale"], v.args[0].width ** -0.5)]

    for group, calls, layers in faulty(analysis, by_width):
        width, heads = calls[0].args[0].width, calls[0].called.options["heads"]
        what = f"scores of {heads} heads are divided by the square root of the width of all heads, {width}{layers}"
        where = place(analysis, group, line_of(group.section, calls[0]))
        yield Warning("scores-by-width", what, *where, ("vaswani", "pre-norm"), note=True)


FINDERS = (
    growing, skipless, normed, chance_or_function, unnormed_end, positions_twice, no_positions, no_norm,
    scaled_by_width,
)  # fmt: skip


def find_all(analysis: StackAnalysis) -> Iterator[Warning]:
    return (warning for find in FINDERS for warning in find(analysis))
