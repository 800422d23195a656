"""Calls of tools: which replies their form allows, and how calls are read from what is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from transformula.errors import InputError, UnknownName
from transformula.tasks.tool_calls import CallReader, Form, call_form, calls_in_message, functions_of, read_calls
from transformula.tokenizers.byte_level import BPE
from transformula.tokenizers.characters import Bytes

CITY = {"type": "object", "properties": {"city": {"$ref": "#/$defs/name"}, "days": {"type": "integer"}},
        "required": ["city", "days"], "additionalProperties": False, "$defs": {"name": {"type": "string"}}}  # fmt: skip
TOOLS: list[Any] = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}, {"name": 'clock "2"'}]
WEATHER = '<tool_call>{"name": "weather", "arguments": {"city": "Rom", "days": 3}}</tool_call>'
CLOCK = '<tool_call>{"name": "clock \\"2\\"", "arguments": {"a": [1, 2], "b": {}}}</tool_call>'
TEXT = "a < b <tool"


@pytest.fixture(scope="module", params=["bytes", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    if request.param == "bytes":
        return Bytes.train([])
    return BPE.train([WEATHER, CLOCK, "Is it raining in Rom? Wait."] * 30, 300)


def is_allowed(form: Form, text: str, tokenizer: Any) -> bool:
    """Whether a text can be written in a form, and may end there."""
    watching = form.begin(tokenizer)
    for token in tokenizer.encode(text):
        logits = torch.zeros(tokenizer.vocab)
        watching.rule_out(logits)
        if logits[token] != 0:
            return False
        watching.take(token)
    return watching.complete or watching.may_end


@pytest.mark.parametrize(
    ("choice", "parallel", "allowed"),
    [
        ("auto", True, {"text", "one", "other", "two", "said"}), ("auto", False, {"text", "one", "other"}),
        ("none", True, {"text"}), ("required", True, {"one", "other", "two"}), ("required", False, {"one", "other"}),
        ("weather", True, {"one"}), ('clock "2"', True, {"other"}),
    ],
)  # fmt: skip
def test_what_a_reply_may_be(tokenizer: Any, choice: str, parallel: bool, allowed: set[str]) -> None:
    texts = {"text": TEXT, "one": WEATHER, "other": CLOCK, "two": f"{WEATHER}\n{CLOCK}",
             "said": f"Wait.\n{WEATHER}\n{WEATHER}", "unknown": WEATHER.replace("weather", "wind"),
             "open": WEATHER[:30], "wrong": WEATHER.replace("3", '"3"'),
             "less": WEATHER.replace(', "days": 3', "")}  # fmt: skip
    form = call_form(TOOLS, choice, parallel)
    assert {name for name, text in texts.items() if is_allowed(form, text, tokenizer)} == allowed


def test_line_breaks_within_the_tags(tokenizer: Any) -> None:
    form = call_form(TOOLS, "auto", inside="\n")
    spaced = WEATHER.replace("l>{", "l>\n{").replace("}</", "}\n</")
    assert is_allowed(form, f"Wait.\n{spaced}\n{spaced}", tokenizer) and not is_allowed(form, WEATHER, tokenizer)
    assert read_calls(spaced) == read_calls(WEATHER)


@pytest.mark.parametrize(
    ("written", "text", "calls"),
    [
        (TEXT, TEXT, []),
        (f"Wait.\n{WEATHER}\n{CLOCK}", "Wait.", [("weather", '{"city": "Rom", "days": 3}', True),
                                                  ('clock "2"', '{"a": [1, 2], "b": {}}', True)]),
        (f"{WEATHER}\nDone.", "Done.", [("weather", '{"city": "Rom", "days": 3}', True)]),
        (WEATHER[:50], "", [("weather", '{"city": "R'[:50 - WEATHER.index('{"city')], False)]),
        (WEATHER[:20], WEATHER[:20], []),
        ("<tool_call>rain</tool_call>", "<tool_call>rain</tool_call>", []),
        ('<tool_call>{"name": "f", "arguments": {"of": "</tool_call>"}}</tool_call>', "",
         [("f", '{"of": "</tool_call>"}', True)]),
        ('<tool_call>{"name": "f", "arguments": 12}</tool_call>', "", [("f", "12", True)]),
        ('<tool_call>{"name": "f", "arguments": ' + "[" * 9000, "", [("f", "[" * 9000, False)]),
        ("a\n\n", "a\n\n", []),
    ],
)  # fmt: skip
def test_reading(written: str, text: str, calls: list[Any]) -> None:
    """In pieces of any size, a reply has the same text and calls, and what was told of them is all of them."""
    for size in (1, 3, len(written)) if len(written) < 200 else (len(written),):
        reader = CallReader()
        pieces = (written[n : n + size] for n in range(0, len(written), size))
        said = [one for piece in pieces for one in reader.push(piece)] + reader.close()
        assert [tuple(call) for call in reader.calls] == calls
        assert reader.text.rstrip() == text.rstrip() == "".join(one.text for one in said if one.call is None).rstrip()
        told = ["".join(one.text for one in said if one.call == number) for number in range(len(calls))]
        assert told == [arguments for _, arguments, _ in calls]
        assert [one.name for one in said if one.name] == [name for name, _, _ in calls]


def test_calls_as_messages_have_them() -> None:
    made = calls_in_message(read_calls(f"{WEATHER}\n{CLOCK}")[1])
    assert [one["function"]["arguments"] for one in made] == [{"city": "Rom", "days": 3}, {"a": [1, 2], "b": {}}]
    assert json.loads(json.dumps(made)) == made and calls_in_message(read_calls(WEATHER[:50])[1]) == []


def test_tools_that_cannot_be_called() -> None:
    with pytest.raises(UnknownName, match="unknown tool 'wether'; did you mean weather"):
        call_form(TOOLS, "wether")
    with pytest.raises(InputError, match="no tool is named"):
        call_form([], "required")
    for wrong in ({"type": "function"}, {"name": ""}, {"name": "f", "parameters": []}, {"function": "f"}):
        with pytest.raises(InputError, match=r"tool 2 is .*; expected"):
            functions_of([TOOLS[0], wrong])
