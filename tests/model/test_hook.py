"""Hooks by name: how they are written, looked up, and given their options."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.model.helpers import checked
from transformula.errors import InputError, UnknownName
from transformula.language.graph import Architecture
from transformula.model.hook import HOOKS, Policy, hook, hook_of


def asking(text: Any, key: str = "after_step", **numbers: Any) -> Architecture:
    """A model that asks for a hook, and is not built."""
    return checked("x = x + mlp(x)", **{key: text}, **numbers)


@hook("after_step", "noted")
def noted(model: Any, *, factor: float, shift: float = 0, name: str = "none") -> tuple[float, float, str]:
    return factor, shift, name


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Any:
    yield
    HOOKS["after_step"]._known.pop("noted")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("noted(2)", (2, 0, "none")),
        ("noted(factor=1 / depth)", (0.25, 0, "none")),
        ("noted(width, sqrt(16) - 1)", (32, 3, "none")),
        ("noted(1, name='a|b', shift=1 if depth > 2 else 2)", (1, 1, "a|b")),
    ],
)
def test_a_call_over_the_numbers_of_the_file(text: str, options: tuple[Any, ...]) -> None:
    found = hook_of(asking(text, depth=4), "after_step")
    assert found is not None and found.func is HOOKS["after_step"].get("noted") and found(None) == options


def test_a_bare_name_takes_the_defaults() -> None:
    found = hook_of(asking("layerdrop", "policy"), "policy")
    assert found is not None and not found.keywords
    assert hook_of(asking("layerdrop", "policy"), "calibrate") is None and hook_of(None, "policy") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit_row", "after_step: unknown after_step hook 'unit_row'; did you mean unit_rows.*--use PACKAGE"),
        ("noted", r"noted needs factor: write noted\(factor=...\)"),
        ("noted(1, 2, 'c', 4)", "takes factor, shift, name; 4 values are given"),
        ("noted(1, factor=2)", "factor is given twice"),
        ("noted(1, factr=2)", "no option 'factr'; did you mean factor"),
        ("unit_rows(2, 3)", "takes columns; 2 values"),
        ("noted(shift=1, shift=2)", "after_step"),
        ("noted(dept)", "no number is called 'dept'.*did you mean depth"),
        ("noted.a(1)", "names no hook"),
        ("1 + 2", "names no hook"),
        ("noted(__import__('os'))", "not a number"),
        ({"noted": "2"}, r"is a mapping; write a name, or a call: after_step: noted\(option=value\)"),
    ],
)
def test_mistakes(text: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"(?s){message}"):
        hook_of(asking(text), "after_step")


def test_every_hook_of_the_package_has_a_source_and_a_file_that_names_it() -> None:
    for key, registry in HOOKS.items():
        assert registry.names(), key
        for name in set(registry.names()) - {"noted"}:
            made = registry.get(name)
            assert made.__doc__ and made.__module__ == f"transformula.model.hooks.{name}"


def test_announcing_twice_or_under_no_key() -> None:
    with pytest.raises(InputError, match="two of the kind"):
        hook("policy", "layerdrop")(Policy)
    with pytest.raises(UnknownName, match="after_step"):
        hook("after_stop", "mine")


def test_a_policy_that_changes_nothing_runs_the_layer() -> None:
    stack = asking("layerdrop", "policy").main
    x = torch.ones(2)
    assert Policy(stack)(lambda entering: {"x": 2 * entering["x"]}, {"x": x}, 1, False)["x"].sum() == 4
