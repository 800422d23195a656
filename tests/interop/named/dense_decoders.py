"""Rows of further decoders without experts."""

from __future__ import annotations

from functools import partial

from tests.interop.named import decoders
from tests.interop.named.decoders import CAPS, FEWER, GEMMA, LEARNED, WINDOWED
from tests.interop.named.tiny import rope
from tests.peers.hub import SIZE, USUAL

family = partial(decoders.family, slow=True)

ROWS = [
    family("gemma", "Gemma", {**FEWER, "head_dim": SIZE}),
    family("gemma-untied", "Gemma", {**FEWER, "head_dim": SIZE, "tie_word_embeddings": False, "attention_bias": True}),
    family("starcoder2", "Starcoder2", FEWER),
    family("starcoder2-window", "Starcoder2", {**WINDOWED, "use_bias": False, "tie_word_embeddings": False}),
    family("smollm3", "SmolLM3", {**FEWER, "num_hidden_layers": 4, "pad_token_id": 0}),
    family(
        "smollm3-window",
        "SmolLM3",
        {
            **WINDOWED,
            "use_sliding_window": True,
            "no_rope_layer_interval": 2,
            "pad_token_id": 0,
            "attention_bias": True,
            "tie_word_embeddings": False,
            **rope(10000, "yarn", factor=4.0, **LEARNED),
        },
    ),
    family(
        "granite",
        "Granite",
        {
            **FEWER,
            "embedding_multiplier": 12.0,
            "logits_scaling": 1.7,
            "residual_multiplier": 0.22,
            "attention_multiplier": 0.3,
        },
    ),
    family(
        "granite-biases",
        "Granite",
        {
            **USUAL,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "residual_multiplier": 0.5,
        },
    ),
]
YARN = rope(10000, "yarn", factor=4.0, **LEARNED)
MIXED = {**WINDOWED, "num_hidden_layers": 4}  # the last layer sees all, by default
ROWS += [
    family("glm", "Glm", {**FEWER, "head_dim": SIZE + 2, "pad_token_id": 0, **rope(10000, partial_rotary_factor=0.5)}),
    family(
        "glm-plain",
        "Glm",
        {**FEWER, "head_dim": 8, "attention_bias": False, "tie_word_embeddings": True, "pad_token_id": 0},
    ),
    family("glm4", "Glm4", {**FEWER, "head_dim": SIZE + 2, "pad_token_id": 0}),
    family("exaone4", "Exaone4", MIXED),
    family(
        "exaone4-whole",
        "Exaone4",
        {
            **FEWER,
            "sliding_window": None,
            "layer_types": ["full_attention"] * 3,
            "head_dim": SIZE,
            "tie_word_embeddings": True,
            **YARN,
        },
    ),
    family("cohere", "Cohere", FEWER),
    family("cohere-biases", "Cohere", {**USUAL, "attention_bias": True, "tie_word_embeddings": False, **YARN}),
    family("cohere-normed", "Cohere", {**FEWER, "use_qk_norm": True, "head_dim": SIZE}),
    family("cohere2", "Cohere2", MIXED),
    family("cohere2-biases", "Cohere2", {**MIXED, "attention_bias": True, "logit_scale": 0.5, **YARN}),
    family("stablelm", "StableLm", {**FEWER, **rope(10000, partial_rotary_factor=0.5)}),
    family(
        "stablelm-parallel",
        "StableLm",
        {**FEWER, "use_qkv_bias": True, "use_parallel_residual": True, "tie_word_embeddings": True},
    ),
    family("olmo", "Olmo", FEWER),
    family("olmo-biases", "Olmo", {**USUAL, "attention_bias": True, "tie_word_embeddings": True}),
    family("olmo-clipped", "Olmo", {**FEWER, "clip_qkv": 0.3}),
    family("olmo3", "Olmo3", MIXED),
    family(
        "olmo3-yarn",
        "Olmo3",
        {
            **WINDOWED,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "attention_bias": True,
            "rope_parameters": {
                "full_attention": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, **LEARNED},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
    ),
]
LLAMA3 = rope(10000, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **LEARNED)
BIASES = {"attention_bias": True, "mlp_bias": True}
MULTIPLIERS = {"embedding_multiplier": 3.0, "logits_scaling": 0.6, "residual_multiplier": 0.5}
ROWS += [
    family("arcee", "Arcee", {**FEWER, **YARN}),
    family("arcee-biases", "Arcee", {**USUAL, **BIASES, "head_dim": SIZE, "tie_word_embeddings": True}),
    family("jais2", "Jais2", FEWER),
    family("jais2-plain", "Jais2", {**USUAL, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True}),
    family("nemotron", "Nemotron", FEWER),
    family("nemotron-biases", "Nemotron", {**FEWER, **BIASES, "head_dim": 12, "tie_word_embeddings": True}),
    family("helium", "Helium", {**FEWER, "head_dim": 8}),
    family("helium-biases", "Helium", {**FEWER, **BIASES, "head_dim": 8, "tie_word_embeddings": True}),
    family("seed_oss", "SeedOss", {**FEWER, "head_dim": SIZE, "pad_token_id": 1}),
    family(
        "seed_oss-biases",
        "SeedOss",
        {**FEWER, **BIASES, "attention_out_bias": True, "head_dim": None, "tie_word_embeddings": True},
    ),
    family("ernie4_5", "Ernie4_5", {**FEWER, "head_dim": SIZE}),
    family("ernie4_5-biases", "Ernie4_5", {**FEWER, "use_bias": True, "head_dim": 8, "tie_word_embeddings": False}),
    family("hunyuan_v1_dense", "HunYuanDenseV1", {**FEWER, "head_dim": SIZE, "tie_word_embeddings": True}),
    family(
        "hunyuan_v1_dense-alpha",
        "HunYuanDenseV1",
        {**FEWER, "head_dim": SIZE, "attention_bias": True, **rope(10000, "dynamic", alpha=1000.0, factor=1.0)},
    ),
    family(
        "ministral",
        "Ministral",
        {**WINDOWED, "head_dim": 8, "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    family("ministral-window", "Ministral", {**WINDOWED, "head_dim": SIZE, "tie_word_embeddings": True}),
    family("cwm", "Cwm", {**WINDOWED, "head_dim": SIZE, **LLAMA3}),
    family(
        "ministral3",
        "Ministral3",
        {
            **FEWER,
            "head_dim": SIZE,
            **rope(
                10000,
                "yarn",
                factor=4.0,
                original_max_position_embeddings=4,
                llama_4_scaling_beta=0.5,
                mscale=1.0,
                mscale_all_dim=1.0,
            ),
        },
    ),
    family("persimmon", "Persimmon", USUAL),
    family("persimmon-plain", "Persimmon", {**USUAL, "qk_layernorm": False, "tie_word_embeddings": True}),
    family("vaultgemma", "VaultGemma", {**GEMMA, **CAPS}),
    family("bitnet", "BitNet", FEWER),
    family("bitnet-biases", "BitNet", {**FEWER, "attention_bias": True, "tie_word_embeddings": True, **YARN}),
    family("lfm2", "Lfm2", {**FEWER, "block_multiple_of": 10, "layer_types": ["conv", "full_attention", "conv"]}),
    family(
        "lfm2-biases",
        "Lfm2",
        {
            **FEWER,
            "conv_bias": True,
            "block_auto_adjust_ff_dim": False,
            "conv_L_cache": 4,
            "tie_word_embeddings": False,
            "layer_types": ["full_attention", "full_attention", "conv"],
        },
    ),
    family("hyperclovax", "HyperCLOVAX", {**FEWER, **MULTIPLIERS}),
    family(
        "hyperclovax-plain",
        "HyperCLOVAX",
        {**FEWER, **BIASES, "use_post_norm": False, "attention_multiplier": 0.2, "tie_word_embeddings": True},
    ),
    family("nanochat", "NanoChat", FEWER),
    family(
        "nanochat-plain",
        "NanoChat",
        {**USUAL, "attention_bias": True, "final_logit_softcapping": None, "tie_word_embeddings": True},
    ),
]
