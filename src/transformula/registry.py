"""A file that registers itself: things are found by a decorator and their place; there is no list to edit."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import InputError, UnknownName
from .extras import need

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name. Where a name is asked for that is not known, the modules of `package` are imported:
    first those whose text has the name in quotes, as a decorator has it, and if none of them registers it, the others.
    Modules from outside register themselves when they are imported.

        formats = Registry("data format", "transformula.data.formats")

        @formats.register("jsonl")
        def read(path): ...
    """

    def __init__(self, kind: str, package: str | None = None) -> None:
        self.kind, self.package = kind, package
        self._known: dict[str, T] = {}
        self._needed: dict[str, tuple[str, ...]] = {}
        self._aliases: dict[str, str] = {}
        self._records: dict[str, Mapping[str, Any]] = {}
        self._looked = False

    def register(
        self, name: str, needs: Sequence[str] = (), aliases: Sequence[str] = (), record: Mapping[str, Any] | None = None
    ) -> Callable[[T], T]:
        """Decorator that registers a thing under `name`. A second thing of the same name is an error.

        needs    optional packages without which it cannot be used, by their import names
        aliases  further names that `get` takes and `names` does not list, such as an earlier spelling
        record   literals, which `records` knows without importing the module
        """

        def decorate(thing: T) -> T:
            for known in (name, *aliases):
                if self._known.get(self._aliases.get(known, known), thing) is not thing:
                    raise InputError(f"two of the kind {self.kind!r} are called {known!r}")
            self._known[name] = thing
            self._needed[name] = tuple(needs)
            self._records[name] = record or {}
            self._aliases.update(dict.fromkeys(aliases, name))
            return thing

        return decorate

    def records(self) -> dict[str, Mapping[str, Any]]:
        """The records of all that is known by name; of the package's own modules, read without importing them."""
        return {**self._written, **self._records}

    @cached_property
    def _written(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for file in self._modules().values() if self.package else ():
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Attribute(attr="register"), args=[ast.Constant(str(name))], keywords=words):
                        written = (ast.literal_eval(word.value) for word in words if word.arg == "record")
                        found[name] = next(written, {})
        return found

    def _look(self) -> None:
        if self.package is not None and not self._looked:
            self._looked = True
            for module in self._modules():
                importlib.import_module(module)

    def _modules(self) -> dict[str, Path]:
        """The modules of the package, each with its file, as far as it is one."""
        assert self.package is not None
        found = pkgutil.iter_modules(importlib.import_module(self.package).__path__)
        places = {each.name: getattr(each.module_finder, "path", "") for each in found}
        return {f"{self.package}.{name}": Path(folder, f"{name}.py") for name, folder in places.items()}

    def _look_for(self, name: str) -> None:
        """Import what may register a name: other modules, which may be many, are left."""
        if self.package is None or self._looked:
            return
        quoted = re.compile(rf"""["']{re.escape(name)}["']""")
        for module, file in self._modules().items():
            if file.is_file() and quoted.search(file.read_text(encoding="utf-8")):
                importlib.import_module(module)
                if self._knows(name):
                    return
        self._look()

    def _knows(self, name: object) -> bool:
        return name in self._known or name in self._aliases

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
        if not self._knows(name):
            self._look_for(str(name))
        return self._knows(name)


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports a public name from its module (`homes`), or the module of that name,
    when it is first asked for: so the package itself loads nothing, and `--help` does not pay for torch."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f".{homes[name]}", package)
        return home if name == homes[name] else getattr(home, name)

    return find
