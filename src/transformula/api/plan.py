"""A run's plan: a configuration, however it was given, resolved and checked before anything takes time.

    keywords in Python, options of the command line, a file, a recipe, the config.yaml of a run that is resumed
      -> the task, the model's text, settings of data and of training, where the first weights come from

The packages of `use` are imported first: a word, a data format, an optimizer or the task itself may be theirs. Then all
mistakes of the settings are reported at once, and the formula is checked; torch is loaded after that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, DataError, InputError, setting
from ..settings import with_current_keys
from .configuration import TASK, check_use, data_settings, read_config, read_stated, resolve
from .first import allocating, check_disk, check_folder, check_memory, check_packages
from .reading import check_model, import_packages, path_of, read_model, set_threads
from .starting import Start, start_of

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..settings import Settings
    from ..tasks.base import Task
    from ..training.progress import Progress
    from ..training.result import RunResult
    from ..training.settings import TrainingSettings


@dataclass(frozen=True)
class Plan:
    """What a run does.

    task          its name
    architecture  what the model's text says, with all changes
    data          the settings of the task's data
    use           packages that the user named
    start         where the first weights come from; None: they are initialized
    resume        the run goes on in its folder, `training.out`
    """

    task: str
    architecture: Architecture
    data: Settings
    training: TrainingSettings
    use: tuple[str, ...] = ()
    start: Start | None = None
    resume: bool = False

    @property
    def kind(self) -> type[Task]:
        """The class of the task."""
        from ..tasks.base import tasks

        return tasks.get(self.task)

    def checked(self) -> Plan:
        """The plan with its batch. Raises an error for all that the trainer would refuse later, or come to lack."""
        from ..model.hook import check_hooks
        from ..runs.folder import RunFolder
        from ..training.machine import pick_device
        from ..training.optimizer import optimizers
        from ..training.schedules import own_schedule, schedules
        from ..training.start import check_select

        kind, training, architecture = self.kind, self.training, self.architecture
        training = training.model_copy(update={"batch": training.batch or kind.sequences})
        if not self.resume:
            kind.check_data(self.data)
        check_folder(training.out)
        if not self.resume and training.out is not None:
            RunFolder(training.out).refuse_if_taken()
        optimizers.get(training.optimizer)
        schedules.get(training.lr_schedule)
        own_schedule(architecture)
        check_hooks(architecture)
        pick_device(training.device)
        set_threads(training.threads)
        kind.check(architecture)
        check_select(training.select, kind)
        if architecture.carry and not kind.carries:
            raise InputError(
                f"carry: the batches of {kind.name} do not go on from step to step, as those of {TASK} do; take the key"
                " out"
            )
        check_packages(kind, self.data)
        plan = replace(self, training=training)
        plan.check_room(architecture)
        return plan

    def check_room(self, architecture: Architecture) -> None:
        """Raise InputError where the disk or the memory is too small."""
        check_memory(architecture, self.training, self.data)
        check_disk(architecture, self.training)

    def train(self, quiet: bool) -> tuple[RunResult, Architecture]:
        """Check the plan, make the data ready, build the model, train it; the result, and what was trained."""
        from ..data.sources import recorded
        from ..training import train as run_training
        from ..training.progress import Progress

        plan = self.checked()
        training, start, checked = plan.training, plan.start, plan.architecture
        stated = plan.kind.numbers_of(checked, checked.text.numbers)
        with allocating():
            task = plan.kind.make(
                plan.data,
                stated,
                inputs=checked.inputs,
                batch=training.batch,
                accumulate=training.accumulate,
                seed=training.seed,
            )
            architecture = check_model(checked.text, task.numbers, plan.use)
            plan.check_room(architecture)  # now that the vocabulary is known
            from ..model import build

            module = build(architecture, seed=training.seed)
            weights = "" if start is None else start.begin(module, architecture)
            shown = Progress(task.unit, quiet=quiet)
            tell(shown, architecture, stated, task)
            if weights:
                shown.say(weights)
            config = recorded(plan.data.plain())
            if not plan.resume:
                config |= {**({} if start is None else start.plain), **({"use": list(plan.use)} if plan.use else {})}
            result = run_training(
                task, module, training, training.out, resume=plan.resume, config=config, progress=shown,
                fresh=start is None,
            )  # fmt: skip
        return result, architecture


def plan_run(config: Mapping[str, Any], use: Sequence[str], *, source: str = "", beside: Collection[str] = ()) -> Plan:
    """The plan of a new run. `config` holds the keys of a run's configuration and no others.

    use     packages that the user named
    source  the file that the configuration comes from; `beside` are the keys that were given beside it

    Raises ConfigError with all mistakes, InputError, FormulaError.
    """
    import_packages(use)
    settings = with_current_keys(config)
    check_use(settings.pop("use", []), use)
    task = str(settings.pop("task", TASK))
    model, start = start_of(*(settings.pop(key, None) for key in ("model", "init_from", "init_stack", "from_scratch")))
    same_tokenizer = start is not None and settings.get("tokenizer", "auto") == "auto"
    if start is not None and same_tokenizer and "tokenizer" in data_settings(task).model_fields:
        settings["tokenizer"] = str(start.folder)
    text, data, training = resolve(model, settings, source, task, beside)
    if start is not None and start.other and same_tokenizer and "vocab" not in text.numbers:
        # As many rows as the table has that is taken: a task may have used more of them than the tokenizer has.
        text = read_model(text, {"vocab": check_model(start.folder, use=use).numbers["vocab"]})
    return Plan(task, check_model(text, use=use), data, training, tuple(use), start)


def plan_resume(path: str | Path, changes: Mapping[str, Any], use: Sequence[str]) -> Plan:
    """The plan of a run that goes on in its folder; `changes` are keys of its configuration.

    Raises CheckpointError, DataError where its data is not there, ConfigError, InputError.
    """
    from ..data.sources import SOURCES, gone
    from ..runs.folder import RunFolder
    from ..training.resume import check_folder as check_same_folder

    import_packages(use)
    changes = with_current_keys(changes)
    folder = RunFolder.open(path_of(path, "resume"))
    for key in ("from_scratch", "init_from", "init_stack"):
        if changes.pop(key, None):
            raise InputError(f"{setting(key)}: a run that is resumed has its weights; leave one of them out")
    if changes.pop("model", None) is not None:
        raise InputError(
            f"{setting('resume')} goes on with the run's own model: leave MODEL out, or begin a run with"
            f" {setting('init_from', str(path))}"
        )
    check_same_folder(folder.path, changes.get("out"))
    recorded = folder.config()
    check_use(recorded.pop("use", []), use)
    task, stated = str(recorded.pop("task", TASK)), recorded.pop("model", None)
    for key in ("init_from", "init_stack"):
        recorded.pop(key, None)
    if not isinstance(stated, str):
        raise CheckpointError(f"{folder.path}: the run's configuration does not hold its model's text; begin a new run")
    settings, source = {**recorded, "out": str(folder.path), **changes}, str(folder.path)
    text, data, training = resolve(read_stated(stated, source), settings, source, task, changes)
    lost = [name for key in SOURCES if key in type(data).model_fields for name in gone(getattr(data, key))]
    if lost:
        raise DataError(
            f"{folder.path}: the run's data, {', '.join(lost)}, is missing; put it back, or say where it is now:"
            f" {setting('data', 'FILE')}"
        )
    return Plan(task, check_model(text, use=use), data, training, tuple(use), resume=True)


def task_named(task: str | None, config: str | Path | None, resume: str | Path | None, use: Sequence[str]) -> str:
    """The task of a run: as it is named, or as the configuration or the run that is named says."""
    import_packages(use)
    named = config or resume
    if task is not None or named is None:
        return task or TASK
    path = path_of(named, "config" if config else "resume")
    if not (path.is_file() or (path / "config.yaml").is_file()):
        return TASK
    recorded = read_config(path)
    check_use(recorded.get("use"), use)
    return str(recorded.get("task", TASK))


def tell(shown: Progress, architecture: Architecture, stated: Mapping[str, Any], task: Task) -> None:
    """Say what was resolved: the model's numbers, and what the data holds."""
    from ..language.model_file import FREE_NUMBERS

    numbers = []
    for key, value in architecture.numbers.items():
        origin = ""
        if key in task.numbers and key not in stated:
            origin = " (default)" if key in FREE_NUMBERS and key != "vocab" else " (from the data)"
        elif key not in architecture.text.numbers and key in FREE_NUMBERS:
            origin = " (default)"
        numbers.append(f"{key} {value:g}{origin}" if isinstance(value, float) else f"{key} {value}{origin}")
    shown.say(f"{'model':<12}{architecture.name or 'a formula'}: {', '.join(numbers)}")
    preview = task.preview()
    if preview is not None:
        shown.say(repr(preview))
