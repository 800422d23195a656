"""A run's teacher: the trained model that is named, read, and held against the run before its first step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, setting, shortened
from .model import Model
from .reading import check_model, model_folder, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..language.graph import Architecture
    from ..tasks.base import Batch, T, Task
    from ..tasks.predictor import Predictor
    from ..tasks.trained import Trained
    from ..tokenizers.base import Tokenizer
    from ..training.settings import TrainingSettings

SHOWN_LABELS = 12  # labels that a message lists, at most
PROBES = ("The quick brown fox, 3.14 times.", "  two\n\nlines\t", "naïve Straße 你好 🙂", "x = y[0] + 'z'")


def check_teaching(training: TrainingSettings, kind: type[Task], student: Architecture, use: Sequence[str]) -> None:
    """Raise an error for a teacher that cannot be one, as far as texts say it: before any data are read."""
    from ..tasks.soft_targets import check_soft

    check_soft(kind)
    if training.loss_chunks > 1:
        raise ConfigError("loss_chunks: a teacher's logits are compared with the student's as a whole; leave it out")
    teacher = check_model(model_folder(path_of(str(training.teacher), "teacher")), use=use)
    if teacher.carry or student.carry:
        who = "the teacher's model" if teacher.carry else "the model"
        raise InputError(f"{named(training)}: {who} says `carry`: what it goes on from is not known to the other one")
    try:
        kind.check(teacher)
    except InputError as error:
        raise InputError(f"{named(training)}: is no teacher for this task: {error}") from None


def with_teacher(task: T, training: TrainingSettings, student: Architecture, use: Sequence[str]) -> T:
    """The task of a run, which learns from the teacher that the settings name; as it is where they name none. Raises
    InputError for one that says something of other tokens, labels or pictures."""
    if training.teacher is None:
        return task
    from ..interop.weights import hash_of, model_tensors
    from ..tasks.soft_targets import Teacher, taught
    from ..training.copies import working_copy
    from ..training.machine import pick_device
    from ..training.parallel.world import here

    model = Model.from_folder(path_of(training.teacher, "teacher"), use=use, dtype="float32")
    tensors = {name: tensor.cpu() for name, tensor in model_tensors(model.module).items()}
    about = {
        "folder": str(model.folder),
        "sha256": hash_of(tensors),
        "formula": getattr(model.module, "formula_hash", ""),
        "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
    }
    reads, numbers = frozenset(model.architecture.inputs), (training.teacher_temperature, training.teacher_weight)
    teacher = Teacher(model.module, *numbers, about, reads, working_copy)
    teacher.module.to(pick_device(here().device(training.device)))
    made, batch = taught(task, teacher, training.teacher_kept, training.accumulate), task.batch(0, 0)
    check_predictors(named(training), task, batch, model, training.teacher)
    check_reading(named(training), made, batch, model.architecture, student)
    return made


def teacher_of(training: TrainingSettings, use: Sequence[str]) -> Architecture | None:
    """The model that is asked in each step of training; None where there is none, or it has no weight in the loss."""
    if training.teacher is None or not training.teacher_weight:
        return None
    return check_model(model_folder(path_of(training.teacher, "teacher")), use=use)


def named(training: TrainingSettings) -> str:
    """The setting as it was given."""
    return setting("teacher", shortened(str(training.teacher)))


def check_predictors(what: str, task: Task, batch: Batch, model: Model, named_so: str) -> None:
    """Raise InputError where a teacher reads texts by another tokenizer than the student, says other labels, or reads
    other pictures."""
    from ..tasks.predictor import row_names

    student, teacher = task.predictor(), model.predictor
    if student is None:
        return
    if student.tokenizer is not None and getattr(teacher, "tokenizer", None) is None:
        raise InputError(f"{what}: its folder holds no tokenizer, so that its logits stand for unknown tokens")
    own, theirs = row_names(student).get("classes"), row_names(teacher).get("classes")
    if own is not None or theirs is not None:
        check_labels(what, own, theirs)
    for key, about in (("picture", "pictures of the shape"), ("processing", "pictures made numbers by"),
                       ("lower", "lowercased texts:"), ("spelling", "texts spelled by")):  # fmt: skip
        here, there = getattr(student, key, None), getattr(teacher, key, None)
        if hasattr(student, key) and hasattr(teacher, key) and comparable(here) != comparable(there):
            raise InputError(f"{what}: reads {about} {there}, and the student {here}: give the student the same")
    for key in ("tokenizer", "source"):
        here, there = getattr(student, key, None), getattr(teacher, key, None)
        if here is not None and there is not None and not same_tokenizer(here, there, texts_of(here, batch)):
            raise InputError(f"{what}: {other_tokens(student, model, named_so)}")


def comparable(value: Any) -> Any:
    """A value in which lists and tuples are one."""
    return list(value) if isinstance(value, (list, tuple)) else value


def check_labels(what: str, own: Any, theirs: Any) -> None:
    """Raise InputError for a teacher of other labels than the student's, or of these in another order."""
    if own is None or theirs is None:
        said = "no labels, and the student does" if theirs is None else "labels, and the student none"
        raise InputError(f"{what}: says {said}: take a teacher that was trained on this task")
    here, there = ([str(label) for label in labels] for labels in (own, theirs))
    if here == there:
        return
    if sorted(here) == sorted(there):
        raise InputError(
            f"{what}: its logits stand for the same labels in another order: {listed(there)}; the student has"
            f" {listed(here)}: train the teacher on this task here, or change the order in its folder"
        )
    raise InputError(f"{what}: says the labels {listed(there)}, and the student {listed(here)}: they must be the same")


def listed(labels: list[str]) -> str:
    return ", ".join(labels[:SHOWN_LABELS]) + (", ..." if len(labels) > SHOWN_LABELS else "")


def texts_of(tokenizer: Tokenizer, batch: Batch) -> list[str]:
    """Some texts of a batch, by a tokenizer of its ids."""
    ids = batch.inputs.get("tokens")
    if ids is None or ids.ndim != 2:
        return []
    rows = [[token for token in row if 0 <= token < tokenizer.vocab] for row in ids[:4].tolist()]
    return [tokenizer.decode(row) for row in rows]


def same_tokenizer(one: Tokenizer, other: Tokenizer, texts: Sequence[str] = ()) -> bool:
    """Whether two tokenizers do the same, whatever their files are: each id stands for the same bytes, and texts have
    the same ids."""
    if one is other or one.identity == other.identity:
        return True
    if list(one.names) != list(other.names) or one.ends != other.ends:
        return False

    def ids_of(tokenizer: Tokenizer, text: str) -> list[int] | None:
        try:
            return tokenizer.encode(text)
        except InputError:  # a character that it does not have
            return None

    return all(ids_of(one, text) == ids_of(other, text) for text in (*PROBES, *texts))


def other_tokens(student: Predictor, model: Model, named_so: str) -> str:
    """What is said of a teacher whose tokens are not the student's."""
    same = f"give the student the teacher's: {setting('tokenizer', str(model.folder))}"
    what = "its tokenizer gives texts other ids than the student's, so that their logits stand for other tokens"
    if student.method in ("write", "generate"):
        return (
            f"{what}; {same}; or let the teacher write what the student learns, whatever its tokens are: transformula"
            f" distill {named_so} --out distilled.jsonl"
        )
    return f"{what}; {same}"


def check_reading(what: str, task: Any, batch: Batch, teacher: Architecture, student: Architecture) -> None:
    """Raise InputError for a teacher that cannot read a batch of the run, or says something of other positions."""
    import torch

    from ..tasks.soft import output_of

    lacking = sorted({*teacher.inputs} - {*batch.inputs})
    if lacking and task.compared.output is output_of:
        raise InputError(
            f"{what}: reads {', '.join(lacking)}, which the student, and so the batches, do not have: they have"
            f" {', '.join(batch.inputs)}"
        )
    limit = getattr(task.teacher.module, "context_limit", None)
    length = batch.inputs["tokens"].shape[1] if "tokens" in batch.inputs else 0
    if limit is not None and length > limit:
        raise InputError(
            f"{what}: has learned {limit:,} positions, and the batches have {length:,}:"
            f" {setting('context', f'{limit}')}, or a teacher with positions that are computed"
        )
    first = replace(
        batch,
        inputs={name: each[:2] for name, each in batch.inputs.items()},
        targets=batch.targets[:2],
        lengths={name: each[:2] for name, each in batch.lengths.items()},
    )
    try:
        with torch.no_grad():
            said = task.teacher_says(first)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{what}: cannot read the batches of this run: {shortened(reason, 200)}") from error
    classes = int(student.numbers.get("classes", said.logits.shape[-1]))
    if "classes" in student.numbers and said.logits.shape[-1] not in (classes, 2):
        raise InputError(f"{what}: says {said.logits.shape[-1]:,} classes, and the student {classes:,}")


def teacher_line(task: Task, student: Architecture, training: TrainingSettings) -> str:
    """What a run says of its teacher, and of what it costs, before training."""
    from ..analysis.accounting import flops_per_unit
    from ..training.state import flops_per_unit as flops_of

    teacher: Any = task.__dict__["teacher"]
    more = flops_of(teacher.module) / 3 / max(1, flops_per_unit(student))
    costs = f"asking it in each step takes {100 * more:.0f} % more FLOPs"
    if training.teacher_kept:
        costs = f"its {training.teacher_kept:,} most probable classes are kept in the cache"
    elif not teacher.weight:
        costs = "it is not asked, as its weight is 0"
    return (
        f"{'teacher':<12}{teacher.about['folder']}: {teacher.about['parameters']:,} parameters, temperature"
        f" {teacher.temperature:g}, weight {teacher.weight:g}; {costs}"
    )




def agreement_note(trained: Trained, kind: type[Task], use: Sequence[str]) -> str:
    """How far a trained model says what its teacher says, over all of the validation set of its run, in a sentence."""
    from ..tasks.soft_targets import agreement
    from ..training.settings import TrainingSettings

    recorded, inputs = trained.recorded, list(trained.architecture.inputs)
    keys = [key for key in recorded if key.startswith("teacher")]
    training = TrainingSettings.read({key: recorded[key] for key in keys})
    own = {"tokenizer": str(trained.folder)} if "tokenizer" in kind.settings.model_fields else {}
    settings = kind.settings.read({**trained.settings_of(kind.settings), **own})
    try:
        plain = kind.make(settings, trained.numbers, inputs=inputs, batch=1 if kind.sequences else None)
        task: Any = with_teacher(plain, training, trained.architecture, use)
    except InputError as error:
        return f"the teacher cannot be asked: {error}"
    found = {each.key: each.score for each in agreement(task, trained.modules[0])}
    if not found:
        return "the teacher is not compared: this task shows no validation batches"
    same, kl = 100 * found["teacher_agreement"], found["teacher_kl"]
    return (
        f"the teacher, {task.teacher.about['folder']}, says the same on the validation set in {same:.1f} % (KL"
        f" {kl:.3f} nats)"
    )
