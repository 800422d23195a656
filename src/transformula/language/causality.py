"""What a causal stack may read: nothing that has seen its own sequence as a whole.

Two ways lead past the causal mask, and both are refused: the result of a stack that saw all of the sequence, and a word
that lets another sequence, to which the mask does not apply, see all of this one. (A third, a word of reach "all", is
refused where it stands.) The output is free to do either: nothing is made behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .graph import Architecture, Section, Stack, Value
from .messages import FormulaError

DECODED = "tokens"  # the input that is written step by step


def check_causal(architecture: Architecture, streams: Mapping[str, str]) -> None:
    """Raise FormulaError where a causal stack reads what has seen its own sequence as a whole.

    streams  for each stack, by its name, the sequence of its x on leaving `before`
    """
    made_of = roots(architecture)
    reads: dict[str, set[str]] = {}  # by stack: the inputs that its result is made of
    seen: dict[str, set[str]] = {}  # those of them that it has seen as a whole
    for stack in architecture.stacks:
        inputs = {v.sequence for s in stack.sections() for v in s.reads.values() if v.op == "input"}
        own = made_of.get(streams.get(stack.name, ""), frozenset()) | (inputs & {DECODED})
        others = {value.stack for value in from_others(stack)}
        reads[stack.name] = inputs.union(*(reads[name] for name in others))
        seen[stack.name] = reads[stack.name]
        if stack.causal:
            seen[stack.name] = (inputs - own).union(*(seen[name] for name in others))
            for value in from_others(stack):
                if seen[value.stack] & own:
                    raise FormulaError("not-causal", value.place, name=value.stack)
            for section in stack.sections():
                check_across(section, own, made_of)


def from_others(stack: Stack) -> Iterator[Value]:
    """What a stack reads of those before it: results and history."""
    for section in stack.sections():
        yield from (v for v in section.values if v.op in ("name", "history") and v.stack not in ("", stack.name))


def check_across(section: Section, own: frozenset[str] | set[str], made_of: Mapping[str, frozenset[str]]) -> None:
    """Raise FormulaError where a word lets the queries of another sequence see all of the stack's own."""
    for value in section.calls():
        call = value.call
        assert call is not None
        if call.word.kind != "positions" or call.word.reach != "past":
            continue
        queries, keys = (value.args[at].sequence for at in (0, len(call.streams) - 1))
        if queries != keys and made_of.get(keys, frozenset()) & own:
            raise FormulaError("sees-ahead", value.place, word=call.name, queries=queries or "no sequence", keys=keys)


def roots(architecture: Architecture) -> dict[str, frozenset[str]]:
    """For each sequence the inputs that its positions are made of."""
    found: dict[str, frozenset[str]] = {}
    for section in architecture.sections():
        for value in section.values:
            if value.op == "input":
                found.setdefault(value.sequence, frozenset({value.sequence}))
            elif value.op == "call" and value.sequence and value.sequence not in found:
                found[value.sequence] = frozenset().union(*(found.get(a.sequence, frozenset()) for a in value.args))
    return found
