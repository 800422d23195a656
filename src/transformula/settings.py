"""Typed settings read from data: checked once at the door, all mistakes in one report, frozen after."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from .errors import ConfigError, shortened
from .field_names import unknown_key
from .plain import not_utf8, several
from .structured import Malformed

FORMER_KEYS = {"optimiser": "optimizer", "held_out": "split"}
"""Keys of settings as earlier versions spelled them -> as they are spelled now. Both are read."""

FORMER_VALUES = {"lower": {"nothing": "none"}}  # the same of values, by key

MAX_CHARACTERS = 4096  # of a text in settings: names of files are no longer


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is true of a setting besides its type, bounds, default and description. It stands in the type of the field,
    `Annotated[int, Facts(...)]`, and all who need it look there: resume, comparisons, recipes, --help.

    resume   what a resume may do with it: "fixed", it is as the run began; "free", it may change; "noted", it may
             change, and the run is then no longer bit for bit the one that was not interrupted
    numbers  whether numbers of a run depend on it; a setting on which none depends is in no key of a comparison's runs
    limit    it says how long a run is
    paired   runs that have it in common see the same data, so that a comparison can take it
    basic    the short --help shows it
    reader   the setting that decides whether it is read: one that names a thing, such as `optimizer`, whose `reads`
             says so; else it is read where that setting is not at its default; "": always
    """

    resume: Literal["fixed", "free", "noted"] = "fixed"
    numbers: bool = True
    limit: bool = False
    paired: bool = True
    basic: bool = False
    reader: str = ""


class Settings(BaseModel):
    """Base of all groups of settings. A field has a type, a description, bounds and a default; nothing is executed."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, protected_namespaces=(), allow_inf_nan=False
    )

    former: ClassVar[Mapping[str, Any]] = {}
    """What fields were, where runs from before there were such fields go on."""

    @classmethod
    def read(cls, given: Mapping[str, Any], source: str = "") -> Self:
        """Settings from a mapping (of a file or a command line; strings are turned into the fields' types).

        Raises ConfigError with every mistake: unknown keys with the nearest known ones, wrong types, out of range.
        """
        given = {key: paths_as_texts(value) for key, value in with_current_keys(given).items()}
        unfit = [f"{key}: {what}" for key, value in given.items() if (what := unfit_text(value))]
        if unfit:
            raise ConfigError(unfit, source=source)
        return cls.checked(given, source)

    @classmethod
    def checked(cls, given: Mapping[str, Any], source: str = "") -> Self:
        """Settings from a mapping, as `read` makes them, whose texts may be of any length. Raises ConfigError."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            mistakes: list[str] = []
            near: list[str] = []
            for detail in error.errors():
                key = ".".join(str(part) for part in detail["loc"] if not str(part).startswith("function-"))
                if detail["type"] == "extra_forbidden":
                    what, names = unknown_key(key, detail["input"], list(cls.model_fields), "file" if source else "")
                    near += names
                    mistakes.append(f"{shortened(key)}: {what}")
                else:
                    what = detail["msg"].removeprefix("Value error, ")
                    what = what[:1].lower() + what[1:]  # of several fields it names them itself
                    mistakes.append(f"{key}: {what} (got {shortened(repr(detail['input']))})" if key else what)
            raise ConfigError(mistakes, source=source, near=near) from None

    @classmethod
    def facts(cls) -> dict[str, Facts]:
        """The facts of each field: those that it states, or that the same one of a base states; of one without, as most
        of data, that it is fixed and decides numbers."""
        facts = dict.fromkeys(cls.model_fields, Facts())
        for base in reversed([base for base in cls.__mro__ if issubclass(base, Settings)]):
            for name, field in base.model_fields.items():
                facts[name] = next((fact for fact in field.metadata if isinstance(fact, Facts)), facts[name])
        return facts

    @classmethod
    def of_run(cls, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """What a run recorded, with what fields were that it does not know."""
        return {**cls.former, **recorded}

    def need(self) -> None:
        """Raise MissingExtra for an optional package that is not here and that these settings ask for."""

    def plain(self) -> dict[str, Any]:
        """As plain data that `read` takes back."""
        return self.model_dump(mode="json")


def read_back(kind: Any, data: Any, name: str) -> Any:
    """Plain data as a record, by the types of its fields. Raises Malformed with the first mistake, and its place:
    'results.outcomes[3].score: input should be a valid number (got 'low')'."""
    try:
        return _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        what, value = first["msg"][:1].lower() + first["msg"][1:], first["input"]
        got = f" (got {shortened(repr(value))})" if first["type"] != "missing" else ""
        raise Malformed(f"{name}{place}: {what}{got}") from None


@cache
def _adapter(kind: Any) -> Any:
    return TypeAdapter(kind)


def with_current_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose keys and values are spelled as now. Raises ConfigError where a key is given in both spellings."""
    twice = [former for former, key in FORMER_KEYS.items() if former in given and key in given]
    if twice:
        raise ConfigError([f"{former}: is spelled {FORMER_KEYS[former]} now; give one of the two" for former in twice])
    former = {key: FORMER_VALUES[key].get(str(value), value) for key, value in given.items() if key in FORMER_VALUES}
    return {FORMER_KEYS.get(key, key): value for key, value in {**given, **former}.items()}


def paths_as_texts(value: Any) -> Any:
    """The same, with the names of files, which Python has a type for, as texts."""
    if isinstance(value, (list, tuple)):
        return [paths_as_texts(one) for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def unfit_text(value: Any) -> str:
    """What is wrong with a value of a setting, as text: too long, with a NUL in it, or no UTF-8; "" for nothing."""
    for text in (one for one in several(value) if isinstance(one, str)):
        if "\0" in text:
            return f"holds a zero character (got {shortened(text)!r})"
        if wrong := not_utf8(text):
            return wrong
        if len(text) > MAX_CHARACTERS:
            return f"has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read (got {shortened(text)!r})"
    return ""
