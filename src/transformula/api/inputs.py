"""What a person gives a trained model: texts, token ids, prefixes, a tokenizer, checked; and the answers to sources: to
one, to many, or to a stream that has no end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, DataError, InputError
from .reading import TASK, check_model, model_folder

if TYPE_CHECKING:
    from torch import nn

    from ..data.lines import BadRows
    from ..language.graph import Architecture
    from ..settings import Settings
    from ..tasks.predictor import Answer, Predictor
    from ..tokenizers.base import Tokenizer

# Inputs of a stream that are answered together: few at first, so that something is seen early, then more, since those
# of like length share a batch.
FIRST_PIECE, MAX_PIECE = 16, 512


def texts_of(given: Any, what: str = "prompt") -> tuple[list[str], bool]:
    """(texts, whether it is a single one). Raises InputError for what is no text and no list of texts."""

    def describe(value: Any) -> str:
        if isinstance(value, (bytes, bytearray)):
            return f"{type(value).__name__}: decode it first, by {what}.decode()"
        numbers = (isinstance(value, int) and not isinstance(value, bool)) or hasattr(value, "dtype")
        remedy = ": give token ids as tokens=" if numbers and what == "prompt" else ""
        return f"{type(value).__name__}, {value!r:.40}{remedy}"

    if isinstance(given, str):
        return [given], True
    if not isinstance(given, Iterable) or isinstance(given, (bytes, bytearray, Mapping)) or hasattr(given, "dtype"):
        raise InputError(f"{what}: expected a text or a list of texts; this is {describe(given)}")
    texts = list(given)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise InputError(f"{what} {number}: expected a text; this is {describe(text)}")
    return texts, False


def ids_of(tokens: Any, vocab: int) -> tuple[list[list[int]], bool]:
    """(rows of token ids, whether it is a single row) of a list of ids, a list of such lists, or a tensor of one or two
    dimensions. Raises InputError for anything else, and for ids that are not below `vocab`."""
    plain = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    if not isinstance(plain, (list, tuple)):
        raise InputError(f"tokens: expected a list or a tensor of token ids, or a list of such; this is {plain!r:.40}")
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in plain]
    one = not any(isinstance(row, (list, tuple)) for row in rows)
    rows = [rows] if one else rows
    for number, row in enumerate(rows, 1):
        where = "tokens" if one else f"tokens, row {number}"
        if not isinstance(row, (list, tuple)):
            raise InputError(f"{where}: expected a list of token ids, as the other rows are; this is {row!r:.40}")
        if not row:
            raise InputError(f"{where}: is empty: give at least one id to go on from")
        for place, token in enumerate(row, 1):
            if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < vocab:
                expected = f"expected whole numbers from 0 to {vocab - 1}"
                raise InputError(f"{where}: {expected}; number {place} is {token!r:.40}")
    return [list(row) for row in rows], one


def tokenizer_of(given: Any) -> Tokenizer:
    """A tokenizer by what it is called: itself, "bytes", or the folder (of a model or a run) that holds it.

    Raises InputError for anything else, CheckpointError for a folder without one.
    """
    from ..tokenizers.base import Tokenizer, load, tokenizers
    from ..tokenizers.published import is_tokenizer

    if isinstance(given, Tokenizer):
        return given
    if not isinstance(given, (str, Path)):
        raise InputError(f"tokenizer: expected a tokenizer, 'bytes' or a folder that holds one; this is {given!r:.40}")
    name = str(given)
    if name == "bytes":  # the one that is made from no text
        return tokenizers.get(name).train(())
    if name in tokenizers.names():
        kind = tokenizers.get(name)
        how = f"from {kind.__module__} import {kind.__name__}; {kind.__name__}.train([text])"
        reason = "is made from text, and a model built by hand has none"
        raise InputError(f"tokenizer: {name!r} {reason}: make it, and give what you made: {how}")
    folder = Path(given)
    return load(folder if is_tokenizer(folder) or folder.is_file() else model_folder(folder))


def predictor_in(folder: Path, architecture: Architecture | None = None) -> Predictor | None:
    """What the model in a folder does: as it was trained here, or, of a folder of transformers, as its family is
    trained; None for a model that has neither a task nor a tokenizer. Raises CheckpointError."""
    from ..interop.named import is_theirs
    from ..tasks.writing import generator_of, load_predictor

    if not is_theirs(folder):
        return load_predictor(folder)
    from ..interop.named.config import model_of_folder
    from ..tasks.predictor import NoAnswer
    from ..tokenizers.base import FILE, load
    from ..tokenizers.published import is_tokenizer

    tokenizer = None
    try:
        tokenizer = load(folder) if is_tokenizer(folder) else None
    except CheckpointError as error:
        if (folder / FILE).is_file():
            raise
        warnings.warn(str(error), stacklevel=4)  # without it the model still reads token ids
    try:
        predictor = predictor_of_others(folder, tokenizer, architecture)
    except CheckpointError as error:
        if tokenizer is not None:
            warnings.warn(f"{folder}: {error}", stacklevel=4)
        return None
    if predictor is not None or tokenizer is None:
        return predictor
    writes = model_of_folder(folder)[0].task == TASK
    return generator_of(tokenizer) if writes else NoAnswer(tokenizer, why_no_answer(folder))


def predictor_of_others(
    folder: Path, tokenizer: Tokenizer | None, architecture: Architecture | None = None
) -> Predictor | None:
    """What the model in a folder of transformers does by the task of its class; None where no task says that, or what
    it reads are texts and no tokenizer is there. Raises CheckpointError where the folder does not say all."""
    from ..interop.named.config import model_of_folder
    from ..tasks.base import tasks
    from ..tasks.predictor import OfOthers

    model, config = model_of_folder(folder)
    others = tasks.get(model.task).others if model.task in tasks else None
    if others is None:
        return None
    architecture = architecture or check_model(folder)
    if tokenizer is None and set(architecture.inputs) not in ({"image"}, {"audio"}):
        return None
    predictor: Predictor = others(OfOthers(model.task, folder, tokenizer, config, architecture))
    return predictor


def checked_tables(predictor: Predictor | None, architecture: Architecture, folder: Path) -> Predictor | None:
    """The predictor itself. Raises CheckpointError for one by whose tokenizers the model has not a row for each id."""
    from ..tokenizers.base import check_rows

    numbers, tokenizer = architecture.numbers, getattr(predictor, "tokenizer", None)
    source = getattr(predictor, "source", None) or tokenizer
    for key, each in (("vocab", tokenizer), ("source_vocab", source)):
        if each is not None and key in numbers:
            check_rows(each, int(numbers[key]), folder)
    return predictor


def check_fits(tokenizer: Tokenizer, architecture: Architecture) -> Tokenizer:
    """Raise InputError unless a model has a row for each of the tokenizer's ids, and no more; for one that came
    with a model of others, at least."""
    vocab = architecture.numbers.get("vocab")
    if not tokenizer.fits(vocab):
        remedy = f"vocab={tokenizer.vocab}, which is what Model(..., tokenizer=...) does where vocab is not given"
        sizes = f"it has {tokenizer.vocab} ids, and the model's vocab is {vocab}"
        raise InputError(f"tokenizer: {sizes}: build the model with {remedy}")
    return tokenizer


def predict(
    predictor: Predictor, modules: Sequence[nn.Module], source: Any, settings: Settings, *,
    prefix: str | Sequence[str] | None = None, scores: bool = False, progress: Callable[[int, int], None] | None = None,
    bad_rows: BadRows = None,
) -> Any:  # fmt: skip
    """What `Model.predict` does, with the modules that answer together."""
    from ..tasks.cut_rows import notes_of

    if bad_rows not in (None, "stop", "skip"):
        raise InputError(f"bad_rows: {bad_rows!r:.40} is neither 'stop' nor 'skip'")
    settings = with_guides(predictor, settings)
    one = predictor.is_one(source)
    if not one and (isinstance(source, (bytes, Mapping)) or not isinstance(source, Iterable)):
        raise InputError(f"source: expected a text, a picture or a list of these; this is {source!r:.40}")
    sources = [source] if one else list(source)
    begun = {} if prefix is None else {"prefixes": prefixes_of(prefix, len(sources))}

    def ask(some: Sequence[Any]) -> Sequence[Sequence[Answer]]:
        return predictor.predict(modules, predictor.opened(some), settings, progress=progress, **begun)

    answers: Sequence[Any] = ask_all(ask, sources, None if one else bad_rows)
    bad = [number for number, best in enumerate(answers, 1) if isinstance(best, Unanswered)]
    if bad and len(bad) == len(answers):
        raise answers[0].error
    if bad:
        first = f"input {bad[0]}: {answers[bad[0] - 1].reason}"
        warnings.warn(f"{len(bad):,} of {len(answers):,} inputs have no answer; the first: {first}", stacklevel=3)
    for note in () if scores else notes_of([best[0] for best in answers if best], "inputs"):
        warnings.warn(note, stacklevel=3)
    if getattr(settings, "n_best", 1) == 1:
        answers = [(best[0] if scores else best[0].value) if best else None for best in answers]
    else:
        answers = [best or None for best in answers] if bad else answers
    return answers[0] if one else answers


def prefixes_of(prefix: Any, count: int) -> list[str]:
    """What each of `count` answers begins with. Raises InputError for what is no text."""
    prefixes, one = texts_of(prefix, "prefix")
    if not one and len(prefixes) != count:
        raise InputError(f"{len(prefixes)} prefixes for {count} sources: give one for each, or one text for all")
    return prefixes * count if one else prefixes


def stream(
    predictor: Predictor, modules: Sequence[nn.Module], arriving: Iterable[Sequence[Any]], settings: Settings, *,
    prefix: str | None = None, bad_rows: BadRows = None,
) -> Iterator[list[tuple[Any, Sequence[Answer]]]]:  # fmt: skip
    """Inputs that come in pieces (texts, names of pictures, rows with columns), each with its answers, in order, a few
    at a time: later ones are not waited for. Where bad rows are skipped, their answers are `Unanswered`; raises the
    error of the first if all are."""

    settings = with_guides(predictor, settings)

    def ask(some: Sequence[Any]) -> Sequence[Sequence[Answer]]:
        begun: dict[str, Any] = {} if prefix is None else {"prefixes": [prefix] * len(some)}
        return predictor.predict(modules, predictor.opened(some), settings, **begun)

    size, good, first_bad = FIRST_PIECE, 0, None
    for piece in arriving:
        first = 0
        while some := piece[first : first + size]:
            answers = ask_all(ask, some, bad_rows)
            bad = [one.error for one in answers if isinstance(one, Unanswered)]
            good, first_bad = good + len(some) - len(bad), first_bad or next(iter(bad), None)
            yield list(zip(some, answers, strict=True))
            first, size = first + size, min(2 * size, MAX_PIECE)
    if first_bad is not None and not good:
        raise first_bad


def with_guides(predictor: Predictor, settings: Settings) -> Settings:
    """The same settings, with the models that some of them name in place of the names. Raises InputError,
    CheckpointError."""
    named = {key: getattr(settings, key) for key in predictor.guides}
    opened = {key: guiding_model(name) for key, name in named.items() if name is not None}
    return settings.model_copy(update=opened) if opened else settings


def guiding_model(name: str) -> Any:
    """The model of a run or a folder, which guides the answers of another."""
    from ..interop.folder import load_model
    from ..tasks.text_guide import GuidingModel

    folder = model_folder(name)
    module, architecture = load_model(folder)
    predictor = checked_tables(predictor_in(folder, architecture), architecture, folder)
    return GuidingModel(name, module, predictor, architecture)


class Unanswered(list[Any]):
    """What stands for the answers to an input that could not be read or answered: none, and the error that says why."""

    def __init__(self, error: InputError) -> None:
        super().__init__()
        self.error = error

    @property
    def reason(self) -> str:
        return self.error.message.removeprefix("source 1: ")  # it was asked alone


def ask_all(
    ask: Callable[[Sequence[Any]], Sequence[Sequence[Answer]]], some: Sequence[Any], bad_rows: BadRows
) -> list[Sequence[Answer]]:
    """The answers to some inputs, of which those that cannot be answered are found by halves."""
    from ..data.lines import BadLine

    good = [one for one in some if not isinstance(one, BadLine)]
    answers = iter(ask_by_halves(ask, good, bad_rows) if good or not some else ())
    return [Unanswered(one.error) if isinstance(one, BadLine) else next(answers) for one in some]


def ask_by_halves(
    ask: Callable[[Sequence[Any]], Sequence[Sequence[Answer]]], some: Sequence[Any], bad_rows: BadRows
) -> list[Sequence[Answer]]:
    from ..data.lines import skip_or_raise

    try:
        return list(ask(some))
    except InputError as error:
        # what is wrong with the settings or the model is so for all inputs
        if type(error) not in (InputError, DataError) or bad_rows is None:
            raise
        if bad_rows == "stop" and not (isinstance(error, DataError) or error.message.startswith("source ")):
            raise
        skip_or_raise(error, bad_rows)
        if len(some) == 1:
            return [Unanswered(error)]
        half = len(some) // 2
        return [one for part in (some[:half], some[half:]) for one in ask_by_halves(ask, part, bad_rows)]


def must_write(predictor: Predictor | None) -> Predictor:
    """The predictor of a model that writes targets. Raises InputError for one that was not trained for that."""
    from ..tasks.writing import Writing

    if not isinstance(predictor, Writing):
        instead = "`generate` (on the command line: transformula sample)"
        if predictor is not None and predictor.method != "generate":
            instead = f"`{predictor.method}` (on the command line: transformula {predictor.verb})"
        raise InputError(
            f"this model was not trained to write a target for a source; what it does is done by {instead}. Train"
            " one with a task that writes targets: transformula train --help all lists the tasks"
        )
    return predictor


def must_predict(predictor: Predictor | None, folder: Path | None = None) -> Predictor:
    """The predictor of a model, of that folder if it came from one. Raises InputError for a model that was not trained
    on a task, and for one of others of which no verb is known."""
    from ..interop.named import is_theirs
    from ..tasks.predictor import NoAnswer

    place = "" if folder is None else f"{folder}: "
    if isinstance(predictor, NoAnswer):
        raise InputError(f"{place}{predictor.why}")
    if predictor is not None:
        return predictor
    if folder is not None and is_theirs(folder):
        raise InputError(f"{place}{why_no_answer(folder)}")
    raise InputError("this model has learned no task, so it has no answer to give: train it, or load a trained one")


def why_no_answer(folder: Path) -> str:
    """Why no verb answers by the model in a folder of transformers, and what can be done."""
    from ..interop.named.config import model_of_folder
    from ..tokenizers.published import is_tokenizer

    model, config = model_of_folder(folder)
    named = ", ".join(map(str, config.get("architectures") or model.architectures[:1]))
    outputs = "in Python load(FOLDER).module gives its outputs"
    tokenizer = None
    try:
        tokenizer = tokenizer_of(folder) if is_tokenizer(folder) else None
        predictor_of_others(folder, tokenizer)
    except CheckpointError as error:
        return f"holds {named}, and {error}; {outputs}"
    reads = check_model(folder).inputs
    if tokenizer is None and not {"tokens", "source"}.isdisjoint(reads):
        what = "which reads texts, and the folder holds no tokenizer: copy tokenizer.json from where it was made"
        return f"holds {named}, {what}; {outputs}"
    return f"holds {named}, and no verb answers by a model for {model.task}; {outputs}"
