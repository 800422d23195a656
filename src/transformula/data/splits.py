"""Which text is trained on, and which measures.

Many documents are split by document: one whose hash falls into the lowest tenth of all hashes measures. So the side of
a document depends on its content alone, neither on the others nor on the order of files, and equal documents are on
one side. A single text is cut: its last tenth measures.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DataError
from ..tokenizers.texts import Content, Texts, characters_of, place_of
from .corpus import Corpus
from .settings import FRACTION


@dataclass(frozen=True)
class Split:
    """Texts for training and for validation.

    how      one line that says how they were told apart
    whole    the texts are whole documents (not one text cut in two): each is ended by a token
    removed  documents that were taken out of training because they are in the validation file too
    alone    there is no text for training: it is that for validation
    """

    training: Texts
    validation: Texts
    how: str
    whole: bool
    removed: int = 0
    alone: bool = False


def split_corpus(corpus: Corpus, fraction: float = FRACTION) -> Split:
    """Split a corpus. Raises DataError for a text too short to be cut."""
    documents = corpus.documents
    distinct = dict.fromkeys(documents.digests)
    if len(distinct) == 1:
        text = memoryview(documents.contents[0])
        characters = characters_of(text)
        # Written so that a tenth gives int(0.9 * n), the cut that everyone makes in tiny Shakespeare.
        cut = int((1 - fraction) * characters)
        if not 0 < cut < characters:
            raise DataError(f"is too short to be split: {characters} characters", path=corpus.name)
        at = place_of(text, cut)
        how = f"the last {fraction:.3g} of the text validates"
        return Split(Texts([text[:at]]), Texts([text[at:]]), how, whole=False)
    below = int(fraction * 2**64)
    chosen = {digest for digest in distinct if int.from_bytes(digest[:8], "big") < below}
    if not chosen:
        chosen = {min(distinct)}
    elif len(chosen) == len(distinct):
        chosen.remove(max(chosen))
    training: list[Content] = []
    validation: list[Content] = []
    for digest, content in zip(documents.digests, documents.contents, strict=True):
        (validation if digest in chosen else training).append(content)
    how = f"{len(validation)} of {len(documents)} documents validate, chosen by their hash (about {fraction:.3g})"
    return Split(Texts(training), Texts(validation), how, whole=True)


def split_given(corpus: Corpus, validation: Corpus) -> Split:
    """Training and validation as given. What is in both is taken out of training.

    Raises DataError if nothing is left to train on.
    """
    held = set(validation.documents.digests)
    pairs = zip(corpus.documents.digests, corpus.documents.contents, strict=True)
    training = [content for digest, content in pairs if digest not in held]
    if not training:
        raise DataError(
            f"is also the validation data ({validation.name}): nothing is left to train on", path=corpus.name
        )
    whole = len(training) > 1 or len(validation.documents) > 1
    removed = len(corpus.documents) - len(training)
    return Split(Texts(training), validation.documents, f"validation data given: {validation.name}", whole, removed)


def split_alone(validation: Corpus) -> Split:
    """The validation data alone, for a model whose training data is not there."""
    documents = validation.documents
    return Split(documents, documents, f"{validation.name}, all of it", len(documents) > 1, alone=True)
