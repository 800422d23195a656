"""Whether the first row of a table names its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

import regex

from .unicode_words import BASES, SIGNS

COMMON = frozenset(
    # pairs
    "source target src tgt trg input output inputs outputs prompt completion response instruction query answer question"
    " context passage premise hypothesis original translation translated reference references prediction hyp ref"
    # texts
    " text texts sentence sentences document documents doc article body content comment review message post tweet"
    " title headline description abstract summary highlights dialogue utterance paragraph word words token tokens"
    # labels and places
    " label labels class category tag tags topic intent sentiment score rating id idx index key name number row split"
    # pictures
    " image images picture file filename file_name path caption captions url"
    # sounds
    " audio sound recording speech wav clip clips transcript transcripts transcription speaker speakers"
    " voice keyword command"
    # code
    " code docstring function snippet".split()
)
LANGUAGES = frozenset(  # codes of ISO 639-1, and English names
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en"
    " eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv"
    " ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne"
    " ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st"
    " su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
    " arabic chinese czech danish dutch english finnish french german greek hebrew hindi hungarian italian japanese"
    " korean norwegian polish portuguese romanian russian spanish swedish turkish ukrainian vietnamese".split()
)
# it begins with a letter, ends with no punctuation
COLUMN_NAME = regex.compile(rf"(?!\d)[{BASES}](?:[{SIGNS}.:/ -]{{0,38}}[{SIGNS}])?")


def names_columns(row: Sequence[str]) -> bool:
    """Whether the first row of a table names its columns: if all its fields are different short names, and one of them
    is a common name of a column (source, tgt, label, sentence1) or two are languages (de, en-US, German)."""
    fields = [field.strip() for field in row]
    short = all(COLUMN_NAME.fullmatch(field) and len(field.split()) <= 3 for field in fields)
    parts = [re.sub(r"[\s.:/-]+", "_", field.lower()).rstrip("0123456789_").split("_") for field in fields]
    common = any("_".join(part) in COMMON or COMMON & {part[0], part[-1]} for part in parts)
    # A single one may be a word like any other: "no" is a code, too.
    languages = sum(part[0] in LANGUAGES and len(part) <= 2 for part in parts)
    return short and len(set(fields)) == len(fields) and (common or languages > 1)
