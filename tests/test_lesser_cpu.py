"""What holds on this CPU holds on a lesser one, which CONTRIBUTING says how to pretend."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.pace import PATIENCE

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX512"), reason="this CPU itself has AVX2 at most"
)
def test_words_and_training_on_a_cpu_with_avx2_only(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    pretended = dict(re.findall(r"\b([A-Z_]+)=(avx2)\b", page, flags=re.IGNORECASE))
    assert len(pretended) == 3
    environment = {**os.environ, **pretended, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    seen = "import torch; print(torch.backends.cpu.get_cpu_capability(), torch.ops.mkldnn._is_mkldnn_bf16_supported())"
    done = subprocess.run([sys.executable, "-c", seen], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["AVX2", "False"]
    tests = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*tests, f"--basetemp={tmp_path / 'inner'}", "tests/words", "tests/training"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
