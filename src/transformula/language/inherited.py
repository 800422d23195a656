"""What a formula takes from another model where it says nothing itself, so that it differs in its lines alone.

A bare formula is the `layer` and no more. Beside a model with a final norm, with ReLU in its MLPs or with RMSNorm it
would differ in these as well, unless it takes them. `inherited` gives it

    options   of OPTIONS, such as activation="relu", where each call of a word in the other's layers states the same;
              the others, such as `score` and `rotary`, are what an idea leaves out
    keys      before, after, share, causal, output and the hooks, which the formula does not state; but `calibrate`,
              which measures the coefficients of the other's own lines
    words     definitions of the other's file that the formula now reads, `norm: x = rmsnorm(x)`
    numbers   those that it now reads, but the size: depth, width, heads, vocab and context

Keys that do not fit (`after` may read a stream that the formula never sets) are left out, as few as possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from ..errors import shortened
from .messages import FormulaError
from .model_text import FREE_NUMBERS, HOOKS, ModelText, StackText
from .parser import parse
from .source import Source
from .syntax import CallNode, Line, Node, rewritten, spell, walk
from .vocabulary import Vocabulary

KEYS = ("before", "after", "share", "causal", "output", *(hook for hook in HOOKS if hook != "calibrate"))
OPTIONS = ("activation", "dropout")
READ = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*=(?!=))")  # a name that is read; `channels=3` is an option
MOST_OF_A_DEFINITION = 48  # signs that a note shows of it
Given = dict[str, dict[str, Line]]  # word -> option -> what each call states


@dataclass(frozen=True)
class Inherited:
    """A text with what it takes. taken: in words, 'after: x = norm(x)'; refused: keys that do not fit."""

    text: ModelText
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def notes(self, other: str) -> tuple[str, ...]:
        """What was taken from the other model, by its name, and what was not: sentences without their subject."""
        taken = [f"takes from {other} what it does not state: {', '.join(self.taken)}"] if self.taken else []
        return (*taken, *(f"does without {key} of {other}, which does not fit its lines" for key in self.refused))


def inherited(
    text: ModelText,
    other: ModelText,
    stated: Collection[str],
    vocabulary: Vocabulary,
    fits: Callable[[ModelText], bool],
) -> Inherited:
    """A formula's text with what it takes from another model's.

    stated  keys that are given beside the formula, which it does not take
    fits    whether a text can be checked

    Where nothing fits, or one of the two has several stacks, the text stays as it is.
    """
    if not (text.single and other.single):
        return Inherited(text)
    try:
        with_options, options = take_options(text, other, vocabulary)
    except FormulaError:  # which the check of the text tells
        return Inherited(text)
    keys = [key for key in KEYS if key not in stated and value_of(text, key) is None and value_of(other, key)]
    numbers = [key for key in implied(other, vocabulary) if key not in stated]
    parts = [*keys, *numbers]
    for count in range(len(parts) + 1):
        for gone in combinations(parts, count):
            whole = with_keys(with_options, other, [key for key in keys if key not in gone])
            whole = with_names(whole, other, {*stated, *gone}, [key for key in numbers if key not in gone])
            if fits(whole):
                refused = tuple(key for key in gone if key in keys)
                return Inherited(whole, tuple([*options, *news(text, whole)]), refused)
    return Inherited(text)


def value_of(text: ModelText, key: str) -> Any:
    """What a text of one stack says under a key; None where it does not."""
    if key == "output":
        return text.output
    if key in HOOKS:
        return text.hooks.get(key)
    (stack,) = text.stacks
    return (None if stack.causal else "false") if key == "causal" else getattr(stack, key)


def with_keys(text: ModelText, other: ModelText, keys: Collection[str]) -> ModelText:
    """A text with the other's formulas and hooks under some keys, with their places."""
    own = {key: value_of(other, key) for key in keys}
    hooks = {**text.hooks, **{key: own.pop(key) for key in HOOKS if key in own}}
    outer = {"output": own.pop("output")} if "output" in own else {}
    own |= {"causal": False} if "causal" in own else {}
    (stack,) = text.stacks
    return replace(text, stacks=(replace(stack, **own),), hooks=hooks, **outer)


def with_names(text: ModelText, other: ModelText, stated: Collection[str], numbers: Collection[str]) -> ModelText:
    """A text with the other's definitions and numbers that it reads, and those that these read."""
    text = replace(text, numbers={**{key: other.numbers[key] for key in numbers}, **text.numbers})
    while True:
        read = names_in(text)
        words = {header: body for header, body in other.words.items() if name_of(header) in read}
        known = {*map(name_of, text.words), *stated}
        words = {header: body for header, body in words.items() if name_of(header) not in known}
        free = {key for key in other.numbers if key in read} - {*text.numbers, *FREE_NUMBERS, *stated}
        if not words and not free:
            order = [header for header in other.words if header in text.words]
            own = {header: body for header, body in text.words.items() if header not in order}
            return replace(text, words={**{header: text.words[header] for header in order}, **own})
        own_numbers = {**text.numbers, **{key: other.numbers[key] for key in other.numbers if key in free}}
        text = replace(text, words={**text.words, **words}, numbers=own_numbers)


def names_in(text: ModelText) -> set[str]:
    """All names that the formulas, numbers and hooks of a text read."""
    hooks = [part for hook in text.hooks.values() for part in (hook.values() if isinstance(hook, Mapping) else [hook])]
    sources = [*text.formulas, *text.numbers.values(), *hooks]
    headers = [header.partition("(")[2] for header in text.words]
    texts = [source.text if isinstance(source, Source) else str(source) for source in sources]
    return {name for one in [*texts, *headers] for name in READ.findall(one)}


def name_of(header: str) -> str:
    """The name of a definition: 'swiglu' of 'swiglu(x, hidden=4*width)'."""
    return header.partition("(")[0].strip()


def implied(other: ModelText, vocabulary: Vocabulary) -> list[str]:
    """Numbers of a file that no text reads, but the default of an option, as `dropout` is read by the word."""
    defaults = [option.default for record in vocabulary.values() for option in record.options.values()]
    named = {name for text in defaults if isinstance(text, str) for name in READ.findall(text)}
    return [key for key in other.numbers if key in named and key not in FREE_NUMBERS]


def take_options(text: ModelText, other: ModelText, vocabulary: Vocabulary) -> tuple[ModelText, list[str]]:
    """A text whose calls state the options that every call of the same word in the other's layers states alike; and
    these in words: 'mlp(activation="relu")'. Raises FormulaError."""
    (own,), (theirs,) = text.stacks, other.stacks
    common = stated_alike(theirs, vocabulary, {*map(name_of, other.words)})
    taken: dict[str, dict[str, str]] = {}
    layers = dict(own.layers)
    for name, source in own.layers.items():
        lines, more = parse(source), dict[str, dict[str, str]]()
        new = [f"{line.name} = {spell(with_options(line.value, common, more))}" for line in lines]
        if more:
            layers[name] = replace(source, text="\n".join(new))
            taken |= more
    words = [f"{word}({', '.join(f'{key}={value}' for key, value in row.items())})" for word, row in taken.items()]
    return replace(text, stacks=(replace(own, layers=layers),)), words


def stated_alike(stack: StackText, vocabulary: Vocabulary, defined: Collection[str]) -> Given:
    """Word -> option of OPTIONS -> what each call of the word in a stack's layers says of it. Words that the file
    redefines are left out: what they mean is in their definition."""
    calls: dict[str, list[dict[str, Line]]] = {}
    for call in calls_in(stack):
        if call.word in vocabulary and call.word not in defined:
            calls.setdefault(call.word, []).append({o.name: o for o in call.options if o.name in OPTIONS})
    alike: Given = {}
    for word, (first, *others) in calls.items():
        same = {key: o for key, o in first.items() if all(spelled(other.get(key)) == spelled(o) for other in others)}
        alike |= {word: same} if same else {}
    return alike


def spelled(option: Line | None) -> str | None:
    return None if option is None else spell(option.value)


def calls_in(stack: StackText) -> Iterator[CallNode]:
    """The calls that stand in the formulas of a stack's layers."""
    for source in stack.layers.values():
        for line in parse(source):
            yield from (node for node in walk(line.value) if isinstance(node, CallNode))


def with_options(node: Node, common: Given, taken: dict[str, dict[str, str]]) -> Node:
    """An expression whose calls state the common options, too; what is new is added to `taken`."""

    def wider(call: Node) -> Node | None:
        if not isinstance(call, CallNode) or call.word not in common:
            return None
        stated = {option.name for option in call.options}
        new = [option for key, option in common[call.word].items() if key not in stated]
        if new:
            taken.setdefault(call.word, {}).update({option.name: spell(option.value) for option in new})
        items = tuple(rewritten(item, wider) for item in call.items)
        options = tuple(replace(option, value=rewritten(option.value, wider)) for option in call.options)
        return replace(call, items=items, options=(*options, *new))

    return rewritten(node, wider)


def news(before: ModelText, after: ModelText) -> Iterator[str]:
    """What a text says more than before, beside its layers: 'after: x = norm(x)'."""
    for header, body in after.words.items():
        if header not in before.words:
            yield f"{header}: {shortened(one_line(body), MOST_OF_A_DEFINITION)}"
    for key, number in after.numbers.items():
        if key not in before.numbers:
            yield f"{key}: {one_line(number)}"
    for key in KEYS:
        if (value := value_of(after, key)) is not None and value_of(before, key) is None:
            yield f"{key}: {one_line(value)}"


def one_line(value: Any) -> str:
    """A formula, a number or a hook on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one_line(inner)}" for key, inner in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(one_line, value))
    text = value.text if isinstance(value, Source) else str(value)
    return "; ".join(line.strip() for line in text.strip().splitlines())
