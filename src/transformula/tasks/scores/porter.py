"""Porter's stemmer (1980, "An algorithm for suffix stripping"), with the changes that NLTK makes to it.

ROUGE compares stems with these changes wherever it is computed by the package rouge-score, so they are its definition.
In the paper's terms a word is [C](VC)^m[V]: runs of consonants C and of vowels V; m is its measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache


def table(rules: str) -> dict[str, str]:
    """'ical:ic ful:' -> an ending and what it becomes, of each rule."""
    return dict(rule.split(":") for rule in rules.split())


# Words that no rule is asked about.
IRREGULAR = {word: word for word in "sky news inning outing canning howe proceed exceed succeed".split()} | table(
    "skies:sky dying:die lying:lie tying:tie innings:inning outings:outing cannings:canning"
)
STEP_2 = table(
    "ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize"
    " ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble fulli:ful ogi:og"
)
STEP_3 = table("icate:ic ative: alize:al iciti:ic ical:ic ful: ness:")
STEP_4 = table("al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ion: ou: ism: ate: iti: ous: ive: ize:")

ONLY_AFTER = {"ogi": ("l",), "ion": ("s", "t")}  # endings that change after some letters alone


def kinds(word: str) -> str:
    """'c' or 'v' for each letter: a y is a vowel after a consonant."""
    letters = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and letters.endswith("c"))
        letters += "v" if vowel else "c"
    return letters


def measure(word: str) -> int:
    """m: how often a vowel is followed by a consonant."""
    return kinds(word).count("vc")


def is_short(word: str) -> bool:
    """Whether it ends as `hop`: consonant, vowel, consonant other than w, x, y; or, as NLTK has it, is like `at`."""
    letters = kinds(word)
    return (letters.endswith("cvc") and word[-1] not in "wxy") or letters == "vc"


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a lower-cased word: `relational` and `relate` have one."""
    if word in IRREGULAR or len(word) <= 2:
        return IRREGULAR.get(word, word)
    word = participle(plural(word))
    if word.endswith("y") and len(word) > 2 and kinds(word[:-1])[-1] == "c":  # 1c: happy, but not enjoy, nor by
        word = word[:-1] + "i"
    while word.endswith("alli") and measure(word[:-4]) > 0:  # in NLTK it goes first, and the rest is looked at again
        word = word[:-2]
    for endings, least in ((STEP_2, 1), (STEP_3, 1), (STEP_4, 2)):
        word = replace_ending(word, endings, least)
    left = word[:-1]
    if word.endswith("e") and (measure(left) > 1 or (measure(left) == 1 and not is_short(left))):  # 5a: cease, not rate
        word = left
    return word[:-1] if word.endswith("ll") and measure(word[:-1]) > 1 else word  # 5b


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
    left = word.removesuffix("ed" if word.endswith("ed") else "ing")
    if left == word or "v" not in kinds(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if left[-1] == left[-2:-1] and kinds(left)[-1] == "c":
        return left if left[-1] in "lsz" else left[:-1]
    return left + "e" if measure(left) == 1 and is_short(left) else left


def replace_ending(word: str, endings: Mapping[str, str], least: int) -> str:
    """2 to 4: the first ending of a table that fits decides; it changes where the measure before it is `least`."""
    for ending, becomes in endings.items():
        if word.endswith(ending):
            left = word.removesuffix(ending)
            fits = measure(left) >= least and left.endswith(ONLY_AFTER.get(ending, ""))
            return left + becomes if fits else word
    return word
