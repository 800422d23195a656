"""Pre-norm with rotary positions; a key is seen from its own document only."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, attention, embed, layer_norm, layers, mlp, unembed
from tests.references.sparse_transformer import hiding


def logits(p: Parameters, given: Mapping[str, Tensor], n: Mapping[str, float]) -> Tensor:
    """See plain.py. Row by row: each has its own documents."""
    rows = []
    for tokens, document in zip(given["tokens"], given["document"].tolist(), strict=True):
        x = embed(p, tokens[None])
        bias = hiding(len(tokens), int(n["heads"]), lambda h, i, j, of=document: of[i] == of[j])
        for layer in layers(p, n):
            u = layer_norm(layer("attention_input_norm"), x)
            x = x + attention(layer("attention"), u, n, base=10000, bias=bias)
            x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
        rows.append(unembed(p, layer_norm(p("after.norm"), x)))
    return torch.cat(rows)
