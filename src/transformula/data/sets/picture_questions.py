"""picture-questions: small colored pictures, each with questions whose answers are known. Drawn on the spot.

    (3, 32, 32) uint8, "what color is the tallest bar"  ->  "blue"

There are three kinds of pictures: shapes on a grid of nine places, charts of bars, and numbers. A picture and its
questions are functions of its number alone, and the rows of a picture are one group. `picture-questions:bars` has the
charts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch

from ...errors import DataError, did_you_mean, nearest
from ..built_in import Rows, built_in
from .digits import DOTS

PICTURES, QUESTIONS = 9_000, 3  # pictures, and questions of each at most
SIDE, CELL = 32, 10
COLORS = {"red": (230, 40, 40), "green": (40, 190, 60), "blue": (50, 80, 235), "yellow": (235, 215, 40)}
SHAPES = ("circle", "square", "triangle")
FEWEST_SHAPES, MOST_SHAPES = 2, 5
BAR_STEP, HIGHEST = 4, 7  # pixels of a unit of height; units of the highest bar
MOST_DIGITS = 3

Picture = np.ndarray  # (3, height, width) float64
Asked = tuple[str, str, str]  # the kind of a question, the question, its answer
Drawn = tuple[Picture, list[Asked]]


@built_in(
    "picture-questions", ("image", "question", "answer", "question_type", "picture_type"),
    grouped=True, pictures=True, variant="bars",
)  # fmt: skip
def read_picture_questions(variant: str) -> Rows:
    """9,000 pictures, about 27,000 questions; of one kind where a variant is named."""
    if variant and variant not in DRAWN:
        near = did_you_mean(nearest(variant, DRAWN))
        raise DataError(f"picture-questions:{variant}: there is no such kind;{near} expected {', '.join(DRAWN)}")
    return Rows(rows_of([variant] if variant else [*DRAWN]))


def rows_of(kinds: list[str]) -> Iterator[tuple[str, torch.Tensor, str, str, str, str]]:
    """(place, picture, question, answer, kind of question, kind of picture), the kinds of pictures in turn."""
    for number in range(PICTURES):
        kind = kinds[number % len(kinds)]
        drawn, asked = draw_picture(kind, number)
        picture = torch.from_numpy(drawn)
        for place, (question_type, question, answer) in enumerate(asked, 1):
            yield f"{kind}-{number + 1}:{place}", picture, question, answer, question_type, kind


def draw_picture(kind: str, number: int) -> tuple[np.ndarray, list[Asked]]:
    """The picture of a number, (3, height, width) uint8, and some of the questions that it answers, each of another
    kind."""
    random = np.random.default_rng([number, 11])
    canvas = np.full((3, SIDE, SIDE), random.uniform(0, 60), dtype=np.float64)
    picture, asked = DRAWN[kind](canvas, random)
    chosen: dict[str, Asked] = {}
    for place in random.permutation(len(asked)):
        chosen.setdefault(asked[place][0], asked[place])
    noisy = picture + random.normal(0, 8, picture.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8), list(chosen.values())[:QUESTIONS]


def draw_shapes(canvas: Picture, random: np.random.Generator) -> Drawn:
    """Some shapes of some colors at places of their own."""
    count = int(random.integers(FEWEST_SHAPES, MOST_SHAPES + 1))
    places = sorted(random.choice(9, count, replace=False).tolist())
    things = {place: (str(random.choice(list(COLORS))), str(random.choice(SHAPES))) for place in places}
    for place, (color, shape) in things.items():
        row, column = divmod(place, 3)
        top, left = 1 + row * CELL + int(random.integers(0, 2)), 1 + column * CELL + int(random.integers(0, 2))
        paint(canvas[:, top : top + 9, left : left + 9], outline(shape, 9), color)
    colors, shapes = ([thing[part] for thing in things.values()] for part in (0, 1))
    asked = [("count", "how many shapes are there", str(count))]
    asked += [("count", f"how many {shape}s are there", str(shapes.count(shape))) for shape in SHAPES]
    asked += [("count", f"how many {color} shapes are there", str(colors.count(color))) for color in COLORS]
    for place, (color, shape) in things.items():
        if shapes.count(shape) == 1:
            asked.append(("color", f"what color is the {shape}", color))
        if colors.count(color) == 1:
            asked.append(("shape", f"what shape is {color}", shape))
        beside = things.get(place - 1) if place % 3 else None
        if beside is not None and list(things.values()).count((color, shape)) == 1:
            asked.append(("position", f"what is left of the {color} {shape}", " ".join(beside)))
    return canvas, asked


def outline(shape: str, size: int) -> np.ndarray:
    """(size, size) bool: which points a shape has."""
    down, right = np.mgrid[:size, :size]
    half = (size - 1) / 2
    if shape == "circle":
        return np.asarray((down - half) ** 2 + (right - half) ** 2 <= half**2 + 0.5)
    if shape == "square":
        return np.asarray((down > 0) & (right > 0) & (down < size - 1) & (right < size - 1))
    return np.asarray(abs(right - half) <= down / 2)


def paint(part: Picture, points: np.ndarray, color: str) -> None:
    """Put a color on some points of a part of a picture."""
    part[:, points] = np.array(COLORS[color], dtype=np.float64)[:, None]


def draw_bars(canvas: Picture, random: np.random.Generator) -> Drawn:
    """A chart of two to four bars, each of another color and height."""
    count = int(random.integers(2, len(COLORS) + 1))
    colors = random.permutation(list(COLORS))[:count].tolist()
    heights = (1 + random.choice(HIGHEST, count, replace=False)).tolist()
    first = int(random.integers(0, SIDE - 8 * count + 1))
    canvas[:, SIDE - 1] = 220
    for bar, (color, height) in enumerate(zip(colors, heights, strict=True)):
        top, left = SIDE - 1 - BAR_STEP * height, first + 8 * bar
        part = canvas[:, top : SIDE - 1, left + 1 : left + 7]
        paint(part, np.ones(part.shape[1:], dtype=bool), color)
    bars = list(zip(colors, heights, strict=True))
    asked = [("count", "how many bars are there", str(count))]
    asked += [("value", f"how high is the {color} bar", str(height)) for color, height in bars]
    asked.append(("color", "what color is the tallest bar", colors[int(np.argmax(heights))]))
    asked.append(("color", "what color is the shortest bar", colors[int(np.argmin(heights))]))
    asked += [
        ("comparison", f"is the {one} bar taller than the {other} bar", "yes" if height > its else "no")
        for one, height in bars
        for other, its in bars
        if one != other
    ]
    asked += [("position", f"what is left of the {two} bar", f"the {one} bar") for one, two in pairwise(colors)]
    return canvas, asked


def draw_number(canvas: Picture, random: np.random.Generator) -> Drawn:
    """One to three digits of one color, from left to right."""
    digits = random.integers(10, size=int(random.integers(1, MOST_DIGITS + 1))).tolist()
    color, wide = str(random.choice(list(COLORS))), len(digits) < MOST_DIGITS
    cell = CELL + wide
    first = int(random.integers(0, SIDE - cell * len(digits) + 1))
    for place, digit in enumerate(digits):
        glyph = np.kron(DOTS[digit], np.ones((2, int(random.integers(1, 2 + wide))))) > 0
        top = int(random.integers(0, SIDE - glyph.shape[0] + 1))
        left = first + place * cell + int(random.integers(0, cell - glyph.shape[1]))
        paint(canvas[:, top : top + glyph.shape[0], left : left + glyph.shape[1]], glyph, color)
    asked = [
        ("reading", "what number is it", "".join(map(str, digits))),
        ("count", "how many digits are there", str(len(digits))),
        ("color", "what color are the digits", color),
    ]
    if len(digits) > 1:
        asked.append(("comparison", "what is the largest digit", str(max(digits))))
        asked.append(("position", "what is the first digit", str(digits[0])))
    return canvas, asked


DRAWN: dict[str, Callable[[Picture, np.random.Generator], Drawn]] = {
    "shapes": draw_shapes, "bars": draw_bars, "digits": draw_number,
}  # fmt: skip
