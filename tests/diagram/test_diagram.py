"""Diagrams: every edge once, nothing overlaps, no line runs through a box; in pixels and in letters."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from functools import cache, partial
from itertools import combinations

import pytest

from tests.language.test_models import DOCUMENTS, read
from tests.portions import every_third
from transformula import gallery
from transformula.diagram.differences import difference
from transformula.diagram.layout import arrange
from transformula.diagram.parts import Diagram, diagrams
from transformula.diagram.svg import EQUATION, WIDTH, Sheet, draw_svg, panel
from transformula.diagram.text import diagram_text, draw_text, wrap_equation
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text
from transformula.language.model_text import from_formula
from transformula.words import vocabulary

WIRINGS = {
    "pre-norm": "x = x + dropout(attention(norm(x)), 0.1)\nx = x + dropout(mlp(norm(x)), 0.1)",
    "post-norm": "x = norm(x + dropout(attention(x), 0.1))\nx = norm(x + dropout(mlp(x), 0.1))",
    "sandwich": "x = x + norm(attention(norm(x)))\nx = x + norm(mlp(norm(x)))",
    "parallel": "u = norm(x); x = x + attention(u) + mlp(u)",
    "things": "x = x + attention(norm(x)) + attention(norm(x)) + attention(norm(x)); x = x + mlp(norm(x))",
    "macaron": "x = x + 0.5*mlp(norm(x)); x = x + attention(norm(x)); x = x + 0.5*mlp(norm(x))",
    "b2t": "y = norm(x + attention(x)); x = norm(x + y + mlp(y))",
    "skip-2": "x = norm(x); y = x + attention(x); y = norm(y); x = x + y + mlp(y)",
    "skip-2-pre": "y = x + attention(norm(x)); x = x + y + mlp(norm(y))",
    "skip-dropout": "y = dropout(x, 0.1) + attention(x); x = dropout(x, 0.2) + dropout(y, 0.1) + mlp(y)",
    "no-skip": "x = attention(norm(x)); x = mlp(norm(x))",
    "laurel": "x = scalar(1) * x + scalar(1) * attention(norm(x)) + lowrank(x, 16)",
    "gate": "g = gate(x); x = g * attention(norm(x)) + (1 - g) * x",
    "gtrxl": "x = gru_gate(x, relu(attention(norm(x)))); x = gru_gate(x, relu(mlp(norm(x))))",
    "attention-residuals": "a = attention(norm(attend(x[0], a[:], f[:]))); f = mlp(norm(attend(x[0], a[:], f[:])));"
    " x = x + a + f",
    "many-inputs": "x = x + attention(norm(x)) + mix(norm(x), relu(x), mlp(x), tanh(x), linear(x, width))",
    "twice": "x = x + x * x + dot(x, x) * attention(x)",
    "minus": "x = attention(x) - x; x = x + (x - relu(x)) / (1 + exp(x)); x = x[0] - x",
    "nested": "x = x + mlp(attention(x) * (attention(x) + relu(x) * (tanh(x) + x)))",
}
EXTRA = {
    "swap": ("t = x + attention(norm(x)); x = y; y = t", {"before": "x = embed(tokens); y = x"}),
    "three-streams": (
        "a = attention(norm(x)); x = x + a; y = y + a; z = z + mlp(norm(x + y))",
        {"before": "x = embed(tokens); y = x; z = x", "after": "x = x + y + z"},
    ),
}


def made(formula: str, name: str = "", **more: object) -> Architecture:
    return check(from_formula(formula, name), vocabulary(), {"depth": 4, "width": 64, "heads": 4, **more})


def checked(document: str) -> Architecture:
    return check(*read(document))


def every() -> dict[str, Callable[[], Architecture]]:
    """What checks each of the models of the page, of the wirings above, and of formulas made at random, by name."""
    found: dict[str, Callable[[], Architecture]] = {}
    found |= {f"models, {number}": partial(checked, document) for number, document in enumerate(DOCUMENTS)}
    found |= {name: partial(made, formula) for name, formula in WIRINGS.items()}
    found |= {name: partial(made, formula, **more) for name, (formula, more) in EXTRA.items()}
    dice = random.Random(7)

    def term(deep: int) -> str:
        kind = dice.randrange(9 if deep else 3)
        if kind < 3:
            return dice.choice(["x", "x", "y", "x[layer - 1]", "y[0]"])
        if kind == 3:
            return f"({term(deep - 1)} {dice.choice('+-*')} {term(deep - 1)})"
        if kind == 4:
            return f"gru_gate({term(deep - 1)}, {term(deep - 1)})"
        if kind == 5:
            return f"attention({term(deep - 1)}, {term(deep - 1)}, {term(deep - 1)})"
        return f"{dice.choice(['norm', 'attention', 'mlp', 'relu', 'scalar(0) *'])}({term(deep - 1)})"

    for n in range(60):
        names = [dice.choice("xxyu") for _ in range(dice.randint(1, 4))]
        formula = "\n".join(["u = x + y", *(f"{name} = {term(3)} + {name}" for name in names), "y = y + x + u"])
        found[f"random-{n}"] = partial(made, formula, before="x = embed(tokens)\ny = norm(x)", after="x = x + y")
    return found


MODELS = every()


@cache
def model(name: str) -> Architecture:
    return MODELS[name]()


def drawn(architecture: Architecture) -> list[Diagram]:
    """All pictures, definitions opened and closed."""
    names = {f.name for s in architecture.sections() for v in s.values for f in v.frames}
    return diagrams(architecture, whole=True) + (diagrams(architecture, True, names) if names else [])


Box = tuple[float, float, float, float]


def apart(a: Box, b: Box, by: float = 0.0) -> bool:
    return a[0] + a[2] <= b[0] + by or b[0] + b[2] <= a[0] + by or a[1] + a[3] <= b[1] + by or b[1] + b[3] <= a[1] + by


def stretch(a: tuple[float, float], b: tuple[float, float]) -> Box:
    return min(a[0], b[0]), min(a[1], b[1]), abs(a[0] - b[0]), abs(a[1] - b[1])


@pytest.mark.parametrize("name", every_third(MODELS))
def test_nothing_overlaps(name: str) -> None:
    architecture = model(name)
    for picture in drawn(architecture):
        layout = arrange(picture)
        wanted = [(s, n, port) for n, part in enumerate(picture.parts) for port, s in enumerate(part.inputs)]
        assert sorted((e.source, e.target, e.port) for e in layout.edges) == sorted(wanted)
        shown = panel(picture)
        texts = [text[:4] for text in shown.texts]
        for a, b in combinations([*shown.boxes, *texts], 2):
            assert apart(a, b), (picture.title, a, b)
        taken: list[tuple[int, Box]] = []
        for source, target, port, points in shown.edges:
            if picture.parts[target].ordered and port == 0:  # a - b: a comes from above
                assert points[-2][0] == points[-1][0]
            for a, b in zip(points, points[1:], strict=False):
                assert a[0] == b[0] or a[1] == b[1]
                line = stretch(a, b)
                for n, box in enumerate(shown.boxes):
                    if n in (source, target):  # its ends are touched, never entered
                        inner = (box[0] + 0.1, box[1] + 0.1, box[2] - 0.2, box[3] - 0.2)
                        assert apart(line, inner), (picture.title, picture.parts[n].label)
                    else:
                        wide = (line[0] - 1, line[1] - 1, line[2] + 2, line[3] + 2)
                        assert apart(wide, box), (picture.title, picture.parts[n].label, line)
                assert all(apart(line, text) for text in texts)
                taken.append((source, line))
        for (one, a), (other, b) in combinations(taken, 2):
            if one != other and (a[2] == 0) == (b[2] == 0):  # lines of two sources cross, and never run together
                assert apart((a[0] - 1, a[1] - 1, a[2] + 2, a[3] + 2), (b[0] - 1, b[1] - 1, b[2] + 2, b[3] + 2))


@pytest.mark.parametrize("name", every_third(MODELS))
def test_text_fits_a_terminal(name: str) -> None:
    architecture = model(name)
    for picture in drawn(architecture):
        rows = diagram_text(picture)
        assert max(map(len, rows)) <= 78, rows
        joined = "\n".join(rows)
        for part in picture.parts:
            if part.sort in ("enter", "leave"):
                assert part.label[:4] in joined
        assert "\n".join(diagram_text(picture, ascii=True)).isascii()
    assert draw_text(architecture) == draw_text(architecture)


@pytest.mark.parametrize("name", every_third(MODELS))
def test_svg_is_a_document_of_its_own(name: str) -> None:
    architecture = model(name)
    for dark in (None, True, False):
        text = draw_svg(architecture, whole=True, dark=dark)
        root = ElementTree.fromstring(text)
        kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert kinds <= {"svg", "title", "desc", "style", "g", "rect", "circle", "path", "polygon", "text"}
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
        assert ("prefers-color-scheme" in text) == (dark is None)
    assert text == draw_svg(architecture, whole=True, dark=False)


@pytest.mark.parametrize("name", ["pre-norm", "post-norm", "sandwich", "parallel", "macaron", "b2t", "skip-2", "gate"])
def test_ordinary_layers_are_read_at_eight_centimetres(name: str) -> None:
    root = ElementTree.fromstring(draw_svg(made(WIRINGS[name])))
    points = EQUATION * (8 / 2.54 * 72) / float(root.attrib["width"])
    assert float(root.attrib["width"]) <= WIDTH + 16 and points >= 6.2
    sizes = [float(e.attrib["font-size"]) for e in root.iter() if "font-size" in e.attrib]
    assert min(sizes) >= EQUATION


def test_the_pre_norm_layer_as_text() -> None:
    assert draw_text(made("x = x + attention(norm(x))\nx = x + mlp(norm(x))")).splitlines() == [
        "layers 1–4  × 4",
        "  x",
        "  ├────────┐",
        "  │     [norm]      x = x + attention(norm(x))",
        "  │   [attention]",
        "  ⊕◄───────┘",
        "  ├────────┐",
        "  │     [norm]      x = x + mlp(norm(x))",
        "  │      [mlp]",
        "  ⊕◄───────┘",
        "  x",
    ]


def test_two_streams_share_a_branch() -> None:
    document = next(d for d in DOCUMENTS if "name: residual2" in d)
    picture = diagrams(check(*read(document)))[0]
    assert [picture.parts[path[0]].label for path in picture.paths] == ["x", "r"]
    assert picture.layers == list(range(1, 13))
    layout = arrange(picture)
    assert layout.places[picture.paths[1][0]][0] == layout.columns - 1


def test_equal_layers_are_drawn_once() -> None:
    text = "x = x + attention(norm(x)) if layer % 3 == 0 else norm(x + mlp(x))"
    assert [(p.title, p.times) for p in diagrams(made(text, depth=12))] == [
        ("layers 1–2, 4–5, 7–8, 10–11", "× 8"),
        ("layers 3, 6 … 12", "× 4"),
    ]
    shared = diagrams(check(read_text("depth: 6\nwidth: 64\nheads: 4\nshare: 0\nlayer: x = x + mlp(x)"), vocabulary()))
    assert shared[0].times == "× 6, shared weights"


def test_definitions_are_one_box_until_opened() -> None:
    document = next(d for d in DOCUMENTS if "name: mla" in d)
    architecture = check(*read(document))
    closed, opened = draw_text(architecture), draw_text(architecture, opened=["latent"])
    assert "[latent]" in closed and "dot_attention(" not in closed
    assert opened.count("inside latent") == 1
    assert "[dot_attention]" in opened or "[dot_" in opened


def test_history_names_its_layers() -> None:
    picture = diagrams(made("x = x + scalar(0) * x[0] + mlp(norm(x))"))[0]
    assert [p.label for p in picture.parts if p.sort == "source"] == ["x[0]"]
    assert list(picture.past.values()) == [("x", "", [0])]


def test_labels_are_escaped() -> None:
    text = made("x = x + mlp(norm(x)) if layer < 3 else x + relu(x)  # <&>", name="a <b> & 'c'")
    root = ElementTree.fromstring(draw_svg(text))
    assert root[0].text is not None and root[0].text.startswith("a <b> & 'c'")


def test_a_difference_marks_what_changed() -> None:
    found = difference(made(WIRINGS["pre-norm"], "pre"), made(WIRINGS["post-norm"], "post"))
    assert not found.equal
    (change,) = found.data["changes"]
    assert sorted(change["parts"]) == [("+", "norm"), ("-", "norm")]
    assert ("-", "norm", "attention") in change["edges"] and ("+", "x", "attention") in change["edges"]
    shown = repr(found)
    assert "- x = x + dropout(attention(norm(x)), 0.1)" in shown and "[- norm]" in shown and "[+ norm]" in shown
    assert found.text(ascii=True).isascii()
    assert max(map(len, shown.splitlines())) <= 78
    ElementTree.fromstring(found.svg())


def test_a_model_does_not_differ_from_itself() -> None:
    for architecture in map(model, [*MODELS][:12]):
        assert difference(architecture, architecture).equal
    numbers = difference(made("x = x + dropout(mlp(x), 0.1)"), made("x = x + dropout(mlp(x), 0.2)"))
    assert not numbers.equal and "the same parts, joined alike" in repr(numbers)


def document(name: str) -> Architecture:
    """A model of the page."""
    return checked(next(d for d in DOCUMENTS if f"name: {name}\n" in d))


def test_several_stacks_stand_beside_each_other() -> None:
    sheet = Sheet(diagrams(document("vaswani")), True)
    assert [column.stack for column in sheet.columns] == ["encoder", "decoder"]
    first, second = sheet.columns
    assert first.left + first.width < second.left and sheet.tops[0] == sheet.tops[1]
    assert list(sheet.arcs) == [(0, 1)], "the decoder reads the encoder; no residual path leads there"
    assert not any(sheet.follows(n, m) for n in (0, 1) for m in (0, 1) if n < m)
    other = Sheet(diagrams(document("clip")), True)
    assert len(other.columns) == 2 and not other.arcs
    whole = Sheet(diagrams(document("vaswani"), whole=True), True)
    assert whole.panels[-1].diagram.where == "output" and whole.column_of[len(whole.panels) - 1] == 1


def test_a_line_of_history_serves_all_readers_of_a_picture() -> None:
    both = check(gallery.load("attention-residuals"), vocabulary())
    sheet = Sheet(diagrams(both), True)
    assert [(*ends, len(set(rows))) for ends, rows in sheet.arcs.items()] == [(0, 1, 4), (1, 1, 4)]
    assert not sheet.follows(0, 1), "what leaves is not what enters"
    assert Sheet(diagrams(check(gallery.load("unet"), vocabulary())), True).follows(0, 1)


def test_definitions_stand_after_the_layers() -> None:
    shown = diagrams(check(gallery.load("value-residual"), vocabulary()), opened=["residual"])
    assert [(p.title, p.times) for p in shown] == [
        ("layer 1", ""),
        ("layers 2–6", "× 5"),
        ("inside residual", "layer 1"),
        ("inside residual", "layers 2–6"),
    ]


def test_inputs_of_a_definition_have_their_names() -> None:
    inside = next(p for p in diagrams(document("xlnet"), opened=["xl"]) if p.title == "inside xl")
    assert [p.label for p in inside.parts if p.sort == "enter"] == ["g", "h", "r", "rank"]


def test_equations_break_where_a_reader_would() -> None:
    rows = wrap_equation("x = x + dropout(attention(norm(x), size=64, scale=1, bias=False, scores=b))", 22)
    assert rows == ["x = x + dropout(", "  attention(norm(x),", "  size=64, scale=1,", "  bias=False,", "  scores=b))"]
    assert wrap_equation("x = norm(x)", 40) == ["x = norm(x)"]
    assert wrap_equation("a" * 9, 4) == ["aaaa", "  aa", "  aa", "  a"]
    for width in range(8, 60):
        rows = wrap_equation("x = norm(x + very_long_name.with_label(attention(norm(x), memory), width))", width)
        assert all(len(row) <= width for row in rows)
        assert "".join("".join(rows).split()) == "x=norm(x+very_long_name.with_label(attention(norm(x),memory),width))"


def test_several_figures_of_one_page() -> None:
    """Ids of their own, and colors from the page."""
    texts = [draw_svg(made(WIRINGS["pre-norm"]), figure=name) for name in ("one", "two")]
    for name, text in zip(("one", "two"), texts, strict=True):
        root = ElementTree.fromstring(text)
        assert root.attrib["aria-labelledby"] == f"{name}-title {name}-desc"
        assert {e.attrib["id"] for e in root.iter() if "id" in e.attrib} == {f"{name}-title", f"{name}-desc"}
        assert "#" not in text and "<style>" not in text and 'class="fink"' in text


@pytest.mark.parametrize(
    ("body", "inside"),
    [
        ("linear.down(gelu(linear.up(x, 64)), width)", "channels"),
        ("norm(attention(x))", "positions"),
        ("2 * layernorm(x)", "norm"),
        ("x * sqrt(width) + vector(0)", ""),
    ],
)
def test_a_definition_is_colored_by_what_is_inside(body: str, inside: str) -> None:
    text = read_text(f"words:\n  mine: y = {body}\nlayer: x = x + mine(norm(x))")
    found = [part for picture in diagrams(check(text, vocabulary())) for part in picture.parts]
    assert [part.inside for part in found if part.sort == "definition"] == [inside]
    drawn = draw_svg(check(text, vocabulary()))
    box = drawn[: drawn.index(">mine<")].rsplit("<rect", 2)[1]
    assert f"f{inside or 'plain'}" in box
