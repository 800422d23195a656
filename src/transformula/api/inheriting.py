"""A formula completed with the rest of another model's text, as far as a run of it can be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..errors import TransformulaError
from ..language.inherited import KEYS, Inherited, inherited
from ..language.model_text import ModelText
from ..model import build
from .plan import OF_MODELS, resolve
from .reading import TASK, check_model, known_words, mentions


def completed(
    text: ModelText,
    other: ModelText,
    beside: Mapping[str, Any],
    stated: Mapping[str, Any],
    task: str = TASK,
    use: Sequence[str] = (),
) -> Inherited:
    """A formula's text with what it takes from another model where it says nothing itself.

    beside  keys that were given beside the other model: its `after`, for one
    stated  keys that are given beside the formula
    """

    def fits(text: ModelText) -> bool:
        keys = {key: value for key, value in stated.items() if key in OF_MODELS or mentions(text, key)}
        with suppress(TransformulaError):
            architecture = check_model(resolve(text, keys, task=task)[0], use=use)
            build(architecture, device="meta")  # initial values are by names of parameters
            return True
        return False

    if other.single:
        other = other.override({key: value for key, value in beside.items() if key in KEYS})
    return inherited(text, other, stated, known_words(use), fits)
