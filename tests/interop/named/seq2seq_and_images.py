"""Rows of further encoders with a decoder, and of models of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.others import BART, CLIP, IMAGES, own_output, writer
from tests.interop.named.tiny import Tiny
from tests.peers.case import DEPTH, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import USUAL

BIGBIRD: Mapping[str, Any] = {**BART, "attention_type": "original_full"}
DINO: Mapping[str, Any] = {key: value for key, value in IMAGES.items() if key != "intermediate_size"}
DISTANCES: Mapping[str, Any] = {**IMAGES, "use_relative_position_bias": True}
ABSOLUTE: Mapping[str, Any] = {
    **IMAGES,
    "use_absolute_position_embeddings": True,
    "use_mean_pooling": False,
    "use_mask_token": True,
}
SIGLIP: Mapping[str, Any] = {
    "text_config": {**USUAL, "projection_size": 48},
    "vision_config": {**CLIP["vision_config"], "hidden_act": "gelu"},
}


def exact_fairseq_waves(model: Any) -> None:
    """The tables of waves, which are rounded to float32."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weights
        rates = 10000 ** (-torch.arange(WIDTH // 2, dtype=torch.float64) / (WIDTH // 2 - 1))
        angles = torch.arange(len(table))[:, None] * rates
        table.data = torch.cat((angles.sin(), angles.cos()), 1)


def image(name: str, model: str, keys: Mapping[str, Any]) -> Tiny:
    """A row of a class NAMEForImageClassification."""
    return Tiny(name, f"{model}ForImageClassification", f"{model}Config", keys, call="image", slow=True)


ROWS = [
    writer("m2m_100", "M2M100ForConditionalGeneration", "M2M100", BART, exact=exact_fairseq_waves),
    writer(
        "m2m_100-unscaled",
        "M2M100ForConditionalGeneration",
        "M2M100",
        {**BART, "pad_token_id": 1, "scale_embedding": False, "activation_function": "gelu", "decoder_layers": 2},
        exact=exact_fairseq_waves,
    ),
    writer("blenderbot", "BlenderbotForConditionalGeneration", "Blenderbot", {**BART, "decoder_layers": DEPTH + 1}),
    writer("blenderbot-scaled", "BlenderbotForConditionalGeneration", "Blenderbot", {**BART, "scale_embedding": True}),
    writer("blenderbot-small", "BlenderbotSmallForConditionalGeneration", "BlenderbotSmall", BART),
    writer(
        "blenderbot-small-scaled",
        "BlenderbotSmallForConditionalGeneration",
        "BlenderbotSmall",
        {**BART, "scale_embedding": True, "activation_function": "relu"},
    ),
    writer("plbart", "PLBartForConditionalGeneration", "PLBart", BART),
    writer("plbart-unscaled", "PLBartForConditionalGeneration", "PLBart", {**BART, "scale_embedding": False}),
    writer("umt5", "UMT5ForConditionalGeneration", "UMT5", {**T5, "feed_forward_proj": "gated-gelu"}),
    writer(
        "umt5-relu",
        "UMT5ForConditionalGeneration",
        "UMT5",
        {**T5, "num_decoder_layers": 2, "feed_forward_proj": "relu"},
    ),
    writer("umt5-own-output", "UMT5ForConditionalGeneration", "UMT5", T5, change=own_output),
    writer("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", "BigBirdPegasus", BIGBIRD),
    writer(
        "bigbird_pegasus-biases",
        "BigBirdPegasusForConditionalGeneration",
        "BigBirdPegasus",
        {**BIGBIRD, "use_bias": True, "scale_embedding": False, "decoder_layers": 2},
    ),
    image("dinov2", "Dinov2", DINO),
    image(
        "dinov2-gated",
        "Dinov2",
        {**DINO, "use_swiglu_ffn": True, "mlp_ratio": 2, "qkv_bias": False, "use_mask_token": False},
    ),
    image("dinov2_with_registers", "Dinov2WithRegisters", {**DINO, "mlp_ratio": 2}),
    image(
        "dinov2_with_registers-gated",
        "Dinov2WithRegisters",
        {**DINO, "num_register_tokens": 3, "use_swiglu_ffn": True},
    ),
    image("vit_msn", "ViTMSN", IMAGES),
    image("vit_msn-no-biases", "ViTMSN", {**IMAGES, "qkv_bias": False, "layer_norm_eps": 1e-3}),
    image("ijepa", "IJepa", IMAGES),
    image("ijepa-no-biases", "IJepa", {**IMAGES, "qkv_bias": False}),
    image("beit", "Beit", DISTANCES),
    image("beit-plain", "Beit", {**IMAGES, "layer_scale_init_value": 0.0}),
    image("beit-absolute", "Beit", ABSOLUTE),
    image("data2vec-vision", "Data2VecVision", DISTANCES),
    image("data2vec-vision-absolute", "Data2VecVision", ABSOLUTE),
    Tiny("siglip", "SiglipModel", "SiglipConfig", SIGLIP, call="images by texts", slow=True),
    Tiny("metaclip_2", "MetaClip2Model", "MetaClip2Config", CLIP, call="clip", slow=True),
]
