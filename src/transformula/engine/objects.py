"""Compiled kernels that a wheel carries, for kinds of processors, where there is no compiler or it is not done yet.

`setup.py` reads this file by itself to make them, so it imports nothing of the package.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("kernels.cpp")
CARRIED = Path(__file__).with_name("objects")
FLAGS = ("-O3", "-std=c++17", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros")
ALONE = ("-static-libstdc++", "-static-libgcc")  # so that any machine with this C library or a later one can load them


class Processor(NamedTuple):
    """A kind of processors.

    options  of the compiler
    needs    what /proc/cpuinfo must say of a processor
    """

    name: str
    machine: str
    options: tuple[str, ...]
    needs: frozenset[str]


V3 = frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe".split())
V4 = V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())
LEVELS = (
    Processor("x86-64-v4-vnni", "x86_64", ("-march=x86-64-v4", "-mavx512vnni"), V4 | {"avx512_vnni"}),
    Processor("x86-64-v4", "x86_64", ("-march=x86-64-v4",), V4),
    Processor("x86-64-v3", "x86_64", ("-march=x86-64-v3",), V3),
    Processor("armv8-a", "aarch64", ("-march=armv8-a",), frozenset()),
)
"""The most able first."""


def commands(compiler: str, folder: Path) -> list[list[str]]:
    """How the objects for this kind of machine are made."""
    here = [level for level in LEVELS if level.machine == platform.machine()]
    options = [(*FLAGS, *ALONE, *level.options, str(SOURCE)) for level in here]
    return [[compiler, *each, "-o", str(folder / name_of(level))] for each, level in zip(options, here, strict=True)]


def name_of(level: Processor) -> str:
    source = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    return f"{level.name}-{source}.so"


def carried(able: Iterable[str]) -> Path | None:
    """The best object for a processor that is able to do this; None where none is carried."""
    here = (level for level in LEVELS if level.machine == platform.machine() and level.needs <= {*able})
    return next((file for level in here if (file := CARRIED / name_of(level)).is_file()), None)
