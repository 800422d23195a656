"""How fast texts are written: by this program's kernels, with weights of four bytes and of one, against PyTorch alone.

    python benchmarks/decoding.py [--models small llama] [--batches 1 8] [--reading] [--peers] [--gallery] [--keep]

Greedy texts of 128 tokens after prompts of 32, on one thread; random weights, which cost what trained ones do. With
--reading prompts alone, too: one token after 224, counted in tokens of the prompt. Engines take turns in one process,
and the least time of the processor counts. With --peers CTranslate2 and llama.cpp write the same texts, where they are
installed and know the model (decoding_peers.py). With --gallery every wiring that writes text, at width 256 with 4
layers, one row.

The claims: kernels in float32 write the tokens that PyTorch writes; at each batch they are at least 1.1 times as fast,
and at batch 1 at least 1.7 times; with weights of one byte they are faster still. They write and read at least as fast
as the faster of the peers, with such weights and in float32. Of the gallery the median is at least 1.7 times PyTorch's
speed, and no wiring is slower than by PyTorch alone.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from decoding_peers import Writer, peers_of  # noqa: E402
from figures import keep  # noqa: E402

from transformula import Model, gallery  # noqa: E402
from transformula.engine.build import library  # noqa: E402
from transformula.engine.kinds import MOST_PROMPT_ROWS  # noqa: E402
from transformula.engine.prompts import FEWEST_PROMPTS  # noqa: E402
from transformula.generation import SamplingSettings, generate  # noqa: E402

PROMPT, NEW, READ = 32, 128, 224
SIZES: dict[str, Any] = {"depth": 6, "width": 384, "heads": 6, "vocab": 8192, "context": 256}
SMALL = 'x = x + attention(norm(x)); x = x + mlp(norm(x), activation="gelu_tanh")'  # an activation that llama.cpp has
MODELS: dict[str, Callable[[], Any]] = {
    "small": lambda: Model(SMALL, after="x = norm(x)", **SIZES),
    "llama": lambda: Model("llama", kv_heads=2, hidden=1024, **SIZES),
    "mixtral": lambda: Model("mixtral", kv_heads=2, hidden=768, **SIZES),
    "gpt2": lambda: Model("gpt2", dropout=0),
}
ENGINES = {"PyTorch": ("torch", "float32"), "kernels": ("auto", "float32"), "kernels, int8": ("auto", "int8")}
GALLERY = {"depth": 4, "width": 256, "heads": 4, "vocab": 8192, "context": 256}
FREE = ("depth", "width", "heads", "context")
LEAST = {1: 1.7, 8: 1.1, 32: 1.1}  # times PyTorch's speed, by rows
LEAST_OF_READING = 0.95  # times PyTorch's speed, whose products read a prompt in float32
LEAST_OF_PEERS = 1.0  # times the speed of the faster of the others
FLOATS, BYTES = ("PyTorch", "CTranslate2", "llama.cpp"), ("kernels", "CTranslate2, int8", "llama.cpp, q8_0")


def writer_of(model: Any, engine: str, weights: str) -> Writer:
    def write(prompts: Sequence[Sequence[int]], new: int) -> list[list[int]]:
        return generate(
            model, prompts, SamplingSettings(max_tokens=new, temperature=0.0, engine=engine, weights=weights)
        )

    return write


def measure(
    model: Any, batch: int, rounds: int, writers: Mapping[str, Writer], prompt: int = PROMPT, new: int = NEW
) -> dict[str, Any]:
    """Tokens a second of each engine, of the prompt where one is written, and the tokens that it wrote."""
    numbers = torch.Generator().manual_seed(0)
    vocab = min(8192, int(model.architecture.numbers["vocab"]))
    prompts = torch.randint(vocab, (batch, prompt), generator=numbers).tolist()
    limit = model.context_limit
    new = new if limit is None else min(new, limit - prompt + 1)
    best, texts = dict.fromkeys(writers, float("inf")), {}
    warm = FEWEST_PROMPTS if new == 1 and batch <= MOST_PROMPT_ROWS else 1  # make what is kept for the others
    for _ in range(warm + rounds):
        for name, write in writers.items():
            begun = time.process_time()
            texts[name] = write(prompts, new)
            best[name] = min(best[name], time.process_time() - begun)
    counted = batch * (prompt if new == 1 else new)
    return {"tokens/s": {name: counted / seconds for name, seconds in best.items()}, "texts": texts}


def models(asked: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each model and batch, and what does not hold."""
    rows, wrong = [], []
    for name in asked.models:
        model = MODELS[name]().module
        with tempfile.TemporaryDirectory() as folder:
            writers = {engine: writer_of(model, *how) for engine, how in ENGINES.items()}
            writers |= peers_of(model, Path(folder)) if asked.peers else {}
            lengths = {"": (PROMPT, NEW), **({", reading": (READ, 1)} if asked.reading else {})}
            for batch, (kind, (prompt, new)) in itertools.product(asked.batches, lengths.items()):
                measured = measure(model, batch, asked.rounds, writers, prompt, new)
                speed, texts = measured["tokens/s"], measured["texts"]
                times = {engine: speed[engine] / speed["PyTorch"] for engine in writers}
                rows.append({"model": name + kind, "batch": batch, "tokens/s": speed, "times": times})
                told = (f"{engine} {speed[engine]:,.0f}/s ({times[engine]:.2f})" for engine in writers)
                print(f"{name + kind:15} {batch:3} ", "  ".join(told), flush=True)
                if texts["kernels"] != texts["PyTorch"]:
                    wrong.append(f"{name}{kind}, batch {batch}: kernels write other tokens")
                wrong += [f"{name}{kind}, batch {batch}: {what}" for what in too_slow(speed, batch, bool(kind))]
    return rows, wrong


def too_slow(speed: Mapping[str, float], batch: int, reading: bool) -> list[str]:
    """Which of the claims about speed do not hold of a row."""
    wrong = []
    least = LEAST_OF_READING if reading else LEAST.get(batch, 1.1)
    for ours, others in {"kernels": FLOATS, "kernels, int8": BYTES}.items():
        peer = max((each for each in others if each in speed), key=lambda each: speed[each])
        needed = {"PyTorch": least}.get(peer, LEAST_OF_PEERS)
        if speed[ours] < needed * speed[peer]:
            wrong.append(f"{ours} is {speed[ours] / speed[peer]:.2f} times as fast as {peer}, and not {needed:g}")
    return wrong


def of_gallery(rounds: int) -> tuple[dict[str, float], list[str]]:
    """How many times as fast as by PyTorch alone each wiring writes, and what does not hold."""
    times = {}
    for name in gallery.names():
        text = gallery.load(name)
        numbers: dict[str, Any] = {key: value for key, value in GALLERY.items() if key in text.numbers or key in FREE}
        try:
            model: Any = Model(name, **{**numbers, "vocab": 8192}).module
        except Exception as error:  # sizes that do not fit this wiring
            print(f"{name}: left out ({str(error)[:80]})")
            continue
        if model.inputs != ["tokens"] or not model.architecture.main.causal:
            continue
        writers = {key: writer_of(model, *ENGINES[key]) for key in ("PyTorch", "kernels")}
        speed = measure(model, 1, rounds, writers)["tokens/s"]
        times[name] = speed["kernels"] / speed["PyTorch"]
        print(f"{name:26} {times[name]:.2f}", flush=True)
    median, worst = statistics.median(times.values()), min(times, key=lambda name: times[name])
    print(f"median {median:.2f}, worst {worst} {times[worst]:.2f}")
    wrong = [f"gallery: median {median:.2f}"] if median < 1.7 else []
    return times, wrong + [f"{name}: {ratio:.2f} times" for name, ratio in times.items() if ratio < 1]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The figures as a page shows them: tokens a second, and times PyTorch's speed."""
    engines = list(rows[0]["tokens/s"])
    head = [f"| model | rows | {' | '.join(engines)} |", f"| --- | ---: |{' ---: |' * len(engines)}"]
    lines = []
    for row in rows:
        speed, times = row["tokens/s"], row["times"]
        shown = {e: f"{speed[e]:,.0f}" + ("" if e == "PyTorch" else f" ({times[e]:.2f})") for e in speed}
        cells = [shown.get(e, "") for e in engines]
        lines.append(" | ".join(["", row["model"], str(row["batch"]), *cells, ""]).strip())
    return ["", *head, *lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[*MODELS], choices=[*MODELS])
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 8, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reading", action="store_true", help="prompts alone, too")
    parser.add_argument("--peers", action="store_true", help="CTranslate2 and llama.cpp too, where they are installed")
    parser.add_argument("--gallery", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write the figures to results/")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    library(wait=True)
    rows, wrong = models(asked)
    result: dict[str, Any] = {"rows": rows}
    if asked.gallery:
        result["gallery"], more = of_gallery(asked.rounds)
        wrong += more
    if asked.keep:
        keep("decoding", result, table(rows))
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
