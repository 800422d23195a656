"""Names of places in a model, as looks at it show them: `layers.3.attention`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ..analysis.places import prefix_of
from ..errors import InputError, did_you_mean, nearest
from ..language.graph import Architecture, Value
from ..model.model_code import layer_path
from ..model.transformer import Transformer, evaluating
from ..model.watched import watched

Row = Mapping[str, Tensor]
"""What a model is called with for one row, by input, without padding: ids (1, length), pictures (1, channels, ...)."""


def named_calls(architecture: Architecture) -> Iterator[tuple[str, Value]]:
    """The calls of a model in order of evaluation, each with its name. A layer that shares another's modules names its
    calls by its own number."""
    for section in architecture.sections():
        shared = ".".join([*layer_path(architecture, section), ""]) if section.where == "layer" else ""
        own = f"{prefix_of(section)}."
        for value in section.calls():
            path = value.called.path
            yield own + path.removeprefix(shared) if shared and path.startswith(shared) else path, value


def select_places(places: Sequence[str], at: Sequence[str]) -> list[str]:
    """The places that begin with one of the names `at`, part by part; all where none is given. Raises InputError."""
    for name in at:
        if not any(f"{place}.".startswith(f"{name.rstrip('.')}.") for place in places):
            raise unknown_place(name, places)
    names = [f"{name.rstrip('.')}." for name in at]
    return [place for place in places if not names or any(f"{place}.".startswith(name) for name in names)]


def unknown_place(name: str, known: Collection[str]) -> InputError:
    """The error for a name of no place: models have hundreds, of which it names the nearest, or the first."""
    near = nearest(name, known) or sorted(known)[:3]
    return InputError(f"unknown place {name!r};{did_you_mean(near)}", near=near)


def recorder(model: Transformer, names: Iterable[str]) -> Callable[[Row], dict[str, Tensor]]:
    """What gives, for a row, the values at these places of the evaluating model."""
    kept: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor) -> None:
        kept[name] = tensor

    twin = watched(evaluating(model), dict.fromkeys(names, keep))

    @torch.no_grad()
    def values(row: Row) -> dict[str, Tensor]:
        kept.clear()
        twin(**row)
        return dict(kept)

    return values
