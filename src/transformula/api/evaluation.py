"""`evaluate`: a trained model and rows or a text -> its scores, as its task says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .model import Model
from .plan import check_use, read_config
from .reading import TASK, import_packages, model_folder, set_threads

if TYPE_CHECKING:
    from ..tasks.scores.report import Report


def evaluate(
    run: str | Path, *, data: str | Sequence[str] | None = None, models: Sequence[str | Path | Model] = (),
    device: str = "cpu", threads: int | None = None, use: Sequence[str] = (), verify: bool = True,
    progress: Callable[[int, int], None] | None = None, **settings: Any,
) -> Report:  # fmt: skip
    """Score a trained model on the data that its run held out, beside the baselines.

        evaluate("runs/first")                                             # a language model: its validation set
        evaluate("runs/first", data="other.txt")
        evaluate("runs/translator", beam=5, alpha=0.6)                     # its test set: the targets it writes
        evaluate("runs/translator", data="test.{de,en}", models=["runs/second"])

    run       a run's folder (its best model) or a model's
    data      the data to score instead. The baselines still learn from the run's training set; if that is missing,
              there are none, and a note says so. A model's folder knows no training data, so `data` is required; of a
              text, a part is held out and scored
    models    further models of the ensemble
    verify    compare the weights with the hash in their file; see `Model.from_folder`
    progress  called with (done, in all)
    settings  of language models, fields of DataSettings, instead of the run's; of models that write targets, fields of
              SearchSettings, and `source`, `target`, `references`, `join`, `overlap` of `data`

    The result's `repr` is the page that a person reads, `.data` what a program reads, `.written` what the model wrote.
    Raises InputError, DataError.
    """
    from ..data.sources import SOURCES, gone
    from ..tasks.base import Trained, tasks

    set_threads(threads)
    import_packages(use)
    folder, recorded, task = recorded_of(run)
    check_use(recorded.get("use"), use)
    kind = tasks.need(tasks.name_of(task))
    scored = None if data is None else data if isinstance(data, str) else list(data)
    lost: list[str] = []
    if "data" in kind.settings.model_fields:  # the packages that they need, before any work
        lost = gone(recorded.get("data"))
        keys = [key for key in SOURCES if key in recorded and not (key == "data" and lost)]
        kind.settings.read({"data": scored} if scored is not None else {key: recorded[key] for key in keys}).need()
    model = Model.from_folder(folder, device=device, use=use, verify=verify)
    modules = model.together(models, device=device, use=use, verify=verify) if models else [model.module]
    numbers = kind.numbers_of(model.architecture, model.architecture.numbers)
    trained = Trained(str(run), folder, model.architecture, modules, numbers, recorded, lost)
    return kind.report(trained, scored, settings, progress)


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


def task_of(run: str | Path | None) -> str:
    """The task by which a model was trained; the default one for None. Raises CheckpointError."""
    return TASK if run is None else recorded_of(run)[2]
