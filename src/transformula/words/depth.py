"""Reading across layers: `mix` and `attend`."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from .rms import unit_linear
from .word import GeneratorFor, Matrix, Word, empty, fill, flag, number, spread, whole, word


@word(
    "mix",
    streams=("*entries",),
    kind="depth",
    width="entry",
    equal=True,
    options={
        "dynamic": flag("weights depend on the newest entry, too", shapes=True),
        "hidden": whole("dynamic: rows of W_1", "max(1, entries)", minimum=1, shapes=True),
        "eps": number("dynamic: of the newest entry's norm", 1e-06, minimum=0),
    },
    parameters={
        "weight": "entries",
        "first.weight": "hidden * entry if dynamic else 0",
        "second.weight": "entries * hidden if dynamic else 0",
    },
    checks={"entries > 0": "mix of nothing: the list is empty here"},
    flops="2 * hidden * (entry + entries) if dynamic else 0",
    # each entry is kept once, by the first that reads it as its newest
    saved="entry + (1 + 3 * hidden + entries if dynamic else 0)",
    initial_scale="last",
    example="h = x + mlp(norm(x)); x = mix(h[:])\nbefore: x = embed.words(tokens) + positions(tokens); h = x",
    equation="y = sum of w_n e_n, w one-hot on the last at first; dynamic: w + W_2 gelu(W_1 e_last / rms(e_last))",
    source="DenseFormer: 2402.02622; dynamic: MUDD, 2502.12170",
)
class Mix(Word):
    """y = the learned weighted sum of a list's entries, each (batch, length, entry).

    weight (entries,), 0 and for the last 1: at first y is the newest entry. `dynamic=True` (MUDD): position by position

        w = weight + W_2 gelu(W_1 e / rms(e)), e the newest entry

    W_1 is first.weight (hidden, entry), from N(0, 1 / (3 entry)), W_2 is second.weight (entries, hidden), 0; rms has no
    weight. The authors' code has one W_1 for all the mixtures that are made at a place, of as many times `entries`
    rows: write that as `hidden=`.
    """

    def __init__(self, entries: int, entry: int, hidden: int, dynamic: bool, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = empty(entries)
        self.first = Matrix(entry, hidden) if dynamic else None
        self.second = Matrix(hidden, entries) if dynamic else None
        if dynamic:
            self.constants, self.deviations = {"second.weight": 0}, {"first.weight": spread(entry)}

    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        fill(self.weight[:-1], 0)
        fill(self.weight[-1:], 1)

    def forward(self, *entries: Tensor) -> Tensor:
        weights = self.weight.unbind()
        if self.first is not None and self.second is not None:
            hidden = F.gelu(unit_linear(entries[-1], self.first.weight, self.eps))
            weights = F.linear(hidden, self.second.weight, self.weight).unsqueeze(-2).unbind(-1)
        return weighted_sum(entries, weights)


@word(
    "attend",
    streams=("*entries",),
    kind="depth",
    width="entry",
    equal=True,
    options={"eps": number("of the entries' norm", 1e-06, minimum=0)},
    parameters={"query": "entry"},
    checks={"entries > 0": "attend to nothing: the list is empty here"},
    flops="2 * entries * entry",
    saved="entry + 4 * entries",
    initial_scale="mean",
    example="a = mlp(norm(x)); x = attend(x, a[:])",
    equation="y = sum of a_n e_n, a = softmax over n of query . rms(e_n)",
    source="Attention residuals: 2603.15031",
)
class Attend(Word):
    """y = sum of a_n e_n, with a = softmax over the entries of query . rms(e_n), position by position.

    Entries are (batch, length, entry); query (entry,), 0: at first y is their mean. rms has no weight.
    """

    constants = {"query": 0}

    def __init__(self, entries: int, entry: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.query = empty(entry)

    def forward(self, *entries: Tensor) -> Tensor:
        # an entry without rows of its own (sinusoids) is one for the whole batch
        logits = [unit_linear(e, self.query.unsqueeze(0), self.eps) for e in entries]
        scores = torch.cat(torch.broadcast_tensors(*logits), -1)  # type: ignore[no-untyped-call]
        return weighted_sum(entries, torch.softmax(scores, -1).unsqueeze(-2).unbind(-1))


def weighted_sum(entries: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """The sum of weights times entries, each (batch, length, entry), one by one: a stack of the entries would, at depth
    L, copy L streams in each of L layers."""
    total = entries[0] * weights[0]
    for weight, entry in zip(weights[1:], entries[1:], strict=True):
        total = torch.addcmul(total, entry, weight) if entry.shape == total.shape else total + entry * weight
    return total
