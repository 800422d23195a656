"""Sequences: which of them is decoded step by step, which positions of the others are real, what travels where.

Padding stands on the right: `lengths` says how many positions of each row are real. A sequence that a word makes of
others (`prepend`) has their real positions, one after the other; one that comes from no input is real throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, UnknownName
from ..language.graph import Architecture, Section, Stack, Value

Key = tuple[Any, ...]
"""What travels between sections: ("input", name), ("now", name), ("result", stack), ("past", stack, name, layer),
("real", sequence)."""

DECODED = "tokens"
"""The sequence that is written step by step."""


def stack_of(architecture: Architecture, section: Section) -> Stack:
    """The stack that a section belongs to; the output goes with the last."""
    return next((s for s in architecture.stacks if section in s.sections()), architecture.main)


def makers(architecture: Architecture) -> dict[str, Value]:
    """The call that makes each sequence that is made inside the model, by the sequence's name."""
    by_sequence: dict[str, Value] = {}
    for section in architecture.sections():
        for value in section.calls():
            if value.sequence and all(a.sequence != value.sequence for a in value.args):
                by_sequence.setdefault(value.sequence, value)
    return by_sequence


def decoded(architecture: Architecture) -> set[str]:
    """The sequences that grow in step-by-step decoding: that of the tokens, and what is made of it."""
    return made_of(architecture, DECODED)


def made_of(architecture: Architecture, sequence: str) -> set[str]:
    """A sequence, and those that are made of it."""
    names = {sequence}
    for name, value in makers(architecture).items():
        if any(a.sequence in names for a in value.args):
            names.add(name)
    return names


def across(value: Value) -> bool:
    """Whether a call's streams belong to several sequences; one position that all see belongs to none of them. A table
    of distances, of which scores are made, is no sequence."""
    assert value.call is not None
    if value.call.word.kind == "scores":
        return False
    return len({a.sequence for a in value.args[: len(value.call.streams)]}) > 1


def stepped(value: Value, growing: set[str]) -> bool:
    """Whether a call must be told, in decoding, where the chunk stands: it acts on what grows, and on its past."""
    call = value.call
    assert call is not None
    on_it = value.sequence in growing or any(a.sequence in growing for a in value.args)
    return on_it and (call.word.positional or call.word.reach == "past")


def positions_learned(value: Value, sequences: set[str]) -> int | None:
    """How many positions of these sequences a call tells apart by a table of so many rows; None for any other call."""
    call = value.call
    assert call is not None
    if not (value.sequence in sequences and call.word.positional and call.word.parameters and "rows" in call.options):
        return None
    return int(call.options["rows"] - call.options.get("first", 0))


def sequence_read(value: Value, causal: bool) -> str:
    """The sequence whose real positions a call must know, or "": there is none, or its padding cannot be seen."""
    call = value.call
    assert call is not None
    if not call.word.padding or not call.streams:
        return ""
    if call.word.reach == "past" and causal and not across(value):
        return ""
    return value.args[len(call.streams) - 1].sequence


def entering(section: Section, causal: bool, step: bool, growing: set[str]) -> list[tuple[Key, list[Value]]]:
    """What a section is given, in order: names and inputs, then history, then real positions; with the values of its
    graph that each one is (none for real positions)."""
    entered: dict[Key, list[Value]] = {}
    for value in section.reads.values():
        entered.setdefault(key_of(value, section), []).append(value)
    past = {key_of(v, section): v for v in section.values if v.op == "history"}
    for key in sorted(past):
        entered[key] = [past[key]]
    for value in section.calls():
        sequence = sequence_read(value, causal)
        if sequence and not (step and sequence in growing):
            entered.setdefault(("real", sequence), [])
    return list(entered.items())


def key_of(value: Value, section: Section) -> Key:
    """Where a value that enters a section comes from."""
    if value.op == "input":
        return ("input", value.name)
    if value.op == "history":
        return ("past", value.stack or section.stack, value.name, int(value.number))
    return ("result", value.stack) if value.stack else ("now", value.name)


def named(key: Key) -> str:
    """What travels between sections, as a formula says it."""
    return f"{key[2]}[{key[3]}]" if key[0] == "past" else str(key[1])


def description(sequence: str, architecture: Architecture) -> Any:
    """How the real positions of a sequence follow from the inputs, as nested tuples.

    ("input", name)         those of an input
    ("rows", n)             n positions, all real
    ("image", name, size)   the squares of an image, all real
    ("joined", a, b)        those of one, then those of another
    ("every", n, a)         of each n of those of another the first
    None                    all real, of a length that does not matter
    """
    made = makers(architecture).get(sequence)
    if made is None:
        for section in architecture.sections():
            for value in section.reads.values():
                if value.op == "input" and value.sequence == sequence:
                    return ("input", value.name)
        return None
    call = made.call
    assert call is not None
    match call.word.real:
        case "joined":
            return ("joined", *(description(a.sequence, architecture) for a in made.args))
        case "patches":
            return ("image", made.args[0].name, int(call.options["size"]))
        case "strided":
            return ("every", int(call.options["stride"]), description(made.args[0].sequence, architecture))
        case "rows":
            return ("rows", int(call.options["rows"]))
    return None


def input_sequences(architecture: Architecture) -> dict[str, str]:
    """The sequences that inputs are, each with the first input that it is: what `lengths` can be given for."""
    inputs: dict[str, str] = {}
    for section in architecture.sections():
        for value in section.reads.values():
            if value.op == "input" and value.name != "image":
                inputs.setdefault(value.sequence, value.name)
    return inputs


def padded(described: Any) -> bool:
    """Whether a sequence can have padding at all."""
    return described is not None and (described[0] == "input" or any(padded(d) for d in described[1:] if _nested(d)))


def _nested(part: Any) -> bool:
    return isinstance(part, tuple)


def inputs_of(described: Any) -> Iterator[str]:
    """The inputs that a description reads, in order."""
    if described is not None:
        if described[0] in ("input", "image"):
            yield described[1]
        for part in described[1:]:
            if _nested(part):
                yield from inputs_of(part)


def real_positions(lengths: Any, described: Any, names: tuple[str, ...], *given: Tensor) -> Tensor | None:
    """(batch, length), bool: which positions of the described sequence are real; None where all are.

    `given` are the inputs called `names`."""
    if lengths is None:
        return None
    inputs = dict(zip(names, given, strict=True))
    if not isinstance(lengths, Mapping):
        lengths = {name: lengths for name in inputs_of(described)}
    if not any(name in lengths for name in inputs):
        return None
    batch = given[0].shape[0]
    return _real(lengths, described, inputs, batch, given[0].device)


def _real(
    lengths: Mapping[str, Tensor], described: Any, inputs: Mapping[str, Tensor], batch: int, device: torch.device
) -> Tensor:
    if described is None:
        raise InputError("the padding of this sequence does not follow from the inputs' lengths")
    what, *parts = described
    if what == "joined":
        return torch.cat([_real(lengths, part, inputs, batch, device) for part in parts], 1)
    if what == "rows":
        return torch.ones(batch, parts[0], dtype=torch.bool, device=device)
    if what == "every":
        return _real(lengths, parts[1], inputs, batch, device)[:, :: parts[0]]
    given = inputs[parts[0]]
    if what == "image":
        squares = (given.shape[-2] // parts[1]) * (given.shape[-1] // parts[1])
        return torch.ones(batch, squares, dtype=torch.bool, device=device)
    if parts[0] not in lengths:
        return torch.ones(batch, given.shape[1], dtype=torch.bool, device=device)
    return torch.arange(given.shape[1], device=device) < lengths[parts[0]].to(device)[:, None]


def check_lengths(lengths: Any, names: tuple[str, ...], *given: Tensor) -> None:
    """Raise InputError unless `lengths` is None, a tensor (batch,) of whole numbers, or a mapping of such by input."""
    if lengths is None:
        return
    if isinstance(lengths, Mapping):
        for name in lengths:
            if name not in names:
                raise UnknownName("sequence in lengths", str(name), names)
    elif len(names) != 1:
        raise InputError(f"the model has several sequences: give lengths={{name: tensor}} of {' or '.join(names)}")
    for name, tensor in zip(names, given, strict=True):
        one = lengths.get(name) if isinstance(lengths, Mapping) else lengths
        if one is None:
            continue
        if not isinstance(one, Tensor) or one.dtype not in (torch.int64, torch.int32) or one.shape != tensor.shape[:1]:
            raise InputError(f"lengths of {name} must be whole numbers, ({tensor.shape[0]},): one for each row")
        if not torch.compiler.is_compiling() and bool(((one < 1) | (one > tensor.shape[1])).any()):
            raise InputError(f"lengths of {name} must lie between 1 and {tensor.shape[1]}; given: {one.tolist()}")
