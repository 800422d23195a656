"""Training by the chat template of others: which tokens count, read back; and what their templates refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tokenizers.published_folders import write_plain
from transformula import Model, train
from transformula.errors import ConfigError, DataError
from transformula.tasks.base import tasks
from transformula.tasks.replies import TemplatedChat

HEAD = "'<|start_header_id|>' ~ m.role ~ '<|end_header_id|>'"
CALLED = "{% for c in m.tool_calls or [] %}<tool_call>\n{{ c.function | tojson }}\n</tool_call>{% endfor %}"
SAID = "{{ m.content }}" + CALLED + "{{ '<|eot_id|>' }}"
ASK = "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>' }}{% endif %}"
PLAIN = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ "
    + HEAD + " }}" + SAID + "{% endfor %}" + ASK
)  # fmt: skip
MARKED = (
    "{{ bos_token }}{% for m in messages %}{{ " + HEAD + " }}{% if m.role == 'assistant' %}{% generation %}" + SAID
    + "{% endgeneration %}{{ '\n' }}{% else %}" + SAID + "{% endif %}{% endfor %}" + ASK
)  # fmt: skip
# as Qwen 3 leaves thoughts out: a reply is written otherwise once another message follows
CHANGING = PLAIN.replace("{{ m.content }}", "{{ m.content if loop.last or m.role == 'user' else m.content | upper }}")
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + PLAIN
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def task_of(tmp_path: Path, text: str, rows: list[Any], context: int = 300, **given: Any) -> Any:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    write_plain("llama3", folder)
    (folder / "chat_template.jinja").write_text(text)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row if isinstance(row, dict) else {"messages": row}) for row in rows))
    kind = tasks.get("dialogue")
    settings = {"data": str(path), "tokenizer": str(folder), "chat_template": True, "split": 0.3, "written": 4, **given}
    return kind.make(kind.settings.read({"batch_tokens": 1024, **settings}), {"context": context})


def spelled(task: Any, ids: Any) -> str:
    """Tokens as text, the special ones by their names."""
    backend = task.chat.tokenizer.in_library()
    return str(backend.decode([int(n) for n in ids], skip_special_tokens=False))


def learned(task: Any, text: Any) -> str:
    return spelled(task, text.ids[1:][text.learned])


@pytest.mark.parametrize("template", [PLAIN, MARKED])
def test_replies_and_their_ends_count(tmp_path: Path, template: str) -> None:
    rows = [said(f"the cat {n}", "a dog", "and?", "the bird") for n in range(12)]
    task = task_of(tmp_path, template, rows)
    chat = task.chat
    assert isinstance(chat, TemplatedChat) and isinstance(task.predictor(), TemplatedChat)
    for text, record in zip(task.training.texts(), task.training.records, strict=True):
        assert learned(task, text) == "a dog<|eot_id|>the bird<|eot_id|>"
        whole = chat.tokenizer.chat.render(record["messages"], False)
        assert spelled(task, text.ids) == whole
        prompt = chat.prompt(record["messages"][:1], chat.settings()).ids  # what chat goes on from was learned
        assert text.ids[: len(prompt)].tolist() == prompt and not text.learned[: len(prompt) - 1].any()
        assert text.learned[len(prompt) - 1]
    assert task.training.texts("all")[0].learned.all()
    assert [spelled(task, one.ids) for one in task.training.replies[:2]] == ["a dog<|eot_id|>", "the bird<|eot_id|>"]


@pytest.mark.parametrize("template", [PLAIN, MARKED])
def test_a_reply_of_no_weight_and_what_a_tool_gave_do_not_count(tmp_path: Path, template: str) -> None:
    rows = [
        [*said(f"the cat {n}", "bad", "and?"), CALL, {"role": "tool", "content": "one"}, *said("", "good")[1:]]
        for n in range(12)
    ]  # fmt: skip
    for row in rows:
        row[1]["weight"] = 0
    task = task_of(tmp_path, template, rows)
    call = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|eot_id|>'
    assert {learned(task, text) for text in task.training.texts()} == {f"{call}good<|eot_id|>"}
    assert "weight" not in spelled(task, task.texts[0].ids)


def test_a_template_that_writes_earlier_replies_otherwise_learns_each_as_the_last(tmp_path: Path) -> None:
    task = task_of(tmp_path, CHANGING, [said(f"cat {n}", "a dog", "and?", "the bird") for n in range(12)])
    texts = task.training.texts()
    assert len(texts) == 2 * len(task.training.records)
    assert [learned(task, text) for text in texts[:2]] == ["a dog<|eot_id|>", "the bird<|eot_id|>"]
    assert "A DOG" in spelled(task, texts[1].ids)


def test_what_is_longer_than_the_context(tmp_path: Path) -> None:
    """Each reply fits behind the latest messages; one that does not is left out, and a note says so."""
    rows = [
        [{"role": "system", "content": "be"}, *said(f"the cat {n}", "a dog", "and?", "the bird", "so?", "x" * long)]
        for n, long in enumerate([3] * 9 + [90] * 3)
    ]
    task = task_of(tmp_path, PLAIN, rows, context=60)
    texts = [*task.training.texts(), *task.validation.texts()]
    assert max(text.positions for text in texts) <= 60
    every = [learned(task, text) for text in texts]
    assert every.count("a dog<|eot_id|>") == every.count("the bird<|eot_id|>") == 12
    assert sum(one.startswith("xxx") for one in every) == 9
    assert all("system" in spelled(task, text.ids) for text in texts), "what the system says stays"
    assert any("replies are longer than the context and left out" in note for note in task.notes)
    assert sum(side.too_long.replies for side in (task.training, task.validation)) == 3


def test_tools_come_before_the_template(tmp_path: Path) -> None:
    rows = [{"messages": [*said(f"the cat {n}"), CALL], "tools": [{"name": "f"}]} for n in range(12)]
    text = task_of(tmp_path, PLAIN, rows).texts[0]
    task = task_of(tmp_path, PLAIN, rows)
    assert '[{"name": "f"}]' in spelled(task, text.ids) and "f" in learned(task, text)


def test_a_template_that_refuses_the_system_names_the_row(tmp_path: Path) -> None:
    rows: list[Any] = [said(f"the cat {n}", "a dog") for n in range(12)]
    rows[3] = [{"role": "system", "content": "Be brief."}, *rows[3]]
    with pytest.raises(DataError, match=r"rows.jsonl:4.*System role not supported; change the row, or leave it out"):
        task_of(tmp_path, NO_SYSTEM, rows)
    rows[3] = said("the <|eot_id|> cat", "a dog")
    with pytest.raises(DataError, match=r"rows.jsonl:4: message 1 holds <\|eot_id\|>"):
        task_of(tmp_path, PLAIN, rows)


def test_mistakes(tmp_path: Path) -> None:
    rows = [said(f"the cat {n}", "a dog") for n in range(12)]
    with pytest.raises(ConfigError, match="chat_template and template both say"):
        task_of(tmp_path, PLAIN, rows, template={"user": "Q", "assistant": "A"})
    with pytest.raises(ConfigError, match="the tokenizer has no chat template; name a folder that has one"):
        task_of(tmp_path, PLAIN, rows, tokenizer="bytes")
    two = MARKED.replace("{% generation %}", "{% generation %}a{% endgeneration %}{% generation %}")
    for row in rows:
        row[1]["weight"] = 0
    rows = [[*row, *said("so", "yes")] for row in rows]
    with pytest.raises(DataError, match=r"rows.jsonl:1.*does not mark each reply once"):
        task_of(tmp_path, two, rows)


def test_a_run_learns_and_replies_by_the_template(tmp_path: Path) -> None:
    """What is scored, written, saved and gone on with is by the template; with packing too."""
    rows = [said(f"the cat {n}", "a dog") for n in range(24)]
    task_of(tmp_path, MARKED, rows)
    common: dict[str, Any] = {
        "task": "dialogue", "data": str(tmp_path / "rows.jsonl"), "tokenizer": str(tmp_path / "folder"), "pack": True,
        "chat_template": True, "depth": 1, "width": 32, "heads": 2, "context": 64, "batch_tokens": 512, "quiet": True,
        "split": 0.2, "written": 4, "threads": 1, "precision": "float32", "lr_schedule": "constant", "warmup": 0,
    }  # fmt: skip
    run = train("pre-norm", **common, steps=60, out=str(tmp_path / "run"))
    assert run.model.predict(said("the cat 99")) == "a dog"
    again = Model.from_folder(tmp_path / "run" / "last")
    assert isinstance(again.predictor, TemplatedChat) and again.predict("the cat 7") == "a dog"
    train("pre-norm", **common, steps=30, out=str(tmp_path / "part"))
    resumed = train(resume=str(tmp_path / "part"), steps=60, quiet=True)
    one, other = run.model.module.state_dict(), resumed.model.module.state_dict()
    assert all(np.array_equal(one[name].numpy(), other[name].numpy()) for name in one)
