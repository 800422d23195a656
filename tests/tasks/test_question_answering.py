"""Question answering: what a model reads, the spans that it answers with, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transformula import Model, evaluate, train
from transformula.cli import main
from transformula.errors import DataError, InputError
from transformula.generation.settings import AnswerSettings
from transformula.tasks.question_answering import (
    START,
    Answering,
    AnswerSpan,
    LocatedTokens,
    QuestionAnswering,
    Questions,
    best_threshold,
    span_scores,
    usual_answer,
)
from transformula.tokenizers.base import Tokenizer, tokenizers

NAMES = ("Anna", "Børge", "Čeněk", "José", "王小明", "Zoë 😀")
PLACES = ("Oslo", "Praha", "Lima", "東京")


SQUAD = Path(__file__).parents[2].parent / "shared" / "data" / "squad" / "dev-v1.1.json"
SMALL = {"family": "encoder", "output": "logits = linear(x, 2)", "depth": 1, "width": 16, "heads": 2}
READER = """\
language: 1
depth: 1
width: 16
heads: 2
causal: false
inputs: {match: tokens}
before: x = embed.words(tokens) + embed.types(types, rows=2) + embed.match(match, rows=3) + sinusoids(tokens)
layer: x = x + attention(norm(x)); x = x + mlp(norm(x))
output: logits = linear(x, 2)
"""


def rows(count: int = 40, unanswerable: bool = False) -> list[dict[str, Any]]:
    made = []
    for number in range(count):
        name, place = NAMES[number % 6], PLACES[number % 4]
        context = f"Case {number}. {name} lives in {place}, and works there."
        answers = [] if unanswerable and number % 3 == 0 else [name, name, f"{name} lives"]
        question = "Who sleeps there?" if not answers else f"Who lives in {place}?"
        made.append({"question": question, "context": context, "answers": answers,
                     "starts": [context.index(name)] * len(answers)})  # fmt: skip
    return made


def written(path: Path, made: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in made), encoding="utf-8")
    return path


def task_on(path: Path, inputs: tuple[str, ...] = ("tokens",), **settings: Any) -> QuestionAnswering:
    read = {"data": str(path), "tokenizer": "bytes", "split": 0.2, **settings}
    return QuestionAnswering.make(QuestionAnswering.settings.read(read), {}, inputs=inputs)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "reader.yaml"
    path.write_text(READER)
    return path


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("rows") / "rows.jsonl", rows())


def perfect(kind: Answering, inputs: list[dict[str, str]], answer: str) -> list[torch.Tensor]:
    """The logits of a model that knows the answer, for each window."""
    outputs = []
    for each, windows in zip(inputs, kind.windows(inputs), strict=True):
        start = each["context"].index(answer)
        for window in windows:
            marks = window.target((start, start + len(answer))).clamp(min=0)
            outputs.append(30.0 * torch.stack([marks & 1, marks >> 1], dim=1))
    return outputs


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram", "characters"])
@pytest.mark.parametrize("lower", [False, True])
def test_each_token_has_its_characters(kind: str, lower: bool) -> None:
    texts = ["", "İstanbul, Ω and ΣΑΣ.", *(row["context"] for row in rows(12))]
    known = [*texts, *map(str.lower, texts), "i"]
    tokenizer: Tokenizer = tokenizers.get(kind).train(known, 300)
    for text in texts:
        tokens = LocatedTokens(text, tokenizer, lower)
        assert len(tokens.text) == len(text)
        assert len(tokens.ids) == len(tokens.starts) == len(tokens.ends)
        for first in range(len(tokens.ids)):
            piece = tokenizer.decode_bytes(tokens.ids[first : first + 1].tolist())
            assert piece in tokens.text[tokens.starts[first] : tokens.ends[first]].encode()
        if text:
            assert tokens.starts[0] == 0
            assert tokens.ends[-1] == len(text)


def test_an_answer_is_found_whatever_the_stride(answered: Path) -> None:
    context = "".join(f"Nobody named nr {number} was there. " for number in range(20)) + "Zoë 😀 was. " * 1 + "x " * 90
    inputs = [{"question": "Who was there?", "context": context}]
    base = task_on(answered, max_tokens=64).data.kind
    for stride in (1, 7, 20, 31, 32):
        kind = Answering(base.tokenizer, ["tokens"], 64, False, stride, 30, False, 0.0)
        covered = set()
        for window in next(kind.windows(inputs)):
            assert len(window.row["tokens"]) <= 64
            covered.update(range(int(window.starts[0]), int(window.ends[-1])))
        assert covered == set(range(len(context))), "each character stands in a window"
        ((best,),) = kind.answers(inputs, perfect(kind, inputs, "Zoë 😀"), AnswerSettings())
        assert best.text == context[best.start : best.end] == "Zoë 😀"
        assert best.score == pytest.approx(1)


def test_the_best_spans_are_those_of_all_pairs() -> None:
    logits = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
    scores, none = span_scores(logits, 4, 3)
    nats = torch.cat([logits[:1], logits[4:]]).double().log_softmax(0).exp()
    assert none == pytest.approx(float(nats[0, 0] * nats[0, 1]))
    for first in range(8):
        for more in range(3):
            right = float(nats[1 + first, 0] * nats[1 + first + more, 1]) if first + more < 8 else 0.0
            assert float(scores[first, more]) == pytest.approx(right)


def test_match_says_which_words_stand_in_the_other_text(answered: Path) -> None:
    tokenizer = task_on(answered).data.kind.tokenizer
    context, question = (
        LocatedTokens(text, tokenizer, False) for text in ("Two Dogs run, one ran.", "a dog, TWO rats")
    )
    levels = context.match(question)
    assert levels[:3].tolist() == [2] * 3, "the same word in another case"
    assert levels[4:8].tolist() == [1] * 4, "the same stem"
    assert levels[8:].tolist() == [0] * len(levels[8:])


def test_where_no_answer_stands_in_a_window(answered: Path) -> None:
    task = task_on(answered, max_tokens=40, stride=10)
    side = task.data.training
    assert len(side.rows) > len(side) == len(side.records)
    assert {int((target == START).sum() + (target == START + 2).sum()) for target in side.targets} == {1}
    assert any(int(target[0]) == START + 2 for target in side.targets)
    part = side.part(np.array([2, 5]))
    assert part.owners.tolist() == sorted(part.owners.tolist())
    assert len(part.rows) == int(np.isin(side.owners, [2, 5]).sum())


def test_alone_in_a_batch_and_sorted_otherwise(answered: Path, reader: Path) -> None:
    task = task_on(answered, ("tokens", "types", "match"), max_tokens=64, stride=16)
    module, kind = Model(reader, **task.numbers).module, task.predictor()
    inputs = [kind.input_of(record) for record in task.data.source.training[:7]]
    inputs[2] = {**inputs[2], "context": inputs[2]["context"] * 3}
    settings = AnswerSettings(n_best=3)
    together = kind.predict([module], inputs, settings)
    turned = kind.predict([module], inputs[::-1], settings)[::-1]
    for each, one, other in zip(inputs, together, turned, strict=True):
        (alone,) = kind.predict([module], [each], settings)
        assert [span.text for span in one] == [span.text for span in other] == [span.text for span in alone]
        assert [span.score for span in alone] == pytest.approx([span.score for span in one], rel=1e-3)


def test_nothing_to_answer_from(answered: Path) -> None:
    task = task_on(answered)
    module, kind = Model("pre-norm", **SMALL, **task.numbers).module, task.predictor()
    empty = [{"question": "Who?", "context": ""}, {"question": "", "context": " "}, {"question": "", "context": ""}]
    assert [best[0].text for best in kind.predict([module], empty, AnswerSettings())] == ["", "", ""]
    ((best, *_),) = kind.predict([module], [{"question": "", "context": "a b"}], AnswerSettings(max_answer=1))
    assert len(best.text) == 1
    with pytest.raises(InputError, match="a question and its context"):
        kind.opened(["Who?"])
    with pytest.raises(InputError, match="threshold: each training question had an answer"):
        kind.predict([module], empty, AnswerSettings(threshold=1.0))


def test_padding_changes_no_loss(answered: Path) -> None:
    task = task_on(answered)
    module, side = Model("pre-norm", **SMALL, **task.numbers).module, task.data.training
    places = [int(side.lengths.argmin()), int(side.lengths.argmax())]
    with torch.no_grad():
        alone = [float(task.loss(module, side.batch([place]))) for place in places]
        assert float(task.loss(module, side.batch(places))) == pytest.approx(np.mean(alone), rel=1e-4)


def test_no_answer_is_said_where_it_scores_best() -> None:
    margins, gains = np.array([3.0, 1.0, -1.0, -2.0]), np.array([1.0, 1.0, -1.0, 1.0])
    assert -1 < best_threshold(margins, gains) < 1
    assert best_threshold(margins, -np.ones(4)) > 3
    assert best_threshold(margins, np.ones(4)) < -2
    assert best_threshold(np.zeros(0), np.zeros(0)) == 0


def test_questions_without_an_answer(tmp_path: Path) -> None:
    task = task_on(written(tmp_path / "rows.jsonl", rows(unanswerable=True)))
    assert task.data.kind.unanswerable
    task.evaluate(Model("pre-norm", **SMALL, **task.numbers).module)
    kind = task.predictor()
    assert kind.threshold != 0
    inputs = [kind.input_of(task.data.source.validation[0])]
    logits = [torch.zeros(len(row["tokens"]), 2) for row in kind.encode(inputs)]
    for threshold, none in ((-50, True), (50, False)):
        ((best, second),) = kind.answers(inputs, logits, AnswerSettings(n_best=2, threshold=threshold))
        assert (best.text == "") is none
        assert second.text


def test_an_answer_that_does_not_stand_there(tmp_path: Path) -> None:
    made = rows()
    made[3]["starts"][0] += 1
    with pytest.raises(DataError, match=r"rows.jsonl:4: the answer .*at character 9"):
        task_on(written(tmp_path / "rows.jsonl", made))
    made[3] |= {"starts": [8]}
    with pytest.raises(DataError, match="3 answers and 1 starts"):
        task_on(written(tmp_path / "rows.jsonl", made))


def test_a_table_with_one_answer(tmp_path: Path) -> None:
    lines = [f"{row['question']}\t{row['context']}\t{row['answers'][0]}" for row in rows()]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join(["question\tcontext\tanswer", *lines]), encoding="utf-8")
    task = task_on(path)
    record = task.data.source.training[0]
    assert record["starts"] == [str(record["context"]).index(record["answers"][0])]  # type: ignore[index]


def test_a_model_that_reads_something_else(answered: Path, tmp_path: Path) -> None:
    path = tmp_path / "reader.yaml"
    path.write_text(READER.replace("match", "weather"))
    with pytest.raises(InputError, match="take weather"):
        train(path, task="question-answering", data=str(answered), tokenizer="bytes", steps=1, out=str(tmp_path / "x"))


def test_an_output_that_is_no_span(answered: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="two numbers at each token; `output` makes `logits` of width 2, not of the tokens: .*linear"
    ):
        train("pre-norm", **{**SMALL, "output": "logits = linear(mean(x), 2)"}, task="question-answering", steps=1,
              data=str(answered), tokenizer="bytes", split=0.2, out=str(tmp_path / "x"))  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not SQUAD.is_file(), reason="SQuAD is not beside the project")
def test_squad_is_answered_by_its_own_spans() -> None:
    """Each answer of 1.1 is found from the positions of its tokens, in windows, as it stands."""
    records = Questions().read(str(SQUAD), QuestionAnswering.settings.read({"data": str(SQUAD)}), "data", [])[::40]
    tokenizer = tokenizers.get("bytes").train(())
    kind = Answering(tokenizer, ["tokens"], 300, False, 100, 200, False, 0.0)
    inputs, outputs = [kind.input_of(record) for record in records], []
    for record, windows in zip(records, kind.windows(inputs), strict=True):
        for window in windows:
            marks = window.target(usual_answer(record)).clamp(min=0)
            outputs.append(30.0 * torch.stack([marks & 1, marks >> 1], dim=1))
    answers = [best[0] for best in kind.answers(inputs, outputs, AnswerSettings())]
    assert [each.score for each in QuestionAnswering.measure(answers, records)] == [100.0, 100.0]


def test_from_rows_to_answers(answered: Path, reader: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    train(reader, task="question-answering", data=str(answered), tokenizer="bytes", split=0.2, steps=4, out=str(out))
    page = tmp_path / "page.txt"
    page.write_text("Anna lives in Oslo.", encoding="utf-8")
    asked = {"question": "Who lives there?", "context": page.read_text("utf-8")}
    model = Model.from_folder(out)
    (best,) = model.predict([asked], scores=True)
    assert isinstance(best, AnswerSpan)
    assert best.text == model.predict(asked) == asked["context"][best.start : best.end]
    report = evaluate(out)
    assert set(report.data["scores"]) == {"F1", "exact match"}
    assert set(report.data["scores"]["F1"]["baselines"]) == {"sliding window", "first sentence"}
    capsys.readouterr()
    assert main(["answer", str(out), asked["question"], "Where?", "--context", str(page)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == best.text
    options = ["--format", "jsonl", "--scores", "--n-best", "2"]
    assert main(["answer", str(out), "--input", str(answered), *options]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line, row in zip(lines, rows(), strict=True):
        assert line["question"] == row["question"]
        for span in line["answers"]:
            assert span["text"] == row["context"][span["start"] : span["end"]]
    named = written(tmp_path / "named.jsonl", [{**asked, "id": "q7"}])
    assert main(["answer", str(out), "--input", str(named), "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "q7", "question": asked["question"], "text": best.text}
    assert main(["answer", str(out), "Who?"]) == 2
    assert "--context" in capsys.readouterr().err
