"""DeBERTa of transformers, both versions: scores of content against distances. Padded on the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.peers.carry import QKV, Leaf, Theirs, Weights, by_heads, together
from tests.peers.case import CONTEXT, HEADS, WIDTH, Pair
from tests.peers.cases.bert import MATRICES, SIZES, encoder
from tests.peers.hub import hub_case, model

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
    yield "distances", theirs("deberta.encoder.rel_embeddings")
    for n, layer in theirs.layers("deberta.encoder.layer"):
        yield f"layers.{n}.disentangled.output", layer("attention.output.dense")
        yield f"layers.{n}.disentangled_sum_norm", layer("attention.output.LayerNorm")
        yield f"layers.{n}.mlp.up", layer("intermediate.dense")
        yield f"layers.{n}.mlp.down", layer("output.dense")
        yield f"layers.{n}.mlp_sum_norm", layer("output.LayerNorm")
    yield "output.linear", theirs("cls.predictions.transform.dense")
    yield "output.words_input_norm", theirs("cls.predictions.transform.LayerNorm")
    yield "output.vector.weight", theirs("cls.predictions")["bias"]


@hub_case("DebertaV2ForMaskedLM (v3, share_att_key, position_buckets, norm_rel_ebd)", "deberta-v3")
def deberta_v3() -> Pair:
    """Distances below 2 apart, then logarithmic to 24; the table is normed, and goes through the content's matrices."""

    def weights(theirs: Theirs) -> Weights:
        yield from around(theirs)
        yield "of_distances", theirs("deberta.encoder.LayerNorm")
        for n, layer in theirs.layers("deberta.encoder.layer"):
            for ours in MATRICES[:3]:
                yield f"layers.{n}.disentangled.{ours}", layer(f"attention.self.{ours}_proj")

    theirs = model(
        "DebertaV2ForMaskedLM", "DebertaV2Config", **RELATIVE, share_att_key=True, position_buckets=4,
        norm_rel_ebd="layer_norm",
    )  # fmt: skip
    return encoder(theirs, "deberta-v3", weights, types=False, numbers={"span": 4})


@hub_case("DebertaForMaskedLM (v1, c2p, p2c)", "deberta")
def deberta_v1() -> Pair:
    """Matrices of their own for distances; keys without a bias; every distance has a row."""

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
    return encoder(theirs, "deberta", weights, types=False)
