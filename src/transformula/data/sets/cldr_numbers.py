"""cldr-numbers:en-de: numbers, amounts of money and measures as one language writes them -> as another does.

    73.4%                  73,4 %
    1,234.50 euros         1.234,50 Euro
    7.34 million           7,34 Millionen
    12.5 kilometers        12,5 Kilometer

A number is a few digits, the last of them not 0, times a power of ten: none is written in two ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from ..built_in import Rows, built_in
from .cldr import Locale, Things, Way, read_cldr

CURRENCIES = (
    "EUR USD GBP CHF CNY INR BRL RUB PLN SEK NOK DKK CZK HUF TRY MXN CAD AUD NZD ZAR ILS THB SGD HKD MYR PHP EGP ARS"
    " UAH RON"
).split()
"""Currencies with two decimals."""

UNITS = (
    "length-millimeter length-centimeter length-meter length-kilometer length-mile length-foot length-inch"
    " mass-gram mass-kilogram mass-tonne volume-milliliter volume-liter volume-cubic-meter"
    " area-square-meter area-hectare area-square-kilometer duration-second duration-minute duration-hour duration-day"
    " duration-week duration-month duration-year speed-meter-per-second speed-kilometer-per-hour temperature-celsius"
    " angle-degree frequency-hertz energy-kilocalorie energy-kilowatt-hour power-watt power-kilowatt electric-volt"
    " pressure-hectopascal digital-megabyte digital-gigabyte"
).split()


Length = Literal["long", "short"]


class Amounts:
    """Different decimal numbers: 1 to `most`, not divisible by 10, times 10 to each of the powers `low` to `high`."""

    def __init__(self, most: int, low: int, high: int) -> None:
        self.low, self.powers, self.digits = low, high - low + 1, most - most // 10

    def __len__(self) -> int:
        return self.digits * self.powers

    def __getitem__(self, number: int) -> Decimal:
        digits, power = divmod(number, self.powers)
        return (digits + digits // 9 + 1) * Decimal(10) ** (self.low + power)


@built_in("cldr-numbers", ("source", "target"), variant="en-de", needs=["babel"])
def read_numbers(variant: str) -> Rows:
    """20,000 pairs. Raises DataError for what is no pair of languages, MissingExtra without babel."""
    return read_cldr("cldr-numbers", variant, _things)


def _things() -> Sequence[Things]:
    from babel import numbers, units

    plain, percents, prices = Amounts(9999, -3, 5), Amounts(9999, -2, 0), Amounts(999, -2, 3)
    large, sums, measured = Amounts(9999, 3, 9), Amounts(999, 4, 8), Amounts(999, -2, 3)

    def decimal(number: int, locale: Locale) -> str:
        return str(numbers.format_decimal(plain[number], locale=locale))

    def percent(length: Length) -> Way:
        return lambda number, locale: str(
            units.format_unit(percents[number], "concentr-percent", length=length, locale=locale)
        )

    def price(style: Literal["name", "standard"]) -> Way:
        def write(number: int, locale: Locale) -> str:
            amount, currency = divmod(number, len(CURRENCIES))
            return str(numbers.format_currency(prices[amount], CURRENCIES[currency], locale=locale, format_type=style))

        return write

    def compact(style: Length) -> Way:
        return lambda number, locale: str(
            numbers.format_compact_decimal(large[number], format_type=style, fraction_digits=3, locale=locale)
        )

    def total(number: int, locale: Locale) -> str:
        amount, currency = divmod(number, len(CURRENCIES))
        return str(
            numbers.format_compact_currency(sums[amount], CURRENCIES[currency], fraction_digits=2, locale=locale)
        )

    def measure(length: Length) -> Way:
        def write(number: int, locale: Locale) -> str:
            amount, unit = divmod(number, len(UNITS))
            return str(units.format_unit(measured[amount], UNITS[unit], length=length, locale=locale))

        return write

    return [
        Things("numbers", len(plain), (decimal,)),
        Things("percentages", len(percents), (percent("long"), percent("short"))),
        Things("prices", len(prices) * len(CURRENCIES), (price("name"), price("standard"))),
        Things("large numbers", len(large), (compact("long"), compact("short"))),
        Things("large sums", len(sums) * len(CURRENCIES), (total,)),
        Things("measures", len(measured) * len(UNITS), (measure("long"), measure("short"))),
    ]
