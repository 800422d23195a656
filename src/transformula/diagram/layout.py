"""Where the parts of a diagram stand: a grid of columns and lines, and edges along it.

The first residual path is column 0, the others stand at the far right; branches take columns between, skips that pass
everything by take columns at the left. Time runs downwards: each part has a rank below those it reads, and a part of
several inputs has its ranks for itself, so that inputs can come in from both sides. Between two ranks lie tracks, on
which edges change columns; each stretch of a column belongs to one source only. Hence no edge runs through a part and
no two sources share a stretch, by construction (the tests check it on the drawing all the same).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from .parts import Diagram

FAR = 1000
"""Columns of the second residual path and further ones while columns are handed out."""

Point = tuple[int, int]


@dataclass
class Edge:
    """From `source` to input `port` of `target`, along `points`: (column, line), at right angles."""

    source: int
    target: int
    port: int
    points: list[Point] = field(default_factory=list)


@dataclass
class DiagramLayout:
    """places: for each part its (column, first line, last line). Lines in `tracks` hold edges only."""

    places: list[tuple[int, int, int]]
    edges: list[Edge]
    columns: int
    lines: int
    tracks: set[int]


class _Arranger:
    def __init__(self, diagram: Diagram, spans: dict[int, int]) -> None:
        self.parts, self.paths, self.spans = diagram.parts, diagram.paths, spans
        self.path_of = {n: t for t, path in enumerate(diagram.paths) for n in path}
        self.readers: dict[int, list[int]] = {n: [] for n in range(len(self.parts))}
        for n, part in enumerate(self.parts):
            for source in part.inputs:
                self.readers[source].append(n)
        before = {b: a for path in diagram.paths for a, b in pairwise(path)}
        self.main = {n: self.main_port(n, before.get(n)) for n, p in enumerate(self.parts) if p.inputs}
        self.docked = {
            n for n, part in enumerate(self.parts)
            if part.sort == "source" and len(self.readers[n]) == 1 and n not in self.path_of
            and self.parts[self.readers[n][0]].inputs[self.main[self.readers[n][0]]] != n
        }  # fmt: skip
        self.heir = {a: b for b, a in before.items()}
        for n in self.main:
            source = self.source(n)
            if source not in self.path_of and n not in self.path_of:
                self.heir.setdefault(source, n)
        self.rank: dict[int, int] = {}
        self.column: dict[int, int] = {}
        self.owner: dict[Point, int] = {}
        self.routes: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.ends: dict[int, list[tuple[int, int]]] = {}

    def main_port(self, n: int, before: int | None) -> int:
        """The input that comes in from above."""
        part = self.parts[n]
        if before is not None:
            return part.inputs.index(before)
        beside = ("source", "enter")
        free = [i for i, s in enumerate(part.inputs) if s not in self.path_of and self.parts[s].sort not in beside]
        return free[(len(free) - 1) // 2] if free and not part.ordered else 0

    def source(self, n: int) -> int:
        return self.parts[n].inputs[self.main[n]]

    def span(self, n: int) -> int:
        return self.spans.get(n, max(1, len(self.parts[n].inputs) - 1))

    def bottom(self, n: int) -> int:
        return self.rank[n] + self.span(n) - 1

    # Ranks.

    def set_ranks(self) -> None:
        taken: dict[int, list[int]] = {}
        closed: set[int] = set()
        for n, part in enumerate(self.parts):
            if part.sort in ("source", "leave"):
                continue
            waiting = [s for s in part.inputs if s not in self.rank and s not in self.docked]
            above = [self.bottom(s) + 1 for s in part.inputs if s in self.rank]
            rank = max([*above, int(bool(waiting))])
            while not self.fits(n, rank, taken, closed) or (waiting and rank - 1 in closed):
                rank += 1
            self.rank[n] = rank
            for s in waiting:
                self.rank[s] = rank - 1
                taken.setdefault(rank - 1, []).append(s)
            for r in range(rank, rank + self.span(n)):
                taken.setdefault(r, []).append(n)
                if len(part.inputs) > 1:
                    closed.add(r)
        self.rank_leaving()

    def fits(self, n: int, rank: int, taken: dict[int, list[int]], closed: set[int]) -> bool:
        """Whether a part may have this rank: one of several inputs has its ranks for itself."""
        if len(self.parts[n].inputs) < 2:
            return rank not in closed
        return all(r not in taken or self.beside(n, taken[r]) for r in range(rank, rank + self.span(n)))

    def rank_leaving(self) -> None:
        """What leaves stands below all, and its sources, if nothing else reads them, just above it."""
        last = 1 + max([self.bottom(n) for n in self.rank], default=0)
        leaving = [n for n, part in enumerate(self.parts) if part.sort == "leave"]
        if any(self.parts[s].sort == "enter" for n in leaving for s in self.parts[n].inputs):
            last = max(last, 2)
        for n in leaving:
            for s in self.parts[n].inputs:
                self.rank.setdefault(s, last - 1)
            self.rank[n] = last

    def beside(self, n: int, others: list[int]) -> bool:
        """Whether a circle may share its rank: with one on another path that reads the same branch."""
        if len(others) != 1 or n not in self.path_of or others[0] not in self.path_of:
            return False
        o = others[0]
        sides = [[s for i, s in enumerate(self.parts[p].inputs) if i != self.main[p]] for p in (n, o)]
        return self.path_of[n] != self.path_of[o] and len(sides[0]) == 1 and sides[0] == sides[1] and not (
            set(sides[0]) & (self.docked | set(self.path_of))
        )  # fmt: skip

    # Columns. Heights count half ranks: 2r is rank r, 2r + 1 the tracks below it.

    def free(self, column: int, first: int, last: int, net: int) -> bool:
        return all(self.owner.get((column, h), net) == net for h in range(first, last + 1))

    def take(self, column: int, first: int, last: int, net: int) -> None:
        for h in range(first, last + 1):
            self.owner.setdefault((column, h), net)

    def set_columns(self) -> None:
        end = 2 * max(self.rank.values()) + 2
        for t, path in enumerate(self.paths):
            column = t and FAR + t
            for n in path:  # each stretch belongs to the part above it
                self.column[n] = column
                self.owner |= {(column, h): n for h in range(2 * self.rank[n], end + 1)}
            self.take(column, 0, end, -1)
        heads = [n for n in range(len(self.parts)) if n in self.rank and n not in self.path_of]
        heads = [n for n in heads if n not in self.main or self.heir.get(self.source(n)) != n]
        for head in sorted(heads, key=lambda n: (self.rank[n], n)):
            self.place_chain(head)

    def place_chain(self, head: int) -> None:
        """A column for a part and its heirs, down to where the last one is read."""
        chain = [head]
        while chain[-1] in self.heir:
            chain.append(self.heir[chain[-1]])
        first, source = 2 * self.rank[head], self.source(head) if head in self.main else -1
        late = True
        if source >= 0:
            own, leaves = self.column[source], 2 * self.bottom(source) + 1
            late = self.free(own, leaves, first - 1, source)
            if late:
                self.take(own, leaves, first - 1, source)
            first = first - 1 if late else leaves
        last = 2 * self.bottom(chain[-1]) + bool(self.readers[chain[-1]])
        beside = [r for r in self.readers[chain[-1]] if self.side(chain[-1], r)]
        if beside:
            last = max(last, 2 * self.bottom(min(beside, key=lambda r: self.rank[r])))
        column = 1
        while not all(self.free(column, h, h, self.net_at(chain, source, h)) for h in range(first, last + 1)):
            column += 1
        self.owner |= {(column, h): self.net_at(chain, source, h) for h in range(first, last + 1)}
        self.column |= dict.fromkeys(chain, column)
        if source >= 0:
            turn = (first - 1) // 2 if late else self.bottom(source)
            self.routes[head, self.main[head]] = [(own, turn), (column, turn)]

    def net_at(self, chain: list[int], source: int, height: int) -> int:
        """The source whose line stands in a chain's column at a height: the lowest part at or above it."""
        return max((n for n in chain if 2 * self.rank[n] <= height), key=lambda n: self.rank[n], default=source)

    def side(self, source: int, target: int) -> bool:
        """Whether the target reads the source from the side."""
        return self.source(target) != source and source not in self.docked

    # Edges that come in from the side.

    def set_sides(self) -> None:
        joins = sorted((n for n in self.main if len(self.parts[n].inputs) > 1), key=lambda n: (self.rank[n], n))
        sides = [(source, n, port) for n in joins for port, source in enumerate(self.parts[n].inputs)]
        for source, n, port in sides:
            if port != self.main[n] and source not in self.docked:
                self.ends.setdefault(n, []).append((self.lane(source, n), port))
        for source, n, port in sides:
            if source in self.docked:
                self.dock(source, n, port)

    def lane(self, source: int, target: int) -> int:
        """A column on which the edge runs down to the target's height."""
        first, last = 2 * self.bottom(source) + 1, 2 * self.bottom(target)
        if self.column[source] != self.column[target] and self.free(self.column[source], first, last, source):
            self.take(self.column[source], first, last, source)
            return self.column[source]
        if source in self.path_of and target in self.path_of and self.column[target] == 0:
            tried: Iterable[int] = range(-1, -FAR, -1)
        else:
            tried = (c for c in range(1, FAR))
        column = next(c for c in tried if c != self.column[target] and self.free(c, first, last, source))
        self.take(column, first, last, source)
        return column

    def dock(self, source: int, target: int, port: int) -> None:
        """A source beside its only reader, on a line where the reader has that side free."""
        at = self.column[target]
        used = Counter(1 if column > at else -1 for column, _ in self.ends.get(target, []))
        side = 1 if used[1] < self.span(target) else -1
        height = 2 * (self.rank[target] + used[side])
        column = at + side
        while (column, height) in self.owner:
            column += side
        self.owner[column, height] = source
        self.column[source], self.rank[source] = column, height // 2
        self.ends.setdefault(target, []).append((column, port))

    def rows(self, target: int) -> dict[int, int]:
        """The rank on which each side input comes in; on each side the nearest column first."""
        found: dict[int, int] = {}
        at = self.column[target]
        for right in (True, False):
            ends = sorted((abs(c - at), port) for c, port in self.ends.get(target, []) if (c > at) == right)
            docked = [e for e in ends if self.parts[target].inputs[e[1]] in self.docked]
            for i, (_, port) in enumerate([e for e in ends if e not in docked] + docked):
                found[port] = self.rank[target] + i
        return found


Corner = tuple[int, int, bool]
"""(column, rank, whether on the track below that rank)."""


def arrange(diagram: Diagram) -> DiagramLayout:
    """The layout of a diagram. Equal diagrams have equal layouts."""
    spans: dict[int, int] = {}
    for attempt in range(3):
        arranger = _Arranger(diagram, spans)
        arranger.set_ranks()
        arranger.set_columns()
        arranger.set_sides()
        needed = {n: max(1, 1 + max(arranger.rows(n).values()) - arranger.rank[n]) for n in arranger.ends}
        if needed == {n: arranger.span(n) for n in needed}:
            break
        spans = needed if attempt == 0 else {n: max(arranger.span(n), needed[n]) for n in needed}
    return _to_points(arranger)


def _ways(arranger: _Arranger) -> list[tuple[Edge, list[Corner]]]:
    """Each edge with its corners."""
    ways: list[tuple[Edge, list[Corner]]] = []
    for n, part in enumerate(arranger.parts):
        rows = arranger.rows(n)
        for port, source in enumerate(part.inputs):
            start, at, bottom = arranger.column[source], arranger.column[n], arranger.bottom(source)
            way: list[Corner] = [(start, bottom, False)]
            if port == arranger.main[n]:
                way += [(column, rank, True) for column, rank in arranger.routes.get((n, port), [])]
                way.append((at, arranger.rank[n], False))
            else:
                lane = next(c for c, p in arranger.ends[n] if p == port)
                way += [(start, bottom, True), (lane, bottom, True)] if lane != start else []
                way += [(lane, rows[port], False)] if source not in arranger.docked else []
                way.append((at, rows[port], False))
            ways.append((Edge(source, n, port), way))
    return ways


def _tracks(ways: list[tuple[Edge, list[Corner]]]) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """(rank, source) -> the track below the rank on which its edges change columns; rank -> how many tracks."""
    stretches: dict[tuple[int, int], tuple[int, int]] = {}  # the columns that a track covers
    for edge, way in ways:
        for column, rank, track in way:
            if track:
                low, high = stretches.get((rank, edge.source), (column, column))
                stretches[rank, edge.source] = (min(low, column), max(high, column))
    tracks: dict[tuple[int, int], int] = {}
    levels_of: dict[int, list[list[tuple[int, int]]]] = {}
    for (rank, source), (low, high) in sorted(stretches.items(), key=lambda s: (s[0][0], s[1][1] - s[1][0], s[0][1])):
        levels = levels_of.setdefault(rank, [])
        level = next((i for i, t in enumerate(levels) if all(high < a or b < low for a, b in t)), len(levels))
        if level == len(levels):
            levels.append([])
        levels[level].append((low, high))
        tracks[rank, source] = level
    return tracks, {rank: len(levels) for rank, levels in levels_of.items()}


def _to_points(arranger: _Arranger) -> DiagramLayout:
    """From ranks, columns and turns to points."""
    ways = _ways(arranger)
    tracks, count = _tracks(ways)
    line_of, line = {}, 0
    between: set[int] = set()
    for rank in range(max(arranger.rank[n] + arranger.span(n) for n in arranger.rank)):
        line_of[rank] = line
        between |= set(range(line + 1, line + 1 + count.get(rank, 0)))
        line += 1 + count.get(rank, 0)
    used = {column for _, way in ways for column, *_ in way} | set(arranger.column.values())
    columns = {column: i for i, column in enumerate(sorted(used))}
    for edge, way in ways:
        for column, rank, track in way:
            point = columns[column], line_of[rank] + (1 + tracks[rank, edge.source] if track else 0)
            if not edge.points or edge.points[-1] != point:
                edge.points.append(point)
    places = [
        (columns[arranger.column[n]], line_of[arranger.rank[n]], line_of[arranger.bottom(n)])
        for n in range(len(arranger.parts))
    ]
    return DiagramLayout(places, [edge for edge, _ in ways], len(columns), line, between)
