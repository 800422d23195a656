"""`train`: a model's text, data and settings joined into a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError
from ..field_names import unknown_key
from .model import Model
from .reading import check_model, import_packages, mentioned, model_folder, read_model, set_threads

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture
    from ..language.model_file import ModelText
    from ..settings import Settings
    from ..training.progress import Progress
    from ..training.result import RunResult
    from ..training.settings import TrainingSettings

TASK = "language-modelling"


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
    use: Sequence[str] = (),
    quiet: bool = False,
    **given: Any,
) -> Run:
    """Train a model; everything is left in the run's folder.

        train("pre-norm", data="shakespeare.txt", depth=4, width=128, heads=4, context=64, steps=2000)
        train("translator", task="translation", data="train.{de,en}", validation="val.{de,en}", epochs=10)

    model      a formula, a model file, a folder, or a name of the gallery
    config     a run's configuration (config.yaml of another run): what is given beside it wins
    resume     the folder of a run that goes on; only how long it runs may be changed
    init_from  a run or model whose weights (and tokenizer) it starts from, for going on with other data; with another
               `model`, the stacks, tables and output that agree by names and shapes, while the rest begins anew
    init_stack the stack of `model` that takes the layers of `init_from`, a model of one stack
    use        packages whose words may be used
    given      `task` (language-modelling unless said); fields of its settings and of TrainingSettings; numbers and
               formulas of the model

    Raises ConfigError with all mistakes at once, FormulaError, DataError, CheckpointError, NotFinite.
    """
    import_packages(use)
    if resume is not None:
        from ..runs.folder import RunFolder

        return _resume(RunFolder.open(resume), model, given, use, quiet)
    recorded = read_config(config) if config is not None else {}
    given = {**recorded, **given}
    model = model if model is not None else given.pop("model", None)
    init_from = init_from if init_from is not None else given.pop("init_from", None)
    init_stack = init_stack if init_stack is not None else given.pop("init_stack", None)
    check_use(given.pop("use", []), use)
    task = given.pop("task", TASK)
    for key in ("model", "init_from", "init_stack"):
        given.pop(key, None)
    if init_stack is not None and (init_from is None or model is None):
        raise InputError(
            f"--init-stack {init_stack} says into which stack of MODEL the weights of --init-from go: give these two"
        )
    other = model is not None
    if model is None:
        if init_from is None:
            raise InputError("no model: give a formula, a model file, a folder or a name of the gallery")
        model = model_folder(init_from)
    same_tokenizer = init_from is not None and given.get("tokenizer", "auto") == "auto"
    if init_from is not None and same_tokenizer and "tokenizer" in data_settings(str(task)).model_fields:
        given["tokenizer"] = str(model_folder(init_from))
    source = "" if config is None else str(config)
    text, data, training = resolve(model, given, source, str(task))
    if init_from is not None and other and same_tokenizer and "vocab" not in text.numbers:
        # As many rows as the table has that is taken: a task may have used more of them than the tokenizer has.
        text = read_model(text, {"vocab": check_model(model_folder(init_from), use=use).numbers["vocab"]})
    more = {"init_from": None if init_from is None else str(init_from), "init_stack": init_stack, "use": list(use)}
    more = {key: value for key, value in more.items() if value}
    begun = None if init_from is None else partial(_begin, model_folder(init_from), other, init_stack)
    return _run(text, data, training, str(task), use, more, quiet, begin=begun)


def _begin(folder: Path, other: bool, init_stack: str | None, module: nn.Module, architecture: Architecture) -> str:
    """Give a model its first weights, from a folder; what is said of it. With `other` they may be another model's."""
    from ..interop.beginning import begin
    from ..interop.folder import WEIGHTS
    from ..interop.weights import load_tensors, put_tensors

    path = folder / WEIGHTS
    tensors = load_tensors(path)
    if not other:
        put_tensors(module, tensors, path)
        return f"{'weights':<12}from {folder}"
    found = begin(module, [stack.name for stack in architecture.stacks], tensors, path, init_stack)
    return f"{'weights':<12}from {folder}: {found}"


def _resume(folder: Any, model: Any, given: dict[str, Any], use: Sequence[str], quiet: bool) -> Run:
    if model is not None:
        raise InputError("--resume goes on with the run's own model: leave MODEL out, or begin a run by --init-from")
    recorded = folder.config()
    check_use(recorded.pop("use", []), use)
    task = recorded.pop("task", TASK)
    stated = recorded.pop("model", None)
    for key in ("init_from", "init_stack"):
        recorded.pop(key, None)
    if not isinstance(stated, str):
        raise ConfigError("model: the run's configuration does not hold its text", source=str(folder.path))
    recorded["out"] = str(folder.path)
    given = {**recorded, **given}
    text, data, training = resolve(read_stated(stated, str(folder.path)), given, str(folder.path), str(task))
    return _run(text, data, training, str(task), use, {}, quiet, resume=True)


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
    begin: Callable[[nn.Module, Architecture], str] | None = None,
) -> Run:
    checked = check_model(text, use=use)  # first, before torch is loaded: a mistake in the formula is said at once
    from ..model.hook import check_hooks
    from ..runs.folder import RunFolder
    from ..tasks.base import tasks
    from ..tasks.pair_limits import channels_of
    from ..training import train as run_training
    from ..training.machine import pick_device
    from ..training.optimiser import optimisers
    from ..training.progress import Progress
    from ..training.schedules import own_schedule, schedules
    from ..training.start import check_select

    # Before anything that takes time: what the trainer would refuse later.
    if not resume and training.out is not None:
        RunFolder(training.out).refuse_if_taken()
    optimisers.get(training.optimiser)
    schedules.get(training.lr_schedule)
    own_schedule(checked)
    check_hooks(checked)
    pick_device(training.device)
    set_threads(training.threads)
    made = tasks.get(task_name)
    made.check(checked)
    check_select(training.select, made)
    if checked.carry and not made.carries:
        raise InputError(
            f"carry: the batches of {task_name} do not go on from step to step, as those of {TASK} do; take the key out"
        )
    stated = {key: checked.numbers[key] for key in ("vocab", "source_vocab", "context") if key in text.numbers}
    training = training.model_copy(update={"batch": training.batch or made.sequences})
    task = made.make(
        data,
        {**stated, **carried_by(checked), **channels_of(checked)},
        inputs=checked.inputs,
        batch=training.batch,
        accumulate=training.accumulate,
        seed=training.seed,
    )
    architecture = check_model(text, task.numbers, use)
    from ..model import build

    module = build(architecture, seed=training.seed)
    weights = "" if begin is None else begin(module, architecture)
    shown = Progress(task.unit, quiet=quiet)
    tell(shown, architecture, stated, task)
    if weights:
        shown.say(weights)
    config = {**data.plain(), **more}
    result = run_training(
        task, module, training, training.out, resume=resume, config=config, progress=shown, fresh=begin is None
    )
    return Run(result, Model._in(result.folder / "last", architecture, result.model))


def carried_by(architecture: Any) -> dict[str, int]:
    """The number under a model's `carry`, as a task takes it; nothing where the key is not there."""
    return {"carry": architecture.carry} if architecture.carry else {}


def data_settings(task: str) -> type[Settings]:
    """The settings of a task's data. Those of language modelling need no torch. Raises UnknownName."""
    if task == TASK:
        from ..data.settings import DataSettings

        return DataSettings
    from ..tasks.base import tasks

    return tasks.get(task).settings


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


def resolve(
    model: str | Path | Model | ModelText, given: Mapping[str, Any], source: str = "", task: str = TASK
) -> tuple[ModelText, Any, TrainingSettings]:
    """The model's text with its changes, and the settings of the task's data and of training.

    All mistakes of the settings are in one report.
    """
    from ..language.model_file import FREE_NUMBERS, HOOKS, STACK_KEYS, ModelText
    from ..training.settings import TrainingSettings

    if isinstance(model, Model):
        text = model.architecture.text
    else:
        text = model if isinstance(model, ModelText) else read_model(model)
    groups = (data_settings(task), TrainingSettings)
    settings = {name for group in groups for name in group.model_fields}
    keys = {*FREE_NUMBERS, *HOOKS, *STACK_KEYS, "output", "name", "dropout", "family", *text.numbers}
    mistakes: list[str] = []
    close: list[str] = []
    for key in given:
        if key not in settings and key not in keys and not mentioned(text, key):
            said, near = unknown_key(key, given[key], [*settings, *keys], "file" if source else "")
            close += near
            mistakes.append(f"{key}: {said}")
    read: list[Any] = []
    for group in groups:
        try:
            read.append(group.read({key: value for key, value in given.items() if key in group.model_fields}))
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigError(mistakes, source=source, near=close)
    changes = {key: value for key, value in given.items() if key not in settings}
    return read_model(text, changes), read[0], read[1]


def read_stated(stated: str, source: str) -> str | ModelText:
    """A configuration's `model`: the text of a model file, or what is typed for one on a command line."""
    from ..language.model_file import read_text

    if "\n" in stated.strip() or stated.startswith("language:"):
        return read_text(stated, file=source)
    return stated


def read_config(path: str | Path, recipe: bool = False) -> dict[str, Any]:
    """A run's configuration, as keys and values. Raises ConfigError.

    recipe  with what a recipe claims, which is nothing of a run's
    """
    from ..structured import Malformed, load_yaml

    path = Path(path) / "config.yaml" if Path(path).is_dir() else Path(path)
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
    # What a run left empty it derived; it is derived again.
    without = ("out",) if recipe else ("out", "recipe")
    return {key: value for key, value in read.items() if value is not None and key not in without}


def check_use(stated: Any, use: Sequence[str]) -> None:
    """A file that is loaded imports nothing: the packages of its words are named by the user."""
    missing = [package for package in stated or [] if package not in use]
    if missing:
        options = " ".join(f"--use {package}" for package in missing)
        words = ", ".join(missing)
        raise InputError(f"this run uses words of {words}: a file that is loaded imports nothing, so add {options}")
