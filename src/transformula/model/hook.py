"""Hooks: what a model asks for that is no equation, by name, under the key of a model file that says when it happens.

    calibrate: admin              once, before the first step of training
    after_step: unit_rows         after the initial values, and after each step of the optimizer
    policy: layerdrop(p=0.2)      whenever a layer is run
    carry: 150                    how much a segment sees of those before it: a number, see `model/segment_memory.py`
    schedule: cosine(warmup=0.1)  the learning rate, where the run says nothing else

A hook is a function (a policy: a class) under the decorator `@hook(KEY, NAME)`, in a file of `model/hooks/` or, from
outside, of a package that whoever runs the program names by `--use`. A file that is loaded only names it: it is looked
up, and nothing is imported or executed because a file says so. The text is a name, or a call: numbers in the order of
the hook's options or by their names, over the numbers of the file, and strings; a policy may be given names that every
layer sets, `halt(p)`.

What each key's hooks are given and give; their options are what is keyword-only in their signatures:

    calibrate   (model, run, *, options) -> str
                `run()` makes one forward pass over a batch, in training, without gradients; the result is a line that
                says what was done
    after_step  (model, *, options) -> None
                changes parameters in place; no gradient is recorded
    policy      a class derived from `Policy`: (stack, *, options)

Schedules are those of training, registered there (`training/schedules.py`). `init` is described in `model/init.py`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from ..errors import InputError, UnknownName, did_you_mean, nearest
from ..language.graph import Architecture, Section, Stack
from ..language.messages import FormulaError, unknown
from ..language.numbers import evaluate
from ..language.parser import parse_expression
from ..language.source import Source
from ..language.syntax import CallNode, Name
from ..registry import Registry
from .segment_memory import check_carry

HOOKS: dict[str, Registry[Any]] = {
    key: Registry(f"{key} hook", "transformula.model.hooks", f'@hook("{key}", ')
    for key in ("calibrate", "after_step", "policy")
}  # of each key, by name
BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")


class NameRead(str):
    """An option of a policy that is a name which every layer sets: `policy: halt(p)`."""


T = TypeVar("T", bound=Callable[..., Any])
Values = Mapping[str, Tensor]  # of names
Run = Callable[[Values], dict[str, Tensor]]  # runs a layer: from the values that enter it to those that it leaves


def hook(key: str, name: str) -> Callable[[T], T]:
    """Register a hook: `@hook("after_step", "unit_rows")`. Raises UnknownName for a key that has no hooks, InputError
    for a second hook of one name."""
    if key not in HOOKS:
        raise UnknownName("key of hooks", key, HOOKS)
    return HOOKS[key].register(name)


class Policy(nn.Module):
    """Runs the layers of one stack: base of the hooks of `policy`.

    Made once for each stack, in the order of the file. It may hold parameters (`policy.NAME` in the model), which
    `initial_values` fills as a word's does. Raise InputError in the constructor for a stack that it cannot run.
    """

    carries: ClassVar[bool] = False
    """Whether it goes with `carry`: it runs every layer on every segment, where `stepping` is true in training too."""

    def __init__(self, stack: Stack) -> None:
        super().__init__()
        self.depth = stack.depth

    def initial_values(self, generator_for: Callable[[str], Any]) -> None:
        """Fill the policy's own parameters; see `words.word.Word`."""

    def forward(self, run: Run, entering: Values, layer: int, stepping: bool) -> Values:
        """The names that layer `layer` (1 to depth) leaves.

        entering  names that the layer reads -> their values
        run       runs the layer on such values; the names that it leaves and something later needs, and those that the
                  policy reads -> their values
        stepping  whether this is a chunk of step-by-step decoding, or a segment (`carry`), in which every layer must
                  see every position
        """
        return run(entering)

    def losses(self) -> dict[str, Tensor]:
        """What the last pass in training adds to the loss, by name."""
        return {}


def hook_of(architecture: Architecture | None, key: str) -> partial[Any] | None:
    """The hook that a model asks for under `key`, with the options that its file says; None if it asks for none.

    Raises InputError: an unknown name, with the nearest known one; an option that the hook does not have.
    """
    if architecture is None or key not in architecture.hooks:
        return None
    name, items, options, source = read_hook(architecture, key)
    try:
        function = HOOKS[key].get(name)
    except UnknownName as error:
        remedy = "Hooks from outside are known once their package is named: --use PACKAGE"
        raise InputError(f"{place_of(source)}: {error.message}. {remedy}", near=error.near) from None
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    chosen = options_by_name(f"{place_of(source)}: {name}", list(defaults), items, options)
    for option, default in defaults.items():
        if default is inspect.Parameter.empty and option not in chosen:
            raise InputError(f"{place_of(source)}: {name} needs {option}: write {name}({option}=...)")
    return partial(function, **chosen)


def check_hooks(architecture: Architecture) -> None:
    """Raise InputError for a hook that is not known, or not with these options, and for one that does not go with the
    others. Schedules are looked up by training."""
    requested = {key: hook_of(architecture, key) for key in HOOKS}
    check_carry(architecture)
    policy = requested["policy"]
    if architecture.carry and policy is not None and not getattr(policy.func, "carries", False):
        name = read_hook(architecture, "policy")[0]
        what = f"carry: a layer that is left out leaves nothing for the next segment, and `policy: {name}` does"
        raise InputError(f"{what} not say that it runs all of them; take one of the two keys out")


def options_by_name(who: str, names: Sequence[str], items: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name: `items` in the order of `names`, then those given by name. Raises InputError, naming `who`."""
    takes = f"takes {', '.join(names) or 'no options'}"
    if len(items) > len(names):
        raise InputError(f"{who} {takes}; {len(items)} values are given")
    by_name = dict(zip(names, items, strict=False))
    for name in options:
        if name not in names:
            near = nearest(name, names)
            raise InputError(f"{who} has no option {name!r};{did_you_mean(near)} it {takes}", near=near)
        if name in by_name:
            raise InputError(f"{who}: {name} is given twice")
    return by_name | dict(options)


def read_hook(architecture: Architecture, key: str) -> tuple[str, list[Any], dict[str, Any], Source]:
    """(name, values without a name, values by name, text) of a hook's text. Raises InputError for what is no call."""
    given, numbers = architecture.hooks[key], architecture.numbers
    if isinstance(given, Mapping):
        first = next(iter(given), "name")
        raise InputError(f"{key}: is a mapping; write a name, or a call: {key}: {first}(option=value)")
    source = given if isinstance(given, Source) else Source(key, str(given))
    text = source.text.strip()
    if BARE.match(text):
        return text, [], {}, source
    node = parse_expression(source, strings=True)
    if not isinstance(node, CallNode) or node.label:
        raise InputError(f"{place_of(source)}: {text!r} names no hook; write a name, or a call such as NAME(0.1)")

    def look(name: Name) -> Any:
        layers = [section for stack in architecture.stacks for section in stack.layers]
        if name.name in numbers:
            return numbers[name.name]
        if key == "policy" and any(name.name in section.asked for section in layers):
            return NameRead(name.name)
        raise unknown("unknown-number", name.place, name.name, [*numbers])

    items, options = [evaluate(item, look) for item in node.items], dict[str, Any]()
    for option in node.options:
        if option.name in options:
            raise FormulaError("option-twice", option.place, word=node.word, name=option.name)
        options[option.name] = evaluate(option.value, look)
    return node.word, items, options, source


def place_of(source: Source) -> str:
    """Where a hook stands, in words: 'gpt2.yaml:9, policy', or 'policy'."""
    return source.start.where if source.file else source.name


def check_only_changes(who: str, section: Section, but: Collection[str] = (), so: str = "") -> None:
    """Raise InputError, naming the policy, for a layer that leaves names which did not enter it."""
    entering = {name for name, value in section.reads.items() if value.op == "name" and not value.stack}
    new = [n for n, value in section.leaves.items() if value.op != "number" and n not in {*entering, *but}]
    if new:
        what = f"{who}: {section.title} leaves {', '.join(new)}, which did not enter it{so}"
        raise InputError(f"{what}: a layer under this policy only changes names that it reads")


def number_of(who: str, name: str, value: Any, low: float, high: float, *, open_end: bool = False) -> float:
    """An option that is a number from low to high. Raises InputError, naming hook and option."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not low <= value <= high or (open_end and value == high):
        bounds = f"from {low:g} to{' below' * open_end} {high:g}"
        raise InputError(f"{who}: {name} is {value!r}, and must be a number {bounds}")
    return float(value)
