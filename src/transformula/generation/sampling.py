"""From logits to tokens: pure functions, applied in this order.

    repetition penalty -> temperature -> top-k -> top-p -> min-p -> one draw a row

Each filter sees what those before it left: top-p adds up probabilities among the k kept tokens, min-p compares with
the most likely of them. Every function takes and returns logits (batch, vocab); a token ruled out has the logit -inf.
Ties at a border are all kept by top-k and min-p, so that the result does not depend on the order of a sort.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .settings import SamplingSettings


def penalize_repetition(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """logit / penalty where it is positive, logit * penalty where it is negative, for tokens in `seen` (batch, vocab).

    Source: Keskar et al. 2019 (CTRL), section 4.1, with the usual correction for negative logits.
    """
    if penalty == 1.0:
        return logits
    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def keep_top_k(logits: Tensor, k: int | None) -> Tensor:
    """Rule out what is less likely than the k-th most likely token of its row."""
    if k is None or k >= logits.shape[-1]:
        return logits
    border = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < border, float("-inf"))


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Nucleus sampling: keep the smallest set of tokens with total probability p or more (Holtzman et al. 2019).

    The most likely token always stays.
    """
    if p >= 1.0:
        return logits
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    beyond = before >= p
    beyond[..., 0] = False  # in float32 the smallest p are 0
    dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, beyond)
    return logits.masked_fill(dropped, float("-inf"))


def keep_min_p(logits: Tensor, p: float) -> Tensor:
    """Rule out tokens less likely than p times the most likely one (min-p; Nguyen et al. 2024)."""
    if p <= 0.0:
        return logits
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < p * probabilities.amax(-1, keepdim=True), float("-inf"))


def filter_logits(logits: Tensor, settings: SamplingSettings, seen: Tensor | None = None) -> Tensor:
    """All filters in their order; in float32 at least. At temperature 0 only the repetition penalty acts.

    A temperature divides the logits less their largest, in float64: however small it is, that of the most probable
    token stays 0.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if seen is not None:
        logits = penalize_repetition(logits, seen, settings.repetition_penalty)
    if settings.temperature == 0.0:
        return logits
    if settings.temperature != 1.0:
        logits = (logits - logits.amax(-1, keepdim=True)).double() / settings.temperature
    logits = keep_top_k(logits, settings.top_k)
    logits = keep_top_p(logits, settings.top_p)
    return keep_min_p(logits, settings.min_p)


def draw(logits: Tensor, generators: list[torch.Generator]) -> Tensor:
    """One token for each row, from its own random state: the first whose cumulative probability exceeds a random one.

    logits (batch, vocab) -> tokens (batch,). One number is drawn for a row whatever the batch, so a row's text does not
    depend on the rows beside it.
    """
    cumulated = logits.double().softmax(-1).cumsum(-1)
    uniform = torch.stack([torch.rand((), generator=g, dtype=torch.float64) for g in generators]).to(logits.device)
    # Scaled by the row's own total (1 but for rounding) the number stays below it, so no token of probability 0 is met.
    return torch.searchsorted(cumulated, (uniform * cumulated[:, -1]).unsqueeze(-1), right=True).squeeze(-1)


def choose(
    logits: Tensor, settings: SamplingSettings, generators: list[torch.Generator], seen: Tensor | None
) -> Tensor:
    """The next token of each row: (batch, vocab) -> (batch,). Greedy at temperature 0. What a device without float64
    (mps) made is drawn from on the CPU."""
    if settings.temperature == 0.0 and seen is None:
        return logits.argmax(-1)
    device = logits.device
    if device.type == "mps":
        logits, seen = logits.cpu(), None if seen is None else seen.cpu()
    logits = filter_logits(logits, settings, seen)
    return (logits.argmax(-1) if settings.temperature == 0.0 else draw(logits, generators)).to(device)
