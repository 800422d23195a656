"""The nearest entries of the gallery: ranked, with what the wiring key does not count, and what differs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from transformula import Model, nearest
from transformula.errors import InputError
from transformula.inspection.explanation import differences_in_words


def test_of_equal_distance_the_one_that_differs_least_comes_first() -> None:
    found = nearest("x = x + attention(norm(x)); x = x + mlp(norm(x))", count=20).neighbors
    assert found[0].name == "pre-norm" and not found[0].differs
    said = {n.name: n.differs for n in found if n.distance == 0}
    assert said["dyt"] == ("its norm is dyt",) and said["gpt2"] == ("with dropout",)
    assert [n.distance for n in found] == sorted(n.distance for n in found)


def test_a_model_is_taken_too_and_its_own_entry_is_left_out() -> None:
    found = nearest(Model("post-norm", depth=3, width=32, heads=2))
    assert found.data["difference"]["models"][1] == "post-norm"
    assert all(n.name != "post-norm" for n in nearest("post-norm").neighbors)


def test_what_differs_is_said_from_the_side_of_the_entry() -> None:
    plain = {"norms": ["layernorm"], "chance": [], "scores": [], "shared": []}
    other = {"norms": ["rmsnorm"], "chance": ["dropout"], "scores": ["alibi"], "shared": ["layers", "norm.a", "norm.b"]}
    assert differences_in_words(plain, plain) == ()
    assert differences_in_words(plain, other) == (
        "its norm is rmsnorm",
        "with dropout",
        "with the formula alibi",
        "its layers share weights",
        "one norm.a and one norm.b for several calls",
    )
    assert differences_in_words(other, plain) == (
        "its norm is layernorm",
        "without dropout",
        "without the formula alibi",
        "each layer has weights of its own",
        "each call has weights of its own",
    )


def test_how_many() -> None:
    assert len(nearest("pre-norm", count=2).neighbors) == 2
    with pytest.raises(InputError, match="at least 1"):
        nearest("pre-norm", count=0)


def test_no_torch() -> None:
    program = "import sys; from transformula import nearest; repr(nearest('b2t')); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
