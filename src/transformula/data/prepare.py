"""From settings to tokens: of texts in memory (read, split, choose a tokenizer, encode), a stream, or token shards."""

from __future__ import annotations

from ..errors import ConfigError, DataError, InputError
from .corpus import Corpus, read_corpus
from .preview import working
from .settings import DataSettings, TextSettings
from .splits import Split, split_corpus, split_given
from .stream.prepared import prepared_folder, read_prepared
from .token_data import TokenData
from .tokenizing import choose_tokenizer, no_room
from .tokens import token_store


def data_of(
    settings: TextSettings, vocab: int | None = None, extra: int | None = None, mask: bool = False
) -> TokenData:
    """The data that settings name; the other arguments are those of `prepare`. Raises ConfigError for token shards
    where a task reads texts alone, and what the three kinds raise."""
    folder = prepared_folder(settings.data)
    if isinstance(settings, DataSettings):
        if folder is not None:
            return read_prepared(settings, folder, vocab)
        if settings.stream:
            from .stream.streamed import read_stream  # what reads streams is loaded for one

            return read_stream(settings, vocab)
    elif folder is not None:
        raise ConfigError(f"data: {folder} holds token shards, which only language modeling reads; name the text")
    return prepare(settings, vocab, extra, mask)


def prepare(
    settings: TextSettings, vocab: int | None = None, extra: int | None = None, mask: bool = False
) -> TokenData:
    """Read, split and encode what the settings name.

    vocab  the model's number, where its file states one: the size of a BPE or a unigram tokenizer, and a check of every
           other
    extra  ids that a task needs above the tokenizer's: `vocab` has room for these, and may be larger than all; and the
           tokenizer has an end, of a single text too
    mask   `extra` is one id that hides others, of which a tokenizer may have one of its own

    Raises DataError for data that cannot be used, ConfigError where `vocab` and the tokenizer disagree.
    """
    with working("reading the data"):
        corpus, split = read_sides(settings)
    room = None if vocab is None else vocab - (extra or 0)
    if room is not None and room < 1:
        raise ConfigError(f"vocab: the model says {vocab}, and {extra} ids are needed beside those of the text")
    tokenizer, chosen = choose_tokenizer(settings.tokenizer, split, room, ends=extra is not None)
    if mask and tokenizer.mask is not None:
        extra, room = 0, vocab
    if extra is not None and room is not None and tokenizer.vocab > room:
        raise ConfigError(
            f"vocab: the model says {vocab}; the tokenizer ({tokenizer.kind}) has {tokenizer.vocab}, and {extra} more"
            f" ids are needed: leave `vocab` out of the model, or write vocab: {tokenizer.vocab + extra}"
        )
    if extra is None and vocab is not None and not tokenizer.fits(vocab):
        raise no_room("vocab", vocab, tokenizer)
    stores = []
    for name, texts in (("training", split.training), ("validation", split.validation)):
        try:
            with working(f"encoding the {name} text"):
                store = token_store(texts, tokenizer, whole=split.whole, name=f"{corpus.name} ({name})")
        except DataError:
            raise
        except InputError as error:
            raise DataError(f"the tokenizer does not know all of the {name} text: {error}", path=corpus.name) from None
        if len(store) < 2:
            raise DataError(
                f"the {name} text is {len(store)} token; at least 2 are needed to predict one from another;"
                " take more text",
                path=corpus.name,
            )
        stores.append(store)
    return TokenData(corpus, split, tokenizer, chosen, stores[0], stores[1], extra or 0)


def read_sides(settings: TextSettings) -> tuple[Corpus, Split]:
    """The texts that the settings name, and their two sides. Without `data` there is nothing to train on."""
    corpus, validation = (
        None if sources is None else read_corpus(sources, settings.column, **settings.reading)
        for sources in (settings.data, settings.validation)
    )
    if corpus is not None and validation is not None:
        return corpus, split_given(corpus, validation, settings.overlap)
    if corpus is not None:
        return corpus, split_corpus(corpus, settings.split, settings.fold)
    if validation is None:
        raise ConfigError("data: no text is named")
    texts = validation.documents
    return validation, Split(texts, texts, f"{validation.name}, all of it", len(texts) > 1, alone=True)
