"""How far two wirings are apart: an edit distance of their layers' graphs, for finding the nearest in a gallery.

A layer's graph is taken as the wiring key takes it (`canonical.py`). Its nodes stand in a line, arguments before what
reads them, the operands of sums and products in an order that a small change does not upset. An *edit* takes a node out
(what it read goes to its readers), puts one in, gives it another word, or moves an edge between two nodes that both
graphs have. Nodes of the two lines are paired in order, as cheaply as can be (dynamic programming, as for two texts);
what is not paired, and the edges that differ between paired nodes, are the cost: an upper bound of the exact edit
distance of graphs, which takes exponential time.

Layers of several formulas are compared in their places, from the first to the last: 3 of 12 that differ by 4 edits are
a distance of 1. Of several stacks the best pairing in order is taken; a stack without a partner costs its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, product
from typing import Any

from ..language.graph import Architecture, ScoreFormula, Section, Value
from .canonical import Steps, Wiring, deep, wiring_key

LEAST_DISTANCE = 0.25  # between wirings whose keys differ where no edit is found (layers in another proportion, say)
NODE, LEAF, EDGE, OTHER_WORD = 1.0, 0.5, 0.5, 0.5
"""What it costs to put in a node, one that reads nothing (a name, a number, a coefficient), an edge; another word of
the same kind. A sublayer for one of another kind costs a node."""

CONTEXT = 0.02  # how much pairs are favoured whose arguments and readers agree: less than any edit
MOST_READS = 64  # what a node reads through nodes without a partner counts as often as there are ways, up to so many
SUBLAYERS = ("positions", "channels", "scores")
NAMES = ("name", "history", "past")
FAMILIES = {kind: kinds[0] for kinds in (SUBLAYERS, NAMES) for kind in kinds}  # kinds of nodes that may be paired
Runs = Sequence[tuple[int, str]]  # the layers of a stack in order: (how many equal ones, their graph)


@dataclass(frozen=True)
class WiringShape:
    """A wiring, for comparing: its key, and for each stack its layers in order as runs of (how many, graph).

    A graph is a text of nodes, "label argument argument; ...": arguments are numbers of nodes before it.
    """

    key: str
    stacks: tuple[tuple[tuple[int, str], ...], ...]

    @property
    def data(self) -> list[list[list[Any]]]:
        return [[list(run) for run in stack] for stack in self.stacks]

    @property
    def size(self) -> float:
        """What all nodes of a layer cost, on the average, of all stacks together: the distance from nothing."""
        return sum(map(_price, self.stacks))

    @classmethod
    def read(cls, key: str, data: Sequence[Sequence[Sequence[Any]]]) -> WiringShape:
        return cls(key, tuple(tuple((int(count), str(graph)) for count, graph in stack) for stack in data))


def shape(architecture: Architecture) -> WiringShape:
    stacks = []
    for stack in architecture.stacks:
        names: dict[str, str] = {}
        graphs = [_Nodes(section, names).graph(section) for section in stack.layers]
        stacks.append(tuple((len(list(run)), graph) for graph, run in groupby(graphs)))
    return WiringShape(wiring_key(architecture), tuple(stacks))


def unseen(architecture: Architecture) -> dict[str, list[str]]:
    """What layers have that their wiring key does not count.

    norms   the kinds of norm
    chance  the words of chance
    scores  the formulas over scores and masks, by name
    shared  modules that stand for several calls of a layer ("scalar.gain"), and "layers" where these share weights
    """
    names_of: dict[str, set[str]] = {what: set() for what in ("norms", "chance", "scores", "shared")}
    for stack in architecture.stacks:
        if stack.share is not None and len(set(stack.share)) < stack.depth:
            names_of["shared"].add("layers")
        for section in stack.layers:
            calls = [v.called for v in section.calls()]
            names_of["norms"] |= {c.word.same_as or c.word.name for c in calls if c.word.kind == "norm"}
            names_of["chance"] |= {c.word.name for c in calls if c.word.kind == "chance"}
            names_of["scores"] |= {o.name for c in calls for o in c.options.values() if isinstance(o, ScoreFormula)}
            paths = Counter(c.path for c in calls if c.word.parameters)
            names_of["shared"] |= {f"{c.name}.{c.label}" if c.label else c.role for c in calls if paths[c.path] > 1}
    return {what: sorted(names) for what, names in names_of.items()}


class _Nodes(Wiring):
    """Writes one layer's graph as nodes in a line. `names`: those given to carried names so far, added to."""

    def __init__(self, section: Section, names: dict[str, str]) -> None:
        super().__init__(section, names)
        self.rows: list[str] = []
        self.numbers: dict[object, int] = {}
        self.sublayers: dict[Value, str] = {}
        self.nodes: dict[Value, int] = {}

    def put(self, label: str, inputs: Sequence[int] = (), value: Value | None = None) -> int:
        """The number of a node: of a value with weights its own, else one for all that are written alike."""
        key = (label, *inputs) if value is None else value
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append(" ".join([label, *map(str, inputs)]))
        return self.numbers[key]

    def sublayer(self, value: Value) -> Steps:
        """The first sublayer on the way to a value: what an operand is known by, however it is normed or weighed."""
        if value not in self.sublayers:
            names = [value.called.word.name] if value.call is not None and value.called.word.sublayer else []
            for argument in () if names else value.args:
                names.append((yield self.sublayer(argument)))
            self.sublayers[value] = min(filter(None, names), default="")
        return self.sublayers[value]

    def many(self, value: Value, op: str, label: str) -> Steps:
        parts: list[tuple[Any, ...]] = []
        for operand, minus in (yield self.operands(value, op)):
            first = yield self.sublayer(operand)
            parts.append((bool(first), first, operand.op, minus, self.of(operand), len(parts), operand))
        inputs = []
        for *_, minus, _, _, operand in sorted(parts, key=lambda part: part[:-1]):
            number = yield self.node(operand)
            inputs.append(self.put("neg", [number]) if minus else number)
        return self.put(label, inputs)

    def read(self, values: Sequence[Value]) -> Steps:
        """Arguments; of a list its history as one, however long."""
        inputs: list[int] = []
        for value in values:
            entries: Sequence[Value] = [value]
            if value.op == "list":
                past = {f"past:{a.stack}:{self.name(a.name)}": None for a in value.args if a.op == "history"}
                inputs += map(self.put, past)
                entries = [a for a in value.args if a.op != "history"]
            for entry in entries:
                inputs.append((yield self.node(entry)))
        return inputs

    def node(self, value: Value) -> Steps:
        leaf = self.leaf(value)
        if leaf:
            return self.put(":".join(leaf))
        if value not in self.nodes:
            self.nodes[value] = yield self.written(value)
        return self.nodes[value]

    def written(self, value: Value) -> Steps:
        call = value.call
        if value.word_kind == "chance":
            return (yield self.node(value.args[0]))
        if call is not None:
            label = "norm:" if call.word.kind == "norm" else f"{call.word.kind}:{call.word.name}"
            return self.put("+".join([label, *call.ports]), (yield self.read(value.args)), value)
        if value.op in ("add", "sub"):
            return (yield self.many(value, "add", "sum"))
        if value.op == "mul":
            return (yield self.many(value, "mul", "product"))
        return self.put(f"{value.op}:{value.name}" if value.name else value.op, (yield self.read(value.args)))

    def graph(self, section: Section) -> str:
        for name, value in sorted((self.name(name), value) for name, value in section.leaves.items()):
            self.put(f"leave:{name}", [deep(self.node(value))])
        return ";".join(self.rows)


class _Graph:
    """A layer's graph, read: of each node label, kind, family, arguments, price and its neighbors' kinds."""

    def __init__(self, text: str) -> None:
        rows = [row.split(" ") for row in text.split(";")] if text else []
        self.labels = [row[0] for row in rows]
        self.kinds = [label.partition(":")[0] for label in self.labels]
        self.inputs = [list(map(int, row[1:])) for row in rows]
        self.families = [FAMILIES.get(kind, kind) for kind in self.kinds]
        self.by_family: dict[str, list[int]] = {}  # nodes, the last first
        for n in reversed(range(len(rows))):
            self.by_family.setdefault(self.families[n], []).append(n)
        self.prices = [NODE if arguments else LEAF for arguments in self.inputs]
        around: list[Counter[str]] = [Counter() for _ in rows]
        for n, arguments in enumerate(self.inputs):
            for a in arguments:
                around[n][f"reads {self.labels[a]}"] += 1
                around[a][f"for {self.labels[n]}"] += 1
        self.around = [frozenset(kinds.items()) for kinds in around]


_graph = lru_cache(4096)(_Graph)


def _renaming(a: _Graph, i: int, b: _Graph, j: int) -> float:
    """What it costs that two nodes of one family are paired."""
    if a.labels[i] == b.labels[j]:
        return 0.0
    return NODE if a.kinds[i] != b.kinds[j] and a.families[i] == SUBLAYERS[0] else OTHER_WORD


def _edits(a: Sequence[float], b: Sequence[float], pairing: Sequence[Sequence[float | None]]) -> list[list[float]]:
    """What it costs at least to make the first i items of one line the first j of another, in order, for all i and j.

    a, b     what it costs to take out an item of the first line, and to put in one of the second
    pairing  what it costs that two items are paired; None if they cannot be
    """
    best = [list(accumulate(b, initial=0.0))]
    for gone, row in zip(a, pairing, strict=True):
        above = best[-1]
        here = [least := above[0] + gone]
        for before, over, new, cost in zip(above, above[1:], b, row, strict=False):  # without `min`, which is slower
            least += new
            if over + gone < least:
                least = over + gone
            if cost is not None and before + cost < least:
                least = before + cost
            here.append(least)
        best.append(here)
    return best


def _candidates(a: _Graph, b: _Graph) -> list[dict[int, float]]:
    """For each node of a the nodes of b that it may be paired with, the last first, and what each pair saves (> 0)."""
    candidates = []
    for i, (family, price, around) in enumerate(zip(a.families, a.prices, a.around, strict=True)):
        saved = {}
        for j in b.by_family.get(family, ()):
            other = b.around[j]
            unlike = len(around) + len(other) - 2 * len(around & other)
            saved[j] = price + b.prices[j] - _renaming(a, i, b, j) - CONTEXT * min(10, unlike)
        candidates.append(saved)
    return candidates


def _paired(a: _Graph, b: _Graph) -> dict[int, int]:
    """The pairs, in order in both lines, that save most together."""
    best = [0.0] * (len(b.labels) + 1)  # by the nodes so far and the first 0, 1, ... of b; it never falls
    rows, candidates = [best], _candidates(a, b)
    for row in candidates:
        best = best.copy()
        for j, saved in row.items():  # from the last one, so that what stands before j is still of the nodes before
            most = best[j] + saved
            for m in range(j + 1, len(best)):
                if best[m] >= most:
                    break
                best[m] = most
        rows.append(best)
    pairs: dict[int, int] = {}
    n, m = len(a.labels), len(b.labels)
    while n and m:
        best, before, one = rows[n], rows[n - 1], candidates[n - 1].get(m - 1)
        if one is not None and best[m] == before[m - 1] + one:
            n, m = n - 1, m - 1
            pairs[n] = m
        elif best[m] == before[m]:
            n -= 1
        else:
            m -= 1
    return pairs


def _reads(graph: _Graph, names: Mapping[int, int]) -> list[list[int]]:
    """What each node reads of paired ones, by `names`: through nodes without a partner, what those read."""
    reads: list[list[int]] = []
    for arguments in graph.inputs:
        here = [name for a in arguments for name in ([names[a]] if a in names else reads[a])]
        # of nodes that read each other twice there would be twice as many, each time
        reads.append(here if len(here) <= MOST_READS else list(dict.fromkeys(here)))
    return reads


@lru_cache(65536)
def layers_apart(one: str, other: str) -> float:
    """The edit distance of two layers' graphs: symmetric, 0 for equal ones."""
    if one >= other:
        return 0.0 if one == other else layers_apart(other, one)
    a, b = _graph(one), _graph(other)
    pairs = _paired(a, b)
    cost = sum(a.prices) + sum(b.prices)
    first, second = _reads(a, {i: i for i in pairs}), _reads(b, {j: i for i, j in pairs.items()})
    for i, j in pairs.items():
        cost += _renaming(a, i, b, j) - a.prices[i] - b.prices[j]
        if first[i] != second[j]:
            left, right = Counter(first[i]), Counter(second[j])
            moved = (left - right).total() + (right - left).total()
            if not moved and a.kinds[i] not in ("sum", "product"):
                moved = 1  # the same arguments in another order
            cost += EDGE * moved
    return cost


def pairs_of_nodes(a: WiringShape, b: WiringShape) -> int:
    """At most how many pairs of nodes `distance` looks at."""

    if a.key == b.key:
        return 0
    one, other = ([(len(s), max((g.count(";") + 1 for _, g in s), default=0)) for s in x.stacks] for x in (a, b))
    return sum(size * other_size * max(n, m) for (n, size), (m, other_size) in product(one, other))


def _price(runs: Runs) -> float:
    """What the nodes of a layer cost, on the average."""
    return sum(count * sum(_graph(graph).prices) for count, graph in runs) / max(1, sum(count for count, _ in runs))


def _stacks_apart(a: Runs, b: Runs) -> float:
    """The mean over the layers, one at each place; the layers of the shallower stack are spread over the deeper."""
    one, other = ([graph for count, graph in runs for _ in range(count)] for runs in (a, b))
    places = max(len(one), len(other), 1)
    pairs = Counter((one[k * len(one) // places], other[k * len(other) // places]) for k in range(places))
    return sum(count * layers_apart(*pair) for pair, count in pairs.items()) / places


def distance(a: WiringShape, b: WiringShape) -> float:
    """How many edits a layer two wirings are apart: 0 if, and only if, their wiring keys are equal; symmetric."""
    if a.key == b.key:
        return 0.0
    pairing = [[_stacks_apart(mine, other) for other in b.stacks] for mine in a.stacks]
    edits = _edits([_price(runs) for runs in a.stacks], [_price(runs) for runs in b.stacks], pairing)
    return max(LEAST_DISTANCE, round(edits[-1][-1], 3))
