"""Continuous batching: texts join and leave the batch at every step, whatever the formula is.

    batch = RunningBatch(model)
    batch.add(TextRequest(tokens, settings, most=100, on_token=..., on_end=...))
    while batch.advance():
        ...

A text has its own settings and its own random state, so it does not depend on the texts beside it. Rows of the batch
are places: a text that is done frees its place, and the next one's states are copied there. Prompts are read a piece at
a time, so that running texts wait for at most one piece; what a prompt has in common with texts that were read before
is copied (`prefixes`).
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..engine.kinds import LARGEST
from ..errors import InputError
from .decoding import Constraint, seen_in
from .held_rows import size_for
from .prefixes import SHORTEST, PrefixCache, PrefixSource, common
from .sampling import choose
from .settings import SamplingSettings
from .steps import Decoder, burst_of, burst_size, device_of, last_logits, logits_of, not_finite, pad_ids, step_model

PIECE = 512  # tokens of prompts that are read between two steps of the running texts
FIRST_CAPACITY = 256  # positions that there is room for at first; they double as texts grow
STEPS_TO_SHRINK = 16  # that a smaller batch would have done, before it is made
MOST_COMPARED = 64  # waiting prompts among which a common beginning is looked for


class Token(NamedTuple):
    """A token that was chosen; log p of it and of the most likely ones, by the model alone, where they are wanted."""

    id: int
    log_probability: float = 0.0
    top_logprobs: Sequence[tuple[int, float]] = ()


@dataclass(eq=False)
class TextRequest:
    """A text that is wanted.

    tokens      of the prompt, at least one; what is written is added
    settings    how tokens are drawn; the seed is that of the text alone
    most        tokens that are written at most
    on_token    told of each token; whether the text ends with it
    on_end      told once, of the error that ended the text, if one did
    top_logprobs  how many of the most likely tokens are told with each token, with log p; None: no log p at all
    bias        added to the logits of tokens, by their ids
    presence    taken from the logits of tokens that were written
    frequency   and, for each time that they were
    constraint  which tokens may come
    """

    tokens: list[int]
    settings: SamplingSettings
    most: int
    on_token: Callable[[Token], bool]
    on_end: Callable[[Exception | None], None]
    top_logprobs: int | None = None
    bias: Mapping[int, float] = field(default_factory=dict)
    presence: float = 0.0
    frequency: float = 0.0
    constraint: Constraint | None = None
    canceled: bool = False

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)
        self.random = torch.Generator().manual_seed(self.settings.seed)
        self.reused = 0  # tokens of the prompt that were not read again
        changed = self.bias or self.presence or self.frequency or self.constraint is not None
        penalized = self.settings.repetition_penalty != 1.0
        # the most likely token is written, and nothing else is wanted
        self.plain = self.settings.temperature == 0 and not (changed or penalized) and self.top_logprobs is None

    @property
    def written(self) -> list[int]:
        return self.tokens[self.prompt :]

    @property
    def drawing(self) -> tuple[Any, ...]:
        """What texts have in common whose tokens can be drawn together."""
        s = self.settings
        return (s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty)


class Ended(NamedTuple):
    """A text that came to its end, or to an error."""

    request: TextRequest
    error: Exception | None = None


@dataclass(eq=False)
class Reading:
    """Prompts that are being read, in a decoding of their own. `prefix`: not a prompt but what several begin with."""

    requests: list[TextRequest]
    decoding: Any
    left: list[list[int]]
    prefix: list[int] | None = None


class RunningBatch:
    """Texts that are written together by one model, within `torch.inference_mode`. Not for several threads.

    most_rows      texts that are written at a time
    prefix_bytes   memory for the states of prompts; 0: none are kept
    steps          how many steps were made, `rows` of how many texts they were in all, `read` tokens of prompts
    """

    def __init__(self, model: Decoder, *, most_rows: int = 32, prefix_bytes: int = 256 << 20) -> None:
        self.model, self.most_rows, self.device = model, most_rows, device_of(model)
        self.prefixes = PrefixCache(prefix_bytes)
        self.waiting: deque[TextRequest] = deque()
        self.reading: Reading | None = None
        self.places: list[TextRequest | None] = []
        self.decoding: Any = None
        self.steps = self.rows = self.read = 0
        self._loose = 0  # steps in a row that a smaller batch would have done
        self._vocab = 0
        self._greedy = burst_of(model)
        self._pace = math.inf  # seconds that the last step took

    def add(self, request: TextRequest) -> None:
        self.waiting.append(request)

    @property
    def live(self) -> list[TextRequest]:
        return [each for each in self.places if each is not None]

    def advance(self) -> bool:
        """Read a piece of prompts, make a step of all running texts. Whether something is left to do."""
        self._drop_canceled()
        if self.reading is None and self.waiting:
            self._begin()
        if self.reading is not None:
            self._read_on(self.reading)
        if self.live:
            self._step()
        return bool(self.waiting or self.reading or self.live)

    def end_all(self, error: Exception) -> None:
        """End every text with an error, and begin with an empty batch."""
        requests = [*self.live, *(self.reading.requests if self.reading else ()), *self.waiting]
        self.waiting.clear()
        self.reading, self.places, self.decoding = None, [], None
        for request in requests:
            request.on_end(error)

    def _drop_canceled(self) -> None:
        for request in [each for each in self.waiting if each.canceled]:
            self.waiting.remove(request)
            request.on_end(None)
        self._leave([Ended(each) for each in self.live if each.canceled])

    # Prompts ---------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Begin to read as many prompts as there are places for and as make a piece; or, alone, what several begin
        with."""
        free = self.most_rows - len(self.live)
        if free < 1:
            return
        chosen: list[tuple[TextRequest, PrefixSource | None]] = []
        for request in list(self.waiting)[:free]:
            ids = np.array(request.tokens)
            source, overlap = self.prefixes.find(ids, self._running())
            known = 0 if source is None else source.length
            if not chosen and self.prefixes.most_bytes:
                others = list(self.waiting)[1:MOST_COMPARED]
                shared = max((common(ids, np.array(each.tokens)) for each in others), default=0)
                shared = min(max(shared, overlap), len(ids) - 1)
                if max(SHORTEST, known + SHORTEST // 2) <= shared < self.prefixes.too_long:
                    tokens = request.tokens[:shared]
                    self.reading = Reading([], *self._start([(tokens, source)]), prefix=tokens)
                    return
            longest = max(len(ids) - known, *(len(r.tokens) - (s.length if s else 0) for r, s in chosen), 0)
            if chosen and longest * (len(chosen) + 1) > PIECE:
                break
            chosen.append((request, source))
        for request, source in chosen:
            self.waiting.popleft()
            request.reused = 0 if source is None else source.length
            self.prefixes.hits += request.reused
        self.reading = Reading([r for r, _ in chosen], *self._start([(r.tokens, s) for r, s in chosen]))

    def _running(self) -> list[tuple[np.ndarray, Any, int]]:
        """Texts that are being written, whose states a prompt can go on from."""
        rows = enumerate(self.places if self.prefixes.most_bytes else ())
        return [(np.array(each.tokens[:-1]), self.decoding, place) for place, each in rows if each is not None]

    def _start(self, texts: Sequence[tuple[list[int], PrefixSource | None]]) -> tuple[Any, list[list[int]]]:
        """A decoding of texts that stands where what was read before ends, and what is left to read of each."""
        decoding = self.model.start(len(texts), self._capacity(max(len(tokens) for tokens, _ in texts)))
        for place, (_, source) in enumerate(texts):
            if source is not None:
                decoding.put([place], source.decoding, [source.row], [source.length])
        return decoding, [tokens[source.length if source else 0 :] for tokens, source in texts]

    def _read_on(self, reading: Reading) -> None:
        """Read a piece of some prompts; when they are read, their texts join the others."""
        now = [ids[:PIECE] for ids in reading.left]
        reading.left = [ids[PIECE:] for ids in reading.left]
        self.read += sum(map(len, now))
        tokens, new = pad_ids(now, self.device)
        outputs = step_model(self.model, tokens, reading.decoding, new, last=True)
        if any(reading.left):
            return
        self.reading = None
        if reading.prefix is not None:
            self.prefixes.keep(self.model, reading.prefix, reading.decoding, 0)
            return
        logits = last_logits(logits_of(self.model, outputs), now)
        ended = self._choose(reading.requests, logits)
        if not reading.decoding.rewindable:  # what is kept at the end of a text is no beginning of another
            for row, request in enumerate(reading.requests):
                self.prefixes.keep(self.model, request.tokens[: request.prompt], reading.decoding, row)
        for one in ended:
            one.request.on_end(one.error)
        done = [one.request for one in ended]
        rows = [row for row, request in enumerate(reading.requests) if request not in done]
        if rows:
            self._seat([reading.requests[row] for row in rows], reading.decoding, rows)

    # Places ----------------------------------------------------------------------------------------------------------

    def _seat(self, requests: Sequence[TextRequest], decoding: Any, rows: Sequence[int]) -> None:
        """Give rows of another decoding places among the running texts."""
        if not self.places and len(rows) == decoding.batch == size_for(len(rows)):  # these become the running ones
            decoding.set_apart(len(rows) > 1)
            self.decoding, self.places, self._loose = decoding, list(requests), 0
            return
        size, longest = size_for(len(self.live) + len(rows)), max(decoding.sizes[row] for row in rows) + 1
        if size > len(self.places) or longest > self.decoding.capacity:
            self._move(max(size, len(self.places)), longest)
        free = [place for place, each in enumerate(self.places) if each is None][: len(rows)]
        self.decoding.put(free, decoding, rows)
        for place, request in zip(free, requests, strict=True):
            self.places[place] = request

    def _move(self, size: int, longest: int) -> None:
        """Move the running texts into a decoding of so many places and positions at least."""
        before, live = self.decoding, [place for place, each in enumerate(self.places) if each is not None]
        longest = max([longest, *(before.sizes[place] + 1 for place in live)])
        self.decoding = self.model.start(size, self._capacity(longest))
        self.decoding.set_apart(size > 1)
        if live:
            self.decoding.put(range(len(live)), before, live)
        self.places = [self.places[place] for place in live] + [None] * (size - len(live))
        self._loose = 0

    def _capacity(self, longest: int) -> int:
        """Positions to have room for: powers of two, so that programs of few sizes are made."""
        capacity = FIRST_CAPACITY
        while capacity < longest:
            capacity *= 2
        return min(capacity, self.model.context_limit or LARGEST)

    def _leave(self, ended: Sequence[Ended]) -> None:
        """Free the places of texts that have ended."""
        if not ended:
            return
        place_of = {each: place for place, each in enumerate(self.places) if each is not None}
        for request, error in ended:
            if error is None and self.decoding.rewindable:
                self.prefixes.keep(self.model, request.tokens[:-1], self.decoding, place_of[request])
            self.places[place_of[request]] = None
        self.decoding.free([place_of[one.request] for one in ended])
        for request, error in ended:
            request.on_end(error)
        if not self.live:
            self.decoding, self.places = None, []

    # Steps -----------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Write one token of every running text. What Python does here counts: a small model's step takes 2 ms."""
        live = [place for place, each in enumerate(self.places) if each is not None]
        if len(live) == len(self.places) or self.waiting or self.reading:
            self._loose = 0
        else:
            self._loose += size_for(len(live)) < len(self.places)
        if self._loose > STEPS_TO_SHRINK:
            self._move(size_for(len(live)), 0)
            live = [*range(len(live))]
        if self.decoding.longest + 1 > self.decoding.capacity:
            self._move(len(self.places), self.decoding.longest + 1)
            live = [place for place, each in enumerate(self.places) if each is not None]
        ids = [[0 if each is None else each.tokens[-1]] for each in self.places]
        tokens = torch.tensor(ids, device=self.device)
        begun, before = time.perf_counter(), self.steps
        if not self._write_burst(tokens, live):
            logits = logits_of(self.model, step_model(self.model, tokens, self.decoding))[:, -1]
            self.steps, self.rows = self.steps + 1, self.rows + len(live)
            self._leave(self._choose(self.live, logits if len(live) == len(self.places) else logits[live]))
        self._pace = (time.perf_counter() - begun) / (self.steps - before)

    def _write_burst(self, tokens: Tensor, live: Sequence[int]) -> bool:
        """Write several tokens of every running text after `tokens` (places, 1), where each is the most likely one and
        nothing waits: what Python does between steps is then done once. Whether they were written."""
        requests = self.live
        count = burst_size(self._pace, (one.prompt + one.most - len(one.tokens) for one in requests))
        if count < 2 or self._greedy is None or self.waiting or self.reading or not all(one.plain for one in requests):
            return False
        burst = self._greedy(tokens, self.decoding, count, self._vocab)
        if burst is None:
            return False
        ids, logs = (each[live].tolist() for each in burst)
        ended = []
        for request, row, its_logs in zip(requests, ids, logs, strict=True):
            for token, log in zip(row, its_logs, strict=True):
                error = None if math.isfinite(log) else not_finite([self.model], len(request.written))
                self.rows += 1
                if error is not None or add(request, token, None):
                    ended.append(Ended(request, error))
                    break
        self.steps += burst[0].shape[1]
        self._leave(ended)
        return True

    def _choose(self, requests: Sequence[TextRequest], logits: Tensor) -> list[Ended]:
        """Write the next token of each text, by logits (texts, vocab), which are changed; those that end."""
        best, self._vocab = logits.max(-1), logits.shape[-1]
        finite = [math.isfinite(most) for most in best.values.tolist()]
        if all(finite) and all(request.plain for request in requests):
            chosen = zip(requests, best.indices.tolist(), strict=True)
            return [Ended(request) for request, token in chosen if add(request, token, None)]
        ended = [
            Ended(request, not_finite([self.model], len(request.written)))
            for request, whole in zip(requests, finite, strict=True)
            if not whole
        ]
        logs, groups = {}, dict[Any, list[int]]()
        for row, request in enumerate(requests):
            if finite[row]:
                logs[row] = None if request.top_logprobs is None else logits[row].float().log_softmax(-1)
                try:
                    adjust(request, logits[row])
                except InputError as error:  # of a form that no token can go on with
                    ended.append(Ended(request, error))
                else:
                    groups.setdefault(request.drawing, []).append(row)
        for members in groups.values():
            some = logits if len(members) == len(requests) else logits[members]
            texts = [requests[row] for row in members]
            settings = texts[0].settings
            seen = None if settings.repetition_penalty == 1.0 else seen_in([each.tokens for each in texts], some)
            tokens = choose(some, settings, [each.random for each in texts], seen).tolist()
            for row, request, token in zip(members, texts, tokens, strict=True):
                try:
                    if add(request, token, logs[row]):
                        ended.append(Ended(request))
                except InputError as error:
                    ended.append(Ended(request, error))
        return ended


def add(request: TextRequest, token: int, logs: Tensor | None) -> bool:
    """Add a token to a text; whether it ends with it. logs (vocab,): of log p, where they are wanted."""
    request.tokens.append(token)
    told = Token(token)
    if logs is not None:
        values, ids = logs.topk(min(request.top_logprobs or 0, len(logs)))
        told = Token(token, float(logs[token]), list(zip(ids.tolist(), values.tolist(), strict=True)))
    ends = request.on_token(told)
    complete = request.constraint is not None and request.constraint.take(token)
    return ends or complete or len(request.tokens) - request.prompt >= request.most


def adjust(request: TextRequest, logits: Tensor) -> None:
    """Change the logits (vocab,) of a text's next token in place, as was asked for with it."""
    for token, added in request.bias.items():
        logits[token] += added
    if request.presence or request.frequency:
        for token, count in Counter(request.written).items():
            logits[token] -= request.presence + request.frequency * count
    if request.constraint is not None:
        request.constraint.rule_out(logits)
