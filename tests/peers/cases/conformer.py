"""The package conformer."""

from __future__ import annotations

import torch
from torch import nn

from tests.peers.around import Around, around
from tests.peers.carry import Leaf, Theirs, Weights, each, split, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case

TEXT = """
causal: false
words:
  half(x): y = linear.down(silu(linear.up(x, 4 * width)), width)
  shaw(x): |
    q = linear.query(x, width, bias=False)
    r = repeat(learned.table(1025, width // heads), heads)
    s = relative(q, r) / sqrt(width / heads)
    y = linear.output(dot_attention(q, linear.key(x, width, bias=False), linear.value(x, width, bias=False), scores=s), width)
  convolution(x): |
    g = linear.value(x, 2 * width) * sigmoid(linear.gate(x, 2 * width))
    y = linear.output(silu(batchnorm(conv.depth(g, 31, depthwise=True))), width)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + 0.5 * half.first(norm(x))
  x = x + shaw(norm(x))
  x = x + convolution(norm(x))
  x = norm.last_norm(x + 0.5 * half.last(norm(x)))
"""  # noqa: E501


def matrix(leaf: Leaf) -> Leaf:
    """A convolution over one position."""
    return each(leaf, lambda tensor: tensor.squeeze(-1) if tensor.dim() == 3 else tensor)


@case("conformer-block", "conformer", "ConformerBlock")
def conformer() -> Pair:
    """Half MLPs around attention with Shaw's distances and a convolution with a batch norm, evaluating."""
    from conformer import ConformerBlock

    blocks = [ConformerBlock(dim=WIDTH, dim_head=WIDTH // HEADS, heads=HEADS) for _ in range(DEPTH)]
    generator = torch.Generator().manual_seed(6)
    statistics: list[nn.BatchNorm1d] = [block.conv.net[5] for block in blocks]
    for norm in statistics:
        norm.running_mean.copy_(torch.randn(norm.num_features, generator=generator))
        norm.running_var.copy_(torch.rand(norm.num_features, generator=generator) + 0.3)

    def layer(name: str, theirs: Theirs) -> Weights:
        for ours, half in (("first", "ff1"), ("last", "ff2")):
            yield f"{name}.{ours}_input_norm", theirs(f"{half}.fn.norm")
            yield f"{name}.{ours}.up", theirs(f"{half}.fn.fn.net.0")
            yield f"{name}.{ours}.down", theirs(f"{half}.fn.fn.net.3")
        yield f"{name}.shaw_input_norm", theirs("attn.norm")
        attention = theirs("attn.fn")
        yield f"{name}.shaw.query", attention("to_q")
        yield from together(f"{name}.shaw", ("key", "value"), split(attention("to_kv"), WIDTH, WIDTH))
        yield f"{name}.shaw.output", attention("to_out")
        yield f"{name}.shaw.table", attention("rel_pos_emb")
        net = theirs("conv.net")
        yield f"{name}.convolution_input_norm", net("0")
        branch = split(matrix(net("2")), 2 * WIDTH, 2 * WIDTH)
        yield from together(f"{name}.convolution", ("value", "gate"), branch)
        yield f"{name}.convolution.depth", net("4.conv")
        norm = statistics[int(name.split(".")[1]) - 1]
        yield f"{name}.convolution.output_input_batchnorm", net("5")
        yield f"{name}.convolution.output_input_batchnorm.running_mean", norm.running_mean
        yield f"{name}.convolution.output_input_batchnorm.running_var", norm.running_var
        yield f"{name}.convolution.output", matrix(net("7"))
        yield f"{name}.last_norm", theirs("post_norm")

    model = Around(blocks, lambda block, x: block(x), norm=False)
    return Pair(model, TEXT, around(layer), decodes=False)
