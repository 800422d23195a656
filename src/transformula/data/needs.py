"""Optional packages that data and tokenizers need, asked for before anything is read."""

from __future__ import annotations

from pathlib import Path

from ..extras import need
from ..tokenizers.base import tokenizers
from .builtin import builtin
from .format import extension, formats
from .hub import is_hub, need_hub
from .naming import Sources, each
from .pair_set import is_pair_set, pair_sets
from .record_format import record_formats
from .records import beside
from .sources import files_of


def need_text(sources: Sources) -> None:
    """Raise MissingExtra for a package that reads texts and is not here, and DataError for files that are not there."""
    for source in each(sources):
        for path in () if source in builtin else files_of(source):
            if extension(path) in formats:
                formats.need(extension(path))


def need_rows(sources: Sources, pictures: bool = False) -> None:
    """Raise MissingExtra unless all packages are here that rows are read by.

    pictures  their sources are pictures
    """
    for source in each(sources):
        if is_pair_set(source):
            pair_sets.need(source.partition(":")[0])
            continue
        if is_hub(source):
            need_hub()
        elif not beside(source) and extension(Path(source)) in record_formats:
            record_formats.need(extension(Path(source)))
        if pictures:
            need("PIL", "reading pictures")


def need_tokenizer(name: str) -> None:
    """Raise MissingExtra unless all packages are here by which a tokenizer is trained."""
    if name in tokenizers:
        tokenizers.need(name)
