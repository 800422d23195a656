"""Short mixing of neighbors beside attention, and values of the first layer in later ones."""

from __future__ import annotations

from collections.abc import Iterator

from ...language.syntax import CallNode, spell
from ..edit import Edit, edits
from ..sketch import Formula, Sketch, input_of, shaped

# Definitions that mix each position with those before it: header, body, whether it is the identity at first, in words.
MIXED = (
    ("near(x)", "y = x + conv(x, 4, depthwise=True, bias=False)", False, "a short convolution, as in Canon"),
    (
        "near(x)",
        "y = x + scalar(0) * conv(x, 4, depthwise=True, bias=False)",
        True,
        "a short convolution, times 0 at first",
    ),
    ("shifted(x)", "y = join(part(x, 1, 2), shift(part(x, 2, 2)))", False, "half the channels of the position before"),
)
# What attention's own projections may pass through, for which it is written out.
OPEN = "q = {q}\nk = {k}\nv = {v}\ny = linear.output(dot_attention({rq}, {rk}, v), width{bias})"


@edits.register("mixed-neighbors")
def mixed_neighbors(sketch: Sketch) -> Iterator[Edit]:
    """f(norm(x)) -> f(near(norm(x))): what a sublayer reads, or the stream, passes through a short mixing"""
    for formula in sketch.formulas:
        calls = [(call, read) for _, call in formula.sublayers() if (read := input_of(call)) is not None]
        for header, body, neutral, words in MIXED:
            text = sketch.with_definition(sketch.text, header, body)
            if text is None:
                continue
            name, base = header.partition("(")[0], formula.on(text)
            pairs = [(read, shaped(f"{name}(r)", r=read)) for _, read in calls]
            for (call, _), pair in zip(calls, pairs, strict=True):
                yield Edit(base.with_nodes([pair]), f"what {call.word} reads passes through {words}", neutral)
            if len(pairs) > 1:
                yield Edit(base.with_nodes(pairs), f"what each sublayer reads passes through {words}", neutral)
            stream = ("x", shaped(f"{name}(x)"))
            rows = [(line.name, line.value) for line in formula.lines]
            yield Edit(base.with_lines([stream, *rows]), f"the stream of each layer passes through {words}", neutral)


@edits.register("mixed-projections")
def mixed_projections(sketch: Sketch) -> Iterator[Edit]:
    """Queries, keys and values pass through a short convolution, each its own, as in Primer."""
    for formula, call, options in plain_attention(sketch):
        mixed = "conv.{0}_mixed(linear.{0}(x, width{1}), 3, depthwise=True, bias=False)"
        parts = {key: mixed.format(name, options["bias"]) for key, name in NAMES.items()}
        yield from opened(
            sketch, formula, call, parts, options, "queries, keys and values pass through a short convolution"
        )


@edits.register("first-values")
def first_values(sketch: Sketch) -> Iterator[Edit]:
    """Values of attention are mixed with those of the first layer, as in value residual (ResFormer)."""
    for formula, call, options in plain_attention(sketch):
        if len(formula.lines) != 2 or len(sketch.formulas) > 1:
            continue
        plain = {key: f"linear.{name}(x, width{options['bias']})" for key, name in NAMES.items()}
        weighed = {
            "0.5 * {0} + 0.5 * first": ("halves of both", False),
            "scalar(1) * {0} + scalar(0) * first": ("learned, 1 and 0 at first", True),
        }
        for template, (words, neutral) in weighed.items():
            value = f"{plain['v']} if layer == 1 else {template.format(plain['v'])}"
            body = body_of({**plain, "v": value}, options)
            text = sketch.with_definition(sketch.text, "attention(x, first)", body)
            if text is None:
                continue
            new = shaped("attention(r, 0 if layer == 1 else v[1])", r=call.items[0])
            rows = []
            for line in formula.on(text).lines:
                rows.append((line.name, formula.replaced(line.value, call, new)))
                if rows[-1][1] is not line.value:
                    rows.append(("v", shaped("attention.v")))
            yield Edit(
                formula.on(text).with_lines(rows), f"values are mixed with those of the first layer: {words}", neutral
            )


NAMES = {"q": "query", "k": "key", "v": "value"}


def plain_attention(sketch: Sketch) -> Iterator[tuple[Formula, CallNode, dict[str, str]]]:
    """Calls of attention over one stream that can be written out, with the options that are kept."""
    if "attention" in {header.partition("(")[0] for header in sketch.text.words}:
        return
    for formula in sketch.formulas:
        for _, call in formula.sublayers():
            stated = {line.name: spell(line.value) for line in call.options}
            if call.word == "attention" and len(call.items) == 1 and stated.keys() <= {"rotary", "bias"}:
                bias = f", bias={stated['bias']}" if "bias" in stated else ""
                yield formula, call, {"bias": bias, "rotary": stated.get("rotary", "0")}


def body_of(parts: dict[str, str], options: dict[str, str]) -> str:
    """The body of attention, written out."""
    turned = "rotary({0}, base=" + options["rotary"] + ")" if options["rotary"] != "0" else "{0}"
    return OPEN.format(**parts, rq=turned.format("q"), rk=turned.format("k"), bias=options["bias"])


def opened(
    sketch: Sketch, formula: Formula, call: CallNode, parts: dict[str, str], options: dict[str, str], words: str
) -> Iterator[Edit]:
    """The model whose attention is written out, with other projections."""
    text = sketch.with_definition(sketch.text, "attention(x)", body_of(parts, options))
    if text is not None:
        yield Edit(formula.on(text).with_node(call, shaped("attention(r)", r=call.items[0])), words)
