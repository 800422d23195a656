"""How far two wirings are apart: an edit distance of their layers' graphs, for finding the nearest in a gallery.

    shape(check(text, vocabulary))     -> WiringShape: the wiring as its key takes it, as short plain data
    distance(shape, other)             -> 0 if the wiring keys are equal, else how many edits a layer, on the average
    unseen(check(text, vocabulary))    -> what the key leaves out and a reader wants to know: norms, sharing ...

A layer's graph is taken as the wiring key takes it (`canonical.py`): definitions opened, sums and products flattened
and sorted, kinds of norm merged, words of chance, labels, options and sizes gone, carried names by order of appearance.
Its nodes stand in a line, arguments before what reads them, the operands of sums and products in an order that a small
change does not upset. An *edit* takes a node out (what it read goes to its readers), puts one in, gives it another
word, or moves an edge between two nodes that both graphs have.

Nodes of the two lines are paired in order, as cheaply as can be (dynamic programming, as for two texts); what is not
paired, and the edges that differ between paired nodes, are the cost. Why not something known: subtree digests (one norm
moved in the first line changes the digest of all that follows); Zhang and Shasha's tree edit distance (a stream that
is read twice would be two trees, doubled with each sublayer, and a shared norm the same as two); the exact edit
distance of graphs (exponential: seconds for one pair of layers). The order makes the distance an upper bound of the
exact one; two layers of twenty nodes take half a millisecond.

Layers of several formulas are compared in their places, from the first to the last: 3 of 12 that differ by 4 edits are
a distance of 1. Of several stacks the best pairing in order is taken; a stack without a partner costs its nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, product
from typing import Any

from ..language.depth import Steps, deep
from ..language.graph import Architecture, Section, Value
from ..language.model_file import ModelText
from ..language.score_formula import ScoreFormula
from ..language.vocabulary import Vocabulary
from .canonical import Wiring, check_for_wiring, wiring_key

LEAST = 0.25
"""The distance of wirings whose keys differ where no edit is found (layers in another proportion, say)."""

NODE, LEAF, EDGE, OTHER_WORD = 1.0, 0.5, 0.5, 0.5
"""What it costs to put in a node, one that reads nothing (a name, a number, a coefficient), an edge; another word of
the same kind. A sublayer for one of another kind costs a node."""

CONTEXT = 0.02
"""How much pairs are favoured whose arguments and readers agree: less than any edit."""

MOST_READS = 64
"""What a node reads through nodes without a partner counts as often as there are ways, up to so many."""

SUBLAYERS = ("positions", "channels", "scores")

Runs = Sequence[tuple[int, str]]
"""The layers of a stack in order: (how many equal ones, their graph)."""


@dataclass(frozen=True)
class WiringShape:
    """A wiring, for comparing: its key, and for each stack its layers in order as runs of (how many, graph).

    A graph is a text of nodes, "label argument argument; ...": arguments are numbers of nodes before it.
    """

    key: str
    stacks: tuple[tuple[tuple[int, str], ...], ...]

    @property
    def data(self) -> list[list[list[Any]]]:
        """The stacks as plain data."""
        return [[[count, graph] for count, graph in stack] for stack in self.stacks]

    @property
    def size(self) -> float:
        """What all nodes of a layer cost, on the average, of all stacks together: the distance from nothing."""
        return sum(_price(runs) for runs in self.stacks)

    @classmethod
    def read(cls, key: str, data: Sequence[Sequence[Sequence[Any]]]) -> WiringShape:
        """The shape that has this key and `data`."""
        return cls(key, tuple(tuple((int(count), str(graph)) for count, graph in stack) for stack in data))


def shape(architecture: Architecture) -> WiringShape:
    """The shape of a checked model, with its own depth."""
    stacks = []
    for stack in architecture.stacks:
        names: dict[str, str] = {}
        graphs = [layer_graph(section, names) for section in stack.layers]
        stacks.append(tuple((len(list(run)), graph) for graph, run in groupby(graphs)))
    return WiringShape(wiring_key(architecture), tuple(stacks))


def shape_of(text: ModelText, vocabulary: Vocabulary) -> WiringShape:
    """The shape of a model file, taken at the depth of wiring keys."""
    return shape(check_for_wiring(text, vocabulary))


def unseen(architecture: Architecture) -> dict[str, list[str]]:
    """What layers have that their wiring key does not count.

    norms   the kinds of norm
    chance  the words of chance
    scores  the formulas over scores and masks, by name
    shared  modules that stand for several calls of a layer ("scalar.gain"), and "layers" where these share weights
    """
    found: dict[str, set[str]] = {what: set() for what in ("norms", "chance", "scores", "shared")}
    for stack in architecture.stacks:
        if stack.share is not None and len(set(stack.share)) < stack.depth:
            found["shared"].add("layers")
        for section in stack.layers:
            calls = [v.called for v in section.calls()]
            found["norms"] |= {c.word.same_as or c.word.name for c in calls if c.word.kind == "norm"}
            found["chance"] |= {c.word.name for c in calls if c.word.kind == "chance"}
            found["scores"] |= {o.name for c in calls for o in c.options.values() if isinstance(o, ScoreFormula)}
            paths = Counter(c.path for c in calls if c.word.parameters)
            found["shared"] |= {f"{c.name}.{c.label}" if c.label else c.role for c in calls if paths[c.path] > 1}
    return {what: sorted(names) for what, names in found.items()}


class _Nodes:
    """Writes one layer's graph as nodes in a line."""

    def __init__(self, section: Section, names: dict[str, str]) -> None:
        self.wiring = Wiring(section, names)
        self.rows: list[str] = []
        self.numbers: dict[object, int] = {}
        self.sublayers: dict[int, str] = {}
        self.known: dict[int, int] = {}

    def put(self, key: object, label: str, inputs: Sequence[int] = ()) -> int:
        """The number of a node, new if none has the key."""
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            self.rows.append(" ".join([label, *map(str, inputs)]))
        return self.numbers[key]

    def alike(self, label: str, inputs: Sequence[int] = ()) -> int:
        """A node without weights: one for all that are written alike."""
        return self.put((label, *inputs), label, inputs)

    def sublayer(self, value: Value) -> Steps:
        """The first sublayer on the way to a value: what an operand is known by, however it is normed or weighed."""
        if id(value) not in self.sublayers:
            call = value.call
            names = []
            if call is not None and call.word.sublayer:
                names.append(call.word.name)
            else:
                for argument in value.args:
                    names.append((yield self.sublayer(argument)))
            self.sublayers[id(value)] = min(filter(None, names), default="")
        return self.sublayers[id(value)]

    def many(self, value: Value, op: str, label: str) -> Steps:
        """A sum or a product."""
        parts: list[tuple[Any, ...]] = []
        for operand, minus in (yield self.wiring.operands.of(value, op)):
            first = yield self.sublayer(operand)
            parts.append((bool(first), first, operand.op, minus, self.wiring.of(operand), len(parts), operand))
        inputs = []
        for *_, minus, _, _, operand in sorted(parts, key=lambda part: part[:-1]):
            number = yield self.of(operand)
            inputs.append(self.alike("neg", [number]) if minus else number)
        return self.alike(label, inputs)

    def read(self, values: Sequence[Value]) -> Steps:
        """Arguments; of a list its history as one, however long."""
        found: list[int] = []
        for value in values:
            entries: Sequence[Value] = [value]
            if value.op == "list":
                past = {f"past:{a.stack}:{self.wiring.name(a.name)}": None for a in value.args if a.op == "history"}
                found += [self.alike(label) for label in past]
                entries = [a for a in value.args if a.op != "history"]
            for entry in entries:
                found.append((yield self.of(entry)))
        return found

    def of(self, value: Value) -> Steps:
        match value.op:
            case "number":
                return self.alike(f"number:{value.number:.6g}")
            case "input" | "name":
                return self.alike(f"name:{value.stack}:{self.wiring.name(value.name)}")
            case "history":
                return self.alike(f"history:{value.stack}:{self.wiring.name(value.name)}:{value.number:g}")
        if id(value) not in self.known:
            self.known[id(value)] = yield self.make(value)
        return self.known[id(value)]

    def make(self, value: Value) -> Steps:
        call = value.call
        if call is not None:
            if call.word.kind == "chance":
                return (yield self.of(value.args[0]))
            label = "norm:" if call.word.kind == "norm" else f"{call.word.kind}:{call.word.name}"
            return self.put(id(value), "+".join([label, *call.ports]), (yield self.read(value.args)))
        if value.op in ("add", "sub"):
            return (yield self.many(value, "add", "sum"))
        if value.op == "mul":
            return (yield self.many(value, "mul", "product"))
        return self.alike(f"{value.op}:{value.name}" if value.name else value.op, (yield self.read(value.args)))


def layer_graph(section: Section, names: dict[str, str]) -> str:
    """One layer's graph as text. `names`: those given to carried names so far, added to."""
    nodes = _Nodes(section, names)
    leaves = sorted((nodes.wiring.name(name), value) for name, value in section.leaves.items())
    for name, value in leaves:
        nodes.put(("leave", name), f"leave:{name}", [deep(nodes.of(value))])
    return ";".join(nodes.rows)


@dataclass(frozen=True)
class _Graph:
    """A layer's graph, read. For each node its label, its kind, its arguments, its price and its neighbours' kinds."""

    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    prices: tuple[float, ...]
    around: tuple[frozenset[tuple[str, int]], ...]

    @property
    def price(self) -> float:
        return sum(self.prices)


@lru_cache(4096)
def _graph(text: str) -> _Graph:
    rows = [row.split(" ") for row in text.split(";")] if text else []
    labels = tuple(row[0] for row in rows)
    inputs = tuple(tuple(map(int, row[1:])) for row in rows)
    around: list[Counter[str]] = [Counter() for _ in rows]
    for n, arguments in enumerate(inputs):
        for a in arguments:
            around[n][f"reads {labels[a]}"] += 1
            around[a][f"for {labels[n]}"] += 1
    kinds = tuple(label.partition(":")[0] for label in labels)
    prices = tuple(NODE if arguments else LEAF for arguments in inputs)
    return _Graph(labels, kinds, inputs, prices, tuple(frozenset(c.items()) for c in around))


def _renaming(a: _Graph, i: int, b: _Graph, j: int) -> float | None:
    """What it costs that two nodes are paired; None if they are too different."""
    if a.labels[i] == b.labels[j]:
        return 0.0
    one, other = a.kinds[i], b.kinds[j]
    if one == other:
        return OTHER_WORD
    if one in SUBLAYERS and other in SUBLAYERS:
        return NODE
    return OTHER_WORD if {one, other} <= {"name", "history", "past"} else None


def _paired(a: _Graph, b: _Graph) -> dict[int, int]:
    """The cheapest pairing of two lines of nodes that keeps their order."""
    n, m = len(a.labels), len(b.labels)
    best = [[0.0] * (m + 1) for _ in range(n + 1)]
    for j in range(m):
        best[0][j + 1] = best[0][j] + b.prices[j]
    pairs: list[list[float | None]] = []
    for i in range(n):
        above, here = best[i], best[i + 1]
        here[0] = above[0] + a.prices[i]
        row: list[float | None] = []
        for j in range(m):
            cost = _renaming(a, i, b, j)
            if cost is not None:
                cost += CONTEXT * min(10, len(a.around[i] ^ b.around[j]))
            row.append(cost)
            least = min(above[j + 1] + a.prices[i], here[j] + b.prices[j])
            here[j + 1] = least if cost is None else min(least, above[j] + cost)
        pairs.append(row)
    found: dict[int, int] = {}
    i, j = n, m
    while i and j:
        cost = pairs[i - 1][j - 1]
        if cost is not None and best[i][j] == best[i - 1][j - 1] + cost:
            i, j = i - 1, j - 1
            found[i] = j
        elif best[i][j] == best[i - 1][j] + a.prices[i - 1]:
            i -= 1
        else:
            j -= 1
    return found


def _reads(graph: _Graph, names: Mapping[int, int]) -> list[list[int]]:
    """What each node reads of paired ones, by `names`: through nodes without a partner, what those read."""
    found: list[list[int]] = []
    for arguments in graph.inputs:
        reads = [name for a in arguments for name in ([names[a]] if a in names else found[a])]
        if len(reads) > MOST_READS:  # of nodes that read each other twice there would be twice as many, each time
            reads = list(dict.fromkeys(reads))
        found.append(reads)
    return found


@lru_cache(65536)
def _apart(one: str, other: str) -> float:
    """The edit distance of two layers' graphs, `one` the smaller text."""
    a, b = _graph(one), _graph(other)
    pairs = _paired(a, b)
    cost = a.price + b.price
    first, second = _reads(a, {i: i for i in pairs}), _reads(b, {j: i for i, j in pairs.items()})
    for i, j in pairs.items():
        cost += (_renaming(a, i, b, j) or 0.0) - a.prices[i] - b.prices[j]
        left, right = Counter(first[i]), Counter(second[j])
        moved = (left - right).total() + (right - left).total()
        if not moved and first[i] != second[j] and a.kinds[i] not in ("sum", "product"):
            moved = 1  # the same arguments in another order
        cost += EDGE * moved
    return cost


def layers_apart(one: str, other: str) -> float:
    """The edit distance of two layers' graphs: symmetric, 0 for equal ones."""
    return 0.0 if one == other else _apart(min(one, other), max(one, other))


def pairs_of_nodes(a: WiringShape, b: WiringShape) -> int:
    """At most how many pairs of nodes `distance` looks at."""

    def largest(runs: Runs) -> int:
        return max((graph.count(";") + 1 for _, graph in runs), default=0)

    if a.key == b.key:
        return 0
    return sum(largest(x) * largest(y) * max(len(x), len(y)) for x, y in product(a.stacks, b.stacks))


def _stacks_apart(a: Runs, b: Runs) -> float:
    """The mean over the layers, one at each place; the layers of the shallower stack are spread over the deeper."""
    one, other = ([graph for count, graph in runs for _ in range(count)] for runs in (a, b))
    places = max(len(one), len(other), 1)
    pairs = Counter((one[k * len(one) // places], other[k * len(other) // places]) for k in range(places))
    return sum(count * layers_apart(*pair) for pair, count in pairs.items()) / places


def _price(runs: Runs) -> float:
    return sum(count * _graph(graph).price for count, graph in runs) / max(1, sum(count for count, _ in runs))


def distance(a: WiringShape, b: WiringShape) -> float:
    """How many edits a layer two wirings are apart: 0 if, and only if, their wiring keys are equal; symmetric."""
    if a.key == b.key:
        return 0.0
    best = [0.0]
    for runs in b.stacks:
        best.append(best[-1] + _price(runs))
    for mine in a.stacks:
        above, best = best, [best[0] + _price(mine)]
        for j, other in enumerate(b.stacks):
            alone = min(above[j + 1] + _price(mine), best[j] + _price(other))
            best.append(min(alone, above[j] + _stacks_apart(mine, other)))
    return max(LEAST, round(best[-1], 3))
