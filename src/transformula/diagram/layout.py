"""Where the parts of a diagram stand: a grid of columns and lines, and edges along it.

The first residual path is column 0, the others stand at the far right; branches take columns between, skips that pass
everything by take columns at the left. Time runs downwards: each part has a rank below those it reads, and a part of
several inputs has its ranks for itself, so that inputs can come in from both sides. Between two ranks lie tracks, on
which edges change columns; each stretch of a column belongs to one source only. Hence no edge runs through a part and
no two sources share a stretch, by construction (the tests check it on the drawing all the same).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby, pairwise

from .parts import Diagram

FAR = 1000  # columns of the second residual path and further ones while columns are handed out

Point = tuple[int, int]
Corner = tuple[int, int, bool]  # (column, rank, whether on the track below that rank)


@dataclass
class Edge:
    """From `source` to input `port` of `target`, along `points`: (column, line), at right angles."""

    source: int
    target: int
    port: int
    points: list[Point]


@dataclass
class DiagramLayout:
    """places: for each part its (column, first line, last line). Lines in `tracks` hold edges only."""

    places: list[tuple[int, int, int]]
    edges: list[Edge]
    columns: int
    lines: int
    tracks: set[int]


def steps(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """The cells along a line of points, each with the directions in which the line leaves it."""
    for (x, y), (a, b) in pairwise(points):
        dx, dy = (a > x) - (a < x), (b > y) - (b < y)
        for n in range(abs(a - x) + abs(b - y)):  # one of the two is 0
            yield (x + n * dx, y + n * dy), (dx, dy)
            yield (x + (n + 1) * dx, y + (n + 1) * dy), (-dx, -dy)


class _Arranger:
    def __init__(self, diagram: Diagram, spans: dict[int, int]) -> None:
        self.parts, self.paths, self.spans = diagram.parts, diagram.paths, spans
        self.path_of = {n: t for t, path in enumerate(diagram.paths) for n in path}
        self.readers: dict[int, list[int]] = defaultdict(list)
        for n, part in enumerate(self.parts):
            for source in part.inputs:
                self.readers[source].append(n)
        pairs = [pair for path in diagram.paths for pair in pairwise(path)]
        self.main = {n: self.main_port(n, {b: a for a, b in pairs}) for n, p in enumerate(self.parts) if p.inputs}
        self.docked = {
            n
            for n, part in enumerate(self.parts)
            if part.sort == "source" and n not in self.path_of
            if len(self.readers[n]) == 1 and self.source(self.readers[n][0]) != n
        }
        self.heir = dict(pairs)
        for n in self.main:
            if self.source(n) not in self.path_of and n not in self.path_of:
                self.heir.setdefault(self.source(n), n)
        self.rank: dict[int, int] = {}
        self.column: dict[int, int] = {}
        # the source of the line at (column, height); at height 2r is rank r, at 2r + 1 the tracks below
        self.owner: dict[Point, int] = {}
        self.turns: dict[int, list[Corner]] = {}  # where the line from above to a chain's first part changes columns
        self.ends: dict[int, list[tuple[int, int]]] = defaultdict(list)  # (column, port) of what comes from the side

    def main_port(self, n: int, before: dict[int, int]) -> int:
        """The input that comes in from above."""
        part = self.parts[n]
        if n in before:
            return part.inputs.index(before[n])
        beside = ("source", "enter")
        free = [i for i, s in enumerate(part.inputs) if s not in self.path_of and self.parts[s].sort not in beside]
        return free[(len(free) - 1) // 2] if free and not part.ordered else 0

    def source(self, n: int) -> int:
        return self.parts[n].inputs[self.main[n]]

    def span(self, n: int) -> int:
        return self.spans.get(n, max(1, len(self.parts[n].inputs) - 1))

    def bottom(self, n: int) -> int:
        return self.rank[n] + self.span(n) - 1

    def set_ranks(self) -> None:
        taken: dict[int, list[int]] = defaultdict(list)
        closed: set[int] = set()

        def fits(n: int, rank: int) -> bool:
            """Whether a part may have this rank: one of several inputs has its ranks for itself."""
            if len(self.parts[n].inputs) < 2:
                return rank not in closed
            return all(not taken[r] or self.may_share_rank(n, taken[r]) for r in range(rank, rank + self.span(n)))

        for n, part in enumerate(self.parts):
            if part.sort in ("source", "leave"):
                continue
            waiting = [s for s in part.inputs if s not in self.rank and s not in self.docked]
            rank = max([int(bool(waiting)), *(self.bottom(s) + 1 for s in part.inputs if s in self.rank)])
            while not fits(n, rank) or (waiting and rank - 1 in closed):
                rank += 1
            self.rank |= {n: rank} | dict.fromkeys(waiting, rank - 1)
            taken[rank - 1] += waiting
            for r in range(rank, rank + self.span(n)):
                taken[r].append(n)
                if len(part.inputs) > 1:
                    closed.add(r)
        # what leaves stands below all, and its sources, if nothing else reads them, just above it
        last = 1 + max([self.bottom(n) for n in self.rank], default=0)
        leaving = {n: part.inputs for n, part in enumerate(self.parts) if part.sort == "leave"}
        if any(self.parts[s].sort == "enter" for inputs in leaving.values() for s in inputs):
            last = max(last, 2)
        for n, inputs in leaving.items():
            self.rank = dict.fromkeys(inputs, last - 1) | self.rank | {n: last}

    def may_share_rank(self, n: int, others: list[int]) -> bool:
        """Whether a circle may share its rank: with one on another path that reads the same branch."""
        if len(others) != 1 or n not in self.path_of or self.path_of[n] == self.path_of.get(others[0], self.path_of[n]):
            return False
        one, other = ([s for i, s in enumerate(self.parts[p].inputs) if i != self.main[p]] for p in (n, *others))
        return len(one) == 1 and one == other and one[0] not in self.docked and one[0] not in self.path_of

    def is_free(self, column: int, first: int, last: int, net: int) -> bool:
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
        heirs = [head]
        while heirs[-1] in self.heir:
            heirs.append(self.heir[heirs[-1]])
        first, source, end = 2 * self.rank[head], self.source(head) if head in self.main else -1, heirs[-1]
        if source >= 0:
            own, leaves = self.column[source], 2 * self.bottom(source) + 1
            late = self.is_free(own, leaves, first - 1, source)
            if late:
                self.take(own, leaves, first - 1, source)
            first = first - 1 if late else leaves
        last = 2 * self.bottom(end) + bool(self.readers[end])
        beside = [r for r in self.readers[end] if self.source(r) != end and end not in self.docked]
        if beside:
            last = max(last, 2 * self.bottom(min(beside, key=lambda r: self.rank[r])))

        def net(height: int) -> int:
            """The source whose line stands in the column at a height: the lowest part at or above it."""
            return max((n for n in heirs if 2 * self.rank[n] <= height), key=lambda n: self.rank[n], default=source)

        nets = {h: net(h) for h in range(first, last + 1)}
        column = next(c for c in count(1) if all(self.is_free(c, h, h, owner) for h, owner in nets.items()))
        self.owner |= {(column, h): owner for h, owner in nets.items()}
        self.column |= dict.fromkeys(heirs, column)
        if source >= 0:
            turn = (first - 1) // 2 if late else self.bottom(source)
            self.turns[head] = [(own, turn, True), (column, turn, True)]

    def set_sides(self) -> None:
        """Edges that come in from the side, on a column down to the target's height; docked sources stand beside their
        only reader, on a line where it has that side free."""
        joins = sorted((n for n in self.main if len(self.parts[n].inputs) > 1), key=lambda n: (self.rank[n], n))
        sides = [(source, n, port) for n in joins for port, source in enumerate(self.parts[n].inputs)]
        for source, n, port in sides:
            if port != self.main[n] and source not in self.docked:
                first, last = 2 * self.bottom(source) + 1, 2 * self.bottom(n)
                passes_all = source in self.path_of and n in self.path_of and self.column[n] == 0
                tried = chain([self.column[source]], count(-1, -1) if passes_all else count(1))
                lane = next(c for c in tried if c != self.column[n] and self.is_free(c, first, last, source))
                self.take(lane, first, last, source)
                self.ends[n].append((lane, port))
        for source, n, port in sides:
            if source in self.docked:
                at = self.column[n]
                used = [1 if column > at else -1 for column, _ in self.ends[n]]
                side = 1 if used.count(1) < self.span(n) else -1
                rank = self.rank[n] + used.count(side)
                column = next(c for c in count(at + side, side) if (c, 2 * rank) not in self.owner)
                self.owner[column, 2 * rank] = source
                self.column[source], self.rank[source] = column, rank
                self.ends[n].append((column, port))

    def rows(self, target: int) -> dict[int, int]:
        """The rank on which each side input comes in; on each side the nearest column first, what is docked last."""
        rows: dict[int, int] = {}
        at, inputs = self.column[target], self.parts[target].inputs
        for right in (True, False):
            ends = [(inputs[p] in self.docked, abs(c - at), p) for c, p in self.ends[target] if (c > at) == right]
            rows |= {port: self.rank[target] + i for i, (*_, port) in enumerate(sorted(ends))}
        return rows

    def way(self, target: int, port: int, row: int) -> list[Corner]:
        """The corners of an edge, which comes in at a rank."""
        source, at = self.parts[target].inputs[port], self.column[target]
        start, bottom = self.column[source], self.bottom(source)
        way: list[Corner] = [(start, bottom, False)]
        if port == self.main[target]:
            way += self.turns.get(target, [])
        elif source not in self.docked:
            lane = next(c for c, p in self.ends[target] if p == port)
            way += [(start, bottom, True), (lane, bottom, True)] if lane != start else []
            way.append((lane, row, False))
        return [*way, (at, row, False)]


def arrange(diagram: Diagram) -> DiagramLayout:
    """The layout of a diagram. Equal diagrams have equal layouts."""
    spans: dict[int, int] = {}
    for attempt in range(3):
        arranger = _Arranger(diagram, spans)
        arranger.set_ranks()
        arranger.set_columns()
        arranger.set_sides()
        rows = [arranger.rows(n) for n in range(len(diagram.parts))]
        needed = {n: 1 + max(row.values()) - arranger.rank[n] for n, row in enumerate(rows) if row}
        if needed == {n: arranger.span(n) for n in needed}:
            break
        spans = needed if attempt == 0 else {n: max(arranger.span(n), needed[n]) for n in needed}
    ways = {
        (source, n, port): arranger.way(n, port, rows[n].get(port, arranger.rank[n]))
        for n, part in enumerate(diagram.parts)
        for port, source in enumerate(part.inputs)
    }
    tracks, tracks_below = _tracks(ways)
    line_of, line = {}, 0
    between: set[int] = set()
    for rank in range(max(arranger.bottom(n) for n in arranger.rank) + 1):
        line_of[rank] = line
        between |= set(range(line + 1, line + 1 + tracks_below.get(rank, 0)))
        line += 1 + tracks_below.get(rank, 0)
    used = {column for way in ways.values() for column, *_ in way} | {*arranger.column.values()}
    columns = {column: i for i, column in enumerate(sorted(used))}
    edges = []
    for (source, target, port), way in ways.items():
        points = [(columns[c], line_of[rank] + (1 + tracks[rank, source] if track else 0)) for c, rank, track in way]
        edges.append(Edge(source, target, port, [point for point, _ in groupby(points)]))
    lines = [(line_of[arranger.rank[n]], line_of[arranger.bottom(n)]) for n in range(len(diagram.parts))]
    places = [(columns[arranger.column[n]], first, last) for n, (first, last) in enumerate(lines)]
    return DiagramLayout(places, edges, len(columns), line, between)


def _tracks(ways: dict[tuple[int, int, int], list[Corner]]) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
    """(rank, source) -> the track below the rank on which its edges change columns; rank -> how many tracks."""
    covered: dict[tuple[int, int], list[int]] = defaultdict(list)  # the columns of a track's corners
    for (source, _, _), way in ways.items():
        for column, rank, track in way:
            if track:
                covered[rank, source].append(column)
    stretches = sorted((rank, max(at) - min(at), source, min(at), max(at)) for (rank, source), at in covered.items())
    tracks: dict[tuple[int, int], int] = {}
    levels_of: dict[int, list[list[tuple[int, int]]]] = defaultdict(list)
    for rank, _, source, low, high in stretches:
        levels = levels_of[rank]
        level = next((i for i, t in enumerate(levels) if all(high < a or b < low for a, b in t)), len(levels))
        if level == len(levels):
            levels.append([])
        levels[level].append((low, high))
        tracks[rank, source] = level
    return tracks, {rank: len(levels) for rank, levels in levels_of.items()}
