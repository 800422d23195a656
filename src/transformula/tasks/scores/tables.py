"""Parts of a report."""

from __future__ import annotations

from typing import Any, Protocol


class ReportPart(Protocol):
    """What a report has beside its scores, such as a table of mistakes: `str` of it is for people, `data` for programs;
    `svg` is its picture, None for none.
    """

    @property
    def name(self) -> str: ...

    @property
    def data(self) -> Any: ...

    @property
    def svg(self) -> str | None: ...
