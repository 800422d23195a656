"""`torchrun -m transformula train`: two processes train one model; one that is killed, all go on from a checkpoint."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.training.test_kill import check_equal
from transformula.runs.folder import RunFolder
from transformula.runs.log import read_log

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("KILLS_OF_RANKS", "5"))
"""Of each layout, one of two ranks."""
MODEL = ["x = x + attention(norm(x)); x = x + mlp(norm(x))", "--after", "x = norm(x)", "--depth", "1"]
SIZES = ["--width", "16", "--heads", "2", "--context", "16", "--batch", "4", "--tokenizer", "characters"]
RUN = ["--evaluate-every", "200", "--checkpoint-every", "10", "--precision", "float32", "--quiet", "--device", "cpu"]


def begun(folder: Path, *given: str, restarts: int = 0) -> subprocess.Popen[bytes]:
    """A job of two ranks in a folder, which prints into a file there. It is waited for with `communicate`."""
    if not (folder / "text.txt").exists():
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", str(restarts), "--monitor-interval", "0.1", "-m", "transformula", "train", *MODEL]
    command += [*SIZES, *RUN, "--data", "text.txt", *given]
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"}
    with open(folder / "printed", "ab") as out:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)


def workers(agent: int) -> list[int]:
    """The processes that an agent of torchrun has started, in order; those that have ended are left out."""
    try:
        children = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()
        return sorted(int(one) for one in children if b"transformula" in Path(f"/proc/{one}/cmdline").read_bytes())
    except OSError:
        return []


def manifests(run: Path) -> set[str]:
    return {path.parent.name for path in run.glob("checkpoints/step-*/manifest.json")}


def saving(run: Path) -> bool:
    """Whether a checkpoint is being written: its folder has another name until it is whole."""
    try:
        return any(name.startswith(".") for name in os.listdir(run / "checkpoints"))
    except OSError:
        return False


def kill_one(
    job: subprocess.Popen[bytes], run: Path, before: list[int], chance: random.Random
) -> tuple[list[int], str]:
    """Wait for two ranks other than those `before`, and kill one of them as it starts, trains or saves. Gives the
    ranks, and the moment; "" where the job has ended."""
    moment = chance.choice(["start", "step", "step", "save", "save"])
    while len(ranks := workers(job.pid)) < 2 or set(ranks) & set(before):
        if job.poll() is not None:
            return ranks, ""
        time.sleep(0.01)
    known = manifests(run)
    if moment == "start":
        time.sleep(4 * chance.random())
    else:
        while job.poll() is None and not manifests(run) - known:  # until it has gone on
            time.sleep(0.01)
        time.sleep(0.3 * chance.random())
        while job.poll() is None and moment == "save" and not saving(run):
            time.sleep(0.0005)
    if job.poll() is not None:
        return ranks, ""
    moment = "save" if saving(run) else moment
    try:
        os.kill(chance.choice(ranks), signal.SIGKILL)
    except ProcessLookupError:  # it has just ended
        return ranks, ""
    return ranks, moment


@pytest.mark.parametrize("layout", ["ddp", "fsdp"])
def test_ranks_that_are_killed_are_replaced_and_change_nothing(layout: str, tmp_path: Path) -> None:
    """One rank of two is killed again and again, as it starts, trains or saves: the run ends as one that was not, bit
    for bit, and leaves nothing of a checkpoint that was not whole. One that ends before begins again."""
    given = ["--steps", "400", "--parallel", layout]
    whole = begun(tmp_path, *given, "--out", "whole")
    whole.communicate()
    assert whole.returncode == 0, (tmp_path / "printed").read_text()
    chance, moments, number = random.Random(), Counter[str](), 0
    while moments.total() < KILLS:
        run, before = tmp_path / f"cut-{number}", list[int]()
        job = begun(tmp_path, *given, "--out", run.name, restarts=KILLS)
        while moments.total() < KILLS:
            before, moment = kill_one(job, run, before, chance)
            if not moment:
                break
            moments[moment] += 1
        job.communicate()
        assert job.returncode == 0, (tmp_path / "printed").read_text()
        check_equal(tmp_path / "whole", run)
        number += 1
    print(f"{layout}: {moments.total()} kills of a rank: {dict(moments)}; {number} runs, each equal bit for bit")
    run = tmp_path / "cut-0"
    assert RunFolder.open(run).manifest()["ranks"] == 2 and (run / "best/model.yaml").is_file()
    assert "validation, best at step" in (tmp_path / "printed").read_text()
    steps = [event["step"] for event in read_log(run / "log.jsonl") if event["event"] == "step"]
    assert steps == list(range(10, 401, 10))
