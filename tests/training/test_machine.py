import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformula.errors import ConfigError
from transformula.training import machine

CPU = torch.device("cpu")


def test_devices() -> None:
    assert machine.pick_device("cpu") == CPU
    assert machine.pick_device("auto").type in ("cpu", "cuda")
    for name in ("gpu", "cuda:77"):
        with pytest.raises(ConfigError, match="device"):
            machine.pick_device(name)


def test_a_measurement_is_made_once_for_each_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    made: list[int] = []
    for _ in range(2):
        assert machine.measure_once(CPU, "x", lambda: made.append(1) or 2.5) == 2.5
    assert len(made) == 1
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        machine.measure_once(CPU, "x", lambda: made.append(1) or 3.5)
    finally:
        torch.set_num_threads(threads)
    assert len(made) == 2
    assert [machine.measure_once(CPU, "y", lambda v=v: v, largest=True) for v in (2.0, 3.0, 1.0)] == [2.0, 3.0, 3.0]
    (tmp_path / "cache/machine.json").write_text("{broken")
    assert machine.measure_once(CPU, "x", lambda: 4.5) == 4.5


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "file"))
    assert machine.measure_once(CPU, "x", lambda: 1.0) == 1.0


def test_the_peak_is_a_number_of_operations() -> None:
    assert machine.peak(CPU, "float32") > 1e8


GIVING = """
import sys, torch
from transformula.cost.machine import resident
from transformula.training.machine import keep_memory
kept = keep_memory(int(sys.argv[1]))
tensors = [torch.ones(1 << 22) for _ in range(8)]
held = resident()
pinned = tensors.pop()  # the last, so that the heap cannot shrink
tensors.clear()
print(kept, held - resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left alone")
def test_memory_is_given_back_where_a_step_needs_most_of_it() -> None:
    def freed(needed: int) -> tuple[str, int]:
        run = subprocess.run([sys.executable, "-c", GIVING, str(needed)], capture_output=True, text=True, check=True)
        kept, size = run.stdout.split()
        return kept, int(size)

    assert freed(1 << 60) == ("False", pytest.approx(7 << 24, rel=0.1))
    if (machine.machine_memory() or 0) >= machine.MIN_MEMORY_TO_KEEP:
        kept, size = freed(0)
        assert kept == "True" and size < 1 << 24


@pytest.mark.slow
def test_keeping_memory_does_no_harm() -> None:
    code = "from transformula.training.machine import keep_memory as k; import torch; k(); torch.ones(5_000_000).sum()"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
