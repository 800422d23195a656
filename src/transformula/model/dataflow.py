"""Who reads what between the sections of a model: `dataflow_of` gives a number to every value that travels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..language.graph import Architecture, Section, Value
from .sequences import Key, decoded, description, entering, input_sequences, inputs_of, padded, stack_of


@dataclass
class SectionRun:
    """One section to be run: the values it reads and those it makes, as numbers. `grows`: once for each chunk in
    decoding."""

    index: int
    reads: list[int]
    makes: list[int]
    grows: bool


@dataclass
class Dataflow:
    """Who reads what. Values between sections are numbers here.

    runs      the sections, in order
    inputs    the model's inputs and their values; `growing`: those of the sequence that is decoded step by step
    reals     sequences whose real positions something must know, and their values
    outputs   the names of the output, and their values
    fixed     values that no decoded position changes and that something which grows reads
    """

    runs: list[SectionRun] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    growing: set[str] = field(default_factory=set)
    reals: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    fixed: list[int] = field(default_factory=list)
    count: int = 0

    def fresh(self) -> int:
        """A number for one more value."""
        self.count += 1
        return self.count - 1

    def chosen(self, mode: str) -> list[SectionRun]:
        """The sections that a function runs: "forward", "fixed" or "step"."""
        return [run for run in self.runs if mode == "forward" or run.grows == (mode == "step")]


def dataflow_of(architecture: Architecture, decoding: bool = False) -> Dataflow:
    """The flow of a model; for decoding that of its two functions. Raises InputError for an output that is a number."""
    walk = _Walk(architecture, decoding)
    sections, flow = architecture.sections(), walk.flow
    for index, section in enumerate(sections):
        walk.add(index, section)
    flow.outputs = {name: walk.now["now", name] for name in leaving(sections[-1])}
    if not flow.outputs or len(flow.outputs) < len(sections[-1].leaves):
        raise InputError("the output is a number: it must be made of what the layers leave")
    read = {value for run in flow.chosen("step") for value in run.reads}
    made_once = {value for run in flow.chosen("fixed") for value in run.makes} | set(flow.reals.values())
    given_once = {value for name, value in flow.inputs.items() if name not in flow.growing}
    flow.fixed = sorted(read & (made_once | given_once))
    return flow


class _Walk:
    """Walks the sections in order. `now`: the value that each key stands for there; `grown`: the values that grow."""

    def __init__(self, architecture: Architecture, decoding: bool) -> None:
        self.architecture, self.flow = architecture, Dataflow()
        self.growing = decoded(architecture)
        self.now: dict[Key, int] = {}
        self.grown: set[int] = set()
        self.given = [given_to(architecture, section, decoding) for section in architecture.sections()]
        self.history = {key for given in self.given for key, _ in given if key[0] == "past"}

    def add(self, index: int, section: Section) -> None:
        """Run a section, unless it makes nothing."""
        if section.where == "before":
            self.now = {key: value for key, value in self.now.items() if key[0] in ("input", "result", "past", "real")}
        reads = [self.read(key, values) for key, values in self.given[index]]
        names = leaving(section)
        makes = [self.flow.fresh() for _ in names]
        # what is made of nothing that grows belongs to what is run once, the output apart
        grows = section.where == "output" or any(value in self.grown for value in reads)
        if names:
            self.flow.runs.append(SectionRun(index, reads, makes, grows))
        self.grown.update(makes if grows else ())
        self.now.update({("now", name): value for name, value in zip(names, makes, strict=True)})
        self.leave(section)

    def read(self, key: Key, values: list[Value]) -> int:
        """The number of what enters a section; inputs and real positions get theirs where they are first read."""
        if key not in self.now and key[0] == "input":
            self.input(key[1], values[0].sequence)
        elif key not in self.now and key[0] == "real":
            sequences = {name: sequence for sequence, name in input_sequences(self.architecture).items()}
            for name in inputs_of(description(key[1], self.architecture)):
                if name not in self.flow.inputs:
                    self.input(name, sequences.get(name, ""))
            self.now[key] = self.flow.reals[key[1]] = self.flow.fresh()
        return self.now[key]

    def input(self, name: str, sequence: str) -> None:
        """One more input of the model."""
        value = self.now["input", name] = self.flow.inputs[name] = self.flow.fresh()
        if sequence in self.growing:
            self.flow.growing.add(name)
            self.grown.add(value)

    def leave(self, section: Section) -> None:
        """Note what later sections read of a stack: its history, and its result."""
        stack = stack_of(self.architecture, section).name
        if section.where in ("before", "layer"):
            for key in self.history:
                if key[1] == stack and key[3] == section.number and ("now", key[2]) in self.now:
                    self.now[key] = self.now["now", key[2]]
        if section.where == "after" and ("now", "x") in self.now:
            self.now["result", stack] = self.now["now", "x"]


def given_to(architecture: Architecture, section: Section, decoding: bool) -> list[tuple[Key, Any]]:
    """What a section's function is given, in order: see `sequences.entering`; real positions that can be padded."""
    causal = stack_of(architecture, section).causal
    entered = entering(section, causal, decoding, decoded(architecture))
    return [(k, v) for k, v in entered if k[0] != "real" or padded(description(k[1], architecture))]


def leaving(section: Section) -> list[str]:
    """The names that a section's function returns, in order."""
    return [name for name, value in {**section.leaves, **section.asked}.items() if value.op != "number"]
