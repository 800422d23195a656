"""Pairs from CLDR, the Unicode consortium's data of languages, which comes with the package babel (extra `cldr`):
things that every language writes in its own way, written in two of them.

    cldr-dates:en-de     dates and times            Mar 5 – 8, 2026   ->  5.–8. März 2026
    cldr-numbers:en-de   numbers, money, measures   7.34 million      ->  7,34 Millionen

A pair is a pure function of its index: which way of writing it is, is the index modulo their number; of what, a
permutation keyed by the seed. Two ways of writing (a date in full, and in short) share the things that they write, so
that none comes twice. Where a language writes both alike, the target is in the first of them: a source has one target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Literal

import numpy as np

from ...errors import DataError, did_you_mean, nearest
from ...extras import need
from ..built_in import Rows, built_in
from ..windows import Permutation

Pair = tuple[str, str, str]  # its place, its source and its target
Locale = Any  # a language, as babel knows it
Way = Callable[[int, Locale], str]  # the number of a thing, a language -> how the language writes it

COUNT = 20_000  # pairs of a set
SEED = 1


@dataclass(frozen=True)
class Things:
    """Things that are written in one or several ways: days, amounts of money."""

    name: str
    count: int  # they are numbered from 0
    ways: tuple[Way, ...]  # those in which a reader finds most come first


def pairs(
    name: str, things: Sequence[Things], source: Locale, target: Locale, count: int = COUNT, seed: int = SEED
) -> Iterator[Pair]:
    """Pairs of things written in two languages, each a pure function of its index, the seed and the version of CLDR. A
    way of writing that one of the languages does not have (Japanese no long form of large numbers) is left out."""

    def is_known(way: Way) -> bool:
        try:
            way(0, source), way(0, target)
        except (KeyError, AttributeError):  # what babel raises where the data of a language have a gap
            return False
        return True

    known = [replace(one, ways=tuple(filter(is_known, one.ways))) for one in things]
    ways = [(one, place) for one in known for place in range(len(one.ways))]
    if not ways:
        raise DataError("CLDR has nothing of the kind in one of these languages; name others", path=name)
    rounds = -(-count // len(ways))
    numbers = {}
    for place, one in enumerate(known):
        wanted = rounds * len(one.ways)
        if wanted > one.count:
            raise DataError(f"{count:,} pairs are more than there are {one.name}; ask for fewer", path=name)
        numbers[one.name] = Permutation(one.count, seed, place)(np.arange(wanted))
    for index in range(count):
        one, place = ways[index % len(ways)]
        number = int(numbers[one.name][index // len(ways) * len(one.ways) + place])
        text = one.ways[place](number, source)
        first = next(way for way in one.ways if way(number, source) == text)
        yield f"{name}, pair {index + 1}", text, first(number, target)


def read_cldr(name: str, variant: str, things: Callable[[], Sequence[Things]]) -> Rows:
    """The set NAME:VARIANT, where the variant is two languages, as in "en-de". Raises DataError, MissingExtra."""
    babel = need("babel", f"making {name}")
    languages = variant.split("-")
    if len(languages) != 2 or not all(languages):
        raise DataError(f"name two languages after it, as in {name}:en-de or {name}:pt_BR-zh_Hant", path=name)
    full = f"{name}:{variant}"
    if languages[0] == languages[1]:
        raise DataError("these are the same language; name two", path=full)
    known = babel.localedata.locale_identifiers()
    for language in languages:
        if language not in known:
            raise DataError(
                f"CLDR has no language {language!r};{did_you_mean(nearest(language, known))} a language is its code,"
                " with script and country after it where they matter: de, pt_BR, zh_Hant",
                path=full,
            )
    return Rows(pairs(full, things(), *map(babel.Locale.parse, languages)))


# Dates: days of the century from 1950 to 2049, so that two digits tell a year; months of a thousand years. The calendar
# is the Gregorian one.

FIRST = datetime(1950, 1, 1)
DAYS = (datetime(2050, 1, 1) - FIRST).days
STEPS = 24 * 12  # times of a day, five minutes apart
MAX_INTERVAL_DAYS = 27  # days that an interval lasts, at most, counted from its first day
FIRST_YEAR, YEARS = 1500, 1000
MAX_SPANS = 400  # how many of a span are gone or to come, at most
SPANS = {  # seconds, as babel counts them
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000
}  # fmt: skip


@built_in("cldr-dates", ("source", "target"), variant="en-de", needs=["babel"])
def read_dates(variant: str) -> Rows:
    """20,000 pairs; see `read_cldr`."""
    return read_cldr("cldr-dates", variant, dates_and_times)


def dates_and_times() -> list[Things]:
    """Days, moments, intervals, months, and spans such as 3 days ago."""
    from babel import dates

    def day(length: str, number: int, locale: Locale) -> str:
        return str(dates.format_date(FIRST + timedelta(number), length, locale))

    def moment(length: Literal["full", "short"], number: int, locale: Locale) -> str:
        when = FIRST + timedelta(number // STEPS, number % STEPS * 300)
        pattern = str(dates.get_datetime_format(length, locale)).replace("'", "")
        time = str(dates.format_time(when, "short", locale=locale))
        return pattern.replace("{0}", time).replace("{1}", str(dates.format_date(when, length, locale)))

    def interval(skeleton: str, number: int, locale: Locale) -> str:
        start = FIRST + timedelta(number // MAX_INTERVAL_DAYS)
        end = start + timedelta(1 + number % MAX_INTERVAL_DAYS)
        return str(dates.format_interval(start, end, skeleton, locale=locale))

    def month(number: int, locale: Locale) -> str:
        when = datetime(FIRST_YEAR + number // 12, 1 + number % 12, 1)
        return str(dates.format_skeleton("yMMMM", when, locale=locale))

    def span(number: int, locale: Locale) -> str:
        """In 3 days, 2 weeks ago: a span of one unit, never turned into another."""
        count, kind = divmod(number, 2 * len(SPANS))
        unit, sign = list(SPANS)[kind // 2], 1 - kind % 2 * 2
        time: Any = timedelta(seconds=sign * (1 + count) * SPANS[unit])
        write: Any = dates.format_timedelta
        return str(write(time, granularity=unit, threshold=float("inf"), add_direction=True, locale=locale))

    return [
        Things("days", DAYS, tuple(partial(day, length) for length in ("full", "long", "medium", "short"))),
        Things("moments", DAYS * STEPS, (partial(moment, "full"), partial(moment, "short"))),
        Things("intervals", DAYS * MAX_INTERVAL_DAYS, (partial(interval, "yMMMd"), partial(interval, "yMd"))),
        Things("months", YEARS * 12, (month,)),
        Things("spans", len(SPANS) * 2 * MAX_SPANS, (span,)),
    ]


# Numbers.

CURRENCIES = (  # with two decimals
    "EUR USD GBP CHF CNY INR BRL RUB PLN SEK NOK DKK CZK HUF TRY MXN CAD AUD NZD ZAR ILS THB SGD HKD MYR PHP EGP ARS"
    " UAH RON"
).split()
UNITS = (
    "length-millimeter length-centimeter length-meter length-kilometer length-mile length-foot length-inch"
    " mass-gram mass-kilogram mass-tonne volume-milliliter volume-liter volume-cubic-meter"
    " area-square-meter area-hectare area-square-kilometer duration-second duration-minute duration-hour duration-day"
    " duration-week duration-month duration-year speed-meter-per-second speed-kilometer-per-hour temperature-celsius"
    " angle-degree frequency-hertz energy-kilocalorie energy-kilowatt-hour power-watt power-kilowatt electric-volt"
    " pressure-hectopascal digital-megabyte digital-gigabyte"
).split()


class Amounts:
    """Different decimal numbers, none of which is written in two ways: 1 to `most`, not divisible by 10, times 10 to
    each of the powers `low` to `high`."""

    def __init__(self, most: int, low: int, high: int) -> None:
        self.low, self.powers, self.digits = low, high - low + 1, most - most // 10

    def __len__(self) -> int:
        return self.digits * self.powers

    def __getitem__(self, number: int) -> Decimal:
        digits, power = divmod(number, self.powers)
        return (digits + digits // 9 + 1) * Decimal(10) ** (self.low + power)


@built_in("cldr-numbers", ("source", "target"), variant="en-de", needs=["babel"])
def read_numbers(variant: str) -> Rows:
    """20,000 pairs; see `read_cldr`."""
    return read_cldr("cldr-numbers", variant, numbers_and_amounts)


def numbers_and_amounts() -> list[Things]:
    """Numbers, percentages, prices and measures."""
    from babel import numbers, units

    def amounts(name: str, values: Amounts, *writers: Callable[..., Any], of: Sequence[str] = ()) -> Things:
        """Amounts, or amounts of each of some units, as functions of babel write them."""

        def way(write: Callable[..., Any], number: int, locale: Locale) -> str:
            amount, unit = divmod(number, max(1, len(of)))
            return str(write(values[amount], *of[unit : unit + 1], locale=locale))

        return Things(name, len(values) * max(1, len(of)), tuple(partial(way, write) for write in writers))

    def styles(write: Callable[..., Any], key: str, *values: str, **options: Any) -> list[Callable[..., Any]]:
        return [partial(write, **{key: value}, **options) for value in values]

    percents = styles(units.format_unit, "length", "long", "short", measurement_unit="concentr-percent")
    prices = styles(numbers.format_currency, "format_type", "name", "standard")
    large = styles(numbers.format_compact_decimal, "format_type", "long", "short", fraction_digits=3)
    sums = partial(numbers.format_compact_currency, fraction_digits=2)
    return [
        amounts("numbers", Amounts(9999, -3, 5), numbers.format_decimal),
        amounts("percentages", Amounts(9999, -2, 0), *percents),
        amounts("prices", Amounts(999, -2, 3), *prices, of=CURRENCIES),
        amounts("large numbers", Amounts(9999, 3, 9), *large),
        amounts("large sums", Amounts(999, 4, 8), sums, of=CURRENCIES),
        amounts("measures", Amounts(999, -2, 3), *styles(units.format_unit, "length", "long", "short"), of=UNITS),
    ]
