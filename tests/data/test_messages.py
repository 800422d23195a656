"""Dialogues, in the layouts that files have."""

import json
from pathlib import Path

import pytest

from transformula.data.messages import messages_of
from transformula.data.records import read_records
from transformula.data.splits import find_overlap
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
    assert records[0]["messages"] == SAME
    assert find_overlap(records, records).rows == 1


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
