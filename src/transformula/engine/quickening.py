"""Where kernels may make a model's steps; the rest of this room is imported at the first step that they may make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, UnknownName, setting
from ..model.transformer import Transformer
from .kinds import (
    AUTO,
    FEWEST_PROMPT_TOKENS,
    FEWEST_READ,
    FEWEST_STEPS,
    FLOAT32,
    INT8,
    KERNELS,
    MOST_PROMPT_ROWS,
    MOST_PROMPT_TOKENS,
    TORCH,
    OwnStep,
    most_rows,
)


class Quickened:
    """A view of a model whose steps kernels may make.

    model    the view
    here     whether kernels can stand for the model's code
    machine  the `Machine` that makes the steps, once one was to be made
    """

    def __init__(self, model: nn.Module, view: Any, engine: str, weights: str, length: int, brief: bool) -> None:
        self.own_model, self.model = model, view
        self.engine, self.weights, self.length, self.brief = engine, weights, length, brief
        self.here = engine != TORCH and isinstance(model, Transformer) and runs_here(model)
        self.own = OwnStep(view.step, view.context_limit) if self.here else None
        self.own_start = view.start if self.here else None
        self.machine: Any = None

    def take_machine(self) -> Any:
        if self.machine is None:
            from .machine import take_machine

            self.machine = take_machine(self.own_model, self.weights, self.engine == KERNELS, self.brief)
        return self.machine

    def reading(self, count: int) -> AbstractContextManager[None]:
        """Within it kernels help the model's own code, which reads so many tokens."""
        if self.machine is None and self.weights == FLOAT32:
            return reading(count)
        return self.take_machine().reading(count)  # type: ignore[no-any-return]

    def start(self, batch: int, capacity: int, **inputs: Any) -> Any:
        count = sum(each.numel() for each in inputs.values() if isinstance(each, Tensor))  # of what an encoder reads
        with self.reading(count) if count else nullcontext():
            decoding = self.own_start(batch, capacity, **inputs)  # type: ignore[misc]
        if self.brief:
            from .moving import move_rows

            decoding.move = move_rows
        return decoding

    def step(
        self, tokens: Tensor, decoding: Any, new: Tensor | None = None, last: bool = False, **others: Tensor
    ) -> Any:
        assert self.own is not None
        auto = self.engine == AUTO
        if auto and last and not others and new is None and is_prompt(tokens, decoding):
            return self.take_machine().read(self.own, self.own_start, tokens, decoding)
        many = tokens.shape[1] not in (1, self.length) or (auto and len(tokens) > most_rows())
        few = auto and not self.brief and decoding.capacity - decoding.longest < FEWEST_STEPS
        first = self.machine is None and self.weights == FLOAT32  # else a program may be there already
        if new is not None or not decoding.longest or many or (few and first):
            with self.reading(tokens.numel()):
                return self.own.step(tokens, decoding, new=new, last=last, **others)
        return self.take_machine().step(self.own, tokens, decoding, **others)

    def greedy(self, tokens: Tensor, decoding: Any, count: int, vocab: int) -> tuple[Tensor, Tensor] | None:
        """Several steps at once; see `Machine.greedy`."""
        if self.machine is None or not decoding.longest or (self.engine == AUTO and len(tokens) > most_rows()):
            return None
        return self.machine.greedy(self.own, tokens, decoding, count, vocab)  # type: ignore[no-any-return]


@contextmanager
def quicken(
    model: Any, view: Any, engine: str = AUTO, weights: str = FLOAT32, length: int = 1, brief: bool = False
) -> Iterator[Quickened]:
    """A view of a model, whose `step` is made by programs within this, where they can stand for its code; `engine`
    "torch": nowhere, "kernels": everywhere, or it raises InputError that says why not; `weights` "int8": with matrices
    of one byte a number; `length`: of how many tokens a step may be, beside one; `brief`: batches may be of one size
    for a few steps only, and rows move. One thread at a time has a machine."""
    fast = Quickened(model, view, engine, weights, length, brief)
    if engine == KERNELS:
        check_kernels("this program's kernels", "engine", engine, fast.here)
    if weights != FLOAT32:
        check_kernels(f"weights of type {weights}", "weights", weights, fast.here)
    if not fast.here:
        yield fast
        return
    vars(view).update(start=fast.start, step=fast.step, greedy=fast.greedy)
    try:
        yield fast
    finally:
        del vars(view)["start"], vars(view)["step"], vars(view)["greedy"]
        if fast.machine is not None:
            from .machine import give_back

            give_back(model, fast.machine)
            for reason in fast.machine.untold():
                warnings.warn(f"PyTorch makes steps of this text, since {reason}", stacklevel=5)


def is_prompt(tokens: Tensor, decoding: Any) -> bool:
    """Whether these are prompts, the first that a decoding reads, of a few rows and so short that a program may pay."""
    rows, length = tokens.shape
    short = rows <= MOST_PROMPT_ROWS and FEWEST_PROMPT_TOKENS <= length <= MOST_PROMPT_TOKENS
    return short and not decoding.longest and decoding.start == 0 and length <= decoding.capacity


def reading(count: int) -> AbstractContextManager[None]:
    """Within it kernels make what they are faster at where so many tokens are read in float32."""
    if count < FEWEST_READ:
        return nullcontext()
    from .packing import Packing
    from .reading import reading_of

    return reading_of(Packing(), count)


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
    floats = 0
    for module in model.modules():  # in one pass, since each text asks
        if module._forward_hooks or module._forward_pre_hooks:
            return False
        for tensor in module._parameters.values():
            if tensor is not None and tensor.is_floating_point():
                if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
                    return False
                floats += 1
    return floats > 0 and not torch.is_autocast_enabled("cpu")
