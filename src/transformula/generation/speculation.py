"""Tokens that are guessed, so that one pass computes the logits behind several; those that are not drawn are dropped.

Prompt lookup: what followed the last tokens where they stood before is guessed to follow them again. It is right where
a text repeats itself or its prompt, as code, tables and answers from a passage do (Saxena 2023, "Prompt lookup
decoding"; drafts in general: Leviathan et al. 2023, 2211.17192). A row draws each token with its own next random
number, as it does without guesses, so its text is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST, SHORTEST = 3, 2  # of the tokens that are looked for


class PromptLookup:
    """What followed each few tokens of one text, where they stood last."""

    def __init__(self) -> None:
        self.after: dict[tuple[int, ...], int] = {}
        self.known = 0

    def guess(self, tokens: Sequence[int], most: int) -> list[int]:
        """Up to `most` tokens that may come next; `tokens`: those so far, which begin as at the last call."""
        for place in range(self.known, len(tokens)):
            for size in range(SHORTEST, LONGEST + 1):
                if place >= size:
                    self.after[tuple(tokens[place - size : place])] = place
        self.known = len(tokens)
        for size in range(LONGEST, SHORTEST - 1, -1):
            found = self.after.get(tuple(tokens[-size:]))
            if found is not None:
                return list(tokens[found : found + most])
        return []
