"""Beam search: against a slow search without caches, against all sequences there are, alone and in a batch."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import pytest
import torch

from tests.generation.toy import Toy
from transformula import gallery, words
from transformula.errors import ConfigError, InputError
from transformula.generation import Hypothesis, SamplingSettings, SearchSettings, generate, search
from transformula.generation.beam import MAX_ROWS
from transformula.language.check import check
from transformula.language.model_file import read_documents
from transformula.model import Transformer, build

SMALL = {"depth": 2, "width": 16, "heads": 2, "vocab": 11, "context": 40}
BEGIN, END = 1, 2
SOURCES = [[4, 5, 6, 7, 3], [9], [3, 8, 4], [5, 5, 10, 6, 4, 7, 8], [8, 3]]


@cache
def entry(name: str, seed: int = 0, **given: Any) -> Transformer:
    """A gallery entry made small, with random weights that make it sure of something, in float64."""
    more = {"t5": {"size": 8}, "llama": {"kv_heads": 1}}
    numbers = {**SMALL, **more.get(name, {}), **given}
    model = build(check(gallery.entry(name).text, words.vocabulary(), numbers), seed=seed, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model.eval()


KINDS = ["vaswani", "t5", "pointer-generator", "llama"]


def given_to(name: str) -> dict[str, Any]:
    """Prompts and inputs of five sentences; a text for a model that reads tokens alone."""
    if name == "llama":
        return {"prompts": SOURCES}
    return {"prompts": [[BEGIN]] * len(SOURCES), "inputs": {"source": SOURCES}}


def logs_of_all(
    model: Transformer, prompt: list[int], inputs: dict[str, list[int]], written: list[list[int]]
) -> torch.Tensor:
    """log p (texts, vocab) of what comes next, from a whole pass over texts of equal length for one sentence."""
    given = {name: torch.tensor([ids] * len(written)) for name, ids in inputs.items()}
    with torch.no_grad():
        return model(tokens=torch.tensor([prompt + text for text in written]), **given)[:, -1].log_softmax(-1)


def logs_of(model: Transformer, prompt: list[int], inputs: dict[str, list[int]], written: list[int]) -> torch.Tensor:
    """The same (vocab,) of one text."""
    return logs_of_all(model, prompt, inputs, [written])[0]


def slow(model: Transformer, prompt: list[int], inputs: dict[str, list[int]], **options: Any) -> list[Hypothesis]:
    """The same search of one sentence as plain lists, and no cache; it stops early where `beam` have ended."""
    settings = SearchSettings(**options)
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for length in range(1, settings.max_length + 2):
        all_of_them = []
        logs = logs_of_all(model, prompt, inputs, [written for _, written in beam]).tolist() if beam else []
        for (total, written), row in zip(beam, logs, strict=True):
            for token, log in enumerate(row):
                ends = token == END
                n = settings.block_ngrams
                if ends and len(written) < settings.min_length or not ends and len(written) == settings.max_length:
                    continue
                grams = [written[i : i + n] for i in range(len(written) - n + 1)] if n else []
                if n and not ends and len(written) >= n - 1 and [*written[len(written) - n + 1 :], token] in grams:
                    continue
                all_of_them.append((total + log, [*written, token]))
        all_of_them.sort(key=lambda one: -one[0])
        beam = [one for one in all_of_them if one[1][-1] != END][: settings.beam]
        for total, written in all_of_them[: settings.beam]:
            if written[-1] == END:
                ended.append(Hypothesis(written[:-1], total, total / settings.divisor(length), True))
        ended.sort(key=lambda h: -h.score)
        if len(ended) >= settings.beam:
            next_score = beam[0][0] / settings.divisor(length + 1) if beam else float("-inf")
            if settings.beam == 1 or settings.early_stopping or next_score <= ended[settings.n_best - 1].score:
                break
    return ended[: settings.n_best]


def same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(h.tokens, h.ended) for h in found] == [(h.tokens, h.ended) for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_probability == pytest.approx(other.log_probability, rel=1e-5, abs=1e-5)
        assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)


OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"beam": 1},
    "gnmt": {"beam": 4, "n_best": 3, "alpha": 0.6},
    "average": {"beam": 3, "n_best": 3, "penalty": "average", "alpha": 1.0},
    "none": {"beam": 5, "alpha": 0.0},
    "early": {"beam": 3, "n_best": 2, "penalty": "average", "alpha": 2.0, "early_stopping": True},
    "steep": {"beam": 4, "n_best": 2, "penalty": "average", "alpha": 3.0},
    "n-grams": {"beam": 3, "n_best": 2, "block_ngrams": 2},
    "unigrams": {"beam": 2, "block_ngrams": 1},
    "at least": {"beam": 3, "n_best": 3, "min_length": 4},
}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param(name, options, id=f"{name}-{about}", marks=() if (one + other) % 3 == 0 else pytest.mark.slow)
        for one, name in enumerate(KINDS)
        for other, (about, options) in enumerate(OPTIONS.items())
    ],
)
def test_cached_in_a_batch_is_a_slow_search_of_each_alone(name: str, options: dict[str, Any]) -> None:
    model, given = entry(name), given_to(name)
    options = {"max_length": 7, **options}
    found = search(model, **given, settings=SearchSettings(**options), end=END)
    for number, of_one in enumerate(found):
        inputs = {key: ids[number] for key, ids in given.get("inputs", {}).items()}
        same(of_one, slow(model, given["prompts"][number], inputs, **options))


@pytest.mark.parametrize("name", KINDS)
def test_a_beam_of_one_is_greedy(name: str) -> None:
    model, given = entry(name), given_to(name)
    settings = SearchSettings(beam=1, max_length=9)
    for number, (found,) in enumerate(search(model, **given, settings=settings, end=END)):
        inputs = {key: ids[number] for key, ids in given.get("inputs", {}).items()}
        written: list[int] = []
        while len(written) < 9:
            token = int(logs_of(model, given["prompts"][number], inputs, written).argmax())
            if token == END:
                break
            written.append(token)
        assert found.tokens == written


def test_a_beam_of_one_is_what_generate_writes_at_temperature_zero() -> None:
    model = entry("llama")
    written = generate(model, SOURCES, SamplingSettings(temperature=0, max_tokens=8))
    found = search(model, SOURCES, SearchSettings(beam=1, max_length=8))
    assert [of_one[0].tokens for of_one in found] == written
    assert not any(of_one[0].ended for of_one in found)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("beam", [1, 4])
def test_neither_the_batch_nor_the_order_changes_a_result(name: str, beam: int) -> None:
    model, given = entry(name).float(), given_to(name)
    try:
        settings = SearchSettings(beam=beam, n_best=beam, max_length=8)
        together = search(model, **given, settings=settings, end=END)
        order = [3, 0, 4, 2, 1]
        turned = {
            "prompts": [given["prompts"][i] for i in order],
            "inputs": {key: [ids[i] for i in order] for key, ids in given.get("inputs", {}).items()},
        }
        for place, of_one in zip(order, search(model, **turned, settings=settings, end=END), strict=True):
            same(of_one, together[place])
        small = settings.model_copy(update={"batch_tokens": 1})  # every sentence a batch of its own
        for of_one, expected in zip(search(model, **given, settings=small, end=END), together, strict=True):
            same(of_one, expected)
    finally:
        entry.cache_clear()


@cache
def everything(name: str, most: int) -> list[tuple[list[int], float]]:
    """Every text of up to `most` of the tokens 0, 1 and 3, with its log probability, the end's included."""
    model = entry(name, vocab=4)
    prompt, inputs = ([1], {"source": [3, 0, 1]}) if name == "vaswani" else ([3, 0, 1], {})
    logs: dict[tuple[int, ...], list[float]] = {}
    found = []
    for length in range(most + 1):
        texts = list(itertools.product([0, 1, 3], repeat=length))
        logs |= zip(texts, logs_of_all(model, prompt, inputs, [*map(list, texts)]).tolist(), strict=True)
        for tokens in texts:
            total = sum(logs[tokens[:place]][token] for place, token in enumerate([*tokens, END]))
            found.append((list(tokens), total))
    assert len(found) == 121
    return found


@pytest.mark.parametrize("penalty", ["gnmt", "average"])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("name", ["vaswani", "llama"])
def test_a_wide_beam_finds_the_best_of_all_sequences(name: str, penalty: str, alpha: float) -> None:
    settings = SearchSettings(beam=200, n_best=20, max_length=4, penalty=penalty, alpha=alpha)
    of_all = [Hypothesis(t, p, p / settings.divisor(len(t) + 1), True) for t, p in everything(name, 4)]
    of_all.sort(key=lambda h: -h.score)
    prompt, inputs = ([1], {"source": [[3, 0, 1]]}) if name == "vaswani" else ([3, 0, 1], {})
    same(search(entry(name, vocab=4), [prompt], settings, end=END, inputs=inputs)[0], of_all[:20])


def test_all_there_is_is_returned_where_that_is_less_than_n_best() -> None:
    found = search(entry("llama", vocab=4), [[1]], SearchSettings(beam=50, n_best=50, max_length=1), end=END)[0]
    assert sorted(h.tokens for h in found) == [[], [0], [1], [3]]


@pytest.mark.parametrize("beam", [1, 4])
def test_lengths_are_obeyed(beam: int) -> None:
    model = entry("vaswani")
    given: dict[str, Any] = {"prompts": [[BEGIN]] * len(SOURCES), "inputs": {"source": SOURCES}, "end": END}
    for low, high in [(0, 1), (3, 3), (2, 6)]:
        settings = SearchSettings(beam=beam, n_best=beam, min_length=low, max_length=high, alpha=0)
        lengths = {len(h.tokens) for of_one in search(model, settings=settings, **given) for h in of_one}
        assert min(lengths) >= low and max(lengths) <= high
    # never ending by itself: the greatest length is reached, and is each sentence's own
    ratio = SearchSettings(beam=beam, min_length=2, max_ratio=1.5, max_length=9)
    never = Never(model)
    found = search(never, settings=ratio, **given)
    assert [len(of_one[0].tokens) for of_one in found] == [7, 2, 4, 9, 3]
    assert all(of_one[0].ended for of_one in found)
    found = search(never, settings=SearchSettings(beam=beam, max_ratio=0.1), **given)
    assert [len(of_one[0].tokens) for of_one in found] == [1] * 5


class Never:
    """A model that ends only where it must."""

    context_limit = None

    def __init__(self, model: Transformer) -> None:
        self.model, self.start = model, model.start

    def step(self, tokens: torch.Tensor, decoding: Any, new: torch.Tensor | None = None) -> torch.Tensor:
        logits = self.model.step(tokens, decoding, new=new)
        logits[..., END] = -50.0
        return logits


@pytest.mark.parametrize("n", [1, 2, 3])
def test_blocked_ngrams_stand_once(n: int) -> None:
    model = entry("t5")
    settings = SearchSettings(beam=3, n_best=3, block_ngrams=n, min_length=8, max_length=8)
    given: dict[str, Any] = {"prompts": [[BEGIN]] * len(SOURCES), "inputs": {"source": SOURCES}, "end": END}
    for of_one in search(model, settings=settings, **given):
        for h in of_one:
            grams = [tuple(h.tokens[i : i + n]) for i in range(len(h.tokens) - n + 1)]
            assert len(grams) == len(set(grams))


def test_a_text_that_cannot_go_on_is_refused() -> None:
    settings = SearchSettings(beam=2, block_ngrams=1, min_length=5, max_length=6)
    with pytest.raises(InputError, match=r"sentence 0: no token is left .* block_ngrams \(1\)"):
        search(entry("llama", vocab=4), [[1]], settings, end=END)


@pytest.mark.parametrize("name", KINDS)
def test_a_prefix_is_kept_and_counts(name: str) -> None:
    model, given = entry(name), given_to(name)
    prefixes = [[7, 7], [], [3], [10, 4, 6], [9]]
    settings = SearchSettings(beam=3, n_best=3, max_length=5, block_ngrams=2)
    found = search(model, **given, settings=settings, end=END, prefixes=prefixes)
    for number, (prefix, of_one) in enumerate(zip(prefixes, found, strict=True)):
        inputs = {key: ids[number] for key, ids in given.get("inputs", {}).items()}
        for h in of_one:
            assert h.tokens[: len(prefix)] == prefix and len(h.tokens) <= 5
            total = 0.0
            for place, token in enumerate([*h.tokens, END]):
                total += logs_of(model, given["prompts"][number], inputs, h.tokens[:place])[token].item()
            assert h.log_probability == pytest.approx(total, abs=1e-5)
            assert h.score == pytest.approx(total / settings.divisor(len(h.tokens) + 1), abs=1e-5)
            pairs = list(itertools.pairwise(h.tokens))
            assert len(pairs) == len(set(pairs))
    alone = [
        search(
            model,
            [given["prompts"][i]],
            settings,
            end=END,
            prefixes=[prefixes[i]],
            inputs={key: [ids[i]] for key, ids in given.get("inputs", {}).items()},
        )[0]
        for i in range(5)
    ]
    for of_one, expected in zip(found, alone, strict=True):
        same(of_one, expected)


def test_the_best_come_first_and_both_scores_agree() -> None:
    settings = SearchSettings(beam=6, n_best=6, max_length=8, penalty="average", alpha=0.8)
    given = given_to("vaswani")
    for of_one in search(entry("vaswani"), **given, settings=settings, end=END):
        scores = [h.score for h in of_one]
        assert len(of_one) == 6 and scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in of_one}) == 6
        for h in of_one:
            assert h.score == pytest.approx(h.log_probability / (len(h.tokens) + 1) ** 0.8)
            assert END not in h.tokens


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_equal_models_together_are_one(mean: str) -> None:
    given, settings = given_to("vaswani"), SearchSettings(beam=3, n_best=3, max_length=6, ensemble=mean)
    one = search(entry("vaswani"), **given, settings=settings, end=END)
    three = search([entry("vaswani")] * 3, **given, settings=settings, end=END)
    for of_one, of_three in zip(one, three, strict=True):
        same(of_three, of_one)


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_unlike_models_write_by_their_mean(mean: str) -> None:
    pair = [entry("vaswani"), entry("vaswani", seed=4)]
    given, settings = given_to("vaswani"), SearchSettings(beam=3, max_length=5, alpha=0.0, ensemble=mean)
    for source, (h,) in zip(SOURCES, search(pair, **given, settings=settings, end=END), strict=True):
        total = 0.0
        for place, token in enumerate([*h.tokens, END]):
            logs = torch.stack([logs_of(m, [BEGIN], {"source": source}, h.tokens[:place])[token] for m in pair])
            total += (logs.mean() if mean == "log-probabilities" else logs.exp().mean().log()).item()
        assert h.log_probability == pytest.approx(total, abs=1e-6)


CAPTIONS = """
language: 1
name: captions
depth: 2
width: 16
heads: 2
vocab: 11
encoder:
  causal: false
  before: x = patches(image, 4)
  layer: x = norm(x + attention(x))
decoder:
  before: x = embed.words(tokens) + sinusoids(tokens)
  layer: |
    x = norm(x + attention(x))
    x = norm(x + attention(x, memory))
output: logits = unembed.words(x)
"""


def test_images_are_described() -> None:
    read = next(iter(read_documents(CAPTIONS)))
    model = build(check(read, words.vocabulary()), seed=0, dtype=torch.float64).eval()
    images = list(torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    settings = SearchSettings(beam=3, n_best=2, max_length=5)
    found = search(model, [[BEGIN]] * 4, settings, end=END, inputs={"image": images})
    for image, of_one in zip(images, found, strict=True):
        same(of_one, search(model, [[BEGIN]], settings, end=END, inputs={"image": [image]})[0])
        for h in of_one:
            given = torch.tensor([[BEGIN, *h.tokens]])
            with torch.no_grad():
                logs = model(tokens=given, image=image[None])[0].log_softmax(-1)
            total = sum(logs[place, token].item() for place, token in enumerate([*h.tokens, END]))
            assert h.log_probability == pytest.approx(total, abs=1e-6)
    with pytest.raises(InputError, match="set max_length"):
        search(model, [[BEGIN]], SearchSettings(max_ratio=1), end=END, inputs={"image": images[:1]})


def test_several_tokens_may_end_a_text() -> None:
    model, given = entry("vaswani"), given_to("vaswani")
    found = search(model, **given, settings=SearchSettings(beam=4, n_best=4, max_length=6), end=[END, 5])
    assert not any({END, 5} & set(h.tokens) for of_one in found for h in of_one)
    assert all(h.ended for of_one in found for h in of_one)


def test_equals_are_taken_by_rule() -> None:
    class Flat(Toy):
        def logits_of(self, text: list[int]) -> torch.Tensor:
            return torch.zeros(self.vocab)

    found = search(Flat(), [[3], [4]], SearchSettings(beam=3, n_best=3, max_length=2))
    assert [[h.tokens for h in of_one] for of_one in found] == [[[0, 0], [0, 1], [0, 2]]] * 2


def test_finished_rows_leave_and_prompts_are_read_once() -> None:
    model = Toy()
    search(model, [[1, 2, 3], [4], [5, 6]], SearchSettings(beam=4, max_length=6), end=0)
    assert model.reads[0] == (3, 3)  # a row for each sentence, not for each hypothesis
    assert max(model.steps) <= 12 and model.steps == sorted(model.steps, reverse=True)


def test_a_search_ends_where_nothing_can_win() -> None:
    class Sure(Toy):
        """Ends at once, almost surely."""

        def logits_of(self, text: list[int]) -> torch.Tensor:
            return super().logits_of(text) + 20 * torch.nn.functional.one_hot(torch.tensor(0), self.vocab)

    model = Sure()
    found = search(model, [[1, 1]], SearchSettings(beam=4, max_length=50), end=0)
    assert found[0][0].tokens == [] and model.steps == []


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_early_stopping_ends_a_search_sooner_and_no_later(alpha: float) -> None:
    class Likely(Toy):
        """May end at each step, and goes on surely where it does not."""

        def logits_of(self, text: list[int]) -> torch.Tensor:
            logits = torch.full((self.vocab,), -9.0)
            logits[0], logits[2 + len(text) % 2] = 0.0, 0.0
            return logits

    steps, scores = {}, {}
    for early in (False, True):
        model = Likely()
        settings = SearchSettings(beam=2, max_length=12, penalty="average", alpha=alpha, early_stopping=early)
        scores[early] = search(model, [[1, 1]], settings, end=0)[0][0].score
        steps[early] = len(model.steps)
    if alpha:  # what goes on is longer, and comes to a better score
        assert steps[True] < steps[False] and scores[True] < scores[False]
    else:
        assert steps[True] == steps[False] and scores[True] == scores[False]


@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_batches_keep_to_their_budget(budget: int) -> None:
    model = Toy()
    prompts = [[3] * length for length in (5, 1, 4, 2, 3, 6, 2)]
    found = search(model, prompts, SearchSettings(beam=2, max_length=3, batch_tokens=budget), end=0)
    assert all(rows * 2 * length <= budget or rows == 1 for rows, length in model.reads)
    assert found == [search(Toy(), [prompt], SearchSettings(beam=2, max_length=3), end=0)[0] for prompt in prompts]


def test_a_batch_has_a_greatest_number_of_rows() -> None:
    model = Toy()
    search(model, [[3]] * 7, SearchSettings(beam=400, max_length=1, batch_tokens=10**9), end=0)
    assert [max(rows for rows in model.steps)] == [(MAX_ROWS // 400) * 16]


def test_learned_positions_bound_the_length() -> None:
    model = Toy(limit=6)
    found = search(model, [[1, 2], [3]], SearchSettings(beam=2, max_ratio=None), end=None)
    assert [len(of_one[0].tokens) for of_one in found] == [5, 6]
    with pytest.raises(InputError, match="sentence 0: a prompt of 2 tokens and 9 new ones .* at most 5"):
        search(model, [[1, 2]], SearchSettings(max_length=9))
    with pytest.raises(InputError, match="shorten the prompt"):
        search(model, [[1] * 6], SearchSettings(), end=0)


def test_a_model_in_training_stays_so() -> None:
    model = entry("vaswani", dropout=0.5).train()
    given, settings = given_to("vaswani"), SearchSettings(beam=2, max_length=4)
    assert search(model, **given, settings=settings, end=END) == search(model, **given, settings=settings, end=END)
    assert model.training


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prompts": [[]]}, "sentence 0: its prompt is empty"),
        ({"prompts": [[1]], "inputs": {"source": []}}, "1 prompts, but 0 of source"),
        ({"prompts": [[1]], "inputs": {"source": [[]]}}, "sentence 0: its source is empty"),
        ({"prompts": [[1]], "prefixes": [[3, END]]}, "stands in its prefix"),
        ({"prompts": [[1]], "prefixes": [[3] * 5], "settings": SearchSettings(max_length=4)}, "a prefix of 5 tokens"),
        ({"prompts": [[1]], "settings": SearchSettings(max_ratio=2)}, "set max_length"),
        ({"models": [], "prompts": [[1]]}, "needs a model"),
        ({"models": [Toy(5), Toy(6)], "prompts": [[1]]}, "one vocabulary; these have 5, 6 tokens"),
    ],
)
def test_what_cannot_be_searched_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        search(**{"models": Toy(), "end": END, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_best": 3, "beam": 2}, "make the beam larger"),
        ({"min_length": 3, "max_length": 2}, "more than max_length"),
        ({"alpha": -1}, "greater than or equal to 0"),
        ({"penalty": "wu"}, "gnmt"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SearchSettings.read(given)


def test_the_formula_of_a_score_is_said() -> None:
    assert SearchSettings().formula == "sum of log p / ((5 + l) / 6)^0.6"
    assert SearchSettings(penalty="average", alpha=1).formula == "sum of log p / l^1"
    assert SearchSettings(alpha=0).formula == "sum of log p"
    assert SearchSettings(alpha=2).divisor(7) == pytest.approx(4)
    assert SearchSettings(penalty="average", alpha=2).divisor(7) == pytest.approx(49)


def test_nothing_to_search_is_nothing_found() -> None:
    assert search(Toy(), [], end=END) == []


def test_what_has_ended_takes_no_place_of_the_beam() -> None:
    """A text that ends at once leaves two that go on: the second of them becomes the best."""
    next_of = {
        (): {1: 0.6, 0: 0.2, 4: 0.05}, (1,): {2: 0.5, 3: 0.45}, (1, 2): {2: 0.3, 1: 0.3, 0: 0.1}, (1, 3): {0: 0.99},
    }  # fmt: skip

    class Stated(Toy):
        def logits_of(self, text: list[int]) -> torch.Tensor:
            stated = next_of.get(tuple(text[1:]), {})
            rest = (1 - sum(stated.values())) / (self.vocab - len(stated))
            return torch.tensor([stated.get(token, rest) for token in range(self.vocab)]).log()

    best = search(Stated(), [[5]], SearchSettings(beam=2, alpha=0, max_length=4), end=0)[0][0]
    assert best.tokens == [1, 3] and best.log_probability == pytest.approx(math.log(0.6 * 0.45 * 0.99), abs=1e-5)


@pytest.mark.parametrize("name", ["vaswani", "llama"])
def test_a_beam_that_holds_all_that_go_on_is_exact_without_penalty(name: str) -> None:
    best = max(total for _, total in everything(name, 4))
    prompt, inputs = ([1], {"source": [[3, 0, 1]]}) if name == "vaswani" else ([3, 0, 1], {})
    settings = SearchSettings(beam=82, max_length=4, alpha=0)  # 81 texts of four tokens, and the best that ends
    found = search(entry(name, vocab=4), [prompt], settings, end=END, inputs=inputs)[0][0]
    assert found.log_probability == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_tokens_that_are_ruled_out_are_not_written(name: str) -> None:
    """A greedy text is that of whole passes without these tokens; of a beam the log probabilities are the model's."""
    model, given, several = entry(name), given_to(name), SearchSettings(beam=4, n_best=4, max_length=6)
    free = [found.tokens for each in search(model, **given, settings=several, end=END) for found in each]
    never, first = sorted({token for tokens in free for token in tokens})[:2], [free[0][0], END]
    ruled = {"end": END, "never": never, "never_first": first}
    ours = search(model, **given, settings=SearchSettings(beam=1, max_length=6), **ruled)
    beams = search(model, **given, settings=several, **ruled)
    for number, prompt in enumerate(given["prompts"]):
        inputs = {key: each[number] for key, each in given.get("inputs", {}).items()}
        written: list[int] = []
        while len(written) < 6 and END not in written:
            logs = logs_of(model, prompt, inputs, written)
            logs[never + ([] if written else first)] = -math.inf
            written.append(int(logs.argmax()))
        assert ours[number][0].tokens == [token for token in written if token != END]
        for found in beams[number]:
            assert found.tokens[0] not in first and not {*never} & {*found.tokens}
            tokens = [*found.tokens, END]
            total = sum(float(logs_of(model, prompt, inputs, tokens[:n])[token]) for n, token in enumerate(tokens))
            assert found.log_probability == pytest.approx(total, abs=1e-5)
