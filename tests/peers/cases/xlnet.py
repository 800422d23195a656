"""XLNet of transformers: two streams, distances as in Transformer-XL, and an order of the positions of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import Theirs, Weights
from tests.peers.case import DEPTH, HEADS, LENGTH, VOCAB, WIDTH, Pair, ids
from tests.peers.hub import hub_case, model


def inputs() -> dict[str, Tensor]:
    """`rank`: at which place of its row's order a position stands. All positions are to be predicted."""
    generator = torch.Generator().manual_seed(4)
    rank = torch.stack([torch.randperm(LENGTH, generator=generator) for _ in range(2)])
    return {"tokens": ids(), "targets": torch.zeros(2, LENGTH, dtype=torch.long), "rank": rank}


def seeing(given: Mapping[str, Any]) -> Tensor:
    """The first of an order sees nothing: theirs then gives every position the same weight, ours none."""
    return given["rank"] > 0


@hub_case("XLNetLMHeadModel (perm_mask, target_mapping)", "xlnet")
def xlnet() -> Pair:
    """Segments are left out, with their two parameters."""
    theirs = model("XLNetLMHeadModel", vocab_size=VOCAB, d_model=WIDTH, n_layer=DEPTH, n_head=HEADS, d_inner=4 * WIDTH)

    def run(tokens: Tensor, targets: Tensor, rank: Tensor) -> Tensor:
        hidden = (rank[:, None, :] >= rank[:, :, None]).double()
        every = torch.eye(LENGTH).expand(len(tokens), -1, -1)
        return theirs(tokens, perm_mask=hidden, target_mapping=every, use_mems=False).logits

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("transformer.word_embedding")
        yield "unknown.weight", theirs("transformer")["mask_emb"][0]
        for n, layer in theirs.layers("transformer.layer"):
            attention = layer("rel_attn")
            for ours, name in (("query", "q"), ("key", "k"), ("value", "v"), ("place_key", "r")):
                yield f"layers.{n}.a.{ours}.weight", attention[name].flatten(1).T
            yield f"layers.{n}.a.output.weight", attention["o"].flatten(1)
            yield f"layers.{n}.a.place.weight", attention["r_r_bias"].flatten()
            yield f"layers.{n}.a.what.weight", attention["r_w_bias"].flatten()
            for segments in ("r_s_bias", "seg_embed"):
                assert attention[segments].numel()
            yield f"layers.{n}.one", attention("layer_norm")
            yield f"layers.{n}.m.up", layer("ff.layer_1")
            yield f"layers.{n}.m.down", layer("ff.layer_2")
            yield f"layers.{n}.two", layer("ff.layer_norm")
        yield "output.vector.weight", theirs("lm_loss")["bias"]

    sizes = {"hidden": 4 * WIDTH}
    return Pair(theirs, "xlnet", weights, sizes, run=run, inputs=inputs, where=seeing, decodes=False)
