"""Spoken sentences of a closed vocabulary of 500 words, which espeak-ng says as those of spoken.py.

    spoken-sentences   a sentence, its transcript   "seven old farmers found the copper bell in lima"   by m5

No two rows have the same text, and all rows of a speaker stay on one side of a split: neither a text nor a voice of the
test is in training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..built_in import Rows, built_in
from .digits import NAMES
from .picture_questions import COLORS, SHAPES
from .polite_replies import THINGS
from .spoken import COMMANDS, Spoken, spoken_rows, voiced
from .tool_calls import CAPITALS, HOURS, SYMBOLS

ROWS = 4_000
SEED = 500

WRITTEN = """
color: black white brown orange gray purple pink golden
thing: bell book box bridge bucket button camera candle carpet chair clock coin crown cup door drum engine fence
    flag garden glass hammer jacket kettle key ladder lamp letter map mirror needle paper pencil piano picture
    pillow plate pocket ring rope shelf shirt shovel spoon star stone stove tower towel train umbrella wagon wall
    wheel whistle window
person: anna boris clara daniel emma frank greta henry irene jacob karen lucas maria nina oscar peter rosa simon
    tara victor
worker: baker captain driver farmer gardener hunter lawyer painter pilot plumber sailor singer teacher
workers: bakers captains drivers farmers gardeners hunters lawyers painters pilots plumbers sailors singers
    teachers
animal: badger camel chicken dolphin donkey eagle falcon giraffe hamster horse kitten lizard monkey otter panther
    parrot penguin rabbit spider tiger turtle walrus zebra
animals: badgers camels chickens dolphins donkeys eagles falcons giraffes hamsters horses kittens lizards monkeys
    otters panthers parrots penguins rabbits spiders tigers turtles zebras
food: apple banana biscuit carrot cheese cherry coffee honey lemon melon mustard onion pancake pepper potato
    pudding salad sandwich soup sugar tomato yogurt
place: airport bakery castle cellar church desert factory forest harbor hospital hotel island kitchen library
    market meadow mountain museum office park river school station stadium street temple theater valley village
adjective: ancient angry brave broken calm careful cheap clever cold cruel curious dirty dusty empty famous
    friendly funny gentle happy heavy hungry lazy little lonely lucky modern narrow noisy old patient perfect
    plain polite quick quiet rich rusty silent simple slow small strange strong thirsty tiny tired ugly warm wild
    young
did: borrowed bought brought carried chased cleaned counted dropped fixed followed forgot found guarded hated
    helped kept liked lifted loved missed moved needed opened painted praised pulled pushed remembered repaired
    saved sold stole touched trusted visited wanted washed watched
went: argued arrived danced escaped laughed listened rested returned shouted slept smiled stumbled swam traveled
    vanished waited walked whispered worked yawned
how: again alone always early finally gladly hardly loudly never often once quickly quietly rarely slowly
    sometimes suddenly together twice
near: above behind below beside inside near outside under
month: january february march april may june july august september october november december
day: monday tuesday wednesday thursday friday saturday sunday
time: yesterday today tonight tomorrow noon midnight
plain: the a of in at with and because but it was is that who will open close bring give us please where what how
    many are there every said not from
"""
"""Words by what they are; `plain` are those that patterns name themselves."""

LEXICON: dict[str, Sequence[str]] = {
    **{line.split(": ")[0]: line.split()[1:] for line in WRITTEN.replace("\n    ", " ").split("\n") if line},
    "number": NAMES[2:],
    "one": NAMES[:2],
    "command": COMMANDS,
    "shape": SHAPES,
    "city": [city.lower() for city in HOURS],
    "country": [country.lower() for country in CAPITALS],
    "element": [*SYMBOLS],
}
LEXICON["color"] = [*COLORS, *LEXICON["color"]]
LEXICON["thing"] = [*THINGS, *LEXICON["thing"]]

PATTERNS = tuple(
    pattern.split()
    for pattern in (
        "the ADJECTIVE WORKER DID the COLOR THING",
        "PERSON DID the THING of the WORKER",
        "PERSON and PERSON WENT NEAR the PLACE",
        "the ANIMAL WENT HOW in the PLACE",
        "NUMBER ADJECTIVE WORKERS DID the ELEMENT THING in CITY",
        "NUMBER ANIMALS WENT HOW NEAR the ADJECTIVE PLACE",
        "please bring us the FOOD with the COLOR THING",
        "please open the COLOR THING NEAR the PLACE",
        "where is the ADJECTIVE THING of PERSON",
        "how many ANIMALS are there in COUNTRY",
        "it was a ADJECTIVE DAY in MONTH",
        "on DAY the WORKER DID NUMBER ADJECTIVE ANIMALS",
        "PERSON said that the ANIMAL DID the FOOD",
        "every WORKER from COUNTRY DID the ADJECTIVE ANIMAL",
        "the WORKER who DID the THING is ADJECTIVE",
        "the ELEMENT SHAPE is NEAR the COLOR SHAPE",
        "go COMMAND and stop at the PLACE in CITY",
        "PERSON will not close the THING TIME",
        "PERSON DID the FOOD but HOW the ONE THING",
        "the WORKERS from CITY WENT HOW because it was ADJECTIVE",
        "what will the WORKER give PERSON TIME",
    )
)


def vocabulary() -> list[str]:
    return sorted({word for words in LEXICON.values() for word in words})


def sentence(random: np.random.Generator) -> str:
    """A pattern with a word in each of its places."""
    pattern = PATTERNS[random.integers(len(PATTERNS))]
    return " ".join(str(random.choice(LEXICON[each.lower()])) if each.isupper() else each for each in pattern)


@lru_cache(maxsize=1)
def sentences() -> list[str]:
    """The texts of all rows, no two alike."""
    random = np.random.default_rng(SEED)
    found: dict[str, None] = {}
    while len(found) < ROWS:
        found[sentence(random)] = None
    return [*found]


@built_in("spoken-sentences", ("audio", "text", "speaker"), needs=["soundfile"], grouped=True, sounds=True)
def read_sentences(variant: str) -> Rows:
    """Sounds of a sentence each, with what is said."""
    digest = hashlib.sha256("\n".join(sentences()).encode()).hexdigest()
    return spoken_rows("spoken-sentences", variant, ROWS, digest, said_sentence)


def said_sentence(number: int) -> tuple[Spoken, np.random.Generator]:
    """What a row says, and what decides all that is left to chance in it."""
    random = np.random.default_rng([number, SEED])
    return voiced(sentences()[number], random), random
