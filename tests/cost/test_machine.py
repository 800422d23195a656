"""What the machine has: within a container and the process's limits, and asked of the system in one file."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest
import torch

from tests.rules import trees
from transformula.cost import machine

HERE = "cost/machine.py"
ASKED = {"cpu_count", "process_cpu_count", "sched_getaffinity", "sysconf", "total_memory", "mem_get_info"}
READ = {"/proc/meminfo", "/proc/self/status", "memory.max"}
GIB = 1 << 30

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems say less")


def test_cores_are_those_on_which_the_process_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert machine.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert machine.cores() == (os.cpu_count() or 1)


@linux
def test_a_container_takes_less_than_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "CONTAINER", tmp_path)
    whole = machine.machine_memory()
    assert whole is not None and machine.free_memory() is not None
    (tmp_path / "memory.current").write_text(f"{GIB // 8}\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.machine_memory() == whole
    (tmp_path / "memory.max").write_text(f"{GIB // 4}\n")
    assert machine.machine_memory() == GIB // 4 and (machine.free_memory() or 0) <= GIB // 8
    assert machine.device_memory(torch.device("cpu"), processes=4) == GIB // 16


@linux
@pytest.mark.parametrize(("name", "key"), [("RLIMIT_DATA", "VmData:"), ("RLIMIT_AS", "VmSize:")])
def test_limits_of_the_process_count(name: str, key: str) -> None:
    import resource

    kind = getattr(resource, name)
    before = resource.getrlimit(kind)
    more = 64 << 20
    resource.setrlimit(kind, (machine.of_process(key) + more, before[1]))
    try:
        free = machine.free_memory()
    finally:
        resource.setrlimit(kind, before)
    assert free is not None and free <= more


def test_one_file_alone_asks_the_system() -> None:
    """For cores, and for the memory of the machine, its container, the process and a GPU."""
    found = {
        path
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in ASKED)
        or (isinstance(node, ast.Constant) and node.value in READ)
    }
    assert found == {HERE}
