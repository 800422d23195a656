"""`translate` and its relatives: a line in, a line out, from wherever the lines come."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.translator import workplace
from transformula import Model, train
from transformula.cli import main

LINES = ["hund sieht katze", "", "der hund", "eins zwei drei eins", "katze"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with workplace(tmp_path_factory) as folder:
        yield folder


Typed = Callable[..., str]


@pytest.fixture
def typed(work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Run a command; return what it printed, of the errors where it should fail."""

    def run(*arguments: object, stdin: bytes = b"", status: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        found = main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        assert found == status, shown.err
        return shown.err if status else shown.out

    return run


@pytest.fixture(scope="module")
def expected(work: Path) -> list[str]:
    return list(Model.from_folder("run").write(LINES))


def test_arguments_a_file_and_a_pipe_agree(typed: Typed, work: Path, expected: list[str]) -> None:
    whole = "".join(f"{line}\n" for line in expected)
    assert typed("translate", "run", *LINES) == whole
    (work / "lines.de").write_text("\n".join(LINES))  # no end of the last line
    assert typed("translate", "run", "--input", "lines.de") == whole
    assert typed("translate", "run", stdin="\n".join(LINES).encode()) == whole
    assert typed("translate", "run", "--input", "lines.de", "--output", "out.en") == ""
    assert (work / "out.en").read_bytes() == whole.encode()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_ends_of_lines_and_marks(typed: Typed, work: Path, expected: list[str], end: bytes, mark: bytes) -> None:
    given = mark + b"".join(line.encode() + end for line in LINES)
    whole = "".join(f"{line}\n" for line in expected)
    assert typed("translate", "run", stdin=given) == whole
    (work / "marked.de").write_bytes(given)
    assert typed("translate", "run", "--input", "marked.de") == whole


def test_nothing_at_all(typed: Typed, work: Path) -> None:
    (work / "empty.de").write_bytes(b"")
    assert typed("translate", "run", stdin=b"") == typed("translate", "run", "--input", "empty.de") == ""
    assert typed("translate", "run", stdin=b"\n\n") == "\n\n"


def test_many_lines_stay_in_order(typed: Typed) -> None:
    model = Model.from_folder("run")
    lines = [" ".join(["eins", "zwei", "hund"][: n % 3 + 1]) for n in range(100)]
    table = {line: model.write(line) for line in set(lines)}
    assert typed("translate", "run", stdin="\n".join(lines).encode()).splitlines() == [table[line] for line in lines]


def test_rows_in_and_out(typed: Typed, work: Path, expected: list[str]) -> None:
    rows = "".join(json.dumps({"id": n, "source": line}) + "\n" for n, line in enumerate(LINES))
    (work / "rows.jsonl").write_text(rows)
    found = [
        json.loads(line)
        for line in typed("translate", "run", "--input", "rows.jsonl", "--format", "jsonl").split("\n")[:-1]
    ]
    both = list(zip(LINES, expected, strict=True))
    assert found == [{"id": n, "source": line, "text": text} for n, (line, text) in enumerate(both)]
    (work / "rows.tsv").write_text("id\tde\n" + "".join(f"{n}\t{line}\n" for n, line in enumerate(LINES)))
    plain = typed("translate", "run", "--input", "rows.tsv", "--column", "de")
    assert plain == "".join(f"{line}\n" for line in expected)
    assert "say which is the source: --column NAME" in typed("translate", "run", "--input", "rows.tsv", status=2)
    assert "--column: names a column" in typed("translate", "run", "--input", "test.de", "--column", "de", status=2)


def test_scores_and_several_targets(typed: Typed) -> None:
    best = Model.from_folder("run").write(LINES[:3], n_best=2)
    shown = typed("translate", "run", *LINES[:3], "--n-best", 2, "--scores")
    assert shown == "".join(f"{n}\t{one.score:.5f}\t{one.text}\n" for n, each in enumerate(best, 1) for one in each)
    shown = typed("translate", "run", *LINES[:3], "--n-best", 2, "--scores", "--format", "jsonl")
    for line, each in zip(shown.splitlines(), best, strict=True):
        written = json.loads(line)["written"]
        assert [one["text"] for one in written] == [one.text for one in each]
        assert [one["score"] for one in written] == pytest.approx([one.score for one in each], abs=1e-5)
    assert typed("translate", "run", "der hund", "--scores") == f"{best[2][0].score:.5f}\t{best[2][0].text}\n"


def test_a_text_of_two_lines_stays_one(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformula.data.spelling.Spelling.written", lambda self, text, prefix: "a\r\nb\nc")
    assert typed("translate", "run", "eins") == "a b c\n"
    assert json.loads(typed("translate", "run", "eins", "--format", "jsonl"))["text"] == "a\r\nb\nc"


def test_what_is_scored_is_what_is_translated(typed: Typed, work: Path) -> None:
    page = typed("evaluate", "run", "--output", "scored.en", "--beam", 2)
    assert "BLEU" in page and "10 worst by BLEU" in page
    found = json.loads(typed("evaluate", "run", "--beam", 2, "--json"))
    assert set(found["scores"]) == {"BLEU", "BLEU lower-cased", "chrF2"}
    typed("translate", "run", "--input", "test.de", "--output", "translated.en", "--beam", 2)
    assert (work / "scored.en").read_bytes() == (work / "translated.en").read_bytes()


def test_options_of_a_run_are_those_of_its_task(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, has, lacks in ((["run"], "--beam N", "--stride N"), ([], "--stride N", "--beam N")):
        with pytest.raises(SystemExit):
            main(["evaluate", *arguments, "--help"])
        shown = capsys.readouterr().out
        assert has in shown and lacks not in shown


def test_a_model_of_another_verb(typed: Typed, work: Path) -> None:
    assert "run: was trained for translation: transformula translate run" in typed("summarise", "run", "a", status=2)
    (work / "text.txt").write_text("the cat sees the dog. " * 50)
    sizes = {"depth": 1, "width": 8, "heads": 1, "context": 8, "batch": 2, "precision": "float32"}
    train("pre-norm", data="text.txt", steps=1, out="text", quiet=True, tokenizer="characters", **sizes)
    assert "transformula sample text" in typed("translate", "text", "a", status=2)
    assert "transformula translate" in typed("sample", "run", "a", status=2)
    assert "--output" in typed("evaluate", "text", "--output", "x", status=2)


def test_mistakes_before_any_work(typed: Typed, work: Path) -> None:
    assert "leave one out" in typed("translate", "none", "a", "--input", "b", status=2)
    assert "there is no folder" in typed("translate", "none", "a", "--output", "missing/out", status=2)
    assert "no plain file" in typed("translate", "none", "a", "--output", ".", status=2)
    assert "--with RUN" in typed("translate", "none", "a", "--ensemble", "log-probabilities", status=2)
    assert "no such file" in typed("translate", "run", "--input", "missing.de", status=2)
    assert "none: there is no such folder" in typed("evaluate", "none", "--beam", 2, status=2)
    assert "unknown option --beem; did you mean --beam" in typed("evaluate", "run", "--beem", 2, status=2)
    assert "unknown option --stride" in typed("evaluate", "run", "--stride", 2, status=2)


def test_what_came_before_a_mistake_is_shown_or_nothing_is_written(
    typed: Typed, work: Path, expected: list[str]
) -> None:
    given = f"{LINES[0]}\n".encode() + b"\xff\n"
    capture = typed("translate", "run", stdin=given, status=2)
    assert "standard input:2: is not UTF-8: byte 17" in capture
    (work / "bad.de").write_bytes(given)
    assert "bad.de:2" in typed("translate", "run", "--input", "bad.de", "--output", "bad.en", status=2)
    assert not (work / "bad.en").exists() and not list(work.glob(".bad*"))


def test_a_pipe_is_answered_while_it_is_open(work: Path) -> None:
    """A line is answered before the next one comes, in UTF-8 whatever the machine's own encoding is."""
    program = [sys.executable, "-m", "transformula", "translate", "run", "--format", "jsonl"]
    environment = {"PATH": "", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=work) as process:
        assert process.stdin and process.stdout
        for _ in range(2):
            process.stdin.write("é\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().startswith('{"source": "é"'.encode())
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.slow
def test_a_reader_that_has_read_enough_is_no_error(work: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m transformula translate run --input test.de | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=work)
    assert (done.returncode, done.stderr) == (0, "") and len(done.stdout.splitlines()) == 1
