"""A mixture of MLPs of which each position uses a few: `experts`."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import cpu
from .mlp import ACTIVATIONS
from .word import GeneratorFor, Word, choice, empty, fill, fill_normal, flag, matrix, number, spread, whole, word


@word(
    "experts",
    streams=("x",),
    kind="channels",
    padding=True,
    options={
        "n": whole("number of experts", minimum=1, shapes=True),
        "active": whole("number of experts that each position uses", "min(2, n)", minimum=1),
        "hidden": whole("hidden width of an expert", "4 * x", minimum=1, shapes=True),
        "shared": whole("number of shared experts, which every position uses", 0, minimum=0, shapes=True),
        "gated": flag("gated linear unit: a second matrix gates the hidden layer", shapes=True),
        "activation": choice("activation function", ["gelu", "gelu_tanh", "relu", "silu", "quick_gelu"]),
        "bias": flag("whether the experts have biases", True, shapes=True),
        "renormalise": flag(
            "whether the active experts' weights sum to 1 (Mixtral) or are shares of all (Switch, DeepSeek)", True
        ),
        "balance": number("weight of the load-balancing loss in training; 0: none", 0.01, minimum=0),
    },
    parameters={
        "router.weight": "n * x",
        "gate.weight": "n * hidden * x if gated else 0",
        "gate.bias": "n * hidden if gated and bias else 0",
        "up.weight": "n * hidden * x",
        "up.bias": "n * hidden if bias else 0",
        "down.weight": "n * hidden * x",
        "down.bias": "n * x if bias else 0",
        "shared.gate.weight": "shared * hidden * x if gated else 0",
        "shared.gate.bias": "shared * hidden if gated and bias else 0",
        "shared.up.weight": "shared * hidden * x",
        "shared.up.bias": "shared * hidden if bias else 0",
        "shared.down.weight": "shared * hidden * x",
        "shared.down.bias": "x if bias and shared else 0",
    },
    active={
        "gate.weight": "active * hidden * x if gated else 0",
        "gate.bias": "active * hidden if gated and bias else 0",
        "up.weight": "active * hidden * x",
        "up.bias": "active * hidden if bias else 0",
        "down.weight": "active * hidden * x",
        "down.bias": "active * x if bias else 0",
    },
    checks={
        "active <= n": "{active} active experts of {n}",
        "active > 1 or n == 1 or not renormalise": "with one active expert its weight, made to sum to 1, is always 1, "
        "and the router learns nothing from the task: give renormalise=False",
    },
    flops="2 * n * x + 2 * active * x + 2 * x * hidden * (active + shared) * (3 if gated else 2)",
    saved="x + n + active * 2 * x + (active + shared) * hidden * (4 if gated else 2)",
    example="x = x + experts(norm(x), n=8, active=2, hidden=128)",
    equation="y = sum over the active experts e of w_e mlp_e(x) + sum over the shared ones s of mlp_s(x), w = softmax "
    "of (router x)_e over the active ones",
    source="Shazeer et al., 1701.06538; Switch, 2101.03961; Mixtral, 2401.04088; shared: DeepSeekMoE, 2401.06066",
)
class Experts(Word):
    """y = sum over the active experts e of w_e mlp_e(x) + sum over the shared experts s of mlp_s(x).

    x and y are (batch, length, x); mlp_e is `mlp`'s equation with weights of its own. Each position chooses the
    `active` experts with the largest r = router.weight x. Their weights:

        renormalise        w = softmax of r over the chosen: they sum to 1, and equal the chosen ones' shares of the
                           softmax over all, divided by their sum (Mixtral, Qwen3)
        not renormalise    w = the chosen ones' shares of the softmax over all n, which sum to less than 1 (Switch,
                           DeepSeekMoE, OLMoE); with one active expert only so does the router learn from the task

    The softmax is in float32 at least. No position is dropped, however many choose one expert (departing from Switch,
    whose experts have a capacity), and no noise is added to r (departing from Shazeer et al.).

    Named loss, in training: `balance`, to be added to the task's,

        balance * n * sum over e of f_e p_e

    where f_e is the share of all choices that fell on expert e, and p_e the mean over the real positions of the softmax
    over all n. It is `balance` where the load is even, up to n times that where all choose the same. (Switch, equation
    4, for any number of active experts; `transformers` divides by the positions and not by the choices, and so has
    `active` times as much.) A module that is called several times in a pass tells that of its last call.

    Parameters: router.weight (n, x); up.weight and gate.weight (n, hidden, x), down.weight (n, x, hidden), their biases
    in one row each, expert after expert; shared.up.weight (shared hidden, x), ...: the shared experts' sum is one mlp
    of their widths together. Matrices from N(0, 1 / (3 fan_in)), a fan_in of one expert; biases 0.

    Cost: rows are sorted by expert, and each expert multiplies its own: a position pays for `active + shared` experts,
    in decoding too. Traced code (torch.compile, torch.export) must have shapes that no data decide: there every
    expert sees every position, n / active times the products.
    """

    def __init__(
        self,
        x: int,
        n: int,
        active: int,
        hidden: int,
        shared: int,
        gated: bool,
        activation: str,
        bias: bool,
        renormalise: bool,
        balance: float,
    ) -> None:
        super().__init__()
        self.router = matrix(x, n, False)
        self.gate = Matrices(n, x, hidden, bias) if gated else None
        self.up = Matrices(n, x, hidden, bias)
        self.down = Matrices(n, hidden, x, bias)
        self.shared = SharedExperts(x, shared * hidden, gated, bias) if shared else None
        self.n, self.active, self.hidden, self.balance = n, active, hidden, balance
        self.activation, self.renormalise = activation, renormalise
        self._balance: Tensor | None = None

    def initial_values(self, generator_for: GeneratorFor) -> None:
        for name, part in self.named_modules():
            if isinstance(part, (nn.Linear, Matrices)):
                # the sum of several shared experts is larger than one
                fan_in = self.hidden if name == "shared.down" else part.weight.shape[-1]
                fill_normal(part.weight, generator_for(f"{name}.weight"), spread(fan_in))
                fill(part.bias, 0)

    def losses(self) -> dict[str, Tensor]:
        """{"balance": what the last pass in training adds to the loss}; empty before one, and with `balance=0`."""
        return {} if self._balance is None else {"balance": self._balance}

    def __getstate__(self) -> dict[str, Any]:
        # what a pass has left belongs to its graph: it is neither copied nor pickled
        return {**self.__dict__, "_balance": None}

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        chosen, weights, shares = self.route(flat)
        if self.training and self.balance:
            self._balance = self._uneven(chosen, shares, None if real is None else real.reshape(-1))
        y = (self._everywhere if cpu.tracing() or x.is_meta else self._sorted)(flat, chosen, weights)
        if self.shared is not None:
            y = y + self.shared(flat, ACTIVATIONS[self.activation])
        return y.reshape(x.shape)

    def route(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(chosen (rows, active), their weights, the softmax over all (rows, n)) of rows (rows, x)."""
        logits = self.router(flat)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        best, chosen = logits.topk(self.active, -1)
        shares = torch.softmax(logits, -1)
        weights = torch.softmax(best, -1) if self.renormalise else shares.gather(-1, chosen)
        return chosen, weights, shares

    def _uneven(self, chosen: Tensor, shares: Tensor, real: Tensor | None) -> Tensor:
        """balance n sum_e f_e p_e, over the real rows."""
        hits = torch.zeros_like(shares).scatter_(-1, chosen, 1.0)
        if real is None:
            share, mean = hits.mean(0) / self.active, shares.mean(0)
        else:
            counted = real.to(shares.dtype)
            rows = counted.sum().clamp(min=1)
            share, mean = counted @ hits / (rows * self.active), counted @ shares / rows
        return self.balance * self.n * (share * mean).sum()

    def _sorted(self, flat: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """The active experts' weighted sum: rows in order of their expert, each expert over its own."""
        choices = chosen.flatten()
        order = choices.argsort(stable=True)
        counts = torch.bincount(choices, minlength=self.n).tolist()
        used = [e for e, count in enumerate(counts) if count]
        rows = torch.split(flat.index_select(0, order // self.active), [counts[e] for e in used])
        up, down = self.up.of(used), self.down.of(used)
        gate = None if self.gate is None else self.gate.of(used)
        activate = ACTIVATIONS[self.activation]
        results = []
        for place, x in enumerate(rows):
            h = F.linear(x, *up[place])
            h = activate(h) if gate is None else activate(F.linear(x, *gate[place])) * h
            results.append(F.linear(h, *down[place]))
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)
        if not results:
            return torch.zeros_like(flat)
        y = torch.cat(results).index_select(0, back).view(*chosen.shape, -1)
        # a product of its own for each row: y (rows, active, x)
        return torch.bmm(weights.to(y.dtype)[:, None], y)[:, 0]

    def _everywhere(self, flat: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """The same sum with every expert over every row, most with weight 0: two products, whose shapes are fixed."""
        spreads = torch.zeros(flat.shape[0], self.n, dtype=weights.dtype, device=flat.device)
        spreads = spreads.scatter(-1, chosen, weights)
        activate = ACTIVATIONS[self.activation]
        h = F.linear(flat, self.up.weight.flatten(0, 1), self.up.bias)
        gate = self.gate
        h = activate(h) if gate is None else activate(F.linear(flat, gate.weight.flatten(0, 1), gate.bias)) * h
        spreads = spreads.to(h.dtype)
        h = h.view(flat.shape[0], self.n, self.hidden) * spreads[..., None]
        # sum over e of down_e h_e
        y: Tensor = h.flatten(1) @ self.down.weight.transpose(1, 2).flatten(0, 1).to(h.dtype)
        if self.down.bias is not None:
            y = y + spreads @ self.down.bias.view(self.n, -1).to(h.dtype)
        return y


class Matrices(nn.Module):
    """n matrices with their biases: weight (n, size, x), bias (n size,) or None.

    fans  (fan in, fan out) of one, for the `init` hook
    """

    def __init__(self, n: int, x: int, size: int, bias: bool) -> None:
        super().__init__()
        self.fans = (x, size)
        self.weight = empty(n, size, x)
        # one row, as biases are to initial values and optimizers
        self.bias = empty(n * size) if bias else None

    def of(self, used: list[int]) -> list[tuple[Tensor, Tensor | None]]:
        """(matrix, bias) of each of these experts: views."""
        n = self.weight.shape[0]
        bias = None if self.bias is None else self.bias.view(n, -1)
        if torch.is_grad_enabled():
            # all at once: the backward pass of one index would make the whole table's gradient, for each expert
            matrices = self.weight.unbind()
            biases: Sequence[Tensor | None] = [None] * n if bias is None else bias.unbind()
            return [(matrices[e], biases[e]) for e in used]
        return [(self.weight[e], None if bias is None else bias[e]) for e in used]

    def extra_repr(self) -> str:
        n, size, x = self.weight.shape
        return f"n={n}, {x}, {size}, bias={self.bias is not None}"


class SharedExperts(nn.Module):
    """The experts that all positions use, side by side: one mlp whose hidden width is all of theirs."""

    def __init__(self, x: int, hidden: int, gated: bool, bias: bool) -> None:
        super().__init__()
        self.gate = matrix(x, hidden, bias) if gated else None
        self.up = matrix(x, hidden, bias)
        self.down = matrix(hidden, x, bias)

    def forward(self, x: Tensor, activate: Callable[[Tensor], Tensor]) -> Tensor:
        h = self.up(x)
        h = activate(h) if self.gate is None else activate(self.gate(x)) * h
        return self.down(h)  # type: ignore[no-any-return]
