"""Data sets of the hub as shards: each file of a config is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...errors import DataError
from ..format import Options
from ..hub import HubSet
from .shards import ShardSource, Values


class HubShards(ShardSource):
    """The files of hf:OWNER/NAME:CONFIG, in the order of the hub's listing. The commit is found when it is first asked
    for; reading goes on there, whatever the branch becomes.

    Reading holds some 50 MiB of a file with pages of the web, as FineWeb-Edu's: so few are read at once.

    Raises what `HubSet` raises, and DataError for a name with a number of rows, as train[:1000]: shards are read whole.
    """

    readers = 16

    def __init__(self, name: str, column: str | None = None, how: Options | None = None) -> None:
        self.known = HubSet(name)
        if self.known.name.first is not None:
            raise DataError(
                "a stream reads whole files; leave the number of rows out, or read the first rows without a stream",
                path=name,
            )
        super().__init__(name, self.known.files, column, how)
        self._number = {shard: number for number, shard in enumerate(self.names)}

    def rows(self, shard: str, start: int = 0) -> Iterator[Values]:
        return self.known.rows(self._number[shard], start)

    def stamp(self, shard: str) -> Any:
        return [self.known.commit, str(self.how.where)]
