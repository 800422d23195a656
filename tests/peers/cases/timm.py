"""Blocks of timm's vision Transformers, run causally."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from tests.peers.around import Around, around
from tests.peers.carry import QKV, Theirs, Weights, renamed, split, thirds, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case
from tests.peers.stand_in import absent


def blocks(name: str, **options: Any) -> list[nn.Module]:
    """DEPTH blocks of that class, with biases, and norms with PyTorch's eps, 1e-5, which ours have."""
    with absent("torchvision"):
        from timm.models import vision_transformer

    make = getattr(vision_transformer, name)
    options = {"norm_layer": nn.LayerNorm, **options}
    return [make(dim=WIDTH, num_heads=HEADS, qkv_bias=True, **options) for _ in range(DEPTH)]


def call(block: nn.Module, x: Tensor) -> Tensor:
    """Causally, which later versions can."""
    return block(x, is_causal=True)


def pair(made: list[nn.Module], text: str, layer: Callable[[str, Theirs], Weights], **more: Any) -> Pair:
    """A model of these blocks."""
    return Pair(Around(made, call, norm=True), text, around(layer), **more)


def below(name: str, weights: Weights) -> Weights:
    """The same below NAME."""
    return ((f"{name}.{part}", leaf) for part, leaf in weights)


def attention(theirs: Theirs) -> Weights:
    """Queries, keys and values in one matrix."""
    yield from together("attention", QKV, thirds(theirs("qkv")))
    yield "attention.output", theirs("proj")


def mlp(theirs: Theirs) -> Weights:
    """Their Mlp."""
    yield "mlp.up", theirs("fc1")
    yield "mlp.down", theirs("fc2")


def serial(name: str, theirs: Theirs, place: str) -> Weights:
    """Attention, then MLP, each with a norm; with LayerScale its vectors."""
    yield f"{name}.attention_{place}_norm", theirs("norm1")
    yield f"{name}.mlp_{place}_norm", theirs("norm2")
    yield from below(name, attention(theirs("attn")))
    yield from below(name, mlp(theirs("mlp")))
    for ours, scale in (("attention", "ls1"), ("mlp", "ls2")):
        if theirs.has(scale):
            yield f"{name}.{ours}_output_vector", renamed(theirs(scale), weight="gamma")


@case("timm-block", "timm", "vision_transformer.Block", "pre-norm")
def block() -> Pair:
    return pair(blocks("Block"), "pre-norm", partial(serial, place="input"))


@case("timm-layerscale", "timm", "vision_transformer.Block(init_values=...)", "layerscale")
def layerscale() -> Pair:
    return pair(blocks("Block", init_values=0.1), "layerscale", partial(serial, place="input"))


@case("timm-droppath", "timm", "vision_transformer.Block(drop_path=0.1), evaluating", "droppath")
def droppath() -> Pair:
    return pair(blocks("Block", drop_path=0.1), "droppath", partial(serial, place="input"))


@case(
    "timm-res-post",
    "timm",
    "vision_transformer.ResPostBlock(norm_layer=RMSNorm)",
    "res-post",
    "the last norm, which is not part of a block, is LayerNorm there; here PyTorch's RMSNorm, as in ours",
)
def res_post() -> Pair:
    made = blocks("ResPostBlock", norm_layer=partial(nn.RMSNorm, eps=1e-6))
    model = Around(made, call, norm=True)
    model.norm = nn.RMSNorm(WIDTH, eps=1e-6)
    return Pair(model, "res-post", around(partial(serial, place="output")))


@case("timm-parallel", "timm", "vision_transformer.ParallelScalingBlock", "parallel")
def parallel() -> Pair:
    """The first matrices of both branches are one; so can the last be."""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.attention_input_norm", theirs("in_norm")
        up, *qkv = split(theirs("in_proj"), 4 * WIDTH, WIDTH, WIDTH, WIDTH)
        yield f"{name}.mlp.up", up
        yield from together(f"{name}.attention", QKV, qkv)
        yield f"{name}.attention.output", theirs("attn_out_proj")
        yield f"{name}.mlp.down", theirs("mlp_out_proj")

    return pair(blocks("ParallelScalingBlock"), "parallel", layer)


@case("timm-vit-22b", "timm", "vision_transformer.ParallelScalingBlock(qk_norm=True, fuse_out_proj=True)")
def vit_22b() -> Pair:
    """LayerNorms of queries and keys; one last matrix of both branches joined, which has one bias."""
    text = """
words:
  both(x): |
    q = layernorm.query_norm(linear.query(x, width), size=width // heads)
    k = layernorm.key_norm(linear.key(x, width), size=width // heads)
    a = dot_attention(q, k, linear.value(x, width))
    y = linear.output(join(a, gelu(linear.up(x, 4 * width))), width)
layer: x = x + both(norm(x))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.both_input_norm", theirs("in_norm")
        parts = split(theirs("in_proj"), 4 * WIDTH, WIDTH, WIDTH, WIDTH)
        yield from together(f"{name}.both", ("up", *QKV), parts)
        yield f"{name}.both.query_norm", theirs("q_norm")
        yield f"{name}.both.key_norm", theirs("k_norm")
        yield f"{name}.both.output", theirs("out_proj")

    return pair(blocks("ParallelScalingBlock", qk_norm=True, fuse_out_proj=True), text, layer)


@case("timm-parallel-things", "timm", "vision_transformer.ParallelThingsBlock", "parallel-things")
def parallel_things() -> Pair:
    def layer(name: str, theirs: Theirs) -> Weights:
        for n, ours in enumerate(("attention", "attention_2")):
            yield f"{name}.{ours}_input_norm", theirs(f"attns.{n}.norm")
            branch = attention(theirs(f"attns.{n}.attn"))
            yield from ((f"{name}.{part.replace('attention', ours)}", leaf) for part, leaf in branch)
        for n, ours in enumerate(("mlp", "mlp_2")):
            yield f"{name}.{ours}_input_norm", theirs(f"ffns.{n}.norm")
            branch = mlp(theirs(f"ffns.{n}.mlp"))
            yield from ((f"{name}.{part.replace('mlp', ours)}", leaf) for part, leaf in branch)

    return pair(blocks("ParallelThingsBlock"), "parallel-things", layer)
