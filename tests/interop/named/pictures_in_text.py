"""Rows of decoders that read a picture, or a sound, among their tokens: four positions of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.calls import MARKER, SHORT
from tests.interop.named.tiny import MELS, Tiny, rope
from tests.peers.hub import KV_HEADS, SIZE, USUAL, WINDOW

TEXT: Mapping[str, Any] = {**USUAL, "num_key_value_heads": KV_HEADS}
IMAGE: Mapping[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "image_size": 32,
    "patch_size": 8,
}

SIGLIP: Mapping[str, Any] = {
    **IMAGE,
    "patch_size": 16,
    "vision_use_head": False,
    "model_type": "siglip_vision_model",
}
CLIP: Mapping[str, Any] = {**IMAGE, "patch_size": 16, "model_type": "clip_vision_model"}
INTERNVL: Mapping[str, Any] = {**IMAGE, "image_size": [32, 32], "patch_size": [8, 8]}
AUDIO: Mapping[str, Any] = {
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_mel_bins": MELS,
    "max_source_positions": SHORT // 2,
}
QWEN2_AUDIO: Mapping[str, Any] = {
    "d_model": 24,
    "encoder_ffn_dim": 40,
    "encoder_layers": 2,
    "encoder_attention_heads": 6,
    "num_mel_bins": MELS,
    "max_source_positions": SHORT // 2,
    "model_type": "qwen2_audio_encoder",
}


def reader(name: str, model: str, keys: Mapping[str, Any], call: str = "pictures") -> Tiny:
    """A row of a class NAMEForConditionalGeneration."""
    return Tiny(name, f"{model}ForConditionalGeneration", f"{model}Config", keys, call=call, slow=True)


def of(kind: str, **keys: Any) -> dict[str, Any]:
    """The keys of a text's decoder."""
    return {**TEXT, "model_type": kind, **keys}


def shuffled(text: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    """An image of 4 x 4 patches, of which squares of 2 x 2 become one position."""
    return {"text_config": {**TEXT, "model_type": "llama", **text}, "vision_config": IMAGE, **keys}


ROWS = [
    reader("idefics3", "Idefics3", shuffled({}, image_token_id=MARKER), "several pictures"),
    reader(
        "idefics3-tied",
        "Idefics3",
        shuffled(
            {"head_dim": SIZE, "attention_bias": True, "rms_norm_eps": 1e-3},
            image_token_id=MARKER,
            tie_word_embeddings=True,
            vision_config={**IMAGE, "patch_size": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-3},
            scale_factor=4,
        ),
        "several pictures",
    ),
    reader("smolvlm", "SmolVLM", shuffled({}, image_token_id=MARKER), "several pictures"),
    reader(
        "deepseek_vl",
        "DeepseekVL",
        {"text_config": of("llama"), "vision_config": SIGLIP, "image_token_id": MARKER},
    ),
    reader(
        "deepseek_vl-untied",
        "DeepseekVL",
        {
            "text_config": of("llama", mlp_bias=True, **rope(10000, "linear", factor=2.0)),
            "vision_config": {**SIGLIP, "hidden_act": "quick_gelu"},
            "image_token_id": MARKER,
            "tie_word_embeddings": False,
        },
    ),
    reader(
        "internvl",
        "InternVL",
        {"text_config": of("qwen2"), "vision_config": INTERNVL, "image_token_id": MARKER},
    ),
    reader(
        "internvl-normed",
        "InternVL",
        {
            "text_config": of("qwen2", use_sliding_window=True, max_window_layers=1, sliding_window=WINDOW),
            "vision_config": {
                **INTERNVL,
                "patch_size": [4, 4],
                "norm_type": "rms_norm",
                "use_qk_norm": True,
                "attention_bias": True,
                "use_mean_pooling": False,
                "use_mask_token": True,
                "layer_norm_eps": 1e-3,
            },
            "downsample_ratio": 0.25,
            "image_token_id": MARKER,
            "tie_word_embeddings": False,
        },
    ),
    reader(
        "voxtral",
        "Voxtral",
        {"text_config": of("llama", head_dim=SIZE), "audio_config": AUDIO, "audio_token_id": MARKER},
        "sounds",
    ),
    reader(
        "qwen2_audio",
        "Qwen2Audio",
        {"text_config": of("qwen2"), "audio_config": QWEN2_AUDIO, "audio_token_index": MARKER},
        "sounds of a length",
    ),
    reader(
        "audioflamingo3",
        "AudioFlamingo3",
        {"text_config": of("qwen2"), "audio_config": AUDIO, "audio_token_id": MARKER},
        "sounds of frames",
    ),
    reader(
        "audioflamingo3-no-biases",
        "AudioFlamingo3",
        {
            "text_config": of("qwen2", use_sliding_window=True, max_window_layers=1, sliding_window=WINDOW),
            "audio_config": {**AUDIO, "activation_function": "relu"},
            "audio_token_id": MARKER,
            "projector_bias": False,
        },
        "sounds of frames",
    ),
    reader("llava", "Llava", {"text_config": of("llama"), "vision_config": CLIP, "image_token_index": MARKER}),
    reader(
        "llava-tied",
        "Llava",
        {
            "text_config": of("llama", tie_word_embeddings=True, attention_bias=True, **rope(500000)),
            "vision_config": {**CLIP, "patch_size": 16, "num_hidden_layers": 3, "hidden_act": "gelu"},
            "image_token_index": MARKER,
            "vision_feature_layer": 1,
            "multimodal_projector_bias": False,
        },
    ),
    reader(
        "cohere2_vision",
        "Cohere2Vision",
        {
            "text_config": of("cohere2", sliding_window=WINDOW, sliding_window_pattern=2),
            "vision_config": {**SIGLIP, "patch_size": 8},
            "alignment_intermediate_size": 20,
            "image_token_id": MARKER,
        },
    ),
    reader(
        "aya_vision",
        "AyaVision",
        {
            "text_config": of("cohere2", sliding_window=WINDOW, attention_bias=True, logit_scale=0.3),
            "vision_config": {**SIGLIP, "patch_size": 4, "vision_use_head": True},
            "alignment_intermediate_size": 20,
            "downsample_factor": 4,
            "image_token_index": MARKER,
            "tie_word_embeddings": False,
        },
    ),
]
