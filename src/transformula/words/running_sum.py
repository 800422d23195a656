"""The sum and the maximum of all positions so far: `running_sum`, `running_max`."""

from typing import Any

import torch
from torch import Tensor

from .cpu import tracing
from .word import At, Word, word


def last_real(y: Tensor, before: Tensor, at: At | None) -> Tensor:
    """y at the last real position of each row, (batch, x); `before` where a row has none."""
    if at is None or at.new is None:
        return y[:, -1]
    new = at.new[:, None]
    last = y.gather(1, (new - 1).clamp(min=0)[..., None].expand(-1, -1, y.shape[2]))[:, 0]
    return torch.where(new > 0, last, before)


@word(
    "running_sum",
    streams=("x",),
    kind="positions",
    reach="past",
    state="x / length",
    example="v = mlp(norm(x)); x = x + running_sum(v) / running_sum(ones(v))",
    equation="y_i = sum of x_j over j <= i",
)
class RunningSum(Word):
    """y_i = the sum of x_j over j <= i, channel by channel, in any stack: (batch, length, x) to the same; no
    parameters. Summed in float32 at least. The mean of what came so far is running_sum(x) / running_sum(ones(x)).
    """

    sums = True

    def __init__(self, x: int, causal: bool = True) -> None:
        super().__init__()
        self.state_sizes = {"sum": (x,)}

    def forward(self, x: Tensor, *, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk; `state` becomes the sum up to the last real position."""
        y = x.cumsum(1, dtype=torch.promote_types(x.dtype, torch.float32))
        if state is not None:
            y = y + state["sum"][:, None]
            state["sum"] = last_real(y, state["sum"], at)
        return y.to(x.dtype)

    step = forward


@word(
    "running_max",
    like="running_sum",
    state="(x + 1) / length",
    saved="3 * x",
    example="x = x + linear(running_max(mlp(norm(x))), width)",
    equation="y_i = max of x_j over j <= i",
)
class RunningMax(Word):
    """y_i = the largest x_j over j <= i, channel by channel, in any stack: (batch, length, x) to the same; no
    parameters. The gradient goes to the position that is the largest, of equal ones to the last. A sum of exponentials
    is kept from overflowing by it: exp(x - running_max(x)).
    """

    def __init__(self, x: int, causal: bool = True) -> None:
        super().__init__()
        self.state_sizes = {"max": (x,), "seen": (1,)}

    def forward(self, x: Tensor, *, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk; `state` becomes the maximum up to the last real position."""
        y = by_steps(x) if tracing() else x.cummax(1).values
        if state is not None:
            # the state starts as zeros, which are no maximum before a position was seen
            before = state["max"].masked_fill(state["seen"] == 0, -torch.inf)
            y = torch.maximum(y, before[:, None])
            state["max"], state["seen"] = last_real(y, state["max"], at), seen_after(state["seen"], at)
        return y

    step = forward


def seen_after(seen: Tensor, at: At | None) -> Tensor:
    """1 for each row that had a real position, (batch, 1)."""
    if at is None or at.new is None:
        return torch.ones_like(seen)
    return torch.maximum(seen, (at.new > 0)[:, None].to(seen.dtype))


def by_steps(x: Tensor) -> Tensor:
    """The running maximum by operations that every format of an exported model has: of all earlier positions."""
    steps = torch.arange(x.shape[1], device=x.device)
    later = steps[:, None] < steps
    return x[:, None].masked_fill(later[..., None], -torch.inf).amax(2)
