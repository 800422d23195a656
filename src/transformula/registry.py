"""A file that registers itself: things are found by a decorator and their place; there is no list to edit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .errors import InputError, UnknownName
from .extras import need

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name. The modules of `package` are imported when a name is first asked for; modules
    from outside register themselves when they are imported.

        formats = Registry("data format", "transformula.data.formats")

        @formats.register("jsonl")
        def read(path): ...
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind, self.package = kind, package
        self._known: dict[str, T] = {}
        self._needed: dict[str, tuple[str, ...]] = {}
        self._aliases: dict[str, str] = {}
        self._looked = False

    def register(self, name: str, needs: Sequence[str] = (), aliases: Sequence[str] = ()) -> Callable[[T], T]:
        """Decorator that registers a thing under `name`. A second thing of the same name is an error.

        needs    optional packages without which it cannot be used, by their import names
        aliases  further names that `get` takes and `names` does not list, such as an earlier spelling
        """

        def decorate(thing: T) -> T:
            for known in (name, *aliases):
                if self._known.get(self._aliases.get(known, known), thing) is not thing:
                    raise InputError(f"two of the kind {self.kind!r} are called {known!r}")
            self._known[name] = thing
            self._needed[name] = tuple(needs)
            self._aliases.update(dict.fromkeys(aliases, name))
            return thing

        return decorate

    def _look(self) -> None:
        if self.package is not None and not self._looked:
            self._looked = True
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{module.name}")

    def get(self, name: str) -> T:
        """The thing called `name`. Raises UnknownName, with the nearest known names."""
        return self._known[self.name_of(name)]

    def name_of(self, name: str) -> str:
        """The name of the thing called `name`, which may be an alias. Raises UnknownName."""
        if name not in self:
            raise UnknownName(self.kind, name, self._known)
        return self._aliases.get(name, name)

    def need(self, name: str) -> T:
        """The thing called `name`, of which every optional package is here. Raises MissingExtra, UnknownName."""
        thing = self.get(name)
        for package in self._needed[self.name_of(name)]:
            need(package, f"the {self.kind} {name}")
        return thing

    def names(self) -> list[str]:
        """All known names, sorted; no aliases."""
        self._look()
        return sorted(self._known)

    def __contains__(self, name: object) -> bool:
        if name not in self._known and name not in self._aliases:
            self._look()
        return name in self._known or name in self._aliases


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports a public name from its module (`homes`), or the module of that name,
    when it is first asked for: so the package itself loads nothing, and `--help` does not pay for torch."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f".{homes[name]}", package)
        return home if name == homes[name] else getattr(home, name)

    return find
