"""DeBERTa of transformers, both versions: scores of content against distances. Padded on the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.peers.carry import QKV, Leaf, Theirs, Weights, by_heads, together
from tests.peers.case import CONTEXT, HEADS, WIDTH, Pair
from tests.peers.cases.bert import MATRICES, SIZES, encoder
from tests.peers.hub import hub_case, model

OUTPUT = "output: logits = unembed.words(norm(gelu(linear(x, width)))) + vector(0, size=vocab)\n"
RELATIVE: Mapping[str, Any] = {
    **SIZES,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}


def around(theirs: Theirs) -> Weights:
    """What both versions share: tables, output, MLPs, norms."""
    yield "words", theirs("deberta.embeddings.word_embeddings")
    yield "before.norm", theirs("deberta.embeddings.LayerNorm")
    yield "table", theirs("deberta.encoder.rel_embeddings")
    for n, layer in theirs.layers("deberta.encoder.layer"):
        yield f"layers.{n}.disentangled.output", layer("attention.output.dense")
        yield f"layers.{n}.disentangled_sum_norm", layer("attention.output.LayerNorm")
        yield f"layers.{n}.mlp.up", layer("intermediate.dense")
        yield f"layers.{n}.mlp.down", layer("output.dense")
        yield f"layers.{n}.mlp_sum_norm", layer("output.LayerNorm")
    yield "output.linear", theirs("cls.predictions.transform.dense")
    yield "output.words_input_norm", theirs("cls.predictions.transform.LayerNorm")
    yield "output.vector.weight", theirs("cls.predictions")["bias"]


@hub_case("DebertaV2ForMaskedLM (v3, share_att_key, position_buckets, norm_rel_ebd)")
def deberta_v3() -> Pair:
    """Distances below 2 apart, then logarithmic to 24; the table is normed, and goes through the content's matrices."""
    text = """
words:
  norm: x = layernorm(x, eps=1e-7)
  disentangled(x, r): |
    q = linear.query(x, width)
    k = linear.key(x, width)
    c = relative(q, linear.key(r, width), span=4, buckets=True, reach=24)
    p = relative(k, linear.query(r, width), span=4, by="key", buckets=True, reach=24)
    a = dot_attention(q, k, linear.value(x, width), scores=(c + p) / sqrt(3 * width / heads), scale=(3 * width / heads) ** -0.5)
    y = linear.output(a, width)
causal: false
before: |
  x = norm(embed.words(tokens))
  r = norm.of_table(learned.table(8))
layer: |
  x = norm(x + disentangled(x, r))
  x = norm(x + mlp(x))
"""  # noqa: E501

    def weights(theirs: Theirs) -> Weights:
        yield from around(theirs)
        yield "of_table", theirs("deberta.encoder.LayerNorm")
        for n, layer in theirs.layers("deberta.encoder.layer"):
            for ours in MATRICES[:3]:
                yield f"layers.{n}.disentangled.{ours}", layer(f"attention.self.{ours}_proj")

    theirs = model(
        "DebertaV2ForMaskedLM", "DebertaV2Config", **RELATIVE, share_att_key=True, position_buckets=4,
        norm_rel_ebd="layer_norm",
    )  # fmt: skip
    return encoder(theirs, text + OUTPUT, weights, types=False)


@hub_case("DebertaForMaskedLM (v1, c2p, p2c)")
def deberta_v1() -> Pair:
    """Matrices of their own for distances; keys without a bias; every distance has a row."""
    text = """
words:
  norm: x = layernorm(x, eps=1e-7)
  disentangled(x, r): |
    q = linear.query(x, width)
    k = linear.key(x, width, bias=False)
    c = relative(q, linear.place_key(r, width, bias=False), span=context)
    p = relative(k, linear.place_query(r, width), span=context, by="key")
    a = dot_attention(q, k, linear.value(x, width), scores=(c + p) / sqrt(3 * width / heads), scale=(3 * width / heads) ** -0.5)
    y = linear.output(a, width)
causal: false
before: |
  x = norm(embed.words(tokens))
  r = learned.table(2 * context)
layer: |
  x = norm(x + disentangled(x, r))
  x = norm(x + mlp(x))
"""  # noqa: E501

    def weights(theirs: Theirs) -> Weights:
        yield from around(theirs)
        for n, layer in theirs.layers("deberta.encoder.layer"):
            attention = layer("attention.self")
            q, k, v = by_heads(attention("in_proj"), HEADS, (1, 1, 1), WIDTH // HEADS)
            parts: list[Leaf] = [{**q, "bias": attention["q_bias"]}, k, {**v, "bias": attention["v_bias"]}]
            yield from together(f"layers.{n}.disentangled", QKV, parts)
            yield f"layers.{n}.disentangled.place_key", attention("pos_proj")
            yield f"layers.{n}.disentangled.place_query", attention("pos_q_proj")

    theirs = model("DebertaForMaskedLM", "DebertaConfig", **RELATIVE, max_relative_positions=CONTEXT)
    return encoder(theirs, text + OUTPUT, weights, types=False)
