"""Rows of further encoders of text, with their heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.interop.named.others import MODERN, ROBERTA, encoder, head
from tests.interop.named.tiny import Tiny, rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN, USUAL

DISTILBERT: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "dim": WIDTH,
    "n_layers": DEPTH,
    "n_heads": HEADS,
    "hidden_dim": HIDDEN,
    "max_position_embeddings": CONTEXT,
}
ALBERT: Mapping[str, Any] = {**USUAL, "embedding_size": 12}
MPNET: Mapping[str, Any] = {**USUAL, "max_position_embeddings": CONTEXT + 2}
ERNIE: Mapping[str, Any] = {**USUAL, "use_task_id": True, "type_vocab_size": 4}
REMBERT: Mapping[str, Any] = {**USUAL, "input_embedding_size": 12, "output_embedding_size": 40}
DEBERTA: Mapping[str, Any] = {
    **USUAL,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
}
SQUEEZE: Mapping[str, Any] = {**USUAL, "embedding_size": WIDTH, "post_attention_groups": 2, "output_groups": 8}
SPECIAL: Mapping[str, Any] = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 1)
EURO: Mapping[str, Any] = {**USUAL, **SPECIAL, "mask_token_id": 2, "num_key_value_heads": 2, **rope(777)}
XLM: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "emb_dim": WIDTH,
    "n_layers": DEPTH,
    "n_heads": HEADS,
    "max_position_embeddings": CONTEXT,
}
MOBILE: Mapping[str, Any] = {**USUAL, "embedding_size": 8, "intra_bottleneck_size": 16}


def heads(name: str, model: str, keys: Mapping[str, Any], types: bool = False) -> Iterator[Tiny]:
    """A classifier, a tagger and a model of spans."""
    of_types = " of types" if types else ""
    yield head(f"{name}-classifier", f"{model}ForSequenceClassification", model, keys, f"classes{of_types}")
    yield head(f"{name}-tagger", f"{model}ForTokenClassification", model, keys, "types" if types else "encoder")
    yield head(f"{name}-spans", f"{model}ForQuestionAnswering", model, keys, f"spans{of_types}")


ROWS = [
    encoder("distilbert", "DistilBertForMaskedLM", "DistilBert", DISTILBERT),
    encoder("distilbert-relu", "DistilBertForMaskedLM", "DistilBert", {**DISTILBERT, "activation": "relu"}),
    *heads("distilbert", "DistilBert", DISTILBERT),
    encoder("distilbert-vectors", "DistilBertModel", "DistilBert", DISTILBERT, call="vectors"),
    encoder("albert", "AlbertForMaskedLM", "Albert", ALBERT, call="types"),
    encoder(
        "albert-groups",
        "AlbertForMaskedLM",
        "Albert",
        {**ALBERT, "num_hidden_layers": 4, "num_hidden_groups": 2, "hidden_act": "gelu", "embedding_size": WIDTH},
        call="types",
    ),
    *heads("albert", "Albert", ALBERT, types=True),
    encoder("albert-vectors", "AlbertModel", "Albert", ALBERT, call="vectors of types"),
    encoder("mpnet", "MPNetForMaskedLM", "MPNet", MPNET),
    *heads("mpnet", "MPNet", MPNET),
    encoder("mpnet-vectors", "MPNetModel", "MPNet", MPNET, call="vectors"),
    encoder("xlm-roberta-xl", "XLMRobertaXLForMaskedLM", "XLMRobertaXL", ROBERTA),
    *heads("xlm-roberta-xl", "XLMRobertaXL", ROBERTA),
    encoder("roberta-prelayernorm", "RobertaPreLayerNormForMaskedLM", "RobertaPreLayerNorm", ROBERTA),
    *heads("roberta-prelayernorm", "RobertaPreLayerNorm", ROBERTA),
    encoder("data2vec-text", "Data2VecTextForMaskedLM", "Data2VecText", ROBERTA),
    *heads("data2vec-text", "Data2VecText", ROBERTA),
    encoder("ernie", "ErnieForMaskedLM", "Ernie", USUAL, call="types"),
    encoder("ernie-task", "ErnieForMaskedLM", "Ernie", ERNIE, call="types"),
    *heads("ernie", "Ernie", ERNIE, types=True),
    encoder("megatron-bert", "MegatronBertForMaskedLM", "MegatronBert", USUAL, call="types"),
    *heads("megatron-bert", "MegatronBert", USUAL, types=True),
    encoder("rembert", "RemBertForMaskedLM", "RemBert", REMBERT, call="types"),
    *heads("rembert", "RemBert", REMBERT, types=True),
    encoder("deberta", "DebertaForMaskedLM", "Deberta", DEBERTA),
    encoder("deberta-near", "DebertaForMaskedLM", "Deberta", {**DEBERTA, "max_relative_positions": 5}),
    *heads("deberta", "Deberta", DEBERTA),
    encoder("squeezebert", "SqueezeBertForMaskedLM", "SqueezeBert", SQUEEZE, call="types"),
    *heads("squeezebert", "SqueezeBert", SQUEEZE, types=True),
    encoder("eurobert", "EuroBertForMaskedLM", "EuroBert", EURO),
    encoder(
        "eurobert-biases",
        "EuroBertForMaskedLM",
        "EuroBert",
        {**EURO, "attention_bias": True, "mlp_bias": True, "head_dim": 10},
    ),
    encoder(
        "eurobert-tied",
        "EuroBertForMaskedLM",
        "EuroBert",
        {**EURO, "mlp_bias": True, "tie_word_embeddings": True, "num_key_value_heads": None},
    ),
    *(
        head(
            f"eurobert-{pooling}",
            "EuroBertForSequenceClassification",
            "EuroBert",
            {**EURO, "classifier_pooling": pooling},
            "classes",
        )
        for pooling in ("late", "bos", "mean")
    ),
    head("eurobert-tagger", "EuroBertForTokenClassification", "EuroBert", EURO, "encoder"),
    head("modernbert-tagger", "ModernBertForTokenClassification", "ModernBert", MODERN, "encoder"),
    head("modernbert-spans", "ModernBertForQuestionAnswering", "ModernBert", MODERN, "spans"),
    encoder("xlm", "XLMWithLMHeadModel", "XLM", XLM),
    encoder(
        "xlm-causal", "XLMWithLMHeadModel", "XLM", {**XLM, "causal": True, "gelu_activation": False}, call="tokens"
    ),
    encoder("xlm-languages", "XLMWithLMHeadModel", "XLM", {**XLM, "n_langs": 3}, call="languages"),
    head("xlm-classifier", "XLMForSequenceClassification", "XLM", XLM, "classes"),
    head("xlm-tagger", "XLMForTokenClassification", "XLM", XLM, "encoder"),
    head("xlm-spans", "XLMForQuestionAnsweringSimple", "XLM", XLM, "spans"),
    encoder("flaubert", "FlaubertWithLMHeadModel", "Flaubert", XLM),
    head("flaubert-classifier", "FlaubertForSequenceClassification", "Flaubert", XLM, "classes"),
    head("flaubert-tagger", "FlaubertForTokenClassification", "Flaubert", XLM, "encoder"),
    head("flaubert-spans", "FlaubertForQuestionAnsweringSimple", "Flaubert", XLM, "spans"),
    encoder("mobilebert", "MobileBertForMaskedLM", "MobileBert", MOBILE, call="whole of types"),
    encoder(
        "mobilebert-gelu",
        "MobileBertForMaskedLM",
        "MobileBert",
        {**MOBILE, "hidden_act": "gelu"},
        call="whole of types",
    ),
    head("mobilebert-classifier", "MobileBertForSequenceClassification", "MobileBert", MOBILE, "classes of the whole"),
    head(
        "mobilebert-first",
        "MobileBertForSequenceClassification",
        "MobileBert",
        {**MOBILE, "classifier_activation": False},
        "classes of the whole",
    ),
    head("mobilebert-tagger", "MobileBertForTokenClassification", "MobileBert", MOBILE, "whole of types"),
    head("mobilebert-spans", "MobileBertForQuestionAnswering", "MobileBert", MOBILE, "spans of the whole"),
]
