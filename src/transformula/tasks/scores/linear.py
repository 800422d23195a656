"""Trained baselines: linear models of counted words or of pixels, which scikit-learn fits in seconds.

They learn from the same training set, and are what a model should beat before it is called good. Each takes training
inputs, their labels, and inputs, and gives predictions for the latter. Each raises MissingExtra without scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import regex
from numpy.typing import NDArray

from ...data.unicode_words import BASES, SIGNS, UNSPACED_SIGN
from ...extras import need
from .baselines import most_frequent_label
from .measured import Numbers

Text = str | Sequence[str]
"""A text, or several that belong together."""

# Punctuation counts: a smiley says much. So does each sign of a script without blanks.
TOKEN = regex.compile(rf"{UNSPACED_SIGN}|[{BASES}](?:(?!{UNSPACED_SIGN})[{SIGNS}])*|(?!\s)\X")
MAX_PIXELS = 1024  # of a picture that are looked at, about
GRID = 32  # rows and columns of these where pictures have several sizes
MAX_PICTURES = 10_000  # of those of training that are looked at
MAX_TEXTS = 50_000  # likewise


def tfidf_linear(training: Sequence[Text], labels: Sequence[Any], texts: Sequence[Text]) -> list[Any]:
    """A linear support vector machine on TF-IDF of words and pairs of words, lower-cased: (1 + log count) log(rows /
    rows with it), rows of length 1. For lists of labels, one machine for each label. It learns from at most `MAX_TEXTS`
    of the texts, spread evenly over them."""
    svm = need("sklearn.svm", "TF-IDF")
    if not any(map(str.strip, map(join_texts, training))):
        return most_frequent_label(training, labels, texts)
    words = tfidf(ngram_range=(1, 2), sublinear_tf=True)
    chosen = spread_places(len(training), MAX_TEXTS)
    known = words.fit_transform(join_texts(training[place]) for place in chosen)
    known_labels = [labels[place] for place in chosen]
    return predictions_of(svm.LinearSVC(random_state=0), known, known_labels, words.transform(map(join_texts, texts)))


def tfidf_cosine(
    training: Sequence[tuple[str, str]], numbers: Sequence[float], pairs: Sequence[tuple[str, str]]
) -> list[float]:
    """The cosine of TF-IDF of the words of two texts, lower-cased, of each pair. How rare a word is, the training texts
    say; nothing is learned from their numbers."""
    words = tfidf().fit([each for pair in training for each in pair])
    first, second = (words.transform(side) for side in zip(*pairs, strict=True))
    cosines: list[float] = np.asarray(first.multiply(second).sum(axis=1)).ravel().tolist()
    return cosines


def tfidf_search(training: Sequence[str], texts: Sequence[str], candidates: Sequence[str]) -> Numbers:
    """The cosines of TF-IDF of the words of each text with those of each candidate, (texts, candidates)."""
    words = tfidf().fit(training)
    cosines: Numbers = (words.transform(texts) @ words.transform(candidates).T).toarray()
    return cosines


def tfidf(**options: Any) -> Any:
    """What makes TF-IDF of the words of texts, lower-cased."""
    text = need("sklearn.feature_extraction.text", "TF-IDF")
    return text.TfidfVectorizer(tokenizer=TOKEN.findall, token_pattern=None, **options)


def linear_pixels(training: Sequence[Any], labels: Sequence[Any], pictures: Sequence[Any]) -> list[Any]:
    """Logistic regression on pixels, learned from at most `MAX_PICTURES` of the pictures, spread evenly over them; of
    large pictures about `MAX_PIXELS` places are looked at, in a grid."""
    linear_model = need("sklearn.linear_model", "logistic regression on pixels")
    chosen = spread_places(len(training), MAX_PICTURES)
    some = [labels[place] for place in chosen]
    known, asked = pixels_of([training[place] for place in chosen], pictures)
    return predictions_of(linear_model.LogisticRegression(C=0.1), known, some, asked)


def nearest_mean(training: Sequence[Any], labels: Sequence[Hashable], pictures: Sequence[Any]) -> list[Hashable]:
    """The label of which the mean picture is nearest, pixel by pixel: argmin over labels of |x - mean|^2. Needs no
    scikit-learn. Looks at the same pictures and pixels as `linear_pixels`."""
    chosen = spread_places(len(training), MAX_PICTURES)
    seen, asked = pixels_of([training[place] for place in chosen], pictures)
    some = [labels[place] for place in chosen]
    kinds = list(dict.fromkeys(some))
    numbers = np.array([kinds.index(label) for label in some])
    means = np.stack([seen[numbers == number].mean(axis=0) for number in range(len(kinds))])
    distances = (means**2).sum(axis=1) - 2 * asked @ means.T
    return [kinds[number] for number in distances.argmin(axis=1)]


def predictions_of(model: Any, known: Any, labels: Sequence[Any], features: Any) -> list[Any]:
    """What a model of scikit-learn predicts for rows of features, once it has learned from the known ones; where labels
    are lists, one model for each label."""
    several = not isinstance(labels[0], Hashable)
    if not several and len(set(labels)) == 1:
        return most_frequent_label(known, labels, range(features.shape[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline has a few seconds: it need not have converged
        if not several:
            return list(model.fit(known, labels).predict(features).tolist())
        kinds = need("sklearn.preprocessing", "several labels").MultiLabelBinarizer()
        models = need("sklearn.multiclass", "several labels").OneVsRestClassifier(model)
        chosen = models.fit(known, kinds.fit_transform(labels)).predict(features)
    return [list(row) for row in kinds.inverse_transform(chosen)]


def join_texts(text: Text) -> str:
    return text if isinstance(text, str) else " ".join(text)


def spread_places(rows: int, most: int) -> list[int]:
    """Places of at most so many rows, evenly over them."""
    return [int(place) for place in np.linspace(0, rows - 1, min(rows, most))]


def pixels_of(*several: Sequence[Any]) -> list[Numbers]:
    """Pictures (channels, height, width) from 0 to 255 as rows of numbers from 0 to 1, for each list of pictures; of
    large ones a grid, and where sizes differ one of `GRID` x `GRID` shades of gray."""
    lists = [[np.asarray(picture) for picture in pictures] for pictures in several]
    shapes = {each.shape for arrays in lists for each in arrays}
    step = max(1, round((lists[0][0][0].size / MAX_PIXELS) ** 0.5))

    def look(array: NDArray[Any]) -> NDArray[Any]:
        if len(shapes) == 1:
            return array[:, ::step, ::step]
        rows, columns = (np.arange(GRID) * side // GRID for side in array.shape[1:])
        return np.asarray(array[:, rows][:, :, columns].mean(axis=0))

    return [np.stack([look(each).reshape(-1) for each in arrays]) / 255.0 for arrays in lists]
