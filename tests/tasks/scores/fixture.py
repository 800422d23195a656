"""Texts that try a score: case, punctuation, accents, short ones, empty ones, ones without a match, repeats."""

from __future__ import annotations

import random

REFERENCES = [
    "A man in an orange hat starring at something.",
    "A Boston Terrier is running on lush green grass in front of a white fence.",
    'She said: "No, 3.5 % of them aren\'t well-known!"',
    "Ein Mädchen fährt über die Brücke (bei Köln).",
    "Hello",
    "two dogs",
    "the the the the cat",
    "People are fixing the roof of a house.",
    "Relational operators conditionally relating digitizers' callousness, flies, died and agreed.",
    "",
]
PREDICTIONS = [
    "A man in an orange hat staring at something.",
    "a boston terrier runs on green grass , in front of the white fence .",
    'She said "no, 3.5% of them are well known".',
    "Ein Madchen fährt mit dem Rad über die Brücke.",
    "hello",
    "dogs two",
    "the cat the the the the the",
    "",
    "Relate the operation: conditions relate digitized callous flying, dying and agreement.",
    "something",
]
SECOND = [
    "A person stares.",
    "Terrier on grass",
    "She: no!",
    "Eine Brücke",
    "Hi",
    "Two dogs",
    "a cat",
    "A roof",
    "x",
    "y",
]


def texts(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Predictions and references of random words of a small vocabulary: half of each reference is kept."""
    random_state = random.Random(seed)
    vocabulary = [f"{a}{b}" for a in ("run", "walk", "Jump", "sitt") for b in ("", "ing", "s", "ed", ".", "er")]
    references, predictions = [], []
    for _ in range(count):
        words = [random_state.choice(vocabulary) for _ in range(random_state.randint(1, 15))]
        kept = [word if random_state.random() < 0.7 else random_state.choice(vocabulary) for word in words]
        references.append(" ".join(words))
        predictions.append(" ".join(kept[random_state.random() < 0.3 :]))
    return predictions, references
