"""A mixture of MLPs of which each position uses a few: `experts`."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import cpu, grouped
from .devices import add_up, is_split, own_part, replicate
from .expert_products import Gating, Mixture, Product, can_group, mix_grouped, mix_routed
from .mlp import ACTIVATIONS
from .recompute import recomputing
from .word import GeneratorFor, Word, choice, empty, fill, fill_normal, flag, matrix, number, spread, whole, word


@word(
    "experts",
    streams=(("x",), ("x", "weights")),
    kind="channels",
    width="x",
    chooses=("weights",),
    padding=True,
    options={
        "n": whole("number of experts", minimum=1, shapes=True),
        "active": whole("number of experts that each position uses", "n if weights else min(2, n)", minimum=1),
        "hidden": whole("hidden width of an expert", "4 * x", minimum=1, shapes=True),
        "shared": whole("number of shared experts, which every position uses", 0, minimum=0, shapes=True),
        "gated": flag("gated linear unit: a second matrix gates the hidden layer", shapes=True),
        "activation": choice("activation function", ["gelu", "gelu_tanh", "relu", "silu", "quick_gelu"]),
        "bias": flag("whether the experts have biases", True, shapes=True),
        "renormalise": flag(
            "whether the active experts' weights sum to 1 (Mixtral) or are shares of all (Switch, DeepSeek)", True
        ),
        "scoring": choice("what makes shares of the router's scores", ["softmax", "sigmoid"], later=True),
        "scale": number("factor on the weights of the chosen experts", 1, later=True),
        "router_bias": flag("whether the router has a bias", shapes=True, later=True),
        "selection_bias": flag(
            "a bias for each expert that counts in choosing alone: no gradient changes it, the load does", shapes=True,
            later=True,
        ),
        "bias_rate": number(
            "by how much a step of training changes the selection bias", "0.001 if selection_bias else 0", minimum=0,
            later=True,
        ),
        "balance": number(
            "weight of the load-balancing loss in training; 0: none", "0 if selection_bias else 0.01", minimum=0
        ),
        "groups": whole("groups of experts, of which each position uses a few", 1, minimum=1, later=True),
        "active_groups": whole(
            "number of groups that each position uses", "max(1, groups // 2)", minimum=1, later=True
        ),
        "group_top": whole(
            "how many of a group's best shares add up to the group's", "min(2, n // groups)", minimum=1, later=True
        ),
        "weigh_input": flag("the weights are factors of the experts' input, not of their output", later=True),
        "limit": number(
            "the gate's products are at most this, the others at most this in size; 0: no limit", 0, minimum=0,
            later=True,
        ),
        "shift": number("added to what the gate multiplies", 0, later=True),
    },
    parameters={
        "router.weight": "0 if weights else n * x",
        "router.bias": "n if router_bias else 0",
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
    splits={
        "router": "whole",
        "gate.weight": "columns",
        "up.weight": "columns",
        "down.weight": "rows",
        "shared.gate": "columns",
        "shared.up": "columns",
        "shared.down": "rows",
    },
    split_by=("hidden",),
    checks={
        "weights == 0 or weights == n": "weights= has {weights} channels for {n} experts: give linear(x, {n}), say",
        "not weights or (scoring == 'softmax' and renormalise and scale == 1)": "with weights= the formula makes the "
        "weights: say there what scoring, renormalise and scale would",
        "not weights or not (router_bias or selection_bias or groups > 1)": "with weights= the formula is the router: "
        "say there what router_bias, selection_bias and groups would",
        "active <= n": "{active} active experts of {n}",
        "active > 1 or n == 1 or not renormalise or weights": "with one active expert its weight, made to sum to 1, is "
        "always 1, and the router learns nothing from the task: give renormalise=False",
        "bias_rate == 0 or selection_bias": "bias_rate changes a selection bias: give selection_bias=True",
        "n % groups == 0": "{n} experts do not divide into {groups} groups",
        "groups > 1 or active_groups == 1": "active_groups means nothing without groups",
        "groups > 1 or group_top == min(2, n)": "group_top means nothing without groups",
        "active_groups <= groups": "{active_groups} active groups of {groups}",
        "active * groups <= active_groups * n": "{active} active experts of {active_groups} groups of {n} / {groups}",
        "group_top * groups <= n": "the best {group_top} experts of groups of {n} / {groups}",
        "gated or limit == 0": "limit bounds the gate's products: give gated=True",
        "gated or shift == 0": "shift is added to what the gate multiplies: give gated=True",
    },
    flops="(0 if weights else 2 * n * x) + 2 * x * hidden * (active + shared) * (3 if gated else 2)",
    saved="x + n + active * 2 * x + (active + shared) * hidden * (4 if gated else 2)",
    example="x = x + experts(norm(x), n=8, active=2, hidden=128)",
    equation="y = sum over the active experts e of w_e mlp_e(x) + sum over the shared ones s of mlp_s(x), w = softmax "
    "of (router x)_e over the active ones",
    source="Shazeer et al., 1701.06538; Switch, 2101.03961; Mixtral, 2401.04088; shared: DeepSeekMoE, 2401.06066; "
    "sigmoid and groups: DeepSeek-V3, 2412.19437; selection bias: Wang et al., 2408.15664; limit and shift: gpt-oss, "
    "2508.10925",
)
class Experts(Word):
    """y = sum over the active experts e of w_e mlp_e(x) + sum over the shared experts s of mlp_s(x).

    x and y are (batch, length, x); mlp_e is `mlp`'s equation with weights of its own. Of r = router x each position
    makes shares of all experts, and chooses the `active` experts with the largest:

        scoring="softmax"  s = softmax of r over all n
        scoring="sigmoid"  s = sigmoid(r), each by itself (DeepSeek-V3, Llama 4)
        renormalise        w = scale s / (sum of s over the chosen) (Mixtral, Qwen3, DeepSeek-V3)
        not renormalise    w = scale s (Switch, DeepSeekMoE, OLMoE, Llama 4); with one active expert only so does the
                           router learn from the task
        selection_bias     the chosen are those with the largest s + b; w is made of s as before
        groups             the experts stand in groups of n / groups; a position chooses among those of the
                           `active_groups` groups with the largest sums of their `group_top` best s + b (DeepSeek-V3: 2,
                           DeepSeek-V2: 1)
        weigh_input        mlp_e(w_e x) in the place of w_e mlp_e(x) (Llama 4)
        limit, shift       with g = gate x and u = up x the hidden layer is f(min(g, limit)) (u' + shift), where u' is u
                           held between -limit and limit (gpt-oss: f = quick_gelu, limit 7, shift 1)

    A formula can be the router instead: `experts(x, n=n, weights=w)` with a stream w of n channels,

        y = sum over the active experts e of w_e mlp_e(x) + sum over the shared experts s of mlp_s(x),

    where the active experts are those of the `active` channels of w that are largest in size, by default all n, and not
    those whose channel is 0: `topk` makes such a w. An expert that is not active is not computed and has no gradient,
    and its w_e has none. Then there is no router here.

    Scores and shares are in float32 at least. No position is dropped, however many choose one expert (departing from
    Switch, whose experts have a capacity), and no noise is added to r (departing from Shazeer et al.).

    The selection bias b is a buffer (n,), saved with the parameters. No gradient and no optimizer changes it; after
    each step of training `after_step` does, by the number of real positions that each expert had since the last step:

        b_e <- b_e + bias_rate sign(mean load - load_e)

    Named loss, in training: `balance`, to be added to the task's,

        balance * n * sum over e of f_e p_e

    where f_e is the share of all choices that fell on expert e, and p_e the mean over the real positions of s_e divided
    by the sum of all s (with `weights`, of |w_e| divided by the sum of all |w|). It is `balance` where the load is
    even, up to n times that where all choose the same. (Switch, equation 4, for any number of active experts;
    `transformers` divides by the positions and not by the choices, and so has `active` times as much.) A module that is
    called several times in a pass tells that of its last call.

    Measured in training, over what was seen since the last step: `largest_load`, the largest load over the mean, and
    `idle`, the share of experts that no position chose.

    Parameters: router.weight (n, x), router.bias (n,), without `weights`; up.weight and gate.weight (n, hidden, x),
    down.weight (n, x, hidden), their biases in one row each, expert after expert; shared.up.weight (shared hidden, x),
    ...: the shared experts' sum is one mlp of their widths together. Matrices from N(0, 1 / (3 fan_in)), a fan_in of
    one expert; biases 0.

    Cost: rows are sorted by expert, and each expert multiplies its own: a position pays for `active + shared` experts,
    in decoding too. Traced code (torch.compile, torch.export) must have shapes that no data decide: there every
    expert sees every position, n / active times the products; on a GPU with bfloat16 one grouped product serves both.
    """

    choosing = ("router",)

    def __init__(
        self,
        x: int,
        n: int,
        hidden: int,
        shared: int,
        gated: bool,
        bias: bool,
        weights: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.router: Any = None if weights else matrix(x, n, options["router_bias"])
        self.gate = Matrices(n, x, hidden, bias) if gated else None
        self.up = Matrices(n, x, hidden, bias)
        self.down = Matrices(n, hidden, x, bias)
        self.shared = SharedExperts(x, shared * hidden, gated, bias) if shared else None
        self.n, self.hidden = n, hidden
        self.active: int = options["active"]
        self.balance: float = options["balance"]
        self.activation: str = options["activation"]
        self.options = options
        self.selection_bias: Tensor | None
        self.register_buffer("selection_bias", torch.empty(n) if options["selection_bias"] else None)
        self._balance: Tensor | None = None
        # of calls that share the module, too: what its name begins with a line and is a mapping is theirs in common
        self._load: dict[str, Tensor] = {}

    def initial_values(self, generator_for: GeneratorFor) -> None:
        fill(self.selection_bias, 0)
        for name, part in self.named_modules():
            if isinstance(part, (nn.Linear, Matrices)):
                # the sum of several shared experts is larger than one
                fan_in = self.hidden if name == "shared.down" else part.weight.shape[-1]
                fill_normal(part.weight, generator_for(f"{name}.weight"), spread(fan_in))
                fill(part.bias, 0)

    def losses(self) -> dict[str, Tensor]:
        """{"balance": what the last pass in training adds to the loss}; empty before one, and with `balance=0`."""
        return {} if self._balance is None else {"balance": self._balance}

    def measures(self) -> dict[str, Tensor]:
        """How even the load was since the last step of training: `largest_load` over the mean, 1 at best, and `idle`,
        the share of experts that had none; empty before a pass in training."""
        if not self._load:
            return {}
        load = self._load["choices"]
        mean = load.sum().clamp(min=1) / self.n
        return {"largest_load": load.max() / mean, "idle": (load == 0).to(mean.dtype).mean()}

    def counted(self) -> list[Tensor]:
        """What passes in training have counted since the last step: ranks that train together add it up in place."""
        if "choices" not in self._load:
            self._load["choices"] = torch.zeros(self.n, device=self.up.weight.device)
        return [self._load["choices"]]

    @torch.no_grad()
    def after_step(self) -> None:
        """b_e <- b_e + bias_rate sign(mean load - load_e), and the count of the load starts again at 0."""
        if self._load and self.selection_bias is not None:
            load = self._load["choices"]
            self.selection_bias += self.options["bias_rate"] * torch.sign(load.mean() - load).to(self.selection_bias)
        self._load.clear()

    def __getstate__(self) -> dict[str, Any]:
        # what a pass has left belongs to its graph: it is neither copied nor pickled
        return {**self.__dict__, "_balance": None, "_load": {}}

    def forward(self, x: Tensor, weights: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        flat, given = x.reshape(-1, x.shape[-1]), weights is not None
        chosen, weights, shares = self.route(flat) if weights is None else self.largest(weights.reshape(-1, self.n))
        on = weights != 0 if given else None
        if self.training:
            self._count(chosen, on, shares, None if real is None else real.reshape(-1))
        rows, parts = flat, is_split(self.up.weight)
        if parts:
            rows, weights = replicate(flat, self.up.weight), replicate(weights, self.up.weight)
        if can_group(flat, self.hidden):
            y = mix_grouped(rows, chosen, weights, self._mixture(), on)
        elif cpu.tracing() or x.is_meta:
            y = self._everywhere(rows, chosen, weights, on)
        elif grouped.wanted():
            y = self._by_choice(rows, chosen, weights.to(rows.dtype)[..., None], on)
        else:
            y = mix_routed(rows, chosen, weights, self._mixture(), on)
        if parts:
            y = add_up(y, self.up.weight)
        if self.shared is not None:
            y = y + self.shared(flat, self._gating)
        return y.reshape(x.shape)

    def _by_choice(self, rows: Tensor, chosen: Tensor, weights: Tensor, on: Tensor | None) -> Tensor:
        """As `mix_routed`, without a layout that depends on what was chosen; weights (rows, active, 1)."""
        mixture = self._mixture()
        seen = rows[:, None].expand(-1, self.active, -1)
        if mixture.weigh_input:
            seen = seen * weights
        h = mixture.gating(*(grouped.linear(seen, *part, chosen) for part in mixture.parts))
        y = grouped.linear(h, *mixture.down, chosen)
        if mixture.weigh_input:
            weights = torch.ones_like(weights) if on is None else on[..., None].to(y.dtype)
        return (y * weights).sum(1)

    def take_part(self, rank: int, size: int) -> None:
        """Keep the hidden channels of each expert whose turn it is; the first rank adds the biases of the results."""
        super().take_part(rank, size)
        for part in (self.gate, self.up, self.down):
            if part is not None:
                part.columns = slice(rank * self.hidden, (rank + 1) * self.hidden)
        self.down.columns = slice(None) if rank == 0 else None

    def route(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(chosen (rows, active), their weights, the shares of all (rows, n)) of rows (rows, x)."""
        options = self.options
        logits = self.router(flat)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        sigmoid = options["scoring"] == "sigmoid"
        shares = torch.sigmoid(logits) if sigmoid else torch.softmax(logits, -1)
        chosen = self._choose(logits, shares).topk(self.active, -1).indices
        if options["renormalise"]:
            # s / (sum of s), also where all s are too small for a number
            logs = F.logsigmoid(logits) if sigmoid else logits
            weights = torch.softmax(logs.gather(-1, chosen), -1)
        else:
            weights = shares.gather(-1, chosen)
        return chosen, weights if options["scale"] == 1 else weights * options["scale"], shares

    def largest(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What `route` gives, of weights (rows, n) that a formula made: a choice of weight 0 is none."""
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
        sizes = weights.abs()
        chosen = sizes.detach().topk(self.active, -1).indices
        ours = weights.gather(-1, chosen)
        # no gradient where it is 0: it is not computed what the expert would add
        ours = ours.where(ours != 0, ours.detach())
        return chosen, ours, sizes / sizes.sum(-1, keepdim=True).clamp(min=torch.finfo(sizes.dtype).tiny)

    def _choose(self, logits: Tensor, shares: Tensor) -> Tensor:
        """What the chosen experts have most of: the scores, or where they count, shares and biases; -inf outside of
        the best groups."""
        groups = self.options["groups"]
        if self.selection_bias is None and groups == 1:
            return logits
        ranks = shares if self.selection_bias is None else shares + self.selection_bias.to(shares.dtype)
        if groups == 1:
            return ranks
        by_group = ranks.unflatten(-1, (groups, -1))  # type: ignore[no-untyped-call]
        best = by_group.topk(self.options["group_top"], -1).values.sum(-1)
        open_groups = torch.zeros_like(best, dtype=torch.bool)
        open_groups = open_groups.scatter(-1, best.topk(self.options["active_groups"], -1).indices, True)
        return by_group.masked_fill(~open_groups[..., None], float("-inf")).flatten(-2)  # type: ignore[no-any-return]

    def _count(self, chosen: Tensor, on: Tensor | None, shares: Tensor, real: Tensor | None) -> None:
        """The load of the real rows, and the loss that evens it: balance n sum_e f_e p_e."""
        hits = torch.zeros_like(shares)
        hits = hits.scatter_(-1, chosen, 1.0) if on is None else hits.scatter_(-1, chosen, on.to(hits.dtype))
        if self.options["scoring"] == "sigmoid":
            shares = shares / shares.sum(-1, keepdim=True)
        rows: Tensor | int = max(1, len(hits))
        if real is not None:
            hits, shares = (t * real[:, None] for t in (hits, shares))
            rows = real.sum().clamp(min=1)
        load, before, again = hits.sum(0), self._load.get("choices"), recomputing()
        if not again:
            self._load["choices"] = load if before is None else before + load
        if self.balance:
            choices = rows * self.active if on is None else load.sum().clamp(min=1)
            balance = self.balance * self.n * (load / choices * (shares.sum(0) / rows)).sum()
            self._balance = self._balance if again else balance

    def _gating(self, up: Tensor, gate: Tensor | None = None) -> Tensor:
        """The hidden layer: f(up), or f(gate) up, both within the limit and `up` shifted."""
        activate, limit, shift = ACTIVATIONS[self.activation], self.options["limit"], self.options["shift"]
        if gate is None:
            return activate(up)
        if limit:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return activate(gate) * (up + shift if shift else up)

    def _mixture(self) -> Mixture:
        parts = [part.product() for part in (self.up, self.gate) if part is not None]
        return Mixture(self._gating, self.options["weigh_input"], self.down.product(), parts)

    def _everywhere(self, flat: Tensor, chosen: Tensor, weights: Tensor, on: Tensor | None) -> Tensor:
        """The same sum with every expert over every row, most with weight 0: products whose shapes are fixed."""
        none = flat.new_zeros(flat.shape[0], self.n)
        spreads = none.scatter(-1, chosen, weights.to(none.dtype))
        # what multiplies the products of a row, and what its hidden layers
        inner, outer = None, spreads
        if self.options["weigh_input"]:
            ones = torch.ones_like(weights) if on is None else on
            inner, outer = spreads, none.scatter(-1, chosen, ones.to(none.dtype))

        def product(part: Matrices) -> Tensor:
            weight, bias = part.product()
            y = F.linear(flat, weight.flatten(0, 1)).unflatten(-1, (self.n, -1))  # type: ignore[no-untyped-call]
            y = y if inner is None else y * inner.to(y.dtype)[..., None]
            return y if bias is None else y + bias.to(y.dtype)  # type: ignore[no-any-return]

        h = self._gating(*(product(part) for part in (self.up, self.gate) if part is not None))
        outer = outer.to(h.dtype)
        # sum over e of down_e h_e
        weight, bias = self.down.product()
        y: Tensor = (h * outer[..., None]).flatten(1) @ weight.transpose(1, 2).flatten(0, 1).to(h.dtype)
        if bias is not None:
            y = y + outer @ bias.to(h.dtype)
        return y


class Matrices(nn.Module):
    """n matrices with their biases: weight (n, size, x), bias (n size,) or None.

    fans     (fan in, fan out) of one, for the `init` hook
    columns  which results of each are made here, where they are split among devices; None: nothing is added to them
    """

    columns: slice | None = slice(None)

    def __init__(self, n: int, x: int, size: int, bias: bool) -> None:
        super().__init__()
        self.fans = (x, size)
        self.weight = empty(n, size, x)
        # one row, as biases are to initial values and optimizers
        self.bias = empty(n * size) if bias else None

    def product(self) -> Product:
        """(matrices, biases (n, size) or None)."""
        weight, bias = own_part(self.weight), self.bias
        if bias is None or self.columns is None:
            return weight, None if bias is None else bias.view(len(weight), -1) * 0
        return weight, bias.view(len(weight), -1)[:, self.columns]

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

    def forward(self, x: Tensor, gating: Gating) -> Tensor:
        h = gating(self.up(x)) if self.gate is None else gating(self.up(x), self.gate(x))
        return self.down(h)  # type: ignore[no-any-return]
