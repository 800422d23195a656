"""From texts to the checked graph: what a model means.

`check` runs through `before`, layers 1 to depth, `after` and `output` as the model will, with values that know their
kind, width and sequence instead of tensors. The files of this folder, in the order in which to read them:

    text       source (a text and places in it), syntax (its tree), parser, rewriting (trees changed, and back to text)
    file       model_file, model_writing
    numbers    numbers; messages (every error, with its example)
    words      vocabulary (records of words), definitions (words made of words), score_formula, score_binding
    graph      graph (what is made), context (what all below share: names on their way, what has been read)
    check      names; options -> word_calls -> expressions -> stacks -> this file
    afterward  reading (what may be, and what must be), roles (names of parameters)

One object of each kind works on one `Context`; those below are handed those above:

    Names        what a name, x[n], x[:] or LABEL.v stands for
    WordCall     a call held against the word's record
    Expressions  lines, expressions and calls -> values; opens definitions
    Stacks       formulas in their order, section by section
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from .context import Context
from .definitions import Definition, check_second, read_definition
from .graph import Architecture
from .messages import FormulaError
from .model_file import MOST_CARRIED, ModelText
from .numbers import as_number, is_whole, resolve
from .parser import parse_expression
from .reading import check_causal, check_outside, check_unread, outside_words, trim
from .roles import name_modules
from .source import Source
from .stacks import DEFAULT_NUMBERS, Stacks
from .vocabulary import Vocabulary

DEFAULT_OUTPUT = "logits = unembed.words(x)"
WORD = re.compile(r"[A-Za-z_]\w*")


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
    numbers = {key: parse_expression(source) for key, source in {**text.numbers, **defaults}.items()}
    context.numbers = resolve(numbers, {}, context.reads.numbers)
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
    note_policy(context)
    check_unread(architecture, context)
    streams = {name: left[0][1]["x"].value.sequence for name, left in context.flow.history.items() if "x" in left[0][1]}
    check_causal(architecture, streams)
    check_outside(context)
    trim(architecture, context.flow)
    name_modules(architecture)
    architecture.text = dataclasses.replace(text, extra={**text.extra, **outside_words(architecture)})
    return architecture


def written(hook: Any) -> str:
    """The text of a hook, as it stands in a file or as it was typed."""
    return hook.text if isinstance(hook, Source) else str(hook or "")


def definition_of(header: str, body: Source, context: Context) -> Definition:
    """A row of `words:`. Raises FormulaError; the name may be that of a word, and of chance that of a number."""
    definition = read_definition(header, body, len(context.definitions))
    name, record = definition.name, context.vocabulary.get(definition.name)
    chance = record is not None and record.kind == "chance"
    for other, taken in (
        ("a definition", context.definition(name) is not None),
        ("a number of the file", name in context.numbers and not chance),
        ("an input of the task", name in context.inputs and not chance),
    ):
        if taken:
            raise FormulaError("two-things", definition.place, name=name, other=other)
    if definition.second:
        numbers = {*context.numbers, *(number for stack in context.text.stacks for number in stack.numbers)}
        check_second(definition, numbers, context.inputs, context.reads.numbers)
    return definition


def note_policy(context: Context) -> None:
    """Note what the model's `policy` reads: the names in its brackets that every layer of a stack sets."""
    policy = written(context.text.hooks.get("policy"))
    names = [name for name in WORD.findall(policy.partition("(")[2]) if name not in context.numbers]
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
    value = as_number(node, stacks.expressions.names.evaluate(node, context.numbers))
    if not is_whole(value) or not 1 <= value <= MOST_CARRIED:
        detail = f"is {value:g}, but must be a whole number from 1 to {MOST_CARRIED:,}"
        remedy = "say how many positions of the segments before are seen, or take the key out"
        raise FormulaError("key-value", node.place, name="carry", detail=detail, remedy=remedy)
    return value
