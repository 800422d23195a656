"""A picture cut into tiles of one size, as some families of models read larger ones: each tile, then the whole.

A chat template writes one sign for a picture. In its place stand as many of the model's markers as the tiles have
positions, and what the family writes around each tile: see `written_as`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .picture_processing import PROPORTIONS, SPLIT, STEPS, TILES, Processing, sizing_of, steps_of

Grid = tuple[int, int]
"""Rows and columns of tiles; (0, 0): none, the whole picture alone."""

LARGEST = 4096  # pixels of a side that is split


def grid_of(processing: Processing | None, height: int, width: int) -> Grid:
    """Into how many tiles a picture is cut."""
    kind = None if processing is None else sizing_of(processing)
    if processing is None or kind not in (TILES, SPLIT):
        return 0, 0
    if kind == SPLIT:
        side = processing["max_image_size"]["longest_edge"]
        height, width = size_split(processing, height, width)
        fits = not processing["do_image_splitting"] or max(height, width) <= side
        return (0, 0) if fits else (height // side, width // side)
    if not processing["crop_to_patches"] or processing["max_patches"] < 2:
        return 0, 0
    rows, columns = nearest_grid(processing, height, width)
    return (rows, columns) if rows * columns > 1 else (0, 0)


def nearest_grid(processing: Processing, height: int, width: int) -> Grid:
    """The grid whose proportions are nearest to those of a picture; of several with the same the one with more tiles,
    unless it is more than twice as large as the picture."""
    least, most = processing["min_patches"], processing["max_patches"]
    sides = range(1, most + 1)
    grids = [(rows, columns) for columns in sides for rows in sides if least <= rows * columns <= most]
    best, nearest = (1, 1), math.inf
    for rows, columns in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        apart = abs(width / height - columns / rows)
        tiles = processing["size"]["height"] * processing["size"]["width"] * rows * columns
        if apart < nearest or (apart == nearest and 2 * width * height > tiles):
            best, nearest = (rows, columns), apart
    return best


def size_split(processing: Processing, height: int, width: int) -> Grid:
    """(height, width) of a picture that is split into squares: its longer side is given, and both become multiples of a
    square's."""
    height, width = size_shown(processing, height, width)
    if not processing["do_image_splitting"]:
        return height, width
    side = processing["max_image_size"]["longest_edge"]
    if width >= height:
        return multiple_of(side, int(multiple_of(side, width) / (width / height))), multiple_of(side, width)
    return multiple_of(side, height), multiple_of(side, int(multiple_of(side, height) * (width / height)))


def multiple_of(side: int, length: int) -> int:
    """The least multiple of a side that is at least as long."""
    return math.ceil(length / side) * side


def size_shown(processing: Processing, height: int, width: int) -> Grid:
    """(height, width) of a picture before it is cut, its longer side as the processing says."""
    if not processing["do_resize"]:
        return height, width
    longest, ratio = processing["size"]["longest_edge"], width / height
    if width >= height:
        height, width = even(int(longest / ratio)), longest
    else:
        height, width = longest, even(int(longest * ratio))
    if max(height, width) > LARGEST:
        ratio = width / height
        height, width = (int(LARGEST / ratio), LARGEST) if width >= height else (LARGEST, int(LARGEST * ratio))
    return max(height, 1), max(width, 1)


def even(length: int) -> int:
    return max(length + length % 2, 1)


def tiles_of(picture: Tensor, processing: Processing) -> Tensor:
    """The tiles of a picture (channels, height, width) uint8 as numbers, row by row, then the whole: (tiles, channels,
    height, width) float32."""
    from PIL import Image

    array = picture.numpy()
    whole = Image.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0))
    numbers = {**steps_of(processing, len(picture)), "resize": None, "crops": []}
    parts = [STEPS(part, numbers) for part in images_of(whole, processing)]
    return torch.stack([torch.from_numpy(part) for part in parts])


def images_of(image: Any, processing: Processing) -> list[Any]:
    """A Pillow image in tiles, and the whole."""
    from PIL import Image

    kind, filtered = sizing_of(processing), processing["resample"]
    rows, columns = grid_of(processing, image.height, image.width)
    if kind == PROPORTIONS:
        side, least = processing["size"]["height"], processing["min_size"]
        share = side / max(image.size)
        shown = image.resize(tuple(max(round(length * share), least) for length in image.size), filtered)
        longest = max(shown.size)
        around = tuple(int(255 * share) for share in processing["image_mean"])
        square = Image.new("RGB", (longest, longest), around)
        square.paste(shown, ((longest - shown.width) // 2, (longest - shown.height) // 2))
        return [square]
    if kind == SPLIT:
        high = wide = processing["max_image_size"]["longest_edge"]
        height, width = size_shown(processing, image.height, image.width)
        image = image.resize((width, height), filtered)
        height, width = size_split(processing, *(image.height, image.width)) if rows else (high, wide)
        if rows:
            image = image.resize((columns * wide, rows * high), filtered)
        cut = image
    else:
        high, wide = processing["size"]["height"], processing["size"]["width"]
        cut = image.resize((columns * wide, rows * high), filtered) if rows else image
    places = [(column * wide, row * high) for row in range(rows) for column in range(columns)]
    tiles = [cut.crop((left, top, left + wide, top + high)) for left, top in places]
    return [*tiles, image.resize((wide, high), filtered)]


def written_as(layout: str, sign: str, places: int, grid: Grid) -> str:
    """What stands for a picture of some tiles in a text, with `places` times the model's sign for each."""
    tile, (rows, columns) = sign * places, grid
    if layout in ("idefics3", "smolvlm"):
        around = "<fake_token_around_image>"
        split = "".join(
            "".join(f"{around}<row_{row + 1}_col_{column + 1}>{tile}" for column in range(columns)) + "\n"
            for row in range(rows)
        )
        return f"{split}{chr(10) * (rows > 0)}{around}<global-img>{tile}{around}"
    if layout == "internvl":
        return f"<img>{tile * (rows * columns + 1)}</img>"
    if layout == "aya_vision":
        parts = "".join(f"TILE_{number + 1}{tile}" for number in range(rows * columns))
        return f"<|START_OF_IMG|>{parts}TILE_GLOBAL{tile}<|END_OF_IMG|>"
    return tile


SIGNS: Mapping[str, str] = {"aya_vision": "<image>"}
"""What a chat template writes for a picture, where that is not the model's own sign."""


def with_pictures(text: str, layout: str, sign: str, places: int, grids: Sequence[Grid]) -> str:
    """A text in which each sign that stands for a picture is what the model reads of it. Raises InputError for a text
    with more or fewer."""
    first, *parts = text.split(SIGNS.get(layout, sign))
    if len(parts) != len(grids):
        what = f"the chat template writes {len(parts)} signs of a picture ({SIGNS.get(layout, sign)})"
        raise InputError(
            f"{what}; expected {len(grids)}, one for each part of the type image: use a template that does"
        )
    shown = (written_as(layout, sign, places, grid) + part for grid, part in zip(grids, parts, strict=True))
    return first + "".join(shown)
