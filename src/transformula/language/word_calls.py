"""Calls of words, held against their records. Those of definitions: `definition_calls.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .calls import check_option, default_of, describe, expression, split_items, unknown_option
from .definitions import Definition
from .expressions import Expressions
from .graph import Call, Section, Template, Value
from .messages import FormulaError
from .model_file import ModelText
from .names import Scope
from .score_formula import ScoreFormula, bind
from .source import Place
from .syntax import CallNode, Flag, Name, Text
from .vocabulary import Vocabulary, WordRecord

NO_IDS = ("image", "audio")
"""Inputs that hold no ids."""

OF_VOCABULARY = ("tokens", "source")
"""Inputs whose ids are those of the vocabulary."""


class WordCalls(Expressions):
    """Evaluates calls of words."""

    def __init__(self, text: ModelText, vocabulary: Vocabulary, output: str) -> None:
        super().__init__(text, vocabulary, output)
        self.formulas: dict[ScoreFormula, ScoreFormula] = {}

    def options_of(self, node: CallNode, scope: Scope) -> dict[str, tuple[Any, Place]]:
        """The options that a call writes, evaluated: numbers, strings, booleans, definitions, streams for ports."""
        options: dict[str, tuple[Any, Place]] = {}
        for option in node.options:
            if option.name in options:
                raise FormulaError("option-twice", option.place, word=node.word, name=option.name)
            match option.value:
                case Text(value=value) | Flag(value=value):
                    found: Any = value
                case Name():
                    found = self.look(option.value, scope)
                    if isinstance(found, Definition):
                        self.used_definitions.add(found.name)
                case _:
                    found = self.value(option.value, scope)
            if isinstance(found, Value) and found.op == "number":
                found = found.number
            options[option.name] = (found, option.value.place)
        return options

    def take_share(self, node: CallNode, options: dict[str, tuple[Any, Place]]) -> int | None:
        if "share" not in options:
            return None
        value, place = options.pop("share")
        if not node.label:
            raise FormulaError("share-label", node.place, word=node.word)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise FormulaError(
                "option-type",
                place,
                word=node.word,
                name="share",
                expected="a whole number",
                given=describe(value),
                help="",
            )
        return value

    def labelled(
        self, node: CallNode, scope: Scope, share: int | None, what: str, family: str
    ) -> tuple[dict[Any, Any], Any, Any]:
        """The table that a label lives in, its key there, and what stands there already."""
        table: dict[Any, Any] = scope.labels
        key: Any = node.label
        if share is not None:
            table, key = self.share_labels, (node.label, share)
        found = table.get(key)
        if found is not None and (found[0] != what and not (family and found[2] == family)):
            raise FormulaError("label-twice", node.place, label=node.label, first=found[0], second=what)
        return table, key, found

    def call_word(
        self,
        record: WordRecord,
        name: str,
        node: CallNode,
        items: list[Any],
        options: dict[str, tuple[Any, Place]],
        scope: Scope,
    ) -> Value:
        """One call of a word: streams, ports and options held against its record."""
        share = self.take_share(node, options)
        for item, item_node in zip(items, node.items, strict=False):
            if not isinstance(item, Value):
                raise FormulaError("definition-value", item_node.place, name=name, what="streams and numbers here")
        names, given, numbers = split_items(record, name, node, items)
        for option, value in zip(record.numbers, numbers, strict=False):
            if option in options:
                raise FormulaError("option-twice", node.place, word=name, name=option)
            options[option] = (value.number, value.place or node.place)
        ports = self.take_ports(record, name, options)
        for option in options:
            if option not in record.options:
                raise unknown_option(record, name, next(o for o in node.options if o.name == option))
        streams = self.streams_of(record, name, node, names, given)
        if record.reach == "all" and scope.section.where != "output" and self.current.causal and record.kind != "input":
            raise FormulaError("reach-all", node.head, word=name)
        pointing = record.ids and record.kind != "input"
        if pointing and self.current.causal and len({value.sequence for _, value in streams}) == 1:
            detail = "it points into another sequence; of its own a causal stack must not see what comes later"
            raise FormulaError("check-failed", node.place, word=name, detail=detail)
        table: dict[Any, Any] = {}
        key = found = None
        if node.label:
            table, key, found = self.labelled(node, scope, share, name, record.family)
        earlier: Call | None = found[1] if found is not None and found[0] == name else None
        environment = self.resolve_options(record, name, node, options, streams, earlier, scope)
        resolved = {option: environment.names[option] for option in record.options}
        self.check_ids(record, name, node, streams, resolved)
        ports = self.bind_definitions(record, resolved, streams, ports, node, scope)
        if record.kind == "chance" and resolved.get("p") == 0 and not node.label:
            return streams[0][1]
        width = streams[0][1].width if streams else 1
        if record.width:
            width = expression(record, record.width, environment, node.place)
            if not isinstance(width, int) or width < 1:
                raise FormulaError(
                    "check-failed", node.place, word=name, detail=f"its result's width {record.width} is {width:g}"
                )
        call = Call(
            record,
            name,
            resolved,
            frozenset(options) | (earlier.given if earlier else frozenset()),
            tuple(stream for stream, _ in streams),
            tuple(port for port, _ in ports),
            environment.names["entries"],
            node.label,
            numbers={**scope.numbers, **environment.names, **resolved},
            share=share,
        )
        for role, text in record.inner.items():
            inner_width = expression(record, text, environment, node.place)
            if inner_width:
                call.inner[role] = self.template(inner_width, node, scope)
        first = streams[0][1] if streams else None
        whose = record.sequence
        if whose not in ("first", "own", "none"):
            whose = expression(record, whose, environment, node.place)
        sequence = common_sequence(record, streams, node.place) if whose == "first" else ""
        if whose == "own":
            sequence = f"{name}.{len(scope.section.values)}.{scope.section.title}"
            self.rows |= {sequence: resolved["rows"]} if "rows" in resolved else {}
        self.check_rows(record, name, node, streams, environment)
        kind = record.value
        kinds = {stream.kind for _, stream in streams} - {"number"}
        if record.kind in ("function", "shape", "chance", "norm", "depth") and kinds in ({"coefficient"}, {"scores"}):
            (kind,) = kinds  # made of coefficients alone, it has no sequence either
        arguments = tuple(value for _, value in [*streams, *ports])
        value = Value("call", arguments, kind, width, sequence, name=name, call=call, place=node.place)
        if kind == "scores" and first:
            value.keys = first.keys if first.kind == "scores" else first.sequence
        check_scores(value)
        if node.label and found is None:
            table[key] = (name, call, record.family)
        self.add(scope, value)
        self.remember(node, name, value, scope)
        return value

    def check_rows(
        self,
        record: WordRecord,
        name: str,
        node: CallNode,
        streams: Sequence[tuple[str, Value]],
        environment: _Environment,
    ) -> None:
        """A table has as many rows as the word needs, where both are known."""
        if record.rows == "0":
            return
        causal = self.current.causal
        wanted = expression(record, record.rows, {**environment.names, "causal": causal}, node.place)
        rows = self.rows.get(streams[-1][1].sequence, wanted)
        if wanted not in (0, rows):
            where = "a causal stack" if causal else "a stack that sees the future"
            detail = f"in {where} it needs a table of {wanted} rows; this one has {rows}"
            raise FormulaError("check-failed", node.place, word=name, detail=detail)

    def take_ports(
        self, record: WordRecord, name: str, options: dict[str, tuple[Any, Place]]
    ) -> list[tuple[str, Value]]:
        """The ports that were given; a number 0 is none (the first value of what is carried into it)."""
        ports: list[tuple[str, Value]] = []
        for port in record.ports:
            if port not in options:
                continue
            value, place = options.pop(port)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if value == 0:
                    continue
                value = Value("number", kind="number", number=value, place=place)
            if not isinstance(value, Value) or (port == "scores" and value.kind != "scores"):
                raise FormulaError("wrong-kind", place, word=f"{name}({port}=)", what=describe(value))
            ports.append((port, value))
        return ports

    def bind_definitions(
        self,
        record: WordRecord,
        resolved: dict[str, Any],
        streams: Sequence[tuple[str, Value]],
        ports: list[tuple[str, Value]],
        node: CallNode,
        scope: Scope,
    ) -> list[tuple[str, Value]]:
        """Put bound formulas in the place of definitions over scores; the inputs that they read become ports."""
        ports = list(ports)
        for key, option in record.options.items():
            formula = resolved[key]
            if option.type != "definition" or formula is None:
                continue
            queries, keys = (streams[at][1].sequence if streams else "" for at in (0, -1))
            if isinstance(formula, Definition):
                formula = bind(
                    formula,
                    key,
                    heads=resolved.get("heads", 1),
                    numbers=scope.numbers,
                    inputs=self.inputs,
                    used=self.used,
                    causal=self.current.causal and queries == keys,
                )
                # one object for all that are equal: equal layers are told by it
                formula = resolved[key] = self.formulas.setdefault(formula, formula)
            for name, side in formula.inputs:
                own, place = self.sequence_of(name), node.place
                if own != (queries if side == "i" else keys):
                    where = f"the {'queries' if side == 'i' else 'keys'} here to {queries if side == 'i' else keys!r}"
                    detail = f"it belongs to the sequence {own!r}, {where}"
                    raise FormulaError("second-level", place, name=f"{name}({side})", detail=detail)
                if all(name != port for port, _ in ports):
                    value = Value("input", kind="input", name=name, sequence=own, place=place)
                    ports.append((name, self.entering(scope.section, "input", name, value)))
        return ports

    def streams_of(
        self, record: WordRecord, name: str, node: CallNode, names: Sequence[str], given: Sequence[Value]
    ) -> list[tuple[str, Value]]:
        """The streams of a call with their names in the record, lists opened. Checks kinds and widths."""
        lists = {f[1:] for form in record.forms for f in form if f.startswith("*")}
        streams: list[tuple[str, Value]] = []
        for stream, value in zip(names, given, strict=True):
            place = value.place or node.place
            many = stream in lists
            if value.kind == "list" and not many:
                raise FormulaError("list-here", place)
            if value.kind == "input" and record.kind != "input" and stream not in record.ids:
                raise FormulaError("not-an-input", place, word=name, what=f"{value.name!r}")
            if value.kind != "input" and stream in record.ids:
                raise FormulaError("ids-wanted", place, word=name, what=describe(value))
            if value.kind == "number" and not many and record.kind not in ("function", "chance"):
                raise FormulaError("wrong-kind", node.place, word=name, what=describe(value))
            bare = record.reach == "token" and record.kind in ("function", "shape", "chance", "norm", "depth")
            if (value.kind == "coefficient" and not bare) or (
                value.kind == "scores" and record.kind not in ("function", "chance", "scores")
            ):
                raise FormulaError("wrong-kind", place, word=name, what=describe(value))
            inside = [value] if value.kind != "list" else [v for v in value.args if v.op != "number"]
            streams += [(stream, v) for v in inside]
        if lists and not streams:
            raise FormulaError("empty-list", node.place, word=name)
        for stream in lists:
            widths = list(dict.fromkeys(v.width for s, v in streams if s == stream))
            if len(widths) > 1:
                raise FormulaError("widths", node.place, left=widths[0], right=widths[1])
        widths = list(dict.fromkeys(v.width for _, v in streams))
        if record.equal and len(widths) > 1:
            raise FormulaError("widths", node.place, left=widths[0], right=widths[1])
        return streams

    def check_ids(
        self,
        record: WordRecord,
        name: str,
        node: CallNode,
        streams: Sequence[tuple[str, Value]],
        resolved: Mapping[str, Any],
    ) -> None:
        """Ids come from an input that holds ids, and there is a row for each of the vocabulary where its size is known
        (`vocab` is written, or the run has said it)."""
        for stream, value in streams:
            if stream not in record.ids:
                continue
            if value.name in NO_IDS:
                raise FormulaError("ids-wanted", value.place or node.place, word=name, what=describe(value))
            rows, vocab = resolved.get("rows"), self.numbers["vocab"]
            if value.name in OF_VOCABULARY and "vocab" in self.text.numbers and rows is not None and rows < vocab:
                detail = f"rows is {rows}, and the ids of {value.name} are those of a vocabulary of {vocab}"
                raise FormulaError("check-failed", node.place, word=name, detail=detail)

    def resolve_options(
        self,
        record: WordRecord,
        name: str,
        node: CallNode,
        options: Mapping[str, tuple[Any, Place]],
        streams: Sequence[tuple[str, Value]],
        earlier: Call | None,
        scope: Scope,
    ) -> _Environment:
        """Every option of the word: as written, as at the label's first call, or by default. `names` holds them."""
        environment = _Environment(scope.numbers, self.used)
        known = None
        if earlier is None and not record.inner:
            # equal calls of a deep model are resolved once; an option that cannot be hashed is resolved each time
            widths = tuple((stream, value.width) for stream, value in streams)
            written = tuple(
                (k, v if isinstance(v, (bool, int, float, str)) else id(v)) for k, (v, _) in options.items()
            )
            types = tuple(type(v) for v, _ in options.values())
            turns = any(isinstance(o.default, str) and "layer" in o.default for o in record.options.values())
            layer = scope.numbers.get("layer") if turns else None
            known = (record.name, id(self.stack_text), widths, written, types, layer)
            if known in self.resolved:
                environment.names = self.resolved[known]
                return environment
        lists = {f[1:] for form in record.forms for f in form if f.startswith("*")}
        inside = [value for stream, value in streams if stream in lists]
        environment.names = {f.lstrip("*"): 0 for form in record.forms for f in form}
        for stream, value in reversed(streams):
            environment.names[stream] = value.width
        environment.names |= {"entries": len(inside), "entry": inside[0].width if inside else 0}
        resolved: dict[str, Any] = {}
        for key, option in record.options.items():
            if key in options:
                value, place = options[key]
                resolved[key] = check_option(name, option, value, place)
            elif earlier is not None and key in earlier.given:
                resolved[key] = earlier.options[key]
            else:
                resolved[key] = default_of(name, option, environment, node.place)
            if earlier is not None and option.shapes and earlier.options[key] != resolved[key]:
                raise FormulaError(
                    "label-differs",
                    node.place,
                    label=node.label,
                    name=key,
                    first=describe(earlier.options[key]),
                    second=describe(resolved[key]),
                )
            environment.names[key] = resolved[key]
        for condition, message in record.checks.items():
            if not expression(record, condition, environment, node.place):
                detail = message.format_map(_Shown(environment))
                raise FormulaError("check-failed", node.place, word=name, detail=detail)
        if known is not None:
            self.resolved[known] = environment.names
        return environment

    def remember(self, node: CallNode, name: str, thing: Any, scope: Scope) -> None:
        scope.calls.setdefault(name, []).append(thing)
        if node.label:
            scope.calls[f".{node.label}"] = [thing]

    def template(self, width: int, node: CallNode, scope: Scope) -> Template:
        """The file's `norm` on a stream of `width`, for use inside another word."""
        section = Section(scope.section.where, scope.section.number, scope.section.formula, scope.section.stack)
        argument = Value("argument", width=width, sequence="inner", name="x")
        inner = Scope(section, scope.numbers, scope.visible, {}, names={"x": argument})
        if any(d.name == "norm" for d in self.definitions):
            inner.visible = len(self.definitions)
        call = CallNode(node.place, "norm", "", (Name(node.place, "x"),), (), node.head)
        result = self.call(call, inner)
        if not isinstance(result, Value):
            raise FormulaError("wrong-kind", node.place, word="norm", what=describe(result))
        alias = len(section.values) == 1 and result.op == "call" and result.args == (argument,)
        return Template(section.values, argument, result, alias)


class _Environment(Mapping[str, Any]):
    """Names of a record's expression: options and widths before the file's numbers, which become used when read."""

    def __init__(self, numbers: Mapping[str, float], used: set[str]) -> None:
        self.numbers, self.used = numbers, used
        self.names: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self.names:
            return self.names[key]
        value = self.numbers[key]
        self.used.add(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return iter({**self.numbers, **self.names})

    def __len__(self) -> int:
        return len({**self.numbers, **self.names})


class _Shown(dict[str, Any]):
    def __init__(self, environment: Mapping[str, Any]) -> None:
        super().__init__()
        self.environment = environment

    def __missing__(self, key: str) -> Any:
        return self.environment.get(key, f"{{{key}}}")


def check_scores(value: Value) -> None:
    """Raise FormulaError for scores that are added to those of other queries or other keys; one position of no sequence
    goes with all."""
    call = value.call
    assert call is not None
    for port, given in zip(call.ports, value.args[len(call.streams) :], strict=True):
        if given.kind != "scores":
            continue
        own = value.args[0].sequence, value.args[len(call.streams) - 1].sequence
        for theirs, mine in zip((given.sequence, given.keys), own, strict=True):
            if theirs not in ("", mine):
                said = f"{mine or 'one position'} in {call.name}"
                raise FormulaError("sequences", given.place or value.place, left=f"{theirs} in {port}=", right=said)


def common_sequence(record: WordRecord, streams: Sequence[tuple[str, Value]], place: Place) -> str:
    """The sequence of a word's result, where that is its streams'. What reads position by position reads one sequence,
    as a sum does; attention that of its queries, and its keys and values are of one, too."""
    found = [value.sequence for _, value in streams]
    if record.kind in ("positions", "scores", "input", "output"):
        alone = dict(streams)
        for one, other in (("k", "v"), ("memory", "ids")):
            if {one, other} <= alone.keys() and alone[one].sequence != alone[other].sequence:
                names = [alone[name].sequence or "none" for name in (one, other)]
                raise FormulaError("sequences", place, left=names[0], right=names[1])
        return found[0] if found else ""
    known = list(dict.fromkeys(s for s in found if s))
    if len(known) > 1:
        raise FormulaError("sequences", place, left=known[0], right=known[1])
    return known[0] if known else ""
