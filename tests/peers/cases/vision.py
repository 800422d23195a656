"""Images: ViT of transformers and of timm, CLIP of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import QKV, Theirs, Weights, thirds, together
from tests.peers.case import DEPTH, HEADS, LENGTH, VOCAB, WIDTH, Pair, case, ids
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


def clip_layers(ours: str, theirs: Theirs) -> Weights:
    """Both stacks have the same names."""
    for n, layer in theirs.layers("encoder.layers"):
        yield f"{ours}.layers.{n}.attention_input_norm", layer("layer_norm1")
        four = [layer(f"self_attn.{name}_proj") for name in ("q", "k", "v", "out")]
        yield from together(f"{ours}.layers.{n}.attention", (*QKV, "output"), four)
        yield f"{ours}.layers.{n}.mlp_input_norm", layer("layer_norm2")
        yield f"{ours}.layers.{n}.mlp.up", layer("mlp.fc1")
        yield f"{ours}.layers.{n}.mlp.down", layer("mlp.fc2")


@hub_case("CLIPModel", "clip")
def clip() -> Pair:
    """Each image with each sentence. Theirs takes the position of the last token's id, ours the last that is real."""
    end, lengths = VOCAB - 1, torch.tensor([LENGTH, LENGTH - 4])
    same: Mapping[str, Any] = {"num_hidden_layers": DEPTH, "hidden_act": "quick_gelu"}
    theirs = model(
        "CLIPModel",
        "CLIPConfig",
        projection_dim=WIDTH,
        text_config={
            **USUAL, **same, "intermediate_size": 4 * WIDTH, "projection_dim": WIDTH, "bos_token_id": 0,
            "eos_token_id": end,
        },
        vision_config={
            **same, "hidden_size": 3 * WIDTH // 2, "intermediate_size": 6 * WIDTH,
            "num_attention_heads": 3 * HEADS // 2, "image_size": SIDE, "patch_size": 32, "projection_dim": WIDTH,
        },
    )  # fmt: skip

    def given() -> dict[str, Any]:
        tokens = ids().clamp(max=end - 1)
        tokens[torch.arange(2), lengths - 1] = end
        return {**inputs(), "tokens": tokens, "lengths": {"tokens": lengths}}

    def weights(theirs: Theirs) -> Weights:
        image, text = theirs("vision_model"), theirs("text_model")
        yield "image_side.before.learned.weight", image("embeddings")["class_embedding"][None]
        yield "image_side.before.positions", image("embeddings.position_embedding")
        yield "image_side.before.patches.weight", rows(image("embeddings.patch_embedding")["weight"])
        yield "image_side.before.norm", image("pre_layrnorm")
        yield from clip_layers("image_side", image)
        yield "image_side.after.norm", image("post_layernorm")
        yield "words", text("embeddings.token_embedding")
        yield "text_side.before.positions", text("embeddings.position_embedding")
        yield from clip_layers("text_side", text)
        yield "text_side.after.norm", text("final_layer_norm")
        yield "image_out", theirs("visual_projection")
        yield "text_out", theirs("text_projection")
        yield "output.scalar.weight", theirs["logit_scale"][None]

    def run(image: Tensor, tokens: Tensor, lengths: Mapping[str, Tensor]) -> Tensor:
        return theirs(input_ids=tokens, pixel_values=image).logits_per_image

    def result(made: Mapping[str, Tensor]) -> Tensor:
        return made["image_vector"][:, 0] @ made["text_vector"][:, 0].T

    return Pair(theirs, "clip", weights, run=run, inputs=given, result=result, where=lambda given: ..., decodes=False)
