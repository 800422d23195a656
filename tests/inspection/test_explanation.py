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
    assert max(map(len, page.splitlines())) <= 100


def test_what_is_written_is_not_filled_in() -> None:
    assert explain("gpt2").data["filled_in"] == {}


def test_what_is_left_out_is_shown() -> None:
    page = repr(explain("x = x + dropout(attention(norm(x)))", heads=2))
    assert "after    nothing   (default)" in page
    assert "depth 4, width 256, vocab 256, context 64   (default)" in page
    assert "dropout  p = 0, so it does nothing" in page
    assert "p = 0" not in repr(explain("x = x + dropout(attention(norm(x)))", dropout=0.1))
    assert "norm     x = rmsnorm(x)" in repr(explain("peri"))


def test_hooks_are_shown() -> None:
    page = repr(explain("x = x + mlp(norm(x))", init={"*": "0.02", "*.up.*": "0.1"}, policy="layerdrop(p=0.2)"))
    assert "init     *: 0.02; *.up.*: 0.1" in page and "policy   layerdrop(p=0.2)" in page
    assert "calibrate  admin" in repr(explain("admin"))


def test_the_text_is_a_model_file() -> None:
    from transformula.language.model_file import read_text

    data = explain("residual").data
    assert read_text(data["text"]).name == "residual"
    totals = data["totals"]
    assert totals["flops_per_token"] > 0 and totals["cache_bytes"] > 0


@pytest.mark.parametrize("name", ["gemma3", "mix-ln", "orthogonal", "sandwich-order"])
def test_the_page_fits_a_terminal(name: str) -> None:
    assert max(map(len, repr(explain(name)).splitlines())) <= 100


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


def test_what_relatives_differ_in_and_the_nearest_where_there_is_none() -> None:
    page = repr(explain("rezero"))
    assert "skipinit: each call has weights of its own" in page
    data = explain("skipinit").data
    assert data["differs"]["rezero"] == ["one scalar.gain for several calls"] and data["nearest"] == {}
    alone = explain("macaron")
    assert alone.data["relatives"] == [] and list(alone.data["nearest"])[0] == "depth-mup"
    assert "nearest in the gallery, by edits a layer (13 from nothing): depth-mup 6" in repr(alone)


def test_relatives_of_warnings_have_the_gallerys_names() -> None:
    assert explain(DOUBLED).data["warnings"][0]["relatives"][0]["gallery"] == ["skip-2-half"]
    assert "the wiring of skip-2-half" in " ".join(repr(explain(DOUBLED)).split())


def test_a_line_says_what_matters() -> None:
    page = repr(explain("highway"))
    assert "sets f (width 256); a branch\n" in page and "(gates and coefficients as they start)" in page
    assert "one branch, no skip" in repr(explain("no-skip"))
    assert "branch norm(attention(norm(x), ...))" in repr(explain("gemma3"))
    assert "depends on its weights" in repr(explain("gtrxl"))


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("x = x + 0.5 * (norm(attention(x)) - x)", "skip x; both in one: 0.5 * (norm(attention(x)) - x)"),
        ("x = x + sinusoids(x); x = x + mlp(norm(x))", "skip x; added sinusoids(x)"),
        (
            "p = sigmoid(linear(x, 1) + 1); x = x + p * mlp(norm(x))",
            "sets p (width 1); a branch; added 1; all within sigmoid",
        ),
        ("x = attention(norm(x)); x = x + mlp(norm(x))", "skip x; branch mlp(norm(x))"),
        ("u = x; y = u + mlp(norm(u)); x = x + y - 0.5 * u", "reads x, y; sets x (width 256); skips x, y, -0.5 * x"),
        ("p = x; q = x; x = q + mlp(norm(p))", "reads q; sets x (width 256); skip q; branch mlp(norm(p))"),
    ],
)
def test_terms_are_what_a_reader_calls_them(formula: str, said: str) -> None:
    assert said in repr(explain(formula, depth=2))
