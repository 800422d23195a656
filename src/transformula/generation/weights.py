"""The weights that a text is written with where `weights` is auto: of one byte, if the loss hardly rises by them.

At a position whose next token has the distribution p, and with weights of one byte q, the loss that the model expects
is the entropy of p, and by them it rises by the Kullback-Leibler divergence of q from p: sum p (log p - log q). The
mean of both is taken over positions of the prompts, and of what the model writes after them where these are few.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from ..engine import products_with, why_no_kernels
from ..engine.kinds import FLOAT32, INT8
from ..model.transformer import evaluating
from .settings import EngineSettings
from .steps import Decoder, device_of, logits_of, pad_ids, step_model

MOST = 0.005  # of the expected loss, by which it may rise
MOST_NATS = 0.001  # a token, by which it may rise all the same: a model that knows a text by heart expects no loss
POSITIONS = 64  # that are measured at least
LONGEST = 128  # positions of a prompt that are read at most: a row of logits a position is held twice, in float64

S = TypeVar("S", bound=EngineSettings)


class Rise(NamedTuple):
    """By how much weights of one byte raise a loss, in nats a token, at a number of positions."""

    loss: float
    rise: float
    positions: int

    @property
    def small(self) -> bool:
        return self.rise <= max(MOST * self.loss, MOST_NATS)

    @property
    def line(self) -> str:
        share = f" ({100 * self.rise / self.loss:.2g} %)" if self.loss > MOST_NATS else ""
        nats = f"{self.rise:.4f}" if self.rise >= 0.0001 else "less than 0.0001"
        rise = f"{nats} nats a token{share} at {self.positions} positions"
        if self.small:
            return f"weights: {INT8}, which raise the expected loss by {rise}"
        return f"weights: {FLOAT32}, since {INT8} would raise the expected loss by {rise}"


_KNOWN: WeakKeyDictionary[nn.Module, tuple[Any, Rise]] = WeakKeyDictionary()
"""What was measured of each model, and of which weights."""


def with_weights(
    settings: S,
    models: Sequence[Decoder],
    prompts: Sequence[Sequence[int]],
    inputs: Callable[[int, torch.device], Mapping[str, Any]],
    write: Callable[[Decoder, int, Sequence[int], S, int], Sequence[int]],
) -> S:
    """The settings with the weights that auto stands for. What was chosen is said as a warning, once a model.

    inputs  (number of a prompt, device) -> what a model is given at the start of its text
    write   (model, number of a prompt, its tokens, settings, count) -> so many new tokens or fewer
    """
    byte = settings.model_copy(update={"weights": INT8})
    chosen = byte
    for model in models:
        reason = why_no_kernels(model)
        if reason:
            warnings.warn(f"weights: {FLOAT32}, since those of one byte {reason}", stacklevel=3)
        if reason or not rise_of(model, prompts, byte, inputs, write).small:
            chosen = settings.model_copy(update={"weights": FLOAT32})
    return chosen


def rise_of(model: Any, prompts: Sequence[Sequence[int]], settings: Any, inputs: Any, write: Any) -> Rise:
    """What weights of one byte cost this model: measured once for the weights that it has."""
    from ..engine.machine import identity_of

    identity = identity_of(model)
    known = _KNOWN.get(model)
    if known is not None and known[0] == identity:
        return known[1]
    sums, positions = torch.zeros(2, dtype=torch.float64), 0
    for number, prompt in enumerate(prompts):
        text = list(prompt[: min(LONGEST, model.context_limit or LONGEST)])
        more = min(POSITIONS - positions - len(text), (model.context_limit or LONGEST) - len(text))
        if more > 0:
            text += write(model, number, text, settings, more)
        sums += losses_of(model, text, inputs(number, device_of(model)))
        positions += len(text)
        if positions >= POSITIONS:
            break
    loss, rise = (sums / positions).tolist()
    measured = Rise(loss, max(rise, 0.0), positions)
    _KNOWN[model] = identity, measured
    warnings.warn(measured.line, stacklevel=4)
    return measured


def losses_of(model: Any, text: Sequence[int], inputs: Mapping[str, Any]) -> torch.Tensor:
    """The expected loss over the positions of a text, and by how much weights of one byte raise it: sums (2,)."""
    view, logs = evaluating(model), []
    tokens, _ = pad_ids([text], device_of(model))
    for weights in (FLOAT32, INT8):
        with products_with(weights, model):
            logits = logits_of(model, step_model(view, tokens, view.start(1, len(text), **inputs)))
        logs.append(logits[0].double().log_softmax(-1))
    exact, rounded = logs
    chances = exact.exp()
    terms = (-torch.special.xlogy(chances, chances), chances * (exact - rounded))
    return torch.stack([torch.where(chances > 0, term, 0).sum() for term in terms])
