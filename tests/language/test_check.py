"""The rules of the language, on the toy vocabulary."""

from __future__ import annotations

import pytest

from transformula.language.graph import Value
from transformula.language.messages import FormulaError
from transformula.language.parser import parse
from transformula.language.source import Source
from transformula.language.syntax import spell

from .toy import checked, paths


def refused(text: str, code: str, **numbers: object) -> FormulaError:
    with pytest.raises(FormulaError) as caught:
        checked(text, **numbers)
    assert caught.value.code == code, str(caught.value)
    return caught.value


def operations(text: str, layer: int = 1, **numbers: object) -> list[str]:
    return [v.op for v in checked(text, **numbers).main.layers[layer - 1].values]


PRE = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"


# names


def test_a_name_flows_from_layer_to_layer_and_is_needed() -> None:
    model = checked(PRE, depth=3)
    for section in model.main.layers:
        assert list(section.reads) == ["x"] and list(section.leaves) == ["x"]
    assert list(model.main.before.leaves) == ["x"] and list(model.output.leaves) == ["logits"]


def test_local_names_stay_inside() -> None:
    model = checked("y = norm(x); x = x + mlp(y)")
    assert list(model.main.layers[0].leaves) == ["x"]


def test_a_constant_of_the_stack_is_read_by_every_layer() -> None:
    model = checked("depth: 3\nbefore: |\n  x = embed.words(tokens)\n  e = x\nlayer: x = x + mlp(norm(x)) + e")
    assert all(set(s.reads) == {"x", "e"} for s in model.main.layers)
    assert set(model.main.before.leaves) == {"x", "e"}


def test_unset_names_say_layer_and_nearest() -> None:
    error = refused("x = x + attention(norm(xx))", "unset")
    assert "layer 1" in str(error) and error.near == ["x"]
    speaker = refused("before: x = embed(tokens) + embed.s(speaker, rows=8)\nlayer: x = x + mlp(x)", "unset")
    assert "inputs: {speaker: tokens}" in speaker.remedy
    assert "first value in `before`" in str(refused("x = x + s\ns = mlp(x)", "unset"))


def test_a_number_may_come_first() -> None:
    text = (
        "depth: 3\nbefore: |\n  x = embed.words(tokens)\n  s = 0\n"
        "layer: |\n  x = x + attention(x, scores=s)\n  s = attention.scores"
    )
    model = checked(text)
    first, second = model.main.layers[:2]
    assert "s" not in first.reads and second.reads["s"].kind == "scores"
    # nothing reads the scores of the last layer: they are not taken there
    assert "tap" not in [v.op for v in model.main.layers[-1].values]


def test_what_is_never_read_is_an_error() -> None:
    refused("y = mlp(x); x = x + mlp(norm(x))", "never-read")
    refused("words: {f: y = relu(x)}\nlayer: x = x + mlp(x)", "definition-unused")
    refused("rank: 8\nlayer: x = x + mlp(x)", "number-unused")
    assert refused("dropout: 0.1\nlayer: x = x + mlp(x)", "number-unused").near == [], "not itself"


def test_a_value_read_in_some_layers_only_is_not_built_elsewhere() -> None:
    text = "depth: 4\nlayer: |\n  v = linear.value(x, width) if layer == 1 else v\n  x = x + mlp(norm(x)) + v"
    model = checked(text)
    assert "value" in paths(model, 1) and "value" not in paths(model, 2)


def test_condition_checks_the_spelling_of_the_side_that_is_not_built() -> None:
    refused("x = x + mlp(x) if layer > 0 else nothing(x)", "unknown-word")
    refused("x = x + mlp(x) if layer > 0 else zz", "unset")
    checked("x = x + mlp(x) if layer > 0 else x + attention(x)")


def test_two_things_may_not_share_a_name() -> None:
    refused("norm = x; x = x + mlp(norm)", "two-things")
    refused("width = x; x = x + mlp(width)", "two-things")
    refused("tokens = x; x = x + mlp(tokens)", "two-things")


# numbers


def test_folding() -> None:
    assert operations("x = x + 0 * mlp(x)") == ["name"]
    assert operations("x = 1 * (x + 0) / 1 - 0") == ["name"]
    assert "mul" in operations("x = scalar(0) * x")
    assert operations("x = dropout(x + mlp(x), 0)") == ["name", "call", "add"]


def test_numbers_of_a_layer() -> None:
    model = checked("x = x + layer ** -0.5 * mlp(x)", depth=4)
    factors = [next(v.args[0].number for v in s.values if v.op == "mul") for s in model.main.layers[1:]]
    assert factors == pytest.approx([2**-0.5, 3**-0.5, 0.5])
    assert "mul" not in operations("x = x + layer ** -0.5 * mlp(x)", layer=1)


def test_numbers_are_expressions_computed_again_when_overridden() -> None:
    text = "width: 64\nhidden: 3 * width\nlayer: x = x + mlp(norm(x), hidden=hidden)"
    assert checked(text).numbers["hidden"] == 192
    assert checked(text, width=32).numbers["hidden"] == 96
    assert checked("width: 6.4e1\nheads: 2\nlayer: x = x + attention(x)").numbers["width"] == 64
    refused("width: 2 * heads\nheads: width // 2\nlayer: x = x + mlp(x)", "number-cycle")


def test_number_functions_and_words_of_one_name() -> None:
    model = checked("x = x + mlp(x) / sqrt(4) + sqrt(x)")
    assert [v.name for v in model.main.layers[0].calls()] == ["mlp", "sqrt"]


@pytest.mark.parametrize(
    "number", ["9**9**9", "10**10", "-1e10", "1/0", "2**0.5**-400", "(-8)**0.5", "0**-1", "log(0)"]
)
def test_numbers_are_bounded(number: str) -> None:
    with pytest.raises(FormulaError):
        checked(f"x = x * ({number}) + mlp(x)")


def test_whole_defaults_name_what_does_not_divide() -> None:
    error = refused("width: 10\nheads: 3\nlayer: x = x + attention(x)", "check-failed")
    assert "3.33" in str(error)


# history


def test_history_by_number_and_as_a_list() -> None:
    model = checked("h = x + mlp(norm(x))\nx = mix(h[:])", depth=3)
    mixes = [next(v for v in s.calls() if v.name == "mix") for s in model.main.layers]
    assert [v.call.entries for v in mixes] == [1, 2, 3]
    assert model.main.layers[2].history == [("h", 1), ("h", 2)]
    assert model.main.layers[0].keeps == ["h"] and model.main.layers[2].keeps == []


def test_history_of_before_counts() -> None:
    text = "depth: 3\nbefore: |\n  x = embed.words(tokens)\n  h = x\nlayer: |\n  h = x + mlp(norm(x))\n  x = mix(h[:])"
    model = checked(text)
    assert [next(v for v in s.calls() if v.name == "mix").call.entries for s in model.main.layers] == [2, 3, 4]


def test_the_end_of_a_list_of_history() -> None:
    """`h[n:]` begins with layer n, or with `before`; a present value comes last as in `h[:]`."""
    for first, counts, read in (
        ("layer - 2", [2, 3, 3, 3], [("h", 2), ("h", 3)]),
        ("0", [2, 3, 4, 5], [("h", 0), ("h", 1), ("h", 2), ("h", 3)]),
        ("3", [1, 1, 1, 2], [("h", 3)]),
        ("k", [1, 2, 3, 4], [("h", 1), ("h", 2), ("h", 3)]),
    ):
        numbers = "depth: 4\n" + ("k: 1\n" if first == "k" else "")
        before = "before: |\n  x = embed.words(tokens)\n  h = x\n"
        model = checked(f"{numbers}{before}layer: |\n  h = x + mlp(x)\n  x = mix(h[{first}:])")
        mixes = [next(v for v in s.calls() if v.name == "mix") for s in model.main.layers]
        assert [v.call.entries for v in mixes] == counts
        assert model.main.layers[3].history == read
    refused("x = x + mix(x[layer / 2:])", "history-first")
    refused("h = mlp(x); x = x + mix(x[2:])", "empty-list")
    refused("x = x + mix(x[:2])", "not-allowed")
    text = "x = x + mix(x[layer - 3:]) + x[0]"
    assert spell(parse(Source("layer", text))[0].value) == "x + mix(x[layer - 3:]) + x[0]"


def test_x_of_the_layer_before_is_what_entered() -> None:
    model = checked("y = x + mlp(norm(x))\nx = y + x[layer - 1]", depth=2)
    assert model.main.layers[1].history == [("x", 1)]


def test_an_assignment_to_itself_sets_nothing() -> None:
    text = "depth: 3\nlayer: |\n  v = mlp.v(x) if layer == 1 else v\n  x = x + mix(v[:])"
    assert [next(v for v in s.calls() if v.name == "mix").call.entries for s in checked(text).main.layers] == [1, 1, 1]


def test_history_out_of_range_and_lists_elsewhere() -> None:
    refused("x = x + mlp(x[layer])", "history-range")
    refused("x = x + x[:]", "list-here")
    refused("x = x + mix(y[:]); y = mlp(x)", "empty-list")
    refused("y = mlp(x); x = x + y[0]", "history-unset")


# widths, kinds, sequences


def test_widths_must_agree_or_be_one() -> None:
    checked("x = x * linear(x, 1) + mlp(x)")
    refused("x = x + linear(x, 2 * width)", "widths")
    refused("x = linear.a(x, 2 * width)", "carried-changes")


def test_other_sequences_do_not_add() -> None:
    refused("before: |\n  x = embed(tokens)\n  m = embed.m(source)\nlayer: x = x + m", "sequences")


def test_causal_stacks_refuse_words_that_see_everything() -> None:
    refused("x = x + mean(x)", "reach-all")
    checked("causal: false\nlayer: x = x + mean(x)")


# words, labels, taps, definitions


def test_unknown_words_and_options_suggest() -> None:
    assert refused("x = x + attenion(x)", "unknown-word").near == ["attention"]
    assert refused("x = x + attention(x, head=2)", "unknown-option").near == ["heads"]


def test_labels_are_one_module() -> None:
    model = checked("x = x + mlp.a(norm.n(x)); x = x + mlp.a(norm.n(x))")
    assert paths(model) == ["n", "a", "n", "a"]
    refused("x = x + mlp.a(norm.a(x))", "label-twice")
    refused("x = x + linear.a(x, width); x = x + linear.a(x, width, bias=False)", "label-differs")
    refused("x = x + attention(x); x = x + mlp.attention(x)", "label-role")
    # what a later call leaves out is as at the first
    again = checked("x = x + linear.a(x, width, bias=False); x = x + linear.a(x, width)")
    assert [v.call.options["bias"] for v in again.main.layers[0].calls()] == [False, False]


def test_two_faces_of_one_table() -> None:
    model = checked(PRE)
    assert next(model.output.calls()).call.path == next(model.main.before.calls()).call.path == "words"


def test_taps() -> None:
    model = checked("y = attention(norm(x)); x = x + y + attention.v")
    assert [v.name for v in model.main.layers[0].values if v.op == "tap"] == ["v"]
    refused("x = x + attention(x) + attention(norm(x)); x = x + attention.v", "tap-ambiguous")
    refused("y = attention(x); x = x + y + attention.u", "unknown-tap")


DEFINED = """
words:
  swish(x, hidden=4*width): y = linear.down(relu(linear.gate(x, hidden)) * linear.up(x, hidden), width)
layer: |
  x = x + swish(norm(x))
  x = x + swish(norm(x), hidden=8)
"""


def test_definitions_are_fresh_copies_with_their_own_labels() -> None:
    model = checked(DEFINED, width=16)
    assert paths(model) == [
        "swish_input_norm", "swish.gate", "swish.up_output_relu", "swish.up", "swish.down",
        "swish_2_input_norm", "swish_2.gate", "swish_2.up_output_relu", "swish_2.up", "swish_2.down",
    ]  # fmt: skip
    sizes = [v.call.options["size"] for v in model.main.layers[0].calls() if v.call.label == "up"]
    assert sizes == [64, 8]


def test_a_single_call_is_only_renamed() -> None:
    model = checked("words:\n  ff(x): y = mlp(x, hidden=7)\nlayer: x = x + ff(norm(x)); x = x + ff.b(norm(x))")
    assert paths(model) == ["ff_input_norm", "ff", "b_input_norm", "b"]
    assert all(v.call.options["hidden"] == 7 for v in model.main.layers[0].calls() if v.call.word.name == "mlp")


def test_a_definition_sees_only_the_words_above_it() -> None:
    refused("words:\n  f(x): y = g(x)\n  g(x): y = relu(x)\nlayer: x = x + f(mlp(x))", "unknown-word")
    checked("words:\n  g(x): y = relu(x)\n  f(x): y = g(x)\nlayer: x = x + f(mlp(x))")
    checked("words:\n  norm: y = norm(2 * x)\nlayer: x = x + mlp(norm(x))")


def test_definitions_that_double_are_refused_before_they_are_opened() -> None:
    rows = ["  f0(x): y = mlp(mlp(x))"] + [f"  f{i}(x): y = f{i - 1}(f{i - 1}(x))" for i in range(1, 40)]
    refused("words:\n" + "\n".join(rows) + "\nlayer: x = x + f39(x)", "too-many-calls")
    refused("depth: 9999\nlayer: x = x + " + " + ".join(["mlp(x)"] * 11), "too-many-calls")


# files


def test_several_formulas_and_their_order() -> None:
    text = "depth: 6\nlayers: {near: x = x + mlp(x), far: x = x + attention(x)}\norder: far if layer % 3 == 0 else near"
    assert [s.formula for s in checked(text).main.layers] == ["near", "near", "far"] * 2
    text = text.replace("order: far if layer % 3 == 0 else near", "order: [near, far]")
    assert [s.formula for s in checked(text, depth=3).main.layers] == ["near", "far", "near"]


def test_default_before_has_positions_unless_the_layer_tells_them() -> None:
    assert "positions" in [v.name for v in checked(PRE).main.before.calls()]
    assert "positions" not in [v.name for v in checked("x = x + attention(x, rotary=10000)").main.before.calls()]
    assert "positions" in [v.name for v in checked("x = x + attention(x, rotary=0)").main.before.calls()]


def test_stacks_and_memory() -> None:
    text = (
        "encoder:\n  causal: false\n  depth: 2\n  before: x = embed.words(source)\n  layer: x = x + mean(x)\n"
        "decoder:\n  depth: 2\n  before: x = embed.words(tokens)\n  layer: |\n    x = x + attention(x)\n"
        "    x = x + attention(x, memory)\n    x = x + attention(x, norm(mix(encoder[:])))\n"
    )
    model = checked(text)
    names = [v.call.path for v in model.stacks[1].layers[0].calls()]
    assert names[:2] == ["decoder.layers.1.attention", "decoder.layers.1.cross_attention"]
    assert next(v for v in model.stacks[1].layers[0].calls() if v.name == "mix").call.entries == 3
    refused(text.replace("source", "tokens"), "not-causal")


def test_share_counts_one_module_for_equal_numbers() -> None:
    model = checked("depth: 4\nshare: (layer + 1) // 2\nlayer: x = x + mlp(x)")
    assert [next(s.calls()).call.path for s in model.main.layers] == ["layers.1.mlp"] * 2 + ["layers.2.mlp"] * 2


def test_values_stand_in_order_of_evaluation() -> None:
    for section in checked(DEFINED, width=16).sections():
        seen: set[int] = set()
        for value in section.values:
            for argument in value.args:
                flat: list[Value] = list(argument.args) if argument.op == "list" else [argument]
                assert all(a.op in ("number", "list") or id(a) in seen for a in flat)
            seen.add(id(value))


@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_used_does_not_depend_on_which_layers_there_are(depth: int) -> None:
    """A definition, and a number, that only another definition uses, which only a formula of later layers calls."""
    text = (
        "k: 3\nwords:\n  twice: y = k * x\n  branch: y = twice(mlp(x))\n"
        "layers:\n  near: x = x + mlp(x)\n  far: x = x + branch(x)\norder: [near, far]"
    )
    checked(text, depth=depth)
    checked(text.replace("order: [near, far]", "").replace("  far: x = x + branch(x)\n", "").replace(
        "near: x = x + mlp(x)", "near: x = x + (mlp(x) if layer == 1 else branch(x))"
    ), depth=depth)  # fmt: skip
    unused = text.replace("twice(mlp(x))", "k * mlp(x)")
    refused(unused, "definition-unused", depth=depth)


def test_an_unread_dropout_is_shown_in_the_layers_own_line() -> None:
    def remedy(text: str) -> str:
        return refused(text, "number-unused").remedy

    assert "x = x + dropout(attention(norm(x)))" in remedy("dropout: 0.2\nlayer: x = x + attention(norm(x))")
    assert "x = norm(x + 2 * dropout(mlp(x)))" in remedy("dropout: 0.2\nlayer: x = norm(x + 2 * mlp(x))")
    named = "dropout: 0.2\nwords: {sub: y = mlp(norm(x))}\nlayer: |\n  y = norm(x)\n  x = x + sub(y)"
    assert "x = x + dropout(sub(y))" in remedy(named), "the first line with a sublayer"
    assert "dropout(" not in remedy("dropout: 0.2\nlayer: x = relu(x)"), "there is no sublayer to put it around"


def test_ids_come_from_an_input_that_holds_them() -> None:
    assert "tokens" in refused("layer: x = x + embed(x)", "ids-wanted").remedy
    for word in ("embed(audio)", "linear(audio, width)"):
        assert "no word here reads audio" in refused(f"before: x = {word}\nlayer: x = x + mlp(x)", "not-read").remedy
    short = "vocab: 11\nbefore: x = embed.words(tokens, rows=5)\nlayer: x = x + mlp(x)\noutput: logits = linear(x, 11)"
    assert "5" in refused(short, "check-failed").what
    checked(short.replace("rows=5", "rows=11"))
    checked(short.replace("vocab: 11\n", "")), "the run says how many there are"


def test_an_unknown_option_in_a_definition_of_one_call_is_underlined() -> None:
    error = refused("words: {sub: 'y = mlp(x, hiden=1)'}\nlayer: x = x + sub(norm(x))", "unknown-option")
    assert error.place is not None and error.place.text.startswith("hiden")


def test_share_is_passed_on_by_definitions_that_only_rename() -> None:
    model = checked("depth: 2\nwords:\n  f(x): y = mlp(x)\n  g(x): y = f(x)\nlayer: x = x + g.ffn(x, share=1)")
    assert {next(s.calls()).call.path for s in model.main.layers} == {"layers.1.ffn"}


def test_a_function_of_numbers_takes_no_option() -> None:
    refused("x = min(2, 3, p=1) * x", "unknown-option")


def test_the_output_reads_the_numbers_of_the_file() -> None:
    text = (
        "width: 8\nheads: 2\na:\n  depth: 1\n  heads: 4\n  before: x = embed(tokens)\n  layer: x = x + attention(x)\n"
    )
    model = checked(text + "output: logits = unembed(attention(x))")
    first, second = (next(s.calls()).call for s in (model.main.layers[0], model.output))
    assert (first.options["heads"], second.options["heads"]) == (4, 2)
