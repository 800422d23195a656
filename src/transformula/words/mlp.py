"""The feed-forward sublayer: `mlp`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .word import Word, choice, flag, matrix, whole, word

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "relu": F.relu,
    "silu": F.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),  # CLIP's
}


@word(
    "mlp",
    streams=("x",),
    kind="channels",
    options={
        "hidden": whole("hidden width; default: 4 times the input's, gated or not", "4 * x", minimum=1, shapes=True),
        "activation": choice("activation function", ["gelu", "gelu_tanh", "relu", "silu", "quick_gelu"]),
        "gated": flag("gated linear unit: a second matrix gates the hidden layer", shapes=True),
        "bias": flag("whether the matrices have biases", True, shapes=True),
    },
    parameters={
        "gate.weight": "hidden * x if gated else 0",
        "gate.bias": "hidden if gated and bias else 0",
        "up.weight": "hidden * x",
        "up.bias": "hidden if bias else 0",
        "down.weight": "hidden * x",
        "down.bias": "x if bias else 0",
    },
    splits={"gate": "columns", "up": "columns", "down": "rows"},
    split_by=("hidden",),
    flops="2 * x * hidden * (3 if gated else 2)",
    saved="x + hidden * (4 if gated else 2)",
    example='x = x + mlp(norm(x), hidden=512, gated=True, activation="silu")',
    equation="y = W_down f(W_up x + b) + b', gated: y = W_down (f(W_gate x) * W_up x)",
    source="Vaswani et al. 2017; gated: Shazeer, 2002.05202",
)
class MLP(Word):
    """y = down(f(up(x))); gated: y = down(f(gate(x)) * up(x)). x and y are (batch, length, x).

    up.weight (hidden, x), down.weight (x, hidden), gate.weight (hidden, x), all from N(0, 1 / (3 fan_in)); biases 0.
    `hidden` is 4 x unless given, with a gate too: a gated one of the size of an ungated one has hidden = 8 x / 3.
    """

    matrices = ("gate", "up", "down")

    def __init__(self, x: int, hidden: int, activation: str = "gelu", gated: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.gate = matrix(x, hidden, bias) if gated else None
        self.up = matrix(x, hidden, bias)
        self.down = matrix(hidden, x, bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        activate = ACTIVATIONS[self.activation]
        own: dict[str, Any] = self._modules  # PyTorch's look-up by attribute is slower: it shows at length 1
        h = activate(own["up"](x)) if self.gate is None else activate(self.gate(x)) * own["up"](x)
        return own["down"](h)  # type: ignore[no-any-return]
