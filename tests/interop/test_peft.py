"""Low-rank adapters in peft's format: the library reads ours, ours reads the library's, on our folders and on those of
transformers; what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model
from transformula.api.exporting import export
from transformula.api.run import train
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.interop.peft import ADAPTER, CONFIG, PREFIX, PeftAdapter, low_rank
from transformula.interop.weights import load_tensors, save_tensors

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZES: dict[str, Any] = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "context": 24}
QUICK: dict[str, Any] = {"quiet": True, "precision": "float32", "threads": 1, "batch": 2}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and beside it its text."""
    out = tmp_path_factory.mktemp("runs") / "text"
    data = out.parent / "text.txt"
    data.write_text("".join(f"{i} and {7 * i % 100} make {i + 7 * i % 100}.\n" for i in range(100)))
    train(LAYER, data=str(data), tokenizer="characters", **SIZES, **QUICK, steps=2, out=str(out))
    return out


def tuned(begun: Path, out: Path, **settings: Any) -> Path:
    given = {"lora": "rank=2", "steps": 4, **settings}
    return train(data=str(begun.parent / "text.txt"), init_from=begun, **QUICK, out=str(out), **given).folder


@pytest.fixture(scope="module")
def adapted(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with adapters, and these as a folder."""
    place = tmp_path_factory.mktemp("adapted")
    run = tuned(begun, place / "run")
    return run, export(run, place / "adapter", to="peft")


def logits(module: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = module(tokens)
    return y if isinstance(y, torch.Tensor) else y.logits


def tokens(vocab: int = 12) -> torch.Tensor:
    return torch.randint(vocab, (2, 9), generator=torch.Generator().manual_seed(3))


def differ(one: Any, other: Any, vocab: int = 12) -> float:
    a, b = logits(one, tokens(vocab)), logits(other, tokens(vocab))
    return float((a - b).abs().max() / b.abs().max())


def test_an_adapter_and_its_base_are_the_runs_model(begun: Path, adapted: tuple[Path, Path]) -> None:
    run, folder = adapted
    own, base = Model.from_folder(run).module, Model.from_folder(begun).module
    assert differ(Model.from_folder(begun, adapter=folder).module, own) < 1e-5 < 1e-3 < differ(base, own)
    assert sum(tensor.numel() for tensor in load_tensors(folder / ADAPTER).values()) < 4_000
    config = json.loads((folder / CONFIG).read_text())
    assert config["r"] == 2 and config["base_model_name_or_path"] == "text" and len(config["target_modules"]) == 6


def test_peft_reads_it(begun: Path, adapted: tuple[Path, Path]) -> None:
    peft = pytest.importorskip("peft")
    run, folder = adapted
    read = peft.PeftModel.from_pretrained(Model.from_folder(begun).module, str(folder)).eval()
    assert differ(read, Model.from_folder(run).module) < 1e-5


def test_other_parameters_and_means_of_weights_are_kept_too(begun: Path, tmp_path: Path) -> None:
    """What is trained in full stands whole; the mean of several checkpoints has adapters of a higher rank."""
    run = tuned(begun, tmp_path / "run", lora="rank=2,full=after", average=0.9, steps=12, keep=3)
    folder = export(run, tmp_path / "adapter", to="peft")
    assert differ(Model.from_folder(begun, adapter=folder).module, Model.from_folder(run).module) < 1e-5
    stored = load_tensors(folder / ADAPTER)
    config = json.loads((folder / CONFIG).read_text())
    assert config["modules_to_save"] and any("lora_" not in name for name in stored)


def test_the_lowest_rank_is_found() -> None:
    draw = torch.Generator().manual_seed(0)
    before = torch.randn(3, 40, 24, generator=draw)
    for rank in (1, 2, 5):
        change = torch.randn(3, 40, rank, generator=draw) @ torch.randn(3, rank, 24, generator=draw)
        pair = low_rank(before, before + change, 1)
        assert pair is not None and pair[1].shape[-2] == {1: 1, 2: 2, 5: 8}[rank]
    assert low_rank(before, torch.randn(3, 40, 24, generator=draw), 1) is None
    assert low_rank(before[0, 0], before[0, 1], 1) is None


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_of_a_model_of_transformers(name: str, rslora: bool, tmp_path: Path) -> None:
    """One that peft has made: products, transposed ones (GPT-2's), the embedding, a whole module."""
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    sizes = {"depth": 2, "width": 32, "heads": 2, "context": 32, "vocab": 40}
    Model(name, seed=1, **sizes, **({"kv_heads": 2} if name == "llama" else {})).save(tmp_path / "ours")
    base = export(tmp_path / "ours", tmp_path / "base", to="transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(base)
    llama = name == "llama"
    config = peft.LoraConfig(
        r=3, lora_alpha=7, use_rslora=rslora, target_modules=["q_proj", "down_proj"] if llama else ["c_attn", "wpe"],
        modules_to_save=["lm_head"] if llama else None, fan_in_fan_out=not llama,
        alpha_pattern={"down_proj" if llama else "h.1.attn.c_attn": 5}, init_lora_weights=False,
    )  # fmt: skip
    torch.manual_seed(2)
    model = peft.get_peft_model(theirs, config).eval()
    if llama:
        with torch.no_grad():
            model.base_model.model.lm_head.modules_to_save["default"].weight.mul_(2)
    model.save_pretrained(tmp_path / "adapter")
    own, plain = Model.from_folder(base, adapter=tmp_path / "adapter").module, Model.from_folder(base).module
    assert differ(own, model, 40) < 1e-5 < 1e-3 < differ(plain, model, 40)


def changed(folder: Path, out: Path, tensors: dict[str, Any] | None = None, **config: Any) -> Path:
    """A copy of an adapter, with tensors added, or left out where they are None."""
    out.mkdir()
    stored = {**load_tensors(folder / ADAPTER), **(tensors or {})}
    save_tensors(out / ADAPTER, {name: tensor for name, tensor in stored.items() if tensor is not None})
    (out / CONFIG).write_text(json.dumps({**json.loads((folder / CONFIG).read_text()), **config}))
    return out


QUERY = f"{PREFIX}layers.1.attention.query"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peft_type": "LOHA"}, "only LoRA is read"),
        ({"use_dora": True}, "DoRA"),
        ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4, which changes the base model"),
        ({"tensors": {f"{QUERY}.lora_A.weight": None}}, "lora_B alone"),
        ({"tensors": {f"{QUERY}.lora_A.weight": torch.zeros(9)}}, "is no matrix"),
        ({"alpha_pattern": {"(a+)+$": 4}}, "is a pattern, and only names of modules are read here"),
        ({"alpha_pattern": ["query"]}, "expected numbers"),
        ({"lora_alpha": "many"}, "expected numbers as lora_alpha"),
        ({"tensors": {f"{QUERY}.lora_B.weight": torch.zeros(9, 2)}}, "the base model's matrix has (16, 16)"),
        ({"tensors": {f"{QUERY}s.lora_{side}.weight": torch.zeros(2, 2) for side in "AB"}}, "attention.query"),
        ({"tensors": {f"{PREFIX}after.norm.bias": torch.zeros(9)}}, "has the shape (9,), and (16,) in the base model"),
        ({"tensors": {f"{PREFIX}other.norm.bias": torch.zeros(9)}}, "which the adapter changes"),
        ({"tensors": {f"{QUERY}.lora_magnitude_vector": torch.zeros(9)}}, "no kind of adapter"),
    ],
)
def test_what_does_not_fit_is_refused(
    begun: Path, adapted: tuple[Path, Path], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    folder = changed(adapted[1], tmp_path / "other", **change)
    with pytest.raises(CheckpointError) as caught:
        Model.from_folder(begun, adapter=folder)
    assert said in str(caught.value) and str(folder) in str(caught.value)


def test_an_adapter_is_of_the_weights_that_it_was_made_of(adapted: tuple[Path, Path], tmp_path: Path) -> None:
    run, folder = adapted
    with pytest.raises(CheckpointError, match="other weights than those of this model; it changes those of text"):
        Model.from_folder(run, adapter=folder)
    with pytest.raises(CheckpointError, match="holds no adapter_config.json"):
        Model.from_folder(run, adapter=tmp_path)


def test_only_adapters_leave_as_adapters(begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckpointError, match="is no run that trained low-rank adapters"):
        export(begun, tmp_path / "out", to="peft")
    with pytest.raises(InputError, match="leave it out"):
        export(begun, tmp_path / "out", to="peft", dtype="float16")
    run = tuned(begun, tmp_path / "run")
    assert main(["prune", str(run), "--yes"]) == 0
    capsys.readouterr()
    assert main(["export", str(run), "--to", "peft", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "prune" in said and "export the whole model" in said
    assert not (tmp_path / "out").exists()


def test_no_folder_of_others_is_replaced(adapted: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="letter.txt"):
        export(adapted[0], tmp_path, to="peft")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_an_adapter_reads_nothing_but_numbers(adapted: tuple[Path, Path], tmp_path: Path) -> None:
    other = changed(adapted[1], tmp_path / "other")
    (other / ADAPTER).write_bytes((other / ADAPTER).read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="damaged or cut off"):
        PeftAdapter(other)
