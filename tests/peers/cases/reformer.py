"""Reformer of transformers, with local attention over the whole sequence: reversible layers."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.peers.carry import Theirs, Weights, together
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair
from tests.peers.hub import hub_case, model


@hub_case("ReformerModelWithLMHead (local attention)")
def reformer() -> Pair:
    """Two streams, as in the gallery's reversible, joined at the end side by side. Its hashing is not compared."""
    theirs = model(
        "ReformerModelWithLMHead", "ReformerConfig", vocab_size=VOCAB, hidden_size=WIDTH, num_attention_heads=HEADS,
        attention_head_size=WIDTH // HEADS, feed_forward_size=4 * WIDTH, attn_layers=["local"] * DEPTH,
        local_attn_chunk_length=CONTEXT, axial_pos_embds=False, max_position_embeddings=CONTEXT, is_decoder=True,
        hidden_act="gelu", layer_norm_eps=1e-5, hidden_dropout_prob=0, local_attention_probs_dropout_prob=0,
    )  # fmt: skip
    text = """
before: |
  x = embed.words(tokens) + positions(tokens)
  y = x
layer: |
  x = x + attention(norm(y), bias=False)
  y = y + mlp(norm(x))
after: x = norm(join(x, y))
output: logits = unembed(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("reformer.embeddings.word_embeddings")
        yield "before.positions", theirs("reformer.embeddings.position_embeddings.embedding")
        for n, layer in theirs.layers("reformer.encoder.layers"):
            attention = layer("attention")
            yield f"layers.{n}.attention_input_norm", attention("layer_norm")
            four = [attention(f"self_attention.{name}") for name in ("query", "key", "value")]
            names = ("query", "key", "value", "output")
            yield from together(f"layers.{n}.attention", names, [*four, attention("output.dense")])
            yield f"layers.{n}.mlp_input_norm", layer("feed_forward.layer_norm")
            yield f"layers.{n}.mlp.up", layer("feed_forward.dense.dense")
            yield f"layers.{n}.mlp.down", layer("feed_forward.output.dense")
        yield "after.norm", theirs("reformer.encoder.layer_norm")
        yield "output.unembed.weight", theirs("lm_head.decoder")["weight"]
        assert theirs("lm_head")["bias"].numel() == VOCAB  # which nothing in theirs adds: test_defects.py

    def run(tokens: Tensor) -> Tensor:
        theirs.train(torch.is_grad_enabled())  # else it refuses to lead gradients back
        return theirs(tokens, use_cache=False).logits

    return Pair(theirs, text, weights, run=run)
