"""unicode-names: the name of a character -> its general category, from the Unicode data that every Python has.

LATIN SMALL LETTER A WITH ACUTE  ->  Ll
"""

from __future__ import annotations

import re
import sys
import unicodedata

from ...errors import DataError
from ..built_in import Rows, built_in

NUMBERED = re.compile(r".*-[0-9A-F]{4,5}|HANGUL SYLLABLE .*")  # names that say no more than a number or a sound
TOGETHER = 64  # characters beside each other that a split keeps on one side: their names are alike


@built_in("unicode-names", ("text", "label"), grouped=True)
def read_unicode_names(variant: str) -> Rows:
    """All characters that have a name of words, in the order of their numbers."""
    if variant:
        raise DataError(f"there is one such set; leave out :{variant}", path="unicode-names")
    named = [(code, unicodedata.name(chr(code), "")) for code in range(sys.maxunicode + 1)]
    rows = [
        (f"from U+{code - code % TOGETHER:04X}:{code % TOGETHER + 1}", name, unicodedata.category(chr(code)))
        for code, name in named
        if name and not NUMBERED.fullmatch(name)
    ]
    without = sum(bool(name) for _, name in named) - len(rows)
    return Rows(rows, {"characters whose names say but a number or a sound": without})
