"""Packed sequences in a model: which models can have them, and its result for a row that holds several."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from ..language.graph import Architecture, Value
from ..words.packed import PackedRow, watch_positions
from ..words.word import word_class
from .transformer import Transformer, is_compiled

REMEDY = "leave pack out, or take a model without it"
BY_ROW = ("droppath",)  # words of chance that draw once for a row


def looks_at_positions(value: Value) -> bool:
    """Whether a call's result at a position depends on other positions, or on which one it is."""
    return value.called.word.reach != "token" or value.called.word.positional


def check_packable(architecture: Architecture) -> None:
    """Raise InputError, with the word, for a model in which sequences of one row cannot be kept apart."""
    for key in ("carry", "policy"):
        if key in architecture.hooks or (key == "carry" and architecture.carry):
            raise InputError(f"pack: the model says `{key}`, which acts on whole rows; {REMEDY}")
    for section in architecture.sections():
        tapped = {value.args[0] for value in section.values if value.op == "tap"}
        for value in section.calls():
            why = _why_not(value, value in tapped)
            if why:
                raise InputError(f"pack: {section.title}: {value.called.name} {why}; {REMEDY}")


def _why_not(value: Value, tapped: bool) -> str:
    """Why a call cannot keep sequences apart; "" where it can."""
    call = value.called
    cls = word_class(call.word)
    if call.word.name in BY_ROW:
        return "draws once for a whole row"
    if not looks_at_positions(value):
        return "" if call.word.sequence != "own" else "makes a sequence of its own"
    if tapped or call.ports or value.kind == "scores":
        return "makes or reads scores between positions, which are of a whole row"
    sequences = {arg.sequence for arg in value.args if arg.sequence}
    if not sequences or {value.sequence} != sequences or hasattr(cls, "function"):
        return "goes from one sequence to another, or to a single vector"
    if call.word.reach == "all":
        return "sees all positions of a row"
    return ""


def model_of_packed(model: nn.Module, tokens: Tensor, lengths: Tensor) -> tuple[dict[str, Any], PackedRow]:
    """What a model is given for the real positions of `tokens`, (rows, longest), and where its results stand: to be
    called within `packing`. Raises InputError for a model that is no `Transformer`, or that cannot have them."""
    if not isinstance(model, Transformer):
        raise InputError(f"pack: no formula made this model, so what looks at positions is not known; {REMEDY}")
    if not getattr(model, "_keeps_apart", False):
        check_packable(model.architecture)
        if is_compiled(model):
            raise InputError("pack: the model is compiled; leave pack out, or do not compile it")
        for section in model.architecture.sections():
            for value in filter(looks_at_positions, section.calls()):
                module: Any = model.get_submodule(value.called.path)
                if not isinstance(module, word_class(value.called.word)):
                    raise InputError(
                        f"pack: {section.title}: {value.called.name} shares its module with another word; {REMEDY}"
                    )
                watch_positions(module)  # its faces share its hooks
        model._keeps_apart = True  # type: ignore[assignment]
    layout = PackedRow(lengths, tokens.shape[1])
    return {"tokens": layout.pack(tokens)}, layout
