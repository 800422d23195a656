"""Training from shards that are read meanwhile: a stop is exact, bad shards are named, or left out and counted."""

import json
from pathlib import Path

import pytest
import torch

from tests.training.ranks import on_ranks
from transformula import train
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, DataError
from transformula.interop.folder import WEIGHTS
from transformula.interop.weights import load_tensors
from transformula.runs.log import read_log
from transformula.tasks.language_modeling import LanguageModeling

MODEL = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZES = {
    "depth": 1,
    "width": 16,
    "heads": 2,
    "context": 16,
    "batch": 3,
    "accumulate": 2,
    "tokenizer": "bytes",
    "lr": 0.01,
}
SIZES |= {"quiet": True, "threads": 1, "precision": "float32", "checkpoint_every": 4}


def shards(folder: Path, count: int = 7) -> Path:
    folder.mkdir()
    for number in range(count):
        rows = [{"text": f"shard {number} has row {row} of words " * (1 + row % 3)} for row in range(20)]
        (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "last" / WEIGHTS)


def test_a_stream_that_was_stopped_goes_on_exactly(tmp_path: Path) -> None:
    data = str(shards(tmp_path / "data"))
    train(MODEL, data=data, stream=True, steps=14, out=str(tmp_path / "whole"), **SIZES)
    train(MODEL, data=data, stream=True, steps=7, out=str(tmp_path / "cut"), lr_schedule="constant", **SIZES)
    train(resume=str(tmp_path / "cut"), steps=14, quiet=True)
    train(MODEL, data=data, stream=True, steps=14, out=str(tmp_path / "constant"), lr_schedule="constant", **SIZES)
    cut, constant = weights(tmp_path / "cut"), weights(tmp_path / "constant")
    assert cut and all(torch.equal(cut[name], constant[name]) for name in constant)
    assert any(not torch.equal(cut[name], tensor) for name, tensor in weights(tmp_path / "whole").items())


def test_bad_shards_and_settings_that_a_stream_has_no_use_for(tmp_path: Path) -> None:
    folder = shards(tmp_path / "data")
    (folder / "3.jsonl").write_text('{"text": "cut')
    with pytest.raises(DataError, match=r"3.jsonl:1: broken JSON.*bad_shards=skip"):
        train(MODEL, data=str(folder), stream=True, steps=30, out=str(tmp_path / "stops"), **SIZES)
    train(MODEL, data=str(folder), stream=True, bad_shards="skip", steps=3, out=str(tmp_path / "goes-on"), **SIZES)
    with pytest.raises(ConfigError, match="bad_shards: is read only with stream"):
        train(MODEL, data=str(folder), bad_shards="skip", steps=3, out=str(tmp_path / "no"), **SIZES)
    with pytest.raises(ConfigError, match="shuffle: is read only with stream"):
        train(MODEL, data=str(folder), shuffle=9, steps=3, out=str(tmp_path / "no"), **SIZES)
    with pytest.raises(ConfigError, match="has a weight, which is for streams"):
        train(MODEL, data=f"a=0.5:{folder}", steps=3, out=str(tmp_path / "no"), **SIZES)
    with pytest.raises(ConfigError, match="epochs: a stream's length"):
        train(MODEL, data=str(folder), stream=True, bad_shards="skip", epochs=1, out=str(tmp_path / "no"), **SIZES)
    told = [json.loads(line) for line in (tmp_path / "goes-on" / "log.jsonl").read_text().splitlines()]
    (bad,) = [line["text"] for line in told if line.get("event") == "data"]
    assert bad.startswith("bad shard 1, left out: ") and "3.jsonl:1" in bad
    assert all(0 <= line["waiting"] <= 1.5 for line in told if line.get("event") == "step")
    settings = DataSettings.read({"data": str(folder), "stream": True, "bad_shards": "skip", "tokenizer": "bytes"})
    with pytest.raises(ConfigError, match="carry"):
        LanguageModeling(settings, {"carry": 1, "context": 16})


def test_a_mixture_trains(tmp_path: Path) -> None:
    one, other = shards(tmp_path / "one"), shards(tmp_path / "other", 2)
    train(
        MODEL, data=[f"a=0.7:{one}", f"b=0.3:{other}/*.jsonl"], stream=True, steps=3, out=str(tmp_path / "run"), **SIZES
    )
    assert '"shards": 9' in (tmp_path / "run" / "manifest.json").read_text()


def losses(run: Path) -> list[float]:
    return [event["loss"] for event in read_log(run / "log.jsonl") if event["event"] == "step"]


def on_a_rank(data: str, steps: int, out: str) -> None:
    sizes = {**SIZES, "batch": 4, "accumulate": 1, "log_every": 1, "lr_schedule": "constant"}
    train(MODEL, data=data, stream=True, shuffle=5, steps=steps, out=out, **sizes)


@pytest.mark.slow
def test_two_ranks_read_what_one_process_reads_and_one_goes_on_from_their_checkpoint(tmp_path: Path) -> None:
    data = str(shards(tmp_path / "data"))
    on_a_rank(data, 10, str(tmp_path / "one"))
    for end, name in ((10, "two"), (6, "begun")):
        assert on_ranks(2, on_a_rank, data, end, str(tmp_path / name)) == [None, None]
    train(resume=str(tmp_path / "begun"), steps=10, quiet=True)
    one = losses(tmp_path / "one")
    assert len(one) == 10 and losses(tmp_path / "two") == pytest.approx(one, rel=1e-5)
    assert losses(tmp_path / "begun") == pytest.approx(one, rel=1e-5)
