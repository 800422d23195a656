"""A file of weights checks itself: what is damaged, of another type or not finite is refused, by name."""

import random
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformula import Model
from transformula.cli.door import main
from transformula.errors import CheckpointError
from transformula.interop.weights import hash_of, load_tensors, save_tensors

WEIGHTS = "weights.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Model("x = x + mlp(norm(x))", depth=1, width=8, heads=1, vocab=16, context=8).save(tmp_path / "m")


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(
        a.dtype == b.dtype and torch.equal(a, b) for a, b in ((one[name], two[name]) for name in one)
    )


def test_every_flip_of_a_bit_is_noticed_or_changes_nothing(folder: Path) -> None:
    path = folder / WEIGHTS
    content, written = path.read_bytes(), load_tensors(path)
    header = 8 * (8 + struct.unpack("<Q", content[:8])[0])
    draw = random.Random(0)
    bits = [*draw.sample(range(header), 300), *draw.sample(range(header, 8 * len(content)), 300)]
    unnoticed = 0
    for bit in bits:
        path.write_bytes(flipped(content, bit))
        try:
            read = load_tensors(path)
        except CheckpointError as error:
            assert str(path) in str(error)
        else:
            assert equal(read, written), f"bit {bit} of {header}"
            unnoticed += 1
    assert unnoticed < len(bits) / 20


def test_a_file_without_a_hash_is_read(folder: Path) -> None:
    """One of an older version, or of another program."""
    tensors = load_tensors(folder / WEIGHTS)
    for metadata in (None, {"format": "pt"}, {"made by": "somebody"}):
        save_file(tensors, folder / WEIGHTS, metadata=metadata)
        assert equal(load_tensors(folder / WEIGHTS), tensors)
        assert Model.from_folder(folder).module is not None


def test_other_programs_read_the_file(folder: Path) -> None:
    assert equal(load_file(folder / WEIGHTS), load_tensors(folder / WEIGHTS))


def test_the_hash_covers_names_types_shapes_and_bytes() -> None:
    one = {"a": torch.zeros(2, 3), "b": torch.tensor(1.5), "c": torch.empty(0)}
    assert hash_of(one) == hash_of(dict(reversed(one.items())))
    others = [
        {**one, "a": torch.zeros(3, 2)}, {**one, "a": torch.zeros(2, 3, dtype=torch.int32)},
        {**one, "a": -torch.zeros(2, 3)}, {**one, "b": torch.tensor([1.5])}, {"a": one["a"], "b": one["b"]},
        {"b": one["a"], "a": one["b"], "c": one["c"]},
    ]  # fmt: skip
    assert len({hash_of(each) for each in [one, *others]}) == 1 + len(others)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_other_types_are_refused_by_name(folder: Path, dtype: torch.dtype) -> None:
    tensors = load_tensors(folder / WEIGHTS)
    save_tensors(folder / WEIGHTS, {name: tensor.to(dtype) for name, tensor in tensors.items()})
    stored = str(dtype).removeprefix("torch.")
    with pytest.raises(CheckpointError, match=f"weight.* is {stored}, the model's is float32"):
        Model.from_folder(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_saved_in_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    model = Model("x = x + mlp(norm(x))", depth=1, width=8, heads=1, vocab=16, context=8)
    model.module.to(dtype)
    again = Model.from_folder(model.save(tmp_path / "m"))
    for one, two in zip(model.module.parameters(), again.module.parameters(), strict=True):
        assert two.dtype == torch.float32 and torch.equal(one.float(), two)
    with pytest.raises(CheckpointError, match="is float64, and a model's folder holds float32: .*float()"):
        model.module.double()
        model.save(tmp_path / "m")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(folder: Path, value: float, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = load_tensors(folder / WEIGHTS)
    name = next(name for name in tensors if "mlp" in name)
    tensors[name].view(-1)[3] = value
    save_tensors(folder / WEIGHTS, tensors)
    with pytest.raises(CheckpointError, match=f"1 of the .* numbers of {name} are not finite"):
        Model.from_folder(folder)
    assert main(["sample", str(folder)]) == 2 and f"numbers of {name} are not finite" in capsys.readouterr().err
    assert not torch.isfinite(dict(Model.from_folder(folder, verify=False).module.named_parameters())[name]).all()


def test_large_finite_weights_are_no_error(folder: Path) -> None:
    tensors = {name: torch.full_like(tensor, 3e38) for name, tensor in load_tensors(folder / WEIGHTS).items()}
    save_tensors(folder / WEIGHTS, tensors)
    Model.from_folder(folder)


def test_damage_is_said_and_passed_over_when_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(flipped(content, 8 * len(content) - 12))
    for verb in ("sample", "translate", "evaluate"):
        assert main([verb, str(folder)]) == 2
        assert f"{folder / WEIGHTS}: damaged: its content is not what was written" in capsys.readouterr().err
        assert main([verb, str(folder), "--no-verify"]) == 2  # it has no tokenizer
        assert "damaged" not in capsys.readouterr().err
    Model.from_folder(folder, verify=False)


def test_equal_tensors_give_equal_files(tmp_path: Path) -> None:
    tensors = {"b": torch.ones(3), "ä.a": torch.zeros(2, 2), "empty": torch.empty(0)}
    for name in range(6):  # the library orders the header's notes differently each time
        save_tensors(tmp_path / f"{name}", tensors)
    assert len({(tmp_path / f"{name}").read_bytes() for name in range(6)}) == 1
    assert load_tensors(tmp_path / "0").keys() == tensors.keys()
