"""Calls of words, held against the words' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .context import Scope
from .definitions import Definition
from .graph import Call, Section, Template, Value, describe
from .labels import Labels, take_share
from .messages import FormulaError
from .names import Names
from .options import Environment, check_option, default_of, expression
from .score_binding import ScoreBinding
from .score_formula import ScoreFormula
from .source import Place
from .syntax import CallNode, Name
from .vocabulary import WordRecord
from .word_arguments import BARE, WordCall

NO_IDS = ("image", "audio")
"""Inputs that hold no ids."""

OF_VOCABULARY = ("tokens", "source")
"""Inputs whose ids are those of the vocabulary."""


class WordCalls:
    """Evaluates calls of words.

    call  evaluates a call of whatever word (see `calls.py`): of the file's `norm`, inside another word
    """

    def __init__(self, names: Names, labels: Labels, call: Callable[[CallNode, Scope], Any]) -> None:
        self.names, self.context, self.labels, self.call_norm = names, names.context, labels, call
        self.formulas: dict[ScoreFormula, ScoreFormula] = {}
        self.resolved: dict[Any, dict[str, Any]] = {}
        self.by_layer: dict[str, bool] = {}
        self.rows: dict[str, int] = {}

    def call(
        self,
        record: WordRecord,
        name: str,
        node: CallNode,
        items: Sequence[Any],
        options: dict[str, tuple[Any, Place]],
        scope: Scope,
    ) -> Value:
        """The value of one call: streams, ports and options held against the word's record. Raises FormulaError."""
        share = take_share(name, node, options)
        call = WordCall(record, name, node, scope, options)
        call.arrange(items)
        check_causal_use(call)
        first, found = self.labels.find(node, scope, share, name, record.family)
        earlier: Call | None = found if first == name else None
        environment = self.resolve_options(call, earlier)
        resolved = {option: environment.names[option] for option in record.options}
        self.check_ids(call, resolved)
        self.bind_definitions(call, resolved)
        if record.kind == "chance" and resolved.get("p") == 0 and not node.label:
            return call.streams[0][1]
        width = width_of(call, environment)
        made = Call(
            record,
            name,
            resolved,
            frozenset(options) | (earlier.given if earlier else frozenset()),
            tuple(stream for stream, _ in call.streams),
            tuple(port for port, _ in call.ports),
            environment.names["entries"],
            node.label,
            numbers={**scope.numbers, **environment.names, **resolved},
            share=share,
        )
        for role, text in record.inner.items():
            inner_width = expression(record, text, environment, node.place)
            if inner_width:
                made.inner[role] = self.template(inner_width, node, scope)
        sequence = self.sequence_of(call, environment, resolved)
        self.check_rows(call, environment)
        value = result_of(call, made, width, sequence)
        self.labels.set(node, scope, share, name, made, record.family)
        scope.add(value)
        scope.called(node, name, value)
        return value

    def resolve_options(self, call: WordCall, earlier: Call | None) -> Environment:
        """Every option of the word: as written, as at the label's first call, or by default. `names` holds them."""
        record, numbers = call.record, call.scope.numbers
        environment = Environment(numbers, self.context.reads.numbers)
        key = self.key_of(call) if earlier is None else None
        if key is not None and key in self.resolved:
            environment.names = self.resolved[key]
            return environment
        lists = {name[1:] for form in record.forms for name in form if name.startswith("*")}
        entries = [value for stream, value in call.streams if stream in lists]
        names = environment.names
        names |= {name.lstrip("*"): 0 for form in record.forms for name in form}
        names |= {stream: value.width for stream, value in reversed(call.streams)}
        names |= {"entries": len(entries), "entry": entries[0].width if entries else 0}
        for name, option in record.options.items():
            if name in call.options:
                names[name] = check_option(call.name, option, *call.options[name])
            elif earlier is not None and name in earlier.given:
                names[name] = earlier.options[name]
            else:
                names[name] = default_of(call.name, option, environment, call.node.place)
            if earlier is not None and option.shapes and earlier.options[name] != names[name]:
                first, second = describe(earlier.options[name]), describe(names[name])
                label, place = call.node.label, call.node.place
                raise FormulaError("label-differs", place, label=label, name=name, first=first, second=second)
        for condition, message in record.checks.items():
            if not expression(record, condition, environment, call.node.place):
                raise call.wrong("check-failed", detail=environment.filled(message))
        if key is not None:
            self.resolved[key] = names
        return environment

    def key_of(self, call: WordCall) -> Any:
        """What two calls have in common whose options are equal, so that those of a deep model are resolved once. What
        cannot be hashed is told by its identity."""
        record, scope = call.record, call.scope
        values = [(name, value) for name, (value, _) in call.options.items()]
        written = tuple((k, type(v), v if isinstance(v, (bool, int, float, str)) else id(v)) for k, v in values)
        if record.name not in self.by_layer:
            defaults = (option.default for option in record.options.values())
            self.by_layer[record.name] = any(isinstance(text, str) and "layer" in text for text in defaults)
        layer = scope.numbers.get("layer") if self.by_layer[record.name] else None
        stack = None if scope.section.where == "output" else scope.stack.name
        return record.name, stack, tuple((s, v.width) for s, v in call.streams), written, layer

    def check_ids(self, call: WordCall, resolved: Mapping[str, Any]) -> None:
        """Ids come from an input that holds ids, and there is a row for each of the vocabulary where its size is known
        (`vocab` is written, or the run has said it)."""
        rows, vocab = resolved.get("rows"), self.context.numbers["vocab"]
        for stream, value in call.streams:
            if stream not in call.record.ids:
                continue
            if value.name in NO_IDS:
                raise call.wrong("ids-wanted", value.place, what=describe(value))
            known = value.name in OF_VOCABULARY and "vocab" in self.context.text.numbers
            if known and rows is not None and rows < vocab:
                detail = f"rows is {rows}, and the ids of {value.name} are those of a vocabulary of {vocab}"
                raise call.wrong("check-failed", detail=detail)

    def bind_definitions(self, call: WordCall, resolved: dict[str, Any]) -> None:
        """Put bound formulas in the place of definitions over scores; the inputs that they read become ports."""
        queries, keys = (call.streams[at][1].sequence if call.streams else "" for at in (0, -1))
        for key, option in call.record.options.items():
            formula = resolved[key]
            if option.type != "definition" or formula is None:
                continue
            if isinstance(formula, Definition):
                binding = ScoreBinding(
                    formula,
                    key,
                    heads=resolved.get("heads", 1),
                    numbers=call.scope.numbers,
                    inputs=self.context.inputs,
                    used=self.context.reads.numbers,
                    causal=call.scope.stack.causal and queries == keys,
                )
                formula = binding.formula()
                # one object for all that are equal: equal layers are told by it
                formula = resolved[key] = self.formulas.setdefault(formula, formula)
            for name, side in formula.inputs:
                own, place = self.context.sequence_of(name), call.node.place
                if own != (queries if side == "i" else keys):
                    where = f"the {'queries' if side == 'i' else 'keys'} here to {queries if side == 'i' else keys!r}"
                    detail = f"it belongs to the sequence {own!r}, {where}"
                    raise FormulaError("second-level", place, name=f"{name}({side})", detail=detail)
                if all(name != port for port, _ in call.ports):
                    call.ports.append((name, self.names.input(name, call.scope.section, place)))

    def template(self, width: int, node: CallNode, scope: Scope) -> Template:
        """The file's `norm` on a stream of `width`, for use inside another word."""
        section = Section(scope.section.where, scope.section.number, scope.section.formula, scope.section.stack)
        argument = Value("argument", width=width, sequence="inner", name="x")
        visible = scope.visible if self.context.definition("norm") is None else len(self.context.definitions)
        inner = Scope(section, scope.stack, scope.numbers, visible, {}, names={"x": argument})
        norm = CallNode(node.place, "norm", "", (Name(node.place, "x"),), (), node.head)
        result = self.call_norm(norm, inner)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", node.place, word="norm", what=describe(result))
        alias = len(section.values) == 1 and result.op == "call" and result.args == (argument,)
        return Template(section.values, argument, result, alias)

    def sequence_of(self, call: WordCall, environment: Environment, resolved: Mapping[str, Any]) -> str:
        """The sequence of the result: that of the streams, a new one, or none."""
        whose = call.record.sequence
        if whose not in ("first", "own", "none"):
            whose = expression(call.record, whose, environment, call.node.place)
        if whose == "first":
            return common_sequence(call)
        if whose != "own":
            return ""
        sequence = f"{call.name}.{len(call.scope.section.values)}.{call.scope.section.title}"
        if "rows" in resolved:
            self.rows[sequence] = resolved["rows"]
        return sequence

    def check_rows(self, call: WordCall, environment: Environment) -> None:
        """A table has as many rows as the word needs, where both are known."""
        if call.record.rows == "0":
            return
        causal = call.scope.stack.causal
        wanted = expression(call.record, call.record.rows, {**environment.names, "causal": causal}, call.node.place)
        rows = self.rows.get(call.streams[-1][1].sequence, wanted)
        if wanted not in (0, rows):
            where = "a causal stack" if causal else "a stack that sees the future"
            detail = f"in {where} it needs a table of {wanted} rows; this one has {rows}"
            raise call.wrong("check-failed", detail=detail)


def check_causal_use(call: WordCall) -> None:
    """Raise FormulaError for a word that sees too much to stand in a causal stack."""
    record = call.record
    if not call.scope.stack.causal or record.kind == "input":
        return
    if record.reach == "all" and call.scope.section.where != "output":
        raise FormulaError("reach-all", call.node.head, word=call.name)
    if record.ids and len({value.sequence for _, value in call.streams}) == 1:
        detail = "it points into another sequence; of its own a causal stack must not see what comes later"
        raise call.wrong("check-failed", detail=detail)


def width_of(call: WordCall, environment: Environment) -> int:
    """The width of the result."""
    text = call.record.width
    if not text:
        return call.streams[0][1].width if call.streams else 1
    width = expression(call.record, text, environment, call.node.place)
    if not isinstance(width, int) or width < 1:
        raise call.wrong("check-failed", detail=f"its result's width {text} is {width:g}")
    return width


def result_of(call: WordCall, made: Call, width: int, sequence: str) -> Value:
    """The value of a call. Raises FormulaError for scores of other queries or other keys."""
    kind, kinds = call.record.value, {stream.kind for _, stream in call.streams} - {"number"}
    if call.record.kind in BARE and kinds in ({"coefficient"}, {"scores"}):
        (kind,) = kinds  # made of coefficients alone, it has no sequence either
    arguments = tuple(value for _, value in [*call.streams, *call.ports])
    value = Value("call", arguments, kind, width, sequence, name=call.name, call=made, place=call.node.place)
    if kind == "scores" and call.streams:
        first = call.streams[0][1]
        value.keys = first.keys if first.kind == "scores" else first.sequence
    for port, scores in call.ports:
        if scores.kind != "scores" or not call.streams:
            continue
        own = value.args[0].sequence, call.streams[-1][1].sequence
        for theirs, mine in zip((scores.sequence, scores.keys), own, strict=True):
            if theirs not in ("", mine):  # one position of no sequence goes with all
                left, right = f"{theirs} in {port}=", f"{mine or 'one position'} in {call.name}"
                raise FormulaError("sequences", scores.place or value.place, left=left, right=right)
    return value


def common_sequence(call: WordCall) -> str:
    """The sequence of a word's result, where that is its streams'. What reads position by position reads one sequence,
    as a sum does; attention that of its queries, and its keys and values are of one, too. Raises FormulaError."""
    sequences = [value.sequence for _, value in call.streams]
    if call.record.kind in ("positions", "scores", "input", "output"):
        by_name = dict(call.streams)
        for pair in (("k", "v"), ("memory", "ids")):
            left, right = (by_name[name].sequence if name in by_name else None for name in pair)
            if None not in (left, right) and left != right:
                raise FormulaError("sequences", call.node.place, left=left or "none", right=right or "none")
        return sequences[0] if sequences else ""
    known = list(dict.fromkeys(filter(None, sequences)))
    if len(known) > 1:
        raise FormulaError("sequences", call.node.place, left=known[0], right=known[1])
    return known[0] if known else ""
