"""Preferences and rewards by the chat template of others: which tokens count, by the template's own rendering."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.tasks.test_templated_dialogues import CHANGING, MARKED, NO_SYSTEM, PLAIN, learned, said, spelled
from tests.tokenizers.published_folders import write_plain
from transformula import Model, evaluate, train
from transformula.api.plan import plan_run
from transformula.api.reading import check_model
from transformula.cli import main
from transformula.errors import ConfigError, DataError, InputError
from transformula.model import build
from transformula.tasks.base import tasks
from transformula.tasks.preference_pairs import CUT_PROMPT, CUT_REPLY, NO_ROOM
from transformula.tasks.replies import TemplatedChat
from transformula.tasks.rewards import TemplatedReplyScorer

LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
SYSTEM = {"role": "system", "content": "be"}
SIZES: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2}


def folder_of(tmp_path: Path, text: str) -> str:
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    write_plain("llama3", folder)
    (folder / "chat_template.jinja").write_text(text)
    return str(folder)


def rows_of(tmp_path: Path, rows: list[Any]) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def pairs(count: int = 12, **more: Any) -> list[dict[str, Any]]:
    """Rows whose prompt has a reply already."""
    return [
        {"prompt": [SYSTEM, *said(f"the cat {n}", "a dog", "and?")], "chosen": "the bird", "rejected": "no", **more}
        for n in range(count)
    ]


def task_of(tmp_path: Path, text: str, rows: list[Any], kind: str = "preference", **given: Any) -> Any:
    of = tasks.get(kind)
    own = {"loss": "sft", "written": 4} if kind == "preference" else {}
    settings = {"data": rows_of(tmp_path, rows), "tokenizer": folder_of(tmp_path, text), "chat_template": True}
    context = given.pop("context", 300)
    return of.make(of.settings.read({**settings, "split": 0.3, **own, **given}), {"context": context})


@pytest.mark.parametrize("template", [PLAIN, MARKED, CHANGING])
def test_the_texts_are_the_rendering_and_the_last_reply_counts(tmp_path: Path, template: str) -> None:
    task = task_of(tmp_path, template, pairs())
    render = task.chat.tokenizer.chat.render
    assert isinstance(task.predictor(), TemplatedChat) and len(task.training.pairs) + len(task.validation.pairs) == 12
    for pair, record in zip(task.training.pairs, task.training.records, strict=True):
        prompt, begun = record["prompt"], task.chat.prompt(record["prompt"], task.chat.settings()).ids
        for text, side in zip(pair, ("chosen", "rejected"), strict=True):
            whole = render([*prompt, *record[side]], False)
            assert spelled(task, text.ids) == whole[: whole.rindex("<|eot_id|>")] + "<|eot_id|>"
            assert learned(task, text) == record[side][0]["content"] + "<|eot_id|>"
            assert text.ids[: len(begun)].tolist() == begun, "what chat goes on from is what was learned behind"
            assert not text.learned[: len(begun) - 1].any() and text.learned[len(begun) - 1 :].all()


def test_the_loss_is_of_the_replies_alone(tmp_path: Path) -> None:
    task = task_of(tmp_path, PLAIN, pairs())
    model, batch = build(check_model(LAYER, {**SIZES, **task.numbers}), seed=3).eval(), task.batch(0)
    each = []
    for row in task.buckets.rows(0).tolist():
        text, record = task.training.pairs[row].chosen, task.training.records[row]
        begun = task.chat.prompt(record["prompt"], task.chat.settings()).ids
        ids = torch.tensor(text.ids[None]).long()
        log_p = F.log_softmax(model(tokens=ids[:, :-1])[0].float(), -1)
        each.append(-sum(log_p[n - 1, ids[0, n]].item() for n in range(len(begun), ids.shape[1])))
    nll = [value / task.training.pairs[row].tokens[0] for value, row in zip(each, task.buckets.rows(0), strict=True)]
    expected = [np.mean(each), np.mean(nll)]
    assert any(task.loss(model, batch).item() == pytest.approx(value, rel=1e-4) for value in expected)


def test_what_is_marked_counts_alone(tmp_path: Path) -> None:
    """A template that writes an empty thought before each reply, and says that it is none."""
    text = MARKED.replace("{% generation %}", "so {% generation %}")
    asking = "<|end_header_id|>' }}{% endif %}"
    text = text.replace(asking, asking.replace("'", "so '"))
    task = task_of(tmp_path, text, pairs())
    pair = task.training.pairs[0]
    assert spelled(task, pair.chosen.ids).endswith("so the bird<|eot_id|>")
    assert learned(task, pair.chosen) == "the bird<|eot_id|>"


def test_conversations_of_several_replies(tmp_path: Path) -> None:
    rows = [
        {"chosen": said(f"cat {n}", "a dog", "and?", "the bird"), "rejected": said(f"cat {n}", "no", "why?", "so")}
        for n in range(12)
    ]
    task = task_of(tmp_path, PLAIN, rows)
    pair = task.training.pairs[0]
    assert [learned(task, text) for text in pair] == [
        "a dog<|eot_id|>the bird<|eot_id|>", "no<|eot_id|>so<|eot_id|>"
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"rows.jsonl:1.*writes a reply otherwise than behind"):
        task_of(tmp_path, CHANGING, rows)


def test_what_is_longer_than_the_context(tmp_path: Path) -> None:
    """Old messages are left out up to one of the user, and the system's stays; a reply is cut; what is asked is not."""
    rows = pairs(9)
    rows[:3] = [{**row, "chosen": "x" * 200} for row in rows[:3]]
    rows[3:5] = [{**row, "prompt": [*row["prompt"][:-1], *said("y" * 200)]} for row in rows[3:5]]
    task = task_of(tmp_path, PLAIN, rows, context=70)
    every = [pair for side in (task.training, task.validation) for pair in side.pairs]
    assert len(every) == 7 and max(pair.positions // 2 for pair in every) <= 70
    texts = [spelled(task, pair.chosen.ids) for pair in every]
    assert all("system<|end_header_id|>be" in text and "and?" in text for text in texts)
    assert [text.endswith("x") for text in texts] == ["the cat" not in text for text in texts]
    assert sum(text.endswith("x") for text in texts) == 3
    done = task.training.done + task.validation.done
    assert done[CUT_REPLY] == 3 and done[NO_ROOM] == 2 and done[CUT_PROMPT] == 3
    assert any(NO_ROOM in note for note in task.notes)


def test_what_a_template_refuses_names_the_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows.jsonl:\d+.*System role not supported; change the row, or leave it out"):
        task_of(tmp_path, NO_SYSTEM, pairs())
    rows = pairs()
    rows[4]["rejected"] = "no <|eot_id|>"
    with pytest.raises(InputError, match=r"rows.jsonl:5: rejected: message 1 holds <\|eot_id\|>"):
        task_of(tmp_path, PLAIN, rows)
    with pytest.raises(ConfigError, match="the tokenizer has no chat template"):
        task_of(tmp_path, PLAIN, pairs(), tokenizer="bytes")
    with pytest.raises(ConfigError, match="chat_template and template both say"):
        task_of(tmp_path, PLAIN, pairs(), template={"user": "Q", "assistant": "A"})


def test_a_reward_is_read_at_the_end_of_the_reply(tmp_path: Path) -> None:
    task = task_of(tmp_path, MARKED, pairs(), "reward-model")
    scorer, number = task.predictor(), {"output": "reward = linear(x, 1)"}
    model = build(check_model(LAYER, {**SIZES, **number, **task.numbers}), seed=3).eval()
    assert isinstance(scorer, TemplatedReplyScorer) and task.loss(model, task.batch(0)).item() > 0
    end = task.chat.tokenizer.special_in("<|eot_id|>")
    for pair, record in zip(task.validation.pairs, task.validation.records, strict=True):
        assert spelled(task, pair.chosen.ids[-1:]) == end == "<|eot_id|>"
        asked = scorer.opened([[*record["prompt"], *record["chosen"]]])
        (ids,), (cut,) = scorer.encode(asked)
        assert ids.tolist() == pair.chosen.ids.tolist() and not cut, "what is scored is what was learned"
        (answer,) = scorer.predict([model], asked)[0]
        assert answer.score == pytest.approx(model(tokens=torch.tensor(ids[None]).long())[0, -1, 0].item(), rel=1e-4)
    narrow = replace(scorer, context=60)
    with pytest.raises(InputError, match="a message is longer than there is room for"):
        narrow.predict([model], narrow.opened([f"{'y' * 99}\tno"]))
    assert narrow.encode(narrow.opened(["the cat\t" + "x" * 99]))[1] == [True]


def test_from_a_chat_model_to_the_best_of_its_replies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder's own template is taken through --init-from; resumes are exact; export and best-of-n follow it."""
    folder, data = folder_of(tmp_path, MARKED), rows_of(tmp_path, pairs(24))
    chat = str(Model(LAYER, tokenizer=folder, context=96, seed=1, **SIZES).save(tmp_path / "chat"))
    common: dict[str, Any] = {
        "init_from": chat, "data": data, "split": 0.25, "batch_tokens": 512, "quiet": True, "threads": 1,
        "precision": "float32", "lr_schedule": "constant", "warmup": 0,
    }  # fmt: skip
    own = {**common, "task": "preference", "written": 3}
    whole = train(**own, steps=4, out=str(tmp_path / "whole"))
    assert {"drift", "length", "accuracy"} <= whole.scores.keys() and isinstance(whole.model.predictor, TemplatedChat)
    train(**own, steps=2, out=str(tmp_path / "part"))
    resumed = train(resume=str(tmp_path / "part"), steps=4, quiet=True)
    one, other = whole.model.module.state_dict(), resumed.model.module.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert evaluate(str(tmp_path / "whole")).rows and whole.task.chosen.chat_template
    reward = train(**common, task="reward-model", steps=3, out=str(tmp_path / "reward"))
    again = Model.from_folder(tmp_path / "reward")
    assert isinstance(again.predictor, TemplatedReplyScorer) and reward.scores["loss"] > 0
    assert again.predict("the cat\ta dog", scores=True).score == pytest.approx(  # type: ignore[union-attr]
        reward.model.predict("the cat\ta dog", scores=True).score,
        abs=1e-5,  # type: ignore[union-attr]
    )
    given = ["--best-of", "3", "--reward-model", str(tmp_path / "reward"), "--max-tokens", "4", "--temperature", "1"]
    assert main(["chat", str(tmp_path / "whole"), "the cat", *given]) == 0
    capsys.readouterr()
    planned = {"init_from": chat, "data": data}
    for task in ("preference", "reward-model", "dialogue"):
        assert plan_run({**planned, "task": task}, ()).data.chat_template
        other = {"template": {"user": "Q", "assistant": "A"}}, {"tokenizer": "bytes"}, {"chat_template": False}
        assert not any(plan_run({**planned, "task": task, **more}, ()).data.chat_template for more in other)
