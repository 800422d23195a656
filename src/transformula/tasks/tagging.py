"""Tagging: a tag for each token of a sentence, such as its part of speech; or tags that mark named entities (B-PER,
I-PER, O).

plain           loss = mean over tokens of -log P(tag | sentence), P = softmax of the token's logits
random field    loss = mean over tokens of -log P(tags | sentence), by a model whose output ends in `transitions`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import regex
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from ..data.records import Record, read_records
from ..data.settings import KeptLabels, LabeledSettings
from ..data.splits import SplitRows
from ..data.tokenizing import folder_named
from ..data.unicode_words import WORD
from ..errors import ConfigError, DataError, InputError
from ..language.graph import Architecture
from ..tokenizers.base import FILE, Tokenizer
from .base import IGNORED, Batch, outputs_in_words, task
from .chain import chain_marginals, chain_nll, viterbi
from .label_spelling import label_notes, unseen_notes
from .predictor import FILE as PREDICTOR
from .predictor import Answer, OfOthers, predictor
from .row_predictor import EncodedRow, RowPredictor, padded
from .rows import RowReader, RowTask, Side, evaluation_of
from .scores.baselines import most_frequent_tag
from .scores.calibration import decision_calibration
from .scores.confusion import entity_table, tag_confusion
from .scores.measured import Measured, ReportPart
from .scores.tags import entity_scores, spans_of, token_accuracy
from .soft import Soft, SoftTargets, at_targets
from .span_schemes import allowed_moves, mark_spans, scheme_of
from .tagged_rows import columns_for, strip_tags, tags_of, tokens_of, word_counts
from .verb import Verb
from .writing import load_predictor

TOKEN = regex.compile(  # of a text: words; a run of one other sign, with its marks
    rf"{WORD.pattern}(?:(?:[-.'’@&/]|,(?=\d)){WORD.pattern})*|((?!\s)\X)\1*"
)
MAX_TOKEN_BYTES = 40  # bytes of a token that are read as its characters
SENTENCES_AT_ONCE = 64  # sentences of like lengths whose best tags are searched together


class TaggingSettings(KeptLabels, LabeledSettings):
    """Sentences whose tokens have tags."""

    tokens_column: str | None = Field(
        None, description="the column of the tokens, a list; by default 'tokens', 'words' or 'form'"
    )
    tags_column: str | None = Field(
        None, description="the column of the tags, a list; by default 'tags', 'ner_tags', 'upos' or the like"
    )
    tokenizer: str = Field(
        "auto", min_length=1, description="auto: each word of training has an id, of which --vocab keeps the most"
        " frequent, and all others share one; else what cuts words into pieces, the first of which tells the tag: bpe,"
        " unigram, bytes, characters, or a folder that holds a tokenizer; a tagger's folder: what that one reads",
    )  # fmt: skip
    word_dropout: float | None = Field(
        None, ge=0, description="a in a / (a + n), with which a word seen n times in training is read as an unknown one"
        " (default: 0.25, for words)",
    )  # fmt: skip
    scheme: Literal["auto", "bio", "bioes", "none"] = Field(
        "auto", description="bio: an answer has I-X only after B-X or I-X; bioes (BILOU, BMES): what B-X begins goes on"
        " to its E-X, and E-X stands nowhere else; none: any tag after any; auto: what the training tags keep to",
    )  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """A span of a text, from character `start` to before `end`."""

    text: str
    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tagged(Answer):
    """A sentence, each token with its tag: "The/DET cat/NOUN"; the score is the mean of the tags' probabilities.

    entities  what the tags mark, where they mark spans; of a list of tokens, as if blanks stood between
    """

    tokens: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    entities: tuple[Entity, ...] = ()

    @property
    def value(self) -> Tagged:
        return self

    @property
    def brief(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "tags": self.tags, "entities": [asdict(each) for each in self.entities]}


@predictor("tagger")
@dataclass(frozen=True)
class Tagger(RowPredictor):
    """
    tags   the classes, in the order of the logits
    bio    whether I-X is only after B-X or I-X
    words  those with an id, from 1 on; 0 is any other word. Where it is None, pieces of the tokenizer are read
    bioes  whether a span of several tokens begins with B-X and ends with E-X
    """

    tags: list[str]
    bio: bool
    words: list[str] | None
    bioes: bool = False

    verb = "tag"
    named = {"classes": "tags", "vocab": "words"}
    columns = ("tokens",)

    def alike(self) -> tuple[Any, ...]:
        return (*super().alike(), list(self.tags), self.bio, self.words, self.bioes)

    def opened(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Texts, or lists of tokens."""
        for number, each in enumerate(inputs, 1):
            tokens = [each] if isinstance(each, str) else each
            if not isinstance(tokens, (list, tuple)) or not all(isinstance(token, str) for token in tokens):
                raise InputError(f"source {number}: this model reads a text, or a list of tokens; this is {each!r:.60}")
        return inputs

    @cached_property
    def ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words or (), 1)}

    def pieces(self, tokens: Sequence[str]) -> list[list[int]]:
        """The ids of each token, at least one."""
        cased = [token.lower() if self.lower else token for token in tokens]
        if self.words is not None:
            return [[self.ids.get(token, 0)] for token in cased]
        assert self.tokenizer is not None
        each = self.tokenizer.encode_many([self.tokenizer.word_start + token for token in cased])
        room = self.most - sum(map(len, self.outer_marks))
        return [ids[:room].tolist() or [self.tokenizer.unknown or 0] for ids in each]

    @cached_property
    def outer_marks(self) -> tuple[list[int], list[int]]:
        """What a tokenizer of a model of others puts before and after a sentence."""
        marks = self.tokenizer and self.tokenizer.marks
        return (list(marks.prompt), marks.one.ids[-1][:, 0].tolist()) if marks else ([], [])

    def parts(self, tokens: list[str]) -> list[list[str]]:
        """A sentence in as few parts as the model can read whole: one, unless it is too long."""
        parts: list[list[str]] = []
        first = positions = 0
        for place, ids in enumerate(self.pieces(tokens)):
            if positions + len(ids) > self.most - sum(map(len, self.outer_marks)):
                parts.append(tokens[first:place])
                first, positions = place, 0
            positions += len(ids)
        return [*parts, tokens[first:]]

    def places(self, tokens: Sequence[str]) -> Tensor:
        """The position of each token's first piece."""
        sizes = [len(ids) for ids in self.pieces(tokens)]
        before = len(self.outer_marks[0])
        return torch.tensor([before, *sizes[:-1]] if sizes else sizes, dtype=torch.int64).cumsum(0)

    def row(self, tokens: Sequence[str]) -> EncodedRow:
        """`tokens` (length,); `characters` (length, most), where the model reads them: bytes of each word or piece,
        counted from 1, 0 behind the last."""
        before, after = self.outer_marks
        ids = [*before, *(number for pieces in self.pieces(tokens) for number in pieces), *after] or [0]
        row = {"tokens": torch.tensor(ids)}
        if "types" in self.inputs:
            row["types"] = torch.zeros(len(ids), dtype=torch.int64)
        if "characters" in self.inputs:
            spelled = [token.encode() for token in tokens]
            if self.tokenizer is not None:
                spelled = [self.tokenizer.pieces[number] for number in ids]
            most = max(min(max(map(len, spelled), default=1), MAX_TOKEN_BYTES), 1)
            row["characters"] = torch.zeros(len(ids), most, dtype=torch.int64)
            for letters, each in zip(row["characters"], spelled, strict=False):
                letters[: len(each)] = torch.tensor([byte + 1 for byte in each[:most]])
        return row

    def encode(self, inputs: Sequence[Any]) -> list[EncodedRow]:
        return [self.row(part) for each in inputs for part in self.parts(locate_tokens(each)[1])]

    def answers(self, inputs: Sequence[Any], outputs: Sequence[Tensor], settings: Any) -> list[list[Tagged]]:
        sentences = [locate_tokens(each) for each in inputs]
        parts = [self.parts(tokens) for _, tokens, _ in sentences]
        rows = [part for each in parts for part in each]
        logits = [output[self.places(part)] for part, output in zip(rows, outputs, strict=True)]
        best = iter(best_tags(logits, len(self.tags), moves_of(self)))
        answers = []
        for (text, tokens, starts), each in zip(sentences, parts, strict=True):
            chosen = [pair for _ in each for pair in next(best)]
            tags, sure = [self.tags[number] for number, _ in chosen], [p for _, p in chosen]
            answers.append([tagged_sentence(text, tokens, starts, tags, sure)])
        return answers


def tagger_of_others(model: OfOthers) -> Tagger:
    """The predictor of a model that others trained: of each word the most probable tag, as it stands. Raises
    CheckpointError."""
    return Tagger(**model.reading, tags=model.labels, bio=False, words=None)


def moves_of(kind: Tagger) -> Tensor | None:
    """Which tag may follow which, see `chain`; None where any may."""
    scheme = "bioes" if kind.bioes else "bio" if kind.bio else None
    return None if scheme is None else allowed_moves(scheme, kind.tags)


def locate_tokens(given: str | Sequence[str]) -> tuple[str, list[str], list[int]]:
    """(text, tokens, the character at which each begins) of a text or of a list of tokens."""
    if isinstance(given, str):
        matches = list(TOKEN.finditer(given))
        return given, [match[0] for match in matches], [match.start() for match in matches]
    starts = np.cumsum([0, *(len(token) + 1 for token in given)])[:-1]
    return " ".join(given), list(given), starts.tolist()


def tagged_sentence(
    text: str, tokens: Sequence[str], starts: Sequence[int], tags: Sequence[str], probabilities: Sequence[float]
) -> Tagged:
    entities = []
    for span in spans_of(tags) if mark_spans(tags) else ():
        start, end = starts[span.start], starts[span.end - 1] + len(tokens[span.end - 1])
        entities.append(Entity(text[start:end], span.label, start, end))
    shown = " ".join(f"{token}/{tag}" for token, tag in zip(tokens, tags, strict=True))
    sure = float(np.mean(probabilities)) if probabilities else 1.0
    return Tagged(shown, sure, tuple(tokens), tuple(tags), tuple(probabilities), tuple(entities))


def best_tags(logits: Sequence[Tensor], n: int, allowed: Tensor | None) -> list[list[tuple[int, float]]]:
    """The best tags of each sentence, with their probabilities, from its logits (tokens, n), or from potentials
    (tokens, n * n). `allowed`: see `chain`."""
    best: list[list[tuple[int, float]]] = [[] for _ in logits]
    order = sorted((place for place, each in enumerate(logits) if len(each)), key=lambda place: -len(logits[place]))
    for first in range(0, len(order), SENTENCES_AT_ONCE):
        places = order[first : first + SENTENCES_AT_ONCE]
        y, lengths = padded([logits[place] for place in places]), torch.tensor([len(logits[p]) for p in places])
        if y.shape[-1] == n and allowed is None:
            sure, tags = y.softmax(-1).max(-1)
        else:
            y = y.repeat(1, 1, n) if y.shape[-1] == n else y  # the same whatever stands before
            tags = viterbi(y, lengths, allowed)
            sure = chain_marginals(y, lengths, allowed).gather(2, tags.clamp(min=0)[..., None])[..., 0]
        for place, row, values, length in zip(places, tags.tolist(), sure.tolist(), lengths.tolist(), strict=True):
            best[place] = list(zip(row[:length], values[:length], strict=True))
    return best


class TaggedSentences(RowReader):
    """Records with the fields `tokens` and `tags`, lists of equal lengths."""

    compared = ("tokens",)
    default = "python-tokens"
    parted = True

    def read(self, sources: Any, settings: TaggingSettings, key: str, notes: list[str]) -> list[Record]:
        columns, kinds = columns_for(sources, settings), {"tokens": "list", "tags": "list"}
        records = read_records(sources, columns, kinds=kinds, empty="keep", **settings.reading)
        rows, sentences = [], records.read_all(key, notes, "sentences")
        for row in sentences:
            tokens, tags = len(tokens_of(row)), len(tags_of(row))
            if tokens != tags:
                raise DataError(
                    f"{row.place}: {tokens} tokens ({columns['tokens']}) with {tags} tags ({columns['tags']}): each"
                    " token has one tag; mend the row or take it out"
                )
            rows += [strip_tags(row, columns["tags"])] if tokens else []
        if not rows:
            raise DataError(f"{key}: no sentence has tokens; is it the right column?", path=records.name)
        if len(rows) < len(sentences):
            notes.append(f"{key}: {len(sentences) - len(rows):,} sentences have no tokens and are left out")
        return rows

    def tokenizer(
        self, rows: SplitRows, settings: TaggingSettings, numbers: Mapping[str, Any]
    ) -> tuple[Tokenizer | None, str]:
        """None where words are read: the setting says so, or the folder that it names has no tokenizer."""
        folder = folder_named(settings.tokenizer)
        if settings.tokenizer == "auto" or (
            folder and (folder / PREDICTOR).is_file() and not (folder / FILE).is_file()
        ):
            return None, "none: words are read as they are" + (f", those of {folder}" if folder else "")
        if settings.word_dropout is not None:
            raise ConfigError("word_dropout: is for words, and the model reads pieces; leave it out")
        return super().tokenizer(rows, settings, numbers)

    def texts(self, records: Sequence[Record]) -> list[str]:
        return [" ".join(tokens_of(row)) for row in records]

    def learn(
        self, rows: SplitRows, tokenizer: Tokenizer | None, sizes: dict[str, int], settings: TaggingSettings,
        inputs: Sequence[str],
    ) -> Tagger:  # fmt: skip
        tags = sorted({*settings.kept_labels, *(tag for row in rows.training for tag in tags_of(row))})
        if len(tags) < 2:
            raise DataError(f"every training token has the tag {tags[0]!r}: there is nothing to tell apart")
        scheme = scheme_of([(row.place, tags_of(row)) for row in rows.training], tags, settings.scheme)
        words, lower = None, settings.lower
        if tokenizer is None:
            before = folder_named(settings.tokenizer)
            if before:
                words, lower = words_of(before)
                if settings.lower and not lower:
                    raise ConfigError(f"lower: the words of {before} are not lowercased; leave it out")
            else:
                counts = word_counts(rows.training, lower)
                words = [word for word, _ in counts.most_common(max(sizes["vocab"] - 1, 0) or None)]
            sizes["vocab"] = max(len(words) + 1, sizes["vocab"])
        sizes["classes"] = len(tags)
        return Tagger(tokenizer, list(inputs), sizes["context"], lower, tags, scheme == "bio", words, scheme == "bioes")

    def target(self, kind: Tagger, record: Record) -> Tensor:
        """(positions,) int64; -100 where a tag is not among those of training, and behind the first piece of a token.
        Such tags are no part of the loss; in scores they are wrong."""
        tokens = tokens_of(record)
        targets = torch.full((sum(map(len, [*kind.outer_marks, *kind.pieces(tokens)])),), IGNORED)
        targets[kind.places(tokens)] = torch.tensor(
            [kind.tags.index(t) if t in kind.tags else IGNORED for t in tags_of(record)]
        )
        return targets

    def remarks(self, kind: Tagger, rows: SplitRows) -> list[str]:
        notes = label_notes(map(tags_of, rows.training), kind.tags, "tag")
        return [*notes, *self.unseen(kind, rows.test, "the test rows")]

    def unseen(self, kind: Tagger, records: Sequence[Record], named: str) -> list[str]:
        return unseen_notes(map(tags_of, records), kind.tags, named, "tag")

    def side(self, kind: Any, records: Sequence[Record]) -> Side:
        """Sentences that are too long for the model are several rows."""
        rows = []
        for record in records:
            tags = iter(tags_of(record))
            for part in kind.parts(tokens_of(record)):
                fields = {"tokens": part, "tags": list(islice(tags, len(part)))}
                rows.append(Record(fields, record.place, record.group))
        return super().side(kind, rows)

    def about(self, kind: Tagger, records: Sequence[Record]) -> dict[str, str]:
        counts = Counter(tag for row in records for tag in tags_of(row))
        about = {"tags": ", ".join(f"{tag} {counts[tag]:,}" for tag in kind.tags)}
        if kind.words is not None:
            words = word_counts(records, kind.lower)
            known = sum(words[word] for word in kind.words)
            about["words"] = f"{len(kind.words):,} have an id, {100 * known / words.total():.1f} % of the tokens"
        return about


def by_most_frequent_tag(learned: Sequence[Record], records: Sequence[Record]) -> list[Tagged]:
    """Each token gets the tag that it has most often in training, an unknown one the most frequent of all."""
    training, sentences = [tokens_of(row) for row in learned], [tokens_of(row) for row in records]
    tags = most_frequent_tag(training, [tags_of(row) for row in learned], sentences)
    return [tagged_sentence(*locate_tokens(tokens), each, ()) for tokens, each in zip(sentences, tags, strict=True)]


def mistakes(answers: Sequence[Tagged], records: Sequence[Record]) -> ReportPart:
    """The scores of each type where tags mark spans, else the table of what is taken for what."""
    predicted, references = [answer.tags for answer in answers], [tags_of(row) for row in records]
    spans = all(map(mark_spans, (*predicted, *references)))
    return entity_table(predicted, references) if spans else tag_confusion(predicted, references)


def tag_calibration(answers: Sequence[Tagged], records: Sequence[Record]) -> ReportPart:
    """Whether the probabilities of the tags hold."""
    sides = zip([answer.tags for answer in answers], map(tags_of, records), strict=True)
    return decision_calibration([a.probabilities for a in answers], [list(map(str.__eq__, *side)) for side in sides])


def soft_tags(task: Tagging, output: Tensor, batch: Batch) -> Soft:
    """The tags of each token. Raises InputError for a conditional random field."""
    if output.shape[2] != len(task.data.kind.tags):
        raise InputError(
            "teacher: a conditional random field says how probable whole rows of tags are, not each tag: take an output"
            " of a number for each tag, of the teacher and of the student"
        )
    return at_targets(task, output, batch)


@task("tagging")
class Tagging(RowTask):
    """Sentences with a tag for each token."""

    settings = TaggingSettings
    evaluation = evaluation_of(TaggingSettings, "tokens_column", "tags_column")
    reader = TaggedSentences()
    others = staticmethod(tagger_of_others)
    model = {"family": "encoder", "output": "logits = linear(x, classes)", "classes": "2"}
    measures = ("loss", "accuracy", "entity_f1", "entity_precision", "entity_recall")
    higher = frozenset(measures[1:])
    parts = (mistakes, tag_calibration)
    confident = True
    soft_targets = SoftTargets(lambda task, model: task.data.validation.batches(), lambda *given: soft_tags(*given))
    verb = Verb(
        "tag",
        help="a tag for each word of a text",
        about="""\
Tag the words of texts with a trained model: arguments, the lines of a file, or those of standard input as they come. A
line in, a line out, each word with its tag: The/DET cat/NOUN. A text is cut at blanks and around marks of punctuation,
which stand alone; those inside a word (don't, e-mail, 3.5) belong to it. A column of lists of tokens stays as it is.
--format jsonl --scores adds the probabilities, and of tags that mark entities these, with their places.""",
        examples=(
            'transformula tag runs/pos "The cat sat on the mat."',
            "transformula tag runs/pos --input sentences.txt --output tagged.txt",
            "transformula tag runs/names --input test.conllu --column tokens --format jsonl --scores",
        ),
        answers="tagged",
        reads="transformula.tasks.tagged_rows:sentences_in",
        ensemble=True,
    )

    def __init__(self, settings: TaggingSettings, numbers: Mapping[str, Any], **given: Any) -> None:
        super().__init__(settings, numbers, **given)
        kind, counts = self.data.kind, word_counts(self.data.source.training, self.data.kind.lower)
        self.score = "entity_f1" if mark_spans(kind.tags) else "accuracy"
        n, each = len(kind.tags), "linear(x, classes)"
        self.widths = {n * n: f"logits = transitions({each})", n: f"logits = {each}"}
        a = 0.25 if settings.word_dropout is None else settings.word_dropout
        seen = torch.tensor([0, *(counts[word] for word in kind.words or ())])
        self.dropped = a / (a + seen) if a and kind.words is not None else None

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        if "tokens" not in architecture.inputs or not {"tokens", "characters"}.issuperset(architecture.inputs):
            raise InputError(
                f"{cls.name} gives a model `tokens` and `characters`; this one reads"
                f" {', '.join(architecture.inputs) or 'nothing'}: write a `before` that reads these, such as x ="
                " embed.words(tokens) + spell(characters)"
            )
        outputs = list(architecture.output.leaves.values())
        if len(outputs) != 1 or not outputs[0].sequence:
            raise InputError(
                f"{cls.name} needs one output with a tag's logits at each position; `output` makes"
                f" {outputs_in_words(architecture)}. Write logits = linear(x, classes), or logits ="
                " transitions(linear(x, classes)) for a conditional random field"
            )
        super().check(architecture)

    def batch(self, step: int, micro: int = 0) -> Batch:
        """With rare words read as unknown ones, at random (Kiperwasser and Goldberg 2016)."""
        batch = super().batch(step, micro)
        if self.dropped is None:
            return batch
        ids = batch.inputs["tokens"]
        drawn = torch.from_numpy(np.random.default_rng((self.seed, step, micro)).random(ids.shape, np.float32))
        kept = ids.where(drawn >= self.dropped[ids], 0)
        return Batch({**batch.inputs, "tokens": kept}, batch.targets, batch.lengths)

    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        targets, n, smoothing = batch.targets, len(self.data.kind.tags), self.data.settings.label_smoothing
        if output.shape[2] == n:
            return F.cross_entropy(output.transpose(1, 2), targets, ignore_index=IGNORED, label_smoothing=smoothing)
        if smoothing:
            raise ConfigError("label_smoothing: a conditional random field has none; leave it out")
        real = targets != IGNORED
        order = (~real).byte().argsort(dim=1, stable=True)  # positions that count, then the others
        potentials = output.gather(1, order[..., None].expand_as(output))
        return chain_nll(potentials, targets.gather(1, order), real.sum(1)).sum() / real.sum()

    @classmethod
    def measure(cls, answers: Sequence[Tagged], records: Sequence[Record]) -> list[Measured]:
        """The accuracy on tokens and, where tags mark spans, F1 of the spans before it."""
        predicted, references = [answer.tags for answer in answers], [tags_of(row) for row in records]
        spans = all(map(mark_spans, (*predicted, *references)))
        return [*(entity_scores(predicted, references) if spans else ()), token_accuracy(predicted, references)]

    trivial = {"most frequent tag": by_most_frequent_tag}


def words_of(folder: Path) -> tuple[list[str], bool]:
    """The words that a trained tagger reads, and whether it lowercases. Raises InputError for another model."""
    kind = load_predictor(folder)
    if not isinstance(kind, Tagger) or kind.words is None:
        raise InputError(f"{folder}: holds no tokenizer, and is no tagger that reads words; name another")
    return list(kind.words), kind.lower
