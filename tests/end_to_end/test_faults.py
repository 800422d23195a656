"""Each row of the table in docs/how-to/survive-faults.md: the fault is made in `transformula train`, as it is typed.
The run prints what the row says, ends with its exit status, and goes on as the row advises."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tests import pace
from tests.data.hub_server import HubServer, fineweb_edu
from tests.forked import run_verb, start_verb
from tests.training.ranks import free_port
from tests.training.test_damage import flip
from tests.training.test_loop import same
from transformula.runs import checkpoint as checkpoints
from transformula.runs.log import read_log
from transformula.tasks.language_modeling import LanguageModeling

PAGE = Path(__file__).parents[2] / "docs/how-to/survive-faults.md"
FORMULA = ["train", "x = x + mlp(norm(x))", "--depth", "1", "--width", "16", "--context", "16", "--batch", "4"]
PLAN = ["--steps", "12", "--checkpoint-every", "4", "--evaluate-every", "6", "--log-every", "1", "--out", "run"]
PLAN += ["--tokenizer", "bytes", "--precision", "float32", "--threads", "1"]
SPIKE = ["--steps", "28", "--checkpoint-every", "8", "--evaluate-every", "28"]
HUB = ["--data", "hf:HuggingFaceFW/fineweb-edu:sample-10BT"]
AT = 6  # steps before the one in which a fault happens: a checkpoint of step 4 is there


class Row(NamedTuple):
    """A row of the table. `printed` are its code spans, in which ... stands for anything."""

    happens: str
    printed: list[str]
    status: int
    advice: str


def rows() -> dict[str, Row]:
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 5 and cells[3].isdigit():
            fault, happens, printed, status, advice = cells
            found[fault] = Row(happens, re.findall("`([^`]+)`", printed), int(status), advice)
    return found


ROWS = rows()


# Faults, made in the process of the run ------------------------------------------------------------------------------


def at_step(step: int, fault: Callable[[], object]) -> None:
    """As the batch of a step, counted from 0, is taken."""
    batch = LanguageModeling.batch

    def faulty(self: LanguageModeling, number: int, micro: int = 0) -> Any:
        if number == step:
            fault()
        return batch(self, number, micro)

    LanguageModeling.batch = faulty  # type: ignore[method-assign]


def in_loss(step: int, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Change the loss of a step."""
    loss, at = LanguageModeling.loss, list[bool]()
    at_step(step, partial(at.append, True))
    at_step(step + 1, at.clear)

    def faulty(self: LanguageModeling, model: Any, batch: Any) -> torch.Tensor:
        value = loss(self, model, batch)
        return change(value) if at and model.training else value

    LanguageModeling.loss = faulty  # type: ignore[method-assign]


def times(factor: float, loss: torch.Tensor) -> torch.Tensor:
    return loss * factor


def too_large(loss: torch.Tensor) -> torch.Tensor:
    return loss + torch.empty(1 << 48).sum()


def signaled(number: int) -> None:
    at_step(AT, partial(os.kill, os.getpid(), number))


def hang() -> None:
    at_step(AT, threading.Event().wait)


def folder_removed() -> None:
    at_step(AT, partial(shutil.rmtree, "run"))


def disk_full(until: int | None = None) -> None:
    """From a step on, or until another."""
    write, full = checkpoints.save_tensors, list[bool]()

    def writing(path: Path, *given: Any, **named: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, *given, **named)

    checkpoints.save_tensors = writing
    at_step(AT, partial(full.append, True))
    if until is not None:
        at_step(until, full.clear)


def no_waiting() -> None:
    """The hub's own client tries again at once."""
    from types import SimpleNamespace

    from huggingface_hub.utils import _http

    _http.time = SimpleNamespace(sleep=lambda _: None, time=_http.time.time)  # type: ignore[attr-defined]


# What is typed -------------------------------------------------------------------------------------------------------


class Place:
    """A folder in which commands are typed, beside one in which the same run had no fault."""

    def __init__(self, folder: Path, whole: Path) -> None:
        self.folder, self.whole = folder, whole
        self.run = folder / "run"
        self.environment = {**os.environ, "TRANSFORMULA_CACHE": str(folder / "cache")}
        (folder / "text.txt").write_text("to be or not to be, that is the question.\n" * 100)

    def typed(self, *arguments: str, fault: Callable[[], object] | None = None) -> tuple[int, str]:
        """The exit status as a shell tells it, and what was printed."""
        status, printed = run_verb(list(arguments), self.folder, self.environment, fault)
        return 128 - status if status < 0 else status, printed

    def train(self, *options: str, fault: Callable[[], object] | None = None, data: Any = None) -> tuple[int, str]:
        return self.typed(*FORMULA, *PLAN, *(data or ["--data", "text.txt"]), *options, fault=fault)

    def resume(self, *options: str) -> str:
        """Go on with the run: it ends as the one that had no fault, bit for bit."""
        status, printed = self.typed("train", "--resume", "run", *options)
        assert status == 0, printed
        assert same(self.run / "last", self.whole / "last") and same(self.run / "best", self.whole / "best")
        return printed

    def steps(self) -> list[int]:
        return [event["step"] for event in read_log(self.run / "log.jsonl") if event["event"] == "step"]


Made = tuple[int, str]
"""The exit status, and what was printed."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    status, printed = Place(folder, folder / "run").train()
    assert status == 0, printed
    return folder / "run"


@pytest.fixture
def place(tmp_path: Path, whole: Path) -> Place:
    return Place(tmp_path, whole)


def ends_and_resumes(place: Place, fault: Callable[[], object], *options: str, then: tuple[str, ...] = ()) -> Made:
    status, printed = place.train(*options, fault=fault)
    return status, printed + place.resume(*then)


def checkpoint_damaged(place: Place) -> Made:
    place.train(fault=partial(signaled, signal.SIGTERM))
    flip(place.run / "checkpoints/step-00000007/optimizer.safetensors")
    return 0, place.resume()


def all_checkpoints_damaged(place: Place) -> Made:
    place.train(fault=partial(signaled, signal.SIGTERM))
    for manifest in sorted(place.run.glob("checkpoints/*/manifest.json")):
        manifest.unlink()
    before = sorted(place.run.rglob("*"))
    status, printed = place.typed("train", "--resume", "run")
    assert sorted(place.run.rglob("*")) == before
    return status, printed


def disk_heals(place: Place) -> Made:
    status, printed = place.train(fault=partial(disk_full, 10))
    assert same(place.run / "last", place.whole / "last") and place.steps() == list(range(1, 13))
    return status, printed


def folder_gone(place: Place) -> Made:
    status, printed = place.train(fault=folder_removed)
    assert not place.run.exists()
    return status, printed


def left_out(place: Place, *options: str, fault: Callable[[], object]) -> Made:
    status, printed = place.train(*options, fault=fault)
    (event,) = [one for one in read_log(place.run / "log.jsonl") if one["event"] in ("not finite", "spike")]
    assert (place.run / f"bad-batches/step-{event['step']:08d}/batch.safetensors").is_file()
    return status, printed


def second_process(place: Place) -> Made:
    first = start_verb(
        [*FORMULA, *PLAN, "--data", "text.txt", "--steps", "1000000"],
        place.folder, place.environment, place.folder / "first",
    )  # fmt: skip
    try:
        pace.wait_until((place.run / "checkpoints/step-00000004/manifest.json").exists)
        status, printed = place.typed("train", "--resume", "run")
        assert first.is_alive()
    finally:
        first.kill()
        first.join()
    reached = max(int(folder.parent.name[5:]) for folder in place.run.glob("checkpoints/*/manifest.json"))
    assert place.typed("train", "--resume", "run", "--steps", f"{reached + 2}")[0] == 0
    return status, printed


def shards(place: Place, *options: str) -> Made:
    (place.folder / "shards").mkdir()
    for number in range(4):
        rows = [{"text": f"shard {number} has row {row} of words " * 9} for row in range(20)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place.folder / f"shards/{number}.jsonl").write_text(text[: 900 if number == 2 else None])
    return place.train("--stream", *options, data=["--data", "shards"])


def hub(place: Place, *faults: int | str, known: str = "000_00000") -> Made:
    pytest.importorskip("datasets")
    with HubServer({"HuggingFaceFW/fineweb-edu": fineweb_edu(files=2)}) as server:
        server.fail(known, *faults)
        place.environment |= {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(place.folder / "hub"),
            "HF_HUB_DOWNLOAD_TIMEOUT": f"{1 + int(20 * pace.unit())}",
            "TRANSFORMULA_HUB_WAIT": "0",
        }
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
            place.environment.pop(name, None)
        status, printed = place.train(data=HUB, fault=no_waiting)
        assert server.faulted and not server.unknown
    return status, printed


def ranks(place: Place, fault: Callable[[], object], *options: str) -> Made:
    """Two ranks; the fault is of the second one. What the first one ends with, and what both print."""
    told = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = []
    for rank in range(2):
        environment = {**place.environment, **told, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
        processes.append(
            start_verb(
                [*FORMULA, *PLAN, "--data", "text.txt", *options],
                place.folder, environment, place.folder / f"rank{rank}", fault if rank else None,
            )
        )  # fmt: skip
    for process in processes:
        process.join(pace.PATIENCE)
        process.kill()  # one that is still there, which the exit status then tells
    printed = "".join((place.folder / f"rank{rank}").read_text() for rank in range(2))
    assert (place.run / "checkpoints/step-00000004/manifest.json").is_file(), printed
    status, resumed = place.typed("train", "--resume", "run")  # by one; a process that ends as it writes leaves a part
    assert status == 0, resumed
    return processes[0].exitcode, printed


NAN = partial(in_loss, AT, partial(times, float("nan")))
LEAP = partial(in_loss, 25, partial(times, 10.0))
FAULTS: dict[str, Callable[[Place], Made]] = {
    "Ctrl-C (SIGINT)": lambda p: ends_and_resumes(p, partial(signaled, signal.SIGINT)),
    "a scheduler ends the run: SIGTERM": lambda p: ends_and_resumes(p, partial(signaled, signal.SIGTERM)),
    "a scheduler warns the run: SIGUSR1": lambda p: ends_and_resumes(p, partial(signaled, signal.SIGUSR1)),
    "the process is killed: SIGKILL": lambda p: ends_and_resumes(p, partial(signaled, signal.SIGKILL)),
    "a checkpoint lost a file or a byte": checkpoint_damaged,
    "no checkpoint is whole": all_checkpoints_damaged,
    "the disk is full, read-only or gone for a while": disk_heals,
    "the disk still fails at the end of the run": lambda p: ends_and_resumes(p, disk_full),
    "the disk fails, with `--on-save-error stop`": lambda p: ends_and_resumes(p, disk_full, "--on-save-error", "stop"),
    "the run's folder is removed, or its disk is gone for good": folder_gone,
    "memory does not suffice for a batch": lambda p: ends_and_resumes(p, partial(in_loss, AT, too_large)),
    "the run hangs, with `--hang-timeout MINUTES`": lambda p: ends_and_resumes(p, hang, "--hang-timeout", "0.05"),
    "a loss or gradient is not a finite number": lambda p: ends_and_resumes(p, NAN),
    "the same, with `--on-not-finite skip`": lambda p: left_out(p, "--on-not-finite", "skip", fault=NAN),
    "the same, with `--on-not-finite rollback`": lambda p: left_out(p, "--on-not-finite", "rollback", fault=NAN),
    "the loss is a spike, with `--on-spike stop`": lambda p: left_out(p, *SPIKE, "--on-spike", "stop", fault=LEAP),
    "the loss is a spike, with `--on-spike skip`": lambda p: left_out(p, *SPIKE, "--on-spike", "skip", fault=LEAP),
    "the loss is a spike, with `--on-spike rollback`":
        lambda p: left_out(p, *SPIKE, "--on-spike", "rollback", fault=LEAP),
    "a second process wants to write the run's folder": second_process,
    "a shard of a stream is damaged": shards,
    "a shard of a stream is damaged, with `--bad-shards skip`": lambda p: shards(p, "--bad-shards", "skip"),
    "the hub stalls, drops connections, or answers 500, 503 or 429":
        lambda p: hub(p, *[500] * 8, "drop", "stall", 503, 429),
    "the hub stays so": lambda p: hub(p, *[503] * 1000),
    "a file of the hub is not whole": lambda p: hub(p, "short"),
    "a rank dies": lambda p: ranks(p, partial(signaled, signal.SIGKILL)),
    "a rank hangs, with `--hang-timeout MINUTES`": lambda p: ranks(p, hang, "--hang-timeout", "0.1"),
    "a loss is not a finite number on one rank": lambda p: ranks(p, NAN),
}  # fmt: skip
EVERY_DAY = [
    "Ctrl-C (SIGINT)",
    "the process is killed: SIGKILL",
    "a checkpoint lost a file or a byte",
    "a loss or gradient is not a finite number",
    "a second process wants to write the run's folder",
]


def test_the_table_is_of_these_faults() -> None:
    assert list(ROWS) == list(FAULTS)
    assert all(row.printed and row.advice for row in ROWS.values())


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault in EVERY_DAY else pytest.mark.slow) for fault in FAULTS]
)
def test_a_run_meets_its_fault_as_the_table_says(place: Place, fault: str) -> None:
    status, printed = FAULTS[fault](place)
    row, text = ROWS[fault], " ".join(printed.split())
    assert status == row.status, printed
    for words in row.printed:
        assert re.search(".*?".join(map(re.escape, words.split(" ... "))), text), (words, printed)
    whole = (".lock", ".transformula.json")
    assert not [path.name for path in place.run.rglob(".*") if path.name not in whole]  # nothing half written
