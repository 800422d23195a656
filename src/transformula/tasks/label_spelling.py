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
NAMED = 5  # of the labels that a note is about, so many are named


def is_label(text: str) -> bool:
    return text.strip().lower() not in MISSING


def labeled(records: Sequence[Record], key: str, several: bool, notes: list[str]) -> list[Record]:
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


def counted(labels: Iterable[str], counts: Mapping[str, int]) -> str:
    """Some labels with their counts, the most frequent first: "'a' 12, 'b' 3 and 4 more"."""
    ordered = sorted(labels, key=lambda label: (-counts[label], label))
    more = f" and {len(ordered) - NAMED:,} more" if len(ordered) > NAMED else ""
    return ", ".join(f"{label!r} {counts[label]:,}" for label in ordered[:NAMED]) + more


def folded(label: str) -> str:
    """What is the same for labels that differ by case, by blanks, or by how a whole number is written."""
    plain = " ".join(label.casefold().split())
    number = WHOLE_NUMBER.fullmatch(plain)
    return str(int(number[1])) if number else plain


def about_spelling(counts: Mapping[str, int], what: str = "label") -> list[str]:
    """Notes on labels of training that may be one label, may stand for none, or stand once."""
    alike = defaultdict(list)
    for label in counts:
        alike[folded(label)].append(label)
    notes = [
        f"{what}s that differ by case, blanks or how a number is written, and are {len(each)} classes:"
        f" {counted(each, counts)}; if they are one, write it one way in the data"
        for each in alike.values()
        if len(each) > 1
    ]
    doubtful = [label for label in counts if label.lower() in DOUBTFUL]
    if doubtful:
        remedy = setting("where", repr(" and ".join(f"COLUMN != {label}" for label in doubtful)))
        about = f"{what}s that are classes, and may say that there is none: {counted(doubtful, counts)}"
        notes.append(f"{about}; if so, leave their rows out: {remedy}")
    once = [label for label in counts if counts[label] == 1]
    if once:
        notes.append(f"{what}s that stand once in training, so that little is learned of them: {counted(once, counts)}")
    return notes


def untrained(labels: Iterable[str], counts: Mapping[str, int], what: str = "label") -> list[str]:
    """A note on labels of a model that no training row has; none where there are none."""
    kept = [label for label in labels if not counts[label]]
    more = f" and {len(kept) - NAMED:,} more" if len(kept) > NAMED else ""
    named = ", ".join(map(repr, kept[:NAMED]))
    return [f"{what}s that are kept, and that no training row has: {named}{more}"] if kept else []


def unseen(labels: Iterable[str], known: Sequence[str], rows: str, what: str = "label") -> list[str]:
    """A note on labels of `rows` that training has not, so that each counts as wrong; none where there are none."""
    those = set(known)
    counts = Counter(label for label in labels if label not in those)
    if not counts:
        return []
    near = did_you_mean([close for label, _ in counts.most_common(NAMED) for close in nearest(label, known, 1)][:3])
    return [
        f"{what}s of {rows} that training has not, so that they count as wrong: {counted(counts, counts)};{near}"
        f" known: {', '.join(known[:20])}"
    ]
