"""Edits: small changes of a checked model, each a text and a reason. An edit is a function under `@edits.register`:

@edits.register("norm-of-branch")
def norm_of_branch(sketch: Sketch) -> Iterator[Edit]: ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..errors import InputError
from ..language.check import check
from ..language.graph import Architecture
from ..language.messages import FormulaError
from ..language.model_text import ModelText
from ..language.vocabulary import Vocabulary
from ..registry import Registry
from .sketch import Sketch


@dataclass(frozen=True)
class Edit:
    """A changed model.

    text     the whole text
    reason   what was changed and where, in one sentence
    neutral  whether the model starts as the one that was changed: with the same seed, equal logits before training
    kind     the edit's name in the registry
    """

    text: ModelText
    reason: str
    neutral: bool = False
    kind: str = ""


edits: Registry[Callable[[Sketch], Iterator[Edit]]] = Registry("edit", "transformula.search.edits", "@edits.register(")


def edits_of(architecture: Architecture, vocabulary: Vocabulary) -> Iterator[tuple[Edit, Architecture]]:
    """All edits of a model that are models themselves, each with its checked graph, in a fixed order."""
    sketch = Sketch(architecture, vocabulary)
    for name in edits.names():
        for edit in edits.get(name)(sketch):
            try:
                yield replace(edit, kind=name), check(edit.text, vocabulary)
            except (FormulaError, InputError):  # such as a name that the place does not know
                continue
