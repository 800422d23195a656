"""Edits of a model: each is a model, none changes its parent, and those that say that they start as it do."""

from __future__ import annotations

from random import Random

import pytest
import torch
from torch import Tensor

from transformula.analysis.canonical import formula_hash
from transformula.api.reading import check_model, known_words
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.model_file import read_text
from transformula.language.model_writing import write_text
from transformula.model import build
from transformula.search.edit import edits, edits_of
from transformula.search.proposers.edits import EditProposer
from transformula.search.records import Leaderboard
from transformula.search.sketch import Sketch
from transformula.search.twins import twin_of

SIZES = {"vocab": 17, "width": 16, "heads": 2, "depth": 4, "context": 16}
BASES = ("pre-norm", "post-norm", "lambdas", "macaron", "gtrxl", "mix-ln")


def logits_of(architecture: Architecture) -> Tensor:
    tokens = torch.arange(12)[None] % 17
    with torch.no_grad():
        return build(architecture, seed=1, dtype=torch.float64).eval()(tokens)


@pytest.mark.parametrize("base", BASES)
def test_edits_are_models_that_can_be_written_and_built(base: str) -> None:
    parent = check_model(base, SIZES)
    written, hashes = write_text(parent.text), {formula_hash(parent)}
    for edit, child in edits_of(parent, known_words()):
        hashes.add(formula_hash(child))
        again = check(read_text(write_text(edit.text)), known_words())
        assert formula_hash(again) == formula_hash(child), edit
        build(child, device="meta")
        assert edit.reason
    assert len(hashes) > 30
    assert write_text(parent.text) == written


@pytest.mark.parametrize("base", BASES)
def test_what_says_so_starts_as_its_parent(base: str) -> None:
    parent = check_model(base, SIZES)
    logits = logits_of(parent)
    neutral = [(edit, child) for edit, child in edits_of(parent, known_words()) if edit.neutral]
    assert neutral
    for edit, child in neutral:
        assert torch.allclose(logits_of(child), logits, atol=1e-9), edit.reason


def test_every_kind_of_edit_changes_some_base() -> None:
    kinds = {edit.kind for base in BASES for edit, _ in edits_of(check_model(base, SIZES), known_words())}
    kinds |= {edit.kind for edit, _ in edits_of(check_model("no-skip", SIZES), known_words())}
    assert kinds == {*edits.names()}


def test_no_kind_of_edit_is_drawn_twice_before_all_are_drawn_once() -> None:
    parent, words = check_model("pre-norm", SIZES), known_words()
    own: dict[str, list[str]] = {}
    for edit, _ in edits_of(parent, words):
        own.setdefault(edit.kind, []).append(edit.reason)
    proposals = EditProposer(words).propose(
        Leaderboard("language-modeling", "pre-norm", "bits", [], []), {"base": parent}, set(), len(own), Random(1)
    )
    kinds = [next(kind for kind, reasons in own.items() if one.reason in reasons) for one in proposals]
    assert len({*kinds}) == len(kinds) > 15


def test_one_node_is_replaced_and_an_equal_one_stays() -> None:
    (formula,) = Sketch(check_model("x = x + attention(norm(x)); x = x + mlp(norm(x))", SIZES), known_words()).formulas
    first, second = formula.norms()
    assert "attention(x)" in formula.with_node(first, first.items[0]).stacks[0].layers["layer"].text
    assert "mlp(x)" in formula.with_node(second, second.items[0]).stacks[0].layers["layer"].text


@pytest.mark.parametrize("base", ["pre-norm", "parallel", "canon", "value-residual", "mix-ln", "primer-ez"])
def test_a_twin_is_the_base_with_other_initial_values(base: str) -> None:
    parent = check_model(base, SIZES)
    twins = [check(twin_of(parent, known_words(), number), known_words()) for number in (1, 2)]
    logits = [logits_of(one) for one in (parent, *twins)]
    assert all(not torch.allclose(a, b) for a, b in zip(logits, logits[1:], strict=False))
    modules = [build(one, seed=1, dtype=torch.float64) for one in (parent, *twins)]
    values = [parameter for _, parameter in modules[0].named_parameters()]
    for twin in modules[1:]:  # the same function of the same values
        others = [parameter for _, parameter in twin.named_parameters()]
        assert [one.shape for one in others] == [one.shape for one in values]
        with torch.no_grad():
            for one, value in zip(others, values, strict=True):
                one.copy_(value)
        tokens = torch.arange(12)[None] % 17
        assert torch.allclose(twin.eval()(tokens), modules[0].eval()(tokens), atol=1e-12)
