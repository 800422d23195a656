"""Where a run begins: the model that is named, or the weights of another run, made ready for a task."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, ConfigError, InputError, setting, shortened
from ..language.model_file import read_text
from ..language.model_text import FREE_NUMBERS, ModelText
from ..language.source import Source
from .configuration import check_use, read_config
from .model import Model
from .reading import TASK, check_model, import_packages, mentions, model_folder, of_task, path_of, read_model

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..interop.rows_by_name import Names, Shapes
    from ..language.graph import Architecture
    from ..runs.folder import RunFolder
    from ..tasks.predictor import Predictor


@dataclass(frozen=True)
class Start:
    """Weights of another run.

    named       the run or the model, as the user named it
    folder      that of its model
    other       it may be another model than the one that begins: the parts that agree are taken
    init_stack  the stack that takes its layers, or whose layers are taken
    changed     what was put in the place of its text's output, for another task, in words
    task        that of the run, where it is the one that is trained on for none was named
    """

    named: str
    folder: Path
    other: bool
    init_stack: str | None
    changed: str = ""
    task: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """What a run's configuration records of it; found from every folder."""
        from ..data.sources import absolute_names

        stack = {} if self.init_stack is None else {"init_stack": self.init_stack}
        return {"init_from": absolute_names(self.named), **stack}

    def begin(
        self, module: nn.Module, architecture: Architecture, kind: Predictor | None = None, use: Sequence[str] = ()
    ) -> Begun:
        """Give a model its first weights. Rows of labels and tokens are matched by name with those of `kind`, the
        predictor of the model that begins. Raises CheckpointError."""
        from ..interop.folder import folder_tensors
        from ..interop.partial_load import load_parts
        from ..interop.rows_by_name import match_rows
        from ..interop.weights import hash_of, model_tensors, put_tensors
        from ..tasks.predictor import row_names

        (tensors, path), parts, new = folder_tensors(self.folder), "", tuple[str, ...]()

        shapes = partial(shapes_of, architecture, use)
        matches = match_rows(self.row_names(), row_names(kind), shapes, self.folder)

        def in_order(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            for match in matches:
                given = match.take(own, given)
            return given

        if self.other:
            stacks = [stack.name for stack in architecture.stacks]
            loaded = load_parts(module, stacks, tensors, path, self.init_stack, in_order)
            parts, new = f": {loaded}", loaded.new
        else:
            own = model_tensors(module)
            self.check_numbers(own, in_order(own, tensors), architecture, use)
            put_tensors(module, in_order(own, tensors), path)
        lines = [f"{'task':<12}{self.task}, that of {self.named}"] if self.task else []
        lines += [f"{'output':<12}{self.changed}"] if self.changed else []
        lines += [f"{'weights':<12}from {self.folder}{parts}", *map(str, matches)]
        fresh = tuple(dict.fromkeys(name for match in matches for name in match.fresh))
        return Begun("\n".join(lines), (*new, *fresh), fresh, hash_of(tensors))

    def check_numbers(
        self, own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], architecture: Architecture, use: Sequence[str]
    ) -> None:
        """Raise InputError where a number that was changed gives a tensor another shape than it has in the folder."""
        name = next((n for n, t in own.items() if n in tensors and tensors[n].shape != t.shape), None)
        before = check_model(self.folder, use=use).numbers
        changed = [key for key, number in architecture.numbers.items() if before.get(key, number) != number]
        if name is None or not changed:
            return
        here, there = tuple(own[name].shape), tuple(tensors[name].shape)
        said = ", ".join(f"{key} {architecture.numbers[key]:g} (there {before[key]:g})" for key in changed)
        back = " ".join(setting(key, f"{before[key]:g}") for key in changed)
        what = f"{setting('init_from', self.named)}: {name} is {there} there and {here} here, by {said}"
        raise InputError(f"{what}; leave what was loaded as it is: {back}, or begin with random weights")

    def row_names(self) -> Names:
        """What the rows of its tables and outputs stand for."""
        from ..interop.named import is_theirs
        from ..interop.named.config import model_of_folder
        from ..tasks.predictor import OfOthers, row_names
        from .inputs import predictor_in

        kind = predictor_in(self.folder)
        if kind is None and is_theirs(self.folder):  # its labels are known, also where it does not say how it reads
            architecture = check_model(self.folder)
            model, config = model_of_folder(self.folder)
            if "classes" in architecture.numbers:
                return {"classes": OfOthers(model.task, self.folder, None, config, architecture).labels}
        return row_names(kind)

    def with_kept(self, settings: Mapping[str, Any], fields: Collection[str], tokens: bool) -> dict[str, Any]:
        """Settings of a task's data, with those that it does not state and the model that is loaded says: how pictures
        and sounds become numbers, how messages become text, and which frozen model a loss compares with. `tokens`: the
        model that begins reads some."""
        keys = ("preprocessing", "normalize", "template", "chat_template", "reference")
        wanted = [key for key in keys if key in fields and settings.get(key) is None]
        if settings.get("template") is not None or settings.get("tokenizer") != str(self.folder):
            wanted = [key for key in wanted if key != "chat_template"]
        found = {key: self.normalize(tokens) if key == "normalize" else getattr(self, key) for key in wanted}
        return {**settings, **{key: value for key, value in found.items() if value is not None}}

    @property
    def reference(self) -> str:
        """The model itself, by a name that is found from every folder."""
        return str(self.plain["init_from"])

    @property
    def template(self) -> dict[str, str] | None:
        """What stands before a message of each role, where it was trained on messages."""
        from .inputs import predictor_in

        return getattr(predictor_in(self.folder), "template", None)

    @property
    def chat_template(self) -> bool | None:
        """True for a model that reads dialogues by the chat template of its tokenizer."""
        from .inputs import predictor_in

        return getattr(predictor_in(self.folder), "by_chat_template", None)

    @property
    def preprocessing(self) -> str | None:
        """The folder that says how its pictures become numbers; None where these are value / 127.5 - 1. Raises
        CheckpointError for one of transformers that does not say it."""
        from ..interop.named import is_theirs
        from ..structured import load_json
        from ..tasks.image_classification import processing_of_others
        from ..tasks.predictor import FILE

        architecture = check_model(self.folder)
        if "image" not in architecture.inputs:
            return None
        if not is_theirs(self.folder):
            said = load_json(self.folder / FILE) if (self.folder / FILE).is_file() else {}
            return str(self.folder) if said.get("processing") else None
        try:
            processing_of_others(self.folder, architecture)
        except CheckpointError as error:
            plain = f"or, for pictures of one size and value / 127.5 - 1, add {setting('preprocessing', 'none')}"
            raise CheckpointError(f"{error}; {plain}") from None
        return str(self.folder)

    def normalize(self, tokens: bool) -> bool | None:
        """Whether it reads sounds of the mean 0 and the variance 1; None where it reads none. Raises CheckpointError
        where a folder of transformers does not say it, and for Whisper's, whose sounds have one length, where the model
        that begins reads no `tokens`."""
        from ..interop.named import is_theirs
        from ..structured import load_json
        from ..tasks.predictor import FILE
        from ..tasks.sounds import heard_by_others

        if "audio" not in check_model(self.folder).inputs:
            return None
        if is_theirs(self.folder):
            return heard_by_others(self.folder, spectrum=tokens)[1]
        return bool((self.folder / FILE).is_file() and load_json(self.folder / FILE).get("normalized"))


@dataclass(frozen=True)
class Begun:
    """A model that has its first weights.

    line    says so
    new     names of what keeps its random initialization
    fresh   names of tensors of which some rows do
    sha256  of the weights that were read
    """

    line: str
    new: tuple[str, ...]
    fresh: tuple[str, ...]
    sha256: str


def shapes_of(architecture: Architecture, use: Sequence[str], key: str, more: int) -> Shapes | None:
    """The shapes of a model's tensors by name, with so many more of one of its numbers; None where its text has no such
    number."""
    from ..model import build

    if key not in architecture.numbers:
        return None
    changed = check_model(architecture.text, {key: int(architecture.numbers[key]) + more}, use)
    return {name: tuple(tensor.shape) for name, tensor in build(changed, device="meta").state_dict().items()}


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
    if init_from is not None:
        from ..interop.hub import is_hub_name, pinned

        init_from = pinned(init_from) if is_hub_name(init_from) else init_from  # a run says what it began with
    folder = None if init_from is None else model_folder(path_of(init_from, "init_from"))
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


def start_again(run: RunFolder, task: str, text: ModelText, init_from: Any, init_stack: Any) -> Start | None:
    """Where a run that goes on takes the weights that it began with: those of `init_from`, as it recorded it, until it
    has a checkpoint. None: it has one, or they are initialized.

    Raises CheckpointError where they are gone.
    """
    if init_from is None or run.has_checkpoints:
        return None
    try:
        return start_of(task, text, init_from, init_stack, None)[1]
    except CheckpointError as error:
        raise run.other_start(f"are gone ({error})") from None


def without_numbers(text: ModelText, start: Start, task: str, given: Mapping[str, Any]) -> ModelText:
    """The text of the model that is loaded, without the numbers that come from the new data: how many labels there are,
    and how many tokens where a tokenizer is named. `given` are the keys of the configuration."""
    from ..data.tokenizing import is_trained

    model, known = of_task(task, "model"), {*start.row_names()}.intersection(text.numbers).difference(given)
    text = text.override({key: model[key] for key in known if key in model})
    tokenizer = str(given.get("tokenizer") or "auto")
    if tokenizer == "auto" or (tokenizer != "characters" and is_trained(tokenizer)):  # it is as large as the model's
        return text
    return replace(text, numbers={key: n for key, n in text.numbers.items() if key in model or key not in known})


def kept_labels(start: Start | None, task: str) -> list[str]:
    """The labels of the model that is loaded, which are kept. Raises InputError where there are none."""
    labels = setting("labels", "keep")
    if start is None:
        raise InputError(f"{labels}: no model is loaded whose labels could stay: add {setting('init_from', 'RUN')}")
    former, names = task_trained(start.named), start.row_names().get("classes")
    if former != task or not isinstance(names, Sequence):
        raise InputError(f"{labels}: {start.named} was trained on {former or 'no task'}, not on {task}; leave it out")
    return list(map(str, names))


def task_named(
    task: str | None, config: str | Path | None, resume: str | Path | None, init_from: Any, use: Sequence[str]
) -> str:
    """The task of a run: as it is named, or as the configuration or the run that is named says; else that of the run
    whose weights it begins with."""
    import_packages(use)
    named, recorded = config or resume, dict[str, Any]()
    path = None if task is not None or named is None else path_of(named, "config" if config else "resume")
    if path is not None and (path.is_file() or (path / "config.yaml").is_file()):
        recorded = read_config(path)
        check_use(recorded.get("use"), use)
    return str(task or recorded.get("task") or task_before(init_from or recorded.get("init_from")) or TASK)


def task_before(init_from: Any) -> str | None:
    """The task of the run whose weights a model begins with; None where none is named, or it has none."""
    return task_trained(path_of(init_from, "init_from")) if isinstance(init_from, (str, Path)) else None


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
    from ..interop.named import is_theirs
    from ..interop.named.text import text_for_task
    from ..tasks.base import tasks

    former, named = task_trained(run), tasks.name_of(task)
    if former is None or former == named:
        return text, ""
    folder = model_folder(run)
    head = text_for_task(folder, named) if is_theirs(folder) else None
    if head is not None:
        return read_text(head), f"{named}'s of the same family, in the place of {former}'s"
    new = of_task(task, "model").get("output")
    own = former in tasks and "output" in of_task(former, "model")  # the text's output is that of its task
    if new is None and (text.output is None or not own):
        return text, ""

    def quote(output: str | None) -> str:
        return shortened("; ".join((output or "the usual one").split("\n")), 80)

    old = None if text.output is None else text.output.text
    return without_output(text), f"{quote(new)}, of {named}, in the place of {quote(old)}, of {former}"


def without_output(text: ModelText) -> ModelText:
    """A text whose output a task is to say; without the numbers that this alone read."""
    rest = replace(text, output=None)
    there = set() if text.output is None else {*re.findall(r"\w+", text.output.text)}.difference(FREE_NUMBERS)
    kept = {key: n for key, n in text.numbers.items() if key not in there or mentions(rest, key)}
    return replace(rest, numbers=kept)


def task_trained(run: str | Path) -> str | None:
    """The task by which a model was trained, as the run says in whose folder it lies, or its predictor; None where
    neither does, or it is of a package that is not here."""
    from ..interop.named import is_theirs
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
                return tasks.name_of(run_record(path)[2])
        predictor = load_predictor(folder)
        task = getattr(predictor, "task", TASK if predictor is not None and predictor.continues else None)
        return None if task is None else tasks.name_of(task)
    return None


def run_record(run: str | Path) -> tuple[Path, dict[str, Any], str]:
    """The folder of a trained model, the configuration of its run ({} where it is not known), and its task.

    Raises CheckpointError.
    """
    folder, config = model_folder(run), Path(run) / "config.yaml"
    recorded = read_config(config) if config.is_file() else {}
    if recorded:
        return folder, recorded, str(recorded.get("task", TASK))
    from ..interop.named import is_theirs
    from ..tasks.writing import load_predictor

    if is_theirs(folder):
        return folder, {}, task_trained(run) or TASK

    return folder, {}, getattr(load_predictor(folder), "task", TASK)


def refuse_trained(model: Any) -> None:
    """Raise InputError for a model that was trained: `train` would read its text and leave its weights."""
    folder = model.folder if isinstance(model, Model) else None
    if isinstance(model, (str, Path)) and os.path.isdir(model):
        folder = model_folder(model)
    if folder is None:
        return
    from ..interop.folder import WEIGHTS
    from ..interop.named import is_theirs

    if (folder / WEIGHTS).is_file() or is_theirs(folder):
        named = folder if isinstance(model, Model) else model
        raise InputError(
            f"{named}: is a trained model, and as MODEL its text alone is read: to start from its weights, give"
            f" {setting('init_from', str(named))} in its place; to train its text from initial weights, add"
            f" {setting('from_scratch')}"
        )
