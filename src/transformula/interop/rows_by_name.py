"""Rows by name: the classes and tokens of a trained model, matched with those of a model that begins with its weights.

A tensor has an axis of classes where it grows with the number `classes` of the model's text: the text is built once
more, without memory, with one class more, and shapes that differ by one tell the axis. So it is for tokens (`vocab`).
Rows of the same name are taken, those of new names keep their initial values, and those of lost names are left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import CheckpointError
from ..tokenizers.base import Tokenizer

MAX_LABELS = 5  # names of new and of lost labels
TITLES = {"classes": "labels", "vocab": "tokens", "source_vocab": "source tokens"}
LABELS = "classes"  # the number whose names a setting keeps

Names = Mapping[str, "Sequence[Hashable] | Tokenizer"]
"""What each row stands for, by the number of a model's text that says how many there are: {"classes": ["a", "b"]}; of
tokens, their tokenizer says it."""
Shapes = Mapping[str, tuple[int, ...]]


@dataclass
class RowMatch:
    """Rows of one number, matched by name.

    key      the number: "classes"
    known    what the rows of the weights stand for
    wanted   what those of the model stand for
    axes     of which tensors which dimensions are rows of this number
    fresh    tensors that have rows which keep their initial values
    """

    key: str
    known: Sequence[Hashable]
    wanted: Sequence[Hashable]
    axes: Mapping[str, list[int]]
    fresh: list[str] = field(default_factory=list)

    def take(self, own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors that were read, with rows in the places where the model `own` has them."""
        there = [name for name in self.axes if name in given]
        return {**given, **{name: self.match_tensor(name, own[name], given[name]) for name in there}}

    def match_tensor(self, name: str, own: Tensor, given: Tensor) -> Tensor:
        axes = self.axes[name]
        rest = [[size for axis, size in enumerate(t.shape) if axis not in axes] for t in (own, given)]
        if own.dim() != given.dim() or rest[0] != rest[1] or own.dtype != given.dtype:
            return given  # another tensor: what does not agree is said where it is loaded
        old, new = (number_names(names, t.shape[axes[0]]) for names, t in ((self.known, given), (self.wanted, own)))
        place = {one: number for number, one in enumerate(old)}
        here = [number for number, one in enumerate(new) if one in place]
        there = torch.tensor([place[new[number]] for number in here], dtype=torch.int64)
        if len(here) < len(new):
            self.fresh.append(name)
        for axis in axes:
            given = given.index_select(axis, there)
        return place_rows(own, given, axes, torch.tensor(here, dtype=torch.int64))

    def __str__(self) -> str:
        """What became of the names, in a line."""
        old, new = (number_names(names, 0) for names in (self.known, self.wanted))
        there, here = set(old), set(new)
        fresh, lost = ([str(n[0]) for n in a if n not in b] for a, b in ((new, there), (old, here)))
        title, kept = TITLES.get(self.key, self.key), len(there & here)
        parts = [f"{kept:,} of {len(old):,} matched by name"]
        parts += [f"{len(fresh):,} new, begin fresh{list_labels(self.key, fresh)}"] if fresh else []
        parts += [f"{len(lost):,} dropped{list_labels(self.key, lost)}"] if lost else []
        return f"{title:<12}{'; '.join(parts)}"


def list_labels(key: str, names: Sequence[str]) -> str:
    """The first names of labels; tokens are counted alone."""
    more = ", ..." if len(names) > MAX_LABELS else ""
    return f" ({', '.join(names[:MAX_LABELS])}{more})" if key == LABELS else ""


def number_names(names: Iterable[Hashable], size: int) -> list[tuple[Hashable, int]]:
    """Names that tell rows apart: one that stands twice has its number beside it, and so have rows without a name,
    which fill up to `size`."""
    seen: Counter[Hashable] = Counter()
    rows = []
    for name in names:
        rows.append((name, seen[name]))
        seen[name] += 1
    return [*rows, *((None, number) for number in range(size - len(rows)))]


def place_rows(own: Tensor, given: Tensor, axes: Sequence[int], places: Tensor) -> Tensor:
    """`own` with `given` at `places` of each of some dimensions."""
    first, *others = axes
    part = place_rows(own.index_select(first, places), given, others, places) if others else given
    return own.detach().index_copy(first, places, part)


def match_rows(
    known: Names, wanted: Names, shapes: Callable[[str, int], Shapes | None], path: object
) -> list[RowMatch]:
    """The numbers whose rows stand for other names in the weights than in the model.

    shapes  (number, how many more) -> the shapes of the model's tensors; None for a number that its text has not

    Raises CheckpointError where rows have other names and no tensor, or one that grows otherwise, has them.
    """
    matches = []
    for key in wanted.keys() & known.keys():
        before, names = (each[key] for each in (known, wanted))
        if isinstance(before, Tokenizer) and isinstance(names, Tokenizer) and before.identity == names.identity:
            continue
        before, names = (each.names if isinstance(each, Tokenizer) else list(each) for each in (before, names))
        if before == names:
            continue
        now, wider = shapes(key, 0), shapes(key, 1)
        axes = {} if now is None or wider is None else axes_of(now, wider, len(names))
        title = TITLES.get(key, key)
        if axes is None or (not axes and len(before) == len(names)):
            what = f"{path}: its {title} are others than those of the data, and the model's text does not say by"
            raise CheckpointError(
                f"{what} {key!r} how many there are, so that rows cannot be matched by name: write {key} where it says"
                f" the number, as in linear(mean(x), {key}), or begin with the same {title}"
            )
        if axes:
            matches.append(RowMatch(key, before, names, axes))
    return sorted(matches, key=lambda match: match.key)


def axes_of(now: Shapes, wider: Shapes, least: int) -> dict[str, list[int]] | None:
    """By tensor, the dimensions of rows of a number: those that are larger by one where it is, and have `least` rows or
    more; None where a tensor changes otherwise."""
    if now.keys() != wider.keys():
        return None
    axes: dict[str, list[int]] = {}
    for name, shape in now.items():
        grown = [more - size for size, more in zip(shape, wider[name], strict=True)]
        rows = [axis for axis, more in enumerate(grown) if more]
        if not {0, 1}.issuperset(grown) or any(shape[axis] < least for axis in rows):
            return None
        if rows:
            axes[name] = rows
    return axes
