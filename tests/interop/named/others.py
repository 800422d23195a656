"""Rows of encoders, encoders with a decoder, and models of images and sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.tiny import CONTEXT, DEPTH, HEADS, HIDDEN, USUAL, VOCAB, WIDTH, Tiny

BART: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": DEPTH,
    "decoder_layers": DEPTH,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": HIDDEN,
    "decoder_ffn_dim": HIDDEN,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
T5: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "d_kv": 6,
    "d_ff": HIDDEN,
    "num_layers": DEPTH,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 9,
    "decoder_start_token_id": 0,
}

ROWS = [
    Tiny("bert", "BertForMaskedLM", "BertConfig", USUAL, call="types"),
    Tiny("bart", "BartForConditionalGeneration", "BartConfig", BART, call="source"),
    Tiny("t5", "T5ForConditionalGeneration", "T5Config", T5, call="source"),
]
