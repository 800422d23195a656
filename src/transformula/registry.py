"""A file that registers itself: things are found by a decorator and their place; there is no list to edit."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import InputError, UnknownName
from .plain import python_tree

T = TypeVar("T")


@dataclass(frozen=True)
class Statement:
    """What a file states of a thing that it registers, read without running it."""

    name: str
    module: str
    keywords: Mapping[str, Any]  # of the decorator, those whose values are literals


class Registry(Generic[T]):
    """Things of one kind by name. The modules of `package` are read as text for what they register, and one is imported
    when a thing of it is asked for. Modules from outside register themselves when they are imported.

        formats = Registry("data format", "transformula.data.formats", "@formats.register(")

        @formats.register("jsonl")
        def read(path): ...

    decorator  how a file of the package registers, up to the name. A file whose names are no literals there is imported
               where all names are asked for, or one that no file states
    """

    def __init__(self, kind: str, package: str | None = None, decorator: str = "") -> None:
        self.kind, self.package, self.decorator = kind, package, decorator
        self._known: dict[str, T] = {}
        self._needed: dict[str, tuple[str, ...]] = {}
        self._aliases: dict[str, str] = {}
        self._records: dict[str, Mapping[str, Any]] = {}

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
        """What all things state of themselves, by name; of the package's own modules, read without importing them."""
        stated = {one.name: one.keywords.get("record", one.keywords) for one in self._stated.values()}
        return {**stated, **self._records}

    @cached_property
    def _statements(self) -> list[Statement | str]:
        """What the files of the package state, in order; a module that does not state its names stands as such."""
        statements: list[Statement | str] = []
        if self.package is None:
            return statements
        calls = re.compile(rf"^{re.escape(self.decorator)}(.*?\)[^\n]*)\n(?=@|def |class )", re.M | re.S)
        # The same as a plain call, register("name")(function): of a function that stands elsewhere.
        plain = re.compile(rf"^{re.escape(self.decorator[1:])}(.*\))\([\w.]+\)$", re.M)
        folders = list(importlib.import_module(self.package).__path__)
        modules = list(pkgutil.iter_modules(folders))
        if not modules:  # of a folder that cannot be read, for want of memory, nothing was said
            os.listdir(folders[0])
        for each in modules:
            if each.ispkg:
                continue
            module, folder = f"{self.package}.{each.name}", getattr(each.module_finder, "path", "")
            file = Path(folder, f"{each.name}.py")
            if not self.decorator or not file.is_file():
                statements.append(module)
                continue
            text = file.read_text(encoding="utf-8")
            for rest in [*calls.findall(text), *plain.findall(text)]:
                call = python_tree(f"register({rest}", mode="eval").body
                match call:
                    case ast.Call(args=[ast.Constant(str(name)), *_], keywords=keywords):
                        statements.append(Statement(name, module, literals(keywords)))
                    case _:
                        statements.append(module)
        return statements

    @cached_property
    def _stated(self) -> dict[str, Statement]:
        """What is stated, by names and aliases."""
        stated = [one for one in self._statements if isinstance(one, Statement)]
        return {name: one for one in stated for name in (one.name, *one.keywords.get("aliases", ()))}

    def _import_unstated(self) -> None:
        for one in self._statements:
            if isinstance(one, str):
                importlib.import_module(one)

    def _knows(self, name: object) -> bool:
        return name in self._known or name in self._aliases

    def get(self, name: str) -> T:
        """The thing called `name`. Raises UnknownName, with the nearest known names."""
        return self._known[self.name_of(name)]

    def name_of(self, name: str) -> str:
        """The name of the thing called `name`, which may be an alias. Raises UnknownName."""
        if name in self._stated:
            importlib.import_module(self._stated[name].module)
        if name not in self:
            raise UnknownName(self.kind, name, self.names())
        return self._aliases.get(name, name)

    def need(self, name: str) -> T:
        """The thing called `name`, of which every optional package is here. Raises MissingExtra, UnknownName."""
        thing = self.get(name)
        for package in self._needed[self.name_of(name)]:
            from .extras import need

            need(package, f"the {self.kind} {name}")
        return thing

    def names(self) -> list[str]:
        """All known names, sorted; no aliases."""
        self._import_unstated()
        return sorted({*self._known, *(one.name for one in self._stated.values())})

    def __contains__(self, name: object) -> bool:
        if not self._knows(name) and name not in self._stated:
            self._import_unstated()
        return self._knows(name) or name in self._stated


def literals(keywords: Sequence[ast.keyword]) -> dict[str, Any]:
    """The keywords of a call whose values are literals."""
    values: dict[str, Any] = {}
    for keyword in keywords:
        with suppress(ValueError):
            values[str(keyword.arg)] = ast.literal_eval(keyword.value)
    return values


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports a public name from its module (`homes`), or the module of that name,
    when it is first asked for: so the package itself loads nothing, and `--help` does not pay for torch."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(f".{homes[name]}", package)
        return home if name == homes[name] else getattr(home, name)

    return find
