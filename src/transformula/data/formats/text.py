"""Plain text: a file is one document, as it is. Also how a file of any unknown extension is read."""

from __future__ import annotations

from pathlib import Path

from ...tokenizers.texts import Content
from ..format import as_utf8, formats


@formats.register("txt")
@formats.register("text")
@formats.register("md")
@formats.register("rst")
@formats.register("tex")
def read_text(path: Path, content: bytes, column: str | None) -> list[Content]:
    """One document. `column` has no meaning for a text and is left to the files that have columns."""
    return [as_utf8(path, content)]
