"""cldr-dates:en-de: dates and times as one language writes them -> as another does.

    Thursday, March 5, 2026   Donnerstag, 5. März 2026
    Mar 5 – 8, 2026           5.–8. März 2026
    3 days ago                vor 3 Tagen

Days are of the century from 1950 to 2049, so that two digits tell a year; months are of a thousand years. The calendar
is the Gregorian one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from ..built_in import Rows, built_in
from .cldr import Locale, Things, Way, read_cldr

FIRST = datetime(1950, 1, 1)
DAYS = (datetime(2050, 1, 1) - FIRST).days
STEPS = 24 * 12
"""Times of a day, five minutes apart."""

LONGEST = 27
"""Days that an interval lasts, at most, counted from its first day."""

FIRST_YEAR, YEARS = 1500, 1000
SPANS = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "month": 2_592_000, "year": 31_536_000
}  # fmt: skip
"""Seconds of a span, as babel counts them."""

MOST = 400
"""How many of a span are gone or to come, at most."""


@built_in("cldr-dates", ("source", "target"), variant="en-de", needs=["babel"])
def read_dates(variant: str) -> Rows:
    """20,000 pairs. Raises DataError for what is no pair of languages, MissingExtra without babel."""
    return read_cldr("cldr-dates", variant, _things)


def _things() -> Sequence[Things]:
    from babel import dates

    def day(length: str) -> Way:
        return lambda number, locale: str(dates.format_date(FIRST + timedelta(number), length, locale))

    def moment(length: Literal["full", "short"]) -> Way:
        def write(number: int, locale: Locale) -> str:
            when = FIRST + timedelta(number // STEPS, number % STEPS * 300)
            pattern = str(dates.get_datetime_format(length, locale)).replace("'", "")
            time = str(dates.format_time(when, "short", locale=locale))
            return pattern.replace("{0}", time).replace("{1}", str(dates.format_date(when, length, locale)))

        return write

    def interval(skeleton: str) -> Way:
        def write(number: int, locale: Locale) -> str:
            start = FIRST + timedelta(number // LONGEST)
            end = start + timedelta(1 + number % LONGEST)
            return str(dates.format_interval(start, end, skeleton, locale=locale))

        return write

    def month(number: int, locale: Locale) -> str:
        when = datetime(FIRST_YEAR + number // 12, 1 + number % 12, 1)
        return str(dates.format_skeleton("yMMMM", when, locale=locale))

    return [
        Things("days", DAYS, tuple(map(day, ("full", "long", "medium", "short")))),
        Things("moments", DAYS * STEPS, (moment("full"), moment("short"))),
        Things("intervals", DAYS * LONGEST, (interval("yMMMd"), interval("yMd"))),
        Things("months", YEARS * 12, (month,)),
        Things("spans", len(SPANS) * 2 * MOST, (_relative(dates.format_timedelta),)),
    ]


def _relative(format_timedelta: Callable[..., Any]) -> Way:
    """In 3 days, 2 weeks ago: a span of one unit, never turned into another."""
    names = list(SPANS)

    def write(number: int, locale: Locale) -> str:
        count, kind = divmod(number, 2 * len(names))
        unit, sign = names[kind // 2], 1 - kind % 2 * 2
        span = timedelta(seconds=sign * (1 + count) * SPANS[unit])
        return str(format_timedelta(span, granularity=unit, threshold=float("inf"), add_direction=True, locale=locale))

    return write
