"""Cached step-by-step decoding of several prompts at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..errors import InputError
from ..model.evaluating import evaluating
from .finite import check_logits
from .sampling import choose
from .settings import SamplingSettings

USUAL_LENGTH = 200
"""Tokens written where neither the user nor the model's positions say how many."""


class Decoder(Protocol):
    """What a model must offer: `model.start`, `model.step` and how far its positions reach."""

    @property
    def context_limit(self) -> int | None:
        """The number of learned positions; None where a text may be longer than any seen in training."""

    def start(self, batch: int, capacity: int, **inputs: Any) -> Any:
        """Empty caches for `batch` rows of at most `capacity` positions; `inputs` are those of other sequences."""

    def step(self, tokens: Tensor, decoding: Any, new: Tensor | None = None) -> Tensor:
        """Logits (batch, length, vocab) of a chunk (batch, length); `new` (batch,) says how many of it are real."""


@dataclass(eq=False)
class TextRow:
    """One text in the making. `tokens[begin:]` is what the model's caches hold, but for the last."""

    number: int
    tokens: list[int]
    prompt: int
    random: torch.Generator
    begin: int = 0

    @property
    def made(self) -> list[int]:
        return self.tokens[self.prompt :]


def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    settings: SamplingSettings | None = None,
    *,
    seed: int | None = None,
    finished: Callable[[int, list[int]], bool] | None = None,
    on_token: Callable[[int, int], None] | None = None,
) -> list[list[int]]:
    """Continue every prompt; return what was written for each, without the prompt.

    prompts   token ids, of any lengths, none empty
    seed      instead of the settings'. Row r draws from the stream of seed + r: its text is what the prompt gives alone
              under that seed, whatever else is in the batch
    finished  (row, tokens written so far) -> whether this text ends here; its last token is returned too
    on_token  (row, token), as each is chosen: for streaming

    A finished row leaves the batch. Past learned positions the text is refused before anything is written, unless
    `settings.window` is set: then, whenever a row fills the context, its last half is read again as a fresh text.
    Raises InputError, and NotFinite where the model's logits are no numbers.
    """
    settings = settings or SamplingSettings()
    first = settings.seed if seed is None else seed
    rows = [
        TextRow(number, list(prompt), len(prompt), torch.Generator().manual_seed(first + number))
        for number, prompt in enumerate(prompts)
    ]
    longest = max((len(row.tokens) for row in rows), default=0)
    if any(not row.tokens for row in rows):
        raise InputError("a prompt is empty: give a token to go on from, such as the one that ends a document")
    window = window_length(model) if settings.window else None
    most = settings.max_tokens or USUAL_LENGTH
    if model.context_limit is not None and window is None:
        most = room(longest, settings.max_tokens, model.context_limit)

    with torch.inference_mode():
        run(evaluating(model), rows, settings, most, window, finished, on_token)
    return [row.made for row in rows]


def room(prompt: int, asked: int | None, limit: int) -> int:
    """How many tokens may be written after a prompt where `limit` positions were learned. The last one is not read."""
    left = limit - prompt + 1
    if left < 1 or (asked is not None and asked > left):
        wanted = "" if asked is None else f" and {asked} new ones"
        fewer = f"write at most {left} (--max-tokens {left}), or " if left >= 1 else "shorten the prompt, or "
        raise InputError(
            f"a prompt of {prompt} tokens{wanted} do not fit in the {limit} positions that this model has learned; "
            f"{fewer}let it go on from the latter half of its context (--window)"
        )
    return min(asked or USUAL_LENGTH, left)


def window_length(model: Decoder) -> int | None:
    """The context that a sliding window keeps to: the learned positions, else the model's `context`, if it has one."""
    numbers = getattr(getattr(model, "architecture", None), "numbers", {})
    limit = model.context_limit or int(numbers.get("context", 0))
    return limit or None


def run(
    model: Decoder,
    rows: list[TextRow],
    settings: SamplingSettings,
    most: int,
    window: int | None,
    finished: Callable[[int, list[int]], bool] | None,
    on_token: Callable[[int, int], None] | None,
) -> None:
    """Write into `rows` until each has `most` tokens or is finished."""
    live = list(rows)
    if not live:
        return
    decoding, logits = read(model, live, most, window)
    seen = mark_seen(live, logits) if settings.repetition_penalty != 1.0 else None
    while True:
        check_logits(model, logits, max(len(row.tokens) - row.prompt for row in live))
        chosen = choose(logits, settings, [row.random for row in live], seen)
        if seen is not None:
            seen.scatter_(1, chosen.unsqueeze(1), True)
        stay = []
        for place, (row, token) in enumerate(zip(live, chosen.tolist(), strict=True)):
            row.tokens.append(token)
            if on_token is not None:
                on_token(row.number, token)
            made = len(row.tokens) - row.prompt
            if made < most and not (finished is not None and finished(row.number, row.made)):
                stay.append(place)
        if not stay:
            return
        if len(stay) < len(live):
            kept = torch.tensor(stay, device=logits.device)
            live, chosen = [live[place] for place in stay], chosen[kept]
            seen = None if seen is None else seen[kept]
            decoding.select(kept)
        if window is not None and any(len(row.tokens) - row.begin > window for row in live):
            decoding, logits = read(model, live, most, window)
        else:
            logits = model.step(chosen.unsqueeze(1), decoding)[:, -1]


def read(model: Decoder, rows: list[TextRow], most: int, window: int | None) -> tuple[Any, Tensor]:
    """Fresh caches that hold the rows' texts, and the logits after each: (batch, vocab).

    With a window, a row that is longer begins again with the last half window; the others are read as they are, so what
    a row sees does not depend on its neighbors. Chunks are padded on the right, where nothing real sees the padding.
    """
    for row in rows:
        if window is not None and len(row.tokens) - row.begin > window:
            row.begin = len(row.tokens) - max(1, window // 2)
    texts = [row.tokens[row.begin :] for row in rows]
    lengths = [len(text) for text in texts]
    ahead = max(most - (len(row.tokens) - row.prompt) for row in rows)
    # The last token written is never read, hence the 1.
    capacity = max(lengths) + ahead - 1 if window is None else max(window, max(lengths))
    device = device_of(model)
    new = torch.tensor(lengths, device=device)
    decoding = model.start(len(rows), capacity)
    logits = model.step(padded(texts).to(device), decoding, new=None if min(lengths) == max(lengths) else new)
    return decoding, logits[torch.arange(len(rows), device=device), new - 1]


def device_of(model: Any) -> torch.device:
    """Where a model's parameters are; the CPU for what has none."""
    parameter = next(model.parameters(), None) if isinstance(model, torch.nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def padded(texts: Sequence[Sequence[int]]) -> Tensor:
    """Token ids as (batch, length), 0 on the right of shorter texts."""
    tokens = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.as_tensor(text, dtype=torch.long)
    return tokens


def mark_seen(rows: list[TextRow], logits: Tensor) -> Tensor:
    """Which tokens stand in each row: (batch, vocab), booleans."""
    seen = torch.zeros_like(logits, dtype=torch.bool)
    for place, row in enumerate(rows):
        seen[place, torch.tensor(row.tokens, device=logits.device)] = True
    return seen
