"""Pre-training on any text: it is damaged, and an encoder and a decoder learn to repair it.

    loss = mean over the target's tokens of -log P(token | damaged source, target tokens before)

A task says how a window of text is damaged.

Sources and targets have the form of other tasks from a source to a target: the source ends with the tokenizer's end,
with which the text that the decoder reads begins. What stands for something missing are ids above the tokenizer's own;
a task that goes on with the weights and the same tokenizer leaves them unused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng
from pydantic import Field
from torch import Tensor, nn

from ..data.settings import TextSettings
from ..errors import ConfigError, InputError
from ..generation.beam import search
from ..generation.settings import SearchSettings
from ..language.graph import Architecture
from ..tokenizers.base import Tokenizer
from .altered_text import AlteredText, altered_batches, windows_in_words
from .base import EVALUATION_COST, Batch, Progress, Scores, check_causal, check_logits, task
from .chunked_loss import token_loss
from .language_modeling import CONTEXT
from .losses import target_scores
from .scores.report import Evaluation, Report
from .seq2seq_data import padded_batch
from .soft import SoftTargets
from .trained import Trained
from .writing import end_of

COUNTED_WINDOWS = 2000  # windows of the training text whose targets the baseline counts


class Repair(NamedTuple):
    """A window: what the encoder reads and what the decoder should write, each with its end; (tokens,) ids."""

    source: np.ndarray
    target: np.ndarray


def batch_of(rows: Sequence[Repair]) -> Batch:
    tokens = [np.append(row.target[-1], row.target[:-1]) for row in rows]  # it begins with its end
    return padded_batch({"source": [row.source for row in rows], "tokens": tokens}, [row.target for row in rows])


class Repairing(AlteredText):
    """A model learns to write what is missing in a text, or the whole again. A task says `damage`, and:

    extra_ids  settings -> how many ids are needed above the tokenizer's
    mark       how such an id is shown to people, by its number from 0

    windows  windows of the training text; one token of the context is the end's
    first    the first of the ids above the tokenizer's
    """

    chunks = True
    soft_targets = SoftTargets(altered_batches)
    unit = "target tokens"
    measures = ("loss", "perplexity", "tokens")
    score_unit = "nats per target token"
    shortest = 2
    joined = staticmethod(batch_of)
    settings: ClassVar[type[TextSettings]]
    extra_ids: ClassVar[Any]
    mark: ClassVar[Any]

    def __init__(self, settings: Any, numbers: Mapping[str, Any], **given: Any) -> None:
        self.window = int(numbers.get("context") or CONTEXT) - 1
        if self.window < 2:
            raise InputError(f"context: {self.window + 1} is too small; of a text, 2 tokens at least are read")
        super().__init__(settings, numbers, given, extra=self.extra_ids(settings), less=1)
        self.chosen, self.tokenizer = settings, self.data.tokenizer
        self.end, self.first = end_of(self.tokenizer), self.tokenizer.vocab
        self.alter = partial(repair, self)

    @abstractmethod
    def damage(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        """A window (tokens,) -> source and target, without their ends; neither is longer than the window."""

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        read = architecture.inputs
        if set(read) != {"source", "tokens"}:
            raise InputError(
                f"{cls.name} trains a model that reads `source` and `tokens`, an encoder and a decoder; this one reads"
                f" {', '.join(read) or 'nothing'}. Any model of one stack is made both by --family encoder-decoder"
            )
        check_causal(cls.name, architecture)
        check_logits(cls.name, architecture)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return token_loss(model, batch)

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the whole validation text, damaged always in the same way; see `target_scores`."""
        return target_scores(model, altered_batches(self, model, progress))

    def cost_of(self, rows: int) -> float:
        return EVALUATION_COST * sum(len(row.target) for row in self.altered) * rows / len(self.altered)

    @classmethod
    def report(
        cls, trained: Trained, data: str | list[str] | None, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        evaluation = super().report(trained, data, given, progress)
        assert isinstance(evaluation, Evaluation)
        return replace(evaluation, validation=f"{evaluation.scores['tokens']:,.0f} {cls.unit}")

    def baselines(self) -> dict[str, float]:
        """How often each token stands in targets of the training text, as its probability, each counted once more:
        nats per target token of the validation text."""
        if self.data.split.alone:
            return {}
        ids = np.asarray(self.data.training.ids)
        starts = list(range(0, len(ids) - self.window, self.window)) or [0]
        counts = np.ones(self.numbers["vocab"])
        for number, start in enumerate(starts[:: -(-len(starts) // COUNTED_WINDOWS)]):
            row = self.alter(ids[start : start + self.window].astype(np.int64), default_rng((1, number)))
            counts += np.bincount(row.target, minlength=len(counts))
        nats = -np.log(counts / counts.sum())
        return {"unigram": float(np.concatenate([nats[row.target] for row in self.altered]).mean())}

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few windows of the validation text: input, output and reference."""
        decoder: Any = model

        def in_words(row: Repair) -> dict[str, str]:
            settings = SearchSettings(beam=1, alpha=0.0, max_length=len(row.target) - 1, engine="torch")
            best = search(decoder, [[self.end]], settings, end=self.end, inputs={"source": [row.source.tolist()]})
            texts = (row.source, best[0][0].tokens, row.target)
            return dict(zip(("input", "output", "reference"), (shown(self, ids) for ids in texts), strict=True))

        return windows_in_words(self, seed, in_words)


def repair(task: Repairing, ids: np.ndarray, chance: Generator) -> Repair:
    """A window, damaged, with ends."""
    source, target = task.damage(ids, chance)
    return Repair(np.append(source, task.end), np.append(target, task.end))


def shown(task: Repairing, ids: Sequence[int] | np.ndarray) -> str:
    """Ids as a text on one line, with marks."""
    pieces, first = task.tokenizer.pieces, task.first
    parts = [pieces[n] if n < first else task.mark(n - first).encode() for n in map(int, ids)]
    return repr(b"".join(parts).decode("utf-8", errors="replace"))[1:-1]


def hide_spans(
    ids: np.ndarray, rate: float, mean: float, first: int, chance: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens,) -> a source with sentinels for spans, and a target with each sentinel before what it stands for.

        ids      a b c d e f g h            sentinels S0 = first, S1 = first + 1, ...
        source   a b S0 e f g S1            target   S0 c d S1 h

    `hidden_spans` says which. The text begins with what is kept and ends with a hidden span, as in T5's own code; there
    is no last sentinel after it, which its paper draws.

    Source: Raffel et al. 2019, and `random_spans_noise_mask` of its code.
    """
    hidden, kept = hidden_spans(len(ids), rate, mean, chance)
    cuts = np.cumsum(np.stack([kept, hidden], axis=1))  # after what is kept, after what is hidden, and so on
    parts = np.split(ids, cuts[:-1])
    sentinels = [np.array([first + number]) for number in range(len(hidden))]
    source = [part for pair in zip(parts[::2], sentinels, strict=True) for part in pair]
    target = [part for pair in zip(sentinels, parts[1::2], strict=True) for part in pair]
    return np.concatenate(source), np.concatenate(target)


def hidden_spans(length: int, rate: float, mean: float, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lengths (spans,) of what is hidden and of what is kept before each: `rate` of all, in spans of `mean` each. Both
    are cut in as many parts at random, all ways to cut alike. At least one token is hidden and one kept. Raises
    ValueError for less than two tokens."""
    if length < 2:
        raise ValueError(f"{length} tokens: of one, nothing can be hidden and something kept")
    count = min(max(round(length * rate), 1), length - 1)
    spans = min(max(round(count / mean), 1), count, length - count)

    def parts(whole: int) -> np.ndarray:
        cuts = np.sort(chance.choice(whole - 1, spans - 1, replace=False)) + 1 if spans > 1 else np.zeros(0, dtype=int)
        return np.diff(np.concatenate([[0], cuts, [whole]]))

    return parts(count), parts(length - count)


def infill(ids: np.ndarray, rate: float, mean: float, mask: int, chance: Generator) -> np.ndarray:
    """`rate` of the tokens go, in spans of Poisson(mean) length, each of which becomes one mask; a span of none puts a
    mask between two tokens. At least one token goes, and no more masks are put in than tokens were saved. Spans of
    tokens, where the source has whole words. Source: Lewis et al. 2019 (text infilling)."""
    count = min(max(round(len(ids) * rate), 1), len(ids))
    spans: list[int] = []
    while sum(spans) < count:
        spans.append(min(int(chance.poisson(mean)), count - sum(spans)))
    real = [span for span in spans if span]
    spans = real + [0] * min(len(spans) - len(real), count - len(real))
    order = chance.permutation(spans)
    # A place for each token that stays and for each span; which are the spans' is drawn.
    places = np.sort(chance.choice(len(ids) - count + len(spans), len(spans), replace=False))
    source: list[np.ndarray] = []
    at, gone = 0, 0
    for number, (place, span) in enumerate(zip(places, order, strict=True)):
        until = int(place) - number + gone  # tokens before this span: those that stayed, and those that went
        source += [ids[at:until], np.array([mask])]
        at, gone = until + int(span), gone + int(span)
    return np.concatenate([*source, ids[at:]]).astype(np.int64)


def reorder(ids: np.ndarray, ends: np.ndarray, chance: Generator) -> np.ndarray:
    """The sentences of a text in an order that is drawn; what stands before the first end and after the last one are
    sentences, too.

    ends  (vocab,) bool: whether a token ends a sentence, see `sentence_ends`
    """
    cuts = np.flatnonzero(ends[ids]) + 1
    sentences = [one for one in np.split(ids, cuts) if len(one)]
    return np.concatenate([sentences[place] for place in chance.permutation(len(sentences))])


def sentence_ends(tokenizer: Tokenizer) -> np.ndarray:
    """(vocab,) bool: a token with a full stop, a mark of exclamation or question at its end, blanks aside; a token with
    an end of line; the end of a document."""
    ends = [b"\n" in piece or piece.rstrip().endswith((b".", b"!", b"?")) for piece in tokenizer.pieces]
    if tokenizer.end_of_document is not None:
        ends[tokenizer.end_of_document] = True
    return np.array(ends, dtype=bool)


class SpanSettings(TextSettings):
    """What is taken out of a text."""

    rate: float = Field(0.15, gt=0, le=0.5, description="share of the tokens that are taken out")
    mean_span: float = Field(3.0, ge=1, description="tokens of a span, on average")
    sentinels: int = Field(100, ge=1, description="ids that stand for spans: as many spans as a window has, at least")


@task("span")
class SpanCorruption(Repairing):
    """The spans that were taken out of a text, as T5 is pre-trained.

    text     Thank you for inviting me to your party last week
    source   Thank you <1> me to your party <2> week
    target   <1> for inviting <2> last
    """

    settings = evaluation = SpanSettings
    extra_ids = staticmethod(lambda settings: settings.sentinels)
    mark = staticmethod(lambda number: f"<{number + 1}>")

    def __init__(self, settings: SpanSettings, numbers: Mapping[str, Any], **given: Any) -> None:
        super().__init__(settings, numbers, **given)
        spans = len(hidden_spans(self.window, settings.rate, settings.mean_span, default_rng(0))[0])
        if spans > settings.sentinels:
            raise ConfigError(
                f"sentinels: windows of {self.window} tokens have {spans} spans, and there are {settings.sentinels}"
                f" sentinels; say --sentinels {spans}, or a smaller --context, or a larger --mean-span"
            )

    def damage(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        return hide_spans(ids, self.chosen.rate, self.chosen.mean_span, self.first, chance)


class DenoisingSettings(TextSettings):
    """How a text is damaged."""

    rate: float = Field(0.3, gt=0, lt=1, description="share of the tokens that give way to masks")
    mean_span: float = Field(3.0, gt=0, description="tokens that one mask stands for, on average (Poisson): none, too")
    reorder: bool = Field(True, description="sentences change places")


@task("denoising")
class Denoising(Repairing):
    """A text from one in disorder and with gaps, as BART is pre-trained.

    Sentences are in another order, and one mask stands for each of some spans. A window may begin and end within a
    sentence; each such part moves as a sentence does.

    text     He left. She read a long book. It rained.
    source   It rained. He <mask>. She read <mask> book.
    target   He left. She read a long book. It rained.
    """

    settings = evaluation = DenoisingSettings
    extra_ids = staticmethod(lambda settings: 1)
    mark = staticmethod(lambda number: "<mask>")

    def __init__(self, settings: DenoisingSettings, numbers: Mapping[str, Any], **given: Any) -> None:
        super().__init__(settings, numbers, **given)
        self.sentence_ends = sentence_ends(self.tokenizer)

    def damage(self, ids: np.ndarray, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
        source = reorder(ids, self.sentence_ends, chance) if self.chosen.reorder else ids
        return infill(source, self.chosen.rate, self.chosen.mean_span, self.first, chance), ids
