"""`prune`: what goes and what stays, what is refused, and a run in which it was killed at any moment."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import transformula
from transformula.api.model import Model
from transformula.api.plan import plan_resume
from transformula.api.run import train
from transformula.atomic_io import bytes_in
from transformula.cli import main
from transformula.errors import CheckpointError
from transformula.interop.weights import load_tensors
from transformula.runs import pruning
from transformula.runs.folder import RunFolder
from transformula.runs.pruning import prune

SMALL: dict[str, Any] = {
    "depth": 1, "width": 8, "heads": 1, "context": 16, "tokenizer": "characters", "batch": 2, "threads": 1,
    "precision": "float32", "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints, and parameters that keep their values."""
    place = tmp_path_factory.mktemp("made")
    (place / "text.txt").write_text("the cat sees the dog. " * 50)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(place / "cache"))
        layer = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
        train(layer, data=str(place / "text.txt"), steps=4, checkpoint_every=2, freeze="words",
              out=str(place / "run"), **SMALL)  # fmt: skip
    return place / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same run, in a folder that may be changed, which is the folder of work."""
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(made.parent / "cache"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made, "first")
    return Path("first")


def manifest(run: Path) -> dict[str, Any]:
    return json.loads((run / "manifest.json").read_text())


def test_checkpoints_go_and_models_stay(run: Path) -> None:
    before, size = manifest(run), bytes_in(run)
    weights = {name: load_tensors(run / name / "weights.safetensors") for name in ("best", "last")}
    found = prune(run, dry_run=True)
    assert not found.removed and bytes_in(run) == size and manifest(run) == before
    assert [part.name for part in found.parts] == ["checkpoints/step-00000002", "checkpoints/step-00000004", "fixed"]
    assert [part.bytes for part in found.parts] == [bytes_in(run / part.name) for part in found.parts]
    done = prune(run)
    assert done.removed and done.parts == found.parts
    assert not list((run / "checkpoints").iterdir()) and not (run / "fixed").exists()
    assert manifest(run) == {**before, "pruned": ["fixed", "step-00000002", "step-00000004"]}
    added = (run / "manifest.json").stat().st_size - len(json.dumps(before, indent=1)) - 1
    assert size - bytes_in(run) == done.bytes - added
    for name, tensors in weights.items():
        assert done.kept[name] == bytes_in(run / name)
        assert all(torch.equal(t, tensors[n]) for n, t in load_tensors(run / name / "weights.safetensors").items())
    assert Model.from_folder(run).generate("the", max_tokens=2)
    assert transformula.evaluate(run).scores["loss"] > 0
    again = transformula.prune(run)
    assert not again.parts and again.bytes == 0 and "nothing to remove" in repr(again)


def test_the_page_names_each_part_and_what_stays(run: Path) -> None:
    rows = repr(prune(run, dry_run=True)).splitlines()
    (best,) = [event["best_step"] for event in events(run) if event["event"] == "end"]
    assert [row.split()[2].strip(":") for row in rows[:3]] == [
        "checkpoints/step-00000002", "checkpoints/step-00000004", "fixed",
    ]  # fmt: skip
    assert [row for row in rows if "of the best model" in row] == [r for r in rows if f"step-{best:08d}" in r]
    assert "in all" in rows[3] and f"best (step {best}, " in rows[4] and "last (step 4, " in rows[4] and len(rows) == 5


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_a_run_that_has_not_come_to_its_end_is_said_to_be_one(run: Path) -> None:
    lines = (run / "log.jsonl").read_text().splitlines(keepends=True)
    (run / "log.jsonl").write_text("".join(line for line in lines if '"end"' not in line))
    found = prune(run, dry_run=True)
    assert not found.ended and "has not come to its end" in repr(found)
    (run / "log.jsonl").write_text("".join(lines[:-1]) + lines[-1].replace("all 4 steps made", "interrupted"))
    assert "has not come to its end" in repr(prune(run, dry_run=True))


def test_a_pruned_run_says_how_its_weights_go_on(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prune(run)
    assert main(["train", "--resume", "first", "--steps", "8"]) == 2
    said = capsys.readouterr().err
    assert "first: the run's checkpoints were pruned, so it cannot be resumed" in said
    command = said.rpartition("transformula ")[2].strip()
    assert command == "train --config first --init-from first --out NEW"
    assert main([*command.split(), "--steps", "2", "--quiet"]) == 0
    assert manifest(Path("NEW"))["init_sha256"]


@pytest.mark.parametrize("removed", range(4))
def test_a_run_is_usable_wherever_pruning_was_killed(
    run: Path, removed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Path] = []

    def killed(folder: Path) -> None:
        if len(gone) == removed:
            (folder / "manifest.json").unlink(missing_ok=True)  # the first thing that goes of a checkpoint
            raise KeyboardInterrupt
        gone.append(folder)
        shutil.rmtree(folder)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(pruning, "remove", killed)
        prune(run)
        raise KeyboardInterrupt  # after the last one
    assert Model.from_folder(run).generate("the", max_tokens=2)
    if removed == 0:
        assert train(resume=run, steps=5, quiet=True).result.steps == 5
    else:
        with pytest.raises(CheckpointError, match="were pruned"):
            train(resume=run, steps=5, quiet=True)
    prune(run)
    assert not prune(run).parts and not list((run / "checkpoints").iterdir())
    with pytest.raises(CheckpointError, match="were pruned"):
        plan_resume(run, {}, ())


def test_a_checkpoint_that_was_half_removed_is_not_called_damage(run: Path) -> None:
    prune(run)
    (run / "checkpoints/step-00000004").mkdir()
    with pytest.raises(CheckpointError, match="were pruned"):
        train(resume=run, steps=5, quiet=True)


def test_the_newest_checkpoint_goes_last(run: Path) -> None:
    """Until then a run that was killed meanwhile can be resumed."""
    names = [part.name for part in prune(run, dry_run=True).parts]
    assert names.index("checkpoints/step-00000004") > names.index("checkpoints/step-00000002")
    assert names[-1] == "fixed"


def test_a_run_in_training_is_refused(run: Path) -> None:
    training = RunFolder.open(run)
    training.lock()
    for dry_run in (False, True):
        with pytest.raises(CheckpointError, match="is training in it"):
            prune(run, dry_run=dry_run)
    training.unlock()
    assert len(prune(run).parts) == 3


@pytest.mark.parametrize("name", ["best", "last"])
@pytest.mark.parametrize("harm", ["missing", "tokenizer", "weights", "text"])
def test_without_a_model_to_use_nothing_is_removed(run: Path, name: str, harm: str) -> None:
    if harm == "missing":
        shutil.rmtree(run / name)
    elif harm == "tokenizer":
        (run / name / "tokenizer.json").unlink()
    elif harm == "text":
        (run / name / "model.yaml").write_text("layer: [")
    else:
        path = run / name / "weights.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"(?s)first/{name}: .*nothing is removed.*train --resume first"):
        prune(run)
    assert len(list((run / "checkpoints").iterdir())) == 2 and "pruned" not in manifest(run)


@pytest.mark.parametrize("file", ["config.yaml", "manifest.json"])
def test_a_damaged_run_is_refused(run: Path, file: str) -> None:
    (run / file).write_text("[")
    with pytest.raises(CheckpointError, match=f"{file}: damaged"):
        prune(run)
    assert len(list((run / "checkpoints").iterdir())) == 2


def test_what_is_no_run_is_refused(run: Path) -> None:
    for folder in ("first/best", "."):
        with pytest.raises(CheckpointError, match="not a run's folder"):
            prune(folder)
    with pytest.raises(CheckpointError, match="no such folder"):
        prune("nothing")


def test_checkpoints_behind_a_link_are_not_touched(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "checkpoints", tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="is a link to"):
        prune(run)
    assert len(list((tmp_path / "elsewhere").iterdir())) == 2


@pytest.mark.parametrize(("typed", "gone"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_it_asks(
    run: Path, typed: str, gone: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO(typed)
    stream.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", stream)
    assert main(["prune", "first"]) == 0
    shown = capsys.readouterr()
    assert shown.err.endswith("? [y/N] ") and "checkpoints/step-00000004" in shown.err
    assert ("nothing was removed" in shown.out) != gone
    assert bool(list((run / "checkpoints").iterdir())) != gone


def test_elsewhere_it_needs_yes(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["prune", "first"]) == 2
    assert "add --yes" in capsys.readouterr().err and len(list((run / "checkpoints").iterdir())) == 2
    assert main(["prune", "first", "--yes"]) == 0
    assert "removed, from first" in capsys.readouterr().out
    assert main(["prune", "first"]) == 0  # nothing is left to ask about
