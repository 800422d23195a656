"""Settings of training. Every key is read by the code; what is left empty is derived, printed and written down."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..settings import Settings

STEPS = 2000
"""How long a run is where neither steps, tokens nor minutes are given."""


class TrainingSettings(Settings):
    """How a model is trained. The run ends at whichever of steps, tokens, epochs and minutes comes first."""

    steps: int | None = Field(None, ge=1, description=f"stop after so many steps ({STEPS} if no limit is given)")
    tokens: int | None = Field(None, ge=1, description="stop after so many tokens (or what the task counts)")
    minutes: float | None = Field(None, gt=0, description="stop after so many minutes, the last evaluation included")
    epochs: float | None = Field(None, gt=0, description="stop when each example was seen so often")
    batch: int | None = Field(
        None, ge=1, description="sequences in a batch (by default 16; a task may count its batches otherwise)"
    )
    accumulate: int = Field(1, ge=1, description="batches whose gradients are added up for one step")

    optimizer: str = Field("muon", description="muon, adamw, or another that is announced")
    lr: float | None = Field(
        None, gt=0, le=1000, description="peak learning rate (by default from width and optimizer)"
    )
    weight_decay: float = Field(
        0.1, ge=0, le=1000, description="decoupled decay of matrices; tables, norms, biases have none"
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: memory of the mean gradient")
    beta2: float = Field(0.95, ge=0, lt=1, description="AdamW: memory of the squared gradient")
    momentum: float = Field(0.95, ge=0, lt=1, description="Muon: memory of the gradient")
    clip: float = Field(1.0, ge=0, description="gradients are scaled down to this norm; 0: never")

    lr_schedule: str = Field(
        "linear",
        description="linear, cosine, inverse-square-root (noam), wsd or constant; "
        "the model's own goes before the default",
    )
    warmup: float = Field(0.02, ge=0, lt=1, description="share of the run in which the learning rate rises")
    decay: float | None = Field(
        None, gt=0, le=1, description="share of the run in which it falls: linear (0.6) and wsd (0.2) read it"
    )
    final_lr: float = Field(0.0, ge=0, le=1, description="learning rate at the end, as a share of the peak")

    precision: Literal["auto", "float32", "bf16"] = Field(
        "auto", description="bf16 with float32 masters, float32, or whichever a short measurement prefers"
    )
    device: str = Field("auto", description="cpu, cuda, cuda:1, ...; auto takes a GPU if there is one")
    threads: int | None = Field(
        None, ge=1, le=1024,
        description="CPU threads (by default 1 or the cores, whichever a short measurement prefers)",
    )  # fmt: skip
    seed: int = Field(1, ge=0, lt=2**63, description="of initial weights, order of the data and dropout")

    evaluate_every: int | None = Field(
        None,
        ge=1,
        description="steps between evaluations, of all validation rows (by default a tenth of the run, of a sample)",
    )
    checkpoint_every: int | None = Field(
        None, ge=1, description="steps between checkpoints (by default at each evaluation, and after ten minutes)"
    )
    keep: int = Field(2, ge=1, description="how many checkpoints are kept, besides that of the best model")
    select: str | None = Field(
        None, description="the score that picks the best model, which patience watches too (by default the task's)"
    )
    patience: int | None = Field(None, ge=1, description="stop after so many evaluations without a better one")
    average: float = Field(
        0.0, ge=0, lt=1, description="decay of a running average of the weights, which is evaluated and kept; 0: none"
    )
    average_checkpoints: int = Field(
        1, ge=1, description="at the end, try the mean of the weights of so many last checkpoints; kept if it is better"
    )
    log_every: int = Field(10, ge=1, description="steps between lines of the log")
    out: str | None = Field(None, description="the run's folder (by default runs/ and the model's name)")
