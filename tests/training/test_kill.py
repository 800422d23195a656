"""A run killed at random moments and resumed ends as if it had not been."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.training.killed import SETTINGS
from tests.training.toy import ToyModel, ToyTask
from transformula.training import train

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.killed", str(folder), how], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said


def kill_at_random_moments(tmp_path: Path, times: int) -> None:
    train(ToyTask(), ToyModel(), SETTINGS, tmp_path / "whole", quiet=True)
    how, killed = "new", 0
    for _ in range(times):
        process = start(tmp_path / "cut", how)
        assert process.stdout is not None
        for _ in range(random.randint(1, 12)):
            if not process.stdout.readline():
                break
        time.sleep(random.random() * 0.03)
        process.kill()
        process.communicate()
        killed += process.returncode == -9
        how = "resume"
    assert killed
    finish(start(tmp_path / "cut", "resume"))
    for place in ("last/weights", "best/weights", "checkpoints/step-00000080/optimiser"):
        a, b = (load_file(tmp_path / name / f"{place}.safetensors") for name in ("whole", "cut"))
        assert a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a), place


def test_killed_once(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, 1)


@pytest.mark.slow
def test_killed_seven_times(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, 7)


@pytest.mark.slow
def test_a_second_interrupt_stops_at_once(tmp_path: Path) -> None:
    process = start(tmp_path / "run", "new")
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    process.send_signal(signal.SIGINT)
    while process.poll() is None:  # until it has heard both
        time.sleep(0.002)
        process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    finish(start(tmp_path / "run", "resume"))
