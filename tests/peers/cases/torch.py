"""PyTorch's own layers."""

from __future__ import annotations

from torch import Tensor, nn

from tests.peers.around import Around, around, causal
from tests.peers.carry import QKV, Theirs, Weights, renamed, thirds, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case


def call(block: nn.Module, x: Tensor) -> Tensor:
    """With a causal mask."""
    return block(x, src_mask=causal(x.shape[1]))


def attention(theirs: Theirs) -> Weights:
    """Queries, keys and values in one parameter."""
    joint = renamed(theirs, weight="in_proj_weight", bias="in_proj_bias")
    yield from together("attention", QKV, thirds(joint))
    yield "attention.output", theirs("out_proj")


def encoder_layers(norm_first: bool) -> Pair:
    """nn.TransformerEncoderLayer, with GELU in the place of its own ReLU."""
    blocks = [
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu", batch_first=True, norm_first=norm_first
        )
        for _ in range(DEPTH)
    ]
    place = "input" if norm_first else "sum"

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.attention_{place}_norm", theirs("norm1")
        yield f"{name}.mlp_{place}_norm", theirs("norm2")
        yield from ((f"{name}.{part}", leaf) for part, leaf in attention(theirs("self_attn")))
        yield f"{name}.mlp.up", theirs("linear1")
        yield f"{name}.mlp.down", theirs("linear2")

    return Pair(Around(blocks, call, norm=norm_first), "pre-norm" if norm_first else "post-norm", around(layer))


@case("torch-pre-norm", "torch", "nn.TransformerEncoderLayer(norm_first=True, activation='gelu')", "pre-norm")
def pre_norm() -> Pair:
    return encoder_layers(True)


@case("torch-post-norm", "torch", "nn.TransformerEncoderLayer(norm_first=False, activation='gelu')", "post-norm")
def post_norm() -> Pair:
    return encoder_layers(False)
