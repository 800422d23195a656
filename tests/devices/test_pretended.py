"""A GPU that nobody has: every entry of the gallery, and a training step, on a device that is pretended."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from torch.utils import backend_registration

from tests.invariants.harness import CAUSAL
from transformula import gallery

pytestmark = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this version of PyTorch has no device whose backend is in Python",
)

EVERY_DAY = ["gpt-oss", "universal"]
"""Experts, sinks and rotary positions; positions that stop one by one."""

WAITS = {"universal": "model/hooks/halt.py"}
"""Where an entry waits for the device at each layer: whether every position has stopped decides what is computed."""

ONE_WAIT, TELEMETRY = "training/gradients.py", "training/telemetry.py"


STEPS = [
    {"precision": "bf16", "optimizer": "muon", "average": 0.9, "clip": 1.0},
    {"precision": "float32", "optimizer": "adamw", "accumulate": 2, "micro_batches": 2, "on_spike": "skip"},
]


def check(names: list[str], settings: list[dict[str, Any]]) -> None:
    command = [sys.executable, "-m", "tests.devices.pretended", json.dumps(names), json.dumps(settings)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    results = json.loads(ended.stdout)
    assert list(results["entries"]) == names and len(results["steps"]) == len(settings)
    for name, parts in results["entries"].items():
        assert parts.keys() == {"train", "evaluate", *(["decode"] if name in CAUSAL else [])}, name
        for part, waited in parts.items():
            assert not isinstance(waited, str), f"{name}, {part}: {waited}"
            other = [line for line in waited if not line.startswith(WAITS.get(name, "-"))]
            assert not other, f"{name}, {part}: waits for the device at {other}"
    for steps in results["steps"]:
        first, second = ({line.partition(":")[0]: count for line, count in step.items()} for step in steps)
        assert first == {ONE_WAIT: 1, TELEMETRY: 1}  # the first step is measured
        assert second == {ONE_WAIT: 1}


def test_models_and_steps_stay_on_the_device_and_hardly_wait_for_it() -> None:
    check(EVERY_DAY, STEPS)


@pytest.mark.slow
def test_all_entries_stay_on_the_device() -> None:
    check([name for name in gallery.names() if name not in EVERY_DAY], [])
