"""Formulas turned into encoders and decoders: what is repeated, under which names, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from transformula import Model
from transformula.analysis.canonical import formula_hash
from transformula.errors import InputError, UnknownName
from transformula.families.conversion import as_decoder, as_encoder, as_encoder_decoder, of_family
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import ModelText, from_formula
from transformula.language.source import Source
from transformula.words import vocabulary

WORDS = vocabulary()


def decoder_layer(formula: str) -> str:
    """A layer's formula as a decoder's."""
    text = as_decoder(from_formula(formula.replace("; ", "\n")), WORDS)
    return text.stacks[0].layers["layer"].text.replace("\n", "; ")


ONE, MEMORY, MLP = "x = x + attention(norm(x))", "x = x + attention(norm(x), memory)", "x = x + mlp(norm(x))"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (f"{ONE}; {MLP}", f"{ONE}; {MEMORY}; {MLP}"),
        # a sublayer of several lines; one whose norm is used again; one that leaves under another name
        (f"u = norm(x); x = x + attention(u); {MLP}", f"u = norm(x); x = x + attention(u); u = norm(x); "
         f"x = x + attention(u, memory); {MLP}"),
        ("u = norm(x); x = x + attention(u); x = x + mlp(u)", "u = norm(x); x = x + attention(u); "
         "u_memory = norm(x); x = x + attention(u_memory, memory); x = x + mlp(u)"),
        ("y = x + attention(norm(x)); x = y + mlp(norm(y))", "y = x + attention(norm(x)); "
         "y = y + attention(norm(y), memory); x = y + mlp(norm(y))"),
        ("x = norm(x); y = x + attention(x); x = y + mlp(norm(y))", "x = norm(x); y = x + attention(x); "
         "y = norm(y); y = y + attention(y, memory); x = y + mlp(norm(y))"),
        (f"x = mix(x[:]); {ONE}; {MLP}", f"x = mix(x[:]); {ONE}; {MEMORY}; {MLP}"),
        # joined in a later line, by gates that have matrices too
        (f"f = attention(norm(x)); g = sigmoid(linear(x, width)); x = g * f + (1 - g) * x; {MLP}",
         "f = attention(norm(x)); g = sigmoid(linear(x, width)); x = g * f + (1 - g) * x; "
         f"f = attention(norm(x), memory); g = sigmoid(linear(x, width)); x = g * f + (1 - g) * x; {MLP}"),
        ("f = attention(norm(x)); y = x + f; x = y + mlp(norm(y))", "f = attention(norm(x)); y = x + f; "
         "f = attention(norm(y), memory); y = y + f; x = y + mlp(norm(y))"),
        # parallel, in one line and in several
        ("x = norm(x + attention(x) + 0.5 * mlp(x))",
         "x = norm(x + attention(x) + attention(x, memory) + 0.5 * mlp(x))"),
        ("a = attention(norm(x)); f = mlp(norm(x)); x = x + a + f", "a = attention(norm(x)); "
         "a_memory = attention(norm(x), memory); f = mlp(norm(x)); x = x + (a + a_memory) + f"),
        # two attentions; one in another's place for some layers
        ("x = x + attention(norm(x)) - attention(norm(x), heads=2)", "x = x + attention(norm(x)) - "
         "attention(norm(x), heads=2); x = x + attention(norm(x), memory) - attention(norm(x), memory, heads=2)"),
        (f"x = x + attention(norm(x)) if layer > 1 else x; {MLP}", "x = x + attention(norm(x)) if layer > 1 else x; "
         f"x = x + attention(norm(x), memory) if layer > 1 else x; {MLP}"),
        # options of distances go, others stay; labels are told apart, those that are shared stay
        ('x = x + attention.a(norm(x), rotary=100, window=4, qk_norm="head", bias=False)',
         'x = x + attention.a(norm(x), rotary=100, window=4, qk_norm="head", bias=False); '
         'x = x + attention.a_memory(norm(x), memory, qk_norm="head", bias=False)'),
        ("x = x + scalar.g(0) * attention(norm.a(x)); x = x + scalar.g() * mlp(norm(x))",
         "x = x + scalar.g(0) * attention(norm.a(x)); x = x + scalar.g(0) * attention(norm.a_memory(x), memory); "
         "x = x + scalar.g() * mlp(norm(x))"),
        # taps are of the attention that they were of
        ("y = attention(norm(x)); x = x + y + attention.q", "y = attention.attention(norm(x)); "
         "x = x + y + attention.q; y = attention.cross_attention(norm(x), memory); x = x + y + cross_attention.q"),
        (f"x = x + linear_attention(norm(x), heads=2); {MLP}",
         f"x = x + linear_attention(norm(x), heads=2); x = x + attention(norm(x), memory, heads=2); {MLP}"),
    ],
)  # fmt: skip
def test_the_sublayer_is_repeated(formula: str, expected: str) -> None:
    assert decoder_layer(formula) == expected


def over_memory(words: dict[str, str], layer: str) -> dict[str, str]:
    """The definitions that a decoder adds to these, and the line that it adds to the layer."""
    given = {key: Source(f"definition {key}", value.replace("; ", "\n")) for key, value in words.items()}
    text = as_decoder(dataclasses.replace(from_formula(layer), words=given), WORDS)
    made = {key: value.text.replace("\n", "; ") for key, value in text.words.items() if key not in words}
    return {**made, "layer": text.stacks[0].layers["layer"].text.splitlines()[1]}


def test_a_definition_over_a_memory() -> None:
    """Lines of keys and values read the memory, a line that queries need, too, is made twice; distances are gone."""
    words = {
        "near(i, j)": "m = i - j < 3",
        "own(x, b, rate=0.1)": "u = norm.into(x); q = rotary(linear.q(u, width)); k = rotary(linear.k(u, width)); "
        "v = linear.v(x, width); y = dot_attention(q, k, v, scores=b, mask=near, dropout=rate); "
        "y = linear.o(sigmoid(linear.g(u, width)) * y, width)",
    }
    assert over_memory(words, "x = x + own(norm(x), relative_bias(x), rate=0.2)") == {
        "cross_own(x, memory, rate=0.1)": "u_memory = norm.into_memory(memory); u = norm.into(x); "
        "q = linear.q(u, width); k = linear.k(u_memory, width); v = linear.v(memory, width); "
        "y = dot_attention(q, k, v, dropout=rate); y = linear.o(sigmoid(linear.g(u, width)) * y, width)",
        "layer": "x = x + cross_own(norm(x), memory, rate=0.2)",
    }


def test_a_definition_of_one_call_is_that_call() -> None:
    assert over_memory({"thin(x)": "y = attention(x, heads=2)"}, "x = x + thin(norm(x))") == {
        "layer": "x = x + attention(norm(x), memory, heads=2)"
    }


def test_a_definition_around_a_definition() -> None:
    words = {"near(x, w=4)": "y = attention(x, window=w, bias=False)", "normed(x)": "y = norm(near(x, 8))"}
    assert over_memory(words, "x = x + normed(norm(x))") == {
        "cross_normed(x, memory)": "y = norm(attention(x, memory, bias=False))",
        "layer": "x = x + cross_normed(norm(x), memory)",
    }


def test_an_attention_in_lines_of_the_layer() -> None:
    """The lines that make queries, keys and values become a definition of two streams."""
    layer = (
        "u = norm(x); q = rotary(linear.q(u, width)); k = rotary(linear.k(u, width)); v = linear.v(u, width); "
        "y = x + linear.o(dot_attention(q, k, v, window=3), width); x = y + mlp(norm(y))"
    )
    text = as_decoder(from_formula(layer.replace("; ", "\n")), WORDS)
    assert {key: value.text.replace("\n", "; ") for key, value in text.words.items()} == {
        "cross_attend(x, memory)": "u_memory = norm(memory); u = norm(x); q = linear.q(u, width); "
        "k = linear.k(u_memory, width); v = linear.v(u_memory, width); result = dot_attention(q, k, v)"
    }
    assert text.stacks[0].layers["layer"].text.splitlines()[-2:] == [
        "y = y + linear.o_memory(cross_attend(y, memory), width)",
        "x = y + mlp(norm(y))",
    ]


def test_lists_of_results_get_a_further_one() -> None:
    """Where layers read what the attentions before them have given, they read it of both, and so does `after`."""
    one = {
        "before": "e = embed.words(tokens)",
        "layer": "a = attention(attend(e, a[:], f[:])); f = mlp(attend(e, a[:], f[:]))",
        "after": "x = attend(e, a[:], f[:])",
    }
    made = as_decoder(from_formula("").override({k: v.replace("; ", "\n") for k, v in one.items()}), WORDS).stacks[0]
    assert made.layers["layer"].text.splitlines() == [
        "a = attention(attend(e, a[:], a_memory[:], f[:]))",
        "a_memory = attention(attend(e, a[:], a_memory[:], f[:]), memory)",
        "f = mlp(attend(e, a[:], a_memory[:], f[:]))",
    ]
    assert made.after is not None and made.after.text == "x = attend(e, a[:], a_memory[:], f[:])"


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("x = x + mlp(norm(x))", "no attention"),
        ("x = x + lstm(norm(x))", "no attention"),
        ("a = attention(norm(x + a[layer - 1] if layer > 1 else x)); x = x + mlp(x)", "its layer does not read it"),
        ("k = linear.k(x, width); x = x + dot_attention(norm(x), mix(k[:]), norm(x))", "travel from layer to layer"),
        ("a = attention(norm(x[0])); x = a if layer == 1 else x + a; x = x + mlp(norm(x))", "would lose"),
    ],
)
def test_what_cannot_be_turned_says_why(formula: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        decoder_layer(formula)
    assert "the formula cannot be a decoder with a memory" in str(caught.value) and reason in str(caught.value)
    assert len(str(caught.value).splitlines()) > 1, "it says what to do"


def test_a_mistake_in_the_text_itself_is_shown_as_ever() -> None:
    with pytest.raises(FormulaError, match=r"\^\^\^\^"):
        as_encoder(from_formula("x = x + attenion(norm(x))"), WORDS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("layer: x = x + attention(norm(x), mask=m, window=3)\nwords: {'m(i, j)': n = i != j + 1}", "beside a mask"),
        ("before: x = embed.words(tokens) + embed(types, rows=2)\nlayer: x = x + attention(x)", "reads types"),
        ("a: {before: x = embed(tokens), layer: x = x + mlp(x)}", "stacks of its own"),
        ("carry: 8\nlayer: x = x + attention(norm(x), rotary=100)", "`carry`"),
    ],
)
def test_no_encoder(text: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        as_encoder(read_text(text), WORDS)
    assert "cannot be an encoder" in str(caught.value) and reason in str(caught.value)


def hashed(text: ModelText) -> str:
    return formula_hash(check(text, WORDS, {"depth": 2, "width": 16, "heads": 2}))


def test_both_stacks_of_a_whole_text() -> None:
    """Labels, hooks, shares, numbers, several formulas: as written by hand."""
    one = """
    language: 1
    rank: 3
    share: (layer + 1) // 2
    before: x = norm.into(embed.words(tokens)) + positions(tokens)
    layers:
      far: x = x + attention(norm(x), score=slope)
      near: |
        x = x + attention(norm(x), window=rank)
        x = x + lowrank.low(norm(x), rank, share=7)
    order: [near, near, far, far]
    words: {"slope(s, i, j)": s = s - (i - j)}
    init: {"before.positions.weight|*.attention.query.weight": 0.1, "words.weight": 0.2}
    depth: 4
    """
    two = """
    language: 1
    rank: 3
    depth: 4
    words:
      "near_2(i, j)": m = rank == 0 or abs(i - j) < rank
      "slope(s, i, j)": s = s - abs(i - j)
    encoder:
      causal: false
      share: (layer + 1) // 2
      before: x = norm.encoder_into(embed.words(source)) + positions(source)
      layers:
        far: x = x + attention(norm(x), score=slope)
        near: |
          x = x + attention(norm(x), mask=near_2)
          x = x + lowrank.encoder_low(norm(x), rank, share=7)
      order: [near, near, far, far]
    decoder:
      share: (layer + 1) // 2
      before: x = norm.into(embed.words(tokens)) + positions(tokens)
      layers:
        far: |
          x = x + attention(norm(x), score=slope)
          x = x + attention(norm(x), memory)
        near: |
          x = x + attention(norm(x), window=rank)
          x = x + attention(norm(x), memory)
          x = x + lowrank.low(norm(x), rank, share=7)
      order: [near, near, far, far]
    """
    made = as_encoder_decoder(read_text(one.replace("\n    ", "\n")), WORDS)
    by_hand = read_text(two.replace("\n    ", "\n").replace("near_2", "near"))
    assert [s.name for s in made.stacks] == ["encoder", "decoder"]
    assert formula_hash(check(made, WORDS)) == formula_hash(check(by_hand, WORDS))
    assert list(made.hooks["init"]) == [
        "encoder.before.positions.weight|decoder.before.positions.weight|*.attention.query.weight|"
        "*.cross_attention.query.weight",
        "words.weight",
    ]
    assert as_encoder_decoder(made, WORDS) is made


def test_what_is_told_of_a_text_is_not_told_of_another() -> None:
    text = dataclasses.replace(from_formula(f"{ONE}; {MLP}", name="mine"), about={"title": "Mine"})
    for turn in (as_encoder, as_decoder, as_encoder_decoder):
        assert turn(text, WORDS).about == {} and turn(text, WORDS).name == "mine"


@pytest.mark.parametrize(
    ("before", "reads"),
    [
        ("x = conv(logmel(audio, 40), 3, width, stride=4)", "audio"),
        ("x = patches(image, 4)", "image"),
        ("x = 2 * embed(tokens)", "source"),  # is that of the one stack, as ever
    ],
)
def test_an_encoder_begins_with_what_it_reads(before: str, reads: str) -> None:
    sizes = {"depth": 1, "width": 8, "heads": 2, "context": 8, "vocab": 8}
    text = Model(f"{ONE}; {MLP}", family="encoder-decoder", before=before, **sizes).architecture.text
    assert {*check(text, WORDS).inputs} == {reads, "tokens"}
    encoder, decoder = text.stacks
    assert encoder.before is not None and encoder.before.text == before.replace("tokens", "source")
    assert encoder.layers["layer"].text.split("; ") == [ONE, MLP]
    assert decoder.layers["layer"].text.splitlines() == [ONE, MEMORY, MLP]
    with pytest.raises(FormulaError, match="sound"):
        Model(f"{ONE}; {MLP}", family="encoder-decoder", before="x = logmel(sound, 40)", **sizes)


def test_families_by_name() -> None:
    text = from_formula(f"{ONE}; {MLP}")
    assert of_family(text, "decoder", WORDS) is text
    assert hashed(of_family(text, "encoder", WORDS)) == hashed(text.override({"causal": "false"}))
    assert hashed(of_family(text, "encoder-decoder", WORDS)) == hashed(as_encoder_decoder(text, WORDS))
    with pytest.raises(UnknownName, match="encoder-decoder"):
        of_family(text, "encoder-decodr", WORDS)
    with pytest.raises(InputError, match="sees all"):
        of_family(text.override({"causal": "false"}), "decoder", WORDS)
