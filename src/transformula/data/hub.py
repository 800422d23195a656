"""Data sets of the Hugging Face hub, streamed; needs the extra `hub`."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from ..errors import DataError
from ..extras import need
from .record_format import Row


def is_hub(source: object) -> bool:
    """Whether a source is the name of a data set of the hub."""
    return str(source).startswith("hub:")


def need_hub() -> ModuleType:
    """The library of the hub. Raises MissingExtra where it is not installed."""
    return need("datasets", "reading a data set of the hub")


def read_hub(name: str) -> Iterator[Row]:
    """The rows of hub:NAME, hub:NAME:SPLIT or hub:NAME:CONFIG:SPLIT; a NAME may be a folder on this machine.

    Raises DataError, with what the library says, for a name, configuration or split that is not there.
    """
    datasets = need_hub()
    parts = name.removeprefix("hub:").split(":")
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise DataError("expected hub:NAME, hub:NAME:SPLIT or hub:NAME:CONFIG:SPLIT", path=name)
    split = parts[-1] if len(parts) > 1 else "train"
    config = parts[1] if len(parts) == 3 else None
    number = 0
    try:
        rows = datasets.load_dataset(parts[0], config, split=split, streaming=True)
        for number, row in enumerate(rows, 1):
            yield number, row
    except Exception as error:  # the library raises of everything: of its own, of the network, of the files' formats
        where = f"after row {number}: " if number else ""
        raise DataError(f"{where}{type(error).__name__}: {str(error)[:300]}", path=name) from None
