"""`torchrun -m transformula train`: two processes train one model; one that is killed, all go on from a checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log

pytestmark = pytest.mark.slow
MODEL = ["x = x + attention(norm(x)); x = x + mlp(norm(x))", "--after", "x = norm(x)", "--depth", "1"]
SIZES = ["--width", "16", "--heads", "2", "--context", "16", "--batch", "4", "--tokenizer", "characters"]
RUN = ["--steps", "600", "--evaluate-every", "200", "--checkpoint-every", "10", "--precision", "float32", "--quiet"]


def test_a_killed_rank_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "3", "--monitor-interval", "0.2", "-m", "transformula", "train", *MODEL, *SIZES]
    command += [*RUN, "--data", "text.txt", "--out", "run", "--device", "cpu"]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    printed = tmp_path / "printed"
    with open(printed, "w") as out:
        job = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT)
        killed = False
        while job.poll() is None:
            kept = [*tmp_path.glob("run/checkpoints/step-*/manifest.json")]
            if kept and not killed:
                ranks = workers(job.pid)
                if len(ranks) == 2:
                    os.kill(ranks[1], signal.SIGKILL)
                    killed = True
            time.sleep(0.01)
    text = printed.read_text()
    assert job.returncode == 0, text
    assert killed and text.count("validation, best at step") == 1  # one of the ranks shows the result
    run = RunFolder.open(tmp_path / "run")
    assert run.manifest()["ranks"] == 2 and (run.best / "model.yaml").is_file()
    events = list(read_log(run.log.path))
    steps = [event["step"] for event in events if event["event"] == "step"]
    assert steps == list(range(10, 601, 10)) and [event["event"] for event in events].count("resumed") == 1


def workers(agent: int) -> list[int]:
    """The processes that an agent of torchrun has started, in order."""
    found = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
    return sorted(int(one) for one in found if b"transformula" in Path(f"/proc/{one}/cmdline").read_bytes())
