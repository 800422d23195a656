"""Training on several devices, by several processes.

What divides a model among ranks is loaded where one is divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...registry import lazy

if TYPE_CHECKING:
    from .sharded import FROM_RANKS as FROM_RANKS
    from .sharded import ShardedModel as ShardedModel

__getattr__ = lazy(__name__, {"FROM_RANKS": "sharded", "ShardedModel": "sharded"})
