"""`export --check`: in which formats a model can leave, as the formats themselves say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from transformula import Model
from transformula.api.exporting import export
from transformula.api.leaving import ExportCheck, check_export, export_line
from transformula.api.reading import check_model
from transformula.api.run import train
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.tasks.tagging import Tagger
from transformula.tasks.writing import TextGenerator
from transformula.tokenizers.byte_level import BPE
from transformula.tokenizers.characters import Characters

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"after": "x = norm(x)", "depth": 1, "width": 16, "heads": 2, "context": 8}
PROGRAMS = {"onnx", "torch-export"}


def can(found: ExportCheck) -> set[str]:
    return {each.format for each in found.formats if not each.reason}


def test_the_line_of_a_plan():
    readme = check_model(LAYER, SMALL)
    line = export_line(readme, None)
    can, _, cannot = line.partition("; not ")
    assert can == "onnx, pytorch, torch-export, transformers"
    assert cannot == "ctranslate2 (other stacks), gguf (act is gelu)"
    labels = check_model(LAYER, {**SMALL, "family": "encoder", "output": "logits = linear(mean(x), 3)"})
    assert "not ctranslate2 (other stacks), gguf (other stacks), transformers (nearest: " in export_line(
        labels, Tagger(None, ["tokens"], 8, False, ["a", "b"], False, ["word"])
    )
    deep = check_model(LAYER, {**SMALL, "depth": 13})
    assert export_line(deep, None) == "transformula export --check RUN says where it can leave"


def test_a_tokenizer_is_a_condition():
    """A translator's tokenizer must have a token that ends a text."""
    translator = check_model("translator", {"depth": 1, "width": 16, "heads": 2})
    ends, without = Characters.train(["abc"], ends=True), Characters.train(["abc"], ends=False)
    assert export_line(translator, TextGenerator(ends)).startswith("ctranslate2, ")
    assert "ctranslate2 (" in export_line(translator, TextGenerator(without)).partition("not ")[2]
    llama = check_model("llama", {"depth": 1, "width": 16, "heads": 2, "kv_heads": 1, "hidden": 24, "vocab": 300})
    assert "gguf" in export_line(llama, TextGenerator(BPE.train(["abc abd " * 9], 300))).partition("not ")[0]


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


def test_a_plan_has_the_line(tmp_path, capsys):
    train(LAYER, **SMALL, data=str(texts(tmp_path)), tokenizer="bytes", steps=1, out=str(tmp_path / "run"))
    assert "exports     onnx, pytorch, torch-export, transformers; not" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_loads_no_other_task(tmp_path):
    """What is trained, and in which formats it can leave, is said without the files of other tasks."""
    (tmp_path / "text.txt").write_text("some text to learn from\n" * 20)
    typed = "train pre-norm --data text.txt --tokenizer characters --depth 1 --width 16 --heads 2 --steps 1"
    code = (
        f"import sys; from transformula.cli import main; assert main({typed.split()}) == 0;"
        "print([name for name in sys.modules if name.startswith('transformula.tasks.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "exports " in done.stderr and "tasks.language_modeling" in done.stderr
    others = ("classification", "tagging", "masked_language_modeling", "rows", "vectors", "dialogue", "seq2seq")
    assert not [name for name in others if f"tasks.{name}'" in done.stderr]
