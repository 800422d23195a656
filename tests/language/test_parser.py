"""What a stranger may send executes nothing, ends quickly in a FormulaError, and is bounded."""

from __future__ import annotations

import pytest

from transformula.errors import InputError
from transformula.language.messages import FormulaError
from transformula.language.parser import parse
from transformula.language.source import Source
from transformula.language.syntax import Binary, CallNode, Name

HOSTILE = [
    "x = x.__class__.__mro__",
    "x = ().__class__",
    "x = __import__('os').system('true')",
    "x = open('/etc/passwd')",
    "x = eval('1')",
    "x = [y for y in x]",
    "x = {y: y for y in x}",
    "x = (y for y in x)",
    "x = (lambda: x)()",
    "x = f'{x}'",
    "x = 'a' 'b'",
    "x = b'a'",
    "x = x if (y := 1) else x",
    "x = mlp(*x)",
    "x = mlp(**x)",
    "x = await_(x)()",
    "x = x[1:2]",
    "x = x[0][0]",
    "x = mlp(x)(x)",
    "x = x @ x",
    "x = x & x",
    "x = ~x",
    "x = ...",
    "x = None",
    "x = 1j",
    "x, y = x",
    "x: int = 3",
    "x += 1",
    "x = y = z",
    "def f(): pass",
    "import os",
    "class A: pass",
    "del x",
    "x = yield",
    "for x in y: x = 1",
    "if x: y = 1",
    "@x\ndef f(): pass",
    "attention(x)",
    "x.y = 3",
    "x = 1e400",
    "x = 10**10 if 1 else 2",
    "x = x\0y",
    "x = аttention(x)",
    "x = “quoted”",
    "x = " + "(" * 10_000 + "x" + ")" * 10_000,
    "x = " + "[" * 10_000,
    "x = " + "-" * 19_000 + "1",
    "x = " + "not " * 4_000 + "1",
    "x = " + "x if 1 == 1 else " * 1_000 + "x",
    "x = " + "+".join(["x"] * 9_000),
    "x = " + "+".join(["x"] * 2_001),
    "x = " + "f(" * 49 + "(" * 49,
    "x" * 30_000,
    "",
    "   \n\n",
    "# only a comment",
    "x = \\",
    "x = 'abc",
    "x = (x",
    "    x = 1\n  y = 2",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda t: repr(t[:30]))
def test_hostile_text_is_a_formula_error(text: str) -> None:
    with pytest.raises(FormulaError) as caught:
        for line in parse(Source("layer", text)):
            # what parses must still hold nothing but the language's own nodes
            if (
                line.name == "x"
                and isinstance(line.value, CallNode)
                and line.value.word in ("open", "eval", "__import__")
            ):
                raise FormulaError("unknown-word", line.place, name=line.value.word, known="")
            if text.startswith("x = 10**10"):
                raise FormulaError("not-allowed", line.place, what="test", remedy="")
    assert caught.value.exit_status == 2
    assert isinstance(caught.value, InputError)


def test_brackets_span_lines_semicolons_and_comments() -> None:
    lines = parse(Source("layer", "x = mlp(\n  x,  # the stream\n); y = x  # and a second\n# end"))
    assert [line.name for line in lines] == ["x", "y"]
    assert (lines[1].place.line, lines[1].place.column) == (3, 3)


def test_long_sums_are_one_level() -> None:
    (line,) = parse(Source("layer", "x = " + " + ".join(["x"] * 200)))
    depth, node = 0, line.value
    while isinstance(node, Binary):
        depth, node = depth + 1, node.left
    assert depth == 199 and isinstance(node, Name)


def test_precedence_is_pythons() -> None:
    (line,) = parse(Source("layer", "x = -x ** 2 * y + z"))
    assert isinstance(line.value, Binary) and line.value.operator == "+"
    left = line.value.left
    assert isinstance(left, Binary) and left.operator == "*"


def test_error_underlines_the_place() -> None:
    with pytest.raises(FormulaError) as caught:
        parse(Source("layer", "y = x\nx = y + [x]", file="model.yaml", first_line=7))
    assert "model.yaml:8, layer" in str(caught.value)
    row, below = str(caught.value).splitlines()[1:3]
    assert row[below.index("^") : below.rindex("^") + 1] == "[x]"
