"""A word from outside: the shortest one is a forward; what it needs is told by its constructor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.model.helpers import checked, make, tokens
from transformula.model import build
from transformula.words.word import CLASSES, Word, word


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    """Two words, known in this module's tests alone: other modules collect all words there are."""

    @word("doubled", streams=("x",), kind="function", width="x", equation="y = 2 x")
    class Doubled(Word):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * x

    @word("timed", streams=("x",), kind="function", width="x", options={"by": {"type": "number", "default": 3}})
    class Timed(Word):
        def forward(self, x: Tensor) -> Tensor:
            return 3 * x

    yield
    CLASSES.pop("doubled")
    CLASSES.pop("timed")


def test_a_word_that_is_its_forward_alone() -> None:
    torch.testing.assert_close(make("x = x + doubled(mlp(x))")(tokens()), make("x = x + 2 * mlp(x)")(tokens()))


def test_an_option_that_nothing_takes_is_not_ignored() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        build(checked("x = x + timed(x)"))
