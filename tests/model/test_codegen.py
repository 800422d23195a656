"""Generated code: what it shares, what a traceback shows, what it holds, and that no user's name is in it."""

from __future__ import annotations

import gc
import linecache
import subprocess
import sys
import traceback
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.helpers import checked, make, tokens
from transformula.errors import InputError
from transformula.model import build

PRE_NORM = """
name: pre norm
words:
  inner: |
    u = linear.up(x, 2 * width)
    y = linear.down(gelu(u),
                    width)
layer: |
  # the first line is a comment
  x = x + dropout(attention(norm(x)), 0.1)
  x = x + inner(
    norm(x))
after: x = norm(x)
"""


def raised(function: Any) -> str:
    try:
        function()
    except Exception:
        return traceback.format_exc()
    raise AssertionError("no error")


def test_equal_layers_share_their_code() -> None:
    model = make(PRE_NORM, depth=5)
    first, last = model.layers["1"], model.layers["5"]
    assert first.forward.__code__ is last.forward.__code__ and type(first) is type(last)
    assert make(PRE_NORM, depth=2).layers["2"].forward.__code__ is first.forward.__code__


def test_layers_that_differ_in_options_only_share_their_code() -> None:
    model = make("x = x + attention(norm(x), window=4 if layer % 2 == 0 else 0)", depth=2)
    assert model.layers["1"].forward.__code__ is model.layers["2"].forward.__code__
    assert [model.layers[n].attention.settings.window for n in "12"] == [0, 4]


def test_a_traceback_shows_the_line_of_the_formula() -> None:
    model = make(PRE_NORM.replace("name: pre norm", "name: traced"))
    model.layers["2"].attention_input_norm.weight = torch.nn.Parameter(torch.ones(31))
    text = raised(lambda: model(tokens()))
    assert 'File "<formula traced>", line 3, in forward\n    layer 2\n' in text
    assert 'File "<formula traced: layer>", line 2, in layer' in text
    assert "    x = x + dropout(attention(norm(x)), 0.1)\n" in text
    assert "                              ^^^^^^^\n" in text


def test_a_traceback_shows_the_line_of_a_definition() -> None:
    model = make(PRE_NORM)
    model.layers["1"].inner.down.weight = torch.nn.Parameter(torch.ones(2, 2))
    text = raised(lambda: model(tokens()))
    assert "    y = linear.down(gelu(u),\n" in text


def test_two_texts_of_one_name_keep_their_own_lines() -> None:
    first, second = make("x = x + mlp(x)"), make("x = x + mlp(norm(x))")
    files = [m.layers["1"].forward.__code__.co_filename for m in (first, second)]
    assert files[0] != files[1]
    assert [linecache.getline(f, 1).strip() for f in files] == ["x = x + mlp(x)", "x = x + mlp(norm(x))"]


def test_an_uncaught_error_is_printed_with_its_line() -> None:
    """Before Python 3.13 the interpreter looks for a traceback's lines in files on the disk only."""
    program = f"""
import torch
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary
build(check(read_text({PRE_NORM!r}), vocabulary())).layers["1"](torch.zeros(1, 2, 3))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "    x = x + dropout(attention(norm(x)), 0.1)\n" in done.stderr


def test_no_name_of_a_user_is_in_the_code() -> None:
    model = make("""
name: secret_model
inputs: {secret_input: tokens}
words:
  secret_word: secret_value = linear.secret_label(x, width)
before: |
  x = embed.words(tokens) + embed.secret_table(secret_input)
  secret_constant = x
layer: |
  secret_local = secret_word(x)
  x = x + secret_local * secret_local + secret_constant
""")
    for module in (model, model.layers["1"]):
        code = module.forward.__code__
        names = (*code.co_names, *code.co_varnames, code.co_name, code.co_qualname)
        # but for an input, which is given by name
        assert [n for n in names if "secret" in n] == ["secret_input"] * (module is model)


def test_labels_that_modules_cannot_have_are_refused() -> None:
    for label in ("forward", "half", "train"):
        with pytest.raises(InputError, match=rf"no module can be called '{label}' \(in 'layers.1.{label}'\)"):
            build(checked(f"x = x + mlp.{label}(x)"))
    with pytest.raises(InputError, match="no module can be called 'layers'"):
        build(checked("x = x + mlp(x)", before="x = embed.layers(tokens)", output="logits = unembed.layers(x)"))


def test_chance_that_never_happens_is_not_in_the_code() -> None:
    plain, dropped = make("x = x + mlp(x)"), make("x = x + dropout.d(mlp(x), 0)")
    assert plain.layers["1"].forward.__code__.co_code == dropped.layers["1"].forward.__code__.co_code


def test_dropout_acts_in_training_only() -> None:
    model = make("x = x + dropout(mlp(x), 0.5)").train()
    given = tokens()
    assert not torch.equal(model(given), model(given))
    model.eval()
    assert torch.equal(model(given), model(given))


def test_values_are_let_go_after_their_last_reader() -> None:
    """Without gradients, a layer's input is gone when the next but one runs, unless history reads it."""
    alive: list[int] = []
    known: list[weakref.ref[Tensor]] = []

    def watch(module: Any, given: Any, result: Tensor) -> None:
        known.append(weakref.ref(result))
        gc.collect()
        alive.append(sum(r() is not None for r in known))

    for text, most in (("x = x + mlp(norm(x))", 2), ("x = x + mlp(norm(x)) + (0 if layer < 6 else x[1])", 3)):
        model = make(text, depth=6)
        alive.clear()
        known.clear()
        for layer in model.layers.values():
            layer.register_forward_hook(watch)
        with torch.no_grad():
            model(tokens())
        assert max(alive) == most, alive


def test_long_formulas_are_not_nested_without_end() -> None:
    model = make("x = " + "tanh(" * 45 + "x" + ")" * 45 + " + x" * 300, depth=1)
    assert model(tokens()).isfinite().all()


def test_a_norm_without_weights_inside_attention() -> None:
    model = make("""
words:
  norm: x = l2norm(x)
before: x = embed.words(tokens)
layer: x = x + attention(x, qk_norm="head", rotary=100)
""")
    made = model.layers["1"].attention
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    _, q = made(x, taps=("q",))
    torch.testing.assert_close(q.unflatten(-1, (4, 8)).norm(dim=-1), torch.ones(2, 5, 4, dtype=torch.float64))


def test_a_norm_of_several_words_inside_attention() -> None:
    model = make("""
words:
  norm: x = 2 * rmsnorm(x)
before: x = embed.words(tokens)
layer: x = x + attention(norm(x), qk_norm="full")
""")
    assert "layers.1.attention.query_norm.norm.rmsnorm.weight" in dict(model.named_parameters())
    made = model.layers["1"].attention
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    wanted = 2 * made.query_norm.norm.rmsnorm(made.query(x))
    torch.testing.assert_close(made(x, taps=("q",))[1], wanted)


def test_line_of_a_module() -> None:
    model = make(PRE_NORM)
    assert model.line_of("layers.3.attention.query") == "layer 3, line 2: x = x + dropout(attention(norm(x)), 0.1)"
    assert model.line_of("layers.1.inner.up") == (
        "layer 1, line 3: x = x + inner( norm(x)) (definition inner, line 1: u = linear.up(x, 2 * width))"
    )
    assert model.line_of("after.norm") == "after, line 1: x = norm(x)"
    assert model.line_of("layers.1") == ""
    with pytest.raises(InputError, match="no module 'layers.1.atention'; did you mean layers.1.attention"):
        model.line_of("layers.1.atention")
