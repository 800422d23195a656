"""Folders of named models: read, written back, refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from transformula import Model
from transformula.errors import CheckpointError
from transformula.interop.folder import convert, load_model

SIZES = {
    "vocab_size": 29,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was made here, in our folder and in one of transformers."""
    folder = tmp_path_factory.mktemp("written")
    sizes = {"depth": 2, "width": 16, "heads": 4, "vocab": 29, "context": 32, "kv_heads": 2, "hidden": 24}
    Model("llama", **sizes).save(folder / "ours")
    convert(folder / "ours", folder / "llama", write="transformers")
    return folder


@pytest.fixture
def llama(written: Path, tmp_path: Path) -> Path:
    """The folder of transformers, to be spoiled."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "llama"


def change(folder: Path, **keys: Any) -> Path:
    """Change keys of config.json; None takes one out."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "int64", "float8_e4m3fn", "complex64"])
@pytest.mark.parametrize("all_of_them", [False, True])
def test_weights_of_other_types_are_refused(llama: Path, kind: str, all_of_them: bool) -> None:
    tensors = load_file(llama / "model.safetensors")
    for name in sorted(tensors) if all_of_them else sorted(tensors)[:1]:
        tensors[name] = tensors[name].to(getattr(torch, kind))
    save_file(tensors, llama / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=f"is stored as {kind}; read are float16, bfloat16, float32 and float64"):
        load_model(llama)


def test_a_tensor_that_the_index_does_not_name_is_refused(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    save_file(tensors, llama / "model-00001-of-00001.safetensors", metadata={"format": "pt"})
    (llama / "model.safetensors").unlink()
    index = dict.fromkeys(sorted(tensors)[1:], "model-00001-of-00001.safetensors")
    (llama / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    with pytest.raises(CheckpointError, match=f"holds {sorted(tensors)[0]}, which .*index.json does not name"):
        load_model(llama)


def test_a_number_that_is_none_is_refused(llama: Path) -> None:
    change(llama, rms_norm_eps=float("nan"))
    with pytest.raises(CheckpointError, match="rms_norm_eps is nan: expected a finite number"):
        load_model(llama)


def test_code_beside_a_known_family_is_left_alone(llama: Path, written: Path) -> None:
    """Many folders have it from before transformers knew the family."""
    expected, _ = load_model(written / "llama")
    change(llama, auto_map={"AutoModelForCausalLM": "modeling.Model", "AutoConfig": "config.Config"})
    (llama / "modeling.py").write_text("raise SystemExit")
    model, _ = load_model(llama)
    assert torch.equal(model(TOKENS), expected(TOKENS))


@pytest.mark.parametrize("depth", [0.5, -1, 0])
def test_a_depth_of_no_layers_is_refused(depth: float, llama: Path) -> None:
    """Also where a list of one value a layer follows from it."""
    change(llama, model_type="qwen2", architectures=["Qwen2ForCausalLM"], num_hidden_layers=depth)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_model(llama)


def test_out_and_in_again(llama: Path, tmp_path: Path) -> None:
    ours, _ = load_model(tmp_path / "ours")
    theirs, _ = load_model(llama)
    assert torch.equal(ours(TOKENS), theirs(TOKENS))
    config = json.loads((llama / "config.json").read_text())
    assert {key: config[key] for key in SIZES} == SIZES
    assert config["architectures"] == ["LlamaForCausalLM"]
    again = convert(llama, tmp_path / "again", write="transformers")
    assert json.loads((again / "config.json").read_text()) == config
    one, two = (load_file(folder / "model.safetensors") for folder in (llama, again))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_import_leaves_their_files_behind(llama: Path, tmp_path: Path) -> None:
    (llama / "notes.txt").write_text("kept")
    folder = convert(llama, tmp_path / "imported")
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".transformula.json", "README.md", "model.yaml", "notes.txt", "weights.safetensors"]


def test_the_model_card_says_what_a_run_says(written: Path, tmp_path: Path) -> None:
    report = tmp_path / "summary.md"
    report.write_text("# small\n\n![loss](loss.svg)\n\n| loss | 1.5 |\n\n## How to go on\n\ntrain more\n")
    folder = convert(written / "ours", tmp_path / "carded", write="transformers", report=report)
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    assert "| loss | 1.5 |" in card
    assert "loss.svg" not in card
    assert "go on" not in card
    convert(written / "ours", tmp_path / "carded", write="transformers")  # written again: it is replaced
    assert "unembed(x)" in (folder / "README.md").read_text()


def test_weights_that_others_wrote_are_never_replaced(llama: Path, written: Path) -> None:
    (llama / "README.md").write_text("# a download")
    (llama / ".transformula.json").unlink()
    before = (llama / "model.safetensors").read_bytes()
    with pytest.raises(CheckpointError, match="llama: holds README.md, which .transformula.json does not list"):
        convert(written / "ours", llama, write="transformers")
    with pytest.raises(CheckpointError, match="llama: holds README.md, which .transformula.json does not list"):
        Model.from_folder(written / "ours").save(llama)
    assert (llama / "model.safetensors").read_bytes() == before


def test_types_are_kept_or_asked_for(llama: Path) -> None:
    stored = {name: tensor.bfloat16() for name, tensor in load_file(llama / "model.safetensors").items()}
    save_file(stored, llama / "model.safetensors")
    assert next(Model.from_folder(llama).module.parameters()).dtype == torch.bfloat16
    assert next(Model.from_folder(llama, dtype="float32").module.parameters()).dtype == torch.float32
    with pytest.raises(Exception, match=r"dtype=float23: expected one of .* did you mean float32"):
        Model.from_folder(llama, dtype="float23")


def test_sharded(llama: Path) -> None:
    before = load_model(llama)[0](TOKENS)
    tensors = load_file(llama / "model.safetensors")
    half = sorted(tensors)[::2]
    files = {name: "a.safetensors" if name in half else "b.safetensors" for name in tensors}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in tensors if files[name] == file}, llama / file)
    (llama / "model.safetensors").unlink()
    (llama / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert torch.equal(load_model(llama)[0](TOKENS), before)
    (llama / "b.safetensors").unlink()
    with pytest.raises(CheckpointError, match="b.safetensors: the file is missing; copy the folder again"):
        load_model(llama)


def without(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def with_tensor(folder: Path, name: str, tensor: torch.Tensor) -> None:
    save_file({**load_file(folder / "model.safetensors"), name: tensor}, folder / "model.safetensors")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "quantized": (lambda f: change(f, quantization_config={"bits": 4}), "quantized.*use the folder of the unquantized"),
    "code": (
        lambda f: change(f, auto_map={"AutoModel": "x.py"}, model_type="mine"),
        "auto_map: the model, of model_type 'mine', is Python code of its own folder",
    ),
    "unknown type": (lambda f: change(f, model_type="lama"), "model_type is 'lama'.* did you mean llama"),
    "unknown class": (lambda f: change(f, architectures=["LlamaForX"]), "architectures is LlamaForX.* known: Llama"),
    "unknown key": (
        lambda f: change(f, residual_multiplier=0.5),
        "residual_multiplier = 0.5 is no key that",
    ),
    "missing key": (lambda f: change(f, hidden_size=None), "hidden_size is missing; llama needs it"),
    "other sizes": (
        lambda f: change(f, intermediate_size=25),
        r"shape \(24, 16\); config.json says \(25, 16\)",
    ),
    "no model": (lambda f: change(f, num_attention_heads=3), "its sizes make no model"),
    "activation": (lambda f: change(f, hidden_act="tanh"), 'hidden_act is "tanh"; expected one of silu'),
    "null heads": (lambda f: change(f, rope_theta=0), "rope_theta is 0; expected a number above 0"),
    "tensor missing": (lambda f: without(f, "model.norm.weight"), "model.norm.weight is missing"),
    "tensor too many": (
        lambda f: with_tensor(f, "model.norms.weight", torch.ones(2)),
        r"model.norms.weight has no place in the text of llama; did you mean model.norm.weight",
    ),
    "damaged": (
        lambda f: (f / "model.safetensors").write_bytes(b"12345678{}"),
        "damaged or cut off",
    ),
    "pickle": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        r"holds neither model.safetensors nor .* but pytorch_model.bin.*save_pretrained\(OUT\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, llama: Path) -> None:
    spoil, message = REFUSED[name]
    spoil(llama)
    with pytest.raises(CheckpointError, match=message):
        load_model(llama)


def test_left_out_tensors_are_named(llama: Path) -> None:
    with_tensor(llama, "model.rotary_emb.inv_freq", torch.ones(2))
    with pytest.warns(UserWarning, match="left out, since no logits depend on them: model.rotary_emb.inv_freq"):
        load_model(llama)


def test_a_tied_output_that_differs_is_kept(llama: Path) -> None:
    before = load_model(llama)[0](TOKENS)
    change(llama, tie_word_embeddings=True)
    with pytest.warns(UserWarning, match="lm_head.weight differs from the embedding to which config.json ties it"):
        assert torch.equal(load_model(llama)[0](TOKENS), before)
    without(llama, "lm_head.weight")
    assert "unembed.words" in Model.from_folder(llama).text


def test_a_text_that_no_named_model_has(tmp_path: Path) -> None:
    Model("x = x + attention(norm(x))", vocab=9, depth=1, width=8, heads=2, context=9).save(tmp_path / "m")
    with pytest.raises(CheckpointError, match=r"equals no named model.*\n    its text: .*\n    this text: "):
        convert(tmp_path / "m", tmp_path / "out", write="transformers")
    assert not (tmp_path / "out").exists()


def test_a_plain_text_is_a_known_model(tmp_path: Path) -> None:
    """Pre-norm as anybody types it, without dropout, is GPT-2 with other sizes."""
    layer = "x = x + attention(norm(x))\nx = x + mlp(norm(x), hidden=24)"
    Model(layer, after="x = norm(x)", vocab=9, depth=2, width=8, heads=2, context=9).save(tmp_path / "m")
    config = json.loads((convert(tmp_path / "m", tmp_path / "out", write="transformers") / "config.json").read_text())
    expected = {"model_type": "gpt2", "n_inner": 24, "activation_function": "gelu", "resid_pdrop": 0.0, "n_layer": 2}
    assert {key: config[key] for key in expected} == expected


def test_explain_of_a_folder_needs_no_torch(llama: Path) -> None:
    code = f"import sys, transformula as t; t.explain({str(llama)!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
