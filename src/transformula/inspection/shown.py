"""What a look gives back: its `repr` is the table that a person reads, `.data` is for programs, `.svg` the picture."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from html import escape
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any, ClassVar

from ..atomic_io import write_whole
from ..cost.words import table
from ..errors import InputError
from ..figure import DASHES, SERIES, plain_log, png_of, svg_of
from ..notebook import page

DOCUMENT = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>{title}</title></head>
<body style="margin:16px;color-scheme:light dark">{body}</body></html>
"""


class Shown(ABC):
    """Base of what `curves` and `inspect` return: dataclasses.

    look   the name by which `inspect` knows it
    title  what the picture shows, in words
    """

    look: ClassVar[str] = ""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def data(self) -> dict[str, Any]:
        """All of it as plain data: by default each field."""
        fields: Any = self
        return {"look": self.look, **asdict(fields)}

    @cached_property
    @abstractmethod
    def figure(self) -> Any:
        """The picture as matplotlib's."""

    @cached_property
    def svg(self) -> str:
        """The picture as SVG: no reference to anything outside; dark where the page prefers that."""
        dark = "@media (prefers-color-scheme: dark){"
        return svg_of(self.figure).replace(dark, f"{dark}image{{filter:brightness(1.5)}}", 1)

    def save(self, path: str | Path) -> Path:
        """Write the picture as .svg or .png, or picture and table as one .html. Raises InputError for another ending or
        where it cannot be written."""
        path = Path(path)
        match path.suffix:
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = png_of(self.figure)
            case ".html":
                content = DOCUMENT.format(title=escape(self.title), body=self._repr_html_()).encode()
            case _:
                raise InputError(f"{path}: a picture is written as .svg, .png or .html; name a file that ends so")
        try:
            write_whole(path, content)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        return path

    def _repr_html_(self) -> str:
        return page(repr(self), [(self.title, self.svg)])


def draw_by_depth(
    axes: Any, title: str, lines: Mapping[str, Sequence[float | None]], first: int = 1, log: bool = False
) -> None:
    """Lines over the layers, each with its color and dash.

    first  the layer of the first value
    log    on a logarithmic axis, where there is anything above 0
    """
    looks = zip(cycle(SERIES), cycle(DASHES), strict=False)
    for (name, values), (color, dash) in zip(lines.items(), looks, strict=False):
        heights = [math.nan if value is None else value for value in values]
        places = range(first, first + len(heights))
        axes.plot(places, heights, color=color, linestyle=dash, marker="o", markersize=3, linewidth=1.4, label=name)
    axes.set_xlabel("layer")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title(title, fontsize=9, loc="left")
    if lines:
        axes.legend(frameon=False, fontsize=8)
    if log and any(line.get_ydata().max(initial=0) > 0 for line in axes.lines):
        plain_log(axes)


def draw_shades(axes: Any, values: Any, extent: tuple[float, float, float, float] | None = None) -> None:
    """A map of numbers (rows, columns) from -1 to 1, as colors of more or less opacity, which fit any ground: blue
    above 0, orange below."""
    import numpy as np

    values = np.asarray(values, dtype=np.float64)
    colors = np.array([[int(SERIES[sign][place : place + 2], 16) for place in (1, 3, 5)] for sign in (0, 1)], np.uint8)
    alpha = np.round(255 * np.clip(np.abs(values), 0, 1)).astype(np.uint8)
    image = np.concatenate([colors[(values < 0).astype(int)], alpha[..., None]], -1)
    rows, columns = values.shape
    axes.imshow(image, extent=extent or (0, columns, rows, 0), interpolation="none", aspect="auto")


def table_by_depth(head: Sequence[str], columns: Sequence[Sequence[float | None]], first: int = 0) -> list[str]:
    """A table with a row for each layer; row 0 is what enters layer 1.

    first  the layer of the first values
    """
    rows = [[str(layer) if layer else "in", *map(cell, row)] for layer, row in enumerate(zip_longest(*columns), first)]
    return table([head, *rows])


def cell(value: float | None, form: str = ".3g") -> str:
    """A number in a table; "-" where there is none."""
    return "-" if value is None else format(value, form)
