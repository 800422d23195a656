"""Model files written at random: each is refused with a reason, or built and keeps all promises (`examine.py`).

The random choices are the same each time. A failure is made smaller by hypothesis, and then stands in the message: put
it into `test_found.py` when it is repaired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from tests.generated.examine import BUILT, VOCABULARY, examine
from tests.generated.writer import models
from transformula.language.check import check
from transformula.language.model_file import read_text

EVERY_DAY = 30
SLOW, PARTS = 610, 10
"""How many are drawn in each part of the slow set; some are drawn twice."""
COMPILED = 80
"""One of so many is compiled, in the slow set."""


def many(count: int) -> Callable[[Any], Any]:
    """So many examples, the same each time."""
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )


class Seen:
    """What became of the examples."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.words: set[str] = set()
        self.compiled = 0

    def look(self, text: str, one_of: int = 0) -> None:
        """Examine a text that is new: what is said of one in three, another in three saved, one of so many compiled."""
        if text in self.texts:
            return
        note(text)
        digest = crc32(text.encode())
        compiled = bool(one_of) and (digest % one_of == 0 or (not self.compiled and len(self.texts) >= one_of))
        found = examine(text, compiled, whole_text=digest % 3 == 0, files=digest % 3 == 1)
        self.texts[text] = found
        if found == BUILT:
            self.compiled += compiled
            sections = check(read_text(text), VOCABULARY).sections()
            self.words |= {v.call.word.name for section in sections for v in section.calls() if v.call}

    def were_worth_it(self, count: int) -> None:
        """Most were built, and nearly all words stood in some of them."""
        results = Counter(self.texts.values())
        assert results[BUILT] > 0.6 * len(self.texts) > 0.3 * count, results
        wanted = {r.name for r in VOCABULARY.values() if r.module.startswith("transformula.")}
        missing = wanted - self.words - {"patches", "prepend", "spell", "ngrams"}
        assert len(missing) < 0.1 * len(wanted), f"never written into a model that is built: {sorted(missing)}"
        assert self.compiled


def test_every_day() -> None:
    seen = Seen()

    @many(EVERY_DAY)
    @given(models())
    def each(text: str) -> None:
        seen.look(text)

    each()
    assert BUILT in seen.texts.values()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands(part: int) -> None:
    seen = Seen()

    @seed(part)
    @many(SLOW)
    @given(models())
    def each(text: str) -> None:
        seen.look(text, COMPILED)

    each()
    seen.were_worth_it(SLOW)
