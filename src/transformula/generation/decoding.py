"""Cached step-by-step decoding of several prompts at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..engine import quicken
from ..engine.kinds import AUTO, LARGEST
from ..errors import InputError, setting
from ..model.transformer import evaluating
from .sampling import choose
from .settings import SamplingSettings
from .steps import (
    Decoder,
    burst_of,
    burst_size,
    device_of,
    given_at_start,
    logits_behind,
    logits_of,
    not_finite,
    step_model,
)

if TYPE_CHECKING:
    from .speculation import Guesser

USUAL_LENGTH = 200  # tokens written where neither the user nor the model's positions say how many


class Constraint(Protocol):
    """What of a vocabulary may come next."""

    def rule_out(self, logits: Tensor) -> None:
        """Set the logits (vocab,) of tokens that may not come next to -inf, in place."""

    def take(self, token: int) -> bool:
        """Note the token that was chosen; whether the text ends with it."""


@dataclass(eq=False)
class TextRow:
    """One text in the making, of at most `most` new tokens. `tokens[begin:]` is what the model's caches hold, but for
    the last."""

    number: int
    tokens: list[int]
    prompt: int
    most: int
    random: torch.Generator
    constraint: Constraint | None = None
    begin: int = 0
    done: bool = False
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def written(self) -> list[int]:
        return self.tokens[self.prompt :]

    def add(
        self, token: int, finished: Callable[[int, list[int]], bool] | None, on_token: Callable[[int, int], None] | None
    ) -> None:
        self.tokens.append(token)
        if on_token is not None:
            on_token(self.number, token)
        complete = self.constraint is not None and self.constraint.take(token)
        self.done = complete or len(self.tokens) - self.prompt >= self.most or bool(
            finished and finished(self.number, self.written)
        )


def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    settings: SamplingSettings | None = None,
    *,
    seed: int | None = None,
    draft: Decoder | None = None,
    most: Sequence[int] | None = None,
    finished: Callable[[int, list[int]], bool] | None = None,
    on_token: Callable[[int, int], None] | None = None,
    constraints: Sequence[Constraint] | None = None,
    inputs: Mapping[str, Sequence[Any]] | None = None,
) -> list[list[int]]:
    """Continue every prompt; return what was written for each, without the prompt.

    prompts   token ids, of any lengths, none empty
    seed      instead of the settings'. Row r draws from the stream of seed + r: its text is what the prompt gives alone
              under that seed, whatever else is in the batch
    draft     a smaller model of the same tokens, which guesses `settings.speculate` of them; see speculation.py
    most      new tokens of each row at most, which the model's positions hold; by default the settings' for all
    finished  (row, tokens written so far) -> whether this text ends here; its last token is returned too
    on_token  (row, token), as each is chosen: for streaming
    constraints  what may come next in each row; not beside `settings.speculate`
    inputs    what the model is given once for a row beside its prompt, by name, as in `search`; not beside
              `settings.window` and `settings.speculate`

    A finished row leaves the batch. Past learned positions the text is refused before anything is written, unless
    `settings.window` is set: then, whenever a row fills the context, its last half is read again as a fresh text.
    Raises InputError, and NotFinite where the model's logits are no numbers.
    """
    settings = settings or SamplingSettings()
    first = settings.seed if seed is None else seed
    if not all(map(len, prompts)):
        raise InputError("a prompt is empty: give a token to go on from, such as the one that ends a document")
    if inputs and (settings.window or settings.speculate):
        key = "window" if settings.window else "speculate"
        raise InputError(f"{key}: what this model reads beside its text, such as a picture, is read once; leave it out")
    limit, window, usual = model.context_limit, None, settings.max_tokens or USUAL_LENGTH
    if settings.window:  # the learned positions, else the model's `context`, if it has one
        numbers = getattr(getattr(model, "architecture", None), "numbers", {})
        window = limit or int(numbers.get("context", 0)) or None
    elif limit is not None and most is None:
        usual = min(usual, tokens_left(model, max(map(len, prompts), default=0), settings.max_tokens))
    counts = [usual] * len(prompts) if most is None else most
    rows = [
        TextRow(
            number, list(prompt), len(prompt), count, torch.Generator().manual_seed(first + number),
            None if constraints is None else constraints[number],
            inputs={name: each[number] for name, each in (inputs or {}).items()},
        )
        for number, (prompt, count) in enumerate(zip(prompts, counts, strict=True))
    ]
    if rows:
        with torch.inference_mode(), ExitStack() as stack:
            if settings.weights == AUTO:
                from .weights import with_weights

                given = lambda number, device: given_at_start([rows[number]], device)  # noqa: E731
                write = partial(first_tokens, rows)
                settings = with_weights(settings, [model], prompts, given, write)
            length = 1 + settings.speculate
            fast = stack.enter_context(quicken(model, evaluating(model), settings.engine, settings.weights, length))
            guesser: Guesser | None = None
            if settings.speculate:
                from .speculation import DraftModel, PromptLookup

                guesser = PromptLookup(settings.speculate)
                if draft is not None:
                    drafting = quicken(draft, evaluating(draft), settings.engine, settings.weights)
                    guesser = DraftModel(stack.enter_context(drafting).model, settings)
            write_rows(fast.model, rows, settings, window, finished, on_token, guesser, fast.here)
    return [row.written for row in rows]


def tokens_left(model: Decoder, prompt: int, wanted: int | None) -> int:
    """How many tokens can be written after a prompt of so many: a very large number where no positions are learned.
    Raises InputError where there is no room for those that are wanted, one at least."""
    limit = model.context_limit
    if limit is None:
        return LARGEST
    left = limit - prompt + 1  # the last one written is not read
    if left < (wanted or 1):
        more = "" if wanted is None else f" and {wanted} new ones"
        fewer = f"write at most {left} (--max-tokens {left}), or " if left >= 1 else "shorten the prompt, or "
        what = f"a prompt of {prompt} tokens{more} do not fit in the {limit} positions that this model has learned"
        raise InputError(f"{what}; {fewer}let it go on from the latter half of its context (--window)")
    return left


def first_tokens(
    rows: Sequence[TextRow], model: Decoder, number: int, prompt: Sequence[int], settings: SamplingSettings, count: int
) -> list[int]:
    """The first tokens that a model writes after a prompt."""
    inputs = {name: [each] for name, each in rows[number].inputs.items()}
    settings = settings.model_copy(update={"max_tokens": count, "window": False})
    return generate(model, [prompt], settings, inputs=inputs)[0]


def write_rows(
    model: Decoder,
    batch: list[TextRow],
    settings: SamplingSettings,
    window: int | None,
    finished: Callable[[int, list[int]], bool] | None,
    on_token: Callable[[int, int], None] | None,
    guesser: Guesser | None = None,
    keep_done: bool = False,
) -> None:
    """Write into rows until each has its `most` tokens or is finished.

    guesser    guesses `settings.speculate` tokens at a time
    keep_done  rows that are done stay in the batch until half of it is: a program is one of a number of rows
    """
    decoding, logits = read_rows(model, batch, window)
    rewindable = 0 if guesser is None else check_rewindable(decoding, settings.speculate)
    drafts: list[list[int]] = [[] for _ in batch]
    plain = settings.temperature == 0.0 and settings.repetition_penalty == 1.0 and guesser is None and window is None
    burst = None if not plain or any(row.constraint for row in batch) else burst_of(model)
    device, vocab, pace, ahead = logits.device, logits.shape[-1], math.inf, False
    while True:
        if not ahead:
            written = choose_along(model, batch, drafts, logits, settings, finished, on_token)
            if logits.shape[1] > 1:
                decoding.rewind([logits.shape[1] - count for count in written])
        stay = [place for place, row in enumerate(batch) if not row.done]
        if not stay:
            return
        again = window is not None and any(len(batch[place].tokens) - batch[place].begin > window for place in stay)
        leave = not keep_done or again or 2 * len(stay) <= len(batch) or room(model, decoding) < 1
        if len(stay) < len(batch) and leave:
            batch = [batch[place] for place in stay]
            decoding.select(torch.tensor(stay, device=device))
            if guesser is not None:
                guesser.select(stay)
        drafts = [[] for _ in batch]
        if guesser is not None and min(room(model, decoding), rewindable - decoding.longest) > settings.speculate:
            drafts = guesser.guess(batch)
        if again:
            decoding, logits = read_rows(model, batch, window)
        else:
            ids = [[row.tokens[-1], *draft] for row, draft in zip(batch, drafts, strict=True)]
            tokens, begun = torch.tensor(ids, device=device), time.perf_counter()
            left = (row.prompt + row.most - len(row.tokens) for row in batch if not row.done)
            count = 0 if burst is None else burst_size(pace, left)
            several = burst(tokens, decoding, count, vocab) if burst is not None and count > 1 else None
            ahead = several is not None
            if several is not None:
                write_all(model, batch, *several, finished, on_token)
            else:
                logits = logits_of(model, step_model(model, tokens, decoding))
            pace = (time.perf_counter() - begun) / (1 if several is None else several[0].shape[1])


def write_all(
    model: Decoder,
    batch: Sequence[TextRow],
    ids: Tensor,
    logs: Tensor,
    finished: Callable[[int, list[int]], bool] | None,
    on_token: Callable[[int, int], None] | None,
) -> None:
    """Write tokens (batch, count) that were chosen ahead, with their log probabilities, into each row until it is
    done."""
    for place in range(ids.shape[1]):
        for row, token, log in zip(batch, ids[:, place].tolist(), logs[:, place].tolist(), strict=True):
            if not row.done:
                if not math.isfinite(log):
                    raise not_finite([model], len(row.tokens) - row.prompt)
                row.add(token, finished, on_token)


def choose_along(
    model: Decoder,
    batch: list[TextRow],
    drafts: Sequence[Sequence[int]],
    logits: Tensor,
    settings: SamplingSettings,
    finished: Callable[[int, list[int]], bool] | None,
    on_token: Callable[[int, int], None] | None,
) -> list[int]:
    """Write the next token of each row, and, as long as that is the one that was guessed, the one after it, by logits
    (batch, 1 + guessed, vocab); how many each row got. A text is the same whatever was guessed."""
    counts, active = [0] * len(batch), [*range(len(batch))]
    for place in range(logits.shape[1]):
        rows = [batch[number] for number in active]
        now = logits[:, place] if len(rows) == len(batch) else logits[active, place]  # the copy shows at length 1
        # others than the most likely token may be ruled out, by -inf; a sum of largest ones is finite if each is
        if not math.isfinite(float(now.amax(-1).sum(dtype=torch.promote_types(now.dtype, torch.float32)))):
            raise not_finite([model], max(len(row.tokens) - row.prompt for row in rows))
        for number, row in enumerate(rows):
            if row.constraint is not None and not row.done:
                row.constraint.rule_out(now[number])
        seen = seen_in([row.tokens for row in rows], now) if settings.repetition_penalty != 1.0 else None
        chosen = choose(now, settings, [row.random for row in rows], seen).tolist()
        for number, row, token in zip(active, rows, chosen, strict=True):
            counts[number] += 1
            if not row.done:
                row.add(token, finished, on_token)
        active = [
            number
            for number, token in zip(active, chosen, strict=True)
            if not batch[number].done and drafts[number][place : place + 1] == [token]
        ]
        if not active:
            break
    return counts


def room(model: Decoder, decoding: Any) -> int:
    """How many more positions of the longest row there are."""
    return int(min(decoding.capacity, model.context_limit or decoding.capacity) - decoding.longest)


def check_rewindable(decoding: Any, guesses: int) -> int:
    """Up to how many positions wrong guesses can be dropped. Raises InputError where they never can."""
    if not decoding.rewindable:
        what = "a state of this model has no positions that could be dropped again where a guess was wrong"
        raise InputError(f"{what}: leave out {setting('speculate', str(guesses))}")
    return int(decoding.rewindable)


def seen_in(texts: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
    """Which tokens stand in each text: (batch, vocab), bool."""
    seen = torch.zeros_like(logits, dtype=torch.bool)
    for place, tokens in enumerate(texts):
        seen[place, torch.tensor(tokens, device=logits.device)] = True
    return seen


def read_rows(model: Decoder, rows: list[TextRow], window: int | None) -> tuple[Any, Tensor]:
    """Fresh caches that hold the rows' texts, and the logits after each: (batch, 1, vocab).

    With a window, a row that is longer begins again with the last half window; the others are read as they are, so what
    a row sees does not depend on its neighbors. Chunks are padded on the right, where nothing real sees the padding.
    """
    for row in rows:
        if window is not None and len(row.tokens) - row.begin > window:
            row.begin = len(row.tokens) - max(1, window // 2)
    texts = [row.tokens[row.begin :] for row in rows]
    longest = max(map(len, texts))
    # The last token written is never read, hence the 1.
    whole = max(row.prompt + row.most - row.begin - 1 for row in rows)
    given = given_at_start(rows, device_of(model))
    decoding = model.start(len(rows), max(whole if window is None else window, longest), **given)
    return decoding, logits_behind(model, texts, decoding)[:, None]
