"""benchmarks/gpu_training.py: what it compares is the same model, and it runs where there is no GPU."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_training
from benchmarks.gpu_training import BY_HAND, CASES, EAGER, FSDP, NONE, SMALL, HandMade, RandomTokens, our_model
from transformula.training.state import flops_per_unit

SCRIPT = str(Path(gpu_training.__file__))


def test_both_are_the_same_model() -> None:
    """With the same weights they have the same loss."""
    ours, other, task = our_model(SMALL), HandMade(SMALL), RandomTokens(SMALL)
    weights = dict(ours.named_parameters())
    with torch.no_grad():
        for parameter in weights.values():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)) / 20)
    tables = {"words.weight": "words.weight", "before.positions.weight": "places.weight", "after.norm": "norm"}
    state = {}
    for number in range(SMALL.depth):
        layer = f"layers.{number + 1}"
        tables |= {
            f"{layer}.{word}_input_norm": f"layers.{number}.norms.{n}" for n, word in enumerate(("attention", "mlp"))
        }
        tables |= {f"{layer}.mlp.{name}": f"layers.{number}.{name}" for name in ("up", "down")}
        tables |= {f"{layer}.attention.output": f"layers.{number}.projection"}
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"{layer}.attention.{name}.{kind}") for name in ("query", "key", "value")]
            state[f"layers.{number}.qkv.{kind}"] = torch.cat(parts)
    for name, parameter in weights.items():
        module, _, kind = name.rpartition(".")
        state[tables[name] if name in tables else f"{tables[module]}.{kind}"] = parameter
    other.load_state_dict(state)
    batch = task.batch(3)
    torch.testing.assert_close(other(batch.inputs["tokens"], batch.targets), task.loss(ours.train(), batch))


def test_what_is_claimed() -> None:
    rates = {case: 100.0 for case in CASES}
    assert all(reached for _, reached in gpu_training.judged(rates))
    slow = gpu_training.judged({**rates, BY_HAND: 101.0, FSDP: 96.0})
    assert [reached for _, reached in slow] == [False, True, False]
    assert all(
        reached for _, reached in gpu_training.judged({**rates, NONE: 99.0})
    )  # where the loss is compiled it is met
    assert len(gpu_training.judged({case: rate for case, rate in rates.items() if case != FSDP})) == 2


def test_the_peak_is_that_of_the_device() -> None:
    known = {"NVIDIA H100 80GB HBM3": 989, "NVIDIA A100-SXM4-40GB": 312, "NVIDIA GeForce RTX 4090": 165.2}
    for name, peak in known.items():
        assert gpu_training.peak_of(name, SMALL)["peak"] == peak * 1e12


def test_a_share_is_of_the_flops_of_the_model() -> None:
    figures = {"rate": 2.0, "peak": 1000.0, "GiB": 1.0}
    lines, rates = gpu_training.told({BY_HAND: [figures], EAGER: [{**figures, "rate": 1.0}], FSDP: []}, 100.0)
    assert rates == {BY_HAND: 2, EAGER: 1} and len(lines) == 4
    assert "20.0%" in lines[2] and "| 0.500 | 10.0%" in lines[3]
    assert flops_per_unit(our_model(SMALL)) > 6 * 12 * SMALL.depth * SMALL.width**2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_that_nothing_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [SCRIPT])
    assert gpu_training.main() == 2
    assert "nothing was measured" in capsys.readouterr().out


@pytest.mark.slow
def test_it_runs_on_a_cpu() -> None:
    given = [sys.executable, SCRIPT, "--device", "cpu", "--smoke", "--rounds", "1"]
    said = subprocess.run(given, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    for case in CASES:
        assert f"| {case} |" in said.stdout or f"{case} is missing" in said.stdout
    assert "measured on the CPU" in said.stdout and "nothing is claimed" in said.stdout
    assert str(asdict(SMALL)["width"]) in said.stdout
