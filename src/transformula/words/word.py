"""What a word is: a module and the record that stands above it as literals.

    @word("linear", streams=("x",), numbers=("size",), kind="channels", width="size", ...)
    class Linear(Word):
        def __init__(self, x: int, size: int) -> None: ...
        def initial_values(self, generator_for) -> None: ...
        def forward(self, x): ...

The record. The decorator's keywords are the fields of `language.vocabulary.WordRecord` (`streams` are its `forms`),
written as literals and, for options, calls of `whole number flag choice definition` (`language/vocabulary.py`),
because they are read from the file without running it. `like="NAME"`, a word above in the same file, gives the fields
that are not written; mappings are joined key by key. Expressions are strings over: the options;
the widths of the streams by their names (0 where the call's form lacks that stream); `entries`, how many a list has,
and `entry`, their width; the ports, True where they are given; the file's numbers; `length`, the sequence's
(`positions`, too, for words with an option called length); `span`, the mean number of keys that a query sees. They know
`+ - * / // % **`, `min max abs sqrt log exp tanh erf sin cos`, `a if test else b`, comparisons, `and or not`; flags are
truth values, choices are compared with `==`. A state of constant size, which does not grow with the past, is written as
so much `/ length`. `flops` counts matrix products only.

`transformula words NAME` is made of the record and the docstring: every option has a `help`, and `example` is a layer's
formula that works (or the keys of a model file: "before: x = embed.words(tokens)").

`width` is by default that of the first stream. An option that a word of the language gets later says `later=True`: a
text that does not use it keeps its hash.

`initial_scale` says how large the result is, as a root mean square, while every sublayer yields zero.
    ""            functions: as `constant` and `nonzero` say. Other words: "unknown"
    "zero"        zero
    "same"        as large as its first stream
    "unit"        1 (norms with weights of 1)
    "mean"        the mean of its entries
    "last"        its last entry
    "dot"         the sum over channels of the product of its two streams
    "copies"      copies of its first stream side by side, as many as its result has room for
    "added"       its first stream, if that is copies, with its second added to each
    "one of copies * E"   its first stream, if that is copies, as one of them, times the expression E
    "unknown"     it is not known
    otherwise     an expression over options and widths: the value that every channel has, e.g. "init" of a coefficient,
                  or, for a norm, the size of its result: "1 / sqrt(size)"

The module. The constructor takes the widths of its streams by their names (None where the form lacks them), then every
option, all by keyword (a definition over scores as the module of it, see words/scores.py; `forward` then gets the
inputs that it reads by their names); a word over lists takes `entries` and `entry`; one whose record has `inner` takes
`inner={role: module}`; one of reach "past" takes `causal` (True by default): whether this call sees only the past.
Parameters are made empty; `initial_values` fills them. `forward` takes the streams in order and ports by keyword.

Two kinds of words need no `forward`. One without weights and state may be a static method `function(streams..., ports
and options by keyword)`, for words of chance with `training`. One that is a layer of PyTorch's has a static method
`layer(widths and options by keyword)` that makes it: it stands in the model with the word's record as its attribute
`record`, and in the place of `self` of `initial_values`; only where words share one module a constructor and `forward`
serve, too.

Padding stands on the right of a sequence. A word whose record says `padding` takes the keyword `real`: (batch,
positions), bool, which positions of its last stream are real, or None where all are. It is given where it matters: not
to a word of reach "past" over its own sequence in a causal stack, whose real positions see no padding.

A word may define `losses() -> {name: tensor}`: what its last pass in training adds to the loss; `measures() -> {name:
tensor}`: numbers of training that are logged and no loss, such as the load of experts, since the last step; and
`after_step()`, which the trainer calls after each step of the optimizer, once `measures` was asked: what training
changes without a gradient, in buffers (a working copy in another precision shares them). Calls that share a module
share its attributes that are mappings and whose names begin with a line, too.

Several devices. A record's `splits` says how the work of a word may be split among devices: a linear layer inside, or
a parameter, -> one of `SPLITS` (language/vocabulary.py). `split_by` are the numbers that must divide among them;
`split_checks` say when it is not split at all. A word that says nothing is whole on each device. `Word.take_part` says
what else changes inside; words/devices.py is for words that multiply by parameters of their own.

Decoding. A word of reach "past" has `start` and `step(*streams, state=state, at=at)`, a positional one `step(*streams,
at=at)`; where both are one computation `step` is `forward`. See `Word` and `At`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InputError, UnknownName
from ..language.vocabulary import WordRecord, merged, record_from, two_words
from ..language.vocabulary import choice as choice
from ..language.vocabulary import definition as definition
from ..language.vocabulary import flag as flag
from ..language.vocabulary import number as number
from ..language.vocabulary import whole as whole
from .shared_sequences import SharedSequences

CLASSES: dict[str, type[Word]] = {}  # of every word whose file was imported, by name
_STATED: dict[tuple[str, str], Mapping[str, Any]] = {}  # the decorator's keywords of every word, by module and name
C = TypeVar("C")
GeneratorFor = Callable[[str], torch.Generator]  # the random generator of a parameter, by its name inside the word


def word(name: str, **stated: Any) -> Callable[[C], C]:
    """Register a word: its record is stored as `.record`; a class is registered under its name.

    Raises InputError for a malformed record and for a second word of the same name.
    """

    def register(thing: C) -> C:
        module = thing.__module__
        fields = _STATED[module, name] = merged(stated, {n: s for (m, n), s in _STATED.items() if m == module})
        record = record_from(name, fields, module, inspect.cleandoc(thing.__doc__ or ""))
        thing.record = record  # type: ignore[attr-defined]
        if isinstance(thing, type):
            other = CLASSES.get(name)
            if other is not None and (other.__module__, other.__qualname__) != (module, thing.__qualname__):
                raise InputError(two_words(name, other.__module__, module))
            CLASSES[name] = thing
        return thing

    return register


def word_class(record: WordRecord) -> type[Word]:
    """The class that a record belongs to; its file is imported where that has not happened.

    Raises InputError for a word that is checked and explained but not yet built, UnknownName where the file lacks it.
    """
    if not record.built:
        raise InputError(f"the word {record.name!r} is not built yet: it can be checked and explained, not run")
    cls = CLASSES.get(record.name)
    if cls is None or cls.record.module != record.module:
        importlib.import_module(record.module)
    if record.name not in CLASSES:
        raise UnknownName("word", record.name, CLASSES)
    return CLASSES[record.name]


@dataclasses.dataclass
class At:
    """Where a chunk of positions stands, in step-by-step decoding.

    lengths   (batch,), whole: how many positions of each row are decoded already
    start     that number if all rows agree, else None
    first     the position of the first key that is kept: 0, but where states are carried across segments
    places    positions of the keys, (1 or batch, keys), where they are not first, first + 1, ...: of a window that has
              more behind it; below 0 nothing is kept
    new       (batch,): how many positions of this chunk are real in each row (the rest, on the right, are padding), or
              None if all are
    shared    which rows stand over the same other sequence; None: each over its own
    most      the largest of the lengths, where it is known without reading them
    last      whether of the output only what stands at the last real position of each row is wanted
    kept      what one layer made for this chunk and the others can use: masks, tables of positions

    The query at position i sees the keys j <= i. What padding writes into a state lies after every real position and is
    overwritten by the positions that come.
    """

    lengths: Tensor
    start: int | None = None
    new: Tensor | None = None
    first: int = 0
    places: Tensor | None = None
    shared: SharedSequences | None = None
    most: int | None = None
    last: bool = False
    kept: dict[Any, Any] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def longest(self) -> int:
        if self.start is not None:
            return self.start
        return int(self.lengths.max()) if self.most is None else self.most

    def positions(self, length: int) -> Tensor:
        """Positions of a chunk of `length`, from 0: (1 or batch, length)."""
        steps = torch.arange(length, device=self.lengths.device)
        return self.lengths[:, None] + steps if self.start is None else (steps + self.start)[None]

    def keys(self, length: int) -> int:
        """How many keys there are for a chunk of `length`, its own included."""
        return self.longest + length - self.first

    def key_positions(self, count: int, first: int | None = None) -> Tensor:
        """Positions of `count` keys, (1 or batch, count): from `first` on, by default the first that is kept."""
        if self.places is not None:
            return self.places
        return torch.arange(count, device=self.lengths.device)[None] + (self.first if first is None else first)

    def padding(self, length: int) -> Tensor | None:
        """(batch, length), bool: which positions of a chunk of `length` are padding; None: no row has any."""
        return None if self.new is None else torch.arange(length, device=self.new.device) >= self.new[:, None]

    def mask(self, length: int, window: int = 0, first: int | None = None) -> Tensor:
        """(1 or batch, 1, length, keys): which of the keys first, first + 1, ..., longest + length - 1 each query sees;
        `first` is by default that of the first key that is kept."""
        first = self.first if first is None else first

        def make() -> Tensor:
            i = self.positions(length)[:, None, :, None]
            j = self.key_positions(self.keys(length) + self.first - first, first)[:, None, None, :]
            seen = (j <= i) & (j > i - window) if window else j <= i
            return seen if self.places is None else seen & (j >= 0)

        return self.once(("mask", length, window, first), make)

    def once(self, key: Hashable, make: Callable[[], C]) -> C:
        """What `make` gives, made once for all layers of a step that ask for `key`."""
        if key not in self.kept:
            self.kept[key] = make()
        value: C = self.kept[key]
        return value


def module_of(cls: type[Word], arguments: dict[str, Any], shared: bool = False) -> nn.Module:
    """The module of a word, made with these widths and options: the layer of PyTorch's that the word is, unless other
    words use it too (`shared`), else one of its own class."""
    layer = None if shared else getattr(cls, "layer", None)
    if layer is None:
        if cls.__init__ is nn.Module.__init__ and not (cls.record.options or cls.record.inner):
            return cls()  # what is its `forward` and no more need not be told the widths of its streams
        own = cls(**arguments)
        own.made_with = arguments
        return own
    module: nn.Module = layer(**arguments)
    module.record = cls.record  # type: ignore[assignment]
    return module


def fill_word(module: nn.Module, generator_for: GeneratorFor) -> None:
    """The initial values of a module that `module_of` made."""
    record: WordRecord = module.record  # type: ignore[assignment]
    fill = type(module).initial_values if isinstance(module, Word) else word_class(record).initial_values
    fill(module, generator_for)  # type: ignore[arg-type]


class Word(nn.Module):
    """Base of the modules of all words.

    faces        the module with other options, for calls that share it and differ in what shapes no weight: modules
                 that have its tables of parameters as their own, and are not registered
    state_sizes  of a state that decoding keeps and that does not grow: its tensors, 0 at first, each (batch, *size);
                 `sums`: they are sums over positions, in float32 at least
    """

    record: ClassVar[WordRecord]
    faces: list[Word] | tuple[()] = ()
    made_with: Mapping[str, Any] = {}  # the widths and options that its constructor was given
    constants: Mapping[str, float] = {}  # parameters and buffers that start at a number; those that are None do not
    deviations: Mapping[str, float] = {}  # parameters that are drawn from N(0, d^2), and d
    matrices: Sequence[str] = ()  # linear layers inside that are drawn as `fill_matrix` does
    state_sizes: Mapping[str, tuple[int, ...]] | None = None
    sums: ClassVar[bool] = False
    choosing: ClassVar[Sequence[str]] = ()  # linear layers inside by which something is chosen: never rounded to bytes

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for face in self.faces:
            face.training = mode
        return self

    def initial_values(self, generator_for: GeneratorFor) -> None:
        """Fill the word's own parameters (those of `inner` modules are not its own): by default as `constants`,
        `deviations` and `matrices` say.

        `generator_for("weight")` gives the random numbers of that parameter, so that one parameter's values do not
        depend on which others there are.
        """
        for name, value in self.constants.items():
            fill(attrgetter(name)(self), value)
        for name, deviation in self.deviations.items():
            fill_normal(attrgetter(name)(self), generator_for(name), deviation)
        for name in self.matrices:
            if getattr(self, name) is not None:
                fill_matrix(getattr(self, name), generator_for, name)

    def take_part(self, rank: int, size: int) -> None:
        """Become part `rank`, from 0, of `size` parts of the word, whose matrices were split as its record says.
        `forward` must then reckon with what is there: by default each number of `split_by` that is kept as an attribute
        is divided."""
        for name in self.record.split_by:
            if isinstance(getattr(self, name, None), int):
                setattr(self, name, getattr(self, name) // size)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.made_with.items() if isinstance(value, int | float))

    def start(self, batch: int, capacity: int, dtype: torch.dtype, device: torch.device | str) -> Any:
        """The state with which decoding starts: any object (attributes, a list or a mapping) that holds tensors
        (batch, ...). `capacity` is the number of positions to make room for; 0: none is made, and a state that grows is
        joined to what comes, so that gradients flow through it. By default as `state_sizes` says. Words of reach "past"
        only."""
        if self.state_sizes is None:
            raise InputError(f"the word {self.record.name!r} cannot be decoded step by step")
        dtype = torch.promote_types(dtype, torch.float32) if self.sums else dtype
        sizes = self.state_sizes.items()
        return {name: torch.zeros(batch, *size, dtype=dtype, device=device) for name, size in sizes}

    def carried(self, state: Any, keep: int) -> Any:
        """The state with which the next segment of a text begins (`carry` in a model's file): by default what the
        state's own method `last(keep)` gives, of one that grows with the past its last positions; else the state as it
        is. It may be changed. Whoever calls this cuts off gradients. What is no tensor in it is as `start` makes it."""
        return state.last(keep) if callable(getattr(state, "last", None)) else state

    def reorder(self, state: Any, rows: Tensor) -> Any:
        """The state of the rows `rows` (whole numbers), for searches that drop and copy rows; `state` is changed."""
        return select_rows(state, rows)


class TypedWord(Word):
    """A word that makes numbers of its own: in the dtype and on the device of `like`, which `.to()` moves."""

    like: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("like", torch.empty(0), persistent=False)


def select_rows(state: Any, rows: Tensor) -> Any:
    """`state` with the first dimension of every tensor in it indexed by `rows`; objects and containers are changed."""
    if isinstance(state, Tensor):
        return state.index_select(0, rows.to(state.device))
    if isinstance(state, tuple):
        return tuple(select_rows(value, rows) for value in state)
    if isinstance(state, dict | list):
        for key, value in enumerate(state) if isinstance(state, list) else state.items():
            state[key] = select_rows(value, rows)
    elif hasattr(state, "__dict__"):
        select_rows(vars(state), rows)
    return state


def put_rows(state: Any, places: Tensor, other: Any, rows: Tensor) -> Any:
    """`state` with rows of another of its kind in these places of the first dimension of every tensor in it; objects
    and containers are changed, tensors are not."""
    if isinstance(state, Tensor):
        return state.index_copy(0, places, other.index_select(0, rows).to(state.dtype))
    if isinstance(state, dict | list):
        for key, value in enumerate(state) if isinstance(state, list) else state.items():
            state[key] = put_rows(value, places, other[key], rows)
    elif hasattr(state, "__dict__"):
        put_rows(vars(state), places, vars(other), rows)
    return state


def split(x: Tensor, *sizes: int) -> Tensor:
    """x with its last dimension as several."""
    return x.reshape(*x.shape[:-1], *sizes)


def empty(*shape: int) -> nn.Parameter:
    """A parameter to be filled by `initial_values`."""
    return nn.Parameter(torch.empty(*shape))


@torch.no_grad()
def fill_normal(parameter: Tensor, generator: torch.Generator, deviation: float) -> None:
    """Draw a parameter from N(0, deviation^2): in float32 on the generator's device, so that the values do not depend
    on the parameter's dtype or device."""
    if parameter.device.type == "meta":
        return
    drawn = torch.randn(parameter.shape, generator=generator, device=generator.device, dtype=torch.float32)
    parameter.copy_(drawn.mul_(deviation))


@torch.no_grad()
def fill(parameter: Tensor | None, value: float) -> None:
    """Set a parameter, if it is there, to one number."""
    if parameter is not None:
        parameter.fill_(value)


class _Unfilled(nn.Linear):
    """A linear layer whose constructor draws no random numbers, which take most of its time and would be replaced."""

    def reset_parameters(self) -> None:
        pass


def matrix(x: int, size: int, bias: bool = True) -> nn.Linear:
    """y = W x + b, a linear layer inside a word: weight (size, x), bias (size,) or None; to be filled.

    It is PyTorch's own `nn.Linear` and no class of ours, because tools that adapt or quantize linear layers look for
    that type. A word calls it as a module, so that what such a tool puts in its place is used.
    """
    layer: nn.Linear = _Unfilled(x, size, bias)
    layer.__class__ = nn.Linear
    return layer


def fill_matrix(layer: nn.Linear, generator_for: GeneratorFor, name: str = "") -> None:
    """Fill a linear layer: W from N(0, 1 / (3 x)), which is the variance of PyTorch's default; b 0. `name` is the
    layer's name inside its word, "" where the word is that layer."""
    fill_normal(layer.weight, generator_for(f"{name}.weight" if name else "weight"), spread(layer.weight.shape[1]))
    fill(layer.bias, 0)


class Matrix(nn.Module):
    """weight (size, x), a matrix that a word multiplies by in a kernel of its own: no linear layer, since what takes
    the place of one (an adapter, a quantized layer) would not be asked."""

    def __init__(self, x: int, size: int) -> None:
        super().__init__()
        self.weight = empty(size, x)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight)

    def extra_repr(self) -> str:
        size, x = self.weight.shape
        return f"{x}, {size}"


def at_all_positions(*streams: Tensor) -> list[Tensor]:
    """Streams (batch, length, x) of one sequence; one of a single position, which goes with all, has it at each."""
    length = next((x.shape[1] for x in streams if x.shape[1] != 1), 1)
    return [x if x.shape[1] == length else x.expand(-1, length, -1) for x in streams]


def spread(fan_in: int) -> float:
    """The default standard deviation of a matrix's entries: sqrt(1 / (3 fan_in))."""
    return math.sqrt(1 / (3 * max(1, fan_in)))
