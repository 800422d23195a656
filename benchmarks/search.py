"""Speed of decoding an encoder-decoder: greedy and beam 5, against a decoder as toolkits for learners ship it.

    python benchmarks/search.py [--sentences 64] [--depth 3] [--width 256] [--vocab 8192] [--rounds 3] [--keep]

The same weights (vaswani, random, float32) and sentences, whose lengths are spread as in Multi30k; each text is at
most as long as its source. The peer runs the encoder once but has no cache: each step reads what was written whole, and
sentences that are finished stay in the batch until all are. It chooses tokens by the same code, so what is measured is
the model's work. Ours is `generation.search`. Both must write the same. Printed: sentences a second, medians over
rounds that alternate in one process, and the ratio.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import time

import torch
from figures import keep

from transformula import gallery, words
from transformula.generation import SearchSettings, search
from transformula.generation.beam import Sentence, continuations, evaluating, gathered, given_at_start
from transformula.language.check import check
from transformula.model import Transformer, build

BEGIN, END = 1, 2
BEAMS = {"greedy": 1, "beam 5": 5}


def model_of(depth: int, width: int, vocab: int) -> Transformer:
    """Random weights that make the model surer than its initial ones, so that no ranking hangs on rounding."""
    numbers = {"depth": depth, "width": width, "heads": 8, "vocab": vocab, "context": 128}
    model = build(check(gallery.entry("vaswani").text, words.vocabulary(), numbers), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def sources_of(count: int, vocab: int) -> list[list[int]]:
    """Random sentences of 14 tokens on average, at least 4, at most 30."""
    generator = torch.Generator().manual_seed(2)
    sizes = (14 + 5 * torch.randn(count, generator=generator)).round().clamp(4, 30).long().tolist()
    return [torch.randint(3, vocab, (size,), generator=generator).tolist() for size in sizes]


@torch.inference_mode()
def without_cache(model: Transformer, sources: list[list[int]], settings: SearchSettings) -> list[list[int]]:
    """All rows in one batch to the end, each step a whole pass of the decoder. The best text of each sentence."""
    prompts = [[BEGIN]] * len(sources)
    sentences: list[Sentence] = gathered([model], prompts, settings, [END], {"source": sources}, None)
    stops, beam = torch.tensor([END]), settings.beam
    started = model.start(len(sentences), settings.max_length or 200, **given_at_start(sentences, stops.device))
    empty = copy.deepcopy(started.states)
    started.select(torch.arange(len(sentences)).repeat_interleave(beam))
    for sentence in sentences:
        sentence.beam = [(0.0, None)]
    written = torch.full((len(sentences) * beam, 1), BEGIN)
    while any(s.beam for s in sentences):
        decoding = copy.copy(started)
        decoding.states = copy.deepcopy(empty)
        logits = model.step(written, decoding)[:, -1]
        live = [s for s in sentences if s.beam]
        rows = [n * beam + slot for n, s in enumerate(sentences) for slot in range(len(s.beam))]
        found = dict(
            zip((s.number for s in live), continuations([logits[rows]], live, settings, stops, None), strict=True)
        )
        order, chosen = [], []
        for n, sentence in enumerate(sentences):
            kept = sentence.go_on(found[n], [END], settings) if sentence.beam else []
            tokens = [text[1] for _, text in sentence.beam]
            order += [n * beam + slot for slot in kept] + [n * beam] * (beam - len(kept))
            chosen += tokens + [0] * (beam - len(kept))
        written = torch.cat((written[order], torch.tensor(chosen)[:, None]), 1)
    return [s.best(1)[0].tokens for s in sentences]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"sentences": 64, "depth": 3, "width": 256, "vocab": 8192, "rounds": 3, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/search.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model, sources = model_of(given.depth, given.width, given.vocab), sources_of(given.sentences, given.vocab)
    prompts = [[BEGIN]] * len(sources)
    measured: dict[str, dict[str, float]] = {}
    for name, beam in BEAMS.items():
        settings = SearchSettings(beam=beam, max_length=40, max_ratio=1.0)
        seconds: dict[str, list[float]] = {"ours": [], "without a cache": []}
        for _ in range(given.rounds):
            started = time.perf_counter()
            found = search(model, prompts, settings, end=END, inputs={"source": sources})
            seconds["ours"].append(time.perf_counter() - started)
            started = time.perf_counter()
            with evaluating([model]):
                peer = without_cache(model, sources, settings)
            seconds["without a cache"].append(time.perf_counter() - started)
            unlike = sum(of_one[0].tokens != tokens for of_one, tokens in zip(found, peer, strict=True))
            if unlike:
                print(f"{name}: {unlike} of {len(sources)} texts differ")
                return 1
        rates = {who: len(sources) / statistics.median(took) for who, took in seconds.items()}
        ratio = rates["ours"] / rates["without a cache"]
        measured[name] = {**rates, "ratio": ratio}
        print(
            f"{name}: {rates['ours']:.1f} sentences/s, without a cache {rates['without a cache']:.1f}, "
            f"ratio {ratio:.1f}, {len(sources)} texts alike"
        )
    if given.keep:
        shown = ["| sentences/s | ours | without a cache | ratio |", "| --- | --- | --- | --- |"]
        shown += [
            f"| {name} | {m['ours']:.1f} | {m['without a cache']:.1f} | {m['ratio']:.1f} |"
            for name, m in measured.items()
        ]
        keep("search", {"settings": vars(given), "measured": measured}, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
