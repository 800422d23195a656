"""Verbs and their options. Options are made from the fields of Settings classes and from the keys of a model, so that
none is written twice."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TYPED, InputError, did_you_mean, nearest
from ..field_names import key as field_key
from ..field_names import suggest
from .output import EXIT_CODES, OPTION, as_json

if TYPE_CHECKING:
    from ..settings import Settings

T = typing.TypeVar("T")

MODEL_OPTIONS = {
    "before": "formula before the layers",
    "layer": "formula of the layers",
    "after": "formula after the layers",
    "output": "formula of the output",
    "share": "number of the module that a layer uses; layers with equal numbers share weights",
    "order": "which of several formulas each layer uses",
    "causal": "false: positions also attend to later ones",
    "init": "standard deviations of the initial weights",
    "calibrate": "hook that runs before the first step, on one batch: admin",
    "after_step": "hook that runs after each step: unit_rows",
    "policy": "hook that runs the layers: layerdrop(p=0.2), halt(p)",
    "carry": "positions of earlier segments that training attends to (segment memory)",
    "schedule": "learning-rate schedule of the model, unless --lr-schedule is given",
    "family": "turn a model of one stack into an encoder or an encoder-decoder",
    "depth": "number of layers",
    "width": "channels of the residual stream",
    "heads": "attention heads",
    "vocab": "vocabulary size (default: the tokenizer's)",
    "context": "context length in tokens (default: the task's)",
    "dropout": "probability of each dropout() that states none",
}
"""Keys that every model file may have. A number of the model's own, or a flag, is an option too: `--rank 8`."""

BASIC_OF_MODELS = ("depth", "width")  # of these, what the short --help shows

HELP, ALL = ("-h", "--help"), "all"

MODEL = "a formula (a text with =), a model file (.yaml), a run's or a model's folder, or a name of the gallery"
RUN = "a run's folder (its best model), a model's, or hf:OWNER/NAME"


class Parser(argparse.ArgumentParser):
    """argparse, whose mistakes are ours: no abbreviations, the nearest option named, exit status 2."""

    def __init__(
        self, verb: str, what: str, examples: Sequence[str], takes: str = "", arguments: Sequence[str] = ()
    ) -> None:
        super().__init__(
            prog=f"transformula {verb}",
            usage=f"transformula {verb} {takes} [option ...]".replace("  ", " "),
            description=what,
            epilog="\n".join(["examples:", *(f"  {e}" for e in examples), "", EXIT_CODES]),
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        # those typed, which may say what further options there are, and whether --help is to show all of them
        self.whole = any(one in HELP and after == ALL for one, after in pairwise(arguments))
        self.arguments = [a for n, a in enumerate(arguments) if not (n and a == ALL and arguments[n - 1] in HELP)]
        self.basic: list[argparse.Action] = []  # the short page shows these; none: there is no such page
        self.examples = examples
        self.model_options = False
        self.begun: argparse.Namespace | None = None
        self.rest: list[str] = []
        self.settings: list[type[Settings]] = []
        self.add_argument(OPTION, action="store_true", help="print one JSON object, for programs")

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments") and "--data" in self._option_string_actions:
            message += " (a shell takes braces apart: quote them, as in --data 'train.{de,en}')"
        if parts := re.match(r"argument (--[\w-]+).*: expected (one|at least one) argument", message):
            message += f" (one that begins with a dash stands behind =, as in {parts[1]}=-a.txt)"
        raise InputError(f"{message}; see: {self.page}")

    @property
    def page(self) -> str:
        """What shows all options."""
        return f"{self.prog} --help{f' {ALL}' if self.basic else ''}"

    def format_help(self) -> str:
        """The page of all options; where some are basic, that of these, unless all are asked for."""
        return super().format_help() if self.whole or not self.basic else self.short_help()

    def short_help(self) -> str:
        """A page that fits on a screen: arguments, basic options by group, two examples, and how to see the rest."""
        formatter = ShortFormatter(self.prog, 20, 100)
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(fill(" ".join(re.split(r"(?<=[.?!])\s", self.description or "")[:3]), 100))
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_arguments(a for a in group._group_actions if a in self.basic or not a.option_strings)
            formatter.end_section()
        options = [a for a in self._actions if a.option_strings and a.help != argparse.SUPPRESS]
        ending = ["examples:", *(f"  {e}" for e in self.examples[:2]), f"all {len(options)} options: {self.page}"]
        formatter.add_text("\n".join([*ending, fill(EXIT_CODES, 100)]))
        return formatter.format_help()

    def add(self, option: str, metavar: str | None, what: str, basic: bool = False, **more: Any) -> None:
        """An argument or an option, with a value of this name; without one, a switch, unless `more` says what it is.
        `basic`: the short --help shows it."""
        how = {"action": "store_true"} if metavar is None and option.startswith("--") else {"metavar": metavar}
        action = self.add_argument(option, help=what, **{**how, **more})
        self.basic += [action] if basic else []

    def add_model_options(self) -> None:
        """Let every key of a model file be an option."""
        self.model_options = True
        group = self.add_argument_group(
            "model",
            "keys of the model file; each number, flag, string and list of the text is an option too (--rank 8)",
        )
        for key, what in MODEL_OPTIONS.items():
            metavar = "FORMULA" if key in ("before", "layer", "after", "output") else "VALUE"
            action = group.add_argument(option_of(key), metavar=metavar, default=argparse.SUPPRESS, help=what)
            self.basic += [action] if self.basic and key in BASIC_OF_MODELS else []

    def add_settings(self, title: str, settings: type[Settings], without: Sequence[str] = ()) -> None:
        """An option for each field: its name, its type, its description, its default."""
        from ..settings import FORMER_KEYS  # only where settings are options: explain does without pydantic

        self.settings.append(settings)
        group, facts = self.add_argument_group(title), settings.facts()
        for name, field in settings.model_fields.items():
            if name not in without:
                action = group.add_argument(option_of(name), default=argparse.SUPPRESS, **argument_of(field))
                self.basic += [action] if self.basic and facts[name].basic else []
        for former, name in FORMER_KEYS.items():
            if name in settings.model_fields:
                self.add_argument(f"--{former}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    def add_run_options(self, task: str, without: Sequence[str] = ()) -> None:
        """What a run takes: settings of the task's data and of training, keys of the model; and the table of tasks."""
        from ..api.reading import TASK, of_task
        from ..tasks.verb import built_in_tasks
        from ..training.settings import settings_with

        self.add_settings(f"data, of {task}" if task != TASK else "data", of_task(task, "settings"), without)
        self.add_settings("training", settings_with(self.typed("--optimizer")), without)
        self.add_model_options()
        self.add_table("tasks", built_in_tasks())

    def add_table(self, title: str, lines: Mapping[str, str]) -> None:
        """A part of the help with a line for each name."""
        widest = max(map(len, lines))
        self.add_argument_group(title, "\n".join(f"{name:<{widest}}  {line}" for name, line in lines.items()))

    def begin(self) -> argparse.Namespace:
        """Read the options that were added so far, which say what others there are; `parse` reads the rest."""
        help = [argument for argument in self.arguments if argument in HELP]
        self.begun, rest = self.parse_known_args([argument for argument in self.arguments if argument not in help])
        self.rest = [*help, *rest]
        return self.begun

    def typed(self, option: str) -> str | None:
        """The value of an option that is not read yet, as it was typed."""
        reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        reader.add_argument(option, dest="value", nargs="?")
        value: str | None = reader.parse_known_args(self.rest)[0].value
        return value

    def parse(self, arguments: Sequence[str]) -> Given:
        """Read the arguments. Options that are not known here are kept for the model, if it takes any."""
        rest, others = self._set_apart(arguments if self.begun is None else self.rest)
        if TYPED.get() is not None:  # the door is open: it closes behind the command
            TYPED.set(frozenset([*self._option_string_actions, *map(option_of, others)]))
        space = vars(self.parse_intermixed_args(rest, self.begun))
        model = {key: space.pop(key) for key in MODEL_OPTIONS if self.model_options and key in space}
        return Given(space, {**model, **others}, self)

    def _set_apart(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Take out `--key value` and `--key=value` whose key is not an option of this verb."""
        kept: list[str] = []
        others: dict[str, str] = {}
        ahead = list(arguments)
        while ahead:
            item = ahead.pop(0)
            if item == "--":
                return [*kept, item, *ahead], others
            if not item.startswith("--"):
                kept.append(item)
                continue
            name, equals, value = item.partition("=")
            name = name.replace("_", "-")
            if name in self._option_string_actions:
                kept.append(f"{name}{equals}{value}")
                continue
            key = name[2:].replace("-", "_")
            follows = None if not ahead or ahead[0].startswith("--") else ahead[0]
            if not self.model_options or not key.isidentifier() or (not equals and follows is None):
                raise self.unknown(name, value if equals else follows)
            others[key] = value if equals else ahead.pop(0)
        return kept, others

    def unknown(self, option: str, value: str | None = None) -> InputError:
        """The error for an option that nothing has; `value` is what was typed after it."""
        known = [name for name in self._option_string_actions if name.startswith("--")]
        ours = field_key(option, [name[2:].replace("-", "_") for name in known])
        near = nearest(option, known) if ours is None else [option_of(ours.name)]
        suggestion = did_you_mean(near) if ours is None else suggest(ours, value, "line") + ";"
        return InputError(f"unknown option {option};{suggestion} see: {self.page}", near=near)


class Given:
    """What was typed. `given["name"]` is an argument; `model` what was said of the model."""

    def __init__(self, arguments: dict[str, Any], model: dict[str, Any], parser: Parser) -> None:
        self.arguments, self.model, self.parser = arguments, model, parser

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def some(self, *names: str) -> dict[str, Any]:
        """Those of some arguments that were typed."""
        return {name: self.arguments[name] for name in names if self.arguments.get(name) is not None}

    def of(self, *settings: type[Settings]) -> dict[str, Any]:
        """The fields of these settings that were typed; an option that may be repeated is a list, but alone where it
        was given once and the field takes one."""
        typed = {}
        for name, field in ((name, field) for group in settings for name, field in group.model_fields.items()):
            if name in self.arguments:
                value = self.arguments[name]
                alone = isinstance(value, list) and len(value) == 1 and one_of(field.annotation)
                typed[name] = value[0] if alone else value
        return typed

    def call(self, function: Callable[..., T], **more: Any) -> T:
        """Call a function of the api with what was typed: the arguments that it has by name, and, where it takes any,
        the settings and what was said of the model. What is in `more` is given as it stands there."""
        parameters = inspect.signature(function).parameters
        typed = {name: value for name, value in self.arguments.items() if name in parameters}
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            typed = {**self.of(*self.parser.settings), **typed, **self.model}
        return function(**{**typed, **more})

    def show(self, result: object, data: Mapping[str, Any] | None = None) -> int:
        """Print a result; with --json its data, by default `result.data`. Returns the exit status of what is done."""
        print(as_json(result.data if data is None else data) if self["json"] else result)  # type: ignore[attr-defined]
        return 0

    @property
    def ascii(self) -> bool:
        """Whether diagrams have ASCII characters only: by --ascii, or where standard output shows no others."""
        try:
            "│".encode(sys.stdout.encoding or "ascii")
        except UnicodeEncodeError:
            return True
        return bool(self["ascii"])


@dataclass(frozen=True)
class Command:
    """A verb: `help` is its line among the others, `about` what its own --help says first, `takes` its arguments.

    options  each adds to a parser; it may begin to read what was typed, to learn which others there are
    """

    name: str
    help: str
    about: str
    takes: str
    options: Sequence[Callable[[Parser], None]]
    examples: Sequence[str]
    run: Callable[[Given], int]

    def parser(self, arguments: Sequence[str] = ()) -> Parser:
        """What reads its arguments. `arguments` are those typed, on which options may depend."""
        parser = Parser(self.name, self.about, self.examples, self.takes, arguments)
        for add in self.options:
            add(parser)
        return parser


VERBS: dict[str, Command] = {}
"""The verbs of those of this folder's files that are loaded. Tasks bring further ones: see `verbs.py`."""


def verb(
    help: str, takes: str, *options: Callable[[Parser], None], examples: Sequence[str]
) -> Callable[[Callable[[Given], int]], Callable[[Given], int]]:
    """Make a verb of the function that runs it, of its name; its docstring is what --help says first."""

    def register(run: Callable[[Given], int]) -> Callable[[Given], int]:
        name = run.__name__.rstrip("_").replace("_", "-")
        # A line is joined with the next, unless it ends a sentence or the next is blank or indented.
        lines = re.sub(r"(?<![.\n])\n(?![\n ])", " ", inspect.cleandoc(run.__doc__ or "")).split("\n")
        about = "\n".join(textwrap.fill(line, 120, break_on_hyphens=False) for line in lines)
        VERBS[name] = Command(name, help, about, takes, options, examples, run)
        return run

    return register


def option(name: str, metavar: str | None, what: str, **more: Any) -> Callable[[Parser], None]:
    """What adds this option, or argument, to a parser: see `Parser.add`."""
    return lambda parser: parser.add(name, metavar, what, **more)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wide enough for a line of help beside each option, whatever the terminal says of itself."""

    def __init__(self, prog: str, position: int = 34, width: int = 112) -> None:
        super().__init__(prog, max_help_position=position, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class ShortFormatter(Formatter):
    """Shows an option by its first name, what it means as far as a semicolon, and its default."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        return super()._format_action_invocation(action).partition(", --no-")[0]

    def _split_lines(self, text: str, width: int) -> list[str]:
        first, _, rest = text.partition(";")
        default = re.search(r" \(default: [^()]*\)", rest)
        return super()._split_lines(first + (default[0] if default else ""), width)


def fill(text: str, width: int) -> str:
    """A paragraph in lines of at most this width."""
    return textwrap.fill(" ".join(text.split()), width, break_on_hyphens=False)


def option_of(key: str) -> str:
    """--weight-decay, of weight_decay."""
    return "--" + key.replace("_", "-")


def package_name(name: str) -> str:
    """A package as it is imported: of a file below this folder, such as lab/words.py, lab.words; a family's data file
    by its path."""
    path = Path(name)
    inside = path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts
    return ".".join(path.with_suffix("").parts) if inside else name


def one_of(annotation: Any) -> bool:
    """Whether a type is one of several."""
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def argument_of(field: Any) -> dict[str, Any]:
    """What argparse is told of a field of settings: its type, its description, its default."""
    kind, default = field.annotation, field.default
    if one_of(kind):  # a list, if one of them is
        kinds = [part for part in typing.get_args(kind) if part is not type(None)]
        kind = next((part for part in kinds if typing.get_origin(part) is list), kinds[0])
    what = (field.description or "").replace("%", "%%")
    if not field.is_required() and default is not None and default is not False and default not in ([], (), ""):
        what += f" (default: {'yes' if default is True else default})"
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction, "help": what}
    if typing.get_origin(kind) is list:
        several = bool((field.json_schema_extra or {}).get("several_at_once"))
        how = {"action": "extend", "nargs": "+"} if several else {"action": "append"}
        return {**how, "metavar": "VALUE", "help": f"{what}; may be repeated"}
    if typing.get_origin(kind) is typing.Literal:
        return {"metavar": "{" + ",".join(map(str, typing.get_args(kind))) + "}", "help": what}
    return {"metavar": {int: "N", float: "NUMBER", str: "TEXT"}.get(kind, "VALUE"), "help": what}


OUTSIDE = "words, tasks, families, data formats or optimizers"
USE_HELP = f"import this package of {OUTSIDE}, or this Python file; or a family's FILE.yaml; may be repeated"
USE = option("--use", "PACKAGE", USE_HELP, action="append", type=package_name, default=[])
WITH = option(
    "--with", "RUN", "a further model of the ensemble; may be repeated", action="append", default=[], dest="others"
)
NO_VERIFY_HELP = "do not check the weights against the hash in their file, nor that they are finite"
NO_VERIFY = option("--no-verify", None, NO_VERIFY_HELP, action="store_false", dest="verify")
QUIET = option("--quiet", None, "print only the result")


def machine(parser: Parser, device: str = "auto") -> None:
    """Add the options of a verb that runs a trained model."""
    parser.add("--device", "TEXT", f"cpu, cuda, cuda:1, mps, ... (default: {device})", default=device)
    parser.add("--threads", "N", "CPU threads (default: torch's choice)", type=int)
    USE(parser)
    NO_VERIFY(parser)
