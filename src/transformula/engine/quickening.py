"""Where kernels may make a model's steps; the rest of this room is imported at the first step that they may make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, UnknownName, setting
from ..model.transformer import Transformer
from .kinds import AUTO, FEWEST_READ, FEWEST_STEPS, FLOAT32, INT8, KERNELS, TORCH, OwnStep


@dataclass
class Quickened:
    """A view of a model whose steps kernels may make (`here`); machine: the `Machine` that makes them, once one was to
    be made."""

    model: Any
    here: bool
    machine: Any = None


@contextmanager
def quicken(
    model: Any, view: Any, engine: str = AUTO, weights: str = FLOAT32, length: int = 1
) -> Iterator[Quickened]:
    """A view of a model, whose `step` is made by programs within this, where they can stand for its code; `engine`
    "torch": nowhere, "kernels": everywhere, or it raises InputError that says why not; `weights` "int8": with matrices
    of one byte a number; `length`: of how many tokens a step may be, beside one. One thread at a time has a machine."""
    fast = Quickened(view, engine != TORCH and isinstance(model, Transformer) and runs_here(model))
    if engine == KERNELS:
        check_kernels("this program's kernels", "engine", engine, fast.here)
    if weights != FLOAT32:
        check_kernels(f"weights of type {weights}", "weights", weights, fast.here)
    if not fast.here:
        yield fast
        return
    own = OwnStep(view.step, model.context_limit)

    def step(tokens: Tensor, decoding: Any, new: Tensor | None = None, last: bool = False, **others: Tensor) -> Any:
        reading = new is not None or not decoding.longest or tokens.shape[1] not in (1, length)
        if fast.machine is None:
            few = engine == AUTO and decoding.capacity - decoding.longest < FEWEST_STEPS
            if weights == FLOAT32 and (reading or few):
                with reading_by_kernels(tokens):
                    return own.step(tokens, decoding, new=new, last=last, **others)
            from .machine import take_machine

            fast.machine = take_machine(model, weights, must=engine == KERNELS)
        if reading:
            return fast.machine.read(own, tokens, decoding, new=new, last=last, **others)
        return fast.machine.step(own, tokens, decoding, **others)

    vars(view)["step"] = step
    try:
        yield fast
    finally:
        del vars(view)["step"]
        if fast.machine is not None:
            from .machine import give_back

            give_back(model, fast.machine)
            for reason in fast.machine.untold():
                warnings.warn(f"PyTorch makes steps of this text, since {reason}", stacklevel=5)


@contextmanager
def products_with(weights: str, *models: nn.Module) -> Iterator[None]:
    """Within it linear layers multiply with matrices of this type: "int8" of one byte a number, "float32" their own.
    Raises InputError where the models cannot."""
    if weights == FLOAT32:
        yield
        return
    if weights != INT8:
        raise UnknownName("type of weights", weights, [FLOAT32, INT8])
    check_kernels(f"weights of type {weights}", "weights", weights, all(map(runs_here, models)))
    from .packing import Packing
    from .reading import read_by

    with read_by(Packing(weights, *models)):
        yield


@contextmanager
def reading_by_kernels(tokens: Tensor) -> Iterator[None]:
    """Within it kernels make what they are faster at, in float32, where they are there and the text is long enough."""
    if tokens.numel() < FEWEST_READ:
        yield
        return
    from .build import library
    from .packing import Packing
    from .reading import read_by
    from .recording import NoProgram

    try:
        library()
    except NoProgram:
        yield
        return
    with read_by(Packing()):
        yield


def check_kernels(what: str, option: str, value: str, here: bool) -> None:
    """Raise InputError where there are no kernels for what was asked, rather than write by other means."""
    reason = missing(here)
    if reason:
        raise InputError(f"{what} {reason}; leave out {setting(option, value)}")


def why_no_kernels(model: Any) -> str:
    """Why this program's kernels cannot make the steps of a model, as what is said of them; "" where they can."""
    return missing(isinstance(model, Transformer) and runs_here(model))


def missing(here: bool) -> str:
    """What is said of kernels that there are not; "" where there are. `here`: whether the model is one of theirs."""
    from .build import library
    from .recording import NoProgram

    if not here:
        return "are for models in float32 on a CPU, without hooks"
    try:
        library(wait=True)
    except NoProgram as error:
        return f"cannot be had: {error}"
    return ""


def runs_here(model: nn.Module) -> bool:
    """Whether programs can stand for a model's code: float32 on a CPU, and nobody watches its modules."""
    tensors = [tensor for tensor in model.parameters() if tensor.is_floating_point()]
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    here = bool(tensors) and all(tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors)
    return here and not watched and not torch.is_autocast_enabled("cpu")
