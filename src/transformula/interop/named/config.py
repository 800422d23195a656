"""config.json to the constants of a named model, and back. A key that is not understood is refused, never ignored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ...errors import CheckpointError, did_you_mean, nearest
from ...language.messages import FormulaError
from ...language.model_text import NAME
from ...language.numbers import is_number
from ...structured import load_json
from . import FILE
from .entries import NamedModel, common, named_for, named_model, names
from .expressions import compute, without_repetitions
from .sentences import gives_vectors, has_steps, sentence_keys

ABSENT: Any = object()
LENGTH = "len"  # in the place of a table: the constant is how many entries the value has


@dataclass(frozen=True)
class Key:
    """A row of `config`.

    paths   keys that mean the same, `a.b` of nested ones; the first is written
    name    the constant
    table   by which their value is translated: one of `common.yaml`, or LENGTH; "" for none
    absent  the constant where the key is absent, an expression; None: it must be there
    null    the same where the value is null; None: as where it is absent
    either  of `a/b.c`, or `d.a/b.c`: mappings that mean the same, of which one is there
    count   of `name * count`: the constant that says how many entries the list has, which is then kept as it is; ""
            for a list of one value a layer
    """

    paths: tuple[str, ...]
    name: str
    table: str = ""
    absent: str | None = None
    null: str | None = None
    either: tuple[str, ...] = ()
    count: str = ""

    @classmethod
    def read(cls, keys: str, said: Any) -> Self:
        target, _, defaults = str(said).partition(" = ")
        absent, _, null = (part.strip() for part in defaults.partition(" | "))
        target, _, count = (part.strip() for part in target.partition(" * "))
        match = re.fullmatch(r"(\w+)\[(\w+)\]", target)
        table, name = (match[1], match[2]) if match else ("", target)
        paths, either = list[str](), list[str]()
        for path in map(str.strip, keys.split("|")):
            parts = path.split(".")
            at = next((n for n, part in enumerate(parts) if "/" in part), 0)
            names = [".".join([*parts[:at], one]) for one in parts[at].split("/")]
            paths += [".".join([name, *parts[at + 1 :]]) for name in names]
            either += names if "/" in path else ()
        return cls(tuple(paths), name, table, absent or None, null or None, tuple(dict.fromkeys(either)), count)

    @property
    def fraction(self) -> bool:
        """Whether the value is written as a float, as the default is: some programs ask for the type."""
        return self.absent is not None and re.fullmatch(r"\d+\.\d+|[\d.]+e-?\d+", self.absent) is not None


def keys_of(model: NamedModel) -> list[Key]:
    return [Key.read(keys, said) for keys, said in model.config.items()]


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder. Raises CheckpointError where it is missing or damaged, and for what is no plain
    model: quantized weights."""
    path = folder / FILE
    try:
        config = load_json(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: the file is missing; copy the folder again from where it was made") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); copy the folder again") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: expected a mapping of keys to values")
    for name, value in config.items():  # json has no such numbers, but Python's reader takes them
        if isinstance(value, float) and not math.isfinite(value):
            raise CheckpointError(f"{path}: {name} is {value}: expected a finite number; copy the folder again")
    if config.get("quantization_config"):
        what = f"{path}: quantization_config: the weights are quantized, and no unpacking of them is known here"
        raise CheckpointError(f"{what}; use the folder of the unquantized model, or dequantize it where it was made")
    return config


def model_of_folder(folder: Path) -> tuple[NamedModel, dict[str, Any]]:
    """The named model of a folder, and its config.json. One with the files of sentence-transformers gives vectors,
    whatever class its config.json names, since that program opens it without its output; but where the text has no form
    for what they say, it is of that class. Raises CheckpointError."""
    config = read_config(folder)
    model = named_for(folder / FILE, config)
    if gives_vectors(model):
        return model, {**config, **sentence_keys(folder)}
    own = (other for other in map(named_model, names()) if config["model_type"] in other.model_type)
    if has_steps(folder) and (vectors := next(filter(gives_vectors, own), None)):
        with suppress(CheckpointError):
            return vectors, {**config, **sentence_keys(folder)}
    return model, config


def look(config: Mapping[str, Any], path: str) -> Any:
    """The value at `a.b`, ABSENT where there is none."""
    value: Any = config
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return ABSENT
        value = value[key]
    return value


def put(config: dict[str, Any], path: str, value: Any) -> None:
    *inside, last = path.split(".")
    for key in inside:
        if not isinstance(config.get(key), dict):
            config[key] = {}
        config = config[key]
    config[last] = value


def short_json(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class ConfigReader:
    """Reads the constants of a named model from a config.json. `path` is named in errors."""

    def __init__(self, model: NamedModel, config: Mapping[str, Any], path: Path) -> None:
        replaced = {key: config[other] for other, key in model.instead.items() if config.get(other) is not None}
        self.model, self.config, self.path = model, {**config, **replaced}, path
        self.constants: dict[str, Any] = {}
        self.known = {"model_type", *common().unused, *model.unused, *model.instead}

    def read(self) -> dict[str, Any]:
        """Numbers, flags, strings and lists (tuples) by name. Raises CheckpointError that names the key, its value and
        what was expected, for every key that would change the model, or might."""
        waiting = []
        said = {key.name for key in keys_of(self.model)}
        self.constants |= {name: values[0] for name, values in self.model.choices.items() if name not in said}
        for key in keys_of(self.model):
            default = self.take(key)
            if default is not None:
                waiting.append((key, default))
        while waiting:
            rest = [(key, default) for key, default in waiting if not self.take_default(key, default)]
            if len(rest) == len(waiting):
                missing = [key.name for key, _ in rest]
                raise CheckpointError(f"{self.model.name}: the defaults of {', '.join(missing)} wait for one another")
            waiting = rest
        for name, text in self.model.derived.items():
            self.constants[name] = self.computed(text)
        self.check_fixed()
        self.check_must()
        self.check_known()
        return self.constants

    def wrong(self, key: str, value: Any, expected: str) -> CheckpointError:
        state = "is missing" if value is ABSENT else f"is {short_json(value)}"
        return CheckpointError(f"{self.path}: {key} {state}; {expected}")

    def take(self, key: Key) -> str | None:
        """Take the value of a key; the expression of its default where it has none."""
        self.known.update(key.paths)
        mappings = {name: value for name in key.either if (value := look(self.config, name)) is not ABSENT and value}
        if len(mappings) > 1:
            first, second, *_ = mappings
            one = short_json(mappings[first])
            raise self.wrong(
                second,
                mappings[second],
                f"{first}, which means the same, is {one}: expected one of both",
            )
        said = {path: value for path in key.paths if (value := look(self.config, path)) is not ABSENT}
        values = {path: value for path, value in said.items() if value is not None}
        if not values:
            default = (key.null or key.absent) if said else key.absent
            if default is None:
                state = None if said else ABSENT
                raise self.wrong(key.paths[0], state, f"{self.model.name} needs it")
            return default
        path, value = next(iter(values.items()))
        for other, another in values.items():
            if another != value:
                raise self.wrong(other, another, f"{path}, which means the same, is {short_json(value)}")
        self.assign(key, path, self.translated(key, path, value))
        return None

    def translated(self, key: Key, path: str, value: Any) -> Any:
        """Our constant for their value."""
        if is_number(value) and value == 0 and (key.null == "0" or key.name in common().not_zero):
            raise self.wrong(path, value, "expected a number above 0" + (", or null for none" if key.null else ""))
        if key.table == LENGTH:
            return len(value)
        if key.count and not (isinstance(value, list) and value):
            raise self.wrong(path, value, "expected a list")
        if isinstance(value, list):
            plain = [self.plain(key, path, one) for one in value]
            return tuple(plain) if key.count else without_repetitions(plain)
        return self.plain(key, path, value)

    def plain(self, key: Key, path: str, value: Any) -> Any:
        if key.table:
            table = common().tables[key.table]
            value = str(value).lower() if isinstance(value, bool) else value  # a flag beside names
            if not isinstance(value, str) or value not in table:
                raise self.wrong(path, value, f"expected one of {', '.join(table)}")
            return table[value]
        if isinstance(value, (bool, int, float)) or (isinstance(value, str) and NAME.match(value)):
            return value
        raise self.wrong(path, value, "expected a number, a flag or a name")

    def take_default(self, key: Key, default: str) -> bool:
        try:
            value = self.computed(default)
        except KeyError:
            return False
        self.assign(key, key.paths[0], value, "is absent, which means")
        return True

    def assign(self, key: Key, path: str, value: Any, state: str = "means") -> None:
        """Set the constant of a key, and the number of its entries."""
        own = f"{self.path}: {path} {state} {value!r}"
        before = self.constants.setdefault(key.name, value)
        if before != value or isinstance(before, bool) is not isinstance(value, bool):
            what = f"{own}, where another key says {before!r}"
            raise CheckpointError(f"{what}; {self.model.name} has one value for both")
        if key.count and self.constants.setdefault(key.count, len(value)) != len(value):
            other = next(one.paths[0] for one in keys_of(self.model) if one.count == key.count)
            what = f"{own}, {len(value)} values, where {other} has {self.constants[key.count]}"
            raise CheckpointError(f"{what}; {self.model.name} has as many of both")

    def check_fixed(self) -> None:
        for path, expected in self.model.fixed.items():
            needed = path.endswith("!")  # where the key is absent the model is another
            path = path.rstrip("!")
            self.known.add(path)
            value, choices = look(self.config, path), allowed_values(expected, self.constants)
            if value is ABSENT or value is None:
                if not needed:
                    continue
            elif (tuple(value) if isinstance(value, list) else value) in choices:
                continue
            words = f"expected {short_json(choices[0])}" if choices else "expected that the key is absent"
            if is_computed(expected) and (state := self.state(expected)):
                words += f", where {state}"
            raise self.wrong(path, value, f"{words}, all that the text of {self.model.name} says")

    def check_must(self) -> None:
        for test, why in self.model.must.items():
            if not self.computed(test):
                raise CheckpointError(f"{self.path}: {self.state(test)}; {why}")

    def computed(self, text: Any) -> Any:
        """The value of an expression. Raises CheckpointError, with the keys that it reads, where it has none."""
        try:
            return compute(text, self.constants)
        except (FormulaError, TypeError, ZeroDivisionError) as error:  # half a layer; an entry of an empty list
            what = f"{self.path}: {self.state(text)}; of it {self.model.name} makes `{text}`"
            raise CheckpointError(f"{what}: {str(error).splitlines()[0]}; expected sizes of a model") from None

    def state(self, text: str) -> str:
        """The keys that an expression reads, or that constants which it reads follow from, with their values."""
        names = set[str]()
        texts = [text]
        while texts:
            new = set(re.findall(r"[A-Za-z_]\w*", texts.pop())) - names
            names |= new
            texts += [str(self.model.derived[name]) for name in new if name in self.model.derived]
        read = [key for key in keys_of(self.model) if names & {key.name, key.count}]
        values = {path: look(self.config, path) for key in read for path in key.paths[:1]}
        return ", ".join(f"{k} is {'absent' if v is ABSENT else short_json(v)}" for k, v in values.items())

    def check_known(self) -> None:
        for path, value in leaves(self.config):
            known = any(path == known or path.startswith(f"{known}.") for known in self.known)
            if not known and not {*path.split(".")} & {*common().unused}:  # configs within a config have them, too
                near = nearest(path, self.known)
                what = f"{self.path}: {path} = {short_json(value)} is no key that {self.model.name} knows"
                expected = f"{did_you_mean(near)} expected a folder without it"
                raise CheckpointError(f"{what}, and might change the model;{expected}", near=near)


def is_computed(expected: Any) -> bool:
    """Whether what a fixed key must be is an expression of constants."""
    return isinstance(expected, str) and expected.startswith("= ")


def allowed_values(expected: Any, constants: Mapping[str, Any]) -> list[Any]:
    """What a fixed key may be: a value, one of several, or `= expression`."""
    if is_computed(expected):
        return [compute(expected[2:], constants)]
    choices = expected if isinstance(expected, list) else [expected]
    return [tuple(choice) if isinstance(choice, list) else choice for choice in choices]


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All keys and values that are not null, nested keys as `a.b`."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def constants_of(model: NamedModel, config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The constants that a config.json gives a named model; see `ConfigReader.read`. Raises CheckpointError."""
    try:
        return ConfigReader(model, config, path).read()
    except FormulaError as error:
        what = f"{path}: its numbers make no sizes of {model.name}: {str(error).splitlines()[0]}"
        raise CheckpointError(f"{what}; compare it with the folder that it was made from") from None


def config_of(model: NamedModel, constants: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The config.json that gives these constants. `kept`: one of which all else stays, and every value that means the
    same already."""
    architectures = list(model.architectures[:1])
    config: dict[str, Any] = json.loads(json.dumps(kept or {"architectures": architectures}))
    config.setdefault("model_type", model.model_type[0])
    for key in keys_of(model):
        value = constants[key.name]
        path = next((p for p in key.paths if look(config, p) not in (ABSENT, None)), key.paths[0])
        before = look(config, path)
        if before is not ABSENT and before is not None and same_meaning(key, before, value):
            continue
        if before is None and compute(key.null or key.absent, constants) == value:
            continue
        if kept and before is ABSENT and key.absent and compute(key.absent, constants) == value:
            continue
        put(config, path, their_value(key, value, constants))
    for path, expected in model.fixed.items():
        choices, path = allowed_values(expected, constants), path.rstrip("!")
        if choices and look(config, path) is ABSENT and (not kept or path.endswith("!")):
            put(config, path, choices[0])
    return config


def same_meaning(key: Key, before: Any, value: Any) -> bool:
    """Whether their value, as it stands, gives this constant."""
    if key.table == LENGTH:
        return bool(len(before) == value)
    table = common().tables[key.table] if key.table else None
    ours = [one if table is None else table.get(one) for one in (before if isinstance(before, list) else [before])]
    expected = value if isinstance(before, list) else (value,)
    return (tuple(ours) if key.count else without_repetitions(ours)) == expected


def their_value(key: Key, value: Any, constants: Mapping[str, Any]) -> Any:
    """Their value for a constant."""
    if key.null is not None and not isinstance(value, bool) and value == compute(key.null, constants):
        return None
    if key.table == LENGTH:
        return {str(n): f"LABEL_{n}" for n in range(value)}
    if isinstance(value, tuple):
        return [their_value(key, value[n % len(value)], constants) for n in range(constants[key.count or "depth"])]
    if key.table:
        return next(name for name, ours in common().tables[key.table].items() if ours == value)
    return float(value) if key.fraction else value
