"""LLaMA and the decoders that keep its names: Mistral, Gemma, Qwen, OLMo, Phi-3, Granite, StableLM, Cohere, GLM-4."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.peers.carry import QKV, Leaf, Theirs, Weights, plus_one, split, together
from tests.peers.case import HEADS, WIDTH, Pair
from tests.peers.hub import HIDDEN, KV_HEADS, SIZE, USUAL, WINDOW, decoder, hub_case, model, rope

TWO = {"attention_input_norm": "input_layernorm", "mlp_input_norm": "post_attention_layernorm"}
"""Our names of a layer's norms, and theirs. A second norm is named after the sum that it reads, not what it norms."""

FOUR = {
    "attention_input_norm": "input_layernorm",
    "attention_output_norm": "post_attention_layernorm",
    "mlp_input_norm": "pre_feedforward_layernorm",
    "mlp_output_norm": "post_feedforward_layernorm",
}
MATRICES = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
INNER = {"query_norm": "q_norm", "key_norm": "k_norm"}
GATED = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}


def named(
    *,
    norms: Mapping[str, str] = TWO,
    norm: Callable[[Leaf], Leaf] = dict,
    matrices: Mapping[str, str] = MATRICES,
    mlp: Mapping[str, str] = GATED,
    output: str = "output.unembed",
    after: str = "after.norm",
) -> Callable[[Theirs], Weights]:
    """LLaMA's names by ours; `norm`: from how they store a norm's weight to ours."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            for ours, name in norms.items():
                yield f"layers.{n}.{ours}", norm(layer(name))
            for ours, name in matrices.items():
                yield f"layers.{n}.attention.{ours}", layer(f"self_attn.{name}")
            for ours, name in INNER.items():
                if layer.has(f"self_attn.{name}"):
                    yield f"layers.{n}.attention.{ours}", norm(layer(f"self_attn.{name}"))
            for ours, name in mlp.items():
                yield f"layers.{n}.mlp.{ours}", layer(f"mlp.{name}")
        if theirs.has("model.norm"):
            yield after, norm(theirs("model.norm"))
        if theirs.has("lm_head"):
            yield output, theirs("lm_head")

    return weights


@hub_case("LlamaForCausalLM", "llama")
def llama() -> Pair:
    theirs = model("LlamaForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-5, **rope(500000))
    return decoder(theirs, "llama", named(), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("MistralForCausalLM (sliding_window)")
def mistral() -> Pair:
    theirs = model(
        "MistralForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, sliding_window=WINDOW, rms_norm_eps=1e-5
    )
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, bias=False, window=window)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS, window=WINDOW)


@hub_case("GemmaForCausalLM")
def gemma() -> Pair:
    theirs = model("GemmaForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=SIZE)
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6, offset=1)
before: x = sqrt(width) * embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, size=size, rotary=10000, bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="gelu_tanh", bias=False)
after: x = norm(x)
output: logits = unembed.words(x)
"""
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS, size=SIZE)


@hub_case("Gemma2ForCausalLM", "gemma2")
def gemma2() -> Pair:
    theirs = model(
        "Gemma2ForCausalLM",
        **USUAL,
        num_key_value_heads=KV_HEADS,
        head_dim=SIZE,
        query_pre_attn_scalar=SIZE,
        sliding_window=WINDOW,
    )
    weights = named(norms=FOUR, norm=plus_one)
    return decoder(theirs, "gemma2", weights, hidden=HIDDEN, kv_heads=KV_HEADS, size=SIZE, window=WINDOW)


@hub_case("Gemma2ForCausalLM (small caps, a scale of its own)", name="gemma2-caps")
def gemma2_caps() -> Pair:
    """Caps small enough to bend what random weights give."""
    theirs = model(
        "Gemma2ForCausalLM",
        **USUAL,
        num_key_value_heads=KV_HEADS,
        head_dim=SIZE,
        query_pre_attn_scalar=7,
        sliding_window=WINDOW,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=3.0,
    )
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
before: x = sqrt(width) * embed.words(tokens)
layer: |
  x = x + norm(attention(norm(x), kv_heads=kv_heads, size=size, rotary=10000, cap=2, scale=7 ** -0.5, bias=False, window=window if layer % 2 == 1 else 0))
  x = x + norm(mlp(norm(x), hidden=hidden, gated=True, activation="gelu_tanh", bias=False))
after: x = norm(x)
output: logits = 3 * tanh(unembed.words(x) / 3)
"""  # noqa: E501
    weights = named(norms=FOUR, norm=plus_one)
    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS, size=SIZE, window=WINDOW)


@hub_case("Gemma3ForCausalLM", "gemma3")
def gemma3() -> Pair:
    """The sixth layer sees all, with another base."""
    theirs = model(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        **{**USUAL, "num_hidden_layers": 7},
        num_key_value_heads=1,
        head_dim=SIZE,
        query_pre_attn_scalar=SIZE,
        sliding_window=WINDOW,
    )
    weights = named(norms=FOUR, norm=plus_one)
    return decoder(theirs, "gemma3", weights, hidden=HIDDEN, size=SIZE, window=WINDOW, depth=7)


@hub_case("Qwen2ForCausalLM")
def qwen2() -> Pair:
    """Biases of queries, keys and values, none of the output."""
    theirs = model("Qwen2ForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, **rope(1000000))
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=1000000, output_bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("Qwen3ForCausalLM", "qwen3")
def qwen3() -> Pair:
    """The smallest are tied."""
    theirs = model(
        "Qwen3ForCausalLM",
        **USUAL,
        num_key_value_heads=KV_HEADS,
        head_dim=SIZE,
        tie_word_embeddings=True,
        **rope(1000000),
    )
    return decoder(theirs, "qwen3", named(), hidden=HIDDEN, kv_heads=KV_HEADS, size=SIZE)


@hub_case("OlmoForCausalLM")
def olmo() -> Pair:
    """Norms without parameters."""
    theirs = model("OlmoForCausalLM", **USUAL)
    text = """
words:
  norm: x = layernorm(x, weight=False, bias=False)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), rotary=10000, bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, named(norms={}), hidden=HIDDEN)


@hub_case("Olmo2ForCausalLM", "olmo2")
def olmo2() -> Pair:
    norms = {"attention_output_norm": "post_attention_layernorm", "mlp_output_norm": "post_feedforward_layernorm"}
    theirs = model("Olmo2ForCausalLM", **USUAL, rms_norm_eps=1e-6, **rope(500000))
    return decoder(theirs, "olmo2", named(norms=norms), hidden=HIDDEN)


def fused(theirs: Theirs) -> Weights:
    """Queries, keys and values in one matrix; gate and up in another."""
    size = WIDTH // HEADS
    yield "words", theirs("model.embed_tokens")
    for n, layer in theirs.layers("model.layers"):
        yield f"layers.{n}.attention_input_norm", layer("input_layernorm")
        parts = split(layer("self_attn.qkv_proj"), WIDTH, KV_HEADS * size, KV_HEADS * size)
        yield from together(f"layers.{n}.attention", QKV, parts)
        yield f"layers.{n}.attention.output", layer("self_attn.o_proj")
        yield f"layers.{n}.mlp_input_norm", layer("post_attention_layernorm")
        yield from together(f"layers.{n}.mlp", ("gate", "up"), split(layer("mlp.gate_up_proj"), HIDDEN, HIDDEN))
        yield f"layers.{n}.mlp.down", layer("mlp.down_proj")
    yield "after.norm", theirs("model.norm")
    yield "output.unembed", theirs("lm_head")


@hub_case("Phi3ForCausalLM")
def phi3() -> Pair:
    theirs = model("Phi3ForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, pad_token_id=0)
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, fused, hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("GraniteForCausalLM")
def granite() -> Pair:
    """Factors on the embedding, the scores, the branches and the logits."""
    theirs = model(
        "GraniteForCausalLM",
        **USUAL,
        num_key_value_heads=KV_HEADS,
        embedding_multiplier=3.5,
        attention_multiplier=0.2,
        residual_multiplier=0.22,
        logits_scaling=8.0,
    )
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
before: x = 3.5 * embed.words(tokens)
layer: |
  x = x + 0.22 * attention(norm(x), kv_heads=kv_heads, rotary=10000, scale=0.2, bias=False)
  x = x + 0.22 * mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x) / 8
"""
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("StableLmForCausalLM")
def stablelm() -> Pair:
    """LayerNorm in LLaMA's layer; a quarter of each head turns."""
    theirs = model("StableLmForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, **rope(10000, 0.25))
    text = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, rotary_part=0.25, bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, named(), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("StableLmForCausalLM (use_parallel_residual)")
def stablelm_parallel() -> Pair:
    theirs = model(
        "StableLmForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, use_parallel_residual=True, **rope(10000, 0.25)
    )
    text = """
before: x = embed.words(tokens)
layer: |
  u = norm.input(x)
  a = attention(u, kv_heads=kv_heads, rotary=10000, rotary_part=0.25, bias=False)
  x = x + a + mlp(u, hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    return decoder(theirs, text, named(norms={"input": "input_layernorm"}), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("CohereForCausalLM")
def cohere() -> Pair:
    """Parallel, LayerNorm without a bias, rotary pairs of neighbours, a factor on the logits."""
    theirs = model("CohereForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, logit_scale=0.0625)
    text = """
words:
  norm: x = layernorm(x, bias=False)
before: x = embed.words(tokens)
layer: |
  u = norm.input(x)
  a = attention(u, kv_heads=kv_heads, rotary=500000, rotary_pairs=True, bias=False)
  x = x + a + mlp(u, hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = 0.0625 * unembed.words(x)
"""
    return decoder(theirs, text, named(norms={"input": "input_layernorm"}), hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("Glm4ForCausalLM")
def glm4() -> Pair:
    """Four norms, half of each head turns by pairs of neighbours, gate and up in one matrix."""
    theirs = model(
        "Glm4ForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=WIDTH // HEADS, pad_token_id=0,
        attention_bias=False, rms_norm_eps=1e-6, **rope(10000, 0.5),
    )  # fmt: skip
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
before: x = embed.words(tokens)
layer: |
  x = x + norm(attention(norm(x), kv_heads=kv_heads, rotary=10000, rotary_part=0.5, rotary_pairs=True, bias=False))
  x = x + norm(mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False))
after: x = norm(x)
output: logits = unembed(x)
"""
    norms = {
        "attention_input_norm": "input_layernorm",
        "attention_output_norm": "post_self_attn_layernorm",
        "mlp_input_norm": "post_attention_layernorm",
        "mlp_output_norm": "post_mlp_layernorm",
    }

    def weights(theirs: Theirs) -> Weights:
        yield from named(norms=norms, mlp={"down": "down_proj"})(theirs)
        for n, layer in theirs.layers("model.layers"):
            yield from together(f"layers.{n}.mlp", ("gate", "up"), split(layer("mlp.gate_up_proj"), HIDDEN, HIDDEN))

    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("Starcoder2ForCausalLM")
def starcoder2() -> Pair:
    theirs = model("Starcoder2ForCausalLM", **USUAL, num_key_value_heads=KV_HEADS)
    text = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000)
  x = x + mlp(norm(x), hidden=hidden, activation="gelu_tanh")
after: x = norm(x)
output: logits = unembed.words(x)
"""
    weights = named(mlp={"up": "c_fc", "down": "c_proj"})
    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS)


@hub_case("NemotronForCausalLM")
def nemotron() -> Pair:
    """The square of a ReLU; norms' weights stored less 1, their biases as they are."""
    theirs = model("NemotronForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, **rope(10000, 0.5))
    text = """
words:
  mlp: y = linear.down(relu(linear.up(x, hidden, bias=False)) ** 2, width, bias=False)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, rotary_part=0.5, bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
output: logits = unembed(x)
"""

    def norm(leaf: Leaf) -> Leaf:
        return {"weight": leaf["weight"] + 1, "bias": leaf["bias"]}

    weights = named(norm=norm, mlp={"up": "up_proj", "down": "down_proj"})
    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS)
