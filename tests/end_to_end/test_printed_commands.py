"""Every command that the program prints is typed as it stands, by a shell's rules, and works."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

import pytest

from transformula.cli import main
from transformula.runs.folder import RunFolder, command
from transformula.training.report import doubled_limit

FORMULA = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = ["--depth", "1", "--width", "16", "--heads", "2", "--batch", "4", "--threads", "1", "--precision", "float32"]
RUN = "runs/with a space & 'quote'"
LAB = '''
import torch
from transformula.words.word import Word, word

@word("swishing", streams=("x",), kind="function", width="x", saved="x", equation="y = x sigmoid(x)", source="-")
class Swishing(Word):
    """y = x sigmoid(x)."""

    def __init__(self, x):
        super().__init__()

    def forward(self, x):
        return x * torch.sigmoid(x)
'''


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def work(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("to be or not to be, that is the question\n" * 60)
    Path("rows.tsv").write_text("source\ttarget\n" + "".join(f"{n} and {n % 7}\t{n + n % 7}\n" for n in range(80)))
    Path("mylab.py").write_text(LAB)
    return tmp_path


def typed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """A command's exit status, and all that it showed."""
    capsys.readouterr()
    status = main(list(arguments))
    shown = capsys.readouterr()
    return status, shown.out + shown.err


def commands_in(text: str) -> list[list[str]]:
    """The commands of a text, as a shell takes them apart."""
    return [
        shlex.split(line)[1:]
        for line in re.findall(r"(transformula (?:train|sample|translate|evaluate) [^;\n]+)", text)
    ]


def check_all(capsys: pytest.CaptureFixture[str], text: str) -> list[list[str]]:
    """Type every command of a text; each must work, and one that resumes must train."""
    found = list(map(list, dict.fromkeys(map(tuple, commands_in(text)))))
    for arguments in found:
        status, shown = typed(capsys, *arguments)
        assert status == 0, (arguments, shown)
        if "--resume" in arguments:
            assert "nothing was left to train" not in shown
    return found


def train(*more: str) -> list[str]:
    return ["train", FORMULA, "--context", "16", *SMALL, "--data", "text.txt", "--quiet", *more]


@pytest.mark.parametrize(
    "limit",
    [
        ["--steps", "4000", "--minutes", "0.02"],
        pytest.param(["--steps", "3"], marks=pytest.mark.slow),
        pytest.param(["--tokens", "150"], marks=pytest.mark.slow),
        pytest.param(["--epochs", "0.1"], marks=pytest.mark.slow),
    ],
)
def test_after_a_limit(limit: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command doubles the limit that ended the run, in the terminal and in the page."""
    status, shown = typed(capsys, *train(*limit, "--out", RUN))
    assert status == 0, shown
    page = Path(RUN, "summary.md").read_text()
    printed, written = commands_in(shown), commands_in(page)
    ended = limit[-2]
    assert [c[-2] for c in printed if "--resume" in c] == [ended] == [c[-2] for c in written if "--resume" in c]
    assert {tuple(c) for c in printed} <= {tuple(c) for c in written}
    check_all(capsys, page)


def test_after_an_interruption(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on within its limits: nothing is doubled."""
    from transformula.training.loop import Trainer

    step = Trainer.step

    def stopped(self: Trainer) -> None:
        step(self)
        if self.state.position.step == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", stopped)
        status, shown = typed(capsys, *train("--steps", "6", "--out", RUN))
    assert status == 130
    resumes = [c for c in commands_in(shown) if "--resume" in c]
    assert resumes and all(c == ["train", "--resume", RUN] for c in resumes)
    status, shown = typed(capsys, *resumes[0])
    assert status == 0 and "6 steps" in shown


def test_with_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    """`--use` is part of every command, and of an error's."""
    layer = "x = x + attention(norm(x)); x = x + linear(swishing(norm(x)), width)"
    status, shown = typed(capsys, "train", layer, *train()[2:], "--steps", "2", "--out", RUN, "--use", "mylab")
    assert status == 0, shown
    found = check_all(capsys, shown + Path(RUN, "summary.md").read_text())
    assert len(found) == 3 and all(c[-2:] == ["--use", "mylab"] for c in found)


def test_of_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        *SMALL[:6],
        *SMALL[8:],
        "--data",
        "rows.tsv",
        "--batch-tokens",
        "128",
        "--tokenizer",
        "characters",
        "--quiet",
    ]
    status, shown = typed(
        capsys, "train", "translator", "--task", "translation", *options, "--steps", "2", "--out", RUN
    )
    assert status == 0, shown
    found = check_all(capsys, shown + Path(RUN, "summary.md").read_text())
    assert {c[0] for c in found} == {"train", "translate", "evaluate"}


def test_of_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is taken: its command goes on with the run in it, which is not at its end."""
    typed(capsys, *train("--steps", "2", "--out", RUN))
    status, shown = typed(capsys, *train("--steps", "4", "--out", RUN))
    assert status == 2 and "holds a run already" in shown
    (resume,) = commands_in(shown)
    assert resume == ["train", "--resume", RUN]
    status, shown = typed(capsys, *resume)
    assert status == 0 and "nothing was left to train: all 2 steps made" in shown
    assert ["train", "--resume", RUN, "--steps", "4"] in commands_in(shown)
    check_all(capsys, shown)


def test_the_limit_that_ended_a_run() -> None:
    settings = {"steps": 10, "tokens": 500, "minutes": 3.5, "patience": 2, "epochs": None}
    assert doubled_limit(settings, 10, 80, "all 10 steps made") == {"steps": 20}
    assert doubled_limit(settings, 5, 500, "all 500 units seen") == {"tokens": 1000}
    assert doubled_limit(settings, 5, 80, "3.5 minutes are over") == {"minutes": 7.0}
    assert doubled_limit(settings, 5, 80, "no better evaluation in 2") == {"patience": 4}
    assert doubled_limit({"epochs": 1.5}, 7, 80, "all 7 steps made") == {"epochs": 3.0}
    assert doubled_limit(settings, 5, 80, "interrupted") == {}
    assert (
        RunFolder("runs/a b").resume_command({"minutes": 7.0}) == "transformula train --resume 'runs/a b' --minutes 7"
    )
    assert command("translate", "a b") == "transformula translate 'a b'"
    assert command("translate", "a", "two words", use=["p q"]) == "transformula translate a 'two words' --use 'p q'"
    assert command("evaluate", "a") == "transformula evaluate a"
