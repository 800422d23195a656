"""The distance of wirings: symmetric, zero where wiring keys are equal and only there; ranking as a reader would."""

from __future__ import annotations

import random
import re
from functools import cache
from itertools import combinations

import pytest

from tests import pace
from tests.diagram.test_diagram import WIRINGS
from tests.language.test_models import DOCUMENTS, read
from transformula import gallery
from transformula.analysis.canonical import WIRING_DEPTH, at_wiring_depth, wiring_key
from transformula.analysis.graph_distance import (
    LEAST_DISTANCE,
    WiringShape,
    distance,
    layers_apart,
    shape,
    unseen,
)
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText, from_formula
from transformula.words import vocabulary

PRE = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
POST = "x = norm(x + attention(x)); x = norm(x + mlp(x))"


def text_of(formula: str) -> ModelText:
    """A layer's formula, or a model file's text."""
    return read_text(formula) if re.match(r"\w+:", formula) else from_formula(formula)


def of(formula: str) -> WiringShape:
    """The shape of a layer's formula, or of a model file's text."""
    return shape(at_wiring_depth(check(text_of(formula), vocabulary()), vocabulary()))


def ranked(wanted: WiringShape) -> list[tuple[float, str]]:
    """The gallery by distance."""
    return sorted((distance(wanted, entry.shape), entry.name) for entry in gallery.indexed())


@cache
def shapes() -> list[WiringShape]:
    """Of many wirings and models."""
    return [of(formula) for formula in WIRINGS.values()] + [shape(check(*read(document))) for document in DOCUMENTS]


def test_it_is_symmetric_and_zero_only_for_equal_keys() -> None:
    for a, b in combinations(shapes(), 2):
        assert distance(a, b) == distance(b, a) >= 0
        assert (distance(a, b) == 0) == (a.key == b.key)
    for one in shapes():
        assert distance(one, one) == 0


def test_the_key_is_the_wiring_key() -> None:
    for document in DOCUMENTS[:10]:
        architecture = check(*read(document))
        assert shape(architecture).key == wiring_key(architecture)
        assert WiringShape.read(wiring_key(architecture), shape(architecture).data) == shape(architecture)


@pytest.mark.parametrize(
    ("formula", "other"),
    [
        (PRE, "y = x + attention(norm(x)); x = y + mlp(norm(y))"),
        (PRE, "a = attention(norm(x)); x = a + x; x = mlp(norm(x)) + x"),
        (PRE, "x = x + dropout(attention(rmsnorm(x), heads=2), 0.1); x = x + mlp.wide(rmsnorm(x), hidden=64)"),
        ("u = norm(x); x = x + attention(u) + mlp(u)", "u = norm(x); x = mlp(u) + attention(u) + x"),
        ("x = x + scalar.g(0) * mlp(x) + scalar.g() * attention(x)",
         "x = scalar(1) * attention(x) + x + mlp(x) * scalar(0)"),
        (PRE, "words:\n  block(x): y = x + attention(norm(x))\nlayer: x = block(x); x = x + mlp(norm(x))\nheads: 4"),
    ],
)  # fmt: skip
def test_what_the_key_does_not_count_is_no_distance(formula: str, other: str) -> None:
    one, two = of(formula), of(other)
    assert one.key == two.key and distance(one, two) == 0
    for (_, a), (_, b) in zip(one.stacks[0], two.stacks[0], strict=True):
        assert layers_apart(a, b) == 0, "and the graphs say so by themselves"


def test_edits_are_counted() -> None:
    one_more = "x = x + attention(norm(x)); x = x + norm(mlp(norm(x)))"
    assert distance(of(PRE), of(one_more)) == 1
    assert distance(of(PRE), of("x = x + norm(attention(norm(x))); x = x + norm(mlp(norm(x)))")) == 2
    assert distance(of(PRE), of("x = x + attention(norm(x)); x = x + experts(norm(x), n=4, active=2)")) == 0.5
    shared = of("u = norm(x); x = x + attention(u) + mlp(u)")
    assert distance(shared, of("x = x + attention(norm(x)) + mlp(norm(x))")) > 0, "one norm read twice is not two"


def test_layers_are_compared_in_their_places() -> None:
    mixed = "depth: 12\nheads: 4\nlayers:\n  a: {}\n  b: {}\norder: b if layer <= {} else a"
    three = of(mixed.format(PRE, POST, 3))
    six = of(mixed.format(PRE, POST, 6))
    whole = distance(of(PRE), of(POST))
    assert distance(three, of(PRE)) == pytest.approx(whole * 3 / 12)
    assert distance(six, of(POST)) == pytest.approx(whole * 6 / 12)
    assert three.key == six.key and distance(three, six) == 0, "the key does not count how many"


def test_several_stacks_are_paired_in_order() -> None:
    both = (
        "heads: 4\nencoder:\n  causal: false\n  before: x = embed.words(source) + positions(source)\n"
        "  layer: x = x + attention(norm(x)); x = x + mlp(norm(x))\ndecoder:\n"
        "  before: x = embed.words(tokens) + positions(tokens)\n"
        "  layer: x = x + attention(norm(x)); {}x = x + mlp(norm(x))\n"
    )
    alone, crossed = of(PRE), of(both.format("x = x + attention(norm(x), memory); "))
    assert 0 < distance(alone, of(both.format(""))) < distance(alone, crossed)
    assert distance(crossed, of(both.format("x = x + attention(x, memory); "))) == 1


def test_history_and_carried_names_count() -> None:
    dense = of("x = x + attention(norm(x)) + 0.5 * x[0]")
    assert distance(dense, of("x = x + attention(norm(x))")) > 0
    assert 0 < distance(dense, of("x = x + attention(norm(x)) + 0.5 * x[layer - 1]")) <= 1
    two = "heads: 4\nbefore: x = embed(tokens); y = x\nafter: x = x + y\n"
    two += "layer: x = x + attention(norm(y)); y = y + mlp(norm({}))"
    assert 0 < distance(of(two.format("x")), of(two.format("y"))) <= 1


@pytest.mark.parametrize(
    ("formula", "nearest"),
    [
        (PRE, "pre-norm"),
        ("x = norm(x + attention(x)); x = norm(x - mlp(x))", "post-norm"),
        ("x = norm(x + attention(x)); x = norm(x + linear(x, width))", "post-norm"),
        ("x = norm(x + attention(x)); x = norm(mlp(x))", "post-norm"),
        ("x = norm(x + norm(attention(x))); x = norm(x + mlp(x))", "post-norm"),
        ("x = x + attention(norm(x)); x = x + mlp(x)", "pre-norm"),
        ("x = x + attention(norm(x)); x = x - mlp(norm(x))", "pre-norm"),
        ("x = x + conv(norm(x), 3); x = x + mlp(norm(x))", "pre-norm"),
        ("u = norm(x); x = x + mlp(u) + linear_attention(u)", "parallel"),
        ("x = x + norm(attention(norm(x))); x = x + norm(linear(norm(x), width))", "sandwich"),
        ("x = x + norm(attention(x)); x = x + norm(relu(mlp(x)))", "res-post"),
        ("y = x + attention(norm(x)); x = x + y - mlp(norm(y))", "skip-2-pre"),
        ("y = norm(x + attention(x)); x = norm(x + y + linear(y, width))", "b2t"),
        ("x = x + vector(0.1) * attention(norm(x)); x = x + vector(0.1) * mlp(x)", "layerscale"),
        ("x = x + scalar(0) * attention(x); x = x + scalar(0) * norm(mlp(x))", "skipinit"),
        ("x = norm(3 * x + attention(x)); x = norm(3 * x + mlp(x))", "deepnorm"),
        ("x = x + 0.3 * mlp(norm(x)); x = x + attention(norm(x)); x = x + 0.3 * mlp(norm(x))", "macaron"),
        ("x = attention(norm(x)); x = linear(norm(x), width)", "no-skip"),
        ("before: x = embed(tokens); y = x\nheads: 4\nlayer: x = x + attention(norm(y)); y = y + mlp(x)\n"
         "after: x = x + y", "reversible"),
    ],
)  # fmt: skip
def test_the_nearest_is_the_one_a_reader_would_name(formula: str, nearest: str) -> None:
    found = ranked(of(formula))
    least = found[0][0]
    assert nearest in [name for apart, name in found if apart == least], found[:5]


def test_random_formulas_keep_the_rules() -> None:
    dice = random.Random(3)

    def term(deep: int) -> str:
        kind = dice.randrange(7 if deep else 2)
        if kind < 2:
            return dice.choice(["x", "x", "y", "x[0]", "y[layer - 1]"])
        if kind == 2:
            return f"({term(deep - 1)} {dice.choice('+-*')} {term(deep - 1)})"
        if kind == 3:
            return f"mix({term(deep - 1)}, x[:])"
        return f"{dice.choice(['norm', 'attention', 'mlp', 'relu', '0.5 *', 'scalar(0) *'])}({term(deep - 1)})"

    shapes = []
    for _ in range(16):
        layer = f"x = {term(3)} + x\ny = {term(3)} + y\nx = x + {term(2)}"
        text = from_formula(layer).override(
            {"before": "x = embed(tokens)\ny = norm(x)", "after": "x = x + y", "depth": 3}
        )
        shapes.append(shape(check(text.override({"heads": 4, "width": 16}), vocabulary())))
    for a, b in combinations(shapes, 2):
        assert distance(a, b) == distance(b, a)
        assert (distance(a, b) >= LEAST_DISTANCE) == (a.key != b.key)


def test_a_hundred_entries_are_ranked_without_waiting() -> None:
    """The wiring with the largest graphs against all others; the limit is a few times what it takes."""
    entries = gallery.indexed()
    slowest = max(entries, key=lambda entry: sum(len(graph) for stack in entry.shape.stacks for _, graph in stack))
    taken = pace.cpu_time(lambda: ranked(slowest.shape))
    assert taken < 20 * max(pace.unit(), pace.measured_unit())
    assert len(ranked(slowest.shape)) == len(entries)


def test_what_the_key_leaves_out() -> None:
    texts = {
        PRE: {"norms": ["layernorm"], "chance": [], "scores": [], "shared": []},
        "x = x + dropout(scalar.gain(0) * attention(x), 0.1); x = x + scalar.gain() * mlp(dyt(x))": {
            "norms": ["dyt"],
            "chance": ["dropout"],
            "scores": [],
            "shared": ["scalar.gain"],
        },
        "heads: 4\ndepth: 4\nshare: 0\nlayer: x = x + mlp(x)": {
            "norms": [],
            "chance": [],
            "scores": [],
            "shared": ["layers"],
        },
    }
    alibi = "heads: 4\nwords:\n  alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)\n"
    alibi += "layer: x = x + attention(x, score=alibi)"
    texts[alibi] = {"norms": [], "chance": [], "scores": ["alibi"], "shared": []}
    for formula, wanted in texts.items():
        assert unseen(check(text_of(formula), vocabulary())) == wanted


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: read_text(d).name)
def test_layers_that_tell_how_a_deeper_stack_is_stand_for_it(document: str) -> None:
    """The wiring at depth 12, made of fewer layers or checked again, is that of the model checked at this depth."""
    text, words = read(document)
    for depth in (3, 4, 7):
        try:
            shallow = check(text.override({"depth": depth}), words)
            deep = check(text.override({"depth": WIRING_DEPTH}), words)
        except FormulaError:
            continue
        assert shape(at_wiring_depth(shallow, words)) == shape(deep)


@pytest.mark.parametrize(
    "text",
    [
        "before: x = embed(tokens); s = 0\nlayer: s = s + 1; x = x * s + mlp(norm(x))",
        "before: x = embed(tokens); a = x; b = x; c = x\nlayer: d = a; a = b; b = c; c = x; x = x + mlp(d)",
        "before: x = embed(tokens); b = 0\nlayer: a = b; b = mlp(x); x = x + a",
        "before: x = embed(tokens); a = x; b = x\nlayer: x = x + mlp(a); a = a + mlp(b); b = b + mlp(x)",
        "layer: x = x + mlp(norm(x)) if layer > 8 else x + attention(norm(x))",
        "layer: x = depth ** -0.5 * x + mlp(norm(x))",
        "layers: {a: x = x + mlp(norm(x)), b: x = x + attention(norm(x))}\norder: [a, a, a, a, b]",
    ],
)
def test_what_changes_from_layer_to_layer_is_seen(text: str) -> None:
    model, words = read_text(text), vocabulary()
    deep = check(model.override({"depth": WIRING_DEPTH}), words)
    assert shape(at_wiring_depth(check(model, words), words)) == shape(deep)
