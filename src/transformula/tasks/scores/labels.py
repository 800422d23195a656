"""Scores of labels, one a row or several: accuracy and F1, from 0 to 100.

F1 of a label is 2 both / (predicted + reference): in how many rows it is among both, among what was predicted, and
among the references. Its mean over labels is macro F1; micro F1 first adds the numbers of all labels up. The labels are
those that either side has, as in scikit-learn, whose F1 is 0 too where predictions and references share nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from .measured import Measured, Numbers, check_as_many, mean_of, ratio, share_of_sums

Labels = Sequence[Hashable] | Sequence[Collection[Hashable]]
"""The label of each row; or for each row a list of them, none or more."""


def accuracy(predicted: Sequence[Hashable], references: Sequence[Hashable]) -> Measured:
    """100 times the share of rows whose label is predicted. Raises InputError."""
    check_as_many(predicted, references)
    right = [100.0 * (one == other) for one, other in zip(predicted, references, strict=True)]
    return mean_of("accuracy", f"labels:{len(set(predicted) | set(references))}", right)


def subset_accuracy(predicted: Labels, references: Labels) -> Measured:
    """100 times the share of rows of which exactly the labels are predicted, in any order. Raises InputError."""
    check_as_many(predicted, references)
    ours, theirs = label_sets(predicted), label_sets(references)
    right = [100.0 * (one == other) for one, other in zip(ours, theirs, strict=True)]
    return mean_of("subset accuracy", f"labels:{len(set().union(*ours, *theirs))}", right)


def macro_f1(predicted: Labels, references: Labels) -> Measured:
    """The mean over labels of F1, each label counting alike. In a resample that lacks a label on both sides, the mean
    is over the others. Raises InputError."""
    check_as_many(predicted, references)
    ours, theirs = label_sets(predicted), label_sets(references)
    numbers = {label: number for number, label in enumerate(set().union(*ours, *theirs))}

    def places(sets: Sequence[Collection[Hashable]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The rows and the labels' numbers of all labels of all rows."""
        pairs = [(row, numbers[label]) for row, labels in enumerate(sets) for label in labels]
        rows, labels = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        return rows, labels

    agreed = places([one & other for one, other in zip(ours, theirs, strict=True)])
    stated = places([[*one, *other] for one, other in zip(ours, theirs, strict=True)])

    def sums(counts: Numbers, of: tuple[NDArray[np.intp], NDArray[np.intp]]) -> Numbers:
        """How often each label stands there, (draws, labels)."""
        rows, labels = of
        return np.stack([np.bincount(labels, draw[rows], minlength=len(numbers)) for draw in counts])

    def value(counts: Numbers) -> Numbers:
        both, either = sums(counts, agreed), sums(counts, stated)
        return 100 * ratio(ratio(2 * both, either).sum(axis=-1), (either > 0).sum(axis=-1))

    return Measured("macro F1", f"labels:{len(numbers)}|mean:macro", value, f1_of_sets(ours, theirs))


def micro_f1(predicted: Labels, references: Labels) -> Measured:
    """F1 of all labels of all rows taken together; of one label a row it is the accuracy. Raises InputError."""
    check_as_many(predicted, references)
    ours, theirs = label_sets(predicted), label_sets(references)
    both = [2 * len(one & other) for one, other in zip(ours, theirs, strict=True)]
    either = [len(one) + len(other) for one, other in zip(ours, theirs, strict=True)]
    signature = f"labels:{len(set().union(*ours, *theirs))}|mean:micro"
    return share_of_sums("micro F1", signature, both, either, f1_of_sets(ours, theirs))


def label_sets(labels: Labels) -> list[set[Hashable]]:
    """Each row's labels as a set; one label alone is a set of one."""
    several = (list, tuple, set, frozenset)
    return [set(each) if isinstance(each, several) else {each} for each in labels]  # type: ignore[arg-type]


def f1_of_sets(predicted: Sequence[set[Hashable]], references: Sequence[set[Hashable]]) -> Numbers:
    """F1 of each row's labels, from 0 to 100; 100 where both sides have none."""
    pairs = zip(predicted, references, strict=True)
    return np.array([200 * len(a & b) / (len(a) + len(b)) if a or b else 100.0 for a, b in pairs])
