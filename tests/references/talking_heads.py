"""Pre-norm; the scores of all heads are mixed before the softmax, and the weights after it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.plain import Parameters, embed_with_positions, layer_norm, layers, linear, mlp, unembed


def talking(p: Parameters, x: Tensor, heads: int) -> Tensor:
    """Weights A_g = softmax(sum over h of W_gh q_h k_h^T / sqrt(size)); head f: (sum over g of W_fg A_g) v_f."""
    q, k, v = (linear(p(name), x).chunk(heads, -1) for name in ("query", "key", "value"))
    products = [q[h] @ k[h].mT / q[h].shape[-1] ** 0.5 for h in range(heads)]
    ahead = torch.ones(products[0].shape[-2:]).triu(1).bool()
    before, behind = p["before.weight"], p["behind.weight"]
    mixed = [torch.stack([before[g, h] * products[h] for h in range(heads)]).sum(0) for g in range(heads)]
    weights = [s.masked_fill(ahead, float("-inf")).softmax(-1) for s in mixed]
    made = [torch.stack([behind[f, g] * weights[g] for g in range(heads)]).sum(0) @ v[f] for f in range(heads)]
    return linear(p("output"), torch.cat(made, -1))


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed_with_positions(p, tokens)
    for layer in layers(p, n):
        x = x + talking(layer("talking"), layer_norm(layer("talking_input_norm"), x), int(n["heads"]))
        x = x + mlp(layer("mlp"), layer_norm(layer("mlp_input_norm"), x))
    return unembed(p, layer_norm(p("after.norm"), x))
