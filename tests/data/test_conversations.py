"""Chat data in the layouts that people have it, and the traps of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from transformula.data.conversations import is_reply, read_conversations
from transformula.errors import ConfigError, DataError
from transformula.tasks.base import tasks

HI, HELLO = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rom"}}}
CALLS = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "sunny", "tool_call_id": "c1"}


def read(path: Path, *rows: Any, **reading: Any) -> list[Any]:
    path.write_text("\n".join(map(json.dumps, rows)))
    return [record["messages"] for record in read_conversations(path, **reading)]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"instruction": "Hi", "context": "", "response": "Hello"}, [HI, HELLO]),
        ({"instruction": "Hi", "input": "", "output": "Hello", "system": "Be brief."}, "system"),
        ({"prompt": "Hi", "completion": "Hello"}, [HI, HELLO]),
        ({"prompt": [HI], "completion": [HELLO]}, [HI, HELLO]),
        ({"prompt": [{"role": "system", "content": "Be brief."}, HI], "response": "Hello"}, "system"),
        ({"prompt": "Hi", "completion": "Hello", "system": "Be brief."}, "system"),
        ({"messages": [{"role": "developer", "content": "Be brief."}, HI, HELLO]}, "system"),
        ({"messages": [{"role": "system", "content": "Be brief."}, HI, HELLO], "system": "Another."}, "system"),
        ({"system": "Be brief.", "conversations": [{"from": "human", "value": "Hi"},
                                                   {"from": "gpt", "value": "Hello"}]}, "system"),
        ({"system": None, "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
         [HI, HELLO]),
    ],
)  # fmt: skip
def test_layouts(tmp_path: Path, row: Any, expected: Any) -> None:
    told = [{"role": "system", "content": "Be brief."}, HI, HELLO]
    assert read(tmp_path / "rows.jsonl", row) == [told if expected == "system" else expected]


def test_calls_as_sharegpt_has_them(tmp_path: Path) -> None:
    """LLaMA-Factory's and Glaive's rows: roles of their own for a call and what it gave, tools as a text of JSON."""
    tool = {"name": "weather", "parameters": {"type": "object"}}
    call = {"name": "weather", "arguments": {"city": "Rom"}}
    said = [("human", "Hi"), ("function_call", json.dumps(call)), ("observation", "sunny"), ("gpt", "It is sunny.")]
    row = {"conversations": [{"from": who, "value": text} for who, text in said], "tools": json.dumps([tool])}
    (messages,) = read(tmp_path / "rows.jsonl", row)
    assert [one["role"] for one in messages] == ["tools", "user", "assistant", "tool", "assistant"]
    assert messages[0]["tools"] == [tool]
    assert messages[2]["tool_calls"] == [{"type": "function", "function": call}]
    two = {"conversations": [{"from": "human", "value": "Hi"}, {"from": "tool_call", "value": json.dumps([call] * 2)}]}
    assert len(read(tmp_path / "rows.jsonl", two)[0][1]["tool_calls"]) == 2
    row["conversations"][1]["value"] = "weather(Rom)"
    with pytest.raises(DataError, match=r"rows.jsonl:1: 'messages', message 2: the call is no JSON: .*expected"):
        read(tmp_path / "rows.jsonl", row)


@pytest.mark.parametrize("text", [True, False])
def test_arguments_are_a_text_or_an_object(tmp_path: Path, text: bool) -> None:
    arguments = CALL["function"]["arguments"]  # type: ignore[index]
    given = {**CALL, "function": {"name": "weather", "arguments": json.dumps(arguments) if text else arguments}}
    called = {"role": "assistant", "content": None, "tool_calls": [given]}
    assert read(tmp_path / "a.jsonl", {"messages": [HI, called, RESULT, HELLO]}) == [[HI, CALLS, RESULT, HELLO]]


def test_null_keys_of_parquet_are_no_keys(tmp_path: Path) -> None:
    """A column of structs gives each message, and the arguments of each call, the keys of all."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    clock = {"id": "c2", "type": "function", "function": {"name": "clock", "arguments": {"zone": "CET", "at": [1]}}}
    tools = [{"type": "function", "function": {"name": name, "parameters": {"properties": {key: {"type": "string"}}}}}
             for name, key in (("weather", "city"), ("clock", "zone"))]  # fmt: skip
    rows = [
        {"messages": [HI, CALLS, RESULT, HELLO], "tools": tools},
        {"messages": [HI, {**CALLS, "tool_calls": [clock]}, HELLO], "tools": None},
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist()[0]["messages"][0]["tool_calls"] is None
    first, second = (record["messages"] for record in read_conversations(tmp_path / "a.parquet"))
    assert first[1:] == [HI, CALLS, RESULT, HELLO] and first[0]["tools"] == tools
    assert second == [HI, {**CALLS, "tool_calls": [clock]}, HELLO]
    kept = [{"messages": [HI, {**CALLS, "tool_calls": [{"function": {"name": "f", "arguments": {"city": None}}}]}]}]
    ((_, said),) = read(tmp_path / "a.jsonl", *kept)
    assert said["tool_calls"][0]["function"]["arguments"] == {"city": None}, "in JSON a null was written by somebody"


def learned_of(path: Path, *rows: Any) -> Any:
    path.write_text("\n".join(map(json.dumps, rows)))
    kind = tasks.get("dialogue")
    task = kind.make(kind.settings.read({"data": str(path), "tokenizer": "bytes", "split": 0.3, "written": 0}), {})
    end = task.chat.end
    texts = [text.ids[1:][text.learned] for text in task.texts]
    return task, ["".join("|" if n == end else task.chat.tokenizer.decode([n]) for n in ids) for ids in texts]


def numbered(messages: list[Any]) -> list[Any]:
    """Rows that differ in what the user says first."""
    first = next(n for n, one in enumerate(messages) if one["role"] == "user")
    return [
        {"messages": [{**one, "content": f"{one['content']} {row}"} if n == first else one
                      for n, one in enumerate(messages)]}
        for row in range(10)
    ]  # fmt: skip


CALL_TEXT = '<tool_call>{"name": "weather", "arguments": {"city": "Rom"}}</tool_call>'


@pytest.mark.parametrize(
    ("messages", "counted"),
    [
        ([HI, CALLS, RESULT, HELLO], f"{CALL_TEXT}|Hello|"),  # calls and their ends count, what the tool gave does not
        ([HI, {**CALLS, "content": "Wait.", "weight": 0}, RESULT, HELLO], "Hello|"),
        ([HI, HELLO, {"role": "assistant", "content": "And?"}], "Hello|And?|"),  # two replies in a row
        ([HELLO, HI, HELLO, HI], "Hello|Hello|"),  # it starts with a reply, and ends with the user
        ([{"role": "system", "content": "Be brief."}, HI, {**HELLO, "weight": 1}], "Hello|"),
        ([HI, {"role": "assistant", "content": "  "}, HI, HELLO], "Hello|"),  # a message of white space is left out
    ],
)
def test_which_tokens_count(tmp_path: Path, messages: list[Any], counted: str) -> None:
    _, learned = learned_of(tmp_path / "rows.jsonl", *numbered(messages))
    assert set(learned) == {counted}


def test_the_prompt_of_a_completion_is_not_learned(tmp_path: Path) -> None:
    rows = [{"prompt": [{**HI, "content": f"Hi {n}"}, HELLO, HI], "completion": [{**HELLO, "content": "Yes"}]}
            for n in range(10)]  # fmt: skip
    assert set(learned_of(tmp_path / "rows.jsonl", *rows)[1]) == {"Yes|"}
    results = {"prompt": [HI, CALLS], "completion": [RESULT, HELLO]}
    (messages,) = read(tmp_path / "rows.jsonl", results)
    assert [is_reply(one) for one in messages] == [False, False, False, True]


def test_a_weight_of_no_reply_is_told(tmp_path: Path) -> None:
    task, _ = learned_of(tmp_path / "rows.jsonl", *numbered([{**HI, "weight": 1}, {**HELLO, "weight": 1}]))
    assert any("weight (of 10 messages)" in note for note in task.notes)


def test_an_empty_dialogue_is_left_out(tmp_path: Path) -> None:
    task, _ = learned_of(tmp_path / "rows.jsonl", {"messages": []}, *numbered([HI, HELLO]), {"messages": [HI]})
    assert len(task.training.records) + len(task.validation.records) == 10
    assert any("messages 1" in note for note in task.notes) and any("1 rows without a reply" in n for n in task.notes)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([HI, RESULT, HELLO], "message 2: is what a tool gave, and no call stands before it; .*take the result out"),
        ([RESULT], "message 1: is what a tool gave"),
        ([HI, CALLS, {**RESULT, "tool_call_id": "c9"}], "message 3: answers the call .*'c9'.*, and those .* are c1;"),
        ([HI, CALLS, RESULT, HI, RESULT], "message 5: is what a tool gave"),
        ([HI, {"role": "assistant", "content": None}], "message 2: is .*None.*; expected"),
        ([HI, {**HELLO, "weight": "1"}], "message 2: its weight is .*'1'.*; expected 1, or 0"),
        ([HI, {**HELLO, "weight": 0.5}], "message 2: its weight is .*0.5.*; expected 1, or 0"),
        ([HI, {**CALLS, "tool_calls": [{"function": {"arguments": {}}}]}], "message 2: call 1 is .*; expected"),
        ([{"content": "Hi"}, HELLO], "message 1: is .*; expected"),
    ],
)
def test_mistakes_name_file_and_row(tmp_path: Path, messages: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=rf"a.jsonl:2: 'messages', {said}"):
        read(tmp_path / "a.jsonl", {"messages": [HI, HELLO]}, {"messages": messages})
    bad, good = read_conversations(tmp_path / "a.jsonl", bad_rows="skip"), {"messages": [HI, HELLO]}
    assert [dict(record) for record in bad] == [good, {}]


def test_an_unknown_role_is_named_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl:\d+: a message of the role 'critic', and the template has"):
        learned_of(tmp_path / "rows.jsonl", *numbered([HI, {"role": "critic", "content": "No."}, HELLO]))


def test_tools_that_are_none(tmp_path: Path) -> None:
    for wrong in ("[{", '"weather"', [1], {"name": "weather"}):
        with pytest.raises(DataError, match=r"a.jsonl:1: 'tools' is .*; expected a list of objects"):
            read(tmp_path / "a.jsonl", {"messages": [HI, HELLO], "tools": wrong})


def test_rows_of_no_layout(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="columns question; expected messages, .* or prompt and completion"):
        read(tmp_path / "a.jsonl", {"question": "Hi"})
