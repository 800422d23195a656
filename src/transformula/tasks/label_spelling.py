"""Labels as data spells them: rows without one, names that may be one label, labels that training has not."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ..data.records import Record
from ..errors import DataError, did_you_mean, nearest, setting

MISSING = ("", "nan")  # no label, lowercased: an empty field, null, and what tables of numbers have in its place
DOUBTFUL = ("none", "null", "na", "n/a", "<na>", "-", "?")  # may be labels, and may stand for none
WHOLE_NUMBER = re.compile(r"([+-]?\d{1,99})(\.0*)?")
NAMED_LABELS = 5  # of the labels that a note is about, so many are named


def is_label(text: str) -> bool:
    return text.strip().lower() not in MISSING


def strip_labels(records: Sequence[Record], key: str, several: bool, notes: list[str]) -> list[Record]:
    """Records whose `label` is stripped of blanks. Those without one are left out, unless a row may have several labels
    or none; a note counts them. Raises DataError where none is left."""
    rows, without = [], 0
    for row in records:
        labels = row["label"]
        if isinstance(labels, list):
            kept = [part.strip() for part in labels if is_label(part)]
            without += not kept
            rows.append(row.changed(label=kept))
        elif is_label(str(labels)):
            rows.append(row.changed(label=str(labels).strip()))
        else:
            without += 1
    if not rows:
        raise DataError(f"{key}: no row has a label; is it the right column?")
    if without:
        what = "are read as having none of the labels" if several else "are left out"
        notes.append(f"{key}: {without:,} of {len(records):,} rows have no label and {what}")
    return rows


def counts_in_words(labels: Iterable[str], counts: Mapping[str, int]) -> str:
    """Some labels with their counts, the most frequent first: "'a' 12, 'b' 3 and 4 more"."""
    ordered = sorted(labels, key=lambda label: (-counts[label], label))
    return some_in_words([f"{label!r} {counts[label]:,}" for label in ordered])


def some_in_words(texts: Sequence[str]) -> str:
    """The first few texts, and how many more there are."""
    more = f" and {len(texts) - NAMED_LABELS:,} more" if len(texts) > NAMED_LABELS else ""
    return ", ".join(texts[:NAMED_LABELS]) + more


def fold_label(label: str) -> str:
    """What is the same for labels that differ by case, by blanks, or by how a whole number is written."""
    plain = " ".join(label.casefold().split())
    number = WHOLE_NUMBER.fullmatch(plain)
    return str(int(number[1])) if number else plain


def label_notes(rows: Iterable[Sequence[str]], known: Sequence[str], what: str = "label") -> list[str]:
    """Notes on the labels of training rows that may be one label, may stand for none, or stand once; and on labels that
    a model knows and no row has."""
    counts = Counter(label for labels in rows for label in labels)
    alike = defaultdict(list)
    for label in counts:
        alike[fold_label(label)].append(label)
    notes = [
        f"{what}s that differ by case, blanks or how a number is written, and are {len(each)} classes:"
        f" {counts_in_words(each, counts)}; if they are one, write it one way in the data"
        for each in alike.values()
        if len(each) > 1
    ]
    doubtful = [label for label in counts if label.lower() in DOUBTFUL]
    if doubtful:
        remedy = setting("where", repr(" and ".join(f"COLUMN != {label}" for label in doubtful)))
        about = f"{what}s that are classes, and may say that there is none: {counts_in_words(doubtful, counts)}"
        notes.append(f"{about}; if so, leave their rows out: {remedy}")
    once = [label for label in counts if counts[label] == 1]
    if once:
        about = f"{what}s that stand once in training, so that little is learned of them"
        notes.append(f"{about}: {counts_in_words(once, counts)}")
    untrained = [repr(label) for label in known if not counts[label]]
    if untrained:
        notes.append(f"{what}s that are kept, and that no training row has: {some_in_words(untrained)}")
    return notes


def unseen_notes(rows: Iterable[Sequence[str]], known: Sequence[str], named: str, what: str = "label") -> list[str]:
    """A note on labels of rows, `named` so, that training has not, so that each counts as wrong; none where there are
    none."""
    those = set(known)
    counts = Counter(label for labels in rows for label in labels if label not in those)
    if not counts:
        return []
    near = [close for label, _ in counts.most_common(NAMED_LABELS) for close in nearest(label, known, 1)]
    about = f"{what}s of {named} that training has not, so that they count as wrong"
    return [f"{about}: {counts_in_words(counts, counts)};{did_you_mean(near[:3])} known: {', '.join(known[:20])}"]
