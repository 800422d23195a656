"""Data of windows from settings: texts in memory, a stream, or token shards that were made ahead."""

from __future__ import annotations

from ..errors import ConfigError
from .prepare import prepare
from .settings import DataSettings, TextSettings
from .stream.prepared import prepared, prepared_folder
from .token_data import TokenData


def data_of(
    settings: TextSettings, vocab: int | None = None, extra: int | None = None, mask: bool = False
) -> TokenData:
    """The data that settings name; the other arguments are those of `prepare`. Raises ConfigError for token shards
    where a task reads texts alone, and what the three kinds raise."""
    folder = prepared_folder(settings.data)
    if isinstance(settings, DataSettings):
        if folder is not None:
            return prepared(settings, folder, vocab)
        if settings.stream:
            from .stream.streamed import streamed  # what reads streams is loaded for one

            return streamed(settings, vocab)
    elif folder is not None:
        raise ConfigError(f"data: {folder} holds token shards, which only language modeling reads; name the text")
    return prepare(settings, vocab, extra, mask)
