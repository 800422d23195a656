"""The plain data of an analysis: the attributes of an object by the names that programs know them by."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from ..plain import plain


def by_keys(thing: object, keys: str) -> dict[str, Any]:
    """The attributes that `keys` names, as plain data, in that order: "name layers=numbers norming=norms.kind" where
    the attribute is called otherwise than the key. What has a `data` of its own gives that."""
    names = {key: name or key for key, _, name in (part.partition("=") for part in keys.split())}
    return {key: data_of(attrgetter(name)(thing)) for key, name in names.items()}


def keys(names: str) -> property:
    """A property `data`: the attributes of an object by these keys."""
    return property(lambda thing: by_keys(thing, names))


def data_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: data_of(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [data_of(inner) for inner in value]
    return value.data if hasattr(value, "data") else plain(value)
