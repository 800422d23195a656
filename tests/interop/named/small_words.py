"""Rows of families that small words of streams make: kernels from tokens, a Fourier transform, choices by data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.decoders import FEWER, family
from tests.interop.named.others import encoder, head
from tests.interop.named.tiny import Tiny, rope
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.hub import HIDDEN, USUAL

CONV: Mapping[str, Any] = {**USUAL, "embedding_size": 12, "conv_kernel_size": 5, "head_ratio": 2}
GROUPED: Mapping[str, Any] = {**CONV, "num_groups": 2, "embedding_size": WIDTH, "head_ratio": 8, "conv_kernel_size": 3}

XIELU: Mapping[str, Any] = {**FEWER, "hidden_act": "xielu"}
RWKV: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": DEPTH,
    "context_length": CONTEXT,
    "rescale_every": 2,
}
ESM: Mapping[str, Any] = {**USUAL, "pad_token_id": 1, "mask_token_id": 5, "max_position_embeddings": CONTEXT + 2}
ESM2: Mapping[str, Any] = {**ESM, "token_dropout": True, "position_embedding_type": "rotary"}


def exact_waves(model: Any) -> None:
    """Its table of waves, which is rounded to float32."""
    table, size = model.roformer.encoder.embed_positions.weight, WIDTH // HEADS
    angles = torch.arange(len(table))[:, None] * 10000 ** (-2 * torch.arange(size // 2) / size)
    table.data = torch.cat((angles.sin(), angles.cos()), 1)


def exact_rates(model: Any) -> None:
    """Its rates of rotary positions, which are rounded to float32."""
    size = WIDTH // HEADS
    model.esm.rotary_embeddings.inv_freq.data = 10000 ** (-2 * torch.arange(size // 2) / size)


def roformer(name: str, kind: str, call: str, **keys: Any) -> Tiny:
    labels = {} if kind == "MaskedLM" else {"num_labels": 2 if kind == "QuestionAnswering" else 7}
    keys = {**USUAL, "embedding_size": WIDTH, **labels, **keys}
    return encoder(name, f"RoFormerFor{kind}", "RoFormer", keys, call=call, exact=exact_waves)


ROWS = [
    encoder("convbert", "ConvBertForMaskedLM", "ConvBert", CONV, call="whole of types"),
    encoder("convbert-groups", "ConvBertForMaskedLM", "ConvBert", GROUPED, call="whole of types"),
    head("convbert-classifier", "ConvBertForSequenceClassification", "ConvBert", CONV, "classes of the whole"),
    head("convbert-tagger", "ConvBertForTokenClassification", "ConvBert", CONV, "whole of types"),
    head("convbert-spans", "ConvBertForQuestionAnswering", "ConvBert", CONV, "spans of the whole"),
    encoder("fnet", "FNetForMaskedLM", "FNet", USUAL, call="whole of types"),
    encoder("fnet-gelu", "FNetForMaskedLM", "FNet", {**USUAL, "hidden_act": "gelu"}, call="whole of types"),
    head("fnet-classifier", "FNetForSequenceClassification", "FNet", USUAL, "classes of the whole"),
    head("fnet-tagger", "FNetForTokenClassification", "FNet", USUAL, "whole of types"),
    head("fnet-spans", "FNetForQuestionAnswering", "FNet", USUAL, "spans of the whole"),
    roformer("roformer", "MaskedLM", "types"),
    roformer("roformer-narrow", "MaskedLM", "types", embedding_size=12),
    roformer("roformer-classifier", "SequenceClassification", "classes of types"),
    roformer("roformer-tagger", "TokenClassification", "types"),
    roformer("roformer-spans", "QuestionAnswering", "spans of types"),
    encoder("esm", "EsmForMaskedLM", "Esm", {**ESM, "emb_layer_norm_before": True}),
    encoder("esm-dropping", "EsmForMaskedLM", "Esm", {**ESM, "token_dropout": True}, call="masked"),
    encoder("esm2", "EsmForMaskedLM", "Esm", ESM2, call="masked", exact=exact_rates),
    head("esm-classifier", "EsmForSequenceClassification", "Esm", ESM, "classes"),
    head("esm-tagger", "EsmForTokenClassification", "Esm", {**ESM, "token_dropout": True}, "masked"),
    family("apertus", "Apertus", XIELU, slow=True),
    family("apertus-biases", "Apertus", {**XIELU, "attention_bias": True, **rope(777)}, slow=True),
    family("diffllama", "DiffLlama", FEWER, slow=True),
    family(
        "diffllama-linear",
        "DiffLlama",
        {
            **USUAL,
            "attention_bias": True,
            "tie_word_embeddings": True,
            "head_dim": 6,
            **rope(777, "linear", factor=2.0),
        },
        slow=True,
    ),
    family("rwkv", "Rwkv", RWKV, slow=True),
    family(
        "rwkv-narrow",
        "Rwkv",
        {
            **RWKV,
            "rescale_every": 0,
            "attention_hidden_size": 20,
            "intermediate_size": HIDDEN,
            "tie_word_embeddings": True,
        },
        slow=True,
    ),
]
