"""Puts compiled kernels into the wheel where TRANSFORMULA_OBJECTS is set, as `make wheel` does: for machines without a
compiler. All else is in pyproject.toml."""

from __future__ import annotations

import os
import platform
import runpy
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

WANTED = bool(os.environ.get("TRANSFORMULA_OBJECTS"))


class WithObjects(build_py):
    def run(self) -> None:
        super().run()
        if WANTED:
            source = Path(__file__).parent / "src" / "transformula" / "engine" / "objects.py"
            folder = Path(self.build_lib) / "transformula" / "engine" / "objects"
            folder.mkdir(parents=True, exist_ok=True)
            for command in runpy.run_path(str(source))["commands"](os.environ.get("CXX", "g++"), folder):
                subprocess.run(command, check=True)


class OfThisPlatform(bdist_wheel):
    """Of any Python 3, and of the C library here or a later one."""

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, system = super().get_tag()
        name, version = platform.libc_ver()
        if WANTED and name == "glibc":
            system = f"manylinux_{version.replace('.', '_')}_{platform.machine()}"
        return python, abi, system


setup(cmdclass={"build_py": WithObjects, "bdist_wheel": OfThisPlatform})
