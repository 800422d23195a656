"""What leaves with an exported model: how text becomes what it reads, and what it gives becomes answers.

    pipeline.json   all of that as plain data, in every format
    tokenizer.json  as the tokenizers library reads it, with the marks that a row has
    predict.py, runtime.py   scripts that answer without this package, where the format is one of programs

What was written is then tried: text in, answer out, compared with the predictor. Each kind of predictor has a class
under `@pipeline("its-name")`, in a file of `pipelines/` or from outside, and a script, `scripts/its_name.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import tokenizers as library
from tokenizers import normalizers, processors

from ..errors import CheckpointError, InputError
from ..registry import Registry
from ..tokenizers.base import FILE as TOKENIZER
from .predictor import Predictor
from .row_predictor import RowEncoder

P = TypeVar("P", bound=Predictor)
R = TypeVar("R", bound=RowEncoder)
SCRIPT, RUNTIME, STEPS, SOUND = "predict.py", "runtime.py", "picture_steps.py", "sound_steps.py"
SCRIPTS = Path(__file__).parent / "scripts"
DEFECT = "nothing was written. This is a defect: report it with the model's text"
MAX_TRIED_TOKENS = 2000  # of a text that is tried
TOLERANCE = 1e-3  # between numbers of two answers, beside the largest

TEXTS = (
    "The cat sat on the mat.",
    "",
    "Don't  stop: 3.5 times (e-mail me) -- OK?",
    "Ein Größenvergleich, naïve café",
    "東京は日本の首都です。 Москва",
    "A name of a token, <|endoftext|>, [SEP]",
)
TRIAL = """
import json, sys, predict, runtime
changes, texts = json.load(sys.stdin)
runtime.pipeline.update(changes)
json.dump([predict.answer(text) for text in texts], sys.stdout)
"""


class Pipeline(Generic[P]):
    """How a predictor's answers are made, for who runs its model by another program. A kind of predictor says:

    plain     of itself, as plain data; docs/how-to/export-a-model.md says what the keys mean
    lines     on what a script is tried, made of some texts, and of files in a folder of its own
    inputs    the same lines as the predictor takes them
    settings  those of the predictor's call while the script is tried
    scored    whether the script writes the score of an answer behind it
    tried     what pipeline.json says otherwise while the script is tried
    ids       what the model reads of a line, where the tokenizer's file alone makes it; None where it does not
    """

    settings: Mapping[str, Any] = {}
    scored = False
    tried: Mapping[str, Any] = {}

    def __init__(self, predictor: P) -> None:
        self.predictor = predictor

    def plain(self) -> dict[str, Any]:
        return {}

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.predictor.name.replace('-', '_')}.py"

    @property
    def unscripted(self) -> str:
        """Why there is no predict.py; "" where there is one."""
        try:
            self.in_library()
        except InputError as error:
            return str(error)
        return "" if self.script.is_file() else f"there is none for a model of the kind {self.predictor.name!r}"

    def limits(self, module: Any, context: int | None) -> dict[str, Any]:
        """What of `plain` the model that is written says otherwise; `context` is how many positions the program has,
        None where it does not say."""
        return {}

    def companions(self, folder: Path) -> None:
        """Write what transformers reads beside a model of this kind, and the exporter does not write."""

    def in_library(self) -> dict[str, library.Tokenizer]:
        """What makes ids of texts, in the tokenizers library's form, by file, that of what is read first. Raises
        InputError where it has no such form."""
        return {} if self.predictor.tokenizer is None else {TOKENIZER: self.predictor.tokenizer.in_library()}

    def ids(self, line: str) -> list[int] | None:
        return None

    def lines(self, texts: Sequence[str], folder: Path) -> list[str]:
        return list(texts)

    def inputs(self, lines: Sequence[str]) -> Sequence[Any]:
        return lines

    def answers(self, module: Any, lines: Sequence[str]) -> list[str]:
        """The best answer to each line, as the script should write it."""
        kind = self.predictor
        answers = kind.predict([module], kind.opened(self.inputs(lines)), kind.settings.read(self.settings))
        return [f"{best.text}\t{best.score:.4f}" if self.scored else best.text for best, *_ in answers]


def marks_of_ids(*marks: Sequence[int]) -> list[list[list[int]]]:
    """Marks before and after a text that is read alone, for pipeline.json: each id with the type 0."""
    return [[[number, 0] for number in ids] for ids in marks]


class RowPipeline(Pipeline[R]):
    """A pipeline that reads `texts` texts as one row."""

    texts = 1

    def plain(self) -> dict[str, Any]:
        kind, count = self.predictor, self.texts
        marks = kind.tokenizer and kind.tokenizer.marks.row(count)
        return {
            "inputs": list(kind.inputs),
            "lower": kind.lower,
            "marks": [each.tolist() for each in marks.ids] if marks else [[]] * (count + 1),
            "types": list(marks.types) if marks else list(range(count)),
            "most": kind.most,
            "cut": "end",
            "padding": {"side": "right", "id": 0},
        }

    def ids(self, line: str) -> list[int] | None:
        """The ids of one text; None where a row has several, which the library cuts otherwise than it is done here."""
        return None if self.texts > 1 else list(self.predictor.encode([line])[0]["tokens"].tolist())


pipelines: Registry[type[Pipeline[Any]]] = Registry("pipeline", "transformula.tasks.pipelines", "@pipeline(")
pipeline = pipelines.register
"""Decorator that registers the pipeline of a predictor under the predictor's name."""


def pipeline_of(predictor: Predictor) -> Pipeline[Any]:
    """That of its kind; of a kind that has none, one that says no more than the tokenizer."""
    return (pipelines.get(predictor.name) if predictor.name in pipelines else Pipeline)(predictor)


def write_pipeline(
    pipeline: Pipeline[Any], path: Path, task: str, published: bool, limits: Mapping[str, Any] | None = None
) -> None:
    """Write pipeline.json; `published`: the tokenizer beside it, too, in the tokenizers library's form."""
    kind = pipeline.predictor
    plain = {"format": 1, "kind": kind.name, "task": task, **pipeline.plain()}
    form = kind.tokenizer and kind.tokenizer.kind
    if published:
        with suppress(InputError):  # a kind that has no such form stays as it is
            for number, (name, backend) in enumerate(pipeline.in_library().items()):
                if number == 0:
                    add_marks(backend, plain)
                    check_tokenizer(pipeline, backend)
                backend.save(str(path.parent / name))
                form = "tokenizers"
    plain |= {"tokenizer": form and {"file": TOKENIZER, "form": form}, **(limits or {})}
    lines = (f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in plain.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def add_marks(backend: library.Tokenizer, plain: Mapping[str, Any]) -> None:
    """Let a tokenizer do itself what a pipeline says of texts: lowercase them, put marks around them, cut them."""
    if plain.get("lower"):
        before = [] if backend.normalizer is None else [backend.normalizer]
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *before])
    marks = plain.get("marks", ())
    if any(marks) and backend.post_processor is None:
        types, names = plain["types"], {i: backend.id_to_token(i) for mark in marks for i, _ in mark}
        spelled = [[f"{names[i]}:{kind}" for i, kind in mark] for mark in marks]
        single = [*spelled[0], f"$A:{types[0]}", *spelled[-1]]
        pair = [*spelled[0], f"$A:{types[0]}", *spelled[1], f"$B:{types[1]}", *spelled[2]] if len(types) == 2 else None
        special = [(name, number) for number, name in names.items()]
        backend.post_processor = processors.TemplateProcessing(single, pair or [*single, "$B:1"], special)
    if plain.get("cut") == "end" and len(marks) == 2 and plain["most"] is not None:
        backend.enable_truncation(plain["most"])


def check_tokenizer(pipeline: Pipeline[Any], backend: library.Tokenizer) -> None:
    """Raise CheckpointError for a tokenizer's file that makes other ids of a text than the model reads."""
    backend.encode_special_tokens = True  # which is nothing that a file says
    for text in TEXTS:
        with suppress(InputError):  # of characters that are not known
            ids = pipeline.ids(text)
            theirs = None if ids is None else backend.encode(text).ids or [0]
            if theirs != ids:
                raise CheckpointError(f"{TOKENIZER} would make of {text!r} the ids {theirs}, not {ids}; {DEFECT}")


def write_scripts(pipeline: Pipeline[Any], folder: Path) -> None:
    """Write predict.py and what it imports."""
    plain = pipeline.plain()
    for name in (RUNTIME, *[STEPS] * bool(plain.get("steps")), *[SOUND] * ("rate" in plain)):
        (folder / name).write_bytes((SCRIPTS / name).read_bytes())
    text = pipeline.script.read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(text.replace("from .runtime ", "from runtime "), encoding="utf-8")


def check_scripts(pipeline: Pipeline[Any], module: Any, folder: Path, own: Sequence[str] = ()) -> None:
    """Run what was written on some texts, those of the run's data (`own`) among them, and compare with the predictor.
    Raises CheckpointError where it differs."""
    with tempfile.TemporaryDirectory() as files:
        expected = dict(trial_answers(pipeline, module, Path(files), own))
        given = json.dumps([dict(pipeline.tried), list(expected)])
        trial = [sys.executable, "-c", TRIAL]
        done = subprocess.run(trial, input=given, cwd=folder, capture_output=True, encoding="utf-8")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    if done.returncode:
        raise CheckpointError(f"the written {SCRIPT} fails: {done.stderr.strip().splitlines()[-1:]}; {DEFECT}")
    compare(expected, json.loads(done.stdout), f"the written {SCRIPT} says")


def check_again(pipeline: Pipeline[Any], module: Any, again: Any, own: Sequence[str] = ()) -> None:
    """Compare what is said by a model that was written and read again, the second, as above."""
    with tempfile.TemporaryDirectory() as files:
        expected = dict(trial_answers(pipeline, module, Path(files), own))
        answers = [pipeline.answers(again, [line])[0] for line in expected]
    compare(expected, answers, "what was written, read again, says")


def compare(expected: Mapping[str, str], answers: Sequence[str], who: str) -> None:
    """Raise CheckpointError unless the answers are those that are expected, but for rounding."""
    for (line, ours), theirs in zip(expected.items(), answers, strict=True):
        if not same_answer(ours, theirs):
            what = f"{who} of {line!r:.100} {theirs!r:.100}, and the model {ours!r:.100}"
            raise CheckpointError(f"{what}; {DEFECT}")


def trial_answers(
    pipeline: Pipeline[Any], module: Any, folder: Path, own: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Lines with their answers: texts of the run's own, some texts, those of what a tokenizer knows, a long one; none
    that the model refuses, such as characters that it does not know, or a text of which no end is cut."""
    texts, tokenizer = [*own, *TEXTS], pipeline.predictor.tokenizer
    if tokenizer is not None:
        step = max(1, tokenizer.vocab // 30)
        texts += [tokenizer.decode(range(first, tokenizer.vocab, step)) for first in (0, step // 2)]
    most = pipeline.plain().get("most") or 0
    texts.append(" ".join([*texts] * (1 + min(most, MAX_TRIED_TOKENS) // 50)))
    for line in pipeline.lines(texts, folder):
        with suppress(InputError):
            yield line, pipeline.answers(module, [line])[0]


def same_answer(ours: str, theirs: str) -> bool:
    """Whether two answers are the same, but for rounding of numbers."""
    one, other = (text.split() for text in (ours, theirs))
    if len(one) != len(other):
        return ours == theirs
    numbers = [(number_of(a), number_of(b)) for a, b in zip(one, other, strict=True)]
    largest = max((abs(a) for a, _ in numbers if a is not None), default=0.0)
    return all(
        abs(a - b) <= TOLERANCE * largest if a is not None and b is not None else word == same
        for (a, b), word, same in zip(numbers, one, other, strict=True)
    )


def number_of(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
