"""`train(init_from=..., lora=..., freeze=...)`: on language modeling and on classification, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.training.test_adapters import adapted, names
from transformula.api.model import Model
from transformula.api.plan import plan_run
from transformula.api.run import evaluate, train
from transformula.errors import InputError
from transformula.interop.folder import convert
from transformula.interop.weights import load_tensors
from transformula.training import start
from transformula.training.adapters import Trainable, choose_trained

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "context": 24, "tokenizer": "characters"}
QUICK: dict[str, Any] = {"quiet": True, "precision": "float32", "threads": 1, "batch": 2}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    (folder / "text.txt").write_text("".join(f"{i} and {7 * i % 100} make {i + 7 * i % 100}.\n" for i in range(100)))
    rows = [f"{('odd', 'even')[i % 2]}\t{i} and {7 * i % 100}" for i in range(60)]
    (folder / "rows.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")
    return folder


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model."""
    out = tmp_path_factory.mktemp("runs") / "text"
    train(LAYER, data=str(data / "text.txt"), **SMALL, **QUICK, steps=2, out=str(out))
    return out


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "weights.safetensors")


def test_a_language_model_goes_on_with_adapters(data: Path, begun: Path, tmp_path: Path) -> None:
    given = {"data": str(data / "text.txt"), "init_from": begun, **QUICK, "out": str(tmp_path / "run")}
    run = train(**given, lora="rank=2", steps=3)
    before, after = weights(begun / "best"), weights(run.folder / "last")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert before.keys() == after.keys() and len(changed) == 6
    assert all(torch.linalg.matrix_rank(after[name] - before[name], rtol=1e-3) == 2 for name in changed)
    # Merged: who reads or writes a model's folder meets nothing new.
    assert Model.from_folder(run.folder).generate("1 and", max_tokens=3, seed=1)
    assert evaluate(run.folder).scores["loss"] > 0
    exported = convert(run.folder / "last", tmp_path / "exported", write="transformers")
    assert all(torch.equal(t, after[n]) for n, t in Model.from_folder(exported).module.state_dict().items())
    assert train(resume=run.folder, steps=4, quiet=True).result.steps == 4


def test_a_classifier_with_adapters_trains_its_new_output(
    data: Path, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Trainable] = []
    monkeypatch.setattr(start, "choose_trained", lambda *given: seen.append(choose_trained(*given)) or seen[-1])
    given = {"task": "classification", "data": str(data / "rows.tsv"), "init_from": begun, **QUICK}
    run = train(**given, lora="rank=2,full=after", freeze="*.mlp.*", steps=3, out=str(tmp_path / "run"))
    full = {"output.linear.weight", "output.linear.bias", "after.norm.weight", "after.norm.bias"}
    before, after = weights(begun / "best"), weights(run.folder / "last")
    assert {name for name in names(seen[0]) if "lora" not in name} == full
    assert adapted(seen[0]) == {f"layers.1.attention.{n}.weight" for n in ("query", "key", "value", "output")}
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == (adapted(seen[0]) | full) & before.keys()
    assert Model.from_folder(run.folder).predict("3 and 21") in ("odd", "even")
    # What the run found out is written down, and a resume reads it there.
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["lora"]["full"] == ["after", "output"]
    train(resume=run.folder, steps=4, quiet=True)
    assert names(seen[1]) == names(seen[0])


def test_what_is_refused(data: Path) -> None:
    text = {"data": str(data / "text.txt")}
    with pytest.raises(InputError, match="lora: adapters change weights that are there; .* init_from=RUN"):
        plan_run({"model": LAYER, **text, "lora": "rank=2"}, []).checked()
