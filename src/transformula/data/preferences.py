"""Preferences: rows of a prompt and two replies to it, of which one is preferred, as records of one kind.

    prompt, chosen, rejected      each a text or a list of messages
    chosen, rejected              two whole conversations, whose common beginning is the prompt: messages, or texts in
                                  which "Human:" and "Assistant:" begin the turns
    prompt, reply, rating         several rows of one prompt, or lists in one row: pairs are made by the ratings

A record holds the messages before the replies as its field `prompt`, and those of each side, which begin with a reply,
as `chosen` and `rejected`. Its group is the prompt, so that no split has one on both sides.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..errors import ConfigError, DataError, setting
from .conversations import REPLIES, read_conversations
from .lines import BadRows
from .messages import Message, message_text
from .records import BadRecord, Record, columns_in_words, columns_of, read_records

PROMPTS = ("prompt", "question", "instruction", "query", "input")  # common names of the columns
REPLY_COLUMNS = ("reply", "response", "completion", "answer", "replies", "responses", "completions", "answers")
RATINGS = ("rating", "score", "ratings", "scores")
SIDES = ("chosen", "rejected")
TURNS = re.compile(r"(?:^|\n\n)(Human|Assistant): ?")

NO_REPLY = "a reply is empty"
EQUAL = "chosen and rejected are equal"
NO_PROMPT = "the prompt is empty"
OTHER_PROMPTS = "chosen and rejected answer different prompts"
EQUAL_RATINGS = "all ratings are equal"


class Rated(NamedTuple):
    """A reply with its rating, and where it stands."""

    reply: Any
    rating: float
    place: str


def read_preferences(sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
    """The pairs of some sources. To `notes` is added how many rows are left out, and why.

    settings  name the columns `prompt`, `chosen`, `rejected`, `reply` and `rating`, where their names are not known,
              and say by `pairing` which rated replies become pairs

    Raises ConfigError for files without such columns, DataError for a row that cannot be read, and for none.
    """
    names, _ = columns_of(sources, **settings.reading)
    columns = columns_for(sources, names, settings)
    kinds = {name: "numbers" if name == "rating" else "said" for name in columns}
    records = read_records(sources, columns, kinds=kinds, empty="keep", **settings.reading)
    rows = records.read_all(key, notes)
    left_out: Counter[str] = Counter()
    found = rated_pairs(rows, settings.pairing, left_out) if "rating" in columns else map(pair_of, rows)
    kept = []
    for made in found:
        why = why_left_out(made)
        if why:
            left_out[why] += 1
        else:
            kept.append(made)
    if not kept:
        reasons = "; ".join(f"{why} ({count:,})" for why, count in left_out.items())
        raise DataError(f"{key}: none of {len(rows):,} rows is a prompt with two replies: {reasons}", path=records.name)
    notes += [f"{key}: {count:,} {'prompts' if why == EQUAL_RATINGS else 'pairs'} are left out: {why}"
              for why, count in left_out.items()]  # fmt: skip
    return kept


def read_replies(path: Path, column: str | None = None, bad_rows: BadRows = None) -> Iterator[Record]:
    """Dialogues of a file that end with a reply, as the field `source`: messages, or a prompt and a reply."""
    names, _ = columns_of(path, bad_rows=bad_rows)
    prompt, reply = (next((n for n in known if n in names), None) for known in (PROMPTS, REPLY_COLUMNS))
    if column is None and prompt is not None and reply is not None:
        fields = {"prompt": prompt, "reply": reply}
        kinds = dict.fromkeys(fields, "said")
        for row in read_records(path, fields, kinds=kinds, empty="keep", whole=True, bad_rows=bad_rows):
            if isinstance(row, BadRecord):
                yield row
                continue
            both = said_by(row["prompt"], row.place, role="user"), said_by(row["reply"], row.place)
            yield Record({"source": [message for side in both for message in side]}, row.place, row=row.row)
        return
    for row in read_conversations(path, column, empty="keep", whole=True, bad_rows=bad_rows):
        yield row if isinstance(row, BadRecord) else Record({"source": row["messages"]}, row.place, row=row.row)


def columns_for(sources: Any, names: Sequence[str], settings: Any) -> dict[str, str | int]:
    """Which columns are the prompt and the replies: those that are named, else known ones. Raises ConfigError."""

    def known(key: str, common: Sequence[str]) -> str | None:
        stated: str | None = getattr(settings, key)
        return stated or next((name for name in common if name in names), None)

    stated = [key for key in ("reply", "rating") if getattr(settings, key) is not None]
    both = [side for side in SIDES if getattr(settings, side) is not None]
    if stated and both:
        what = f"{both[0]} says that rows are pairs, and this that they are rated"
        raise ConfigError(f"{stated[0]}: {what}; leave one out")
    sides = {side: None if stated else known(side, [side]) for side in SIDES}
    prompt = known("prompt", PROMPTS)
    if all(sides.values()):
        if settings.pairing == "all":
            raise ConfigError("pairing: is of rated replies, and these rows are pairs already; leave it out")
        return {name: column for name, column in {"prompt": prompt, **sides}.items() if column is not None}
    rated = {"prompt": prompt, "reply": known("reply", REPLY_COLUMNS), "rating": known("rating", RATINGS)}
    if all(rated.values()) and not any(sides.values()):
        return {name: str(column) for name, column in rated.items()}
    missing = next(side for side in SIDES if not sides[side])
    raise ConfigError(
        f"{missing}: {columns_in_words(sources, names)}; expected chosen and rejected, with or without a prompt, or"
        f" prompt, reply and rating; say which: {setting('chosen', names[0])} {setting('rejected', names[-1])}"
    )


def pair_of(row: Record) -> Record:
    """A row as a pair. Without a prompt, or where both sides begin otherwise than with a reply, they are whole
    conversations, and what these share at their beginning is the prompt. Raises DataError."""
    chosen, rejected = (said_by(row[side], row.place, whole="prompt" not in row) for side in SIDES)
    if "prompt" in row and not all(side and side[0]["role"] != REPLIES for side in (chosen, rejected)):
        prompt = said_by(row["prompt"], row.place, role="user")
    else:
        shared = len([*takewhile(lambda both: both[0] == both[1], zip(chosen, rejected, strict=False))])
        shared = min(shared, len(chosen) - 1, len(rejected) - 1) if chosen and rejected else 0
        prompt, chosen, rejected = chosen[:shared], chosen[shared:], rejected[shared:]
    return record_of(prompt, chosen, rejected, row.place)


def record_of(prompt: list[Message], chosen: list[Message], rejected: list[Message], place: str) -> Record:
    """A pair as a record, of the group of its prompt."""
    group = str([(one["role"], message_text(one)) for one in prompt])
    return Record({"prompt": prompt, "chosen": chosen, "rejected": rejected}, place, group)


def why_left_out(pair: Record) -> str:
    """Why a pair teaches nothing; "" where it does."""
    chosen, rejected = (cast(list[Message], pair[side]) for side in SIDES)
    if not chosen or not rejected:
        return NO_REPLY
    if chosen == rejected:
        return EQUAL
    if any(side[0]["role"] != REPLIES for side in (chosen, rejected)):
        return OTHER_PROMPTS
    return "" if pair["prompt"] else NO_PROMPT


def said_by(value: Any, place: str, role: str = REPLIES, whole: bool = False) -> list[Message]:
    """A text, or messages, as messages of words: a text is one of the `role`, or a `whole` conversation. Raises
    DataError for a list of texts, and for a whole conversation in which no turn begins."""
    if isinstance(value, str):
        messages = turns_of(value, place) if whole else [{"role": role, "content": value}]
    elif all(isinstance(one, dict) for one in value):
        messages = value
    else:
        what = f"holds a list of {len(value)} texts"
        raise DataError(f"{place}: {what}; expected a text or messages, or ratings beside it")
    stripped = [{**one, "content": one["content"].strip()} for one in messages]
    return [one for one in stripped if message_text(one)]


def turns_of(text: str, place: str) -> list[Message]:
    """The messages of a text such as "Human: Hello\\n\\nAssistant: Hi". Raises DataError."""
    begun = list(TURNS.finditer(text))
    if text.strip() and (not begun or text[: begun[0].start()].strip()):
        raise DataError(
            f"{place}: without a column of prompts, chosen and rejected are whole conversations: messages, or a text"
            f" that begins with 'Human: '; name the column of the prompts: {setting('prompt', 'NAME')}"
        )
    ends = [*(turn.start() for turn in begun[1:]), len(text)]
    return [
        {"role": "user" if turn[1] == "Human" else REPLIES, "content": text[turn.end() : end]}
        for turn, end in zip(begun, ends, strict=True)
    ]


def rated_pairs(rows: Sequence[Record], pairing: str, left_out: Counter[str]) -> Iterator[Record]:
    """Pairs of rated replies to one prompt: the best and the worst, or all of different ratings. Raises DataError for a
    rating that is no number, or for more of them than replies."""
    prompts: dict[str, tuple[list[Message], list[Rated]]] = {}
    for row in rows:
        asked = said_by(row["prompt"], row.place, role="user")
        given, ratings = replies_in(row["reply"]), cast(list[float], row["rating"])
        if len(given) != len(ratings) or not all(map(math.isfinite, ratings)):
            raise DataError(f"{row.place}: {len(given)} replies have the ratings {ratings}; expected a number for each")
        _, rated = prompts.setdefault(str(asked), (asked, []))
        rated += [Rated(reply, rating, row.place) for reply, rating in zip(given, ratings, strict=True)]
    for asked, rated in prompts.values():
        ranked = sorted(rated, key=lambda one: -one.rating)
        pairs = [*combinations(ranked, 2)] if pairing == "all" else [(ranked[0], ranked[-1])]
        pairs = [(best, worst) for best, worst in pairs if best.rating > worst.rating]
        left_out[EQUAL_RATINGS] += not pairs
        for best, worst in pairs:
            chosen, rejected = (said_by(one.reply, best.place) for one in (best, worst))
            yield record_of(asked, chosen, rejected, best.place)
    left_out += Counter()  # without what is 0


def replies_in(value: Any) -> list[Any]:
    """The replies of a row: a text or messages are one, a list of texts are several."""
    return value if isinstance(value, list) and not any(isinstance(one, dict) for one in value) else [value]
