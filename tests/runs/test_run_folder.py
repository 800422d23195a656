import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import torch

from tests.forked import context
from transformula.api.plan import plan_resume
from transformula.atomic_io import PARTIAL, bytes_in, new_folder
from transformula.errors import CheckpointError
from transformula.runs import random_state as streams
from transformula.runs.figure import draw_curve, smoothed
from transformula.runs.folder import RunFolder
from transformula.runs.log import Log, read_log
from transformula.training import RunResult
from transformula.training.report import fence, write_page

CONFIG = {"model": "layer: |\n  x = x + mlp(x)\n", "lr": 0.001, "steps": 5, "name": "1e-3", "minutes": None}


def test_a_configuration_comes_back(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").create(CONFIG, {"a": 1}).unlock()
    run = RunFolder.open(tmp_path / "run")
    assert run.config() == CONFIG and run.manifest() == {"run": run.identity, "a": 1}
    assert "  layer: |\n    x = x + mlp(x)\n" in (tmp_path / "run/config.yaml").read_text()


@pytest.mark.parametrize("what", ["run", "file", "other"])
def test_a_taken_place_is_refused(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "run":
        RunFolder(place).create(CONFIG, {}).unlock()
    elif what == "file":
        place.write_text("")
    else:
        place.mkdir()
        (place / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match="--out"):
        RunFolder(place).create(CONFIG, {})


def test_a_run_in_training_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """What the other process removes and writes at that moment would be called damage."""
    training = RunFolder(tmp_path / "run").create(CONFIG, {})
    (tmp_path / "run/config.yaml").write_text("a: [")
    with pytest.raises(CheckpointError, match=rf"\(process {os.getpid()} on .*\) is training in it; wait for it"):
        plan_resume(tmp_path / "run", {}, ())
    training.unlock()
    with pytest.raises(CheckpointError, match="config.yaml: damaged"):
        plan_resume(tmp_path / "run", {}, ())


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Path]:
    """A run's folder in which another thread makes and removes folders, as fast as it can."""
    place, ended = tmp_path / "run", Event()
    RunFolder(place).create(CONFIG, {}).unlock()

    def save() -> None:
        while not ended.is_set():
            folder = new_folder(place, PARTIAL)
            (folder / "a").write_bytes(bytes(9))
            shutil.rmtree(folder)

    saving = Thread(target=save)
    saving.start()
    yield place
    ended.set()
    saving.join()


def test_a_folder_is_locked_and_measured_while_it_changes(changing: Path) -> None:
    config = (changing / "config.yaml").stat().st_size
    for _ in range(1500):
        assert bytes_in(changing) >= config
        run = RunFolder.open(changing)
        run.lock()
        run.unlock()


def test_a_pipe_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").create(CONFIG, {}).unlock()
    (tmp_path / "run/.lock").unlink()
    os.mkfifo(tmp_path / "run/.lock")
    run = RunFolder.open(tmp_path / "run")
    run.refuse_if_training()  # does not wait for somebody to write into it
    with pytest.raises(CheckpointError, match="neither a file nor a folder"):
        run.lock()


def test_what_a_killed_process_left_is_removed_everywhere(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run").create(CONFIG, {})
    for place in (run.path, run.checkpoints, run.bad_batches):
        place.mkdir(exist_ok=True)
        (new_folder(place, PARTIAL) / "a").write_bytes(bytes(9))
    run.clean()
    run.unlock()
    assert not list(run.path.rglob(f"{PARTIAL}*"))


@pytest.mark.parametrize("writes", [1, 2])
def test_a_run_begins_where_one_was_killed_as_it_began(tmp_path: Path, writes: int) -> None:
    """The kill comes before the manifest (the first file that is written), or the configuration, has its name."""
    process = context().Process(target=create_and_be_killed, args=(tmp_path / "run", writes))
    process.start()
    process.join()
    assert process.exitcode == 9 and any(path.suffix == ".part" for path in (tmp_path / "run").iterdir())
    RunFolder(tmp_path / "run").create(CONFIG, {"a": 1}).unlock()
    assert RunFolder.open(tmp_path / "run").config() == CONFIG
    assert not list((tmp_path / "run").glob("*.part"))


def create_and_be_killed(place: Path, writes: int) -> None:
    """Begin a run; the process ends without a word as it is about to give a file its name, for the nth time."""
    replace = os.replace

    def kill(*paths: Path) -> None:
        nonlocal writes
        writes -= 1
        replace(*paths) if writes else os._exit(9)

    os.replace = kill  # type: ignore[assignment]
    RunFolder(place).create(CONFIG, {"a": 1})


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="not a run's folder"):
        RunFolder.open(tmp_path)
    run = RunFolder(tmp_path / "run").create(CONFIG, {})
    (tmp_path / "run/config.yaml").write_text("a: [")
    with pytest.raises(CheckpointError, match="config.yaml: damaged"):
        run.config()


def test_the_log_is_whole_after_a_cut_and_rewinds(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    for step in range(5):
        log.write("step", step=step, loss=float("nan") if step == 3 else 1.5)
        assert len(list(read_log(log.path))) == step + 1  # flushed
    with open(log.path, "a") as file:
        file.write('{"event": "st')
    assert [e["loss"] for e in read_log(log.path)] == [1.5, 1.5, 1.5, None, 1.5]
    log.rewind(2)
    log.write("step", step=3)
    log.close()
    assert [e["step"] for e in read_log(log.path)] == [0, 1, 2, 3]


def test_streams_come_back() -> None:
    before = streams.capture()
    random.gauss(0, 1), np.random.standard_normal()  # both keep half a pair
    kept = streams.capture()

    def draw() -> list[float]:
        return [
            random.gauss(0, 1),
            random.random(),
            np.random.standard_normal(),
            np.random.rand(),
            torch.rand(()).item(),
        ]

    first = draw()
    streams.restore(kept)
    assert draw() == first
    streams.restore(before)


def test_curve_and_page(tmp_path: Path) -> None:
    draw_curve(
        tmp_path,
        [(i, 3 / i) for i in range(1, 100)],
        [(99, 0.12)],
        [(50, 0.2), (99, 0.1)],
        {"4-gram": 0.5},
        "a < b & c",
    )
    assert (tmp_path / "loss.svg").read_text().count("<svg") == 1
    assert (tmp_path / "loss.png").read_bytes()[:4] == b"\x89PNG"
    draw_curve(tmp_path, [], [], [], {})
    result = RunResult(
        folder=tmp_path, model=torch.nn.Identity(), scores={"loss": 1.0}, best_step=1, last={}, steps=2, units=20,
        baselines={"4-gram": 2.0}, verdict="below the 4-gram", unit="tokens", seconds=0.0, stopped="all 2 steps made",
        sample="```\nhello",
    )  # fmt: skip
    machine = dict.fromkeys(("processor", "threads", "device", "torch"), "m")
    write_page(result, "t", "layer: x = x", "t", {"parameters": 12, "task": {}, "machine": machine}, [])
    page = (tmp_path / "summary.md").read_text()
    assert "below the 4-gram" in page and "````\n```\nhello\n````" in page


def test_small_things() -> None:
    assert smoothed([1.0] * 50) == pytest.approx([1.0] * 50)
    assert fence("a") == "```\na\n```"
