"""The split: what trains, and what is held out; and the check that no evaluation row is also a training row, as no
score on these says anything.

A hash decides, read as a fraction of 2^64: below `share` a document or a row is held out, the lowest of all in any case
and the highest never. So its side depends on its content (and a seed) alone, neither on the others nor on the order of
files, and equal ones are on one side. A single text is cut: its end is held out.

    document   the first 8 bytes of its SHA-256
    row        BLAKE2b of the seed and of its source (or all its fields, see `row_digest`); of its group, where it has
               one: so a group is on one side, and nothing is asked in evaluation that was answered in training

Rows with labels are stratified: of each label its share is held out, those of the lowest hashes.

Two rows are equal if all their fields, or those that are compared, are equal but for white space.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from ..errors import ConfigError, DataError, setting
from ..tokenizers.texts import Texts, place_of
from .corpus import Corpus
from .lines import excerpt
from .messages import message_text
from .preview import working
from .records import Record, Value, source_names
from .settings import FRACTION, Named, SourceSettings, TestedSettings
from .sound import RATE, SoundFile, samples_of

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """Texts for training and for validation."""

    training: Texts
    validation: Texts
    how: str  # one line that says how they were told apart
    whole: bool  # they are whole documents, not one text cut in two: each is ended by a token
    removed: int = 0  # documents that were dropped from training because they are in the validation set too
    alone: bool = False  # there is no text for training: it is that for validation


def turned(hashes: Iterable[int], share: float, fold: int) -> list[int]:
    """Hashes such that those of a fold, [fold share, (fold + 1) share) of 2^64, come to be the lowest."""
    first = int(fold * share * 2**64)
    return [(number - first) % 2**64 for number in hashes]


def split_by_hash(rows: Sequence[T], hashes: Sequence[int], share: float) -> tuple[list[T], list[T]]:
    """Rows to train on, and those that are held out, each in their order, by hashes below 2^64 of which at least two
    are different: neither are none."""
    limit = min(max(int(share * 2**64), min(hashes) + 1), max(hashes))
    held = [number < limit for number in hashes]
    return [row for row, out in zip(rows, held, strict=True) if not out], list(itertools.compress(rows, held))


def split_by_label(
    rows: Sequence[T], hashes: Sequence[int], labels: Sequence[Collection[str]], share: float
) -> tuple[list[T], list[T]]:
    """As `split_by_hash`, with about `share` of each label held out, and never all that a label has.

    Rows of equal hashes stay together, by the rarest of their labels (Sechidis et al. 2011 begin with it, too). As many
    are held out as `share` says; the largest remainders are rounded up.
    """
    counts = Counter(itertools.chain.from_iterable(labels))
    groups, strata = dict[int, set[str]](), dict[str, list[int]]()
    for number, own in zip(hashes, labels, strict=True):
        groups.setdefault(number, set()).update(own)
    for number in sorted(groups):
        rarest = min(groups[number], key=lambda label: (counts[label], label), default="")
        strata.setdefault(rarest, []).append(number)
    most = {label: len(numbers) - 1 for label, numbers in strata.items()}
    held = {label: min(int(share * len(numbers)), most[label]) for label, numbers in strata.items()}
    remainders = sorted(strata, key=lambda label: (held[label] - share * len(strata[label]), strata[label][0]))
    further = max(0, max(1, round(share * len(groups))) - sum(held.values()))
    for label in [label for label in remainders if held[label] < most[label]][:further]:
        held[label] += 1
    if not any(held.values()):  # each label once
        return split_by_hash(rows, hashes, share)
    out = {number for label, numbers in strata.items() for number in numbers[: held[label]]}
    inside = [number in out for number in hashes]
    return [row for row, one in zip(rows, inside, strict=True) if not one], list(itertools.compress(rows, inside))


def split_corpus(corpus: Corpus, fraction: float = FRACTION, fold: int = 0) -> Split:
    """Split a corpus. Raises DataError for a text too short to be cut."""
    documents = corpus.documents
    if len(set(documents.digests)) == 1:
        text = memoryview(documents.contents[0])
        characters = Texts([text]).characters
        # Written so that a tenth gives int(0.9 * n), the cut that everyone makes in tiny Shakespeare.
        cut, end = int((1 - (fold + 1) * fraction) * characters), int((1 - fold * fraction) * characters)
        if not 0 <= cut < end or (cut, end) == (0, characters):
            raise DataError(f"is too short to be split: {characters} characters", path=corpus.name)
        first, last = place_of(text, cut), place_of(text, end)
        how = f"the last {fraction:.3g} of the text validates" if not fold else f"fold {fold} of the text validates"
        sides = [side for side in (text[:first], text[last:]) if side]
        return Split(Texts(sides), Texts([text[first:last]]), how, whole=False)
    hashes = turned((int.from_bytes(digest[:8], "big") for digest in documents.digests), fraction, fold)
    training, validation = map(Texts, split_by_hash(documents.contents, hashes, fraction))
    about = f"about {fraction:.3g}{f', fold {fold}' if fold else ''}"
    how = f"{len(validation)} of {len(documents)} documents validate, chosen by their hash ({about})"
    return Split(training, validation, how, whole=True)


def split_given(corpus: Corpus, validation: Corpus, overlap: str = "drop") -> Split:
    """Training and validation as given. `overlap` is what is done with documents that are in both: "drop" (from
    training), "keep" or "refuse", a DataError; as it is where nothing is left to train on."""
    documents = corpus.documents
    held = set() if overlap == "keep" else set(validation.documents.digests)
    training = [c for digest, c in zip(documents.digests, documents.contents, strict=True) if digest not in held]
    removed = len(documents) - len(training)
    if not training:
        message = f"is also the validation data ({validation.name}): nothing is left to train on"
        raise DataError(message, path=corpus.name, seen=True)
    if removed and overlap == "refuse":
        raise DataError(
            f"{removed:,} of its documents are also in the validation set ({validation.name}); take them out, or drop"
            " them from training with overlap: drop",
            path=corpus.name,
        )
    whole = len(training) > 1 or len(validation.documents) > 1
    return Split(Texts(training), validation.documents, f"validation data given: {validation.name}", whole, removed)


def split_records(
    records: Iterable[Record],
    share: float = FRACTION,
    seed: int = 1,
    together: Sequence[str] | None = None,
    labels: Callable[[Record], Sequence[str]] | None = None,
    fold: int = 0,
) -> tuple[list[Record], list[Record]]:
    """The records to train on, and about `share` of them that are held out, at least one group or record; both in the
    order in which they came. Raises DataError where all belong together, or there is none.

    together  fields that keep records on one side where they are equal; by default `source`, if there is one, else all
    labels    those of a record, of which each has its share on both sides; None: a record's own hash decides alone
    fold      which of the parts of that size, counted from 0
    """

    def hash_of(record: Record) -> int:
        if record.group:
            content = b"group " + record.group.encode("utf-8", "surrogatepass")
        else:
            content = b"row " + row_digest(record, together or (["source"] if "source" in record else None))
        return int.from_bytes(hashlib.blake2b(f"{seed} ".encode() + content, digest_size=8).digest(), "big")

    rows = list(records)
    hashes = turned(map(hash_of, rows), share, fold)
    if len(set(hashes)) < 2:
        what = "are no records" if not rows else "is only one record, or one group of records"
        raise DataError(f"there {what}: none can be held out; name more, or validation data")
    if labels is None:
        return split_by_hash(rows, hashes, share)
    return split_by_label(rows, hashes, list(map(labels, rows)), share)


@dataclass(frozen=True)
class SplitRows:
    """Records of three splits. Where no test set is named beside a validation set, the two are one."""

    name: str  # of the data
    training: Sequence[Record]
    validation: Sequence[Record]
    test: Sequence[Record]
    notes: tuple[str, ...]  # what a person is told of them


def read_split(
    settings: SourceSettings,
    read: Callable[[Named, Any, str, list[str]], Sequence[Record]],
    compared: Sequence[str],
    together: Sequence[str],
    default: Named = None,
    labels: Callable[[Record], Sequence[str]] | None = None,
) -> SplitRows:
    """The rows that the settings name, or of the built-in set `default`, split and checked for overlap. Where they name
    none there are no training rows.

    read      the rows of some sources, by the settings; the key that names them, for errors; notes that it may add to
    compared  the fields by which an evaluation row is also a training row; none: all
    together  fields that keep rows on one side of a split where they are equal; see `split_records` for none
    labels    those of a row, by which a split is stratified; None: it is not

    Raises DataError at the row that cannot be read, for evaluation rows that are also training rows, and for none.
    """
    data = settings.data or default
    notes: list[str] = []
    held: dict[str, Sequence[Record]] = {}
    with working("reading the data"):
        training = [] if data is None else read(data, settings, "data", notes)
        whole = len(training)
        named = {"validation": settings.validation}
        if isinstance(settings, TestedSettings):
            named["test"] = settings.test
        for name, sources in named.items():
            if sources is not None:
                held[name] = read(sources, settings, name, notes)
        # Rows that choose the best of a run's models are not those that score it, unless they alone were named.
        for seed, name in enumerate(named if "validation" not in held else (), 1):
            if name not in held:
                training, held[name] = split_records(
                    training, settings.split, seed, together, labels, settings.fold
                )
                share = 100 * len(held[name]) / whole
                notes.append(f"{len(held[name]):,} rows ({share:.3g} %) are held out for {name}")
    with working("looking for evaluation rows in the training set"):
        # Of rows that were held out by equal fields none is left, unless groups decided.
        grouped = any(record.group for record in training)
        overlaps = [
            find_overlap(training, rows, f"the {name} rows", compared)
            for name, rows in held.items()
            if grouped or named[name] is not None
        ]
        training, dropped = remove_overlap(training, overlaps, settings.overlap)
    if dropped:
        notes.append(f"{dropped:,} rows were dropped from training: they are also evaluation rows")
    elif any(overlap.rows for overlap in overlaps):
        notes.append("kept in training: " + "; ".join(str(overlap).splitlines()[0] for overlap in overlaps))
    validation = held["validation"]
    return SplitRows(source_names(data), training, validation, held.get("test", validation), tuple(notes))


LISTED_ROWS = 10  # rows of an overlap that are listed
MAX_DESCRIBED_ROWS = 100_000  # held-out rows that can be listed: those after are not kept in short
OVERLAP = ("refuse", "drop", "keep")


@dataclass(frozen=True)
class Overlap:
    """Evaluation rows that are also training rows: `rows` of `of`."""

    name: str
    rows: int
    of: int
    listed: tuple[tuple[str, str, str], ...]  # some: their place, that of the first such training row, the row in short
    digests: frozenset[bytes]  # what the rows are known by
    compared: tuple[str, ...] = ()  # the fields that were compared; none: all

    def __str__(self) -> str:
        if not self.rows:
            return f"none of the {self.of:,} rows of {self.name} is a training row"
        lines = [f"{self.rows:,} of the {self.of:,} rows of {self.name} are also training rows:"]
        lines += [f"  {held} = {trained}  {row}" for held, trained, row in self.listed]
        return "\n".join(lines + ["  ..."] * (self.rows > len(self.listed)))


def find_overlap(
    training: Iterable[Record],
    held: Iterable[Record],
    name: str = "the validation data",
    compared: Sequence[str] | None = None,
) -> Overlap:
    """Which held-out rows are training rows, by all their fields or those `compared`, e.g. the source alone. Of the
    training rows nothing is kept in memory. Raises ConfigError where the two have fields of other names."""
    rows: list[tuple[bytes, str, str]] = []
    fields: list[str] = []
    for record in held:
        fields = fields or sorted(compared or record)
        short = short_row(record) if len(rows) < MAX_DESCRIBED_ROWS else ""
        rows.append((row_digest(record, compared), record.place, short))
    known = {digest for digest, _, _ in rows}
    places: dict[bytes, str] = {}
    for record in training:
        if fields and sorted(compared or record) != fields:
            raise ConfigError(
                f"fields: {name} has {', '.join(fields)}, and the training data {', '.join(sorted(record))}; read both"
                " under the same names"
            )
        digest = row_digest(record, compared)
        if digest in known:
            places.setdefault(digest, record.place)
    both = [(place, places[digest], short) for digest, place, short in rows if digest in places]
    return Overlap(name, len(both), len(rows), tuple(both[:LISTED_ROWS]), frozenset(places), tuple(compared or ()))


def remove_overlap(
    training: Sequence[Record], overlaps: Sequence[Overlap], overlap: str = "refuse"
) -> tuple[Sequence[Record], int]:
    """The training records to go on with, and how many were left out. An overlap is a DataError that lists the rows
    ("refuse"), or they are not trained on ("drop"), or they are ("keep"). Raises ConfigError for another word."""
    if overlap not in OVERLAP:
        raise ConfigError(f"overlap: {overlap!r} is none of: {', '.join(OVERLAP)}")
    shared = [one for one in overlaps if one.rows]
    if not shared or overlap == "keep":
        return training, 0
    if overlap == "refuse":
        raise DataError(
            "\n".join(map(str, shared))
            + "\nscores on rows that were trained on say nothing; drop them from training with"
            f" {setting('overlap', 'drop')}, or keep them with {setting('overlap', 'keep')}",
            seen=all(one.rows == one.of for one in overlaps),
        )
    kept = [record for record in training if not any(row_digest(record, one.compared) in one.digests for one in shared)]
    if not kept:
        raise DataError("every training row is also an evaluation row: nothing is left to train on", seen=True)
    return kept, len(training) - len(kept)


def row_digest(record: Mapping[str, Value], compared: Sequence[str] | None = None) -> bytes:
    """16 bytes of a row, or of some of its fields: texts with each run of blanks as one, pictures by their pixels,
    sounds in files by the bytes of these."""
    parts = []
    for name in sorted(compared or record):
        value = kept_value(record, name)
        if isinstance(value, SoundFile):
            content = value.content
        elif isinstance(value, Tensor):
            content = pixels_in(value)
        elif isinstance(value, list) and any(isinstance(one, Tensor) for one in value):
            content = b"".join(map(pixels_in, value))
        else:
            content = " ".join(as_one_text(value).split()).encode("utf-8", "surrogatepass")
        parts.append(b"%b %d %b" % (name.encode(), len(content), content))
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def pixels_in(picture: Tensor) -> bytes:
    """All that a picture is."""
    return str(tuple(picture.shape)).encode() + picture.numpy().tobytes()


def kept_value(record: Mapping[str, Value], name: str) -> Value | SoundFile:
    """A field of a record; of a sound in a file what reads it."""
    held = record.held(name) if isinstance(record, Record) else None
    return held if isinstance(held, SoundFile) else record[name]


def short_row(record: Record, width: int = 48) -> str:
    def shown(value: Value | SoundFile) -> str:
        if isinstance(value, SoundFile) or (isinstance(value, Tensor) and value.dim() == 1):
            return f"sound of {samples_of(value) / (value.rate if isinstance(value, SoundFile) else RATE):.1f} s"
        if isinstance(value, Tensor):
            return f"picture of {' x '.join(map(str, value.shape))}"
        if isinstance(value, list) and any(isinstance(one, Tensor) for one in value):
            return f"{len(value)} pictures"
        return excerpt(as_one_text(value), width)

    return "  ".join(f"{name}: {shown(kept_value(record, name))}" for name in record)


def as_one_text(value: str | float | list[Any] | Mapping[str, Any]) -> str:
    """A text, a number, a message, or a list of such, as one text."""
    if isinstance(value, Mapping):
        return f"{value['role']}: {message_text(dict(value))}"
    return " ".join(map(as_one_text, value)) if isinstance(value, list) else str(value)
