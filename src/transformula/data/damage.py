"""Text that is damaged, for a model to repair: functions of token ids and a source of chance."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from ..tokenizers.base import Tokenizer


def hide_spans(
    ids: np.ndarray, rate: float, mean: float, first: int, chance: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens,) -> a source with sentinels for spans, and a target with each sentinel before what it stands for.

        ids      a b c d e f g h            sentinels S0 = first, S1 = first + 1, ...
        source   a b S0 e f g S1            target   S0 c d S1 h

    `hidden_spans` says which. The text begins with what is kept and ends with a hidden span, as in T5's own code; there
    is no last sentinel after it, which its paper draws.

    Source: Raffel et al. 2019, and `random_spans_noise_mask` of its code.
    """
    hidden, kept = hidden_spans(len(ids), rate, mean, chance)
    cuts = np.cumsum(np.stack([kept, hidden], axis=1))  # after what is kept, after what is hidden, and so on
    parts = np.split(ids, cuts[:-1])
    sentinels = [np.array([first + number]) for number in range(len(hidden))]
    source = [part for pair in zip(parts[::2], sentinels, strict=True) for part in pair]
    target = [part for pair in zip(sentinels, parts[1::2], strict=True) for part in pair]
    return np.concatenate(source), np.concatenate(target)


def hidden_spans(length: int, rate: float, mean: float, chance: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lengths (spans,) of what is hidden and of what is kept before each: `rate` of all, in spans of `mean` each.

    Both are cut in as many parts at random, all ways to cut alike. At least one token is hidden and one kept. Raises
    ValueError for less than two tokens.
    """
    if length < 2:
        raise ValueError(f"{length} tokens: of one, nothing can be hidden and something kept")
    count = min(max(round(length * rate), 1), length - 1)
    spans = min(max(round(count / mean), 1), count, length - count)

    def parts(whole: int) -> np.ndarray:
        cuts = np.sort(chance.choice(whole - 1, spans - 1, replace=False)) + 1 if spans > 1 else np.zeros(0, dtype=int)
        return np.diff(np.concatenate([[0], cuts, [whole]]))

    return parts(count), parts(length - count)


def infill(ids: np.ndarray, rate: float, mean: float, mask: int, chance: Generator) -> np.ndarray:
    """`rate` of the tokens go, in spans of Poisson(mean) length, each of which becomes one mask; a span of none puts a
    mask between two tokens. At least one token goes, and no more masks are put in than tokens were saved.

    Spans of tokens, where the source has whole words. Source: Lewis et al. 2019 (text infilling).
    """
    count = min(max(round(len(ids) * rate), 1), len(ids))
    spans: list[int] = []
    while sum(spans) < count:
        spans.append(min(int(chance.poisson(mean)), count - sum(spans)))
    real = [span for span in spans if span]
    spans = real + [0] * min(len(spans) - len(real), count - len(real))
    order = chance.permutation(spans)
    # A place for each token that stays and for each span; which are the spans' is drawn.
    places = np.sort(chance.choice(len(ids) - count + len(spans), len(spans), replace=False))
    source: list[np.ndarray] = []
    at, gone = 0, 0
    for number, (place, span) in enumerate(zip(places, order, strict=True)):
        until = int(place) - number + gone  # tokens before this span: those that stayed, and those that went
        source += [ids[at:until], np.array([mask])]
        at, gone = until + int(span), gone + int(span)
    return np.concatenate([*source, ids[at:]]).astype(np.int64)


def reorder(ids: np.ndarray, ends: np.ndarray, chance: Generator) -> np.ndarray:
    """The sentences of a text in an order that is drawn; what stands before the first end and after the last one are
    sentences, too.

    ends  (vocab,) bool: whether a token ends a sentence, see `sentence_ends`
    """
    cuts = np.flatnonzero(ends[ids]) + 1
    sentences = [one for one in np.split(ids, cuts) if len(one)]
    return np.concatenate([sentences[place] for place in chance.permutation(len(sentences))])


def sentence_ends(tokenizer: Tokenizer) -> np.ndarray:
    """(vocab,) bool: a token with a full stop, a mark of exclamation or question at its end, blanks aside; a token with
    an end of line; the end of a document."""
    ends = [b"\n" in piece or piece.rstrip().endswith((b".", b"!", b"?")) for piece in tokenizer.pieces]
    if tokenizer.end_of_document is not None:
        ends[tokenizer.end_of_document] = True
    return np.array(ends, dtype=bool)
