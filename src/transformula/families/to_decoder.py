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
from collections.abc import Collection, Mapping, Sequence

from ..language.rewriting import rewritten, spell, sum_of, terms
from ..language.syntax import Binary, CallNode, Index, Line, Name, Node, Tap, walk
from .cross_attention import BY_HAND, Book, Unfit
from .substitute import calls_in, changed_lines, fresh, made_line, names_in, origin, relabelled, with_names

TRAVELLING = "keys or values of `{}` travel from layer to layer, which those of a memory do not"


def with_memory(lines: Sequence[Line], streams: Collection[str], history: Collection[Index], book: Book) -> list[Line]:
    """A layer's lines with every attention sublayer repeated over `memory`; as they are where there is none.

    streams  the names that are streams besides those that the layer sets: what `before` and other layers set
    history  what the stack reads of layers before

    Where an attention's result is read through its history only (`a[:]`), the new one is called by another name, which
    goes into `book.lists`; see `with_lists`. Raises Unfit.
    """
    return LayerLines(lines, streams, history, book).repeated()


def with_lists(lines: Sequence[Line], lists: Mapping[str, str]) -> list[Line]:
    """Lines that read, beside the history of a name, that of another: `attend(e, a[:])`, `attend(e, a[:], b[:])`."""

    def change(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not any(isinstance(i, Index) and i.name in lists for i in node.items):
            return None
        items: list[Node] = []
        for item in node.items:
            items.append(rewritten(item, change))
            if isinstance(item, Index) and item.index is None and item.name in lists:
                items.append(dataclasses.replace(item, name=lists[item.name]))
        return dataclasses.replace(node, items=tuple(items))

    return changed_lines(lines, change)


class LayerLines:
    """The lines of one formula, and what of them is known from their order."""

    def __init__(self, lines: Sequence[Line], streams: Collection[str], history: Collection[Index], book: Book) -> None:
        self.lines, self.book = tuple(lines), book
        self.streams = {*streams, *(line.name for line in lines)}
        self.carried = self.carried_names()
        self.history = {node.name for node in history}
        self.definitions: dict[int, CallNode] = {}
        self.layers = {node.name for node in history if node.index is not None}

    def repeated(self) -> list[Line]:
        """See `with_memory`."""
        now: dict[int, Line] = dict(enumerate(self.lines))
        behind: dict[int, list[Line]] = {}
        for at, line in enumerate(self.lines):
            calls = self.book.outermost(line.value)
            if not calls:
                continue
            for call in calls:
                self.check_keys(call, at)
            summed = self.parallel(at)
            if summed is not None:
                now[at] = made_line(line.name, summed)
                continue
            if self.listed(at):
                name = self.book.lists.setdefault(line.name, fresh(f"{line.name}_memory", self.free()))
                behind.setdefault(at, []).append(made_line(name, self.copied(line.value, [at])))
                continue
            last = self.joined(at)
            if any(self.works(i) for i in range(at + 1, last + 1)):
                name = fresh(f"{line.name}_memory", self.free())
                self.streams.add(name)
                behind.setdefault(at, []).append(made_line(name, self.copied(line.value, range(at, last + 1))))
                for i in range(at + 1, last + 1):
                    now[i] = self.with_summand(now[i], line.name, name)
            else:
                behind.setdefault(last, []).extend(self.copy(at, last))
        return self.tapped([line for i in now for line in (now[i], *behind.get(i, []))])

    # What stands where.

    def carried_names(self) -> set[str]:
        """The names that the layer sets and reads before that: they travel from layer to layer."""
        found: set[str] = set()
        done: set[str] = set()
        for line in self.lines:
            found |= {name for name in names_in(line.value) if name not in done}
            done.add(line.name)
        return found & done

    def skips(self, at: int, inner: Collection[str] = ()) -> list[str]:
        """The streams that a line reads beside its attention and the names `inner`."""
        names = names_in(self.lines[at].value, self.book.attends)
        return [name for name in names if name in self.streams and name not in inner]

    def joins(self, line: Line) -> bool:
        """Whether a line adds to what it sets: `x = x + ...`."""
        return line.name in names_in(line.value, self.book.attends)

    def works(self, at: int) -> bool:
        """Whether a line has a sublayer that does not attend."""
        return any(self.book.works(c) and not self.book.attends(c) for c in calls_in(self.lines[at].value))

    def free(self) -> set[str]:
        """The names that are not free."""
        return self.streams | self.book.taken | {*self.book.lists.values()}

    def listed(self, at: int) -> bool:
        """Whether the result of the attention in line `at` is read through lists of its history only."""
        name = self.lines[at].name
        if self.skips(at) or name in self.carried or name not in self.history or name in self.layers:
            return False
        return not any(name in names_in(line.value) for line in self.lines)

    def joined(self, at: int) -> int:
        """The last line through which the result of the attention in line `at` joins a stream. Raises Unfit."""
        name = self.lines[at].name
        if self.skips(at) or name in self.carried:
            return at
        branch, last = {name}, at
        for i in range(at + 1, len(self.lines)):
            line = self.lines[i]
            if branch & set(names_in(line.value)):
                last = i
                if not self.skips(i, branch):
                    branch.add(line.name)
                    continue
            branch.discard(line.name)
        if last == at:
            raise Unfit(
                f"`{name}` holds the attention's result, and its layer does not read it: a second one would take its"
                " place",
                f"write the decoder by hand: a name for each, read wherever {name} is",
            )
        return last

    def check_keys(self, call: CallNode, at: int) -> None:
        """Refuse a definition whose keys or values are made of what other layers have left, too."""
        definition = self.book.definition(call)
        if definition is None or definition.alias is not None:
            return
        self.book.over(call, Name(call.place, "memory"))
        made = self.book.crossed.get(definition.name)
        for place in made.keys_only if made is not None else ():
            item = call.items[place]
            names, nodes = set(names_in(item)), list(walk(item))
            for i in self.sources(names, at):
                names |= set(names_in(self.lines[i].value))
                nodes += walk(self.lines[i].value)
            others = sorted(names & self.carried - {*self.skips(at), self.lines[at].name})
            if others or any(isinstance(node, Index) for node in nodes):
                raise Unfit(TRAVELLING.format(spell(call)), BY_HAND)

    def sources(self, names: Collection[str], before: int, ends: Collection[str] = ()) -> list[int]:
        """The lines before `before` that make what these names hold there, in order; `ends` are not followed."""
        found: set[int] = set()
        waiting = [(name, before) for name in names]
        while waiting:
            name, limit = waiting.pop()
            if name in ends:
                continue
            at = origin(self.lines, name, limit)
            if at is not None and at not in found:
                found.add(at)
                waiting += [(inner, at) for inner in names_in(self.lines[at].value)]
        return sorted(found)

    # A further summand.

    def parallel(self, at: int) -> Node | None:
        """The value of a line that sums attention and other sublayers of the layer, with one more summand; else None:
        also where the other sublayers have lines of their own, so that this line is the attention's."""
        if not self.works(at) or any(self.works(i) for i in range(len(self.lines)) if i != at):
            return None
        found: list[Node] = []

        def change(node: Node) -> Node | None:
            if not isinstance(node, Binary) or node.operator not in "+-":
                return None
            parts = terms(node)
            attending = [bool(self.book.outermost(term)) for _, term in parts]
            working = [any(self.book.works(c) for c in calls_in(term)) for _, term in parts]
            if not any(attending) or not any(w and not a for w, a in zip(working, attending, strict=True)):
                return None
            found.append(node)
            more: list[tuple[str, Node]] = []
            for (sign, term), attends in zip(parts, attending, strict=True):
                more.append((sign, term))
                if attends:
                    more.append((sign, self.copied(term, [at])))
            return sum_of(more)

        value = rewritten(self.lines[at].value, change)
        return value if found else None

    def with_summand(self, line: Line, name: str, other: str) -> Line:
        """A line that reads name + other where it read name."""

        def change(node: Node) -> Node | None:
            if isinstance(node, Name) and node.name == name:
                return Binary(node.place, "+", node, Name(node.place, other))
            return None

        return made_line(line.name, rewritten(line.value, change))

    # The sublayer once more.

    def copied(self, node: Node, group: Collection[int], over: bool = True) -> Node:
        """A tree of the sublayer whose lines are `group` over the memory, with labels of its own."""
        elsewhere = {
            c.label for i, line in enumerate(self.lines) if i not in group for c in calls_in(line.value) if c.label
        }
        attending = [id(c) for c in self.book.outermost(node)] if over else []

        def change(here: Node) -> Node | None:
            if isinstance(here, CallNode) and id(here) in attending:
                memory = Name(here.place, "memory")
                if self.book.given_qkv(here):
                    return self.gathered(here, memory)
                made = self.book.over(here, memory)
                if made.label:
                    label = self.label_of(made.label)
                    self.book.roles[made.label] = label
                    return dataclasses.replace(made, label=label)
                if made.word == here.word and self.taps(here.word, group):
                    return dataclasses.replace(made, label=f"cross_{here.word}")
                return made
            return None

        made = rewritten(node, change)
        own = {c.label for c in calls_in(node) if c.label and id(c) not in attending} - elsewhere
        return relabelled(made, {label: self.label_of(label) for label in own})

    def gathered(self, call: CallNode, memory: Name) -> CallNode:
        """A `dot_attention` over a memory, with what lines of the layer make its queries, keys and values. Raises
        Unfit."""
        if id(call) in self.definitions:
            return self.definitions[id(call)]
        at = next(i for i, line in enumerate(self.lines) if any(c is call for c in calls_in(line.value)))
        stream = {*self.skips(at), self.lines[at].name}
        found = self.sources(names_in(call), at, {*self.carried, *stream})
        lines = [self.lines[i] for i in found]
        values = [*(line.value for line in lines), call]
        read = {name: None for value in values for name in names_in(value)}
        streams = [name for name in read if name in self.streams - {line.name for line in lines}]
        if {*streams} & self.carried - stream or any(isinstance(n, Index) for value in values for n in walk(value)):
            raise Unfit(TRAVELLING.format(spell(call)), BY_HAND)
        made = self.definitions[id(call)] = self.book.gathered(call, lines, streams, memory)
        return made

    def label_of(self, label: str) -> str:
        """The label of the same over a memory."""
        taken = {c.label for line in self.lines for c in calls_in(line.value)}
        return fresh(f"{label}_memory", taken)

    def taps(self, word: str, group: Collection[int] | None = None) -> bool:
        """Whether a tap of calls of a word is read, in lines of `group` if that is given."""
        return any(
            isinstance(node, Tap) and node.call == word
            for i, line in enumerate(self.lines)
            if group is None or i in group
            for node in walk(line.value)
        )

    def copy(self, at: int, last: int) -> list[Line]:
        """The sublayer of line `at`, which joins the stream in line `last`, once more over the memory. Raises Unfit."""
        renamed = self.streams_left(at, last)
        streams = {*self.carried, *(line.name for line in self.lines[at : last + 1] if self.joins(line))}
        anchors = {*renamed, *(line.name for line in self.lines[at : last + 1] if line.name in streams)}
        norms = [i for i in map(lambda name: self.norm_of(name, at), sorted(anchors)) if i is not None]
        joined = [self.copied(self.lines[i].value, [i]) for i in range(at, last + 1)]
        names = {name for value in joined for name in names_in(value)} - anchors
        before = [
            i for i in self.sources(names, at)
            if self.lines[i].name not in anchors and self.reads(i, anchors)
        ]  # fmt: skip
        group = [*before, *range(at, last + 1)]
        local = {self.lines[i].name for i in group} - {*renamed.values(), *streams}
        again = {name: fresh(f"{name}_memory", self.free()) for name in sorted(local) if self.read_after(name, last)}
        self.streams |= set(again.values())
        made: list[Line] = []
        for i in [*norms, *group]:
            line = self.lines[i]
            here = {name: again[name] for name in again if self.set_within(name, i, group)} | renamed
            # first the calls, which are found by what they are: changing names makes other trees
            value = with_names(self.copied(line.value, [*norms, *group], over=i not in norms), here)
            name = renamed.get(line.name, line.name) if i in norms else again.get(line.name, line.name)
            if any(isinstance(n, Tap) and n.call in self.attending(at) for n in walk(value)):
                value = relabelled(value, {word: f"cross_{word}" for word in self.attending(at)})
            made.append(made_line(name, value))
        left = {*renamed.values(), *streams, *(n for n in local if n in self.history)}
        kept: list[Line] = []
        for line in reversed(made):  # what only the rest of the layer reads is made once
            if line.name in left or not kept or any(line.name in names_in(other.value) for other in kept):
                kept.insert(0, line)
        return kept

    def streams_left(self, at: int, last: int) -> dict[str, str]:
        """Stream that enters the sublayer -> the name under which the sublayer leaves it, where these differ."""
        renamed: dict[str, str] = {}
        inner: set[str] = set() if self.skips(at) else {self.lines[at].name}
        for i in range(at, last + 1):
            name, skips = self.lines[i].name, self.skips(i, inner)
            if i > at and not skips:
                inner.add(name)
            if not skips or name in skips or (i > at and not inner & set(names_in(self.lines[i].value))):
                continue
            asked = set(names_in(self.lines[at].value))
            asked |= {n for j in self.sources(asked, at) for n in names_in(self.lines[j].value)}
            for chosen in ([s for s in skips if s in self.carried], [s for s in skips if s in asked], skips):
                if len(chosen) == 1:
                    renamed[chosen[0]] = name
                    break
            else:
                raise Unfit(
                    f"`{self.lines[i].name} = {spell(self.lines[i].value)}` has several skips ({', '.join(skips)}),"
                    " and the text does not say which of them is the stream that goes on",
                    BY_HAND,
                )
        return renamed

    def norm_of(self, name: str, before: int) -> int | None:
        """The line before `before` that has set a name last, if it is `name = norm(name)`."""
        at = origin(self.lines, name, before)
        value = self.lines[at].value if at is not None else None
        if isinstance(value, CallNode) and len(value.items) == 1 and value.items[0] == Name(value.items[0].place, name):
            record = self.book.record(value)
            if value.word == "norm" or (record is not None and record.kind == "norm"):
                return at
        return None

    def reads(self, at: int, names: Collection[str]) -> bool:
        """Whether what a line sets is made of one of these names."""
        lines = [at, *self.sources(names_in(self.lines[at].value), at)]
        return any(name in names for i in lines for name in names_in(self.lines[i].value))

    def read_after(self, name: str, last: int) -> bool:
        """Whether the value that a name has after line `last` is read there, before the name is set again."""
        for line in self.lines[last + 1 :]:
            if name in names_in(line.value):
                return True
            if line.name == name:
                return False
        return name in self.history

    def set_within(self, name: str, before: int, group: Collection[int]) -> bool:
        """Whether what a name holds in a line of a group was set in that group."""
        return any(i < before and self.lines[i].name == name for i in group)

    def attending(self, at: int) -> list[str]:
        """The words of a line's calls that attend and have no label."""
        return [c.word for c in self.book.outermost(self.lines[at].value) if not c.label]

    def tapped(self, lines: list[Line]) -> list[Line]:
        """Where a tap names attention by its word, which is called twice now, the first call gets its own role as its
        label: it is named as before, and so are its parameters."""
        words = {w for at in range(len(self.lines)) for w in self.attending(at) if self.taps(w)}
        if not words:
            return lines

        def change(node: Node) -> Node | None:
            if not isinstance(node, CallNode) or node.word not in words or node.label:
                return None
            if any(isinstance(item, Name) and item.name == "memory" for item in node.items):
                return None
            return dataclasses.replace(node, label=node.word)

        return [made_line(line.name, rewritten(line.value, change)) for line in lines]
