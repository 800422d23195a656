"""Attention inside windows of a grid of positions, and by how many rows and columns two positions are apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.around import Around, around, channels_first, channels_last
from tests.peers.carry import QKV, Theirs, Weights, by_heads, split, thirds, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case, ids
from tests.peers.cases.timm import below, mlp
from tests.peers.stand_in import absent

SIDE, WINDOW = 6, 3
HIDDEN = 16

OUTSIDE = """causal: false
{text}
before: |
  x = embed.words(tokens) + positions(tokens)
{before}
after: x = norm(x)
"""


def grid(
    blocks: list[nn.Module],
    text: str,
    layer: Callable[[str, Theirs], Weights],
    call: Callable[[nn.Module, Tensor], Tensor] | None = None,
    side: int = SIDE,
    before: str = "",
    **more: Any,
) -> Pair:
    """A model of these blocks, whose positions are a square grid, row by row; `before`: what precedes our layers."""
    model = Around(blocks, call or partial(channels_last, columns=side), norm=True, context=side**2)
    text = OUTSIDE.format(text=text.strip(), before=before.strip("\n"))
    given = {"numbers": {"context": side**2}, "inputs": lambda: {"tokens": ids(length=side**2)}, **more}
    return Pair(model, text, around(layer), decodes=False, **given)


def shifts() -> list[int]:
    """How far the windows of each layer are moved: 0, 1, 2. By one and by two differ, as do both directions."""
    return [n % WINDOW for n in range(DEPTH)]


def windowed(name: str, theirs: Theirs) -> Weights:
    """Queries, keys and values in one matrix, and the output."""
    yield from together(f"{name}.windowed", QKV, thirds(theirs("qkv")))
    yield f"{name}.windowed.output", theirs("proj")


def norms_and_mlp(name: str, theirs: Theirs) -> Weights:
    """Two norms and an MLP."""
    yield f"{name}.first", theirs("norm1")
    yield f"{name}.second", theirs("norm2")
    yield from below(name, mlp(theirs("mlp")))


@case("timm-swin", "timm", "swin_transformer.SwinTransformerBlock(window_size=3, shift_size=0, 1, 2)")
def swin() -> Pair:
    with absent("torchvision"):
        from timm.models.swin_transformer import SwinTransformerBlock
    text = f"""
words:
  windowed(x, shift=0): |
    scores = grid_scores(learned.table({(2 * WINDOW - 1) ** 2}, heads), {WINDOW})
    y = window_attention(linear.query(x, width), linear.key(x, width), linear.value(x, width), {WINDOW}, shift=shift,
      scores=scores)
    y = linear.output(y, width)
layer: |
  x = x + windowed(layernorm.first(x), shift=layer - 1)
  x = x + mlp(layernorm.second(x))
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        yield from windowed(name, theirs("attn"))
        yield f"{name}.windowed.table.weight", theirs("attn")["relative_position_bias_table"]

    blocks = [SwinTransformerBlock(WIDTH, (SIDE, SIDE), HEADS, window_size=WINDOW, shift_size=n) for n in shifts()]
    return grid(blocks, text, layer)


COSINES = """
words:
  scaled: y = l2norm(x, size=width // heads)
  apart(r): |
    {distance}
    y = linear.down(relu(linear.up(d, {hidden})), heads{bias})
  windowed(x, shift=0): |
    sharp = repeat(exp(min(vector.sharp(log(10), size=heads), log(100))), width // heads, each=True)
    s = grid_scores(apart(grid_distances({window})), {window})
    y = window_attention(scaled(linear.query(x, width)) * sharp, scaled(linear.key(x, width{key})),
      linear.value(x, width), {window}, shift=shift, scale=1, scores={scores})
    y = linear.output(y, width)
"""


@case("timm-swinv2", "timm", "swin_transformer_v2.SwinTransformerV2Block(window_size=3, shift_size=0, 1, 2)")
def swinv2() -> Pair:
    with absent("torchvision"):
        from timm.models.swin_transformer_v2 import SwinTransformerV2Block
    words = COSINES.format(
        distance=f"d = clamp(r, -1, 1) * log(1 + abs(r) * (8 / {WINDOW - 1})) / log(8)",
        hidden=512,
        bias=", bias=False",
        window=WINDOW,
        key=", bias=False",
        scores="16 * sigmoid(s)",
    )
    text = f"""{words}
layer: |
  x = x + layernorm.first(windowed(x, shift=layer - 1))
  x = x + layernorm.second(mlp(x))
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        attention = theirs("attn")
        query, key, value = thirds(attention("qkv"))
        yield f"{name}.windowed.query", {**query, "bias": attention["q_bias"]}
        yield f"{name}.windowed.key", key
        yield f"{name}.windowed.value", {**value, "bias": attention["v_bias"]}
        yield f"{name}.windowed.output", attention("proj")
        yield f"{name}.windowed.sharp.weight", attention["logit_scale"].flatten()
        yield f"{name}.windowed.apart.up", attention("cpb_mlp.0")
        yield f"{name}.windowed.apart.down", attention("cpb_mlp.2")

    blocks = [SwinTransformerV2Block(WIDTH, (SIDE, SIDE), HEADS, window_size=WINDOW, shift_size=n) for n in shifts()]
    return grid(blocks, text, layer)


@case("timm-swinv2-cr", "timm", "swin_transformer_v2_cr.SwinTransformerV2CrBlock(shift_size=0, 1, 0; extra_norm)")
def swinv2_cr() -> Pair:
    """Distances are not divided by the window's side, there is no sigmoid, and every second block ends in a norm."""
    with absent("torchvision"):
        from timm.models.swin_transformer_v2_cr import SwinTransformerV2CrBlock
    words = COSINES.format(
        distance="d = clamp(r, -1, 1) * log(1 + abs(r))", hidden=384, bias="", window=WINDOW, key="", scores="s"
    )
    text = f"""{words}
layer: |
  x = x + layernorm.first(windowed(x, shift=(layer + 1) % 2))
  x = x + layernorm.second(mlp(x))
  x = layernorm.third(x) if layer == 2 else x
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        yield from windowed(name, theirs("attn"))
        yield f"{name}.windowed.sharp.weight", theirs("attn")["logit_scale"]
        yield from below(f"{name}.windowed", apart(theirs("attn.meta_mlp")))
        if theirs.has("norm3"):
            yield f"{name}.third", theirs("norm3")

    sides = (SIDE, SIDE), (WINDOW, WINDOW)
    blocks = [SwinTransformerV2CrBlock(WIDTH, HEADS, *sides, shift_size=(n, n), extra_norm=n > 0) for n in (0, 1, 0)]
    return grid(blocks, text, layer)


def apart(theirs: Theirs) -> Weights:
    """The network that makes scores of distances."""
    return ((part.replace("mlp", "apart"), leaf) for part, leaf in mlp(theirs))


@case("timm-vit-relpos", "timm", "vision_transformer_relpos.RelPosBlock(rel_pos_cls=RelPosMlp(mode='swin'))")
def relpos() -> Pair:
    """Attention over the whole grid."""
    with absent("torchvision"):
        from timm.layers import RelPosMlp
        from timm.models.vision_transformer_relpos import RelPosBlock
    side = 4
    text = f"""
words:
  apart(r): |
    d = clamp(r, -1, 1) * log(1 + abs(r) * (8 / {side - 1})) / log(8)
    y = linear.down(relu(linear.up(d, {HIDDEN})), heads, bias=False)
layer: |
  s = 16 * sigmoid(grid_scores(apart(grid_distances({side})), {side}))
  x = x + vector.first_scale(1) * attention(layernorm.first(x), scores=s)
  x = x + vector.second_scale(1) * mlp(layernorm.second(x))
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        yield from together(f"{name}.attention", QKV, thirds(theirs("attn.qkv")))
        yield f"{name}.attention.output", theirs("attn.proj")
        yield from below(name, apart(theirs("attn.rel_pos.mlp")))
        yield f"{name}.first_scale.weight", theirs("ls1")["gamma"]
        yield f"{name}.second_scale.weight", theirs("ls2")["gamma"]

    bias = partial(RelPosMlp, window_size=(side, side), hidden_dim=HIDDEN, mode="swin")
    blocks = [RelPosBlock(WIDTH, HEADS, qkv_bias=True, rel_pos_cls=bias, init_values=0.1) for _ in range(DEPTH)]
    return grid(blocks, text, layer, call=lambda block, x: block(x), side=side)


@case("timm-maxvit", "timm", "maxxvit.PartitionAttentionCl(partition_type='block', then 'grid'; window_size=3)")
def maxvit() -> Pair:
    """Attention inside squares of 3 x 3, then of each position with those 2, 4, ... rows and columns away: for that a
    square of 2 x 2 becomes one position, which has the heads of all four. `upsample` to the size that the grid has
    says that it is the grid of x again."""
    with absent("torchvision"):
        from timm.models.maxxvit import MaxxVitTransformerCfg, PartitionAttentionCl
    apart, areas = SIDE // WINDOW, (2 * WINDOW - 1) ** 2
    text = f"""
words:
  near(x): |
    y = window_attention(linear.query(x, width), linear.key(x, width), linear.value(x, width), {WINDOW},
      scores=grid_scores(learned.table({areas}, heads), {WINDOW}))
    y = linear.output(y, width)
  spread: y = space_to_depth(linear(x, width), {apart})
  far(x): |
    y = dot_attention(spread.query(x), spread.key(x), spread.value(x), heads=heads * {apart**2},
      scores=grid_scores(repeat(learned.table({areas}, heads), {apart**2}), {WINDOW}))
    y = linear.output(upsample(depth_to_space(y, {apart}), like=x), width)
layer: |
  x = x + (far(layernorm.first(x)) if layer % 2 == 0 else near(layernorm.first(x)))
  x = x + mlp(layernorm.second(x))
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        attention, ours = theirs("attn"), f"{name}.{'far' if name.endswith('2') else 'near'}"
        places = [f"{part}.linear" for part in QKV] if ours.endswith("far") else QKV
        yield from together(ours, places, by_heads(attention("qkv"), HEADS, (1, 1, 1), WIDTH // HEADS))
        yield f"{ours}.output", attention("proj")
        yield f"{ours}.table.weight", attention("rel_pos")["relative_position_bias_table"]

    config = MaxxVitTransformerCfg(dim_head=WIDTH // HEADS, window_size=(WINDOW, WINDOW), norm_eps=1e-5)
    blocks = [PartitionAttentionCl(WIDTH, kind, config) for kind in ("block", "grid", "block")]
    return grid(blocks, text, layer)


@case("timm-twins", "timm", "twins.Block(ws=3), then twins.Block(ws=1, sr_ratio=2)")
def twins() -> Pair:
    """Windows without scores; every second block attends to one position for each square of 2 x 2."""
    with absent("torchvision"):
        from timm.models.twins import Block
    text = f"""
words:
  near(x): |
    y = window_attention(linear.query(x, width), linear.key(x, width), linear.value(x, width), {WINDOW})
    y = linear.output(y, width)
  far(x): y = attention(x, layernorm.reduced(conv2d.squares(x, 2, width, stride=2)))
layer: |
  x = x + (far(layernorm.first(x)) if layer % 2 == 0 else near(layernorm.first(x)))
  x = x + mlp(layernorm.second(x))
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield from norms_and_mlp(name, theirs)
        attention = theirs("attn")
        if attention.has("qkv"):
            yield from together(f"{name}.near", QKV, thirds(attention("qkv")))
            yield f"{name}.near.output", attention("proj")
            return
        key, value = split(attention("kv"), WIDTH, WIDTH)
        ours = f"{name}.far"
        yield from together(f"{ours}.cross_attention", QKV, (attention("q"), key, value))
        yield f"{ours}.cross_attention.output", attention("proj")
        yield f"{ours}.squares", attention("sr")
        yield f"{ours}.reduced", attention("norm")

    blocks = [Block(WIDTH, HEADS, sr_ratio=2, ws=ws) for ws in (WINDOW, 1, WINDOW)]
    return grid(blocks, text, layer, call=lambda block, x: block(x, (SIDE, SIDE)))


@case("timm-nest", "timm", "nest.NestLevel(block_size=2, prev_embed_dim=32), which begins with nest.ConvPool")
def nest() -> Pair:
    """A convolution, a norm and the largest of each 3 x 3, at every second row and column; then blocks of 2 x 2."""
    with absent("torchvision"):
        from timm.models.nest import NestLevel
    side, block = 4, 2
    text = f"""
words:
  near(x): |
    y = window_attention(linear.query(x, width), linear.key(x, width), linear.value(x, width), {block})
    y = linear.output(y, width)
layer: |
  x = x + near(layernorm.first(x))
  x = x + mlp(layernorm.second(x))
"""
    before = f"""
  x = pool2d(layernorm.pooled(conv2d(x, 3, width)), 3, kind="max", stride=2)
  x = x + positions.places(x, rows={side**2})
"""

    def level(name: str, theirs: Theirs) -> Weights:
        yield "before.conv2d", theirs("pool.conv")
        yield "pooled", theirs("pool.norm")
        places = theirs["pos_embed"].unflatten(1, (block, block)).unflatten(3, (block, block))  # of block after block
        yield "places.weight", places.transpose(2, 3).flatten(1, 4)[0]
        for n, inner in theirs.layers("transformer_encoder"):
            yield from norms_and_mlp(f"layers.{n}", inner)
            yield from together(f"layers.{n}.near", QKV, thirds(inner("attn.qkv")))
            output = inner("attn.proj")  # its columns are the first channels of all heads, then the second ones, ...
            matrix = output["weight"].unflatten(1, (-1, HEADS)).transpose(1, 2).flatten(1)
            yield f"layers.{n}.near.output", {"weight": matrix, "bias": output["bias"]}

    inside = {"norm_layer": nn.LayerNorm, "act_layer": nn.GELU, "drop_path": [0.0] * DEPTH}
    made = NestLevel((side // block) ** 2, block, block**2, HEADS, DEPTH, WIDTH, prev_embed_dim=WIDTH, **inside)
    call, where = partial(channels_first, columns=2 * side), lambda inputs: everywhere(side**2)
    return grid([made], text, level, call=call, side=2 * side, before=before, where=where)


def everywhere(length: int, batch: int = 2) -> Tensor:
    """A mask of all positions of another sequence than the tokens'."""
    return torch.ones(batch, length, dtype=torch.bool)
