"""From texts to the checked graph: what a model means.

`check` runs through `before`, layers 1 to depth, `after` and `output` as the model will, with values that know their
kind, width and sequence instead of tensors. All rules of the language that need more than one line are held here and in
the files it builds on: `names.py`, `expressions.py`, `word_calls.py`, `definition_calls.py`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import field_names
from ..errors import nearest
from .causality import check_causal
from .chance import line_with_chance
from .definition_calls import Calls
from .definitions import Definition, check_second, read_definition, tells_positions
from .graph import Architecture, Section, Stack
from .liveness import trim
from .messages import FormulaError
from .model_file import FREE_NUMBERS, MODEL_KEYS, MOST_CARRIED, ModelText, Outside, StackText
from .names import Scope
from .numbers import as_number, evaluate, resolve
from .parser import parse, parse_expression
from .roles import name_modules
from .sizes import check_size
from .source import Place, Source
from .syntax import CallNode, Choice, Line, Name, Node, Number, walk
from .vocabulary import Vocabulary

DEFAULT_NUMBERS = {"depth": 4, "width": 256, "heads": 4, "vocab": 256, "context": 64}
"""What a model takes where neither its file nor the run says it."""

DEFAULT_OUTPUT = "logits = unembed.words(x)"
MOST_LAYERS = 10_000


class Checker(Calls):
    """Checks one model. Use `check`."""

    def run(self) -> Architecture:
        text = self.text
        given = {key: parse_expression(source) for key, source in text.numbers.items()}
        for key, value in DEFAULT_NUMBERS.items():
            if key not in given and not any(key in s.numbers for s in text.stacks):
                given[key] = parse_expression(Source(f"number {key}", str(value)))
        self.numbers = resolve(given, {}, self.used)
        self.definitions = self.read_definitions()
        for stack in text.stacks:
            self.stacks.append(self.stack(stack))
        output = self.section("output", 0, text.output or self.default_output, "output", self.numbers, stack="")
        for hook in text.hooks.values():
            parts = [hook] if isinstance(hook, (Source, str)) else list(hook.values())
            for part in parts:
                self.used.update(re.findall(r"[A-Za-z_]\w*", part.text if isinstance(part, Source) else str(part)))
        architecture = Architecture(text.name, self.stacks, output, self.numbers, text.hooks, text, self.carry())
        self.ask(architecture)
        self.check_unread(architecture)
        check_causal(architecture, self.streams)
        self.check_extra()
        trim(architecture, self.flow)
        name_modules(architecture)
        architecture.text = dataclasses.replace(text, extra={**text.extra, **outside_words(architecture)})
        return architecture

    def read_definitions(self) -> list[Definition]:
        definitions: list[Definition] = []
        for index, (header, body) in enumerate(self.text.words.items()):
            definition = read_definition(header, body, index)
            if any(d.name == definition.name for d in definitions):
                raise FormulaError("two-things", definition.place, name=definition.name, other="a definition")
            for name, other in (
                (definition.name in self.numbers, "a number of the file"),
                (definition.name in self.inputs, "an input of the task"),
            ):
                if name and not (
                    definition.name in self.vocabulary and self.vocabulary[definition.name].kind == "chance"
                ):
                    raise FormulaError("two-things", definition.place, name=definition.name, other=other)
            if definition.second:
                numbers = {*self.numbers, *(n for s in self.text.stacks for n in s.numbers)}
                check_second(definition, numbers, self.inputs, self.used)
            definitions.append(definition)
        return definitions

    def stack(self, text: StackText) -> Stack:
        self.stack_text = text
        own = {key: parse_expression(source) for key, source in text.numbers.items()}
        numbers = {**self.numbers, **resolve(own, self.numbers, self.used)}
        depth = numbers.get("depth", DEFAULT_NUMBERS["depth"])
        if not isinstance(depth, int) or not 1 <= depth <= MOST_LAYERS:
            place = text.numbers.get("depth") or self.text.numbers.get("depth") or Source("depth", str(depth))
            raise FormulaError(
                "needs-depth", Place(place, 1, 0, 1, max(1, len(place.text))), name="depth", given=f"{depth:g}"
            )
        if not text.layers:
            raise FormulaError("no-layer", text.place, title=f"the stack {text.name!r}" if text.name else "the model")
        formulas = {name: parse(source) for name, source in text.layers.items()}
        before = text.before or Source(f"{text.name}, before" if text.name else "before", self.default_before(formulas))
        if text.name and text.before is None:
            raise FormulaError(
                "no-layer", text.place, title=f"the stack {text.name!r} (among several, each says its `before`)"
            )
        lines = parse(before)
        after = parse(text.after) if text.after else []
        self.assigned = {line.name for part in (lines, after, *formulas.values()) for line in part}
        check_size(depth, [lines, after, *formulas.values()], self.definitions)
        order = self.order(text, formulas, numbers, depth)
        self.flow.begin(text.name)
        stack = Stack(text.name, text.causal, depth, numbers, None, [], None)  # type: ignore[arg-type]
        self.current = stack
        stack.before = self.section("before", 0, lines, "before", numbers, text.name)
        self.flow.leave(stack.before)
        if "x" in self.flow.now:
            self.streams[text.name] = self.flow.now["x"].value.sequence
        for layer in range(1, depth + 1):
            name = order[layer - 1]
            section = self.section("layer", layer, formulas[name], name, {**numbers, "layer": layer}, text.name)
            stack.layers.append(section)
            self.flow.leave(section)
        unused = [name for name in formulas if name not in order]
        for name in unused:
            self.spell_lines(formulas[name])
        stack.after = self.section("after", 0, after, "after", numbers, text.name)
        if text.share is not None:
            node = parse_expression(text.share)
            stack.share = [
                self.whole(node, {**numbers, "layer": layer}, 0, 10 * MOST_LAYERS) for layer in range(1, depth + 1)
            ]
            pairs: dict[int, str] = {}
            for number, name in zip(stack.share, order, strict=True):
                if pairs.setdefault(number, name) != name:
                    raise FormulaError(
                        "order",
                        node.place,
                        detail=f"layers that share number {number} have different formulas",
                        known=", ".join(formulas),
                    )
        self.flow.finish(text.name, stack.after)
        if text.name:
            self.stack_names.add(text.name)
        return stack

    def order(
        self, text: StackText, formulas: Mapping[str, Any], numbers: Mapping[str, float], depth: int
    ) -> list[str]:
        known = ", ".join(formulas)
        if text.order is None:
            if len(formulas) > 1:
                raise FormulaError("order", text.place, detail="several formulas need an order", known=known)
            return [next(iter(formulas))] * depth
        if isinstance(text.order, tuple):
            names = [source.text.strip() for source in text.order]
            for source, name in zip(text.order, names, strict=True):
                if name not in formulas:
                    raise FormulaError(
                        "order",
                        Place(source, 1, 0, 1, len(source.text) or 1),
                        detail=f"{name!r} is not a formula of `layers`",
                        known=known,
                    )
            if not names:
                raise FormulaError("order", text.place, detail="the list is empty", known=known)
            return [names[i % len(names)] for i in range(depth)]
        node = parse_expression(text.order)

        def choose(node: Node, names: Mapping[str, float]) -> str:
            if isinstance(node, Choice):
                return choose(node.then if evaluate(node.test, self.looker(names)) else node.other, names)
            if isinstance(node, Name) and node.name in formulas:
                return node.name
            raise FormulaError(
                "order", node.place, detail=f"`{node.place.text}` is not a formula of `layers`", known=known
            )

        def all_named(node: Node) -> None:
            if isinstance(node, Choice):
                all_named(node.then)
                all_named(node.other)
            else:
                choose(node, {})

        all_named(node)
        return [choose(node, {**numbers, "layer": layer}) for layer in range(1, depth + 1)]

    def default_before(self, formulas: Mapping[str, list[Line]]) -> str:
        """Embedding, with learned positions unless a word of the layers tells positions apart itself."""
        rotary = {record.rotary for record in self.vocabulary.values() if record.rotary and record.sublayer}
        for line in [line for lines in formulas.values() for line in lines] + [
            line for d in self.definitions for line in d.lines
        ]:
            for node in walk(line.value):
                if isinstance(node, CallNode):
                    record = self.vocabulary.get(node.word)
                    written = {o.name: o.value for o in node.options}
                    turns = [value for name, value in written.items() if name in rotary]
                    if (
                        (record and record.ordered)
                        or ("score" in written and self.tells_positions(written["score"]))
                        or any(not (isinstance(base, Number) and base.value == 0) for base in turns)
                    ):
                        return "x = embed.words(tokens)"
        return "x = embed.words(tokens) + positions(tokens)"

    def tells_positions(self, score: Node) -> bool:
        """Whether a score formula, as written in a call, tells positions apart; what is not known here may."""
        named = [d for d in self.definitions if isinstance(score, Name) and d.name == score.name]
        return not named or tells_positions(named[-1], self.inputs)

    def section(
        self,
        where: str,
        number: int,
        lines: Source | Sequence[Line],
        formula: str,
        numbers: Mapping[str, float],
        stack: str,
    ) -> Section:
        if isinstance(lines, Source):
            lines = parse(lines)
        section = Section(where, number, formula, stack)
        labels = {} if where == "layer" else self.model_labels
        scope = Scope(section, numbers, len(self.definitions), labels)
        self.flow.enter(section)
        for line in lines:
            self.check_target(line, scope)
            section.lines.append(self.assign(line, scope))
        for name, value in scope.names.items():
            self.flow.set(name, value, section, scope.places[name])
        if where == "output":
            for name in scope.names:
                if self.key(scope.places[name]) not in self.read:
                    section.leaves[name] = scope.names[name]
        return section

    def unused(self, name: str, source: Source) -> FormulaError:
        """A number that nothing reads: perhaps a key misspelt, or the p of a word of chance that no line calls."""
        known = [key for key in (*FREE_NUMBERS, *MODEL_KEYS, "dropout") if key != name]
        place, where = Place(source, 1, 0, 1, max(1, len(source.text))), "file" if source.file else ""
        ours, setting = field_names.key(name, known), field_names.setting(name)
        near, said = nearest(name, known), ""
        if ours is not None:
            near, said = [ours.name], field_names.suggest(ours, source.text, where)
        elif setting is not None:
            written = field_names.written(setting.name, setting.write or source.text, "line")
            near, said = [setting.name], f" a model file holds no settings of a run: type {written}"
        line = line_with_chance(name, self.text, self.vocabulary, self.definitions)
        remedy = f"read it in the layer: {line}" if line else "use it in a formula"
        return FormulaError("number-unused", place, name=name, near=near, said=said, remedy=remedy)

    def ask(self, architecture: Architecture) -> None:
        """Note what the model's `policy` reads: the names in its brackets that every layer of a stack sets."""
        given = self.text.hooks.get("policy")
        written = given.text if isinstance(given, Source) else str(given or "")
        names = [n for n in re.findall(r"[A-Za-z_]\w*", written.partition("(")[2]) if n not in self.numbers]
        for stack in architecture.stacks:
            left = self.flow.history[stack.name]
            for section, settings in left[1:]:
                for name in dict.fromkeys(names):
                    if name in settings and settings[name].section is section:
                        section.asked[name] = settings[name].value
                        self.read.add(self.key(settings[name].place))

    def carry(self) -> int:
        """The number under `carry`, 0 if the key is not there."""
        given = self.text.hooks.get("carry")
        if given is None:
            return 0
        if isinstance(given, Mapping):
            raise FormulaError("key-value", None, name="carry", detail="is a mapping", remedy="write carry: 150")
        node = parse_expression(given if isinstance(given, Source) else Source("carry", str(given)))
        value = as_number(node, evaluate(node, self.looker(self.numbers)))
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_CARRIED:
            raise FormulaError(
                "key-value",
                node.place,
                name="carry",
                detail=f"is {value:g}, and must be a whole number from 1 to {MOST_CARRIED:,}",
                remedy="say how many positions of the segments before are seen, or take the key out",
            )
        return value

    def check_extra(self) -> None:
        """Words that the file says come from outside are called, and see what it says."""
        stacks = self.text.stacks
        sources = [s for stack in stacks for s in (stack.before, stack.after, *stack.layers.values())]
        written = "\n".join(s.text for s in [*sources, self.text.output, *self.text.words.values()] if s)
        for name, said in self.text.extra.items():
            record = self.vocabulary.get(name)
            wrong = remedy = ""
            if not re.search(rf"\b{re.escape(name)}\s*[.(]", written):
                wrong, remedy = "no formula calls it", "take it out"
            elif record is not None and record.reach != said.reach:
                wrong = (
                    f"its reach is {said.reach!r}, and the word that is known, of {record.module}, has {record.reach!r}"
                )
                remedy = "name another package, or correct the file"
            if wrong:
                raise FormulaError("key-value", said.place, name=f"extra, {name}", detail=wrong, remedy=remedy)

    def check_unread(self, architecture: Architecture) -> None:
        for name, source in self.text.numbers.items():
            if name not in self.used and name not in FREE_NUMBERS:
                raise self.unused(name, source)
        for stack in self.text.stacks:
            for name, source in stack.numbers.items():
                if name not in self.used and name not in FREE_NUMBERS:
                    raise self.unused(name, source)
        lines: dict[tuple[str, int, int], Line | tuple[Place, str, Any]] = {}
        for section in architecture.sections():
            if section.where != "output":
                for line in section.lines:
                    lines.setdefault(self.key(line[0]), line)
        for key, (place, name, _) in lines.items():  # type: ignore[misc]
            if key not in self.read and name not in self.spelled:
                raise FormulaError("never-read", place, name=name)
        for definition in self.definitions:
            if definition.name not in self.used_definitions:
                raise FormulaError("definition-unused", definition.place, name=definition.name)


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


def check(
    text: ModelText, vocabulary: Vocabulary, overrides: Mapping[str, Any] | None = None, *, output: str = DEFAULT_OUTPUT
) -> Architecture:
    """Check a model and return its graph.

    `overrides` are numbers and formulas that replace the file's; `output` is the task's, for a model without one.
    Raises FormulaError at the first mistake.
    """
    if overrides:
        text = text.override(overrides)
    try:
        return Checker(text, vocabulary, output).run()
    except RecursionError:
        raise FormulaError("too-deep", None) from None
