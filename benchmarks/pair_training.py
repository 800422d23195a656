"""Speed of training a translator, in real target tokens a second, against the loop that toolkits for learners ship.

    python benchmarks/pair_training.py [--data ../shared/data/multi30k] [--rounds 12] [--keep]

Both train a pre-norm encoder and decoder of 3 + 3 layers, width 256, hidden 1,024, dropout 0.3, one table of 8,000
tokens, on the same rows, with batches of at most 4,096 padded tokens of the longer side, the update included. The peer
is written here in plain PyTorch in the way of JoeyNMT 2.3:

    rows in random order, so that a batch is as long as its longest rows    (ours: like lengths together)
    float32, torch's number of threads         (ours: the precision and the number of threads that `train` chooses here)
    the smoothed target as a dense distribution, KL divergence over all     (ours: no dense target, real positions)
      positions, padding then set to 0
    attention as products, softmax and dropout, a mask added                (ours: the words of the formula)
    nn.Dropout, torch.optim.Adam                                            (ours: cheap random bits, fused AdamW)

Steps of the two take turns in one process; printed are medians over rounds of a few steps, and the ratio. Goal: 4 times
on a CPU with matrix units for bf16 (AMX), 1.5 times on one where only float32 is fast.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from chosen import chosen_by_train, has_matrix_units, with_threads
from figures import keep
from torch import Tensor, nn

from transformula.api.reading import check_model
from transformula.data.settings import Seq2SeqSettings
from transformula.model import build
from transformula.tasks.seq2seq import SequenceToSequence
from transformula.tasks.translation import Translation
from transformula.training.machine import DTYPES
from transformula.training.optimizer import optimizers, parameters_of
from transformula.training.settings import TrainingSettings
from transformula.training.weights import Weights

WIDTH, HIDDEN, HEADS, LAYERS, DROPOUT, SMOOTHING = 256, 1024, 4, 3, 0.3, 0.1
BUDGET, STEPS = 4096, 3
GOALS = {True: 4.0, False: 1.5}
"""Times the peer's target tokens/s, with matrix units for bf16 and without."""


class Attention(nn.Module):
    """Products, softmax, dropout; mask (batch, 1 or queries, keys) is True where a key is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        batch = x.shape[0]

        def heads(t: Tensor) -> Tensor:
            return t.view(batch, -1, HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.q(x)) / math.sqrt(WIDTH // HEADS), heads(self.k(memory)), heads(self.v(memory))
        scores = torch.matmul(q, k.transpose(2, 3)).masked_fill(~mask.unsqueeze(1), float("-inf"))
        made = torch.matmul(self.dropout(torch.softmax(scores, dim=-1)), v)
        return self.out(made.transpose(1, 2).contiguous().view(batch, -1, WIDTH))


class Layer(nn.Module):
    """Pre-norm: attention, attention over a memory (of a decoder), feed-forward."""

    def __init__(self, memory: bool) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Attention() for _ in range(1 + memory))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2 + memory))
        self.up, self.down, self.dropout = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH), nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
        u = self.norms[0](x)
        x = x + self.dropout(self.attention[0](u, u, mask))
        if memory is not None and seen is not None:
            x = x + self.dropout(self.attention[1](self.norms[1](x), memory, seen))
        return x + self.dropout(self.down(torch.relu(self.up(self.norms[-1](x)))))


class Peer(nn.Module):
    """Encoder and decoder over one table."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab, WIDTH)
        self.encoder = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.dropout = nn.Dropout(DROPOUT)
        places = torch.arange(512)[:, None] / 10000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("places", torch.stack([places.sin(), places.cos()], -1).flatten(1))

    places: Tensor

    def embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.words(ids) * math.sqrt(WIDTH) + self.places[: ids.shape[1]])

    def forward(self, source: Tensor, tokens: Tensor, seen: Tensor) -> Tensor:
        x = self.embedded(source)
        for layer in self.encoder:
            x = layer(x, seen)
        memory, x = self.norms[0](x), self.embedded(tokens)
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()[None]
        for layer in self.decoder:
            x = layer(x, causal, memory, seen)
        return torch.nn.functional.linear(self.norms[1](x), self.words.weight)


def dense_loss(logits: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """KL divergence from a dense smoothed target, over all positions; what is padding is set to 0 afterwards."""
    vocab = logits.shape[-1]
    logs = torch.log_softmax(logits, dim=-1).view(-1, vocab)
    smooth = torch.full_like(logs, SMOOTHING / (vocab - 2))
    smooth.scatter_(1, targets.view(-1, 1), 1 - SMOOTHING)
    smooth.masked_fill_(~real.view(-1, 1), 0)
    return nn.functional.kl_div(logs, smooth, reduction="sum") / real.sum()


def random_batches(task: SequenceToSequence, seed: int) -> list[np.ndarray]:
    """Rows in random order, cut where one more would be above the budget of padded tokens of the longer side."""
    side = task.data.training
    assert side.sources is not None
    batches: list[np.ndarray] = []
    batch: list[int] = []
    longest = 0
    for row in np.random.default_rng(seed).permutation(len(side)):
        size = int(max(side.sources.lengths[row], side.targets.lengths[row]))
        if batch and (len(batch) + 1) * max(longest, size) > BUDGET:
            batches.append(np.array(batch))
            batch, longest = [], 0
        batch.append(row)
        longest = max(longest, size)
    return [*batches, np.array(batch)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data/multi30k")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--keep", action="store_true", help="write the figures to results/ and to the docs")
    given = parser.parse_args()
    folder = Path(given.data)
    torch.manual_seed(1)
    chosen = Seq2SeqSettings(
        data=f"{folder}/train.{{de,en}}", validation=f"{folder}/val.{{de,en}}", batch_tokens=BUDGET,
        label_smoothing=SMOOTHING,
    )  # fmt: skip
    task = Translation.make(chosen, {"vocab": 8000})
    numbers = {**task.numbers, "depth": LAYERS, "width": WIDTH, "heads": HEADS, "dropout": DROPOUT}
    ours = build(check_model("translator", numbers), seed=1).train()
    precision, threads = chosen_by_train(ours, task, task.batch(0))
    weights = Weights(ours.train(), precision)
    settings = TrainingSettings(optimizer="adamw", lr=1e-4)
    update = optimizers.get("adamw")(parameters_of(ours), settings, DTYPES[precision])
    peer = Peer(task.numbers["vocab"]).train()
    adam = torch.optim.Adam(peer.parameters(), lr=1e-4)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (ours, peer)]
    unordered = random_batches(task, 1)

    def our_step(step: int) -> int:
        batch = task.batch(step)
        weights.clear()
        task.loss(weights.model, batch).backward()
        weights.collect()
        torch.nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
        update.step(1e-4)
        weights.publish()
        return task.units(batch)

    def peer_step(step: int) -> int:
        batch = task.data.training.batch(unordered[step % len(unordered)])
        source, tokens, real = batch.inputs["source"], batch.inputs["tokens"], batch.targets >= 0
        lengths = batch.lengths.get("source", torch.full((len(source),), source.shape[1]))
        seen = torch.arange(source.shape[1])[None, None] < lengths[:, None, None]
        adam.zero_grad()
        dense_loss(peer(source, tokens, seen), batch.targets.clamp(min=0), real).backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        adam.step()
        return int(real.sum())

    found: dict[str, list[float]] = {"ours": [], "peer": []}
    filled: dict[str, list[float]] = {"ours": [task.data.buckets.fill().share["all"]], "peer": []}
    for rows in unordered:
        pair = [task.data.training.sources.lengths[rows], task.data.training.targets.lengths[rows]]
        filled["peer"].append(sum(each.sum() for each in pair) / sum(len(rows) * each.max() for each in pair))
    for number in range(given.rounds + 1):
        for name, step in (("ours", with_threads(threads, our_step)), ("peer", peer_step)):
            start, tokens = time.perf_counter(), 0
            for one in range(STEPS):
                tokens += step(number * STEPS + one)
            if number:  # the first round is for warming up
                found[name].append(tokens / (time.perf_counter() - start))
    rates = {name: statistics.median(each) for name, each in found.items()}
    shares = {name: statistics.mean(each) for name, each in filled.items()}
    ratio, goal = rates["ours"] / rates["peer"], GOALS[has_matrix_units()]
    lines = [
        "| | target tokens/s | real positions | parameters |",
        "| --- | --- | --- | --- |",
        *(
            f"| {n} | {rates[n]:,.0f} | {100 * shares[n]:.1f} % | {size:,} |"
            for n, size in zip(rates, sizes, strict=True)
        ),
        "",
        f"{ratio:.1f} times as fast (goal on this kind of CPU: {goal:g}); ours in {precision} with {threads} of"
        f" {torch.get_num_threads()} threads, as `train` chooses",
    ]
    print("\n".join(lines))
    if given.keep:
        choices = {"precision": precision, "threads": {"ours": threads, "peer": torch.get_num_threads()}}
        keep("pair_training", {"rates": rates, "real": shares, "ratio": ratio, **choices}, lines)
    raise SystemExit(0 if ratio >= goal else 1)


if __name__ == "__main__":
    main()
