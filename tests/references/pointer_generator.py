"""Pre-norm encoder and decoder as vaswani-pre, with biases; a gate between words of the source and of the table."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, linear, unembed
from tests.references.vaswani_pre import leaving


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    return shared(p, *leaving(p, given, n), given["source"], n)


def shared(p: Parameters, memory: Tensor, x: Tensor, source: Tensor, n: Mapping[str, float]) -> Tensor:
    """Log of g P(copied) + (1 - g) P(written)."""
    gate = torch.sigmoid(linear(p("copying"), x))
    q = x @ p["output.pointer.query.weight"].T
    k = memory @ p["output.pointer.key.weight"].T
    weights = torch.softmax(q @ k.transpose(1, 2) / n["width"] ** 0.5, -1)
    stands = source[..., None] == torch.arange(int(n["vocab"]))
    copied = weights @ stands.to(x.dtype)
    return torch.log(gate * copied + (1 - gate) * torch.softmax(unembed(p, x), -1) + 1e-9)
