"""Encoders of transformers, padded on the right: BERT, RoBERTa, ALBERT, ELECTRA; RoBERTa's mean as a vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights, together
from tests.peers.case import CONTEXT, HEADS, LENGTH, WIDTH, Pair, case, ids, real
from tests.peers.hub import USUAL, hub_case, model

MATRICES = ("query", "key", "value", "output")
SIZES = {**USUAL, "intermediate_size": 4 * WIDTH}
REAL = torch.tensor([LENGTH, LENGTH - 4])
"""How many positions of each row are no padding."""


def inputs(types: bool) -> Callable[[], dict[str, Any]]:
    """Tokens, with `types` what kind each is, and how many are real."""
    kinds = {"types": (torch.arange(LENGTH) > 5).long().expand(2, -1)} if types else {}
    # 1 is padding to RoBERTa, whatever a mask says
    return lambda: {"tokens": ids().clamp(min=2), **kinds, "lengths": {"tokens": REAL}}


def encoder(theirs: nn.Module, text: str, weights: Callable[[Theirs], Weights], types: bool, **more: Any) -> Pair:
    """Theirs is told of padding by a mask."""

    def run(tokens: Tensor, *given: Any) -> Tensor:
        kinds = {"token_type_ids": given[0]} if types else {}
        mask = real(REAL, tokens.shape[1]).long()
        return theirs(tokens, attention_mask=mask, **kinds).logits

    return Pair(theirs, text, weights, run=run, inputs=inputs(types), decodes=False, **more)


def bert_layers(theirs: Theirs) -> Weights:
    """BERT's and RoBERTa's."""
    for n, layer in theirs.layers("encoder.layer"):
        attention = [layer(f"attention.self.{name}") for name in MATRICES[:3]]
        yield from together(f"layers.{n}.attention", MATRICES, [*attention, layer("attention.output.dense")])
        yield f"layers.{n}.attention_sum_norm", layer("attention.output.LayerNorm")
        yield f"layers.{n}.mlp.up", layer("intermediate.dense")
        yield f"layers.{n}.mlp.down", layer("output.dense")
        yield f"layers.{n}.mlp_sum_norm", layer("output.LayerNorm")


@hub_case("BertForMaskedLM", "bert")
def bert() -> Pair:
    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("bert.embeddings.word_embeddings")
        yield "before.positions", theirs("bert.embeddings.position_embeddings")
        yield "types", theirs("bert.embeddings.token_type_embeddings")
        yield "before.norm", theirs("bert.embeddings.LayerNorm")
        yield from bert_layers(theirs("bert"))
        yield "output.linear", theirs("cls.predictions.transform.dense")
        yield "output.words_input_norm", theirs("cls.predictions.transform.LayerNorm")
        yield "output.vector.weight", theirs("cls.predictions")["bias"]

    return encoder(model("BertForMaskedLM", "BertConfig", **SIZES), "bert", weights, types=True)


@hub_case("RobertaForMaskedLM", "roberta")
def roberta() -> Pair:
    """Its one type is added to every row of the positions."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("roberta.embeddings.word_embeddings")
        kind = theirs("roberta.embeddings.token_type_embeddings")["weight"]
        yield "before.positions.weight", theirs("roberta.embeddings.position_embeddings")["weight"] + kind
        yield "before.norm", theirs("roberta.embeddings.LayerNorm")
        yield from bert_layers(theirs("roberta"))
        yield "output.linear", theirs("lm_head.dense")
        yield "output.words_input_norm", theirs("lm_head.layer_norm")
        yield "output.vector.weight", theirs("lm_head")["bias"]

    sizes = {**SIZES, "max_position_embeddings": CONTEXT + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
    return encoder(model("RobertaForMaskedLM", "RobertaConfig", **sizes), "roberta", weights, types=False)


@hub_case("AlbertForMaskedLM", "albert")
def albert() -> Pair:
    """All layers are one."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("albert.embeddings.word_embeddings")
        yield "before.positions", theirs("albert.embeddings.position_embeddings")
        yield "types", theirs("albert.embeddings.token_type_embeddings")
        yield "before.linear_input_norm", theirs("albert.embeddings.LayerNorm")
        yield "before.linear", theirs("albert.encoder.embedding_hidden_mapping_in")
        layer = theirs("albert.encoder.albert_layer_groups.0.albert_layers.0")
        attention = [layer(f"attention.{name}") for name in ("query", "key", "value", "dense")]
        yield from together("layers.0.attention", MATRICES, attention)
        yield "layers.0.attention_sum_norm", layer("attention.LayerNorm")
        yield "layers.0.mlp.up", layer("ffn")
        yield "layers.0.mlp.down", layer("ffn_output")
        yield "layers.0.mlp_sum_norm", layer("full_layer_layer_norm")
        yield "output.linear", theirs("predictions.dense")
        yield "output.words_input_norm", theirs("predictions.LayerNorm")
        yield "output.vector.weight", theirs("predictions")["bias"]

    theirs = model("AlbertForMaskedLM", "AlbertConfig", **SIZES, embedding_size=12)
    return encoder(theirs, "albert", weights, types=True, numbers={"rank": 12})


@case(
    "sroberta",
    "transformers",
    "RobertaModel",
    "sroberta",
    "the mean over positions that are no padding taken in the test",
)
def sroberta() -> Pair:
    theirs = model(
        "RobertaModel", "RobertaConfig", **{**SIZES, "max_position_embeddings": 514, "type_vocab_size": 1},
        layer_norm_eps=1e-5,
    )  # fmt: skip
    theirs.pooler = None

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("embeddings.word_embeddings")
        kind = theirs("embeddings.token_type_embeddings")["weight"]
        yield "before.positions.weight", theirs("embeddings.position_embeddings")["weight"] + kind
        yield "before.norm", theirs("embeddings.LayerNorm")
        yield from bert_layers(theirs)

    def run(tokens: Tensor, lengths: Any) -> Tensor:
        mask = real(REAL, tokens.shape[1])
        hidden = theirs(tokens, attention_mask=mask.long()).last_hidden_state
        return (hidden * mask[..., None]).sum(1, keepdim=True) / REAL[:, None, None]

    return Pair(theirs, "sroberta", weights, run=run, inputs=inputs(False), where=lambda given: ..., decodes=False)


RANK = 20


class Electra(nn.Module):
    """A generator and a discriminator over the same tables."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {**USUAL, "embedding_size": RANK, "type_vocab_size": 1}
        small = {"hidden_size": WIDTH // 4, "num_attention_heads": HEADS // 4, "intermediate_size": WIDTH}
        self.discriminator = model(
            "ElectraForPreTraining", "ElectraConfig", **{**sizes, "intermediate_size": 4 * WIDTH}
        )
        self.generator = model("ElectraForMaskedLM", "ElectraConfig", **{**sizes, **small})
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.generator_lm_head.weight = self.generator.electra.embeddings.word_embeddings.weight

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        mask = real(REAL, LENGTH).long()
        replaced = self.discriminator(tokens, attention_mask=mask).logits
        return torch.cat((self.generator(source, attention_mask=mask).logits, replaced[..., None]), -1)


@hub_case("ElectraForMaskedLM and ElectraForPreTraining", "electra")
def electra() -> Pair:
    """Its one type is added to every row of the positions."""

    def weights(theirs: Theirs) -> Weights:
        tables = theirs("discriminator.electra.embeddings")
        yield "words", tables("word_embeddings")
        kind = tables("token_type_embeddings")["weight"]
        yield "places.weight", tables("position_embeddings")["weight"] + kind
        yield "embedded", tables("LayerNorm")
        for stack in ("generator", "discriminator"):
            yield f"{stack}.before.linear", theirs(f"{stack}.electra.embeddings_project")
            for name, value in bert_layers(theirs(f"{stack}.electra")):
                yield f"{stack}.{name}", value
        yield "fill", theirs("generator.generator_predictions.dense")
        yield "output.words_input_norm", theirs("generator.generator_predictions.LayerNorm")
        yield "output.vector.weight", theirs("generator.generator_lm_head")["bias"]
        yield "output.linear", theirs("discriminator.discriminator_predictions.dense")
        yield "detect", theirs("discriminator.discriminator_predictions.dense_prediction")

    def inputs() -> dict[str, Any]:
        return {"source": ids(seed=5), "tokens": ids(), "lengths": {"source": REAL, "tokens": REAL}}

    def outputs(result: Any) -> Tensor:
        return torch.cat((result["logits"], result["replaced"]), -1)

    theirs = Electra()
    return Pair(
        theirs, "electra", weights, {"rank": RANK}, inputs=inputs, result=outputs, decodes=False,
        run=lambda source, tokens, lengths: theirs(source, tokens),
    )  # fmt: skip
