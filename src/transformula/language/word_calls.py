"""Calls of words: their arguments, sorted and held against the word's record, and the value that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .context import ROTARY, Definition, Scope, label_table, labeled
from .graph import Call, ScoreFormula, Section, Template, Value, describe
from .messages import FormulaError
from .names import Names
from .numbers import is_number
from .options import Environment, check_option, default_of, expression, unknown_option
from .source import Place
from .syntax import CallNode, Name
from .turning import check_products, turns_of
from .vocabulary import WordRecord

# Kinds of words that also act on coefficients, position by position.
BARE = ("function", "shape", "chance", "norm", "depth")
SCORES = ("scores", "ranking")  # ports that take scores
NO_IDS = ("image", "audio", "series")  # inputs that hold no ids
SEVERAL_IDS = ("characters",)  # inputs of several ids a position, which a stream of that name takes and no other
OF_VOCABULARY = ("tokens", "source")  # inputs whose ids are those of the vocabulary
# What a record's expressions read of a sequence or a value, which no number of the file that is called so stands for.
OF_ANALYSIS = ("length", "positions", "span", "y", "c")
# Streams of attention that belong to one sequence, though others may belong to another.
ONE_SEQUENCE = (("k", "v"), ("memory", "ids"), ("a", "ids"))


@dataclass
class WordCalls:
    """What the calls of words of a model have in common."""

    names: Names
    call: Callable[[CallNode, Scope], Any]  # evaluates a call inside another word: of the file's `norm`
    # One object for all formulas over scores that are equal: equal layers are told by it.
    formulas: dict[ScoreFormula, ScoreFormula] = field(default_factory=dict)
    # `WordCall.key` -> all options, so that those of a deep model are resolved once.
    resolved: dict[Any, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # the sequence of a table -> its rows
    alike: dict[tuple[Any, ...], str] = field(default_factory=dict)  # what makes a sequence -> its first name


@dataclass
class WordCall:
    """A call of a word. Its methods raise FormulaError."""

    model: WordCalls
    record: WordRecord
    name: str  # as the formula writes the word: a definition's that renames it
    node: CallNode
    scope: Scope
    options: dict[str, tuple[Any, Place]]  # those that are written, with their places
    share: int | None
    streams: list[tuple[str, Value]] = field(default_factory=list)  # name in the record, value; lists opened
    ports: list[tuple[str, Value]] = field(default_factory=list)  # those that are given

    def __post_init__(self) -> None:
        self.context, self.place = self.model.names.context, self.node.place
        numbers = {name: number for name, number in self.scope.numbers.items() if name not in OF_ANALYSIS}
        self.names = Environment(numbers, self.context.reads.numbers)

    def wrong(self, code: str, place: Place | None = None, **values: Any) -> FormulaError:
        return FormulaError(code, place or self.place, word=self.name, **values)

    def expression(self, text: str) -> Any:
        return expression(self.record, text, self.names, self.place)

    def value(self, items: Sequence[Any]) -> Value:
        record, node, scope = self.record, self.node, self.scope
        self.arrange(items)
        self.check_causal_use()
        earlier: Call | None = labeled(self.context, scope, node, self.share, self.name, record.family)
        self.resolve_options(earlier)
        resolved = {option: self.names[option] for option in record.options}
        self.check_ahead()
        self.check_ids(resolved)
        self.bind_definitions(resolved)
        if record.kind == "chance" and resolved.get("p") == 0 and not node.label:
            return self.streams[0][1]
        width, streams, ports = self.width(), (name for name, _ in self.streams), (name for name, _ in self.ports)
        given = frozenset(self.options) | (earlier.given if earlier else frozenset())
        call = Call(record, self.name, resolved, given, tuple(streams), tuple(ports), self.names["entries"], node.label)
        call.numbers, call.share = {**self.names.numbers, **self.names, **resolved}, self.share
        widths = {role: self.expression(text) for role, text in record.inner.items()}
        call.inner = {role: self.template(inner) for role, inner in widths.items() if inner}
        sequence = self.sequence(resolved)
        self.check_rows()
        value = self.result(call, width, sequence)
        if node.label:
            label_table(self.context, scope, self.share).setdefault((node.label, self.share), call)
        scope.add(value)
        scope.called(node, self.name, value)
        return value

    def arrange(self, items: Sequence[Any]) -> None:
        record = self.record
        for item, node in zip(items, self.node.items, strict=False):
            if not isinstance(item, Value):
                raise FormulaError("definition-value", node.place, name=self.name, what="streams and numbers here")
        form, streams = self.split(items)
        for option, value in zip(record.numbers, items[len(streams) :], strict=False):
            if option in self.options:
                raise self.wrong("option-twice", name=option)
            self.options[option] = (value.number, value.place or self.place)
        if named := [name for name in self.options if name in record.named]:
            form, streams = self.named(form, streams, named)
        for port in record.ports:  # a number 0 is none: the first value of what is carried into it
            value, place = self.options.pop(port, (0, None))
            if is_number(value):
                if value == 0:
                    continue
                value = Value("number", kind="number", number=value, place=place)
            if not isinstance(value, Value) or (port in SCORES and value.kind != "scores"):
                code = "scores-wanted" if port in SCORES else "wrong-kind"
                raise FormulaError(code, place, word=f"{self.name}({port}=)", what=describe(value))
            self.ports.append((port, value))
        for option in self.options:
            if option not in record.options:
                raise unknown_option(record, self.name, next(o for o in self.node.options if o.name == option))
        self.take_streams(form, streams)

    def split(self, items: Sequence[Value]) -> tuple[tuple[str, ...], Sequence[Value]]:
        """The streams among the positional arguments, with their names; numbers follow them. As a number may stand for
        a stream, every split is tried, most streams first as long as they are streams."""
        record, leading = self.record, 0
        while leading < len(items) and items[leading].kind != "number":
            leading += 1
        for count in [leading, *range(leading + 1, len(items) + 1), *range(leading - 1, -1, -1)]:
            form, rest = record.form(count), items[count:]
            if form is not None and len(rest) <= len(record.numbers) and all(i.kind == "number" for i in rest):
                return form, items[:count]
        expected = " or ".join(f"({', '.join(f)})" for f in record.forms) if any(record.forms) else "no streams"
        if record.numbers:
            expected += f" and then, as numbers, ({', '.join(record.numbers)})"
        given = ", ".join(map(describe, items)) or "nothing"
        raise self.wrong("argument-count", expected=expected, given=given, equation=record.equation or self.name)

    def named(
        self, form: Sequence[str], streams: Sequence[Value], names: list[str]
    ) -> tuple[tuple[str, ...], Sequence[Value]]:
        """The streams with those that are given by their names behind them, in the order of the form that has both."""
        count, forms = len(form), self.record.forms
        longer = next((own for own in forms if own[:count] == tuple(form) and {*own[count:]} == {*names}), None)
        if longer is None:
            ways = " or ".join(f"({', '.join(own)})" for own in forms)
            given = ", ".join([*map(describe, streams), *(f"{name}=" for name in names)])
            raise self.wrong("argument-count", expected=ways, given=given, equation=self.record.equation or self.name)
        values = [*streams]
        for name in longer[count:]:
            value, place = self.options.pop(name)
            if is_number(value):
                value = Value("number", kind="number", number=value, place=place)
            if not isinstance(value, Value):
                raise FormulaError("wrong-kind", place, word=f"{self.name}({name}=)", what=describe(value))
            values.append(value)
        return longer, values

    def take_streams(self, form: Sequence[str], values: Sequence[Value]) -> None:
        """The streams, lists opened, of kinds that the word takes and of widths that go together."""
        lists = self.record.lists
        for name, value in zip(form, values, strict=True):
            self.check_kind(name, value, name in lists)
            opened = [value] if value.kind != "list" else [v for v in value.args if v.op != "number"]
            self.streams += [(name, v) for v in opened]
        if lists and not self.streams:
            raise self.wrong("empty-list")
        groups = [[v for n, v in self.streams if n == name] for name in lists]
        if self.record.equal:
            groups.append([value for _, value in self.streams])
        for first, value in ((group[0], value) for group in groups for value in group):
            if value.width != first.width:
                raise FormulaError("widths", self.place, left=first.width, right=value.width)

    def check_kind(self, name: str, value: Value, many: bool) -> None:
        """The word takes such a value as its stream `name`; `many`: it takes a list."""
        record, place = self.record, value.place or self.place
        if value.kind == "list" and not many:
            raise FormulaError("list-here", place)
        if value.op == "input" and value.name in NO_IDS and name != value.name:
            raise self.wrong("not-read", place, what=describe(value), remedy=self.readers(value.name))
        if value.kind == "input" and record.kind != "input" and name not in record.ids:
            raise self.wrong("not-an-input", place, what=f"{value.name!r}")
        if value.kind != "input" and name in record.ids:
            raise self.wrong("ids-wanted", place, what=describe(value))
        if value.kind == "number" and not many and record.kind not in ("function", "chance"):
            raise self.wrong("wrong-kind", what=describe(value))
        kinds = {"coefficient": BARE if record.reach == "token" else (), "scores": ("function", "chance")}
        if name in {"coefficient": record.coefficients, "scores": record.scores}.get(value.kind, ()):
            return
        if value.kind == "scores" and record.across:
            raise self.wrong("no-channels", place)
        if name in record.scores or record.kind not in kinds.get(value.kind, (record.kind,)):
            code = "scores-wanted" if name in record.scores else "wrong-kind"
            raise self.wrong(code, place, what=describe(value))

    def resolve_options(self, earlier: Call | None) -> None:
        """Put every option of the word into `names`: as written, as at the label's first call, or by default."""
        record, names, resolved = self.record, self.names, self.model.resolved
        key = self.key() if earlier is None else None
        if key is not None and key in resolved:
            names |= resolved[key]
            return
        entries = [value for stream, value in self.streams if stream in record.lists]
        names |= {name.lstrip("*"): 0 for form in record.forms for name in form}
        names |= {stream: value.width for stream, value in reversed(self.streams)}
        if self.scope.within and record.value == "coefficient":
            names["width"] = self.scope.within  # so that a `vector` is as wide as what is normed
        names |= {port: any(name == port for name, _ in self.ports) for port in record.ports}
        names |= {"entries": len(entries), "entry": entries[0].width if entries else 0}
        for name, option in record.options.items():
            if name in self.options:
                names[name] = check_option(self.name, option, *self.options[name], known=self.scope.numbers)
            elif earlier is not None and name in earlier.given:
                names[name] = earlier.options[name]
            else:
                names[name] = default_of(self.name, option, self.names, self.place)
            if earlier is not None and option.shapes and earlier.options[name] != names[name]:
                first, second, label = describe(earlier.options[name]), describe(names[name]), self.node.label
                raise FormulaError("label-differs", self.place, label=label, name=name, first=first, second=second)
        for condition, message in record.checks.items():
            if not self.expression(condition):
                raise self.wrong("check-failed", detail=names.filled(message))
        if key is not None:
            resolved[key] = names

    def key(self) -> Any:
        """What two calls have in common whose options are equal. What cannot be hashed is told by its identity."""
        record, scope = self.record, self.scope
        values = [(name, value) for name, (value, _) in self.options.items()]
        written = tuple((k, type(v), v if isinstance(v, (bool, int, float, str)) else id(v)) for k, v in values)
        layer = scope.numbers.get("layer") if record.by_layer else None
        stack = None if scope.section.where == "output" else scope.stack.name
        ports = tuple(port for port, _ in self.ports)
        return record.name, stack, scope.within, tuple((s, v.width) for s, v in self.streams), ports, written, layer

    def bind_definitions(self, resolved: dict[str, Any]) -> None:
        """Put bound formulas in the place of definitions over scores; the inputs that they read become ports."""
        queries, keys = (self.streams[at][1].sequence if self.streams else "" for at in (0, -1))
        scope, used, inputs = self.scope, self.context.reads.numbers, self.context.inputs
        heads, causal = resolved.get("heads", 1), scope.stack.causal and queries == keys
        turned = self.expression(self.record.rotary) if self.record.rotary else 0
        for key, option in self.record.options.items():
            formula = resolved[key]
            if option.type != "definition" or formula is None:
                continue
            if isinstance(formula, Definition):
                from .score_binding import ScoreBinding  # of few models

                if key in ROTARY and not turned:
                    detail = f"{key}= says how rotary positions turn, and there are none; give their base: rotary=10000"
                    raise self.wrong("check-failed", detail=detail)
                count = 1 if key in ROTARY else heads  # heads turn alike
                formula = ScoreBinding(formula, key, count, scope.constants, inputs, used, causal).formula()
                formula = resolved[key] = self.model.formulas.setdefault(formula, formula)
            for name, side in formula.inputs:
                own, sequence = self.context.sequence_of(name), queries if side == "i" else keys
                if own != sequence or (key in ROTARY and own != keys):
                    where = f"the {'queries' if side == 'i' else 'keys'} here to {sequence!r}"
                    detail = f"it belongs to the sequence {own!r}, {where}"
                    raise FormulaError("second-level", self.place, name=f"{name}({side})", detail=detail)
                if all(name != port for port, _ in self.ports):
                    self.ports.append((name, self.model.names.input(name, self.scope.section, self.place)))

    def check_causal_use(self) -> None:
        record = self.record
        if not self.scope.stack.causal:
            return
        if record.kind != "input" and record.reach == "all" and self.scope.section.where != "output":
            raise FormulaError("reach-all", self.node.head, word=self.name)
        one = len(self.streams) > 1 and len({value.sequence for _, value in self.streams}) == 1
        if one and record.ids and record.sequence != "none":
            detail = "it points into another sequence; of its own a causal stack must not see what comes later"
            raise self.wrong("check-failed", detail=detail)

    def check_ahead(self) -> None:
        record, one = self.record, len({value.sequence for _, value in self.streams}) == 1
        if record.ahead and one and self.scope.stack.causal and self.expression(record.ahead):
            raise FormulaError("looks-ahead", self.node.head, word=self.name, option=record.ahead)

    def check_ids(self, resolved: Mapping[str, Any]) -> None:
        """Ids come from an input that holds ids, and a table has a row for each of a vocabulary of known size, unless
        ids share rows, whose number then has another default."""
        rows, vocab = resolved.get("rows"), self.context.numbers["vocab"]
        shared = rows is not None and self.record.options["rows"].default != "vocab"
        for stream, value in self.streams:
            if stream not in self.record.ids:
                continue
            if (value.name in SEVERAL_IDS) != (stream in SEVERAL_IDS):
                raise self.wrong("one-id", value.place, what=describe(value))
            known = value.name in OF_VOCABULARY and "vocab" in self.context.text.numbers
            if known and rows is not None and not shared and rows < vocab:
                detail = f"rows is {rows}, and the ids of {value.name} are those of a vocabulary of {vocab}"
                raise self.wrong("check-failed", detail=detail)

    def readers(self, name: str) -> str:
        """Which words read an input that holds no ids: those with a stream of its name."""
        words = [word for word, record in self.context.vocabulary.items() if any(name in form for form in record.forms)]
        if words:
            return f"read it by {' or '.join(f'{word}({name}, ...)' for word in words)}"
        return (
            f"no word here reads {name}: it is for words from outside that have a stream of this name (--use PACKAGE)"
        )

    def check_rows(self) -> None:
        """A table has as many rows as the word needs, where both are known."""
        if self.record.rows == "0":
            return
        causal = self.scope.stack.causal
        needed = expression(self.record, self.record.rows, {**self.names, "causal": causal}, self.place)
        rows = self.model.rows.get(self.streams[-1][1].sequence, needed)
        if needed not in (0, rows):
            where = "a causal stack" if causal else "a stack that sees the future"
            detail = f"in {where} it needs a table of {needed} rows; this one has {rows}"
            raise self.wrong("check-failed", detail=detail)

    def template(self, width: int) -> Template:
        """The file's `norm` on a stream of `width`, for use inside another word."""
        scope, node, here = self.scope, self.node, self.scope.section
        section = Section(here.where, here.number, here.formula, here.stack)
        argument = Value("argument", width=width, sequence="inner", name="x")
        visible = scope.visible if self.context.definition("norm") is None else len(self.context.definitions)
        inner = Scope(section, scope.stack, scope.constants, visible, {}, names={"x": argument}, within=width)
        norm = CallNode(node.place, "norm", "", (Name(node.place, "x"),), (), node.head)
        result = self.model.call(norm, inner)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", node.place, word="norm", what=describe(result))
        alias = len(section.values) == 1 and result.op == "call" and result.args == (argument,)
        return Template(section.values, argument, result, alias)

    def width(self) -> int:
        text = self.record.width
        if not text:
            return self.streams[0][1].width if self.streams else 1
        width = self.expression(text)
        if not isinstance(width, int) or width < 1:
            raise self.wrong("check-failed", detail=f"its result's width {text} is {width:g}")
        return width

    def sequence(self, resolved: Mapping[str, Any]) -> str:
        """The sequence of the result: that of the streams or of a port, a new one, or none. What reads position by
        position reads one sequence, as a sum does; attention that of its queries."""
        whose, ports = self.record.sequence, dict(self.ports)
        if whose not in ("first", "own", "none"):
            whose = self.expression(whose)
        if whose in ports:
            if ports[whose].sequence:
                return ports[whose].sequence
            raise self.wrong("check-failed", detail=f"{whose}= is {describe(ports[whose])}, which has no positions")
        if whose == "own":
            sequence = f"{self.name}.{len(self.scope.section.values)}.{self.scope.section.title}"
            if "rows" in resolved:
                self.model.rows[sequence] = resolved["rows"]
            return self.model.alike.setdefault(self.made_as(sequence), sequence)
        if not self.streams:
            return ""
        sequences, by_name = [value.sequence for _, value in self.streams], dict(self.streams)
        if self.record.kind in ("positions", "scores", "input", "output") and not self.record.together:
            pairs = [[by_name[name].sequence for name in pair if name in by_name] for pair in ONE_SEQUENCE]
        else:
            pairs = [list(dict.fromkeys(filter(None, sequences)))]
            sequences = pairs[0] or [""]
        for left, right, *_ in (pair for pair in pairs if len(set(pair)) > 1):
            raise self.context.apart(self.place, left or "none", right or "none")
        return sequences[0] if whose == "first" else ""

    def made_as(self, sequence: str) -> tuple[Any, ...]:
        """By what two sequences that words make are one: they have the same positions of the same stream."""
        record = self.record
        if record.real not in ("strided", "grid", "larger"):
            return (sequence,)
        numbers, made = map(self.expression, record.strided), record.name if record.real == "strided" else record.real
        return (made, self.streams[0][1].sequence, *numbers)

    def result(self, call: Call, width: int, sequence: str) -> Value:
        values = [value for _, value in self.streams]
        check_products(call, values, self.name, self.place)
        kind, kinds = self.record.value, {stream.kind for _, stream in self.streams} - {"number"}
        if self.record.kind in BARE and kinds in ({"coefficient"}, {"scores"}):
            (kind,) = kinds  # made of coefficients alone, it has no sequence either
        arguments = tuple(value for _, value in [*self.streams, *self.ports])
        value = Value("call", arguments, kind, width, sequence, name=self.name, call=call, place=self.place)
        value.turns = turns_of(call, values, width) if kind == "stream" else ()
        if kind == "scores" and self.streams:
            first = self.streams[0][1]
            value.keys = first.keys if first.kind == "scores" else first.sequence if sequence else ""
        for port, scores in self.ports:
            if scores.kind != "scores" or not self.streams:
                continue
            own = value.args[0].sequence, self.streams[-1][1].sequence
            for theirs, mine in zip((scores.sequence, scores.keys), own, strict=True):
                if theirs not in ("", mine):  # one position of no sequence goes with all
                    left, right = f"{theirs} in {port}=", f"{mine or 'one position'} in {self.name}"
                    raise FormulaError("sequences", scores.place or value.place, left=left, right=right, also="")
        return value
