"""Speech recognition: a sound to its transcript. The model's text says how it is learned:

    an encoder                 its positions say a symbol each, or nothing (CTC)
    an encoder and a decoder   the decoder writes tokens: `speech_writing.py`

loss = -log P(transcript | sound) of all rows, divided by their symbols, or their tokens
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..cost.words import of_a_step
from ..data.records import Record
from ..data.splits import SplitRows
from ..errors import DataError, InputError, setting
from ..language.graph import Architecture
from . import speech_writing_data as written
from .asked_search import ASKED_FIELDS, asked_of, reports_of
from .base import EVALUATION_COST, Batch, Progress, Scores, outputs_in_words, task
from .ctc import ctc_nats, positions_needed, real_positions
from .label_spelling import some_in_words
from .losses import smoothed_cross_entropy
from .predictor import Answer
from .rows import RowReader, RowTask, evaluation_of
from .scores.measured import Measured
from .scores.report import ScoreReport
from .sounds import (
    by_speaker,
    check_reads_sound,
    read_sounds,
    seconds_of,
    shared_speakers,
    sound_rows,
)
from .speech_settings import SpeechSettings, spelled
from .speech_writing import SpeechWriter
from .speech_writing_data import READS, check_tokens, recognizer_of_others
from .spoken_scores import errors_by_speaker, most_frequent, rates_of
from .trained import Trained
from .transcripts import SpeechRecognizer, places_of
from .varied_sounds import vary
from .verb import TranscribeSettings, Verb
from .writing import WRITING_COST

TEXTS = ("text", "transcript", "transcription", "sentence", "normalized_text")  # usual names of columns
FIRST, STEP = "first_sample", "samples_a_position"  # among a task's numbers: where the positions of an output stand
ONE_OUTPUT = "logits = linear(x, vocab)"


class TranscribedSounds(RowReader):
    """Records with the fields `audio`, `text` and, where it is known, `speaker`."""

    compared = ("audio",)

    def read(self, sources: Any, settings: Any, key: str, notes: list[str]) -> list[Record]:
        rows = read_sounds(sources, settings, key, notes, {"text": TEXTS})
        records = [row.changed(text=spelled(str(row["text"]), settings)) for row in rows]
        kept = [row for row in records if row["text"]]
        if len(kept) < len(records):
            what = "transcripts have nothing but punctuation: left out"
            notes.append(f"{key}: {len(records) - len(kept):,} of {len(records):,} {what}")
        if not kept:
            raise DataError(f"{key}: no transcript has a letter; is it the right column?")
        return by_speaker(kept, notes) if key == "data" else kept

    def texts(self, records: Sequence[Record]) -> list[str]:
        return []

    def shown(self, record: Record) -> tuple[str, list[str]]:
        return record.place, [str(record["text"])]

    def learn(
        self, rows: SplitRows, tokenizer: Any, sizes: dict[str, int], settings: Any, inputs: Sequence[str]
    ) -> SpeechRecognizer | SpeechWriter:
        longest = round(max(map(seconds_of, rows.training)), 3)
        if READS == set(inputs):
            return written.writer_of(rows, inputs, sizes, settings, longest)
        symbols = sorted({sign for row in rows.training for sign in str(row["text"])})
        first, step = sizes.pop(FIRST, 0), sizes.pop(STEP, 1)
        sizes["vocab"] = len(symbols) + 1
        how = (settings.lower, symbols, settings.rate, first, step, longest)
        return SpeechRecognizer(None, list(inputs), 0, *how, normalized=bool(settings.normalize))

    def target(self, kind: SpeechRecognizer | SpeechWriter, record: Record) -> Tensor:
        """(symbols,) int64; of CTC none where the sound has too few positions."""
        ids = kind.ids(str(record["text"]))
        return torch.tensor(ids if fits(kind, record, ids) else [], dtype=torch.int64)

    def batch_of(self, kind: Any, records: Sequence[Record], rows: Sequence[Any], targets: Sequence[Tensor]) -> Batch:
        if isinstance(kind, SpeechWriter):
            return kind.batch(rows, targets)
        return super().batch_of(kind, records, rows, targets)

    def about(self, kind: SpeechRecognizer | SpeechWriter, records: Sequence[Record]) -> dict[str, str]:
        words = sum(len(str(row["text"]).split()) for row in records)
        if isinstance(kind, SpeechWriter):
            return {"transcripts": f"{words:,} words; {written.about(kind)}"}
        each = f"a position every {of_a_step(kind.step / kind.rate)}"
        return {"transcripts": f"{words:,} words; {len(kind.symbols)} symbols: {''.join(kind.symbols)}; {each}"}

    def remarks(self, kind: SpeechRecognizer | SpeechWriter, rows: SplitRows) -> list[str]:
        notes = shared_speakers(rows)
        if isinstance(kind, SpeechWriter):
            written.check_heard(kind, {"training": rows.training, "validation": rows.validation})
            return notes
        for name, side in (("training", rows.training), ("validation", rows.validation)):
            short = [row for row in side if not fits(kind, row, kind.ids(str(row["text"])))]
            if len(short) == len(side):
                raise DataError(
                    f"every {name} transcript, such as that of {short[0].place}, is longer than its sound has positions"
                    f" ({kind.step / kind.rate:.3g} s each): is the column the right one? Else use smaller strides"
                )
            if short:
                notes.append(
                    f"{len(short):,} of {len(side):,} {name} transcripts have more symbols than their sounds have"
                    f" positions, and count for nothing in the loss; the first: {short[0].place}"
                )
        return [*notes, *self.unseen(kind, rows.validation, "the validation rows"),
                *([] if rows.test is rows.validation else self.unseen(kind, rows.test, "the test rows"))]  # fmt: skip

    def unseen(self, kind: SpeechRecognizer | SpeechWriter, records: Sequence[Record], named: str) -> list[str]:
        if isinstance(kind, SpeechWriter):
            return []
        others = Counter(sign for row in records for sign in str(row["text"]) if sign not in kind.symbols)
        if not others:
            return []
        listed = some_in_words([f"{sign!r} {count:,}" for sign, count in others.most_common()])
        return [f"{named} have characters that no training transcript has, each of which counts as wrong: {listed}"]


def fits(kind: SpeechRecognizer | SpeechWriter, record: Record, ids: Sequence[int]) -> bool:
    """Whether a sound has positions for a text."""
    if isinstance(kind, SpeechWriter):
        return True
    return kind.positions(sound_rows([record], kind.rate)[0].samples) >= positions_needed(ids)


@task("speech-recognition")
class SpeechRecognition(RowTask):
    """Sounds with their transcripts, by an encoder and CTC, or by an encoder and a decoder."""

    unit = "sounds"
    sequences = 32
    settings = SpeechSettings
    evaluation = evaluation_of(SpeechSettings, "audio", "text", "speaker", **ASKED_FIELDS)
    measures = ("loss", "word_error_rate", "character_error_rate")
    lower = frozenset(measures[1:])
    score = "word_error_rate"
    digits = 2
    reader = TranscribedSounds()
    others = staticmethod(recognizer_of_others)
    fits = staticmethod(check_tokens)
    trivial = {"constant": most_frequent}
    parts = (errors_by_speaker,)
    model = {
        "family": "encoder",
        "before": "x = gelu(conv.two(gelu(conv.one(logmel(audio, 40), 3, width)), 3, stride=4)); x = x + sinusoids(x)",
        "output": ONE_OUTPUT,
    }
    verb = Verb(
        "transcribe",
        help="write down what is said in a sound",
        about="""\
Write down what is said in files of sound (wav, flac, ogg, mp3), with a trained model: arguments, or their names in a
file, in a column of one (seen from its folder), or on standard input. Any rate and number of channels will do. JSON has
the time of each word. Long files are read in windows.""",
        examples=(
            "transformula transcribe runs/speech left.wav right.flac",
            "transformula transcribe runs/speech talk.ogg --format jsonl",
            "transformula transcribe runs/speech --input clips.tsv --column path --output written.txt",
            "transformula transcribe runs/speech left.wav --beam 16 --ngrams texts.txt",
            "transformula transcribe runs/speech left.wav --beam 16 --lm runs/texts --lm-weight 0.5",
        ),
        settings=TranscribeSettings,
        takes="SOUND",
        answers="transcripts",
        ensemble=True,
    )

    @classmethod
    def check(cls, architecture: Architecture) -> None:
        if READS == set(architecture.inputs):
            return written.check_writes(cls.name, architecture)
        check_reads_sound(cls.name, architecture)
        super().check(architecture)
        if places_of(architecture) is None:
            raise InputError(
                f"{cls.name}: each position says a symbol, and those of the output do not follow from the sound's"
                f" samples; `output` makes {outputs_in_words(architecture)}: {setting('output', ONE_OUTPUT)}"
            )

    @classmethod
    def numbers_of(cls, architecture: Architecture, stated: Collection[str]) -> dict[str, int]:
        """Where the positions of the output stand among the samples; or what the text says of tokens and sound."""
        if READS == set(architecture.inputs):
            return written.writer_numbers(architecture, stated)
        first, step = places_of(architecture) or (0, 1)
        return {FIRST: first, STEP: step}

    def cost_of(self, rows: int) -> float:
        return (EVALUATION_COST + WRITING_COST * isinstance(self.data.kind, SpeechWriter)) * rows

    def batch(self, step: int, micro: int = 0) -> Batch:
        batch = vary(super().batch(step, micro), self.data.settings, self.seed, step, micro)
        return self.data.kind.filled(batch) if isinstance(self.data.kind, SpeechWriter) else batch

    def evaluate(self, model: nn.Module, progress: Progress | None = None) -> Scores:
        if isinstance(self.data.kind, SpeechWriter):
            return written.scores_of(self, model, progress)
        return super().evaluate(model, progress)

    def units(self, batch: Batch) -> int:
        return len(batch.targets)

    def objective(self, output: Tensor, batch: Batch) -> Tensor:
        kind, waves = self.data.kind, batch.inputs["audio"]
        if isinstance(kind, SpeechWriter):
            return smoothed_cross_entropy(output, batch.targets, 0.0)
        samples = batch.lengths.get("audio", torch.full((len(waves),), waves.shape[1]))
        if output.shape[2] <= len(kind.symbols):
            what = f"the transcripts have {len(kind.symbols)} symbols, beside the blank, and the output"
            raise InputError(f"{self.name}: {what} {output.shape[2]} numbers: {setting('output', ONE_OUTPUT)}")
        positions = real_positions(samples.to(output.device), kind.first, kind.step).clamp(max=output.shape[1])
        symbols = (batch.targets >= 0).sum().clamp(min=1)
        return ctc_nats(output, batch.targets, positions).sum() / symbols

    @classmethod
    def measure(cls, answers: Sequence[Answer], records: Sequence[Record]) -> list[Measured]:
        return rates_of(records, [each.text for each in answers])

    @classmethod
    def report(
        cls, trained: Trained, data: Any, given: Mapping[str, Any], progress: Progress | None = None
    ) -> ScoreReport:
        """Scores, and what a search or windows change where settings of the verb are given."""
        asked, rest = asked_of(given)
        found = super().report(trained, data, rest, progress)
        if not asked:
            return found
        parts = reports_of(cls, trained, data, cls.evaluation.read(rest), asked, progress)
        return replace(found, parts=[*found.parts, *parts])
