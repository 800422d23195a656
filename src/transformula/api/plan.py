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

from ..errors import CheckpointError, ConfigError, DataError, InputError, setting, shortened
from ..extras import need_later
from ..field_names import unknown_key
from ..language.model_text import FREE_NUMBERS, HOOKS, STACK_KEYS, ModelText
from ..settings import with_current_keys
from .configuration import check_use, groups_of, read_stated
from .default_model import with_default
from .model import Model
from .reading import (
    TASK,
    check_model,
    check_threads,
    import_packages,
    mentions,
    of_task,
    path_of,
    read_model,
)
from .room import check_folder, check_room
from .starting import Start, kept_labels, start_again, start_of, task_before, without_numbers

if TYPE_CHECKING:
    from ..language.graph import Architecture
    from ..settings import Settings
    from ..tasks.base import Task
    from ..training.settings import TrainingSettings

# Keys of a run's configuration besides the settings of its data and of training, and the keys of its model.
OUTER = ("model", "task", "use", "init_from", "init_stack", "from_scratch")
# Those that every model may have; the numbers, flags and texts of its own come to them.
OF_MODELS = (*FREE_NUMBERS, *HOOKS, *STACK_KEYS, "output", "name", "dropout", "family")


def resolve(
    model: str | Path | Model | ModelText,
    given: Mapping[str, Any],
    source: str = "",
    task: str = TASK,
    beside: Collection[str] = (),
) -> tuple[ModelText, Any, TrainingSettings]:
    """The model's text with its changes, and the settings of the task's data and of training.

    source  the file that `given` comes from, "" for none; but for the keys `beside`, which were given beside it

    All mistakes of the settings are in one report.
    """
    if isinstance(model, Model):
        text = model.architecture.text
    else:
        text = model if isinstance(model, ModelText) else read_model(model)
    groups: tuple[Any, Any] = groups_of(task, given.get("optimizer"))
    settings = {name for group in groups for name in group.model_fields}
    keys = {*OF_MODELS, *text.numbers}
    known = [*settings, *keys, *OUTER]
    changes = {key: value for key, value in given.items() if key not in settings}
    needs, whole = task_needs(text, task, changes)
    mistakes, near, read = [], [], []
    for key in changes:
        if key not in keys and not mentions(whole, key):
            where = "file" if source and key not in beside else ""
            what, names = unknown_key(key, given[key], known, where)
            if having := having_message(key, task, given.get("optimizer")):
                what, names = having, []
            mistakes.append(f"{shortened(key)}: {what}")
            near += names
    for group in groups:
        try:
            read.append(group.read({key: value for key, value in given.items() if key in group.model_fields}))
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigError(mistakes, source=source, near=near, beside=beside)
    return read_model(text, {**needs, **changes}), read[0], read[1]


def having_message(key: str, task: str, optimizer: Any) -> str:
    """What is said of a setting that other tasks or optimizers have; "" where none has it."""
    from ..tasks.base import tasks
    from ..training.optimizer import optimizers

    having = [name for name in tasks.names() if key in of_task(name, "settings").model_fields]
    if having:
        return f"{task} has no such setting; tasks with it: {', '.join(having)}"
    having = [name for name in optimizers.names() if key in optimizers.get(name).settings.model_fields]
    own = "the default optimizer" if optimizer is None else optimizer
    return f"{own} has no such setting; optimizers with it: {', '.join(having)}" if having else ""


def task_needs(text: ModelText, task: str, changes: Mapping[str, Any]) -> tuple[dict[str, Any], ModelText]:
    """What a text lacks for a task, and the text with all its formulas.

    A text without an output takes the formulas and the family that the task says, but for one of several stacks, which
    has a family; a text with one, those numbers of the task's that its formulas read and nothing states.
    """
    model = {key: value for key, value in of_task(task, "model").items() if key not in changes}
    keys = {"family", "before", "causal", "output"} & model.keys() if text.output is None else set()
    if any(stack.before for stack in text.stacks):
        keys.discard("before")
    if "family" in keys and not text.single:
        keys = set()
    formulas = {**{key: model[key] for key in keys}, **changes}
    whole = text.override({key: formulas[key] for key in ("before", "layer", "after", "output") if key in formulas})
    needs = {k: v for k, v in model.items() if k in keys or (k not in text.numbers and mentions(whole, k))}
    return needs, whole


@dataclass(frozen=True)
class Plan:
    """What a run does.

    task          its name
    architecture  what the model's text says, with all changes
    data          the settings of the task's data
    use           packages that the user named
    start         where the first weights come from; None: they are initialized
    resume        the run goes on in its folder, `training.out`
    note          what a person reads of a model that nobody named
    """

    task: str
    architecture: Architecture
    data: Settings
    training: TrainingSettings
    use: tuple[str, ...] = ()
    start: Start | None = None
    resume: bool = False
    note: str = ""

    @property
    def kind(self) -> type[Task]:
        """The class of the task."""
        from ..tasks.base import tasks

        return tasks.get(self.task)

    def checked(self) -> Plan:
        """The plan with its batch. Raises an error for all that the trainer would refuse later, or come to lack."""
        from ..data.sources import recorded_settings
        from ..model.hook import check_hooks
        from ..runs.folder import RunFolder
        from ..runs.records import need_recorders
        from ..tasks.base import check_task
        from ..training.machine import pick_device
        from ..training.optimizer import optimizers
        from ..training.parallel.world import here
        from ..training.schedules import own_schedule, schedules
        from ..training.start import check_select

        kind, training, architecture = self.kind, self.training, self.architecture
        training = training.model_copy(update={"batch": training.batch or kind.sequences})
        if not self.resume:
            type(self.data).read(recorded_settings(self.data.plain()))  # as a run records them: with the folder of work
            kind.check_data(self.data)
        check_folder(training.out)
        if not self.resume and training.out is not None:
            here().by_first(RunFolder(training.out).refuse_if_taken)
        if training.lora is not None and self.start is None and not self.resume:
            what = "adapters change weights that are there; say where they are"
            raise InputError(f"{setting('lora')}: {what}: {setting('init_from', 'RUN')}")
        optimizers.get(training.optimizer)
        schedules.get(training.lr_schedule)
        own_schedule(architecture)
        check_hooks(architecture)
        pick_device(here().device(training.device))
        check_threads(training.threads)
        check_task(kind, architecture)
        kind.fits(architecture, self.data)
        if training.teacher is not None:
            from .teaching import check_teaching

            check_teaching(training, kind, architecture, self.use)
        check_select(training.select, kind)
        need_recorders(training.log_to)
        if architecture.carry and not kind.carries:
            reason = f"the batches of {kind.name} do not go on from step to step, as those of {TASK} do"
            raise InputError(f"carry: {reason}; take the key out")
        kind.need(self.data)
        need_later("matplotlib", "drawing the loss curve")
        check_room(architecture, training, self.data)
        return replace(self, training=training)


def plan_run(config: Mapping[str, Any], use: Sequence[str], *, source: str = "", beside: Collection[str] = ()) -> Plan:
    """The plan of a new run. `config` holds the keys of a run's configuration and no others.

    use     packages that the user named
    source  the file that the configuration comes from; `beside` are the keys that were given beside it

    Raises ConfigError with all mistakes, InputError, FormulaError.
    """
    from ..interop.folder import check_tokenizer
    from ..tasks.base import tasks

    import_packages(use)
    settings = with_current_keys(config)
    check_use(settings.pop("use", []), use)
    stated, before = settings.pop("task", None), task_before(settings.get("init_from"))
    task, start_keys = str(stated or before or TASK), ("model", "init_from", "init_stack", "from_scratch")
    note = ""
    if not any(settings.get(key) for key in ("model", "init_from", "init_stack")):
        settings, note = with_default({k: v for k, v in settings.items() if v is not None}, tasks.name_of(task))
    loaded = settings.get("model") is None
    model, start = start_of(task, *(settings.pop(key, None) for key in start_keys))
    if start is not None:
        start = replace(start, task="" if stated or before in (None, TASK) else task)
        model = without_numbers(model, start, task, settings) if loaded else model
    same_tokenizer = start is not None and settings.get("tokenizer", "auto") == "auto"
    kind = of_task(task, "settings")
    fields = kind.model_fields
    tokens = getattr(kind, "tokens", True) or (start is not None and mentions(read_model(model), "tokens"))
    if start is not None and same_tokenizer and "tokenizer" in fields and tokens:
        settings["tokenizer"] = str(start.folder)
        check_tokenizer(start.folder, check_model(start.folder, use=use))
    if start is not None:
        settings = start.with_kept(settings, fields, tokens)
    text, data, training = resolve(model, settings, source, task, beside)
    if getattr(data, "labels", None) == "keep":
        data = data.model_copy(update={"kept_labels": kept_labels(start, tasks.name_of(task))})
    if start is not None and start.other and same_tokenizer and "vocab" not in text.numbers:
        # As many rows as the table has that is taken: a task may have used more of them than the tokenizer has.
        text = read_model(text, {"vocab": check_model(start.folder, use=use).numbers["vocab"]})
    return Plan(task, check_model(text, use=use), data, training, tuple(use), start, note=note)


def plan_resume(path: str | Path, changes: Mapping[str, Any], use: Sequence[str]) -> Plan:
    """The plan of a run that goes on in its folder; `changes` are keys of its configuration.

    Raises CheckpointError, DataError where its data is not there, ConfigError, InputError.
    """
    from ..data.sources import SOURCES, missing_sources
    from ..runs.folder import RunFolder
    from ..training.parallel.world import here
    from ..training.start import check_folder as check_same_folder

    import_packages(use)
    changes = with_current_keys(changes)
    folder = RunFolder.open(path_of(path, "resume"))
    here().by_first(folder.refuse_if_training)
    folder.refuse_without_checkpoints()
    for key in ("from_scratch", "init_from", "init_stack"):
        if changes.pop(key, None):
            raise InputError(f"{setting(key)}: a run that is resumed has its weights; leave one of them out")
    if changes.pop("model", None) is not None:
        remedy = f"leave MODEL out, or begin a run with {setting('init_from', str(path))}"
        raise InputError(f"{setting('resume')} goes on with the run's own model: {remedy}")
    check_same_folder(folder.path, changes.get("out"))
    recorded = folder.config()
    check_use(recorded.pop("use", []), use)
    task, stated = str(recorded.pop("task", TASK)), recorded.pop("model", None)
    begun = [recorded.pop(key, None) for key in ("init_from", "init_stack")]
    if not isinstance(stated, str):
        raise CheckpointError(f"{folder.path}: the run's configuration does not hold its model's text; begin a new run")
    recorded = of_task(task, "settings").of_run(recorded)
    settings, source = {**recorded, "out": str(folder.path), **changes}, str(folder.path)
    text, data, training = resolve(read_stated(stated, source), settings, source, task, changes)
    start = start_again(folder, task, text, *begun)
    lost = [name for key in SOURCES if key in type(data).model_fields for name in missing_sources(getattr(data, key))]
    if lost:
        remedy = f"put it back, or say where it is now: {setting('data', 'FILE')}"
        raise DataError(f"{folder.path}: the run's data, {', '.join(lost)}, is missing; {remedy}")
    return Plan(task, check_model(text, use=use), data, training, tuple(use), start, resume=True)
