"""What nothing reads is an error: nothing that a model's file says is ignored."""

from __future__ import annotations

import re

from .. import field_names
from ..errors import nearest
from .chance import line_with_chance
from .context import Context, key_of
from .graph import Architecture
from .messages import FormulaError
from .model_file import FREE_NUMBERS, MODEL_KEYS, Outside
from .source import Source


def check_unread(architecture: Architecture, context: Context) -> None:
    """Raise FormulaError for a number, a line or a definition that nothing has read."""
    reads = context.reads
    for numbers in (context.text.numbers, *(stack.numbers for stack in context.text.stacks)):
        for name, source in numbers.items():
            if name not in reads.numbers and name not in FREE_NUMBERS:
                raise unread_number(name, source, context)
    for section in architecture.sections():
        for place, name, _ in section.lines if section.where != "output" else ():
            if key_of(place) not in reads.lines and name not in reads.names:
                raise FormulaError("never-read", place, name=name)
    for definition in context.definitions:
        if definition.name not in reads.definitions:
            raise FormulaError("definition-unused", definition.place, name=definition.name)


def unread_number(name: str, source: Source, context: Context) -> FormulaError:
    """The error for a number: perhaps a misspelled key, or the p of a word of chance that no line calls."""
    known = [key for key in (*FREE_NUMBERS, *MODEL_KEYS, "dropout") if key != name]
    ours, setting = field_names.key(name, known), field_names.setting(name)
    near, said = nearest(name, known), ""
    if ours is not None:
        near, said = [ours.name], field_names.suggest(ours, source.text, "file" if source.file else "")
    elif setting is not None:
        written = field_names.written(setting.name, setting.write or source.text, "line")
        near, said = [setting.name], f" a model file holds no settings of a run: type {written}"
    line = line_with_chance(name, context.text, context.vocabulary, context.definitions)
    remedy = f"read it in the layer: {line}" if line else "use it in a formula"
    return FormulaError("number-unused", source.start, name=name, near=near, said=said, remedy=remedy)


def check_outside(context: Context) -> None:
    """Raise FormulaError for a word under `extra` that no formula calls, or that sees other than the file says."""
    text = context.text
    sources = [s for stack in text.stacks for s in (stack.before, stack.after, *stack.layers.values())]
    written = "\n".join(s.text for s in [*sources, text.output, *text.words.values()] if s)
    for name, outside in text.extra.items():
        record = context.vocabulary.get(name)
        wrong = remedy = ""
        if not re.search(rf"\b{re.escape(name)}\s*[.(]", written):
            wrong, remedy = "no formula calls it", "take it out"
        elif record is not None and record.reach != outside.reach:
            known = f"the word that is known, of {record.module}, has {record.reach!r}"
            wrong, remedy = f"its reach is {outside.reach!r}, and {known}", "name another package, or correct the file"
        if wrong:
            raise FormulaError("key-value", outside.place, name=f"extra, {name}", detail=wrong, remedy=remedy)


def outside_words(architecture: Architecture) -> dict[str, Outside]:
    """The words of a model that are not the language's own, with their packages: what a file that is saved says."""
    found: dict[str, Outside] = {}
    waiting = [v.call for s in architecture.sections() for v in s.calls() if v.call is not None]
    while waiting:
        call = waiting.pop()
        waiting += [v.call for t in call.inner.values() for v in t.values if v.call is not None]
        package = call.word.module.partition(".")[0]
        if package != __name__.partition(".")[0] and call.word.name not in found:
            found[call.word.name] = Outside(call.word.reach, "" if package == "__main__" else package)
    return dict(sorted(found.items()))
