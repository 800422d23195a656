"""Rows of further families: taggers, hybrids of attention and recurrences, models of images."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from tests.interop.named.decoders import FEWER
from tests.interop.named.others import head
from tests.interop.named.tiny import Tiny, rope

FILTER = {
    **FEWER,
    **rope(10000, "yarn", factor=4.0, original_max_position_embeddings=8, truncate=False),
    "head_dim": 10,
    "pad_token_id": 0,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "sliding_window": 3,
}


def chosen_experts(router: Any, x: Tensor) -> tuple[None, Tensor, Tensor]:
    """What the router of the privacy filter gives, in the type of x."""
    scores, chosen = F.linear(x, router.weight, router.bias).topk(router.top_k)
    return None, scores.softmax(-1) / router.top_k, chosen


def exact_experts(model: Any) -> None:
    """Routers and experts that compute in float32 whatever the model's type is."""
    model.config._experts_implementation = "batched_mm"
    for module in model.modules():
        if type(module).__name__.endswith("Router"):
            module.forward = partial(chosen_experts, module)


ROWS: list[Tiny] = [
    head(
        "openai_privacy_filter",
        "OpenAIPrivacyFilterForTokenClassification",
        "OpenAIPrivacyFilter",
        FILTER,
        "encoder",
        exact=exact_experts,
    ),
    head(
        "openai_privacy_filter-plain",
        "OpenAIPrivacyFilterForTokenClassification",
        "OpenAIPrivacyFilter",
        {**FILTER, **rope(100), "attention_bias": False, "swiglu_limit": 0.5},
        "encoder",
        exact=exact_experts,
    ),
]
