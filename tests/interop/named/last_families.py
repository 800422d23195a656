"""Rows of further families: taggers, hybrids of attention and recurrences, models of images."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from tests.interop.named.decoders import FEWER
from tests.interop.named.expert_decoders import YARN, family
from tests.interop.named.others import encoder, head
from tests.interop.named.tiny import Tiny, rope
from tests.peers.hub import USUAL

FILTER = {
    **FEWER,
    **rope(10000, "yarn", factor=4.0, original_max_position_embeddings=8, truncate=False),
    "head_dim": 10,
    "pad_token_id": 0,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "sliding_window": 3,
}
XLSTM = {
    "vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 3, "num_heads": 2, "qk_dim_factor": 1.0,
    "ffn_round_up_to_multiple_of": 10,
}  # fmt: skip
FALCON_H1 = {
    **FEWER,
    "mamba_d_ssm": 40,
    "mamba_n_heads": 4,
    "mamba_d_state": 6,
    "mlp_multipliers": [0.7, 1.3],
    "ssm_multipliers": [0.5, 0.7, 1.1, 1.3, 1.5],
    "embedding_multiplier": 3.0,
    "lm_head_multiplier": 0.5,
    "key_multiplier": 0.7,
    "attention_in_multiplier": 1.2,
    "attention_out_multiplier": 0.8,
    "ssm_in_multiplier": 1.4,
    "ssm_out_multiplier": 0.6,
}
BIASES = {
    "mamba_proj_bias": True,
    "mamba_conv_bias": False,
    "projectors_bias": True,
    "attention_bias": True,
    "mlp_bias": True,
    "tie_word_embeddings": True,
}
OLMO_HYBRID = {
    **FEWER,
    "pad_token_id": 0,
    "linear_key_head_dim": 12,
    "linear_num_key_heads": 2,
    "linear_value_head_dim": 6,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
NORM_FIRST = {"mamba_rms_norm": True, "mamba_d_state": 6, "mamba_d_conv": 3, **rope(500, "linear", factor=2.0)}


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
    family("xlstm", "xLSTM", XLSTM),
    family("xlstm-uneven", "xLSTM", {**XLSTM, "ffn_proj_factor": 1.3, "gate_soft_cap": 3.0, "norm_eps": 1e-3}),
    family("falcon_h1", "FalconH1", FALCON_H1),
    family(
        "falcon_h1-normed",
        "FalconH1",
        {**FALCON_H1, "mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_n_groups": 2, **BIASES},
    ),
    family("falcon_h1-norm-first", "FalconH1", {**FEWER, "mamba_d_ssm": None, "mamba_n_heads": 4, **NORM_FIRST}),
    encoder("esmc", "EsmcForMaskedLM", "Esmc", {**USUAL, "pad_token_id": 1}),
    encoder(
        "esmc-biases",
        "EsmcForMaskedLM",
        "Esmc",
        {**USUAL, **rope(777, "linear", factor=2.0), "attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"},
    ),
    head("esmc-classifier", "EsmcForSequenceClassification", "Esmc", {**USUAL, "pad_token_id": 1}, "classes"),
    head("esmc-tagger", "EsmcForTokenClassification", "Esmc", {**USUAL, "pad_token_id": 1}, "encoder"),
    family("olmo_hybrid", "OlmoHybrid", OLMO_HYBRID),
    family(
        "olmo_hybrid-plain",
        "OlmoHybrid",
        {
            **USUAL,
            **YARN,
            "pad_token_id": 0,
            "num_hidden_layers": 4,
            "linear_allow_neg_eigval": False,
            "linear_value_head_dim": 6,
            "linear_conv_kernel_dim": 3,
            "attention_bias": True,
            "tie_word_embeddings": True,
        },
    ),
]
