"""Plain text: a file is one document, as it is. Also how a language model reads a file of any unknown extension."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..format import Options, Row, formats
from ..lines import utf8_of


@formats.register("txt", takes=("encoding",), columns=False)
@formats.register("text", takes=("encoding",), columns=False)
@formats.register("md", takes=("encoding",), columns=False)
@formats.register("rst", takes=("encoding",), columns=False)
@formats.register("tex", takes=("encoding",), columns=False)
def read_text(path: Path, options: Options) -> Iterator[Row]:
    """One document, in the column `text`, as the bytes of the file: no second copy is made."""
    yield 1, {"text": utf8_of(path, options.encoding)}
