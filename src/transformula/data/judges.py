"""Judges: functions that score a reply by rules, without a model. A judge of one's own is registered by a package that
`--use` names:

    @judge("brief")
    def brief(prompt: str, reply: str) -> float:
        return -len(reply.split())
"""

from __future__ import annotations

from collections.abc import Callable

from ..registry import Registry

Judge = Callable[[str, str], float]
"""What the last message says, the reply -> a score, higher for a better reply."""

judges: Registry[Judge] = Registry("judge", "transformula.data.sets", "@judge(")
judge = judges.register
"""Decorator that registers a judge under its name."""
