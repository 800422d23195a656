"""Words of any script, and all that looks for words: none ends at a combining mark."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformula.comparison.variants import NAMED
from transformula.data.records import names_columns
from transformula.data.spelling import Spelling, in_words, words_of
from transformula.data.unicode_words import WORD
from transformula.data.where import Where
from transformula.tasks.question_answering import LocatedTokens
from transformula.tasks.scores.baselines import function_name
from transformula.tasks.scores.linear import tfidf_cosine
from transformula.tasks.scores.sliding_window import sliding_window
from transformula.tasks.tagging import locate_tokens
from transformula.tokenizers.characters import Bytes

SCRIPTS = {
    "Devanagari": "मैं हिन्दी पढ़ता हूँ",
    "Bengali": "আমি বাংলা পড়ি",
    "Tamil": "நான் தமிழ் படிக்கிறேன்",
    "Telugu": "నేను తెలుగు చదువుతాను",
    "Malayalam": "അവന്‍ മലയാളം",  # the first word ends with a joiner
    "Sinhala": "ශ්‍රී ලංකාව",  # and this has one inside
    "Thai": "ฉัน ชอบ น้ำ",
    "Khmer": "ខ្ញុំ ចូលចិត្ត",
    "Tibetan": "བོད ཡིག",
    "Arabic": "شُكرًا جزيلًا لكَ",
    "Persian": "می‌خواهم بروم",  # a non-joiner inside
    "Hebrew": "שָׁלוֹם עוֹלָם",
    "Greek": unicodedata.normalize("NFD", "Καλημέρα κόσμε"),
    "Vietnamese": unicodedata.normalize("NFD", "tiếng Việt"),
    "French": unicodedata.normalize("NFD", "un café brûlé"),
    "Korean": unicodedata.normalize("NFD", "한국어 문장"),
    "Russian": "мой стих",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_words_are_what_stands_between_blanks(text: str) -> None:
    assert WORD.findall(text) == text.split() == locate_tokens(text)[1]
    assert in_words(text) == text


def test_letters_without_marks_are_the_words_of_before() -> None:
    """All characters of the first plane but marks and joiners; so Latin text has the words that it had."""
    signs = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    known = [sign for sign in signs if unicodedata.category(sign) not in ("Cn", "Mn", "Mc", "Me")]
    assert [sign for sign in known if bool(WORD.match(sign)) != bool(re.match(r"\w", sign))] == []
    assert WORD.findall(" ".join(known)) == re.findall(r"\w+", " ".join(known))
    assert WORD.findall("\U00010400\U00010428 \U0001d400") == ["\U00010400\U00010428", "\U0001d400"]


@given(st.text("aZé0_ .,-'’!\n\t"))
def test_latin_texts_have_the_tokens_of_before(text: str) -> None:
    before = re.compile(r"\w+(?:(?:[-.'’@&/]|,(?=\d))\w+)*|([^\w\s])\1*")
    assert locate_tokens(text)[1] == [match[0] for match in before.finditer(text)]


def test_signs_keep_their_marks() -> None:
    text = "❤️ 👩‍👩‍👧 👍🏽👍🏽 🇩🇪🇫🇷 1️⃣ ...!"
    assert locate_tokens(text)[1] == ["❤️", "👩‍👩‍👧", "👍🏽👍🏽", "🇩🇪", "🇫🇷", "1️⃣", "...", "!"]


@given(st.text("aBÉ_1é\u0301\u0302 ("))
def test_nothing_of_a_name_is_lost(text: str) -> None:
    assert re.sub("[_ ]", "", in_words(text)) == re.sub("[_ ]", "", text)


def test_a_name_with_accents_of_their_own() -> None:
    decomposed = unicodedata.normalize("NFD", "größe_ändern")
    assert words_of(decomposed) == decomposed.split("_")
    assert Spelling(lower="first").target("E\u0301cole") == " e\u0301cole"
    source = unicodedata.normalize("NFD", "def größe():\n    pass")
    assert function_name([], [{"source": source}]) == [unicodedata.normalize("NFD", "größe")]  # type: ignore[list-item]


def test_columns_and_variants_are_named_in_any_script() -> None:
    assert names_columns(["text", "हिन्दी"])
    assert Where.parse("अंक >= 3").keeps({"अंक": 4}, "a:1")
    named = NAMED.fullmatch("हिन्दी: x = x + mlp(norm(x))")
    assert named is not None and named[1] == "हिन्दी"


def test_an_answer_by_counting_is_whole_words() -> None:
    context = "राजधानी दिल्ली है। नदी गंगा है।"
    assert sliding_window("राजधानी क्या", context, {"है"}) == "दिल्ली"
    texts = (LocatedTokens(text, Bytes.train(), False) for text in (context, "दिल्ली दलिया"))
    assert [word for each in texts for _, _, word, _ in each.words if word[0] == "द"] == ["दिल्ली", "दिल्ली", "दलिया"]


def test_a_vowel_is_no_word_that_texts_share() -> None:
    pytest.importorskip("sklearn")
    texts = ("मेरी किताब", "तेरी कहानी")  # these share vowel signs alone
    assert tfidf_cosine([texts], [], [texts, (texts[0], texts[0])]) == pytest.approx([0, 1])
