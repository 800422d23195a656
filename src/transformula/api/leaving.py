"""In which formats a model can leave, by their own conditions: `export --check`, and a line of a run's plan."""

from __future__ import annotations

import os
import tempfile
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, InputError, setting, shortened
from .inputs import predictor_in
from .model import Model
from .plan import task_needs
from .reading import check_model, model_folder, of_task, read_model

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture
    from ..tasks.predictor import Predictor

OURS = "transformula"  # what every model leaves as
MAX_LAYERS = 12  # of a model of which a run's plan says it: comparing more with named models takes seconds
WIDTH = 112


@dataclass(frozen=True)
class FormatCheck:
    """Whether a model can leave in a format.

    format  its name
    reason  why not; "" where it can
    brief   the same in a few words
    script  why no predict.py would stand beside it; "" where one does, or where the format has none
    """

    format: str
    reason: str = ""
    brief: str = ""
    script: str = ""


@dataclass(frozen=True, repr=False)
class ExportCheck:
    """All formats of a model. Its `repr` is the table that a person reads, `.line` a line, `.data` for programs."""

    formats: Sequence[FormatCheck]

    @property
    def data(self) -> dict[str, Any]:
        return {"formats": [{**asdict(each), "can": not each.reason} for each in self.formats]}

    @property
    def line(self) -> str:
        can = ", ".join(each.format for each in self.formats if not each.reason)
        cannot = ", ".join(f"{each.format} ({each.brief})" for each in self.formats if each.reason)
        return f"{can}; not {cannot}" if cannot else can

    def __repr__(self) -> str:
        rows = []
        for each in self.formats:
            said = f"no: {each.reason}" if each.reason else "yes"
            said += f"; without predict.py: {each.script}" if each.script else ""
            lines = [[line] if line[:1] == " " else textwrap.wrap(line, WIDTH) for line in said.split("\n")]
            first, *rest = (part for wrapped in lines for part in wrapped)
            rows += [f"{each.format:<14}{first}", *(f"{'':<14}{line}" for line in rest)]
        return "\n".join(rows)


def check_export(
    model: str | Path | Model, *, task: str | None = None, use: Sequence[str] = (), **changes: Any
) -> ExportCheck:
    """In which formats a model can leave, and why not in the others: before it is trained, or afterwards.

        check_export("gpt2", vocab=50257)
        check_export("x = x + attention(norm(x))", task="classification")
        check_export("runs/first")

    model    a formula, a model file, a name of the gallery, the folder of a run or a model
    task     that on which a text without an output is to be trained
    changes  numbers and formulas of the model

    Programs are traced, which takes some seconds. Raises InputError, FormulaError, CheckpointError.
    """
    from ..interop.named import is_theirs
    from ..interop.named.reading import open_folder
    from ..model import build

    folder = model_folder(model) if isinstance(model, (str, Path)) and os.path.isdir(model) else None
    if folder is not None and (changes or task is not None):
        given = [*changes, *([] if task is None else ["task"])]
        raise InputError(f"{setting(given[0])}: {model} is a trained model, which leaves as it is; leave this out")
    kind = None if folder is None else predictor_in(folder)
    module: Any = open_folder(folder).module if folder is not None and is_theirs(folder) else None
    if module is None:
        module = build(architecture_of(model, task, changes, use), device="meta")
    return formats_of(module.to_empty(device="cpu").eval(), folder, kind)


def architecture_of(model: Any, task: str | None, changes: Mapping[str, Any], use: Sequence[str]) -> Architecture:
    """What is to be trained, checked."""
    if isinstance(model, Model):
        return model.architecture
    text = read_model(model)
    needs = {} if task is None or of_task(task, "model") is None else task_needs(text, task, changes)[0]
    return check_model(text, {**needs, **changes}, use)


def formats_of(module: nn.Module, folder: Path | None, kind: Predictor | None) -> ExportCheck:
    """All formats but ours. `folder` has the tokenizer, if there is one; `kind` says what the model does."""
    from ..interop.exchange import CONDITIONS, EXPORTERS
    from ..interop.programs import check_traced
    from ..tasks.pipeline import pipeline_of

    script, formats = "" if kind is None else pipeline_of(kind).unscripted, []
    traced: dict[Any, CheckpointError | None] = {}  # once for all formats of programs
    for name in EXPORTERS.names():
        ask = CONDITIONS.get(name) if name in CONDITIONS else None
        if name != OURS:
            if ask not in traced:
                traced[ask] = None if ask is None else refusal(ask, module, folder)
            error, beside = traced[ask], script if ask is check_traced else ""
            brief = "" if error is None else error.brief or shortened(str(error).partition(";")[0], 60)
            formats.append(FormatCheck(name, "" if error is None else str(error), brief, beside if not error else ""))
    return ExportCheck(formats)


def refusal(ask: Any, module: nn.Module, folder: Path | None) -> CheckpointError | None:
    """The error of a format that cannot hold a model; None where it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask(module, folder)
    except CheckpointError as error:
        return error
    return None


def export_line(architecture: Architecture, kind: Predictor | None) -> str:
    """Where a model can leave that is to be trained, for the plan of a run: by its text and its tokenizer. Programs are
    not traced, for that takes seconds."""
    from ..model import build

    if sum(stack.depth for stack in architecture.stacks) > MAX_LAYERS:
        return "transformula export --check RUN says where it can leave"
    with tempfile.TemporaryDirectory() as folder:
        if kind is not None:
            kind.save(Path(folder))
        return formats_of(build(architecture, device="meta"), Path(folder) if kind else None, None).line  # of no script
