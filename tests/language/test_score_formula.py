"""Definitions over scores: what a call makes of them, what they may read, what is said of what they may not."""

from __future__ import annotations

from typing import Any

import pytest

from transformula.analysis.accounting import summary
from transformula.analysis.canonical import canonical, formula_hash, wiring_key
from transformula.analysis.receptive_field import positional_encodings
from transformula.language.check import check
from transformula.language.graph import Architecture, Call, ScoreFormula
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.language.score_binding import Range, range_of
from transformula.words import vocabulary

ATTEND = "x = x + attention(x, score=f)"


def checked(definition: str, layer: str = ATTEND, **more: Any) -> Architecture:
    """A small model with one definition, "f(s, h, i, j): s = ..."."""
    header, _, body = definition.partition(":")
    numbers = {"depth": 2, "width": 32, "heads": 4, "context": 20, **more}
    rows = [f"{key}: {value}" for key, value in numbers.items()]
    lines = body.strip().split(";")
    rows += ["words:", f'  "{header}": |', *(f"    {line.strip()}" for line in lines), "layer: |"]
    rows += [f"  {line.strip()}" for line in layer.split(";")]
    return check(read_text("\n".join(rows)), vocabulary())


def call_of(architecture: Architecture, layer: int = 1) -> Call:
    """The first call of attention in a layer."""
    return next(c.call for c in architecture.main.layers[layer - 1].calls() if c.call and "score" in c.call.options)


def bound(definition: str, layer: int = 1, **more: Any) -> ScoreFormula:
    found = call_of(checked(definition, **more), layer).options["score"]
    assert isinstance(found, ScoreFormula)
    return found


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("f(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)", "(s - ((2 ** ((-8 * h) / 4)) * (i - j)))"),
        ("f(s, h): s = 0 * 3 + s * 1 + 2 ** 0 - 1", "((s + 1) - 1)"),
        ("f(s, i, j): d = i - j; s = s + d * d", "%1 = (i - j); (s + (%1 * %1))"),
        ("f(s, i, j): s = s if i - j < width else -1e6", "(s if ((i - j) < 32) else -1000000)"),
        ("f(s, i, j): s = s if width < 4 else max(s, i - j, 0)", "max(max(s, (i - j)), 0)"),
        (
            "f(s, i, j): s = s if 1 < i - j <= 3 and 2 > 1 else 0",
            "%1 = (i - j); (s if ((1 < %1) and (%1 <= 3)) else 0)",
        ),
        ("f(s, i, j): s = s + layer * (i - j)", "(s + (i - j))"),
        ("f(s, j): s = -s + log(1 + rank(j)) // 2 % 3 - pi / pi", "(((-s) + ((log((1 + rank(j))) // 2) % 3)) - 1)"),
    ],
)
def test_numbers_are_folded(definition: str, text: str) -> None:
    assert str(bound(definition)).partition(" {")[2] == f"{text}}}"


def test_a_definition_of_s_alone_is_an_ordinary_one() -> None:
    """Streams may be called s: a formula over scores has h, i or j among its parameters."""
    with pytest.raises(FormulaError, match="of s alone it is a word"):
        bound("f(s): s = 2 * s")


def test_layers_whose_formulas_are_equal_are_one_run() -> None:
    same = checked("f(s, h, i, j): s = s - h * (i - j)")
    assert "layers 1-2:" in canonical(same)
    assert call_of(same, 1).options["score"] is call_of(same, 2).options["score"]
    other = checked("f(s, h, i, j): s = s - layer * h * (i - j)")
    assert "layer 1:" in canonical(other) and "layer 2:" in canonical(other)
    assert formula_hash(same) != formula_hash(other) and wiring_key(same) == wiring_key(other)


def test_the_hash_is_of_what_is_computed() -> None:
    one = checked("f(s, h, i, j): s = s - 2 * 3 * (i - j)")
    assert formula_hash(one) == formula_hash(checked("f(s, h, i, j): d = i - j; s = s - 6 * d"))
    assert formula_hash(one) != formula_hash(checked("f(s, h, i, j): s = s - 7 * (i - j)"))
    again = check(read_text(write_text(one.text)), vocabulary())
    assert formula_hash(again) == formula_hash(one)


@pytest.mark.parametrize(
    ("definition", "adds", "fixed", "ordered"),
    [
        ("f(s, h, i, j): s = s - h * (i - j)", True, True, True),
        ("f(s, i, j): s = 3 * (i - j) + s", True, True, True),
        ("f(s, i, j): s = s if i - j < 4 else s - 9", True, True, True),
        ("f(s, i, j): s = s * (i - j)", False, False, True),
        ("f(s, i, j): s = (i - j) - s", False, False, True),
        ("f(s, h): s = min(s, h)", False, False, False),
        ("f(s, i, j): s = s + (1 if document(i) == document(j) else 0)", True, False, False),
        ("f(s, h, i, j): s = s + table(h, i - j)", True, False, True),
        ("f(h, i, j): s = h * (i - j)", False, False, True),
    ],
)
def test_what_kind_it_is(definition: str, adds: bool, fixed: bool, ordered: bool) -> None:
    """What only adds goes through PyTorch's attention; what is of positions alone is made once."""
    found = bound(definition)
    assert (found.adds, found.fixed, found.ordered) == (adds, fixed, ordered)


@pytest.mark.parametrize(
    ("index", "causal", "columns", "first", "longest"),
    [
        ("i - j", "true", 20, 0, 20),
        ("i - j", "false", 39, -19, 20),
        ("j - i", "true", 20, -19, 20),
        ("min(i - j, 7)", "true", 8, 0, 0),
        ("max(min(i - j, 7), -7)", "false", 15, -7, 0),
        ("(i - j) % 5", "false", 5, 0, 0),
        ("(i - j) // 4", "true", 5, 0, 20),
        ("log(i - j + 1)", "true", 3, 0, 20),
        ("min(max(rank(j), 0), 3)", "true", 4, 0, 0),
        ("sqrt(abs(i - j))", "false", 5, 0, 20),
        ("h // 2", "true", 3, 0, 0),
        ("3 if i - j < 2 else 1", "true", 3, 1, 0),
    ],
)
def test_tables_are_as_large_as_their_arguments_reach(
    index: str, causal: str, columns: int, first: int, longest: int
) -> None:
    found = bound(f"f(s, h, i, j): s = s + table(h, {index})", causal=causal)
    assert found.longest == longest
    (table,) = found.tables
    assert (table.name, table.rows, table.row, table.columns, table.column) == ("table", 4, 1, columns, first)


def test_ranges() -> None:
    a, b = Range(-3, 5, True), Range(2, 4, True)
    given = [("+", -1, 9), ("-", -7, 3), ("*", -12, 20), ("/", -1.5, 2.5), ("//", -2, 2), ("%", 0, 3)]
    given += [("min", -3, 4), ("max", 2, 5)]
    for op, low, high in given:
        assert range_of(op, [a, b], 0, 4, 9) == Range(low, high, op != "/")
    assert range_of("abs", [a], 0, 4, 9) == Range(0, 5, True)
    assert range_of("neg", [a], 0, 4, 9) == Range(-5, 3, True)
    assert range_of("**", [b, a], 0, 4, 9) == Range(1 / 64, 1024)
    for op, args in (("/", [b, a]), ("log", [a]), ("sqrt", [a]), ("**", [a, b]), ("input", []), ("%", [b, a])):
        assert not range_of(op, args, "rank", 4, 9).finite
    assert range_of("exp", [Range(0, 1e9)], 0, 4, 9).high == float("inf")


def test_tables_are_counted_and_named() -> None:
    plain = summary(checked("f(s, h, i, j): s = s - h * (i - j)")).modules
    counted = summary(checked("f(s, h, i, j): s = s + table(h, i - j) + table(1, min(i - j, 3))")).modules
    assert counted["layers.1.attention"] == plain["layers.1.attention"] + 4 * 20 + 4


def test_inputs_are_ports_of_the_call() -> None:
    definition = "f(s, i, j): s = s + rank(i) - rank(j) if document(i) == document(j) else s"
    architecture = checked(definition)
    section = architecture.main.layers[1]
    value = next(v for v in section.calls() if v.call and v.call.word.name == "attention")
    assert value.call is not None and value.call.ports == ("document", "rank")
    assert [(a.op, a.name, a.kind) for a in value.args[1:]] == [
        ("input", "document", "input"),
        ("input", "rank", "input"),
    ]
    assert {"document", "rank", "x"} == set(section.reads)
    assert "document=document, " in canonical(architecture)
    rows = summary(architecture).rows
    plain = summary(checked("f(s, i, j): s = s + i - j")).rows
    # both inputs are kept once, by the first layer
    assert [r.costs.cache_bytes for r in rows if r.costs.cache_bytes] == [2 * 32 * 4 + 2 * 4, 2 * 32 * 4]
    assert [r.costs.cache_bytes for r in plain if r.costs.cache_bytes] == [2 * 32 * 4]


@pytest.mark.parametrize(
    ("definition", "positions"),
    [
        ("f(s, i, j): s = s - (i - j)", False),
        ("f(s, h, i, j): s = s - table(h, i - j)", False),
        ("f(s, h): s = max(s, -h)", True),
        ("f(s, i, j): s = s if document(i) == document(j) else -9", True),
    ],
)
def test_positions_are_told_apart_by_a_score_over_them(definition: str, positions: bool) -> None:
    """Then `before`, left out, needs no positions; what reads no position tells none apart."""
    architecture = checked(definition)
    words = [v.call.word.name for v in architecture.main.before.calls() if v.call]
    assert ("positions" in words) == positions
    told = [encoding.words for encoding in positional_encodings(architecture.main)]
    assert told == (["learned positions"] if positions else ["the score formula f"])


@pytest.mark.parametrize(
    ("definition", "layer", "message"),
    [
        ("f(s, i, j): s = i < j", ATTEND, "a score is a number, and a test is for mask="),
        ("f(i, j): m = i - j", "x = x + attention(x, mask=f)", "a mask is a test"),
        ("f(s, i, j): m = s < i", "x = x + attention(x, mask=f)", "a mask is over h, i and j"),
        ("f(x): y = 2 * x", ATTEND, "its parameters are not among s, h, i, j"),
        ("f(s): s = 2 * s", ATTEND, "of s alone it is a word"),
        ("f(s, i, j): s = s + (i < j)", ATTEND, "a test is no number"),
        ("f(s, i, j): s = s if i < j else i < j", ATTEND, "one side is a number, the other a test"),
        ("f(s, i, j): d = i - j; s = s + i", ATTEND, "'d' is never read"),
        ("f(s, i, j): width = 3; s = s + width * i", ATTEND, "a number here"),
        ("f(s, i, j): rank = 3; s = s + rank * i", ATTEND, "an input of the task"),
        ("f(s, i, j): s = i - j", ATTEND, "'s' cannot stand in a formula over scores: the result does not depend"),
        ("f(s, h, i, j): t = table(h, i - j); s = s + 0 * t", ATTEND, "the result does not depend on it"),
        ("f(s, i, j): s = s + h", ATTEND, "nothing has that name here"),
        ("f(s, i, j): s = s + norm(i)", ATTEND, "it is not one of its functions"),
        ("f(s, i, j): s = s + x[1]", ATTEND, "only scores and positions are seen here"),
        ("f(s, i, j): s = s + document", ATTEND, r"document\(i\) or document\(j\)"),
        ("f(s, i, j): s = s + document(i + 1)", ATTEND, "an input is read at the position i or j"),
        ("f(s, i, j): i = j; s = s + i + rank(i)", ATTEND, "it has become another value here"),
        ("f(s, i, j): s = s + image(i)", ATTEND, "it is not one number a position"),
        ("f(h, i, j): m = table(h, i - j) < 1", "x = x + attention(x, mask=f)", "a test has no gradient"),
        ("f(s, h, i, j): s = s + table(h, s)", ATTEND, "not by what is learned or by a score"),
        ("f(s, h, i, j): s = s + table(h, rank(i))", ATTEND, "nothing says how far it goes"),
        ("f(s, h, i, j): s = s + table(h, 9 / (i - j))", ATTEND, "nothing says how far it goes"),
        ("f(s, h, i, j): s = s + table(h)", ATTEND, "it is not one of its functions"),
        ("f(s, i, j): s = s / (3 - 3)", ATTEND, "division by zero"),
        ("f(s, i, j): s = s + exp(1, 2)", ATTEND, "exp"),
        ("f(s, i, j): s = s - (i - j)", "x = x + f(x)", "a definition over scores"),
        ("f(s, i, j): s = s - (i - j)", "x = x + attention(x, score=f, scores=x)", "scores"),
        ("f(s, i, j): s = s - (i - j)", "x = x + attention(x, score=f, scores=3)", "scores"),
    ],
)
def test_mistakes_are_named(definition: str, layer: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message) as error:
        checked(definition, layer)
    assert "^" in str(error.value)


def test_an_input_of_another_sequence_is_refused() -> None:
    text = """
words:
  same(i, j): m = document(i) == document(j)
encoder:
  causal: false
  before: x = embed.words(source)
  layer: x = x + attention(x, mask=same)
decoder:
  before: x = embed.words(tokens)
  layer: x = x + attention(x, memory)
"""
    with pytest.raises(FormulaError, match="it belongs to the sequence 'tokens', the queries here to 'source'"):
        check(read_text(text), vocabulary())
    across = text.replace("attention(x, mask=same)", "attention(x)").replace("memory)", "memory, mask=same)")
    with pytest.raises(FormulaError, match="it belongs to the sequence 'tokens', the keys here to 'source'"):
        check(read_text(across), vocabulary())
    own = across.replace("\nwords:", "\ninputs: {segment: source}\nwords:").replace("document(j)", "segment(j)")
    found = check(read_text(own), vocabulary()).main.layers[0]
    assert next(v.call for v in found.calls() if v.call and v.call.ports).ports == ("document", "segment")


def test_numbers_of_a_stack_and_of_layers_that_are_not_built() -> None:
    text = """
words:
  near(s, i, j): s = s - slope * (i - j)
encoder:
  slope: 3
  before: x = embed.words(tokens)
  layer: x = x + attention(x, score=near) if layer == 1 else x
"""
    found = check(read_text(text), vocabulary()).main.layers[0]
    assert "(3 * (i - j))" in str(next(v.call for v in found.calls() if v.call and v.call.given).options["score"])  # type: ignore[union-attr]
    with pytest.raises(FormulaError, match="slope"):
        check(read_text(text.replace("  slope: 3\n", "")), vocabulary())
