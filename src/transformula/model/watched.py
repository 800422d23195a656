"""A model whose values can be looked at or replaced, for every formula: its *watched twin*.

    sizes = {}
    def look(name, tensor):
        sizes[name] = tensor.detach().pow(2).mean().sqrt()
    twin = watched(model, {"layers.3.x": look, "layers.3.attention.output": look})
    logits = twin(tokens)                                        # those of model(tokens), bit for bit

    twin = watched(model, {"layers.2.x": lambda name, x: torch.zeros_like(x)})     # the model without what it had read
    twin = watched(model, {"layers.2.line1.add.right": lambda name, x: 0 * x})     # one branch of one line silenced

`places(model.architecture)` lists all values, `edges(model.architecture)` all edges, each with its names, section, line
and width: see `analysis/places.py`. A function is given the name and the tensor, (batch, length, width) for a stream;
it returns the tensor that takes its place, of the same shape, or None, which leaves it. What replaces a value is seen
by all that read it; what replaces an edge by this one reader.

The twin is the same model, with other code: it has the same modules, parameters, buffers, mode and hooks, so that what
changes in one changes in the other. Only the sections with watched places have other code, generated from their
formula; there is no hook of PyTorch's, so nothing is missed in silence. Gradients flow through the functions.
`torch.compile(twin)` traces them. A model that is compiled (`model.compile()`, `torch.compile(model)`) has a twin that
is not; compile the twin, too. Decoding step by step passes the same places through the functions, for each chunk.

A copy of a twin, and one that is read back, is the model without the functions.

Hooks on a layer as a whole do not run in a layer that is watched; those inside it do. Values inside a word (attention's
queries) are none of the graph, but for taps that the formula reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from ..analysis.places import GraphPlace as GraphPlace
from ..analysis.places import edges as edges
from ..analysis.places import places as places
from ..errors import InputError, UnknownName
from .transformer import Transformer

Watch = Callable[[str, Tensor], Tensor | None]


class WatchedTwin:
    """What the class of a twin has more than that of its model.

    unseen  names that decoding step by step does not compute, as keys and values that are made of what is kept
    """

    _compiled_call_impl = property(lambda self: None)  # the code that `model.compile()` made is that of the model
    unseen: tuple[str, ...] = ()

    def empty_states(self, batch: int, capacity: int) -> Any:
        if self.unseen:
            what = f"decoding step by step does not compute {', '.join(self.unseen)}"
            raise InputError(f"{what}: run the twin on the whole text instead, or watch other places")
        return super().empty_states(batch, capacity)  # type: ignore[misc]


def watched(model: nn.Module, functions: Mapping[str, Watch]) -> Transformer:
    """The watched twin of a model: `functions` by the names of places and edges.

    Raises UnknownName for a name that is none, with the nearest; InputError for a module that no formula made, and for
    a twin. Running the twin raises InputError where a function returns what does not fit.
    """
    model = getattr(model, "_orig_mod", model)  # of `torch.compile`
    if not isinstance(model, Transformer) or isinstance(model, WatchedTwin):
        what = "watched twin" if isinstance(model, WatchedTwin) else type(model).__name__
        raise InputError(f"a {what} cannot be watched; expected a model that is built from a formula")
    blueprint, architecture = model._blueprint, model.architecture
    known = {
        name: place for place in (*places(architecture), *edges(architecture)) for name in (place.name, *place.also)
    }
    chosen: dict[Any, list[tuple[str, Callable[[str, Tensor], Tensor]]]] = {}
    for name, function in functions.items():
        if name not in known:
            raise UnknownName("place", name, known)
        chosen.setdefault((known[name].value, known[name].argument), []).append((name, checked(function)))
    forward, step, unseen = [*blueprint.calls[0]], [*blueprint.calls[1]], list[str]()
    for index, section in enumerate(architecture.sections()):
        here = {*section.values, *section.reads.values()}
        in_section = {place: rows for place, rows in chosen.items() if place[0] in here}
        if in_section:
            whole = blueprint.section_code(section, watched=in_section)
            chunk = blueprint.section_code(section, step=True, watched=in_section)
            forward[index], step[index] = whole.generate(section.where), chunk.generate(section.where)
            unseen += [name for rows in in_section.values() for name, _ in rows if name not in chunk.seen]
    methods = blueprint.methods(forward, step)
    cls: Any = type(type(model).__name__, (WatchedTwin, type(model)), {**methods, "unseen": tuple(unseen)})
    twin: Transformer = cls.__new__(cls)
    object.__setattr__(twin, "__dict__", vars(model))  # one state: what is set in one is set in the other
    return twin


def checked(function: Watch) -> Callable[[str, Tensor], Tensor]:
    """A function whose results fit, or are what it was given where it returns None."""

    def watch(name: str, tensor: Tensor) -> Tensor:
        other = function(name, tensor)
        if other is None:
            return tensor
        if not isinstance(other, Tensor) or other.shape != tensor.shape:
            what = f"a tensor {tuple(other.shape)}" if isinstance(other, Tensor) else f"a {type(other).__name__}"
            expected = f"expected a tensor {tuple(tensor.shape)}, or None to leave it"
            raise InputError(f"{name} is replaced by {what}; {expected}")
        return other

    return watch
