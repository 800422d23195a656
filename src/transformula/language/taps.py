"""Taps: `LABEL.v`, a value made inside a call that stands before."""

from __future__ import annotations

from .context import Context, Scope
from .graph import Frame, Value
from .messages import FormulaError, unknown
from .options import expression
from .syntax import Tap


def tap(node: Tap, context: Context, scope: Scope) -> Value:
    """The value of a tap. Raises FormulaError."""
    labeled = scope.calls.get(f".{node.call}")
    calls = labeled or scope.calls.get(node.call, [])
    if not calls:
        known = sorted(call.lstrip(".") for call in scope.calls)
        remedy = f"a tap follows its call; calls before this line: {', '.join(known) or 'none'}"
        raise unknown("unknown-tap", node.place, node.call, known, call=node.call, tap=node.tap, remedy=remedy)
    if not labeled and len(calls) > 1:
        raise FormulaError("tap-ambiguous", node.place, call=node.call, count=len(calls), tap=node.tap)
    (call,) = calls
    return of_definition(node, call, context) if isinstance(call, Frame) else of_word(node, call, scope)


def of_definition(node: Tap, frame: Frame, context: Context) -> Value:
    """A local value of a definition that was called."""
    value = frame.names.get(node.tap)
    if not isinstance(value, Value) or value.kind == "list":
        known = [name for name, v in frame.names.items() if isinstance(v, Value)]
        remedy = f"its values: {', '.join(known)}"
        raise unknown("unknown-tap", node.place, node.tap, known, call=node.call, tap=node.tap, remedy=remedy)
    definition = context.definition(frame.name)
    for line in definition.lines if definition else ():
        if line.name == node.tap:
            context.reads.line(line.place)
    return value


def of_word(node: Tap, value: Value, scope: Scope) -> Value:
    """A value made inside a call of a word: one for all that read it."""
    call = value.call
    assert call is not None
    known = call.word.taps
    if node.tap not in known:
        remedy = f"its taps: {', '.join(known) or 'none'}"
        raise unknown("unknown-tap", node.place, node.tap, known, call=node.call, tap=node.tap, remedy=remedy)
    if node.tap not in call.taps:
        call.taps.append(node.tap)
    for other in scope.section.values:
        if other.op == "tap" and other.args[0] is value and other.name == node.tap:
            return other
    keys = value.args[len(call.streams) - 1].sequence
    made = Value("tap", (value,), "scores", 1, value.sequence, name=node.tap, place=node.place, keys=keys)
    if known[node.tap]:
        width = expression(call.word, known[node.tap], call.numbers, node.place)
        made.kind, made.width, made.keys = "stream", width, ""
        made.sequence = keys if node.tap in call.word.key_taps else value.sequence
    return scope.add(made)
