"""What replies to dialogues: by what it learned of them here, or by the chat template of a model of others."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..data.conversations import REPLIES
from ..data.lines import excerpt
from ..data.messages import LISTS, TOOLS, Message, check_results, message_text, messages_of, texts_in, tools_of
from ..data.pictures import PictureFile
from ..errors import InputError, setting
from ..generation.settings import ReplySettings, SamplingSettings
from ..tokenizers.base import Tokenizer
from ..tokenizers.pretrained import Pretrained
from .base import Progress
from .forms import Form
from .learned_parts import PartlyLearned, text_scores
from .predictor import Answer, Predictor, predictor
from .tool_calls import OPEN, call_form, calls_in_message, given_tools, read_calls
from .writing import Continuation, end_of, write_after

REPLIES_AT_ONCE = 64  # replies that are written together
MAX_REPLY_TOKENS = 256  # tokens of a reply of a model of others, at most, where nothing is said
PICTURE = "picture"  # of an object that is replied to: the pictures of its last message
NO_PICTURES = "this model reads no picture among its messages; leave it out, or name a model that does"
OLDEST_LEFT_OUT, PART_READ = "the oldest messages were left out", "of a long message the last part was read alone"


@dataclass(frozen=True)
class Reply(Answer):
    """A reply.

    score  log P of a token of it, on average
    ended  it came to the end of its turn; else it was cut at the maximum number of tokens
    left_out  how many of its messages, the oldest, it did not read
    tool_calls  the calls of tools that its text holds, where the dialogue lists tools
    """

    ended: bool = True
    left_out: int = 0
    tool_calls: list[Message] = field(default_factory=list)

    @property
    def brief(self) -> dict[str, Any]:
        return {"text": self.text, **({"tool_calls": self.tool_calls} if self.tool_calls else {})}

    @property
    def full(self) -> dict[str, Any]:
        return {key: value for key, value in super().full.items() if key != "tool_calls" or value}


class Prompt(NamedTuple):
    """What a reply goes on from.

    ids       tokens
    note      what of the dialogue is not in it
    left_out  how many messages, the oldest
    """

    ids: list[int]
    note: str = ""
    left_out: int = 0


def is_dialogue(given: Any) -> bool:
    """Whether what a person gives is a single dialogue: a text, an object or a list of messages."""
    if isinstance(given, (str, Mapping)):
        return True
    listed = isinstance(given, (list, tuple)) and bool(given)
    return listed and all(isinstance(one, Mapping) and "messages" not in one for one in given)


class ReplyWritten(NamedTuple):
    """What was written after a prompt.

    room    tokens that it could have at most
    inputs  what the model was given beside the prompt, by name
    """

    prompt: Prompt
    written: Continuation
    room: int
    inputs: Mapping[str, Any] = MappingProxyType({})

    @property
    def text(self) -> PartlyLearned:
        """The prompt and the reply as a text, of which the reply counts."""
        ids = np.array([*self.prompt.ids, *self.written.ids])
        return PartlyLearned(ids, np.arange(1, len(ids)) >= len(self.prompt.ids))


class Replying(Predictor):
    """A dialogue, a list of messages -> the next reply.

    A context holds both. Room is kept for a reply of the usual length, at most half of it: older messages that do not
    fit beside that are left out, from the oldest. The last message stays as long as a quarter is left.

    inside_calls  what stands between the tags and a call of a tool, as the model writes it. Raises InputError for one
                  that writes calls otherwise
    """

    tokenizer: Tokenizer
    context: int | None
    settings = ReplySettings
    inside_calls: str = ""

    @property
    def verb(self) -> str:
        return "chat"

    @property
    def end(self) -> int:
        return end_of(self.tokenizer)

    def of(self, model: Any) -> Replying:
        """This, as it is of a model: with how much that reads."""
        return self

    @abstractmethod
    def usual(self) -> tuple[int, int]:
        """Tokens of a reply, its end included: those for which room is kept, and those that are written at most, where
        nothing is said."""

    @abstractmethod
    def prompt(self, messages: Sequence[Message], settings: ReplySettings) -> Prompt:
        """What the model goes on from. Raises InputError where it cannot read the last message."""

    def room(self, settings: ReplySettings) -> tuple[int, int]:
        """Tokens that are kept for a reply: from older messages, and from the last one. Raises InputError for a reply
        that is longer than the context."""
        kept = settings.max_tokens or self.usual()[0]
        if self.context is None:
            return kept, kept
        if settings.max_tokens is not None and kept > self.context:
            raise self.too_long(kept)
        kept = max(1, min(kept, self.context // 2))
        return kept, max(1, min(kept, self.context // 4))

    def too_long(self, reply: int, system: int = 0) -> InputError:
        assert self.context is not None
        beside = f", beside {system} tokens of the system," if system else ""
        return InputError(
            f"a reply of {reply} tokens{beside} leaves no room for the dialogue in a context of {self.context}: make it"
            f" shorter: {setting('max_tokens', str(max(1, self.context // 4)))}"
        )

    def left_out(self, older: int, part: bool = False) -> str:
        """What is said of a dialogue of which so many older messages, or a part of the last one, are not read."""
        said = " and ".join(note for note, true in ((OLDEST_LEFT_OUT, older), (PART_READ, part)) if true)
        return said and f"{said}: the model reads {self.context} tokens"

    def replied(self, written: Sequence[Continuation]) -> list[list[int]]:
        """The tokens of replies, their ends included, as they are scored."""
        return [one.ids for one in written]

    def scores(self, model: Any, replies: Sequence[ReplyWritten]) -> list[float]:
        """Log P of a token of each reply after its prompt, on average, its end included."""
        texts = []
        for each, ids in zip(replies, self.replied([one.written for one in replies]), strict=True):
            prompt = each.prompt
            whole = np.array([*prompt.ids, *ids])[: None if self.context is None else self.context + 1]
            texts.append(PartlyLearned(whole, np.arange(1, len(whole)) >= len(prompt.ids)))
        return [-score.nats / score.tokens for score in text_scores(model, texts)]

    def check_roles(self, messages: Sequence[Message], place: str) -> None:
        """Raise DataError or InputError for messages that cannot be replied to."""

    def is_one(self, given: Any) -> bool:
        return is_dialogue(given)

    def opened(self, inputs: Sequence[Any]) -> list[list[Message]]:
        """Each input as messages; a text is a message of the user; an object has messages, and the tools that may be
        called. Raises DataError, InputError."""
        histories = []
        for number, source in enumerate(inputs, 1):
            row = source if isinstance(source, Mapping) else {"messages": source}
            if PICTURE in row:
                raise InputError(f"source {number}: {NO_PICTURES}")
            if not isinstance(row.get("messages"), (str, list, tuple)) or not {*row} <= {"messages", *LISTS}:
                raise InputError(
                    f"source {number}: expected a text, a list of messages, or an object with `messages` and `tools`,"
                    f" not {source!r:.40}"
                )
            given = row["messages"]
            given = [{"role": "user", "content": given}] if isinstance(given, str) else given
            messages = [*tools_of(row, f"source {number}"), *messages_of(given, f"source {number}")]
            messages = [one for one in messages if message_text(one).strip()]
            self.check_roles(messages, f"source {number}")
            if messages and messages[-1]["role"] == REPLIES:
                raise InputError(f"source {number}: ends with a reply; leave it out, or add what is replied to")
            histories.append(messages)
        return histories

    def predict(
        self, models: Sequence[Any], inputs: Sequence[Any], settings: ReplySettings | None = None, *,
        progress: Progress | None = None, on_text: Callable[[int, str], None] | None = None,
    ) -> list[list[Reply]]:  # fmt: skip
        """The reply to each dialogue, a list of messages; to one without a word there is none."""
        settings, chat = settings or ReplySettings(), self.of(models[0])
        wanted, replies = settings.max_tokens or chat.usual()[1], [[Reply("")] for _ in inputs]
        inputs = with_tools(inputs, settings)
        rows = [row for row, messages in enumerate(inputs) if messages]
        for first in range(0, len(rows), REPLIES_AT_ONCE):
            some = rows[first : first + REPLIES_AT_ONCE]
            seeded = settings.model_copy(update={"seed": settings.seed + first})
            written = replies_after(chat, models[0], [inputs[row] for row in some], seeded, on_text)
            scores = chat.scores(models[0], written)
            for row, (prompt, one, room, _), score in zip(some, written, scores, strict=True):
                cut = f"the reply was cut where the context of {chat.context} tokens ends"
                said = [prompt.note, "" if one.ended or room == wanted else cut]
                note = "; ".join(filter(None, said))
                calls = calls_in_message(read_calls(one.text)[1]) if tools_in(inputs[row]) else []
                replies[row] = [Reply(one.text, score, one.ended, prompt.left_out, calls, note=note)]
            if progress is not None:
                progress(some[-1] + 1, len(inputs))
        return replies

    def conversation(self, model: Any, settings: ReplySettings) -> Conversation:
        return Conversation(self, model, settings)


def tools_in(messages: Sequence[Message]) -> list[Any]:
    """The tools that a dialogue lists."""
    return list(messages[0]["tools"]) if messages and messages[0]["role"] == TOOLS and "tools" in messages[0] else []


def with_tools(dialogues: Sequence[Sequence[Message]], settings: ReplySettings) -> list[Sequence[Message]]:
    """Dialogues, with the tools of the settings before those that list none. Raises InputError, DataError."""
    if settings.tools is None:
        return [*dialogues]
    tools = given_tools(settings.tools)
    return [messages if tools_in(messages) or not messages else [*tools, *messages] for messages in dialogues]


def forms_of(
    chat: Replying, dialogues: Sequence[Sequence[Message]], settings: ReplySettings
) -> list[Form | None] | None:
    """What each reply keeps to: its tools, where these are to be. Raises InputError for a choice without tools."""
    choice = settings.tool_choice or (None if settings.tools is None else "auto")
    if choice is None:
        return None
    keys = [json.dumps(tools_in(messages), default=str) for messages in dialogues]
    tools = dict(zip(keys, map(tools_in, dialogues), strict=True))
    made = {key: call_form(each, choice, inside=chat.inside_calls) for key, each in tools.items()}
    return [made[key] for key in keys]


def replies_after(
    chat: Replying, model: Any, dialogues: Sequence[Sequence[Message]], settings: ReplySettings,
    on_text: Callable[[int, str], None] | None = None,
) -> list[ReplyWritten]:  # fmt: skip
    """What is written after dialogues, all of them at once."""
    wanted, apart = settings.max_tokens or chat.usual()[1], not chat.continues
    prompts = [chat.prompt(messages, settings) for messages in dialogues]
    begun = [prompt.ids for prompt in prompts]
    drawing = SamplingSettings(**settings.model_dump(exclude={"system", "tools", "tool_choice", "max_tokens"}))
    # the last one written is not read
    left = [wanted if chat.context is None else min(wanted, chat.context + 1 - len(ids)) for ids in begun]
    forms = forms_of(chat, dialogues, settings)
    seeing: Any = chat if chat.reads == "both" else None
    given = [seeing.inputs(*each) if seeing else {} for each in zip(dialogues, prompts, strict=True)]
    inputs = {name: [each[name] for each in given] for name in given[0]}
    written = write_after(
        model, chat.tokenizer, begun, drawing, on_text, most=left, apart=apart, forms=forms, inputs=inputs
    )
    return list(map(ReplyWritten, prompts, written, left, given))


def parts_of(
    chat: Replying, messages: Sequence[Message], settings: ReplySettings
) -> tuple[list[Message], list[Message], list[Message]]:
    """What lists tools, what the system says, and the rest of a dialogue. Raises InputError, DataError."""
    tools = list(messages[:1]) if tools_in(messages) else []
    chat.check_roles(tools, "tools")
    rest = messages[len(tools) :]
    begun = next((n for n, one in enumerate(rest) if one["role"] != "system"), 0)
    system = [] if settings.system is None else [{"role": "system", "content": settings.system}]
    chat.check_roles(system, "system")
    return tools, [*system, *rest[:begun]], list(rest[begun:])


class Conversation:
    """A dialogue that goes on: `reply` adds a message and its reply to `messages`, with the pictures that were shown
    since the last one."""

    def __init__(self, chat: Any, model: Any, settings: ReplySettings) -> None:
        self.chat, self.model, self.settings = chat, model, settings
        self.messages: list[Message] = []
        self.shown: list[PictureFile] = []

    @property
    def sees(self) -> bool:
        """Whether pictures may be shown."""
        return bool(self.chat.reads == "both")

    def show(self, picture: str) -> None:
        """Show a file before the next message. Raises InputError, DataError."""
        if not self.sees:
            raise InputError(NO_PICTURES)
        file = PictureFile(Path(picture).expanduser(), "the conversation")
        file.load()
        self.shown.append(file)

    def reset(self) -> None:
        self.messages, self.shown = [], []

    def reply(self, text: str, on_text: Callable[[str], None], role: str = "user") -> Reply:
        """The reply to a message, of the user or of the role "tool": what the call before it gave. `on_text` is called
        with each piece of it as it is written. Raises InputError, DataError for a result without a call."""
        if role == "user":
            asked = {"messages": text, PICTURE: self.shown} if self.shown else text
            messages = [*self.messages, *self.chat.opened([asked])[0]]
        else:
            messages = [*self.messages, *messages_of([{"role": role, "content": text}], "the result", whole=False)]
            check_results(messages, "the conversation")
            self.chat.check_roles(messages[-1:], "the result")
        show = lambda _, piece: on_text(piece)  # noqa: E731
        reply: Reply = self.chat.predict([self.model], [messages], self.settings, on_text=show)[0][0]
        content = read_calls(reply.text)[0] if reply.tool_calls else reply.text
        called = {"tool_calls": reply.tool_calls} if reply.tool_calls else {}
        self.messages, self.shown = [*messages, {"role": REPLIES, "content": content, **called}], []
        return reply


@predictor("templated-chat")
@dataclass(frozen=True)
class TemplatedChat(Replying):
    """Replies by the chat template of the tokenizer's folder; texts it goes on with like any other. Its folder is known
    by the tokenizer alone.

    context  tokens that the model reads at most; None where that is not known
    """

    tokenizer: Pretrained
    context: int | None = None

    method = "generate"
    by_chat_template = True

    @property
    def continues(self) -> bool:
        return True

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder)

    @property
    def inside_calls(self) -> str:  # type: ignore[override]
        text = "" if self.tokenizer.chat is None else self.tokenizer.chat.text
        if OPEN not in text or self.tokenizer.special_in(OPEN) is not None:
            raise InputError(
                f"the chat template of this model does not write calls of tools as {OPEN}: what it calls cannot be told"
                f" from other text; leave {setting('tool_choice')} and {setting('tools')} out, or list the tools beside"
                " the messages and read the reply yourself"
            )
        return "\n"

    def of(self, model: Any) -> TemplatedChat:
        context = getattr(getattr(model, "architecture", None), "numbers", {}).get("context")
        return replace(self, context=None if context is None else int(context))

    def usual(self) -> tuple[int, int]:
        return MAX_REPLY_TOKENS, MAX_REPLY_TOKENS

    def check_roles(self, messages: Sequence[Message], place: str) -> None:
        """Raise InputError for a message that names a special token, whatever part of it does, as the template may
        print each: it could end its turn, and begin another's."""
        lists_tools = any(one["role"] == TOOLS and "tools" in one for one in messages[:1])
        for number, message in enumerate(messages, 1 - lists_tools):
            who = "its list of tools" if message["role"] == TOOLS else f"message {number}"
            for key, text in texts_in(message):
                name = self.tokenizer.special_in(text)
                if name is not None:
                    where = "" if key == "content" else f" in {excerpt(key)}"
                    raise InputError(
                        f"{place}: {who} holds {name}{where}, which to this model is no text but a sign of"
                        " its own: take it out, or write it otherwise"
                    )

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether the context holds what is replied to."""
        try:
            self.prompt(messages, self.settings())
        except InputError:
            return False
        return True

    def begun(self, messages: Sequence[Message], tools: Mapping[str, Any]) -> Prompt:
        """What the template writes of messages, all of them."""
        assert self.tokenizer.chat is not None
        return Prompt(self.tokenizer.encode_special(self.tokenizer.chat.render(messages, **tools), template=False))

    def prompt(self, messages: Sequence[Message], settings: ReplySettings) -> Prompt:
        """What the template makes of the messages. Those that are left out go up to a message of the user."""
        listed, before, rest = parts_of(self, messages, settings)
        tools = {"tools": listed[0]["tools"]} if listed else {}
        asked = [0, *(n for n, one in enumerate(rest) if n and one["role"] == "user")]
        kept, least = self.room(settings)
        for older in asked:
            made = self.begun([*before, *rest[older:]], tools)
            ids = made.ids
            if self.context is None or len(ids) + (least if older == asked[-1] else kept) <= self.context + 1:
                return made._replace(note=self.left_out(older), left_out=older)
        raise InputError(
            f"the dialogue has {len(ids)} tokens, and a reply may have {least}: together more than the {self.context}"
            f" that the model reads; shorten it, or the reply: {setting('max_tokens', str(max(1, least // 4)))}"
        )
