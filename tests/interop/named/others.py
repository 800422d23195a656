"""Rows of encoders, encoders with a decoder, and models of images and sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.tiny import FRAMES, MELS, Tiny
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import HIDDEN, USUAL

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

WHISPER: Mapping[str, Any] = {
    **{key: value for key, value in BART.items() if key != "max_position_embeddings"},
    "num_mel_bins": MELS,
    "max_source_positions": FRAMES // 2,
    "max_target_positions": CONTEXT,
    "decoder_start_token_id": 1,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
}
ROBERTA: Mapping[str, Any] = {**USUAL, "max_position_embeddings": CONTEXT + 2, "type_vocab_size": 1}
ELECTRA: Mapping[str, Any] = {**USUAL, "embedding_size": 12}
DEBERTA: Mapping[str, Any] = {
    **USUAL,
    "relative_attention": True,
    "pos_att_type": ["c2p", "p2c"],
    "position_biased_input": False,
    "share_att_key": True,
    "position_buckets": 4,
    "norm_rel_ebd": "layer_norm",
}
MODERN: Mapping[str, Any] = {
    **{**USUAL, "num_hidden_layers": 4},
    "local_attention": 6,
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1),
}
IMAGES: Mapping[str, Any] = {
    **{key: value for key, value in USUAL.items() if key not in ("vocab_size", "max_position_embeddings")},
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 7,
}
CLIP: Mapping[str, Any] = {
    "projection_dim": 20,
    "text_config": {**USUAL, "bos_token_id": 0, "eos_token_id": VOCAB - 1},
    "vision_config": {
        "hidden_size": 48,
        "intermediate_size": 60,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "image_size": 32,
        "patch_size": 8,
    },
}


def encoder(name: str, model: str, config: str, keys: Mapping[str, Any], **more: Any) -> Tiny:
    return Tiny(name, model, f"{config}Config", keys, **{"call": "encoder", "slow": True, **more})


def writer(name: str, model: str, config: str, keys: Mapping[str, Any], **more: Any) -> Tiny:
    return Tiny(name, model, f"{config}Config", keys, **{"call": "source", "slow": True, **more})


def own_output(model: Any) -> None:
    """An output that is not the embedding, as T5 1.1 has it."""
    model.lm_head.weight = torch.nn.Parameter(torch.empty(VOCAB, WIDTH))


def exact_waves(model: Any) -> None:
    """Its tables of waves, which are rounded to float32."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weight
        angles = torch.arange(len(table))[:, None] * 10000 ** (-2 * torch.arange(WIDTH // 2) / WIDTH)
        table.data = torch.cat((angles.sin(), angles.cos()), 1)


def head(name: str, model: str, config: str, keys: Mapping[str, Any], call: str, **more: Any) -> Tiny:
    labels, slow = 2 if call.startswith("spans") else 7, name != "bert-classifier"
    return Tiny(name, model, f"{config}Config", {**keys, "num_labels": labels}, call, slow=slow, **more)


ROWS = [
    encoder("bert", "BertForMaskedLM", "Bert", USUAL, call="types", slow=False),
    encoder("roberta", "RobertaForMaskedLM", "Roberta", ROBERTA),
    encoder("electra", "ElectraForMaskedLM", "Electra", ELECTRA, call="types"),
    encoder("electra-as-wide", "ElectraForMaskedLM", "Electra", {**USUAL, "embedding_size": WIDTH}, call="types"),
    encoder("electra-discriminator", "ElectraForPreTraining", "Electra", ELECTRA, call="replaced"),
    encoder("deberta-v2", "DebertaV2ForMaskedLM", "DebertaV2", DEBERTA),
    encoder(
        "xlnet",
        "XLNetLMHeadModel",
        "XLNet",
        {"vocab_size": VOCAB, "d_model": WIDTH, "n_layer": DEPTH, "n_head": HEADS, "d_inner": HIDDEN},
    ),
    encoder("modernbert", "ModernBertForMaskedLM", "ModernBert", MODERN),
    encoder(
        "modernbert-biases",
        "ModernBertForMaskedLM",
        "ModernBert",
        {
            **MODERN,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "decoder_bias": False,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
        },
    ),  # fmt: skip
    writer("bart", "BartForConditionalGeneration", "Bart", BART),
    writer("mbart", "MBartForConditionalGeneration", "MBart", {**BART, "scale_embedding": True}),
    writer(
        "marian",
        "MarianMTModel",
        "Marian",
        {**BART, "scale_embedding": True, "activation_function": "swish"},
        exact=exact_waves,
        slow=False,
    ),
    writer(
        "pegasus",
        "PegasusForConditionalGeneration",
        "Pegasus",
        {**BART, "scale_embedding": True, "activation_function": "relu", "decoder_layers": 2, "decoder_ffn_dim": 40},
        exact=exact_waves,
    ),
    writer("t5", "T5ForConditionalGeneration", "T5", T5),
    writer(
        "t5-1.1",
        "T5ForConditionalGeneration",
        "T5",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 2},
        change=own_output,
        slow=False,
    ),
    writer(
        "mt5",
        "MT5ForConditionalGeneration",
        "MT5",
        {**T5, "tie_word_embeddings": False},
        change=own_output,
    ),
    writer("mt5-tied", "MT5ForConditionalGeneration", "MT5", {**T5, "feed_forward_proj": "gated-silu"}),
    Tiny("whisper", "WhisperForConditionalGeneration", "WhisperConfig", WHISPER, call="audio", slow=True),
    Tiny("vit", "ViTForImageClassification", "ViTConfig", IMAGES, call="image"),
    Tiny("deit", "DeiTForImageClassificationWithTeacher", "DeiTConfig", IMAGES, call="image", slow=True),
    Tiny("deit-classifier", "DeiTForImageClassification", "DeiTConfig", IMAGES, call="image", slow=True),
    Tiny("clip", "CLIPModel", "CLIPConfig", CLIP, call="clip", slow=True),
    head("bert-classifier", "BertForSequenceClassification", "Bert", USUAL, "classes of types"),
    head("roberta-classifier", "RobertaForSequenceClassification", "Roberta", ROBERTA, "classes"),
    head("electra-classifier", "ElectraForSequenceClassification", "Electra", ELECTRA, "classes of types"),
    head("deberta-v2-classifier", "DebertaV2ForSequenceClassification", "DebertaV2", DEBERTA, "classes"),
    head("modernbert-classifier", "ModernBertForSequenceClassification", "ModernBert", MODERN, "classes"),
    head(
        "modernbert-mean",
        "ModernBertForSequenceClassification",
        "ModernBert",
        {**MODERN, "classifier_pooling": "mean"},
        "classes",
    ),
    head("bert-tagger", "BertForTokenClassification", "Bert", USUAL, "types"),
    head("roberta-tagger", "RobertaForTokenClassification", "Roberta", ROBERTA, "encoder"),
    head("electra-tagger", "ElectraForTokenClassification", "Electra", ELECTRA, "types"),
    head("deberta-v2-tagger", "DebertaV2ForTokenClassification", "DebertaV2", DEBERTA, "encoder"),
    head("bert-spans", "BertForQuestionAnswering", "Bert", USUAL, "spans of types"),
    head("roberta-spans", "RobertaForQuestionAnswering", "Roberta", ROBERTA, "spans"),
    head("electra-spans", "ElectraForQuestionAnswering", "Electra", ELECTRA, "spans of types"),
    head("deberta-v2-spans", "DebertaV2ForQuestionAnswering", "DebertaV2", DEBERTA, "spans"),
    encoder("bert-vectors", "BertModel", "Bert", USUAL, call="vectors of types", slow=False),
    encoder("roberta-vectors", "RobertaModel", "Roberta", ROBERTA, call="vectors"),
    encoder("xlm-roberta-vectors", "XLMRobertaModel", "XLMRoberta", ROBERTA, call="vectors"),
    encoder("electra-vectors", "ElectraModel", "Electra", ELECTRA, call="vectors of types"),
    encoder("deberta-v2-vectors", "DebertaV2Model", "DebertaV2", DEBERTA, call="vectors"),
    encoder("modernbert-vectors", "ModernBertModel", "ModernBert", MODERN, call="vectors"),
]
