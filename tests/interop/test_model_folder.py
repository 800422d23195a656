from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from transformula.errors import CheckpointError
from transformula.interop import folder as folders
from transformula.interop.folder import load_model, save_model
from transformula.interop.weights import load_tensors, model_tensors, put_tensors, save_tensors
from transformula.ownership import MARKER, names_in


class Small(nn.Module):
    text = "layer: x = x + mlp(x)\n"

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(1))


def test_weights_come_back(tmp_path: Path) -> None:
    model, other = Small(), Small()
    save_model(tmp_path / "m", model, lambda place: (place / "tokenizer.json").write_text("{}"))
    assert list(names_in(tmp_path / "m")) == [MARKER, "model.yaml", "tokenizer.json", "weights.safetensors"]
    assert (tmp_path / "m/model.yaml").read_text() == Small.text
    put_tensors(other, load_tensors(tmp_path / "m/weights.safetensors"), "m")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_shared_tensors_are_written_once(tmp_path: Path) -> None:
    model = Small()
    model.second.weight = nn.Parameter(torch.randn(3, 4))
    model.third = nn.Linear(4, 3, bias=False)
    model.third.weight = model.second.weight
    save_model(tmp_path / "m", model)
    stored = load_file(tmp_path / "m/weights.safetensors")
    assert "second.weight" in stored and "third.weight" not in stored
    with torch.no_grad():
        model.second.weight.zero_()
    put_tensors(model, stored, "m")
    assert torch.equal(model.third.weight, stored["second.weight"])


def test_saving_again_replaces(tmp_path: Path) -> None:
    model = Small()
    save_model(tmp_path / "m", model)
    inode = (tmp_path / "m/model.yaml").stat().st_ino
    with torch.no_grad():
        model.first.weight.fill_(2)
    save_model(tmp_path / "m", model)
    assert (load_file(tmp_path / "m/weights.safetensors")["first.weight"] == 2).all()
    assert (tmp_path / "m/model.yaml").stat().st_ino == inode  # only the weights were exchanged
    model.text = "layer: x = x\n"
    save_model(tmp_path / "m", model)
    assert (tmp_path / "m/model.yaml").read_text() == model.text
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    save_model(tmp_path / "m", Small())
    before = (tmp_path / "m/weights.safetensors").read_bytes()

    def fail(place: Path) -> None:
        raise OSError(28, "No space left on device")

    for target in ("m", "new"):
        with pytest.raises(OSError):
            save_model(tmp_path / target, Small(), fail)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m/weights.safetensors").read_bytes() == before


def test_a_folder_of_other_things_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match="thesis.tex.*nothing is replaced"):
        save_model(tmp_path, Small())
    with pytest.raises(CheckpointError, match="no text"):
        save_model(tmp_path / "m", nn.Linear(1, 1))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for make, said in (
        (lambda: tmp_path / "nothing", "no such folder"),
        (lambda: tmp_path, "model.yaml: the file is missing"),
    ):
        with pytest.raises(CheckpointError, match=said):
            load_model(make())
    save_model(tmp_path / "m", Small())
    (tmp_path / "m/weights.safetensors").unlink()
    with pytest.raises(CheckpointError, match="weights.safetensors: the file is missing.*Copy"):
        load_model(tmp_path / "m")
    with pytest.raises(CheckpointError, match="is a file"):
        load_model(tmp_path / "m/model.yaml")


@pytest.mark.parametrize("size", [0, 5, 40, -3])
def test_weights_that_were_cut_off_are_named(tmp_path: Path, size: int) -> None:
    save_tensors(tmp_path / "w.safetensors", model_tensors(Small()))
    content = (tmp_path / "w.safetensors").read_bytes()
    (tmp_path / "w.safetensors").write_bytes(content[:size])
    with pytest.raises(CheckpointError, match="w.safetensors: damaged or cut off"):
        load_tensors(tmp_path / "w.safetensors")


def test_other_weights_are_refused_with_the_nearest_names() -> None:
    model = Small()
    tensors = model_tensors(model)
    renamed = {key.replace("first.weight", "frist.weight"): value for key, value in tensors.items()}
    with pytest.raises(CheckpointError, match="first.weight is missing .it holds frist.weight") as caught:
        put_tensors(model, renamed, "w")
    assert caught.value.near == ["frist.weight"]
    with pytest.raises(CheckpointError, match="extra is not in the model"):
        put_tensors(model, {**tensors, "extra": torch.ones(1)}, "w")
    with pytest.raises(CheckpointError, match=r"\(4, 4\), the model's text says \(4, 3\)"):
        put_tensors(model, {**tensors, "first.weight": torch.ones(4, 4)}, "w")


def test_names_are_those_of_the_contract() -> None:
    assert (folders.TEXT, folders.WEIGHTS) == ("model.yaml", "weights.safetensors")
