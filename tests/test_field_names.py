"""The field's names lead to ours: each is typed in its usual place, and what the error says instead works."""

from __future__ import annotations

import re
from typing import Any

import pytest

from transformula import field_names
from transformula.api.reading import of_task
from transformula.cli import main
from transformula.cli.options import Parser
from transformula.errors import ConfigError
from transformula.generation.settings import SamplingSettings, SearchSettings
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.model_text import FREE_NUMBERS, HOOKS, STACK_KEYS, ModelText, from_formula
from transformula.training.settings import TrainingSettings
from transformula.words import vocabulary

VOCABULARY = vocabulary()
OF_MODEL = [*FREE_NUMBERS, *STACK_KEYS, *HOOKS, "output", "dropout"]


def model(text: str) -> ModelText:
    """A formula, or a model file where the text begins with a key."""
    return read_text(text, "model.yaml") if re.match(r"\w+:", text) else from_formula(text)


def refused(text: str) -> FormulaError:
    with pytest.raises(FormulaError) as caught:
        check(model(text), VOCABULARY)
    return caught.value


def suggested(error: FormulaError) -> str:
    """What follows "e.g." in an error, as one would copy it."""
    text = str(error).split("e.g.")[1].split("\nsee:")[0]
    rows = [row.removeprefix("    ") for row in text.strip("\n").splitlines()]
    return "\n".join(rows).strip()


WORDS = [(name, row) for row in field_names.rows_of("words") for name in row[0].split()]


@pytest.mark.parametrize(("name", "row"), WORDS, ids=[name for name, _ in WORDS])
def test_a_word(name: str, row: field_names.Row) -> None:
    error = refused(f"x = x + {name}(norm(x))")
    ours = row[1].split("(")[0]
    assert error.near == [ours] and f"did you mean {row[1]}" in str(error)
    assert suggested(error) == row[2], "what is shown is what is meant"
    assert ours == "x = x + ..." or re.search(rf"\b{ours}\b", row[2])
    check(model(suggested(error)), VOCABULARY)


@pytest.mark.parametrize("name", ["MultiHeadAttention", "LayerNorm2", "SwiGLU", "RMSNorm_", "self-attention", "Rope"])
def test_names_are_compared_without_case(name: str) -> None:
    found = field_names.word(name)
    assert (found is None) == (name == "LayerNorm2")


CALLS = {
    "attention": "x = x + attention(norm(x){})",
    "linear_attention": "x = x + linear_attention(norm(x){})",
    "dot_attention": "x = x + dot_attention(norm(x), norm(x), norm(x){})",
    "relative": "x = x + attention(norm(x), scores=relative(norm(x), learned(63){}))",
    "relative_bias": "x = x + attention(norm(x), scores=relative_bias(x{}))",
    "experts": "x = x + experts(norm(x), n=8{})",
    "scalar": "x = x + scalar({}) * mlp(norm(x))",
    "vector": "x = x + vector({}) * mlp(norm(x))",
    "linear": "x = x + linear(norm(x), size=width{})",
    "lowrank": "x = x + lowrank(norm(x), rank=8{})",
    "conv": "x = x + conv(norm(x), length=3{})",
    "conv2d": "causal: false\nlayer: x = x + conv2d(norm(x), side=3{})",
    "pool2d": "causal: false\nlayer: x = x + pool2d(norm(x), side=3{})",
    "window_attention": (
        "causal: false\nbefore: x = patches(image, 4)\n"
        "layer: h = norm(x); x = x + window_attention(linear.q(h, width), linear.k(h, width), h, side=2{})"
    ),
    "mix": "h = x[:]; x = x + mix(h{})",
    "embed": "before: x = embed(tokens{})\nlayer: x = x + mlp(norm(x))",
    "positions": "before: x = embed(tokens) + positions(tokens{})\nlayer: x = x + mlp(norm(x))",
    "sinusoids": "before: x = embed(tokens) + sinusoids(tokens{})\nlayer: x = x + mlp(norm(x))",
    "learned": "x = x + attention(norm(x), learned(4{}))",
    "spell": "before: x = spell(characters{})\nlayer: x = x + mlp(norm(x))",
    "patches": "causal: false\nbefore: x = patches(image, size=4{})\nlayer: x = x + mlp(norm(x))",
    "masked_scatter": (
        "before: x = masked_scatter(embed(tokens), tokens, patches(image, 4), id=7{})\nlayer: x = x + mlp(norm(x))"
    ),
    "space_to_depth": (
        "causal: false\nbefore: x = linear(space_to_depth(patches(image, 4), n=2{}), width)\n"
        "layer: x = x + mlp(norm(x))"
    ),
    "depth_to_space": (
        "causal: false\nbefore: x = linear(depth_to_space(patches(image, 4, width=64){}), width)\n"
        "layer: x = x + mlp(norm(x))"
    ),
    "upsample": "causal: false\nbefore: x = upsample(patches(image, 4), n=8{})\nlayer: x = x + mlp(norm(x))",
    "unembed": "layer: x = x + mlp(norm(x))\noutput: logits = unembed(x{})",
    "batchnorm": "causal: false\nlayer: x = x + mlp(batchnorm(x{}))",
    "groupnorm": "causal: false\nlayer: x = x + mlp(groupnorm(x, 1{}))",
    "attend": "a = mlp(norm(x)); x = attend(x, a[:]{})",
    "gru_gate": "x = gru_gate(x, mlp(norm(x)){})",
}
"""A call of a word with a place for one more option; of words that are not here: x = x + WORD(norm(x){})."""
CALLS["mix"] = "h = mlp(norm(x)); x = x + mix(h, x{})"
VALUES = {"width": "width", "size": "width", "hidden": "64", "heads": "2", "rows": "64", "score": "f", "mask": "m"}
VALUES |= {"rates": "g", "buckets": "8", "base": "10000", "span": "63", "active": "2", "n": "8", "channels": "3"}
"""Values of our options, where the smallest that is allowed does not fit."""
DEFINITIONS = 'words: {"f(s, i, j)": s = s - i + j, "m(i, j)": m = i - j < 4}\n'
RATES = 'words: {"g(r)": rate = r / 4}'


def options() -> list[tuple[str, str, str]]:
    """(word, the field's option, ours), of "*" with all words that have it."""
    found = []
    for words, theirs, ours in ((row["words"], row["names"], row["ours"]) for row in field_names.table()["options"]):
        for word in VOCABULARY if words == "*" else words.split():
            held = [one for one in ours.split() if one in VOCABULARY[word].options]
            if not held:
                assert words == "*", f"{word} has no {ours}"
                continue
            found += [(word, name, held[0]) for name in theirs.split()]
    return found


def value_of(word: str, ours: str) -> str:
    option = VOCABULARY[word].options[ours]
    if option.type == "flag":
        return "True"
    if option.type == "choice":
        return f'"{option.choices[-1]}"'
    if (word, ours) in (("patches", "size"), ("lowrank", "rank")):
        return "4"
    return VALUES.get(ours, "1" if option.type == "whole" else "0.5")


@pytest.mark.parametrize(("word", "theirs", "ours"), options())
def test_an_option(word: str, theirs: str, ours: str) -> None:
    value = value_of(word, ours)
    call = CALLS.get(word, f"x = x + {word}(norm(x){{}})")
    call = re.sub(rf", {ours}=\w+(?={{}})", "", call)
    beside = ", rotary=10000" if ours == "rates" else ""
    typed = call.format(f"{beside}, {theirs}={value}".removeprefix(", " if "({})" in call else ""))
    definition = DEFINITIONS.splitlines()[0].replace(
        '"f(s, i, j)": s = s - i + j, ' if value != "f" else ', "m(i, j)": m = i - j < 4', ""
    )
    keys = typed if re.match(r"\w+:", typed) else f"layer: {typed}"
    if value == "g":
        keys = f"{RATES}\n{keys}"
    if value in ("f", "m"):
        keys = f"{definition}\n{keys}"
    error = refused(keys)
    assert error.near == [ours] and f"has no option {theirs!r}; did you mean {ours}?" in str(error)
    assert f"see: transformula words {word}" in str(error)
    row = next(row for row in keys.splitlines() if f"{theirs}=" in row)
    check(model(keys.replace(row, f"{row.split(': ')[0]}: {suggested(error).removeprefix('layer: ')}")), VOCABULARY)


READ = [(theirs, ours) for row, ours, _ in field_names.rows_of("names") for theirs in row.split()]


@pytest.mark.parametrize(("theirs", "ours"), [pair for pair in READ if pair[1] in ("x", "layer", "pi")])
def test_a_name_in_a_formula(theirs: str, ours: str) -> None:
    error = refused(f"x = x + {theirs} * mlp(norm(x))")
    assert error.near == [ours] and f"did you mean {ours}?" in str(error)


@pytest.mark.parametrize(("theirs", "ours"), [pair for pair in READ if pair[1] not in ("x", "layer", "pi", "memory")])
def test_an_input(theirs: str, ours: str) -> None:
    error = refused(f"before: x = embed({theirs})\nlayer: x = x + mlp(norm(x))")
    assert error.near == [ours]


def test_a_number_in_a_formula() -> None:
    assert refused("x = x + linear(x, d_model)").near == ["width"]
    assert refused("x = x + attention(norm(x), heads=n_head)").near == ["heads"]


KEYS = [(name, row) for row in field_names.rows_of("model_keys") for name in row[0].split()]


@pytest.mark.parametrize(("name", "row"), KEYS, ids=[name for name, _ in KEYS])
def test_a_key_of_a_model_file(name: str, row: field_names.Row) -> None:
    error = refused(f"{name}: 4\nlayer: x = x + attention(norm(x)); x = x + mlp(norm(x))")
    ours = row[1].split()[0]
    if name == "layers":
        assert "depth: 4" in str(error)
        return
    assert f"did you mean {ours}?" in str(error) and "e.g. " in str(error)
    key, _, value = str(error).split("e.g. ")[1].splitlines()[0].partition(": ")
    value = {"heads": "4", "causal": "false"}.get(key, value)
    rest = "" if key == "layer" else "\nlayer: x = x + dropout(attention(norm(x), dropout=0.1)); x = x + mlp(norm(x))"
    rest = rest.replace("dropout(attention(norm(x), dropout=0.1))", "attention(norm(x))") if key != "dropout" else rest
    check(read_text(f"{key}: {'0.1' if key == 'dropout' else value}{rest}"), VOCABULARY)


def fields() -> dict[str, Any]:
    """Every setting by name, of all that a command may take."""
    groups = (
        of_task("classification", "settings"),
        of_task("translation", "settings"),
        of_task("language-modeling", "settings"),
        TrainingSettings,
        SamplingSettings,
    )
    return {name: group for group in (SearchSettings, *groups) for name in group.model_fields}


SETTINGS = [(name, row) for row in field_names.rows_of("settings") for name in row[0].split()]


@pytest.mark.parametrize(("name", "row"), SETTINGS, ids=[name for name, _ in SETTINGS])
def test_a_setting(name: str, row: field_names.Row) -> None:
    """In Python and on a command line; what is suggested is read."""
    held = fields()
    ours = next(one for one in row[1].split() if one in held)
    group = held[ours]
    value = row[2] or {"lr_schedule": "cosine", "optimizer": "adamw", "seed": "3", "final_lr": "0.1"}.get(ours, "1")
    if ours in ("clip", "weight_decay", "beta1", "beta2", "label_smoothing", "split", "held_out", "top_p"):
        value = "0.5"
    with pytest.raises(ConfigError) as caught:
        group.read({name: value})
    assert caught.value.near == [ours] and f"did you mean {ours}? e.g. {ours}=" in str(caught.value)
    parser = Parser("train", "", [])
    parser.add_settings("all", group)
    error = parser.unknown(f"--{name.replace('_', '-')}", value=value)
    typed = re.search(r"e\.g\. (--[\w-]+) ([^;]+);", str(error))
    assert typed, str(error)
    assert getattr(group.read(parser.parse([typed[1], typed[2]]).of(group)), ours) is not None


def test_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    for typed, wanted in [
        (["train", "pre-norm", "--learning-rate", "3e-4"], "did you mean --lr? e.g. --lr 3e-4"),
        (["train", "pre-norm", "--n-layer", "3"], "did you mean --depth? e.g. --depth 3"),
        (["explain", "pre-norm", "--d-model", "64"], "did you mean --width? e.g. --width 64"),
        (["explain", "pre-norm", "--layers", "3"], "--depth 3"),
        (["sample", "runs/x", "--max-new-tokens", "4"], "did you mean --max-tokens? e.g. --max-tokens 4"),
        (["train", "pre-norm", "--bf16"], "e.g. --precision bf16"),
        (["words", "swiglu"], "did you mean mlp(gated=)? e.g. x = "),
    ]:
        assert main(typed) == 2
        assert wanted in capsys.readouterr().err


def test_a_model_file_holds_no_settings_of_a_run() -> None:
    assert "type --lr 3e-4" in str(refused("learning_rate: 3e-4\nlayer: x = x + mlp(norm(x))"))
    assert "type --steps 100" in str(refused("steps: 100\nlayer: x = x + mlp(norm(x))"))


def test_an_unknown_key_is_told_what_is_known_where_nothing_is_near() -> None:
    with pytest.raises(ConfigError, match="known: .*lr.*weight_decay") as caught:
        TrainingSettings.read({"qqqq": 1})
    assert "--help" not in str(caught.value)


def test_the_table_holds_no_name_of_ours_where_it_is_known() -> None:
    """A row that no error can reach is a defect."""
    assert not [name for name, _ in WORDS if name in VOCABULARY]
    assert not [(w, t) for w, t, _ in options() if t in {*VOCABULARY[w].options, *VOCABULARY[w].ports}]
    assert not [name for name, _ in KEYS if name in OF_MODEL and name != "layers"]
    plain = [field_names.plain(name) for name, _ in WORDS]
    assert len(set(plain)) == len(plain), "one name, one answer"
