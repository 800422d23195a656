"""Reward models: the number at the last token, its loss, the verb, and that nothing depends on what stands beside."""

import json
import math

import numpy as np
import pytest
import torch

from transformula import Model, evaluate, train
from transformula.api.reading import check_model
from transformula.cli.door import main
from transformula.data.preferences import read_replies
from transformula.errors import DataError, InputError
from transformula.model import build
from transformula.tasks.base import tasks
from transformula.tasks.preference_pairs import longer_is_chosen
from transformula.tasks.reward_model import measured_rewards
from transformula.tasks.rewards import rewards_of
from transformula.training.fit import parts_of, why_whole

LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
SIZES = {"depth": 1, "width": 16, "heads": 2}
KIND = tasks.get("reward-model")
POOLED = {"causal": False, "output": "reward = linear(mean(x), 1)"}
OUTPUTS = {"causal": {"output": "reward = linear(x, 1)"}, "pooled": POOLED}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "pairs.jsonl"
    texts = [(f"What is {n}?", f"It is {n}", f"No {n}{'!' * (n % 9)}") for n in range(60)]
    pairs = [dict(zip(("prompt", "chosen", "rejected"), each, strict=True)) for each in texts]
    path.write_text("\n".join(map(json.dumps, pairs)))
    return str(path)


def task_of(data, numbers=None, **given):
    settings = KIND.settings.read({"data": data, "tokenizer": "bytes", "batch_tokens": 512, **given})
    return KIND.make(settings, {} if numbers is None else numbers)


def model_of(task, output="causal"):
    return build(check_model(LAYER, {**SIZES, **OUTPUTS[output], **task.numbers}), seed=3).eval()


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("center", [0.0, 0.3])
def test_the_loss_is_the_equation_of_the_last_tokens(rows, output, center):
    task = task_of(rows, center=center)
    model, batch = model_of(task, output), task.batch(0)
    each = []
    for row in task.buckets.rows(0).tolist():
        r = [model(tokens=torch.tensor(text.ids[None]).long())[0, -1, 0].item() for text in task.training.pairs[row]]
        each.append(math.log(1 + math.exp(r[1] - r[0])) + center * (r[0] + r[1]) ** 2)
    assert task.loss(model, batch).item() == pytest.approx(np.mean(each), rel=1e-4)
    alone = [task.loss(model, part).item() for part in parts_of(batch, len(batch.targets))]
    assert alone == pytest.approx(each, rel=1e-4) and len(alone) > 4 and why_whole(task, model, batch) == ""
    assert task.units(batch) == sum(len(text.ids) for row in task.buckets.rows(0) for text in task.training.pairs[row])


def test_scores(rows):
    task = task_of(rows)
    model = model_of(task)
    scores, (loss, _, margins) = task.evaluate(model), measured_rewards(task, model)
    assert {*scores} == {*task.measures} and scores.loss == loss
    assert scores["accuracy"] == pytest.approx(100 * np.mean(margins > 0))
    assert scores["margin"] == pytest.approx(margins.mean())
    held = task.validation.pairs
    assert loss == pytest.approx(np.log1p(np.exp(-margins)).mean())
    assert task.baselines() == {"longer reply": longer_is_chosen(held)}
    longer = [(0.5 if a == b else float(a > b)) for a, b in (pair.tokens for pair in held)]
    assert longer_is_chosen(held) == pytest.approx(100 * np.mean(longer)) and 0 < np.mean(longer) < 1
    assert "longer reply" in task.verdict(scores) and task.sample(model).count("chosen") == 3


def test_models_that_say_no_number(rows):
    for given, said in [
        ({"output": "logits = linear(x, 3)"}, "needs one number: .*`logits` of width 3"),
        ({"family": "encoder-decoder"}, "gives a model `tokens` alone: this one reads source, tokens"),
    ]:
        with pytest.raises(InputError, match=said):
            train(LAYER, task="reward-model", data=rows, steps=1, quiet=True, **SIZES, **given)


@pytest.fixture
def run(rows, tmp_path):
    """A run that begins with the weights of a chat model, whose output is another."""
    dialogues = tmp_path / "chats.jsonl"
    said = [[{"role": "user", "content": f"What is {n}?"}, {"role": "assistant", "content": f"{n}"}] for n in range(30)]
    dialogues.write_text("\n".join(json.dumps({"messages": each}) for each in said))
    given = {"precision": "float32", "threads": 1, "seed": 2, "quiet": True}
    chat = train(LAYER, task="dialogue", data=str(dialogues), tokenizer="bytes", steps=2, context=64, written=0,
                 out=tmp_path / "chat", template='{user: "Q: ", assistant: "A: "}', **SIZES, **given)  # fmt: skip
    return train(init_from=chat.folder, task="reward-model", data=rows, steps=25, lr=0.02, batch_tokens=512,
                 out=tmp_path / "reward", **given)  # fmt: skip


def test_a_run_learns_is_scored_and_asked(run, rows, tmp_path, capsys):
    assert run.scores["accuracy"] > 90 > run.task.baselines()["longer reply"]
    report = evaluate(run.folder)
    assert report.data["scores"]["accuracy"]["score"] == run.scores["accuracy"]
    assert report.data["scores"]["length correlation"]["interval"] and "longer reply" in repr(report)
    model = Model.from_folder(run.folder)
    assert model.predictor.template["assistant"] == "A: "
    good, bad = model.predict(["What is 7?\tIt is 7", "What is 7?\tNo 7"], scores=True)
    assert good.score > bad.score and good.text == f"{good.score:.4f}" and good.note == ""
    asked = [{"role": "user", "content": "What is 7?"}, {"role": "assistant", "content": "It is 7"}]
    assert float(model.predict(asked)) == pytest.approx(good.score, abs=1e-4)
    texts, _ = model.predictor.encode([asked])
    assert rewards_of(model.module, texts)[0] == pytest.approx(good.score, abs=1e-6)
    long = model.predict("x" * 200 + "\tIt is 7", scores=True)
    assert "longer than the 64 tokens" in long.note
    learned = Model("gpt2", **SIZES, **OUTPUTS["causal"], vocab=357, context=64)  # which has learned 64 positions
    learned.predictor = model.predictor
    assert "longer than" in learned.predict("x" * 200 + "\t" + "y" * 200, scores=True).note
    replies = [{"prompt": "What is 7?", "reply": reply} for reply in ("It is 7", "No 7")]
    (tmp_path / "replies.jsonl").write_text("\n".join(map(json.dumps, replies)))
    assert main(["score", str(run.folder), "--input", str(tmp_path / "replies.jsonl")]) == 0
    assert [float(line) for line in capsys.readouterr().out.split()] == pytest.approx([good.score, bad.score], abs=1e-4)
    for given, said in [("What is 7?", "put a tab"), ([{"role": "user", "content": "x"}], "ends without a reply")]:
        with pytest.raises(InputError, match=said):
            model.predict(given)
    with pytest.raises(DataError, match="role 'guest'"):
        model.predict([{"role": "guest", "content": "x"}, asked[1]])


def test_rows_to_score(tmp_path):
    path = tmp_path / "rows.jsonl"
    asked = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    for row in ({"messages": asked}, {"prompt": "Hi", "response": "Hello"}, {"prompt": asked[:1], "reply": "Hello"}):
        path.write_text(json.dumps(row))
        assert [one["source"] for one in read_replies(path)] == [asked]
    path.write_text(json.dumps({"prompt": "Hi", "reply": "Hello"}) + "\n{oops")
    with pytest.raises(DataError, match="rows.jsonl:2"):
        list(read_replies(path))
    bad = list(read_replies(path, bad_rows="skip"))
    assert bad[0]["source"] == asked and len(bad) == 2 and not {*bad[1]}


def test_a_resume_is_exact(run, rows, tmp_path):
    given = {"init_from": run.folder, "task": "reward-model", "data": rows, "lr": 0.01, "batch_tokens": 512}
    given |= {"lr_schedule": "constant", "evaluate_every": 2, "precision": "float32", "threads": 1, "quiet": True}
    whole = train(**given, steps=6, out=tmp_path / "whole")
    train(**given, steps=4, out=tmp_path / "part")
    again = train(resume=tmp_path / "part", steps=6, quiet=True)
    tensors = [Model.from_folder(each.folder / "last").module.state_dict() for each in (whole, again)]
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
