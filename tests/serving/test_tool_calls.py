"""OpenAI's own client asks for calls of tools: they parse, whatever the model has learned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.serving.conftest import LAYER, running
from tests.tokenizers.published_folders import write_plain
from transformula import Model
from transformula.data.messages import message_text
from transformula.tasks.dialogue import TEMPLATE, Chat
from transformula.tokenizers.characters import Bytes

CITY = {"type": "object", "properties": {"city": {"enum": ["Rom", "Oslo"]}, "days": {"type": "integer", "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}  # fmt: skip
ZONE = {"type": "object", "properties": {"zone": {"enum": ["CET", "UTC"]}}, "required": ["zone"],
        "additionalProperties": False}  # fmt: skip
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": CITY,
                                      "strict": True}},
    {"type": "function", "function": {"name": "clock", "parameters": ZONE}},
]  # fmt: skip
ASKED: list[Any] = [{"role": "user", "content": "Weather in Rom?"}]
GIVEN: dict[str, Any] = {"model": "agent", "messages": ASKED, "tools": TOOLS, "max_tokens": 200}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("agents")
    model = Model(LAYER, vocab=257, width=32, heads=2, depth=1, context=1024, seed=5)
    model.predictor = Chat("dialogue", TEMPLATE, 1024, 40, Bytes.train([]))
    for name in ("tokenizer", "plain"):
        (folder / name).mkdir()
    of_others = write_plain("llama3", folder / "tokenizer")
    (of_others / "chat_template.jinja").write_text(
        "{{ tools | tojson }}{% for one in messages %}{{ one.role }}: {{ one.content }}"
        "{% for call in one.tool_calls or [] %}<tool_call>\n{{ call.function.name }}\n</tool_call>{% endfor %}"
        "{% endfor %}"
    )
    theirs = Model("pre-norm", tokenizer=of_others, depth=1, width=16, heads=2, context=1024)
    plain = write_plain("llama3", folder / "plain")
    (plain / "chat_template.jinja").write_text("{{ messages[0].content }}")
    without = Model("pre-norm", tokenizer=plain, depth=1, width=16, heads=2, context=512)
    models = {"agent": model, "theirs": theirs, "without": without}
    return {name: Path(one.save(folder / name)) for name, one in models.items()}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path]) -> Iterator[OpenAI]:
    with running(folders, rows=8) as server:
        yield server.client()


def checked(call: Any) -> tuple[str, Any]:
    assert call.type == "function" and call.id.startswith("call_")
    name, arguments = call.function.name, json.loads(call.function.arguments)
    if name == "weather":
        assert set(arguments) == {"city", "days"} and arguments["city"] in ("Rom", "Oslo") and arguments["days"] <= 9
    else:
        assert name == "clock" and arguments in ({"zone": "CET"}, {"zone": "UTC"})
    return name, arguments


@pytest.mark.parametrize("model", ["agent", "theirs"])
def test_required_calls_parse(client: OpenAI, model: str) -> None:
    names = set()
    for seed in range(8):
        answer = client.chat.completions.create(
            **{**GIVEN, "model": model}, tool_choice="required", parallel_tool_calls=False, seed=seed
        )
        (choice,) = answer.choices
        assert choice.finish_reason == "tool_calls" and choice.message.content is None
        (call,) = choice.message.tool_calls or []
        names.add(checked(call)[0])
    assert names == {"weather", "clock"}


def test_a_named_tool_is_called(client: OpenAI) -> None:
    named: Any = {"type": "function", "function": {"name": "clock"}}
    for seed in range(4):
        (choice,) = client.chat.completions.create(**GIVEN, tool_choice=named, seed=seed, n=1).choices
        assert {checked(call)[0] for call in choice.message.tool_calls or []} == {"clock"}


def test_a_stream_has_the_same_calls(client: OpenAI) -> None:
    """Names and arguments come in pieces, by their numbers, as OpenAI sends them."""
    several = 0
    for seed in range(6):
        given = {**GIVEN, "tool_choice": "required", "seed": seed, "max_tokens": 400}
        whole = client.chat.completions.create(**given).choices[0]
        calls: dict[int, dict[str, str]] = {}
        pieces, reason = 0, None
        for chunk in client.chat.completions.create(**given, stream=True):
            (choice,) = chunk.choices
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or []:
                assert delta.function is not None
                pieces += 1
                if delta.id is not None:
                    calls[delta.index] = {"name": delta.function.name or "", "arguments": ""}
                calls[delta.index]["arguments"] += delta.function.arguments or ""
        message: Any = whole.message
        told = [{"name": one.function.name, "arguments": one.function.arguments} for one in message.tool_calls]
        assert list(calls.values()) == told and reason == whole.finish_reason
        assert pieces > 2 * len(calls), "arguments come as they are written"
        several += len(calls) > 1
    assert several, "none of the replies calls twice: take another seed"


def test_no_tool_is_called_where_none_may_be(client: OpenAI) -> None:
    for choice in ("none", "auto"):
        answer = client.chat.completions.create(**GIVEN, tool_choice=choice, seed=1).choices[0]  # type: ignore[call-overload]
        assert answer.message.tool_calls is None and isinstance(answer.message.content, str)


def test_what_a_tool_gave_is_read(client: OpenAI, folders: dict[str, Path]) -> None:
    answer = client.chat.completions.create(**GIVEN, tool_choice="required", parallel_tool_calls=False, temperature=0)
    called = answer.choices[0].message
    (call,) = called.tool_calls or []
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    messages: list[Any] = [*ASKED, called.model_dump(exclude_none=True), result]
    given = {**GIVEN, "messages": messages, "tool_choice": "none", "temperature": 0}
    reply = client.chat.completions.create(**given).choices[0]
    model = Model.from_folder(folders["agent"])
    tools = [{**tool, "function": {k: v for k, v in tool["function"].items() if k != "strict"}} for tool in TOOLS]
    own = model.predict({"messages": messages, "tools": tools}, max_tokens=200, tool_choice="none")
    assert reply.message.content == own
    chat: Any = model.predictor
    prompt = chat.prompt(chat.opened([{"messages": messages, "tools": tools}])[0], chat.settings())
    text = chat.tokenizer.decode(prompt.ids)
    assert '"name": "weather"' in text and "</tool_call>tool\nsunny" in text and "strict" not in text
    messages[-1]["tool_call_id"] = "call_other"
    with pytest.raises(openai.BadRequestError, match="answers the call .*call_other"):
        client.chat.completions.create(**{**GIVEN, "messages": messages})


def test_a_call_that_was_cut_has_what_there_is(client: OpenAI) -> None:
    head = len('<tool_call>{"name": "weather", "arguments": {"ci')
    named: Any = {"type": "function", "function": {"name": "weather"}}
    choice = client.chat.completions.create(**{**GIVEN, "max_tokens": head}, tool_choice=named).choices[0]
    assert choice.finish_reason == "length" and choice.message.tool_calls
    assert choice.message.tool_calls[0].function.arguments == '{"ci'  # type: ignore[union-attr]


NAMED = {"type": "function", "function": {"name": "clok"}}
ONE = TOOLS[0]["function"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tools": []}, "tools"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice: there are no tools"),
        ({"tools": None, "parallel_tool_calls": True}, "parallel_tool_calls: there are no tools"),
        ({"tool_choice": NAMED}, "unknown tool 'clok'; did you mean clock"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tools": [{"type": "code_interpreter"}]}, "tools"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tool 2: 'weather' is the name of a tool before it"),
        ({"tools": [{**TOOLS[0], "function": {**ONE, "parameters": {"type": "objekt"}}}]}, "cannot be followed"),
        ({"response_format": {"type": "json_object"}}, "response_format: a reply has one form"),
        ({"logprobs": True}, "logprobs: a reply that may call tools has none"),
        ({"model": "without"}, "does not write calls of tools as <tool_call>"),
        ({"messages": [{"role": "tool", "content": "sunny", "tool_call_id": "c1"}]}, "no call stands before it"),
    ],
)
def test_mistakes(client: OpenAI, more: dict[str, Any], said: str) -> None:
    with pytest.raises(openai.BadRequestError, match=said):
        client.chat.completions.create(**{**GIVEN, **more})


def test_no_client_names_a_file_of_tools(folders: dict[str, Path], tmp_path: Path) -> None:
    """`/v1/predict` takes the settings of a reply: tools could be the name of a file of this machine."""
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(TOOLS))
    asked = {"model": "agent", "inputs": ["Weather?"], "settings": {"max_tokens": 30, "tools": str(file)}}
    with running({"agent": folders["agent"]}) as server:
        refused = server.post("/v1/predict", asked)
        assert refused.status_code == 400 and "tools are those of /v1/chat/completions" in refused.text
        both = [{"messages": ASKED, "tools": TOOLS[1:]}]
        given = {"model": "agent", "inputs": both, "settings": {"max_tokens": 200, "tool_choice": "clock"}}
        (result,) = server.post("/v1/predict", given).json()["results"]
        assert "clock" in json.dumps(result)


def test_the_command_calls_tools(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformula.cli.door import main

    file, folder = tmp_path / "tools.json", str(folders["agent"])
    file.write_text(json.dumps(TOOLS))
    common = ["chat", folder, "Weather?", "--tools", str(file), "--tool-choice", "weather", "--max-tokens", "400"]
    assert main([*common, "--json"]) == 0
    (reply,) = json.loads(capsys.readouterr().out)["texts"][0]["replies"]
    assert reply["tool_calls"] and {call["function"]["name"] for call in reply["tool_calls"]} == {"weather"}
    message = {"role": "assistant", "content": "", "tool_calls": reply["tool_calls"]}
    assert message_text(message) == reply["text"] or not reply["ended"]
    assert main([*common, "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["tool_calls"] == reply["tool_calls"]
    for wrong, said in (
        (["--tools", "nowhere.json"], "nowhere.json"), (["--tools", "[1]"], "expected a list of objects"),
        (["--tools", "[{"], "no JSON"), (["--tools", str(file), "--tool-choice", "wether"], "did you mean weather"),
        (["--tool-choice", "required"], "no tool is named that could be called"),
        (["--tools", str(file), "--regex", "a"], "two forms of a reply"),
    ):  # fmt: skip
        assert main(["chat", folder, "Weather?", *wrong]) != 0
        assert said in capsys.readouterr().err
