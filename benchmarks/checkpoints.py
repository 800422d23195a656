"""How long training stops for a checkpoint: written while it waits, in the background, and gathered by one rank.

    python benchmarks/checkpoints.py [--rounds 3] [--steps 30] [--every 10] [--width 1024] [--keep]

A stack of 12 linear layers, divided among two ranks on two cores by FSDP2 (gloo), with AdamW: at the width 1024 a
checkpoint holds 151 MB. Every tenth step is followed by one. `gathered` is what one process would write: rank 0 gathers
all tensors and writes them while the others wait. `parts` is what `save_sharded` does, `background` what `Saver` does.
One process is timed, too. The share is that of the loop's seconds in which no step is made; the last checkpoint is
waited for and counts. Cases alternate; the median of the rounds is shown.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from figures import keep  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.multiprocessing.spawn import start_processes  # noqa: E402

from transformula.interop.weights import is_divided  # noqa: E402
from transformula.runs.checkpoint import Checkpoint, save_checkpoint  # noqa: E402
from transformula.runs.sharded_checkpoint import Saver  # noqa: E402

LAYERS, ROWS = 12, 256
CASES = {2: ("gathered", "parts", "background"), 1: ("parts", "background")}


def groups_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Tensor]]:
    kept = {f"{n}/{key}": t for n, p in model.named_parameters() for key, t in optimizer.state[p].items()}
    return {"weights": {name: p.detach() for name, p in model.named_parameters()}, "optimizer": kept}


def gather(folder: Path, step: int, groups: dict[str, dict[str, Tensor]]) -> None:
    """Rank 0 writes whole tensors; the others wait."""
    held: dict[str, dict[str, Tensor]] = {name: {} for name in groups}
    for name, tensors in groups.items():
        for key, tensor in tensors.items():
            whole: Any = tensor
            held[name][key] = whole.full_tensor() if is_divided(tensor) else tensor
    if dist.get_rank() == 0:
        save_checkpoint(folder, Checkpoint(step, held["weights"], held["optimizer"], streams={}, state={}))
    dist.barrier()


def train(folder: Path, case: str, steps: int, every: int, width: int) -> tuple[float, float]:
    """(seconds in which training stood still, seconds of the loop)."""
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))
    if dist.is_initialized():
        from torch.distributed.fsdp import fully_shard

        for part in [*model.children(), model]:
            cast(Callable[..., Any], fully_shard)(part)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    saver, rows = Saver(folder, background=case == "background"), torch.randn(ROWS, width)
    stopped = begin = 0.0
    for step in range(-3, steps):
        if step == 0:
            begin = time.monotonic()
        loss: Tensor = model(rows).square().mean()
        torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step >= 0 and (step + 1) % every == 0:
            since, groups = time.monotonic(), groups_of(model, optimizer)
            if case == "gathered":
                gather(folder, step + 1, groups)
            else:
                saver.begin_save(step + 1, groups, {}, {})
            stopped += time.monotonic() - since
    since = time.monotonic()
    saver.wait()
    end = time.monotonic()
    return stopped + end - since, end - begin


def on_rank(rank: int, size: int, folder: Path, case: str, given: tuple[int, int, int]) -> None:
    torch.set_num_threads(1)
    if size > 1:
        store = f"file://{folder}/store"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    result = train(folder / "checkpoints", case, *given)
    if rank == 0:
        (folder / "result").write_text(json.dumps(result))
    if size > 1:
        dist.destroy_process_group()


def measure(size: int, case: str, given: tuple[int, int, int]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), cast(Callable[..., Any], start_processes)
        start(on_rank, (size, folder, case, given), nprocs=size, start_method="spawn")
        stopped, seconds = json.loads((folder / "result").read_text())
    return stopped, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in {"rounds": 3, "steps": 30, "every": 10, "width": 1024}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(given.rounds):
        for size, cases in CASES.items():
            for case in cases:
                what = f"{size} rank{'s' if size > 1 else ''}, {case}"
                found.setdefault(what, []).append(measure(size, case, (given.steps, given.every, given.width)))
                print(f"{what:<22} stopped {found[what][-1][0]:6.2f} s of {found[what][-1][1]:6.2f} s", flush=True)
    saves = given.steps // given.every
    rows = {
        what: {
            "share": round(statistics.median(stopped / seconds for stopped, seconds in each), 4),
            "seconds a checkpoint": round(statistics.median(stopped for stopped, _ in each) / saves, 3),
            "seconds": round(statistics.median(seconds for _, seconds in each), 2),
        }
        for what, each in found.items()
    }
    for what, row in rows.items():
        took = f"{row['seconds a checkpoint']:.2f} s a checkpoint, {row['seconds']:.1f} s in all"
        print(f"{what:<22} training stops for {row['share']:.1%} of its time ({took})")
    if given.keep:
        keep("checkpoints", {"width": given.width, "steps": given.steps, "every": given.every, **rows}, [])
    shares = [rows[f"2 ranks, {case}"]["share"] for case in ("background", "parts")]
    return 0 if shares[0] < shares[1] else 1


if __name__ == "__main__":
    sys.exit(main())
