"""OpenAI's interface: completions, chat completions, embeddings, models. What comes in becomes texts that a worker
writes; what goes out has the shape that OpenAI's clients read."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.messages import Message
from ..errors import InputError
from ..generation.decoding import tokens_left
from ..generation.settings import ReplySettings, SamplingSettings
from ..plain import several
from ..tasks.best_of import draws
from ..tasks.forms import ANY_OBJECT, Form
from ..tasks.replies import Replying
from ..tasks.tool_calls import CallPiece, CallReader, call_form
from ..tasks.writing import TextGenerator, Writing
from ..tokenizers.base import Tokenizer
from .best import Best, Chosen, all_of
from .bodies import ChatBody, CompletionBody, EmbeddingBody, ResponseFormat, TextBody
from .models import Served
from .settings import ServeSettings
from .texts import Ending, Text, TextPiece, Wanted
from .worker import ModelWorker

USUAL_COMPLETION = 16  # tokens, where a request for a completion does not say how many


@dataclass(frozen=True)
class TextJob:
    """Texts that one request asks for, in the order of its prompts.

    prompts  of each text that is sent, where they are texts
    calls    they may call tools
    best     which of the texts are sent; None: all of them
    logs     whether log probabilities are sent
    """

    wanted: Sequence[Wanted]
    prompts: Sequence[str]
    tokenizer: Tokenizer
    note: str = ""
    calls: bool = False
    best: Best | None = None
    logs: bool = False


# Requests ------------------------------------------------------------------------------------------------------------


def completion_job(worker: ModelWorker, body: CompletionBody, settings: ServeSettings) -> TextJob:
    """What a request for completions asks for. Raises InputError."""
    predictor = worker.predictor
    tokenizer = tokenizer_of(worker)
    if isinstance(predictor, Writing) or not (predictor is None or predictor.continues):
        raise InputError("this model does not go on with a text: use /v1/predict")
    prompts: list[Any] = [body.prompt] if isinstance(body.prompt, str) else list(body.prompt)
    if prompts and isinstance(prompts[0], int):
        prompts = [prompts]
    if body.echo and body.logprobs is not None:
        raise InputError("echo and logprobs: log probabilities are of what is written; leave one out")
    begun = [check_ids(each, worker) if isinstance(each, list) else begin(tokenizer, each) for each in prompts]
    most = check_most(body.max_tokens or USUAL_COMPLETION, settings)
    longest = max(map(len, begun), default=0)
    left = tokens_left(worker.model.module, longest, 1 if body.fit else most)  # type: ignore[arg-type]
    most = min(most, left)
    base = Wanted((), sampling(body), most, top_logprobs=body.logprobs)
    each = texts_of(body, base, begun, tokenizer, settings, response_form(body.response_format))
    texts = [tokenizer.decode(prompt) if isinstance(prompt, list) else prompt for prompt in prompts]
    best = best_of(body, [[{"role": "user", "content": text}] for text in texts])
    shown = [text for text in texts for _ in range(body.n or 1)]
    return TextJob(each, shown, tokenizer, best=best, logs=body.logprobs is not None)


def chat_job(worker: ModelWorker, body: ChatBody, settings: ServeSettings) -> TextJob:
    """What a request for replies asks for. Raises InputError, DataError."""
    predictor = worker.predictor
    if not isinstance(predictor, Replying):
        raise InputError("this model does not reply to messages: it was trained for no dialogues; use /v1/completions")
    chat = predictor.of(worker.model.module)
    tools = [tool.shown for tool in body.tools or ()]
    (messages,) = chat.opened([{"messages": [plain_content(message) for message in body.messages], "tools": tools}])
    form = response_form(body.response_format)
    if tools and form is None:
        parallel = body.parallel_tool_calls is not False
        form = call_form(tools, body.choice, parallel, chat.inside_calls)
    wanted = body.max_completion_tokens or body.max_tokens
    reply = ReplySettings(max_tokens=wanted)
    prompt = chat.prompt(messages, reply)
    most = check_most(wanted or min(chat.usual()[1], settings.max_tokens), settings)
    if chat.context is not None:
        most = min(most, chat.context + 1 - len(prompt.ids))
    top_logprobs = (body.top_logprobs or 0) if body.logprobs else None
    base = Wanted((), sampling(body), most, apart=not chat.continues, top_logprobs=top_logprobs)
    texts = texts_of(body, base, [prompt.ids], chat.tokenizer, settings, form)
    best = best_of(body, [messages])
    return TextJob(texts, [], chat.tokenizer, prompt.note, body.calls, best, top_logprobs is not None)


def best_of(body: TextBody, dialogues: Sequence[Sequence[Message]]) -> Best | None:
    """Which of the texts of a request are sent; None: all of them."""
    return Best(body.drawn, body.n or 1, dialogues) if body.chooses else None


def plain_content(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose content is parts of type text, as OpenAI's clients may send it, with one text."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    for part in content:
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise InputError(f"messages: this model reads parts of the type text alone, not {str(part)[:60]}")
    return {**message, "content": "".join(part["text"] for part in content)}


def texts_of(
    body: TextBody, base: Wanted, prompts: Sequence[Sequence[int]], tokenizer: Tokenizer, settings: ServeSettings,
    form: Form | None,
) -> list[Wanted]:  # fmt: skip
    """The texts of a request, some of each prompt, each with a seed and a form of its own. Raises InputError."""
    n = body.drawn
    if n * len(prompts) > settings.max_inputs:
        name = "best_of" if body.chooses else "n"
        raise InputError(f"{name}: {n} texts of {len(prompts)} prompts are more than {settings.max_inputs} at once")
    base = replace(
        base, bias=body.logit_bias or {}, presence=body.presence_penalty or 0.0, frequency=body.frequency_penalty or 0.0
    )
    for token in base.bias:
        if not 0 <= token < tokenizer.vocab:
            raise InputError(f"logit_bias: {token} is no token: ids go from 0 to {tokenizer.vocab - 1}")
    first = secrets.randbits(48) if body.seed is None else body.seed
    each = [ids for ids in prompts for _ in range(n)]
    drawing = [base.settings.model_copy(update={"seed": first + number}) for number in range(len(each))]
    if body.chooses:  # the draws are those of Model.generate and Model.predict with best_of
        base = replace(base, top_logprobs=base.top_logprobs or 0)
        drawing = [one for place in range(len(prompts)) for one in draws(drawing[place], n)]
    return [
        replace(base, prompt=ids, settings=own, constraint=None if form is None else form.begin(tokenizer))
        for ids, own in zip(each, drawing, strict=True)
    ]


def sampling(body: TextBody) -> SamplingSettings:
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    given = {name: value for name in names if (value := getattr(body, name)) is not None}
    return SamplingSettings(**given, stop=several(body.stop or []))


def response_form(wanted: ResponseFormat | None) -> Form | None:
    """The form of an answer. Raises InputError."""
    if wanted is None or wanted.type == "text":
        return None
    if wanted.regex is not None:
        return Form.of_regex(wanted.regex)
    if wanted.choice is not None:
        return Form.of_choices(wanted.choice)
    if wanted.grammar is not None:
        return Form.of_grammar(wanted.grammar)
    return Form.of_schema(ANY_OBJECT if wanted.json_schema is None else wanted.json_schema.schema_)


def tokenizer_of(worker: ModelWorker) -> Tokenizer:
    if worker.model.tokenizer is None:
        raise InputError("this model has no tokenizer: it was not trained on text")
    return worker.model.tokenizer


def begin(tokenizer: Tokenizer, prompt: str) -> list[int]:
    return TextGenerator(tokenizer).begin(prompt)


def check_ids(ids: list[int], worker: ModelWorker) -> list[int]:
    vocab = int(worker.model.architecture.numbers["vocab"])
    if not ids or not all(0 <= token < vocab for token in ids):
        raise InputError(f"prompt: expected token ids from 0 to {vocab - 1}, one at least")
    return ids


def check_most(wanted: int, settings: ServeSettings) -> int:
    if wanted > settings.max_tokens:
        raise InputError(f"max_tokens: {wanted} is more than the {settings.max_tokens} that this server writes at most")
    return wanted


# Answers -------------------------------------------------------------------------------------------------------------


class AnswerShape:
    """The shape of the answers to a request for completions.

    offsets  characters of each text that were sent, its prompt included where that is echoed
    """

    kind = "text_completion"
    streamed_kind = "text_completion"
    prefix = "cmpl-"

    def __init__(self, model: str, job: TextJob, echo: bool = False) -> None:
        self.job, self.echo = job, echo
        self.base = {"id": self.prefix + secrets.token_hex(12), "created": int(time.time()), "model": model}
        self.offsets = [len(prompt) if echo else 0 for prompt in job.prompts] or [0] * len(job.wanted)

    def first(self, index: int) -> list[dict[str, Any]]:
        """What a stream says of a text before its first piece."""
        return [self.choice(index, {"text": self.job.prompts[index], "logprobs": None})] if self.echo else []

    def piece(self, index: int, piece: TextPiece) -> dict[str, Any]:
        logs = self.log_probabilities(index, piece)
        self.offsets[index] += len(piece.text)
        return self.choice(index, {"text": piece.text, "logprobs": logs})

    def pieces(self, index: int, piece: TextPiece) -> list[dict[str, Any]]:
        """What a stream says of a piece."""
        return [self.piece(index, piece)]

    def last(self, index: int, reason: str) -> list[dict[str, Any]]:
        """What a stream says of a text behind its last piece."""
        return [self.choice(index, {"text": "", "logprobs": None}, reason)]

    def text(self, index: int, piece: TextPiece, reason: str) -> dict[str, Any]:
        before = self.job.prompts[index] if self.echo else ""
        logs = self.log_probabilities(index, piece)
        return self.choice(index, {"text": before + piece.text, "logprobs": logs}, reason)

    def choice(self, index: int, content: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": index, **content, "finish_reason": reason}

    def log_probabilities(self, index: int, piece: TextPiece) -> dict[str, Any] | None:
        if not self.job.logs:
            return None
        tokens = [self.spelled(token.id) for token in piece.tokens]
        offsets = np.cumsum([self.offsets[index], *map(len, tokens[:-1])]).tolist() if tokens else []
        top_logprobs = [{self.spelled(n): value for n, value in token.top_logprobs} for token in piece.tokens]
        values = [token.log_probability for token in piece.tokens]
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": top_logprobs, "text_offset": offsets}

    def spelled(self, token: int) -> str:
        return self.job.tokenizer.decode([token]) if token < self.job.tokenizer.vocab else ""

    def whole(self, choices: Sequence[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        note = {"note": self.job.note} if self.job.note else {}
        return {**self.base, "object": self.kind, "choices": list(choices), "usage": usage, **note}

    def event(self, choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None = None) -> dict[str, Any]:
        more = {} if usage is None else {"usage": usage}
        return {**self.base, "object": self.streamed_kind, "choices": list(choices), **more}


class ChatShape(AnswerShape):
    """The shape of the answers to a request for replies."""

    kind, streamed_kind, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl-"

    def __init__(self, model: str, job: TextJob, echo: bool = False) -> None:
        super().__init__(model, job, echo)
        self.readers = [CallReader() for _ in job.wanted] if job.calls else []

    def first(self, index: int) -> list[dict[str, Any]]:
        return [self.choice(index, {"delta": {"role": "assistant", "content": ""}, "logprobs": None})]

    def piece(self, index: int, piece: TextPiece) -> dict[str, Any]:
        content = {"delta": {"content": piece.text}, "logprobs": self.log_probabilities(index, piece)}
        return self.choice(index, content)

    def pieces(self, index: int, piece: TextPiece) -> list[dict[str, Any]]:
        if not self.readers:
            return [self.piece(index, piece)]
        return [self.delta(index, said) for said in self.readers[index].push(piece.text)]

    def delta(self, index: int, said: CallPiece) -> dict[str, Any]:
        """More of the text or of a call."""
        if said.call is None:
            return self.choice(index, {"delta": {"content": said.text}, "logprobs": None})
        function = {"name": said.name, "arguments": ""} if said.name else {"arguments": said.text}
        head = {"id": call_id(), "type": "function"} if said.name else {}
        calls = [{"index": said.call, **head, "function": function}]
        return self.choice(index, {"delta": {"tool_calls": calls}, "logprobs": None})

    def last(self, index: int, reason: str) -> list[dict[str, Any]]:
        rest = [self.delta(index, said) for said in self.readers[index].close()] if self.readers else []
        return [*rest, self.choice(index, {"delta": {}, "logprobs": None}, self.reason(index, reason))]

    def reason(self, index: int, reason: str) -> str:
        return "tool_calls" if reason == "stop" and self.readers and self.readers[index].calls else reason

    def text(self, index: int, piece: TextPiece, reason: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": piece.text, "refusal": None}
        if self.readers:
            reader = self.readers[index]
            reader.push(piece.text)
            reader.close()
            calls = [
                {"id": call_id(), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reader.calls
            ]
            message |= {"content": reader.text or None, "tool_calls": calls} if calls else {}
        logs = self.log_probabilities(index, piece)
        return self.choice(index, {"message": message, "logprobs": logs}, self.reason(index, reason))

    def log_probabilities(self, index: int, piece: TextPiece) -> dict[str, Any] | None:
        if not self.job.logs:
            return None
        content = []
        for token in piece.tokens:
            top = [self.token(number, value) for number, value in token.top_logprobs]
            content.append({**self.token(token.id, token.log_probability), "top_logprobs": top})
        return {"content": content, "refusal": None}

    def token(self, number: int, log_probability: float) -> dict[str, Any]:
        pieces = self.job.tokenizer.pieces
        raw = list(pieces[number]) if number < len(pieces) else []
        return {"token": self.spelled(number), "logprob": log_probability, "bytes": raw}


def call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def usage_of(job: TextJob, endings: Sequence[Ending]) -> dict[str, Any]:
    """Numbers of tokens of a request; a prompt of which n texts are written counts once."""
    each = {id(wanted.prompt): wanted.prompt for wanted in job.wanted}
    prompt, written = sum(map(len, each.values())), sum(ending.written for ending in endings)
    reused = {id(wanted.prompt): ending.reused for wanted, ending in zip(job.wanted, endings, strict=True)}
    return {
        "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": sum(reused.values())},
    }  # fmt: skip


async def whole_answer(
    texts: Sequence[Text], shape: AnswerShape,
    rewards: Callable[[Sequence[Sequence[Message]]], Awaitable[list[float]]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The answer to a request that is not streamed. `rewards`: what a reward model says of replies. Raises the error of
    the first text that failed."""
    written, best = [await all_of(text) for text in texts], shape.job.best
    chosen = list(map(Chosen, range(len(written))))
    if best is not None:
        chosen = best.chosen(written, None if rewards is None else await rewards(best.replies(written)))
    choices = []
    for index, (place, reward) in enumerate(chosen):
        piece, ending = written[place]
        said = {} if reward is None else {"reward": reward}
        choices.append(shape.text(index, piece, ending.reason) | said)
    return shape.whole(choices, usage_of(shape.job, [one.ending for one in written]))


async def streamed_answer(
    merged: AsyncIterator[tuple[int, TextPiece | Ending]], shape: AnswerShape, count: int, usage: bool,
    failed: Callable[[Exception], Mapping[str, Any]],
) -> AsyncIterator[str]:  # fmt: skip
    """Server-sent events of a request that is streamed. `failed`: the object that says an error."""
    endings: dict[int, Ending] = {}
    begun: set[int] = set()
    async for index, event in merged:
        if index not in begun:
            begun.add(index)
            for choice in shape.first(index):
                yield server_sent(shape.event([choice]))
        if isinstance(event, TextPiece):
            for choice in shape.pieces(index, event):
                yield server_sent(shape.event([choice]))
            continue
        if event.error is not None:
            yield server_sent(failed(event.error))
            return
        endings[index] = event
        for choice in shape.last(index, event.reason):
            yield server_sent(shape.event([choice]))
    if usage:
        every = [endings[index] for index in range(count)]
        yield server_sent(shape.event([], usage_of(shape.job, every)))
    yield "data: [DONE]\n\n"


def server_sent(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n"


# Embeddings and models -----------------------------------------------------------------------------------------------


def embeddings(body: EmbeddingBody, name: str, answers: Sequence[Any], tokens: int) -> dict[str, Any]:
    """The answer to a request for embeddings, by the answers of a model of vectors."""
    data = []
    for index, best in enumerate(answers):
        vector = np.asarray(best[0].value, dtype=np.float32)
        if body.dimensions not in (None, len(vector)):
            raise InputError(f"dimensions: the vectors of this model have {len(vector)} numbers")
        packed: Any = vector.tolist()
        if body.encoding_format == "base64":
            packed = base64.b64encode(vector.astype("<f4").tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": packed})
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": name, "usage": usage}


def model_card(one: Served) -> dict[str, Any]:
    """What is said of a model."""
    known = {"id": one.name, "object": "model", "created": one.created, "owned_by": "transformula", "state": one.state}
    known |= {} if one.base is None else {"parent": one.base.name}
    return known | one.about | ({"error": one.error} if one.error else {})
