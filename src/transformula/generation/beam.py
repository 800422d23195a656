"""Beam search, on token ids, over any model that is decoded step by step.

A hypothesis is what was written of a sentence so far, with the sum of its log probabilities. At each step every
hypothesis of a sentence is continued by every token. Of all these, those among the `beam` best that end are finished,
and the `beam` best that do not end go on: what is finished takes no place of the beam. A sentence is done

    as soon as none that goes on can still be among the n best: sums only fall, so the best score in reach is the sum so
    far divided by the penalty of the greatest length; to stop there changes nothing
    or when `beam` hypotheses have ended and none that goes on would be among the n best if it ended next; with
    `early_stopping` as soon as `beam` have ended

Without a length penalty these are one, and the best of what the beam reaches is found. A beam of 1 is greedy: it is
done when it ends.

A prompt (or an encoder's input) is read once for all hypotheses of its sentence. Rows that end leave the batch; where
kernels may make the steps, some stay unseen, so that batches have few sizes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..engine import quicken
from ..engine.kinds import AUTO
from ..errors import InputError
from ..model.transformer import Transformer, evaluating
from .candidates import best_continuations, log_probabilities, repeated_ngrams, to_host
from .decoding import USUAL_LENGTH
from .held_rows import HeldRows
from .sentences import Hypothesis, Sentence
from .settings import SearchSettings
from .steps import (
    Burst,
    Decoder,
    burst_of,
    burst_size,
    device_of,
    given_at_start,
    is_ids,
    last_logits,
    logits_of,
    not_finite,
    pad_ids,
    step_model,
)

PADDED = 8  # inputs of unlike lengths are padded to a multiple of it where kernels make steps
MAX_ROWS = 1024  # of a batch (sentences times beam), however short their inputs: what is written makes them longer


def search(
    models: Decoder | Sequence[Decoder],
    prompts: Sequence[Sequence[int]],
    settings: SearchSettings | None = None,
    *,
    end: int | Sequence[int] | None = None,
    inputs: Mapping[str, Sequence[Any]] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    usual: int = USUAL_LENGTH,
    never: Sequence[int] = (),
    never_first: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """The best hypotheses of every sentence, best first, in the order given: at most `settings.n_best` of each.

    models    one, or an ensemble: several of one vocabulary
    prompts   token ids that are read before anything is written, none empty: a text to go on from, or the token that
              begins one
    end       what stops a hypothesis: a token or several. Its probability counts; at the greatest length nothing else
              may follow. None: all go on to the greatest length and are cut there
    inputs    what the models are given once for a sentence, by name: `source`, a list of ids for each, of any lengths;
              `audio`, samples for each, of any lengths; or a tensor for each, all of one shape, such as an image, or
              several (count, channels, height, width)
    prefixes  tokens that each text must begin with; their probabilities count
    usual     most tokens where the settings state no greatest length; fewer where learned positions leave fewer
    never     tokens that no text has; never_first: those with which none begins

    What a sentence gives does not depend on the others. Fewer than n_best are returned where fewer exist.
    Raises InputError, and NotFinite where logits are no numbers.
    """
    settings = settings or SearchSettings()
    together = list(models) if isinstance(models, Sequence) else [models]
    ends = [] if end is None else [end] if isinstance(end, int) else list(end)
    if not together:
        raise InputError("a search needs a model")
    sentences = checked_sentences(together, prompts, settings, ends, inputs or {}, prefixes, usual)
    with torch.inference_mode(), ExitStack() as stack:
        if sentences and settings.weights == AUTO:
            from .weights import with_weights

            texts, begin = [s.prompt + s.prefix for s in sentences], partial(first_tokens, sentences, ends)
            inputs_of = lambda number, device: given_at_start([sentences[number]], device)  # noqa: E731
            settings = with_weights(settings, together, texts, inputs_of, begin)
        asked = settings.engine, settings.weights
        fast = [stack.enter_context(quicken(model, evaluating(model), *asked, brief=True)) for model in together]
        for batch in batches(sentences, settings):
            here = all(each.here for each in fast)
            search_batch([each.model for each in fast], batch, settings, ends, here, (never, never_first))
    return [sentence.best(settings.n_best) for sentence in sentences]


def first_tokens(
    sentences: Sequence[Sentence], ends: Sequence[int], model: Decoder, number: int, text: Sequence[int],
    settings: SearchSettings, count: int,
) -> list[int]:  # fmt: skip
    """The first tokens that a model writes, greedily, of a sentence that begins with a text."""
    greedy = {"beam": 1, "n_best": 1, "min_length": 0, "max_length": count, "max_ratio": None, "block_ngrams": None}
    inputs = {name: [value] for name, value in sentences[number].inputs.items()}
    return search(model, [text], settings.model_copy(update=greedy), end=ends, inputs=inputs)[0][0].tokens


def checked_sentences(
    models: Sequence[Decoder],
    prompts: Sequence[Sequence[int]],
    settings: SearchSettings,
    ends: Sequence[int],
    inputs: Mapping[str, Sequence[Any]],
    prefixes: Sequence[Sequence[int]] | None,
    usual: int,
) -> list[Sentence]:
    """The sentences, checked, each with its greatest length: how many tokens it may have, the end not counted."""
    for name, given in [*inputs.items(), ("prefixes", prefixes)]:
        if given is not None and len(given) != len(prompts):
            raise InputError(f"{len(prompts)} prompts, but {len(given)} of {name}: give one for each sentence")
    limit = min((m.context_limit for m in models if m.context_limit is not None), default=None)
    sentences = []
    for number, prompt in enumerate(prompts):
        prefix = [] if prefixes is None else list(prefixes[number])
        of_one = {name: given[number] for name, given in inputs.items()}
        ids = {name: len(given) for name, given in of_one.items() if is_ids(given)}
        if not prompt:
            raise InputError(f"sentence {number}: its prompt is empty: give the token that begins a text")
        if 0 in ids.values():
            raise InputError(f"sentence {number}: its {next(n for n in ids if not ids[n])} is empty")
        if any(token in ends for token in prefix):
            raise InputError(f"sentence {number}: the token that ends it stands in its prefix")
        most = settings.most_tokens(ids.get("source", max(ids.values(), default=0)), usual)
        if limit is not None:
            most = room_for(limit, number, len(prompt), most, settings, bool(ends))
        if len(prefix) > most:
            what = f"sentence {number}: a prefix of {len(prefix)} tokens"
            raise InputError(f"{what}, where at most {most} may be written")
        size = max([len(prompt) + len(prefix), *ids.values()])
        sentences.append(Sentence(number, list(prompt), prefix, of_one, size, most))
    return sentences


def room_for(limit: int, number: int, prompt: int, most: int, settings: SearchSettings, with_end: bool) -> int:
    """How many of `most` tokens fit in the learned positions after a prompt."""
    room = limit - prompt + (not with_end)  # all but the last token is read again
    required = max(1, settings.min_length)
    if settings.max_ratio is None:
        required = max(required, settings.max_length or 1)
    if required > room:
        remedy = f"set max_length to at most {room}" if room >= 1 else "shorten the prompt"
        what = f"sentence {number}: a prompt of {prompt} tokens and {required} new ones do not fit in the {limit}"
        raise InputError(f"{what} positions that this model has learned: {remedy}")
    return min(most, room)


def batches(sentences: Sequence[Sentence], settings: SearchSettings) -> Iterator[list[Sentence]]:
    batch: list[Sentence] = []
    for sentence in sorted(sentences, key=lambda s: (-s.size, -len(s.prompt), s.number)):
        rows = (len(batch) + 1) * settings.beam
        if batch and (rows * batch[0].size > settings.batch_tokens or rows > MAX_ROWS):
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def search_batch(
    models: Sequence[Decoder], batch: list[Sentence], settings: SearchSettings, ends: Sequence[int],
    kernels: bool = False, never: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> None:  # fmt: skip
    """Search for the sentences of one batch: their `ended` is filled. `kernels`: whether these may make steps, so that
    rows are held; `never`: tokens that are not written, and those that are not first."""
    decodings, logits = read_prompts(models, batch, bool(ends), kernels)
    device = logits[0].device
    stops, *ruled = (torch.tensor(list(ids), dtype=torch.long, device=device) for ids in (ends, *never))
    for sentence, total in zip(batch, sums_of_prefixes(batch, logits, settings), strict=True):
        text: Any = None
        for token in sentence.prefix:
            text = (text, token)
        sentence.beam, sentence.length = [(total, text)], len(sentence.prefix)
    now = [last_logits(x, [s.prompt + s.prefix for s in batch]) for x in logits]
    del logits  # of a long prompt they are large
    written = None
    if settings.block_ngrams is not None:
        longest = max(len(s.prefix) for s in batch)
        texts = [[-1] * (longest - len(s.prefix)) + s.prefix for s in batch]
        written = torch.tensor(texts, dtype=torch.long, device=device).view(len(batch), longest)
    held, pace, vocab = HeldRows(batch, kernels), math.inf, now[0].shape[1]
    alone = kernels and len(models) == 1 and settings.beam == 1 and written is None and not any(never)
    burst = burst_of(models[0]) if alone else None
    while True:
        live, own = held.live()
        seen = written if written is None or own is None else written[own]
        candidates = continuations(now, live, settings, stops, seen, kernels, ruled, own)
        if any(math.isnan(of_one[0][0]) for of_one in candidates):  # NaN is sorted before all numbers
            raise not_finite(models, max(sentence.length for sentence, _ in live))
        parents = {s: s.go_on(of_one, ends, settings) for (s, _), of_one in zip(live, candidates, strict=True)}
        if not any(parents.values()):
            return
        chosen, kept = go_on(held, parents, decodings, kernels)
        chosen = chosen.to(device)
        if written is not None:
            written = torch.cat((written if kept is None else written[kept.to(device)], chosen), 1)
        if burst is not None:
            chosen = write_ahead(models[0], burst, decodings[0], held, chosen, settings, ends, vocab, pace)
            if not len(chosen):
                return
        begun = time.perf_counter()
        now = [logits_of(m, step_model(m, chosen, d))[:, -1] for m, d in zip(models, decodings, strict=True)]
        pace = time.perf_counter() - begun


def go_on(
    held: HeldRows, parents: Mapping[Sentence, Sequence[int]], decodings: Sequence[Any], kernels: bool
) -> tuple[Tensor, Tensor | None]:
    """Let every sentence go on from its `parents`: the token that each row reads, (rows, 1), on the host, and which
    rows these are of those before; None: the same."""
    before = sum(map(len, held.slots))
    full = kernels and any(decoding.longest >= decoding.capacity for decoding in decodings)
    rows, tokens = held.go_on(parents, full)
    chosen = torch.tensor(tokens)[:, None]
    if rows == list(range(before)):
        return chosen, None
    kept = torch.tensor(rows)
    for decoding in decodings:
        decoding.select(kept)
    return chosen, kept


def write_ahead(
    model: Decoder, burst: Burst, decoding: Any, held: HeldRows, chosen: Tensor, settings: SearchSettings,
    ends: Sequence[int], vocab: int, pace: float,
) -> Tensor:  # fmt: skip
    """Search greedily, several steps at once, after `chosen` (rows, 1), as long as that is possible: the token that
    each row reads next, (rows, 1), none where all sentences are done.

    pace  seconds of a step
    """
    while True:
        live = [(row, sentence) for row, sentence in enumerate(held.sentences) if sentence.beam]
        early = any(sentence.length < settings.min_length for _, sentence in live)
        count = 0 if early else burst_size(pace, (sentence.most - sentence.length for _, sentence in live))
        begun = time.perf_counter()
        written = burst(chosen, decoding, count, vocab) if count > 1 else None
        if written is None:
            return chosen
        pace = (time.perf_counter() - begun) / written[0].shape[1]
        ids, logs = (each.numpy() for each in written)
        for row, sentence in live:
            total = np.float32(sentence.beam[0][0])
            for token, log in zip(ids[row].tolist(), logs[row], strict=True):
                total += min(log, np.float32(0))  # as `best_continuations` adds
                if np.isnan(total):
                    raise not_finite([model], sentence.length)
                if not sentence.go_on([(float(total), 0, token)], ends, settings):
                    break
        if not any(sentence.beam for _, sentence in live):
            return chosen[:0]
        chosen, _ = go_on(held, {sentence: [0] for _, sentence in live if sentence.beam}, [decoding], True)


def continuations(
    logits: Sequence[Tensor], live: Sequence[tuple[Sentence, list[int]]], settings: SearchSettings, stops: Tensor,
    written: Tensor | None, kernels: bool = False, never: Sequence[Tensor] = (), own: Tensor | None = None,
) -> list[list[tuple[float, int, int]]]:  # fmt: skip
    """The best continuations (sum, slot, token) of each sentence, given with the slots of its rows, that the settings
    allow: with them are the `beam` best that do not end. A beam of 1 needs the best alone.

    never  tokens that are not written, and those that are not first
    own    which rows of the logits are theirs; None: all
    """
    ending = [] if not len(stops) else [s for s, _ in live if s.length < settings.min_length or s.length == s.most]
    restricted = bool(ending) or written is not None or any(map(len, never))
    if own is not None and (restricted or not kernels or len(logits) > 1):
        logits, own = [x[own] for x in logits], None
    choose = chooser(logits, own) if kernels else None
    if own is not None and choose is None:
        logits = [x[own] for x in logits]
    ranking, logs = (logits[0], logits[0]) if choose else log_probabilities(logits, settings.ensemble)
    if restricted:
        ranking = allowed(ranking, live, settings, stops, written, never)
    device = ranking.device
    sums = torch.tensor([s.beam[slot][0] for s, slots in live for slot in slots], dtype=logs.dtype, device=device)
    places = None
    if settings.beam > 1:
        numbers = [n * settings.beam + slot for n, (_, slots) in enumerate(live) for slot in slots]
        places = torch.tensor(numbers, device=device)
    more = len(stops) if settings.beam > 1 else 0
    arguments = (ranking, logs, sums, places, len(live), settings.beam, more)
    found, equals = to_host(*best_continuations(*arguments, choose=choose))
    if equals:  # rare: the places of equals at the border of a row are given by rule
        found, _ = to_host(*best_continuations(*arguments, exact=True))
    return found


def allowed(
    ranking: Tensor, live: Sequence[tuple[Sentence, list[int]]], settings: SearchSettings, stops: Tensor,
    written: Tensor | None, never: Sequence[Tensor],
) -> Tensor:  # fmt: skip
    """What ranks the tokens, -inf for those that the settings rule out: see `continuations`."""
    device, ruled_out = ranking.device, float("-inf")
    for ids, first in zip(never, (False, True), strict=bool(never)):
        ruled = [not first or s.length == len(s.prefix) for s, slots in live for _ in slots]
        if len(ids) and any(ruled):
            ruling = torch.tensor(ruled, device=device)[:, None]
            ranking = torch.where(ruling, ranking.index_fill(1, ids, ruled_out), ranking)
    if len(stops):
        early = [s.length < settings.min_length for s, slots in live for _ in slots]
        late = [row for row, s in enumerate(s for s, slots in live for _ in slots) if s.length == s.most]
        if any(early):
            without = ranking.index_fill(1, stops, ruled_out)
            rows = torch.tensor(early, device=device)[:, None]
            ranking = without if all(early) else torch.where(rows, without, ranking)  # no copy where none can stop
        if late:
            rows = torch.tensor(late, device=device)
            only = ranking.new_full((len(rows), ranking.shape[1]), ruled_out)
            ranking = ranking.index_copy(0, rows, only.index_copy(1, stops, ranking[rows][:, stops]))
    if written is not None:
        assert settings.block_ngrams is not None
        blocked = repeated_ngrams(written, settings.block_ngrams, ranking.shape[1]).index_fill(1, stops, False)
        ranking = ranking.masked_fill(blocked, ruled_out)
    return ranking


def chooser(
    logits: Sequence[Tensor], own: Tensor | None = None
) -> Callable[[Tensor, int], tuple[Tensor, Tensor]] | None:
    """What finds the best tokens of each row, or of its `own`, by kernels; None where they do not."""
    if len(logits) > 1 or logits[0].dtype != torch.float32:
        return None
    from ..engine.build import library
    from ..engine.choosing import best_tokens
    from ..engine.recording import NoProgram

    try:
        library()
    except NoProgram:
        return None
    return lambda ranking, count: best_tokens(ranking, logits[0], count, own)


def read_prompts(
    models: Sequence[Decoder], batch: list[Sentence], with_end: bool, kernels: bool
) -> tuple[list[Any], list[Tensor]]:
    """Every sentence's inputs, prompt and prefix read once: caches of one row a sentence, and logits of each model,
    (sentences, length, vocab), or those behind the prompts alone, (sentences, 1, vocab), where there is no prefix.
    `kernels`: inputs of unlike lengths are padded to a few, of which programs are made."""
    texts = [s.prompt + s.prefix for s in batch]
    # without an end the last token written is not read
    capacity = max(max(map(len, texts)), max(len(s.prompt) + s.most - (not with_end) for s in batch))
    decodings, logits = [], []
    last = not any(s.prefix for s in batch)
    for model in models:
        device = device_of(model)
        length_of = partial(padded_length, model) if kernels else None
        decodings.append(model.start(len(batch), capacity, **given_at_start(batch, device, length_of)))
        chunk, lengths = pad_ids(texts, device)
        logits.append(logits_of(model, step_model(model, chunk, decodings[-1], lengths, last)))
    if len({x.shape[-1] for x in logits}) > 1:
        sizes = ", ".join(str(x.shape[-1]) for x in logits)
        raise InputError(f"the models of an ensemble need one vocabulary; these have {sizes} tokens")
    return decodings, logits


def padded_length(model: Decoder, name: str, longest: int) -> int:
    """A multiple of `PADDED` that an input of so many positions is padded to, where the model has learned as many."""
    limit = model.positions_of(name) if isinstance(model, Transformer) else None
    length = -(-longest // PADDED) * PADDED
    return longest if limit is not None and length > limit else length


def sums_of_prefixes(batch: list[Sentence], logits: Sequence[Tensor], settings: SearchSettings) -> list[float]:
    """The sum of log probabilities of each sentence's prefix, from the logits of the chunk that was read."""
    rows = torch.arange(len(batch), device=logits[0].device)
    total: Any = None
    for place in range(max(len(s.prefix) for s in batch)):
        has = torch.tensor([place < len(s.prefix) for s in batch], device=rows.device)
        at = torch.tensor([len(s.prompt) - 1 + min(place, len(s.prefix)) for s in batch], device=rows.device)
        token = torch.tensor([(s.prefix[place : place + 1] or [0])[0] for s in batch], device=rows.device)
        _, logs = log_probabilities([x[rows, at] for x in logits], settings.ensemble)
        added = logs[rows, token].clamp(max=0) * has
        total = added if total is None else total + added
    return [0.0] * len(batch) if total is None else total.tolist()
