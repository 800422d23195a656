"""The kernels' shared library: compiled by the machine's own compiler on first use, and kept for the next."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from torch import Tensor

from .kinds import COMPILING
from .objects import FLAGS, SOURCE, carried
from .recording import NoProgram

CALL = ctypes.CFUNCTYPE(None, ctypes.c_int64)
TYPES = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "d": ctypes.c_double}
SIGNATURES = {
    "use_threads": "np", "move": "pnnnppn", "pack": "pnnppp", "multiply": "ppppppnnn", "grouped": "p", "apply": "nppn",
    "normalize": "ppppnnnd", "attend_to": "pnnd", "best": "pnpnpnnnpp",
}  # fmt: skip
"""What the functions of the kernels are given, in order: a pointer, a whole number, a real one."""


def cache_folder() -> Path:
    """Where what was compiled is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transformula" / "kernels"


def compiler() -> str:
    """The C++ compiler. Raises NoProgram where there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        if name and (found := shutil.which(name)):
            return found
    raise NoProgram("there is no C++ compiler (g++ or clang++) to make its kernels with")


def cpu() -> str:
    """What this processor can do, as a text."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


class Kernels:
    """The library, once it is there; it is compiled beside what else goes on."""

    def __init__(self) -> None:
        self.loaded: ctypes.CDLL | None = None
        self.compiling: subprocess.Popen[str] | None = None

    def library(self, wait: bool = False) -> ctypes.CDLL:
        """The kernels: for this processor, or those that the wheel carries until they are compiled, and where they
        cannot be. Raises NoProgram where there are neither, unless `wait` and they can be compiled."""
        if self.loaded is not None:
            return self.loaded
        ready = carried(cpu().split())
        try:
            command = [compiler(), *FLAGS, *native()]
            file = cache_folder() / f"{key_of(command)}.so"
            if not file.exists():
                self._compile(command, file, wait and ready is None)
            found = ctypes.CDLL(str(file))
        except (NoProgram, OSError):  # no compiler, no place to write, or a file that cannot be loaded
            if ready is None:
                raise
            found = ctypes.CDLL(str(ready))
        for name in ("unary_names", "binary_names"):
            getattr(found, name).restype = ctypes.c_char_p
        for name, kinds in SIGNATURES.items():
            getattr(found, name).argtypes = [TYPES[kind] for kind in kinds]
        self.loaded = found
        return found

    def _compile(self, command: list[str], file: Path, wait: bool) -> None:
        """Compile into a file that has its name once it is whole, whether this process is there then or not."""
        if self.compiling is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            made = file.with_suffix(f".{os.getpid()}.part")
            compiled, moved = [*command, str(SOURCE), "-o", str(made)], ["mv", str(made), str(file)]
            script = f"{shlex.join(compiled)} && {shlex.join(moved)}"
            self.compiling = subprocess.Popen(
                ["sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
        if not wait and self.compiling.poll() is None:
            raise NoProgram(COMPILING)
        _, said = self.compiling.communicate()
        if not file.exists():
            raise NoProgram(f"{command[0]} cannot compile its kernels: {said.strip()[:300]}")


KERNELS = Kernels()


def library(wait: bool = False) -> ctypes.CDLL:
    """As `Kernels.library`; NoProgram, too, where the folder of the kernels cannot be written or read."""
    try:
        return KERNELS.library(wait)
    except OSError as error:
        raise NoProgram(f"its kernels cannot be kept or loaded ({error})") from error


def address(tensor: Tensor | None) -> int:
    """Where a tensor's numbers begin; 0 for none."""
    return 0 if tensor is None else tensor.data_ptr()


def native() -> list[str]:
    """What lets a compiler use all that this processor can do."""
    if platform.machine() in ("aarch64", "arm64"):
        return ["-mcpu=native"]
    return ["-march=native", "-mprefer-vector-width=512"]  # that wide where the processor has it


def key_of(command: list[str]) -> str:
    """What a library depends on, as a hash: the source, the compiler, the processor."""
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=False).stdout
    facts = "\n".join([SOURCE.read_text(encoding="utf-8"), *command, version, cpu()])
    return hashlib.sha256(facts.encode()).hexdigest()[:20]


@cache
def numbers_of(which: str) -> dict[str, int]:
    """The numbers of the kernels' functions of one or two numbers ("unary", "binary"), by name."""
    names = getattr(library(), f"{which}_names")().decode().split()
    return {name: number for number, name in enumerate(names)}
