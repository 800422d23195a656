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
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from ..errors import InputError
from ..language.context import Definition, read_definition
from ..language.source import Source
from ..language.syntax import CallNode, Line, Name, Node, rewritten, spell
from ..language.vocabulary import Vocabulary, WordRecord
from .formulas import (
    calls_in,
    changed_lines,
    formula_text,
    fresh_name,
    made_line,
    names_in,
    relabel,
    sources,
    with_names,
)

BY_HAND = "write the decoder by hand, as a stack below its encoder: x = x + attention(norm(x), memory)"


class Unfit(InputError):
    """A text that cannot be turned: `reason`, and what to write by hand."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"{reason}\n{remedy}")
        self.reason, self.remedy = reason, remedy


@dataclass(frozen=True)
class Crossed:
    """A definition over a memory.

    parameters  the places of the parameters that it keeps, in the order of the original's
    defaults    the options that it keeps
    keys_only   the places of parameters that only keys and values were made of: the memory has taken theirs
    """

    name: str
    parameters: tuple[int, ...]
    defaults: Set[str]
    keys_only: tuple[int, ...]


class Book:
    """What the calls of a text stand for, and the definitions that are added to it.

    words  the text's `words:`
    taken  names that are not free
    roles  role of a sublayer -> that of the same over a memory
    lists  name that is read through its history -> that of the same over a memory, to be read beside it
    """

    def __init__(self, words: Mapping[str, Source], vocabulary: Vocabulary, taken: Set[str]) -> None:
        self.words, self.vocabulary = words, vocabulary
        self.definitions = [read_definition(header, body, at) for at, (header, body) in enumerate(words.items())]
        self.taken = {*taken, *(definition.name for definition in self.definitions), *vocabulary}
        self.added: dict[str, dict[str, Source]] = {definition.name: {} for definition in self.definitions}
        self.crossed: dict[str, Crossed] = {}
        self.roles: dict[str, str] = {}
        self.lists: dict[str, str] = {}

    def all_words(self) -> dict[str, Source]:
        """The text's `words:` and, each behind what it was made of, the definitions that were added."""
        words: dict[str, Source] = {}
        for definition, (header, source) in zip(self.definitions, self.words.items(), strict=True):
            words |= {header: source, **self.added[definition.name]}
        return words | {header: source for added in self.added.values() for header, source in added.items()}

    # What a call stands for. `visible`: only so many of the definitions are known where it stands.

    def meaning(self, call: CallNode, visible: int | None = None) -> Definition | WordRecord | None:
        """The definition that a call is of, or the record of its word."""
        own = next((d for d in self.definitions[:visible] if d.name == call.word), None)
        return own or self.vocabulary.get(call.word)

    def record(self, call: CallNode, visible: int | None = None) -> WordRecord | None:
        """The record of the word that a call is of, renamed by a definition or not; None for other definitions."""
        meaning = self.meaning(call, visible)
        if isinstance(meaning, Definition):
            return self.record(meaning.alias, meaning.index) if meaning.alias is not None else None
        return meaning

    def attends(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is attention, or of a definition with one."""
        meaning = self.meaning(call, visible)
        if isinstance(meaning, Definition):
            return any(self.attends(c, meaning.index) for c in self.inner(meaning))
        return meaning is not None and bool(meaning.attends)

    def works(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is a sublayer, or of a definition with one; matrices alone (gates have such) are none."""
        meaning = self.meaning(call, visible)
        if isinstance(meaning, Definition):
            calls = self.inner(meaning)
            matrices = sum(c.word in self.vocabulary and self.vocabulary[c.word].linear for c in calls)
            return matrices > 1 or any(self.works(c, meaning.index) for c in calls)
        return meaning is not None and meaning.sublayer and not meaning.linear

    def given_qkv(self, call: CallNode, visible: int | None = None) -> bool:
        """Whether a call is of a word that attends with the queries, keys and values that it is given."""
        meaning = self.meaning(call, visible)
        return isinstance(meaning, WordRecord) and meaning.attends == "qkv"

    @staticmethod
    def inner(definition: Definition) -> list[CallNode]:
        return [] if definition.second else [c for line in definition.lines for c in calls_in(line.value)]

    def attending(self, node: Node, visible: int | None = None) -> list[CallNode]:
        """The calls in a tree that attend, those in their arguments left out."""
        attends = partial(self.attends, visible=visible)
        return [call for call in calls_in(node, attends) if attends(call)]

    # One call over a memory.

    def over(self, call: CallNode, memory: Node, visible: int | None = None) -> CallNode:
        """The call over a memory. Raises Unfit."""
        definition = self.meaning(call, visible)
        if not isinstance(definition, Definition):
            return self.word_over(call, memory)
        if definition.alias is not None:
            inner = inline_call(call, definition, definition.alias)
            if self.meaning(inner, visible) is self.meaning(inner, definition.index):
                return self.over(inner, memory, visible)
        if definition.name not in self.crossed:
            self.crossed[definition.name] = self.cross(definition)
        crossed = self.crossed[definition.name]
        unnamed = zip(definition.defaults, call.items[len(definition.parameters) :], strict=False)
        if any(name in crossed.defaults for name, _ in unnamed):
            raise Unfit(f"`{spell(call)}` gives options without their names", "name them")
        items = [call.items[at] for at in crossed.parameters if at < len(call.items)]
        options = tuple(o for o in call.options if o.name in crossed.defaults or o.name == "share")
        self.roles.setdefault(call.word, crossed.name)
        return dataclasses.replace(call, word=crossed.name, items=(*items, memory), options=options)

    def word_over(self, call: CallNode, memory: Node) -> CallNode:
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

    def gather(self, call: CallNode, lines: Sequence[Line], streams: Sequence[str], memory: Node) -> CallNode:
        """A `dot_attention` of a layer's own over a memory: it and the lines of the layer that make its queries, keys
        and values become a definition. `streams` are what these lines read of the layer. Raises Unfit."""
        body = (*lines, made_line(fresh_name("result", {line.name for line in lines}), call))
        crossed = self.cross(Definition("attend", tuple(streams), {}, body, False, len(self.definitions), call.place))
        self.roles.setdefault(call.label or call.word, crossed.name)
        items = tuple(Name(call.place, streams[at]) for at in crossed.parameters)
        return CallNode(call.place, crossed.name, "", (*items, memory), (), call.head)

    # A definition over a memory.

    def cross(self, definition: Definition) -> Crossed:
        """Add the definition over a memory to the book. Raises Unfit."""
        own = {*definition.parameters, *definition.defaults, *(line.name for line in definition.lines)}
        memory = fresh_name("memory", own)
        lines, keys_only = self.crossed_lines(definition, own, memory)
        read = {name for line in lines for name in names_in(line.value)}
        kept = tuple(at for at, name in enumerate(definition.parameters) if name in read)
        for what, is_made in (("keys", memory in read), ("queries", bool(kept))):
            if not is_made:
                raise Unfit(f"the {what} of the definition {definition.name!r} are not made of its stream", BY_HAND)
        defaults = {name: spell(value) for name, value in definition.defaults.items() if name in read}
        name = fresh_name(f"cross_{definition.name}", self.taken)
        self.taken.add(name)
        header = [*(definition.parameters[at] for at in kept), memory, *(f"{k}={v}" for k, v in defaults.items())]
        text = formula_text(lines, Source(f"definition {name}", ""))
        self.added.setdefault(definition.name, {})[f"{name}({', '.join(header)})"] = text
        return Crossed(name, kept, defaults.keys(), keys_only)

    def crossed_lines(self, definition: Definition, own: Set[str], memory: str) -> tuple[list[Line], tuple[int, ...]]:
        """A definition's lines, keys and values made of the memory, distances gone, and `Crossed.keys_only`; `own` are
        the names that the definition has already. Raises Unfit."""
        lines, parameters = definition.lines, definition.parameters
        cores = [(at, c) for at, line in enumerate(lines) for c in self.attending(line.value, definition.index)]
        if len(cores) != 1:
            raise Unfit(f"the definition {definition.name!r} attends {len(cores)} times", BY_HAND)
        ((at, core),) = cores

        def with_core(new: CallNode) -> list[Line]:
            value = rewritten(lines[at].value, lambda node: new if node is core else None)
            return [*lines[:at], made_line(lines[at].name, value), *lines[at + 1 :]]

        def needed(here: Sequence[Line]) -> tuple[list[int], set[str]]:
            last = len(here) - 1
            makers, outside = sources(here, [here[-1].value], last, taps=True)
            return [*makers, last], outside

        if not self.given_qkv(core, definition.index):
            changed = with_core(self.over(core, Name(core.place, memory), definition.index))
            return [changed[i] for i in needed(changed)[0]], ()
        if len(core.items) != 3:
            raise Unfit(f"`{spell(core)}` is given its streams otherwise than as q, k, v", BY_HAND)
        query, *pair = core.items
        distances = self.vocabulary[core.word].distances
        core_options = tuple(o for o in core.options if o.name not in distances)
        asking, query_names = needed(with_core(dataclasses.replace(core, items=(query,), options=core_options)))
        keyed, keyed_names = sources(lines, pair, at, taps=True)
        others = {lines[i].name for i in asking} | {*parameters, *definition.defaults}
        keys = {lines[i].name for i in keyed}
        names = {name: fresh_name(f"{name}_memory", {*own, memory}) if name in others else name for name in keys}
        taken = {c.label for line in lines for c in calls_in(line.value)}
        twice = {c.label for i in keyed if i in asking for c in calls_in(lines[i].value) if c.label}
        labels = {label: fresh_name(f"{label}_memory", taken) for label in sorted(twice)}

        def of_keys(node: Node, before: int) -> Node:
            """What keys or values are made by, of the memory."""
            set_before = {line.name: names[line.name] for line in lines[:before] if line.name in names}
            return with_names(node, (dict.fromkeys(parameters, memory) | set_before).get)

        items = (query, *(of_keys(n, at) for n in pair))
        over = with_core(dataclasses.replace(core, items=items, options=core_options))
        result: list[Line] = []
        for i, line in enumerate(over):
            if i in keyed:
                value = relabel(lines[i].value, labels) if i in asking else lines[i].value
                result.append(made_line(names[line.name], of_keys(value, i)))
            if i in asking:
                result.append(line)
        keys_only = tuple(i for i, name in enumerate(parameters) if name in keyed_names - query_names)
        return changed_lines(result, lambda node: self.unturned(node, definition.index)), keys_only

    def unturned(self, node: Node, visible: int) -> Node | None:
        """What stands in a word of rotary positions, in its place."""
        if isinstance(node, CallNode) and node.items:
            record = self.meaning(node, visible)
            if isinstance(record, WordRecord) and record.rotary and not record.sublayer:
                return rewritten(node.items[0], lambda inner: self.unturned(inner, visible))
        return None


def inline_call(call: CallNode, definition: Definition, alias: CallNode) -> CallNode:
    """The call that a definition of a single call stands for, with this call's arguments in their places."""
    values: dict[str, Node] = dict(definition.defaults)
    values |= dict(zip((*definition.parameters, *definition.defaults), call.items, strict=False))
    values |= {o.name: o.value for o in call.options}
    inner = with_names(alias, values.get)
    assert isinstance(inner, CallNode)
    shared = tuple(o for o in call.options if o.name == "share")
    return dataclasses.replace(inner, label=call.label, options=(*inner.options, *shared))
