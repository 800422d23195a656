"""Who reads what between the sections of a model; which sequence is decoded step by step, and which positions of the
others are real.

Padding stands on the right: `lengths` says how many positions of each row are real. A sequence that a word makes of
others (`prepend`) has their real positions, one after the other; one that comes from no input is real throughout.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, UnknownName
from ..language.graph import Architecture, Section, Stack, Value
from ..language.numbers import evaluate_text
from ..words.cpu import numberless
from ..words.word import word_class

DECODED = "tokens"  # the sequence that is written step by step
Key = tuple[Any, ...]
"""What travels between sections: ("input", name), ("now", name), ("result", stack), ("past", stack, name, layer),
("real", sequence)."""


class SectionRun(NamedTuple):
    """One section to be run, by its place among all; the values it reads and those it makes, as numbers. `grows`: once
    for each chunk in decoding."""

    section: int
    keys: list[Key]
    reads: list[int]
    makes: list[int]
    grows: bool


class Dataflow:
    """Who reads what in a model, or (`decoding`) in its two functions for decoding. Values between sections are numbers
    here.

    runs      the sections, in order
    inputs    the model's inputs and their values; `growing`: those of the sequence that is decoded step by step
    reals     sequences whose real positions something must know, and their values
    outputs   the names of the output, and their values
    fixed     values that no decoded position changes and that something which grows reads

    Raises InputError for an output that is a number.
    """

    def __init__(self, architecture: Architecture, decoding: bool = False) -> None:
        self.architecture = architecture
        self.runs: list[SectionRun] = []
        self.inputs: dict[str, int] = {}
        self.growing: set[str] = set()
        self.reals: dict[str, int] = {}
        self._fresh = itertools.count()
        self._now: dict[Key, int] = {}  # the value that each key stands for where the walk is
        self._grown: set[int] = set()
        sections = architecture.sections()
        for index, section in enumerate(sections):
            self._run(index, section, decoding)
        names = leaving(sections[-1])
        if not names or len(names) < len(sections[-1].leaves):
            raise InputError("the output is a number: it must be made of what the layers leave")
        self.outputs = {name: self._now["now", name] for name in names}
        read = {value for run in self.chosen("step") for value in run.reads}
        once = {value for run in self.chosen("fixed") for value in run.makes} | set(self.reals.values())
        once |= {value for name, value in self.inputs.items() if name not in self.growing}
        self.fixed = sorted(read & once)

    def chosen(self, mode: str) -> list[SectionRun]:
        return [run for run in self.runs if mode == "forward" or run.grows == (mode == "step")]

    def _run(self, index: int, section: Section, decoding: bool) -> None:
        """Run a section, unless it makes nothing, and note what later sections can read of it."""
        if section.where == "before":
            self._now = {key: value for key, value in self._now.items() if key[0] != "now"}
        entering = given_to(self.architecture, section, decoding)
        reads = [self._read(key, values) for key, values in entering.items()]
        makes = {name: next(self._fresh) for name in leaving(section)}
        # a section that reads nothing that grows runs once; the output runs always
        grows = section.where == "output" or any(value in self._grown for value in reads)
        if makes:
            self.runs.append(SectionRun(index, [*entering], reads, [*makes.values()], grows))
        if grows:
            self._grown.update(makes.values())
        self._now |= {("now", name): value for name, value in makes.items()}
        now = {key[1]: value for key, value in self._now.items() if key[0] == "now"}
        stack = stack_of(self.architecture, section).name
        if section.where in ("before", "layer"):
            self._now |= {("past", stack, name, section.number): value for name, value in now.items()}
        if section.where == "after" and "x" in now:
            self._now["result", stack] = now["x"]

    def _read(self, key: Key, values: list[Value]) -> int:
        """The number of what enters a section; inputs and real positions get theirs where they are first read."""
        if key not in self._now and key[0] == "input":
            self._input(key[1], values[0].sequence)
        elif key not in self._now and key[0] == "real":
            sequences = {name: each for each, names in input_sequences(self.architecture).items() for name in names}
            for what, *names in parts_of(description(key[1], self.architecture)):
                if what in ("input", "image") and names[0] not in self.inputs:
                    self._input(names[0], sequences.get(names[0], ""))
            self._now[key] = self.reals[key[1]] = next(self._fresh)
        return self._now[key]

    def _input(self, name: str, sequence: str) -> None:
        value = self._now["input", name] = self.inputs[name] = next(self._fresh)
        if sequence in made_of(self.architecture):
            self.growing.add(name)
            self._grown.add(value)


def given_to(architecture: Architecture, section: Section, decoding: bool) -> dict[Key, list[Value]]:
    """What a section's function is given, in order: names and inputs, then history, then real positions that can be
    padded; with the values of its graph that each one is (none for real positions)."""
    entering: dict[Key, list[Value]] = {}
    for value in section.reads.values():
        entering.setdefault(key_of(value, section), []).append(value)
    past = {key_of(v, section): v for v in section.values if v.op == "history"}
    entering |= {key: [past[key]] for key in sorted(past)}
    causal, growing = stack_of(architecture, section).causal, made_of(architecture) if decoding else set()
    for sequence in dict.fromkeys(sequence_read(value, causal) for value in section.calls()):
        parts = parts_of(description(sequence, architecture)) if sequence and sequence not in growing else ()
        if any(part[0] == "input" for part in parts):  # else it cannot have padding
            entering["real", sequence] = []
    return entering


def key_of(value: Value, section: Section) -> Key:
    if value.op == "input":
        return ("input", value.name)
    if value.op == "history":
        return ("past", value.stack or section.stack, value.name, int(value.number))
    return ("result", value.stack) if value.stack else ("now", value.name)


def leaving(section: Section) -> dict[str, Value]:
    """The names that a section's function returns, and their values."""
    return {name: value for name, value in {**section.leaves, **section.asked}.items() if value.op != "number"}


def output_reads_more(architecture: Architecture) -> str:
    """Why a position of the output is not made of what entered it there alone: what follows "the model's output"; ""
    where it is."""
    section = architecture.output
    leaves = [*leaving(section).values()]
    entering = [*section.reads.values(), *(value for value in section.values if value.op == "history")]
    if len(leaves) != 1:
        return f"makes {len(leaves)} outputs"
    if any(value.op in ("input", "history") or value.sequence != leaves[0].sequence for value in entering):
        return "reads more than the stream that it turns into logits"
    for value in section.calls():
        word, cls = value.called.word, word_class(value.called.word)
        if word.reach != "token" or word.positional or word.kind == "chance" or hasattr(cls, "losses"):
            return f"has {word.name!r}, which is not of each position alone"
        if value.sequence != leaves[0].sequence:
            return f"has {word.name!r}, which makes another sequence"
    return ""


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


def made_of(architecture: Architecture, sequence: str = DECODED) -> set[str]:
    """A sequence, and those that are made of it: by default those that grow in step-by-step decoding."""
    names = {sequence}
    for name, value in makers(architecture).items():
        if any(a.sequence in names for a in value.args):
            names.add(name)
    return names


def across(value: Value) -> bool:
    """Whether a call's streams belong to several sequences; one position that all see belongs to none of them. Streams
    that belong together do not, coefficients among them. A table of distances, of which scores are made, is no
    sequence."""
    word, streams = value.called.word, value.args[: len(value.called.streams)]
    if word.together or value.word_kind == "scores":
        return False
    return len({stream.sequence for stream in streams}) > 1


def positions_learned(value: Value, sequences: Collection[str]) -> int | None:
    """How many positions of these sequences a call tells apart by a table of so many rows; None for any other call."""
    word, options = value.called.word, value.called.options
    if not (value.sequence in sequences and word.positional and word.parameters and "rows" in options):
        return None
    return int(options["rows"] - options.get("first", 0))


def reads_any_length(architecture: Architecture, name: str) -> bool:
    """Whether nothing that is learned, such as a table of positions or of distances, limits how long an input is."""
    sequences = made_of(architecture, name)
    for value in (value for section in architecture.sections() for value in section.calls()):
        tables = any(getattr(option, "longest", 0) for option in value.called.options.values())
        if tables or positions_learned(value, sequences) is not None:
            return False
    return True


def sequence_read(value: Value, causal: bool) -> str:
    """The sequence whose real positions a call must know, or "": there is none, or its padding cannot be seen."""
    call = value.called
    if not call.word.padding or not call.streams or (call.word.reach == "past" and causal and not across(value)):
        return ""
    streams = value.args[: len(call.streams)]
    if call.word.together:  # one sequence, beside which one position of none goes with all
        return next((stream.sequence for stream in streams if stream.sequence), "")
    return streams[-1].keys if streams[-1].kind == "scores" else streams[-1].sequence


def description(sequence: str, architecture: Architecture) -> Any:
    """How the real positions of a sequence follow from the inputs, as nested tuples.

    ("input", *names)       those of the inputs of one sequence
    ("rows", n)             n positions, all real
    ("image", name, size, stride, padding)      the squares of an image, all real
    ("joined", a, b)        those of one, then those of another
    ("every", m, n, a)      those numbered m, m + n, m + 2 n, ... of another
    ("grid", columns, side, stride, padding, dilation, a)       the windows of another, a grid
    ("larger", n, dimensions, columns, a)       n, or n by n of a grid, for each of another
    None                    all real, of a length that does not matter
    """
    value = makers(architecture).get(sequence)
    if value is None:
        reads = [read for section in architecture.sections() for read in section.reads.values()]
        names = [read.name for read in reads if read.op == "input" and read.sequence == sequence]
        return ("input", *dict.fromkeys(names)) if names else None
    options = value.called.options
    match value.called.word.real:
        case "joined":
            return ("joined", *(description(a.sequence, architecture) for a in value.args))
        case "patches":
            return ("image", value.args[0].name, *(int(options[key]) for key in ("size", "stride", "padding")))
        case "larger" if to := stated_size(value):
            return ("rows", to)
        case "grid" | "larger":
            return grid_made(value, architecture)
        case "strided":
            first, step = numbers_made(value)
            return ("every", first, step, description(value.args[0].sequence, architecture))
        case "rows":
            return ("rows", int(options["rows"]))
    return None


def numbers_made(value: Value) -> list[int]:
    """The numbers by which a call makes its sequence."""
    return [int(evaluate_text(text, value.called.numbers)) for text in value.called.word.strided]


def stated_size(value: Value) -> int:
    """How many positions a call makes of another grid, whatever its size; 0: as many as follow from it."""
    *_, to_rows, to_columns = numbers_made(value)
    return to_rows * to_columns


def grid_made(value: Value, architecture: Architecture) -> tuple[Any, ...]:
    """The sequence that a word of grids makes of another, described."""
    if value.called.word.real == "larger":
        n, dimensions, columns, *_ = numbers_made(value)
        return ("larger", max(n, 1), dimensions, columns, description(value.args[0].sequence, architecture))
    keys = ("columns", "side", "stride", "padding", "dilation")
    windows = (int(value.called.options.get(key, 1)) for key in keys)
    return ("grid", *windows, description(value.args[0].sequence, architecture))


def input_sequences(architecture: Architecture) -> dict[str, list[str]]:
    """The sequences that inputs are, each with its inputs: `lengths` are given by the name of any of them."""
    inputs: dict[str, list[str]] = {}
    for section in architecture.sections():
        for value in section.reads.values():
            if value.op == "input" and value.name != "image":
                names = inputs.setdefault(value.sequence, [])
                names += [value.name] * (value.name not in names)
    return inputs


def parts_of(described: Any) -> Iterator[tuple[Any, ...]]:
    """A description and those inside it, in order."""
    if isinstance(described, tuple):
        yield described
        for part in described[1:]:
            yield from parts_of(part)


def inputs_of(described: Any) -> list[str]:
    parts = {"input": slice(1, None), "image": slice(1, 2)}
    return [name for part in parts_of(described) for name in part[parts.get(part[0], slice(0))]]


def real_positions(lengths: Any, described: Any, names: tuple[str, ...], *tensors: Tensor) -> Tensor | None:
    """(batch, length), bool: which positions of the described sequence are real; None where all are.

    `tensors` are the inputs called `names`."""
    if lengths is None:
        return None
    inputs = dict(zip(names, tensors, strict=True))
    if not isinstance(lengths, Mapping):
        lengths = {name: lengths for name in inputs_of(described)}
    return _real(lengths, described, inputs) if any(name in lengths for name in inputs) else None


def _real(lengths: Mapping[str, Tensor], described: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    if described is None:
        raise InputError("the padding of this sequence does not follow from the inputs' lengths")
    what, *parts = described
    if what == "joined":
        return torch.cat([_real(lengths, part, inputs) for part in parts], 1)
    if what == "every":
        first, step, other = parts
        # contiguous: exported code would hold only for lengths whose strides are in the order of these
        return _real(lengths, other, inputs)[:, first::step].contiguous()
    if what == "grid":
        from ..words.grid import real_windows

        *windows, other = parts
        return real_windows(_real(lengths, other, inputs), *windows)
    if what == "larger":
        from ..words.grid import larger

        *numbers, other = parts
        return larger(_real(lengths, other, inputs), *numbers)
    any_input = next(iter(inputs.values()))
    batch, device = any_input.shape[0], any_input.device
    if what == "rows":
        count = parts[0]
    elif what == "image":
        from ..words.grid import results

        name, *squares = parts
        height, width = (results(side, *squares) for side in inputs[name].shape[-2:])
        count = height * width
    else:
        count = inputs[parts[0]].shape[1]
        for each in (lengths[name] for name in parts if lengths.get(name) is not None):
            return torch.arange(count, device=device) < each.to(device)[:, None]
    return torch.ones(batch, count, dtype=torch.bool, device=device)


def check_lengths(lengths: Any, sequences: tuple[tuple[str, ...], ...], *tensors: Tensor) -> None:
    """Raise InputError unless `lengths` is None, a tensor (batch,) of whole numbers, or a mapping of such by input.

    `tensors` are the inputs of the sequences, in order."""
    if lengths is None:
        return
    names = [name for inputs in sequences for name in inputs]
    if not isinstance(lengths, Mapping):
        if len(sequences) != 1:
            known = " or ".join(inputs[0] for inputs in sequences)
            raise InputError(f"the model has several sequences: give lengths={{name: tensor}} of {known}")
        lengths = {names[0]: lengths}
    for name, given in lengths.items():
        if name not in names:
            raise UnknownName("sequence in lengths", str(name), names)
        if given is None:
            continue
        batch, length = dict(zip(names, tensors, strict=True))[name].shape[:2]
        if not isinstance(given, Tensor) or given.dtype not in (torch.int64, torch.int32) or given.shape != (batch,):
            raise InputError(f"lengths of {name} must be whole numbers, ({batch},): one for each row")
        if not torch.compiler.is_compiling() and not numberless(given) and bool(((given < 1) | (given > length)).any()):
            raise InputError(f"lengths of {name} must lie between 1 and {length}; given: {given.tolist()}")


def channels_of_inputs(architecture: Architecture) -> dict[str, int]:
    """The inputs that hold several numbers at a position, as `values` reads them, and how many."""
    calls = [value for section in architecture.sections() for value in section.calls()]
    return {call.args[0].name: int(call.called.options["size"]) for call in calls if call.called.streams == ("series",)}


def check_ids(ids: Any, name: str, shape: str) -> None:
    """Raise InputError unless `ids` is a tensor of ids, of so many dimensions as `shape`: "(batch, length)"."""
    if not isinstance(ids, Tensor):
        raise InputError(f"{name} must be a tensor of whole numbers, {shape}; this is a {type(ids).__name__}")
    dimensions = shape.count(",") + 1
    if ids.dim() != dimensions:
        hint = f": write {name}[None] for a batch of one" if ids.dim() == dimensions - 1 else ""
        raise InputError(f"{name} must be {shape}; this has the shape {tuple(ids.shape)}{hint}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise InputError(f"{name} must be whole numbers (torch.int64 or int32); these are {ids.dtype}")
