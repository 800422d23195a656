"""Rows of decoders from before LLaMA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from tests.interop.named.decoders import GPT2
from tests.interop.named.tiny import Tiny
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN, USUAL


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
