"""The built-in set of calls: each row lists what it calls, and what the tools gave is in the answer."""

from __future__ import annotations

from datetime import date

import pytest

from transformula.data.conversations import read_conversations
from transformula.data.sets.tool_calls import COUNT, LISTED, NO_TOOL, OPERATIONS, TOOLS, dialogue_of
from transformula.data.splits import split_records
from transformula.errors import DataError
from transformula.tasks.tool_calls import functions_of


def test_rows_are_functions_of_their_numbers() -> None:
    kinds = {0: 0, 1: 0, 2: 0}
    for number in range(600):
        messages, tools = dialogue_of(number)
        assert (messages, tools) == dialogue_of(number)
        functions = functions_of(tools)
        assert len(functions) == LISTED
        calls = [call["function"] for one in messages for call in one.get("tool_calls", ())]
        results = [one["content"] for one in messages if one["role"] == "tool"]
        assert len(calls) == len(results)
        kinds[len(calls)] += 1
        for call, result in zip(calls, results, strict=True):
            known = functions[call["name"]]
            assert set(call["arguments"]) == set(known["required"]) and result in messages[-1]["content"]
            for name, value in call["arguments"].items():
                assert isinstance(value, int if known["properties"][name]["type"] == "integer" else str)
                assert call["name"] == "calculator" or str(value) in messages[0]["content"]
        assert bool(calls) == (messages[-1]["content"] != NO_TOOL)
    assert all(count > 30 for count in kinds.values())


def test_answers_are_right() -> None:
    seen = set()
    for number in range(200):
        messages, _ = dialogue_of(number)
        results = iter([one["content"] for one in messages if one["role"] == "tool"])
        for call in messages[1].get("tool_calls", ()):
            name, given, result = call["function"]["name"], call["function"]["arguments"], next(results)
            if name == "calculator":
                assert int(result) == OPERATIONS[given["operation"]][1](given["a"], given["b"])
            elif name == "weekday":
                assert result == date.fromisoformat(given["date"]).strftime("%A")
            seen.add(name)
    assert seen == {*TOOLS}


def test_a_question_stays_on_one_side_whatever_tools_it_lists() -> None:
    records = list(read_conversations("tool-calls"))
    assert len(records) == COUNT
    training, held_out = split_records(records, 0.1)
    sides = [{str(record["messages"][1]) for record in side} for side in (training, held_out)]
    assert all(sides) and not sides[0] & sides[1]
    with pytest.raises(DataError, match="there is one such set; leave out :de"):
        list(read_conversations("tool-calls:de"))
