"""What is equal for all arms: tokens, parameters, FLOPs or time. The rest is reported beside it, unmatched.

    tokens      all see as many; an arm whose batches differ makes other numbers of steps
    parameters  the hidden sizes of sublayers that the base has not are changed until they agree within 1 %; where
                there are none, or they cannot do it, width (in multiples of the heads), else depth; what the comparison
                varies stays as it is
    flops       an arm whose tokens cost more sees fewer: its steps are changed
    time        the same, by the measured seconds of a step

"Tokens" are what the task counts. Languini Kitchen (2309.11197) has the reasons for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ..analysis.accounting import summary
from ..analysis.hidden_sizes import HIDDEN, changed_hidden_sizes, fitting_hidden_sizes, with_hidden_sizes
from ..analysis.sizes import shape_of
from ..api.reading import check_model
from ..errors import InputError
from ..language.messages import FormulaError
from ..language.model_text import ModelText
from ..language.model_writing import write_text
from .costs import Config, Prepared, model_text, prepare, with_numbers
from .records import Arm, RunCosts
from .settings import Matched

ROUNDED = 0.0005  # a smaller share is told as none
AGREE, NOTED = 0.01, 0.02  # as a share: parameters agree within the first; beyond the second a note says so
MAX_CHANGE = 0.5  # width and depth are changed by at most this share
MAX_CHANGE_ALONE = 0.9  # and the width of a variant whose depth is given by this one: it alone makes up for the depth


def matched_steps(match: Matched, own: RunCosts, base: RunCosts) -> tuple[int, str]:
    """Steps of an arm whose run is to cost what the base's does; and what was changed, in words, "" for nothing: 'steps
    600 to 571: 0.1 % fewer FLOPs than the base'. `own` are its costs with any number of steps."""
    cost, wanted, what = own.tokens / own.steps, float(base.tokens), "tokens"
    if match == "flops":
        cost, wanted, what = own.flops / own.steps, base.flops, "FLOPs"
    elif match == "time" and base.seconds is not None and own.step_seconds is not None:
        cost, wanted, what = own.step_seconds, base.seconds, "time"
    steps = max(1, round(wanted / cost))
    if steps == base.steps:
        return steps, ""
    return steps, f"steps {base.steps:,} to {steps:,}: {difference_in_words(steps * cost / wanted - 1, what)}"


def difference_in_words(share: float, what: str) -> str:
    """'0.6 % fewer parameters'; 'as many parameters' where it rounds to nothing; of time 'less' and 'as much'."""
    less, more, equal = ("less", "more", "as much") if what == "time" else ("fewer", "more", "as many")
    if abs(share) < ROUNDED:
        return f"{equal} {what}"
    return f"{100 * abs(share):.1f} % {less if share < 0 else more} {what}"


def consequences(own: Arm, base: Arm) -> list[str]:
    """What an arm has more or less than the base, and what was matched: '25 % more parameters'."""
    pairs = [
        (what, getattr(own.costs, field) / (getattr(base.costs, field) or 1))
        for what, field in (("parameters", "parameters"), ("FLOPs a token", "flops_per_token"), ("tokens", "tokens"))
    ]
    changed = [difference_in_words(share - 1, what) for what, share in pairs if abs(share - 1) >= ROUNDED]
    return [*changed, *filter(None, [own.adjusted])]


def matched_parameters(config: Config, base_arm: Arm, varied: Collection[str] = ()) -> tuple[dict[str, Any], str]:
    """A configuration whose model has as many parameters as the base's, by the hidden sizes in which they differ, or
    else its width, or else its depth; and what was changed, in words, "" for nothing. `varied`: the numbers that the
    comparison varies, which keep their values."""
    prepared, base = prepare(config), base_arm.costs.parameters
    own = summary(prepared.architecture).totals.parameters
    if abs(own / base - 1) <= AGREE:
        return dict(config), ""
    if HIDDEN not in varied and (found := matched_hidden(config, prepared, base_arm)):
        return found
    changes, count = nearest_size(prepared, base, varied)
    if not changes:
        return dict(config), f"nothing near was found: {difference_in_words(own / base - 1, 'parameters')}"
    numbers = prepared.architecture.numbers
    change = ", ".join(f"{key} {int(numbers[key])} to {value}" for key, value in changes.items())
    short = "" if abs(count / base - 1) <= NOTED else " (nothing nearer was found)"
    return with_numbers(config, changes), f"{change}: {difference_in_words(count / base - 1, 'parameters')}{short}"


def matched_hidden(config: Config, prepared: Prepared, base: Arm) -> tuple[dict[str, Any], str] | None:
    """The same by the hidden sizes of sublayers that the base has not; None where these cannot do it."""

    def parameters(text: ModelText) -> int:
        return summary(check_model(text, prepared.numbers, prepared.plan.use)).totals.parameters

    wanted, text = base.costs.parameters, model_text(config)
    sizes = changed_hidden_sizes(prepared.architecture, prepare(base.config).architecture)
    new = fitting_hidden_sizes(text, sizes, parameters, wanted, AGREE)
    if new is None:
        return None
    changed = with_hidden_sizes(text, new)
    names = dict.fromkeys(f"{place.text.partition('(')[0]} {size} to {new[place]}" for place, size in sizes.items())
    said = f"hidden size of {', '.join(names)}: {difference_in_words(parameters(changed) / wanted - 1, 'parameters')}"
    return {**config, "model": write_text(changed)}, said


def nearest_size(prepared: Prepared, base: int, varied: Collection[str] = ()) -> tuple[dict[str, int], int]:
    """The change of width, else of depth, that brings the parameters within 1 % of `base` with the least change; else
    what comes nearest. ({}, parameters) where nothing is nearer than the model as it is."""
    own = summary(prepared.architecture).totals.parameters
    best, best_count = dict[str, int](), own
    ways = [widths(prepared, MAX_CHANGE_ALONE)] if "depth" in varied else [widths(prepared), depths(prepared)]
    for candidates in ways:
        for changes in candidates:
            if changes.keys() & set(varied):
                continue
            try:
                count = summary(prepared.resized(changes)).totals.parameters
            except (FormulaError, InputError):
                continue  # a width or depth that the text cannot have
            if abs(count / base - 1) <= AGREE:
                return changes, count
            if abs(count - base) < abs(best_count - base):
                best, best_count = changes, count
    return best, best_count


def widths(prepared: Prepared, most: float = MAX_CHANGE) -> Iterator[dict[str, int]]:
    """Multiples of the heads near the width, the nearest first."""
    shape = shape_of(prepared.architecture)
    for count in range(1, int(most * shape.width / shape.heads) + 1):
        for width in (shape.width - count * shape.heads, shape.width + count * shape.heads):
            yield {"width": width}


def depths(prepared: Prepared) -> Iterator[dict[str, int]]:
    """Depths near the depth, the nearest first, each with the widths near the model's."""
    shape = shape_of(prepared.architecture)
    for count in range(1, max(1, int(MAX_CHANGE * shape.depth)) + 1):
        for depth in (shape.depth - count, shape.depth + count):
            if depth >= 1:
                yield {"depth": depth}
                yield from ({"depth": depth, **change} for change in widths(prepared))
