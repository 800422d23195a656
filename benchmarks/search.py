"""Speed of decoding an encoder-decoder: greedy and beam 5, against a decoder as toolkits for learners ship it, and
against CTranslate2, a decoder in C++ for inference alone.

    python benchmarks/search.py [--sentences 64] [--depth 3] [--width 256] [--vocab 8192] [--rounds 3] [--threads 1]
                                [--keep]

The same weights (vaswani, random, but for the end's row, which is fitted so that texts end about where their sources
do) and sentences, whose lengths are spread as in Multi30k; no text is longer than 40 tokens. Ours is
`generation.search`, in float32 and with matrices of one byte.

without a cache   the encoder is run once, but each step reads what was written whole, and sentences that are finished
                  stay in the batch until all are. Tokens are chosen by our code: what is measured is the model's work,
                  and the texts must be the same
CTranslate2       in float32 and with int8 matrices, all sentences in one batch; skipped where the package
                  `ctranslate2` (pip install ctranslate2) is missing. The length penalty is the same (the mean of log
                  p), and a sentence is done when as many of its hypotheses have ended as the beam size
                  (`early_stopping`). In float32 its texts must be ours, but for those that are cut, where it sums no
                  end; rounded matrices may write others

Printed: sentences a second, medians over rounds that alternate in one process, behind rounds in which ours makes its
programs, ours as a multiple of each other, and how many texts are not ours.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from figures import keep
from torch import Tensor

from transformula import gallery, words
from transformula.generation import SearchSettings, search
from transformula.generation.beam import checked_sentences, continuations
from transformula.generation.sentences import Sentence
from transformula.generation.steps import given_at_start
from transformula.language.check import check
from transformula.model import Transformer, build
from transformula.model.transformer import evaluating

BEGIN, END, LONGEST = 1, 2, 40
BEAMS = {"greedy": 1, "beam 5": 5}
GOALS = {"greedy": 10, "beam 5": 9}
"""Times the decoder without a cache."""
WARM = 8  # searches, after which programs are made

Texts = list[list[int]]


def model_of(depth: int, width: int, vocab: int) -> Transformer:
    """Random weights that make the model surer than its initial ones, so that no ranking hangs on rounding."""
    numbers = {"depth": depth, "width": width, "heads": 8, "vocab": vocab, "context": 128}
    model = build(check(gallery.entry("vaswani").text, words.vocabulary(), numbers), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


@torch.no_grad()
def fit_end(model: Transformer, sources: Texts) -> None:
    """Give the end a row of the table with which texts end about where their sources do: by ridge regression its logit
    is to be above the highest from there on, and below before. No text reads that row, so nothing else changes."""
    table: Tensor = model.get_submodule("words").weight  # type: ignore[assignment]
    written = search(
        model, [[BEGIN]] * len(sources), SearchSettings(beam=1, max_length=LONGEST), inputs={"source": sources}
    )
    tokens = torch.tensor([[BEGIN, *found[0].tokens[:-1]] for found in written])
    lengths = torch.tensor([len(s) for s in sources])
    source = torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in sources], batch_first=True)
    full = torch.full_like(lengths, tokens.shape[1])
    logits = model(source=source, tokens=tokens, lengths={"source": lengths, "tokens": full}).flatten(0, 1)
    states = torch.linalg.lstsq(table, logits.T).solution.T  # what the table was multiplied with
    # what a regression finds lies closer to the mean than what it is asked for
    asked = lengths + 0.5 * (lengths - lengths.double().mean())
    late = (torch.arange(tokens.shape[1]) - asked[:, None]).float()
    wanted = logits.amax(-1) + late.clamp(-6, 6).flatten()
    weights = 1.0 + 4.0 * (late.abs() < 6).flatten()[:, None]  # what matters is where texts are to end
    ridge = 100 * torch.eye(table.shape[1])
    table[END] = torch.linalg.solve((weights * states).T @ states + ridge, (weights * states).T @ wanted)


def sources_of(count: int, vocab: int) -> list[list[int]]:
    """Random sentences of 14 tokens on average, at least 4, at most 30."""
    generator = torch.Generator().manual_seed(2)
    sizes = (14 + 5 * torch.randn(count, generator=generator)).round().clamp(4, 30).long().tolist()
    return [torch.randint(3, vocab, (size,), generator=generator).tolist() for size in sizes]


@torch.inference_mode()
def without_cache(model: Transformer, sources: list[list[int]], settings: SearchSettings) -> list[list[int]]:
    """All rows in one batch to the end, each step a whole pass of the decoder. The best text of each sentence."""
    prompts = [[BEGIN]] * len(sources)
    sentences: list[Sentence] = checked_sentences([model], prompts, settings, [END], {"source": sources}, None, LONGEST)
    stops, beam = torch.tensor([END]), settings.beam
    room = 1 + (settings.max_length or 200)  # the sign that begins stands before what is written
    started = model.start(len(sentences), room, **given_at_start(sentences, stops.device))
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
        beams = [(s, list(range(len(s.beam)))) for s in live]
        rows = [n * beam + slot for n, s in enumerate(sentences) for slot in range(len(s.beam))]
        found = dict(
            zip((s.number for s in live), continuations([logits[rows]], beams, settings, stops, None), strict=True)
        )
        order, chosen = [], []
        for n, sentence in enumerate(sentences):
            kept = sentence.go_on(found[n], [END], settings) if sentence.beam else []
            tokens = [text[1] for _, text in sentence.beam]
            order += [n * beam + slot for slot in kept] + [n * beam] * (beam - len(kept))
            chosen += tokens + [0] * (beam - len(kept))
        written = torch.cat((written[order], torch.tensor(chosen)[:, None]), 1)
    return [s.best(1)[0].tokens for s in sentences]


def with_ctranslate2(model: Transformer, sources: Texts, threads: int) -> dict[str, Callable[[SearchSettings], Texts]]:
    """The same decoding by CTranslate2, by what its matrices are; where it is missing none, and that is printed."""
    if importlib.util.find_spec("ctranslate2") is None:
        print("CTranslate2 is skipped: the package is missing (pip install ctranslate2)")
        return {}
    import ctranslate2
    from ctranslate2_model import save

    with tempfile.TemporaryDirectory() as folder:
        names = save(model, Path(folder) / "model", BEGIN, END)
        made = {
            kind: ctranslate2.Translator(
                str(Path(folder) / "model"), device="cpu", compute_type=kind, intra_threads=threads, inter_threads=1
            )
            for kind in ("float32", "int8")
        }
    ids = {name: number for number, name in enumerate(names)}
    given = [[names[token] for token in source] for source in sources]

    def decode(translator: ctranslate2.Translator, settings: SearchSettings) -> Texts:
        found = translator.translate_batch(
            given,
            beam_size=settings.beam,
            length_penalty=settings.alpha if settings.beam > 1 else 0,
            max_decoding_length=LONGEST,
            min_decoding_length=0,
        )
        return [[ids[name] for name in of_one.hypotheses[0]] for of_one in found]

    return {
        f"CTranslate2 {kind}": lambda settings, t=translator: decode(t, settings) for kind, translator in made.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"sentences": 64, "depth": 3, "width": 256, "vocab": 8192, "rounds": 3, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/search.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    model, sources = model_of(given.depth, given.width, given.vocab), sources_of(given.sentences, given.vocab)
    fit_end(model, sources)

    def ours(settings: SearchSettings, **more: Any) -> Texts:
        settings = settings.model_copy(update=more)
        found = search(model, [[BEGIN]] * len(sources), settings, end=END, inputs={"source": sources})
        return [of_one[0].tokens for of_one in found]

    def peer(settings: SearchSettings) -> Texts:
        return without_cache(evaluating(model), sources, settings)

    decoders = {
        "ours": ours,
        "ours, int8": partial(ours, weights="int8"),
        "without a cache": peer,
        **with_ctranslate2(model, sources, given.threads),
    }
    measured: dict[str, dict[str, dict[str, float]]] = {}
    alike = True
    for name, beam in BEAMS.items():
        settings = SearchSettings(beam=beam, max_length=LONGEST, penalty="average", alpha=1.0, early_stopping=True)
        seconds: dict[str, list[float]] = {who: [] for who in decoders}
        texts: dict[str, Texts] = {}
        for _ in range(WARM):
            ours(settings)
            ours(settings, weights="int8")
        for _ in range(given.rounds):
            for who, decode in decoders.items():
                started = time.perf_counter()
                texts[who] = decode(settings)
                seconds[who].append(time.perf_counter() - started)
        rates = {who: len(sources) / statistics.median(took) for who, took in seconds.items()}
        measured[name] = {
            who: {
                "sentences a second": rate,
                "ours is": rates["ours"] / rate,
                "texts unlike ours": sum(a != b for a, b in zip(texts["ours"], texts[who], strict=True)),
            }
            for who, rate in rates.items()
        }
        sizes = [len(text) for text in texts["ours"]]
        mean = statistics.mean(sizes)
        print(f"{name}: {len(sizes)} texts of {min(sizes)} to {max(sizes)} tokens, {mean:.1f} on average")
        for who, found in measured[name].items():
            goal = f", goal {GOALS[name]}" if who == "without a cache" else ""
            rate, times, unlike = found.values()
            print(
                f"  {who:20} {rate:7.1f} sentences/s, ours is {times:.2f} times that{goal}; {unlike} texts unlike ours"
            )
        cut = sum(size == LONGEST for size in sizes)
        allowed = {"without a cache": 0, "CTranslate2 float32": cut}
        unlike_ours = {who: measured[name][who]["texts unlike ours"] for who in allowed if who in texts}
        alike = alike and all(unlike <= allowed[who] for who, unlike in unlike_ours.items())
    if given.keep:
        shown = [f"| | {' | '.join(decoders)} |", "| --- |" + " ---: |" * len(decoders)]
        for name, of_one in measured.items():
            numbers = (f"{found['sentences a second']:,.0f}" for found in of_one.values())
            shown.append(f"| {name} | {' | '.join(numbers)} |")
        keep("search", {"settings": vars(given), "measured": measured}, shown)
    return 0 if alike else 1


if __name__ == "__main__":
    sys.exit(main())
