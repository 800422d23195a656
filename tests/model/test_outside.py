"""A word from outside: the shortest one is a forward; what it needs is told by its constructor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.model.helpers import checked, make, tokens
from transformula.errors import InputError
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


FADING = (Path(__file__).parents[2] / "docs/how-to/add-a-word.md").read_text(encoding="utf-8")
FADING = re.findall(r"(?s)<!-- file: my_memory.py -->\n```python\n(.*?)```", FADING)[0]
"""The page's word that remembers."""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, ""),
        (
            ("if at is not None and at.new is not None", "if False"),
            r"'fading'.*a row beside a longer one.*`at.new` says",
        ),
        (('state["h"] = h', 'state["h"] = 0 * h'), r"'fading'.*chunks of 3, 1 and 2 positions.*goes on from `state`"),
        (
            ("step = forward", "step, reorder = forward, lambda self, state, rows: state"),
            "'fading'.*dropped and copied",
        ),
    ],
)
def test_steps_are_tried_when_they_are_first_used(
    change: tuple[str, str] | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FADING
    if change:
        assert change[0] in text
        text = text.replace(*change)
    monkeypatch.delitem(CLASSES, "fading", raising=False)
    exec(compile(text, "my_memory.py", "exec"), {"__name__": "my_memory"})
    try:
        model = make("x = x + fading(norm(x))", before="x = embed.words(tokens)")
        if message:
            with pytest.raises(InputError, match=message):
                model.start(2, 9)
            return
        decoding = model.start(2, 9)
        made = torch.cat([model.step(tokens(2, 9)[:, i : i + 3], decoding) for i in (0, 3, 6)], 1)
        torch.testing.assert_close(made, model(tokens(2, 9)), rtol=1e-9, atol=1e-9)
    finally:
        CLASSES.pop("fading")
