"""Streams side by side: the package hyper-connections, and the hyper-connections of DeepSeek-V4 in transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.around import causal
from tests.peers.carry import Theirs, Weights
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair, case
from tests.peers.cases.torch import attention

STREAMS = 4
SUBLAYERS = (("attention", "read"), ("mlp", "read_2"))
"""Our names of what a sublayer reads with."""

Norm = Callable[[int], nn.Module]


class Attention(nn.Module):
    """LayerNorm and PyTorch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        u = self.norm(x)
        made: Tensor = self.attention(u, u, u, attn_mask=causal(x.shape[1]), need_weights=False)[0]
        return made


class MLP(nn.Module):
    """LayerNorm and two matrices with GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.down(nn.functional.gelu(self.up(self.norm(x))))
        return made


class Around(nn.Module):
    """A language model of sublayers, each with a connection; `expand`, `run`, `collapse`: what is done with streams."""

    def __init__(
        self,
        connection: Callable[[int], nn.Module],
        expand: Callable[[Tensor], Tensor],
        run: Callable[[nn.Module, nn.Module, Tensor], Tensor],
        collapse: nn.Module,
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.connections = nn.ModuleList(connection(number) for number in range(2 * DEPTH))
        self.branches = nn.ModuleList(branch() for _ in range(DEPTH) for branch in (Attention, MLP))
        self.collapse, self.norm = collapse, nn.LayerNorm(WIDTH)
        self.expand, self.run = expand, run

    def forward(self, tokens: Tensor) -> Tensor:
        streams = self.expand(self.words(tokens) + self.positions.weight[: tokens.shape[1]])
        for connection, branch in zip(self.connections, self.branches, strict=True):
            streams = self.run(connection, branch, streams)
        return self.norm(self.collapse(streams)) @ self.words.weight.T


def named(connection: Callable[[Theirs, str, str], Weights]) -> Callable[[Theirs], Weights]:
    """`connection`: the parameters of one, for our names of the two modules that it is in ours."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("words")
        yield "before.positions", theirs("positions")
        yield "after.norm", theirs("norm")
        for n, branch in theirs.layers("branches"):
            layer, (name, _) = f"layers.{(n + 1) // 2}", SUBLAYERS[(n - 1) % 2]
            yield f"{layer}.{name}_input_norm", branch("norm")
            if name == "attention":
                yield from ((f"{layer}.{part}", leaf) for part, leaf in attention(branch("attention")))
            else:
                yield from ((f"{layer}.mlp.{part}", branch(part)) for part in ("up", "down"))
        for n, leaf in theirs.layers("connections"):
            layer, (name, read) = f"layers.{(n + 1) // 2}", SUBLAYERS[(n - 1) % 2]
            yield from connection(leaf, f"{layer}.{read}", f"{layer}.{name}_output_write")

    return weights


@case(
    "hyper-connections",
    "hyper-connections",
    "HyperConnections(4, tanh=True)",
    "hyper-connections",
    "around PyTorch's attention and matrices; eps is 0, as theirs; the weight of its norm is carried into the matrices",
)
def hyper_connections() -> Pair:
    from hyper_connections import HyperConnections

    expand, collapse = HyperConnections.get_expand_reduce_stream_functions(STREAMS)

    def run(connection: nn.Module, branch: nn.Module, streams: Tensor) -> Tensor:
        read, add = connection(streams)
        made: Tensor = add(branch(read))
        return made

    def connection(theirs: Theirs, read: str, write: str) -> Weights:
        gamma = 1 + theirs("norm")["gamma"]
        alpha, dynamic, scale = (theirs[f"{kind}_alpha{end}"] for kind, end in PARTS)
        yield f"{read}.static", alpha[:, :1]
        yield f"{read}.weight", (dynamic[:, :1] * gamma[:, None]).T
        yield f"{read}.scale", scale[None]
        yield f"{write}.static", alpha[:, 1:]
        yield f"{write}.gain", theirs["static_beta"][:, None]
        rows = torch.cat((dynamic[:, 1:], theirs["dynamic_beta_fn"][:, None]), 1)
        yield f"{write}.weight", (rows * gamma[:, None]).T
        yield f"{write}.scale", scale[None]
        yield f"{write}.gain_scale", theirs["dynamic_beta_scale"][None]

    theirs = Around(
        lambda number: HyperConnections(STREAMS, dim=WIDTH, layer_index=number, tanh=True), expand, run, collapse
    )
    changed = {"first=2 * layer - 1)": "first=2 * layer - 1, eps=0)", "first=2 * layer)": "first=2 * layer, eps=0)"}
    changed |= {")))\n": ")), eps=0)\n"}
    return Pair(theirs, "hyper-connections", named(connection), changed=changed)


PARTS = (("static", ""), ("dynamic", "_fn"), ("dynamic", "_scale"))
"""Their names of what is read and mixed with."""


class Total(nn.Module):
    """The sum of streams (batch, length, n, width)."""

    def forward(self, streams: Tensor) -> Tensor:
        return streams.sum(-2)


def deepseek(collapse: Callable[[Any], nn.Module], text: str, more: Callable[[Theirs], Weights]) -> Pair:
    """Their connection, run as their decoder layer does."""
    from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection

    config = DeepseekV4Config(hidden_size=WIDTH, hc_mult=STREAMS, hc_sinkhorn_iters=20, hc_eps=0.0, rms_norm_eps=1e-6)

    def run(connection: nn.Module, branch: nn.Module, streams: Tensor) -> Tensor:
        post, mixing, read = connection(streams)
        made: Tensor = post.unsqueeze(-1) * branch(read).unsqueeze(-2) + mixing.transpose(-1, -2) @ streams
        return made

    def connection(theirs: Theirs, read: str, write: str) -> Weights:
        n = STREAMS
        yield f"{read}.static", theirs["base"][:n]
        yield f"{read}.weight", theirs["fn"][:n]
        yield f"{read}.scale", theirs["scale"][:1]
        turned = [2 * n + s * n + t for t in range(n) for s in range(n)]  # theirs is applied transposed
        yield f"{write}.static", theirs["base"][turned]
        yield f"{write}.gain", theirs["base"][n : 2 * n]
        yield f"{write}.weight", theirs["fn"][[*turned, *range(n, 2 * n)]]
        yield f"{write}.scale", theirs["scale"][2:]
        yield f"{write}.gain_scale", theirs["scale"][1:2]

    def weights(theirs: Theirs) -> Weights:
        yield from named(connection)(theirs)
        yield from more(theirs)

    def expand(x: Tensor) -> Tensor:
        return x.unsqueeze(-2).repeat(1, 1, STREAMS, 1)

    theirs = Around(lambda _: DeepseekV4HyperConnection(config), expand, run, collapse(config))
    return Pair(theirs, text, weights)


DEEPSEEK = "around PyTorch's attention and matrices; their hc_eps, added to what is read and to sums, is 0"


@case("mhc", "transformers", "DeepseekV4HyperConnection(hc_mult=4, hc_sinkhorn_iters=20)", "mhc", DEEPSEEK)
def mhc() -> Pair:
    return deepseek(lambda config: Total(), "mhc", lambda theirs: ())


@case(
    "mhc-head",
    "transformers",
    "DeepseekV4HyperHead(hc_mult=4) after DeepseekV4HyperConnection",
    note=f"{DEEPSEEK}; the last norm reads the streams as a sublayer does",
)
def mhc_head() -> Pair:
    def head(config: Any) -> nn.Module:
        from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperHead

        return DeepseekV4HyperHead(config)

    def more(theirs: Theirs) -> Weights:
        leaf = theirs("collapse")
        yield "after.read.static", leaf["hc_base"]
        yield "after.read.weight", leaf["hc_fn"]
        yield "after.read.scale", leaf["hc_scale"]

    text = """
before: X = expand(embed.words(tokens) + positions(tokens), 4)
layer: |
  X = write(X, attention(norm(read(X, kind="mhc"))), kind="mhc")
  X = write(X, mlp(norm(read(X, kind="mhc"))), kind="mhc")
after: x = norm(read(X, kind="mhc"))
"""
    return deepseek(head, text, more)
