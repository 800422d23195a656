"""Inputs of any task, answered over HTTP. What comes from a client is never the name of a file."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..api.inputs import must_predict, prefixes_of
from ..data.pictures import PICTURES, PictureFile
from ..data.sound import RATE, SoundFile
from ..errors import InputError
from ..settings import Settings
from ..tasks.picture_messages import IMAGES, pictured_messages
from ..tasks.predictor import Predictor
from ..tasks.writing import Writing
from .bodies import ChatBody, PredictBody
from .settings import ServeSettings
from .worker import Ask, ModelWorker, message_of

DATA_URL, SOUND_URL = "data:image/", "data:audio/"
WITHOUT_EFFECT = ("user", "metadata", "store", "service_tier", "modalities")  # of OpenAI's settings
SHOWN = ("picture", *IMAGES)  # fields of an input, and of a part of a message, that are pictures


def ask_of(worker: ModelWorker, body: PredictBody, settings: ServeSettings) -> Ask:
    """What a request for answers asks for. Raises InputError."""
    predictor = must_predict(worker.predictor, worker.model.folder)
    if len(body.inputs) > settings.max_inputs:
        raise InputError(
            f"inputs: {len(body.inputs)} are more than the {settings.max_inputs} that are answered at once"
        )
    prefixes = None
    if body.prefix is not None:
        if not isinstance(predictor, Writing):
            raise InputError("prefix: this model writes nothing that could begin with a text")
        prefixes = prefixes_of(body.prefix, len(body.inputs))
    inputs = [checked(value, predictor, f"input {number}") for number, value in enumerate(body.inputs, 1)]
    options = options_of(predictor, body.settings, settings)
    return Ask(inputs, options, prefixes, asyncio.get_running_loop().create_future())


def options_of(predictor: Predictor, given: Mapping[str, Any], settings: ServeSettings) -> Settings:
    """The settings of a call. Raises ConfigError, and InputError for one that a server does not follow."""
    known = predictor.settings.model_fields
    own: dict[str, Any] = {name: getattr(settings, name) for name in ("engine", "weights") if name in known}
    for name in own:
        if name in given:
            raise InputError(f"settings: {name} is the server's own: transformula serve --{name} ...")
    options = predictor.settings.read({**given, **own})
    among = getattr(options, "among", None)
    if isinstance(among, str):
        raise InputError("settings: among is a list of texts here, not the name of a file")
    for name in ("ngrams", *predictor.guides):
        if getattr(options, name, None) is not None:
            raise InputError(f"settings: {name} names what lies on the server, which no client chooses")
    for form in ("json_schema", "grammar"):
        if getattr(options, form, None) is not None:
            raise InputError(f"settings: {form} is the response_format of /v1/completions and /v1/chat/completions")
    if getattr(options, "tools", None) is not None:  # which may be the name of a file
        raise InputError("settings: tools are those of /v1/chat/completions, or stand beside the messages of an input")
    for limit in ("max_tokens", "max_length"):
        if (getattr(options, limit, None) or 0) > settings.max_tokens:
            raise InputError(
                f"settings: {limit} is more than the {settings.max_tokens} that this server writes at most"
            )
    if among is not None:
        options = options.model_copy(update={"among": [checked(one, predictor, "settings: among") for one in among]})
    return options


def checked(value: Any, predictor: Predictor, place: str, pictured: bool = False) -> Any:
    """An input from a client, with pictures and sounds decoded; `pictured`: it must be a picture. Raises InputError,
    DataError."""
    if isinstance(value, list):
        return [checked(one, predictor, place, pictured) for one in value]
    if isinstance(value, Mapping):
        return {key: checked(one, predictor, place, pictured or key in SHOWN) for key, one in value.items()}
    if not isinstance(value, str) or predictor.reads == "texts":
        return value
    if predictor.reads == "sounds":
        content = content_of(value, place, f"{SOUND_URL}wav") if value.startswith(SOUND_URL) else b""
        if not content:
            raise InputError(
                f"{place}: send a sound as a data URL: {SOUND_URL}wav;base64,... (a server opens no files)"
            )
        return SoundFile(content, place, getattr(predictor, "rate", RATE)).load()
    if value.startswith(DATA_URL):
        return picture(value, place, predictor)
    if pictured or predictor.reads == "pictures" or value.lower().rpartition(".")[2] in PICTURES:
        raise InputError(f"{place}: send a picture as a data URL: {DATA_URL}png;base64,... (a server opens no files)")
    return value


def content_of(url: str, place: str, expected: str) -> bytes:
    """The file that a data URL holds. Raises InputError."""
    _, comma, written = url.partition(";base64,")
    try:
        content = base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if not comma or not content:
        raise InputError(f"{place}: expected {expected};base64, and what Base64 makes of the file")
    return content


def picture(url: str, place: str, predictor: Predictor) -> Any:
    content = content_of(url, place, f"{DATA_URL}png")
    shape = getattr(predictor, "picture", None)
    white = getattr(predictor, "processing", None) is None
    return PictureFile(content, place, None if shape is None else shape[0], white).load()


def chat_ask(worker: ModelWorker, body: ChatBody, settings: ServeSettings) -> Ask:
    """What a request for a reply asks a model that answers questions about pictures, in OpenAI's parts: a message of
    the user with a text and one or several pictures; or a dialogue, where the model's chat template writes it. Raises
    InputError for anything else, and for settings that are not followed."""
    given = body.model_dump(exclude_unset=True, exclude={"model", "messages", "max_tokens", "max_completion_tokens"})
    usual = {"stream": False, "n": 1, "best_of": 1, "temperature": 0}
    for key, value in given.items():
        if value is not None and key not in WITHOUT_EFFECT and value != usual.get(key):
            raise InputError(f"{key}: a model that answers questions about pictures does not follow it; leave it out")
    assert worker.predictor is not None
    messages = pictured_messages(body.messages, "messages")
    for part in (part for message in messages for part in message["content"] if "image" in part):
        part["image"] = checked(part["image"], worker.predictor, "messages", pictured=True)
    most = body.max_completion_tokens or body.max_tokens
    wanted = {"beam": 1, "alpha": 0.0} | ({} if most is None else {"max_length": most})
    options = options_of(worker.predictor, wanted, settings)
    return Ask([{"messages": messages}], options, None, asyncio.get_running_loop().create_future())


def chat_answer(name: str, answer: Any) -> dict[str, Any]:
    """A reply that is an answer, in OpenAI's shape. Raises what went wrong."""
    if isinstance(answer, Exception):
        raise answer
    best = answer[0]
    message = {"role": "assistant", "content": best.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    about = {"id": f"chatcmpl-{secrets.token_hex(12)}", "object": "chat.completion", "created": int(time.time())}
    return {**about, "model": name, "choices": [choice]}


def answers_of(answers: Sequence[Any]) -> list[dict[str, Any]]:
    """What is sent: for each input its answers, best first, or its error."""
    return [
        {"index": index, "error": message_of(best)}
        if isinstance(best, Exception)
        else {"index": index, "answers": [answer.full for answer in best]}
        for index, best in enumerate(answers)
    ]
