"""The examiner sees what is wrong: a model that breaks a promise fails, by the name of the promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.generated.examine import BUILT, examine
from transformula.model import decoding
from transformula.words import attention
from transformula.words.cache import Cache

TEXT = """
depth: 2
width: 8
heads: 2
vocab: 11
context: 12
layer: x = x + attention(norm(x), rotary=100)
"""
SEEN = "causal: false\n" + TEXT


def attended(change: Callable[[Tensor], Tensor], padding: bool = True, **others: Any) -> Any:
    """`attend` whose result is changed, or that is called with other settings, or is not told of padding."""
    real = attention.attend

    def wrong(q: Tensor, k: Tensor, v: Tensor, settings: Any, extras: Any, *given: Any, **options: Any) -> Any:
        y, scores = real(q, k, v, replace(settings, **others), extras if padding else None, *given, **options)
        return change(y), scores

    return wrong


def same(y: Tensor) -> Tensor:
    return y


def doubled_behind(y: Tensor) -> Tensor:
    """The same values, with twice the gradient."""
    return 2 * y - y.detach()


WRONG = [
    ("sees the future", TEXT, "attend", attended(same, causal=False), "another last position"),
    ("mixes rows", TEXT, "attend", attended(lambda y: y - y.mean(0, keepdim=True)), "row 0 alone"),
    ("has chance when it evaluates", TEXT, "attend", attended(lambda y: y + torch.rand(())), "evaluates twice"),
    ("has wrong gradients", TEXT, "attend", attended(doubled_behind), "the loss changes by"),
    ("has no gradient", TEXT, "attend", attended(Tensor.detach), "the loss changes by"),
    ("has gradients that are none", TEXT, "attend", attended(lambda y: y + (y - y.detach()).abs().sqrt()), "no number"),
    ("sees padding", SEEN, "attend", attended(same, padding=False), "beside the others"),
]


@pytest.mark.parametrize(("what", "text", "name", "wrong", "said"), WRONG, ids=[row[0] for row in WRONG])
def test_it_sees(what: str, text: str, name: str, wrong: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert examine(text) == BUILT
    monkeypatch.setattr(attention, name, wrong)
    with pytest.raises(AssertionError, match=said):
        examine(text)


def test_it_sees_that_decoding_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Cache.attend
    monkeypatch.setattr(Cache, "attend", lambda *given, **options: (real(*given, **options)[0] * 1.000001, None))
    with pytest.raises(AssertionError, match="decoded in chunks"):
        examine(TEXT)


def test_it_sees_that_rows_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding.Decoding, "_select_caches", lambda *given: False)
    with pytest.raises((AssertionError, RuntimeError)):
        examine(TEXT)


def test_it_sees_numbers_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole pass gives numbers, and a row alone none."""
    wrong = attended(lambda y: y if y.shape[0] > 1 else y / 0)
    monkeypatch.setattr(attention, "attend", wrong)
    with pytest.raises(AssertionError, match="numbers are none"):
        examine(TEXT)
