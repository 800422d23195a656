"""Settings of sampling and of beam search."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from ..errors import InputError
from ..plain import several
from ..settings import Settings

DRAFT_TOKENS = 4  # that a draft model guesses at a time, where nothing is said


class EngineSettings(Settings):
    """What makes the steps of a text that is written."""

    engine: Literal["auto", "kernels", "torch"] = Field(
        "auto",
        description="what makes each step: this program's own kernels where they can (auto), always, or with an error"
        " that says why they cannot (kernels), or never (torch)",
    )
    weights: Literal["float32", "int8", "auto"] = Field(
        "float32",
        description="numbers of the matrices that those kernels multiply with: int8 has one byte for each, and a scale"
        " for each row; it is faster, and the text may differ; auto is int8 where the loss hardly rises by it, and says"
        " by how much",
    )

    @model_validator(mode="after")
    def _kernels(self) -> Self:
        if self.weights != "float32" and self.engine == "torch":
            raise ValueError(f"weights ({self.weights}) are those of this program's kernels: leave engine at auto")
        return self


class DrawingSettings(EngineSettings):
    """How tokens are drawn. Filters act in the order in which they stand here; see sampling.py."""

    max_tokens: int | None = Field(
        None,
        ge=1,
        description="maximum number of new tokens; by default 200, or what the model's learned positions leave",
    )
    repetition_penalty: float = Field(
        1.0, ge=1.0, le=100.0, description="above 1 lowers the logits of tokens that already occur"
    )
    temperature: float = Field(1.0, ge=0.0, le=100.0, description="divides the logits; 0: greedy decoding")
    top_k: int | None = Field(None, ge=1, description="top-k sampling: draw from the k most likely tokens")
    top_p: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        description="nucleus sampling: draw from the smallest set of tokens with total probability p",
    )
    min_p: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="min-p sampling: draw from tokens at least this many times as likely as the most likely",
    )
    speculate: int = Field(
        0,
        ge=0,
        le=64,
        description="speculative decoding: so many tokens are guessed and computed in one pass, by what followed the"
        " last ones before (prompt lookup) or by a draft model; the same text, sooner where the guesses are right",
    )
    stop: list[str] = Field([], description="stop before any of these strings")
    seed: int = Field(1, ge=0, lt=2**62, description="random seed: the same seed gives the same text")
    json_schema: str | None = Field(
        None, description="write JSON of this schema, and nothing else: the schema, or a file of it"
    )
    regex: str | None = Field(None, description="write a text that matches this regular expression as a whole")
    grammar: str | None = Field(
        None, description="write a text of this grammar in the notation of Lark: the grammar, or a file of it"
    )
    one_of: list[str] = Field([], description="write one of these texts", json_schema_extra={"several_at_once": True})

    @field_validator("stop", "one_of", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return several(value)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if len(self.forms) > 1:
            raise ValueError(f"{' and '.join(self.forms)}: a text has one form; leave all but one out")
        if self.forms and self.speculate:
            raise ValueError(f"{self.forms[0]}: what a form rules out cannot be guessed: leave speculate out")
        return self

    @property
    def forms(self) -> list[str]:
        """Which settings say the form of a text."""
        every = ("json_schema", "regex", "grammar", "one_of")
        return [name for name in every if getattr(self, name) not in (None, [])]


class SamplingSettings(DrawingSettings):
    """What `sample` and `Model.generate` take."""

    window: bool = Field(
        False, description="past the context, go on from its latter half instead of refusing (or running past it)"
    )


class ReplySettings(DrawingSettings):
    """How a reply is written: greedily, unless a temperature is given."""

    max_tokens: int | None = Field(
        None, ge=1, description="maximum number of tokens of a reply; by default twice those of the longest of training"
    )
    temperature: float = Field(0.0, ge=0.0, le=100.0, description="divides the logits; 0: greedy decoding")
    system: str | None = Field(None, min_length=1, description="a message of the role system, before all others")
    tools: str | None = Field(
        None, min_length=1, description="tools that may be called, of dialogues that list none: a file of JSON, or its"
        ' text: [{"type": "function", "function": {"name": "weather", "parameters": {...}}}]',
    )  # fmt: skip
    tool_choice: str | None = Field(
        None, min_length=1, description="whether a reply calls tools: auto, none, required, or the name of the one that"
        " it calls; calls then follow the tools' JSON schemas; by default auto with tools, else nothing is ruled out",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_form_of_replies(self) -> Self:
        if self.forms and (self.tools is not None or self.tool_choice is not None):
            raise ValueError(f"{self.forms[0]} and tools are two forms of a reply: leave one of them out")
        return self


class ChoiceSettings(Settings):
    """Between which texts a model chooses."""

    choices: list[str] = Field(
        [], description="the texts to choose from, two at least", json_schema_extra={"several_at_once": True}
    )
    target_delimiter: str = Field(" ", description="what stands between the context and a choice")
    normalize: bool = Field(False, description="divide log probabilities by the number of characters of each choice")

    @field_validator("choices")
    @classmethod
    def _two(cls, value: list[str]) -> list[str]:
        if len(set(value)) < max(2, len(value)) or not all(map(str.strip, value)):
            raise ValueError("expected two different texts at least, such as --choices yes no, none of them empty")
        return value

    @property
    def n_best(self) -> int:
        return len(self.choices)


class SearchSettings(EngineSettings):
    """What `search` takes. Lengths are of what is written: a forced prefix counts, the prompt and the end do not.

    The score by which finished hypotheses are ranked is their sum of log probabilities divided by the penalty of their
    length l, the number of tokens summed over, the end included:

        gnmt      ((5 + l) / 6)^alpha     Wu et al. 2016 (1609.08144), equation 14
        average   l^alpha                 Jean et al. 2015 (alpha = 1); `--lenpen` of fairseq, `--normalize` of Marian

    The same alpha is two different searches. With alpha 0 both are none.
    """

    beam: int = Field(5, ge=1, le=1000, description="beam size; 1 is greedy search")
    penalty: Literal["gnmt", "average"] = Field(
        "gnmt", description="length penalty: gnmt is ((5 + l) / 6)^alpha, average is l^alpha"
    )
    alpha: float = Field(0.6, ge=0.0, le=100.0, description="exponent of the length penalty; 0: no penalty")
    n_best: int = Field(1, ge=1, description="number of hypotheses to return for a sentence, at most `beam`")
    min_length: int = Field(0, ge=0, description="minimum length of the output, in tokens")
    max_length: int | None = Field(
        None,
        ge=1,
        description="maximum length of the output, in tokens; by default twice the longest target of training, or what"
        " learned positions leave",
    )
    max_ratio: float | None = Field(
        None,
        gt=0.0,
        le=1e6,
        description="maximum length of the output, as a multiple of the source's length (at least min_length, and 1)",
    )
    early_stopping: bool = Field(
        False,
        description="stop as soon as `beam` hypotheses have ended, though others might come to better scores",
    )
    block_ngrams: int | None = Field(None, ge=1, description="never repeat an n-gram of this size")
    ensemble: Literal["probabilities", "log-probabilities"] = Field(
        "probabilities", description="what an ensemble of models averages"
    )
    batch_tokens: int = Field(
        16384,
        ge=1,
        description="batch size in tokens: sentences x beam x longest input, padding included, is at most this",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.n_best > self.beam:
            raise ValueError(f"n_best ({self.n_best}) is more than beam ({self.beam}): make the beam larger")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length ({self.min_length}) is more than max_length ({self.max_length})")
        return self

    def divisor(self, length: int) -> float:
        """The penalty of a hypothesis of `length` tokens, the end included."""
        base = (5 + length) / 6 if self.penalty == "gnmt" else float(length)
        return float(base**self.alpha)

    def most_tokens(self, source: int, usual: int) -> int:
        """The maximum length of what is written for a source; `usual` where the settings state none. Raises InputError
        for a multiple of no source."""
        most = self.max_length or max(usual, self.min_length)
        if self.max_ratio is None:
            return most
        if not source:
            raise InputError("max_ratio is of the source's length, and there is no source: set max_length")
        # what 0.29 * 100 was meant to be, though it is 28.999...
        most_of_source = max(math.floor(self.max_ratio * source + 1e-9), self.min_length, 1)
        return most_of_source if self.max_length is None else min(most, most_of_source)

    @property
    def formula(self) -> str:
        """How hypotheses are scored, to be printed beside a result."""
        if self.alpha == 0:
            return "sum of log p"
        return f"sum of log p / {'((5 + l) / 6)' if self.penalty == 'gnmt' else 'l'}^{self.alpha:g}"


class FillSettings(Settings):
    """How the gaps of a text are filled."""

    sign: str = Field("[MASK]", min_length=1, description="what stands for a gap in a text")
    n_best: int = Field(1, ge=1, description="how many fillings are shown, the most probable first")


class EmbedSettings(Settings):
    """What is said of an input: its vector, or what is nearest to it."""

    among: str | list[str] | None = Field(
        None,
        description="answer not with the vector but with the nearest of these: a file, one a line; if there are"
        " several, they are the texts themselves",
    )
    n_best: int = Field(1, ge=1, description="with --among, how many are shown, the nearest first")


class AnswerSettings(Settings):
    """How the answer to a question is chosen among the spans of a text."""

    n_best: int = Field(1, ge=1, description="how many answers are shown, the most probable first")
    max_answer: int | None = Field(
        None, ge=1, description="most tokens of an answer; by default as many as 99 % of the training answers have"
    )
    threshold: float | None = Field(
        None, description="'no answer' is said where it is exp(threshold) times as probable as the best answer; by"
        " default what the validation set tells",
    )  # fmt: skip
