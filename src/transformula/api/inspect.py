"""`inspect`: a look inside a model. It joins a run, its validation data or a text, and one of the looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, UnknownName, setting
from ..plain import several
from .configuration import check_use
from .inputs import ids_of
from .model import Model
from .reading import import_packages, set_threads
from .run import Run
from .starting import run_record

if TYPE_CHECKING:
    from ..inspection.places import Row
    from ..inspection.shown import Shown
    from ..tasks.base import Task

LOOKS = {
    "attention": "what each head attends to: maps by layer and head, and what kind of head each is",
    "norms": "how large the streams and what is written into them are, by depth",
    "gradients": "gradients of the loss by layer and part, and of the streams",
    "lens": "what the model would say if it stopped after each layer",
    "ablate": "what silencing each sublayer, or each edge, costs",
    "patch": "which values of a clean text bring its answer back in a corrupted one",
    "collapse": "how alike tokens become with depth, and the learned coefficients",
    "training": "streams, updates and gradients by depth while the run was trained, from its log",
}
"""What `inspect` looks at, each in words."""
_SEEN = ("attention", "norms", "lens", "collapse")
OPTIONS = {
    "text": (*_SEEN, "gradients", "patch"),
    "target": (*_SEEN, "patch"),
    "tokens": (*_SEEN, "gradients", "patch"),
    "rows": (*_SEEN, "ablate"),
    "at": ("attention", "ablate", "patch"),
    "head": ("attention",),
    "stack": ("lens",),
    "other": ("patch",),
    "instead": ("ablate",),
    "edges": ("ablate",),
}
"""The options of a look -> the looks that read them."""
ROWS = {"ablate": 64}  # rows that are looked at where nothing is said; else 8


def inspect(
    run: str | Path | Run | Model, look: str, *, data: str | Sequence[str] | None = None, device: str = "cpu",
    threads: int | None = None, use: Sequence[str] = (), verify: bool = True,
    progress: Callable[[int, int], None] | None = None, **options: Any,
) -> Shown:  # fmt: skip
    """Look inside a model, whatever its formula.

        inspect("runs/first", "attention", text="The cat sat on the mat").save("maps.svg")
        inspect("runs/first", "norms")                                # of the streams and of what is written into them
        inspect("runs/first", "gradients")                            # by layer, part and stream
        inspect("runs/first", "lens", text="The cat sat on the")      # what it would say after each layer
        inspect("runs/first", "ablate", instead="mean")               # what silencing each sublayer costs
        inspect("runs/first", "patch", text="The cat is", other="The dog is")
        inspect("runs/first", "collapse")                             # how alike tokens become
        inspect("runs/first", "training")                             # streams, updates, gradients while it was trained

    run       a run's folder (its best model), a model's, a Run or a Model
    look      attention, norms, gradients, lens, ablate, patch, collapse, or training, which needs a run
    data      rows or text to look at, in the place of the run's validation set
    progress  called with (done, in all)
    options   text      a text to look at, in the place of rows (of a model of pictures the name of a file)
              target    with `text`, the target of a model that writes one; by default what it writes
              tokens    token ids to look at, in the place of `text`
              rows      how many rows are looked at (8; of `ablate` 64)
              at        attention, ablate, patch: names of places ("layers.3", "layers.3.attention"), of which alone
                        something is shown; of `ablate` any place or edge of the formula
              head      attention: the number of the only head that is shown
              stack     lens: the stack whose layers are skipped; by default the last
              instead   ablate: "zero" (by default) or "mean", what stands in the place of what is silenced
              edges     ablate: silence each edge of the layers, not each sublayer
              other     patch: the corrupted text (or token ids, with `tokens`), of as many tokens as `text`

    The result's `repr` is the table that a person reads, `.data` what a program reads, `.svg` the picture, and
    `.save("look.svg")` writes that, or .png or .html. Raises InputError, UnknownName, DataError, CheckpointError.
    """
    if look not in LOOKS:
        raise UnknownName("look", look, LOOKS)
    given = {name: value for name, value in options.items() if value is not None and value != ()}
    for name in given:
        if name not in OPTIONS:
            raise UnknownName("option of inspect", name, OPTIONS)
        if look not in OPTIONS[name]:
            raise InputError(f"{setting(name)}: belongs to {', '.join(OPTIONS[name])}; leave it out of {look}")
    set_threads(threads)
    import_packages(use)
    if look == "training":
        return training(run, data)
    looked = Looked.open(run, data, device, use, verify)
    return getattr(looked, look)(given, progress)  # type: ignore[no-any-return]


@dataclass
class Looked:
    """A model that is looked at, and where its rows come from.

    folder  that of its run; None for a model that has none
    data    what is looked at in the place of the validation set
    """

    model: Model
    folder: Path | None
    data: str | list[str] | None
    use: Sequence[str]

    @classmethod
    def open(cls, run: Any, data: Any, device: str, use: Sequence[str], verify: bool) -> Looked:
        """Read the model. Raises InputError for what is none."""
        data = None if data is None else several(data)
        if isinstance(run, Model):
            return cls(run, run.folder, data, use)
        if isinstance(run, Run):
            return cls(run.model, run.folder, data, use)
        folder = Path(run)
        if device.startswith("mps"):
            raise ConfigError("device: a look inside takes float64, which mps has not; take cpu, the default")
        return cls(Model.from_folder(folder, device=device, use=use, verify=verify), folder, data, use)

    @property
    def module(self) -> Any:
        return self.model.module

    @cached_property
    def task(self) -> Task:
        """The task that the model was trained for, with its validation set or the data that was given."""
        if self.folder is None:
            remedy = f"give {setting('text')} or {setting('tokens')}, or a folder"
            raise InputError(f"this model comes from no folder, so that no data of it is known; {remedy}")
        from ..data.sources import missing_sources
        from ..tasks.base import task_again, tasks
        from ..tasks.trained import Trained

        folder, recorded, name = run_record(self.folder)
        check_use(recorded.get("use"), self.use)
        kind = tasks.need(tasks.name_of(name))
        architecture = self.model.architecture
        numbers = kind.numbers_of(architecture, architecture.numbers)
        lost = missing_sources(recorded.get("data")) if "data" in kind.settings.model_fields else []
        trained = Trained(str(self.folder), folder, architecture, [self.module], numbers, recorded, lost)
        unwritten = {"written": 0} if "written" in kind.settings.model_fields else {}  # a loss is enough, and fast
        return task_again(kind, trained, self.data, unwritten, inputs=architecture.inputs)

    def rows(self, given: Mapping[str, Any], look: str = "") -> list[Row]:
        """The rows that are looked at: a text, token ids, or some of the validation set."""
        from ..inspection.rows import text_row, validation_rows

        said = [name for name in ("text", "tokens", "rows") if name in given]
        if len(said) > 1 or (self.data is not None and said not in ([], ["rows"])):
            beside = said[1] if len(said) > 1 else "data"
            raise InputError(f"{setting(said[0])} and {setting(beside)} say both what is looked at: leave one out")
        if "target" in given and "text" not in given:
            raise InputError(f"{setting('target')}: is the target of a text; give {setting('text')}, too")
        if "text" in given:
            return [text_row(self.module, self.model.predictor, given["text"], given.get("target"))]
        if "tokens" in given:
            return self.ids(given["tokens"])
        return validation_rows(self.task, self.module, count_of(given, look))

    def ids(self, tokens: Any) -> list[Row]:
        """Rows of token ids."""
        import torch

        rows, _ = ids_of(tokens, int(self.model.architecture.numbers["vocab"]))
        device = next(self.module.parameters()).device
        return [{"tokens": torch.tensor([ids], device=device)} for ids in rows]

    def labels(self, row: Row) -> dict[str, list[str]]:
        from ..inspection.rows import labels_of

        return labels_of(row, self.model.predictor)

    def piece(self, number: int) -> str:
        """An id of the output, or the name of a class, as a person reads it."""
        from ..inspection.rows import piece_of

        predictor = self.model.predictor
        classes = getattr(predictor, "labels", None)
        if classes:
            return str(classes[number]) if number < len(classes) else str(number)
        return piece_of(None if predictor is None else predictor.tokenizer, number)

    def attention(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.attention import attention

        rows = self.rows(given)
        head = given.get("head")
        return attention(self.module, rows, at=given.get("at", ()), head=head, labels=self.labels(rows[0]))

    def norms(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.norms import norms

        return norms(self.module, self.rows(given))

    def collapse(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.collapse import collapse

        return collapse(self.module, self.rows(given))

    def gradients(self, given: Mapping[str, Any], progress: Any) -> Shown:
        """Gradients of the loss of a batch of training, or of the loss of a text's next tokens."""
        from ..inspection.gradients import gradients
        from ..inspection.rows import next_token_loss

        if "text" in given or "tokens" in given:
            return gradients(self.module, next_token_loss(self.module, self.rows(given)))
        batch = self.task.batch(0).to(next(self.module.parameters()).device)
        return gradients(self.module, lambda model: self.task.loss(model, batch))

    def lens(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.ablation import validation_loss
        from ..inspection.lens import lens

        rows = self.rows(given)
        read = next(iter(self.labels({"tokens": rows[0]["tokens"]}).values())) if "tokens" in rows[0] else ()
        # of an encoder the loss is its task's; a text has none
        known = self.model.architecture.main.causal or "text" in given or "tokens" in given
        loss = None if known else validation_loss(self.task, len(rows))
        return lens(self.module, rows, stack=given.get("stack", ""), loss=loss, pieces=self.piece, inputs=read)

    def ablate(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.ablation import ablate, validation_losses

        losses, count = validation_losses(self.task, count_of(given, "ablate"))
        instead = given.get("instead", "zero")
        rows = self.rows(given, "ablate") if instead == "mean" else ()
        how: dict[str, Any] = {"at": given.get("at", ()), "every_edge": bool(given.get("edges"))}
        return ablate(self.module, losses, rows, instead=instead, count=count, progress=progress, **how)

    def patch(self, given: Mapping[str, Any], progress: Any) -> Shown:
        from ..inspection.patching import patch
        from ..inspection.rows import text_row

        if "other" not in given or not {"text", "tokens"} & {*given}:
            raise InputError(f"patch compares two texts: give {setting('text')} and {setting('other')}")
        (clean,) = self.rows(given)
        if "tokens" in given:
            (other,) = self.ids(given["other"])
        else:
            writes = len(clean) > 1 and "tokens" in clean  # then what is written is the same in both runs
            other = text_row(self.module, self.model.predictor, given["other"], "" if writes else None)
            other = {**other, **({"tokens": clean["tokens"]} if writes else {})}
        labels = self.labels(clean)
        return patch(
            self.module, clean, other, at=given.get("at", ()), labels=labels, pieces=self.piece, progress=progress
        )


def training(run: Any, data: Any) -> Shown:
    """What the log of a run holds, which may still be training. Raises InputError where there is no run."""
    from ..inspection.telemetry import read_telemetry

    folder = run.folder if isinstance(run, (Run, Model)) else run
    if folder is None or data is not None:
        what = "this model comes from no run" if folder is None else f"{setting('data')}: is not looked at"
        raise InputError(f"{what}; training shows what the log of a run holds")
    return read_telemetry(folder)


def count_of(given: Mapping[str, Any], look: str) -> int:
    """How many rows are looked at. Raises InputError for what is no number of rows."""
    count = given.get("rows", ROWS.get(look, 8))
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{setting('rows')}: expected a whole number from 1; this is {count!r:.40}")
    return count
