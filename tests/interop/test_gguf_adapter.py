"""Low-rank adapters for llama.cpp: the base model's file with an adapter is the tuned model's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.interop.test_gguf import SENTENCE, TOKENS, untrained
from transformula.api.exporting import export
from transformula.api.run import train
from transformula.cli import main
from transformula.errors import CheckpointError
from transformula.interop.folder import load_model
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
