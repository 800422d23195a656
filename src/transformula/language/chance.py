"""Where a word of chance would stand in a text that has none: what the error for an unread `dropout` shows."""

from __future__ import annotations

from collections.abc import Sequence

from .definitions import Definition
from .model_file import ModelText
from .parser import parse
from .rewriting import rewritten, spell
from .syntax import CallNode, Node, walk
from .vocabulary import Vocabulary


def line_with_chance(word: str, text: ModelText, vocabulary: Vocabulary, definitions: Sequence[Definition]) -> str:
    """The first line of a layer that has a sublayer, with the word around it: `x = x + dropout(attention(norm(x)))`.

    "" if `word` is no word of chance, or no layer has a sublayer.
    """
    record = vocabulary.get(word)
    if record is None or record.kind != "chance":
        return ""
    found: list[CallNode] = []

    def around(node: Node) -> Node | None:
        if not isinstance(node, CallNode) or not has_sublayer(node, vocabulary, definitions):
            return None
        found.append(node)
        return CallNode(node.place, word, "", (node,), (), node.head)

    for stack in text.stacks:
        for source in stack.layers.values():
            for line in parse(source):
                value = rewritten(line.value, around)
                if found:
                    return f"{line.name} = {spell(value)}"
    return ""


def has_sublayer(call: CallNode, vocabulary: Vocabulary, definitions: Sequence[Definition]) -> bool:
    """Whether a call is of a sublayer, or of a definition that calls one."""
    for definition in reversed(definitions):
        if definition.name == call.word:
            inside = [node for line in definition.lines for node in walk(line.value) if isinstance(node, CallNode)]
            above = definitions[: definition.index]
            return not definition.second and any(has_sublayer(node, vocabulary, above) for node in inside)
    record = vocabulary.get(call.word)
    return record is not None and record.sublayer
