"""Training on one GPU: GPT-2 124M by the trainer, beside a GPT by hand in a plain loop, in one run.

    python benchmarks/gpu_training.py [--rounds 2] [--steps 60] [--batch 16] [--no-compile] [--keep]
    python benchmarks/gpu_training.py --device cpu --smoke     a small model on a CPU: shows that the script runs

Context 1024, vocabulary 50,304, no dropout, bf16, compiled, AdamW, clipping, random tokens. Each case is a process of
its own; they take turns. Tokens/s are those of all steps but the first ten; shares are of the FLOPs that `summary`
counts, of the device's peak.

    by hand       nanoGPT's way, in plain PyTorch: one product for queries, keys and values,
                  `scaled_dot_product_attention`, float32 weights under autocast, model and loss compiled in one piece,
                  fused AdamW
    none          the trainer: `model.compile()`, a working copy in bf16, its log, its guard against numbers that are
                  not finite
    loss compiled the same, where the task compiles its loss, too
    ddp           the trainer with that layout, in a group of one: all collectives are made
    eager         the trainer where nothing is compiled
    fsdp          the same with that layout, in a group of one: it takes no compiled model

Claims, on a GPU: the better one of `none` and `loss compiled` makes at least the tokens/s of `by hand`; ddp makes at
least 0.97 of those of `none`, and fsdp of those of `eager`. On a CPU nothing is claimed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))

from figures import ROOT, keep  # noqa: E402

from transformula import gallery  # noqa: E402
from transformula.analysis.planning.devices import devices  # noqa: E402
from transformula.errors import ConfigError  # noqa: E402
from transformula.language.check import check  # noqa: E402
from transformula.model import build  # noqa: E402
from transformula.runs.log import read_log  # noqa: E402
from transformula.tasks.base import Batch, Scores, Task  # noqa: E402
from transformula.tasks.chunked_loss import token_loss  # noqa: E402
from transformula.training import TrainingSettings, train  # noqa: E402
from transformula.training.machine import peak  # noqa: E402
from transformula.training.parallel.world import join, leave  # noqa: E402
from transformula.training.state import flops_per_unit  # noqa: E402
from transformula.words import vocabulary  # noqa: E402

EQUAL, ALIKE = 1.0, 0.97
BY_HAND, NONE, LOSS, DDP, EAGER, FSDP = "by hand", "none", "loss compiled", "ddp", "eager", "fsdp"
CASES = (BY_HAND, NONE, LOSS, DDP, EAGER, FSDP)
BESIDE = {DDP: NONE, FSDP: EAGER}
"""Layout -> what it is compared with."""


@dataclass(frozen=True)
class Size:
    """What is trained, on which device, for how long; the first `uncounted` steps do not count."""

    depth: int = 12
    width: int = 768
    heads: int = 12
    vocab: int = 50304
    context: int = 1024
    batch: int = 16
    steps: int = 60
    uncounted: int = 10
    device: str = "cuda"
    compiled: bool = True

    def tokens(self, step: int) -> tuple[Tensor, Tensor]:
        """What goes in, and the next tokens; each (batch, context)."""
        rows = torch.randint(self.vocab, (self.batch, self.context + 1), generator=torch.Generator().manual_seed(step))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


SMALL = Size(depth=2, width=64, heads=2, vocab=512, context=64, batch=4, steps=8, uncounted=3, device="cpu")


class Layer(nn.Module):
    """A pre-norm layer by hand."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(seen.transpose(1, 2).reshape(rows, length, width))
        made: Tensor = x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))
        return made


class HandMade(nn.Module):
    """GPT-2 as it is written by hand; returns the mean loss."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(size.vocab, size.width), nn.Embedding(size.context, size.width)
        self.layers = nn.Sequential(*(Layer(size.width, size.heads) for _ in range(size.depth)))
        self.norm = nn.LayerNorm(size.width)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        logits = F.linear(self.norm(self.layers(x)), self.words.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def our_model(size: Size) -> nn.Module:
    numbers = {key: getattr(size, key) for key in ("depth", "width", "heads", "vocab", "context")}
    return build(check(gallery.load("gpt2").override({**numbers, "dropout": 0.0}), vocabulary()), seed=0)


class RandomTokens(Task):
    """Language modeling on tokens that chance draws."""

    name, unit = "random-tokens", "tokens"

    def __init__(self, size: Size, compiled_loss: bool = False) -> None:
        self.size, self.numbers = size, {"vocab": size.vocab, "context": size.context}
        self.compiled_loss: Callable[..., Tensor] | None = torch.compile(mean_loss) if compiled_loss else None

    def batch(self, step: int, micro: int = 0) -> Batch:
        tokens, targets = self.size.tokens(step)
        return Batch({"tokens": tokens}, targets)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if self.compiled_loss is None:
            return token_loss(model, batch)
        return self.compiled_loss(model(**batch.given), batch.targets)

    def units(self, batch: Batch) -> int:
        return batch.targets.numel()

    def evaluate(self, model: nn.Module, progress: Any = None) -> Scores:
        return Scores(loss=0.0)

    def verdict(self, scores: Mapping[str, float]) -> str:
        return "chance"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        return ""

    def describe(self) -> dict[str, Any]:
        return {"data": "random tokens"}


def mean_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def by_hand(size: Size) -> float:
    """Tokens per second of the plain loop."""
    device = torch.device(size.device)
    torch.manual_seed(0)
    model: nn.Module = HandMade(size).to(device)
    matrices, rest = ([p for p in model.parameters() if (p.ndim > 1) == many] for many in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    run: Any = torch.compile(model) if size.compiled else model
    begin = 0.0
    for step in range(size.steps):
        if step == size.uncounted:
            begin = now(device)
        tokens, targets = (one.to(device, non_blocking=True) for one in size.tokens(step))
        with torch.autocast(device.type, torch.bfloat16):
            loss = run(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return (size.steps - size.uncounted) * size.batch * size.context / (now(device) - begin)


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def by_trainer(size: Size, folder: Path, case: str) -> float:
    """Tokens per second of a run of the trainer, by its log. Raises ConfigError for a layout that it does not have."""
    parallel = case if case in BESIDE else NONE
    compiled = size.compiled and case not in (EAGER, FSDP)
    given = {"steps": size.steps, "evaluate_every": 10**6, "telemetry_every": 0, "log_every": 1, "optimizer": "adamw"}
    how = {"precision": "bf16", "device": size.device, "lr": 6e-4, "parallel": parallel, "threads": 1}
    settings = TrainingSettings.read({**given, **how})
    model = our_model(size)
    if compiled:
        model.compile()
    ranks = join(parallel)
    ranks.several = ranks.several or case == DDP  # so that a group of one makes its collectives, too
    train(RandomTokens(size, case == LOSS and compiled), model, settings, folder, quiet=True)
    if parallel != NONE:
        leave()
    events = [one for one in read_log(folder / "log.jsonl") if one["event"] == "step"][size.uncounted - 1 :]
    first, last = events[0], events[-1]
    return float(last["units"] - first["units"]) / float(last["seconds"] - first["seconds"])


def measured(case: str, size: Size, folder: Path) -> dict[str, Any]:
    """The figures of a case, in this process: {"missing": why} for a layout that there is not."""
    torch.set_float32_matmul_precision("high")
    try:
        rate = by_hand(size) if case == BY_HAND else by_trainer(size, folder / "run", case)
    except ConfigError as error:
        if case != FSDP or "parallel" not in str(error):
            raise
        return {"missing": " ".join(str(error).split())}
    cuda = size.device.startswith("cuda")
    held = torch.cuda.max_memory_allocated() / 2**30 if cuda else 0.0
    device = torch.cuda.get_device_name() if cuda else "the CPU"
    return {"rate": rate, "GiB": round(held, 2), "device": device, **peak_of(device, size)}


def peak_of(name: str, size: Size) -> dict[str, Any]:
    """FLOP/s of the device in bf16, and where that figure is from."""
    for key, known in devices().items():
        if all(part in name.lower() for part in key.split("-")) and known.bf16:
            return {"peak": known.peak("bf16"), "peak of": known.source}
    return {"peak": peak(torch.device(size.device), "bf16"), "peak of": "a product that was measured here"}


def in_a_process(case: str, size: Size, folder: Path) -> dict[str, Any]:
    """The figures of a case in a process of its own; of ddp and fsdp one that is a group of one."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    if case in BESIDE:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        environment |= {**place, "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    given = ["--case", case, "--size", json.dumps(asdict(size)), "--folder", str(folder)]
    subprocess.run([sys.executable, __file__, *given], env=environment, check=True, stdout=subprocess.DEVNULL)
    figures: dict[str, Any] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return figures


def told(found: Mapping[str, list[dict[str, Any]]], flops: float) -> tuple[list[str], dict[str, float]]:
    """A line for each case, and its tokens per second: the median."""
    rates = {case: statistics.median(one["rate"] for one in many) for case, many in found.items() if many}
    lines = []
    for case, many in found.items():
        if many:
            share, times = rates[case] * flops / many[0]["peak"], rates[case] / rates[BY_HAND]
            lines.append(f"| {case} | {rates[case]:,.0f} | {times:.3f} | {share:.1%} | {many[0]['GiB']:.1f} |")
    return ["| | tokens/s | times by hand | of the peak | GiB |", "| --- | --- | --- | --- | --- |", *lines], rates


def judged(rates: Mapping[str, float]) -> list[tuple[str, bool]]:
    """What is claimed on a GPU, and whether it was reached."""
    best = max(rates[NONE], rates[LOSS]) / rates[BY_HAND]
    found = [(f"the trainer makes {best:.3f} of the tokens/s by hand (goal: {EQUAL:g})", best >= EQUAL)]
    for case, other in BESIDE.items():
        if case in rates:
            share = rates[case] / rates[other]
            found.append((f"{case} makes {share:.3f} of the tokens/s of {other} (goal: {ALIKE:g})", share >= ALIKE))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, help="of each run (default 60)")
    parser.add_argument("--batch", type=int, help="rows of a step (default 16)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true", help="a small model that is not compiled, for a CPU")
    parser.add_argument("--no-compile", action="store_true", help="nothing is compiled")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/")
    for name in ("--case", "--size", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        folder = Path(given.folder)
        figures = measured(given.case, Size(**json.loads(given.size)), folder)
        (folder / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
        return 0
    cuda = given.device.startswith("cuda")
    if cuda and not torch.cuda.is_available():
        print("there is no CUDA device here, so nothing was measured; --device cpu --smoke shows that the script runs")
        return 2
    chosen = asdict(SMALL if given.smoke else Size()) | {"device": given.device}
    chosen |= {key: value for key in ("steps", "batch") if (value := getattr(given, key)) is not None}
    size = Size(**chosen | {"compiled": not (given.no_compile or given.smoke)})
    if size.steps < size.uncounted + 2:
        parser.error(
            f"--steps {size.steps}: the first {size.uncounted} do not count; give at least {size.uncounted + 2}"
        )
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in CASES}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.rounds):
            for case in CASES:
                figures = in_a_process(case, size, Path(place) / f"{case} {number}")
                if "missing" in figures:
                    missing[case] = figures["missing"]
                    continue
                found[case].append(figures)
                print(f"round {number + 1}: {case:<14} {figures['rate']:12,.0f} tokens/s", flush=True)
    first = found[BY_HAND][0]
    table, rates = told(found, flops_per_unit(our_model(size)))
    print("\n".join(table))
    print(f"measured on {first['device']}; peak {first['peak'] / 1e12:,.1f} TFLOP/s ({first['peak of']}); {size}")
    for case, why in missing.items():
        print(f"{case} is missing: {why}")
    if not cuda:
        print("on a CPU nothing is claimed: this shows that the script runs")
    claims = judged(rates) if cuda else []
    for text, reached in claims:
        print(text if reached else f"{text}: NOT reached")
    if given.keep:
        about = {"device": first["device"], "peak": first["peak"], "missing": missing, "size": asdict(size)}
        keep("gpu_training", {**about, "tokens per second": rates}, [f"Measured on {first['device']}:", "", *table])
    return 0 if all(reached for _, reached in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
