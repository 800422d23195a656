"""Rows of models whose grids of positions become larger again, up to pixels, and of one whose inputs stand in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.convolutional import ATTENTIVE, RATIOS, SWIN
from tests.interop.named.others import IMAGES
from tests.interop.named.tiny import Tiny

UNLABELED: Mapping[str, Any] = {key: value for key, value in IMAGES.items() if key != "num_labels"}
STAGES: Mapping[str, Any] = {key: value for key, value in ATTENTIVE.items() if key != "num_labels"}
WINDOWS: Mapping[str, Any] = {
    **{key: value for key, value in SWIN.items() if key != "num_labels"}, "encoder_stride": 16,
}  # fmt: skip
PERSON: Mapping[str, Any] = {
    "model_type": "vitpose_backbone",
    "image_size": [32, 24],
    "patch_size": [8, 8],
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "mlp_ratio": 2,
    "out_indices": [2],
}
EPISODE: Mapping[str, Any] = {
    "state_dim": 5,
    "act_dim": 3,
    "hidden_size": 24,
    "max_ep_len": 30,
    "n_layer": 3,
    "n_head": 2,
    "n_positions": 40,
}


def pixels(name: str, model: str, keys: Mapping[str, Any]) -> Tiny:
    """A row of a class NAMEForMaskedImageModeling."""
    return Tiny(
        name, f"{model}ForMaskedImageModeling", f"{model}Config", {**UNLABELED, **keys}, "pixels of an image", slow=True
    )


def segments(name: str, keys: Mapping[str, Any]) -> Tiny:
    model, keys = "SegformerForSemanticSegmentation", {**ATTENTIVE, **keys}
    return Tiny(name, model, "SegformerConfig", keys, "patches of an image", slow=True)


def distances(name: str, keys: Mapping[str, Any]) -> Tiny:
    return Tiny(name, "GLPNForDepthEstimation", "GLPNConfig", {**STAGES, **keys}, "distances of an image", slow=True)


def pose(name: str, keys: Mapping[str, Any], **backbone: Any) -> Tiny:
    whole = {"backbone_config": {**PERSON, **backbone}, "num_labels": 5, **keys}
    return Tiny(name, "VitPoseForPoseEstimation", "VitPoseConfig", whole, "heat of an image", slow=True)


def decisions(name: str, keys: Mapping[str, Any], slow: bool = True) -> Tiny:
    return Tiny(
        name, "DecisionTransformerModel", "DecisionTransformerConfig", {**EPISODE, **keys}, "decisions", slow=slow
    )


BY_TEXT = [
    segments("segformer-pixels", {"decoder_hidden_size": 6}),
    segments("segformer-pixels-windows", {**RATIOS, "decoder_hidden_size": 9, "strides": [2, 3, 2, 1]}),
    distances("glpn", {"decoder_hidden_size": 6, "max_depth": 3}),
    distances("glpn-as-wide", {**RATIOS, "decoder_hidden_size": 8, "sr_ratios": [2, 2, 1, 1]}),
]
"""Rows whose text alone says which family it is, and which hold no tensor on which no output depends."""
ROWS = [
    *BY_TEXT,
    pixels("vit-pixels", "ViT", {"encoder_stride": 8}),
    pixels("vit-pixels-smaller", "ViT", {"encoder_stride": 4, "num_channels": 3, "hidden_act": "relu"}),
    pixels("deit-pixels", "DeiT", {"encoder_stride": 8}),
    Tiny("swin-pixels", "SwinForMaskedImageModeling", "SwinConfig", WINDOWS, "pixels of an image", slow=True),
    pose("vitpose", {"scale_factor": 2}),
    pose("vitpose-no-biases", {}, qkv_bias=False, hidden_act="relu", layer_norm_eps=1e-3),
    decisions("decision_transformer", {}, slow=False),
    decisions(
        "decision_transformer-unbounded", {"action_tanh": False, "n_inner": 30, "activation_function": "gelu_new"}
    ),
]
