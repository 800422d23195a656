"""`train`: a model's text, data and settings joined into a run; `evaluate`: the scores of a trained model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, setting
from ..plain import several
from ..settings import with_current_keys
from ..training.parallel.place import RankPlace, job
from .configuration import check_use, read_config
from .frozen import frozen_model, refer
from .model import Model
from .plan import Plan, plan_resume, plan_run
from .reading import TASK, check_model, import_packages, mentions, set_threads
from .room import check_room
from .starting import run_record
from .unread import check_files, check_read

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..tasks.base import Task
    from ..tasks.scores.report import Report
    from ..training.progress import Progress
    from ..training.report import RunResult


class Run:
    """A run that ended. Its `repr` is the few lines that a person reads.

    model    with the weights of its best evaluation
    scores   of that evaluation, on the whole validation split
    folder   where everything lies: model, checkpoints, log, picture, summary
    task     what it was trained to do, with its data
    data     all that a program may want to know, as plain data
    first    of several processes that trained together, whether this is the one that wrote
    """

    def __init__(self, result: RunResult, model: Model, task: Task) -> None:
        self.result, self.model, self.task = result, model, task
        self.folder: Path = result.folder
        self.scores: Mapping[str, float] = result.scores
        self.first = result.first

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
    model: str | Path | Model | None = None, *, config: str | Path | None = None, resume: str | Path | None = None,
    init_from: str | Path | None = None, init_stack: str | None = None, from_scratch: bool = False,
    use: Sequence[str] = (), quiet: bool = False, **given: Any,
) -> Run:  # fmt: skip
    """Train a model; everything is left in the run's folder.

        train("pre-norm", data="shakespeare.txt", depth=4, width=128, heads=4, context=64, steps=2000)
        train("translator", task="translation", data="train.{de,en}", validation="val.{de,en}", epochs=10)

    model      a formula, a model file, a folder, or a name of the gallery; without it some tasks, such as
               classification, take one of their own, which is shown
    config     a run's configuration (config.yaml of another run): what is given beside it wins. Its `out` is the new
               run's folder, but for the configuration that a run wrote into its own folder
    resume     the folder of a run that goes on; only how long it runs may be changed, and where its data lies
    init_from  a run or model whose weights (and tokenizer) it starts from, for going on with other data, on its task
               where none is given. Labels and tokens are matched by name; new ones begin fresh. With another `model`,
               the stacks, tables and output that agree by names and shapes, while the rest is initialized.
               Without a `model`, on another task, its text has that task's output in the place of its own
    init_stack the stack of `model` that takes the layers of `init_from`, a model of one stack; or the stack of
               `init_from` whose layers a model of one stack takes, which is that stack itself where none is named
    from_scratch  `model` is a trained one, and only its text is meant: the weights are initialized
    use        packages whose words, tasks and data formats may be used
    given      `task` (that of `init_from`, else language-modeling); fields of its settings and of TrainingSettings;
               numbers and formulas of the model

    Packages, the folder, and room on the disk and in memory are checked before anything is read. Raises ConfigError
    with all mistakes at once, InputError, MissingExtra, FormulaError, DataError, CheckpointError, NotFinite.
    """
    named = {"model": model, "init_from": init_from, "init_stack": init_stack, "from_scratch": from_scratch or None}
    typed = {**with_current_keys(given), **{key: value for key, value in named.items() if value is not None}}
    if given.get("parallel") != "none" and RankPlace.read(os.environ) is not None:
        from ..runs.folder import begun_by
        from ..training.parallel.world import join

        again = join().by_first(lambda: begun_by(job(os.environ), given.get("out")) if resume is None else None)
        if again is not None:  # the same command once more, since a process has ended before its time
            return run_of(plan_resume(again, {}, use), quiet)
    if resume is not None:
        plan = plan_resume(resume, typed, use)
        check_read(plan, typed)
        return run_of(plan, quiet)
    recorded = {} if config is None else read_config(config)
    source = "" if config is None else str(config)
    plan = plan_run({**recorded, **typed}, use, source=source, beside=typed)
    check_read(plan, typed, recorded, source)
    return run_of(plan, quiet)


def run_of(
    plan: Plan, quiet: bool, follow: Callable[[Mapping[str, Any]], bool] | None = None, illustrated: bool = True
) -> Run:
    """Check a plan, make the data ready, build the model, train it; `follow` and `illustrated` as in
    `training.train`."""
    from ..data.sources import recorded_settings
    from ..tasks.base import check_widths
    from ..training import train as run_training
    from ..training.adapters import check_fresh
    from ..training.failure import allocating
    from ..training.progress import Progress

    plan = plan.checked()
    training, start, text = plan.training, plan.start, plan.architecture.text
    stated = plan.kind.numbers_of(plan.architecture, text.numbers)
    sizes: dict[str, Any] = {"batch": training.batch, "accumulate": training.accumulate, "seed": training.seed}
    lower = "{} (or {}), {}, {} or {}".format(*map(setting, ("batch", "batch_tokens", "context", "width", "depth")))
    with allocating(lambda amount: f"memory: {amount or 'more than there is'} could not be allocated; lower {lower}"):
        task = plan.kind.make(plan.data, stated, inputs=plan.architecture.inputs, **sizes)
        refer(task, plan.data, plan.use, training.device)
        numbers = of_data(task, plan.architecture)
        if (start or plan.resume) and "vocab" in numbers:  # a table that is taken may have rows that the task leaves
            numbers["vocab"] = max(numbers["vocab"], stated.get("vocab", 0))
        known = {key: plan.architecture.numbers.get(key) for key in text.numbers}  # with which it is checked already
        same = numbers.items() <= known.items()
        architecture = plan.architecture if same else check_model(text, numbers, plan.use)
        plan.kind.check(architecture)  # once more, now that the numbers of the data are known
        check_widths(task, architecture)
        check_room(architecture, training, plan.data)
        from ..model import build

        module = build(architecture, seed=training.seed)
        begun = None if start is None else start.begin(module, architecture, task.predictor(), plan.use)
        if begun is not None:
            check_fresh(module, training, begun.fresh)
        if begun is not None and training.lora is not None:
            training = training.model_copy(update={"lora": training.lora.with_full(begun.new)})
        shown = Progress(task.unit, quiet=quiet)
        if plan.note:
            shown.say(plan.note)
        show_resolved(shown, architecture, stated, task)
        if begun is not None:
            shown.say(begun.line)
        if training.teacher is not None:
            from .teaching import teacher_line, with_teacher

            task = with_teacher(task, training, architecture, plan.use)
            shown.say(teacher_line(task, architecture, training))
        config = recorded_settings({**plan.data.plain(), **task.resolved})
        if not plan.resume:
            config |= {**({} if start is None else start.plain), **({"use": list(plan.use)} if plan.use else {})}
        sha256 = None if begun is None else begun.sha256
        result = run_training(
            task, module, training, training.out, resume=plan.resume, config=config, progress=shown,
            init_sha256=sha256, follow=follow, illustrated=illustrated,
        )  # fmt: skip
    return Run(result, Model._in(result.folder / "last", result.model, architecture), task)


def show_resolved(shown: Progress, architecture: Architecture, stated: Mapping[str, Any], task: Task) -> None:
    """Say what was resolved: the model's numbers, and what the data holds."""
    from ..language.model_text import FREE_NUMBERS
    from ..training.parallel.world import here
    from .leaving import export_line

    numbers = []
    for key, value in architecture.numbers.items():
        origin = ""
        if key in task.numbers and key not in stated:
            origin = " (default)" if key in FREE_NUMBERS and key != "vocab" else " (from the data)"
        elif key not in architecture.text.numbers and key in FREE_NUMBERS:
            origin = " (default)"
        numbers.append(f"{key} {value:g}{origin}" if isinstance(value, float) else f"{key} {value}{origin}")
    shown.say(f"{'model':<12}{architecture.name or 'a formula'}: {', '.join(numbers)}")
    if not shown.quiet and here().first:
        shown.say(f"{'exports':<12}{export_line(architecture, task.predictor())}")
    preview = task.preview()
    if preview is not None:
        shown.say(repr(preview))


def of_data(task: Task, architecture: Architecture) -> dict[str, int]:
    """The numbers that a model's text takes from the data: of those of the task's own formulas the ones that it reads.
    Raises ConfigError where it states another value."""
    text, numbers = architecture.text, {}
    for key, number in task.numbers.items():
        if key not in task.model:
            numbers[key] = number
        elif mentions(text, key):
            stated = int(architecture.numbers.get(key, number))
            if stated not in (number, int(task.model[key])):
                raise ConfigError(f"{key}: the model says {stated}, and the data has {number}; leave it out")
            numbers[key] = number
    return numbers


def evaluate(
    run: str | Path, *, data: str | Sequence[str] | None = None, models: Sequence[str | Path | Model] = (),
    device: str = "cpu", threads: int | None = None, use: Sequence[str] = (), verify: bool = True,
    progress: Callable[[int, int], None] | None = None, task: str | None = None, weights: str = "float32",
    **settings: Any,
) -> Report:  # fmt: skip
    """Score a trained model on the data that its run held out, beside the baselines.

        evaluate("runs/first")                                             # a language model: its validation set
        evaluate("runs/first", data="other.txt")
        evaluate("runs/first", contexts=[64, 128, 256], by=["position"])   # windows longer than those of training
        evaluate("runs/translator", beam=5, alpha=0.6)                     # its test set: the targets it writes
        evaluate("runs/translator", data="test.{de,en}", models=["runs/second"])

    run       a run's folder (its best model) or a model's
    data      the data to score instead. The baselines still learn from the run's training set; if that is missing,
              there are none, and a note says so. A model's folder knows no training data, so `data` is required; of a
              text, a part is held out and scored
    models    further models of the ensemble
    verify    compare the weights with the hash in their file; see `Model.from_folder`
    progress  called with (done, in all)
    task      another task than that of its run, of which any model of its kind can be scored, on `data`
    weights   "int8": as models are that write with such weights, matrices of one byte a number; what that costs is the
              difference to the scores without it
    settings  of language models, fields of DataSettings, instead of the run's, `contexts` (windows of these lengths are
              scored, too) and `by` (where the loss lies: "position", "frequency"); of models that write targets, fields
              of SearchSettings, and `source`, `target`, `references`, `join`, `overlap` of `data`

    The result's `repr` is the page that a person reads, `.data` what a program reads, `.written` what the model wrote.
    Raises InputError, DataError.
    """
    from ..data.sources import SOURCES, missing_sources
    from ..engine import products_with
    from ..tasks.base import tasks
    from ..tasks.trained import Trained
    from .inputs import with_guides

    set_threads(threads)
    import_packages(use)
    folder, recorded, own = run_record(run)
    check_use(recorded.get("use"), use)
    kind = tasks.need(tasks.name_of(task or own))
    if task is not None and kind is not tasks.get(own):
        recorded = {}  # settings of another task say nothing of this one
    scored = None if data is None else several(data)
    lost: list[str] = []
    if "data" in kind.settings.model_fields:  # the packages that they need, before any work
        lost = missing_sources(recorded.get("data"))
        keys = [key for key in SOURCES if key in recorded and not (key == "data" and lost)]
        sources = {"data": scored} if scored is not None else {key: recorded[key] for key in keys}
        kind.settings.read(sources).need()
        asked = {key: value for key, value in settings.items() if key in kind.evaluation.model_fields}
        check_files(kind.evaluation, {**sources, **asked}, asked)
    model = Model.from_folder(folder, device=device, use=use, verify=verify)
    modules = model.together(models, device=device, use=use, verify=verify) if models else [model.module]
    numbers = kind.numbers_of(model.architecture, model.architecture.numbers)
    frozen = partial(frozen_model, use=use, device=device)
    trained = Trained(
        str(run), folder, model.architecture, modules, numbers, recorded, lost, kind=model.predictor, refer=frozen,
        guided=with_guides,
    )  # fmt: skip
    if "weights" in kind.evaluation.model_fields:
        settings["weights"] = weights
    with products_with(weights, *modules):
        report: Any = kind.report(trained, scored, settings, progress)
    if scored is None and recorded.get("teacher") and not lost:
        from .teaching import agreement_note

        report = replace(report, notes=[*report.notes, agreement_note(trained, kind, use)])
    if weights != "float32":
        report = replace(report, notes=[*report.notes, f"linear layers multiplied with matrices of type {weights}"])
    noted: Report = report
    return noted


def task_of(run: str | Path | None) -> str:
    """The task by which a model was trained; the default one for None. Raises CheckpointError."""
    return TASK if run is None else run_record(run)[2]
