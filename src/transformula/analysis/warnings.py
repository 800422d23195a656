"""What is unsound in a wiring, why, where, and its sound relative: the finders of the warnings of `warning_table.py`.

A relative made from the user's own text is checked and analysed again before it is shown (`advice.py`); otherwise the
gallery's entry alone is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..language.graph import Architecture, Section, Value
from ..language.parser import parse
from ..language.rewriting import terms
from ..language.syntax import CallNode, Name, walk
from ..language.vocabulary import Vocabulary
from . import rewrites
from .advice import Adviser, calm, settled, with_layer
from .budget import Budget
from .initial_scale import Known, Silence
from .lines import is_branch, spans
from .reading import Layers, StackReading
from .residual_path import fewest_norms, fewest_sublayers, line_of, own_place
from .stream_scale import Gain, number
from .warning_table import Relative, Warning

WEIGHED = 1 + 1e-9
"""From this weight on a skip under a norm counts as weighed."""


def growing(adviser: Adviser) -> Iterator[Warning]:
    """gain-compounds."""
    for gain in adviser.reading.gains:
        growth = gain.growth
        if growth is None or growth == 0 or 0.5 < growth < 2:
            continue
        gated = any(c.call and c.call.word.kind == "gate" for s in adviser.stack.layers for c in s.calls())
        if growth < 1 and gated:
            continue  # a gate decides anew in every layer
        group, index, before, after = first_growth(adviser, gain)
        what = f"with branches silent {gain.stream} {'grows' if growth > 1 else 'shrinks'}: {gain}"
        where, line = adviser.where(group, index)
        entries = ["pre-norm"]
        relatives: list[Relative] = []
        more = ""
        if growth > 1 and index is not None and before and after:
            skips = skips_of(adviser, group, index)
            holds = settled(gain.stream)
            formula = adviser.formula(group)
            spots = [rewrites.spot(node.place) for _, node in skips]
            new = rewrites.weighed_skips(formula, index, spots, float(f"{before / after:.6g}"))
            words = "the skips weighed, so that their sum is one"
            relatives = adviser.in_layer("gain-compounds", group, new, holds, words)
            if len(skips) > 1:
                entries = ["skip-2-half", "b2t"]
                new = rewrites.norms_after_sums(formula)
                words = "or B2T, with the norms after the sums"
                relatives += adviser.in_layer("gain-compounds", group, new, holds, words)
                if group.norming.kind == "pre-norm":
                    more = (
                        "Its look-alike skip-2 norms the stream itself (x = norm(x) before each sublayer), and there "
                        "nothing compounds: the two differ by more than the place of a norm."
                    )
        yield Warning("gain-compounds", what, where, line, tuple(relatives), adviser.others(*entries), more)


def first_growth(adviser: Adviser, gain: Gain) -> tuple[Layers, int | None, float | None, float | None]:
    """Where the stream first changes its size: layers, line (from 0), the size before and after."""
    before: float | None = 1.0
    silence = adviser.reading.silence
    for section, size in zip(adviser.stack.layers, gain.sizes, strict=True):
        if gain.kind == "normed" and section.number == 1:
            before = size
            continue
        if before and size and abs(size / before - 1) > 1e-6:
            group = next(g for g in adviser.reading.layers if section.number in g.numbers)
            for index, (_, _, value) in enumerate(section.lines):
                here = silence.directions.size(silence.of(value)) if value is not None else None
                if here and abs(here / before - 1) > 1e-6:
                    return group, index, before, here
            return group, None, before, size
        before = size
    return adviser.reading.layers[0], None, None, None


def skips_of(adviser: Adviser, group: Layers, index: int) -> list[tuple[str, Any]]:
    """The terms of a line (from 0) that are skips, as signs and nodes of the formula's tree."""
    section = adviser.section(group)
    formula = adviser.formula(group)
    branches = {
        name for _, name, value in section.lines[:index] if value is not None and is_branch(value, group.silence)
    }
    found = []
    for sign, node in terms(formula.lines[index].value):
        inside = walk(node)
        through = any(rewrites.spot(n.place) in formula.sublayers for n in inside if isinstance(n, CallNode))
        names = {n.name for n in inside if isinstance(n, Name)}
        if not through and not names & branches:
            found.append((sign, node))
    return found


def blocked_by_sublayers(group: Layers) -> list[str]:
    """The streams that pass only through sublayers."""
    trunk = group.trunk
    read = {v.name for v in trunk.section.reads.values()}
    return [n for n in trunk.plain if not trunk.plain[n] and not trunk.normed[n] and n in read]


def blocked_by_norms(group: Layers) -> list[str]:
    """The streams that pass only through norms, if no stream passes without one."""
    trunk = group.trunk
    on = [n for n in trunk.plain if trunk.normed[n] and not trunk.plain[n]]
    return [] if any(trunk.plain.values()) else on


def of_layers(adviser: Adviser, group: Layers, fault: Callable[[Layers], list[str]]) -> str:
    """' in layers 1-3': those of a group's formula that have its fault; '' if these are all layers."""
    alike = [g for g in adviser.reading.layers if g.formula == group.formula and fault(g)]
    numbers = sorted(n for g in alike for n in g.numbers)
    if len(numbers) == adviser.stack.depth:
        return ""
    return f" in layer{'s' if len(numbers) > 1 else ''} {spans(numbers)}"


def skipless(adviser: Adviser) -> Iterator[Warning]:
    """no-skip."""
    done: set[str] = set()
    for group in adviser.reading.layers:
        lost = blocked_by_sublayers(group)
        if not lost or group.formula in done:
            continue
        done.add(group.formula)
        stream = lost[0]
        section = adviser.section(group)
        index = next((i for i, (_, name, _) in enumerate(section.lines) if name == stream), None)
        formula = adviser.formula(group)

        def holds(again: StackReading, stream: str = stream) -> bool:
            gain = next((g for g in again.gains if g.stream == stream), None)
            return gain is not None and gain.kind in ("compounds", "normed") and calm(gain)

        relatives: list[Relative] = []
        bare = [
            line.number - 1
            for line in group.lines
            if line.branches and not line.skips and not any(b.isidentifier() for b in line.branches)
        ]
        last = [line.number - 1 for line in group.lines if line.name == stream][-1:]
        for lines in (bare, bare[:1], last):
            if not relatives:
                new = rewrites.added_skips(formula, stream, lines)
                relatives = adviser.in_layer("no-skip", group, new, holds, "a skip around each branch")
        where, line = adviser.where(group, index)
        what = f"{stream} passes only through sublayers{of_layers(adviser, group, blocked_by_sublayers)}"
        least = fewest_sublayers(section).get(stream, 0)
        sublayers = sum(v.call is not None and v.call.word.sublayer for v in section.calls())
        note = 0 < 2 * least <= sublayers
        more = f"Here a way passes only {least} of the {sublayers} sublayers of a layer." if note else ""
        entries = adviser.others("pre-norm")
        yield Warning("no-skip", what, where, line, tuple(relatives), entries, more, note)


def normed(adviser: Adviser) -> Iterator[Warning]:
    """norm-on-trunk."""
    done: set[str] = set()
    for group in adviser.reading.layers:
        trunk, on = group.trunk, blocked_by_norms(group)
        if not on or group.formula in done:
            continue
        done.add(group.formula)
        section = adviser.section(group)
        norms = trunk.of_kind("norm")
        index = next((i for n in norms if (i := line_of(section, own_place(n))) is not None), None)
        gain = adviser.gain(on[0])
        size = gain.size if gain is not None and gain.kind == "normed" else None
        formula = adviser.formula(group)
        what = f"a norm stands on the stream {' and '.join(on)}{of_layers(adviser, group, blocked_by_norms)}"
        passed = fewest_norms(adviser.stack).get(on[0])
        layers = sum(len(g.numbers) for g in adviser.reading.layers if g.formula == group.formula)
        around = passed is not None and passed < layers
        if passed and not around:
            what += f"; {passed} {'norm' if passed == 1 else 'norms'} on the way through {adviser.stack.depth} layers"
        weight = max(weights(norms, section, group.silence), default=0.0)
        calibrated = "calibrate" in adviser.text.hooks
        note = around or weight > WEIGHED or calibrated
        more = ""
        if around:
            more = f"Here a way through history passes only {passed} of them, however deep the stack is."
        elif calibrated:
            more = "Here the hook `calibrate` weighs the skips before training, which spares the gradient."
        elif note:
            more = f"Here the skip under the norm weighs {number(weight)} to the branch's 1, which spares the gradient."
        relatives: list[Relative] = []
        entries: tuple[str, ...] = ("pre-norm", "b2t", "deepnorm")
        if size is not None and size > 1.5 and not _ends_normed(trunk.section.leaves[on[0]]):
            # skip-2 and its kin: two skips meet in the last sum, and the next layer's norm takes the size away
            what += f"; nothing compounds, it leaves each layer with size {number(size)}"
            entries = ("b2t",)
            norm = next((n.call.name for n in norms if n.call is not None), "norm")
            new = rewrites.norms_after_sums(formula, norm)
            holds = settled(on[0], "post-norm", group.formula)
            words = "B2T: the same, the norms after the sums"
            relatives = adviser.in_layer("norm-on-trunk", group, new, holds, words)
            more = look_alike(adviser, group, formula)
        elif not note:
            new = rewrites.norms_into_branches(formula)
            holds = settled(on[0], "pre-norm", group.formula)
            relatives = adviser.in_layer("norm-on-trunk", group, new, holds, "pre-norm")
        where, line = adviser.where(group, index)
        yield Warning("norm-on-trunk", what, where, line, tuple(relatives), adviser.others(*entries), more, note)


def look_alike(adviser: Adviser, group: Layers, formula: rewrites.Formula) -> str:
    """What becomes of skip-2 if it is tidied up to pre-norm: another model, whose stream grows."""
    new = rewrites.norms_into_branches(formula)
    again = adviser.read_again(with_layer(adviser.text, adviser.index, group.formula, new))
    grown = next((g for g in again[0].gains if g.growth is not None and g.growth >= 2), None) if again else None
    if grown is None:
        return ""
    text = "; ".join(new.splitlines())
    return f"In size it is sound. Its pre-norm look-alike, {text}, is not: there the gain of {grown.stream} is {grown}."


def weights(norms: Sequence[Value], section: Section, silence: Silence) -> Iterator[float]:
    """How large the skip is, beside what its branches weigh and the stream that enters, where a norm stands around a
    sum with a branch."""
    for norm in norms:
        inner = norm.args[0]
        if inner.op not in ("add", "sub") or line_of(section, inner.place) != line_of(section, norm.place):
            continue
        size = silence.directions.size(silence.of(inner))
        entering = [silence.directions.size(silence.of(v)) for v in section.reads.values() if v.kind == "stream"]
        largest = max((e for e in entering if e), default=None)
        branch = max(factors(inner, 1.0, silence), default=1.0)
        if size and largest and branch:
            yield size / largest / branch


def factors(value: Value, factor: float, silence: Silence) -> Iterator[float]:
    """The factors of the branches of a sum, as numbers and coefficients start."""
    if value.op in ("add", "sub", "neg"):
        for argument in value.args:
            yield from factors(argument, factor, silence)
    elif value.op in ("mul", "div"):
        left, right = (silence.of(a) for a in value.args)
        weight = right.constant if isinstance(right, Known) else None
        if weight:
            yield from factors(value.args[0], factor * (weight if value.op == "mul" else 1 / weight), silence)
        elif value.op == "mul" and isinstance(left, Known) and left.constant:
            yield from factors(value.args[1], factor * left.constant, silence)
    elif is_branch(value, silence):
        yield abs(factor)


def on_trunk(kind: str, code: str) -> Callable[[Adviser], Iterator[Warning]]:
    """The finder of dropout-on-trunk and function-on-trunk."""

    def find(adviser: Adviser) -> Iterator[Warning]:
        done: set[str] = set()
        for group in adviser.reading.layers:
            calls = [v for v in group.trunk.of_kind(kind) if v.call is not None and v.call.options.get("p", 1)]
            if not calls or group.formula in done:
                continue
            done.add(group.formula)
            names = list(dict.fromkeys(v.call.name for v in calls if v.call is not None))
            index = line_of(adviser.section(group), own_place(calls[0]))
            what = f"{' and '.join(names)} stands on the stream"
            if kind == "chance":
                least = min(float(v.call.options.get("p", 0)) for v in calls if v.call is not None)
                left, depth = (1 - least) ** len(group.numbers), len(group.numbers)
                what += f": at {number(least)} a layer, {left:.0%} of a channel's way survives {depth}"
            new = rewrites.without_calls(adviser.formula(group), rewrites.places_of(calls))

            def holds(again: StackReading, formula: str = group.formula) -> bool:
                return not any(g.trunk.of_kind(kind) for g in again.layers if g.formula == formula)

            words = f"without {' and '.join(names)} on the stream"
            relatives = adviser.in_layer(code, group, new, holds, words)
            where, line = adviser.where(group, index)
            yield Warning(code, what, where, line, tuple(relatives), adviser.others("pre-norm"))

    return find


def unnormed_end(adviser: Adviser) -> Iterator[Warning]:
    """no-final-norm."""
    if adviser.reading.layers[-1].norming.kind != "pre-norm" or not reaches_output_bare(adviser):
        return
    source = adviser.text.stacks[adviser.index].after
    new = f"{source.text.rstrip()}\nx = norm(x)" if source is not None else "x = norm(x)"
    yield Warning(
        "no-final-norm",
        "the stream is read by the output as the last layer leaves it",
        f"{adviser.prefix}after",
        "" if source is None else source.text.strip().splitlines()[-1],
        tuple(adviser.in_part("no-final-norm", "after", new, lambda again: True)),
        adviser.others("pre-norm"),
    )


def reaches_output_bare(adviser: Adviser) -> bool:
    """Whether a stream of the last layer reaches a sublayer beyond the layers without a norm on its way."""
    stack, architecture = adviser.stack, adviser.architecture
    bare_names: set[str] = set(adviser.reading.streams)
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


def positions(adviser: Adviser) -> Iterator[Warning]:
    """positions-twice, no-positions."""
    reading, stack = adviser.reading, adviser.stack
    if reading.reach.reach == "token":
        return
    absolute = [o for o in reading.order if o.absolute]
    inside = [o for o in reading.order if o.kind in ("rotary", "scores")]
    source = stack.before.lines[0][0].source if stack.before.lines else None
    relatives: list[Relative] = []
    if (absolute and inside) or len({o.kind for o in absolute}) > 1:
        told = [*absolute, *inside] if inside else absolute
        calls = [
            v for v in stack.before.calls() if v.call is not None and v.call.word.kind == "input" and v.call.word.order
        ]
        if source is not None and inside:
            new = rewrites.without_terms(parse(source), rewrites.places_of(calls))
            if new is not None:
                relatives = adviser.in_part(
                    "positions-twice",
                    "before",
                    new,
                    lambda again: not any(o.absolute for o in again.order),
                    "told once, inside",
                )
        what = f"positions are told twice: {' and '.join(str(o) for o in told)}"
        entries = adviser.others("llama", "gpt2")
        yield Warning("positions-twice", what, f"{adviser.prefix}before", "", tuple(relatives), entries)
    elif not reading.order and not any(v.stack for v in stack.before.values):
        what = "nothing tells positions apart" + (" but the causal mask" if stack.causal else "")
        if source is not None and len(stack.before.lines) == 1:
            inputs = [v.name for v in stack.before.values if v.op == "input"]
            if inputs and "positions" in adviser.vocabulary:
                new = f"{source.text.strip()} + positions({inputs[0]})"
                relatives = adviser.in_part(
                    "no-positions", "before", new, lambda again: bool(again.order), "learned positions"
                )
        entries = adviser.others("gpt2", "llama")
        yield Warning("no-positions", what, f"{adviser.prefix}before", "", tuple(relatives), entries, note=True)


def no_norm(adviser: Adviser) -> Iterator[Warning]:
    """no-norm."""
    reading = adviser.reading
    calls = [v.call for s in adviser.stack.layers for v in s.calls() if v.call is not None]
    spared = any(c.word.kind in ("norm", "coefficient", "gate", "streams") for c in calls)
    if spared or "init" in adviser.text.hooks:
        return
    if not reading.gains or not any(g.kind == "compounds" for g in reading.gains):
        return
    inner = (t for c in calls for template in c.inner.values() for t in template.values)
    if any(t.call is not None and t.call.word.kind == "norm" for t in inner):
        return
    where, _ = adviser.where(reading.layers[0], None)
    entries = adviser.others("pre-norm", "rezero", "t-fixup")
    yield Warning("no-norm", "no norm stands anywhere in the layers", where, "", (), entries, note=True)


FINDERS: Sequence[Callable[[Adviser], Iterator[Warning]]] = (
    growing,
    skipless,
    normed,
    on_trunk("chance", "dropout-on-trunk"),
    on_trunk("function", "function-on-trunk"),
    unnormed_end,
    positions,
    no_norm,
)


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


def codes(reading: StackReading, architecture: Architecture, vocabulary: Vocabulary) -> list[str]:
    """The codes of a stack's warnings, notes left out; no relatives are made."""
    adviser = Adviser(reading, architecture, vocabulary, None, Budget())
    return [w.code for find in FINDERS for w in find(adviser) if not w.note]


def mended(adviser: Adviser, found: Sequence[Warning]) -> list[Relative]:
    """Where several faults are found: the text without any, one relative after the other."""
    first = made = adviser.text
    for _ in range(len(found) + 2):
        relative = next((r for w in found if not w.note for r in w.relatives), None)
        if relative is None or relative.made is None:
            return []
        made = relative.made
        again = adviser.read_again(made)
        if again is None:
            return []
        here = Adviser(*again, adviser.vocabulary, codes, adviser.budget)
        found = [w for find in FINDERS for w in find(here)]
        if all(w.note for w in found):
            break
    else:
        return []
    return adviser.relative("", made, lambda again: True, "all of it mended") if made is not first else []


def warnings_of(
    readings: Sequence[StackReading],
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
    for reading in readings:
        adviser = Adviser(reading, architecture, words, codes, budget or Budget())
        here = [w for find in FINDERS for w in find(adviser)]
        strong = [w for w in here if not w.note]
        if len({w.code for w in strong}) > 1 and all(r.left for w in strong for r in w.relatives):
            n = here.index(strong[0])
            whole = tuple(mended(adviser, here))
            here[n] = replace(here[n], relatives=(*here[n].relatives, *whole))
        found += here
    return sorted(found, key=lambda w: w.note)
