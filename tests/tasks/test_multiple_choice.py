"""Texts chosen by their likelihood: sums of log P by hand, layouts of rows, alone as among others, what is refused."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from transformula import Model, evaluate
from transformula.cli.door import main
from transformula.errors import ConfigError, DataError, InputError
from transformula.runs.log import read_log
from transformula.tasks.base import tasks
from transformula.tasks.multiple_choice import (
    Choosing,
    chance_accuracy,
    choice_scores,
    context_with,
    question_scores,
    read_questions,
    read_rows,
    scores_without_context,
)
from transformula.tokenizers.base import tokenizers

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "eval_zero_shot"
LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
TASK = tasks.get("multiple-choice")
ROWS = [
    {"query": "The man turned on the faucet, therefore", "choices": ["the toilet filled.", "water flowed."], "gold": 1},
    {"query": "Question: why?\n", "choices": ["no", "because of it", "that"], "gold": 0},
]


@pytest.fixture(scope="module")
def model():
    made = Model(LAYER, depth=1, width=16, heads=2, context=64, seed=3, tokenizer="bytes")
    made.module.double()
    return made


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def questions_of(path, **given):
    settings = TASK.settings.read(given)
    return read_questions(read_rows(path, settings, "data", []))


def nats(model, context, text):
    """By hand: bytes, after the end of a document."""
    ids = [256, *(context + text).encode()]
    logits = model.module(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    first = len(context.encode())
    return -sum(float(logits[place, ids[place + 1]].detach()) for place in range(first, len(ids) - 1))


def test_scores_by_hand(model, tmp_path):
    questions = questions_of(written(tmp_path / "a.jsonl", ROWS))
    choosing = Choosing(64, model.tokenizer)
    scores, cut = question_scores(model.module, questions, choosing, " ")
    by_hand = [[nats(model, "The man turned on the faucet, therefore", f" {c}") for c in ROWS[0]["choices"]],
               [nats(model, "Question: why?\n", c) for c in ROWS[1]["choices"]]]  # fmt: skip
    for each, expected in zip(scores, by_hand, strict=True):
        assert [score.nats for score in each] == pytest.approx(expected, rel=1e-5)
    assert cut == 0 and chance_accuracy(questions) == pytest.approx(100 * (1 / 2 + 1 / 3) / 2)
    alone = [question_scores(model.module, [one], choosing, " ")[0][0] for one in questions]
    for each, single in zip(scores, alone, strict=True):
        assert [score.nats for score in each] == pytest.approx([score.nats for score in single], rel=1e-6)
    plain, normalized = choice_scores(questions, scores)
    right = [row.index(min(row)) == one.right for row, one in zip(by_hand, questions, strict=True)]
    assert plain.sentences.tolist() == [100.0 * each for each in right]
    lengths = [[value / len(text) for value, (_, text) in zip(row, one.pairs, strict=True)]
               for row, one in zip(by_hand, questions, strict=True)]  # fmt: skip
    right = [row.index(min(row)) == one.right for row, one in zip(lengths, questions, strict=True)]
    assert normalized.sentences.tolist() == [100.0 * each for each in right]


def test_by_what_the_context_adds(model, tmp_path):
    questions = questions_of(written(tmp_path / "a.jsonl", ROWS))
    choosing = Choosing(64, model.tokenizer)
    scores, _ = question_scores(model.module, questions, choosing, " ")
    alone = scores_without_context(model.module, questions, choosing, " ")
    by_hand = [[nats(model, "", f" {text}") for _, text in one.pairs] for one in questions]
    assert [[score.nats for score in each] for each in alone] == [pytest.approx(each, rel=1e-5) for each in by_hand]
    added = [
        [a.nats - b for a, b in zip(each, known, strict=True)] for each, known in zip(scores, by_hand, strict=True)
    ]
    right = [100.0 * (row.index(min(row)) == one.right) for row, one in zip(added, questions, strict=True)]
    assert choice_scores(questions, scores, alone)[2].sentences.tolist() == right


def test_files_are_scored_one_by_one(tmp_path):
    Model(LAYER, depth=1, width=16, heads=2, context=64, seed=3, tokenizer="bytes").save(tmp_path / "lm")
    schema = {"context_options": ["The cat sat", "The mat sat"], "continuation": "down.", "gold": 0}
    for name, rows in (("a", ROWS), ("b", [{"context": "I", "continuation": "a"}]), ("c", [schema, schema])):
        written(tmp_path / f"{name}.jsonl", rows)
    report = evaluate(tmp_path / "lm", task="multiple-choice", data=str(tmp_path / "*.jsonl"))
    names = ["accuracy", "normalized accuracy", "mutual information accuracy"]
    assert list(report.data["scores"]) == [
        *(f"a: {name}" for name in names), "b: accuracy", "b: perplexity", *(f"c: {name}" for name in names[:2]),
    ]  # fmt: skip
    single = evaluate(tmp_path / "lm", task="multiple-choice", data=str(tmp_path / "a.jsonl")).data["scores"]
    assert [report.data["scores"][f"a: {name}"]["score"] for name in names] == [single[n]["score"] for n in names]
    assert report.data["examples"] == 5


def test_what_stands_between_a_context_and_a_choice():
    assert [context_with(*each) for each in (("", " "), ("a", " "), ("a\n", " "), ("a\n", "Answer: "))] == [
        "", "a ", "a\n", "a\nAnswer: "
    ]  # fmt: skip
    assert context_with("a\n", "\nAnswer: ") == "a\nAnswer: "


def test_long_contexts_are_cut_from_the_left(model):
    choosing = Choosing(64, model.tokenizer)
    (text,), (cut,) = choosing.texts([("x" * 100, "yes")], " ")
    assert cut and text.positions == 64 and text.ids[-4:].tolist() == list(b" yes") and int(text.learned.sum()) == 4


def test_layouts(tmp_path):
    schema = [{"context_options": ["The cat sat because the cat", "The cat sat because the mat"],
               "continuation": "was tired.", "gold": 0}]  # fmt: skip
    (one,) = questions_of(written(tmp_path / "a.jsonl", schema))
    assert one.pairs[1] == ("The cat sat because the mat", "was tired.") and one.shown(0).endswith("the cat")
    (one,) = questions_of(written(tmp_path / "b.jsonl", [{"context": "I said", "continuation": "so"}]))
    assert one.pairs == [("I said", "so")]
    (one,) = questions_of(written(tmp_path / "c.jsonl", [{"question": "Q", "options": ["a", "b"], "answer": "b"}]))
    assert one.right == 1
    with pytest.raises(ConfigError, match="have the columns text; expected context and choices and right"):
        questions_of(written(tmp_path / "d.jsonl", [{"text": "x"}]))
    for gold in (2, "c", -1):
        with pytest.raises(DataError, match=r"e.jsonl:1: the right choice is"):
            questions_of(written(tmp_path / "e.jsonl", [{"query": "Q", "choices": ["a", "b"], "gold": gold}]))


def test_a_model_of_any_text(model, tmp_path, capsys):
    folder = str(tmp_path / "lm")
    again = Model(LAYER, depth=1, width=16, heads=2, context=64, seed=3, tokenizer="bytes")
    again.save(folder)
    data = written(tmp_path / "a.jsonl", ROWS)
    report = evaluate(folder, task="likelihood-scoring", data=data)
    assert "chance" in repr(report) and report.data["scores"]["accuracy"]["signature"] == "greatest log P (acc)"
    assert len(report.written) == 2
    words = evaluate(
        folder, task="multiple-choice", data=written(tmp_path / "b.jsonl", [{"context": "I", "continuation": "a"}])
    )
    by_hand = 2.718281828 ** nats(model, "I", " a")
    assert words.data["scores"]["perplexity"]["score"] == pytest.approx(by_hand, rel=1e-3)
    typed = ["evaluate", folder, "--task", "multiple-choice", "--data", data, "--target-delimiter", "\nAnswer: "]
    assert main(typed) == 0
    assert "normalized accuracy" in capsys.readouterr().out
    with pytest.raises(InputError, match="say which: --data|data"):
        evaluate(folder, task="multiple-choice")
    assert main(["choose", folder, "The man", "A cat", "--choices", "sat", "ran", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["texts"]
    assert [sum(c["score"] for c in each["choices"]) for each in answers] == pytest.approx([1, 1])
    assert {c["text"] for c in answers[0]["choices"]} == {"sat", "ran"}
    assert main(["choose", folder, "The man", "--choices", "sat"]) == 2


def test_it_can_be_trained(tmp_path):
    rows = [{"query": f"{n} is", "choices": ["even", "odd"], "gold": n % 2} for n in range(60)]
    settings = TASK.settings.read({"data": written(tmp_path / "a.jsonl", rows), "tokenizer": "bytes"})
    task = TASK.make(settings, {"context": 32})
    batch = task.batch(0)
    assert task.units(batch) == sum(int(text.learned.sum()) for text in [task.texts[n] for n in task.buckets.rows(0)])
    model = Model(LAYER, depth=1, width=16, heads=2, **task.numbers).module
    assert set(task.evaluate(model)) == set(task.measures) and task.baselines() == {"chance": 50.0}
    assert "chance: 50.0" in task.verdict(task.evaluate(model)) and task.sample(model)


def test_questions_are_encoded_once_for_all_that_a_sample_asks(tmp_path, monkeypatch):
    rows = [{"query": f"{n} is", "choices": ["even", "odd" * n], "gold": n % 2} for n in range(60)]
    settings = TASK.settings.read({"data": written(tmp_path / "a.jsonl", rows), "tokenizer": "bytes"})
    task, asked = TASK.make(settings, {"context": 1000}), []
    original = Choosing.texts
    monkeypatch.setattr(Choosing, "texts", lambda *given: asked.append(given) or original(*given))
    whole = sum(sum(len(c) + len(text) + 1 for c, text in one.pairs) for one in task.questions)
    count = len(task.questions)
    assert task.cost_of(count) == 2 * task.cost_of(count / 2) == pytest.approx(task.evaluation_cost(), abs=1)
    part = copy.copy(task)
    part.keep_rows(np.array([1, 0]))
    assert len(asked) == count and task.positions == pytest.approx(whole, abs=2 * count)
    assert 0 < part.cost_of(2) < task.cost_of(count)
    assert 0 < part.positions == sum(len(c) + len(text) + 1 for q in part.questions for c, text in q.pairs)
    assert len(asked) == count + len(part.questions) and part.positions < task.positions


def test_what_was_found_out_about_a_table_is_said(model, tmp_path, capsys):
    """Semicolons are sniffed: the preview of a training and the report of an evaluation say so."""
    path = tmp_path / "rows.csv"
    path.write_text("context;continuation\n" + "".join(f"{n} and {n}, is;{n + n}\n" for n in range(12)))
    out = str(tmp_path / "run")
    sized = ["--depth", "1", "--width", "16", "--heads", "2", "--steps", "1", "--tokenizer", "bytes"]
    assert main(["train", LAYER, "--task", "multiple-choice", "--data", str(path), "--out", out, *sized]) == 0
    said = capsys.readouterr().err
    assert "11 rows to train, 1 to validate" in said and "parted by semicolons" in said
    assert main(["evaluate", out, "--data", str(path), "--json"]) == 0
    assert any("parted by semicolons" in note for note in json.loads(capsys.readouterr().out)["notes"])


@pytest.mark.skipif(not DATA.is_dir(), reason="the data beside the project is not here")
def test_real_rows():
    for name, choices in (("copa", 2), ("piqa", 2), ("winograd_wsc", 2), ("lambada_openai", 1)):
        questions = questions_of(str(DATA / f"{name}.jsonl"))
        assert {len(one.pairs) for one in questions} == {choices}


def test_bpe_keeps_the_blank_with_the_word():
    bpe = tokenizers.get("bpe").train(["a cat sat on a mat. " * 50], 300)
    (text,), _ = Choosing(64, bpe).texts([("a cat", "sat")], " ")
    assert bpe.decode(text.ids[1:][text.learned].tolist()) == " sat"


def test_a_run_of_before_columns_had_a_delimiter_keeps_what_it_meant():
    settings = tasks.get("multiple-choice").settings
    assert settings.of_run({"delimiter": "\nAnswer: "}) == {"target_delimiter": "\nAnswer: "}
    both = {"delimiter": "tab", "target_delimiter": " "}
    assert settings.of_run(both) == both


def test_a_run_is_scored_on_what_it_held_out_and_one_of_before_goes_on(tmp_path, capsys):
    rows = [{"query": f"{n} is", "choices": ["even", "odd"], "gold": n % 2} for n in range(40)]
    data, out = tmp_path / "rows.jsonl", tmp_path / "run"
    written(data, rows)
    sized = ["--depth", "1", "--width", "16", "--heads", "2", "--steps", "2", "--tokenizer", "bytes"]
    assert main(["train", LAYER, "--task", "multiple-choice", "--data", str(data), "--out", str(out), *sized]) == 0
    assert "35 rows to train, 5 to validate" in capsys.readouterr().err
    *_, evaluation = [event for event in read_log(out / "log.jsonl") if event["event"] == "evaluation"]
    report = evaluate(str(out))
    assert len(report.written) == 5
    assert report.data["scores"]["accuracy"]["score"] == pytest.approx(evaluation["accuracy"])

    config = (out / "config.yaml").read_text()
    former = config.replace("target_delimiter:", "former:").replace("\ndelimiter: null", "")
    (out / "config.yaml").write_text(former.replace("former:", "delimiter:"))
    assert "target_delimiter" not in (out / "config.yaml").read_text()
    assert main(["train", "--resume", str(out), "--steps", "3", "--quiet"]) == 0

    data.unlink()
    with pytest.raises(DataError, match="which is not there; put it back"):
        evaluate(str(out))
