"""A model is trained from a hub that has a bad day, by the command line and the real package datasets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.data.hub_server import HubServer, fineweb_edu

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
