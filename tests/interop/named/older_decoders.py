"""Rows of decoders from before LLaMA, and of models with recurrences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tests.interop.named.decoders import GPT2, LEARNED
from tests.interop.named.tiny import Tiny, rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN, KV_HEADS, USUAL, WINDOW


def row(name: str, model: str, keys: Mapping[str, Any], **more: Any) -> Tiny:
    """A row of a class NAMEForCausalLM."""
    return Tiny(name, f"{model}ForCausalLM", f"{model}Config", keys, slow=True, **more)


OPT: Mapping[str, Any] = {
    **{key: value for key, value in USUAL.items() if key != "intermediate_size"},
    "ffn_dim": HIDDEN,
    "pad_token_id": 1,
}
ROWS = [
    row("opt", "OPT", OPT),
    row("opt-350m", "OPT", {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 20}),
    row(
        "opt-plain",
        "OPT",
        {
            **OPT,
            "enable_bias": False,
            "layer_norm_elementwise_affine": False,
            "activation_function": "gelu",
            "tie_word_embeddings": False,
            "_remove_final_layer_norm": True,
        },
    ),
    row("opt-narrow", "OPT", {**OPT, "word_embed_proj_dim": 20, "tie_word_embeddings": False}),
    row("gptj", "GPTJ", {**GPT2, "rotary_dim": 4, "n_inner": HIDDEN}),
    row("gptj-whole", "GPTJ", {**GPT2, "rotary_dim": 8, "activation_function": "relu"}),
    row("codegen", "CodeGen", {**GPT2, "rotary_dim": 4}),
    row("gpt_bigcode", "GPTBigCode", GPT2),
    row("gpt_bigcode-heads", "GPTBigCode", {**GPT2, "multi_query": False, "n_inner": HIDDEN}),
    row("gpt_bigcode-untied", "GPTBigCode", {**GPT2, "tie_word_embeddings": False, "activation_function": "gelu"}),
]


def exact_gelu(model: Any) -> None:
    """Its gelu, whose constant is rounded to eight digits."""
    for block in model.transformer.h:
        block.mlp.gelu_impl = nn.GELU(approximate="tanh")


BLOOM: Mapping[str, Any] = {"vocab_size": VOCAB, "hidden_size": WIDTH, "n_layer": DEPTH, "n_head": HEADS}
ROWS += [
    row("bloom", "Bloom", BLOOM, exact=exact_gelu),
    row("bloom-six-heads", "Bloom", {**BLOOM, "hidden_size": 36, "n_head": 6}, exact=exact_gelu),
    row(
        "bloom-normed",
        "Bloom",
        {**BLOOM, "apply_residual_connection_post_layernorm": True, "tie_word_embeddings": False},
        exact=exact_gelu,
    ),
]
NEO: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_layers": DEPTH,
    "num_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "window_size": WINDOW,
}
FALCON: Mapping[str, Any] = {key: value for key, value in USUAL.items() if key != "intermediate_size"}
NEW = {"new_decoder_architecture": True, "num_kv_heads": KV_HEADS}
MPT: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "n_layers": DEPTH,
    "n_heads": HEADS,
    "max_seq_len": CONTEXT,
}
XGLM: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "num_layers": DEPTH,
    "attention_heads": HEADS,
    "ffn_dim": HIDDEN,
    "max_position_embeddings": CONTEXT,
}
JAPANESE: Mapping[str, Any] = {**FALCON, "intermediate_multiple_size": 3}
ROWS += [
    row("gpt_neo", "GPTNeo", {**NEO, "attention_types": [[["global", "local"], 1], [["global"], 1]]}),
    row(
        "gpt_neo-untied",
        "GPTNeo",
        {
            **NEO,
            "attention_types": [[["local"], DEPTH]],
            "intermediate_size": HIDDEN,
            "activation_function": "relu",
            "tie_word_embeddings": False,
        },
    ),
    row("falcon", "Falcon", FALCON),
    row("falcon-new", "Falcon", {**FALCON, **NEW, "ffn_hidden_size": HIDDEN, "bias": True, **rope(500000)}),
    row("falcon-new-one-norm", "Falcon", {**FALCON, **NEW, "num_ln_in_parallel_attn": 1, "tie_word_embeddings": False}),
    row("falcon-serial", "Falcon", {**FALCON, "parallel_attn": False, "multi_query": False, "bias": True}),
    row("falcon-heads", "Falcon", {**FALCON, "multi_query": False, **rope(10000, "yarn", factor=4.0, **LEARNED)}),
    row("mpt", "Mpt", MPT),
    row("mpt-six-heads", "Mpt", {**MPT, "d_model": 36, "n_heads": 6, "tie_word_embeddings": False}),
    row("mpt-clipped", "Mpt", {**MPT, "attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.3}}),
    row("biogpt", "BioGpt", USUAL),
    row(
        "biogpt-untied",
        "BioGpt",
        {**USUAL, "scale_embedding": False, "hidden_act": "relu", "tie_word_embeddings": False},
    ),
    row("xglm", "XGLM", XGLM),
    row("xglm-untied", "XGLM", {**XGLM, "scale_embedding": False, "tie_word_embeddings": False, "pad_token_id": 0}),
    Tiny("openai-gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", GPT2, slow=True),
    Tiny(
        "openai-gpt-untied",
        "OpenAIGPTLMHeadModel",
        "OpenAIGPTConfig",
        {**GPT2, "afn": "silu", "tie_word_embeddings": False},
        slow=True,
    ),
    Tiny("ctrl", "CTRLLMHeadModel", "CTRLConfig", {**GPT2, "dff": HIDDEN}, slow=True),
    Tiny(
        "ctrl-untied", "CTRLLMHeadModel", "CTRLConfig", {**GPT2, "dff": HIDDEN, "tie_word_embeddings": False}, slow=True
    ),
    row("gpt_neox_japanese", "GPTNeoXJapanese", JAPANESE),
    row(
        "gpt_neox_japanese-part",
        "GPTNeoXJapanese",
        {**JAPANESE, "tie_word_embeddings": False, **rope(500000, partial_rotary_factor=0.5)},
    ),
]
MAMBA: Mapping[str, Any] = {
    **{key: value for key, value in FALCON.items() if key not in ("num_attention_heads", "max_position_embeddings")},
    "state_size": 6,
    "conv_kernel": 3,
    "pad_token_id": 0,
    "time_step_rank": 5,
}
MAMBA2 = {**MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4}
ROWS += [
    row("mamba", "Mamba", MAMBA),
    row("mamba-biases", "Mamba", {**MAMBA, "expand": 3, "use_bias": True, "tie_word_embeddings": False}),
    row("mamba-local", "Mamba", {**MAMBA, "use_conv_bias": False, "conv_kernel": 4}),
    row("falcon_mamba", "FalconMamba", {**MAMBA, "mixer_rms_eps": 1e-3}),
    row("falcon_mamba-untied", "FalconMamba", {**MAMBA, "use_bias": True, "tie_word_embeddings": False}),
    row("mamba2", "Mamba2", MAMBA2),
    row("mamba2-tied", "Mamba2", {**MAMBA2, "n_groups": 1, "use_conv_bias": False, "tie_word_embeddings": True}),
]
JAMBA: Mapping[str, Any] = {
    **USUAL,
    "num_hidden_layers": 4,
    "num_key_value_heads": KV_HEADS,
    "attn_layer_period": 3,
    "attn_layer_offset": 1,
    "num_experts": 5,
    "mamba_d_state": 6,
    "mamba_dt_rank": 5,
    "pad_token_id": 0,
}
ROWS += [
    row("jamba", "Jamba", JAMBA),
    row(
        "jamba-one-expert",
        "Jamba",
        {**JAMBA, "num_experts": 1, "tie_word_embeddings": True, "mamba_proj_bias": True, "mamba_conv_bias": False},
    ),
]
GRIFFIN: Mapping[str, Any] = {
    **{key: value for key, value in USUAL.items() if key != "max_position_embeddings"},
    "num_hidden_layers": 4,
    "num_key_value_heads": 1,
    "attention_window_size": WINDOW,
    "logits_soft_cap": 3.0,
}
ROWS += [
    row("recurrent_gemma", "RecurrentGemma", GRIFFIN),
    row(
        "recurrent_gemma-order",
        "RecurrentGemma",
        {
            **GRIFFIN,
            "block_types": ["attention", "recurrent"],
            "lru_width": 40,
            "conv1d_width": 3,
            "attention_bias": True,
            "tie_word_embeddings": False,
            **rope(500000, partial_rotary_factor=0.25),
        },
    ),
]
