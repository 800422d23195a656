"""Documents of a word processor, .docx: a line for each paragraph; needs the extra `documents`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.handler import ContentHandler, feature_namespaces

from ...errors import DataError
from ...extras import need
from ..flowing import Flowing
from ..format import Options, Row, formats
from ..zipped import damaged_file, open_zip

BODY = "word/document.xml"
SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}


@formats.register("docx", columns=False, needs=["defusedxml"])
def read_docx(path: Path, options: Options) -> Iterator[Row]:
    """One document, in the column `text`: paragraphs, and those in the cells of tables, in their order. Notes at the
    foot, headers, comments, pictures and what was struck out by a reviser are left out. Raises DataError for a file
    that is damaged or far too large."""
    sax = need("defusedxml.sax", "reading .docx files")
    body = Body()
    with open_zip(path) as packed:
        try:
            parser = sax.make_parser()
            parser.setFeature(feature_namespaces, True)
            parser.setContentHandler(body)
            with packed.open(BODY) as file:
                parser.parse(file)
        except DataError:
            raise
        except Exception as error:  # damaged files raise many kinds
            raise damaged_file(path, error) from None
    yield 1, {"text": body.flowing.text()}


class Body(ContentHandler):
    """What the parser of a document's body calls: it keeps no tree."""

    def __init__(self) -> None:
        super().__init__()
        self.flowing = Flowing()
        self._text = self._doubled = 0

    def startElementNS(self, name: tuple[str | None, str], qname: str | None, attrs: Any) -> None:  # noqa: N802
        tag = name[1]
        self._doubled += tag == "Fallback"  # of a text box, for older programs: the same once more
        if self._doubled:
            return
        self._text += tag == "t"
        if tag in SIGNS:
            self.flowing.add(SIGNS[tag])

    def endElementNS(self, name: tuple[str | None, str], qname: str | None) -> None:  # noqa: N802
        tag = name[1]
        if self._doubled:
            self._doubled -= tag == "Fallback"
            return
        self._text -= tag == "t"
        if tag == "p":
            self.flowing.end(kept=True)

    def characters(self, content: str) -> None:
        if self._text and not self._doubled:
            self.flowing.add(content)
