"""Records of words: what a word states of itself, as literals that are read from its file without importing it.

A word's file holds one class under the decorator `@word(...)`, whose keywords are literals (see `words/word.py`). This
file turns them into `WordRecord`s. The language sees records only, so that a formula is checked, explained and counted
without torch, and so that its own tests can hand in a toy vocabulary.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ..errors import InputError, did_you_mean, nearest
from ..plain import python_tree

KINDS = {
    "input": "makes a stream from what the task gives, or from nothing",
    "positions": "mixes positions (a sublayer)",
    "channels": "mixes channels (a sublayer)",
    "norm": "sets the size of each position's vector",
    "function": "acts on each number alone, without weights",
    "chance": "random in training, the identity in evaluation",
    "coefficient": "learned numbers without a sequence",
    "gate": "merges two streams, or weighs one",
    "depth": "reads across layers",
    "shape": "takes apart and puts together, without weights",
    "streams": "several residual streams in one",
    "scores": "makes scores of attention",
    "output": "turns a stream into the task's output",
}

REACHES = {  # what a word sees of its own sequence
    "token": "each position by itself",
    "past": "in a causal stack a position and those before it, else all",
    "all": "all positions: not in a causal stack, whose output may call it",
}

SPLITS = {
    "columns": "each device makes a part of the result's channels, with which the word then goes on",
    "rows": "each device reads a part of the channels, as `columns` left them, and the results are added up",
    "gathered": "each device makes a part of the result's channels, and all get all of them",
    "vocabulary": "each device holds some rows of the table, and all get all of the result",
    "whole": "each device has all of it, and makes the same of it",
}


@dataclass(frozen=True)
class Option:
    name: str
    type: str  # one of OPTIONS
    # A literal, or for numbers an expression (a string) of the file's numbers, of the other options and of the widths
    # of the streams, by their names in the record; None makes the option required.
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    shapes: bool = False
    absent: Any = None  # what stands where the default's expression names a number that the file lacks
    # It came after the word: at its default the canonical form leaves it out, so that older texts keep their hashes.
    later: bool = False
    help: str = ""


@dataclass(frozen=True)
class WordRecord:
    """What one word states of itself. An expression is one of `words/word.py`; {name} in a message is its value."""

    name: str
    module: str
    # Accepted streams by name, e.g. (("x",), ("x", "memory"), ("q", "k", "v")); ("*entries",) takes any number of
    # streams and lists; ("a", "*entries") one first.
    forms: tuple[tuple[str, ...], ...]
    kind: str  # one of KINDS; `positions` and `channels` are sublayers; `chance` and `function` transparent for roles
    numbers: tuple[str, ...] = ()  # options that may follow the streams without their name, in this order
    ports: tuple[str, ...] = ()  # further streams by name, all optional
    ids: tuple[str, ...] = ()  # streams that are ids as the task gives them (kind "input" may take any as such)
    options: Mapping[str, Option] = field(default_factory=dict)
    value: str = "stream"  # what the result is: "stream", "coefficient" or "scores"
    width: str = ""  # expression: the result's width
    # "first" (that of the first stream), "own" (a new one), "none", or a port's; or an expression of these
    sequence: str = "first"
    rows: str = "0"  # expression, also of `causal`: the positions that the last stream must have, a table; 0: any
    equal: bool = False  # streams must have equal widths
    together: bool = False  # streams belong to one sequence, where the kind of word alone would not ask for it
    coefficients: tuple[str, ...] = ()  # streams that may be coefficients, in words that else take none
    scores: tuple[str, ...] = ()  # streams that are scores
    reach: str = "token"  # one of REACHES
    back: str = ""  # of reach "past", expression: how many positions back a position sees; "": nothing bounds it
    padding: bool = False  # the word must know which positions are real (`real=`, see words/word.py)
    positional: bool = False  # the word must know at which position it stands (so decoding hands it `at`)
    parameters: Mapping[str, str] = field(default_factory=dict)  # -> expression: its numbers (0: it is not there)
    active: Mapping[str, str] = field(default_factory=dict)  # the same: those that one position uses, where not all
    flops: str = "0"  # expression: floating-point operations a position forward (matrix products: 2 a multiply-add)
    state: str = "0"  # expression: numbers kept for each past position in step-by-step decoding
    # Taps, or else streams, that `state` is the sum of: what decoding keeps once, whichever calls read it -> an
    # expression: of how many heads it is.
    kept: Mapping[str, str] = field(default_factory=dict)
    # Expression: numbers kept for the backward pass, for each position. A term that is a stream's name, or y for the
    # result, is that tensor itself: where another call keeps it too it is counted once.
    saved: str = "0"
    checks: Mapping[str, str] = field(default_factory=dict)  # condition -> message shown where it does not hold
    inner: Mapping[str, str] = field(default_factory=dict)  # role -> a width (0: not there): made by the file's `norm`
    # How the word's work may be split among devices (tensor parallelism): a linear layer inside ("" the word itself, if
    # it is one), or a parameter -> one of SPLITS. What is not named works on a part of the channels, and stays whole.
    splits: Mapping[str, str] = field(default_factory=dict)
    split_by: tuple[str, ...] = ()  # expressions: numbers that the devices must divide, such as heads
    split_checks: Mapping[str, str] = field(default_factory=dict)  # condition -> why it is not split where it fails
    taps: Mapping[str, str] = field(default_factory=dict)  # values made inside -> their width ("": scores)
    key_taps: tuple[str, ...] = ()  # taps at the positions of the last stream; the others at those of the first
    order: str = ""  # expression: how it tells positions apart: 'learned', 'sinusoids', 'scores', 'recurrent'; or ''
    rotary: str = ""  # expression: the base of the rotary positions that it gives, 0 for none
    products: tuple[tuple[str, str], ...] = ()  # streams whose channels are multiplied and summed, by `heads` if it has
    # Where channels of the result come from: "taken" (part i of n), "joined" (streams, part by part, of `parts`),
    # "copied" (n times over, unless `each`); "": not said.
    channels: str = ""
    centered: bool = False  # in a stack that sees all positions it looks ahead as far as it looks back (a convolution)
    ahead: str = ""  # expression: it looks ahead as far as back, which a causal stack refuses over its own sequence
    attends: str = ""  # attention: "streams" if it makes queries, keys and values of its streams, "qkv" if given them
    cross: str = ""  # attention: the word in its place over another sequence, `CROSS(x, memory)`; "": the word itself
    distances: tuple[str, ...] = ()  # attention: options and ports that mean nothing from one sequence to another
    chooses: tuple[str, ...] = ()  # streams by whose numbers it chooses: what makes them is never rounded to bytes
    linear: bool = False  # the word is one linear map and no more (a gate may hold one, too)
    # Of a word that makes a sequence, which of its positions are real: "joined" (those of its streams), "strided"
    # (those made of real positions of its stream, see `strided`), "grid" (as many as the real rows of its stream alone
    # have windows, see words/grid.py), "larger" (those that real ones become, see `strided`), "patches" (all
    # squares of `size` pixels), "rows" (all of `rows`); "": all, of a number that does not matter.
    real: str = ""
    # Expressions by which it is made; calls for which they are equal make one sequence of one stream. Of "strided" (m,
    # n): i is real if position m + n i of the stream is. Of "larger" (n, dimensions, columns, to_rows, to_columns):
    # each position becomes n, or n by n of a grid of so many columns; or all become to_rows by to_columns, all real.
    strided: tuple[str, ...] = ("0", "stride")
    initial_scale: str = ""  # how large the result is while sublayers yield zero, see words/word.py
    constant: str = ""  # of a function, expression of c: each channel of the result where all of the stream are c
    # Of a function: where the result is surely not 0: of "positive" arguments, "everywhere" but at 0; "": unknown.
    nonzero: str = ""
    partial: bool = False  # of a function: it is not defined for every number
    across: bool = False  # of a function: it reads several channels at once, which scores have not
    same_as: str = ""  # the word that this one stands for where a file does not define it
    family: str = ""  # words of one family may share a label (two faces of one table)
    version: int = 1
    built: bool = True  # False: checked and explained, not yet built
    content: bool = True  # False: how many positions its streams have counts, and not what they hold
    ordered: bool = False  # it tells positions apart itself (rotary, relative, recurrent): `before` needs no positions
    equation: str = ""
    source: str = ""
    # A formula of a layer that calls the word, or the keys of a model file that differ from a plain one's:
    # "before: x = ...". It works as it stands.
    example: str = ""
    doc: str = field(default="", compare=False)  # the class's: shapes, parameters and their initial values

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """The streams of which any number may be given."""
        return tuple(dict.fromkeys(name[1:] for form in self.forms for name in form if name.startswith("*")))

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The streams that some calls have and others lack, which may be given by their names: `topk(x, 2, by=r)`."""
        pairs = [(short, long) for short in self.forms for long in self.forms if short and long[: len(short)] == short]
        further = dict.fromkeys(name for short, long in pairs for name in long[len(short) :])
        return tuple(n for n in further if not n.startswith("*") and n not in (*self.options, *self.ports))

    @cached_property
    def by_layer(self) -> bool:
        """Whether an option's default depends on the layer."""
        defaults = (option.default for option in self.options.values())
        return any(isinstance(text, str) and "layer" in text for text in defaults)

    def form(self, count: int) -> tuple[str, ...] | None:
        """The names of `count` streams; None if the word takes no such number."""
        for form in self.forms:
            fixed = [name for name in form if not name.startswith("*")]
            many = [name[1:] for name in form if name.startswith("*")]
            if len(form) == count if not many else count >= max(len(fixed), 1):
                return (*fixed, *(many * (count - len(fixed))))
        return None

    @property
    def sublayer(self) -> bool:
        return self.kind in ("positions", "channels", "output")

    def __post_init__(self) -> None:
        """What need not be stated: the width of the only form's first stream; the equation as the docstring."""
        first = "".join(self.forms[0][:1]) if len(self.forms) == 1 else ""
        if not self.width and not first.startswith("*"):
            object.__setattr__(self, "width", first)
        if not self.doc and self.equation:
            object.__setattr__(self, "doc", f"{self.equation}.")

    @property
    def transparent(self) -> bool:
        """Whether parameter names look through the word."""
        return self.kind in ("chance", "function")


# How a record states its options; called with literals only, as records are read without running them.

Stated = dict[str, Any]


def whole(help: str, default: int | str | None = None, **fields: Any) -> Stated:
    """A whole number; without a default it must be given."""
    return {"type": "whole", "help": help, "default": default, **fields}


def number(help: str, default: float | str | None = None, **fields: Any) -> Stated:
    """A number; without a default it must be given."""
    return {"type": "number", "help": help, "default": default, **fields}


def flag(help: str, default: bool | str = False, **fields: Any) -> Stated:
    """True or False; the default may be the name of another flag."""
    return {"type": "flag", "help": help, "default": default, **fields}


def choice(help: str, choices: Sequence[str], **fields: Any) -> Stated:
    """One of several strings, by default the first."""
    return {"type": "choice", "help": help, "default": choices[0], "choices": tuple(choices), **fields}


def definition(help: str, **fields: Any) -> Stated:
    """The name of a definition over scores, or over rotary positions; by default none."""
    return {"type": "definition", "help": help, "default": "", **fields}


OPTIONS: dict[str, Callable[..., Stated]] = {f.__name__: f for f in (whole, number, flag, choice, definition)}


def record_from(name: str, stated: Mapping[str, Any], module: str, doc: str = "") -> WordRecord:
    """A record from a decorator's keywords and the docstring below it. Raises InputError with word and key."""
    fields = dict(stated)

    def wrong(what: str) -> InputError:
        return InputError(f"the word {name!r} of {module}: {what}")

    forms = fields.pop("streams", None)
    if forms is None:
        raise wrong("states no streams")
    several = forms and isinstance(forms[0], (tuple, list))
    try:
        options = {key: _option(key, written) for key, written in dict(fields.pop("options", {})).items()}
    except (TypeError, ValueError) as error:
        raise wrong(str(error)) from None
    if fields.get("kind") not in KINDS:
        raise wrong(f"has the kind {fields.get('kind')!r}; known: {', '.join(KINDS)}")
    if "silent" in fields:  # the key's former name
        fields["initial_scale"] = fields.pop("silent")
    for key in ("numbers", "ports", "ids", "coefficients", "key_taps", "distances", "split_by", "chooses"):
        fields[key] = tuple(fields.get(key, ()))
    if missing := [key for key in fields["numbers"] if key not in options]:
        raise wrong(f"the number {missing[0]!r} is not among its options")
    if odd := [how for how in dict(fields.get("splits", {})).values() if how not in SPLITS]:
        raise wrong(f"splits a matrix by {odd[0]!r}; known: {', '.join(SPLITS)}")
    for key in fields:
        if key not in WordRecord.__dataclass_fields__:
            near = did_you_mean(nearest(key, WordRecord.__dataclass_fields__))
            raise wrong(f"states {key!r}, which no record has;{near} see words/word.py")
    forms = tuple(map(tuple, forms if several else (forms,)))
    return WordRecord(name=name, module=module, forms=forms, options=options, doc=doc, **fields)


def _option(key: str, written: Mapping[str, Any]) -> Option:
    if written.get("type") not in OPTIONS:
        raise ValueError(f"option {key!r} has the type {written.get('type')!r}; known: {', '.join(OPTIONS)}")
    try:
        return Option(key, **{"default": None, **written, "choices": tuple(written.get("choices", ()))})
    except TypeError as error:
        raise TypeError(f"option {key!r}: {error}") from None


def records_in(text: str, module: str) -> Iterator[WordRecord]:
    """The records stated in the text of a Python file, which is read and not run."""
    of_file: dict[str, Mapping[str, Any]] = {}
    for node in python_tree(text).body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "word":
                try:
                    name = ast.literal_eval(decorator.args[0])
                    stated = {k.arg: _literal(k.value) for k in decorator.keywords if k.arg}
                except (ValueError, IndexError, TypeError):
                    raise InputError(f"{module}: @word(...) of {node.name} must be made of literals") from None
                of_file[name] = merged(stated, of_file)
                yield record_from(name, of_file[name], module, ast.get_docstring(node) or "")


def _literal(node: ast.expr) -> Any:
    """A literal; in its mappings the functions that state options may be called, with literals."""
    if isinstance(node, ast.Dict):
        return {ast.literal_eval(k or node): _literal(v) for k, v in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OPTIONS:
        named = {k.arg or "": ast.literal_eval(k.value) for k in node.keywords}
        return OPTIONS[node.func.id](*map(ast.literal_eval, node.args), **named)
    return ast.literal_eval(node)


def merged(stated: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A decorator's keywords with those of the word that `like` names among `others`, mappings joined key by key."""
    if "like" not in stated:
        return stated
    if stated["like"] not in others:
        raise InputError(f"like={stated['like']!r}: there is no such word above in the same file")
    fields = dict(others[stated["like"]])
    for key, value in stated.items():
        both = isinstance(value, Mapping) and isinstance(fields.get(key), Mapping)
        fields[key] = {**fields[key], **value} if both else value
    del fields["like"]
    return fields


def two_words(name: str, one: str, other: str) -> str:
    """The error for two words of one name. A version may have a word that one from outside had before."""
    what = f"two words are called {name!r}: in {one} and in {other}"
    return f"{what}; give the one in {other} another name, there and in the formulas that call it"


class Vocabulary(dict[str, WordRecord]):
    """Words by name. `with_words` gives a wider one; two words of one name are an error."""

    def __init__(self, records: Iterable[WordRecord] = ()) -> None:
        super().__init__()
        for record in records:
            other = self.setdefault(record.name, record)
            if other != record:
                raise InputError(two_words(record.name, other.module, record.module))

    def with_words(self, records: Iterable[WordRecord]) -> Vocabulary:
        return Vocabulary([*self.values(), *records])


@lru_cache(maxsize=8)
def read_folder(folder: Path, package: str) -> Vocabulary:
    """The vocabulary stated by the Python files of a folder, none of which is imported."""
    texts = {f"{package}.{path.stem}": path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
    return Vocabulary(record for file, text in texts.items() if "@word(" in text for record in records_in(text, file))
