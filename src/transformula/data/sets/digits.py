"""digits: a picture of one to four digits -> the digits in words. Drawn on the spot: captioning without a download.

    (1, 16, 48) uint8  ->  "three seven one"

The glyphs are five by seven dots, each twice as wide or not, at places of their own, of different ink, on a noisy
ground. A row is a function of its number alone.
"""

from __future__ import annotations

import numpy as np
import torch

from ...errors import DataError
from ..built_in import Rows, built_in

ROWS = 20_000
HEIGHT, WIDTH, MAX_DIGITS = 16, 48, 4
NAMES = "zero one two three four five six seven eight nine".split()  # the words of the digits, in order

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
DOTS = tuple(np.array([[int(dot) for dot in row] for row in glyph.split()], dtype=np.float32) for glyph in GLYPHS)


@built_in("digits", ("source", "target"), pictures=True)
def read_digits(variant: str) -> Rows:
    """20,000 pictures with their captions."""
    if variant:
        raise DataError(f"digits:{variant}: there is one such set; name it digits")
    return Rows(
        (f"digits:{number}", torch.from_numpy(picture), " ".join(NAMES[digit] for digit in digits))
        for number, (digits, picture) in enumerate(map(draw_row, range(ROWS)), 1)
    )


def draw_row(number: int) -> tuple[list[int], np.ndarray]:
    """The digits of a row, and their picture (1, height, width)."""
    random = np.random.default_rng([number, 7])
    digits = [int(digit) for digit in random.integers(10, size=random.integers(1, MAX_DIGITS + 1))]
    ink = np.zeros((HEIGHT, WIDTH), dtype=np.float32)
    cell = WIDTH // MAX_DIGITS
    first = int(random.integers(0, (MAX_DIGITS - len(digits)) * cell + 1))
    for place, digit in enumerate(digits):
        glyph = np.kron(DOTS[digit], np.ones((int(random.integers(1, 3)), int(random.integers(1, 3))), np.float32))
        top = int(random.integers(0, HEIGHT - glyph.shape[0] + 1))
        left = first + place * cell + int(random.integers(0, cell - glyph.shape[1] + 1))
        ink[top : top + glyph.shape[0], left : left + glyph.shape[1]] = glyph * random.uniform(0.6, 1.0)
    noisy = 255 * ink + random.normal(0, 25, ink.shape)
    return digits, np.clip(noisy, 0, 255).astype(np.uint8)[None]
