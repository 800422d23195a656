"""Formats of other programs: our own folder, PyTorch's state dict, and one from outside, through one registry."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model
from transformula.cli import main
from transformula.errors import CheckpointError, UnknownName
from transformula.interop.exchange import EXPORTERS, IMPORTERS
from transformula.interop.folder import convert, load_model
from transformula.ownership import MARKER

OUTSIDE = """
import json

import torch

from transformula.interop.exchange import TEXT, ModelFiles, exporter, importer, need_file, text_of
from transformula.interop.weights import model_tensors


@exporter("lists")
def write_lists(model, folder):
    tensors = {name: tensor.tolist() for name, tensor in model_tensors(model).items()}
    (folder / "model.json").write_text(json.dumps({"text": text_of(model), "tensors": tensors}))


@importer("lists")
def read_lists(folder, verify):
    path = need_file(folder, "model.json")
    read = json.loads(path.read_text())
    return ModelFiles(read["text"], {name: torch.tensor(rows) for name, rows in read["tensors"].items()}, path)
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """A model in the folder `m`, with a tokenizer."""
    made = Model("pre-norm", depth=1, width=8, heads=2, context=16, tokenizer="bytes", seed=3)
    made.save(tmp_path / "m")
    return made


def logits(folder: Path) -> torch.Tensor:
    with torch.inference_mode():
        return load_model(folder)[0](torch.arange(9)[None])


def test_a_state_dict_there_and_back(model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    m, there, back = (str(tmp_path / name) for name in ("m", "there", "back"))
    assert main(["export", m, "--to", "pytorch", "--out", there]) == 0
    assert main(["import", there, "--format", "pytorch", "--out", back, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["folder"] == back
    names = {MARKER, "model.yaml", "weights.pt", "tokenizer.json", "pipeline.json"}
    assert {p.name for p in Path(there).iterdir()} == names
    assert not (tmp_path / "back/pipeline.json").exists()
    for name in ("model.yaml", "weights.safetensors", "tokenizer.json"):
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()
    state = torch.load(tmp_path / "there/weights.pt", weights_only=True)
    assert state.keys() == model.module.state_dict().keys()
    assert Model.from_folder(back).generate("a", max_tokens=5, seed=1) == model.generate("a", max_tokens=5, seed=1)


def test_what_pytorch_saved_itself_is_read(model: Model, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/model.yaml").write_bytes((tmp_path / "m/model.yaml").read_bytes())
    torch.save(model.module.bfloat16().state_dict(), tmp_path / "theirs/weights.pt")
    read = load_model(tmp_path / "theirs", format="pytorch")[0]
    assert all(torch.equal(a, b.float()) for a, b in zip(read.parameters(), model.module.parameters(), strict=True))


class Harm:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('executed')",)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: torch.save({"w": Harm()}, path),
        lambda path: path.write_bytes(pickle.dumps(Harm())),
        lambda path: path.write_bytes(b"no archive"),
        lambda path: torch.save({"w": [1, 2]}, path),
        lambda path: torch.save([torch.ones(2)], path),
    ],
)
def test_nothing_but_tensors_is_read(model: Model, tmp_path: Path, write: Callable[[Path], object]) -> None:
    convert(tmp_path / "m", tmp_path / "there", write="pytorch")
    write(tmp_path / "there/weights.pt")
    with pytest.raises(CheckpointError, match=r"weights.pt: .*torch.save\(module.state_dict\(\), file\)"):
        convert(tmp_path / "there", tmp_path / "back", read="pytorch")
    assert not (tmp_path / "back").exists()


def test_what_cannot_be_is_refused(model: Model, tmp_path: Path) -> None:
    m = tmp_path / "m"
    with pytest.raises(UnknownName, match=r"pytorch"):
        convert(m, tmp_path / "out", write="pytorhc")
    with pytest.raises(CheckpointError, match="weights.pt: the file is missing"):
        convert(m, tmp_path / "out", read="pytorch")
    with pytest.raises(CheckpointError, match="name another"):
        convert(m, m, write="pytorch")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_our_own_folder_is_one_of_the_formats() -> None:
    assert {"transformula", "pytorch"} <= set(IMPORTERS.names()) & set(EXPORTERS.names())


@pytest.mark.slow
def test_a_format_from_outside(model: Model, tmp_path: Path) -> None:
    (tmp_path / "my_lists.py").write_text(OUTSIDE)
    m, there, back = (str(tmp_path / name) for name in ("m", "there", "back"))
    commands = [
        ["export", m, "--to", "lists", "--out", there, "--use", "my_lists"],
        ["import", there, "--format", "lists", "--out", back, "--use", "my_lists"],
    ]
    run = f"import sys\nfrom transformula.cli import main\nsys.exit(any(main(c) for c in {commands!r}))"
    done = subprocess.run([sys.executable, "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in Path(there).iterdir()} == {MARKER, "model.json", "pipeline.json", "tokenizer.json"}
    assert torch.equal(logits(tmp_path / "m"), logits(tmp_path / "back"))
