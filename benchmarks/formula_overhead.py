"""What it costs that a model is generated from a formula: against the same modules wired by hand.

    python benchmarks/formula_overhead.py [--width 256] [--depth 4] [--rounds 40] [--compiled] [--keep]

The formula is GPT-2's layer (pre-norm attention and MLP). Its rivals:

    words by hand  an nn.Module with the same word modules, wired in an ordinary `forward`: what generation itself costs
    plain PyTorch  nn.LayerNorm, nn.Linear (queries, keys, values apart, as in the word) and PyTorch's attention

One layer and a whole model, forward and forward with backward, at batch 1 length 1 and batch 16 length 256, run in turn
in random order; medians. The claim: the formula takes at most 2 % longer than the words by hand, or no longer than the
words by hand differ from themselves (A/A, the same code measured as a rival of its own).
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))

from figures import keep  # noqa: E402

from transformula.language.check import check  # noqa: E402
from transformula.language.model_text import from_formula  # noqa: E402
from transformula.model import build  # noqa: E402
from transformula.words import vocabulary  # noqa: E402
from transformula.words.mlp import MLP  # noqa: E402
from transformula.words.norms import Norm  # noqa: E402

FORMULA = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
VOCAB, HEADS, LONGEST = 256, 4, 256
ALLOWED = 1.02
SHAPES = ((1, 1), (16, 256))


def word_attention(width: int) -> nn.Module:
    """The word `attention`, made as a formula makes it: with the options of its record."""
    numbers = {"width": width, "depth": 1, "heads": HEADS, "vocab": VOCAB, "context": LONGEST}
    return build(check(from_formula(FORMULA), vocabulary(), numbers)).get_submodule("layers.1.attention")


class WordsLayer(nn.Module):
    """The formula's layer, its word modules wired by hand."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = Norm(width, width, eps=1e-5, weight=True, bias=True)
        self.attention = word_attention(width)
        self.mlp_norm = Norm(width, width, eps=1e-5, weight=True, bias=True)
        self.mlp = MLP(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class PlainLayer(nn.Module):
    """The same equation of PyTorch's own modules."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        u = self.attention_norm(x)
        q, k, v = (
            m(u).view(batch, length, HEADS, width // HEADS).transpose(1, 2) for m in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Model(nn.Module):
    """Embedding, positions, layers, a last norm, the tied output."""

    def __init__(self, layer: Callable[[int], nn.Module], norm: nn.Module, width: int, depth: int) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, width)
        self.positions = nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(layer(width) for _ in range(depth))
        self.norm = norm

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.words.weight)


def rivals(width: int, depth: int) -> dict[str, dict[str, nn.Module]]:
    """For one layer and for the whole model: the formula, the words by hand twice, plain PyTorch.

    All have the same parameters, not copies: where in memory a matrix lies makes a small pass 5 % faster or slower."""
    numbers = {"width": width, "depth": depth, "heads": HEADS, "vocab": VOCAB, "context": LONGEST}
    formula = build(check(from_formula(FORMULA), vocabulary(), {**numbers, "after": "x = norm(x)"}))
    words = [Model(WordsLayer, Norm(width, width, eps=1e-5, weight=True, bias=True), width, depth) for _ in range(2)]
    plain = Model(PlainLayer, nn.LayerNorm(width), width, depth)
    named = dict(formula.named_parameters())
    for other in (*words, plain):
        for path, module in other.named_modules():
            for name in module._parameters:
                module._parameters[name] = named[name_in_formula(f"{path}.{name}")]
    whole = {"formula": formula, "words by hand": words[0], "A/A": words[1], "plain PyTorch": plain}
    given = torch.randint(VOCAB, (2, 8))
    for name, model in whole.items():
        torch.testing.assert_close(model(given), formula(given), msg=name)
    layers = {name: (m.layers["1"] if m is formula else m.layers[0]) for name, m in whole.items()}
    return {"layer": layers, "model": whole}


def name_in_formula(name: str) -> str:
    """The formula's name of a parameter of the models by hand."""
    name = name.replace("attention_norm", "attention_input_norm").replace("mlp_norm", "mlp_input_norm")
    if name.startswith("layers."):
        _, number, rest = name.split(".", 2)
        # the plain layer has no modules for attention and MLP
        owner = {"query": "attention.", "key": "attention.", "value": "attention.", "output": "attention."}
        owner |= {"up": "mlp.", "down": "mlp."}
        return f"layers.{int(number) + 1}.{owner.get(rest.split('.')[0], '')}{rest}"
    return {"norm": "after.", "positions": "before.", "words": ""}[name.split(".")[0]] + name


def measure(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call; samples of at least a few milliseconds, in random order."""
    for call in calls.values():
        for _ in range(3):
            call()
    start = time.perf_counter()
    next(iter(calls.values()))()
    repeat = max(1, int(0.004 / max(1e-6, time.perf_counter() - start)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for _ in range(rounds):
        random.shuffle(names)
        for name in names:
            call = calls[name]
            start = time.perf_counter()
            for _ in range(repeat):
                call()
            samples[name].append((time.perf_counter() - start) / repeat)
    return {name: statistics.median(found) for name, found in samples.items()}


def call_of(module: nn.Module, given: Tensor, backward: bool) -> Callable[[], Any]:
    def forward() -> Any:
        with torch.no_grad():
            return module(given)

    def both() -> None:
        module(given).sum().backward()
        for parameter in module.parameters():
            parameter.grad = None

    return both if backward else forward


def compile_all(modules: dict[str, nn.Module], given: Tensor) -> dict[str, Any]:
    """The compiled modules.

    Of equal modules the first that a process compiles was measured to stay up to 4 % slower at a length of 1, whichever
    it is: so a decoy is compiled before them, a copy with code of its own, and the formula between its two rivals."""
    decoy = copy.deepcopy(modules["words by hand"])
    forward: Any = type(decoy).forward
    code = types.FunctionType(forward.__code__.replace(co_name="decoy"), forward.__globals__)
    decoy.__class__ = type("Decoy", (type(decoy),), {"forward": code})
    with torch.no_grad():
        torch.compile(decoy, fullgraph=True, dynamic=False)(given)
    order = ("words by hand", "formula", "A/A", "plain PyTorch")
    made: dict[str, Any] = {name: torch.compile(modules[name], fullgraph=True, dynamic=False) for name in order}
    with torch.no_grad():
        for module in made.values():
            module(given)
    return made


def run(width: int, depth: int, rounds: int, compiled: bool) -> list[dict[str, Any]]:
    """All comparisons; one mapping of figures each."""
    rows = []
    for what, modules in rivals(width, depth).items():
        for module in modules.values():
            module.eval()
        ways = {"eager": modules}
        for batch, length in SHAPES:
            given = torch.randn(batch, length, width) if what == "layer" else torch.randint(VOCAB, (batch, length))
            if compiled and "compiled" not in ways:
                ways["compiled"] = compile_all(modules, given)
            for way, made in ways.items():
                for backward in (False, True):
                    count = max(7, rounds // (4 if batch > 1 else 1))
                    times = measure({n: call_of(m, given, backward) for n, m in made.items()}, count)
                    by_hand = times["words by hand"]
                    ratio, same = times["formula"] / by_hand, times["A/A"] / by_hand
                    rows.append(
                        {
                            "what": what,
                            "batch": batch,
                            "length": length,
                            "way": way,
                            "pass": "forward + backward" if backward else "forward",
                            "milliseconds": times["formula"] * 1e3,
                            "words by hand": ratio,
                            "A/A": same,
                            "plain PyTorch": times["formula"] / times["plain PyTorch"],
                            "holds": ratio <= max(ALLOWED, same, 1 / same),
                        }
                    )
                    print(line(rows[-1]), flush=True)
    return rows


HEAD = ["what", "batch x length", "way", "pass", "ms", "/ words by hand", "A/A", "/ plain PyTorch", "within 2 % or A/A"]


def cells(row: dict[str, Any]) -> list[str]:
    return [
        row["what"],
        f"{row['batch']} x {row['length']}",
        row["way"],
        row["pass"],
        f"{row['milliseconds']:.3f}",
        f"{row['words by hand']:.3f}",
        f"{row['A/A']:.3f}",
        f"{row['plain PyTorch']:.3f}",
        "yes" if row["holds"] else "no",
    ]


def line(row: dict[str, Any]) -> str:
    return "  ".join(c.ljust(max(8, len(h))) for c, h in zip(cells(row), HEAD, strict=True))


def main() -> int:
    """Measure and print; 1 if the claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=40, help="samples of each call; a quarter for large batches")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too (minutes)")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results and the docs' figures")
    given = parser.parse_args()
    print("  ".join(h.ljust(8) for h in HEAD))
    rows = run(given.width, given.depth, given.rounds, given.compiled)
    if given.keep:
        table = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}", *(f"| {' | '.join(cells(r))} |" for r in rows)]
        keep("formula_overhead", {"width": given.width, "depth": given.depth, "rows": rows}, table)
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
