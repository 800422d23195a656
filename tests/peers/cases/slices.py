"""Blocks that take their channels apart into slices of unequal width."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from tests.peers.around import COLUMNS, Around, around, channels_first, channels_last
from tests.peers.carry import Theirs, Weights
from tests.peers.case import DEPTH, WIDTH, Pair, case
from tests.peers.cases.x_transformers import model, named, xt_case
from tests.peers.stand_in import absent


def pair(
    blocks: list[nn.Module], text: str, layer: Callable[[str, Theirs], Weights], call: Callable[..., Tensor]
) -> Pair:
    """A model of these blocks, whose positions are a grid of 4 columns, row by row."""
    return Pair(Around(blocks, call, norm=True), text, around(layer), decodes=False)


def matrix(leaf: Theirs) -> dict[str, Tensor]:
    """A convolution of one square, as a matrix."""
    return {key: value.flatten(1) if value.dim() > 1 else value for key, value in leaf.items()}


@case("timm-fasternet", "timm", "fasternet.MLPBlock(n_div=4)")
def fasternet() -> Pair:
    """A convolution of a quarter of the channels; the others stay."""
    with absent("torchvision"):
        from timm.models.fasternet import MLPBlock
    text = f"""
causal: false
words:
  some(x): y = join(conv2d(slice(x, 1, width // 4), 3, bias=False, columns={COLUMNS}), slice(x, width // 4 + 1))
before: x = embed.words(tokens) + positions(tokens)
layer: |
  h = relu(batchnorm.bn(linear.up(some(x), 2 * width, bias=False)))
  x = x + vector.scale(1) * linear.down(h, width, bias=False)
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.some.conv2d", theirs("spatial_mixing.partial_conv3")
        yield f"{name}.up", matrix(theirs("mlp.0"))
        yield f"{name}.bn", theirs("mlp.1")
        yield f"{name}.down", matrix(theirs("mlp.3"))
        yield f"{name}.scale.weight", theirs["layer_scale"]

    made = [MLPBlock(WIDTH, 4, 2.0, drop_path=0.0, layer_scale_init_value=0.1) for _ in range(DEPTH)]
    return pair(made, text, layer, channels_first)


@case("timm-mambaout", "timm", "mambaout.GatedConvBlock(conv_ratio=0.5)")
def mambaout() -> Pair:
    """Of one matrix: 85 channels of gates, 69 that stay and 16 that are convolved."""
    with absent("torchvision"):
        from timm.models.mambaout import GatedConvBlock
    text = f"""
causal: false
inner: 8 * width // 3
moved: width // 2
before: x = embed.words(tokens) + positions(tokens)
layer: |
  h = linear.up(layernorm.norm(x), 2 * inner)
  c = conv2d(slice(h, 2 * inner - moved + 1), 3, depthwise=True, columns={COLUMNS})
  x = x + linear.down(gelu(slice(h, 1, inner)) * join(slice(h, inner + 1, inner - moved), c), width)
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for ours, part in (("norm", "norm"), ("up", "fc1"), ("conv2d", "conv"), ("down", "fc2")):
            yield f"{name}.{ours}", theirs(part)

    made = [GatedConvBlock(WIDTH, kernel_size=3, conv_ratio=0.5, norm_layer=nn.LayerNorm) for _ in range(DEPTH)]
    return pair(made, text, layer, channels_last)


@case("timm-shvit", "timm", "shvit.BasicBlock(qk_dim=8, pdim=12, type='s')")
def shvit() -> Pair:
    """One head of attention among 12 channels, from one matrix of 8 + 8 + 12 rows; the 20 others stay."""
    with absent("torchvision"):
        from timm.models.shvit import BasicBlock
    text = f"""
causal: false
seen: 12
size: 8
words:
  single(x): |
    h = batchnorm.qkv_norm(linear.qkv(groupnorm.norm(slice(x, 1, seen), 1), 2 * size + seen, bias=False))
    y = dot_attention(slice(h, 1, size), slice(h, size + 1, size), slice(h, 2 * size + 1), heads=1)
    y = batchnorm.output_norm(linear.output(relu(join(y, slice(x, seen + 1))), width, bias=False))
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + batchnorm.conv_norm(conv2d(x, 3, depthwise=True, bias=False, columns={COLUMNS}))
  x = x + single(x)
  h = relu(batchnorm.up_norm(linear.up(x, 2 * width, bias=False)))
  x = x + batchnorm.down_norm(linear.down(h, width, bias=False))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.conv2d", theirs("conv.m.c")
        yield f"{name}.conv_norm", theirs("conv.m.bn")
        yield f"{name}.single.norm", theirs("mixer.m.pre_norm")
        inside = {"single.qkv": "mixer.m.qkv", "single.output": "mixer.m.proj.1"}
        for ours, part in {**inside, "up": "ffn.m.pw1", "down": "ffn.m.pw2"}.items():
            yield f"{name}.{ours}", matrix(theirs(f"{part}.c"))
            yield f"{name}.{ours}_norm", theirs(f"{part}.bn")

    return pair([BasicBlock(WIDTH, 8, 12, "s") for _ in range(DEPTH)], text, layer, channels_first)


@case("timm-inception-next", "timm", "inception_next.MetaNeXtBlock(token_mixer=InceptionDWConv2d(band_kernel_size=5))")
def inception_next() -> Pair:
    """Of 32 channels 20 stay; 4 have a square kernel, 4 one along rows, 4 one along columns.

    Our kernels of grids are squares. Along a row it is `conv` over all positions, with zeros behind each row that keep
    rows apart; along a column `dynamic_conv` over rows, each of which is one position."""
    with absent("torchvision"):
        from timm.models.inception_next import InceptionDWConv2d, MetaNeXtBlock
    band = 5
    text = f"""
causal: false
few: width // 8
band: {band}
columns: {COLUMNS}
apart: columns + band // 2
words:
  as_rows(x): y = space_to_depth(x, columns, dimensions=1)
  as_grid(rows, x): |
    y = upsample(depth_to_space(rows, columns, dimensions=1), like=x, columns=columns, to_columns=columns)
  along(x): |
    y = conv(depth_to_space(pad(as_rows(x), apart * few), apart, dimensions=1), band, depthwise=True)
    y = as_grid(slice(space_to_depth(y, apart, dimensions=1), 1, columns * few), x)
  down(x): |
    kernels = repeat(vector.kernel(0, size=few * band), columns)
    y = as_grid(dynamic_conv(as_rows(x), kernels, band, heads=columns * few), x) + vector.bias(0, size=few)
  mixed(x): |
    stay = width - 3 * few
    square = conv2d.square(slice(x, stay + 1, few), 3, depthwise=True, columns=columns)
    y = join(slice(x, 1, stay), square, along(slice(x, stay + few + 1, few)), down(slice(x, stay + 2 * few + 1)))
before: x = embed.words(tokens) + positions(tokens)
layer: x = x + vector.scale(1) * mlp(batchnorm.norm(mixed(x)), activation="gelu")
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        mixer, down = theirs("token_mixer"), theirs("token_mixer.dwconv_h")
        yield f"{name}.mixed.square", mixer("dwconv_hw")
        along = mixer("dwconv_w")
        yield f"{name}.mixed.along.conv", {"weight": along["weight"].squeeze(2), "bias": along["bias"]}
        yield f"{name}.mixed.down.kernel.weight", down["weight"].flatten()
        yield f"{name}.mixed.down.bias.weight", down["bias"]
        yield f"{name}.norm", theirs("norm")
        yield f"{name}.mlp.up", matrix(theirs("mlp.fc1"))
        yield f"{name}.mlp.down", matrix(theirs("mlp.fc2"))
        yield f"{name}.scale.weight", theirs["gamma"]

    mixer = partial(InceptionDWConv2d, band_kernel_size=band)
    return pair([MetaNeXtBlock(WIDTH, token_mixer=mixer) for _ in range(DEPTH)], text, layer, channels_first)


@xt_case("shift_tokens=2")
def uneven_shift_tokens() -> Pair:
    """Before each sublayer 10 channels stay, 10 come from the position before, 10 from the one before that, 2 stay.
    Their cache keeps nothing of that."""
    text = """
third: width // 3
words:
  shifted(x): |
    a = shift(slice(x, third + 1, third), 1)
    b = shift(slice(x, 2 * third + 1, third), 2)
    y = join(slice(x, 1, third), a, b, slice(x, 3 * third + 1))
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + attention(shifted(layernorm.attention_input_norm(x)))
  x = x + mlp(shifted(layernorm.mlp_input_norm(x)))
after: x = norm(x)
"""
    return Pair(model(shift_tokens=2), text, named())
