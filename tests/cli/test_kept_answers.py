"""A long file of inputs that is stopped in the middle goes on where it stopped, and comes to the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.test_exporting import LABELED, trained
from transformula.api.kept_answers import KeptAnswers
from transformula.cli import main
from transformula.tasks.classification import Classifier


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    return Path(trained(folder, "classification", LABELED, tokenizer="bytes", max_tokens=20)[0])


def typed(model: Path, folder: Path, *more: str) -> list[str]:
    files = ["--input", str(folder / "in.csv"), "--column", "text", "--output", str(folder / "out.csv")]
    return ["classify", str(model), *files, *more]


def write(folder: Path, count: int = 300) -> None:
    rows = "".join(f"{n},red {n} x\n" for n in range(count))
    (folder / "in.csv").write_text(f"id,text\n{rows}")


class Counted:
    """How many inputs are asked for, and an end in the middle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.most = 0, 10**9
        predict = Classifier.predict

        def counted(kind: Any, models: Any, inputs: Any, *given: Any, **named: Any) -> Any:
            if self.asked + len(inputs) > self.most:
                raise KeyboardInterrupt
            self.asked += len(inputs)
            return predict(kind, models, inputs, *given, **named)

        monkeypatch.setattr(Classifier, "predict", counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_it_goes_on_where_it_stopped(
    model: Path, tmp_path: Path, counted: Counted, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    assert main(typed(model, tmp_path)) == 0
    whole, names = (tmp_path / "out.csv").read_bytes(), sorted(path.name for path in tmp_path.iterdir())
    assert names == ["in.csv", "out.csv"], "nothing else is left behind"
    (tmp_path / "out.csv").unlink()
    counted.asked, counted.most = 0, 120
    assert main(typed(model, tmp_path)) == 130
    answered = counted.asked
    assert 0 < answered <= 120 and not (tmp_path / "out.csv").exists() and (tmp_path / ".out.csv.answers").is_file()
    counted.asked, counted.most = 0, 10**9
    capsys.readouterr()
    assert main(typed(model, tmp_path)) == 0
    assert counted.asked == 300 - answered and (tmp_path / "out.csv").read_bytes() == whole
    assert f"{answered} of 300 inputs were answered before" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("change", ["inputs", "settings", "nothing"])
def test_another_question_is_asked_from_its_beginning(
    model: Path, tmp_path: Path, counted: Counted, change: str
) -> None:
    write(tmp_path)
    counted.most = 120
    assert main(typed(model, tmp_path)) == 130
    answered, counted.asked, counted.most = counted.asked, 0, 10**9
    if change == "inputs":
        write(tmp_path, 301)
    assert main(typed(model, tmp_path, *(["--scores"] if change == "settings" else []))) == 0
    assert counted.asked == {"inputs": 301, "settings": 300, "nothing": 300 - answered}[change]


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_file_that_is_not_whole_is_read_as_far_as_it_is(tmp_path: Path, cut: int) -> None:
    kept = KeptAnswers(tmp_path / "out.txt", "question")
    for n in range(1, 4):
        kept.add(n, [f"line {n}"])
    kept.leave()
    kept.path.write_bytes(kept.path.read_bytes()[:-cut])
    again = KeptAnswers(tmp_path / "out.txt", "question")
    assert again.lines == [f"line {n}" for n in range(1, again.count + 1)] and again.count < 3
    again.add(again.count + 1, ["more"])
    again.leave()
    assert KeptAnswers(tmp_path / "out.txt", "question").lines == [*again.lines]
    assert KeptAnswers(tmp_path / "out.txt", "another").count == 0


def test_few_inputs_are_not_kept(model: Path, tmp_path: Path, counted: Counted) -> None:
    write(tmp_path, 40)
    counted.most = 20
    assert main(typed(model, tmp_path)) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
