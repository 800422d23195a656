"""Exact match: the share of the predictions that are a reference, letter by letter."""

from __future__ import annotations

from collections.abc import Sequence

from .measured import Measured, References, checked, counted, mean_of


def exact_match(predictions: Sequence[str], references: References) -> Measured:
    """100 times the share of predictions that equal one of their references; spaces at both ends do not count.

    Raises InputError.
    """
    lists = checked(predictions, references)
    equal = [
        100.0 * any(prediction.strip() == reference.strip() for reference in each)
        for prediction, each in zip(predictions, lists, strict=True)
    ]
    return mean_of("exact match", f"nrefs:{counted(lists)}|case:mixed", equal)
