"""`export --check`: in which formats a model can leave, as the formats themselves say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transformula import Model
from transformula.api.exporting import export
from transformula.api.leaving import ExportCheck, check_export, formats_of
from transformula.api.reading import check_model
from transformula.api.run import train
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.language.graph import Architecture
from transformula.model import build
from transformula.tasks.predictor import Predictor
from transformula.tasks.tagging import Tagger
from transformula.tasks.writing import TextGenerator
from transformula.tokenizers.byte_level import BPE
from transformula.tokenizers.characters import Characters

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "context": 8}
PROGRAMS = {"onnx", "torch-export"}


def can(found: ExportCheck) -> set[str]:
    return {each.format for each in found.formats if not each.reason}


def refusals(architecture: Architecture, kind: Predictor | None, folder: Path) -> dict[str, str]:
    """Why a model that is to be trained cannot leave, by format; "" where it can."""
    folder.mkdir()
    if kind is not None:
        kind.save(folder)
    found = formats_of(build(architecture, device="meta"), folder if kind else None, None)
    return {each.format: each.reason for each in found.formats}


def test_formats_of_a_model_that_is_to_be_trained(tmp_path: Path) -> None:
    readme = refusals(check_model(LAYER, SMALL), None, tmp_path / "readme")
    assert {name for name, reason in readme.items() if not reason} == {*PROGRAMS, "pytorch", "transformers"}
    assert "none has its stacks" in readme["ctranslate2"] and "act is gelu" in readme["gguf"]
    labels = check_model(LAYER, {**SMALL, "family": "encoder", "output": "logits = linear(mean(x), 3)"})
    tagger = Tagger(None, ["tokens"], 8, False, ["a", "b"], False, ["word"])
    assert "nearest is bert-spans" in refusals(labels, tagger, tmp_path / "labels")["transformers"]


def test_a_tokenizer_is_a_condition(tmp_path: Path) -> None:
    """A translator's tokenizer must have a token that ends a text."""
    translator = check_model("translator", {"depth": 1, "width": 16, "heads": 2})
    ends, without = Characters.train(["abc"], ends=True), Characters.train(["abc"], ends=False)
    assert not refusals(translator, TextGenerator(ends), tmp_path / "ends")["ctranslate2"]
    assert "no token that ends a text" in refusals(translator, TextGenerator(without), tmp_path / "not")["ctranslate2"]
    llama = check_model("llama", {"depth": 1, "width": 16, "heads": 2, "kv_heads": 1, "hidden": 24, "vocab": 300})
    assert not refusals(llama, TextGenerator(BPE.train(["abc abd " * 9], 300)), tmp_path / "llama")["gguf"]


def test_programs_are_traced_and_a_trained_model_leaves_as_it_is_said(tmp_path: Path, monkeypatch):
    train(LAYER, **SMALL, data=str(texts(tmp_path)), tokenizer="bytes", steps=1, quiet=True, out=str(tmp_path / "run"))
    found = check_export(str(tmp_path / "run"))
    assert can(found) == {"pytorch", "transformers", *PROGRAMS}
    reasons = {each.format: each.reason for each in found.formats}
    with pytest.raises(CheckpointError) as refused:
        export(tmp_path / "run", tmp_path / "out", to="gguf")
    assert str(refused.value) == reasons["gguf"]
    with pytest.raises(InputError, match="task: .* is a trained model, which leaves as it is"):
        check_export(str(tmp_path / "run"), task="classification")

    def cannot(model):
        raise CheckpointError("torch.export cannot follow the model at layer 1; nothing was written")

    monkeypatch.setattr("transformula.interop.programs.programs_of", cannot)
    assert can(check_export(Model(LAYER, **SMALL))) == {"pytorch", "transformers"}


def texts(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text("the cat sees the bird. " * 40)
    return path


@pytest.mark.parametrize("kind", ["formula", "file", "task"])
def test_before_training(kind, tmp_path, capsys):
    if kind == "formula":
        arguments = [LAYER, "--after", "x = norm(x)", "--depth", "1"]
    elif kind == "file":
        text = f"language: 1\nlayer: {LAYER.split(';')[0]}\nafter: x = norm(x)\ndepth: 1\n"
        (tmp_path / "m.yaml").write_text(text)
        arguments = [str(tmp_path / "m.yaml")]
    else:
        arguments = ["pre-norm", "--task", "classification", "--depth", "1"]
    assert main(["export", "--check", *arguments, "--json"]) == 0
    formats = {each["format"]: each for each in json.loads(capsys.readouterr().out)["formats"]}
    assert formats["pytorch"]["can"] and not formats["gguf"]["can"] and formats["gguf"]["reason"]
    assert formats["transformers"]["can"] == (kind == "formula")


def test_what_is_refused(capsys):
    for arguments, wanted in [
        (["pre-norm", "--to", "onnx"], "--out: say in which format, --to FORMAT, and where"),
        (["pre-norm", "--check", "--to", "onnx"], "--to: --check looks at all formats and writes nothing"),
        (["runs/none", "--to", "onnx", "--out", "o", "--depth", "2"], "--depth: is for --check of a model"),
    ]:
        assert main(["export", *arguments]) == 2
        assert wanted in capsys.readouterr().err
