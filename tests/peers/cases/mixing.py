"""Attention whose heads are mixed, convolutions whose kernels a formula makes, and the Fourier transform."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.peers.around import Around, around
from tests.peers.carry import QKV, Leaf, Theirs, Weights, thirds, together
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case
from tests.peers.cases.timm import below, mlp
from tests.peers.cases.x_transformers import decoder, model, named, xt_case
from tests.peers.stand_in import absent

KERNEL = 3


def heads_of(leaf: Leaf) -> Leaf:
    """Their mixture of heads, a convolution of one square."""
    return {"weight": leaf["weight"].flatten(1)}


def mixed(pre: bool, post: bool) -> Pair:
    """x-transformers add the mixture to the scores, and put it in the place of the weights."""
    scores, weights = ("s + mix_heads.before(s)" if pre else "s"), ("mix_heads.behind(w)" if post else "w")
    text = f"""
words:
  talking(x): |
    s = dot_scores(linear.query(x, width), linear.key(x, width))
    w = attention_weights({scores})
    y = linear.output(weighted_sum({weights}, linear.value(x, width)), width)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + talking.attention(layernorm.attention_input_norm(x))
  x = x + mlp(layernorm.mlp_input_norm(x))
after: x = norm(x)
"""

    def more(name: str, theirs: Theirs) -> Weights:
        if theirs.has("1.attend.pre_softmax_talking_heads"):
            yield "attention.before", heads_of(theirs("1.attend.pre_softmax_talking_heads"))
        if theirs.has("1.attend.post_softmax_talking_heads"):
            yield "attention.behind", heads_of(theirs("1.attend.post_softmax_talking_heads"))

    made = model(attn_pre_talking_heads=pre, attn_post_talking_heads=post)
    return decoder(made, text, named(more=more))


@xt_case("attn_pre_talking_heads=True")
def pre_talking_heads() -> Pair:
    return mixed(True, False)


@xt_case("attn_post_talking_heads=True")
def post_talking_heads() -> Pair:
    return mixed(False, True)


@xt_case("attn_pre_talking_heads=True, attn_post_talking_heads=True")
def talking_heads() -> Pair:
    return mixed(True, True)


def cait_layer(name: str, theirs: Theirs) -> Weights:
    attention = theirs("attn")
    yield f"{name}.before_norm", theirs("norm1")
    yield f"{name}.mlp_norm", theirs("norm2")
    yield from together(f"{name}.talking", QKV, thirds(attention("qkv")))
    yield f"{name}.talking.output", attention("proj")
    yield f"{name}.talking.before", attention("proj_l")
    yield f"{name}.talking.behind", attention("proj_w")
    yield from below(name, mlp(theirs("mlp")))
    yield f"{name}.talking_scale.weight", theirs["gamma_1"]
    yield f"{name}.mlp_scale.weight", theirs["gamma_2"]


@case("timm-cait", "timm", "cait.LayerScaleBlock", note="without the biases of its mixtures of heads")
def cait() -> Pair:
    with absent("torchvision"):
        from timm.models.cait import LayerScaleBlock
    text = """
causal: false
words:
  talking(x): |
    s = mix_heads.before(dot_scores(linear.query(x, width), linear.key(x, width)))
    w = mix_heads.behind(attention_weights(s))
    y = linear.output(weighted_sum(w, linear.value(x, width)), width)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + vector.talking_scale(1) * talking(layernorm.before_norm(x))
  x = x + vector.mlp_scale(1) * mlp(layernorm.mlp_norm(x))
after: x = norm(x)
"""
    blocks = [LayerScaleBlock(dim=WIDTH, num_heads=HEADS, qkv_bias=True, init_values=0.1) for _ in range(DEPTH)]
    for block in blocks:
        block.attn.proj_l = nn.Linear(HEADS, HEADS, bias=False)
        block.attn.proj_w = nn.Linear(HEADS, HEADS, bias=False)
    return Pair(Around(blocks, alone, norm=True), text, around(cait_layer), decodes=False)


def alone(block: nn.Module, x: Tensor) -> Tensor:
    return block(x)


class LightConv(nn.Module):
    """A layer of lightweight convolution: x + W conv(glu(V x)), the same kernel for all channels of a head, by
    PyTorch's own convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.enter, self.leave = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kernel = nn.Parameter(torch.zeros(HEADS, KERNEL))

    def forward(self, x: Tensor) -> Tensor:
        h = F.glu(self.enter(self.norm(x)), -1).transpose(1, 2)
        kernels = self.kernel.softmax(-1).repeat_interleave(WIDTH // HEADS, 0)[:, None]
        y = F.conv1d(F.pad(h, (KERNEL - 1, 0)), kernels, groups=WIDTH)
        return x + self.leave(y.transpose(1, 2))


class DynamicConv(nn.Module):
    """The same with kernels that each position makes: x + W unfold(h) softmax(K h)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.enter, self.leave = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.kernels = nn.Linear(WIDTH, HEADS * KERNEL, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = F.glu(self.enter(self.norm(x)), -1)
        kernels = self.kernels(h).unflatten(-1, (HEADS, KERNEL)).softmax(-1)
        past = F.pad(h, (0, 0, KERNEL - 1, 0)).unfold(1, KERNEL, 1).unflatten(2, (HEADS, -1))
        y = torch.einsum("bthck,bthk->bthc", past, kernels)
        return x + self.leave(y.flatten(2))


def convolutions(blocks: list[nn.Module], kernels: str) -> Pair:
    text = f"""
before: x = embed.words(tokens) + positions(tokens)
layer: |
  a = linear.enter(layernorm.norm(x), 2 * width)
  h = part(a, 1, 2) * sigmoid(part(a, 2, 2))
  x = x + linear.leave(dynamic_conv(h, softmax({kernels}, size={KERNEL}), {KERNEL}, heads=heads), width)
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for part in ("norm", "enter", "leave"):
            yield f"{name}.{part}", theirs(part)
        if theirs.has("kernel"):
            yield f"{name}.kernel.weight", theirs["kernel"].flatten()
        else:
            yield f"{name}.kernels", theirs("kernels")

    return Pair(Around(blocks, alone, norm=True), text, around(layer))


@case("torch-lightconv", "torch", "conv1d, a kernel for each head", note="lightweight convolution, written by hand")
def lightconv() -> Pair:
    return convolutions([LightConv() for _ in range(DEPTH)], f"vector.kernel(0, heads * {KERNEL})")


@case("torch-dynamicconv", "torch", "unfold, einsum", note="dynamic convolution, written by hand")
def dynamicconv() -> Pair:
    return convolutions(
        [DynamicConv() for _ in range(DEPTH)], f"linear.kernels(h, heads * {KERNEL}, bias=False)"
    )


class AFT(nn.Module):
    """An attention-free layer (AFT-simple): x + W sigmoid(q) * sum of exp(k_j) v_j / sum of exp(k_j), j <= i."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        seen = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        weights = self.key(h)[:, None].masked_fill(~seen[..., None], -torch.inf).softmax(2)
        return x + self.output(self.query(h).sigmoid() * torch.einsum("bijc,bjc->bic", weights, self.value(h)))


@case("torch-aft-simple", "torch", "softmax over the past, channel by channel", note="AFT-simple, written by hand")
def aft_simple() -> Pair:
    text = """
words:
  average(k, v): |
    m = running_max(k)
    decay = shift(m, 1) - m
    y = scan(exp(k - m) * v, decay) / scan(exp(k - m), decay)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  h = layernorm.norm(x)
  y = sigmoid(linear.query(h, width)) * average(linear.key(h, width), linear.value(h, width))
  x = x + linear.output(y, width)
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for part in ("norm", *QKV, "output"):
            yield f"{name}.{part}", theirs(part)

    return Pair(Around([AFT() for _ in range(DEPTH)], alone, norm=True), text, around(layer))


class Fourier(nn.Module):
    """A layer of FNet: x = norm(x + Re FFT x); x = norm(x + MLP x)."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.fed = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def mix(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(x, dim=(1, 2)).real

    def forward(self, x: Tensor) -> Tensor:
        x = self.mixed(x + self.mix(x))
        return self.fed(x + self.down(F.gelu(self.up(x))))


class Attended(Fourier):
    """The same with attention in place of the transform, as FNet's hybrids have it in their last layers."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def mix(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@case("torch-fnet-hybrid", "torch", "fft2, MultiheadAttention in the last layer", note="FNet's hybrid, written by hand")
def fnet_hybrid() -> Pair:
    text = """
causal: false
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = layernorm.mixed(x + (attention(x) if layer == depth else fourier(x)))
  x = layernorm.fed(x + mlp(x))
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for ours, part in (("mixed", "mixed"), ("fed", "fed"), ("mlp.up", "up"), ("mlp.down", "down")):
            yield f"{name}.{ours}", theirs(part)
        if theirs.has("attention"):
            own = theirs("attention")
            joined = {"weight": own["in_proj_weight"], "bias": own["in_proj_bias"]}
            yield from together(f"{name}.attention", QKV, thirds(joined))
            yield f"{name}.attention.output", own("out_proj")

    blocks = [*(Fourier() for _ in range(DEPTH - 1)), Attended()]
    return Pair(Around(blocks, alone, norm=True), text, around(layer), decodes=False)


class Transform(nn.Module):
    """The real part of the Fourier transform over positions and channels, as a mixer of tokens."""

    def __init__(self, **options: object) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft2(x, dim=(1, 2)).real


@case(
    "timm-metaformer",
    "timm",
    "metaformer.MetaFormerBlock(token_mixer=..., res_scale_init_value=1.0)",
    note="its mixer of tokens is the real part of PyTorch's fft2",
)
def metaformer() -> Pair:
    """The transform of a norm, beside a skip that is weighed channel by channel; the MLP has StarReLU."""
    with absent("torchvision"):
        from timm.models.metaformer import MetaFormerBlock
    text = """
causal: false
words:
  star(x): y = scalar.scale(1) * relu(x) ** 2 + scalar.bias(0)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = vector.first_skip(1) * x + fourier(layernorm.first(x))
  h = linear.up(layernorm.second(x), 4 * width, bias=False)
  x = vector.second_skip(1) * x + linear.down(star.act(h), width, bias=False)
after: x = norm(x)
"""

    def layer(name: str, theirs: Theirs) -> Weights:
        for ours, n in (("first", 1), ("second", 2)):
            yield f"{name}.{ours}", theirs(f"norm{n}")
            yield f"{name}.{ours}_skip.weight", theirs(f"res_scale{n}")["scale"]
        yield f"{name}.up", theirs("mlp.fc1")
        yield f"{name}.down", theirs("mlp.fc2")
        yield f"{name}.act.scale.weight", theirs("mlp.act")["scale"]
        yield f"{name}.act.bias.weight", theirs("mlp.act")["bias"]

    options = {"token_mixer": Transform, "norm_layer": nn.LayerNorm, "use_nchw": False, "res_scale_init_value": 1.0}
    blocks = [MetaFormerBlock(WIDTH, **options) for _ in range(DEPTH)]
    return Pair(Around(blocks, alone, norm=True), text, around(layer), decodes=False)
