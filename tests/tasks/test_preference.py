"""Preferences: what of a pair counts, that pairs are independent, the frozen reference, scores, and a run's resume."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformula import Model, evaluate, train
from transformula.api.frozen import frozen_model
from transformula.api.plan import plan_run
from transformula.api.reading import check_model
from transformula.api.run import run_of
from transformula.cli.door import main
from transformula.data.cache import cache_folder
from transformula.data.judges import judges
from transformula.errors import CheckpointError, ConfigError, DataError, InputError
from transformula.model import build
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.learned_parts import text_scores
from transformula.tasks.preference import measured_pairs
from transformula.tasks.preference_losses import LOSSES
from transformula.tasks.preference_pairs import CUT_PROMPT, CUT_REPLY, LEFT_OUT
from transformula.tasks.reference import divergences
from transformula.training.fit import parts_of, shares_of, why_whole

LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
SIZES = {"depth": 1, "width": 16, "heads": 2}
KIND = tasks.get("preference")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "pairs.jsonl"
    pairs = [
        {"prompt": f"What is {n}?", "chosen": f"It is {n}{'!' * (n % 4)}", "rejected": f"No {n % 7}"} for n in range(60)
    ]
    path.write_text("\n".join(map(json.dumps, pairs)))
    return str(path)


def task_of(data, numbers=None, **given):
    settings = KIND.settings.read({"data": data, "tokenizer": "bytes", "batch_tokens": 512, "written": 4, **given})
    return KIND.make(settings, {} if numbers is None else numbers)


def model_of(task, seed=3):
    return build(check_model(LAYER, {**SIZES, **task.numbers}), seed=seed).eval()


def folder_of(task, path, seed=3):
    """A model's folder, as the one that training begins from."""
    model = Model(LAYER, seed=seed, **SIZES, **task.numbers)
    model.predictor = task.predictor()
    model.save(path)
    return str(path)


def test_replies_alone_count(rows):
    task = task_of(rows, loss="sft")
    batch, decode, end = task.batch(0), task.chat.tokenizer.decode, task.chat.end
    for number, row in enumerate(task.buckets.rows(0).tolist()):
        record = task.training.records[row]
        for side, name in enumerate(("chosen", "rejected")):
            targets = batch.targets[number, side]
            kept = targets[targets != IGNORED].tolist()
            assert kept[-1] == end and decode(kept[:-1]) == record[name][0]["content"]
            read = batch.inputs["tokens"][number, side, : batch.lengths["tokens"][number, side]].tolist()
            before = f"user\n{record['prompt'][0]['content']}{decode([end])}assistant\n"
            assert read[0] == end and decode(read[1:]).startswith(before)
    assert task.units(batch) == int((batch.targets != IGNORED).sum())
    assert task.terms(batch.targets) == len(batch.targets)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_of_a_pair_does_not_depend_on_what_stands_beside_it(rows, tmp_path, loss):
    task = task_of(rows, loss=loss)
    task.refer(frozen_model(folder_of(task, tmp_path / "before", seed=8)))
    model, batch = model_of(task), task.batch(0)
    pairs = parts_of(batch, len(batch.targets))
    assert len(pairs) > 5 and all(part.targets.shape[:2] == (1, 2) for part in pairs)
    alone = [task.loss(model, part).item() for part in pairs]
    assert task.loss(model, batch).item() == pytest.approx(np.mean(alone), rel=1e-5)
    for rows_of in ([0, 3], [3, 0, 4]):
        inputs = {name: each[rows_of] for name, each in batch.inputs.items()}
        lengths = {"tokens": batch.lengths["tokens"][rows_of]}
        some = replace(batch, inputs=inputs, targets=batch.targets[rows_of], lengths=lengths)
        assert task.loss(model, some).item() == pytest.approx(np.mean([alone[row] for row in rows_of]), rel=1e-5)
    shared = shares_of(task, [batch], 3)
    summed = sum(task.loss(model, part).item() * share for part, share in shared)
    assert summed == pytest.approx(np.mean(alone), rel=1e-5)
    assert why_whole(task, model, batch) == ""  # so that --micro-batches cut it


def test_what_is_learned_is_what_is_scored(rows, tmp_path):
    """The loss of an evaluation, by text and in float64, is that of training, and log P that of the reference."""
    task = task_of(rows, loss="dpo", beta=0.5)
    task.refer(frozen_model(folder_of(task, tmp_path / "before", seed=8)))
    model = model_of(task)
    loss, measured, margins = measured_pairs(task, model)
    batch, held = task.batch(0), task.pair_loss.held
    rows_of = np.arange(len(held))
    task.training, task.pair_loss = task.validation, replace(task.pair_loss, learned=held)
    task.buckets = type("All", (), {"rows": lambda self, step, micro: rows_of})()
    whole = task.batch(0)
    assert task.loss(model, whole).item() == pytest.approx(loss, rel=1e-5) and len(batch.targets) != len(margins)
    scores = text_scores(model_of(task, seed=8), [pair.rejected for pair in task.validation.pairs])
    assert held[:, 1].tolist() == pytest.approx([-one.nats for one in scores], rel=1e-6)
    by_key = {one.key: one.score for one in measured}
    assert by_key["accuracy"] == pytest.approx(100 * np.mean(margins > 0))
    assert by_key["margin"] == pytest.approx(margins.mean())


def test_nothing_has_changed_where_training_begins(rows, tmp_path):
    task = task_of(rows, judge="polite")
    before = folder_of(task, tmp_path / "before")
    task.refer(frozen_model(before))
    scores = task.evaluate(model_of(task))
    assert scores["margin"] == pytest.approx(0, abs=1e-4)
    assert scores["drift"] == pytest.approx(0, abs=1e-6) and scores["win_rate"] == 50
    assert scores["length"] == scores["reference_length"] and scores.loss == pytest.approx(np.log(2), abs=1e-4)
    assert {*scores} == {*task.measures}
    other = task.evaluate(model_of(task, seed=5))
    assert other["drift"] > 1e-5 and other["reference_length"] == scores["length"]
    text = task.verdict(other)
    assert "longer reply" in text and "likelier to the reference" in text and "drift" in text and "win rate" in text


def test_drift_is_the_divergence_of_the_distributions(rows):
    task = task_of(rows, loss="sft")
    ours, theirs = model_of(task), model_of(task, seed=5)
    texts = [pair.chosen for pair in task.validation.pairs]
    found = divergences(ours, theirs, texts)
    for text, (nats, tokens) in zip(texts, found, strict=True):
        ids = torch.tensor(text.ids[None, :-1]).long()
        p, q = (torch.softmax(model(ids)[0].double(), -1) for model in (ours, theirs))
        each = (p * (p / q).log()).sum(-1)[torch.tensor(text.learned)]
        assert tokens == text.learned.sum() and nats == pytest.approx(each.sum().item(), rel=1e-4)


def test_the_reference_is_asked_once(rows, tmp_path):
    task = task_of(rows)
    frozen = frozen_model(folder_of(task, tmp_path / "before"))
    task.refer(frozen)

    def load():
        raise AssertionError("the reference was loaded again")

    again = task_of(rows)
    again.refer(replace(frozen, load=load))
    assert again.pair_loss.learned.tolist() == task.pair_loss.learned.tolist()
    assert len(again.pair_loss.learned) == len(again.training.pairs)
    other = frozen_model(folder_of(task, tmp_path / "other", seed=4))
    assert other.identity != frozen.identity  # of other weights
    again.refer(other)
    assert again.pair_loss.learned.tolist() != task.pair_loss.learned.tolist()
    assert again.describe() != task.describe()  # so that no run is resumed with another reference


def test_references_that_do_not_fit(rows, tmp_path):
    task = task_of(rows)
    other = task_of(rows, tokenizer="bpe", loss="sft")
    with pytest.raises(InputError, match="reads by another tokenizer"):
        task.refer(frozen_model(folder_of(other, tmp_path / "other")))
    with pytest.raises(CheckpointError, match="no such folder"):
        frozen_model(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="dpo compares with a reference"):
        task.batch(0)
    assert task_of(rows, loss="simpo").batch(0).inputs["reference"].abs().sum() == 0


def test_what_is_too_long_is_cut_and_counted(tmp_path):
    path = tmp_path / "pairs.jsonl"
    system = {"role": "system", "content": "Be kind"}
    rows = [
        {"prompt": "Hi", "chosen": "Hello", "rejected": "Go"},
        {"prompt": "x" * 200 + "?", "chosen": "Hello", "rejected": "Go"},
        {"prompt": "Ho", "chosen": "y" * 200, "rejected": "Go"},
        {"prompt": "He", "chosen": "z" * 200 + "a", "rejected": "z" * 200 + "b"},
        {"prompt": [system, {"role": "user", "content": "x" * 200 + "!"}], "chosen": "Yes", "rejected": "No"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    task = task_of(str(path), {"context": 64}, loss="sft", validation=str(path), overlap="keep")
    assert task.validation.done == {CUT_PROMPT: 2, CUT_REPLY: 1, LEFT_OUT: 1} and len(task.texts) == 4
    assert f"training: of 2 pairs {CUT_PROMPT}" in task.notes and f"validation: of 1 pairs {LEFT_OUT}" in task.notes
    decode, end = task.chat.tokenizer.decode, task.chat.end
    for pair, record in zip(task.training.pairs, task.training.records, strict=True):
        sizes = [len(text.ids) - tokens - len("assistant\n") for text, tokens in zip(pair, pair.tokens, strict=True)]
        given = [text.ids[:size] for text, size in zip(pair, sizes, strict=True)]
        assert given[0].tolist() == given[1].tolist() and max(len(text.ids) for text in pair) <= 65
        read = decode(given[0][1:])
        assert read.startswith("system\nBe kind") == (record["prompt"][0] == system)
        assert decode(pair.chosen.ids).count("assistant\n") == 1
    cut = task.training.pairs[2].chosen
    assert cut.ids[-1] != end and len(cut.ids) == 65 and task.training.pairs[1].chosen.ids[-1] == end
    with pytest.raises(DataError, match="in a context of 10 tokens the replies of no pair differ"):
        task_of(str(path), {"context": 10}, loss="sft", validation=str(path), overlap="keep")


def test_settings_that_contradict(rows):
    options = [KIND.settings.read({"loss": loss}).options for loss in ("dpo", "simpo")]
    assert [(one.beta, one.gamma, one.means) for one in options] == [(0.1, 1.0, False), (2.0, 1.0, True)]
    for given, said in [
        ({"loss": "orpo", "normalize": True}, "normalize: orpo says itself"),
        ({"loss": "ipo", "label_smoothing": 0.1}, "label_smoothing: ipo has none"),
        ({"judge": "polite", "written": 0}, "judge: there are no replies"),
        ({"loss": "orpo", "gamma": 0.5}, "gamma: orpo asks for no margin"),
        ({"loss": "sft", "beta": 0.5}, "beta: sft has none"),
    ]:
        with pytest.raises(ConfigError, match=said):
            task_of(rows, **given)
    with pytest.raises(InputError, match="dpo compares with a frozen reference: begin from a model"):
        train(LAYER, task="preference", data=rows, steps=1, quiet=True, **SIZES)
    with pytest.raises(InputError, match="judge"):
        train(LAYER, task="preference", loss="orpo", judge="polit", data=rows, steps=1, quiet=True, **SIZES)


@pytest.fixture
def before(rows, tmp_path):
    return folder_of(task_of(rows, template='{user: "Q: ", assistant: "A: "}', loss="sft"), tmp_path / "before")


def settings_of(before, rows, out, **given):
    told = {"batch_tokens": 256, "written": 4, "lr": 0.01, "seed": 2, "threads": 1, "precision": "float32", **given}
    return {"init_from": before, "task": "preference", "data": rows, "out": str(out), **told}


def run(before, rows, out, **given):
    return train(**settings_of(before, rows, out, **given), quiet=True)


def weights(folder):
    model = Model.from_folder(folder / "last")
    return {name: tensor.tolist() for name, tensor in model.module.state_dict().items()}


def test_a_run_learns_and_its_resume_is_exact(before, rows, tmp_path):
    whole = run(before, rows, tmp_path / "whole", steps=12, evaluate_every=3)
    assert whole.scores["accuracy"] > 80 and whole.scores["drift"] > 0

    def stop(event):
        return event.get("step") == 6

    settings = settings_of(before, rows, tmp_path / "part", steps=12, evaluate_every=3)
    part = run_of(plan_run(settings, ()), True, stop)
    assert weights(part.folder) != weights(whole.folder)
    shutil.rmtree(cache_folder() / "reference")  # what is in no cache is made again
    assert weights(train(resume=part.folder, quiet=True).folder) == weights(whole.folder)


def test_the_template_of_what_is_loaded_stays(before, rows, tmp_path):
    made = run(before, rows, tmp_path / "run", steps=2)
    kept = Model.from_folder(made.folder).predictor
    assert kept.template == {"user": "Q: ", "assistant": "A: "} and kept.verb == "chat"
    assert isinstance(Model.from_folder(made.folder).predict("What is 3?", max_tokens=3), str)


def test_a_reference_of_its_own_is_found_from_every_folder(before, rows, tmp_path, monkeypatch):
    folder_of(task_of(rows, loss="sft"), tmp_path / "other", seed=9)
    monkeypatch.chdir(tmp_path)
    made = run(before, rows, tmp_path / "run", steps=2, reference="other", lr_schedule="constant")
    assert made.scores["drift"] > 0 and made.task.reference.named == "other"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = train(resume=made.folder, steps=4, quiet=True)
    assert again.task.reference.identity == made.task.reference.identity != frozen_model(before).identity


def test_adapters_alone_are_trained(before, rows, tmp_path):
    made = run(before, rows, tmp_path / "run", steps=6, lora="rank=2")
    was, now = (Model.from_folder(each).module.state_dict() for each in (before, made.folder / "last"))
    changed = {name for name in was if not torch.equal(was[name], now[name])}
    assert changed and not any("words" in name for name in changed) and made.scores["drift"] > 0


def test_a_report(before, rows, tmp_path, capsys):
    made = run(before, rows, tmp_path / "run", steps=8, judge="polite")
    report = evaluate(made.folder)
    scores = report.data["scores"]
    assert scores["accuracy"]["score"] == made.scores["accuracy"] and scores["accuracy"]["baselines"].keys() == {
        "longer reply", "likelier to the reference",
    }  # fmt: skip
    assert scores["margin"]["interval"][0] < made.scores["margin"] < scores["margin"]["interval"][1]
    assert scores["win rate"]["score"] == made.scores["win_rate"] and "drift: KL from the reference" in repr(report)
    shown = report.data["examples_shown"]
    assert {one["score"] for one in shown["best"]} == {100.0} and shown["best"][0]["references"]
    other = evaluate(made.folder, data=rows, reference=str(made.folder))
    assert other.data["scores"]["drift"]["score"] == pytest.approx(0, abs=1e-6)
    plain = evaluate(before, task="preference", data=rows)  # of any decoder, by its own likelihoods
    assert "of the model itself" in repr(plain) and "drift" not in plain.data["scores"]
    assert main(["evaluate", str(made.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["accuracy"]["score"] == made.scores["accuracy"]


def test_the_judge_of_the_built_in_set():
    judge = judges.get("polite")
    asked = "I need a taxi in Oslo for noon."
    assert judge(asked, "Gladly. There is a taxi in Oslo. Shall I book it?") == 5
    assert judge(asked, "Gladly. There is obviously a taxi in Oslo. Shall I book it?") == 4
    assert judge(asked, "Gladly. There is a taxi in Lima. Shall I book it?") == 4
    assert judge(asked, "Fine. There is a taxi in Oslo. It is booked.") == 3
    assert judge(asked, "") == 1 and judge(asked, "Gladly. " + "There is a taxi in Oslo. " * 9 + "It is.") == 3
