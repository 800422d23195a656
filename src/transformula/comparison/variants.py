"""What is compared: names of the gallery, formulas, model files, runs' folders, and keys that `vary` changes, each read
into a `Variant` with the whole text of its model and a name of its own.

    pre-norm                         a name of the gallery
    x = x + mlp(norm(x))             a formula
    mine: x = x + mlp(norm(x))       with a name
    model.yaml, runs/first           a model file; a run's folder, of which the text alone is read
    {"model": "post-norm", "warmup": 0, "name": "cold"}      in Python: with keys of its own

A formula is a layer and no more: the rest of its model it takes from the base, see `language/inherited.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import regex

from ..api.configuration import settings_fields
from ..api.inheriting import completed
from ..api.model import Model
from ..api.plan import OF_MODELS, resolve
from ..api.reading import TASK, check_model, known_words, mentions, read_model
from ..api.unread import refuse, unread
from ..data.unicode_words import SIGNS
from ..errors import ConfigError, InputError, did_you_mean, join_words, nearest, setting, shortened
from ..language.messages import FormulaError
from ..language.model_text import FREE_NUMBERS, ModelText
from ..language.model_writing import write_text
from ..language.source import Source
from ..plain import several
from ..training.settings import settings_with
from .records import Variant
from .settings import ComparisonSettings, for_all
from .vary import Levels, factor_of, grid, read_rows

NAMED = regex.compile(rf"\s*([\p{{L}}\p{{N}}][{SIGNS} .+-]{{0,39}}?)\s*:\s+(\S.*)", regex.S)  # "mine: x = x + ..."
UNMARKED = regex.compile(rf"\s*([\p{{L}}\p{{N}}][{SIGNS}.+-]*) +([\p{{L}}_]\w*\s*=\s.*)", regex.S)  # "mine x = x + ..."
SIGNS_OF_FORMULA = re.compile(r"[=();]|\n")
MAX_NAME_CHARACTERS = 60


@dataclass(frozen=True)
class TypedVariant:
    """A variant as it was typed, and the text that this names. `kept`: a file's, with its own size; `formula`: it was
    typed as one; `notes`: what it took from others, in sentences that its name begins."""

    name: str
    typed: str
    text: ModelText
    settings: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Any] = field(default_factory=dict)
    kept: bool = False
    formula: bool = False
    notes: tuple[str, ...] = ()


def read_variants(
    typed: Sequence[Any], settings: ComparisonSettings, given: Mapping[str, Any], use: Sequence[str] = ()
) -> list[Variant]:
    """The variants, the base first, with all keys in their texts that `given` holds for all of them.

    given  keys of a run's configuration that go for all variants: task, data, depth, ...

    A wiring of the gallery and a formula lose their own size (depth, width, heads, context) and vocabulary, which the
    plan sets alike for all, and have the least of their rates of dropout, so that none is regularized more than others;
    a model file and a run's text keep all that they say but the vocabulary, which is the data's. A formula takes from
    the base what it does not state.

    Raises ConfigError, FormulaError, InputError.
    """
    factors = read_rows(settings.vary)
    refuse_for_all("vary", factors)
    points = grid(factors, settings.part) if factors else [{}]
    models = [read_typed(one, given, use) for one in several(typed)]
    for model in models:
        refuse_for_all(model.name, model.settings)
    if not models:
        raise InputError("no model: give two or more of formulas, model files, folders and names of the gallery")
    models = with_least_dropout(inheriting(models, settings.base, given, use), given)
    if len(models) * len(points) < 2:
        remedy = f"give another model, or values of a key: {setting('vary', 'optimizer=adamw,muon')}"
        raise InputError(f"one variant, and nothing to compare it with; {remedy}")
    fields = settings_fields(str(given.get("task", TASK))) | {*OF_MODELS}
    crossed = [with_levels(model, levels, len(models) > 1, use, fields) for model in models for levels in points]
    named = with_names(crossed)
    read = [as_variant(variant, taken_by(variant, named, given), use) for variant in named]
    unread_by_all = set.intersection(*({*reasons} for _, reasons in read))
    for variant, (_, reasons) in zip(named, read, strict=True):
        refuse({f"{variant.name}: {key}": reason for key, reason in reasons.items() if key in variant.settings})
    refuse({key: reason for key, reason in read[0][1].items() if key in unread_by_all})
    return base_first([variant for variant, _ in read], settings.base)


def refuse_for_all(who: str, keys: Iterable[str]) -> None:
    """Raise ConfigError for keys of a variant, or of those that are varied, which go for all of them."""
    if mistakes := [f"{who}: {key} cannot differ: {reason}" for key in keys if (reason := for_all(key))]:
        raise ConfigError(mistakes)


def read_typed(typed: Any, given: Mapping[str, Any], use: Sequence[str]) -> TypedVariant:
    """What one argument names."""
    own, name = dict[str, Any](), ""
    if isinstance(typed, Mapping):
        own = dict(typed)
        name, typed = str(own.pop("name", "")), own.pop("model", None)
    elif isinstance(typed, str) and (match := NAMED.fullmatch(typed)):
        name, typed = match[1], match[2]
    elif isinstance(typed, str) and (match := UNMARKED.fullmatch(typed)):
        raise InputError(f"{shortened(typed)}: a colon stands between a name and its formula: '{match[1]}: {match[2]}'")
    if isinstance(typed, Model):
        text, typed_text, kept = typed.architecture.text, typed.architecture.name or "a formula", True
    else:
        text = read_model(typed, use=use)
        typed_text, kept = str(typed), is_file(str(typed))
    free, stated, notes = {"vocab"} if kept else set(FREE_NUMBERS), {*given, *own}, tuple[str, ...]()
    if not kept and (sizes := {key: size for key, size in text.sizes_of_its_width().items() if key not in stated}):
        options = join_words([setting(key, "NUMBER", number=True) for key in sizes], "and")
        has = join_words([f"{key} {size}" for key, size in sizes.items()], "and")
        notes = (f"has {has}, as its text states for a width of {text.numbers['width'].text}; to change it, {options}",)
    text = replace(text.without_numbers(free - stated), about={})
    formula = bool(SIGNS_OF_FORMULA.search(typed_text)) and not kept and not typed_text.startswith("language:")
    name = name or name_of(typed_text, text)
    return TypedVariant(name, typed_text, text, own, kept=kept, formula=formula, notes=notes)


def inheriting(
    models: Sequence[TypedVariant], base: str | None, given: Mapping[str, Any], use: Sequence[str]
) -> list[TypedVariant]:
    """The variants, of which formulas take from the base what they, and the keys beside them, do not state."""
    names, task = [model.name for model in with_names(models)], str(given.get("task", TASK))
    place = next((n for n, name in enumerate(names) if base == name or str(base).startswith(f"{name}, ")), 0)

    def inherit(model: TypedVariant) -> TypedVariant:
        other, stated = models[place], {**given, **model.settings}
        found = completed(model.text, other.text, other.settings, stated, task, use)
        return replace(model, text=found.text, notes=found.notes(names[place]))

    return [inherit(model) if model.formula and n != place else model for n, model in enumerate(models)]


def with_least_dropout(variants: Sequence[TypedVariant], given: Mapping[str, Any]) -> list[TypedVariant]:
    """Variants whose wirings have one rate of dropout, the least of all; a wiring that states none has 0."""
    stated = [variant.text.numbers.get("dropout") for variant in variants if not variant.kept]
    if "dropout" in given or not any(stated):
        return list(variants)
    least = min((source.text if source else "0" for source in stated), key=float)

    def lowered(variant: TypedVariant) -> TypedVariant:
        rate = variant.text.numbers.get("dropout")
        if variant.kept or rate is None or rate.text == least or "dropout" in variant.settings:
            return variant
        note = f"has dropout {least} in place of {rate.text}, the least rate of all wirings"
        return replace(variant, text=variant.text.override({"dropout": least}), notes=(*variant.notes, note))

    return [*map(lowered, variants)]


def is_file(typed: str) -> bool:
    """Whether a model is a file's or a folder's, rather than a formula or a name of the gallery."""
    return not SIGNS_OF_FORMULA.search(typed) and (typed.endswith((".yaml", ".yml")) or Path(typed).is_dir())


def name_of(typed: str, text: ModelText) -> str:
    """A name for a variant that was given none: the gallery's, a file's, a folder's; "formula" for a formula."""
    if SIGNS_OF_FORMULA.search(typed):
        return text.name or "formula"
    return Path(typed).stem if is_file(typed) else typed


def with_levels(
    variant: TypedVariant, levels: Levels, several: bool, use: Sequence[str], fields: Collection[str]
) -> TypedVariant:
    """A variant with the values that `vary` gives it.

    several  models: its name stands before those values
    fields   keys of a run's configuration. One that is also a word, as `dropout` is, changes the word's meaning where
             its value is a word or a call of one, and else the setting
    """
    if not levels:
        return variant
    words, text = known_words(use), variant.text
    own = dict(variant.settings)
    for key, value in levels.items():
        meaning = None
        if (key in words or key in text.words) and key not in text.numbers:
            meaning = word_meaning(key, value, list(words))
            if meaning is None and key not in fields:
                raise no_word(key, value, list(words))
        if meaning is not None:
            text = replace(text, words={**text.words, key: Source(f"definition {key}", meaning)})
        elif key != "lr" or factor_of(value) is None:  # else an arm of each size has its own: its default times that
            own[key] = value
    names = [variant.name] if several else []
    names += [f"{key}={'none' if value is None else value}" for key, value in levels.items()]
    return replace(variant, name=", ".join(names), text=text, settings=own, levels=levels)


def word_meaning(key: str, value: Any, words: Sequence[str]) -> str | None:
    """What a word means in the place of its own: `rms` for `norm` is "x = rmsnorm(x)". None for what is no word."""
    name = str(value)
    if "(" in name:
        return f"x = {name}"
    for word in (name, f"{name}{key}", f"{name}_{key}"):
        if word in words and word != key:
            return f"x = {word}(x)"
    return None


def no_word(key: str, value: Any, words: Sequence[str]) -> ConfigError:
    """The error for a word's meaning that is no word, with those that may be meant."""
    name = str(value)
    near = list(dict.fromkeys(n for typed in (f"{name}{key}", name) for n in nearest(typed, words) if n != key))[:3]
    remedy = f"{did_you_mean(near)} a word or a call of one, such as {key}=rmsnorm(x, eps=1e-6)"
    return ConfigError(f"vary: {key} cannot be {shortened(name)!r}: it is no word;{remedy}", near=near)


def with_names(variants: Sequence[TypedVariant]) -> list[TypedVariant]:
    """The variants with names that are short, and differ: the second of a name is "pre-norm (2)"; several formulas are
    "formula 1", "formula 2"."""
    formulas = [variant for variant in variants if variant.name == "formula"]
    taken: set[str] = set()
    named = []
    for variant in variants:
        name = shortened(" ".join(variant.name.split()), MAX_NAME_CHARACTERS)
        if len(formulas) > 1 and variant.name == "formula":
            name = f"formula {formulas.index(variant) + 1}"
        counted = (name if number == 1 else f"{name} ({number})" for number in itertools.count(1))
        name = next(unique for unique in counted if unique not in taken)
        taken.add(name)
        named.append(replace(variant, name=name))
    return named


def taken_by(variant: TypedVariant, all_of: Sequence[TypedVariant], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a variant takes of those given for all: a number such as `rank` or `dropout` is for the texts that
    read it, an option that an optimizer brings for those with it; where none does, all take it, and the first says that
    it is unknown."""

    def brought(one: TypedVariant) -> set[str]:
        return {*settings_with(one.settings.get("optimizer", given.get("optimizer"))).model_fields}

    read = {key for key in given if any(mentions(one.text, key) for one in all_of)}
    read |= set().union(*map(brought, all_of)) - brought(variant)
    return {key: value for key, value in given.items() if key not in read or mentions(variant.text, key)}


def as_variant(
    variant: TypedVariant, given: Mapping[str, Any], use: Sequence[str]
) -> tuple[Variant, dict[str, str]]:
    """The variant with the whole text of its model; and its settings that nothing reads, each with the reason. Raises
    an error that names the variant."""
    task = str(given.get("task", TASK))
    keys = {key: value for key, value in {**given, **variant.settings}.items() if key not in ("task", "use")}
    fields = settings_fields(task, keys.get("optimizer"))  # what is none of them may be taken out of the text by None
    keys = {key: value for key, value in keys.items() if value is not None or key not in fields}
    try:
        text, data, training = resolve(variant.text, keys, task=task)
        architecture = check_model(text, use=use)
    except (ConfigError, FormulaError):  # which say themselves where they are
        raise
    except InputError as error:
        raise InputError(f"{variant.name}: {error}", near=error.near) from None
    resolved = {**data.plain(), **training.plain()}
    own = {key: resolved[key] for key in variant.settings if key in resolved}
    read = Variant(variant.name, variant.typed, write_text(text), own, dict(variant.levels), variant.notes)
    return read, unread(data, training, architecture, [key for key, value in keys.items() if value is not None])


def base_first(variants: Sequence[Variant], base: str | None) -> list[Variant]:
    """The variants, of which the one called `base` comes first. Raises InputError where there is none."""
    names = [variant.name for variant in variants]
    if base is None or base == names[0]:
        return list(variants)
    if base not in names:
        near = nearest(base, names)
        raise InputError(
            f"{setting('base', shortened(base))}: no variant is called that;{did_you_mean(near)} there are:"
            f" {', '.join(names)}",
            near=near,
        )
    first = names.index(base)
    return [variants[first], *variants[:first], *variants[first + 1 :]]
