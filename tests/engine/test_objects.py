"""Kernels that a wheel carries: which are chosen, and that they write where there is no compiler or it is not done."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from transformula import Model
from transformula.engine import build, objects
from transformula.engine import machine as machines
from transformula.engine.recording import NoProgram
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings

ROOT = Path(__file__).parents[2]
SIZES = {"depth": 2, "width": 32, "heads": 2, "vocab": 19, "context": 64}


def own_kernels() -> Path:
    """The file that the compiler made for this processor."""
    return build.cache_folder() / f"{build.key_of([build.compiler(), *objects.FLAGS, *build.native()])}.so"


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of objects, and a process that finds no compiler and no compiled kernels."""
    monkeypatch.setattr(objects, "CARRIED", tmp_path / "objects")
    monkeypatch.setattr(build, "KERNELS", build.Kernels())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    objects.CARRIED.mkdir()
    return objects.CARRIED


def made_by_kernels() -> int:
    """How many steps of a text kernels made; the text is PyTorch's."""
    model = Model("x = x + attention(norm(x)); x = x + mlp(norm(x))", **SIZES).module
    texts = [
        generate(model, [[1], [2, 3]], SamplingSettings(max_tokens=40, temperature=0.0, engine=engine))
        for engine in ("auto", "torch")
    ]
    assert texts[0] == texts[1]
    return sum(machine.made for machine in machines._MACHINES[model][1])


@pytest.mark.parametrize(
    ("able", "files", "chosen"),
    [
        (objects.V4 | {"avx512_vnni", "more"}, 3, "x86-64-v4-vnni"),
        (objects.V4, 3, "x86-64-v4"),
        (objects.V3 | {"avx512f"}, 3, "x86-64-v3"),
        (objects.V3 - {"fma"}, 3, None),
        (objects.V4, 0, None),
    ],
)
def test_the_most_able_object_that_a_processor_can_run_is_chosen(
    able: set[str], files: int, chosen: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(objects, "CARRIED", tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for level in objects.LEVELS[:files]:
        (tmp_path / objects.name_of(level)).touch()
    file = objects.carried(able)
    assert (file and file.name) == (chosen and next(objects.name_of(x) for x in objects.LEVELS if x.name == chosen))


def test_an_object_of_other_kernels_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(objects, "CARRIED", tmp_path)
    (tmp_path / objects.name_of(objects.LEVELS[0])).touch()
    (tmp_path / "kernels.cpp").write_text("// changed")
    monkeypatch.setattr(objects, "SOURCE", tmp_path / "kernels.cpp")
    assert objects.carried(objects.V4 | {"avx512_vnni"}) is None


@pytest.fixture
def one_object(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """An object for every processor, which is that of this one."""
    own = own_kernels()
    carried: Path = request.getfixturevalue("without_compiler")
    level = objects.Processor("any", platform.machine(), (), frozenset())
    monkeypatch.setattr(objects, "LEVELS", (level,))
    shutil.copy(own, carried / objects.name_of(level))
    return carried


def test_without_a_compiler_what_is_carried_writes(one_object: Path) -> None:
    assert made_by_kernels() > 30


def test_while_kernels_are_compiled_what_is_carried_writes(one_object: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = one_object / "slow"
    slow.write_text('#!/bin/sh\ncase "$1" in --version) exit;; esac\nexec /bin/sleep 60\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("PATH", f"{one_object}:/bin:/usr/bin")
    assert build.library(wait=True) is not None and made_by_kernels() > 30
    assert build.KERNELS.compiling is not None, "for the next process"
    build.KERNELS.compiling.kill()


def test_where_what_was_compiled_cannot_be_loaded_what_is_carried_writes(
    one_object: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = one_object / "compiler"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("PATH", f"{one_object}:/bin:/usr/bin")
    kept = own_kernels()
    kept.parent.mkdir(parents=True)
    kept.write_text("no library")
    assert made_by_kernels() > 30


def test_what_cannot_be_loaded_is_said(one_object: Path) -> None:
    (file,) = one_object.iterdir()
    file.write_text("no library")
    with pytest.raises(NoProgram, match="cannot be kept or loaded"):
        build.library(wait=True)


@pytest.mark.slow
def test_the_wheel_carries_objects_that_write(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Each one that this processor can run; no library of C++ is needed beside them."""
    folder = request.getfixturevalue("tmp_path")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    environment: Any = {**os.environ, "TRANSFORMULA_OBJECTS": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    (wheel,) = folder.glob("*.whl")
    assert wheel.name.endswith(f"_{platform.machine()}.whl") and "-py3-none-manylinux_" in wheel.name
    carried = request.getfixturevalue("without_compiler")
    here = [level for level in objects.LEVELS if level.machine == platform.machine()]
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".so")]
        assert sorted(Path(name).name for name in names) == sorted(objects.name_of(level) for level in here)
        for name in names:
            (carried / Path(name).name).write_bytes(archive.read(name))
    able = {*build.cpu().split()}
    for level in here:
        assert b"libstdc++.so" not in (carried / objects.name_of(level)).read_bytes()
        if level.needs <= able:
            monkeypatch.setattr(objects, "LEVELS", (level,))
            monkeypatch.setattr(build, "KERNELS", build.Kernels())
            assert isinstance(build.library(), ctypes.CDLL) and made_by_kernels() > 30, level.name
