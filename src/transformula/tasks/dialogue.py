"""Dialogue and instructions: a decoder learns to reply.

    text   <end> mark message <end> mark message <end> ...        mark: what the template says of the role
    loss   mean over the tokens of replies, each with its <end>, of -log P(token | all before)

The template is data: a short text for each role, which stands before each of its messages. A message ends by the token
that ends a document, which no text is encoded as: whatever a message says, it can neither end its turn nor begin
another's. So a language model's tokenizer and tables serve as they are.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
from pydantic import Field, field_validator, model_validator
from torch import nn

from ..data.conversations import REPLIES, is_reply, messages_in, read_conversations
from ..data.lines import excerpt
from ..data.messages import TOOLS, Message, message_text, unread_keys
from ..data.preview import Preview, lengths_in_words, lengths_of, rows_under
from ..data.records import Record
from ..data.settings import Named, SourceSettings
from ..data.splits import SplitRows
from ..errors import DataError, InputError, setting
from ..generation.settings import ReplySettings
from ..language.graph import Architecture
from ..model.packing import check_packable
from ..structured import Malformed, load_yaml, parse_yaml
from ..tokenizers.base import Tokenizer
from .base import EVALUATION_COST, Progress, Scores, task
from .learned_parts import (
    PartlyLearned,
    PartsTask,
    identity_of,
    in_batches,
    nats_per_token,
    text_scores,
    unigram_nats,
)
from .losses import per_token, perplexity
from .ngram import cached_byte_ngrams
from .predictor import predictor
from .replies import Prompt, Reply, Replying, parts_of
from .scores.calls import call_accuracy, calls_in, most_frequent_call
from .scores.report import interval_of, standing
from .scores.written import distinct_pairs, is_in_form
from .soft import SoftTargets
from .templated_dialogues import TemplatedDialogues, by_chat_template, replies_in
from .turns import TooLong, Turn, Window, latest, windows_of
from .verb import Verb
from .writing import WRITING_COST, Continuation, spread_rows

VERSION = 1  # of how messages become tokens
TEMPLATE = {role: f"{role}\n" for role in ("system", "user", REPLIES, "tool", TOOLS)}
CONTEXT_TOKENS = 512  # tokens of a dialogue at most, where the model's text does not say
SHOWN_DIALOGUES = 3  # dialogues of which a reply is written to be looked at


class TemplateSettings(SourceSettings):
    """How messages become text."""

    template: dict[str, str] = Field(
        TEMPLATE, description="what stands before a message of each role: a YAML file, or its text:"
        ' {user: "user\\n", assistant: "assistant\\n"}',
    )  # fmt: skip
    chat_template: bool = Field(
        False, description="write dialogues by the chat template of the tokenizer's folder, in place of `template`; so"
        " it is where a model is loaded that replies by one",
    )  # fmt: skip
    batch_tokens: int = Field(4096, ge=1, description="tokens in a batch, padding included")

    @field_validator("template", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return load_yaml(Path(value)) if value.endswith((".yaml", ".yml")) else parse_yaml(value)
        except (OSError, Malformed) as error:
            raise ValueError(f"cannot be read: {error}") from None

    @field_validator("template")
    @classmethod
    def _check_roles_differ(cls, value: dict[str, str]) -> dict[str, str]:
        if REPLIES not in value or len(value) < 2:
            raise ValueError(f"expected a text for {REPLIES}, and for whom it replies to")
        if len(set(value.values())) < len(value) or not all(value.values()):
            raise ValueError("expected another text for each role, none of them empty")
        return value

    @model_validator(mode="after")
    def _one_template(self) -> Self:
        if self.chat_template and self.template != TEMPLATE:
            raise ValueError("chat_template and template both say how dialogues are written: leave one of them out")
        return self


class DialogueSettings(TemplateSettings):
    """Which dialogues there are, how they become text, and what of them is learned."""

    data: Named = Field(
        None, description="files of dialogues (jsonl, json, ...): rows with messages, conversations or turns, or with"
        " instruction, input and output; or a list of these",
    )  # fmt: skip
    column: str | None = Field(None, description="the column of the messages; by default one that is known")
    learn: Literal["replies", "all"] = Field(
        "replies", description="which tokens are learned: those of replies, or all; scores are of replies in any case"
    )
    pack: bool = Field(
        False, description="compute no padding: the dialogues of a batch stand in one row, in which none sees another"
    )
    written: int = Field(
        64, ge=0, description="validation dialogues for which a reply is written (greedily) and scored"
    )


@predictor("chat")
@dataclass(frozen=True)
class Chat(Replying):
    """A dialogue -> the next reply.

    task      by which it was trained
    template  role -> the text before its messages
    version   of how messages become tokens
    context   tokens that it was trained on at most
    longest   tokens of the longest reply of training: room is kept for one; what it writes is at most twice as long
    """

    task: str
    template: dict[str, str]
    context: int
    longest: int
    tokenizer: Tokenizer
    version: int = VERSION

    @property
    def identity(self) -> str:
        """A hash of the template."""
        return hashlib.sha256(json.dumps([self.version, self.template]).encode()).hexdigest()[:32]

    @cached_property
    def marks(self) -> dict[str, np.ndarray]:
        """The tokens of each role's mark."""
        return {role: np.array(self.tokenizer.encode(text), dtype=np.int32) for role, text in self.template.items()}

    def turns(self, dialogues: Sequence[Sequence[Message]]) -> list[list[Turn]]:
        """Messages as turns."""
        messages = [message for dialogue in dialogues for message in dialogue]
        texts = iter(self.tokenizer.encode_many(list(map(message_text, messages))))

        def turn(message: Message) -> Turn:
            parts = [self.marks[message["role"]], next(texts).astype(np.int32), np.array([self.end], dtype=np.int32)]
            return Turn(np.concatenate(parts), len(parts[0]), is_reply(message))

        return [list(map(turn, dialogue)) for dialogue in dialogues]

    def text_of(self, window: Window, learn: str = "replies") -> PartlyLearned:
        """A window as the model reads it."""
        both = [*window.history, *window.turns]
        ids = np.concatenate([[self.end], *(turn.ids for turn in both)]).astype(np.int32)
        learned = [np.zeros(len(turn.ids), dtype=bool) for turn in window.history]
        learned += [turn.learned if learn == "replies" else np.ones(len(turn.ids), dtype=bool) for turn in window.turns]
        return PartlyLearned(ids, np.concatenate(learned))

    def check_roles(self, messages: Sequence[Message], place: str) -> None:
        """Raise DataError for a role that the template does not have."""
        role = next((one["role"] for one in messages if one["role"] not in self.template), None)
        if role is not None:
            raise DataError(
                f"{place}: a message of the role {role!r}, and the template has {', '.join(self.template)}; give it one"
                " with a text for that role, or take these messages out"
            )

    def prompt(self, messages: Sequence[Message], settings: ReplySettings) -> Prompt:
        tools, before, rest = parts_of(self, messages, settings)
        first, turns = self.turns([[*tools, *before], rest])
        mark, (reply, least) = self.marks[REPLIES], self.room(settings)
        instructions = sum(len(turn.ids) for turn in first)
        room = self.context - len(mark) - instructions
        last = latest(turns[-1:], room - least)
        if not last:
            raise self.too_long(reply, instructions)
        kept = [*latest(turns[:-1], room - reply - len(last[0].ids), whole=True), *last]
        older, part = len(turns) - len(kept), len(last[0].ids) < len(turns[-1].ids)
        ids = np.concatenate([[self.end], *(turn.ids for turn in [*first, *kept]), mark])
        return Prompt(ids.tolist(), self.left_out(older, part), older)

    def usual(self) -> tuple[int, int]:
        return self.longest, 2 * self.longest

    def replied(self, written: Sequence[Continuation]) -> list[list[int]]:
        return [[*ids, self.end] for ids in self.tokenizer.encode_many([one.text for one in written])]


class Dialogues:
    """The dialogues of a split, as turns and as windows."""

    def __init__(self, records: Sequence[Record], chat: Chat) -> None:
        self.records, self.chat, self.context = records, chat, chat.context
        self.turns = chat.turns([messages_in(record) for record in records])
        cut = [windows_of(turns, chat.context) for turns in self.turns]
        self.windows = [windows for windows, _ in cut]
        self.too_long = TooLong(*(sum(numbers) for numbers in zip(*(too_long for _, too_long in cut), strict=True)))

    def texts(self, learn: str = "replies") -> list[PartlyLearned]:
        """All windows in which something counts."""
        texts = [self.chat.text_of(window, learn) for windows in self.windows for window in windows]
        return [text for text in texts if text.learned.any()]

    def alone(self) -> list[PartlyLearned]:
        """Each reply without what precedes it."""
        return [self.chat.text_of(Window([], [turn])) for turn in self.replies]

    @property
    def replies(self) -> list[Turn]:
        """All replies that count."""
        return [turn for windows in self.windows for window in windows for turn in window.turns if turn.reply]

    def part(self, rows: Sequence[int]) -> Self:
        part = copy.copy(self)
        part.records, part.windows = [self.records[row] for row in rows], [self.windows[row] for row in rows]
        return part


def read_dialogues(sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
    """The dialogues that have a reply. Raises DataError for none."""
    rows = list(read_conversations(sources, settings.column, notes, **settings.reading))
    kept = [row for row in rows if any(n and is_reply(one) for n, one in enumerate(messages_in(row)))]
    if not kept:
        raise DataError(f"{key}: none of {len(rows):,} rows holds a message and a reply of the role {REPLIES}")
    if len(kept) < len(rows):
        notes.append(f"{key}: {len(rows) - len(kept):,} rows without a reply are left out")
    unread = sum((unread_keys(messages_in(row)) for row in kept), Counter[str]())
    if unread:
        listed = ", ".join(f"{name} (of {count:,} messages)" for name, count in sorted(unread.items()))
        notes.append(f"{key}: not read, as the template has roles and texts alone: {listed}")
    return kept


def dialogue_texts(records: Sequence[Record], settings: Any) -> list[str]:
    """Dialogues as texts, from which a tokenizer learns."""
    mark = settings.template.get
    return ["".join(mark(one["role"], "") + message_text(one) + "\n" for one in messages_in(row)) for row in records]


def check_pack(architecture: Architecture, settings: Any) -> None:
    """Raise InputError for a model that cannot keep the dialogues of a row apart, where they are to stand in one."""
    if settings.pack:
        check_packable(architecture)


@task("dialogue", aliases=["instructions"])
class Dialogue(PartsTask):
    """Replies to a dialogue or an instruction. The main score is the loss on replies: nats per token, the
    end of each included."""

    chosen: DialogueSettings
    chat: Any
    training: Any
    validation: Any
    read = staticmethod(read_dialogues)
    tokenizer_texts = staticmethod(dialogue_texts)
    fits = staticmethod(check_pack)
    row_name = "dialogues"
    soft_targets = SoftTargets(lambda task, model: in_batches(task.validation.texts()))
    settings = evaluation = DialogueSettings
    measures: tuple[str, ...] = (
        "loss", "perplexity", "without_dialogue", "stops", "in_form", "distinct_2", "call_accuracy", "tokens",
    )  # fmt: skip
    higher = frozenset(["stops", "in_form", "distinct_2", "call_accuracy"])
    verb = Verb(
        "chat",
        help="talk with a model that was trained on dialogues",
        about="""\
Talk with a trained model: at a terminal, message and reply take turns (/reset begins again, /quit ends). Messages that
are arguments, lines of a file or of standard input, or the conversations of a file's rows, are replied to one by one.
A conversation longer than the model's context loses its oldest messages, and a note says so. To a model that reads
pictures they are shown by --picture, and at a terminal by /picture FILE before a message.""",
        examples=(
            "transformula chat runs/chat",
            'transformula chat runs/chat "I want to book a table." --json',
            "transformula chat runs/chat --temperature 0.7 --top-p 0.9 --seed 3",
            'transformula chat runs/charts "How many bars are there?" --picture chart.png',
            "transformula chat runs/chat --input dialogues.jsonl --format jsonl --output replies.jsonl",
        ),
        settings=ReplySettings,
        takes="MESSAGE",
        answers="replies",
        reads="transformula.data.conversations:read_histories",
        converses=True,
        picture="picture",
        views="picture-chat",
    )

    def learn(self, rows: SplitRows, tokenizer: Tokenizer, numbers: Mapping[str, Any]) -> None:
        context, vocab = numbers.get("context"), max(tokenizer.vocab, int(numbers.get("vocab") or 0))
        context = None if context is None else int(context)
        sides: tuple[Any, Any, Any]
        if self.chosen.chat_template:
            sides = by_chat_template(rows, tokenizer, context or CONTEXT_TOKENS)
        else:
            sides = by_template(Chat(self.name, self.chosen.template, 0, 0, tokenizer), rows, context)
        self.chat, self.training, self.validation = sides
        self.context = self.validation.context
        self.numbers = {"vocab": vocab, "context": self.context}
        self.longest = max((len(t.ids) - t.mark for t in self.training.replies), default=self.context)
        if isinstance(self.chat, Chat):
            self.chat = replace(self.chat, longest=self.longest)
        self.notes += too_long_notes("training", self.training) + too_long_notes("validation", self.validation)
        self.texts = self.training.texts(self.chosen.learn)
        if not any(map(calls_in, replies_in(self.validation.records))):
            self.measures = tuple(name for name in self.measures if name != "call_accuracy")

    @classmethod
    def check_data(cls, settings: Any) -> None:
        if settings.data is None:
            raise InputError(f"no {setting('data')}: name files of dialogues, such as chats.jsonl")

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        """Scores of the validation dialogues.

        loss              nats per token of a reply, each end included
        without_dialogue  the same where the model reads each reply alone: what the dialogue is worth to it
        stops             share of the replies it writes that come to their end within twice the longest of training
        in_form           share of these that also have a word and no line that is a role's mark
        distinct_2        different pairs of words that follow each other, of all such pairs in these replies
        call_accuracy     of these replies that call a tool, or stand for one that does: those whose calls are the same,
                          names and arguments, in percent
        """
        side, alone = self.validation, self.validation.alone()
        total = len(side.records)
        within = text_scores(
            model, side.texts(), progress and (lambda done, whole: progress(total * done // whole, total))
        )
        loss = nats_per_token(within)
        scores = Scores(loss=loss, perplexity=perplexity(loss), tokens=sum(score.tokens for score in within))
        scores.measure([per_token(np.array([(score.nats, score.tokens) for score in within], dtype=float))])
        scores["without_dialogue"] = nats_per_token(text_scores(model, alone))
        if self.chosen.written:
            written = self.write_replies(model, spread_rows(total, self.chosen.written))
            references, replies = [right for _, right, _ in written], [reply for _, _, reply in written]
            scores["stops"] = float(np.mean([reply.ended for reply in replies]))
            template = {} if self.chosen.chat_template else self.chosen.template
            scores["in_form"] = float(np.mean([is_in_form(reply, template) for reply in replies]))
            scores["distinct_2"] = distinct_pairs([reply.text for reply in replies])
            called = call_accuracy([reply.text for reply in replies], references)
            if "call_accuracy" in self.measures and called is not None:
                scores.measure([called])
        return scores

    def write_replies(self, model: Any, rows: Sequence[int]) -> list[tuple[str, str, Reply]]:
        """For some validation dialogues: what is replied to, the reply that stands there, and the model's, greedily. Of
        each dialogue another reply is taken."""
        asked, references = [], []
        for number, row in enumerate(rows):
            messages = messages_in(self.validation.records[row])
            places = [n for n, one in enumerate(messages) if n and is_reply(one)]
            if places:
                place = places[number % len(places)]
                asked.append(messages[:place])
                references.append(message_text(messages[place]))
        if self.chosen.chat_template:
            fitting = [n for n, one in enumerate(asked) if self.chat.of(model).holds(one)]
            asked, references = [asked[n] for n in fitting], [references[n] for n in fitting]
        replies = self.chat.predict([model], asked)
        last = (message_text(messages[-1]) for messages in asked)
        return [(one, right, reply) for one, right, (reply,) in zip(last, references, replies, strict=True)]

    @property
    def validation_rows(self) -> int:
        return len(self.validation.records)

    def cost_of(self, rows: int) -> float:
        share = rows / len(self.validation.records)
        tokens = sum(len(turn.learned) for turn in self.validation.replies) * share
        return float(EVALUATION_COST * tokens + WRITING_COST * min(rows, self.chosen.written) * self.longest)

    def keep_rows(self, rows: np.ndarray) -> None:
        self.validation = self.validation.part(rows.tolist())

    def baselines(self) -> dict[str, float]:
        """Nats per token of a reply, of models that know no dialogue: how often each token stands in replies of
        training; and n-grams over the bytes of replies, which pay for each end as the model does."""
        if not self.training.records:
            return {}
        sides = (self.training, self.validation)
        learned, held_out = ([turn.ids[turn.mark :] for turn in side.replies] for side in sides)
        texts, others = ([self.chat.tokenizer.decode(ids[:-1]) for ids in each] for each in (learned, held_out))
        nats = cached_byte_ngrams("replies", texts, others, True)
        scale = sum(len(text.encode()) for text in others) / sum(map(len, held_out))
        grams = {f"byte {order}-gram of replies": value * scale for order, value in nats.items()}
        return {"unigram of replies": unigram_nats(learned, held_out, self.numbers["vocab"]), **grams}

    def verdict(self, scores: Mapping[str, float]) -> str:
        text = f"{scores['loss']:.2f} nats per token of a reply: {standing(scores['loss'], self.baselines())}"
        text += f"; {100 * scores['stops']:.0f} % of replies stop" if "stops" in scores else ""
        if "call_accuracy" not in scores:
            return text
        ends = interval_of(getattr(scores, "resampled", {}).get("call_accuracy") or [0.0])
        most = most_frequent_call(*(replies_in(side.records) for side in (self.training, self.validation)))
        between = f" ({ends[0]:.0f} to {ends[1]:.0f})" if ends else ""
        return f"{text}; {scores['call_accuracy']:.0f} %{between} of calls are right (the most frequent: {most:.0f} %)"

    def sample(self, model: nn.Module, seed: int = 1) -> str:
        """A few validation dialogues: the last message, the reply of the model and the one that stands there."""
        rows = np.random.default_rng(seed).permutation(len(self.validation.records))[:SHOWN_DIALOGUES]
        lines = []
        for asked, right, reply in self.write_replies(model, rows.tolist()):
            texts = (("message", asked), ("reply", reply.text), ("reference", right))
            lines += [*(f"{name:<11}{' '.join(text.split())[:100]}" for name, text in texts), ""]
        return "\n".join(lines).strip()

    def preview(self) -> Preview:
        validation_tokens = sum(int(turn.learned.sum()) for turn in self.validation.replies)
        learned = self.training.records
        about: dict[str, Any] = {"validation_tokens": validation_tokens, "notes": self.notes, "tokenizer": self.about}
        about |= {"training_rows": len(learned), "validation_rows": len(self.validation.records)}
        template, identity = template_of(self.chat)
        about |= {"template": template, "template_hash": identity}
        rows = [
            ("data", f"{len(learned):,} dialogues to train, {len(self.validation.records):,} to validate"),
            ("template", f"{json.dumps(template)} (version {VERSION}, {identity[:8]})"),
            ("tokenizer", self.about),
        ]
        if learned:
            examples = [shorten_dialogue(messages_in(record)) for record in learned[:5]]
            lengths = lengths_of(np.array([text.positions for text in self.texts]))
            counted = sum(int(text.learned.sum()) for text in self.texts)
            about |= {"examples": examples, "lengths": lengths, "learned_tokens": counted}
            rows += [
                ("learned", f"{counted:,} tokens ({self.chosen.learn}) of {len(self.texts):,} texts"),
                ("batches", f"{self.chosen.batch_tokens:,} tokens: {self.buckets.fill()}"),
                *rows_under("examples", examples),
                ("lengths", lengths_in_words(lengths)),
            ]
        return Preview(about, [*rows, *(("note", note) for note in self.notes)])

    def predictor(self) -> Replying:
        return cast(Replying, self.chat)

    def describe(self) -> dict[str, Any]:
        sides = [self.texts, self.validation.texts()]
        identities = " ".join(map(identity_of, sides))
        return {
            "identity": hashlib.sha256(identities.encode()).hexdigest()[:32],
            "training_rows": len(self.training.records),
            "validation_rows": len(self.validation.records),
            "learn": self.chosen.learn,
            "template": template_of(self.chat)[0],
            "template_hash": template_of(self.chat)[1],
            "tokenizer": self.chat.tokenizer.identity,
            **self.numbers,
        }


def by_template(chat: Chat, rows: SplitRows, context: int | None) -> tuple[Chat, Dialogues, Dialogues]:
    """What replies by the template of the settings, and both sides of its data. Raises DataError."""
    for record in [*rows.training, *rows.validation]:
        chat.check_roles(messages_in(record), record.place)
    if context is None:
        sizes = [sum(len(turn.ids) for turn in turns) for turns in chat.turns([*map(messages_in, rows.training)])]
        context = min(CONTEXT_TOKENS, max(sizes, default=CONTEXT_TOKENS))
    chat = replace(chat, context=context)
    return chat, Dialogues(rows.training, chat), Dialogues(rows.validation, chat)


def template_of(chat: Any) -> tuple[Any, str]:
    """By what a chat model writes dialogues, and its hash."""
    if isinstance(chat, Chat):
        return chat.template, chat.identity
    text = chat.tokenizer.chat.text
    return "the chat template of the tokenizer", hashlib.sha256(text.encode()).hexdigest()[:32]


def too_long_notes(name: str, side: Dialogues | TemplatedDialogues) -> list[str]:
    """What a person is told of messages that the context cannot hold."""
    replies, others = side.too_long
    notes = [f"{name}: {replies:,} replies are longer than the context and left out"] if replies else []
    return notes + ([f"{name}: of {others:,} messages the last part is read alone"] if others else [])


def shorten_dialogue(messages: Sequence[Message]) -> str:
    """The first messages of a dialogue on one line."""
    texts = [f"{one['role']}: {excerpt(message_text(one), 40)}" for one in messages]
    return "  ".join(texts[:3]) + (f"  ({len(texts)} messages)" if len(texts) > 3 else "")
