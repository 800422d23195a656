"""The sum of all positions so far: `running_sum`."""

from typing import Any

import torch
from torch import Tensor

from .word import At, Word, word


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
            if at is None or at.new is None:
                state["sum"] = y[:, -1]
            else:
                new = at.new[:, None]
                last = y.gather(1, (new - 1).clamp(min=0)[..., None].expand(-1, -1, y.shape[2]))[:, 0]
                state["sum"] = torch.where(new > 0, last, state["sum"])
        return y.to(x.dtype)

    step = forward
