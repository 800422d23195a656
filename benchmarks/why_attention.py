"""Why attention: what recurrent layers lose over a distance, and what attention costs in return.

    python benchmarks/why_attention.py            # about 20 minutes on one core; goes on where it was stopped
    python benchmarks/why_attention.py --quick    # a minute: fewer lengths, fewer steps, one seed
    python benchmarks/why_attention.py --keep     # also into benchmarks/results and docs/explanation/why-attention.md

Every formula below has one layer, about as many parameters as the others, the same steps, rows and learning rate.

    copy   N random letters, then a sign; all of them are to be repeated: each comes from N + 1 positions before
    first  one letter, dots up to N, then the sign; the letter is to be repeated: one model for each distance
    mixed  one letter, then dots, and the sign at every distance: one model learns all distances, from rows that have as
           many positions as those of all models of `first`

    cost   seconds of a training step on one row of N positions, and on rows of N that have 4,096 positions together;
           seconds of a token that is written after N others; bytes that are kept, for the backward pass and between
           tokens. One thread; seconds of the CPU, so that other programs disturb them little; formulas take turns,
           the best of several rounds.

The plots are drawn from what the JSON file holds: when all of it is there, the same command only draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))

from figures import RESULTS, ROOT, keep, machine  # noqa: E402
from wirings_speed import decoding_bytes, training, training_bytes  # noqa: E402

from transformula.atomic_io import write_whole  # noqa: E402
from transformula.figure import DASHES, MUTED, SERIES, new_figure, svg_of  # noqa: E402
from transformula.language.check import check  # noqa: E402
from transformula.language.model_text import from_formula  # noqa: E402
from transformula.model import Transformer, build  # noqa: E402
from transformula.words import vocabulary  # noqa: E402

EMBED = "x = embed.words(tokens)"
ATTENTION = """\
h = norm(x)
x = x + linear.o(dot_attention(rotary(linear.q(h, width)), rotary(linear.k(h, width)), linear.v(h, width){}), width)
x = x + mlp(norm(x))"""
FORMULAS = {
    "attention": (EMBED, ATTENTION.format("")),
    "linear attention": (f"{EMBED} + positions(tokens)", "x = x + linear_attention(norm(x))\nx = x + mlp(norm(x))"),
    "LSTM": (EMBED, "x = x + lstm(norm(x))\nx = x + mlp(norm(x), hidden=2 * width)"),
    "GRU": (EMBED, "x = x + gru(norm(x))\nx = x + mlp(norm(x), hidden=3 * width)"),
    "RNN": (EMBED, "x = x + rnn(norm(x))\nx = x + mlp(norm(x), hidden=5 * width)"),
}
"""Name -> what comes before the layer, and the layer."""
STORED = "attention, scores stored"
COSTED = {**FORMULAS, STORED: (EMBED, ATTENTION.format(", dropout=0.1"))}
"""With dropout, all scores of a training step are made and kept; without, a kernel makes them block by block."""

RATES = {("mixed", "RNN"): 0.001}
"""Learning rates that differ from that of the settings. With it the RNN stays at chance here; elsewhere none of 0.0015,
0.005 and 0.015 was better than 0.005 for any formula, at the distances where it begins to fail."""

LETTERS = 26
SIGN, DOT, VOCAB = LETTERS, LETTERS + 1, LETTERS + 2
NOTHING = -1  # where no answer is asked for
DISTANCES = (4, 8, 16, 32, 64, 128, 256)
WRITTEN = 16  # tokens in a sample of writing
MARKERS = "osD^vX"


@dataclass(frozen=True)
class Settings:
    """What is run."""

    distances: tuple[int, ...] = DISTANCES
    seeds: int = 2
    width: int = 64
    heads: int = 4
    steps: int = 200
    lr: float = 0.005
    positions: int = 1024  # letters and dots of a batch, for each distance in it
    answers: int = 4096  # by which a model is scored, at least
    lengths: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    cost_width: int = 256
    cost_positions: int = 4096  # of the batches whose rows are N long
    rounds: int = 3


QUICK = Settings(distances=(4, 16, 64), seeds=1, steps=100, answers=512, lengths=(64, 256, 1024), rounds=2)


def model_of(name: str, width: int, heads: int, context: int, vocab: int, seed: int) -> Transformer:
    """One layer of a formula, with initial weights."""
    before, layer = COSTED[name]
    numbers = {"depth": 1, "width": width, "heads": heads, "context": context, "vocab": vocab}
    return build(
        check(from_formula(layer), vocabulary(), {**numbers, "before": before, "after": "x = norm(x)"}), seed=seed
    )


def copy_rows(rows: int, distances: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`distances` letters, the sign, the letters again. (tokens, targets), each (rows, 2 N)."""
    (length,) = distances
    text = torch.randint(LETTERS, (rows, length), generator=generator)
    tokens = torch.cat((text, torch.full((rows, 1), SIGN), text[:, :-1]), 1)
    return tokens, torch.cat((torch.full((rows, length), NOTHING), text), 1)


def one_letter_rows(rows: int, distances: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A letter, then dots, and the sign at each of `distances`. (tokens, targets), each (rows, the largest + 1)."""
    letter = torch.randint(LETTERS, (rows, 1), generator=generator)
    tokens = torch.full((rows, max(distances) + 1), DOT)
    targets = torch.full_like(tokens, NOTHING)
    tokens[:, :1] = letter
    places = list(distances)
    tokens[:, places], targets[:, places] = SIGN, letter.expand(-1, len(places))
    return tokens, targets


EXPERIMENTS = {"copy": copy_rows, "first": one_letter_rows, "mixed": one_letter_rows}


def learn(name: str, experiment: str, distances: tuple[int, ...], seed: int, settings: Settings) -> dict[str, Any]:
    """Train a formula; its accuracy on new rows, at each distance, the loss, the seconds and the parameters.

    Rows are the same for all formulas: they depend on the seed and the distances alone."""
    model = model_of(name, settings.width, settings.heads, 2 * max(distances) + 1, VOCAB, seed)
    lr = RATES.get((experiment, name), settings.lr)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    steps = settings.steps
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 20, (steps - step) / (0.3 * steps))
    )
    rows, make = max(1, len(distances) * settings.positions // max(distances)), EXPERIMENTS[experiment]
    generator = torch.Generator().manual_seed(seed)
    start, loss = time.process_time(), torch.zeros(())
    for _ in range(steps):
        tokens, targets = make(rows, distances, generator)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=NOTHING)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    return {
        "accuracy": accuracy(model, make, distances, settings),
        "loss": loss.item(),
        "seconds": time.process_time() - start,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


@torch.inference_mode()
def accuracy(
    model: Transformer, make: Callable[..., Any], distances: tuple[int, ...], settings: Settings
) -> list[float]:
    """The share of right answers at each distance, on rows of a seed of their own."""
    generator, hits, answers = torch.Generator().manual_seed(10**9), [], 0
    while answers < settings.answers:
        tokens, targets = make(max(1, 4 * settings.positions // max(distances)), distances, generator)
        right = (model(tokens).argmax(-1) == targets)[targets != NOTHING]
        hits.append(right.view(-1, len(distances)).float())
        answers += len(hits[-1])
    return torch.cat(hits).mean(0).tolist()


def best_by_turns(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The shortest CPU time of each call over rounds in which all take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for number in range(rounds + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if number:  # the first round is for warming up
                best[name] = min(best[name], time.process_time() - start)
    return best


def writing(model: Transformer, tokens: Tensor, rounds: int) -> Callable[[], Any]:
    """Read a row, then write `WRITTEN` tokens more with each call, from what decoding keeps."""
    with torch.inference_mode():
        state = model.start(1, tokens.shape[1] + WRITTEN * (rounds + 1))
        model.step(tokens, state)

    def call() -> None:
        with torch.inference_mode():
            for _ in range(WRITTEN):
                model.step(tokens[:, :1], state)

    return call


def cost(length: int, settings: Settings) -> dict[str, dict[str, float]]:
    """What each formula costs at a length: seconds and bytes, by name."""
    context = length + WRITTEN * (settings.rounds + 1)
    models = {n: model_of(n, settings.cost_width, settings.heads, context, 256, 1) for n in COSTED}
    generator = torch.Generator().manual_seed(length)
    row = torch.randint(256, (1, length), generator=generator)
    rows = torch.randint(256, (max(1, settings.cost_positions // length), length), generator=generator)
    calls = {
        "row": {n: training(m, row) for n, m in models.items()},
        "rows": {n: training(m, rows) for n, m in models.items()},
    }
    seconds = {what: best_by_turns(of_one, settings.rounds) for what, of_one in calls.items()}
    kept = {n: training_bytes(m, row)[0] for n, m in models.items()}
    for model in models.values():
        model.eval()
    written = best_by_turns({n: writing(m, row, settings.rounds) for n, m in models.items()}, settings.rounds)
    with torch.no_grad():
        states = {n: decoding_bytes(m, length)[0] for n, m in models.items()}
    return {
        name: {
            "row": seconds["row"][name],
            "rows": seconds["rows"][name],
            "token": written[name] / WRITTEN,
            "kept": kept[name],
            "state": states[name],
        }
        for name in models
    }


def work(settings: Settings) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Everything that is measured: (key, what makes it). Costs first, then seed by seed."""
    for length in settings.lengths:
        yield f"cost {length}", partial(cost, length, settings)
    one_each = [(distance,) for distance in settings.distances]
    for seed in range(1, settings.seeds + 1):
        for experiment in EXPERIMENTS:
            for distances in [settings.distances] if experiment == "mixed" else one_each:
                for name in FORMULAS:
                    key = f"{experiment} {'-'.join(map(str, distances))} {name} {seed}"
                    yield key, partial(learn, name, experiment, distances, seed, settings)


def measured(path: Path, settings: Settings) -> dict[str, Any]:
    """What the file holds, with what is missing measured and added at once. More seeds, distances and lengths add to
    it; with any other setting it begins anew."""
    fixed = {key: value for key, value in asdict(settings).items() if key not in ("seeds", "distances", "lengths")}
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if data.get("settings") != fixed:
        data = {"machine": machine(), "settings": fixed, "measured": {}}
    parts = dict(work(settings))
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, (key, measure) in enumerate(parts.items(), 1):
        if key in data["measured"]:
            continue
        start = time.perf_counter()
        result = data["measured"][key] = measure()
        write_whole(path, (json.dumps(data, indent=2) + "\n").encode())
        right = "".join(f"{100 * share:.0f} " for share in result.get("accuracy", ()))
        seconds = time.perf_counter() - start
        print(f"{number:3} of {len(parts)}  {key:48} {right and right + '% right, '}{seconds:.0f} s", flush=True)
    return {**data, "measured": {key: data["measured"][key] for key in parts}}


def curves_of(data: Mapping[str, Any], experiment: str) -> dict[str, dict[int, list[float]]]:
    """Name -> distance -> the accuracy of each seed."""
    curves: dict[str, dict[int, list[float]]] = {name: {} for name in FORMULAS}
    for key, found in data["measured"].items():
        if key.startswith(experiment):
            _, distances, *name, _ = key.split(" ")
            for distance, share in zip(map(int, distances.split("-")), found["accuracy"], strict=True):
                curves[" ".join(name)].setdefault(distance, []).append(share)
    return curves


def costs_of(data: Mapping[str, Any], what: str) -> dict[str, dict[int, float]]:
    """Name -> length -> seconds or bytes. What is stored for training makes no difference to writing."""
    rows = {int(k.split()[1]): found for k, found in data["measured"].items() if k.startswith("cost ")}
    names = FORMULAS if what in ("token", "state") else COSTED
    return {name: {length: found[name][what] for length, found in sorted(rows.items())} for name in names}


def exponent(curve: Mapping[int, float]) -> float:
    """a of cost = c N^a, fitted to the longer half of the lengths, where what does not grow weighs less."""
    longer = sorted(curve)[-max(2, (len(curve) + 1) // 2) :]
    return float(np.polyfit(np.log(longer), np.log([curve[n] for n in longer]), 1)[0])


def draw(curves: Mapping[str, Mapping[int, list[float]]], what: str, label: str) -> str:
    """One line a formula, through the means, with a dot for each seed, as SVG."""
    with new_figure(4.6, 3.9) as (figure, axes):
        for name, curve in curves.items():
            at = list(COSTED).index(name)
            look: Any = {"color": SERIES[at], "marker": MARKERS[at]}
            means = [mean(values) for values in curve.values()]
            axes.plot(list(curve), means, linestyle=DASHES[at], linewidth=1.6, markersize=4, label=name, **look)
            dots = [(length, value) for length, values in curve.items() for value in values]
            axes.plot(*zip(*dots, strict=True), linestyle="none", markersize=2.5, alpha=0.5, **look)
        lengths = sorted({length for curve in curves.values() for length in curve})
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        if what in RECALL:
            axes.set_ylim(-3, 105)
            axes.axhline(100 / LETTERS, color=MUTED, linewidth=0.8, linestyle=":")
        elif what in POWERS:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")
        else:
            axes.set_ylim(bottom=0)
        axes.minorticks_off()
        axes.set_xlabel("distance (positions)" if what in RECALL else "length N (positions)")
        axes.set_ylabel(label)
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2)
        return svg_of(figure)


RECALL = {"copy": "letters repeated, %", "first": "one letter recalled, %", "mixed": "one letter recalled, %"}
COSTS = {
    "row": ("training step on one row of N: ms", 1e3),
    "rows": ("training step on 4,096 positions in rows of N: ms", 1e3),
    "kept": ("kept for the backward pass, one row of N: MB", 1e-6),
    "token": ("writing a token after N others: ms", 1e3),
    "state": ("kept between tokens, one row of N: kB", 1e-3),
}
"""What is plotted -> the axis, and by what seconds or bytes are multiplied."""
POWERS = ("row", "kept", "state")
"""What grows as a power of N, drawn on two logarithmic axes."""


def pictures(data: Mapping[str, Any]) -> dict[str, str]:
    """File name -> SVG, of all that was measured."""
    drawn = {}
    for what, label in RECALL.items():
        shares = curves_of(data, what).items()
        drawn[what] = draw({n: {d: [100 * v for v in vs] for d, vs in c.items()} for n, c in shares}, what, label)
    for what, (label, factor) in COSTS.items():
        values = costs_of(data, what).items()
        drawn[what] = draw({n: {d: [factor * v] for d, v in c.items()} for n, c in values}, what, label)
    return {f"{what}.svg": svg for what, svg in drawn.items()}


def tables(data: Mapping[str, Any]) -> list[str]:
    """What was measured as Markdown: accuracies, costs with their exponents."""
    lines = []
    for what in EXPERIMENTS:
        curves = curves_of(data, what)
        distances = sorted(curves["attention"])
        lines += ["", f"| {what}: right, % (mean of seeds) | {' | '.join(map(str, distances))} |"]
        lines.append("| --- |" + " ---: |" * len(distances))
        lines += [f"| {n} | {' | '.join(f'{100 * mean(c[d]):.0f}' for d in distances)} |" for n, c in curves.items()]
    for what, (label, factor) in COSTS.items():
        costs = costs_of(data, what)
        lengths = sorted(costs["attention"])
        lines += ["", f"| {label} | {' | '.join(f'{n:,}' for n in lengths)} | grows as |"]
        lines.append("| --- |" + " ---: |" * (len(lengths) + 1))
        for name, curve in costs.items():
            values = [factor * curve[n] for n in lengths]
            cells = " | ".join(f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values)
            lines.append(f"| {name} | {cells} | N^{exponent(curve):.2f} |")
    sizes = {" ".join(k.split()[2:-1]): found.get("parameters") for k, found in data["measured"].items()}
    seconds = sum(found.get("seconds", 0) for found in data["measured"].values())
    parameters = ", ".join(f"{name} {sizes[name]:,}" for name in FORMULAS)
    cpu, version = data["machine"]["processor"], data["machine"]["torch"]
    lines += [
        "",
        f"Parameters, at the longest distance: {parameters}. Seconds are those of one core ({cpu}, PyTorch {version}).",
    ]
    return [*lines, f"The trainings took {seconds / 60:.0f} minutes of it.", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it works; its figures mean little")
    parser.add_argument("--seeds", type=int, default=2, help="trainings of each (default 2)")
    parser.add_argument(
        "--lr", type=float, default=Settings.lr, help="learning rate (default 0.005); give each its --out"
    )
    parser.add_argument("--out", type=Path, help="folder of the results and plots (default runs/why-attention)")
    parser.add_argument("--keep", action="store_true", help="into benchmarks/results and the docs instead")
    given = parser.parse_args()
    if given.keep and (given.quick or given.out or given.lr != Settings.lr):
        parser.error("--keep goes with neither --quick, --out nor --lr")
    torch.set_num_threads(1)
    settings = replace(QUICK, lr=given.lr) if given.quick else Settings(seeds=given.seeds, lr=given.lr)
    folder = given.out or Path("runs/why-attention-quick" if given.quick else "runs/why-attention")
    name = "why_attention"
    data = measured((RESULTS if given.keep else folder) / f"{name}.json", settings)
    shown = tables(data)
    print(*shown, sep="\n")
    if given.keep:
        folder = ROOT / "docs" / "explanation" / "why-attention"
        folder.mkdir(exist_ok=True)
        keep(name, data, shown)
    for file, svg in pictures(data).items():
        write_whole(folder / file, svg.encode())
        print(f"wrote {folder / file}")


if __name__ == "__main__":
    main()
