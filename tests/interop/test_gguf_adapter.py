"""Low-rank adapters for llama.cpp: the base model's file with an adapter is the tuned model's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.interop.test_gguf import SENTENCE, TOKENS, untrained
from transformula import Model
from transformula.api.exporting import export
from transformula.api.run import train
from transformula.cli import main
from transformula.errors import CheckpointError
from transformula.interop.folder import load_model
from transformula.interop.gguf_adapter import GgufAdapter, file_of
from transformula.serving.models import Served, adapted
from transformula.tokenizers.byte_level import BPE

gguf = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = BPE.train([SENTENCE * 20], 300)
    untrained(vocab=tokenizer.vocab).save(folder / "model")
    tokenizer.save(folder / "model")
    (folder / "text.txt").write_text(SENTENCE * 60)
    export(folder / "model", folder / "gguf", to="gguf")
    return folder


def tuned(base: Path, out: Path, lora: str) -> Path:
    quick = {"steps": 3, "batch": 2, "context": 32, "lr": 0.05, "quiet": True}
    return train(init_from=str(base / "model"), data=str(base / "text.txt"), lora=lora, out=out, **quick).folder


@pytest.fixture(scope="module")
def run(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tuned(base, tmp_path_factory.mktemp("tuned") / "run", "rank=2")


def tensors(path: Path) -> dict[str, np.ndarray]:
    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def test_the_base_and_the_adapter_are_the_tuned_model(base: Path, run: Path, tmp_path: Path) -> None:
    """In the program's own order of rows, which turns queries and keys in pairs."""
    assert main(["export", str(run), "--to", "gguf-lora", "--out", str(tmp_path / "adapter")]) == 0
    whole = tensors(export(run, tmp_path / "whole", to="gguf") / "model.gguf")  # type: ignore[operator]
    reader = gguf.GGUFReader(tmp_path / "adapter" / "adapter.gguf")
    alpha = reader.fields["adapter.lora.alpha"].contents()
    assert reader.fields["general.type"].contents() == "adapter" and reader.fields["adapter.type"].contents() == "lora"
    assert reader.fields["general.architecture"].contents() == "llama"
    parts, before = tensors(tmp_path / "adapter" / "adapter.gguf"), tensors(base / "gguf" / "model.gguf")
    adapted = {name.removesuffix(".lora_a") for name in parts if name.endswith(".lora_a")}
    assert {"blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.ffn_down.weight"} <= adapted
    for name, tensor in before.items():
        change = 0
        if name in adapted:
            a, b = parts[f"{name}.lora_a"], parts[f"{name}.lora_b"]
            change = alpha / b.shape[1] * b @ a
            assert not np.array_equal(tensor, whole[name])
        np.testing.assert_allclose(tensor + change, whole[name], rtol=0, atol=1e-5)


def test_llama_cpp_computes_with_it(base: Path, run: Path, tmp_path: Path) -> None:
    library = pytest.importorskip("llama_cpp", reason="llama-cpp-python is missing: pip install llama-cpp-python")
    export(run, tmp_path / "adapter", to="gguf-lora")
    model = library.Llama(
        str(base / "gguf" / "model.gguf"), lora_path=str(tmp_path / "adapter" / "adapter.gguf"), verbose=False,
        n_threads=1, type_k=0, type_v=0, flash_attn=False, n_ctx=256, logits_all=True,
    )  # fmt: skip
    model.eval(TOKENS)
    expected = load_model(run / "best")[0](torch.tensor([TOKENS]))[0].detach()
    np.testing.assert_allclose(np.array(model.scores[: len(TOKENS)]), expected, rtol=0, atol=1e-3)


def test_what_is_no_adapter_there_is_refused(base: Path, run: Path, tmp_path: Path) -> None:
    whole = tuned(base, tmp_path / "norms", "rank=2,full=after")
    with pytest.raises(CheckpointError, match="after.norm.weight was trained as a whole"):
        export(whole, tmp_path / "adapter", to="gguf-lora")
    assert not (tmp_path / "adapter").exists()
    with pytest.raises(CheckpointError, match="is no run that trained low-rank adapters"):
        export(base / "model", tmp_path / "adapter", to="gguf-lora")


@pytest.fixture(scope="module")
def adapter(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapter") / "polite"
    export(run, folder, to="gguf-lora")
    return folder / "adapter.gguf"


Parts = dict[str, np.ndarray]


def rewritten(source: Path, out: Path, change: Callable[[Parts, dict[str, Any]], None], kind: str = "F32") -> Path:
    """The file with other tensors and metadata."""
    parts = tensors(source)
    said: dict[str, Any] = {
        "architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
        "adapter.lora.alpha": gguf.GGUFReader(source).fields["adapter.lora.alpha"].contents(),
    }  # fmt: skip
    change(parts, said)
    writer = gguf.GGUFWriter(out, said.pop("architecture"))
    for name, value in said.items():
        if isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        else:
            writer.add_string(name, value)
    quantization = gguf.GGMLQuantizationType[kind]
    for name, array in parts.items():
        stored = gguf.quants.quantize(array.astype(np.float32), quantization)
        writer.add_tensor(name, stored, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def test_what_was_written_is_read(base: Path, run: Path, adapter: Path) -> None:
    """The factors bit for bit; with the base model, the tuned one: in the order of rows that is ours."""
    read, stored = GgufAdapter(adapter), tensors(adapter)
    assert {f"{name}.lora_{side}" for name in read.pairs for side in "ab"} == stored.keys()
    for name, (a, b) in read.pairs.items():
        assert np.array_equal(a, stored[f"{name}.lora_a"]) and np.array_equal(b, stored[f"{name}.lora_b"])
    before, expected = (load_model(folder)[0].state_dict() for folder in (base / "model", run / "best"))
    merged = load_model(base / "model", adapter=adapter)[0].state_dict()
    changed = [name for name in before if not torch.equal(before[name], merged[name])]
    assert len(changed) == len(read.pairs) and any("query" in name for name in changed)
    for name, tensor in expected.items():
        torch.testing.assert_close(merged[name], tensor, rtol=0, atol=1e-6)
    same = load_model(base / "model", adapter=adapter.parent)[0].state_dict()  # its folder stands for it
    assert all(torch.equal(tensor, same[name]) for name, tensor in merged.items())


def test_the_base_model_may_be_a_folder_of_transformers(base: Path, run: Path, adapter: Path, tmp_path: Path) -> None:
    export(base / "model", tmp_path / "theirs", to="transformers")
    model = Model.from_folder(tmp_path / "theirs", adapter=adapter)
    expected = load_model(run / "best")[0](torch.tensor([TOKENS]))
    torch.testing.assert_close(model.module(torch.tensor([TOKENS])), expected, rtol=0, atol=1e-4)


def test_written_from_what_was_read_it_is_the_same_change(base: Path, adapter: Path, tmp_path: Path) -> None:
    """A file of llama.cpp, of the model with the adapter merged: bit for bit the base's matrix and the product."""
    merged = Model.from_folder(base / "model", adapter=adapter)
    export(merged.save(tmp_path / "merged"), tmp_path / "whole", to="gguf")
    whole, before = tensors(tmp_path / "whole" / "model.gguf"), tensors(base / "gguf" / "model.gguf")
    read = GgufAdapter(adapter)
    for name, tensor in before.items():
        expected = torch.from_numpy(tensor.copy())
        if name in read.pairs:
            a, b = read.pairs[name]
            expected = expected + (b @ a) * (read.alpha / len(a))
        assert np.array_equal(whole[name], expected)


def test_several_adapters_of_one_base(base: Path, adapter: Path, tmp_path: Path) -> None:
    """Each by itself, also those that are stored in half precision; a server names them by their files."""

    def double(parts: Parts, said: dict[str, Any]) -> None:
        said["adapter.lora.alpha"] *= 2

    twice = rewritten(adapter, tmp_path / "twice.gguf", double)
    half = rewritten(adapter, tmp_path / "half.gguf", lambda *_: None, "F16")
    before, once, two, less = (
        load_model(base / "model", adapter=each)[0].state_dict() for each in (None, adapter, twice, half)
    )
    for name, tensor in before.items():
        torch.testing.assert_close(two[name] - tensor, 2 * (once[name] - tensor), rtol=0, atol=1e-6)
        torch.testing.assert_close(less[name], once[name], rtol=0, atol=1e-3)
    served = [adapted(each, [Served("base", base / "model", {})]) for each in (str(twice), f"small={half}")]
    assert [one.name for one in served] == ["twice", "small"]
    assert {one.opening["adapter"] for one in served} == {twice, half}


def without(*names: str) -> Callable[[Parts, dict[str, Any]], None]:
    def change(parts: Parts, said: dict[str, Any]) -> None:
        for name in names:
            (parts if name in parts else said).pop(name)

    return change


def stating(**said_now: Any) -> Callable[[Parts, dict[str, Any]], None]:
    return lambda parts, said: said.update({key.replace("__", "."): value for key, value in said_now.items()})


def renamed(new: str) -> Callable[[Parts, dict[str, Any]], None]:
    def change(parts: Parts, said: dict[str, Any]) -> None:
        for side in "ab":
            parts[f"{new}.lora_{side}"] = parts.pop(f"blk.0.attn_q.weight.lora_{side}")

    return change


def put(name: str, change_of: Callable[[np.ndarray], np.ndarray]) -> Callable[[Parts, dict[str, Any]], None]:
    return lambda parts, said: parts.update({name: change_of(parts[name])})


A, B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"
REFUSED = [
    (stating(architecture="qwen2"), "of the architecture 'qwen2', and this one is, for llama.cpp, a 'llama'"),
    (stating(general__type="model"), "general.type is 'model': expected 'adapter'"),
    (stating(adapter__type="ia3"), "adapter.type is 'ia3': expected 'lora'"),
    (stating(adapter__alora__invocation_tokens=[1, 2]), "begins at certain tokens"),
    (without("adapter.lora.alpha"), "adapter.lora.alpha is None: expected a number above 0"),
    (stating(adapter__lora__alpha=0.0), "adapter.lora.alpha is 0.0: expected a number above 0"),
    (stating(adapter__lora__alpha=float("nan")), "adapter.lora.alpha is nan"),
    (without(A), f"{A} is missing"),
    (without(B), f"{B} is missing"),
    (renamed("blk.9.attn_q.weight"), "blk.9.attn_q.weight has an adapter, and the base model has no such matrix"),
    (renamed("token_embd.weight"), "token_embd.weight has an adapter, which is not read of tables"),
    (put(A, lambda a: a[:, :-1]), "the adapter of blk.0.attn_q.weight is .*, and the base model's matrix"),
    (put(B, lambda b: b[:-1]), "the adapter of blk.0.attn_q.weight is .*, and the base model's matrix"),
    (put(A, lambda a: a[:-1]), "which have no product"),
    (put(A, lambda a: a * np.nan), f"{A} holds numbers that are not finite"),
    (lambda parts, said: parts.update({"blk.0.attn_norm.weight": np.ones(4)}), "is no part of a low-rank adapter"),
    (lambda parts, said: parts.clear(), "holds no tensors"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_adapters_of_other_models_are_refused(
    base: Path, adapter: Path, tmp_path: Path, change: Callable[..., None], message: str
) -> None:
    """In one line that names the file."""
    path = rewritten(adapter, tmp_path / "other.gguf", change)
    with pytest.raises(CheckpointError, match=message) as raised:
        Model.from_folder(base / "model", adapter=path)
    assert str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_files_that_hold_no_adapter_are_refused(base: Path, adapter: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no such file"):
        Model.from_folder(base / "model", adapter=tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("hello")
    with pytest.raises(CheckpointError, match="is no GGUF"):
        Model.from_folder(base / "model", adapter=tmp_path / "text.gguf")
    (tmp_path / "cut.gguf").write_bytes(adapter.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="damaged"):
        Model.from_folder(base / "model", adapter=tmp_path / "cut.gguf")
    with pytest.raises(CheckpointError, match="stored as Q8_0, which is not read"):
        wide = rewritten(adapter, tmp_path / "wide.gguf", lambda parts, _: keep_wide(parts), "Q8_0")
        Model.from_folder(base / "model", adapter=wide)
    assert file_of(tmp_path) is None and file_of(adapter.parent) == adapter


def keep_wide(parts: Parts) -> None:
    """Leave rows of 32 numbers, which that type takes together."""
    a, b = parts[A], parts[B]
    parts.clear()
    parts.update({A: np.tile(a, (1, 32)), B: np.tile(b, (1, 32))})
