"""A disk that refuses what is saved, exported, imported or prepared: one clear error, and nothing half written."""

from __future__ import annotations

import errno
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from transformula import Model
from transformula.atomic_io import LateErrors, disk_errors
from transformula.cli import main
from transformula.errors import CheckpointError, RunError
from transformula.interop.folder import convert

FULL = OSError(errno.ENOSPC, "No space left on device")
TOLD: list[tuple[Exception, str]] = [
    (FULL, "no space left on device; free some space there, or name another folder"),
    (OSError(errno.ENOSPC, "No space left on device", ".partial-out-1/new/a.bin"), r"device \(a.bin\); free some"),
    (SafetensorError("Error while serializing: I/O error: File too large (os error 27)"), "file too large; raise"),
    (RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"), "disk is full, or takes"),
    (RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"), "disk is full, or takes"),
    (RuntimeError("basic_ios::clear: iostream error"), "the disk is full, or takes no file as large; see that"),
    (OSError(errno.EROFS, "Read-only file system"), "read-only file system; make it writable"),
    (PermissionError(errno.EACCES, "Permission denied", "out"), "permission denied; give yourself the right"),
]


@pytest.fixture
def model() -> Model:
    return Model("pre-norm", tokenizer="bytes", depth=1, width=16, heads=2, context=8)


def documents(folder: Path, count: int) -> str:
    """The name of a file of documents, of which some are held out."""
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": f"document number {n}"}) + "\n" for n in range(count)))
    return str(folder / "a.jsonl")


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(("error", "told"), TOLD)
def test_what_a_library_says_of_a_disk_is_one_error(
    error: Exception, told: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("m")
    with monkeypatch.context() as patched:
        patched.setattr("transformula.interop.formats.transformula.save_tensors", failing(error))
        with pytest.raises(RunError, match=rf"^out: cannot be written: .*{told}"):
            model.save("out")
    with monkeypatch.context() as patched:
        patched.setattr("transformula.interop.formats.pytorch.torch.save", failing(error))
        with pytest.raises(RunError, match=rf"^out: cannot be written: .*{told}"):
            convert("m", "out", write="pytorch")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_is_not_the_disks_stays_what_it_is(tmp_path: Path) -> None:
    for error in (RuntimeError("no formula"), ValueError("x"), CheckpointError("(os error 5)"), SafetensorError("x")):
        with pytest.raises(type(error), match="no formula|x|os error 5"), disk_errors(tmp_path):
            raise error
    with pytest.raises(RunError, match="^/elsewhere/a: permission denied"), disk_errors(tmp_path / "out"):
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/a")


def test_a_path_that_cannot_be(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/model: cannot be written: .*is a file: take it away"):
        model.save(tmp_path / "file" / "model")
    folder = str(model.save(tmp_path / "model"))
    for arguments in (
        ["export", folder, "--to", "pytorch"],
        ["import", folder, "--format", "transformula"],
        ["prepare", folder, "--tokenizer", "bytes"],
    ):
        if arguments[0] == "prepare":
            arguments[1] = documents(tmp_path, 60)
        assert main([*arguments, "--out", str(tmp_path / "file" / "out")]) == 1
        said = capsys.readouterr().err
        assert "file/out: cannot be written: " in said and "is a file: take it away" in said and "Traceback" not in said
        assert ("run the same prepare again" in said) == (arguments[0] == "prepare")


def test_late_errors(tmp_path: Path) -> None:
    with LateErrors(tmp_path / "a") as file:
        assert file.write(b"one") == 3
    assert (tmp_path / "a").read_bytes() == b"one"
    with pytest.raises(OSError, match="No space left"), LateErrors(Path("/dev/full")) as file:
        for _ in range(9):
            assert file.write(b"x" * 10_000) == 10_000  # none of which raises: a writer would end the process


PROGRAM = """\
import resource, sys
from transformula.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system has no limit on the size of a file")
@pytest.mark.parametrize("to", ["pytorch", "transformers", "onnx", "torch-export", "prepare"])
def test_files_that_the_system_cuts_off(to: str, tmp_path: Path) -> None:
    """A process of its own: a failed write ended the whole process in torch's program writer."""
    folder = Model("pre-norm", tokenizer="bytes", depth=1, width=64, heads=2, context=8).save(tmp_path / "model")
    arguments = ["export", str(folder), "--to", to]
    if to == "prepare":
        arguments = ["prepare", documents(tmp_path, 2000), "--tokenizer", "bytes", "--workers", "1"]
    typed = [sys.executable, "-c", PROGRAM, *arguments, "--out", str(tmp_path / "out")]
    done = subprocess.run(typed, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"error: {tmp_path / 'out'}: cannot be written: file too large" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.glob(".partial*"))
    assert to == "prepare" or not (tmp_path / "out").exists()
