"""What is read: what a causal stack may read, and what nothing reads.

A causal stack reads nothing that has seen its own sequence as a whole. Two ways lead past the causal mask, and both are
refused: the result of a stack that saw all of the sequence, and a word that lets another sequence, to which the mask
does not apply, see all of this one. (A third, a word of reach "all", is refused where it stands.) The output is free to
do either: nothing is made behind it.

What nothing reads is an error in the text, as nothing that a file says is ignored; in the graph it is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .. import field_names
from ..errors import nearest
from .context import Context, Definition, Flow
from .graph import Architecture, Section, Value
from .messages import FormulaError
from .model_text import FREE_NUMBERS, MODEL_KEYS, Outside
from .numbers import kind_of
from .parser import parse
from .source import Source
from .syntax import CallNode, Node, rewritten, spell, walk
from .vocabulary import Vocabulary, WordRecord

DECODED = "tokens"  # the input that is written step by step


def check_causal(architecture: Architecture, streams: Mapping[str, str]) -> None:
    """Raise FormulaError where a causal stack reads what has seen its own sequence as a whole. `streams`: for each
    stack, by its name, the sequence of its x on leaving `before`."""
    made_of = roots(architecture)
    reads: dict[str, set[str]] = {}  # by stack: the inputs that its result is made of
    seen: dict[str, set[str]] = {}  # those of them that it has seen as a whole
    for stack in architecture.stacks:
        sections, name = stack.sections(), stack.name
        inputs = {v.sequence for section in sections for v in section.reads.values() if v.op == "input"}
        own = made_of.get(streams.get(name, ""), frozenset()) | (inputs & {DECODED})
        values = [value for section in sections for value in section.values]
        others = [v for v in values if v.op in ("name", "history") and v.stack not in ("", name)]
        reads[name] = inputs.union(*(reads[v.stack] for v in others))
        seen[name] = (inputs - own).union(*(seen[v.stack] for v in others)) if stack.causal else reads[name]
        for value in others if stack.causal else ():
            if seen[value.stack] & own:
                raise FormulaError("not-causal", value.place, name=value.stack)
        for value in values if stack.causal else ():
            if value.word_kind == "positions" and value.called.word.reach == "past":
                queries, keys = (value.args[at].sequence for at in (0, len(value.called.streams) - 1))
                if queries != keys and made_of.get(keys, frozenset()) & own:
                    word, queries = value.called.name, queries or "no sequence"
                    raise FormulaError("sees-ahead", value.place, word=word, queries=queries, keys=keys)


def roots(architecture: Architecture) -> dict[str, frozenset[str]]:
    """For each sequence the inputs that its positions are made of."""
    inputs_of: dict[str, frozenset[str]] = {}
    for section in architecture.sections():
        for value in section.values:
            if value.op == "input":
                inputs_of.setdefault(value.sequence, frozenset({value.sequence}))
            elif value.op == "call" and value.sequence and value.sequence not in inputs_of:
                of_arguments = (inputs_of.get(a.sequence, frozenset()) for a in value.args)
                inputs_of[value.sequence] = frozenset().union(*of_arguments)
    return inputs_of


def check_unread(architecture: Architecture, context: Context) -> None:
    reads = context.reads
    for numbers in (context.text.numbers, *(stack.numbers for stack in context.text.stacks)):
        for name, source in numbers.items():
            if name not in reads.numbers and name not in FREE_NUMBERS:
                raise unread_constant(name, source, context)
    for section in architecture.sections():
        for place, name, _ in section.lines if section.where != "output" else ():
            if not reads.has(place) and name not in reads.names:
                raise FormulaError("never-read", place, name=name)
    for definition in context.definitions:
        if definition.name not in reads.definitions:
            raise FormulaError("definition-unused", definition.place, name=definition.name)


def unread_constant(name: str, source: Source, context: Context) -> FormulaError:
    """The error for a number or another constant: perhaps a misspelled key, or the p of chance that no line calls."""
    known = [key for key in (*FREE_NUMBERS, *MODEL_KEYS, "dropout") if key != name]
    ours, setting = field_names.key(name, known), field_names.setting(name)
    near, said = nearest(name, known), ""
    if ours is not None:
        near, said = [ours.name], field_names.suggest(ours, source.text, "file" if source.file else "")
    elif setting is not None:
        written = field_names.spell_key(setting.name, setting.write or source.text, "line")
        near, said = [setting.name], f" a model file holds no settings of a run: type {written}"
    line = line_with_chance(name, context)
    remedy = f"read it in the layer: {line}" if line else "use it in a formula"
    if not line and (call := call_with_option(name, context)):
        remedy = f"give it to the call that has such an option: {call}"
    kind = kind_of(context.constants.get(name))
    return FormulaError("number-unused", source.start, kind=kind, name=name, near=near, said=said, remedy=remedy)


def call_with_option(name: str, context: Context) -> str:
    """`mlp(..., hidden=hidden)`: the first call of a formula whose word has an option of this name that it does not
    give; "" for none."""
    for source in context.text.formulas:
        nodes = [node for line in parse(source, second=True) for node in walk(line.value)]
        for node in (node for node in nodes if isinstance(node, CallNode)):
            record = context.vocabulary.get(node.word)
            if record and name in record.options and name not in [option.name for option in node.options]:
                return f"{node.word}(..., {name}={name})"
    return ""


def line_with_chance(word: str, context: Context) -> str:
    """The first line of a layer that has a sublayer, with the word of chance around it, where it would stand:
    `x = x + dropout(attention(norm(x)))`; "" if `word` is no word of chance, or no layer has a sublayer."""
    record = context.vocabulary.get(word)
    if record is None or record.kind != "chance":
        return ""
    sublayers: list[CallNode] = []

    def around(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not has_sublayer(node, context.vocabulary, context.definitions):
            return None
        sublayers.append(node)
        return CallNode(node.place, word, "", (node,), (), node.head)

    for source in (source for stack in context.text.stacks for source in stack.layers.values()):
        for line in parse(source):
            value = rewritten(line.value, around)
            if sublayers:
                return f"{line.name} = {spell(value)}"
    return ""


def has_sublayer(call: CallNode, vocabulary: Vocabulary, definitions: Sequence[Definition]) -> bool:
    """Whether a call is of a sublayer, or of a definition that calls one."""
    for definition in (known for known in reversed(definitions) if known.name == call.word):
        calls = [node for line in definition.lines for node in walk(line.value) if isinstance(node, CallNode)]
        above = definitions[: definition.index]
        return not definition.second and any(has_sublayer(node, vocabulary, above) for node in calls)
    return call.word in vocabulary and vocabulary[call.word].sublayer


def check_outside(context: Context) -> None:
    """Raise FormulaError for a word under `extra` that no formula calls, or that sees other than the file says."""
    text = context.text
    written = "\n".join(source.text for source in text.formulas)
    for name, outside in text.extra.items():
        record = context.vocabulary.get(name)
        wrong = remedy = ""
        if not re.search(rf"\b{re.escape(name)}\s*[.(]", written):
            wrong, remedy = "no formula calls it", "take it out"
        elif record is not None and is_own(record):
            wrong = "a word of this name is the language's own; `extra` names words from outside"
            remedy = "take it out to mean the language's; else give yours another name, in its file and here"
        elif record is not None and record.reach != outside.reach:
            known = f"the word that is known, of {record.module}, has {record.reach!r}"
            wrong, remedy = f"its reach is {outside.reach!r}, and {known}", "name another package, or correct the file"
        if wrong:
            raise FormulaError("key-value", outside.place, name=f"extra, {name}", detail=wrong, remedy=remedy)


def is_own(record: WordRecord) -> bool:
    """Whether a word is the language's own."""
    return record.module.partition(".")[0] == __name__.partition(".")[0]


def outside_words(architecture: Architecture) -> dict[str, Outside]:
    """The words of a model that are not the language's own, with their packages: what a file that is saved says."""
    outside: dict[str, Outside] = {}
    waiting = [value.called for section in architecture.sections() for value in section.calls()]
    while waiting:
        call = waiting.pop()
        waiting += [value.call for t in call.inner.values() for value in t.values if value.call is not None]
        if not is_own(call.word) and call.word.name not in outside:
            package = call.word.module.partition(".")[0]
            outside[call.word.name] = Outside(call.word.reach, "" if package == "__main__" else package)
    return dict(sorted(outside.items()))


def trim(architecture: Architecture, flow: Flow) -> None:
    """Keep what output and policy need: fill `leaves`, `keeps`, `history` of every section; drop what is dead."""
    live: set[int] = set()
    waiting: list[tuple[Section, Value]] = [(architecture.output, v) for v in architecture.output.leaves.values()]
    waiting += [(section, v) for section in architecture.sections() for v in section.asked.values()]
    while waiting:
        section, value = waiting.pop()
        if id(value) in live:
            continue
        live.add(id(value))
        waiting += [(section, argument) for argument in value.args]
        if value.op == "name":
            setting = flow.results[value.stack] if value.stack else flow.entered[id(section)][value.name]
        elif value.op == "history":
            stack = value.stack or (architecture.main.name if section.where == "output" else section.stack)
            setting = flow.history[stack][int(value.number)][1][value.name]
            if value.name not in setting.section.keeps:
                setting.section.keeps.append(value.name)
            pair = (value.name, int(value.number))
            if not value.stack and pair not in section.history:
                section.history.append(pair)
        else:
            continue
        setting.section.leaves[value.name] = setting.value
        waiting.append((setting.section, setting.value))
    for section in architecture.sections():
        section.values = [v for v in section.values if id(v) in live]
        section.history.sort()
        section.reads = {k: v for k, v in section.reads.items() if id(v) in live}
        section.lines = [
            (place, name, value if value is not None and (id(value) in live or value.op == "number") else None)
            for place, name, value in section.lines
        ]
