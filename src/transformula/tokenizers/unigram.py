"""Unigram: each token has a probability, and a word is cut into the tokens of the highest product.

Training begins with the runs of bytes that cover most of the text and takes away, round after round, those without
which the text would lose least probability, until `vocab` is reached. The rounds are `sentencepiece`'s, by the
algorithm's author: the trainer of the `tokenizers` library gives another vocabulary in each process, as it goes through
the words in the order of a hash table. Cutting is the `tokenizers` library's, and so is the file.

Of single words both find too few runs to begin with, as their suffix arrays know a run by what may follow it and the
end of a word is always followed by the same; so the runs are counted here.

Source: Kudo 2018.
"""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import tokenizers as library
from tokenizers import models, pre_tokenizers

from ..extras import need
from .base import END, tokenizers
from .byte_level import ByteLevel, alphabet, backend_of, sample, size_of

NEVER = -1e6  # the logarithm of the probability of the end of a document within a text
MAX_TOKEN_BYTES = 16
WORDS = 100_000  # different words, the most frequent, whose runs of bytes training begins with
SEEDS = 500_000  # runs of bytes that training begins with, at most
MAX_WORD_BYTES = 1 << 30  # no word is too long to be learned from


@tokenizers.register("unigram", needs=["sentencepiece"])
class Unigram(ByteLevel):
    """Unigram language model over bytes: knows every text. Id 0 ends a document; no text spells it.

    p(word cut into t_1 ... t_n) = p(t_1) ... p(t_n); the cut of the highest p is taken.
    """

    kind = "unigram"
    model = "Unigram"

    @classmethod
    def train(cls, documents: Sequence[str], vocab: int | None = None) -> Self:
        """Learn the tokens of these documents and their probabilities; fewer than `vocab` if the text has no more.
        `vocab` is by default 2,048. Training needs the extra `unigram`; a trained tokenizer does not. Raises InputError
        if `vocab` is below 257, MissingExtra."""
        size = size_of(cls.kind, vocab)
        cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        words: Counter[str] = Counter()
        for part in sample(documents):
            words.update(word for word, _ in cut.pre_tokenize_str(part))
        seen = set().union(*words)
        unseen = [sign for sign in alphabet() if sign not in seen]
        learned = _learned(words, size - 1 - len(unseen)) if words else []
        rarest = min((score for _, score in learned), default=0.0)
        scored = [(END, NEVER), *learned, *((sign, rarest - 1) for sign in unseen)]
        backend = backend_of(models.Unigram(scored, unk_id=None, byte_fallback=False))
        backend.add_special_tokens([library.AddedToken(END, special=True, normalized=False)])
        return cls(backend)


def _seeds(words: Counter[str]) -> list[tuple[str, int]]:
    """What training begins with, and how many signs of the text it covers: runs that occur at least twice in words."""
    counted: Counter[str] = Counter()
    for word, count in sorted(words.items(), key=lambda one: (-one[1], one[0]))[:WORDS]:
        for start in range(len(word) - 1):
            for end in range(start + 2, min(start + MAX_TOKEN_BYTES, len(word)) + 1):
                counted[word[start:end]] += count
    covered = ((run, count * len(run)) for run, count in counted.items() if count > 1)
    return sorted(covered, key=lambda one: (-one[1], one[0]))[:SEEDS]


def _learned(words: Counter[str], size: int) -> list[tuple[str, float]]:
    """At most `size` tokens, every sign of the words among them, with the logarithms of their probabilities. Words go
    in sorted and by one thread: sums, and with them equal scores, come out the same each time."""
    sentencepiece = need("sentencepiece", "training a unigram tokenizer")
    proto = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder) / "seeds.tsv"
        seeds.write_text("".join(f"{run}\t{covered}\n" for run, covered in _seeds(words)), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([f"{word}\t{count}" for word, count in sorted(words.items())]),
            input_format="tsv",
            seed_sentencepieces_file=str(seeds),
            model_writer=proto,
            model_type="unigram",
            vocab_size=size + 1,  # its own sign for the unknown, which is left out here, is one of them
            hard_vocab_limit=False,
            max_sentencepiece_length=MAX_TOKEN_BYTES,
            max_sentence_length=MAX_WORD_BYTES,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            # Words come cut, and as they shall be learned.
            normalization_rule_name="identity",
            character_coverage=1.0,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_by_whitespace=False,
            split_by_unicode_script=False,
            split_by_number=False,
            num_threads=1,
            minloglevel=2,
        )
    model = sentencepiece.SentencePieceProcessor(model_proto=proto.getvalue())
    return [(model.id_to_piece(i), model.get_score(i)) for i in range(1, model.get_piece_size())]
