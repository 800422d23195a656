"""Pooling of a grid: over channels, over all positions, and over windows of it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from tests.peers.around import COLUMNS, Around, around, channels_first
from tests.peers.carry import Theirs, Weights
from tests.peers.case import DEPTH, WIDTH, Pair, case
from tests.peers.cases.slices import matrix
from tests.peers.stand_in import absent


def pair(made: list[nn.Module], text: str, layer: Callable[[str, Theirs], Weights]) -> Pair:
    """x + block(x), where positions are a grid of 4 columns, row by row."""

    def added(block: nn.Module, x: Tensor) -> Tensor:
        return x + channels_first(block, x)

    return Pair(Around(made, added, norm=True), text, around(layer), decodes=False)


def spatial(name: str, pooled: str) -> Pair:
    """Each position is multiplied by a number that a convolution makes of the mean and the largest of channels."""
    with absent("torchvision"):
        from timm.layers import cbam
    text = f"""
causal: false
before: x = embed.words(tokens) + positions(tokens)
layer: |
  p = {pooled}
  x = x + x * sigmoid(batchnorm.bn(conv2d.conv(p, 3, size=1, bias=False, columns={COLUMNS})))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.conv", theirs("conv.conv")
        yield f"{name}.bn", theirs("conv.bn")

    return pair([getattr(cbam, name)(3) for _ in range(DEPTH)], text, layer)


@case("timm-spatial-attn", "timm", "cbam.SpatialAttn")
def spatial_attn() -> Pair:
    return spatial("SpatialAttn", "join(channel_mean(x), channel_max(x))")


@case("timm-light-spatial-attn", "timm", "cbam.LightSpatialAttn")
def light_spatial_attn() -> Pair:
    return spatial("LightSpatialAttn", "0.5 * channel_mean(x) + 0.5 * channel_max(x)")


@case("timm-cbam", "timm", "cbam.CbamModule(rd_channels=8, spatial_kernel_size=3)")
def whole_cbam() -> Pair:
    """Channels are multiplied by what is made of their mean and largest over positions, then positions as above."""
    with absent("torchvision"):
        from timm.layers.cbam import CbamModule
    text = f"""
causal: false
words:
  excited(x): y = linear.second(relu(linear.first(x, 8, bias=False)), width, bias=False)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  y = x * sigmoid(excited.channels(mean(x)) + excited.channels(maxpool(x)))
  p = join(channel_mean(y), channel_max(y))
  x = x + y * sigmoid(batchnorm.bn(conv2d.conv(p, 3, size=1, bias=False, columns={COLUMNS})))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.channels.first", matrix(theirs("channel.fc1"))
        yield f"{name}.channels.second", matrix(theirs("channel.fc2"))
        yield f"{name}.conv", theirs("spatial.conv.conv")
        yield f"{name}.bn", theirs("spatial.conv.bn")

    return pair([CbamModule(WIDTH, rd_channels=8, spatial_kernel_size=3) for _ in range(DEPTH)], text, layer)


@case("timm-spp", "timm", "cspnext.SPPBottleneck(kernel_sizes=(3, 5))")
def pyramid() -> Pair:
    """The largest of windows of several sizes, side by side."""
    with absent("torchvision"):
        from timm.models.cspnext import SPPBottleneck
    text = f"""
causal: false
before: x = embed.words(tokens) + positions(tokens)
layer: |
  h = silu(batchnorm.first_norm(linear.first(x, width // 2, bias=False)))
  near = pool2d(h, 3, kind="max", columns={COLUMNS})
  far = pool2d(h, 5, kind="max", columns={COLUMNS})
  x = x + silu(batchnorm.second_norm(linear.second(join(h, near, far), width, bias=False)))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for ours, part in (("first", "conv1"), ("second", "conv2")):
            yield f"{name}.{ours}", matrix(theirs(f"{part}.conv"))
            yield f"{name}.{ours}_norm", theirs(f"{part}.bn")

    return pair([SPPBottleneck(WIDTH, WIDTH, kernel_sizes=(3, 5)) for _ in range(DEPTH)], text, layer)
