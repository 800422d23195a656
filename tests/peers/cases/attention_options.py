"""Decoders and an encoder that differ from LLaMA and BERT in attention's options: rates of rotary positions, layers
without them, windows to both sides, norms after them, differences of two heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import Theirs, Weights, split, together
from tests.peers.case import HEADS, LENGTH, VOCAB, WIDTH, Pair, ids
from tests.peers.cases.bert import encoder
from tests.peers.cases.llama import GATED, MATRICES, named
from tests.peers.hub import HIDDEN, KV_HEADS, SIZE, USUAL, WINDOW, decoder, hub_case, model, rope

FIVE = {**USUAL, "num_hidden_layers": 5}
"""Every fourth layer differs."""


@hub_case("SmolLM3ForCausalLM", "smollm3")
def smollm3() -> Pair:
    theirs = model("SmolLM3ForCausalLM", **FIVE, num_key_value_heads=KV_HEADS, pad_token_id=0, **rope(5000000))
    return decoder(theirs, "smollm3", named(), hidden=HIDDEN, kv_heads=KV_HEADS, depth=5)


@hub_case("Cohere2ForCausalLM", "cohere2")
def cohere2() -> Pair:
    theirs = model(
        "Cohere2ForCausalLM", **FIVE, num_key_value_heads=KV_HEADS, sliding_window=WINDOW, logit_scale=0.25,
        **rope(50000),
    )  # fmt: skip
    weights = named(norms={"attention_input_norm": "input_layernorm"})
    return decoder(theirs, "cohere2", weights, hidden=HIDDEN, kv_heads=KV_HEADS, window=WINDOW, depth=5)


@hub_case("DiffLlamaForCausalLM", "differential")
def differential() -> Pair:
    hidden = 8 * WIDTH // 3
    theirs = model("DiffLlamaForCausalLM", **{**USUAL, "intermediate_size": hidden})

    def weights(theirs: Theirs) -> Weights:
        yield from named(matrices={}, norms={"mlp_input_norm": "post_attention_layernorm"})(theirs)
        for n, layer in theirs.layers("model.layers"):
            yield f"layers.{n}.differential_input_norm", layer("input_layernorm")
            for ours, name in MATRICES.items():
                yield f"layers.{n}.differential.{ours}", layer(f"self_attn.{name}")
            for name in ("q1", "k1", "q2", "k2"):
                yield f"layers.{n}.differential.{name}.weight", layer("self_attn")[f"lambda_{name}"]

    return decoder(theirs, "differential", weights)


@hub_case("ModernBertForMaskedLM", "modernbert")
def modernbert() -> Pair:
    theirs = model("ModernBertForMaskedLM", "ModernBertConfig", **FIVE, local_attention=WINDOW, pad_token_id=0)

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embeddings.tok_embeddings")
        yield "before.norm", theirs("model.embeddings.norm")
        for n, layer in theirs.layers("model.layers"):
            if n > 1:
                yield f"layers.{n}.attention_input_norm", layer("attn_norm")
            matrices = [*split(layer("attn.Wqkv"), WIDTH, WIDTH, WIDTH), layer("attn.Wo")]
            yield from together(f"layers.{n}.attention", tuple(MATRICES), matrices)
            yield f"layers.{n}.mlp_input_norm", layer("mlp_norm")
            yield from together(f"layers.{n}.mlp", ("gate", "up"), split(layer("mlp.Wi"), HIDDEN, HIDDEN))
            yield f"layers.{n}.mlp.down", layer("mlp.Wo")
        yield "after.norm", theirs("model.final_norm")
        yield "output.linear", theirs("head.dense")
        yield "output.words_input_norm", theirs("head.norm")
        yield "output.vector.weight", theirs("decoder")["bias"]

    numbers = {"hidden": HIDDEN, "window": WINDOW, "depth": 5}
    return encoder(theirs, "modernbert", weights, types=False, numbers=numbers)


LAYERS = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, bias=False, {options})
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""


def stretched(words: str, options: str, rope_parameters: dict[str, Any], **numbers: float) -> Pair:
    """LLaMA with other rates of rotary positions."""
    theirs = model(
        "LlamaForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-5, rope_parameters=rope_parameters
    )
    text = f"words:\n  norm: x = rmsnorm(x, eps=1e-5)\n{words}{LAYERS.format(options=options)}"
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS, **numbers)


@hub_case("LlamaForCausalLM (rope_type llama3)")
def llama3_rates() -> Pair:
    """Llama 3.1's: slow pairs turn `factor` times more slowly, fast ones as they did."""
    words = """
  llama3(r): |
    turns = original * r / (2 * pi)
    between = (turns - low) / (high - low)
    rate = r / factor if turns < low else r if turns > high else r * (between + (1 - between) / factor)
"""
    keys = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 12, "factor": 8.0}
    given = {"rope_type": "llama3", "rope_theta": 100.0, **keys}
    return stretched(words, "rotary=100, rates=llama3", given, original=12, factor=8, low=1, high=4)


@hub_case("LlamaForCausalLM (rope_type yarn)")
def yarn_rates() -> Pair:
    """YaRN with its attention factor."""
    size = WIDTH // HEADS
    words = """
  yarn(r, c): |
    slow = min(1, max(0, (c - first) / (last - first)))
    rate = r * (1 - slow) + r / factor * slow
"""
    text = f"""
first: max({size} * log(original / (32 * 2 * pi)) / (2 * log(10000)) // 1, 0)
last: min(-(-{size} * log(original / (2 * pi)) / (2 * log(10000)) // 1), {size} - 1)
"""
    given = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 4096}
    pair = stretched(
        words, "rotary=10000, rates=yarn, rotary_scale=0.1 * log(factor) + 1", given, original=4096, factor=4
    )
    pair.text = text + pair.text
    return pair


@hub_case("HunYuanDenseV1ForCausalLM")
def hunyuan() -> Pair:
    """Norms of queries and keys after rotary positions."""
    theirs = model(
        "HunYuanDenseV1ForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=WIDTH // HEADS, pad_token_id=0,
        **rope(10000),
    )  # fmt: skip
    text = "words:\n  norm: x = rmsnorm(x, eps=1e-5)\n" + LAYERS.format(
        options='rotary=10000, qk_norm="head", rotary_first=True'
    )

    def weights(theirs: Theirs) -> Weights:
        yield from named()(theirs)
        for n, layer in theirs.layers("model.layers"):
            for name in ("query", "key"):
                yield f"layers.{n}.attention.{name}_norm", layer(f"self_attn.{name}_layernorm")

    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("Gemma3nForCausalLM", "gemma3n")
def gemma3n() -> Pair:
    """Ten layers: the fifth and the tenth see all; the last five read keys and values of the fourth and the fifth."""
    token, rank, depth = 6, 4, 10
    theirs = model(
        "Gemma3nForCausalLM",
        "Gemma3nTextConfig",
        **{**USUAL, "num_hidden_layers": depth},
        num_key_value_heads=KV_HEADS,
        head_dim=SIZE,
        sliding_window=WINDOW,
        vocab_size_per_layer_input=VOCAB,
        hidden_size_per_layer_input=token,
        laurel_rank=rank,
        num_kv_shared_layers=5,
        activation_sparsity_pattern=[0.95] * 2 + [0.0] * 8,
    )
    layer_names = {
        "altup.router_norm": "altup.router_norm",
        "altup.router": "altup.modality_router",
        "predict": "altup.prediction_coefs",
        "correct": "altup.correction_coefs",
        "input": "input_layernorm",
        "query": "self_attn.q_proj",
        "query_norm": "self_attn.q_norm",
        "key": "self_attn.k_proj",
        "key_norm": "self_attn.k_norm",
        "value": "self_attn.v_proj",
        "output": "self_attn.o_proj",
        "attention_norm": "post_attention_layernorm",
        "laurel.left": "laurel.linear_left",
        "laurel.right": "laurel.linear_right",
        "laurel.right_output_norm": "laurel.post_laurel_norm",
        "mlp_input_norm": "pre_feedforward_layernorm",
        "mlp_output_norm": "post_feedforward_layernorm",
        "token_gate": "per_layer_input_gate",
        "token_output": "per_layer_projection",
        "token_norm": "post_per_layer_input_norm",
    }

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        yield "per_layer", theirs("model.embed_tokens_per_layer")
        yield "per_layer_matrix", theirs("model.per_layer_model_projection")
        yield "per_layer_norm", theirs("model.per_layer_projection_norm")
        for at, name in enumerate("bcd"):
            yield f"enter_{name}.matrix", theirs(f"model.altup_projections.{at}")
            yield f"leave_{name}.matrix", theirs(f"model.altup_unembed_projections.{at}")
        for n, layer in theirs.layers("model.layers"):
            for ours, name in layer_names.items():
                if layer.has(name):
                    yield f"layers.{n}.{ours}", layer(name)
            for ours, name in GATED.items():
                yield f"layers.{n}.mlp.{ours}", layer(f"mlp.{name}")
            yield f"layers.{n}.scale.weight", layer("altup")["correct_output_scale"]
        yield "final", theirs("model.norm")

    numbers = {"size": SIZE, "window": WINDOW, "rank": rank, "token": token, "depth": depth, "own": 5, "sparse": 2}
    return decoder(theirs, "gemma3n", weights, hidden=HIDDEN, kv_heads=KV_HEADS, **numbers)


@hub_case("Qwen2VLTextModel")
def qwen2_vl() -> Pair:
    """M-RoPE: pairs 0 turn by a position in time, 1 and 2 by one of a row, 3 by one of a column."""
    import transformers

    settings = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1]}
    config = transformers.Qwen2VLTextConfig(
        **USUAL, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-6, rope_parameters=settings, attn_implementation="eager"
    )
    theirs = transformers.models.qwen2_vl.modeling_qwen2_vl.Qwen2VLTextModel(config)
    text = """
inputs: {time: tokens, row: tokens, column: tokens}
words:
  norm: x = rmsnorm(x, eps=1e-6)
  sections(i, r, c): a = r * (time(i) if c < 1 else row(i) if c < 3 else column(i))
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, angles=sections, output_bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = x
"""

    def weights(theirs: Theirs) -> Weights:
        yield from named()(Theirs({f"model.{key}": value for key, value in theirs.tensors.items()}))
        theirs.taken.update(theirs.tensors)

    def inputs() -> dict[str, Tensor]:
        places = torch.randint(9, (3, 2, LENGTH), generator=torch.Generator().manual_seed(3))
        return {"tokens": ids(), **dict(zip(("time", "row", "column"), places, strict=True))}

    def run(tokens: Tensor, *places: Tensor) -> Tensor:
        return theirs(tokens, position_ids=torch.stack(places), use_cache=False).last_hidden_state

    numbers = {"hidden": HIDDEN, "kv_heads": KV_HEADS}
    return Pair(theirs, text, weights, numbers, run, inputs=inputs, where=lambda given: ..., decodes=False)
