"""Cached step-by-step decoding of several prompts at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..engine import quicken
from ..errors import InputError, NotFinite, setting
from ..model.transformer import evaluating
from .sampling import choose
from .settings import SamplingSettings
from .speculation import PromptLookup

USUAL_LENGTH = 200  # tokens written where neither the user nor the model's positions say how many


class Decoder(Protocol):
    """What a model must offer: `model.start`, `model.step` and how far its positions reach."""

    @property
    def context_limit(self) -> int | None:
        """The number of learned positions; None where a text may be longer than any seen in training."""

    def start(self, batch: int, capacity: int, **inputs: Any) -> Any:
        """Empty caches for `batch` rows of at most `capacity` positions; `inputs` are those of other sequences."""

    def step(self, tokens: Tensor, decoding: Any, new: Tensor | None = None) -> Tensor | Mapping[str, Tensor]:
        """Logits (batch, length, vocab) of a chunk (batch, length); `new` (batch,) says how many of it are real. A
        model of several outputs gives them by name: the text is written by `logits`."""


@dataclass(eq=False)
class TextRow:
    """One text in the making, of at most `most` new tokens. `tokens[begin:]` is what the model's caches hold, but for
    the last."""

    number: int
    tokens: list[int]
    prompt: int
    most: int
    random: torch.Generator
    begin: int = 0
    done: bool = False
    lookup: PromptLookup = field(default_factory=PromptLookup)

    @property
    def written(self) -> list[int]:
        return self.tokens[self.prompt :]


def generate(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    settings: SamplingSettings | None = None,
    *,
    seed: int | None = None,
    most: Sequence[int] | None = None,
    finished: Callable[[int, list[int]], bool] | None = None,
    on_token: Callable[[int, int], None] | None = None,
) -> list[list[int]]:
    """Continue every prompt; return what was written for each, without the prompt.

    prompts   token ids, of any lengths, none empty
    seed      instead of the settings'. Row r draws from the stream of seed + r: its text is what the prompt gives alone
              under that seed, whatever else is in the batch
    most      new tokens of each row at most, which the model's positions hold; by default the settings' for all
    finished  (row, tokens written so far) -> whether this text ends here; its last token is returned too
    on_token  (row, token), as each is chosen: for streaming

    A finished row leaves the batch. Past learned positions the text is refused before anything is written, unless
    `settings.window` is set: then, whenever a row fills the context, its last half is read again as a fresh text.
    Raises InputError, and NotFinite where the model's logits are no numbers.
    """
    settings = settings or SamplingSettings()
    first = settings.seed if seed is None else seed
    if not all(map(len, prompts)):
        raise InputError("a prompt is empty: give a token to go on from, such as the one that ends a document")
    limit, window, usual = model.context_limit, None, settings.max_tokens or USUAL_LENGTH
    if settings.window:  # the learned positions, else the model's `context`, if it has one
        numbers = getattr(getattr(model, "architecture", None), "numbers", {})
        window = limit or int(numbers.get("context", 0)) or None
    elif limit is not None and most is None:
        prompt = max(map(len, prompts), default=0)
        left, required = limit - prompt + 1, settings.max_tokens  # the last one written is not read
        if left < (required or 1):
            wanted = "" if required is None else f" and {required} new ones"
            fewer = f"write at most {left} (--max-tokens {left}), or " if left >= 1 else "shorten the prompt, or "
            what = (
                f"a prompt of {prompt} tokens{wanted} do not fit in the {limit} positions that this model has learned"
            )
            raise InputError(f"{what}; {fewer}let it go on from the latter half of its context (--window)")
        usual = min(usual, left)
    counts = [usual] * len(prompts) if most is None else most
    rows = [
        TextRow(number, list(prompt), len(prompt), count, torch.Generator().manual_seed(first + number))
        for number, (prompt, count) in enumerate(zip(prompts, counts, strict=True))
    ]
    if rows:
        asked = settings.engine, settings.weights, 1 + settings.prompt_lookup
        with torch.inference_mode(), quicken(model, evaluating(model), *asked) as fast:
            write_rows(fast.model, rows, settings, window, finished, on_token, fast.here)
    return [row.written for row in rows]


def write_rows(
    model: Decoder,
    batch: list[TextRow],
    settings: SamplingSettings,
    window: int | None,
    finished: Callable[[int, list[int]], bool] | None,
    on_token: Callable[[int, int], None] | None,
    keep_done: bool = False,
) -> None:
    """Write into rows until each has its `most` tokens or is finished.

    keep_done  rows that are done stay in the batch until half of it is: a program is one of a number of rows
    """
    decoding, logits = read_rows(model, batch, window)
    most = settings.prompt_lookup
    rewindable = decoding.rewindable if most else 0
    if most and not rewindable:
        what = "a state of this model has no positions that could be dropped again where a guess was wrong"
        raise InputError(f"{what}: leave out {setting('prompt_lookup', str(most))}")
    drafts: list[list[int]] = [[] for _ in batch]
    while True:
        written = choose_along(model, batch, drafts, logits, settings, finished, on_token)
        if logits.shape[1] > 1:
            decoding.rewind([logits.shape[1] - count for count in written])
        stay = [place for place, row in enumerate(batch) if not row.done]
        if not stay:
            return
        again = window is not None and any(len(batch[place].tokens) - batch[place].begin > window for place in stay)
        room = min(decoding.capacity, model.context_limit or decoding.capacity) - decoding.longest
        if len(stay) < len(batch) and (not keep_done or again or room < 1 or 2 * len(stay) <= len(batch)):
            batch = [batch[place] for place in stay]
            decoding.select(torch.tensor(stay, device=logits.device))
        drafts = drafts_of(batch, most if min(room, rewindable - decoding.longest) > most else 0)
        if again:
            decoding, logits = read_rows(model, batch, window)
        else:
            ids = [[row.tokens[-1], *draft] for row, draft in zip(batch, drafts, strict=True)]
            logits = logits_of(model, step_model(model, torch.tensor(ids, device=logits.device), decoding))


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
        rows, now = [batch[number] for number in active], logits[active, place]
        # others than the most likely token may be ruled out, by -inf
        if not bool(torch.isfinite(now.amax(-1)).all()):
            raise not_finite([model], max(len(row.tokens) - row.prompt for row in rows))
        seen = seen_in(rows, now) if settings.repetition_penalty != 1.0 else None
        chosen = choose(now, settings, [row.random for row in rows], seen).tolist()
        for number, row, token in zip(active, rows, chosen, strict=True):
            counts[number] += 1
            if not row.done:
                row.tokens.append(token)
                if on_token is not None:
                    on_token(row.number, token)
                row.done = len(row.tokens) - row.prompt >= row.most or bool(
                    finished and finished(row.number, row.written)
                )
        active = [
            number
            for number, token in zip(active, chosen, strict=True)
            if not batch[number].done and drafts[number][place : place + 1] == [token]
        ]
        if not active:
            break
    return counts


def drafts_of(rows: Sequence[TextRow], count: int) -> list[list[int]]:
    """So many guesses for each row, or none for all. Rows without any are filled up: what they guess is dropped."""
    guesses = [row.lookup.guess(row.tokens, count) if count and not row.done else [] for row in rows]
    if not any(guesses):
        return [[] for _ in rows]
    return [guess + row.tokens[-1:] * (count - len(guess)) for row, guess in zip(rows, guesses, strict=True)]


def seen_in(rows: Sequence[TextRow], logits: Tensor) -> Tensor:
    """Which tokens stand in each row: (batch, vocab), bool."""
    seen = torch.zeros_like(logits, dtype=torch.bool)
    for place, row in enumerate(rows):
        seen[place, torch.tensor(row.tokens, device=logits.device)] = True
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
    decoding = model.start(len(rows), max(whole if window is None else window, longest))
    tokens, lengths = pad_ids(texts, device_of(model))
    logits = logits_of(model, step_model(model, tokens, decoding, lengths))
    last = torch.tensor([len(text) - 1 for text in texts], device=logits.device)
    return decoding, logits[torch.arange(len(rows), device=logits.device), last][:, None]


def step_model(model: Decoder, tokens: Tensor, decoding: Any, new: Tensor | None = None) -> Any:
    """A step of a model. One that reads which document each token is of is told that all are of one."""
    if "document" not in getattr(model, "inputs", ()):
        return model.step(tokens, decoding, new=new)
    return model.step(tokens, decoding, new=new, document=torch.zeros_like(tokens))  # type: ignore[call-arg]


def logits_of(model: Any, outputs: Tensor | Mapping[str, Tensor]) -> Tensor:
    """What a text is written by: the one output of a model, or of several that named `logits`; of an output that is
    wider than the vocabulary only the tokens that there are. Raises InputError."""
    if not isinstance(outputs, Tensor):
        if "logits" not in outputs:
            raise InputError(f"a text is written by an output named logits; those of this model: {', '.join(outputs)}")
        outputs = outputs["logits"]
    architecture, vocab = getattr(model, "architecture", None), outputs.shape[-1]
    if architecture is not None and "vocab" in architecture.text.numbers:  # the text says how many there are
        vocab = min(vocab, int(architecture.numbers["vocab"]))
    return outputs if outputs.shape[-1] == vocab else outputs[..., :vocab]


def device_of(model: Any) -> torch.device:
    """Where a model's parameters are; the CPU for what has none."""
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device


def pad_ids(texts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Token ids as (batch, length), 0 on the right of shorter texts; the lengths (batch,), None where all agree."""
    lengths = torch.tensor([len(text) for text in texts])
    tokens = torch.zeros(len(texts), int(lengths.max()), dtype=torch.long)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = torch.as_tensor(text, dtype=torch.long)
    return tokens.to(device), None if lengths.min() == lengths.max() else lengths.to(device)


def not_finite(models: Sequence[Any], written: int) -> NotFinite:
    """The error of logits that are no numbers after `written` tokens; names the first parameter that is not finite."""
    for model in models:
        for name, parameter in model.named_parameters() if isinstance(model, nn.Module) else ():
            if not bool(torch.isfinite(parameter).all()):
                what = f"the model's logits are NaN or infinite, because its weights are: {name} holds numbers that are"
                remedy = "load a checkpoint from before that"
                return NotFinite(f"{what} not finite; {remedy}", step=written, place=name)
    what = f"the model's logits are NaN or infinite after {written} tokens, though its weights are finite"
    remedy = "run it in float32, or train with a smaller learning rate"
    return NotFinite(f"{what}: a value inside it grows past its dtype; {remedy}", step=written)
