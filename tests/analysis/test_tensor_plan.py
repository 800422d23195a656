"""Which matrices are split among devices, and how: from records alone, without a process group."""

from __future__ import annotations

import re

import pytest

from tests.invariants.harness import every_day
from tests.training.parallel.splits import even
from transformula import gallery
from transformula.analysis.accounting import summary
from transformula.analysis.tensor_plan import TensorPlan, tensor_plan
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_text import from_formula
from transformula.language.vocabulary import record_from
from transformula.words import vocabulary


def plan(layer: str, size: int = 2, **numbers: object) -> TensorPlan:
    return tensor_plan(check(from_formula(layer), vocabulary(), {"depth": 2, "width": 16, **numbers}), size)


def how(made: TensorPlan, path: str) -> tuple[str, str]:
    row = next(row for row in made.rows if row.path == path)
    return row.how, row.why


def test_a_layer_is_split_as_megatron_splits_it() -> None:
    made = plan("x = x + attention(norm(x)); x = x + mlp(norm(x), gated=True)", heads=4, vocab=32)
    split = {row.path.removeprefix("layers.2."): row.how for row in made.split if row.path.startswith("layers.2")}
    columns = dict.fromkeys(["attention.query", "attention.key", "attention.value", "mlp.gate", "mlp.up"], "columns")
    assert split == {**columns, "attention.output": "rows", "mlp.down": "rows"}
    assert how(made, "words") == ("vocabulary", "rows = 32")
    assert how(made, "layers.1.attention_input_norm") == ("whole", "`norm` states no split")


@pytest.mark.parametrize("name", every_day(gallery.names()))
def test_every_entry_has_a_plan_that_counts_each_parameter_once(name: str) -> None:
    architecture = even(name)
    made, total = tensor_plan(architecture, 2), summary(architecture).data["totals"]["parameters"]
    assert not made.refusal()
    totals = made.data["totals"]
    assert totals["parameters"] == total == sum(row.parameters for row in made.rows)
    assert total / 2 <= totals["parameters_of_a_device"] < total
    assert len({row.path for row in made.rows}) == len(made.rows)
    alone = tensor_plan(architecture, 1)
    assert not alone.split and alone.data["totals"]["parameters_of_a_device"] == total


@pytest.mark.parametrize(
    ("layer", "numbers", "path", "why"),
    [
        ("x = x + attention(x)", {"width": 15, "heads": 3}, "attention", "heads = 3 does not divide among 2 devices"),
        ("x = x + attention(x, kv_heads=1)", {"heads": 4}, "attention", "kv_heads = 1 does not divide among 2 devices"),
        ('x = x + attention(x, qk_norm="full")', {"heads": 4}, "attention", "its norms read all heads at once"),
        ("x = x + attention(x) + attention.v", {"heads": 4}, "attention", "the formula reads attention.v"),
        ("x = x + mlp(x, hidden=7)", {}, "mlp", "hidden = 7 does not divide among 2 devices"),
        ("x = x + rnn(x)", {}, "rnn", "`rnn` states no split"),
    ],
)
def test_what_is_not_split_says_why(layer: str, numbers: dict[str, int], path: str, why: str) -> None:
    kind, said = how(plan(layer, **numbers), f"layers.1.{path}")
    assert kind == "whole" and said.startswith(why)


def test_all_calls_of_a_module_must_agree() -> None:
    shared = "x = x + attention.a(x); x = x + attention.a(x) + a.v"
    assert how(plan(shared, heads=4), "layers.1.a")[0] == "whole"


def test_a_model_without_any_split_is_refused_with_reasons() -> None:
    refused = plan("x = x + rnn(x)", vocab=3).refusal()
    assert "among 2 devices" in refused and "`rnn` states no split" in refused and "rows = 3" in refused
    assert plan("x = x + mlp(x)").refusal() == ""
    with pytest.raises(InputError, match="at least one device; given: 0"):
        plan("x = x + mlp(x)", 0)


def test_the_table_says_equal_layers_once() -> None:
    text = repr(plan("x = x + mlp(norm(x))", depth=12, vocab=32))
    row = next(line for line in text.splitlines() if "mlp.up" in line)
    assert re.split(r"  +", row) == ["layers.1-12.mlp.up", "columns", "13,056", "6,528", "hidden = 64"]
    alternating = repr(plan("x = x + mlp(x, hidden=64 if layer % 2 == 1 else 32)", depth=4))
    assert "layers.1,3.mlp.up" in alternating and "layers.2,4.mlp.up" in alternating


def test_records_split_what_they_have() -> None:
    for record in vocabulary().values():
        for matrix, _ in record.splits.items():
            held = [name for name in record.parameters if name == matrix or name.rpartition(".")[0] == matrix]
            assert held, f"{record.name}: {matrix}"
        assert bool(record.splits) == bool(record.split_by), record.name


def test_a_record_that_splits_otherwise_is_refused() -> None:
    with pytest.raises(InputError, match="splits a matrix by 'diagonals'; known: columns, rows, gathered"):
        record_from("odd", {"streams": ("x",), "kind": "channels", "splits": {"": "diagonals"}}, "here")
