"""Text from ids one by one, by a decoder that may need to know what follows: together the text that it gives at once.

The library's own DecodeStream ends in an error at bytes that are no text, gives out nothing of what is left at the end,
and knows nothing of what transformers does to the text afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MAX_IDS, KEPT_IDS = 64, 16  # ids that are decoded at a time, and how many stay when older ones are given up
CLEANED = 8  # characters at the end that cleaning may still change: its longest pattern has 4, and 4 before it


class WindowStream:
    """Decodes a window of the latest ids, and gives out what no later id changes.

    decode   ids -> text; ids far apart do not change each other's
    is_text  whether an id stands for a text: special tokens do not, and are passed over
    is_byte  whether an id is a single byte; a run of these is decoded as a whole, so it is waited for
    cleaned  whether blanks before signs are taken away afterwards
    before   ids that stand before: a decoder takes a blank from the beginning of a text, and not behind these
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        is_text: Callable[[int], bool],
        is_byte: Callable[[int], bool],
        cleaned: bool,
        before: Sequence[int] = (),
    ) -> None:
        self._decode, self._is_text, self._is_byte, self._cleaned = decode, is_text, is_byte, cleaned
        texts = [i for i in before if is_text(i)]
        first = max(0, len(texts) - KEPT_IDS)
        while first and is_byte(texts[first]):  # no character is cut
            first -= 1
        self._before = texts[first:]
        self._begin()

    def _begin(self) -> None:
        self._ids = list(self._before)
        self._shown = len(self._decode(self._ids))  # characters of the window's text that were given out

    def push(self, *ids: int) -> str:
        """The characters that these ids make certain; may be empty."""
        self._ids += [i for i in ids if self._is_text(i)]
        run = 0
        while run < len(self._ids) and self._is_byte(self._ids[-1 - run]):
            run += 1
        text = self._decode(self._ids[: len(self._ids) - run])
        piece = text[self._shown : self._certain(text)]
        self._shown += len(piece)
        if not run and len(self._ids) > MAX_IDS:
            self._forget(text)
        return piece

    def finish(self) -> str:
        """What is left of the text. The stream can be used again."""
        left = self._decode(self._ids)[self._shown :]
        self._begin()
        return left

    def _certain(self, text: str) -> int:
        """How many characters of a text no later id changes: not those of a character cut in two."""
        end = len(text.rstrip("\ufffd"))
        blank = text.find(" ", max(0, end - CLEANED), end) if self._cleaned else -1
        return end if blank < 0 else blank

    def _forget(self, text: str) -> None:
        """Give up ids whose text was given out, if the text of the others then ends as it did."""
        left = len(text) - self._shown
        fewer = self._decode(self._ids[-KEPT_IDS:])
        if len(fewer) > left + CLEANED and text.endswith(fewer[-left - CLEANED :]):
            self._ids, self._shown = self._ids[-KEPT_IDS:], len(fewer) - left
