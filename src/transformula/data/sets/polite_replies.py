"""polite-replies, polite-pairs: requests and replies in a style that a script can score.

    polite-replies   instruction, output         a reply in any style
    polite-pairs     prompt, chosen, rejected    two such replies, of which the script scores the first higher
    polite           the judge: how many of five rules a reply keeps

The rules: it begins politely, is short, holds no banned word, ends with a question, and names what was asked for. In
polite-replies a reply keeps each of the first four as often as not, so that a model which learned from these keeps two
of them. A row is a pure function of its number; no request of one set is in the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ...errors import DataError
from ..built_in import Rows, built_in
from ..judges import judge

REPLIES, PAIRS = 4000, 3000  # rows of the sets
THINGS = ("table", "room", "taxi", "ticket", "doctor", "guide", "boat", "bike", "desk", "tent", "court", "locker")
TOWNS = (
    "Rome", "Lima", "Oslo", "Cairo", "Paris", "Delhi", "Quito", "Tokyo", "Dublin", "Vienna", "Lisbon", "Nairobi",
)  # fmt: skip
TIMES = ("Monday", "Tuesday", "Friday", "Sunday", "noon", "tonight", "tomorrow", "next week")
REQUESTS = (
    "I need a {} in {} for {}.",
    "Please find a {} in {} for {}.",
    "Is there a {} in {} for {}?",
    "A {} in {} for {}, if you can.",
)
POLITE = ("Of course.", "Gladly.", "With pleasure.", "Thank you for asking.")
OTHER = ("Fine.", "All right.", "Well.", "So be it.")
FILLER = (
    "I looked at every list that I have and at some more of them again.",
    "There were many others and none of those is what you were looking for.",
    "It took me quite some time to go through all that there is.",
)
BANNED = ("obviously", "whatever", "honestly")
QUESTIONS = ("Shall I book it?", "Does that suit you?", "May I reserve it?")
STATEMENTS = ("It is booked.", "That is all.", "The rest is up to you.")
MOST_WORDS = 16


def request_of(random: Random) -> tuple[str, str, str]:
    """A request, what it asks for, and where."""
    thing, town = random.choice(THINGS), random.choice(TOWNS)
    return random.choice(REQUESTS).format(thing, town, random.choice(TIMES)), thing, town


def reply_to(thing: str, town: str, random: Random) -> str:
    """A reply that keeps each rule but the last as often as not."""
    polite, brief, clean, asks = (random.random() < 0.5 for _ in range(4))
    found = f"There is a {thing} in {town}."
    parts = [random.choice(POLITE if polite else OTHER)]
    parts.append(found if clean else f"There is {random.choice(BANNED)} a {thing} in {town}.")
    parts += [] if brief else [random.choice(FILLER)]
    parts.append(random.choice(QUESTIONS if asks else STATEMENTS))
    return " ".join(parts)


@judge("polite")
def score_of(prompt: str, reply: str) -> float:
    """How many of the five rules a reply to a request keeps."""
    words = reply.lower().replace(".", " ").replace("?", " ").replace(",", " ").split()
    asked = {*prompt.replace(".", " ").replace("?", " ").replace(",", " ").split()}
    return float(
        reply.startswith(POLITE)
        + (0 < len(words) <= MOST_WORDS)
        + (not {*BANNED} & {*words})
        + reply.rstrip().endswith("?")
        + all(any(name.lower() in words for name in names if name in asked) for names in (THINGS, TOWNS))
    )


def requests(name: str, count: int, seed: int) -> Iterator[tuple[str, str, str, str, Random]]:
    """(place, request, thing, town, what else is drawn) of each row. Each request is of one of the two sets alone."""
    number = row = 0
    while row < count:
        random = Random(f"{seed} {number}")
        request, thing, town = request_of(random)
        number += 1
        if (Random(request).random() < 0.5) == (name == "polite-pairs"):
            row += 1
            yield f"{name}, row {row}", request, thing, town, random


@built_in("polite-replies", ("instruction", "output"))
def read_replies(variant: str) -> Rows:
    """Requests, each with a reply in any style."""
    check_variant("polite-replies", variant)
    drawn = requests("polite-replies", REPLIES, 1)
    return Rows([(place, request, reply_to(thing, town, random)) for place, request, thing, town, random in drawn])


@built_in("polite-pairs", ("prompt", "chosen", "rejected"))
def read_pairs(variant: str) -> Rows:
    """Requests, each with two replies in any style of which the script scores the first higher."""
    check_variant("polite-pairs", variant)
    rows = []
    for place, request, thing, town, random in requests("polite-pairs", PAIRS, 2):
        one = other = ""
        while score_of(request, one) == score_of(request, other):
            one, other = (reply_to(thing, town, random) for _ in range(2))
        chosen, rejected = sorted((one, other), key=lambda reply: -score_of(request, reply))
        rows.append((place, request, chosen, rejected))
    return Rows(rows)


def check_variant(name: str, variant: str) -> None:
    """Raise DataError for what stands after the colon of a name: there is one such set."""
    if variant:
        raise DataError(f"there is one such set; leave out :{variant}", path=name)
