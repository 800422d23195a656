"""pointer-generator; a product of each word's predecessor is added where the encoder begins."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed, linear
from tests.references.pointer_generator import shared
from tests.references.vaswani_pre import entering, stacks


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    source = given["source"]
    e = n["width"] ** 0.5 * embed(p, source)
    before = torch.cat([torch.zeros_like(e[:, :1]), e[:, :-1]], 1)
    memory = entering(p, source, n) + linear(p("previous"), before)
    return shared(p, *stacks(p, memory, entering(p, given["tokens"], n), n), source, n)
