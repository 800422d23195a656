"""Scores of distances and of layers below: MPT and BLOOM of transformers, options of x-transformers."""

from __future__ import annotations

from typing import Any

from tests.peers.carry import QKV, Theirs, Weights, by_heads, thirds, together
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair
from tests.peers.cases import x_transformers
from tests.peers.cases.x_transformers import xt_case
from tests.peers.hub import decoder, hub_case, model


def mpt_weights(theirs: Theirs) -> Weights:
    """Queries, keys and values in one matrix."""
    yield "words", theirs("transformer.wte")
    for n, layer in theirs.layers("transformer.blocks"):
        yield f"layers.{n}.attention_input_norm", layer("norm_1")
        yield from together(f"layers.{n}.attention", QKV, thirds(layer("attn.Wqkv")))
        yield f"layers.{n}.attention.output", layer("attn.out_proj")
        yield f"layers.{n}.mlp_input_norm", layer("norm_2")
        yield f"layers.{n}.mlp.up", layer("ffn.up_proj")
        yield f"layers.{n}.mlp.down", layer("ffn.down_proj")
    yield "after.norm", theirs("transformer.norm_f")


@hub_case("MptForCausalLM", "mpt")
def mpt() -> Pair:
    theirs = model(
        "MptForCausalLM", vocab_size=VOCAB, d_model=WIDTH, n_layers=DEPTH, n_heads=HEADS, max_seq_len=CONTEXT
    )
    return decoder(theirs, "mpt", mpt_weights)


INPUTS = ("attention_input_norm", "mlp_input_norm")


def bloom_pair(heads: int, width: int, text: str = "bloom", places: tuple[str, str] = INPUTS, **keys: Any) -> Pair:
    """Head by head, its queries, keys and values stand together in one matrix."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.word_embeddings")
        yield "before.norm", theirs("transformer.word_embeddings_layernorm")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.{places[0]}", layer("input_layernorm")
            parts = by_heads(layer("self_attention.query_key_value"), heads, (1, 1, 1), width // heads)
            yield from together(f"layers.{n}.attention", QKV, parts)
            yield f"layers.{n}.attention.output", layer("self_attention.dense")
            yield f"layers.{n}.{places[1]}", layer("post_attention_layernorm")
            yield f"layers.{n}.mlp.up", layer("mlp.dense_h_to_4h")
            yield f"layers.{n}.mlp.down", layer("mlp.dense_4h_to_h")
        yield "after.norm", theirs("transformer.ln_f")

    theirs = model("BloomForCausalLM", vocab_size=VOCAB, hidden_size=width, n_layer=DEPTH, n_head=heads, **keys)
    return decoder(theirs, text, weights, heads=heads, width=width, **({"full": 4} if text == "bloom" else {}))


@hub_case("BloomForCausalLM (6 heads)", "bloom")
def bloom_six_heads() -> Pair:
    """No power of two: 4 heads as if there were 4, the others every second of 8."""
    return bloom_pair(6, 36)


@hub_case("BloomForCausalLM", "bloom")
def bloom() -> Pair:
    return bloom_pair(HEADS, WIDTH)


@hub_case("BloomForCausalLM (apply_residual_connection_post_layernorm)")
def bloom_skip_from_the_norm() -> Pair:
    """The skips start after the norms, as in the gallery's skip-1-normed."""
    text = """
words:
  alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)
before: x = norm(embed.words(tokens))
layer: |
  x = norm.one(x)
  y = x + attention(x, score=alibi)
  y = norm.two(y)
  x = y + mlp(y, activation="gelu_tanh")
after: x = norm(x)
output: logits = unembed.words(x)
"""
    return bloom_pair(HEADS, WIDTH, text, ("one", "two"), apply_residual_connection_post_layernorm=True)


@xt_case("alibi_pos_bias=True", "alibi")
def alibi() -> Pair:
    """It has learned positions too, unless they are turned off."""
    theirs = x_transformers.model(positions=False, alibi_pos_bias=True)
    return x_transformers.decoder(theirs, "alibi", x_transformers.named())


@xt_case("rel_pos_bias=True", "relative-bias")
def relative_bias() -> Pair:
    """T5's buckets, one table for all layers; its values times the root of a head's size."""

    def weights(theirs: Theirs) -> Weights:
        table = theirs("attn_layers.rel_pos.relative_attention_bias")["weight"]
        yield "before.relative_bias.weight", table * (WIDTH // HEADS) ** 0.5
        yield from x_transformers.named()(theirs)

    return x_transformers.decoder(x_transformers.model(rel_pos_bias=True), "relative-bias", weights)


@xt_case("pre_norm=False, residual_attn=True", "realformer")
def realformer() -> Pair:
    """Each layer's scores are added to the next one's. Their cache keeps no scores."""

    def weights(theirs: Theirs) -> Weights:
        yield "before.norm", x_transformers.biased({"weight": theirs("post_emb_norm")["gamma"]})
        yield from x_transformers.named(x_transformers.POST)(theirs)

    theirs = x_transformers.model(pre_norm=False, residual_attn=True, post_emb_norm=True)
    made = x_transformers.decoder(theirs, "realformer", weights)
    made.steps = None
    return made
