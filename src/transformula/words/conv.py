"""Looking at a fixed number of positions: `shift`, `conv` and `dynamic_conv`."""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError
from .word import At, Word, at_all_positions, choice, empty, flag, split, spread, whole, word


@word(
    "shift",
    streams=("x",),
    numbers=("n",),
    kind="positions",
    reach="past",
    back="max(n, -n)",
    ahead="n < 0",
    order="'recurrent'",
    padding=True,
    options={"n": whole("number of positions to shift by; below 0: towards the start", 1)},
    checks={"n != 0": "a shift by 0 positions does nothing; give a number above 0, or below"},
    state="max(n, 0) * x / length",
    example="x = x + mlp(norm(shift(x)))",
    equation="y_i = x_(i - n), 0 before the start and behind the end",
    source="token shift of RWKV, 2305.13048",
)
class Shift(Word):
    """y_i = x_(i - n), and 0 for the first n positions: what stood n places back; same shape as x.

    Looks back in a stack that sees all, too. A number below 0 looks ahead, which a causal stack refuses: shift(x, -1)
    is the next position, 0 at the last real one. Decoding keeps the last n positions.
    """

    def __init__(self, x: int, n: int, causal: bool) -> None:
        super().__init__()
        self.x, self.n = x, n
        self.state_sizes = {"last": (max(n, 0), x)}

    def after_last(self, x: Tensor, state: Any, at: At) -> Tensor:
        """The chunk behind the n positions that stood before it; the state keeps the last n real ones."""
        both = torch.cat((state["last"], x), 1)
        if at.new is None:
            state["last"] = both[:, x.shape[1] :]
        else:
            kept = at.new[:, None] + torch.arange(self.n, device=x.device)
            state["last"] = both.gather(1, kept[..., None].expand(-1, -1, self.x))
        return both

    def forward(self, x: Tensor, *, real: Tensor | None = None, state: Any = None, at: At | None = None) -> Tensor:
        if self.n < 0:
            x = x if real is None else x.masked_fill(~real[..., None], 0)
            return F.pad(x, (0, 0, 0, -self.n))[:, -self.n :]
        both = F.pad(x, (0, 0, self.n, 0)) if at is None else self.after_last(x, state, at)
        return both[:, : x.shape[1]]

    step = forward


@word(
    "conv",
    streams=("x",),
    numbers=("length", "size"),
    kind="positions",
    width="size",
    sequence="'own' if stride > 1 or padding == 'valid' else 'first'",
    reach="past",
    back="length - 1",
    order="'recurrent'",
    centered=True,
    real="strided",
    strided=("length - 1 if padding == 'valid' else 0", "stride"),
    padding=True,
    options={
        "length": whole("kernel size, in positions", minimum=1, shapes=True),
        "size": whole("width of the result", "x", minimum=1, shapes=True),
        "depthwise": flag("depthwise convolution: each channel by itself", shapes=True),
        "stride": whole("stride; above 1 the result is a sequence of its own", 1, minimum=1),
        "bias": flag("whether there is a bias b", True, shapes=True),
        "groups": whole(
            "groups of channels, each convolved by itself; depthwise: as many as channels", 1, minimum=1, shapes=True,
            later=True,
        ),
        "padding": choice(
            "zeros around the sequence, so that the result is as long: same, or same_lower, where of an odd number the "
            "additional one stands before; or none, and a shorter sequence: valid",
            ["same", "same_lower", "valid"],
            later=True,
        ),
    },
    parameters={"weight": "length * size * (1 if depthwise else x // groups)", "bias": "size if bias else 0"},
    checks={
        "not depthwise or size == x": "depthwise keeps the width: size {size} is not {x}",
        "not depthwise or groups == 1": "depthwise has a group for each channel: give it or groups=, not both",
        "x % groups == 0 and size % groups == 0": "the widths {x} and {size} do not divide into {groups} groups",
    },
    flops="2 * length * size * (1 if depthwise else x / groups) * "
    "(max(positions - length + 1, 0) / positions if padding == 'valid' else 1) / stride",
    state="(length - 1) * x / positions if stride == 1 and padding != 'valid' else 0",
    saved="x",
    example="x = x + linear(gelu(conv(norm(x), 4, depthwise=True)), width)",
    equation="y_i = sum over k of W_k x_(i - k) + b, k from 0 to length - 1; centered where the stack sees all",
    source="LeCun et al. 1989; depthwise and causal: Wu et al., 1901.10430",
)
class Conv(Shift):
    """y_i = sum over k = 0 ... length - 1 of W_k x_(stride i + ahead - k) + b, with x 0 outside its real positions.

    ahead is 0 in a causal stack, so that a position sees itself and length - 1 before it; elsewhere length // 2:
    centered, for an even length one more position ahead than behind. x (batch, positions, x), y (batch,
    ceil(positions / stride), size). `groups=n`: W_k has n blocks on its diagonal; `depthwise=True`: W_k is diagonal.

    `padding="same_lower"`: ahead is (length - 1) // 2, so that for an even length one more position is behind (wav2vec
    2.0); a causal stack refuses it.

    `padding="valid"`: ahead is length - 1, and there is no y_i that would reach beyond the sequence: y (batch,
    floor((positions - length) / stride) + 1, size), as in the feature encoder of Wav2Vec2. A y_i is real if all that
    it sees is.

    weight (size, x / groups, length), depthwise (x, 1, length), from N(0, 1 / (3 fan_in)), fan_in = length * x /
    groups, or length; W_k is weight[:, :, length - 1 - k], the order of PyTorch's Conv1d. bias (size,), 0.

    Decoding keeps the last length - 1 inputs. A stride above 1 or no padding makes a shorter sequence of its own, which
    cannot be decoded step by step: InputError; so is a sequence shorter than the kernel without padding.
    """

    def __init__(
        self, x: int, length: int, size: int, depthwise: bool, stride: int, bias: bool, causal: bool, groups: int,
        padding: str,
    ) -> None:  # fmt: skip
        super().__init__(x, length - 1, causal)
        if causal and padding == "same_lower":
            raise InputError("in a causal stack conv looks back only: padding='same_lower' means nothing; leave it out")
        self.length, self.stride, self.causal, self.padded = length, stride, causal, padding != "valid"
        self.ahead = 0 if causal else length // 2 if padding == "same" else (length - 1) // 2
        self.groups = x if depthwise else groups
        self.weight = empty(size, x // self.groups, length)
        self.bias = empty(size) if bias else None
        self.constants, self.deviations = {"bias": 0}, {"weight": spread(self.weight[0].numel())}

    def forward(self, x: Tensor, *, real: Tensor | None = None, state: Any = None, at: At | None = None) -> Tensor:
        if real is not None:
            x = x.masked_fill(~real[..., None], 0)
        if at is not None:
            both = self.after_last(x, state, at)
        elif self.padded:
            both = F.pad(x, (0, 0, self.n - self.ahead, self.ahead))
        elif x.shape[1] >= self.length:
            both = x
        else:
            raise InputError(
                f"conv(padding='valid') of length {self.length} needs at least as many positions; this sequence has "
                f"{x.shape[1]}: give a longer one, or padding='same'"
            )
        y = F.conv1d(both.transpose(1, 2), self.weight, self.bias, self.stride, groups=self.groups)
        return y.transpose(1, 2)

    step = forward

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        if self.stride > 1 or not self.padded:
            written = f"stride={self.stride}" if self.padded else "padding='valid'"
            raise InputError(
                f"conv({written}) makes a shorter sequence of its own, which cannot be decoded step by step; give it "
                "to another stack as its memory, or run the whole sequence each time"
            )
        return super().start(batch, capacity, dtype, device)


@word(
    "dynamic_conv",
    streams=("x", "w"),
    numbers=("length",),
    kind="positions",
    width="x",
    reach="past",
    back="length - 1",
    order="'recurrent'",
    centered=True,
    together=True,
    coefficients=("w",),
    padding=True,
    options={
        "length": whole("kernel size, in positions", minimum=1),
        "heads": whole("heads of x, each with a kernel of its own", "heads", minimum=1, absent=1),
    },
    checks={
        "x % heads == 0": "the width {x} does not divide into {heads} heads",
        "w == heads * length": "kernels of the width {w} are not {heads} heads times the length {length}",
    },
    state="(length - 1) * x / positions",
    saved="x + w",
    example="h = norm(x); w = softmax(linear.kernel(h, 7 * heads), size=7)\n"
    "x = x + linear(dynamic_conv(h, w, 7), width)",
    equation="y_i = sum over k of w_ik x_(i - k), k from 0 to length - 1; centered where the stack sees all",
    source="dynamic and lightweight convolutions: Wu et al., 1901.10430",
)
class DynamicConv(Shift):
    """y_i = the sum over k of w_ik x_(i - k), k from 0 to length - 1: a convolution whose kernels the formula makes,
    one for each head at each position. In a stack that sees all, k goes from -ahead, ahead = length // 2.

    x (batch, length, x), w (batch, length, heads * kernel size) to (batch, length, x). The kernel of a head is one
    slice of w, its oldest position first, as in `conv`; all channels of the head share it. A softmax over each kernel
    is `softmax(w, size=7)`. Kernels that are a coefficient (`vector`) are the same at every position: a lightweight
    convolution. No parameters. Decoding keeps the last length - 1 positions of x.
    """

    def __init__(self, x: int, w: int, length: int, heads: int, causal: bool) -> None:
        super().__init__(x, length - 1, causal)
        self.length, self.heads = length, heads
        self.ahead = 0 if causal else length // 2

    def forward(  # type: ignore[override]
        self, x: Tensor, w: Tensor, *, real: Tensor | None = None, state: Any = None, at: At | None = None
    ) -> Tensor:
        if w.dim() > 1:  # else a coefficient
            x, w = at_all_positions(x, w)
        if real is not None:
            x = x.masked_fill(~real[..., None], 0)
        both = F.pad(x, (0, 0, self.n - self.ahead, self.ahead)) if at is None else self.after_last(x, state, at)
        both, kernels = split(both, self.heads, -1), split(w, self.heads, self.length, 1)
        terms = (both[:, k : k + x.shape[1]] * kernels[..., k, :] for k in range(self.length))
        return functools.reduce(torch.add, terms).flatten(2)

    step = forward  # type: ignore[assignment]
