"""GPT, GPT-2 and the decoders that came of them: GPT-Neo, OPT, GPT-J, GPT-NeoX, Falcon, Phi."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.peers.carry import QKV, Leaf, Theirs, Weights, by_heads, thirds, together, transposed
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair
from tests.peers.hub import GPT, HIDDEN, KV_HEADS, USUAL, WINDOW, decoder, hub_case, model, rope

HEAD = WIDTH // HEADS


def gpt(norms: tuple[str, str], ends: Mapping[str, str]) -> Callable[[Theirs], Weights]:
    """GPT's matrices are stored transposed; `norms`: our names of a layer's two; `ends`: what stands outside layers."""

    def weights(theirs: Theirs) -> Weights:
        for ours, name in ends.items():
            yield ours, theirs(f"transformer.{name}")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.{norms[0]}", layer("ln_1")
            yield from together(f"layers.{n}.attention", QKV, thirds(transposed(layer("attn.c_attn"))))
            yield f"layers.{n}.attention.output", transposed(layer("attn.c_proj"))
            yield f"layers.{n}.{norms[1]}", layer("ln_2")
            yield f"layers.{n}.mlp.up", transposed(layer("mlp.c_fc"))
            yield f"layers.{n}.mlp.down", transposed(layer("mlp.c_proj"))

    return weights


@hub_case("GPT2LMHeadModel", "gpt2")
def gpt2() -> Pair:
    ends = {"words": "wte", "before.positions": "wpe", "after.norm": "ln_f"}
    theirs = model("GPT2LMHeadModel", **GPT)
    return decoder(theirs, "gpt2", gpt(("attention_input_norm", "mlp_input_norm"), ends))


@hub_case("OpenAIGPTLMHeadModel")
def openai_gpt() -> Pair:
    """The first GPT is post-norm, and has no norm at the end. It decodes without a cache."""
    theirs = model("OpenAIGPTLMHeadModel", **GPT)
    text = """
layer: |
  x = norm(x + attention(x))
  x = norm(x + mlp(x, activation="gelu_tanh"))
output: logits = unembed.words(x)
"""
    ends = {"words": "tokens_embed", "before.positions": "positions_embed"}
    made = decoder(theirs, text, gpt(("attention_sum_norm", "mlp_sum_norm"), ends))
    made.run, made.steps = (lambda tokens: theirs(tokens).logits), None
    return made


@hub_case("GPTNeoForCausalLM")
def gpt_neo() -> Pair:
    """Scores are not divided; every second layer has a window; no biases of queries, keys and values."""
    theirs = model(
        "GPTNeoForCausalLM",
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_layers=4,
        num_heads=HEADS,
        max_position_embeddings=CONTEXT,
        attention_types=[[["global", "local"], 2]],
        window_size=WINDOW,
    )
    text = """
words:
  attention(x, window=0): |
    q = linear.query(x, width, bias=False)
    k = linear.key(x, width, bias=False)
    v = linear.value(x, width, bias=False)
    y = linear.output(dot_attention(q, k, v, scale=1, window=window), width)
layer: |
  x = x + attention(norm(x), window=5 if layer % 2 == 0 else 0)
  x = x + mlp(norm(x), activation="gelu_tanh")
after: x = norm(x)
output: logits = unembed.words(x)
"""
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.wte")
        yield "before.positions", theirs("transformer.wpe")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.attention_input_norm", layer("ln_1")
            for ours, name in names.items():
                yield f"layers.{n}.attention.{ours}", layer(f"attn.attention.{name}")
            yield f"layers.{n}.mlp_input_norm", layer("ln_2")
            yield f"layers.{n}.mlp.up", layer("mlp.c_fc")
            yield f"layers.{n}.mlp.down", layer("mlp.c_proj")
        yield "after.norm", theirs("transformer.ln_f")

    return decoder(theirs, text, weights, depth=4)


def opt_weights(norms: tuple[str, str], last: bool) -> Callable[[Theirs], Weights]:
    """`norms`: our names of a layer's two; `last`: whether a norm stands at the end."""
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.decoder.embed_tokens")
        yield "before.positions", theirs("model.decoder.embed_positions")
        for n, layer in theirs.layers("model.decoder.layers"):
            yield f"layers.{n}.{norms[0]}", layer("self_attn_layer_norm")
            for ours, name in names.items():
                yield f"layers.{n}.attention.{ours}", layer(f"self_attn.{name}")
            yield f"layers.{n}.{norms[1]}", layer("final_layer_norm")
            yield f"layers.{n}.mlp.up", layer("fc1")
            yield f"layers.{n}.mlp.down", layer("fc2")
        if last:
            yield "after.norm", theirs("model.decoder.final_layer_norm")

    return weights


OPT = {**{k: v for k, v in USUAL.items() if k != "intermediate_size"}, "ffn_dim": HIDDEN, "word_embed_proj_dim": WIDTH}


@hub_case("OPTForCausalLM")
def opt() -> Pair:
    """Rows of the table of positions begin at 2."""
    text = """
before: x = embed.words(tokens) + positions(tokens, rows=context + 2, first=2)
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x), hidden=hidden, activation="relu")
after: x = norm(x)
output: logits = unembed.words(x)
"""
    weights = opt_weights(("attention_input_norm", "mlp_input_norm"), True)
    return decoder(model("OPTForCausalLM", **OPT), text, weights, hidden=HIDDEN)


@hub_case("OPTForCausalLM (do_layer_norm_before=False)")
def opt_post_norm() -> Pair:
    text = """
before: x = embed.words(tokens) + positions(tokens, rows=context + 2, first=2)
layer: |
  x = norm(x + attention(x))
  x = norm(x + mlp(x, hidden=hidden, activation="relu"))
output: logits = unembed.words(x)
"""
    weights = opt_weights(("attention_sum_norm", "mlp_sum_norm"), False)
    theirs = model("OPTForCausalLM", **OPT, do_layer_norm_before=False)
    return decoder(theirs, text, weights, hidden=HIDDEN)


@hub_case("GPTJForCausalLM", "gptj")
def gpt_j() -> Pair:
    """Parallel; half of a head's 8 channels turn, by pairs of neighbours."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.wte")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.attention_input_norm", layer("ln_1")
            names = ("q_proj", "k_proj", "v_proj", "out_proj")
            yield from together(f"layers.{n}.attention", (*QKV, "output"), [layer(f"attn.{name}") for name in names])
            yield f"layers.{n}.mlp.up", layer("mlp.fc_in")
            yield f"layers.{n}.mlp.down", layer("mlp.fc_out")
        yield "after.norm", theirs("transformer.ln_f")
        yield "output.unembed", theirs("lm_head")

    return decoder(model("GPTJForCausalLM", **GPT, rotary_dim=HEAD // 2), "gptj", weights, part=0.5)


@hub_case("PhiForCausalLM", "phi2")
def phi() -> Pair:
    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            yield f"layers.{n}.attention_input_norm", layer("input_layernorm")
            names = ("q_proj", "k_proj", "v_proj", "dense")
            yield from together(f"layers.{n}.attention", (*QKV, "output"), [layer(f"self_attn.{n}") for n in names])
            yield f"layers.{n}.mlp.up", layer("mlp.fc1")
            yield f"layers.{n}.mlp.down", layer("mlp.fc2")
        yield "after.norm", theirs("model.final_layernorm")
        yield "output.unembed", theirs("lm_head")

    theirs = model("PhiForCausalLM", **{**USUAL, "intermediate_size": 4 * WIDTH}, **rope(10000, 0.5))
    return decoder(theirs, "phi2", weights, part=0.5)


def neox(theirs: Theirs) -> Weights:
    """Head by head, its queries, keys and values stand together in one matrix."""
    yield "words", theirs("gpt_neox.embed_in")
    for n, layer in theirs.layers("gpt_neox.layers"):
        yield f"layers.{n}.attention_input_norm", layer("input_layernorm")
        parts = by_heads(layer("attention.query_key_value"), HEADS, (1, 1, 1), HEAD)
        yield from together(f"layers.{n}.attention", QKV, parts)
        yield f"layers.{n}.attention.output", layer("attention.dense")
        yield f"layers.{n}.mlp_input_norm", layer("post_attention_layernorm")
        yield f"layers.{n}.mlp.up", layer("mlp.dense_h_to_4h")
        yield f"layers.{n}.mlp.down", layer("mlp.dense_4h_to_h")
    yield "after.norm", theirs("gpt_neox.final_layer_norm")
    yield "output.unembed", theirs("lm_head")


@hub_case("GPTNeoXForCausalLM", "gptneox")
def gpt_neox() -> Pair:
    """Parallel with two norms, of one and the same x."""
    theirs = model("GPTNeoXForCausalLM", **{**USUAL, "intermediate_size": 4 * WIDTH}, **rope(10000, 0.5))
    return decoder(theirs, "gptneox", neox, part=0.5)


@hub_case("GPTNeoXForCausalLM (use_parallel_residual=False)")
def gpt_neox_serial() -> Pair:
    text = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), rotary=10000, rotary_part=0.25)
  x = x + mlp(norm(x), hidden=hidden)
after: x = norm(x)
output: logits = unembed(x)
"""
    theirs = model("GPTNeoXForCausalLM", **USUAL, use_parallel_residual=False, **rope(10000, 0.25))
    return decoder(theirs, text, neox, hidden=HIDDEN)


def falcon_weights(norms: Mapping[str, str], groups: int, counts: tuple[int, int, int]) -> Callable[[Theirs], Weights]:
    """Group by group, a group's heads of queries, its head of keys, its head of values."""

    def qkv(leaf: Leaf) -> list[dict]:
        return by_heads(leaf, groups, counts, HEAD)

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.word_embeddings")
        for n, layer in theirs.layers("transformer.h"):
            for ours, name in norms.items():
                yield f"layers.{n}.{ours}", layer(name)
            yield from together(f"layers.{n}.attention", QKV, qkv(layer("self_attention.query_key_value")))
            yield f"layers.{n}.attention.output", layer("self_attention.dense")
            yield f"layers.{n}.mlp.up", layer("mlp.dense_h_to_4h")
            yield f"layers.{n}.mlp.down", layer("mlp.dense_4h_to_h")
        yield "after.norm", theirs("transformer.ln_f")

    return weights


FALCON = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "num_attention_heads": HEADS,
    "max_position_embeddings": CONTEXT,
}


@hub_case("FalconForCausalLM (7B, parallel_attn, multi_query)", "falcon")
def falcon() -> Pair:
    weights = falcon_weights({"attention_input_norm": "input_layernorm"}, 1, (HEADS, 1, 1))
    return decoder(model("FalconForCausalLM", **FALCON), "falcon", weights, kv_heads=1)


@hub_case("FalconForCausalLM (40B, new_decoder_architecture)")
def falcon_40b() -> Pair:
    text = """
before: x = embed.words(tokens)
layer: x = x + attention(norm(x), kv_heads=2, rotary=10000, bias=False) + mlp(norm(x), bias=False)
after: x = norm(x)
output: logits = unembed.words(x)
"""
    norms = {"attention_input_norm": "ln_attn", "mlp_input_norm": "ln_mlp"}
    weights = falcon_weights(norms, KV_HEADS, (HEADS // KV_HEADS, 1, 1))
    theirs = model("FalconForCausalLM", **FALCON, num_kv_heads=KV_HEADS, new_decoder_architecture=True)
    return decoder(theirs, text, weights)


@hub_case("FalconForCausalLM (1B, bias, parallel_attn=False, multi_query=False)")
def falcon_serial() -> Pair:
    text = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), rotary=10000)
  x = x + mlp(norm(x))
after: x = norm(x)
output: logits = unembed.words(x)
"""
    norms = {"attention_input_norm": "input_layernorm", "mlp_input_norm": "post_attention_layernorm"}
    theirs = model("FalconForCausalLM", **FALCON, bias=True, parallel_attn=False, multi_query=False)
    return decoder(theirs, text, falcon_weights(norms, HEADS, (1, 1, 1)))
