"""A part of the forward pass whose results are made again in the backward pass, and not kept until then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

from .cpu import numberless, tracing
from .packed import PackedRow, packed_now, packing

_NOW = threading.local()


def recomputing() -> bool:
    """Whether results are being made again: what a first pass has counted is not to be counted twice."""
    return getattr(_NOW, "depth", 0) > 0


@contextmanager
def _again(modes: Sequence[Any], layout: PackedRow | None) -> Iterator[None]:
    """Within it `recomputing` is true, and functions of torch, and how sequences stand in a row, are what they were in
    the first pass."""
    _NOW.depth = getattr(_NOW, "depth", 0) + 1
    try:
        with ExitStack() as stack:
            stack.enter_context(packing(layout))
            for mode in modes:
                stack.enter_context(mode)
            yield
    finally:
        _NOW.depth -= 1


def _contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return nullcontext(), _again(modes, packed_now())


def recomputed(function: Callable[..., Any], module: nn.Module, *given: Any) -> Any:
    """function(module, *given), of which in training only what is given is kept (torch's checkpoint). Random numbers
    are drawn again from where they were drawn the first time, so that no number changes."""
    if not module.training or not torch.is_grad_enabled() or tracing():
        return function(module, *given)
    draws = not any(isinstance(one, Tensor) and numberless(one) for one in given)
    return checkpoint(function, module, *given, use_reentrant=False, preserve_rng_state=draws, context_fn=_contexts)
