"""Stand-ins for packages that a reference imports and its blocks do not use.

timm imports torchvision, of which there is no build for every PyTorch, and torchscale imports fairscale, which is no
longer kept. What the tests run of them, blocks of layers, calls neither. Within `absent("torchvision")` such a package
can be imported, and every name in it is an empty class; afterwards it is gone. One that is installed is left alone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Nothing(type):
    """A class of which every attribute is such a class."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class Empty(ModuleType):
    """A module in which every name is an empty class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name, (), {})


class Finder(MetaPathFinder, Loader):
    """Finds the packages that it stands for, and all below them."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def absent(*packages: str) -> Iterator[None]:
    """Import what imports these, though they are not installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    finder = Finder(missing)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] in missing]:
            del sys.modules[name]
