"""Porter's stemmer (1980, "An algorithm for suffix stripping"), with the changes that NLTK makes to it.

ROUGE compares stems with these changes wherever it is computed by the package rouge-score, so they are its definition.
In the paper's terms a word is [C](VC)^m[V]: runs of consonants C and of vowels V; m is its measure.
"""

from __future__ import annotations

from functools import lru_cache

IRREGULAR = {
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "innings": "inning",
    "outings": "outing",
    "cannings": "canning",
    **{word: word for word in "sky news inning outing canning howe proceed exceed succeed".split()},
}
"""Words that no rule is asked about."""

STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
}
"""Endings and what they become, where the measure before them is at least 1. The first that fits decides."""

STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
"""As step 2."""

STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()
"""Endings that fall where the measure before them is at least 2."""


def kinds(word: str) -> str:
    """'c' or 'v' for each letter: a y is a vowel after a consonant."""
    found = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and found.endswith("c"))
        found += "v" if vowel else "c"
    return found


def measure(word: str) -> int:
    """m: how often a vowel is followed by a consonant."""
    return kinds(word).count("vc")


def short(word: str) -> bool:
    """Whether it ends as `hop`: consonant, vowel, consonant other than w, x, y; or, as NLTK has it, is like `at`."""
    found = kinds(word)
    return (found.endswith("cvc") and word[-1] not in "wxy") or (found == "vc")


def doubled(word: str) -> bool:
    """Whether it ends in a consonant twice."""
    return len(word) >= 2 and word[-1] == word[-2] and kinds(word)[-1] == "c"


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-cased word: `relational` and `relate` have one."""
    if word in IRREGULAR:
        return IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (plural, participle, final_y, second, third, fourth, final_e):
        word = step(word)
    return word[:-1] if word.endswith("ll") and measure(word[:-1]) > 1 else word


def plural(word: str) -> str:
    """1a: caresses, ponies, cats; dies becomes die."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def participle(word: str) -> str:
    """1b: agreed, plastered, motoring, hopping; died becomes die, spied spi."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        left = word.removesuffix(ending)
        if left != word and "v" in kinds(left):
            break
    else:
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if doubled(left):
        return left if left[-1] in "lsz" else left[:-1]
    return left + "e" if measure(left) == 1 and short(left) else left


def final_y(word: str) -> str:
    """1c: happy becomes happi, enjoy stays, as does by."""
    left = word[:-1]
    return left + "i" if word.endswith("y") and len(left) > 1 and kinds(left)[-1] == "c" else word


def second(word: str) -> str:
    """2: relational, digitizer, callousness; `alli` goes first and the rest is looked at again; `logi` too."""
    if word.endswith("alli") and measure(word[:-4]) > 0:
        return second(word[:-2])
    for ending, becomes in STEP_2.items():
        if word.endswith(ending):
            left = word.removesuffix(ending)
            return left + becomes if measure(left) > 0 else word
    return word[:-1] if word.endswith("logi") and measure(word[:-3]) > 0 else word


def third(word: str) -> str:
    """3: triplicate, hopeful, goodness."""
    for ending, becomes in STEP_3.items():
        if word.endswith(ending):
            left = word.removesuffix(ending)
            return left + becomes if measure(left) > 0 else word
    return word


def fourth(word: str) -> str:
    """4: revival, allowance, adoption."""
    for ending in STEP_4:
        if word.endswith(ending):
            left = word.removesuffix(ending)
            return left if measure(left) > 1 and (ending != "ion" or left[-1] in "st") else word
    return word


def final_e(word: str) -> str:
    """5a: probate, cease; rate stays."""
    left = word[:-1]
    falls = measure(left) > 1 or (measure(left) == 1 and not short(left))
    return left if word.endswith("e") and falls else word
