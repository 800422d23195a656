"""A report as one page for a browser: it stands alone, loads nothing, and reads whole without its short script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from urllib.parse import quote

from ..records import Results
from .document import Cell, Item, Literally, Paragraph, Picture, ReportSection, ReportTable, pictures_of, sections_of

HERE = Path(__file__).parent
LONG = 24  # letters of a field that may stand in several lines
SVG, SAFE = "data:image/svg+xml,", " !$'()*+,-./:;=?@[]_~"
"""How the address of a picture begins, and the signs that stand in it as they are: a third less than base64."""
IN_NOTEBOOK = ("what-differs", "plain-words", "verdicts", "forest")
OPENING = ("what-differs", "plain-words")  # sections above the list of all


def html_of(results: Results) -> str:
    """The whole report as one page of HTML."""
    return page(results.name, sections_of(results))


def page(title: str, parts: list[ReportSection]) -> str:
    """Sections under a title. The policy in its head forbids whatever is not in the page: no text of a user's can load
    or run anything, were it not escaped."""
    style, script = shipped("page.css"), shipped("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    links = "".join(f'<a href="#{part.name}">{escape(part.title)}</a>' for part in parts)
    above = [part for part in parts if part.name in OPENING]
    below = [part for part in parts if part not in above]
    return "\n".join([
        '<!doctype html>', '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>", f"<style>{style}</style>", "</head>", "<body>",
        f"<h1>{escape(title)}</h1>",
        *section_html(above), f"<nav>{links}</nav>", *section_html(below),
        f"<script>{script}</script>", "</body>", "</html>", "",
    ])  # fmt: skip


def notebook_html_of(results: Results) -> str:
    """What a notebook shows: what differs, five lines, the table of verdicts, and their picture at the largest size."""
    parts = sections_of(results, IN_NOTEBOOK)
    rows = [f"<h3>{escape(results.name)}</h3>"]
    for part in parts:
        tables = [item for item in part.items if isinstance(item, ReportTable)]
        if part.name in OPENING:
            rows += [row for item in part.items for row in item_html(item)]
        rows += [row for table in tables[:1] for row in item_html(table.terminal or table)]
    rows += [row for picture in pictures_of(parts)[-1:] for row in item_html(picture)]
    return "\n".join(rows)


@cache
def shipped(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def section_html(parts: Iterable[ReportSection]) -> Iterator[str]:
    for part in parts:
        yield f'<section id="{part.name}">'
        yield f"<h2>{escape(part.title)}</h2>"
        for beside, group in groupby(part.items, key=lambda item: isinstance(item, (Picture, Literally))):
            items = list(group)
            pictures = any(isinstance(item, Picture) for item in items)
            yield from [f'<div class="{"pictures" if pictures else "texts"}">'] if beside else []
            for item in items:
                yield from item_html(item)
            yield from ["</div>"] if beside else []
        yield "</section>"


def item_html(item: Item) -> Iterator[str]:
    if isinstance(item, Paragraph):
        label = f'<span class="label">{escape(item.label)}</span>' if item.label else ""
        yield f"<p>{label}{escape(item.text)}</p>"
        if item.points:
            yield f"<ul>{''.join(f'<li>{escape(point)}</li>' for point in item.points)}</ul>"
    elif isinstance(item, ReportTable):
        yield from table_html(item)
    elif isinstance(item, Picture):
        caption = f"<figcaption>{escape(item.caption)}</figcaption>" if item.caption else ""
        kind = ' class="wide"' if item.wide else ""
        yield f"<figure{kind}>{picture_html(item)}{caption}</figure>"
    else:
        place = f' id="{escape(item.name)}"' if item.name else ""
        below = "" if item.picture is None else picture_html(item.picture)
        yield f'<div class="text"{place}><h3>{escape(item.title)}</h3><pre>{escape(item.text)}</pre>{below}</div>'


def picture_html(picture: Picture) -> str:
    """A picture as an image; one with links as a part of the page."""
    if picture.linked:
        svg = picture.svg[picture.svg.index("<svg") :].replace(' target="_blank"', "")  # which matplotlib adds
        return f'<div role="group" aria-label="{escape(picture.alt)}">{svg}</div>'
    return f'<img alt="{escape(picture.alt)}" src="{SVG}{escape(quote(picture.svg, safe=SAFE))}">'


def table_html(table: ReportTable) -> Iterator[str]:
    """A table within a box of its own, which scrolls where it is wider than the page."""
    numeric = [' class="number"' if n in table.numeric else "" for n in range(len(table.columns))]
    heads = zip(table.columns, numeric, strict=True)
    yield '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
    yield "<thead><tr>" + "".join(f'<th scope="col"{n}>{escape(name)}</th>' for name, n in heads) + "</tr></thead>"
    yield "<tbody>"
    for row in table.rows:
        yield "<tr>" + "".join(cell_html(cell, n in table.numeric) for n, cell in enumerate(row)) + "</tr>"
    yield "</tbody></table></div>"


def cell_html(cell: Cell, number: bool) -> str:
    kinds = " ".join(filter(None, ["number" if number else "long" if len(cell.text) > LONG else "", cell.mark]))
    kind = f' class="{kinds}"' if kinds else ""
    value = "" if cell.value is None else f' data-value="{escape(str(cell.value))}"'
    return f"<td{kind}{value}>{escape(cell.text)}</td>"
