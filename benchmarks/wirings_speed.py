"""How fast the generated models of five wirings are: against an nn.Module of the same equation, written by hand.

    python benchmarks/wirings_speed.py [--width 256] [--depth 4] [--rounds 40] [--only NAME ...] [--keep]

Pre-norm attention, hyper-connections with 4 streams, DenseFormer, value residual and parallel blocks. The rivals are
plain PyTorch: nn.LayerNorm, nn.Linear, its attention, keys and values of decoding in buffers made once; the
hyper-connections are Algorithm 2 of the paper (one norm of the streams and one product for what is read and what is
mixed, einsum for what is written). Same parameters, same logits, to start with. Measured in turn, in random order, all
in one run; medians:

    training  forward and backward of a batch (the optimizer is the same for both)
    decoding  a prompt, then tokens one by one with what is kept: time a token

The claim: ours takes at most 2 % longer than the module by hand, or no longer than two copies of that differ (A/A).
What is kept is measured, too, and held to what `summary` predicts from the text: the bytes of the tensors of decoding,
which are equal, and of what the backward pass needs, streams and history above all, within 1 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402
from formula_overhead import ALLOWED, HEADS, VOCAB, measure  # noqa: E402

from transformula.analysis.accounting import summary  # noqa: E402
from transformula.language.check import check  # noqa: E402
from transformula.language.model_file import read_text  # noqa: E402
from transformula.model import build  # noqa: E402
from transformula.words import vocabulary  # noqa: E402

STREAMS, PROMPT, TOKENS, BATCH, LENGTH = 4, 32, 64, 16, 256

FORMULAS = {
    "pre-norm": ("", "x = x + attention(norm(x))\nx = x + mlp(norm(x))", "x = norm(x)"),
    "parallel": ("", "u = norm(x)\nx = x + attention(u) + mlp(u)", "x = norm(x)"),
    "denseformer": (
        "x = embed.words(tokens) + positions(tokens)\nh = x",
        "h = x + attention(norm(x))\nh = h + mlp(norm(h))\nx = mix.mixed(h[:])",
        "x = norm(x)",
    ),
    "value-residual": (
        "",
        "x = x + residual(norm(x), 0 if layer == 1 else v[1])\nv = residual.v\nx = x + mlp(norm(x))",
        "x = norm(x)",
    ),
    "hyper-connections": (
        f"X = expand(embed.words(tokens) + positions(tokens), {STREAMS})",
        "X = write(X, attention(norm(read(X, first=2 * layer - 1))))\n"
        "X = write(X, mlp(norm(read(X, first=2 * layer))))",
        "x = norm(collapse(X))",
    ),
}
WORDS = """words:
  residual(x, first): |
    v = linear.value(x, width) if layer == 1 else 0.5 * linear.value(x, width) + 0.5 * first
    y = linear.output(dot_attention(linear.query(x, width), linear.key(x, width), v), width)
"""


class Kept:
    """Keys and values of one layer's attention in decoding."""

    def __init__(self, batch: int, width: int, room: int) -> None:
        self.keys, self.values = (torch.empty(batch, HEADS, room, width // HEADS) for _ in range(2))
        self.length = 0

    def add(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]


class Attention(nn.Module):
    """Causal attention; `first`: values of layer 1, of which half are taken."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, kept: Kept | None = None, first: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batch, length, width = x.shape
        value = self.value(x)
        if first is not None:
            value = 0.5 * value + 0.5 * first
        q, k, v = (
            t.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for t in (self.query(x), self.key(x), value)
        )
        if kept is not None:
            k, v = kept.add(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.output(y.transpose(1, 2).reshape(batch, length, width)), value


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class HyperConnection(nn.Module):
    """Hyper-Connections, Algorithm 2, on streams (batch, length, n, width); an RMS norm without weights."""

    def __init__(self, width: int, n: int, turn: int) -> None:
        super().__init__()
        read = torch.zeros(n, 1)
        read[turn % n] = 1
        self.static_alpha = nn.Parameter(torch.cat((read, torch.eye(n)), 1))
        self.static_beta = nn.Parameter(torch.ones(n))
        self.dynamic_alpha = nn.Parameter(torch.zeros(width, n + 1))
        self.dynamic_beta = nn.Parameter(torch.zeros(width))
        self.alpha_scale, self.beta_scale = nn.Parameter(torch.tensor(0.01)), nn.Parameter(torch.tensor(0.01))

    def width_connection(self, streams: Tensor) -> tuple[Tensor, Tensor]:
        normed = F.rms_norm(streams, streams.shape[-1:], eps=1e-6)
        alpha = torch.tanh(normed @ self.dynamic_alpha) * self.alpha_scale + self.static_alpha
        beta = torch.tanh(normed @ self.dynamic_beta) * self.beta_scale + self.static_beta
        return alpha.transpose(-1, -2) @ streams, beta

    def depth_connection(self, mixed: Tensor, made: Tensor, beta: Tensor) -> Tensor:
        return torch.einsum("blh,bln->blnh", made, beta) + mixed[..., 1:, :]


class Layer(nn.Module):
    """One layer of the five, by name."""

    def __init__(self, wiring: str, width: int, number: int) -> None:
        super().__init__()
        self.wiring, self.number = wiring, number
        self.attention, self.mlp = Attention(width), MLP(width)
        self.attention_norm = nn.LayerNorm(width)
        self.mlp_norm = nn.LayerNorm(width) if wiring != "parallel" else None
        if wiring == "denseformer":
            self.weights = nn.Parameter(torch.zeros(number + 1))
        if wiring == "hyper-connections":
            self.first, self.second = (HyperConnection(width, STREAMS, 2 * number - t) for t in (2, 1))

    def forward(self, x: Tensor, past: list[Tensor], kept: Kept | None) -> Tensor:
        if self.wiring == "pre-norm":
            x = x + self.attention(self.attention_norm(x), kept)[0]
            return x + self.mlp(self.mlp_norm(x))
        if self.wiring == "parallel":
            u = self.attention_norm(x)
            return x + self.attention(u, kept)[0] + self.mlp(u)
        if self.wiring == "denseformer":
            if not past:
                past.append(x)
            h = x + self.attention(self.attention_norm(x), kept)[0]
            h = h + self.mlp(self.mlp_norm(h))
            past.append(h)
            return sum((w * e for w, e in zip(self.weights[1:], past[1:], strict=True)), self.weights[0] * past[0])
        if self.wiring == "value-residual":
            made, value = self.attention(self.attention_norm(x), kept, past[0] if past else None)
            if not past:
                past.append(value)
            x = x + made
            return x + self.mlp(self.mlp_norm(x))
        mixed, beta = self.first.width_connection(x)
        x = self.first.depth_connection(mixed, self.attention(self.attention_norm(mixed[..., 0, :]), kept)[0], beta)
        mixed, beta = self.second.width_connection(x)
        return self.second.depth_connection(mixed, self.mlp(self.mlp_norm(mixed[..., 0, :])), beta)


class Model(nn.Module):
    """Embedding, positions, layers, a last norm, the tied output."""

    def __init__(self, wiring: str, width: int, depth: int) -> None:
        super().__init__()
        self.wiring, self.width = wiring, width
        self.words, self.positions = nn.Embedding(VOCAB, width), nn.Embedding(LENGTH, width)
        self.layers = nn.ModuleList(Layer(wiring, width, n) for n in range(1, depth + 1))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, kept: list[Kept] | None = None) -> Tensor:
        begin = kept[0].length if kept else 0
        x = self.words(tokens) + self.positions.weight[begin : begin + tokens.shape[1]]
        if self.wiring == "hyper-connections":
            x = x.unsqueeze(-2).expand(-1, -1, STREAMS, -1)
        past: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x = layer(x, past, kept[number] if kept else None)
        if self.wiring == "hyper-connections":
            x = x.sum(-2)
        return F.linear(self.norm(x), self.words.weight)

    def start(self, batch: int, room: int) -> list[Kept]:
        return [Kept(batch, self.width, room) for _ in self.layers]


def by_our_names(model: Model) -> Iterator[tuple[str, Tensor]]:
    """The parameters of the model by hand under the names of ours."""
    yield "words.weight", model.words.weight
    yield "before.positions.weight", model.positions.weight
    for number, layer in enumerate(model.layers, 1):
        value = model.wiring == "value-residual"
        attention = "residual" if value else "attention"
        for name, parameter in layer.named_parameters():
            owner, _, rest = name.partition(".")
            if owner in ("first", "second"):
                continue
            ours = {"attention": attention, "attention_norm": f"{attention}_input_norm", "mlp_norm": "mlp_input_norm"}
            full = "mixed.weight" if name == "weights" else f"{ours.get(owner, owner)}.{rest}"
            yield f"layers.{number}.{full}", parameter
        if model.wiring == "hyper-connections":
            for own, read, write in ((layer.first, "read", "attention"), (layer.second, "read_2", "mlp")):
                assert isinstance(own, HyperConnection)
                yield from streams(own, f"layers.{number}.{read}", f"layers.{number}.{write}_output_write")
    yield "after.norm.weight", model.norm.weight
    yield "after.norm.bias", model.norm.bias


def streams(theirs: HyperConnection, read: str, write: str) -> Iterator[tuple[str, Tensor]]:
    """One parameter of theirs is of what is read and of what is mixed."""
    alpha, dynamic = theirs.static_alpha, theirs.dynamic_alpha
    yield f"{read}.static", alpha[:, :1]
    yield f"{read}.weight", dynamic[:, :1].T
    yield f"{read}.scale", theirs.alpha_scale[None]
    yield f"{write}.static", alpha[:, 1:]
    yield f"{write}.gain", theirs.static_beta[:, None]
    yield f"{write}.weight", torch.cat((dynamic[:, 1:], theirs.dynamic_beta[:, None]), 1).T
    yield f"{write}.scale", theirs.alpha_scale[None]
    yield f"{write}.gain_scale", theirs.beta_scale[None]


@torch.no_grad()
def rivals(wiring: str, width: int, depth: int) -> tuple[Any, list[Model]]:
    """Ours, and two copies by hand, of the same random weights and logits."""
    before, layer, after = FORMULAS[wiring]
    lines = [f"language: 1\ndepth: {depth}\nwidth: {width}\nheads: {HEADS}\nvocab: {VOCAB}\ncontext: {LENGTH}\n"]
    lines.append(WORDS if wiring == "value-residual" else "")
    for key, text in (("before", before), ("layer", layer), ("after", after)):
        body = "".join(f"  {line}\n" for line in text.splitlines())
        lines.append(f"{key}: |\n{body}" if text else "")
    ours = build(check(read_text("".join(lines)), vocabulary())).eval()
    hands = [Model(wiring, width, depth).eval() for _ in range(2)]
    torch.manual_seed(0)
    for parameter in hands[0].parameters():
        parameter.copy_(torch.randn(parameter.shape) * (0.05 if parameter.dim() > 1 else 0.3))
    hands[1].load_state_dict(hands[0].state_dict())
    given = dict(by_our_names(hands[0]))
    own = dict(ours.named_parameters())
    assert own.keys() == given.keys(), own.keys() ^ given.keys()
    for name, tensor in given.items():
        own[name].copy_(tensor)
    tokens = torch.randint(VOCAB, (2, 40))
    wanted = ours(tokens)
    torch.testing.assert_close(hands[0](tokens), wanted, atol=1e-3, rtol=1e-3)
    decoding, kept = ours.start(2, 40), hands[0].start(2, 40)
    for model_step in (lambda part: ours.step(part, decoding), lambda part: hands[0](part, kept)):
        made = torch.cat([model_step(part) for part in (tokens[:, :30], *tokens[:, 30:].split(1, 1))], 1)
        torch.testing.assert_close(made, wanted, atol=1e-3, rtol=1e-3)
    return ours, hands


def training(model: nn.Module, tokens: Tensor) -> Callable[[], Any]:
    def call() -> None:
        logits = model(tokens)
        F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        for parameter in model.parameters():
            parameter.grad = None

    return call


def decoding(model: Any, tokens: Tensor) -> Callable[[], Any]:
    """A prompt, then single tokens."""
    hand = isinstance(model, Model)
    parts = [tokens[:, :PROMPT], *tokens[:, PROMPT:].split(1, 1)]

    def call() -> None:
        with torch.inference_mode():
            kept = model.start(len(tokens), tokens.shape[1])
            for part in parts:
                if hand:
                    model(part, kept)
                else:
                    model.step(part, kept)

    return call


def decoding_bytes(model: Any, length: int) -> tuple[int, int]:
    """Bytes of all tensors of a decoding with this room, measured and predicted."""
    state = model.start(1, length)
    model.step(torch.zeros(1, length, dtype=torch.long), state)
    found: dict[int, int] = {}

    def visit(thing: Any) -> None:
        if isinstance(thing, Tensor):
            found[thing.untyped_storage().data_ptr()] = thing.untyped_storage().nbytes()
        elif isinstance(thing, dict):
            for inner in thing.values():
                visit(inner)
        elif isinstance(thing, (list, tuple)):
            for inner in thing:
                visit(inner)
        elif hasattr(thing, "__dict__"):
            visit(vars(thing))

    visit(state.states)
    predicted: Any = summary(model.architecture, length=length).data["totals"]
    return sum(found.values()), int(predicted["cache_bytes_row"])


def training_bytes(model: Any, tokens: Tensor) -> tuple[int, int]:
    """Bytes that are kept for the backward pass, without parameters and tokens: measured, predicted."""
    batch, length = tokens.shape
    others = {t.untyped_storage().data_ptr() for t in (*model.parameters(), tokens)}
    found: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in others:
            found[storage.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        logits = model(tokens)  # kept, so that no storage is used again
    predicted: Any = summary(model.architecture, length=length, batch=batch).data["totals"]
    del logits
    return sum(t.untyped_storage().nbytes() for t in found.values()), int(predicted["activation_bytes"])


def run(wiring: str, width: int, depth: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Training and decoding of one wiring."""
    ours, hands = rivals(wiring, width, depth)
    models = {"ours": ours, "by hand": hands[0], "A/A": hands[1]}
    for what, make, shape, each in (
        ("training", training, (BATCH, LENGTH), 1),
        ("decoding", decoding, (1, PROMPT + TOKENS), TOKENS),
    ):
        tokens = torch.randint(VOCAB, shape)
        if what == "training":
            measured, predicted = training_bytes(ours, tokens)
        else:
            with torch.no_grad():
                measured, predicted = decoding_bytes(ours, tokens.shape[1])
        # a token takes a thousandth of a batch's time: more samples cost little
        samples = rounds if what == "training" else 4 * rounds
        times = measure({name: make(model, tokens) for name, model in models.items()}, samples)
        ratio, same = times["ours"] / times["by hand"], times["A/A"] / times["by hand"]
        yield {
            "wiring": wiring,
            "what": what,
            "milliseconds": times["ours"] / each * 1e3,
            "by hand": ratio,
            "A/A": same,
            "holds": ratio <= max(ALLOWED, same, 1 / same),
            "kept": measured,
            "predicted": predicted,
            "as predicted": measured == predicted if what == "decoding" else abs(measured / predicted - 1) <= 0.01,
        }


HEAD = ["wiring", "", "ms", "/ by hand", "A/A", "within 2 % or A/A", "MB kept", "predicted"]


def cells(row: dict[str, Any]) -> list[str]:
    return [
        row["wiring"],
        row["what"],
        f"{row['milliseconds']:.3f}",
        f"{row['by hand']:.3f}",
        f"{row['A/A']:.3f}",
        "yes" if row["holds"] else "no",
        f"{row['kept'] / 1e6:.2f}",
        f"{row['predicted'] / 1e6:.2f}",
    ]


def main() -> int:
    """Measure and print; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=40, help="samples of each")
    parser.add_argument("--only", nargs="*", default=list(FORMULAS), choices=list(FORMULAS), help="wirings")
    parser.add_argument("--threads", type=int, default=0, help="of PyTorch; 0: its own choice")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    rows = []
    print("  ".join(h.ljust(17) for h in HEAD))
    for wiring in given.only:
        for row in run(wiring, given.width, given.depth, given.rounds):
            rows.append(row)
            print("  ".join(c.ljust(max(17, len(h))) for c, h in zip(cells(row), HEAD, strict=True)), flush=True)
    if given.keep:
        table = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}", *(f"| {' | '.join(cells(r))} |" for r in rows)]
        keep("wirings_speed", {"width": given.width, "depth": given.depth, "rows": rows}, table)
    return 0 if all(row["holds"] and row["as predicted"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
