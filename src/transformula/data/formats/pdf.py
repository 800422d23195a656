"""Documents as they are printed, .pdf: the text of their pages; needs the extra `documents`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ...extras import need
from ..format import Options, Row, formats
from ..lines import RATIO, open_binary
from ..zipped import damaged_file

MAX_PAGES = 20_000
MAX_CHARACTERS = 20 * 2**20  # characters up to which a file of any size may hold text


@formats.register("pdf", columns=False, needs=["pypdf"])
def read_pdf(path: Path, options: Options) -> Iterator[Row]:
    """One document, in the column `text`: its pages, an empty line between them. Pages without text, such as scanned
    ones, are counted. Raises DataError for a file that is damaged, has a password or is far too large."""
    pdf = need("pypdf", "reading .pdf files")
    pages: list[str] = []
    with open_binary(path) as file:
        logging.getLogger("pypdf").setLevel(logging.ERROR)  # it says much of files that are a little wrong
        try:
            reader = pdf.PdfReader(file)
            if reader.is_encrypted and not reader.decrypt(""):
                raise DataError("has a password; save it without one", path=path)
            most = max(MAX_CHARACTERS, RATIO * path.stat().st_size)
            for page in reader.pages:
                pages.append(page.extract_text().encode("utf-8", "replace").decode("utf-8").strip())
                most -= len(pages[-1])
                if most < 0 or len(pages) > MAX_PAGES:
                    limits = f"{MAX_PAGES:,} pages, or text of {RATIO} times its size"
                    raise DataError(f"has more than {limits}; split it, or save it as .txt", path=path)
        except DataError:
            raise
        except Exception as error:  # damaged files raise many kinds
            raise damaged_file(path, f"page {len(pages) + 1}: {error}") from None
    blank = sum(not text for text in pages)
    if blank == len(pages):
        options.met["none of its {n} pages has text: they may be scanned; it is left out"] = blank
    elif blank:
        options.met["{n} of its pages have no text"] = blank
    yield 1, {"text": "\n\n".join(filter(None, pages))}
