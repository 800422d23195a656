"""A layer's attention sublayer written a second time, over a memory: from a formula of one stack to a decoder's.

    x = x + dropout(attention(norm(x)))       then     x = x + dropout(attention(norm(x), memory))
    y = norm(x + attention(x))                then     y = norm(y + attention(y, memory))
    u = norm(x); x = x + attention(u)         then     u = norm(x); x = x + attention(u, memory)
    f = attention(norm(x)); x = g * f + x     then     f = attention(norm(x), memory); x = g * f + x
    x = x + attention(u) + mlp(u)             becomes  x = x + attention(u) + attention(u, memory) + mlp(u)

What is repeated is all that makes the sublayer: the line with the attention, those before it that make what it reads
of the stream (norms on the stream too), those after it up to the one that joins its result to the stream. The copy
reads the stream as the sublayer has left it. Where another sublayer is summed in the same place (a parallel layer), or
stands between the attention and what joins it, the attention over the memory is one more summand. Where its result is
read through lists of its history, these get a further list. Lines that make queries, keys and values for a
`dot_attention` become a definition over the memory.

Labels of the sublayer's own get `_memory`; one that the layer uses elsewhere, too, is shared on purpose and stays.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..language.context import Definition
from ..language.syntax import (
    Binary,
    CallNode,
    Change,
    Index,
    Line,
    Name,
    Node,
    Tap,
    rewritten,
    spell,
    sum_of,
    terms,
    walk,
)
from .cross_attention import BY_HAND, Book, Unfit
from .formulas import calls_in, changed_lines, fresh_name, made_line, names_in, origin, relabel, sources, with_names


def with_lists(lists: Mapping[str, str]) -> Change:
    """Calls read, beside the history of a name, that of another: `attend(e, a[:])`, `attend(e, a[:], b[:])`."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not any(isinstance(i, Index) and i.name in lists for i in node.items):
            return None
        items: list[Node] = []
        for item in node.items:
            items.append(rewritten(item, change))
            if isinstance(item, Index) and item.index is None and item.name in lists:
                items.append(dataclasses.replace(item, name=lists[item.name]))
        return dataclasses.replace(node, items=tuple(items))

    return change


class LayerLines:
    """The lines of one formula, to be repeated over `memory`.

    streams  the names that are streams besides those that the layer sets: what `before` and other layers set
    history  what the stack reads of layers before

    Where an attention's result is read through its history only (`a[:]`), the new one is called by another name, which
    goes into `book.lists`; see `with_lists`.
    """

    def __init__(self, lines: Sequence[Line], streams: Collection[str], history: Collection[Index], book: Book) -> None:
        self.lines, self.book = lines, book
        self.reads = [names_in(line.value) for line in lines]
        self.attending = [book.attending(line.value) for line in lines]
        self.streams = {*streams, *(line.name for line in lines)}
        outside = {name for at, names in enumerate(self.reads) for name in names if origin(lines, name, at) is None}
        self.carried = outside & {line.name for line in lines}  # the names that travel from layer to layer
        self.history = {node.name for node in history}
        self.layers = {node.name for node in history if node.index is not None}
        self.definitions: dict[int, CallNode] = {}

    def repeat(self) -> list[Line]:
        """The lines with every attention sublayer repeated; as they are where there is none. Raises Unfit."""
        now = list(self.lines)
        behind: dict[int, list[Line]] = defaultdict(list)
        for at, line in enumerate(self.lines):
            if not self.attending[at]:
                continue
            self.check_keys(at)
            value = self.parallel(at)
            if value is not None:
                now[at] = made_line(line.name, value)
                continue
            last = at if self.is_listed(at) else self.joining_line(at)
            if self.is_listed(at):
                name = self.book.lists.setdefault(line.name, self.free_name(line.name))
            elif any(self.works(i) for i in range(at + 1, last + 1)):
                name = self.free_name(line.name)
                self.streams.add(name)
            else:
                behind[last] += self.copy(at, last)
                continue
            behind[at].append(made_line(name, self.copy_tree(line.value, range(at, last + 1))))
            for i in range(at + 1, last + 1):
                value, place = now[i].value, now[i].value.place
                both = Binary(place, "+", Name(place, line.name), Name(place, name))
                now[i] = made_line(now[i].name, with_names(value, {line.name: both}.get))
        return self.label_tapped([each for at, line in enumerate(now) for each in (line, *behind[at])])

    def skips(self, at: int, inner: Collection[str] = ()) -> list[str]:
        """The streams that a line reads beside its attention and the names `inner`."""
        names = names_in(self.lines[at].value, self.book.attends)
        return [name for name in names if name in self.streams and name not in inner]

    def works(self, at: int) -> bool:
        """Whether a line has a sublayer that does not attend."""
        return any(self.book.works(c) and not self.book.attends(c) for c in calls_in(self.lines[at].value))

    def free_name(self, name: str) -> str:
        return fresh_name(f"{name}_memory", self.streams | self.book.taken | {*self.book.lists.values()})

    def is_listed(self, at: int) -> bool:
        """Whether the result of the attention in line `at` is read through lists of its history only."""
        name = self.lines[at].name
        others = self.carried.union(self.layers, *self.reads)
        return name in self.history and name not in others and not self.skips(at)

    def joining_line(self, at: int) -> int:
        """The last line through which the result of the attention in line `at` joins a stream. Raises Unfit."""
        name = self.lines[at].name
        if self.skips(at) or name in self.carried:
            return at
        branch, last = {name}, at
        for i in range(at + 1, len(self.lines)):
            if branch & {*self.reads[i]}:
                last = i
                if not self.skips(i, branch):
                    branch.add(self.lines[i].name)
                    continue
            branch.discard(self.lines[i].name)
        if last == at:
            reason = f"`{name}` holds the attention's result, and its layer does not read it"
            remedy = f"write the decoder by hand: a name for each, read wherever {name} is"
            raise Unfit(f"{reason}: a second one would take its place", remedy)
        return last

    def check_keys(self, at: int) -> None:
        """Refuse definitions in a line whose keys or values are made of what other layers have left, too."""
        for call in self.attending[at]:
            definition = self.book.meaning(call)
            if not isinstance(definition, Definition) or definition.alias is not None:
                continue
            self.book.over(call, Name(call.place, "memory"))
            for place in self.book.crossed[definition.name].keys_only:
                makers, _ = sources(self.lines, [call.items[place]], at)
                self.check_stays([call.items[place], *(self.lines[i].value for i in makers)], call, at)

    def check_stays(self, nodes: Iterable[Node], call: CallNode, at: int) -> None:
        """Refuse keys or values that are made by trees that read other layers."""
        for node in nodes:
            others = self.carried.intersection(names_in(node)) - {*self.skips(at), self.lines[at].name}
            if others or any(isinstance(n, Index) for n in walk(node)):
                what = f"keys or values of `{spell(call)}`"
                raise Unfit(f"{what} travel from layer to layer, which those of a memory do not", BY_HAND)

    def parallel(self, at: int) -> Node | None:
        """The value of a line that sums attention and other sublayers of the layer, with one more summand; else None:
        also where the other sublayers have lines of their own, so that this line is the attention's."""
        if not self.works(at) or any(self.works(i) for i in range(len(self.lines)) if i != at):
            return None

        def change(node: Node) -> Node | None:
            if not isinstance(node, Binary) or node.operator not in "+-":
                return None
            parts = [(sign, term, bool(self.book.attending(term))) for sign, term in terms(node)]
            if not any(attends for *_, attends in parts) or not any(
                self.book.works(c) for _, term, attends in parts if not attends for c in calls_in(term)
            ):
                return None
            more: list[tuple[str, Node]] = []
            for sign, term, attends in parts:
                more += [(sign, term), (sign, self.copy_tree(term, [at]))] if attends else [(sign, term)]
            return sum_of(more)

        value = rewritten(self.lines[at].value, change)
        return value if value != self.lines[at].value else None

    def copy_tree(self, node: Node, group: Collection[int]) -> Node:
        """A tree of the sublayer whose lines are `group` over the memory, with labels of its own."""
        labels = [{c.label for c in calls_in(line.value) if c.label} for line in self.lines]
        taken = set().union(*labels)
        new = {label: fresh_name(f"{label}_memory", taken) for label in taken}
        attending = {id(c) for c in self.book.attending(node)}

        def change(here: Node) -> Node | None:
            if not isinstance(here, CallNode) or id(here) not in attending:
                return None
            memory = Name(here.place, "memory")
            if self.book.given_qkv(here):
                return self.gather(here, memory)
            over = self.book.over(here, memory)
            if over.label:
                self.book.roles[over.label] = new[over.label]
                return dataclasses.replace(over, label=new[over.label])
            if over.word == here.word and self.taps(here.word, group):
                return dataclasses.replace(over, label=f"cross_{here.word}")
            return over

        elsewhere = set().union(*(here for i, here in enumerate(labels) if i not in group))
        own = {c.label for c in calls_in(node) if id(c) not in attending} - elsewhere
        return relabel(rewritten(node, change), {label: new[label] for label in own if label})

    def gather(self, call: CallNode, memory: Name) -> CallNode:
        """A `dot_attention` over a memory, with what lines of the layer make its queries, keys and values. Raises
        Unfit."""
        if id(call) not in self.definitions:
            at = next(i for i, line in enumerate(self.lines) if any(c is call for c in calls_in(line.value)))
            ends = {*self.carried, *self.skips(at), self.lines[at].name}
            lines = [self.lines[i] for i in sources(self.lines, [call], at, ends)[0]]
            nodes = [*(line.value for line in lines), call]
            self.check_stays(nodes, call, at)
            read = dict.fromkeys(name for node in nodes for name in names_in(node))
            streams = [name for name in read if name in self.streams - {line.name for line in lines}]
            self.definitions[id(call)] = self.book.gather(call, lines, streams, memory)
        return self.definitions[id(call)]

    def taps(self, word: str, group: Iterable[int]) -> bool:
        """Whether lines of a group read a tap of calls of a word."""
        nodes = (node for i in group for node in walk(self.lines[i].value))
        return any(isinstance(node, Tap) and node.call == word for node in nodes)

    def copy(self, at: int, last: int) -> list[Line]:
        """The sublayer of line `at`, which joins the stream in line `last`, once more over the memory. Raises Unfit."""
        lines = self.lines
        renamed = self.streams_left(at, last)
        streams = self.carried | {lines[i].name for i in range(at, last + 1) if lines[i].name in self.skips(i)}
        anchors = renamed.keys() | {line.name for line in lines[at : last + 1] if line.name in streams}
        norms = [i for name in sorted(anchors) if (i := self.norm_of(name, at)) is not None]
        joined = [self.copy_tree(lines[i].value, [i]) for i in range(at, last + 1)]
        names = {name for value in joined for name in names_in(value)} - anchors
        makers, _ = sources(lines, [Name(lines[at].place, name) for name in sorted(names)], at)
        before = [i for i in makers if lines[i].name not in anchors and self.made_of(i, anchors)]
        group = [*before, *range(at, last + 1)]
        local = {lines[i].name for i in group} - {*renamed.values(), *streams}
        again = {name: self.free_name(name) for name in sorted(local) if self.read_after(name, last)}
        self.streams |= set(again.values())
        words = {c.word: f"cross_{c.word}" for c in self.attending[at] if not c.label}
        made: list[Line] = []
        for i in [*norms, *group]:
            line = lines[i]
            set_within = {lines[j].name for j in group if j < i}
            new = {name: again[name] for name in again if name in set_within} | renamed
            # first the calls, which are found by what they are: changing names makes other trees
            value = with_names(self.copy_tree(line.value, [*norms, *group]), new.get)
            if any(isinstance(n, Tap) and n.call in words for n in walk(value)):
                value = relabel(value, words)
            made.append(made_line((renamed if i in norms else again).get(line.name, line.name), value))
        left = {*renamed.values(), *streams, *(local & self.history)}
        kept: list[Line] = []
        for line in reversed(made):  # what only the rest of the layer reads is made once
            if line.name in left or not kept or any(line.name in names_in(other.value) for other in kept):
                kept.insert(0, line)
        return kept

    def streams_left(self, at: int, last: int) -> dict[str, str]:
        """Stream that enters the sublayer -> the name under which the sublayer leaves it, where these differ."""
        renamed: dict[str, str] = {}
        inner: set[str] = set() if self.skips(at) else {self.lines[at].name}
        read = {*self.reads[at]}.union(*(self.reads[i] for i in sources(self.lines, [self.lines[at].value], at)[0]))
        for i in range(at, last + 1):
            line, skips = self.lines[i], self.skips(i, inner)
            if i > at and not skips:
                inner.add(line.name)
            if not skips or line.name in skips or (i > at and not inner & {*self.reads[i]}):
                continue
            preferred = ([s for s in skips if s in self.carried], [s for s in skips if s in read], skips)
            stream = next((chosen[0] for chosen in preferred if len(chosen) == 1), None)
            if stream is None:
                what = f"`{line.name} = {spell(line.value)}` has several skips ({', '.join(skips)})"
                raise Unfit(f"{what}, and the text does not say which of them is the stream that goes on", BY_HAND)
            renamed[stream] = line.name
        return renamed

    def norm_of(self, name: str, before: int) -> int | None:
        """The line before `before` that has set a name last, if it is `name = norm(name)`."""
        at = origin(self.lines, name, before)
        match self.lines[at].value if at is not None else None:
            case CallNode(items=(Name(name=read),)) as call if read == name:
                record = self.book.record(call)
                return at if call.word == "norm" or (record is not None and record.kind == "norm") else None
        return None

    def made_of(self, at: int, names: Collection[str]) -> bool:
        """Whether what a line sets is made of one of these names."""
        makers, _ = sources(self.lines, [self.lines[at].value], at)
        return any(name in names for i in (at, *makers) for name in self.reads[i])

    def read_after(self, name: str, last: int) -> bool:
        """Whether the value that a name has after line `last` is read there, before the name is set again."""
        for line, reads in zip(self.lines[last + 1 :], self.reads[last + 1 :], strict=True):
            if name in reads or line.name == name:
                return name in reads
        return name in self.history

    def label_tapped(self, lines: list[Line]) -> list[Line]:
        """Where a tap names attention by its word, which is called twice now, the first call gets its own role as its
        label: it is named as before, and so are its parameters."""
        unlabeled = {c.word for calls in self.attending for c in calls if not c.label}
        words = {word for word in unlabeled if self.taps(word, range(len(self.lines)))}

        def change(node: Node) -> Node | None:
            if not isinstance(node, CallNode) or node.word not in words or node.label:
                return None
            over_memory = any(isinstance(item, Name) and item.name == "memory" for item in node.items)
            return None if over_memory else dataclasses.replace(node, label=node.word)

        return changed_lines(lines, change)
