"""Images: ViT of transformers and of timm."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import QKV, Theirs, Weights, thirds, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case
from tests.peers.hub import USUAL, hub_case, model
from tests.peers.stand_in import absent

SIDE = 224
"""As many patches as the entry has rows of positions for, less one: 14 x 14 of 16 x 16 pixels."""


def inputs() -> dict[str, Any]:
    """Two images of noise."""
    return {"image": torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))}


def rows(tensor: Tensor) -> Tensor:
    """A convolution's weight as a matrix, a table for a batch as a table."""
    return tensor.flatten(1) if tensor.dim() == 4 else tensor.reshape(-1, tensor.shape[-1])


@hub_case("ViTForImageClassification", "vit")
def vit() -> Pair:
    theirs = model(
        "ViTForImageClassification", "ViTConfig", **{**USUAL, "intermediate_size": 4 * WIDTH}, image_size=SIDE,
        patch_size=16, num_labels=1000, layer_norm_eps=1e-6,
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield "before.learned.weight", rows(theirs("vit.embeddings")["cls_token"])
        yield "before.positions.weight", rows(theirs("vit.embeddings")["position_embeddings"])
        patches = theirs("vit.embeddings.patch_embeddings.projection")
        yield "before.patches", {"weight": rows(patches["weight"]), "bias": patches["bias"]}
        for n, layer in theirs.layers("vit.layers"):
            yield f"layers.{n}.attention_input_norm", layer("layernorm_before")
            four = [layer(f"attention.{letter}_proj") for letter in "qkvo"]
            yield from together(f"layers.{n}.attention", (*QKV, "output"), four)
            yield f"layers.{n}.mlp_input_norm", layer("layernorm_after")
            yield f"layers.{n}.mlp.up", layer("mlp.fc1")
            yield f"layers.{n}.mlp.down", layer("mlp.fc2")
        yield "after.norm", theirs("vit.layernorm")
        yield "output.linear", theirs("classifier")

    return Pair(theirs, "vit", weights, run=lambda image: theirs(image).logits[:, None], inputs=inputs, decodes=False)


@case("timm-vit", "timm", "vision_transformer.VisionTransformer", "vit")
def timm_vit() -> Pair:
    with absent("torchvision"):
        from timm.models.vision_transformer import VisionTransformer

    theirs = VisionTransformer(img_size=SIDE, patch_size=16, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS)

    def weights(theirs: Theirs) -> Weights:
        yield "before.learned.weight", rows(theirs["cls_token"])
        yield "before.positions.weight", rows(theirs["pos_embed"])
        patches = theirs("patch_embed.proj")
        yield "before.patches", {"weight": rows(patches["weight"]), "bias": patches["bias"]}
        for n, block in theirs.layers("blocks"):
            yield f"layers.{n}.attention_input_norm", block("norm1")
            yield from together(f"layers.{n}.attention", QKV, thirds(block("attn.qkv")))
            yield f"layers.{n}.attention.output", block("attn.proj")
            yield f"layers.{n}.mlp_input_norm", block("norm2")
            yield f"layers.{n}.mlp.up", block("mlp.fc1")
            yield f"layers.{n}.mlp.down", block("mlp.fc2")
        yield "after.norm", theirs("norm")
        yield "output.linear", theirs("head")

    return Pair(theirs, "vit", weights, run=lambda image: theirs(image)[:, None], inputs=inputs, decodes=False)
