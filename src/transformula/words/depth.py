"""Reading across layers: `mix` and `attend`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .rms import rms_norm
from .word import GeneratorFor, Word, empty, fill, word


@word(
    "mix",
    streams=("*entries",),
    kind="depth",
    width="entry",
    equal=True,
    options={
        "dynamic": {"type": "flag", "default": False, "shapes": True, "help": "weights from the newest entry too"}
    },
    parameters={
        "weight": "entries",
        "first.weight": "entries * entry if dynamic else 0",
        "second.weight": "entries * entries if dynamic else 0",
    },
    checks={"entries > 0": "mix of nothing: the list is empty here"},
    flops="2 * entries * (entry + entries) if dynamic else 0",
    saved="entries * entry",
    silent="last",
    equation="y = sum of w_n e_n, w one-hot on the last at first; dynamic: w + W_2 gelu(W_1 rms(e_last))",
    source="DenseFormer: 2402.02622; dynamic: MUDD, 2502.12170",
)
class Mix(Word):
    """y = the learned weighted sum of a list's entries, each (batch, length, entry).

    weight (entries,), 0 and for the last 1: at first y is the newest entry. `dynamic=True` (weights that depend on the
    newest entry, position by position) is not built yet: InputError.
    """

    def __init__(self, entries: int, entry: int | None = None, dynamic: bool = False) -> None:
        super().__init__()
        if dynamic:
            raise InputError("mix(dynamic=True) is not built yet: it can be checked and explained, not run")
        self.weight = empty(entries)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill(self.weight[:-1], 0)
        fill(self.weight[-1:], 1)

    def forward(self, *entries: Tensor) -> Tensor:
        weights = self.weight.unbind()
        total = entries[0] * weights[0]
        for weight, entry in zip(weights[1:], entries[1:], strict=True):
            # no stack of the entries: at depth L it would copy L streams in each of L layers
            total = torch.addcmul(total, entry, weight) if entry.shape == total.shape else total + entry * weight
        return total

    def extra_repr(self) -> str:
        return f"{len(self.weight)} entries"


@word(
    "attend",
    streams=("*entries",),
    kind="depth",
    width="entry",
    equal=True,
    options={"eps": {"type": "number", "default": 1e-6, "minimum": 0, "help": "of the entries' norm"}},
    parameters={"query": "entry"},
    checks={"entries > 0": "attend to nothing: the list is empty here"},
    saved="entries * (entry + 2)",
    silent="mean",
    equation="y = sum of a_n e_n, a = softmax over n of query . rms(e_n)",
    source="Attention residuals: 2603.15031",
)
class Attend(Word):
    """y = sum of a_n e_n, with a = softmax over the entries of query . rms(e_n), position by position.

    Entries are (batch, length, entry); query (entry,), 0: at first y is their mean. rms has no weight.
    """

    def __init__(self, entries: int, entry: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.query = empty(entry)

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill(self.query, 0)

    def forward(self, *entries: Tensor) -> Tensor:
        # an entry without rows of its own (sinusoids) is one for the whole batch
        each = [(rms_norm(e, None, self.eps) * self.query).sum(-1) for e in entries]
        scores = torch.stack(torch.broadcast_tensors(*each), -1)  # type: ignore[no-untyped-call]
        weights = torch.softmax(scores, -1).unsqueeze(-2)
        total = entries[0] * weights[..., 0]
        for n, entry in enumerate(entries[1:], 1):
            total = total + entry * weights[..., n]
        return total
