"""Dialogues, in the layouts that files have."""

import json
from pathlib import Path

import pytest

from transformula.data.messages import message_text, messages_of
from transformula.data.records import read_records
from transformula.data.splits import find_overlap, row_digest
from transformula.errors import DataError

SGD = Path(__file__).parents[2].parent / "shared" / "data" / "sgd"
SAME = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize(
    "layout",
    [
        SAME,
        [{"role": "user", "content": "Hi.", "name": "Ann"}, {"role": "Assistant", "content": "Hello."}],
        [{"from": "human", "value": "Hi."}, {"from": "gpt", "value": "Hello."}],
        [["USER", "Hi."], ["SYSTEM", "Hello."]],
    ],
)
def test_layouts(tmp_path, layout):
    (tmp_path / "a.jsonl").write_text(json.dumps({"turns": layout}) + "\n")
    records = list(read_records(tmp_path / "a.jsonl", {"messages": "turns"}, kinds={"messages": "messages"}))
    assert [{key: one[key] for key in ("role", "content")} for one in records[0]["messages"]] == SAME
    assert find_overlap(records, records).rows == 1


CALLED = {"name": "weather", "arguments": {"city": "Rom"}}
CALL = {"id": "c1", "type": "function", "function": CALLED}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}]}, {"content": "a\nb"}),
        ({"content": None, "refusal": "I may not."}, {"content": "I may not."}),
        ({"content": "a", "name": "Ann", "audio": None, "tool_calls": []}, {"content": "a", "name": "Ann"}),
        (
            {"content": None, "tool_calls": [{**CALL, "function": {**CALLED, "arguments": '{"city": "Rom"}'}}]},
            {"content": "", "tool_calls": [CALL]},
        ),
        ({"tool_calls": [CALL]}, {"content": "", "tool_calls": [CALL]}),
        ({"content": "a", "tool_calls": [{"name": "f"}]}, {"content": "a", "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {}}}]}),
        ({"content": None, "function_call": {"name": "f", "arguments": "not {json"}}, {"content": "", "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": "not {json"}}]}),
    ],
)  # fmt: skip
def test_messages_as_others_write_them(given, expected):
    message = {"role": "assistant", **given}
    assert messages_of([message], "") == [{"role": "assistant", **expected}]
    assert messages_of(messages_of([message], ""), "") == messages_of([message], "")
    assert message_text(messages_of([message], "")[0]).startswith(expected["content"])


def test_what_was_called_is_text_and_told_apart():
    two = [{"role": "assistant", "content": "Wait.", "tool_calls": [CALL, CALL]}]
    line = '<tool_call>{"name": "weather", "arguments": {"city": "Rom"}}</tool_call>'
    assert message_text(messages_of(two, "")[0]) == f"Wait.\n{line}\n{line}"
    other = [{**two[0], "tool_calls": [CALL]}]
    assert row_digest({"messages": messages_of(two, "")}) != row_digest({"messages": messages_of(other, "")})


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_tools_of_a_row_come_first(tmp_path, ending):
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"city": "a name"}}}
    rows = [{"turns": SAME, "id": 1, "tools": None}, {"turns": SAME, "id": 2, "tools": [tool]}]
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        rows = [{**row, "tools": row["tools"] and json.dumps(row["tools"])} for row in rows]
        parquet.write_table(arrow.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    first, second = read_records(path, {"messages": "turns"}, kinds={"messages": "messages"})
    assert first["messages"] == SAME
    assert second["messages"] == [{"role": "tools", "content": json.dumps(tool), "tools": [tool]}, *SAME]
    (tmp_path / "old.jsonl").write_text(json.dumps({"turns": SAME, "functions": [tool["function"]]}))
    (third,) = read_records(tmp_path / "old.jsonl", {"messages": "turns"}, kinds={"messages": "messages"})
    assert third["messages"] == second["messages"]
    (tmp_path / "bad.jsonl").write_text(json.dumps({"turns": SAME, "tools": ["hammer"]}))
    with pytest.raises(DataError, match=r"bad.jsonl:1: 'tools' is .*hammer.*; expected a list of objects"):
        list(read_records(tmp_path / "bad.jsonl", {"messages": "turns"}, kinds={"messages": "messages"}))


def test_a_system_that_instructs_is_no_assistant():
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    assert messages_of(told, "") == told
    assert messages_of([*told, {"role": "assistant", "content": "Hello."}], "")[0]["role"] == "system"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("Hi.", "the messages are a string; expected a list"),
        ([{"role": "user"}], r"message 1: is \"{'role': 'user'}\"; expected {\"role\": \"user\", \"content\""),
        ([["USER", "Hi."], ["SYSTEM"]], r"message 2: is \"\['SYSTEM'\]\"; expected"),
        ([{"role": "user", "content": None}], "message 1: is .*None.*; expected"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}],
            "message 1: part 2 is of the type 'image_url', and a chat reads texts alone; .*leave the row out",
        ),
        ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "message 1: part 1 is .*'text': 1"),
        ([{"role": "user", "content": "a", "weight": 0.5}], "its weight is '0.5'; expected 1, or 0"),
        ([{"role": "assistant", "content": "a", "tool_calls": ["f"]}], "call 1 is \"'f'\"; expected"),
    ],
)
def test_what_is_no_message_is_shown(tmp_path, value, said):
    (tmp_path / "a.jsonl").write_text(json.dumps({"messages": value}) + "\n")
    with pytest.raises(DataError, match=rf"a.jsonl:1: 'messages'.*{said}"):
        list(read_records(tmp_path / "a.jsonl", kinds={"messages": "messages"}))


@pytest.mark.skipif(not SGD.is_dir(), reason=f"the data beside the project is not here: {SGD}")
def test_task_dialogues():
    records = list(read_records(SGD / "dev.jsonl.gz", {"messages": "turns"}, kinds={"messages": "messages"}))
    assert len(records) == 2098
    assert {message["role"] for record in records for message in record["messages"]} == {"user", "assistant"}
