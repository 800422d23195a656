"""A text while it is written: tokens in, text that may be shown out; it ends before a stop string."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Protocol


class Pieces(Protocol):
    """What turns tokens into characters, as `tokenizer.stream()` does."""

    def push(self, *ids: int) -> str:
        """The characters that these tokens complete."""

    def finish(self) -> str:
        """What is left of a character that was never completed."""


class StoppingStream:
    """One row's text, shown as far as it is certain.

        stream = StoppingStream(tokenizer.stream(), stop=["\\n\\n"], end=tokenizer.ends)
        shown = stream.push(token)      # "" while a character, or what may become a stop string, is incomplete
        shown = stream.close()          # the rest

    stop  the text ends before the first of these to be complete
    end   the token that ends a document, or several that do: the text ends before the first of them
    """

    def __init__(self, pieces: Pieces, *, stop: Sequence[str] = (), end: int | Set[int] | None = None) -> None:
        self.text = ""
        self.finished = False
        self._pieces = pieces
        self._ends = {end} if end is None or isinstance(end, int) else end
        self._stop = [s for s in stop if s]
        self._shown = 0

    def push(self, token: int) -> str:
        """Add a token; return the text that became certain. After `finished` nothing is added."""
        if self.finished:
            return ""
        if token in self._ends:
            return self.close()
        return self._add(self._pieces.push(token))

    def close(self) -> str:
        """End the text; return the rest of it, which could have been the beginning of a stop string."""
        shown = "" if self.finished else self._add(self._pieces.finish())
        self.finished = True
        rest, self._shown = self.text[self._shown :], len(self.text)
        return shown + rest

    def _add(self, piece: str) -> str:
        for character in piece:  # one by one, so that a stop string is met where it is completed
            self.text += character
            met = max((len(s) for s in self._stop if self.text.endswith(s)), default=0)
            if met:
                self.text, self.finished = self.text[:-met], True
                break
        # how many of the last characters could begin a stop string
        held = max((n for s in self._stop for n in range(1, len(s)) if self.text.endswith(s[:n])), default=0)
        shown = self.text[self._shown : len(self.text) - (0 if self.finished else held)]
        self._shown += len(shown)
        return shown
