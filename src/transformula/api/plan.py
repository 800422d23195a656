"""A run's plan: a configuration, however it was given, resolved and checked before anything takes time.

    keywords in Python, options of the command line, a file, a recipe, the config.yaml of a run that is resumed
      -> the task, the model's text, settings of data and of training, where the first weights come from

The packages of `use` are imported first: a word, a data format, an optimizer or the task itself may be theirs. Then all
mistakes of the settings are reported at once, and the formula is checked; torch is loaded after that.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.accounting import bytes_in_words, summary
from ..errors import CheckpointError, ConfigError, DataError, InputError, setting, shortened
from ..extras import need
from ..field_names import unknown_key
from ..language.model_file import FREE_NUMBERS, HOOKS, STACK_KEYS, ModelText, read_text
from ..language.source import Source
from ..settings import with_current_keys
from ..structured import Malformed, load_yaml
from .model import Model
from .reading import (
    TASK,
    check_model,
    import_packages,
    mentioned,
    model_folder,
    of_task,
    path_of,
    read_model,
    set_threads,
)

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture
    from ..settings import Settings
    from ..tasks.base import Task
    from ..training.settings import TrainingSettings

# Keys of a run's configuration besides the settings of its data and of training, and the keys of its model.
OUTER = ("model", "task", "use", "init_from", "init_stack", "from_scratch")
FLOAT = 4  # bytes of a number in float32
RUNS = Path("runs")  # where runs lie whose folder is not named
MOST_ADDED = 2  # numbers that an optimizer keeps for each parameter, at most


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
    from ..training.settings import TrainingSettings

    if isinstance(model, Model):
        text = model.architecture.text
    else:
        text = model if isinstance(model, ModelText) else read_model(model)
    groups = (of_task(task, "settings"), TrainingSettings)
    settings = {name for group in groups for name in group.model_fields}
    keys = {*FREE_NUMBERS, *HOOKS, *STACK_KEYS, "output", "name", "dropout", "family", *text.numbers}
    known = [*settings, *keys, *OUTER]
    changes = {key: value for key, value in given.items() if key not in settings}
    needs, whole = lacking(text, task, changes)
    mistakes, near, read = [], [], []
    for key in changes:
        if key not in keys and not mentioned(whole, key):
            where = "file" if source and key not in beside else ""
            what, names = unknown_key(key, given[key], known, where)
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


def lacking(text: ModelText, task: str, changes: Mapping[str, Any]) -> tuple[dict[str, Any], ModelText]:
    """What a text lacks for a task, and the text with all its formulas.

    A text without an output takes the formulas and the family that the task says; a text with one, those numbers of
    the task's that its formulas read and nothing states.
    """
    model = {key: value for key, value in of_task(task, "model").items() if key not in changes}
    keys = {"family", "before", "causal", "output"} & model.keys() if text.output is None else set()
    if any(stack.before for stack in text.stacks):
        keys.discard("before")
    formulas = {**{key: model[key] for key in keys}, **changes}
    whole = text.override({key: formulas[key] for key in ("before", "layer", "after", "output") if key in formulas})
    needs = {k: v for k, v in model.items() if k in keys or (k not in text.numbers and mentioned(whole, k))}
    return needs, whole


def read_stated(stated: str, source: str) -> str | ModelText:
    """A configuration's `model`: the text of a model file, or what is typed for one on a command line."""
    return read_text(stated, file=source) if "\n" in stated.strip() or stated.startswith("language:") else stated


def read_config(path: str | Path, recipe: bool = False) -> dict[str, Any]:
    """A run's configuration, as keys and values. Raises ConfigError.

    recipe  with what a recipe claims, which is nothing of a run's

    `out` is kept, unless the file is the one that a run wrote into its own folder: that folder is taken.
    """
    path = path_of(path, "config")
    path = path / "config.yaml" if path.is_dir() else path
    try:
        read = load_yaml(path)
    except FileNotFoundError:
        raise ConfigError("there is no such file; expected a run's configuration (YAML)", source=str(path)) from None
    except (OSError, Malformed) as error:
        raise ConfigError(f"cannot be read: {error}", source=str(path)) from None
    if not isinstance(read, dict) or not all(isinstance(key, str) for key in read):
        raise ConfigError("expected keys and values, such as `steps: 2000`", source=str(path))
    if isinstance(read.get("model"), str):
        read["model"] = read_stated(read["model"], str(path))
    without = () if recipe else ("recipe",)
    if path.name == "config.yaml" and (path.parent / "manifest.json").is_file():
        without = (*without, "out")
    # What a run left empty it derived; it is derived again.
    return with_current_keys({key: value for key, value in read.items() if value is not None and key not in without})


def check_use(stated: Any, use: Sequence[str]) -> None:
    """A file that is loaded imports nothing: the packages of its words are named by the user."""
    names = [stated] if isinstance(stated, str) else stated or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError("use: expected a list of packages, such as [my_words]")
    if missing := [package for package in names if package not in use]:
        words, options = ", ".join(missing), " ".join(f"--use {package}" for package in missing)
        raise InputError(f"this run uses words of {words}: a file that is loaded imports nothing, so add {options}")


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


@dataclass(frozen=True)
class Start:
    """Weights of another run.

    named       the run or the model, as the user named it
    folder      that of its model
    other       it may be another model than the one that begins: the parts that agree are taken
    init_stack  the stack that takes its layers, or whose layers are taken
    changed     what was put in the place of its text's output, for another task, in words
    """

    named: str
    folder: Path
    other: bool
    init_stack: str | None
    changed: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """What a run's configuration records of it; found from every folder."""
        from ..data.sources import absolute

        stack = {} if self.init_stack is None else {"init_stack": self.init_stack}
        return {"init_from": absolute(self.named), **stack}

    def begin(self, module: nn.Module, architecture: Architecture) -> tuple[str, tuple[str, ...]]:
        """Give a model its first weights: (a line that says so, names of what keeps its random initialization)."""
        from ..interop.folder import folder_tensors
        from ..interop.partial_load import load_parts
        from ..interop.weights import put_tensors

        (tensors, path), parts, new = folder_tensors(self.folder), "", tuple[str, ...]()
        if self.other:
            stacks = [stack.name for stack in architecture.stacks]
            loaded = load_parts(module, stacks, tensors, path, self.init_stack)
            parts, new = f": {loaded}", loaded.new
        else:
            put_tensors(module, tensors, path)
        changed = f"{'output':<12}{self.changed}\n" if self.changed else ""
        return f"{changed}{'weights':<12}from {self.folder}{parts}", new


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
        from ..tasks.base import check_task
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
        if training.lora is not None and self.start is None and not self.resume:
            what = "adapters change weights that are there; say where they are"
            raise InputError(f"{setting('lora')}: {what}: {setting('init_from', 'RUN')}")
        optimizers.get(training.optimizer)
        schedules.get(training.lr_schedule)
        own_schedule(architecture)
        check_hooks(architecture)
        pick_device(training.device)
        set_threads(training.threads)
        check_task(kind, architecture)
        check_select(training.select, kind)
        if architecture.carry and not kind.carries:
            reason = f"the batches of {kind.name} do not go on from step to step, as those of {TASK} do"
            raise InputError(f"carry: {reason}; take the key out")
        kind.need(self.data)
        need("matplotlib.figure", "drawing the loss curve")
        check_room(architecture, training, self.data)
        return replace(self, training=training)


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
    start_keys = ("model", "init_from", "init_stack", "from_scratch")
    model, start = start_of(task, *(settings.pop(key, None) for key in start_keys))
    same_tokenizer = start is not None and settings.get("tokenizer", "auto") == "auto"
    if start is not None and same_tokenizer and "tokenizer" in of_task(task, "settings").model_fields:
        settings["tokenizer"] = str(start.folder)
    text, data, training = resolve(model, settings, source, task, beside)
    if start is not None and start.other and same_tokenizer and "vocab" not in text.numbers:
        # As many rows as the table has that is taken: a task may have used more of them than the tokenizer has.
        text = read_model(text, {"vocab": check_model(start.folder, use=use).numbers["vocab"]})
    return Plan(task, check_model(text, use=use), data, training, tuple(use), start)


def start_of(task: str, model: Any, init_from: Any, init_stack: Any, from_scratch: Any) -> tuple[Any, Start | None]:
    """The model that is trained, and where its first weights come from; None: they are initialized. Where no model is
    named it is that of the folder, made ready for the task.

    Raises InputError where no model is named, and where one is named that has weights of its own, which nothing would
    read; ConfigError for values of other types.
    """
    kinds: dict[str, tuple[Any, tuple[type, ...], str]] = {
        "model": (model, (str, Path, Model, ModelText), "a model's text, file or name"),
        "init_from": (init_from, (str, Path), "the folder of a run or a model"),
        "init_stack": (init_stack, (str,), "the name of a stack"),
        "from_scratch": (from_scratch, (bool,), "true or false"),
    }
    for key, (value, types, expected) in kinds.items():
        if value is not None and not isinstance(value, types):
            raise ConfigError(f"{key}: expected {expected} (got {shortened(repr(value))})")
    if from_scratch and init_from is not None:
        raise InputError(f"{setting('from_scratch')} and {setting('init_from')} contradict each other; leave one out")
    folder = None if init_from is None else model_folder(init_from)
    alone = None if folder is None or model is not None or init_stack is None else stack_of(folder, init_stack)
    if init_stack is not None and (folder is None or model is None) and alone is None:
        what = f"into which stack of MODEL the weights of {setting('init_from')} go"
        raise InputError(f"{setting('init_stack', init_stack)} says {what}: give these two")
    if folder is not None:
        if model is not None:
            return model, Start(str(init_from), folder, True, init_stack)
        text, changed = text_for(task, init_from, alone or read_model(folder))
        return text, Start(str(init_from), folder, bool(alone or changed), init_stack, changed)
    if model is None:
        raise InputError("no model: give a formula, a model file, a folder or a name of the gallery")
    if not from_scratch:
        refuse_trained(model)
    return model, None


def stack_of(folder: Path, name: str) -> ModelText | None:
    """One of several stacks as a text of its own, with the numbers that it has there, and without an output; None where
    the folder's model has none of the name."""
    architecture = check_model(folder)
    text = architecture.text
    for own, checked in zip(text.stacks, architecture.stacks, strict=True):
        if own.name == name and not text.single:
            known = {key: checked.numbers[key] for key in own.numbers if key in checked.numbers}
            numbers = dict(own.numbers) | {key: Source(f"number {key}", f"{value:g}") for key, value in known.items()}
            alone = replace(own, name="", numbers={})
            return without_output(replace(text, stacks=(alone,), numbers={**text.numbers, **numbers}))
    return None


def text_for(task: str, run: str | Path, text: ModelText) -> tuple[ModelText, str]:
    """The text of a trained model, with the output of a task in the place of its own where it was trained on another
    one; and that in words, "" where nothing is changed. A task whose model is any text, such as translation, takes it
    as it is, unless the output was that of the former task."""
    from ..tasks.base import tasks

    former, named = task_trained(run), tasks.name_of(task)
    if former is None or former == named:
        return text, ""
    head = head_of_family(model_folder(run), named)
    if head is not None:
        return head, f"{named}'s of the same family, in the place of {former}'s"
    new = of_task(task, "model").get("output")
    own = former in tasks and "output" in of_task(former, "model")  # the text's output is that of its task
    if new is None and (text.output is None or not own):
        return text, ""

    def told(output: str | None) -> str:
        return shortened("; ".join((output or "the usual one").split("\n")), 80)

    old = None if text.output is None else text.output.text
    return without_output(text), f"{told(new)}, of {named}, in the place of {told(old)}, of {former}"


def head_of_family(folder: Path, task: str) -> ModelText | None:
    """The text of a folder of transformers with the output of its family for a task; None where there is none."""
    from ..interop.named.config import is_theirs
    from ..interop.named.text import text_for_task

    text = text_for_task(folder, task) if is_theirs(folder) else None
    return None if text is None else read_text(text)


def without_output(text: ModelText) -> ModelText:
    """A text whose output a task is to say; without the numbers that this alone read."""
    rest = replace(text, output=None)
    there = set() if text.output is None else {*re.findall(r"\w+", text.output.text)}.difference(FREE_NUMBERS)
    kept = {key: n for key, n in text.numbers.items() if key not in there or mentioned(rest, key)}
    return replace(rest, numbers=kept)


def task_trained(run: str | Path) -> str | None:
    """The task by which a model was trained, as the run says in whose folder it lies, or its predictor; None where
    neither does, or it is of a package that is not here."""
    from ..interop.named.config import is_theirs
    from ..interop.named.text import task_of_folder
    from ..tasks.base import tasks
    from ..tasks.writing import load_predictor

    folder = model_folder(run)
    if is_theirs(folder):
        former = task_of_folder(folder)
        return tasks.name_of(former) if former in tasks else None
    with suppress(InputError):
        for path in (Path(run), folder.parent if folder.name in ("best", "last") else Path(run)):
            if (path / "config.yaml").is_file():
                return tasks.name_of(recorded_of(path)[2])
        predictor = load_predictor(folder)
        task = getattr(predictor, "task", TASK if predictor is not None and predictor.continues else None)
        return None if task is None else tasks.name_of(task)
    return None


def recorded_of(run: str | Path) -> tuple[Path, dict[str, Any], str]:
    """The folder of a trained model, the configuration of its run ({} where it is not known), and its task.

    Raises CheckpointError.
    """
    folder, config = model_folder(run), Path(run) / "config.yaml"
    recorded = read_config(config) if config.is_file() else {}
    if recorded:
        return folder, recorded, str(recorded.get("task", TASK))
    from ..tasks.writing import load_predictor

    return folder, {}, getattr(load_predictor(folder), "task", TASK)


def refuse_trained(model: Any) -> None:
    """Raise InputError for a model that was trained: `train` would read its text and leave its weights."""
    folder = model.folder if isinstance(model, Model) else None
    if isinstance(model, (str, Path)) and os.path.isdir(model):
        folder = model_folder(model)
    if folder is None:
        return
    from ..interop.folder import WEIGHTS
    from ..interop.named.config import is_theirs

    if (folder / WEIGHTS).is_file() or is_theirs(folder):
        named = folder if isinstance(model, Model) else model
        raise InputError(
            f"{named}: is a trained model, and as MODEL its text alone is read: to start from its weights, give"
            f" {setting('init_from', str(named))} in its place; to train its text from initial weights, add"
            f" {setting('from_scratch')}"
        )


def plan_resume(path: str | Path, changes: Mapping[str, Any], use: Sequence[str]) -> Plan:
    """The plan of a run that goes on in its folder; `changes` are keys of its configuration.

    Raises CheckpointError, DataError where its data is not there, ConfigError, InputError.
    """
    from ..data.sources import SOURCES, gone
    from ..runs.folder import RunFolder
    from ..training.start import check_folder as check_same_folder

    import_packages(use)
    changes = with_current_keys(changes)
    folder = RunFolder.open(path_of(path, "resume"))
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
    recorded = {key: value for key, value in recorded.items() if key not in ("init_from", "init_stack")}
    if not isinstance(stated, str):
        raise CheckpointError(f"{folder.path}: the run's configuration does not hold its model's text; begin a new run")
    settings, source = {**recorded, "out": str(folder.path), **changes}, str(folder.path)
    text, data, training = resolve(read_stated(stated, source), settings, source, task, changes)
    lost = [name for key in SOURCES if key in type(data).model_fields for name in gone(getattr(data, key))]
    if lost:
        remedy = f"put it back, or say where it is now: {setting('data', 'FILE')}"
        raise DataError(f"{folder.path}: the run's data, {', '.join(lost)}, is missing; {remedy}")
    return Plan(task, check_model(text, use=use), data, training, tuple(use), resume=True)


def check_folder(out: str | None) -> None:
    """Raise InputError where a run's folder cannot be made. Nothing is left behind."""
    folder = RUNS if out is None else path_of(out, "out")
    parent = existing_parent(folder)
    try:
        tempfile.TemporaryFile(dir=parent).close()
    except OSError as error:
        reason = f"cannot be made, since {parent} cannot be written in ({error.strerror})"
        raise InputError(f"{folder}: {reason}; name another folder: {setting('out', 'FOLDER')}") from None


def existing_parent(path: Path) -> Path:
    """The nearest folder above a path (or the path itself) that exists."""
    path = path.absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def check_room(architecture: Architecture, training: TrainingSettings, data: Settings) -> None:
    """Raise InputError where the memory or the disk is too small.

    Of a step, the weights with their gradients and the logits of a batch are counted: lower bounds, so that nothing is
    refused that could run; where only some parameters are trained, as if none were. On a GPU nothing is said of memory.
    On the disk, each checkpoint has the weights, what the optimizer keeps and the running average; `keep` of them stay,
    the best one's besides, and one more while it is written; so do the models `best` and `last`. What the run's folder
    holds counts.
    """
    from ..training.machine import machine_memory, pick_device

    parameters = int(summary(architecture).data["totals"]["parameters"])
    trained = 0 if training.lora or training.freeze else parameters
    memory = machine_memory()
    if memory is not None and pick_device(training.device).type == "cpu":
        here, weights = bytes_in_words(memory), FLOAT * (parameters + 2 * trained)
        if weights > memory:
            takes = f"with gradients and what the optimizer keeps {bytes_in_words(weights)}"
            remedy = f"lower {setting('width')} or {setting('depth')}"
            raise InputError(f"the model has {parameters:,} parameters: {takes}, and this machine has {here}; {remedy}")
        counted, numbers = getattr(data, "batch_tokens", None), architecture.numbers
        tokens = int(training.batch or 1) * int(numbers.get("context", 1)) if counted is None else int(counted)
        logits = FLOAT * tokens * int(numbers.get("vocab", 1))
        if logits > memory:
            lower = setting("batch" if counted is None else "batch_tokens")
            takes = f"the logits of a batch of {tokens:,} tokens take {bytes_in_words(logits)}"
            remedy = f"lower {lower}, and use {setting('accumulate')} for larger steps"
            raise InputError(f"{takes}, and this machine has {here}; {remedy}")

    out = RUNS if training.out is None else Path(training.out)
    files = [] if training.out is None else [path for path in out.rglob("*") if path.is_file()]
    held = sum(path.stat().st_size for path in files)
    checkpoint = FLOAT * trained * (1 + MOST_ADDED + (training.average > 0))
    kept = max(training.keep, training.average_checkpoints)
    kept = min(kept, training.steps) if training.steps else kept
    needed = (kept + 2) * checkpoint + 3 * FLOAT * parameters - held
    free = shutil.disk_usage(existing_parent(out)).free
    if needed > free:
        available, wanted, each = (bytes_in_words(count) for count in (free, needed, checkpoint))
        raise InputError(
            f"{out}: the disk has {available} free, and {kept} checkpoints of {each}, the best and the last model need"
            f" {wanted}; free some, name a folder elsewhere ({setting('out', 'FOLDER')}), or keep fewer"
            f" ({setting('keep', '1')})"
        )
