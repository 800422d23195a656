"""ALiBi: MPT and BLOOM of transformers, and x-transformers' option. Each head's scores fall with the distance."""

from __future__ import annotations

from collections.abc import Mapping
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


@hub_case("MptForCausalLM")
def mpt() -> Pair:
    theirs = model(
        "MptForCausalLM", vocab_size=VOCAB, d_model=WIDTH, n_layers=DEPTH, n_heads=HEADS, max_seq_len=CONTEXT
    )
    text = """
words:
  norm: x = layernorm(x, bias=False)
  alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), score=alibi, bias=False)
  x = x + mlp(norm(x), bias=False)
after: x = norm(x)
output: logits = unembed.words(x)
"""
    return decoder(theirs, text, mpt_weights)


def bloom_pair(text: str, heads: int, width: int, **more: Any) -> Pair:
    """Head by head, its queries, keys and values stand together in one matrix."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.word_embeddings")
        yield "before.norm", theirs("transformer.word_embeddings_layernorm")
        for n, layer in theirs.layers("transformer.h"):
            yield f"layers.{n}.attention_input_norm", layer("input_layernorm")
            parts = by_heads(layer("self_attention.query_key_value"), heads, (1, 1, 1), width // heads)
            yield from together(f"layers.{n}.attention", QKV, parts)
            yield f"layers.{n}.attention.output", layer("self_attention.dense")
            yield f"layers.{n}.mlp_input_norm", layer("post_attention_layernorm")
            yield f"layers.{n}.mlp.up", layer("mlp.dense_h_to_4h")
            yield f"layers.{n}.mlp.down", layer("mlp.dense_4h_to_h")
        yield "after.norm", theirs("transformer.ln_f")

    sizes: Mapping[str, Any] = {"vocab_size": VOCAB, "hidden_size": width, "n_layer": DEPTH, "n_head": heads}
    return decoder(model("BloomForCausalLM", **sizes), text, weights, heads=heads, width=width, **more)


BLOOM = """
words:
  alibi(s, h, i, j): s = s - SLOPE * (i - j)
before: x = norm(embed.words(tokens))
layer: |
  x = x + attention(norm(x), score=alibi)
  x = x + mlp(norm(x), activation="gelu_tanh")
after: x = norm(x)
output: logits = unembed.words(x)
"""


@hub_case("BloomForCausalLM (6 heads)")
def bloom_six_heads() -> Pair:
    """No power of two: 4 heads as if there were 4, the others every second of 8."""
    return bloom_pair(BLOOM.replace("SLOPE", "(2 ** (-2 * h) if h <= 4 else 2 ** (9 - 2 * h))"), 6, 36)


@hub_case("BloomForCausalLM")
def bloom() -> Pair:
    return bloom_pair(BLOOM.replace("SLOPE", "2 ** (-8 * h / heads)"), HEADS, WIDTH)


@xt_case("alibi_pos_bias=True", note="")
def alibi() -> Pair:
    """It has learned positions too, unless they are turned off."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
  alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), score=alibi, bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from x_transformers.ends(theirs)
        yield from x_transformers.pre_norm_layers(theirs)

    return x_transformers.decoder(x_transformers.model(positions=False, alibi_pos_bias=True), text, weights)


@xt_case("rel_pos_bias=True", note="")
def relative_bias() -> Pair:
    """T5's buckets, one table for all layers; its values times the root of a head's size."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
before: |
  x = embed.words(tokens)
  b = relative_bias(x, buckets=8, reach=9)
layer: |
  x = x + attention(norm(x), scores=b, bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from x_transformers.ends(theirs)
        table = theirs("attn_layers.rel_pos.relative_attention_bias")["weight"]
        yield "before.relative_bias.weight", table * (WIDTH // HEADS) ** 0.5
        yield from x_transformers.pre_norm_layers(theirs)

    theirs = x_transformers.model(rel_pos_bias=True, rel_pos_num_buckets=8, rel_pos_max_distance=9)
    return x_transformers.decoder(theirs, text, weights)
