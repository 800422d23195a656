"""What a verb that uses a trained model does not import: each module is memory that a small model has not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from transformula import train

WITHOUT = {
    "PIL", "accelerate", "datasets", "huggingface_hub", "matplotlib", "mlflow", "networkx", "numpy.random", "pandas",
    "pyarrow", "rich", "sacrebleu", "scipy", "sklearn", "statsmodels", "sympy", "torch._dynamo", "torch._inductor",
    "torch.fx.experimental.symbolic_shapes", "torch.utils.data", "transformers",
    *(f"transformula.{room}" for room in ("comparison", "diagram", "inspection", "recipes", "runs", "training.start")),
    *(f"transformula.tasks.{name}" for name in ("dialogue", "language_modeling", "question_answering", "tagging")),
}  # fmt: skip
"""Without sympy, which PyTorch imports where a tensor without memory is copied, 35 MB less are resident."""

PROGRAM = """
import sys, torch
torches = set(sys.modules)
from transformula.cli import main
assert main(sys.argv[1:]) == 0
print("NEW", *sorted(set(sys.modules) - torches))
"""


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    rows = [f"a {('fine', 'dull')[n % 2]} film {n}\t{('good', 'bad')[n % 2]}" for n in range(60)]
    (folder / "rows.tsv").write_text("text\tlabel\n" + "\n".join(rows))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TRANSFORMULA_CACHE", str(folder / "cache"))
        given = {"data": str(folder / "rows.tsv"), "tokenizer": "bytes", "precision": "float32", "threads": 1}
        sizes = {"depth": 1, "width": 8, "heads": 1, "batch": 4, "steps": 1}
        train("pre-norm", task="classification", **given, **sizes, quiet=True, out=str(folder / "run"))
    return folder / "run"


@pytest.mark.parametrize("verb", ["classify", pytest.param("predict", marks=pytest.mark.slow)])
def test_a_classifier_answers_without(verb: str, classifier: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, verb, str(classifier), "a fine film"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer, _, new = done.stdout.partition("NEW")
    assert answer.strip() in ("good", "bad")
    loaded = {".".join(name.split(".")[:n]) for name in new.split() for n in range(1, name.count(".") + 2)}
    assert "transformula.tasks.classification" in loaded
    assert WITHOUT & loaded == set()
