"""A new word inside the package is one file in `words/`: nothing else names it, and everything works with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import transformula
from tests.pace import PATIENCE

SUBLAYER = '''
import torch

from .word import Word, word


@word(
    "running_mean",
    streams=("x",),
    kind="positions",
    width="x",
    reach="past",
    order="'recurrent'",
    parameters={"weight": "x"},
    flops="x",
    state="x / length",
    saved="x",
    equation="y_i = w * mean of x_j over j <= i",
    source="a test",
    example="x = x + running_mean(norm(x))",
)
class RunningMean(Word):
    """y_i = w * the mean of x_j over j <= i, (batch, length, x)."""

    def __init__(self, x, causal=True):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(x))

    def initial_values(self, generator_for):
        torch.nn.init.ones_(self.weight)

    def forward(self, x):
        count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
        return self.weight * x.cumsum(1) / count
'''

FUNCTION = '''
import torch

from .word import Word, word


@word(
    "squared_relu",
    streams=("x",),
    kind="function",
    width="x",
    saved="x",
    constant="max(c, 0) ** 2",
    nonzero="positive",
    equation="y = max(x, 0)**2",
    source="Primer, 2109.08668",
    example="x = x + linear.down(squared_relu(linear.up(norm(x), 64)), width)",
)
class SquaredReLU(Word):
    """y = max(x, 0)**2."""

    @staticmethod
    def function(x):
        return torch.relu(x) ** 2
'''

ATTENTION = '''
import torch

from .word import Word, fill_matrix, matrix, word


@word(
    "even_attention",
    streams=(("x",), ("x", "memory")),
    kind="positions",
    width="x",
    reach="past",
    padding=True,
    attends="streams",
    distances=("near",),
    options={"near": {"type": "whole", "default": 0, "minimum": 0, "help": "nothing, here"}},
    parameters={"value.weight": "x * (memory if memory > 0 else x)", "value.bias": "x"},
    flops="2 * x * x",
    state="x",
    saved="x",
    equation="y_i = x_i times the mean of W x_j over j <= i",
    source="a test",
    example="x = x + even_attention(norm(x))",
)
class EvenAttention(Word):
    """y_i = x_i times the mean of W x_j over j <= i, or over another sequence; (batch, length, x)."""

    def __init__(self, x, memory=None, *, near=0, causal=True):
        super().__init__()
        self.value = matrix(memory or x, x)

    def initial_values(self, generator_for):
        fill_matrix(self.value, generator_for, "value")

    def forward(self, x, memory=None, *, real=None):
        if memory is not None:
            return x * self.value(memory).mean(1, keepdim=True)
        count = torch.arange(1, x.shape[1] + 1, dtype=x.dtype)[:, None]
        return x * self.value(x).cumsum(1) / count
'''

USE = """
import torch

from transformula import Model
from transformula.cli.door import main
from transformula.words import vocabulary

assert {"running_mean", "squared_relu", "even_attention"} <= set(vocabulary())
SIZES = {"depth": 2, "width": 16, "heads": 2, "vocab": 30, "context": 12}
LAYERS = {
    "running_mean": "x = x + running_mean(norm(x)); x = x + attention(norm(x))",
    "squared_relu": "x = x + attention(norm(x)); x = x + linear(squared_relu(linear.up(norm(x), 32)), width)",
    "even_attention": "x = x + even_attention(norm(x), near=4); x = x + mlp(norm(x))",
}
for word, layer in LAYERS.items():
    for family in ("decoder", "encoder-decoder"):
        model = Model(layer, family=family, **SIZES)
        page = repr(model.explain())
        assert "pre-norm" in page and word in page and word in model.explain().svg
        assert (word in str(model.summary().data["rows"])) and model.summary().data["totals"]["parameters"] > 0
        module = model.module
        assert model.summary().data["totals"]["parameters"] == sum(p.numel() for p in module.parameters())
        inputs = {"tokens": torch.randint(30, (2, 7)), "source": torch.randint(30, (2, 5))}
        logits = module(**{name: inputs[name] for name in (["tokens"] if family == "decoder" else inputs)})
        logits = logits[0] if isinstance(logits, tuple) else logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.randint(30, (14,))).backward()
        missing = [n for n, p in module.named_parameters() if p.grad is None]
        assert not missing, (word, missing)
        torch.optim.SGD(module.parameters(), 0.1).step()
    main(["words", word])
    main(["explain", layer])

# what analysis knows of each is in its record
order = Model(LAYERS["running_mean"], **SIZES).explain().data["stacks"][0]["order"]
assert {"kind": "recurrent", "words": "running_mean", "where": "every layer"} in order, order
gain = Model("x = squared_relu(vector(3)) * x + mlp(norm(x))", **SIZES).explain().data["stacks"][0]["gain"]["x"]
assert gain["layer_factor"] == 9, gain
warned = Model("x = norm(squared_relu(x + mlp(norm(x))))", **SIZES).explain().data["warnings"]
assert "function-on-residual-path" in [w["code"] for w in warned], warned
assert any("squared_relu" not in r["text"] for w in warned for r in w["relatives"])
crossed = repr(Model(LAYERS["even_attention"], family="encoder-decoder", **SIZES).explain())
assert "even_attention(norm(x), memory)" in crossed, crossed
"""


@pytest.mark.slow
def test_a_word_inside_the_package_is_one_file(tmp_path: Path) -> None:
    package = tmp_path / "transformula"
    home = Path(transformula.__file__).parent
    shutil.copytree(home, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in (("running_mean", SUBLAYER), ("squared_relu", FUNCTION), ("even_attention", ATTENTION)):
        (package / "words" / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("running_mean", "squared_relu", "even_attention"):
        assert f"{name}: " in done.stdout, done.stdout
