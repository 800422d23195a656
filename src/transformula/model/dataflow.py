"""Who reads what between the sections of a model."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from ..errors import InputError
from ..language.graph import Architecture, Section, Value
from .sequences import description, input_sequences, inputs_of, made_of, padded, sequence_read, stack_of

Key = tuple[Any, ...]
"""What travels between sections: ("input", name), ("now", name), ("result", stack), ("past", stack, name, layer),
("real", sequence)."""


class SectionRun(NamedTuple):
    """One section to be run, by its place among all; the values it reads and those it makes, as numbers. `grows`: once
    for each chunk in decoding."""

    section: int
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
        self._now: dict[Key, int] = {}
        """The value that each key stands for where the walk is."""
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
        """The sections that a function runs: "forward", "fixed" or "step"."""
        return [run for run in self.runs if mode == "forward" or run.grows == (mode == "step")]

    def _run(self, index: int, section: Section, decoding: bool) -> None:
        """Run a section, unless it makes nothing, and note what later sections can read of it."""
        if section.where == "before":
            self._now = {key: value for key, value in self._now.items() if key[0] != "now"}
        reads = [self._read(key, values) for key, values in given_to(self.architecture, section, decoding)]
        makes = {name: next(self._fresh) for name in leaving(section)}
        # what is made of nothing that grows belongs to what is run once, the output apart
        grows = section.where == "output" or any(value in self._grown for value in reads)
        if makes:
            self.runs.append(SectionRun(index, reads, [*makes.values()], grows))
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
            sequences = {name: sequence for sequence, name in input_sequences(self.architecture).items()}
            for name in inputs_of(description(key[1], self.architecture)):
                if name not in self.inputs:
                    self._input(name, sequences.get(name, ""))
            self._now[key] = self.reals[key[1]] = next(self._fresh)
        return self._now[key]

    def _input(self, name: str, sequence: str) -> None:
        """One more input of the model."""
        value = self._now["input", name] = self.inputs[name] = next(self._fresh)
        if sequence in made_of(self.architecture):
            self.growing.add(name)
            self._grown.add(value)


def given_to(architecture: Architecture, section: Section, decoding: bool) -> list[tuple[Key, list[Value]]]:
    """What a section's function is given, in order: names and inputs, then history, then real positions that can be
    padded; with the values of its graph that each one is (none for real positions)."""
    entering: dict[Key, list[Value]] = {}
    for value in section.reads.values():
        entering.setdefault(key_of(value, section), []).append(value)
    past = {key_of(v, section): v for v in section.values if v.op == "history"}
    entering |= {key: [past[key]] for key in sorted(past)}
    causal, growing = stack_of(architecture, section).causal, made_of(architecture) if decoding else set()
    for sequence in dict.fromkeys(sequence_read(value, causal) for value in section.calls()):
        if sequence and sequence not in growing and padded(description(sequence, architecture)):
            entering["real", sequence] = []
    return list(entering.items())


def key_of(value: Value, section: Section) -> Key:
    """Where a value that enters a section comes from."""
    if value.op == "input":
        return ("input", value.name)
    if value.op == "history":
        return ("past", value.stack or section.stack, value.name, int(value.number))
    return ("result", value.stack) if value.stack else ("now", value.name)


def leaving(section: Section) -> list[str]:
    """The names that a section's function returns, in order."""
    return [name for name, value in {**section.leaves, **section.asked}.items() if value.op != "number"]
