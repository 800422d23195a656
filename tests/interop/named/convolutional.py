"""Rows of models of images whose stages have convolutions, or windows that are pooled, over a grid of positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.interop.named.seq2seq_and_images import image

STAGES: Mapping[str, Any] = {"hidden_sizes": [8, 12, 16, 24], "depths": [2, 1, 2, 1], "num_labels": 5}

ROWS = [
    image("convnext", "ConvNext", STAGES),
    image("convnext-unscaled", "ConvNext", {**STAGES, "layer_scale_init_value": 0.0, "patch_size": 2}),
]
