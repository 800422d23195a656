"""Initial values: each word's own, then the `init` hook's, then what `after_step` makes of them.

    init:
      "*.weight": 0.02
      "*.attention.output.weight|*.mlp.down.weight": 0.02 / sqrt(2 * depth)
      "*.value.*|*.output.*": gain sqrt(log(2 * depth))

Patterns are of parameters' names (`*`, `?`, `[...]`), several separated by `|`; only those of matrices (two or more
dimensions) count. The value is a standard deviation, or `gain G`: Xavier's, G sqrt(2 / (fan_in + fan_out)). The last
match wins.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..errors import InputError, did_you_mean, nearest
from ..language.messages import unknown
from ..language.numbers import as_number, evaluate
from ..language.parser import parse_expression
from ..language.source import Source
from ..language.syntax import Name
from ..words.word import fill_normal, fill_word
from .hook import Policy, asked

if TYPE_CHECKING:
    from .transformer import Transformer


def generator_of(seed: int, *name: str) -> torch.Generator:
    """The random numbers of one parameter: they depend on the seed and its full name, on nothing else of the model."""
    digest = hashlib.blake2b(f"{seed} {'.'.join(name)}".encode(), digest_size=8).digest()
    return torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "little") >> 1)


def fill_model(model: Transformer, seed: int) -> None:
    rules = read_rules(model)
    for path, module in model.named_modules():
        generator_for = partial(generator_of, seed, path)
        if any(p.device.type == "meta" for p in module.parameters()):
            continue
        if isinstance(module, Policy):
            module.initial_values(generator_for)
        elif hasattr(module, "record"):
            fill_word(module, generator_for)
    for name, deviation in rules.items():
        fill_normal(model.get_parameter(name), generator_of(seed, name), deviation)
    project = asked(model.architecture, "after_step")
    if project is not None and not any(p.device.type == "meta" for p in model.parameters()):
        project(model)


def read_rules(model: Transformer) -> dict[str, float]:
    """The `init` hook: name of a parameter -> standard deviation. Raises InputError, naming the pattern."""
    hook = model.architecture.hooks.get("init", {})
    if not isinstance(hook, Mapping):
        what = "`init` must be a mapping of patterns of parameters' names to standard deviations"
        raise InputError(f'{what}, such as {{"*.weight": 0.02}}')
    matrices = {name: p for name, p in model.named_parameters() if p.dim() >= 2}
    rules: dict[str, float] = {}
    for pattern, given in hook.items():
        source = given if isinstance(given, Source) else Source(f"init, {pattern}", str(given))
        value, xavier = read_value(source, model.architecture.numbers)
        for part in str(pattern).split("|"):
            names = fnmatch.filter(matrices, part.strip())
            if not names:
                raise nothing_matched(part.strip(), list(matrices), [n for n, _ in model.named_parameters()])
            for name in names:
                rules[name] = float(value * (2 / sum(fans(model, name))) ** 0.5) if xavier else value
    return rules


def fans(model: nn.Module, name: str) -> tuple[int, int]:
    """(fan in, fan out) of a matrix: what its module says where it holds several in one tensor, else by its shape."""
    stated: tuple[int, int] | None = getattr(model.get_submodule(name.rpartition(".")[0]), "fans", None)
    matrix = model.get_parameter(name)
    return stated or (matrix[0].numel(), matrix.shape[0])


def nothing_matched(pattern: str, matrices: list[str], names: list[str]) -> InputError:
    others = fnmatch.filter(names, pattern)
    if others:
        what = f"init: the pattern {pattern!r} matches no matrix, only such as {others[0]}"
        return InputError(f"{what}; numbers are drawn for matrices")
    parts = {part for name in matrices for part in name.split(".") if not part.isdigit()}
    wrong = [part for part in pattern.split(".") if part not in parts and not re.search(r"[*?\[]", part)]
    near = [n for part in wrong for n in nearest(part, parts, 1)]
    what = f"init: the pattern {pattern!r} matches nothing: no matrix of the model has such a name"
    return InputError(f"{what};{did_you_mean(near)} names are like {', '.join(matrices[:6])}", near=near)


def read_value(source: Source, numbers: Mapping[str, Any]) -> tuple[float, bool]:
    """(standard deviation or Xavier's gain, whether it is that gain). Raises FormulaError where it is no number."""
    text = source.text.strip()
    xavier = text.startswith("gain ")
    if xavier:
        source = Source(source.name, text.removeprefix("gain "), source.file, source.first_line, source.indent + 5)
    node = parse_expression(source)

    def look(name: Name) -> Any:
        if name.name not in numbers:
            raise unknown("unknown-number", name.place, name.name, [*numbers])
        return numbers[name.name]

    value = float(as_number(node, evaluate(node, look)))
    if value < 0:
        raise InputError(f"{source.name}: a standard deviation is not negative; this is {value:g}")
    return value, xavier
