"""DeepSeek-V2's attention; after three layers experts that a sigmoid scores each by itself, chosen in half of the
groups by scores and biases, and one that all positions use."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tests.references.mla import latent
from tests.references.plain import Parameters, embed, layers, linear, mlp, rms_norm, sigmoid, silu


def chosen(ranks: list[float], groups: int, active_groups: int, active: int) -> list[int]:
    """The experts with the largest ranks in the groups whose best two have the largest sums."""
    size = len(ranks) // groups

    def best_two(g: int) -> float:
        return sum(sorted(ranks[g * size : (g + 1) * size])[-2:])

    best = sorted(range(groups), key=best_two)[-active_groups:]
    return sorted((e for e in range(len(ranks)) if e // size in best), key=lambda e: ranks[e])[-active:]


def routed(p: Parameters, x: Tensor, n: Mapping[str, float]) -> Tensor:
    """Position by position: 2.5 times the mean of the chosen experts, weighed by their scores, plus the shared one."""
    rows = []
    for v in x.flatten(0, 1):
        scores = sigmoid(p["router.weight"] @ v)
        ranks = (scores + p["selection_bias"]).tolist()
        experts = chosen(ranks, int(n["expert_groups"]), int(n["active_groups"]), int(n["active"]))
        total = sum(scores[e] for e in experts)
        y = mlp(p("shared"), v, silu)
        for e in experts:
            h = silu(p["gate.weight"][e] @ v) * (p["up.weight"][e] @ v)
            y = y + 2.5 * scores[e] / total * (p["down.weight"][e] @ h)
        rows.append(y)
    return torch.stack(rows).view_as(x)


def logits(p: Parameters, tokens: Tensor, n: Mapping[str, float]) -> Tensor:
    """See plain.py."""
    x = embed(p, tokens)
    for number, layer in enumerate(layers(p, n), 1):
        x = x + latent(layer("latent"), rms_norm(layer("latent_input_norm"), x), n)
        if number <= 3:
            x = x + mlp(layer("mlp"), rms_norm(layer("mlp_input_norm"), x), silu)
        else:
            x = x + routed(layer("experts"), rms_norm(layer("experts_input_norm"), x), n)
    return linear(p("output.unembed"), rms_norm(p("after.norm"), x))
