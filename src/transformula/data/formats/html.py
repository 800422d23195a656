"""Pages of the web: the text that a reader sees, a line for each paragraph, heading, entry of a list and cell; needs
the extra `documents`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ...errors import DataError
from ...extras import need
from ..flowing import Flowing
from ..format import Options, Row, formats
from ..lines import utf8_of

UNSEEN = frozenset("head script style template noscript svg math iframe object select textarea button title".split())
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label mark nobr q rb rp rt rtc"
    " ruby s samp small span strike strong sub sup time tt u var wbr".split()
)
PIECE = 1 << 16  # bytes that the parser is given at once


@formats.register("html", takes=("encoding",), columns=False, needs=["lxml"])
@formats.register("htm", takes=("encoding",), columns=False, needs=["lxml"])
@formats.register("xhtml", takes=("encoding",), columns=False, needs=["lxml"])
def read_html(path: Path, options: Options) -> Iterator[Row]:
    """One document, in the column `text`. Scripts, styles, the head, forms' fields and pictures are left out; nothing
    is fetched or run. Raises DataError as for text."""
    content = utf8_of(path, options.encoding)
    etree = need("lxml.etree", "reading .html files")
    page = Page()
    parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
    try:
        for start in range(0, len(content), PIECE):
            parser.feed(bytes(content[start : start + PIECE]))
        parser.close()
    except etree.LxmlError as error:
        raise DataError(f"is no page that can be read ({str(error)[:120]}); read it as text", path=path) from None
    yield 1, {"text": page.flowing.text()}


class Page:
    """What the parser of a page calls: it keeps no tree, whose depth a page could choose."""

    def __init__(self) -> None:
        self.flowing = Flowing()
        self._unseen: list[str] = []
        self._verbatim = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in UNSEEN:
            self._unseen.append(tag)
        elif tag == "body":
            self._unseen.clear()  # a head whose end is missing
        elif tag == "pre":
            self.flowing.end()
            self._verbatim += 1
        elif tag not in INLINE:
            self._break()

    def end(self, tag: str) -> None:
        if self._unseen:
            if tag == self._unseen[-1]:
                self._unseen.pop()
        elif tag == "pre":
            self.flowing.end(kept=True)
            self._verbatim = max(0, self._verbatim - 1)
        elif tag not in INLINE:
            self._break()

    def _break(self) -> None:
        if self._verbatim:
            self.flowing.add("\n")
        else:
            self.flowing.end()

    def data(self, text: str) -> None:
        if not self._unseen:
            self.flowing.add(text)

    def comment(self, text: str) -> None:
        pass

    def pi(self, target: str, data: str | None = None) -> None:
        pass

    def close(self) -> None:
        pass
