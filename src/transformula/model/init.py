"""Initial values: each word's own, then the `init` hook's, then what `after_step` makes of them.

    init:
      "*.weight": 0.02
      "*.attention.output.weight|*.mlp.down.weight": 0.02 / sqrt(2 * depth)
      "*.value.*|*.output.*": gain sqrt(log(2 * depth))
      "*.decay.bias": log(c + 1)

Patterns are of parameters' names (`*`, `?`, `[...]`), several separated by `|`; only those of matrices (two or more
dimensions) count. The value is a standard deviation, or `gain G`: Xavier's, G sqrt(2 / (fan_in + fan_out)). A value
that reads the channel c, from 0, is that of each channel, and only the names of vectors (one dimension) count. The last
match wins.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from ..errors import InputError, did_you_mean, nearest
from ..language.graph import Architecture
from ..language.messages import unknown
from ..language.numbers import as_number, evaluate
from ..language.parser import parse_expression
from ..language.source import Source
from ..language.syntax import Name, Node, walk
from ..words.word import fill_normal, fill_word
from .hook import Policy, hook_of


def generator_of(seed: int, *name: str) -> torch.Generator:
    """The random numbers of one parameter: they depend on the seed and its full name, on nothing else of the model."""
    digest = hashlib.blake2b(f"{seed} {'.'.join(name)}".encode(), digest_size=8).digest()
    return torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "little") >> 1)


def fill_model(model: nn.Module, architecture: Architecture, seed: int) -> None:
    """Give every parameter its initial values, by its word's rule or by the `init` hook."""
    rules = read_rules(model, architecture)
    for path, module in model.named_modules():
        generator_for = partial(generator_of, seed, path)
        if any(p.device.type == "meta" for p in module.parameters()):
            continue
        if isinstance(module, Policy):
            module.initial_values(generator_for)
        elif hasattr(module, "record"):
            fill_word(module, generator_for)
    for name, rule in rules.items():
        if isinstance(rule, list):
            with torch.no_grad():
                model.get_parameter(name).copy_(torch.tensor(rule, dtype=torch.float64))
        else:
            fill_normal(model.get_parameter(name), generator_of(seed, name), rule)
    project = hook_of(architecture, "after_step")
    if project is not None and not any(p.device.type == "meta" for p in model.parameters()):
        project(model)


def read_rules(model: nn.Module, architecture: Architecture) -> dict[str, float | list[float]]:
    """The `init` hook: name of a parameter -> standard deviation of a matrix, or the values of a vector. Raises
    InputError, naming the pattern."""
    hook = architecture.hooks.get("init", {})
    if not isinstance(hook, Mapping):
        what = "`init` must be a mapping of patterns of parameters' names to standard deviations"
        raise InputError(f'{what}, such as {{"*.weight": 0.02}}')
    numbers, sizes = architecture.numbers, {name: p.shape for name, p in model.named_parameters()}
    rules: dict[str, float | list[float]] = {}
    for pattern, given in hook.items():
        source = given if isinstance(given, Source) else Source(f"init, {pattern}", str(given))
        text = source.text.strip()
        xavier = text.startswith("gain ")
        if xavier:
            source = Source(source.name, text.removeprefix("gain "), source.file, source.first_line, source.indent + 5)
        node = parse_expression(source)
        reads_c = any(isinstance(part, Name) and part.name == "c" for part in walk(node))
        by_channel = reads_c and not xavier and "c" not in numbers
        parts = [part.strip() for part in str(pattern).split("|")]
        names = list(dict.fromkeys(name for part in parts for name in matches(part, sizes, by_channel)))
        if by_channel:
            channels = range(max(sizes[name][0] for name in names))
            longest = [signed_value(node, {**numbers, "c": channel}) for channel in channels]
            rules |= {name: longest[: sizes[name][0]] for name in names}
            continue
        value = signed_value(node, numbers)
        if value < 0:
            raise InputError(f"{source.name}: a standard deviation is not negative; this is {value:g}")
        for name in names:
            rules[name] = float(value * (2 / sum(fans(model, name))) ** 0.5) if xavier else value
    return rules


def matches(pattern: str, sizes: Mapping[str, torch.Size], by_channel: bool) -> list[str]:
    """The names of matrices, or of vectors (`by_channel`), that a pattern matches. Raises InputError for none."""
    fitting = [name for name, size in sizes.items() if (len(size) == 1 if by_channel else len(size) >= 2)]
    names, kind = fnmatch.filter(fitting, pattern), "vector" if by_channel else "matrix"
    if names:
        return names
    others = fnmatch.filter(sizes, pattern)
    if others:
        what = f"init: the pattern {pattern!r} matches no {kind}, only such as {others[0]}"
        rule = "a value for each channel c is a vector's" if by_channel else "numbers are drawn for matrices"
        raise InputError(f"{what}; {rule}")
    parts = {part for name in fitting for part in name.split(".") if not part.isdigit()}
    unknown_parts = [part for part in pattern.split(".") if part not in parts and not re.search(r"[*?\[]", part)]
    near = [n for part in unknown_parts for n in nearest(part, parts, 1)]
    what = f"init: the pattern {pattern!r} matches nothing: no {kind} of the model has such a name"
    raise InputError(f"{what};{did_you_mean(near)} names are like {', '.join(fitting[:6])}", near=near)


def fans(model: nn.Module, name: str) -> tuple[int, int]:
    """(fan in, fan out) of a matrix: what its module says where it holds several in one tensor, else by its shape."""
    stated: tuple[int, int] | None = getattr(model.get_submodule(name.rpartition(".")[0]), "fans", None)
    matrix = model.get_parameter(name)
    return stated or (matrix[0].numel(), matrix.shape[0])


def signed_value(node: Node, numbers: Mapping[str, Any]) -> float:
    def look(name: Name) -> Any:
        if name.name not in numbers:
            raise unknown("unknown-number", name.place, name.name, [*numbers])
        return numbers[name.name]

    return float(as_number(node, evaluate(node, look)))
