"""A model is trained from a hub that has a bad day, by the real package datasets: from rows that are read before, and
from a stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import transformula
from tests.data.hub_server import HubServer, Repository, fineweb_edu, long_pages, page, parquet, point_to, silence

FAULTS = {
    "README.md": (500,),
    "000_00000": ("drop", 503),
    "001_00000": ("stall",),
    "002_00000": (429, "drop", "stall"),
    "003_00000": (500, 502),
}


def train(hub: HubServer, folder: Path) -> dict[str, Any]:
    """What a run from `hub` leaves: its data, its losses and its weights."""
    folder.mkdir()
    command = [sys.executable, "-m", "transformula", "train", "post-norm-relu", "--depth", "2", "--width", "32"]
    command += ["--data", "hf:HuggingFaceFW/fineweb-edu:sample-10BT", "--where", "int_score >= 2 and language == en"]
    command += ["--tokenizer", "characters", "--context", "32", "--batch", "4", "--steps", "6", "--log-every", "1"]
    command += ["--heads", "2", "--threads", "1", "--precision", "float32", "--out", str(folder / "run")]
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(folder / "hub"),
        "HF_HUB_DOWNLOAD_TIMEOUT": "1",
        "TRANSFORMULA_HUB_WAIT": "0",
        "TRANSFORMULA_CACHE": str(folder / "cache"),
    }
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        environment.pop(name, None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    weights = sorted((folder / "run").glob("best/*.safetensors"))
    assert weights
    return {
        "losses": [(line["step"], line["loss"]) for line in log if "loss" in line and "step" in line],
        "data": json.loads((folder / "run" / "manifest.json").read_text())["task"],
        "weights": [path.read_bytes() for path in weights],
    }


@pytest.mark.slow
def test_a_bad_day_of_the_hub_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    with HubServer({"HuggingFaceFW/fineweb-edu": fineweb_edu(files=4, rows=40)}, page=2) as hub:
        good = train(hub, tmp_path / "good")
        assert not hub.faulted
        for place, faults in FAULTS.items():
            hub.fail(place, *faults)
        bad = train(hub, tmp_path / "bad")
        assert len(hub.faulted) == sum(map(len, FAULTS.values()))
        assert not hub.unknown
    assert len(good["losses"]) >= 6
    assert bad == good


STREAM: dict[str, Any] = {
    "data": "hf:HuggingFaceFW/fineweb-edu:sample-10BT",
    "stream": True,
    "where": "int_score >= 2 and language == en",
    "tokenizer": "bytes",
    "depth": 2,
    "width": 16,
    "heads": 1,
    "context": 1024,
    "batch": 2,
    "accumulate": 2,
    "lr_schedule": "constant",
    "precision": "float32",
    "threads": 1,
    "log_every": 1,
    "checkpoint_every": 3,
    "quiet": True,
}


def left(run: Path) -> dict[str, Any]:
    """The losses of a run by step, and its weights."""
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [(line["step"], line["loss"]) for line in log if line["event"] == "step"]
    return {"losses": losses, "weights": [path.read_bytes() for path in sorted(run.glob("last/*.safetensors"))]}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:hf:UserWarning")
def test_a_bad_day_and_a_stop_change_nothing_of_a_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each reader meets several files, and each of these is served by a broken hub first."""
    pytest.importorskip("datasets")
    made = fineweb_edu(files=16)
    names = [name for name in made.files if name.startswith("sample/")]
    rows = [page(n, row["text"]) for n, row in enumerate(long_pages(6 * len(names), letters=1000))]
    parts = {name: parquet(rows[6 * file : 6 * file + 6]) for file, name in enumerate(names)}
    with HubServer({"HuggingFaceFW/fineweb-edu": Repository({**made.files, **parts})}) as hub:
        point_to(hub, monkeypatch, tmp_path, timeout=silence())
        transformula.train("post-norm-relu", **STREAM, steps=16, out=str(tmp_path / "good"))
        assert not hub.faulted
        for number, name in enumerate(names):  # the first answer is for the validation set
            hub.fail(name, None, "drop", *[500] * 8, *(["stall"] if number % 4 == 0 else []), 503)
        transformula.train("post-norm-relu", **STREAM, steps=7, out=str(tmp_path / "bad"))
        met = len(hub.faulted)
        transformula.train(resume=str(tmp_path / "bad"), steps=16, quiet=True)
        assert 40 <= met < len(hub.faulted) and not hub.unknown
    good, bad = left(tmp_path / "good"), left(tmp_path / "bad")
    assert len(good["losses"]) >= 16 and good["losses"] == bad["losses"]
    assert good["weights"] and good["weights"] == bad["weights"]
