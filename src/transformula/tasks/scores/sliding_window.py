"""The sliding window: an answer by counting, the baseline of reading comprehension (Richardson et al. 2013, algorithms
1 and 2, with which Rajpurkar et al. 2016 choose among the phrases of a context).

    score(phrase) = max over windows W around it of sum over w in W, w in the question, of log(1 + 1 / count(w))
                    - mean over the question's words of their distance to the phrase / length of the context

A window has as many words as the question and the phrase together. Richardson's answers are given, and Rajpurkar's
phrases come from a parser; here a phrase is the longest run of words without a word of the question, a common word, or
a mark between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from ...data.unicode_words import WORD

COMMON_WORDS = 100  # at most so many of the most frequent words part phrases,
COMMON_SHARE = 0.5  # and they are at most so large a part of the text


def common_words(texts: Sequence[str]) -> set[str]:
    """The most frequent words of some texts: those of English are a half of it."""
    counts = Counter(word.lower() for text in texts for word in WORD.findall(text)).most_common(COMMON_WORDS)
    sums = np.cumsum([count for _, count in counts])
    whole = sum(len(WORD.findall(text)) for text in texts)
    return {word for (word, _), so_far in zip(counts, sums, strict=True) if so_far <= COMMON_SHARE * whole}


def sliding_window(question: str, context: str, common: Collection[str] = ()) -> str:
    """The phrase of a context that scores best for a question; "" where there is none."""
    places = [each.span() for each in WORD.finditer(context)]
    words = [context[start:end].lower() for start, end in places]
    asked = {word.lower() for word in WORD.findall(question)}
    counts = Counter(words)
    weights = np.array([np.log1p(1 / counts[word]) * (word in asked) for word in words])
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    at = [np.flatnonzero([word == other for other in words]) for word in sorted((asked - set(common)) & set(words))]
    best, answer = -np.inf, ""
    for first, end in phrases(context, places, words, {*asked, *common}):
        size = len(asked) + end - first
        begins = np.arange(max(0, end - size), first + 1)
        near = float((sums[np.minimum(begins + size, len(words))] - sums[begins]).max())
        far = [np.maximum(first - each, each - end + 1).min() for each in at]
        score = near - (float(np.mean(far)) / len(words) if far else 0.0)
        if score > best:
            best, answer = score, context[places[first][0] : places[end - 1][1]]
    return answer


def phrases(
    context: str, places: Sequence[tuple[int, int]], words: Sequence[str], parting: Collection[str]
) -> Iterator[tuple[int, int]]:
    """The longest runs of words between parting words and marks: the first word, and that after the last."""
    first = 0
    for place in range(len(words) + 1):
        parted = place == len(words) or words[place] in parting
        marked = 0 < place < len(words) and not context[places[place - 1][1] : places[place][0]].isspace()
        if (parted or marked) and first < place:
            yield first, place
        if parted:
            first = place + 1
        elif marked:
            first = place
