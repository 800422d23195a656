"""`distill`: a trained model writes a data file from which another model learns, whatever its tokens are.

Sequence-level distillation (Kim and Rush 2016, 1606.07947): the student learns the teacher's best output for each input
of training in the place of the right one.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atomic_io import disk_errors, write_whole
from ..errors import ConfigError, DataError, InputError, join_words, setting
from ..plain import TextPage, several
from .kept_answers import KeptAnswers
from .model import Model
from .reading import set_threads
from .starting import run_record

if TYPE_CHECKING:
    from ..settings import Settings
    from ..tasks.predictor import Predictor

PROMPT_TOKENS = 16  # of a training document with which the teacher goes on, where nothing is said
PROVENANCE = ".provenance.json"  # beside the file: who wrote it, from what, how
OPENED = 128  # sources that are read together, and whose targets are kept together
AT_ONCE = 64  # prompts with which the teacher goes on together
METHOD = "sequence-level distillation (Kim and Rush 2016)"


@dataclass(frozen=True)
class Distilled(TextPage):
    """A data file that a teacher wrote. Its `repr` says what to do with it, `.data` holds its provenance."""

    file: Path
    provenance: Path
    rows: int
    about: Mapping[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        return {"file": str(self.file), "provenance": str(self.provenance), "rows": self.rows, "about": self.about}

    def __repr__(self) -> str:
        task = self.about["task"]
        return (
            f"wrote {self.file}: {self.rows:,} rows by {self.about['teacher']['folder']}\n"
            f"wrote {self.provenance}: who wrote them, from what, and how\n"
            f"train on it: transformula train MODEL --task {task} --data {self.file} --validation VALIDATION"
        )


def distill(
    run: str | Path, *, out: str | Path, data: str | Sequence[str] | None = None, rows: int | None = None,
    prompt_tokens: int | None = None, device: str = "cpu", threads: int | None = None, use: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None, **settings: Any,
) -> Distilled:  # fmt: skip
    """Let a trained model write what another one learns: a file of rows, JSON lines, that `train --data` reads.

        distill("runs/large", out="distilled.jsonl", beam=5)                   # translation, summaries, captions
        distill("runs/lm", out="distilled.jsonl", max_tokens=200, rows=1000)   # continuations of training documents

    run            the teacher: a run's folder (its best model) or a model's
    out            the file; beside it OUT.provenance.json says who wrote it, from what, and how
    data           the sources it writes targets for, whose targets are not read; by default the training rows of its
                   run, never those that were held out
    rows           how many are written, evenly over all; by default all
    prompt_tokens  of a language model: the tokens of each document with which it goes on (default: 16)
    settings       of the search, fields of SearchSettings (`beam`, ...); of a language model of SamplingSettings

    What is written is kept beside the file, in .OUT.answers, so that a call that was stopped and is made again goes on
    where it was, and comes to the same file. The file appears when it is whole.

    Raises InputError for a model that writes nothing, a file that is there, or where another call was stopped;
    DataError, ConfigError.
    """
    from ..generation.steps import device_of
    from ..tasks.writing import TextGenerator, Writing

    path = Path(out)
    if not KeptAnswers(path, None).path.is_file():
        check_free(path)
    if path.suffix != ".jsonl":
        raise InputError(f"{setting('out', str(path))}: rows are written as JSON lines: end the name in .jsonl")
    set_threads(threads)
    folder, recorded, task = run_record(run)
    model = Model.from_folder(folder, device=device, use=use)
    predictor: Any = model.predictor
    if isinstance(predictor, Writing):
        if prompt_tokens is not None:
            raise ConfigError("prompt_tokens: is for a language model; this one writes whole targets: leave it out")
        plan: Callable[..., Writer] = targets_of
    elif isinstance(predictor, TextGenerator):
        plan = continuations_of
    else:
        raise InputError(f"{run}: {why_not(predictor)}")
    chosen = predictor.settings.read(settings)
    if getattr(chosen, "n_best", 1) > 1:
        raise ConfigError("n_best: a student learns one target for each source, the best; leave it out")
    named = None if data is None else several(data)
    order = WritingOrder(model, recorded, task, named, rows, prompt_tokens or PROMPT_TOKENS)
    writer = plan(order, chosen)
    about = {
        "method": METHOD,
        "task": task,
        "teacher": {"folder": str(folder.resolve()), "sha256": weights_of(model)},
        "data": order.data or recorded.get("data"),
        "sources_sha256": hashlib.sha256("\0".join(writer.sources).encode()).hexdigest(),
        "settings": chosen.plain() | writer.beside,
    }
    return written(path, writer, about, str(device_of(model.module)), progress)


def written(
    path: Path, writer: Writer, about: Mapping[str, Any], device: str, progress: Callable[[int, int], None] | None
) -> Distilled:
    """Write what is not kept of an earlier call, and, when all is there, the file and what stands beside it."""
    from ..runs.identity import versions

    known = {"teacher": about["teacher"]["sha256"], "sources": about["sources_sha256"], **about["settings"]}
    asked = {"distill": known | {"device": device} | versions()}
    beside = path.with_name(path.name + PROVENANCE)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    kept = KeptAnswers(path, asked)
    if kept.others is not None:
        raise InputError(of_another(kept, path))
    try:
        if kept.count < len(writer.sources):
            check_free(path)
        kept.begin()
        if kept.count:
            said = f"{kept.count:,} of {len(writer.sources):,} rows were written before: going on from there"
            warnings.warn(said, stacklevel=4)
        writer.write(kept, progress)
        content = "".join(f"{line}\n" for line in kept.lines).encode()
        if path.exists() and path.read_bytes() != content:  # the same is there if a call ended behind its last row
            check_free(path)
        about = {**about, "rows": len(kept.lines), "sha256": hashlib.sha256(content).hexdigest()}
        about["versions"] = versions()
        with disk_errors(path):
            write_whole(beside, (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())
            write_whole(path, content)
        kept.remove()
    finally:
        kept.leave()
    return Distilled(path, beside, len(kept.lines), about)


def check_free(path: Path) -> None:
    """Raise InputError for a file that is there."""
    if path.exists():
        raise InputError(f"{setting('out', str(path))}: the file is there; name another, or remove it")


def of_another(kept: KeptAnswers, path: Path) -> str:
    """What is said where something else was begun under a file's name: in what it differs."""
    there = kept.others.get("distill") if isinstance(kept.others, dict) else None
    what = f"{setting('out', str(path))}: another command was stopped while it wrote this file"
    if isinstance(there, dict):
        here = kept.asked["distill"]
        changed = [key for key in {**there, **here} if there.get(key) != here.get(key)]
        what += f", which differs in {join_words(changed, 'and')}"
    return f"{what}: name another file, give that command again, or remove {kept.path}"


@dataclass(frozen=True)
class Writer:
    """What a teacher writes for each source, some at a time.

    sources  texts, by which they are known
    some     (first, last) -> the rows of these sources; of one without a target there is none
    at_once  how many at a time: which ones share a batch is the same in each call
    beside   settings beside those of the search
    """

    sources: Sequence[str]
    some: Callable[[int, int], list[dict[str, str]]]
    at_once: int
    beside: Mapping[str, Any] = field(default_factory=dict)

    def write(self, kept: KeptAnswers, progress: Callable[[int, int], None] | None) -> None:
        """All rows that are not kept yet. Raises DataError where all are empty."""
        count = len(self.sources)
        for first in range(kept.count, count, self.at_once):
            last = min(count, first + self.at_once)
            kept.add(last, [json.dumps(row, ensure_ascii=False) for row in self.some(first, last)])
            if progress is not None:
                progress(last, count)
        if count and not kept.lines:
            kept.remove()
            raise DataError("the teacher wrote nothing for any of the sources")


@dataclass(frozen=True)
class WritingOrder:
    """What is written, and of what.

    recorded  the configuration of the teacher's run; {} where it is not known
    task      by which it was trained
    data      the sources that were named
    rows      how many; None: all
    """

    model: Model
    recorded: Mapping[str, Any]
    task: str
    data: list[str] | None
    rows: int | None
    prompt_tokens: int

    def some(self, count: int) -> list[int]:
        """The places of the rows that are written, evenly over all."""
        from ..tasks.writing import spread_rows

        if self.rows is not None and self.rows < 1:
            raise ConfigError(f"rows: expected a number from 1 (got {self.rows})")
        return spread_rows(count, count if self.rows is None else self.rows)

    def settings(self, kind: Any) -> Any:
        """Those of the data of its run, or of the data that are named."""
        known = {key: value for key, value in kind.settings.of_run(self.recorded).items()}
        known = {key: value for key, value in known.items() if key in kind.settings.model_fields}
        if self.data is not None:
            known = {key: value for key, value in known.items() if key not in ("validation", "test")}
            known["data"] = self.data
        elif not self.recorded:
            what = f"a model's folder knows no data; say which: {setting('data', 'FILE')}"
            raise InputError(f"{self.model.folder}: {what}")
        return kind.settings.read(known)


def why_not(predictor: Predictor | None) -> str:
    """Why a model writes no data for another one, and what can be done."""
    if predictor is None:
        return "this model was trained on no task, so that it writes nothing"
    if not predictor.verb:
        return "this model writes no texts"
    how = f"transformula {predictor.verb} RUN --input FILE --output FILE"
    return (
        "this model writes neither targets for sources nor on from a text; what it answers another one can learn from a"
        f" file: {how}; or, with the same tokenizer, from its probabilities: {setting('teacher', 'RUN')} of train"
    )


def weights_of(model: Model) -> str:
    """The hash of a model's weights."""
    from ..interop.weights import hash_of, model_tensors

    return hash_of({name: tensor.cpu() for name, tensor in model_tensors(model.module).items()})


def targets_of(order: WritingOrder, settings: Settings) -> Writer:
    """Rows of a source and the target that the teacher writes for it."""
    from ..tasks.base import tasks

    kind: Any = tasks.get(order.task)
    records = sources_of(kind, order.settings(kind), order.data)
    records = [records[place] for place in order.some(len(records))]
    held = [record.held("source") for record in records]
    names = [source if isinstance(source, str) else picture_name(source) for source in held]
    predictor: Any = order.model.predictor

    def some(first: int, last: int) -> list[dict[str, str]]:
        sources = [record["source"] for record in records[first:last]]  # pictures are read some at a time
        targets = [best[0].text for best in predictor.predict([order.model.module], sources, settings)]
        rows = zip(names[first:last], targets, strict=True)
        return [{"source": name, "target": target} for name, target in rows if target.strip()]

    return Writer(names, some, OPENED)


def sources_of(kind: Any, settings: Any, named: list[str] | None) -> Sequence[Any]:
    """The records whose sources are read: the training rows of its run, or all rows of the data that are named, which
    may have no target; of files without columns each line is a source."""
    from ..data.lines import lines_of
    from ..data.records import Record, columns_of, read_records

    if named is None:
        rows: Sequence[Any] = kind.source.split(settings).training
        return rows
    if not kind.source.pictures and settings.file_format is None and all(map(is_plain, named)):
        lines = [(name, *line) for name in named for line in lines_of(Path(name))]
        return [Record({"source": text}, f"{name}:{number}") for name, number, text in lines if text.strip()]
    names, _ = columns_of(named, **settings.reading)
    column = next((name for name in (settings.source, "source") if name in names), names[0])
    kinds = {"source": "picture"} if kind.source.pictures else {}
    records = read_records(named, {"source": column}, kinds=kinds, like=named, **settings.reading)
    return records.read_all("data", [])


def is_plain(name: str) -> bool:
    """Whether a source is a file whose ending says that it has no columns."""
    from ..data.format import formats

    path = Path(name)
    return path.is_file() and path.suffix.lstrip(".") not in formats


def picture_name(source: Any) -> str:
    """The file of a picture. Raises InputError for one that has none of its own."""
    if not isinstance(source.file, Path):
        raise InputError(f"{source.place}: the picture is a part of the file of rows, and has no file to be named by")
    return str(source.file.resolve())


def continuations_of(order: WritingOrder, settings: Settings) -> Writer:
    """Rows of a text: the first tokens of a document of the training text, and what the teacher writes on."""
    from ..tasks.base import tasks

    kind: Any = tasks.get(order.task)
    chosen = order.settings(kind).model_copy(update={"tokenizer": str(order.model.folder)})
    numbers = kind.numbers_of(order.model.architecture, order.model.architecture.numbers)
    task = kind.make(chosen, numbers, batch=1)
    prompts = prompts_of(task.data.training.ids, task.data.tokenizer, order.prompt_tokens, task.context)
    prompts = [prompts[place] for place in order.some(len(prompts))]
    predictor: Any = order.model.predictor

    def some(first: int, last: int) -> list[dict[str, str]]:
        own = settings.model_copy(update={"seed": getattr(settings, "seed", 1) + first})
        texts = predictor.generate(order.model.module, prompts[first:last], own)
        return [{"text": prompt + text} for prompt, text in zip(prompts[first:last], texts, strict=True)]

    return Writer(prompts, some, AT_ONCE, {"prompt_tokens": order.prompt_tokens})


def prompts_of(ids: Any, tokenizer: Any, length: int, context: int) -> list[str]:
    """The beginnings of the documents of a text; of a single text, of each window of `context` tokens."""
    import numpy as np

    ids = np.asarray(ids)
    end = tokenizer.end_of_document
    ends = np.flatnonzero(ids == end) if end is not None else np.zeros(0, np.int64)
    if len(ends) > 1:
        bounds = [-1, *ends.tolist(), len(ids)]
        parts = [ids[first + 1 : last][:length] for first, last in zip(bounds, bounds[1:], strict=False)]
    else:
        parts = [ids[start : start + length] for start in range(0, len(ids) - length + 1, context)]
    texts = [tokenizer.decode(part.tolist()) for part in parts if len(part) == length]
    return [text for text in texts if text.strip()]
