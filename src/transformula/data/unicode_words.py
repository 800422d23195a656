"""Words of a text in any script: what counts as a word for every part of the program that looks for some.

A word is a letter, a digit or _, with all letters, digits, _, combining marks and joiners behind it: हिन्दी, شُكرًا, and
café also where its last letter is an e with an accent behind it. The `re` module ends a word at each mark.
"""

from __future__ import annotations

import regex

BASES = r"\p{L}\p{N}_"  # what `re` means by \w
SIGNS = BASES + r"\p{M}\u200c\u200d"  # those of a word; both are for the brackets of a pattern of `regex`
WORD = regex.compile(rf"[{BASES}][{SIGNS}]*+")

# Scripts that put no blanks between words; Japan's long vowel sign is of none.
UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}ー\p{Bopomofo}\p{Yi}\p{Tibetan}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}"
    r"\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\p{Javanese}\p{Balinese}"
)
UNSPACED_SIGN = rf"(?=[{UNSPACED}])[\p{{L}}\p{{N}}][\p{{M}}\u200c\u200d]*+"  # a letter or digit, with its marks
PIECE = regex.compile(rf"{UNSPACED_SIGN}|(?:(?!{UNSPACED_SIGN})\S)+")  # these, and what stands between blanks
