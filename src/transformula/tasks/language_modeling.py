"""Language modeling: predict each token of a text from those before it; and what tasks on windows of a text share."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor, nn

from ..data.prepare import data_of
from ..data.preview import Preview
from ..data.settings import DataSettings, LanguageScoring
from ..errors import ConfigError, InputError, setting
from ..generation.decoding import generate
from ..generation.settings import SamplingSettings
from ..generation.steps import device_of
from ..language.graph import Architecture
from ..model.segment_memory import Carried
from .base import EVALUATION_COST, Batch, Memory, Progress, Scores, Task, check_logits, evaluated, task, task_again
from .chunked_loss import token_loss
from .losses import per_token, perplexity, smoothed_cross_entropy, target_nats
from .ngram import cached_byte_ngrams
from .predictor import Predictor
from .scored_text import ScoredText, read_by, segment_of, windows_at_once
from .scores.report import Report, standing
from .soft import SoftTargets
from .verb import Verb
from .writing import TextGenerator

if TYPE_CHECKING:
    from .trained import Trained

CONTEXT = 128  # tokens of a window where the model's file does not say


class TextTask(Task):
    """A task on windows of a text.

    data     text, made ready
    windows  of the training text, of `context` - `less` tokens; none where there is a validation text alone
    score_unit  the unit of the main score, of `baselines` and of `verdict`
    evaluated_at_once  how many windows an evaluation looks at together
    """

    row_name = "windows"
    score_unit: str

    def __init__(
        self,
        settings: Any,
        numbers: Mapping[str, Any],
        given: Mapping[str, Any],
        extra: int | None = None,
        mask: bool = False,
        continued: bool = False,
        less: int = 0,
    ) -> None:
        """From the arguments of `make`. `extra` are ids above the tokenizer's, see `prepare`, as for `mask`; rows
        that are `continued` go on from step to step."""
        vocab, context = numbers.get("vocab"), int(numbers.get("context") or CONTEXT)
        self.windows: Any
        size = None if vocab is None else int(vocab)
        self.data = data = data_of(settings, size, extra, mask)
        self.numbers = {"vocab": int(vocab or data.tokenizer.vocab + data.extra), "context": context}
        self.seed = given.get("seed", 1)
        self.evaluated_at_once = windows_at_once(self.numbers["vocab"], context)
        batch, accumulate = given.get("batch") or self.sequences or 1, given.get("accumulate", 1)
        if not data.split.alone:
            self.windows = data.windows(context - less, batch, accumulate, self.seed, continued)

    def verdict(self, scores: Mapping[str, float]) -> str:
        """For instance '1.72 bits per byte: below the 6-gram (1.92) and the 5-gram (2.00)'."""
        return f"{scores[self.score]:.2f} {self.score_unit}: {standing(scores[self.score], self.baselines())}"

    def steps(self, epochs: float) -> int:
        return int(self.windows.steps(epochs))

    def preview(self) -> Preview:
        return self.data.preview()

    def predictor(self) -> Predictor:
        return TextGenerator(self.data.tokenizer)


class CarriedRows(Memory):
    """What the rows of each micro-batch carry into a step, where a model says `carry`: for that step and the one after
    it, so that a step can be made again, and begins from what the first time began from."""

    def __init__(self) -> None:
        self._into: dict[tuple[int, int], Carried] = {}  # by step and micro-batch

    def into(self, step: int, micro: int) -> Carried:
        """What was left for a step. Raises InputError where nothing was: steps are made one after another."""
        if (step, micro) not in self._into:
            raise InputError(
                f"step {step}, micro-batch {micro}, goes on from the step before it, which left nothing: make the "
                "steps in order, or go on from a checkpoint that holds what was carried"
            )
        return self._into[step, micro]

    def leave(self, step: int, micro: int, carried: Carried) -> None:
        kept = {key: before for key, before in self._into.items() if key[1] != micro or key[0] == step}
        self._into = {**kept, (step + 1, micro): carried}

    def skip(self, step: int) -> None:
        kept = {(step + 1, micro): carried for (at, micro), carried in self._into.items() if at == step}
        if kept:
            self._into = kept

    def tensors(self) -> dict[str, Tensor]:
        """All that is carried into the next step, by step, micro-batch and name."""
        last = max((step for step, _ in self._into), default=0)
        return {
            f"{step}.{micro}.{name}": tensor
            for (step, micro), carried in self._into.items()
            if step == last
            for name, tensor in carried.flat().items()
        }

    def put(self, tensors: Mapping[str, Tensor]) -> None:
        parts: dict[tuple[int, int], dict[str, Tensor]] = defaultdict(dict)
        for path, tensor in tensors.items():
            step, micro, name = path.split(".", 2)
            parts[int(step), int(micro)][name] = tensor
        self._into = {key: Carried.read(flat) for key, flat in parts.items()}


@dataclass(frozen=True)
class Segments(Batch):
    """A batch whose rows go on from the step before it, unless it `begins`."""

    step: int = 0
    micro: int = 0
    begins: bool = True


@task("language-modeling", aliases=["language-modelling"])
class LanguageModeling(TextTask):
    """Next-token prediction on a text.

    context       inputs in a window
    reads_document  whether the model reads which document each token is of: so packed documents do not see each other
    scored        the validation text, in windows
    by_logits     of a model the one whose output is the logits of the next token
    carry_length  what the model's text says: above 0 rows go on from step to step, with what their segments have left,
                  and an evaluation reads the validation text in one row to its end
    """

    unit = "tokens"
    carries = chunks = True
    soft_targets = SoftTargets(lambda task, model: task.scored.batches(model))
    may_read: ClassVar[tuple[str, ...]] = ("tokens", "document")
    settings = DataSettings
    evaluation = LanguageScoring
    by_logits: ClassVar[Any] = staticmethod(lambda model: model)
    verb = Verb(
        "sample",
        help="write text with a trained model",
        about="""\
Write text with a trained model. Several prompts run as one batch and are printed one after the other; without a
prompt, the model begins a text. Filters act in the order in which they are listed here.""",
        examples=(
            'transformula sample runs/demo "The with statement" --temperature 0.8 --max-tokens 100',
            'transformula sample runs/demo "def" "class" --top-k 20 --seed 7 --json',
        ),
        settings=SamplingSettings,
        takes="PROMPT",
        live=True,
    )
    measures = ("loss", "bits_per_byte", "perplexity", "tokens", "bytes")

    def __init__(self, settings: DataSettings, numbers: Mapping[str, Any], **given: Any) -> None:
        carry, context = int(numbers.get("carry", 0)), int(numbers.get("context") or CONTEXT)
        if settings.stride and carry:
            raise ConfigError(
                f"stride: {settings.stride} has no meaning for this model, which carries on through the whole"
                " validation text; leave it out"
            )
        if settings.stride > context:
            raise ConfigError(
                f"stride: {settings.stride} is more than the context, {context}; tokens between would not be counted"
            )
        super().__init__(settings, numbers, given, continued=carry > 0)
        self.context, self.carry_length, validation = context, carry, self.data.validation
        self.reads_document = "document" in (given.get("inputs") or ())
        self.opening: Sequence[int] = self.data.tokenizer.marks.opening
        self.carried = CarriedRows()
        self.memory = self.windows if settings.stream else self.carried
        self.scored = ScoredText(self.data, self.numbers["vocab"], context, settings.stride, carry)
        # Nats per character and per byte agree where each token is a character of one byte.
        same = self.data.tokenizer.kind == "characters" and len(validation) == validation.text_bytes
        self.score, self.score_unit = ("loss", "nats per character") if same else ("bits_per_byte", "bits per byte")
        self.cost = 1.0 if carry else EVALUATION_COST  # segments that go on come one by one

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        cls.check_reading(architecture)
        check_logits(cls.name, architecture)
        if architecture.carry and "document" in architecture.inputs:
            raise InputError(
                "carry: segments go on from one another, and `document` counts the documents of a segment alone; take"
                " `carry`, or what reads `document`, out"
            )

    @classmethod
    def check_reading(cls, architecture: Architecture) -> None:
        """Raise InputError for a model that reads anything but the tokens before each, and their documents."""
        inputs = architecture.inputs
        others = [name for name in inputs if name not in cls.may_read]
        if others or "tokens" not in inputs:
            who, gives = cls.name.replace("-", " "), " and ".join(f"`{name}`" for name in cls.may_read)
            raise InputError(
                f"{who} gives a model {gives} alone; this one reads {', '.join(inputs) or 'nothing'}: name"
                " a task whose data has that (transformula train --help all lists the tasks), or leave"
                f" {', '.join(others) or 'it'} out of its `before`"
            )
        if not architecture.main.causal:
            raise InputError(
                "language modeling predicts each token from those before it; a stack that says `causal: false` sees "
                "the answers: take that line out, or write causal: true"
            )

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if settings.data is None:
            raise InputError(f"no {setting('data')}: name text to learn from, such as python-docs")

    def batch(self, step: int, micro: int = 0) -> Batch:
        inputs, targets = self.windows.at(step, micro)
        if self.carry_length:
            return Segments({"tokens": inputs}, targets, step=step, micro=micro, begins=self.windows.begins(step))
        return Batch(read_by(inputs, self.opening if self.reads_document else None), targets)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """For a model that says `carry` the batches of one micro-batch come step after step; one may come again."""
        carry_on = segment_of(model, self.carry_length)
        if carry_on is not None and isinstance(batch, Segments):
            before = None if batch.begins else self.carried.into(batch.step, batch.micro)
            logits, left = carry_on(batch.inputs["tokens"], before)
            self.carried.leave(batch.step, batch.micro, left)
            return smoothed_cross_entropy(logits, batch.targets, 0.0)
        return token_loss(model, batch)

    def units(self, batch: Batch) -> int:
        return batch.targets.numel()

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores on the whole validation text, or on the windows of a sample.

        loss           nats per token; each token but the first of all is predicted once, ends of documents included
        perplexity     exp(loss)
        bits_per_byte  bits of all predicted tokens per UTF-8 byte of their text: to be compared across tokenizers
        tokens, bytes  how many were predicted
        """
        scored = self.scored
        nats, _, rows = target_nats(scored.reader(model), scored.batches(model, progress), device_of(model))
        loss, bits = scored.per_token_and_byte(nats)
        size, tokens = scored.bytes, scored.tokens
        scores = Scores(loss=loss, bits_per_byte=bits, perplexity=perplexity(loss), tokens=tokens, bytes=size)
        scores.measure([per_token(rows)]).derive("perplexity", "loss", perplexity)
        factor = bits / loss if loss else 0.0
        return scores.derive("bits_per_byte", "loss", lambda nats: factor * nats)

    @property
    def validation_rows(self) -> int:
        return len(self.scored.spans)

    def cost_of(self, rows: int) -> float:
        return self.cost * self.context * rows

    def evaluation_cost(self) -> int:
        return math.ceil(self.cost * sum(window.length for window in self.scored.spans))

    def keep_rows(self, rows: np.ndarray) -> None:
        self.scored = self.scored.kept(rows.tolist())

    @classmethod
    def report(
        cls, trained: Trained, data: str | list[str] | None, given: Mapping[str, Any], progress: Progress | None = None
    ) -> Report:
        """The scores, and what `contexts` and `by` ask for beside them."""
        from .loss_by_token import loss_reports

        asked = LanguageScoring.read(given)
        of_data = {key: value for key, value in given.items() if key in DataSettings.model_fields}
        task = task_again(cls, trained, data, of_data, batch=1)
        parts = loss_reports(task.scored, cls.by_logits(trained.alone), asked.contexts, asked.by, progress)
        return replace(evaluated(task, trained, progress), parts=parts)

    def baselines(self) -> dict[str, float]:
        """Kneser-Ney 3- to 6-grams over the bytes of the same two texts, in `score_unit`."""
        split = self.data.split
        if split.alone or not self.data.has_text:
            return {}
        nats = cached_byte_ngrams(self.data.corpus.name, split.training, split.validation, split.whole)
        scale = 1.0 if self.score == "loss" else 1 / math.log(2)
        return {f"{order}-gram": value * scale for order, value in nats.items()}

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """About 200 tokens from the beginning of a document (or of a line)."""
        decoder: Any = model
        tokenizer = self.data.tokenizer
        first = tokenizer.marks.opening or (int(self.data.validation.ids[0]),)
        if not tokenizer.marks.opening and b"\n" in tokenizer.pieces:
            first = (tokenizer.pieces.index(b"\n"),)
        settings = SamplingSettings(max_tokens=200, temperature=0.8, window=True, engine="torch")
        written = generate(
            decoder,
            [first],
            settings,
            seed=seed,
            finished=lambda _, made: len(made) > 1 and made[-1] in tokenizer.ends,
        )
        return str(tokenizer.decode(written[0])).strip("\n")

    def describe(self) -> dict[str, Any]:
        about = {"task": self.name, **self.data.describe(), "context": self.context}
        about |= {} if self.windows.count is None else {"windows": self.windows.count}
        return about | ({"carry": self.carry_length} if self.carry_length else {})
