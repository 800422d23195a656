"""`train`: a model's text, data and settings joined into a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, DataError, InputError, setting
from ..settings import with_current_keys
from .configuration import TASK, check_use, data_settings, read_config, read_stated, resolve
from .first import allocating, check_disk, check_folder, check_memory, check_packages
from .model import Model
from .reading import check_model, import_packages, path_of, read_model, set_threads
from .starting import Start, start_of

if TYPE_CHECKING:
    from ..language.model_file import ModelText
    from ..settings import Settings
    from ..training.progress import Progress
    from ..training.result import RunResult
    from ..training.settings import TrainingSettings


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
    given      `task` (language-modelling unless said); fields of its settings and of TrainingSettings; numbers and
               formulas of the model

    Packages, the folder, and room on the disk and in memory are checked before anything is read. Raises ConfigError
    with all mistakes at once, InputError, MissingExtra, FormulaError, DataError, CheckpointError, NotFinite.
    """
    import_packages(use)
    given = with_current_keys(given)
    if resume is not None:
        if from_scratch:
            raise InputError(f"{setting('from_scratch')}: a run that is resumed has its weights; leave one of them out")
        return _resume(resume, model, given, use, quiet)
    recorded = read_config(config) if config is not None else {}
    said = {"model": model, "init_from": init_from, "init_stack": init_stack, "from_scratch": from_scratch or None}
    typed = {**given, **{key: value for key, value in said.items() if value is not None}}
    return begin_run({**recorded, **typed}, use, quiet, source="" if config is None else str(config), beside=typed)


def begin_run(
    wanted: Mapping[str, Any], use: Sequence[str], quiet: bool, *, source: str = "", beside: Collection[str] = ()
) -> Run:
    """A new run of a configuration, whose keys are those of a run and no others; see `train`.

    use     packages that the user named
    source  the file that the configuration comes from; `beside` are the keys that were given beside it
    """
    given = dict(wanted)
    check_use(given.pop("use", []), use)
    task = str(given.pop("task", TASK))
    model, start = start_of(*(given.pop(key, None) for key in ("model", "init_from", "init_stack", "from_scratch")))
    same_tokenizer = start is not None and given.get("tokenizer", "auto") == "auto"
    if start is not None and same_tokenizer and "tokenizer" in data_settings(task).model_fields:
        given["tokenizer"] = str(start.folder)
    text, data, training = resolve(model, given, source, task, beside)
    if start is not None and start.other and same_tokenizer and "vocab" not in text.numbers:
        # As many rows as the table has that is taken: a task may have used more of them than the tokenizer has.
        text = read_model(text, {"vocab": check_model(start.folder, use=use).numbers["vocab"]})
    more = {**({} if start is None else start.plain), **({"use": list(use)} if use else {})}
    return _run(text, data, training, task, use, more, quiet, start=start)


def _resume(path: str | Path, model: Any, given: dict[str, Any], use: Sequence[str], quiet: bool) -> Run:
    """Go on with the run of a folder."""
    from ..data.sources import SOURCES, gone
    from ..runs.folder import RunFolder

    folder = RunFolder.open(path_of(path, "resume"))
    if model is not None:
        raise InputError(
            f"{setting('resume')} goes on with the run's own model: leave MODEL out, or begin a run with"
            f" {setting('init_from', str(path))}"
        )
    from ..training.resume import check_folder

    check_folder(folder.path, given.get("out"))
    recorded = folder.config()
    check_use(recorded.pop("use", []), use)
    task = str(recorded.pop("task", TASK))
    stated = recorded.pop("model", None)
    for key in ("init_from", "init_stack"):
        recorded.pop(key, None)
    if not isinstance(stated, str):
        raise CheckpointError(f"{folder.path}: the run's configuration does not hold its model's text; begin a new run")
    recorded["out"] = str(folder.path)
    wanted = {**recorded, **given}
    text, data, training = resolve(read_stated(stated, str(folder.path)), wanted, str(folder.path), task, given)
    lost = [source for key in SOURCES for source in gone(getattr(data, key, None))]
    if lost:
        raise DataError(
            f"{folder.path}: the run learned from {', '.join(lost)}, which is not there; put it back, or say where it"
            f" lies now: {setting('data', 'FILE')}"
        )
    return _run(text, data, training, task, use, {}, quiet, resume=True)


def _run(
    text: ModelText,
    data: Settings,
    training: TrainingSettings,
    task_name: str,
    use: Sequence[str],
    more: Mapping[str, Any],
    quiet: bool,
    *,
    resume: bool = False,
    start: Start | None = None,
) -> Run:
    checked = check_model(text, use=use)  # first, before torch is loaded: a mistake in the formula is said at once
    from ..data.sources import recorded
    from ..tasks.base import tasks
    from ..tasks.pair_limits import channels_of
    from ..training import train as run_training
    from ..training.progress import Progress

    kind = tasks.get(task_name)
    training = training.model_copy(update={"batch": training.batch or kind.sequences})
    if not resume:
        kind.check_data(data)
    check_first(checked, kind, data, training, resume)
    stated = {key: checked.numbers[key] for key in ("vocab", "source_vocab", "context") if key in text.numbers}
    with allocating():
        task = kind.make(
            data,
            {**stated, **carried_by(checked), **channels_of(checked)},
            inputs=checked.inputs,
            batch=training.batch,
            accumulate=training.accumulate,
            seed=training.seed,
        )
        architecture = check_model(text, task.numbers, use)
        check_room(architecture, data, training)  # now that the vocabulary is known
        from ..model import build

        module = build(architecture, seed=training.seed)
        weights = "" if start is None else start.begin(module, architecture)
        shown = Progress(task.unit, quiet=quiet)
        tell(shown, architecture, stated, task)
        if weights:
            shown.say(weights)
        config = {**recorded(data.plain()), **more}
        result = run_training(
            task, module, training, training.out, resume=resume, config=config, progress=shown, fresh=start is None
        )
    return Run(result, Model._in(result.folder / "last", architecture, result.model))


def check_first(checked: Any, kind: Any, data: Settings, training: TrainingSettings, resume: bool) -> None:
    """Raise an error for all that the trainer would refuse later, or come to lack: before anything that takes time."""
    from ..model.hook import check_hooks
    from ..runs.folder import RunFolder
    from ..training.machine import pick_device
    from ..training.optimizer import optimizers
    from ..training.schedules import own_schedule, schedules
    from ..training.start import check_select

    check_folder(training.out)
    if not resume and training.out is not None:
        RunFolder(training.out).refuse_if_taken()
    optimizers.get(training.optimizer)
    schedules.get(training.lr_schedule)
    own_schedule(checked)
    check_hooks(checked)
    pick_device(training.device)
    set_threads(training.threads)
    kind.check(checked)
    check_select(training.select, kind)
    if checked.carry and not kind.carries:
        raise InputError(
            f"carry: the batches of {kind.name} do not go on from step to step, as those of {TASK} do; take the key out"
        )
    check_packages(kind, data)
    check_room(checked, data, training)


def check_room(architecture: Any, data: Settings, training: TrainingSettings) -> None:
    """Raise InputError where the disk or the memory is too small."""
    check_memory(architecture, training, data)
    check_disk(architecture, training)


def carried_by(architecture: Any) -> dict[str, int]:
    """The number under a model's `carry`, as a task takes it; nothing where the key is not there."""
    return {"carry": architecture.carry} if architecture.carry else {}


def tell(shown: Progress, architecture: Any, stated: Mapping[str, Any], task: Any) -> None:
    """Say what was resolved: the model's numbers, and what the data holds."""
    from ..language.model_file import FREE_NUMBERS

    numbers = []
    for key, value in architecture.numbers.items():
        origin = ""
        if key in task.numbers and key not in stated:
            origin = " (from the data)" if key == "vocab" else " (by default)"
        elif key not in architecture.text.numbers and key in FREE_NUMBERS:
            origin = " (by default)"
        numbers.append(f"{key} {value:g}{origin}" if isinstance(value, float) else f"{key} {value}{origin}")
    shown.say(f"{'model':<12}{architecture.name or 'a formula'}: {', '.join(numbers)}")
    preview = getattr(task, "preview", None)
    if preview is not None:
        shown.say(repr(preview()))
