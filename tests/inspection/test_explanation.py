"""`explain`: one page that joins diagram, analysis, size and relatives; the same as data; without torch, in no time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from transformula import Model, explain
from transformula.cli import main

PRE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
DOUBLED = "y = x + attention(norm(x)); x = x + y + mlp(norm(y))"


def test_the_page_and_its_data() -> None:
    found = explain(PRE, after="x = norm(x)", depth=3)
    page = repr(found)
    for part in ("[attention]", "pre-norm", "no warnings", "parameters", "learned positions"):
        assert part in page
    assert found.data["filled_in"] == {
        "before": "x = embed.words(tokens) + positions(tokens)",
        "output": "logits = unembed.words(x)",
    }
    assert "pre-norm" in found.data["relatives"]
    json.dumps(found.data)  # plain data
    assert max(map(len, page.splitlines())) <= 112


def test_what_is_written_is_not_filled_in() -> None:
    assert explain("gpt2").data["filled_in"] == {}


def test_size_is_that_of_the_built_model() -> None:
    model = Model(PRE, depth=2, width=16, heads=2, after="x = norm(x)")
    assert model.explain().data["totals"]["parameters"] == sum(p.numel() for p in model.module.parameters())


def test_a_gain_that_compounds_is_told_from_its_relative() -> None:
    assert "4,096" in repr(explain(DOUBLED, depth=12))
    assert "4,096" not in repr(explain(PRE, depth=12))


def test_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", PRE, "--ascii"]) == 0
    drawn = capsys.readouterr().out.split("\n\n")[0]
    assert drawn.isascii() and "[attention]" in drawn


def test_no_torch() -> None:
    program = (
        f"import sys\nfrom transformula.cli import main\nmain(['explain', {PRE!r}, '--json'])\n"
        "print('LOADED', *{m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    data, loaded = done.stdout.split("LOADED")
    assert json.loads(data)["hash"]
    assert not {"torch", "numpy", "pydantic", "rich", "matplotlib"} & set(loaded.split())
