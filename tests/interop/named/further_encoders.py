"""Rows of encoders of text, with their heads, and of encoders with a decoder, which differ from others by little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from tests.interop.named.others import BART, ROBERTA, encoder, head, own_output, writer
from tests.interop.named.relatives_of_bert import heads
from tests.interop.named.tiny import Tiny, rope
from tests.peers.case import CONTEXT, VOCAB, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import USUAL

JINA: Mapping[str, Any] = {**USUAL, **rope(777)}
GTE: Mapping[str, Any] = {**USUAL, **rope(777), "type_vocab_size": 2}


BIG_BIRD: Mapping[str, Any] = {**USUAL, "attention_type": "original_full"}
LUKE: Mapping[str, Any] = {
    **USUAL,
    "max_position_embeddings": CONTEXT + 2,
    "entity_vocab_size": 9,
    "entity_emb_size": 8,
}

LONG: Mapping[str, Any] = {**ROBERTA, "attention_window": [4, 8, 4], "type_vocab_size": 2}
FSMT: Mapping[str, Any] = {
    **{key: value for key, value in BART.items() if key != "vocab_size"},
    "src_vocab_size": VOCAB + 2,
    "tgt_vocab_size": VOCAB,
}
ULTRA: Mapping[str, Any] = {
    **USUAL,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "sliding_window": 3,
    "prediction_head_size": 20,
}


def stored_waves(model: Any) -> None:
    """FSMT's tables of waves are parameters, which are not trained."""
    for stack in (model.model.encoder, model.model.decoder):
        stack.embed_positions.weight.requires_grad = False


def exact_stored_waves(model: Any) -> None:
    """FSMT's tables of waves, which are rounded to float32."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions
        rates = 10000 ** (-torch.arange(WIDTH // 2, dtype=torch.float64) / (WIDTH // 2 - 1))
        angles = torch.arange(len(table.weight))[:, None] * rates
        table.weight.data = torch.cat((angles.sin(), angles.cos()), 1)
        table.weight.data[table.padding_idx] = 0


def without_spans(rows: Iterator[Tiny]) -> Iterator[Tiny]:
    """Of families that have no model of spans."""
    return (row for row in rows if not row.name.endswith("-spans"))


ROWS = [
    encoder("jina_embeddings_v3", "JinaEmbeddingsV3ForMaskedLM", "JinaEmbeddingsV3", JINA),
    encoder(
        "jina_embeddings_v3-types",
        "JinaEmbeddingsV3ForMaskedLM",
        "JinaEmbeddingsV3",
        {**JINA, "type_vocab_size": 2, "hidden_act": "relu"},
        call="types",
    ),
    *heads("jina_embeddings_v3", "JinaEmbeddingsV3", JINA),
    encoder("jina_embeddings_v3-vectors", "JinaEmbeddingsV3Model", "JinaEmbeddingsV3", JINA, call="vectors"),
    encoder("gte", "GteForMaskedLM", "Gte", GTE, call="types"),
    encoder("gte-one-type", "GteForMaskedLM", "Gte", {**GTE, "type_vocab_size": 1, "hidden_act": "silu"}),
    encoder("gte-typeless", "GteForMaskedLM", "Gte", {**GTE, "type_vocab_size": 0}),
    *without_spans(heads("gte", "Gte", GTE, types=True)),
    encoder("gte-vectors", "GteModel", "Gte", GTE, call="vectors of types"),
    encoder("nomic_bert", "NomicBertForMaskedLM", "NomicBert", JINA, call="types"),
    encoder(
        "nomic_bert-gelu",
        "NomicBertForMaskedLM",
        "NomicBert",
        {**USUAL, "hidden_act": "gelu", "head_dim": 10, "type_vocab_size": 3},
        call="types",
    ),
    *without_spans(heads("nomic_bert", "NomicBert", JINA, types=True)),
    encoder("nomic_bert-vectors", "NomicBertModel", "NomicBert", JINA, call="vectors of types"),
    encoder("big_bird", "BigBirdForMaskedLM", "BigBird", BIG_BIRD, call="types"),
    encoder(
        "big_bird-scaled",
        "BigBirdForMaskedLM",
        "BigBird",
        {**BIG_BIRD, "rescale_embeddings": True, "use_bias": False, "hidden_act": "relu"},
        call="types",
    ),
    *without_spans(heads("big_bird", "BigBird", BIG_BIRD, types=True)),
    encoder("dpr", "DPRContextEncoder", "DPR", {**USUAL, "projection_dim": 20}, call="first of types"),
    encoder("dpr-question", "DPRQuestionEncoder", "DPR", USUAL, call="first of types"),
    encoder("dpr-reader", "DPRReader", "DPR", USUAL, call="spans"),
    encoder(
        "splinter",
        "SplinterForQuestionAnswering",
        "Splinter",
        {**USUAL, "question_token_id": 5},
        call="spans of a question",
    ),
    encoder("luke", "LukeForMaskedLM", "Luke", LUKE, call="types"),
    encoder(
        "luke-plain",
        "LukeForMaskedLM",
        "Luke",
        {**LUKE, "use_entity_aware_attention": False, "entity_emb_size": WIDTH, "hidden_act": "relu"},
        call="types",
    ),
    *heads("luke", "Luke", LUKE, types=True),
    encoder("luke-vectors", "LukeModel", "Luke", LUKE, call="vectors of types"),
    encoder("longformer", "LongformerForMaskedLM", "Longformer", LONG, call="types"),
    head("longformer-tagger", "LongformerForTokenClassification", "Longformer", LONG, "types"),
    encoder("longformer-vectors", "LongformerModel", "Longformer", LONG, call="vectors of types"),
    writer("mvp", "MvpForConditionalGeneration", "Mvp", BART),
    writer("mvp-scaled", "MvpForConditionalGeneration", "Mvp", {**BART, "scale_embedding": True, "decoder_layers": 2}),
    writer("fsmt", "FSMTForConditionalGeneration", "FSMT", FSMT, change=stored_waves, exact=exact_stored_waves),
    writer(
        "fsmt-unscaled",
        "FSMTForConditionalGeneration",
        "FSMT",
        {**FSMT, "scale_embedding": False, "pad_token_id": 1, "activation_function": "gelu", "decoder_layers": 2},
        change=stored_waves,
        exact=exact_stored_waves,
    ),
    writer("longt5", "LongT5ForConditionalGeneration", "LongT5", {**T5, "local_radius": 3}),
    writer(
        "longt5-gated",
        "LongT5ForConditionalGeneration",
        "LongT5",
        {
            **T5,
            "local_radius": 2,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "num_decoder_layers": 2,
        },
        change=own_output,
    ),
    encoder(
        "bert_generation",
        "BertGenerationDecoder",
        "BertGeneration",
        {**USUAL, "is_decoder": True},
        call="tokens",
    ),
    encoder("ultrabert", "UltrabertForMaskedLM", "Ultrabert", ULTRA),
    encoder(
        "ultrabert-tied",
        "UltrabertForMaskedLM",
        "Ultrabert",
        {
            **ULTRA,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "head_dim": 10,
            "layer_types": ["full_attention", "sliding_attention"] * 2,
        },
    ),
    *heads("ultrabert", "Ultrabert", ULTRA),
    encoder("ultrabert-vectors", "UltrabertModel", "Ultrabert", ULTRA, call="vectors"),
    head("bart-classifier", "BartForSequenceClassification", "Bart", BART, "classes of the end"),
    head(
        "bart-classifier-scaled",
        "BartForSequenceClassification",
        "Bart",
        {**BART, "scale_embedding": True, "encoder_layers": 2, "decoder_attention_heads": 2},
        "classes of the end",
    ),
]
