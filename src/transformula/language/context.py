"""What is known while a model is checked: definitions, words made of words; `Context`, which all parts of the checker
share; and `Scope`, where an expression stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .graph import SECOND_FUNCTIONS, Call, Frame, Section, Stack, Value
from .messages import FormulaError
from .model_text import INPUTS, ModelText
from .numbers import numbers_of
from .parser import parse, parse_expression
from .source import Place, Source
from .syntax import CallNode, Index, Line, Literal, Name, Node, Tap, children, walk
from .vocabulary import Vocabulary

# Parameters of a formula over scores: the score, the head, the query's and the key's position.
SECOND_LEVEL = ("s", "h", "i", "j")
# Parameters of a formula over rotary positions, by the option that takes it: the position, the pair's rate, its number.
ROTARY = {"rates": ("r", "c"), "angles": ("i", "r", "c")}


@dataclass(frozen=True)
class Definition:
    name: str
    parameters: tuple[str, ...]  # those without a default: streams and lists
    defaults: Mapping[str, Node]  # those with one: numbers, strings, booleans, definitions
    lines: tuple[Line, ...]
    second: bool  # it is a formula over scores: its parameters are among s, h, i, j
    index: int  # its place among the definitions: it sees those above
    place: Place

    @property
    def alias(self) -> CallNode | None:
        """The single call that this definition only renames, or None."""
        if self.second or len(self.lines) != 1:
            return None
        call = self.lines[0].value
        if not isinstance(call, CallNode) or call.label:
            return None

        def is_parameter(node: Node) -> bool:
            return isinstance(node, Name) and node.name in self.parameters

        passed = tuple(item.place.text for item in call.items if is_parameter(item))
        others = [*(i for i in call.items if not is_parameter(i)), *(o.value for o in call.options)]
        uses = [node for other in others for node in walk(other)]
        calls = any(isinstance(node, CallNode) and node.word not in SECOND_FUNCTIONS for node in uses)
        return None if passed != self.parameters or calls or any(map(is_parameter, uses)) else call


def read_definition(header: str, body: Source, index: int) -> Definition:
    """Parse one row of `words:`. Raises FormulaError."""
    source = Source("definition", header.strip(), body.file, body.first_line)
    place = Place(source, 1, 0, 1, max(1, len(source.text)))
    defaults: dict[str, Node] = {}
    try:
        match parse_expression(source, strings=True):
            case Name(name=name):
                parameters: tuple[str, ...] = ("x",)
            case CallNode(word=name, label="", items=items, options=options):
                parameters = tuple(item.name for item in items if isinstance(item, Name))
                defaults = {option.name: option.value for option in options}
                if len({*parameters, *defaults}) < len(items) + len(defaults):
                    raise FormulaError("definition-header", place, text=header)
            case _:
                raise FormulaError("definition-header", place, text=header)
    except FormulaError:
        raise FormulaError("definition-header", place, text=header) from None
    second = bool(parameters) and not defaults and all(p in SECOND_LEVEL for p in parameters) and parameters != ("s",)
    return Definition(name, parameters, defaults, tuple(parse(body, second=second)), second, index, place)


def tells_positions(definition: Definition, inputs: Collection[str]) -> bool:
    """Whether a formula over scores reads i or j as such, not only what an input gives there."""
    waiting: list[Node] = [line.value for line in definition.lines]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name) and node.name in ("i", "j"):
            return True
        if not (isinstance(node, CallNode) and node.word in inputs):
            waiting += children(node)
    return False


def check_second(
    definition: Definition,
    numbers: Collection[str],
    inputs: Collection[str],
    used: set[str],
    code: str = "second-level",
) -> None:
    """Check the names and functions of a formula over scores, before any call binds it (`score_binding.py`)."""
    known = {*definition.parameters, *inputs, "layer", "pi"}
    for line in definition.lines:
        for node in walk(line.value):
            name, detail = node.place.text, ""
            match node:
                case Name(name=name):
                    if name in numbers:
                        used.add(name)
                    elif name not in known:
                        detail = "nothing has that name here"
                case CallNode(word=name, items=items, options=options):
                    with_items = (name == "table" and len(items) == 2) or (name in inputs and len(items) == 1)
                    if options or not (name in SECOND_FUNCTIONS or with_items):
                        detail = "it is not one of its functions"
                case Index(name=name, index=Node()) if name in numbers:
                    used.add(name)
                case Index() | Tap() | Literal():
                    detail = "only scores and positions are seen here"
            if detail:
                raise FormulaError(code, node.place, name=name, detail=detail)
        known.add(line.name)


# Inputs that give something for each position of `tokens`.
OF_TOKENS = ("tokens", "types", "targets", "characters", "document", "rank")


@dataclass
class ReadSoFar:
    """What has been read so far, by name. Where the check ends, what nothing has read is an error."""

    numbers: set[str] = field(default_factory=set)
    definitions: set[str] = field(default_factory=set)
    lines: set[tuple[str, int, int]] = field(default_factory=set)  # source, line, column: those of all layers are one
    names: set[str] = field(default_factory=set)  # read where nothing is built, so that no line can be told

    def line(self, place: Place | None) -> None:
        if place is not None:
            self.lines.add((place.source.name, place.line, place.column))

    def has(self, place: Place) -> bool:
        return (place.source.name, place.line, place.column) in self.lines


@dataclass
class Setting:
    value: Value
    section: Section
    place: Place


@dataclass
class Flow:
    # Of the stack that is being checked: the names that any of its lines sets; name -> its present setting; name -> the
    # value with which it was first carried.
    assigned: set[str] = field(default_factory=set)
    now: dict[str, Setting] = field(default_factory=dict)
    carried: dict[str, Value] = field(default_factory=dict)
    # Of all: stack -> the setting of its final x; stack -> after `before` and each layer, the section and all settings
    # on leaving it; id of a section -> the settings on entering it.
    results: dict[str, Setting] = field(default_factory=dict)
    history: dict[str, list[tuple[Section, dict[str, Setting]]]] = field(default_factory=dict)
    entered: dict[int, dict[str, Setting]] = field(default_factory=dict)


@dataclass
class Context:
    text: ModelText
    vocabulary: Vocabulary
    constants: Mapping[str, Any] = field(default_factory=dict)  # the file's, outside any stack
    definitions: list[Definition] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)  # those that are checked already; above the output, all
    flow: Flow = field(default_factory=Flow)
    reads: ReadSoFar = field(default_factory=ReadSoFar)
    shared: dict[Any, Call | Frame] = field(default_factory=dict)  # label, number under `share=` -> what they stand for

    @property
    def numbers(self) -> dict[str, int | float]:
        return numbers_of(self.constants)

    @cached_property
    def inputs(self) -> set[str]:
        return {*INPUTS, *self.text.inputs}

    def definition(self, name: str, visible: int | None = None) -> Definition | None:
        """The last definition of that name, among the first `visible`."""
        return next((d for d in reversed(self.definitions[:visible]) if d.name == name), None)

    def stack_names(self) -> list[str]:
        return [stack.name for stack in self.stacks if stack.name]

    def sequence_of(self, name: str) -> str:
        return "tokens" if name in OF_TOKENS else self.text.inputs.get(name) or name

    def apart(self, place: Place | None, left: str, right: str) -> FormulaError:
        """The error for two sequences that do not go together; one may be that of an input that the file declares."""
        own = (name for name, sequence in self.text.inputs.items() if sequence in {left, right} - {*INPUTS})
        also = "".join(f"; {name} goes along with the tokens by inputs: {{{name}: tokens}}" for name in own)
        return FormulaError("sequences", place, left=left, right=right, also=also)


@dataclass
class Scope:
    """Where an expression stands: a section, or a definition called in it."""

    section: Section
    stack: Stack  # the section's; in the output, the last
    constants: Mapping[str, Any]  # the file's, the stack's, and in a layer its number
    visible: int  # how many of the definitions can be called here
    labels: dict[Any, Call | Frame]  # label, None -> what they stand for
    names: dict[str, Any] = field(default_factory=dict)  # local values, and what a definition's parameters stand for
    places: dict[str, Place] = field(default_factory=dict)  # local name -> the line that sets it
    calls: dict[str, list[Any]] = field(default_factory=dict)  # word, or "." and a label -> its calls so far
    frames: tuple[Frame, ...] = ()
    definition: Definition | None = None
    within: int = 0  # in the file's `norm` inside another word: the width of what it norms, else 0

    @cached_property
    def numbers(self) -> dict[str, int | float]:
        return numbers_of(self.constants)

    @property
    def title(self) -> str:
        """'layer 3', "the definition 'swiglu'"."""
        return f"the definition {self.definition.name!r}" if self.definition else self.section.title

    def number(self, value: float, place: Place) -> Value:
        return Value("number", kind="number", number=value, place=place, frames=self.frames)

    def add(self, value: Value) -> Value:
        value.frames = self.frames
        self.section.values.append(value)
        return value

    def called(self, node: CallNode, name: str, thing: Value | Frame) -> None:
        self.calls.setdefault(name, []).append(thing)
        if node.label:
            self.calls[f".{node.label}"] = [thing]


def check_free(name: str, place: Place, others: Mapping[str, bool]) -> None:
    """Raise FormulaError for a name of another thing. `others`: what that is -> whether it is called so."""
    for other, taken in others.items():
        if taken:
            raise FormulaError("two-things", place, name=name, other=other)


def label_table(context: Context, scope: Scope, share: int | None) -> dict[Any, Call | Frame]:
    """What labels stand for: one label is one module, in its formula or, by a number under `share=`, in the model."""
    return scope.labels if share is None else context.shared


def labeled(context: Context, scope: Scope, node: CallNode, share: int | None, word: str, family: str = "") -> Any:
    """The earlier call, or frame, of a call's label, or None; FormulaError for a word of another family."""
    thing = label_table(context, scope, share).get((node.label, share)) if node.label else None
    if thing is None or thing.name == word:
        return thing
    if not family or not isinstance(thing, Call) or thing.word.family != family:
        raise FormulaError("label-twice", node.place, label=node.label, first=thing.name, second=word)
    return None
