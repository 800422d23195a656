"""Rows of models without an output, which give the states of their last layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.others import CLIP, IMAGES
from tests.interop.named.tiny import Tiny
from tests.interop.named.waves_and_series import BY_LAYER, rounded_products
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH
from tests.peers.cases.seq2seq import T5
from tests.peers.hub import USUAL

GPT2: Mapping[str, Any] = {
    "vocab_size": VOCAB,
    "n_positions": CONTEXT,
    "n_embd": WIDTH,
    "n_layer": DEPTH,
    "n_head": HEADS,
    "tie_word_embeddings": False,
}
"""A folder that names no class, and has all tensors of one with a tied output, is opened as that one."""
GROUPED: Mapping[str, Any] = {**USUAL, "num_key_value_heads": 2}
PLAIN_IMAGES: Mapping[str, Any] = {key: value for key, value in IMAGES.items() if key != "num_labels"}


def states(name: str, model: str, keys: Mapping[str, Any], call: str, **more: Any) -> Tiny:
    return Tiny(f"{name}-states", f"{model}Model", f"{model}Config", keys, call, slow=True, **more)


ROWS = [
    states("gpt2", "GPT2", GPT2, "states of tokens"),
    states("llama", "Llama", GROUPED, "states of tokens"),
    states("mistral", "Mistral", {**GROUPED, "sliding_window": 5}, "states of tokens"),
    states("qwen2", "Qwen2", GROUPED, "states of tokens"),
    states("qwen3", "Qwen3", {**GROUPED, "head_dim": 6}, "states of tokens"),
    Tiny("t5-encoder", "T5EncoderModel", "T5Config", T5, "states of an encoder", slow=True),
    states("vit", "ViT", PLAIN_IMAGES, "states of an image"),
    states(
        "dinov2", "Dinov2", {k: v for k, v in PLAIN_IMAGES.items() if k != "intermediate_size"}, "states of an image"
    ),
    Tiny("clip-vision", "CLIPVisionModel", "CLIPVisionConfig", CLIP["vision_config"], "states of an image", slow=True),
    Tiny("clip-text", "CLIPTextModel", "CLIPTextConfig", USUAL, "states of an encoder", slow=True),
    states("hubert", "Hubert", BY_LAYER, "states of sound", exact=rounded_products),
    states("wavlm", "WavLM", BY_LAYER, "states of sound", exact=rounded_products),
    states("wav2vec2", "Wav2Vec2", BY_LAYER, "states of sound", exact=rounded_products),
]
