"""Labels: one label is one module, in its formula or, with `share=`, wherever in the model the number is equal."""

from __future__ import annotations

from typing import Any

from .context import Scope
from .graph import Call, Frame, describe
from .messages import FormulaError
from .source import Place
from .syntax import CallNode


class Labels:
    """What the labels of a model stand for."""

    def __init__(self) -> None:
        self.shared: dict[Any, Any] = {}

    def find(self, node: CallNode, scope: Scope, share: int | None, word: str, family: str = "") -> tuple[str, Any]:
        """The word and the call or frame that a call's label stands for, ("", None) where it is new.

        Raises FormulaError where it stands for another word, but for one of the same family.
        """
        known = self.table(scope, share).get((node.label, share))
        if not node.label or known is None:
            return "", None
        first, first_family, thing = known
        if first != word and not (family and first_family == family):
            raise FormulaError("label-twice", node.place, label=node.label, first=first, second=word)
        return first, thing

    def set(
        self, node: CallNode, scope: Scope, share: int | None, word: str, thing: Call | Frame, family: str = ""
    ) -> None:
        """Let a call's label, if it has a new one, stand for the call."""
        if node.label:
            self.table(scope, share).setdefault((node.label, share), (word, family, thing))

    def table(self, scope: Scope, share: int | None) -> dict[Any, Any]:
        return scope.labels if share is None else self.shared


def take_share(word: str, node: CallNode, options: dict[str, tuple[Any, Place]]) -> int | None:
    """The number under `share=`, taken out of the options; None without. Raises FormulaError."""
    if "share" not in options:
        return None
    value, place = options.pop("share")
    if not node.label:
        raise FormulaError("share-label", node.place, word=word)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        expected, given = "a whole number", describe(value)
        raise FormulaError("option-type", place, word=word, name="share", expected=expected, given=given, help="")
    return value
