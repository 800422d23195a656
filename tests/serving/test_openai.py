"""OpenAI's own client talks to a server of ours: texts, replies, streams, vectors, errors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from openai import OpenAI

from tests.serving.conftest import Server, learned, running, waiting_for
from transformula import Model

PROMPT = "the cat"
ASKED = [{"role": "user", "content": "What is 3?"}]


def written(folders: dict[str, Path], prompt: str = PROMPT, **given: Any) -> str:
    """What the model writes without a server."""
    text: str = Model.from_folder(folders["writer"]).generate(prompt, **given)
    return text


def test_a_completion_is_what_the_model_writes(client: OpenAI, folders: dict[str, Path]) -> None:
    answer = client.completions.create(model="writer", prompt=PROMPT, max_tokens=40, temperature=0)
    (choice,) = answer.choices
    assert choice.text == written(folders, max_tokens=40, temperature=0.0)
    assert choice.finish_reason == "length" and answer.object == "text_completion" and answer.model == "writer"
    assert answer.usage and (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(PROMPT), 40)


def test_a_seed_decides_what_is_drawn(client: OpenAI, folders: dict[str, Path]) -> None:
    def draw(**more: Any) -> str:
        return client.completions.create(model="writer", prompt=PROMPT, max_tokens=30, **more).choices[0].text

    assert draw(seed=4) == draw(seed=4) == written(folders, max_tokens=30, seed=4)
    assert draw(seed=4) != draw(seed=5)
    assert len({draw() for _ in range(3)}) == 3, "without a seed each is another"


def test_settings_are_those_of_sampling(client: OpenAI, folders: dict[str, Path]) -> None:
    more = {"top_k": 5, "min_p": 0.01, "repetition_penalty": 1.2}
    answer = client.completions.create(
        model="writer", prompt=PROMPT, max_tokens=30, temperature=0.7, top_p=0.9, seed=1, extra_body=more
    )
    assert answer.choices[0].text == written(folders, max_tokens=30, temperature=0.7, top_p=0.9, seed=1, **more)


def test_several_prompts_and_several_texts_of_each(client: OpenAI, folders: dict[str, Path]) -> None:
    answer = client.completions.create(model="writer", prompt=["a", "bcd"], n=2, max_tokens=12, seed=7)
    texts = [choice.text for choice in answer.choices]
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    seeds = zip(("a", "a", "bcd", "bcd"), range(7, 11), strict=True)
    assert texts == [written(folders, prompt, max_tokens=12, seed=seed) for prompt, seed in seeds]
    assert answer.usage and answer.usage.prompt_tokens == 4 and answer.usage.completion_tokens == 48


def test_prompts_may_be_tokens(client: OpenAI, server: Server) -> None:
    worker = server.models.by_name["writer"].worker
    assert worker is not None and worker.model.tokenizer is not None
    ids = worker.model.tokenizer.encode(PROMPT)
    given = {"model": "writer", "max_tokens": 10, "temperature": 0}
    by_text, by_ids, several = (
        client.completions.create(prompt=prompt, **given)
        for prompt in (PROMPT, ids, [ids, ids])  # type: ignore[call-overload]
    )
    assert by_ids.choices[0].text == by_text.choices[0].text
    assert [choice.text for choice in several.choices] == [by_text.choices[0].text] * 2


def test_a_stream_is_the_same_text(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "writer", "prompt": PROMPT, "max_tokens": 30, "seed": 2}
    whole = client.completions.create(**given).choices[0].text
    chunks = list(client.completions.create(**given, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == whole
    assert sum(bool(chunk.choices and chunk.choices[0].text) for chunk in chunks) > 5, "it comes in pieces"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == 30
    assert len({chunk.id for chunk in chunks}) == 1


def test_several_texts_in_one_stream(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "writer", "prompt": [PROMPT, "x"], "n": 2, "max_tokens": 9, "seed": 2}
    whole = [choice.text for choice in client.completions.create(**given).choices]
    texts = [""] * 4
    for chunk in client.completions.create(**given, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == whole


def test_a_text_stops_before_a_stop_string(client: OpenAI, folders: dict[str, Path]) -> None:
    whole = written(folders, max_tokens=60, seed=3)
    stop = whole[20:23]
    given: dict[str, Any] = {"model": "writer", "prompt": PROMPT, "max_tokens": 60, "seed": 3, "stop": ["never", stop]}
    answer = client.completions.create(**given).choices[0]
    assert answer.text == whole[: whole.index(stop)] and answer.finish_reason == "stop"
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**given, stream=True))
    assert streamed == answer.text


def test_echo(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "writer", "prompt": PROMPT, "max_tokens": 5, "seed": 3}
    plain = client.completions.create(**given).choices[0].text
    assert client.completions.create(**given, echo=True).choices[0].text == PROMPT + plain
    chunks = client.completions.create(**given, echo=True, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == PROMPT + plain


def test_log_probabilities_of_a_completion(client: OpenAI) -> None:
    answer = client.completions.create(model="writer", prompt=PROMPT, max_tokens=8, temperature=0, logprobs=3)
    logs = answer.choices[0].logprobs
    assert logs and logs.tokens and logs.token_logprobs and logs.top_logprobs and logs.text_offset
    assert "".join(logs.tokens) == answer.choices[0].text
    assert logs.text_offset == [*range(8)]
    for token, value, top in zip(logs.tokens, logs.token_logprobs, logs.top_logprobs, strict=True):
        assert value is not None and len(top) == 3 and max(top.values()) == top[token] == value <= 0


def test_no_more_than_the_positions_that_were_learned(folders: dict[str, Path], tmp_path: Path) -> None:
    short = learned(tmp_path / "learned")
    with running({"short": short}) as server:
        given: dict[str, Any] = {"model": "short", "prompt": "abc", "max_tokens": 100}
        with pytest.raises(openai.BadRequestError, match="do not fit in the 32 positions"):
            server.client().completions.create(**given)
        answer = server.client().completions.create(**given, extra_body={"fit": True})
        assert answer.usage and answer.usage.completion_tokens == 30, "the last one is not read"


def test_a_bias_and_penalties(client: OpenAI, server: Server) -> None:
    worker = server.models.by_name["writer"].worker
    assert worker is not None and worker.model.tokenizer is not None
    (z,) = worker.model.tokenizer.encode("z")
    given: dict[str, Any] = {"model": "writer", "prompt": PROMPT, "max_tokens": 10, "temperature": 0}
    assert client.completions.create(**given, logit_bias={str(z): 100}).choices[0].text == "z" * 10
    biased = client.completions.create(**given, logit_bias={str(z): 1}, presence_penalty=2, frequency_penalty=2)
    assert biased.choices[0].text != "z" * 10


def test_a_reply(client: OpenAI, folders: dict[str, Path]) -> None:
    answer = client.chat.completions.create(model="chat", messages=ASKED, max_tokens=20, temperature=0)  # type: ignore[arg-type]
    (choice,) = answer.choices
    own = Model.from_folder(folders["chat"]).predict(ASKED, max_tokens=20)
    assert choice.message.content == own and choice.message.role == "assistant"
    assert answer.object == "chat.completion" and choice.finish_reason in ("stop", "length")


def test_a_reply_in_a_stream(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "chat", "messages": ASKED, "max_completion_tokens": 20, "seed": 1}
    whole = client.chat.completions.create(**given).choices[0]
    chunks = list(client.chat.completions.create(**given, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.message.content
    assert chunks[-1].choices[0].finish_reason == whole.finish_reason


def test_content_may_be_parts(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "chat", "max_tokens": 10, "temperature": 0}
    parts = [{"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "is 3?"}]}]
    both = [client.chat.completions.create(messages=each, **given) for each in (ASKED, parts)]
    assert both[0].choices[0].message.content == both[1].choices[0].message.content
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]
    with pytest.raises(openai.BadRequestError, match="parts of the type text alone"):
        client.chat.completions.create(messages=picture, **given)


def test_log_probabilities_of_a_reply(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="chat",
        messages=ASKED,
        max_tokens=6,
        logprobs=True,
        top_logprobs=2,
        temperature=0,  # type: ignore[arg-type]
    )
    logs = answer.choices[0].logprobs
    assert logs and logs.content and answer.usage and len(logs.content) == answer.usage.completion_tokens
    for token in logs.content:
        assert len(token.top_logprobs) == 2 and token.top_logprobs[0].logprob == token.logprob <= 0
        assert isinstance(token.bytes, list)


def test_vectors(client: OpenAI, folders: dict[str, Path]) -> None:
    texts = ["the 3 is red", "a blue 4 runs"]
    own = Model.from_folder(folders["vectors"]).predict(texts)
    plain = client.embeddings.create(model="vectors", input=texts, encoding_format="float")
    packed = client.embeddings.create(model="vectors", input=texts)  # the client asks for base64 of itself
    for answer in (plain, packed):
        assert [one.index for one in answer.data] == [0, 1]
        for one, vector in zip(answer.data, own, strict=True):
            assert np.allclose(one.embedding, vector, atol=1e-5)
    single = client.embeddings.create(model="vectors", input=texts[0])
    assert np.allclose(single.data[0].embedding, own[0], atol=1e-5) and single.usage.prompt_tokens > 0
    width = len(own[0])
    assert client.embeddings.create(model="vectors", input=texts[0], dimensions=width).data
    with pytest.raises(openai.BadRequestError, match=f"have {width} numbers"):
        client.embeddings.create(model="vectors", input=texts[0], dimensions=width + 1)


def test_models(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["writer", "chat", "labels", "vectors"]
    one: Any = client.models.retrieve("writer")
    assert one.id == "writer" and one.state == "ready" and one.parameters > 0
    with pytest.raises(openai.NotFoundError, match="unknown model 'wriiter'; did you mean writer"):
        client.models.retrieve("wriiter")


ERRORS: list[tuple[str, dict[str, Any], type[openai.APIStatusError], str]] = [
    ("completions", {"model": "nobody", "prompt": "a"}, openai.NotFoundError, "unknown model 'nobody'"),
    ("completions", {"model": "writer", "prompt": "a", "temperature": -1}, openai.BadRequestError, "temperature"),
    ("completions", {"model": "writer", "prompt": "a", "max_tokens": 0}, openai.BadRequestError, "max_tokens"),
    ("completions", {"model": "writer", "prompt": "a", "max_tokens": 10**6}, openai.BadRequestError, "at most"),
    ("completions", {"model": "writer", "prompt": "", "suffix": "x"}, openai.BadRequestError, "suffix"),
    ("completions", {"model": "writer", "prompt": "ü"}, openai.BadRequestError, "ü"),
    ("completions", {"model": "writer", "prompt": [10**6]}, openai.BadRequestError, "token ids from 0 to"),
    ("completions", {"model": "writer", "prompt": "a", "n": 3, "best_of": 2}, openai.BadRequestError, "best_of"),
    ("completions", {"model": "writer", "prompt": "a", "echo": True, "logprobs": 1}, openai.BadRequestError, "echo"),
    ("completions", {"model": "labels", "prompt": "a"}, openai.BadRequestError, "use /v1/predict"),
    ("chat", {"model": "writer", "messages": ASKED}, openai.BadRequestError, "use /v1/completions"),
    ("chat", {"model": "chat", "messages": []}, openai.BadRequestError, "messages"),
    ("chat", {"model": "chat", "messages": [{"role": "judge", "content": "a"}]}, openai.BadRequestError, "judge"),
    ("chat", {"model": "chat", "messages": ASKED, "top_logprobs": 3}, openai.BadRequestError, "logprobs"),
    ("chat", {"model": "chat", "messages": ASKED, "functions": []}, openai.BadRequestError, "functions: unknown"),
    ("embeddings", {"model": "writer", "input": "a"}, openai.BadRequestError, "makes no vectors"),
]


@pytest.mark.parametrize(("kind", "given", "error", "said"), ERRORS)
def test_errors(client: OpenAI, kind: str, given: dict[str, Any], error: type[Exception], said: str) -> None:
    calls: dict[str, Any] = {
        "completions": client.completions.create, "chat": client.chat.completions.create,
        "embeddings": client.embeddings.create,
    }  # fmt: skip
    with pytest.raises(error, match=said) as caught:
        calls[kind](**given)
    body: Any = caught.value.body  # type: ignore[attr-defined]
    assert isinstance(body["message"], str) and body["type"]
    assert "--" not in body["message"], "a client knows fields, not options of a command"


def test_a_client_that_leaves_ends_its_text(client: OpenAI, server: Server) -> None:
    worker = server.models.by_name["writer"].worker
    assert worker is not None
    before = worker.counts.written_tokens
    with client.completions.create(model="writer", prompt="a", max_tokens=4000, stream=True) as stream:
        for _ in zip(range(3), stream, strict=False):
            pass
        assert worker.load == 1
    waiting_for(lambda: worker.load == 0)
    written = worker.counts.written_tokens
    assert written < before + 4000
    impatient = server.client(timeout=0.2)
    with pytest.raises(openai.APITimeoutError):
        impatient.completions.create(model="writer", prompt="a", max_tokens=4000)
    waiting_for(lambda: worker.load == 0)
    assert worker.counts.written_tokens < written + 4000


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_answers_in_a_form(client: OpenAI) -> None:
    given: dict[str, Any] = {"model": "chat", "messages": ASKED, "max_tokens": 80}
    form: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    for seed in range(5):
        choice = client.chat.completions.create(**given, seed=seed, response_format=form).choices[0]
        person = json.loads(choice.message.content or "")
        assert choice.finish_reason == "stop" and set(person) == {"name", "age"} and 0 <= person["age"] <= 99
    forms: list[dict[str, Any]] = [
        {"type": "regex", "regex": "[0-9]{4}"}, {"type": "choice", "choice": ["yes", "no"]},
        {"type": "grammar", "grammar": 'start: "ab" | "cd"'},
    ]  # fmt: skip
    texts = [
        client.completions.create(
            model="writer", prompt="a", max_tokens=20, n=4, extra_body={"response_format": form}
        ).choices
        for form in forms
    ]
    assert all(len(one.text) == 4 and one.text.isdigit() for one in texts[0])
    assert {one.text for one in texts[1]} <= {"yes", "no"} and {one.text for one in texts[2]} <= {"ab", "cd"}
    for bad, said in (({"type": "regex", "regex": "("}, "cannot be followed"), ({"type": "regex"}, "without")):
        with pytest.raises(openai.BadRequestError, match=said):
            client.completions.create(model="writer", prompt="a", extra_body={"response_format": bad})


def test_numbers_are_numbers(client: OpenAI) -> None:
    """JSON has no infinity: a token that a form ruled out has a log probability all the same, the model's own."""
    form = {"type": "regex", "regex": "[0-9]{3}"}
    answer = client.completions.create(
        model="writer", prompt="a", max_tokens=3, logprobs=5, extra_body={"response_format": form}
    )
    logs = answer.choices[0].logprobs
    assert logs and logs.token_logprobs
    assert all(value is not None and math.isfinite(value) for value in logs.token_logprobs)
