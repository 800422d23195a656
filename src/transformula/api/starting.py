"""Where a run's first weights come from: initial ones, or those of a run or a model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, InputError, setting, shortened
from ..language.model_file import ModelText
from .model import Model
from .reading import model_folder

if TYPE_CHECKING:
    from torch import nn

    from ..language.graph import Architecture


@dataclass(frozen=True)
class Start:
    """Weights of another run.

    named       the run or the model, as the user named it
    folder      that of its model
    other       it may be another model than the one that begins: the parts that agree are taken
    init_stack  the stack that takes its layers
    """

    named: str
    folder: Path
    other: bool
    init_stack: str | None

    @property
    def plain(self) -> dict[str, str]:
        """What a run's configuration records of it; found from every folder."""
        from ..data.sources import absolute

        stack = {} if self.init_stack is None else {"init_stack": self.init_stack}
        return {"init_from": absolute(self.named), **stack}

    def begin(self, module: nn.Module, architecture: Architecture) -> str:
        """Give a model its first weights; what is said of it."""
        from ..interop.folder import WEIGHTS
        from ..interop.partial_load import load_parts
        from ..interop.weights import load_tensors, put_tensors

        path = self.folder / WEIGHTS
        tensors = load_tensors(path)
        if not self.other:
            put_tensors(module, tensors, path)
            return f"{'weights':<12}from {self.folder}"
        taken = load_parts(module, [stack.name for stack in architecture.stacks], tensors, path, self.init_stack)
        return f"{'weights':<12}from {self.folder}: {taken}"


def start_of(model: Any, init_from: Any, init_stack: Any, from_scratch: Any) -> tuple[Any, Start | None]:
    """The model that is trained, and where its first weights come from; None: they are initialized.

    Raises InputError where no model is named, and where one is named that has weights of its own, which nothing would
    read; ConfigError for values of other types.
    """
    _check_type("model", model, (str, Path, Model, ModelText), "a model's text, file or name")
    _check_type("init_from", init_from, (str, Path), "the folder of a run or a model")
    _check_type("init_stack", init_stack, (str,), "the name of a stack")
    _check_type("from_scratch", from_scratch, (bool,), "true or false")
    if from_scratch and init_from is not None:
        raise InputError(f"{setting('from_scratch')} and {setting('init_from')} contradict each other; leave one out")
    if init_stack is not None and (init_from is None or model is None):
        raise InputError(
            f"{setting('init_stack', init_stack)} says into which stack of MODEL the weights of {setting('init_from')}"
            " go: give these two"
        )
    if model is not None and init_from is None and not from_scratch:
        refuse_trained(model)
    if init_from is None:
        if model is None:
            raise InputError("no model: give a formula, a model file, a folder or a name of the gallery")
        return model, None
    folder = model_folder(init_from)
    return folder if model is None else model, Start(str(init_from), folder, model is not None, init_stack)


def _check_type(key: str, value: Any, kinds: tuple[type, ...], expected: str) -> None:
    if value is not None and not isinstance(value, kinds):
        raise ConfigError(f"{key}: expected {expected} (got {shortened(repr(value))})")


def refuse_trained(model: Any) -> None:
    """Raise InputError for a model that was trained: `train` would read its text and leave its weights."""
    folder = model.folder if isinstance(model, Model) else None
    if isinstance(model, (str, Path)) and os.path.isdir(model):
        folder = model_folder(model)
    if folder is None:
        return
    from ..interop.folder import WEIGHTS

    if (folder / WEIGHTS).is_file():
        named = folder if isinstance(model, Model) else model
        raise InputError(
            f"{named}: is a trained model, and as MODEL its text alone is read: to start from its weights, give"
            f" {setting('init_from', str(named))} in its place; to train its text from initial weights, add"
            f" {setting('from_scratch')}"
        )
