"""What the command line reads of the tasks without running their files, so that no help loads torch.

A task brings a verb, as in `transformula translate RUN TEXT`: its file says it once, as a `Verb`. What that says of
itself are literals, and its settings are a class that the file imports.
"""

from __future__ import annotations

import ast
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from ..plain import python_tree
from ..settings import Settings

PACKAGE = __name__.rpartition(".")[0]
TASK = re.compile(r'^@task\("([\w-]+)"[^\n]*\nclass [^\n]*:\n    """(.+?)"""', re.M | re.S)  # its name, its docstring


class BestSettings(Settings):
    """How many answers there are to an input."""

    n_best: int = Field(1, ge=1, description="how many answers are shown, the most probable first")


class LabelSettings(BestSettings):
    """How many labels there are to an input, and how probable they have to be."""

    threshold: float | None = Field(
        None, ge=0, le=1, description="say no label where the most probable one is below this probability; of models of"
        " several labels, give those from it on (by default 0.5)",
    )  # fmt: skip
    accuracy: float | None = Field(
        None, gt=0, le=1, description="instead of threshold: the lowest one from which on the labels of the validation"
        " set were right this often (0.95)",
    )  # fmt: skip

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.accuracy is not None and self.threshold is not None:
            raise ValueError("accuracy and threshold both say where no label is said: leave one of them out")
        return self


class TranscribeSettings(BestSettings):
    """How texts are searched for in a sound, and in which windows a long one is read."""

    beam: int = Field(
        1, ge=1, le=1000, description="beginnings of a text that are kept at each position; 1: the best path alone"
    )
    ngrams: str | None = Field(
        None, min_length=1, description="a file of texts as they are spoken, one a line, whose n-grams of letters guide"
        " a search with a beam",
    )  # fmt: skip
    ngram_weight: float = Field(
        0.5, ge=0, le=10, description="what the n-grams count for, beside what is heard (needs ngrams)"
    )
    lm: str | None = Field(
        None, min_length=1, description="a language model, by its run or folder, that guides a search with a beam"
        " letter by letter; one whose tokens are not letters rescores what is found",
    )  # fmt: skip
    lm_weight: float = Field(
        0.5, ge=0, le=10, description="what the language model counts for, beside what is heard (needs lm)"
    )
    window: float | None = Field(
        None, ge=0.5, le=3600, description="seconds of a sound that are read at once; longer ones are read in windows"
        " that overlap; by default as long as the longest sound of training",
    )  # fmt: skip
    window_overlap: float | None = Field(
        None, ge=0, description="seconds that two windows share; by default a third of a window, and at most 4"
    )
    language: str | None = Field(
        None, min_length=1, description="of what is said, for a model whose tokens name languages, as Whisper's do: en;"
        " by default that of its training, or the most likely one",
    )  # fmt: skip

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.n_best > self.beam:
            raise ValueError(f"n_best {self.n_best} is more than beam {self.beam}: ask for a beam as large")
        for name, guide in (("ngrams", self.ngrams), ("lm", self.lm)):
            if guide is not None and self.beam == 1:
                what = f"{name} guides a search, and beam is 1, the best path alone"
                raise ValueError(f"{what}: ask for a beam of 8 or more")
        if self.ngrams is not None and self.lm is not None:
            raise ValueError("ngrams and lm both say what is likely to be said: leave one of them out")
        if self.window_overlap and self.window and self.window_overlap > self.window / 2:
            shared = f"{self.window_overlap:g} is more than half of window, {self.window:g} seconds"
            raise ValueError(f"window_overlap {shared}")
        return self


@dataclass(frozen=True)
class Verb:
    """What a trained model is used by: each input is given to the predictor of its folder, in order.

    name      as it is typed
    help      a line for `transformula --help`
    about     what its own --help says first
    examples  commands that work as typed
    settings  the options of a call, those of the predictor; or where the class stands: "generation.settings:Search"
    takes     what an input is, for its help: TEXT, PICTURE, SOUND, PROMPT
    answers   what stands for all answers to an input, in JSON
    prefix    an answer may be made to begin with a text
    ensemble  several models may answer together
    arrays    answers are vectors: --output FILE.npy holds them as one array
    live      an input is gone on with, and the text is shown while it is written; without input a text is begun
    reads     what reads the inputs of a file of rows and a column, "transformula.data.x:read"; "": texts of a column
    converses at a terminal without input, messages and replies take turns: by `conversation` of the predictor
    views     the predictor, by name, that takes the place of the model's own, which goes on with texts; "": none
    columns   of an input that has several: an argument is the first; of the others the option --NAME FILE has one text
              for all inputs, and else the rows of --input have them
    picture   a column that may take the place of those behind the first: a picture; as an option its file; "": none
    aliases   further names that are understood and not listed
    """

    name: str
    help: str
    about: str
    examples: tuple[str, ...]
    settings: type[Settings] | str = Settings
    takes: str = "TEXT"
    answers: str = "answers"
    prefix: bool = False
    ensemble: bool = False
    arrays: bool = False
    live: bool = False
    reads: str = ""
    converses: bool = False
    views: str = ""
    columns: tuple[str, ...] = ()
    picture: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def options(self) -> type[Settings]:
        if not isinstance(self.settings, str):
            return self.settings
        options: type[Settings] = pkgutil.resolve_name(self.settings)
        return options


@cache
def built_in_verbs() -> dict[str, Verb]:
    """The verbs that the files of this folder say, at their top or in a class, by name: read without running them."""
    verbs = []
    for path in Path(__file__).parent.glob("*.py"):
        text = path.read_text("utf-8")
        tree = python_tree(text if " = Verb(" in text else "")
        classes = {
            alias.name: f"{resolve_name('.' * node.level + (node.module or ''), PACKAGE)}:{alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            match node:
                case ast.Assign(value=ast.Call(func=ast.Name("Verb"), args=[name], keywords=keywords)):
                    options: dict[str, Any] = {
                        str(word.arg): classes[word.value.id]
                        if isinstance(word.value, ast.Name)
                        else ast.literal_eval(word.value)
                        for word in keywords
                    }
                    verbs.append(Verb(ast.literal_eval(name), **options))
    return {verb.name: verb for verb in sorted(verbs, key=lambda verb: verb.name)}


@cache
def built_in_tasks() -> dict[str, str]:
    """The tasks of this folder's files by name, with the first sentence of each class, read without running them."""
    texts = [path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")]
    lines = {name: " ".join(about.split()).partition(". ")[0] for text in texts for name, about in TASK.findall(text)}
    return {name: lines[name].rstrip(".") for name in sorted(lines)}
