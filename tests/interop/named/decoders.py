"""Rows of decoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.tiny import Tiny, rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN, KV_HEADS, SIZE, USUAL, WINDOW

GPT2: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "n_embd": WIDTH,
    "n_layer": DEPTH,
    "n_head": HEADS,
    "n_positions": CONTEXT,
}
FEWER = {**USUAL, "num_key_value_heads": KV_HEADS}
LEARNED = {"original_max_position_embeddings": 8}


def llama(name: str, **keys: Any) -> Tiny:
    return Tiny(name, "LlamaForCausalLM", "LlamaConfig", {**FEWER, **keys}, slow=name != "llama")


ROWS = [
    Tiny("gpt2", "GPT2LMHeadModel", "GPT2Config", GPT2),
    Tiny(
        "gpt2-inner",
        "GPT2LMHeadModel",
        "GPT2Config",
        {**GPT2, "n_inner": HIDDEN, "activation_function": "relu"},
        slow=True,
    ),
    llama("llama", **rope(500000)),
    llama("llama-tied-biases", tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=10),
    llama("llama-linear", **rope(10000, "linear", factor=2.0)),
    llama(
        "llama-llama3",
        **rope(
            500000, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8
        ),
    ),
    llama("llama-yarn", **rope(10000, "yarn", factor=4.0, **LEARNED)),
]
WINDOWED = {**FEWER, "sliding_window": WINDOW}
GEMMA = {**WINDOWED, "head_dim": SIZE, "query_pre_attn_scalar": 7}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}  # they bend what random weights give


def family(name: str, model: str, keys: Mapping[str, Any], slow: bool = False, config: str = "", **row: Any) -> Tiny:
    """A row of a class NAMEForCausalLM."""
    return Tiny(name, f"{model}ForCausalLM", config or f"{model}Config", keys, slow=slow, **row)


ROWS += [
    family("gpt_neox", "GPTNeoX", {**USUAL, **rope(10000, partial_rotary_factor=0.5)}),
    family(
        "gpt_neox-serial",
        "GPTNeoX",
        {**USUAL, "use_parallel_residual": False, **rope(10000, partial_rotary_factor=0.25)},
        slow=True,
    ),
    family(
        "gpt_neox-yarn",
        "GPTNeoX",
        {**USUAL, "hidden_size": 64, **rope(10000, "yarn", partial_rotary_factor=0.5, factor=4.0, **LEARNED)},
        slow=True,
    ),
    family("mistral", "Mistral", {**WINDOWED, "head_dim": None}),
    family("mistral-whole", "Mistral", {**FEWER, "sliding_window": None, "head_dim": SIZE}, slow=True),
    family("qwen2", "Qwen2", {**FEWER, **rope(1000000)}, slow=True),
    family("qwen2-window", "Qwen2", {**WINDOWED, "use_sliding_window": True, "max_window_layers": 2}),
    family("qwen2-yarn", "Qwen2", {**FEWER, **rope(1000000, "yarn", factor=4.0, **LEARNED)}, slow=True),
    family("qwen3", "Qwen3", {**FEWER, "head_dim": SIZE, "tie_word_embeddings": True, **rope(1000000)}),
    family(
        "qwen3-window",
        "Qwen3",
        {**WINDOWED, "head_dim": SIZE, "use_sliding_window": True, "max_window_layers": 1, "attention_bias": True},
        slow=True,
    ),
    family("gemma2", "Gemma2", {**GEMMA, **CAPS}),
    family("gemma2-plain", "Gemma2", {**GEMMA, **dict.fromkeys(CAPS), "tie_word_embeddings": False}, slow=True),
    family("gemma3", "Gemma3", {**GEMMA, "num_hidden_layers": 6}, config="Gemma3TextConfig"),
    family(
        "gemma3-linear",
        "Gemma3",
        {
            **GEMMA,
            "final_logit_softcapping": 3.0,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
        },
        slow=True,
        config="Gemma3TextConfig",
    ),
    family("olmo2", "Olmo2", FEWER),
    family("olmo2-biases", "Olmo2", {**USUAL, "attention_bias": True, "tie_word_embeddings": True}, slow=True),
    family("phi", "Phi", {**USUAL, **rope(10000, partial_rotary_factor=0.5)}),
    family("phi-normed", "Phi", {**FEWER, "qk_layernorm": True, **rope(10000, partial_rotary_factor=0.25)}, slow=True),
    family("phi3", "Phi3", {**FEWER, "pad_token_id": 0}),
    family(
        "phi3-window",
        "Phi3",
        {**WINDOWED, "pad_token_id": 0, **rope(10000, partial_rotary_factor=0.75)},
        slow=True,
    ),
    family("mixtral", "Mixtral", {**FEWER, "num_local_experts": 5, "num_experts_per_tok": 2, "head_dim": None}),
    family("mixtral-window", "Mixtral", {**WINDOWED, "num_local_experts": 3, "num_experts_per_tok": 3}, slow=True),
]
DEEPSEEK = {
    **USUAL,
    "num_key_value_heads": HEADS,
    "moe_intermediate_size": 20,
    "n_routed_experts": 8,
    "n_group": 4,
    "topk_group": 2,
    "num_experts_per_tok": 3,
    "kv_lora_rank": 14,
    "q_lora_rank": 18,
    "qk_rope_head_dim": 6,
    "v_head_dim": 9,
    "qk_nope_head_dim": 10,
    "first_k_dense_replace": 1,
}
GPT_OSS = {**WINDOWED, "head_dim": SIZE, "num_local_experts": 5, "num_experts_per_tok": 2, "swiglu_limit": 0.5}
ROWS += [
    family("deepseek-v3", "DeepseekV3", DEEPSEEK),
    family(
        "deepseek-v3-yarn",
        "DeepseekV3",
        {
            **DEEPSEEK,
            "attention_bias": True,
            "rope_interleave": False,
            "n_shared_experts": 2,
            "norm_topk_prob": False,
            "rms_norm_eps": 1e-3,
            **rope(10000, "yarn", factor=4.0, mscale=0.707, mscale_all_dim=0.5, **LEARNED),
        },
        slow=True,
    ),
    family("deepseek-v3-one-rank", "DeepseekV3", {**DEEPSEEK, "q_lora_rank": None}, slow=True),
    family(
        "gpt-oss",
        "GptOss",
        {**GPT_OSS, **rope(150000, "yarn", factor=4.0, truncate=False, **LEARNED)},
    ),
    family("gpt-oss-plain", "GptOss", {**GPT_OSS, "attention_bias": False, **rope(10000)}, slow=True),
]
ROWS += [
    Tiny(
        f"llama-{kind}",
        "LlamaForCausalLM",
        "LlamaConfig",
        {**FEWER, **rope(10000, kind, **keys)},
        slow=True,
        refused="rope_type",
    )
    for kind, keys in {
        "dynamic": {"factor": 2.0},
        "longrope": {
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
            "factor": 2.0,
            "original_max_position_embeddings": 12,
        },
    }.items()
]
