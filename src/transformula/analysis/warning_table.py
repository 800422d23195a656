"""What a warning says. `TABLE` has all of them: it feeds `warnings.py`, tests and the page of `explain` in the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..language.model_text import ModelText
from ..plain import keys
from .stack_analysis import StackAnalysis


@dataclass(frozen=True)
class WarningKind:
    """One kind of warning. `example` is a formula that causes it; a `note` is worth saying, and not unsound."""

    what: str
    why: str
    example: str
    note: bool = False


TABLE: dict[str, WarningKind] = {  # by code
    "scale-compounds": WarningKind(
        "the stream grows or shrinks from layer to layer by itself",
        "What the branches of early layers add is drowned or multiplied, and half precision overflows in deep stacks.",
        "y = x + attention(norm(x)); x = x + y + mlp(norm(y))",
    ),
    "no-skip": WarningKind(
        "the stream passes only through sublayers",
        "Signal and gradient go through every matrix of every layer, so deep stacks do not train without special "
        "initial weights.",
        "x = attention(norm(x)); x = mlp(norm(x))",
    ),
    "norm-on-residual-path": WarningKind(
        "a norm stands on the residual path",
        "On its way back the gradient passes every one of these norms and fades, so deep stacks need a warm-up of the "
        "learning rate, or a weighted skip.",
        "x = norm(x + attention(x)); x = norm(x + mlp(x))",
    ),
    "dropout-on-residual-path": WarningKind(
        "dropout stands on the residual path",
        "In training it deletes the stream's own channels, layer after layer, and what is left differs in size from "
        "what evaluation sees.",
        "x = dropout(x, 0.1) + attention(norm(x)); x = x + mlp(norm(x))",
    ),
    "function-on-residual-path": WarningKind(
        "a function stands on the residual path",
        "Each layer can only move the stream within the function's range: after relu nothing is ever negative.",
        "x = relu(x + attention(norm(x))); x = x + mlp(norm(x))",
    ),
    "no-final-norm": WarningKind(
        "pre-norm layers, and no norm before the output",
        "The stream grows with depth as branches add to it, and the output reads it at that size.",
        "x = x + attention(norm(x)); x = x + mlp(norm(x))",
    ),
    "positions-twice": WarningKind(
        "positions are encoded twice",
        "Positions added to the stream and positions inside attention say the same, and the first limit the length.",
        "before: x = embed.words(tokens) + positions(tokens)\n"
        "layer: x = x + attention(norm(x), rotary=10000) + mlp(norm(x))\nafter: x = norm(x)",
    ),
    "no-positions": WarningKind(
        "nothing tells positions apart",
        "Without positions attention sees a bag of tokens; in a causal stack only the number of tokens before differs.",
        "before: x = embed.words(tokens)\nlayer: x = x + attention(norm(x)) + mlp(norm(x))\nafter: x = norm(x)",
        note=True,
    ),
    "no-norm": WarningKind(
        "no norm stands anywhere in the layers",
        "What a branch adds grows with what it reads, so sizes can run away with depth unless the initial weights "
        "are made for it.",
        "x = x + attention(x); x = x + mlp(x)",
        note=True,
    ),
    "scores-by-width": WarningKind(
        "the scores of several heads are scaled by the width of all of them",
        "A score is a sum over one head's channels, so its root is that of the head's size; scaled by the width, "
        "scores are smaller by the root of the number of heads, and every head begins nearer to a plain mean.",
        "x = x + attention(norm(x), scale=width ** -0.5); x = x + mlp(norm(x))",
        note=True,
    ),
}
Holds = Callable[[StackAnalysis], bool]  # whether a changed stack, analyzed again, is what its text was changed for


@dataclass(frozen=True)
class Proposal:
    """A changed text, not yet checked, and what was done; of several with equal words the first that holds is taken."""

    text: ModelText
    words: str
    holds: Holds = lambda again: True


@dataclass(frozen=True)
class Remedy:
    """A text made from the user's, checked and analyzed again, without the fault.

    parts   what differs from the user's text: key of the model file (or name of the formula) -> its text
    words   what was done
    left    codes of the warnings that stay; none: it is sound
    analysis  of the whole text
    wiring  its wiring key
    names   gallery entries of that wiring, where they were looked up
    """

    parts: Mapping[str, str]
    words: str
    left: tuple[str, ...]
    analysis: StackAnalysis = field(repr=False, compare=False)
    wiring: str
    names: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return next(iter(self.parts), "")

    @property
    def text(self) -> str:
        return next(iter(self.parts.values()), "")

    data = keys("key text parts words left gallery=names")


@dataclass(frozen=True)
class Warning:
    """One warning. `where` is a person's name of the place, `line` its text ("" where it is no line's).

    remedies    texts made from the user's own; entries: names of the gallery
    proposals   what may become remedies
    look_alike  another layer that a reader may take for this one; `more` says so if its stream grows
    """

    code: str
    what: str
    where: str
    line: str
    entries: tuple[str, ...] = ()
    more: str = ""
    note: bool = False
    proposals: tuple[Proposal, ...] = field(default=(), repr=False, compare=False)
    look_alike: Proposal | None = field(default=None, repr=False, compare=False)
    remedies: tuple[Remedy, ...] = ()

    @property
    def why(self) -> str:
        return TABLE[self.code].why

    data = keys("code note what why where line more relatives=remedies gallery=entries")
