"""From texts to the checked graph: what a model means.

`check` runs through `before`, layers 1 to depth, `after` and `output` as the model will, with values that know their
kind, width and sequence instead of tensors. The files of this folder, in the order in which to read them:

    text       source (a text and places in it), syntax (its tree, which is changed and spelled), parser
    file       model_text; model_file and model_writing (YAML)
    numbers    numbers; messages (every error, with its example)
    words      vocabulary (records of words), score_binding (formulas over scores)
    graph      graph (the result), context (what the files below share: definitions, names in use, what was read)
    check      names; options -> word_calls -> expressions -> this file
    afterward  reading (what may be, and what must be), roles (names of parameters)

One object of each kind works on one `Context`; those below are handed those above:

    Names        what a name, x[n], x[:] or LABEL.v stands for
    WordCall     a call held against the word's record
    Expressions  lines, expressions and calls -> values; opens definitions
    Stacks       formulas in their order, section by section
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .. import field_names
from .context import Context, Definition, Scope, Setting, check_free, check_second, read_definition, tells_positions
from .expressions import Expressions
from .graph import Architecture, Section, Stack
from .messages import FormulaError, unknown
from .model_text import FLAGS, FREE_NUMBERS, MOST_CARRIED, ModelText, StackText
from .names import MOST_ENTRIES
from .numbers import as_number, element, evaluate, is_number, is_whole, kind_of, numbers_of, tidy
from .parser import parse, parse_constant, parse_expression
from .reading import check_causal, check_outside, check_unread, outside_words, trim
from .roles import name_modules
from .source import Place, Source
from .syntax import Binary, CallNode, Choice, Index, Line, Listing, Name, Node, Number, children, names_read, walk
from .vocabulary import Vocabulary

DEFAULT_OUTPUT = "logits = unembed.words(x)"
WORD = re.compile(r"[A-Za-z_]\w*")
# What a model takes where neither its file nor the run says it.
DEFAULT_NUMBERS = {"depth": 4, "width": 256, "heads": 4, "vocab": 256, "context": 64}
MOST_LAYERS = 10_000
LARGEST_SHARE = 10 * MOST_LAYERS  # the largest number that `share` may give a layer

# Names that stand for numbers alone: what is no number there is a mistake.
NUMBERS_ALONE = (*FREE_NUMBERS, "dropout")

# What is counted, whether with sums and products; the most of a whole model, and of one layer, `before` or `after`.
LIMITS = (
    ("calls", False, 100_000, 5_000, "too-many-calls"),
    ("calls, sums and products", True, 200_000, 10_000, "too-many-operations"),
)


def check(
    text: ModelText, vocabulary: Vocabulary, overrides: Mapping[str, Any] | None = None, *, output: str = DEFAULT_OUTPUT
) -> Architecture:
    """Check a model and return its graph.

    `overrides` are numbers and formulas that replace the file's; `output` is the task's, for a model without one.
    Raises FormulaError at the first mistake.
    """
    try:
        return checked(text.override(overrides or {}), vocabulary, output)
    except RecursionError:
        raise FormulaError("too-deep", None) from None


def checked(text: ModelText, vocabulary: Vocabulary, output: str) -> Architecture:
    context = Context(text, vocabulary)
    own = {*text.numbers, *(key for stack in text.stacks for key in stack.numbers)}
    defaults = {key: Source(f"number {key}", str(value)) for key, value in DEFAULT_NUMBERS.items() if key not in own}
    constants = {key: parse_constant(source) for key, source in {**text.numbers, **defaults}.items()}
    context.constants = resolve(constants, {}, context.reads.numbers)
    for header, body in text.words.items():
        context.definitions.append(definition_of(header, body, context))
    stacks = Stacks(context)
    for stack in text.stacks:
        context.stacks.append(stacks.check(stack))
    section = stacks.output(text.output or Source("output", output))
    for hook in text.hooks.values():
        for part in hook.values() if isinstance(hook, Mapping) else [hook]:
            context.reads.numbers.update(WORD.findall(written(part)))
    carry = carried_positions(context, stacks)
    architecture = Architecture(text.name, context.stacks, section, context.numbers, text.hooks, text, carry)
    architecture.reads_depth = not context.reads.numbers.isdisjoint(("depth", "layer"))
    note_policy(context)
    check_unread(architecture, context)
    streams = {name: left[0][1]["x"].value.sequence for name, left in context.flow.history.items() if "x" in left[0][1]}
    check_causal(architecture, streams)
    check_outside(context)
    trim(architecture, context.flow)
    name_modules(architecture)
    architecture.text = dataclasses.replace(text, extra={**text.extra, **outside_words(architecture)})
    return architecture


def resolve(given: Mapping[str, Node], outer: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """The constants of a file, each an expression of the others and of `outer`, where `width: 2 * width` finds the
    file's; names that are read go into `used`."""
    values: dict[str, Any] = {}
    waiting: list[str] = []

    def value_of(name: str, place: Place | None) -> Any:
        if name in values or name == "pi":
            return values.get(name, math.pi)
        if name not in given:
            if name in outer:
                return outer[name]
            whole = next((key for key in waiting if names_read(given[key]) == {name}), None)
            remedy = f"add it to the file, or give it as --{name}"
            remedy += "" if whole is None else f"; or write a number, as in {field_names.spell_key(whole, 4)}"
            raise unknown("unknown-number", place, name, [*given, *outer, "pi"], remedy=remedy)
        if name in waiting:
            raise FormulaError("number-cycle", given[name].place, name=name)
        waiting.append(name)
        node = given[name]
        used.update(names_read(node) - {name})

        def look(read: Name | Index) -> Any:
            own = read.name == name
            if not own or name in outer:
                used.add(read.name)
            value = outer[name] if own and name in outer else value_of(read.name, read.place)
            return element(read, value, look) if isinstance(read, Index) else value

        def one(node: Node) -> Any:
            if isinstance(node, Name) and node.name not in (*given, *outer, "pi") and name not in NUMBERS_ALONE:
                return FLAGS.get(node.name.lower(), node.name)
            value = evaluate(node, look)
            return tidy(value, node.place) if is_number(value) else value

        values[name] = tuple(map(one, node.parts)) if isinstance(node, Listing) else one(node)
        if name in NUMBERS_ALONE:
            as_number(node, values[name])
        waiting.pop()
        return values[name]

    for name in given:
        value_of(name, given[name].place)
    return values


def written(hook: Any) -> str:
    """The text of a hook, as it stands in a file or as it was typed."""
    return hook.text if isinstance(hook, Source) else str(hook or "")


def definition_of(header: str, body: Source, context: Context) -> Definition:
    """A row of `words:`. Raises FormulaError; the name may be that of a word, and of chance that of a number."""
    definition = read_definition(header, body, len(context.definitions))
    name, record = definition.name, context.vocabulary.get(definition.name)
    chance = record is not None and record.kind == "chance"
    others = {
        "a definition": context.definition(name) is not None,
        f"a {kind_of(context.constants.get(name))} of the file": name in context.constants and not chance,
        "an input of the task": name in context.inputs and not chance,
    }
    check_free(name, definition.place, others)
    if definition.second:
        numbers = {*context.constants, *(number for stack in context.text.stacks for number in stack.numbers)}
        check_second(definition, numbers, context.inputs, context.reads.numbers)
    return definition


def note_policy(context: Context) -> None:
    """Note what the model's `policy` reads: the names in its brackets that every layer of a stack sets."""
    policy = written(context.text.hooks.get("policy"))
    names = [name for name in WORD.findall(policy.partition("(")[2]) if name not in context.constants]
    for stack in context.stacks:
        for section, settings in context.flow.history[stack.name][1:]:
            for name in dict.fromkeys(names):
                if name in settings and settings[name].section is section:
                    section.asked[name] = settings[name].value
                    context.reads.line(settings[name].place)


def carried_positions(context: Context, stacks: Stacks) -> int:
    """The number under `carry`, 0 if the key is not there. Raises FormulaError."""
    carry = context.text.hooks.get("carry")
    if carry is None:
        return 0
    if isinstance(carry, Mapping):
        raise FormulaError("key-value", None, name="carry", detail="is a mapping", remedy="write carry: 150")
    node = parse_expression(carry if isinstance(carry, Source) else Source("carry", str(carry)))
    value = as_number(node, stacks.expressions.names.evaluate(node, context.constants))
    if not is_whole(value) or not 1 <= value <= MOST_CARRIED:
        detail = f"is {value:g}, but must be a whole number from 1 to {MOST_CARRIED:,}"
        remedy = "say how many positions of the segments before are seen, or take the key out"
        raise FormulaError("key-value", node.place, name="carry", detail=detail, remedy=remedy)
    return value


class Stacks:
    """Checks the stacks of a model and its output, in the order in which they run. Its methods raise FormulaError."""

    def __init__(self, context: Context) -> None:
        self.context, self.flow, self.expressions = context, context.flow, Expressions(context)
        self.labels: dict[Any, Any] = {}  # those of `before`, `after` and `output`, which belong to the whole model

    def check(self, text: StackText) -> Stack:
        context, flow, name = self.context, self.flow, text.name
        own = {key: parse_constant(source) for key, source in text.numbers.items()}
        constants = {**context.constants, **resolve(own, context.constants, context.reads.numbers)}
        numbers = numbers_of(constants)
        depth = numbers.get("depth", DEFAULT_NUMBERS["depth"])
        if not isinstance(depth, int) or not 1 <= depth <= MOST_LAYERS:
            source = text.numbers.get("depth") or context.text.numbers.get("depth") or Source("depth", str(depth))
            raise FormulaError("needs-depth", source.start, name="depth", given=f"{depth:g}")
        if not text.layers:
            raise FormulaError("no-layer", text.place, title=f"the stack {name!r}" if name else "the model")
        formulas = {key: parse(source) for key, source in text.layers.items()}
        if name and text.before is None:
            title = f"the stack {name!r} (among several, each says its `before`)"
            raise FormulaError("no-layer", text.place, title=title)
        definitions, layers = context.definitions, formulas.values()
        before = parse(text.before or default_before(layers, definitions, context.vocabulary, context.inputs))
        after = parse(text.after) if text.after else []
        check_size(depth, [before, after, *layers], definitions)
        order = self.order(text, formulas, constants, depth)
        first, last = (Section(where, 0, where, name) for where in ("before", "after"))
        stack = Stack(name, text.causal, depth, numbers, first, [], last)
        history = flow.history[name] = []
        flow.assigned = {line.name for part in (before, after, *layers) for line in part}
        flow.now, flow.carried = {}, {}
        self.section(first, stack, before, constants)
        history.append((first, dict(flow.now)))
        for number, formula in enumerate(order, 1):
            layer = Section("layer", number, formula, name)
            self.section(layer, stack, formulas[formula], {**constants, "layer": number})
            stack.layers.append(layer)
            history.append((layer, dict(flow.now)))
        for line in (line for formula, lines in formulas.items() if formula not in order for line in lines):
            context.reads.line(line.place)
            self.expressions.names.unbuilt(line.value)
        self.section(last, stack, after, constants)
        stack.share = self.share(text, order, constants)
        if name and "x" in flow.now:
            flow.results[name] = flow.now["x"]
        return stack

    def output(self, source: Source) -> Section:
        section = Section("output", 0, "output", "")
        scope = self.section(section, self.context.stacks[-1], parse(source), self.context.constants)
        read = self.context.reads.has
        section.leaves = {name: value for name, value in scope.names.items() if not read(scope.places[name])}
        return section

    def section(self, section: Section, stack: Stack, lines: Sequence[Line], constants: Mapping[str, Any]) -> Scope:
        labels = {} if section.where == "layer" else self.labels
        scope = Scope(section, stack, constants, len(self.context.definitions), labels)
        self.flow.entered[id(section)] = dict(self.flow.now)
        context, words = self.context, self.context.vocabulary
        for line in lines:
            name = line.name
            others = {
                "a number": name in ("layer", "pi"),
                f"a {kind_of(constants.get(name))} of the file": name in constants,
                "a word": name in words,
                "a definition": context.definition(name) is not None,
                "an input of the task": name in context.inputs,
                "a stack": name == "memory" or name in context.stack_names(),
            }
            check_free(name, line.target, others)
            section.lines.append((line.place, line.name, self.expressions.assign(line, scope)))
        for name, value in scope.names.items():
            self.flow.now[name] = Setting(value, section, scope.places[name])
        return scope

    def order(self, text: StackText, formulas: Collection[str], constants: Mapping[str, Any], depth: int) -> list[str]:
        """The name of each layer's formula."""

        def wrong(place: Place | None, detail: str) -> FormulaError:
            return FormulaError("order", place, detail=detail, known=", ".join(formulas))

        if text.order is None:
            if len(formulas) > 1:
                raise wrong(text.place, "several formulas need an order")
            return [*formulas] * depth
        named = self.named_in_order(text.order, constants)
        if not isinstance(named, Source):
            for name, place in named:
                if name not in formulas:
                    raise wrong(place, f"{name!r} is not a formula of `layers`")
            if not named:
                raise wrong(text.place, "the list is empty")
            return [named[i % len(named)][0] for i in range(depth)]
        tree = parse_expression(named)
        for node in ends(tree):
            if not isinstance(node, Name) or node.name not in formulas:
                raise wrong(node.place, f"`{node.place.text}` is not a formula of `layers`")
        names = []
        for layer in range(1, depth + 1):
            node = tree
            while isinstance(node, Choice):
                test = self.expressions.names.evaluate(node.test, {**constants, "layer": layer})
                node = node.then if test else node.other
            names.append(node.place.text)
        return names

    def named_in_order(
        self, order: Source | tuple[Source, ...], constants: Mapping[str, Any]
    ) -> list[tuple[Any, Place]] | Source:
        """What an order lists, itself or by the name of a list of the file, with places; else its expression."""
        if isinstance(order, tuple):
            return [(source.text.strip(), source.start) for source in order]
        name = order.text.strip()
        if not isinstance(constants.get(name), tuple):
            return order
        self.context.reads.numbers.add(name)
        return [(part, order.start) for part in constants[name]]

    def share(self, text: StackText, order: Sequence[str], constants: Mapping[str, Any]) -> list[int] | None:
        """For each layer the number under `share`; layers of one number have one formula."""
        if text.share is None:
            return None
        node, formulas, shares = parse_expression(text.share), dict[int, str](), list[int]()
        for layer, name in enumerate(order, 1):
            value = as_number(node, self.expressions.names.evaluate(node, {**constants, "layer": layer}))
            if not is_whole(value) or not 0 <= value <= LARGEST_SHARE:
                what = f"{value:g} (a whole number from 0 to {LARGEST_SHARE} is expected here; it)"
                raise FormulaError("not-a-number", node.place, what=what)
            shares.append(value)
            if formulas.setdefault(value, name) != name:
                detail = f"layers that share number {value} have different formulas"
                raise FormulaError("order", node.place, detail=detail, known=", ".join(text.layers))
        return shares


def ends(node: Node) -> list[Node]:
    """The expressions that a condition, or a chain of them, can come to."""
    return [*ends(node.then), *ends(node.other)] if isinstance(node, Choice) else [node]


def default_before(
    formulas: Iterable[Sequence[Line]], definitions: Sequence[Definition], vocabulary: Vocabulary, inputs: set[str]
) -> Source:
    """Embedding, with learned positions unless a word of the layers tells positions apart itself."""
    rotary = {record.rotary for record in vocabulary.values() if record.rotary and record.sublayer}

    def tells(call: CallNode) -> bool:
        record, written = vocabulary.get(call.word), {option.name: option.value for option in call.options}
        bases, score = [value for name, value in written.items() if name in rotary], written.get("score")
        if (record and record.ordered) or any(not (isinstance(b, Number) and b.value == 0) for b in bases):
            return True
        # a score formula that is not known here may tell positions apart
        named = [d for d in definitions if isinstance(score, Name) and d.name == score.name]
        return score is not None and (not named or tells_positions(named[-1], inputs))

    lines = [line for formula in [*formulas, *(d.lines for d in definitions)] for line in formula]
    calls = (node for line in lines for node in walk(line.value) if isinstance(node, CallNode))
    positions = "" if any(map(tells, calls)) else " + positions(tokens)"
    return Source("before", f"x = embed.words(tokens){positions}")


# How large a model may be: counted in its text, with its definitions opened, before any of it is made.


class Count:
    """Counts the calls of formulas, with `arithmetic` their sums and products, too; of a choice the larger side."""

    def __init__(self, definitions: Sequence[Definition], arithmetic: bool, most: int, code: str) -> None:
        self.definitions, self.arithmetic = definitions, arithmetic
        self.known: dict[str, int] = {}
        for definition in definitions:
            size = self.known[definition.name] = self.lines(definition.lines, definition.index)
            if size > most:
                raise FormulaError(code, definition.place)

    def lines(self, lines: Sequence[Line], visible: int) -> int:
        return sum(self.node(line.value, visible) for line in lines)

    def node(self, node: Node, visible: int) -> int:
        total = 0
        while isinstance(node, Binary):  # a chain of operators nests as deep as it is long
            total += self.arithmetic + self.node(node.right, visible)
            node = node.left
        if isinstance(node, Choice):
            sides = self.node(node.then, visible), self.node(node.other, visible)
            return total + self.node(node.test, visible) + max(sides)
        if isinstance(node, CallNode):
            above = (d for d in reversed(self.definitions[:visible]) if d.name == node.word)
            total += 1 + next((self.known[definition.name] for definition in above), 0)
        return total + sum(self.node(child, visible) for child in children(node))


def check_size(depth: int, parts: Sequence[Sequence[Line]], definitions: Sequence[Definition]) -> None:
    """Raise FormulaError for a stack that is too large. `parts`: its `before`, its `after`, its layers' formulas."""
    for what, arithmetic, most, in_a_layer, code in LIMITS:
        count = Count(definitions, arithmetic, most, code)
        sizes = [count.lines(part, len(definitions)) for part in parts]
        for size, part in zip(sizes, parts, strict=True):
            if size > in_a_layer:
                raise FormulaError("too-large-a-layer", part[0].place, most=f"{in_a_layer:,}", what=what)
        if sum(sizes[:2]) + depth * max(sizes[2:], default=0) > most:
            raise FormulaError(code, None)
    _, _, layer, *others = parts
    lists, waiting = [], [line.value for line in layer]
    while waiting:  # of those that every layer makes: what depends on a test is left out
        node = waiting.pop()
        if isinstance(node, Index) and node.index is node.first is None:
            lists.append(node)
        waiting += [] if isinstance(node, Choice) else children(node)
    if not others and depth * depth * len(lists) > 2 * MOST_ENTRIES:
        raise FormulaError("too-many-entries", lists[0].place, name=lists[0].name)
