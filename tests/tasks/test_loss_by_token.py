"""Where the loss of a language model lies: every bin by hand, and windows of other lengths as a task of that length has
them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from transformula import evaluate, train
from transformula.api.reading import check_model
from transformula.cli.door import main
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, InputError
from transformula.model import build
from transformula.tasks.base import tasks
from transformula.tasks.language_modeling import LanguageModeling
from transformula.tasks.loss_by_token import losses_in_windows
from transformula.tasks.scores.by_token import LossBin

TEXT = "".join(f"line {i} speaks of {i * i} things.\n" for i in range(200))
LAYER = "x = x + attention(norm(x){0}); x = x + mlp(norm(x))"
SMALL = {"depth": 1, "width": 16, "heads": 2}


class Bigram(nn.Module):
    """Logits from the last token alone."""

    def __init__(self, vocab: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(vocab, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.table(tokens)
        return logits


def make(folder: Path, context: int = 16, task: str = "language-modeling", **settings: Any) -> LanguageModeling:
    path = folder / "one.txt"
    path.write_text(TEXT)
    kind = tasks.get(task)
    made = kind.make(DataSettings(data=str(path), **settings), {"context": context}, batch=4, seed=1)
    assert isinstance(made, LanguageModeling)
    return made


def model_of(task: LanguageModeling, inside: str = "", **changes: Any) -> nn.Module:
    text = {"layer": LAYER.format(inside), **task.numbers, **SMALL, **changes}
    return build(check_model(text.pop("layer"), text), seed=1)


def nats_by_hand(task: LanguageModeling, model: nn.Module) -> np.ndarray:
    ids = torch.from_numpy(task.data.validation.ids.astype(np.int64))
    logs = model(ids[None, :-1])[0].double().log_softmax(-1)
    nats: np.ndarray = -logs.gather(1, ids[1:, None])[:, 0].detach().numpy()
    return nats


def test_bins_by_hand(tmp_path: Path) -> None:
    task = make(tmp_path)
    model = Bigram(task.numbers["vocab"])
    nats, ids = nats_by_hand(task, model), task.data.validation.ids[1:]
    (found,) = losses_in_windows(task.scored, model)
    assert (found.context, found.trained, found.reason) == (16, True, "")
    read = np.arange(len(nats)) % 16 + 1
    edges = [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16)]
    assert [(each.first, each.last) for each in found.position] == edges
    for each in found.position:
        here = (each.first <= read) & (read <= each.last)
        assert each.tokens == here.sum() and each.loss == pytest.approx(nats[here].mean(), rel=1e-5)
    counts = np.array([np.count_nonzero(task.data.training.ids == token) for token in ids])
    for each in found.frequency:
        here = (each.first <= counts) & (counts <= each.last)
        assert each.tokens == here.sum() and each.loss == pytest.approx(nats[here].mean(), rel=1e-5)
    assert sum(each.tokens for each in found.frequency) == len(ids)
    assert all(each.first in (0, 1, 10, 100, 1000) for each in found.frequency)


def test_tokens_that_training_has_not_are_a_bin(tmp_path: Path) -> None:
    (tmp_path / "held.txt").write_text("speaks of ~~~ things\n" * 9)
    task = make(tmp_path, tokenizer="bytes", validation=str(tmp_path / "held.txt"), overlap="keep")
    first = losses_in_windows(task.scored, Bigram(task.numbers["vocab"]))[0].frequency[0]
    assert (str(first), first.tokens) == ("0", 27)


@pytest.mark.parametrize("stride", [0, 4])
def test_other_windows_score_as_a_task_of_that_length(tmp_path: Path, stride: int) -> None:
    task = make(tmp_path, stride=stride)
    model = model_of(task, ", rotary=100")
    found = losses_in_windows(task.scored, model, [8, 40])
    assert [window.context for window in found] == [8, 16, 40]
    assert [window.trained for window in found] == [False, True, False]
    for window in found:
        scores = make(tmp_path, window.context, stride=stride).evaluate(model)
        assert window.scores == pytest.approx({name: scores[name] for name in window.scores}, rel=1e-6)
        mean = sum(each.tokens * each.loss for each in window.position) / sum(each.tokens for each in window.position)
        assert mean == pytest.approx(window.scores["loss"], rel=1e-6)
    assert task.context == 16 and task.evaluate(model)["loss"] == pytest.approx(found[1].scores["loss"], rel=1e-6)


def test_a_stride_counts_what_the_window_before_has_read(tmp_path: Path) -> None:
    task = make(tmp_path, stride=4)
    (found,) = losses_in_windows(task.scored, Bigram(task.numbers["vocab"]))
    assert [each.tokens for each in found.position[:4]] == [1, 1, 2, 4]  # of the first window alone


def test_why_a_window_has_no_score(tmp_path: Path) -> None:
    task = make(tmp_path)
    learned, free = model_of(task), model_of(task, ", rotary=100")
    short, same, long = losses_in_windows(task.scored, learned, [8, 32])
    assert not short.reason and not same.reason and not long.scores and not long.position
    assert "has learned 16 positions" in long.reason and "train it with context 32" in long.reason
    assert "the validation text has" in losses_in_windows(task.scored, free, [100_000])[1].reason
    assert "moved on by 12 tokens" in losses_in_windows(make(tmp_path, stride=12).scored, free, [8])[0].reason
class Short(Bigram):
    """Reaches no further than 20 tokens, as a word may."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if tokens.shape[1] > 20:
            raise InputError("a sequence of 32 positions is longer than its table")
        return super().forward(tokens)


def test_what_a_word_refuses_is_the_reason(tmp_path: Path) -> None:
    task = make(tmp_path)
    same, long = losses_in_windows(task.scored, Short(task.numbers["vocab"]), [32])
    assert same.scores and long.reason == "a sequence of 32 positions is longer than its table" and not long.position


def test_what_is_carried_on_has_no_windows(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(TEXT)
    numbers = {"context": 16, "carry": 8}
    task = LanguageModeling(DataSettings(data=str(tmp_path / "one.txt")), numbers, batch=2)
    windows = losses_in_windows(task.scored, model_of(task, ", rotary=100", carry=8), [32])
    assert all("carries on" in window.reason and not window.scores for window in windows)


def test_further_outputs_change_nothing(tmp_path: Path) -> None:
    task = make(tmp_path, task="multi-token-prediction")
    model = model_of(task, **type(task).model)
    (found,) = losses_in_windows(task.scored, task.by_logits(model))
    assert found.scores["loss"] == pytest.approx(task.evaluate(model)["loss"], rel=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "text.txt").write_text(TEXT)
    given = {"tokenizer": "characters", "context": 16, "batch": 2, "steps": 2, "quiet": True, "out": folder / "run"}
    train(LAYER.format(", rotary=100"), data=str(folder / "text.txt"), **SMALL, **given)
    return folder / "run"


def test_evaluate_shows_what_is_asked_for(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = evaluate(run)
    assert "contexts" not in plain.data and plain.svg is None
    asked = evaluate(run, contexts=[8, 32], by=["position", "frequency"])
    assert {key: asked.data[key] for key in plain.data} == plain.data
    assert [window["context"] for window in asked.data["contexts"]] == [8, 16, 32]
    lines = repr(asked).removeprefix(repr(plain)).splitlines()
    assert any(line.startswith("16*") for line in lines) and any(line.startswith("17 to 32") for line in lines)
    assert "frequency" not in repr(evaluate(run, by="position")) and "nan" not in repr(asked)
    figure = tmp_path / "losses.svg"
    typed = ["--contexts", "8,32", "--by", "position", "--figure", str(figure), "--json"]
    assert main(["evaluate", str(run), *typed]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["contexts"] == json.loads(json.dumps(asked.data["contexts"])) and "17 to 32" in figure.read_text()
    assert main(["evaluate", str(run), "--figure", str(figure)]) == 2
    assert "add --contexts" in capsys.readouterr().err


def test_without_the_training_text_no_frequency_is_known(run: Path, tmp_path: Path) -> None:
    other, text = tmp_path / "other.txt", run.parent / "text.txt"
    other.write_text(TEXT[:900])
    assert evaluate(run, data=str(other), by="frequency", overlap="keep").data["contexts"][0]["frequency"]
    text.rename(tmp_path / "text.txt")
    try:
        lost = evaluate(run, data=str(other), by=["frequency", "position"])
    finally:
        (tmp_path / "text.txt").rename(text)
    assert lost.data["contexts"][0]["position"] and not lost.data["contexts"][0]["frequency"]
    assert "loss by frequency: the training text is not at hand" in repr(lost)


def test_mistakes_are_named_together(run: Path) -> None:
    with pytest.raises(ConfigError, match=r"2 mistakes(.|\n)*contexts\.1(.|\n)*by\.0") as caught:
        evaluate(run, contexts="8,0", by="place")
    assert len(caught.value.mistakes) == 2
    with pytest.raises(ConfigError, match="strid"):
        evaluate(run, strid=4)


def test_a_bin_is_named_by_its_ends() -> None:
    assert [str(LossBin(*ends, 1, 0.0)) for ends in ((0, 0), (1000, 9999))] == ["0", "1,000 to 9,999"]
