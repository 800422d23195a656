"""Another word for a word of the same kind, and another option of a word, as the records of the vocabulary say them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ...language.syntax import CallNode, Line, Literal, Node, Number, spell
from ...language.vocabulary import Option, WordRecord
from ..edit import Edit, edits
from ..sketch import Sketch, shaped

# Numbers for which the records give no few values: those that published models use.
NUMBERS: dict[tuple[str, str], tuple[float, ...]] = {
    ("attention", "rotary"): (0, 10000),
    ("attention", "rotary_part"): (0.5, 1),
    ("attention", "window"): (0, 32, 128),
    ("attention", "cap"): (0, 50),
}
READ_WITH = {
    "rotary_part": "rotary",
    "rotary_pairs": "rotary",
    "rotary_first": "rotary",
}  # option -> without which none
# Options of what a model may see or how large it is are no wiring, or change nothing that training sees.
LEFT = ("causal", "dropout", "two_sided", "top", "size", "heads", "width", "rotary_scale")
# Mixing of positions in the place of attention, each a template of what it reads.
MIXERS = (
    "linear_attention(x)",
    "gru(x, width)",
    "conv(x, 4, depthwise=True)",
    "linear.mixed(running_sum(x) / (1 + running_sum(ones(x, width))), width)",
    "shift(x, 1)",
)


@edits.register("option")
def option(sketch: Sketch) -> Iterator[Edit]:
    """f(x) -> f(x, option=value), for all calls of a word in a formula"""
    for formula in sketch.formulas:
        calls = [call for _, call in formula.sublayers()]
        for word in dict.fromkeys(call.word for call in calls):
            record = sketch.vocabulary.get(word)
            if record is None or any(word == header.partition("(")[0] for header in sketch.text.words):
                continue
            own = [call for call in calls if call.word == word]
            stated = {line.name for call in own for line in call.options}
            for key, value in values_of(record):
                if READ_WITH.get(key, key) != key and READ_WITH[key] not in stated:
                    continue
                pairs = [(call, with_option(call, key, value)) for call in own]
                if any(new is not old for old, new in pairs):
                    yield Edit(formula.with_nodes(pairs), f"{word} has {key}={spell(literal(own[0], value))}")


@edits.register("gated-mlp")
def gated_mlp(sketch: Sketch) -> Iterator[Edit]:
    """mlp(x) -> mlp(x, gated=True, hidden=8 * width // 3): a gate, with as many parameters"""
    hidden = shaped("8 * width // 3")
    for formula in sketch.formulas:
        calls = [call for _, call in formula.sublayers() if call.word == "mlp" and not call.options]
        for activation in ("silu", "gelu") if calls and "mlp" not in defined(sketch) else ():
            new = [with_option(call, "gated", True) for call in calls]
            new = [with_option(call, "activation", activation) for call in new]
            lines = [replace(call, options=(*call.options, Line("hidden", hidden, call.place))) for call in new]
            text = formula.with_nodes([*zip(calls, lines, strict=True)])
            yield Edit(text, f"the MLP is gated with {activation}, at equal parameters")


@edits.register("squared-relu")
def squared_relu(sketch: Sketch) -> Iterator[Edit]:
    """mlp(x) -> down(relu(up(x)) ** 2), as in Primer"""
    body = "y = linear.down(relu(linear.up(x, 4 * width)) ** 2, width)"
    text = sketch.with_definition(sketch.text, "mlp(x)", body) if "mlp" not in defined(sketch) else None
    if text is not None:
        yield Edit(text, "the MLP's activation is the square of relu, as in Primer")


@edits.register("other-mixer")
def other_mixer(sketch: Sketch) -> Iterator[Edit]:
    """attention(x) -> another word that mixes positions"""
    for formula in sketch.formulas:
        calls = [call for _, call in formula.sublayers() if call.word == "attention" and len(call.items) == 1]
        for template in MIXERS if calls else ():
            pairs: list[tuple[Node, Node]] = [(call, shaped(template, x=call.items[0])) for call in calls]
            yield Edit(formula.with_nodes(pairs), f"{template.partition('(')[0]} takes the place of attention")


def defined(sketch: Sketch) -> set[str]:
    """The words that the text defines itself."""
    return {header.partition("(")[0] for header in sketch.text.words}


def values_of(record: WordRecord) -> Iterator[tuple[str, Any]]:
    """The few values of each option of a word, its default among them."""
    for name, one in record.options.items():
        if name in LEFT:
            continue
        for value in few_values(one, NUMBERS.get((record.name, name), ())):
            yield name, value


def few_values(one: Option, numbers: tuple[float, ...]) -> tuple[Any, ...]:
    if one.type == "flag":
        return (True, False)
    return one.choices or numbers


def with_option(call: CallNode, key: str, value: Any) -> CallNode:
    """A call with an option; the same call where it says so already."""
    new = Line(key, literal(call, value), call.place)
    stated = {line.name: line for line in call.options}
    if key in stated and spell(stated[key].value) == spell(new.value):
        return call
    others = tuple(line for line in call.options if line.name != key)
    return replace(call, options=(*others, new))


def literal(call: CallNode, value: Any) -> Node:
    return Literal(call.place, value) if isinstance(value, (str, bool)) else Number(call.place, value)
