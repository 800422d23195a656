"""The same attention over a memory: one call of a formula, and the definition that it may stand in.

    attention(norm(x), rotary=10000, bias=False)    attention(norm(x), memory, bias=False)
    linear_attention(x)                             attention(x, memory)
    sub(x): y = linear.o(norm(dot_attention(        cross_sub(x, memory): y = linear.o(norm(dot_attention(
        linear.q(x, width), linear.k(x, width),         linear.q(x, width), linear.k(memory, width),
        linear.v(x, width))), width)                    linear.v(memory, width))), width)

What is said of distances within one sequence means nothing from one sequence to another, and is left out: the options
that the attention's record names as `distances` (`rotary`, `window`, `score`, ...), words of rotary positions, and with
them what only they read. In a definition the lines that keys and values are made by read the memory; a line that the
queries need too is made twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import InputError
from ..language.definitions import Definition, read_definition
from ..language.rewriting import rewritten, spell
from ..language.source import Source
from ..language.syntax import CallNode, Line, Name, Node, Tap, walk
from ..language.vocabulary import Vocabulary, WordRecord
from .substitute import calls_in, fresh, line_text, made_line, names_in, origin, relabelled


class Unfit(InputError):
    """A text that cannot be turned: `reason`, and what to write by hand."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}\n{remedy}")
        self.reason, self.remedy = reason, remedy


BY_HAND = "write the decoder by hand, as a stack below its encoder: x = x + attention(norm(x), memory)"


@dataclass(frozen=True)
class Crossed:
    """A definition over a memory.

    parameters  the places of the parameters that it keeps, in the order of the original's
    defaults    the options that it keeps
    keys_only   the places of parameters that only keys and values were made of: the memory has taken theirs
    """

    name: str
    parameters: tuple[int, ...]
    defaults: frozenset[str]
    keys_only: tuple[int, ...]


@dataclass
class Book:
    """What the calls of a text stand for, and the definitions that are added to it.

    added  definition -> (header, text) of those made of it, in order
    roles  role of a sublayer -> that of the same over a memory
    lists  name that is read through its history -> that of the same over a memory, to be read beside it
    taken  names that are not free
    """

    definitions: tuple[Definition, ...]
    vocabulary: Vocabulary
    taken: set[str]
    added: dict[str, list[tuple[str, Source]]] = field(default_factory=dict)
    crossed: dict[str, Crossed] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    lists: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Mapping[str, Source], vocabulary: Vocabulary, taken: Iterable[str]) -> Book:
        """The book of a text's `words:`."""
        definitions = tuple(read_definition(header, body, at) for at, (header, body) in enumerate(words.items()))
        return cls(definitions, vocabulary, {*taken, *(d.name for d in definitions), *vocabulary})

    def definition(self, call: CallNode, visible: int | None = None) -> Definition | None:
        """The definition that a call is of; `visible`: of so many of them it is known. None: it is of a word."""
        return next((d for d in self.definitions[:visible] if d.name == call.word), None)

    def record(self, call: CallNode, visible: int | None = None) -> WordRecord | None:
        """The record of the word that a call is of, renamed by a definition or not; None for other definitions."""
        definition = self.definition(call, visible)
        if definition is None:
            return self.vocabulary.get(call.word)
        return self.record(definition.alias, definition.index) if definition.alias is not None else None

    def attends(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is attention, or of a definition with one."""
        definition = self.definition(call, visible)
        if definition is None:
            record = self.vocabulary.get(call.word)
            return record is not None and bool(record.attends)
        return any(self.attends(c, definition.index) for c in self.inner(definition))

    def given_qkv(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is of a word that attends with the queries, keys and values that it is given."""
        record = None if self.definition(call, visible) else self.vocabulary.get(call.word)
        return record is not None and record.attends == "qkv"

    def works(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is a sublayer, or of a definition with one; matrices alone (gates have such) are none."""
        definition = self.definition(call, visible)
        if definition is None:
            record = self.vocabulary.get(call.word)
            return record is not None and record.sublayer and not record.linear
        found = self.inner(definition)
        matrices = sum(c.word in self.vocabulary and self.vocabulary[c.word].linear for c in found)
        return matrices > 1 or any(self.works(c, definition.index) for c in found)

    @staticmethod
    def inner(definition: Definition) -> list[CallNode]:
        """The calls in a definition."""
        return [] if definition.second else [c for line in definition.lines for c in calls_in(line.value)]

    def outermost(self, node: Node, visible: int | None = None) -> list[CallNode]:
        """The calls in a tree that attend, those in their arguments left out."""
        found: list[CallNode] = []

        def note(here: Node) -> Node | None:
            if isinstance(here, CallNode) and self.attends(here, visible):
                found.append(here)
                return here
            return None

        rewritten(node, note)
        return found

    # One call.

    def over(self, call: CallNode, memory: Node, visible: int | None = None) -> CallNode:
        """The call over a memory. Raises Unfit."""
        definition = self.definition(call, visible)
        if definition is None:
            return self.word_over(call, memory)
        if definition.alias is not None:
            inner = self.opened(call, definition, definition.alias)
            if self.definition(inner, visible) is self.definition(inner, definition.index):
                return self.over(inner, memory, visible)
        made = self.crossed.get(definition.name)
        if made is None:
            made = self.crossed[definition.name] = self.cross(definition)
        items = [call.items[at] for at in made.parameters if at < len(call.items)]
        extra = [
            (name, item)
            for name, item in zip(definition.defaults, call.items[len(definition.parameters) :], strict=False)
            if name in made.defaults
        ]
        if extra:
            raise Unfit(f"`{spell(call)}` gives options without their names", "name them")
        options = tuple(o for o in call.options if o.name in made.defaults or o.name == "share")
        self.roles.setdefault(call.word, made.name)
        return dataclasses.replace(call, word=made.name, items=(*items, memory), options=options)

    def word_over(self, call: CallNode, memory: Node) -> CallNode:
        """A call of a word over a memory."""
        record = self.vocabulary[call.word]
        if len(call.items) == 2 and any(len(form) == 2 for form in record.forms):
            raise Unfit(f"`{spell(call)}` reads another sequence already", "it is a decoder: put an encoder above it")
        if not call.items:
            raise Unfit(f"`{spell(call)}` reads no stream", BY_HAND)
        cross = record.cross or record.name
        known = {*self.vocabulary[cross].options, "share"} - {*record.distances}
        options = tuple(o for o in call.options if o.name in known)
        self.roles.setdefault(call.word, f"cross_{cross}")
        return dataclasses.replace(call, word=cross, items=(call.items[0], memory), options=options)

    @staticmethod
    def opened(call: CallNode, definition: Definition, alias: CallNode) -> CallNode:
        """The call that a definition of a single call stands for, with this call's arguments in their places."""
        given: dict[str, Node] = dict(definition.defaults)
        given |= dict(zip((*definition.parameters, *definition.defaults), call.items, strict=False))
        given |= {o.name: o.value for o in call.options}
        inner = rewritten(alias, lambda node: given.get(node.name) if isinstance(node, Name) else None)
        assert isinstance(inner, CallNode)
        shared = tuple(o for o in call.options if o.name == "share")
        return dataclasses.replace(inner, label=call.label, options=(*inner.options, *shared))

    def gathered(self, call: CallNode, lines: Sequence[Line], streams: Sequence[str], memory: Node) -> CallNode:
        """A `dot_attention` of a layer's own over a memory: it and the lines of the layer that make its queries, keys
        and values become a definition.

        streams  what these lines read of the layer

        Raises Unfit.
        """
        body = (*lines, made_line(fresh("result", {line.name for line in lines}), call))
        definition = Definition("attend", tuple(streams), {}, body, False, len(self.definitions), call.place)
        made = self.cross(definition)
        self.roles.setdefault(call.label or call.word, made.name)
        items = tuple(Name(call.place, streams[at]) for at in made.parameters)
        return CallNode(call.place, made.name, "", (*items, memory), (), call.head)

    # A definition.

    def cross(self, definition: Definition) -> Crossed:
        """Add the definition over a memory to the book. Raises Unfit."""
        body = DefinitionLines(self, definition)
        lines = body.cross_attention()
        if body.memory not in {name for line in lines for name in names_in(line.value)}:
            raise Unfit(f"the keys of the definition {definition.name!r} are not made of its stream", BY_HAND)
        read = {name for line in lines for name in names_in(line.value)}
        kept = [at for at, name in enumerate(definition.parameters) if name in read]
        if not kept:
            raise Unfit(f"the queries of the definition {definition.name!r} are not made of its stream", BY_HAND)
        defaults = {name: value for name, value in definition.defaults.items() if name in read}
        name = fresh(f"cross_{definition.name}", self.taken)
        self.taken.add(name)
        header = [*(definition.parameters[at] for at in kept), body.memory]
        header += [f"{key}={spell(value)}" for key, value in defaults.items()]
        source = Source(f"definition {name}", "\n".join(map(line_text, lines)))
        self.added.setdefault(definition.name, []).append((f"{name}({', '.join(header)})", source))
        return Crossed(name, tuple(kept), frozenset(defaults), tuple(body.keys_only))

    def words(self, words: Mapping[str, Source]) -> dict[str, Source]:
        """A text's `words:` and, each behind what it was made of, the definitions that were added."""
        found: dict[str, Source] = {}
        for (header, source), definition in zip(words.items(), self.definitions, strict=True):
            found[header] = source
            for added, text in self.added.get(definition.name, []):
                found[added] = text
        known = {definition.name for definition in self.definitions}
        return found | {header: text for name in self.added if name not in known for header, text in self.added[name]}


class DefinitionLines:
    """The lines of a definition with an attention, on their way to a memory."""

    def __init__(self, book: Book, definition: Definition) -> None:
        self.book, self.definition = book, definition
        self.lines = definition.lines
        self.own = {line.name for line in self.lines} | {*definition.parameters, *definition.defaults}
        self.memory = fresh("memory", self.own)
        self.keys_only: list[int] = []

    def cross_attention(self) -> list[Line]:
        """Its lines, keys and values made of the memory, distances gone. Raises Unfit."""
        found = [(at, c) for at, line in enumerate(self.lines) for c in self.outer(line.value)]
        if len(found) != 1:
            raise Unfit(f"the definition {self.definition.name!r} attends {len(found)} times", BY_HAND)
        at, core = found[0]
        place = core.place
        if self.book.given_qkv(core, self.definition.index):
            return self.sliced(at, core)
        over = self.book.over(core, Name(place, self.memory), self.definition.index)
        lines = [self.with_call(line, core, over) if i == at else line for i, line in enumerate(self.lines)]
        needed, _ = self.needs(lines, lines[-1].value, len(lines) - 1)
        return [line for i, line in enumerate(lines) if i in needed or i == len(lines) - 1]

    def sliced(self, at: int, core: CallNode) -> list[Line]:
        """Around a `dot_attention`: the lines that its queries and the result need, and those of keys and values."""
        if len(core.items) != 3:
            raise Unfit(f"`{spell(core)}` is given its streams otherwise than as q, k, v", BY_HAND)
        query, *pair = core.items
        distances = self.book.vocabulary[core.word].distances
        options = tuple(o for o in core.options if o.name not in distances)
        asks = dataclasses.replace(core, items=(query,), options=options)
        asking = [self.with_call(line, core, asks) if i == at else line for i, line in enumerate(self.lines)]
        own, asked = self.needs(asking, asking[-1].value, len(asking) - 1)
        own.add(len(asking) - 1)
        kept: set[int] = set()
        keyed: set[str] = set()
        for node in pair:
            more, read = self.needs(self.lines, node, at)
            kept, keyed = kept | more, keyed | read
        parameters = self.definition.parameters
        self.keys_only = [i for i, name in enumerate(parameters) if name in keyed - asked]
        others = {self.lines[i].name for i in own} | {*parameters, *self.definition.defaults}
        names = {
            name: fresh(f"{name}_memory", self.own | {self.memory}) if name in others else name
            for name in (self.lines[i].name for i in sorted(kept))
        }
        taken = {c.label for line in self.lines for c in calls_in(line.value)}
        twice = {c.label for i in kept & own for c in calls_in(self.lines[i].value) if c.label}
        labels = {label: fresh(f"{label}_memory", taken) for label in sorted(twice)}

        def of_keys(node: Node, before: int, again: bool) -> Node:
            """What keys or values are made by, of the memory; `again`: the queries need it too."""

            def change(here: Node) -> Node | None:
                if isinstance(here, Name) and origin(self.lines, here.name, before) is not None:
                    return dataclasses.replace(here, name=names[here.name])
                if isinstance(here, Name) and here.name in parameters:
                    return dataclasses.replace(here, name=self.memory)
                return None

            return rewritten(relabelled(node, labels) if again else node, change)

        result: list[Line] = []
        for i, line in enumerate(self.lines):
            if i in kept:
                value = of_keys(line.value, i, i in own)
                result.append(made_line(names[line.name], self.unturned(value)))
            if i == at:
                over = dataclasses.replace(core, items=(query, *(of_keys(n, at, False) for n in pair)), options=options)
                result.append(made_line(line.name, self.unturned(self.with_call(line, core, over).value)))
            elif i in own:
                value = self.unturned(line.value)
                result.append(line if value == line.value else made_line(line.name, value))
        return result

    def outer(self, node: Node) -> list[CallNode]:
        """The calls that attend."""
        return self.book.outermost(node, self.definition.index)

    def unturned(self, node: Node) -> Node:
        """The node without rotary positions."""

        def change(here: Node) -> Node | None:
            if isinstance(here, CallNode) and here.items and self.book.definition(here, self.definition.index) is None:
                record = self.book.vocabulary.get(here.word)
                if record is not None and record.rotary and not record.sublayer:
                    return rewritten(here.items[0], change)
            return None

        return rewritten(node, change)

    @staticmethod
    def with_call(line: Line, old: CallNode, new: CallNode) -> Line:
        """The line with another call in the place of one of its own."""
        return made_line(line.name, rewritten(line.value, lambda node: new if node is old else None))

    def needs(self, lines: Sequence[Line], node: Node, before: int) -> tuple[set[int], set[str]]:
        """The lines before `before` that a tree there needs, and the names from outside that all of it reads."""
        found: set[int] = set()
        read: set[str] = set()
        waiting = [(node, before)]
        while waiting:
            here, limit = waiting.pop()
            needed = []
            for name in names_in(here):
                at = origin(lines, name, limit)
                if at is None:
                    read.add(name)
                else:
                    needed.append(at)
            for tap in (n for n in walk(here) if isinstance(n, Tap)):
                needed += [
                    i for i in range(limit)
                    if any(tap.call in (c.label, c.word) for c in calls_in(lines[i].value))
                ]  # fmt: skip
            waiting += [(lines[i].value, i) for i in needed if i not in found]
            found |= set(needed)
        return found, read
