"""Options: made from the fields of Settings classes and from the keys of a model, so that none is written twice."""

from __future__ import annotations

import argparse
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TYPED, InputError, did_you_mean, nearest
from ..field_names import key as field_key
from ..field_names import suggest
from .output import EXIT_CODES, OPTION

if TYPE_CHECKING:
    from ..settings import Settings

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
"""Keys that every model file may have. A number of the model's own is an option too: `--rank 8`."""

USE = "import this package of words, tasks, data formats or optimizers, or this Python file; may be repeated"
NO_VERIFY = "do not check the weights against the hash in their file, nor that they are finite"


class Parser(argparse.ArgumentParser):
    """argparse, whose mistakes are ours: no abbreviations, the nearest option named, exit status 2."""

    def __init__(self, verb: str, what: str, examples: Sequence[str], takes: str = "") -> None:
        super().__init__(
            prog=f"transformula {verb}",
            usage=f"transformula {verb} {takes} [option ...]".replace("  ", " "),
            description=what,
            epilog="\n".join(["examples:", *(f"  {e}" for e in examples), "", EXIT_CODES]),
            formatter_class=Formatter,
            allow_abbrev=False,
        )
        self.verb = verb
        self.model_options = False
        self.begun: argparse.Namespace | None = None
        self.rest: list[str] = []
        self.settings: list[type[Settings]] = []
        self.add_argument(OPTION, action="store_true", help="print one JSON object, for programs")

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments") and "--data" in self._option_string_actions:
            message += " (a shell takes braces apart: quote them, as in --data 'train.{de,en}')"
        raise InputError(f"{message}; see: {self.prog} --help")

    def add_model_options(self) -> None:
        """Let every key of a model file be an option."""
        self.model_options = True
        group = self.add_argument_group(
            "model", "keys of the model file; each number in the model's text is an option too (--rank 8)"
        )
        for key, what in MODEL_OPTIONS.items():
            metavar = "FORMULA" if key in ("before", "layer", "after", "output") else "VALUE"
            option = "--" + key.replace("_", "-")
            group.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=what)

    def add_use(self) -> None:
        """The option that names packages."""
        self.add_argument("--use", action="append", type=package, metavar="PACKAGE", default=[], help=USE)

    def add_machine(self, device: str = "auto") -> None:
        """Options of a verb that runs a trained model."""
        self.add_argument(
            "--device", metavar="TEXT", default=device, help=f"cpu, cuda, cuda:1, ... (default: {device})"
        )
        self.add_argument("--threads", metavar="N", type=int, help="CPU threads (default: torch's choice)")
        self.add_use()
        self.add_argument("--no-verify", action="store_false", dest="verify", help=NO_VERIFY)

    def add_settings(self, title: str, settings: type[Settings], without: Iterable[str] = ()) -> None:
        """An option for each field: its name, its type, its description, its default."""
        group = self.add_argument_group(title)
        from ..settings import FORMER_KEYS  # only where settings are options: explain does without pydantic

        self.settings.append(settings)
        left_out = set(without)
        for name, field in settings.model_fields.items():
            if name not in left_out:
                add_field(group, name, field)
        for former, name in FORMER_KEYS.items():
            if name in settings.model_fields:
                self.add_argument(f"--{former}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)

    def begin(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Read the options that were added so far, which say what others there are; `parse` reads the rest."""
        asked = [argument for argument in arguments if argument in ("-h", "--help")]
        self.begun, rest = self.parse_known_args([argument for argument in arguments if argument not in asked])
        self.rest = [*asked, *rest]
        return self.begun

    def parse(self, arguments: Sequence[str]) -> Given:
        """Read the arguments. Options that are not known here are kept for the model, if it takes any."""
        rest, others = self.set_apart(arguments if self.begun is None else self.rest)
        if TYPED.get() is not None:  # the door is open: it closes behind the command
            options = [*self._option_string_actions, *(f"--{key.replace('_', '-')}" for key in others)]
            TYPED.set(frozenset(options))
        space = vars(self.parse_intermixed_args(rest, self.begun))
        model = {key: space.pop(key) for key in MODEL_OPTIONS if self.model_options and key in space}
        return Given(space, {**model, **others}, self)

    def set_apart(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        """Take out `--key value` and `--key=value` whose key is not an option of this verb."""
        known = set(self._option_string_actions)
        kept: list[str] = []
        others: dict[str, str] = {}
        ahead = list(arguments)
        while ahead:
            item = ahead.pop(0)
            if item == "--":
                return [*kept, item, *ahead], others
            name, equals, value = item.partition("=")
            name = name.replace("_", "-") if name.startswith("--") else name
            if not name.startswith("--") or name in known:
                kept.append(f"{name}{equals}{value}" if name.startswith("--") else item)
                continue
            key = name[2:].replace("-", "_")
            if not self.model_options or not key.isidentifier():
                raise self.unknown(name, value=value if equals else ahead[0] if ahead else None)
            if not equals and (not ahead or ahead[0].startswith("--")):
                raise self.unknown(name)
            others[key] = value if equals else ahead.pop(0)
        return kept, others

    def unknown(self, option: str, further: Iterable[str] = (), value: str | None = None) -> InputError:
        """The error for an option that nothing has; `value` is what was typed after it."""
        known = [o for o in self._option_string_actions if o.startswith("--")] + [f"--{f}" for f in further]
        ours = field_key(option, [o[2:].replace("-", "_") for o in known])
        near = nearest(option, known) if ours is None else [f"--{ours.name.replace('_', '-')}"]
        value = None if value is None or value.startswith("--") else value
        said = did_you_mean(near) if ours is None else suggest(ours, value, "line") + ";"
        return InputError(f"unknown option {option};{said} see: {self.prog} --help", near=near)


class Given:
    """What was typed. `given["name"]` is an argument; `model` what was said of the model."""

    def __init__(self, arguments: dict[str, Any], model: dict[str, str], parser: Parser) -> None:
        self.arguments, self.model, self.parser = arguments, model, parser

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def of(self, *settings: type[Settings]) -> dict[str, Any]:
        """The fields of these settings that were typed."""
        fields = {name: field for group in settings for name, field in group.model_fields.items()}
        return {key: alone(value, fields[key]) for key, value in self.arguments.items() if key in fields}

    def read(self, settings: type[Any]) -> Any:
        """The settings of one class, checked."""
        return settings.read(self.of(settings))


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Wide enough for a line of help beside each option, whatever the terminal says of itself."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=112)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def package(name: str) -> str:
    """A package as it is imported: of a file below this folder, such as lab/words.py, lab.words."""
    path = Path(name)
    inside = path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts
    return ".".join(path.with_suffix("").parts) if inside else name


def add_field(group: argparse._ArgumentGroup, name: str, field: Any) -> None:
    """One option for one field of a Settings class."""
    option, kind = "--" + name.replace("_", "-"), plain_type(field.annotation)
    what = (field.description or "").replace("%", "%%")
    default = shown_default(field)
    what += f" (default: {default})" if default else ""
    if kind is bool:
        group.add_argument(option, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=what)
    elif typing.get_origin(kind) is list:
        what += "; may be repeated"
        group.add_argument(option, action="append", metavar="VALUE", default=argparse.SUPPRESS, help=what)
    else:
        group.add_argument(option, metavar=metavar(kind), default=argparse.SUPPRESS, help=what)


def plain_type(annotation: Any) -> Any:
    """The type without `None`; of several types a list, if one is."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [p for p in typing.get_args(annotation) if p is not type(None)]
        lists = [p for p in parts if typing.get_origin(p) is list]
        return lists[0] if lists else parts[0]
    return annotation


def alone(value: Any, field: Any) -> Any:
    """The value of an option that may be repeated: alone where it was given once and the field takes one."""
    one_of = typing.get_origin(field.annotation) in (typing.Union, types.UnionType)
    return value[0] if one_of and isinstance(value, list) and len(value) == 1 else value


def metavar(kind: Any) -> str:
    """What stands for the value in --help."""
    if typing.get_origin(kind) is typing.Literal:
        return "{" + ",".join(map(str, typing.get_args(kind))) + "}"
    return {int: "N", float: "NUMBER", str: "TEXT"}.get(kind, "VALUE")


def shown_default(field: Any) -> str:
    """The default, unless it is 'nothing'."""
    if field.is_required() or field.default is None or field.default is False or field.default in ([], (), ""):
        return ""
    return "yes" if field.default is True else str(field.default)


def prints(character: str) -> bool:
    """Whether standard output can show a character."""
    try:
        character.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
