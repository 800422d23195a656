"""`train`: a model's text, data and settings joined into a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..settings import with_current_keys
from .configuration import read_config
from .model import Model
from .plan import Plan, plan_resume, plan_run

if TYPE_CHECKING:
    from ..training.result import RunResult


class Run:
    """A run that ended. Its `repr` is the few lines that a person reads.

    model    with the weights of its best evaluation
    scores   of that evaluation, on the whole validation split
    folder   where everything lies: model, checkpoints, log, picture, summary
    data     all that a program may want to know, as plain data
    """

    def __init__(self, result: RunResult, model: Model) -> None:
        self.result, self.model = result, model
        self.folder: Path = result.folder
        self.scores: Mapping[str, float] = result.scores

    @property
    def data(self) -> dict[str, Any]:
        """The run as plain data."""
        return self.result.data

    def _repr_html_(self) -> str:
        from ..notebook import page

        picture, sample = self.folder / "loss.svg", self.result.sample
        drawn = [("loss curve", picture.read_text(encoding="utf-8"))] if picture.is_file() else []
        return page(f"{self!r}\n\n{sample}" if sample else repr(self), drawn)

    def __repr__(self) -> str:
        return repr(self.result)


def train(
    model: str | Path | Model | None = None,
    *,
    config: str | Path | None = None,
    resume: str | Path | None = None,
    init_from: str | Path | None = None,
    init_stack: str | None = None,
    from_scratch: bool = False,
    use: Sequence[str] = (),
    quiet: bool = False,
    **given: Any,
) -> Run:
    """Train a model; everything is left in the run's folder.

        train("pre-norm", data="shakespeare.txt", depth=4, width=128, heads=4, context=64, steps=2000)
        train("translator", task="translation", data="train.{de,en}", validation="val.{de,en}", epochs=10)

    model      a formula, a model file, a folder, or a name of the gallery
    config     a run's configuration (config.yaml of another run): what is given beside it wins. Its `out` is the new
               run's folder, but for the configuration that a run wrote into its own folder
    resume     the folder of a run that goes on; only how long it runs may be changed, and where its data lies
    init_from  a run or model whose weights (and tokenizer) it starts from, for going on with other data; with another
               `model`, the stacks, tables and output that agree by names and shapes, while the rest is initialized
    init_stack the stack of `model` that takes the layers of `init_from`, a model of one stack
    from_scratch  `model` is a trained one, and only its text is meant: the weights are initialized
    use        packages whose words, tasks and data formats may be used
    given      `task` (language-modeling unless said); fields of its settings and of TrainingSettings; numbers and
               formulas of the model

    Packages, the folder, and room on the disk and in memory are checked before anything is read. Raises ConfigError
    with all mistakes at once, InputError, MissingExtra, FormulaError, DataError, CheckpointError, NotFinite.
    """
    said = {"model": model, "init_from": init_from, "init_stack": init_stack, "from_scratch": from_scratch or None}
    typed = {**with_current_keys(given), **{key: value for key, value in said.items() if value is not None}}
    if resume is not None:
        return run_of(plan_resume(resume, typed, use), quiet)
    recorded = {} if config is None else read_config(config)
    source = "" if config is None else str(config)
    return run_of(plan_run({**recorded, **typed}, use, source=source, beside=typed), quiet)


def run_of(plan: Plan, quiet: bool) -> Run:
    """Train as a plan says."""
    result, architecture = plan.train(quiet)
    return Run(result, Model._in(result.folder / "last", architecture, result.model))
