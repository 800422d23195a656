"""A case: a reference, a model of ours at the same sizes, and how the weights are carried over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights, carry, difference, gradients, in_double, randomize
from transformula import gallery
from transformula.interop.parity.calls import CHUNKS
from transformula.interop.parity.calls import real as real
from transformula.interop.parity.calls import real_positions as real_positions
from transformula.interop.parity.compare import decoded as decoded
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary

VOCAB, WIDTH, HEADS, CONTEXT, DEPTH = 53, 32, 4, 24, 3
SIZES: Mapping[str, int] = {"vocab": VOCAB, "width": WIDTH, "heads": HEADS, "context": CONTEXT, "depth": DEPTH}
"""Small, and all different, so that no two are mistaken for one another."""

LENGTH = 12

TOLERANCE = 1e-9


@dataclass
class Pair:
    """The two models of a case."""

    theirs: nn.Module
    text: str
    """Our model: the name of a gallery entry, or a model file."""
    weights: Callable[[Theirs], Weights]
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Sizes besides SIZES."""
    run: Callable[..., Tensor] | None = None
    """Their output for the inputs (in order), as a tensor; None: `theirs(*inputs)`."""
    steps: Callable[..., Tensor] | None = None
    """Their decoding with a cache, called with the inputs and the lengths of the chunks; None: they are not asked."""
    inputs: Callable[[], Mapping[str, Any]] | None = None
    """What both are called with, by the names of our inputs, and perhaps `lengths`; None: token ids."""
    result: Callable[[Any], Tensor] = lambda result: result
    """What is compared of our output."""
    where: Callable[[Mapping[str, Any]], Any] | None = None
    """From the inputs to a mask of the results that are compared; None: of all tokens that are no padding."""
    decodes: bool = True
    """Whether ours is decoded step by step."""
    still: tuple[str, ...] = ()
    """How the names end of our parameters that the reference does not train: ours must have no gradient."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """What stands in the entry's text -> what is put in its place, where a constant differs; the note says so."""

    def ours(self) -> nn.Module:
        """Our model, with their weights."""
        from transformula.model import build

        own = self.text not in gallery.names()
        stated = [f"{key}: {value}\n" for key, value in self.numbers.items() if own and key not in SIZES]
        source = "".join(stated) + self.text.lstrip("\n") if own else gallery.entry(self.text).source
        for old, new in self.changed.items():
            assert old in source, f"{old!r} does not stand in the text of {self.text}"
            source = source.replace(old, new)
        text = read_text(source)
        known = {key: value for key, value in SIZES.items() if key not in self.numbers}
        model = build(check(text, vocabulary(), {**known, **self.numbers}), seed=0, dtype=torch.float64).eval()
        carry(model, self.theirs, self.weights)
        return model


@dataclass(frozen=True)
class Case:
    """A reference by name, and what makes the pair."""

    name: str
    package: str
    """The distribution that the reference comes from."""
    reference: str
    """The class, with the options that matter."""
    entry: str
    """The gallery's entry that is compared; empty: a formula that stands in the case."""
    make: Callable[[], Pair]
    note: str = ""
    """What was done so that they could be compared, besides carrying weights."""

    @property
    def version(self) -> str:
        """Of the package installed, without the label of its build."""
        return version(self.package).split("+")[0]

    def compare(self) -> Compared:
        """Build both, run both. Nothing is trained or downloaded."""
        with torch.no_grad(), in_double():
            pair = self.make()
            pair.theirs.double().eval()
            randomize(pair.theirs)
            inputs = pair.inputs() if pair.inputs else {"tokens": ids()}
            theirs = (pair.run or pair.theirs)(*inputs.values())
            stepped = None if pair.steps is None else pair.steps(*inputs.values(), CHUNKS)
        ours = pair.ours()
        assert not self.entry or pair.text == self.entry
        real = (pair.where or real_positions)(inputs)
        with torch.no_grad():
            off = difference(pair.result(ours(**inputs))[real], theirs[real])
            decoding = None
            if pair.decodes:
                decoding = difference(decoded(ours, inputs), theirs if stepped is None else stepped)
        with in_double():
            loss((pair.run or pair.theirs)(*inputs.values())[real]).backward()
        loss(pair.result(ours(**inputs))[real]).backward()
        learned = difference(*gradients(ours, pair.theirs, pair.weights, pair.still))
        return Compared(off, decoding, learned, stepped is not None)


def loss(result: Tensor) -> Tensor:
    """What both are asked the gradients of: the sum of tanh(result) squared."""
    return result.tanh().square().sum()


@dataclass(frozen=True)
class Compared:
    """What was measured: differences over the largest number."""

    whole: float
    """Of one pass over all."""
    decoding: float | None
    """Of our decoding in chunks, against their decoding, or where they do not decode, their one pass."""
    gradients: float
    """Of the gradients of all its parameters."""
    they_decoded: bool


CASES: dict[str, Case] = {}


def case(
    name: str, package: str, reference: str, entry: str = "", note: str = ""
) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """Announce a case. Its function imports the package when it is called: some take seconds."""

    def announce(make: Callable[[], Pair]) -> Callable[[], Pair]:
        assert name not in CASES, name
        CASES[name] = Case(name, package, reference, entry, make, note)
        return make

    return announce


@cache
def cases() -> Mapping[str, Case]:
    """All cases, by name; imports none of their packages."""
    import importlib
    from pathlib import Path

    for path in sorted((Path(__file__).parent / "cases").glob("*.py")):
        importlib.import_module(f"tests.peers.cases.{path.stem}")
    return CASES


def held(entry: str) -> str:
    """What the key `checked_against` of an entry says: packages, versions, classes."""
    return "; ".join(sorted(f"{c.package} {c.version}, {c.reference}" for c in cases().values() if c.entry == entry))


def ids(batch: int = 2, length: int = LENGTH, seed: int = 2) -> Tensor:
    """Random token ids (batch, length)."""
    return torch.randint(VOCAB, (batch, length), generator=torch.Generator().manual_seed(seed))
