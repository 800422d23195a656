"""Names of data: a built-in set, a data set of the hub, or files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tokenizers.base import tokenizers
from .builtin import builtin
from .hub import is_hub
from .pair_set import is_pair_set
from .records import beside

SOURCES = ("data", "validation", "test")
"""Keys of a run's configuration that name data."""

Sources = str | Sequence[str] | None


def each(sources: Sources) -> Iterator[str]:
    """The names of one source, of several, or of none."""
    yield from [] if sources is None else [sources] if isinstance(sources, str) else map(str, sources)


def is_set(source: str) -> bool:
    """Whether a source is a set by its name rather than files."""
    return source in builtin or is_pair_set(source) or is_hub(source)


def is_there(source: str) -> bool:
    """Whether a source is a set, or files that exist."""
    if is_set(source):
        return True
    try:
        files = [os.path.expanduser(file) for file in beside(source).values() or [source]]
        return all(os.path.exists(file) or (glob.has_magic(file) and glob.glob(file, recursive=True)) for file in files)
    except (OSError, ValueError):
        return False


def absolute(value: Any) -> Any:
    """Names of files as they are found from every folder; what names no file that is there stays as it is."""
    if isinstance(value, list):
        return [absolute(one) for one in value]
    if not isinstance(value, str) or is_set(value) or not is_there(value):
        return value
    return os.path.abspath(os.path.expanduser(value))


def recorded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of data as a run records them: its files, and the folder of a tokenizer, are found from every folder."""
    files = {key: absolute(settings[key]) for key in SOURCES if key in settings}
    tokenizer = settings.get("tokenizer")
    if tokenizer is not None and tokenizer not in tokenizers:
        files["tokenizer"] = absolute(tokenizer)
    return {**settings, **files}


def gone(sources: Sources) -> list[str]:
    """Those of the sources whose files are not there."""
    return [source for source in each(sources) if not is_there(source)]
