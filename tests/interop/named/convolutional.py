"""Rows of models of images whose stages have convolutions, or windows that are pooled or attended to, over a grid of
positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tests.interop.named.seq2seq_and_images import image
from tests.interop.named.tiny import Tiny

STAGES: Mapping[str, Any] = {"hidden_sizes": [8, 12, 16, 24], "depths": [2, 1, 2, 1], "num_labels": 5}
ATTENTIVE: Mapping[str, Any] = {**STAGES, "num_attention_heads": [1, 2, 4, 3], "sr_ratios": [4, 2, 1, 1]}
RATIOS: Mapping[str, Any] = {"mlp_ratios": [2, 3, 2, 1], "hidden_act": "relu"}
RESIDUAL: Mapping[str, Any] = {**STAGES, "depths": [3, 2, 2, 3], "embedding_size": 6}
WINDOWS: Mapping[str, Any] = {"patch_sizes": [5, 3, 2, 3], "strides": [2, 3, 2, 1]}
SWIN: Mapping[str, Any] = {
    "depths": [2, 1, 2, 1],
    "embed_dim": 8,
    "num_heads": [2, 4, 2, 4],
    "image_size": 32,
    "patch_size": 2,
    "window_size": 2,
    "num_labels": 5,
}
SWIN_V2_STATES: Mapping[str, Any] = {
    **{key: value for key, value in SWIN.items() if key != "num_labels"},
    "depths": [1, 3, 1, 2],
    "pretrained_window_sizes": [3, 0, 5, 0],
    "num_heads": [1, 2, 4, 8],
    "qkv_bias": False,
    "mlp_ratio": 1.5,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-3,
}
SWIN_STATES: Mapping[str, Any] = {
    **{key: value for key, value in SWIN.items() if key != "num_labels"},
    "depths": [1, 3, 1, 2],
    "num_heads": [1, 2, 4, 8],
    "use_absolute_embeddings": True,
    "qkv_bias": False,
    "mlp_ratio": 1.5,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-3,
}


def exact_distances(model: Any) -> None:
    """The logarithms of distances, which are rounded to float32."""
    for module in model.modules():
        table = getattr(module, "relative_coords_table", None)
        if table is None:
            continue
        (side, _), (trained, _) = module.window_size, module.pretrained_window_size
        apart = torch.arange(1 - side, side, dtype=torch.float64) * (8 / ((trained or side) - 1))
        apart = apart.sign() * torch.log2(apart.abs() + 1) / 3
        table.data = torch.cartesian_prod(apart, apart).view(1, 2 * side - 1, 2 * side - 1, 2)


ROWS = [
    image("swin", "Swin", SWIN),
    Tiny("swin-states", "SwinModel", "SwinConfig", SWIN_STATES, call="states of an image", slow=True),
    Tiny(
        "swinv2",
        "Swinv2ForImageClassification",
        "Swinv2Config",
        SWIN,
        call="image",
        slow=True,
        exact=exact_distances,
    ),
    Tiny(
        "swinv2-states",
        "Swinv2Model",
        "Swinv2Config",
        SWIN_V2_STATES,
        call="states of an image",
        slow=True,
        exact=exact_distances,
    ),
    image("convnext", "ConvNext", STAGES),
    image("convnext-unscaled", "ConvNext", {**STAGES, "layer_scale_init_value": 0.0, "patch_size": 2}),
    image("convnextv2", "ConvNextV2", STAGES),
    image("convnextv2-silu", "ConvNextV2", {**STAGES, "hidden_act": "silu", "layer_norm_eps": 1e-3}),
    image("poolformer", "PoolFormer", STAGES),
    image(
        "poolformer-unscaled",
        "PoolFormer",
        {**STAGES, **WINDOWS, "padding": [0, 1, 1, 1], "pool_size": 5, "mlp_ratio": 1.5, "use_layer_scale": False},
    ),
    image("segformer", "Segformer", ATTENTIVE),
    image("segformer-windows", "Segformer", {**ATTENTIVE, **WINDOWS, **RATIOS}),
    image("pvt_v2", "PvtV2", {**ATTENTIVE, "layer_norm_eps": 1e-3}),
    image("pvt_v2-no-biases", "PvtV2", {**ATTENTIVE, **WINDOWS, **RATIOS, "qkv_bias": False}),
    image("resnet", "ResNet", RESIDUAL),
    image("resnet-early", "ResNet", {**RESIDUAL, "downsample_in_bottleneck": True, "hidden_act": "gelu"}),
    image("resnet-basic", "ResNet", {**RESIDUAL, "layer_type": "basic", "embedding_size": 8}),
    image("resnet-smaller", "ResNet", {**RESIDUAL, "layer_type": "basic", "downsample_in_first_stage": True}),
    image("regnet", "RegNet", {**RESIDUAL, "groups_width": 4}),
    image(
        "regnet-x",
        "RegNet",
        {**RESIDUAL, "groups_width": 8, "layer_type": "x", "downsample_in_first_stage": False, "embedding_size": 8},
    ),
]
