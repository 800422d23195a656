"""Training speed on a CPU: this program's step against a hand-made GPT as people run it there today.

    python benchmarks/train_speed.py [--rounds 7] [--keep]

Both are 6 layers, width 384, 6 heads, context 256, 16 sequences, 65 characters, dropout 0.2, trained with AdamW and
clipping. The peer is plain PyTorch in float32 with PyTorch's defaults: one product for queries, keys and values,
`scaled_dot_product_attention`, `nn.Dropout`, `nn.Linear`, `torch.optim.AdamW`. Ours is what `transformula train` runs:
the last row with the precision and the number of threads that it would choose here, the others as they are named.
Steps alternate in one process; medians; the peer against itself gives the spread. Claim, of that last row: at least 3
times the tokens/s on a CPU with matrix units for bf16 (AMX), 1.3 times on one where only float32 is fast. Where
products in bf16 are emulated, a step in it takes minutes: these rows are left out, which is said.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
from chosen import chosen_by_train, has_matrix_units, with_threads
from figures import keep
from torch import Tensor, nn
from torch.nn import functional as F

from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.training.choices import drawback_of_bf16
from transformula.training.machine import BF16, FLOAT32
from transformula.training.optimizer import optimizers, parameters_of
from transformula.training.settings import TrainingSettings
from transformula.training.weights import Weights
from transformula.words import vocabulary

LAYERS, WIDTH, HEADS, CONTEXT, BATCH, VOCAB, DROPOUT = 6, 384, 6, 256, 16, 65, 0.2
FORMULA = "x = x + dropout(attention(norm(x), dropout=dropout))\nx = x + dropout(mlp(norm(x)))"
CLAIMS = {True: 3.0, False: 1.3}
"""Times the peer's tokens/s, with matrix units for bf16 and without."""


class Block(nn.Module):
    """A pre-norm layer by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.projection = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).split(WIDTH, dim=2)
        )
        rate = DROPOUT if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=rate, is_causal=True)
        x = x + self.dropout(self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_2(x)))))


class ByHand(nn.Module):
    """A GPT as it is written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.words.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(self.dropout(x))))


def loss_of(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens).float().view(-1, VOCAB), targets.view(-1))


def peer_step(tokens: Tensor, targets: Tensor) -> Callable[[], float]:
    model = ByHand()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)

    def step() -> float:
        loss = loss_of(model, tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


class Windows:
    """What the choice of precision and threads asks a task for."""

    unit = "tokens"

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return loss_of(model, *batch)

    def units(self, batch: tuple[Tensor, Tensor]) -> int:
        return batch[0].numel()


def our_model() -> nn.Module:
    numbers = {"depth": LAYERS, "width": WIDTH, "heads": HEADS, "context": CONTEXT, "vocab": VOCAB, "dropout": DROPOUT}
    before = "x = dropout(embed.words(tokens) + positions(tokens))"
    text = from_formula(FORMULA).override({"before": before, "after": "x = norm(x)", **numbers})
    return build(check(text, vocabulary()), seed=0)


def our_step(name: str, precision: str, tokens: Tensor, targets: Tensor) -> Callable[[], float]:
    model = our_model()
    weights = Weights(model, precision)
    weights.publish()
    products = torch.bfloat16 if precision == "bf16" else torch.float32
    optimizer = optimizers.get(name)(parameters_of(model), TrainingSettings(optimizer=name), products)

    def step() -> float:
        weights.model.train()
        weights.clear()
        loss = loss_of(weights.model, tokens, targets)
        loss.backward()
        weights.collect()
        nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step(1e-3)
        weights.publish()
        return loss.item()

    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="steps of each that count (default 7)")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results and the docs")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    tokens = torch.randint(VOCAB, (BATCH, CONTEXT))
    targets = torch.randint(VOCAB, (BATCH, CONTEXT))
    precision, threads = chosen_by_train(our_model(), Windows(), (tokens, targets))
    chosen = f"ours, as chosen: {precision}, {threads} thread{'s' * (threads > 1)}"
    steps = {"by hand, float32": peer_step(tokens, targets), "by hand again": peer_step(tokens, targets)}
    ours = {"bf16, AdamW": ("adamw", BF16), "bf16, Muon": ("muon", BF16), "float32, AdamW": ("adamw", FLOAT32)}
    slow = drawback_of_bf16(torch.device("cpu"))
    for name, (optimizer, own) in ours.items():
        if not (slow and own == BF16):
            steps[f"ours, {name}"] = our_step(optimizer, own, tokens, targets)
    left_out = [f"left out: ours, {name}: {slow}" for name, (_, own) in ours.items() if slow and own == BF16]
    steps[chosen] = with_threads(threads, our_step("adamw", precision, tokens, targets))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(given.rounds + 2):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if turn >= 2:
                seconds[name].append(time.perf_counter() - start)
    rates = {name: BATCH * CONTEXT / statistics.median(times) for name, times in seconds.items()}
    peer = rates["by hand, float32"]
    ratios = {name: rate / peer for name, rate in rates.items()}
    rows = [f"{name:36} {rate:8,.0f} tokens/s   {ratios[name]:5.2f} times" for name, rate in rates.items()]
    claim = CLAIMS[has_matrix_units()]
    reached = ratios[chosen] >= claim
    if given.json:
        print(json.dumps({"tokens_per_second": rates, "ratios": ratios, "claim": claim, "left_out": left_out}))
    else:
        print("\n".join([*rows, *left_out]))
        print(f"claim: at least {claim:g} times on this kind of CPU; {'reached' if reached else 'NOT reached'}")
    if given.keep:
        table = ["", "| | tokens/s | times |", "| --- | --- | --- |"]
        table += [f"| {name} | {rate:,.0f} | {ratios[name]:.2f} |" for name, rate in rates.items()]
        table += ["", *left_out] if left_out else []
        figures = {"tokens_per_second": rates, "ratios": ratios, "claim": claim, "left_out": left_out}
        keep("train_speed", figures, [*table, ""])
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
