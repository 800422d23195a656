"""What is typed as variants: texts, names, keys of their own."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from transformula import Model
from transformula.api.configuration import groups_of
from transformula.api.reading import TASK
from transformula.cli.options import MODEL_OPTIONS
from transformula.comparison.records import Variant
from transformula.comparison.settings import ComparisonSettings, for_all
from transformula.comparison.variants import read_variants
from transformula.errors import ConfigError, InputError
from transformula.language.messages import FormulaError
from transformula.tasks.base import tasks

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"


def read(*typed: Any, given: dict[str, Any] | None = None, **settings: Any) -> list[Variant]:
    return read_variants(list(typed), ComparisonSettings.read(settings), given or {})


def names(*typed: Any, **settings: Any) -> list[str]:
    return [variant.name for variant in read(*typed, **settings)]


def test_names_are_unique_and_short() -> None:
    assert names("pre-norm", LAYER, "mine: x = mlp(x)", "pre-norm") == ["pre-norm", "formula", "mine", "pre-norm (2)"]
    assert names(LAYER, "x = x + mlp(x)", f"formula 1: {LAYER}") == ["formula 1", "formula 2", "formula 1 (2)"]
    assert names("pre-norm", vary={"warmup": [0, 0.1]}) == ["warmup=0", "warmup=0.1"]
    assert names("pre-norm", "rezero", vary=["depth=2,3"])[1:3] == ["pre-norm, depth=3", "rezero, depth=2"]


def test_equal_variants_may_be_compared() -> None:
    one, other = read("pre-norm", "again: pre-norm")
    assert one.model == other.model and one.name != other.name


def test_a_wiring_leaves_its_size_to_the_plan_and_a_file_keeps_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"depth: 3\nvocab: 70\nlayer: {LAYER}\n")
    wiring, own = read("gpt2", str(file))
    assert "width" not in wiring.model and "vocab: " not in wiring.model
    assert own.name == "mine" and "depth: 3" in own.model and "vocab" not in own.model
    typed, both = read("gpt2", str(file), given={"depth": 2, "vocab": 300})
    assert all("depth: 2" in variant.model and "vocab: 300" in variant.model for variant in (typed, both))


def test_a_wiring_says_which_sizes_it_keeps_at_another_width(tmp_path: Path) -> None:
    """LLaMA's hidden size is 14,336, at whatever width it is compared."""
    (note,) = read("pre-norm", "llama", given={"heads": 8})[1].notes
    assert note.startswith("has hidden 14336 and kv_heads 8, as its text states for a width of 4096")
    (note,) = read("pre-norm", {"model": "llama", "hidden": 96}, given={"heads": 8})[1].notes
    assert "hidden" not in note and note.endswith("to change it, kv_heads=NUMBER")
    file = tmp_path / "mine.yaml"
    file.write_text("width: 64\nhidden: 70\nlayer: x = x + mlp(x, hidden=hidden)\n")
    assert not read("pre-norm", str(file))[1].notes, "a file keeps its width, too"


def test_wirings_have_one_rate_of_dropout() -> None:
    """gpt2 says 0.1, shakespeare 0.2, pre-norm none: what is compared is the wiring."""
    assert [("dropout: 0.1" in v.model) for v in read("gpt2", "shakespeare")] == [True, True]
    assert "dropout: 0\n" in read("pre-norm", "gpt2")[1].model
    assert "dropout: 0.3" in read("pre-norm", "gpt2", given={"dropout": 0.3})[1].model
    assert ["dropout: 0.2" in v.model for v in read("gpt2", vary=["dropout=0.2,0.4"])] == [True, False]


def test_keys_go_to_the_model_or_to_the_run() -> None:
    adamw, muon = read("pre-norm", vary=["optimizer=adamw,muon"])
    assert adamw.settings == {"optimizer": "adamw"} and muon.levels == {"optimizer": "muon"}
    shallow, deep = read("pre-norm", vary=["depth=2,3"])
    assert "depth: 2" in shallow.model and "depth: 3" in deep.model and not deep.settings
    cold, _ = read({"model": "post-norm", "name": "cold", "warmup": 0}, "post-norm")
    assert cold.name == "cold" and cold.settings == {"warmup": 0.0}


def test_a_word_is_given_another_meaning() -> None:
    rms, layer, call = read("pre-norm", vary=["norm=rms,layernorm,rmsnorm(x, eps=1e-3)"])
    assert "norm: x = rmsnorm(x)" in rms.model and "norm: x = layernorm(x)" in layer.model
    assert "norm: x = rmsnorm(x, eps=1e-3)" in call.model
    used = [value.called.word.name for value in Model(rms.model).architecture.sections()[1].calls()]
    assert "rmsnorm" in used and "layernorm" not in used


def test_a_setting_that_is_called_like_a_word_is_varied() -> None:
    """`dropout`, `join` and `shift` are words, too: a value that is no word is the setting's."""
    low, high = read(LAYER.replace("mlp(norm(x))", "dropout(mlp(norm(x)))"), vary=["dropout=0.1,0.3"])
    assert "dropout: 0.1" in low.model and "dropout: 0.3" in high.model and low.name == "dropout=0.1"
    still, moved = read("pre-norm", vary=["shift=0,0.2"], given={"task": "image-classification"})
    assert (still.settings, moved.settings) == ({"shift": 0.0}, {"shift": 0.2})
    lower, call = read(LAYER.replace("mlp(norm(x))", "dropout(mlp(norm(x)))"), vary=["dropout=0.2,droppath(x, p=0.3)"])
    assert "dropout: 0.2" in lower.model and "dropout: x = droppath(x, p=0.3)" in call.model


MINE = f"mine: {LAYER}"


def last(*typed: Any, given: dict[str, Any] | None = None, **settings: Any) -> Variant:
    return read(*typed, given=given, **settings)[-1]


def test_a_formula_takes_from_the_base_what_it_does_not_state() -> None:
    """It lost the final norm, and "mine is better than pre-norm" was claimed of the same layer."""
    mine = last("pre-norm", MINE)
    assert "after: x = norm(x)" in mine.model
    assert mine.notes == ("takes from pre-norm what it does not state: after: x = norm(x)",)
    assert "after" not in last("rezero", MINE).model  # which has none
    assert "after" not in last(MINE, "pre-norm", base="pre-norm", given={"after": None}).model
    first, other = read(LAYER, "other: x = x + mlp(norm(x))")
    assert "after" not in first.model + other.model and not other.notes
    assert "rmsnorm" in last("peri", MINE).model and "before: x = norm(embed" in last("peri", MINE).model
    gpt2 = last("gpt2", "mine: x = x + dropout(attention(norm(x))); x = x + dropout(mlp(norm(x)))").model
    for part in ("dropout: 0.1", "attention(norm(x), dropout=dropout)", 'activation="gelu_tanh"', '"*.weight": 0.02'):
        assert part in gpt2


def test_options_are_taken_where_the_base_states_them_at_each_call() -> None:
    relu = 'x = x + mlp(norm(x), activation="relu"); x = x + mlp(norm(x), activation="{}")'
    assert 'mlp(norm(x), activation="relu")' in last(relu.format("relu"), "mine: x = x + mlp(norm(x))").model
    assert "activation" not in last(relu.format("silu"), "mine: x = x + mlp(norm(x))").model
    own = last(relu.format("relu"), 'mine: x = x + mlp(norm(x), activation="silu")')
    assert "silu" in own.model and "relu" not in own.model
    normed = "x = x + attention(norm(x), qk_norm=\"head\")"
    assert "score" not in last("alibi", MINE).model and "qk_norm" not in last(normed, MINE).model


def test_keys_beside_a_formula_and_for_all_variants_are_not_taken() -> None:
    assert "after: x = rmsnorm(x)" in last("pre-norm", {"model": LAYER, "after": "x = rmsnorm(x)"}).model
    assert "after" not in last("pre-norm", {"model": LAYER, "after": None}).model
    both = read("pre-norm", MINE, given={"after": "x = rmsnorm(x)"})
    assert all("after: x = rmsnorm(x)" in variant.model for variant in both)
    beside = {"model": LAYER, "name": "attention", "after": "x = rmsnorm(x)"}
    assert "after: x = rmsnorm(x)" in last(beside, "mine: x = x + mlp(norm(x))").model
    assert "norm: x = layernorm(x)" in last("peri", MINE, vary=["norm=rms,layer"]).model


def test_what_does_not_fit_is_left_out_and_said(tmp_path: Path) -> None:
    mine = last("hyper-connections", MINE)
    assert "before" not in mine.model and "after" not in mine.model
    assert [note.split(",")[0] for note in mine.notes] == [
        f"does without {key} of hyper-connections" for key in ("before", "after")
    ]
    assert "init" not in last("deepnorm", "mine: x = x + attention(norm(x))").model  # no matrix of an MLP is there
    assert not last("translator", MINE).notes  # of several stacks
    for kept in (str(tmp_path), "skip-1"):
        (tmp_path / "model.yaml").write_text(f"layer: {LAYER}\n")
        assert not last("pre-norm", kept).notes


def test_the_least_rate_of_dropout_is_said() -> None:
    _, other = read("pre-norm", "gpt2")
    assert other.notes == ("has dropout 0 in place of 0.1, the least rate of all wirings",)


VALUES = {
    "before": "x = embed(tokens) | x = norm(embed(tokens))", "layer": f"{LAYER} | x = x + mlp(x)",
    "after": "none | x = norm(x)", "output": "logits = linear(x, vocab) | logits = linear(norm(x), vocab)",
    "order": "layer | layer if depth > 1 else layer", "causal": "true,false",
    "family": "decoder,encoder", "width": "32,64", "heads": "2,4",
    "init": "embed=0.02 | embed=0.1", "calibrate": "none,admin", "after_step": "none,unit_rows", "share": "1,2",
    "policy": "none | layerdrop(p=0.2)", "schedule": "none,linear", "encoding": "latin-1,cp1252",
    "file_format": "csv,tsv", "where": "score > 1 | score > 2", "lora": "rank=2 | rank=4", "parallel": "none,ddp",
    "ragged": "pad,fit", "class_weights": "balanced | rare=5,common=1", "max_tokens": "16,32",
    "symbols": "20,30", "mean_span": "2,3",
    "template": '{user: "u", assistant: "a"} | {user: "v", assistant: "b"}',
}  # fmt: skip
"""Two values of a key whose type does not say them."""
BESIDE = {
    "quoted": {"data": "rows.csv"}, "column": {"data": "rows.csv"}, "spike": {"on_spike": "skip"},
    "bad_shards": {"stream": True}, "shuffle": {"stream": True}, "gamma": {"loss": "simpo"},
    **dict.fromkeys(("teacher_weight", "teacher_temperature", "teacher_kept"), {"teacher": "runs/large"}),
}  # fmt: skip
"""What a key is read with."""


def two_values(field: Any) -> str:
    """Two values of a field of settings, by its type."""
    kinds = [kind for kind in typing.get_args(field.annotation) or [field.annotation] if kind is not type(None)]
    if typing.get_origin(field.annotation) is typing.Literal:
        return ",".join(map(str, kinds[:2]))
    least = max([2, *(one.ge for one in field.metadata if hasattr(one, "ge"))])
    return {bool: "true,false", int: f"{least},{least + 1}", float: "0.1,0.3"}.get(kinds[0], "one,two")


def varied_keys() -> Iterator[Any]:
    """(task, key, values) of each key that --help all of `train` and `compare` shows under model, data and training;
    each once, for all tasks that have it alike."""
    for key in MODEL_OPTIONS:
        yield TASK, key, VALUES.get(key, "0.1,0.3" if key == "dropout" else "2,3")
    seen = set()
    for task in [TASK, *tasks.names()]:
        for group in groups_of(task):
            for key, field in group.model_fields.items():
                if (mark := (key, str(field.annotation))) not in seen:
                    seen.add(mark)
                    yield task, key, VALUES.get(key) or two_values(field)


@pytest.mark.parametrize(("task", "key", "values"), [*varied_keys()])
def test_each_key_that_help_shows_is_varied_or_says_why_it_is_not(
    task: str, key: str, values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("one,two\n1,2\n")
    typed = "x = x + attention(norm(x)); x = x + dropout(mlp(norm(x)))"
    if for_all(key):
        with pytest.raises(ConfigError, match=f"vary: {key} cannot differ: "):
            read(typed, vary=[f"{key}={values}"], given={"task": task})
        return
    one, other = read(typed, vary=[f"{key}={values}"], given={"task": task, **BESIDE.get(key, {})})
    assert one.settings != other.settings or one.model != other.model


def test_what_goes_for_all_variants_is_not_varied() -> None:
    """Each was taken without a word, and had no effect, or broke up the pairs."""
    for key in ("seed", "seeds", "out", "task", "match", "minutes", "patience", "budget"):
        with pytest.raises(ConfigError, match=f"{key} cannot differ: "):
            read("pre-norm", vary=[f"{key}=1,2"])
    with pytest.raises(ConfigError, match="cold: patience cannot differ: each run goes to the end"):
        read({"model": "post-norm", "name": "cold", "patience": 2}, "post-norm")


def test_a_formula_is_taken_out_by_none() -> None:
    without, with_after = read("pre-norm", vary={"after": [None, "x = rmsnorm(x)"]})
    assert "after" not in without.model and "after: x = rmsnorm(x)" in with_after.model


def test_the_base_comes_first() -> None:
    assert names("pre-norm", "post-norm", "rezero", base="rezero") == ["rezero", "pre-norm", "post-norm"]
    with pytest.raises(InputError, match="did you mean rezero"):
        names("pre-norm", "rezero", base="re-zero")


@pytest.mark.parametrize(
    "typed, settings, kind, said",
    [
        (["pre-norm"], {}, InputError, "nothing to compare it with"),
        ([], {"vary": ["depth=1,2"]}, InputError, "no model"),
        (["pre-norm", "pot-norm"], {}, InputError, "did you mean post-norm"),
        (["pre-norm", "x = x + atention(x)"], {}, FormulaError, "attention"),
        (["pre-norm"], {"vary": ["norm=rsmnorm,layer"]}, ConfigError, "did you mean rmsnorm"),
        (["pre-norm"], {"vary": ["norm=rmss,layer"]}, ConfigError, "did you mean rmsnorm"),
        (["pre-norm"], {"vary": ["optimiser_=adamw,muon"]}, ConfigError, "optimizer"),
        (["pre-norm", "translator"], {"vary": ["layer=x = mlp(x) | x = x"]}, InputError, "several stacks"),
    ],
)
def test_mistakes_are_named(typed: list[str], settings: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        read(*typed, **settings)


def test_a_name_without_its_colon_is_named() -> None:
    with pytest.raises(InputError, match=re.escape("'mine: x = x + mlp(norm(x))'")):
        read_variants(["pre-norm", "mine x = x + mlp(norm(x))"], ComparisonSettings(), {})
    two_lines = "y=norm(x)\nx = x + mlp(y)"
    assert len(read_variants(["pre-norm", two_lines], ComparisonSettings(), {})) == 2
