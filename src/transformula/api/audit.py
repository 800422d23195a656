"""In what two runs differ that decides their numbers: their models and their settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ..analysis.audit import NONE, NamedDifference, model_differences, size_differences
from ..errors import InputError
from ..language.model_text import FREE_NUMBERS, ModelText
from ..settings import Settings
from ..training.settings import LIMITS
from .identity import OF_THE_RUN
from .plan import Plan
from .reading import check_model


def run_differences(run: Plan, base: Plan, text: ModelText, numbers: Mapping[str, Any]) -> list[NamedDifference]:
    """All in which a run differs from a base, but its length, its learning rate, and its seed.

    text     the run's model as it was stated: numbers of size that it lacks are the base's
    numbers  of the data, such as vocab

    Where the text states a size of its own, its equations are held against the base's in the base's size, since factors
    may read the depth.
    """
    other = base.architecture
    sizes = {key: int(n) for key, n in other.numbers.items() if key in FREE_NUMBERS and key != "vocab"}
    lacking = {key: number for key, number in sizes.items() if key not in text.stated_numbers}
    own = check_model(text, {**numbers, **lacking}, run.use)
    alike = own
    with suppress(InputError):
        alike = check_model(text, {**numbers, **sizes}, run.use)
    models = model_differences(alike, other)
    models += [size for size in size_differences(own, other) if size not in models]
    return [*models, *of_settings(run.data, base.data), *of_settings(run.training, base.training), *of_start(run, base)]


def of_settings(own: Settings, other: Settings) -> Iterator[NamedDifference]:
    """The settings that both have, that decide numbers, and that differ."""
    facts, values, base = own.facts(), own.plain(), other.plain()
    for key in values:
        if key in base and values[key] != base[key] and facts[key].numbers and key not in (*OF_THE_RUN, *LIMITS):
            yield NamedDifference(key, said(values[key]), said(base[key]))


def of_start(run: Plan, base: Plan) -> Iterator[NamedDifference]:
    """Where the first weights come from."""
    folders = [None if plan.start is None else str(plan.start.folder) for plan in (run, base)]
    if folders[0] != folders[1]:
        yield NamedDifference("init_from", *map(said, folders))


def said(value: Any) -> str:
    """A setting's value in words."""
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)
