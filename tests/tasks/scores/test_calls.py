"""Which calls are right, and how often the most frequent ones are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.test_dialogue import model_of, task_of
from transformula.tasks.replies import Reply
from transformula.tasks.scores.calls import call_accuracy, most_frequent_call
from transformula.tasks.templated_dialogues import replies_in


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


A, B, C = call("f", a=1, b="x"), call("g"), call("f", a=2, b="x")


@pytest.mark.parametrize(
    ("reply", "reference", "right"),
    [
        (A, A, True), (A, C, False), (A, B, False), (call("f", b="x", a=1), A, True),  # arguments have no order
        (f"{A}\n{B}", f"{B}\n{A}", True), (f"{A}\n{A}", A, False), (A, f"{A}\n{B}", False),
        (f"Wait.\n{A}", A, True), ("No.", A, False), (A, "No.", False), (A[:-3], A, False),
        ('<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>', A, False), (call("f", a="1", b="x"), A, False),
    ],
)  # fmt: skip
def test_a_call_is_right_or_not(reply: str, reference: str, right: bool) -> None:
    measured = call_accuracy([reply], [reference])
    assert measured is not None and measured.score == 100 * right


def test_replies_without_calls_do_not_count() -> None:
    measured = call_accuracy(["Yes.", A, B, "No."], ["No.", A, A, "No."])
    assert measured is not None and len(measured) == 2 and measured.score == 50 and measured.key == "call_accuracy"
    assert call_accuracy(["Yes."], ["No."]) is None


def test_the_most_frequent_call() -> None:
    assert most_frequent_call([A, A, B, "No.", "No.", "No."], [A, "No.", B, C]) == pytest.approx(100 / 3)
    assert most_frequent_call(["No."], [A]) == most_frequent_call([A], ["No."]) == 0


def test_the_task_scores_calls_where_there_are_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [
        [{"role": "user", "content": f"Call {n}"},
         {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"n": n % 2}}}]}]
        for n in range(30)
    ]  # fmt: skip
    path.write_text("\n".join(json.dumps({"messages": row}) for row in rows))
    task = task_of(str(path), split=0.3, written=20)
    assert "call_accuracy" in task.measures
    always = [Reply(call("f", n=0))]
    monkeypatch.setattr(type(task.chat), "predict", lambda self, models, asked: [always for _ in asked])
    scores = task.evaluate(model_of(task))
    references = [n for n in replies_in(task.validation.records) if call("f", n=0) == n]
    wanted = 100 * len(references) / len(replies_in(task.validation.records))
    assert scores["call_accuracy"] == pytest.approx(wanted) and 0 < wanted < 100
    assert f"{wanted:.0f} % (" in task.verdict(scores)
    assert ") of calls are right (the most frequent: " in task.verdict(scores)
    assert len(scores.resampled["call_accuracy"]) == 200
    plain = tmp_path / "plain.jsonl"
    plain.write_text("\n".join(json.dumps({"prompt": f"Say {n}", "completion": str(n)}) for n in range(30)))
    assert "call_accuracy" not in task_of(str(plain)).measures
