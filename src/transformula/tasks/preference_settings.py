"""The settings of learning from preferences."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from ..data.settings import PreferenceColumns
from .dialogue import TemplateSettings
from .preference_losses import BETAS, COMPARING, MEANS, LossOptions


class PreferenceSettings(PreferenceColumns, TemplateSettings):
    """Which pairs there are, how they become text, and what is learned of them."""

    loss: Literal["dpo", "ipo", "orpo", "simpo", "sft"] = Field(
        "dpo", description="what is learned of pairs; sft: the chosen replies alone, to compare with"
    )
    beta: float | None = Field(
        None, gt=0, description="how strongly a loss holds to the reference (dpo, ipo), or its weight (orpo) or scale"
        " (simpo); by default 0.1, of simpo 2",
    )  # fmt: skip
    gamma: float | None = Field(None, ge=0, description="the margin that simpo asks for; by default 1")
    label_smoothing: float = Field(
        0.0, ge=0, lt=0.5, description="the share of pairs that are taken to be the wrong way round, of dpo and simpo"
    )
    normalize: bool | None = Field(
        None, description="means of log P over the tokens of a reply in the place of sums, of dpo and ipo; by default"
        " of ipo, as trl has it",
    )  # fmt: skip
    reference: str | None = Field(
        None, min_length=1, description="the frozen model to compare with: the folder of a run or a model; by default"
        " that of --init-from",
    )  # fmt: skip
    judge: str | None = Field(None, description="a script that scores replies, for the win rate over the reference")
    written: int = Field(
        64, ge=0, description="validation prompts to which a reply is drawn, for its length, the drift and the win rate"
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.judge is not None and not self.written:
            raise ValueError("judge: there are no replies to judge: leave it out, or say how many are written")
        if self.normalize is not None and self.loss not in COMPARING:
            raise ValueError(f"normalize: {self.loss} says itself which it takes; leave it out")
        if self.label_smoothing and self.loss not in ("dpo", "simpo"):
            raise ValueError(f"label_smoothing: {self.loss} has none; leave it out")
        if self.gamma is not None and self.loss != "simpo":
            raise ValueError(f"gamma: {self.loss} asks for no margin; leave it out")
        if self.beta is not None and self.loss == "sft":
            raise ValueError("beta: sft has none; leave it out")
        return self

    @property
    def options(self) -> LossOptions:
        """The numbers of the loss."""
        means = self.loss in MEANS if self.normalize is None else self.normalize
        gamma = 1.0 if self.gamma is None else self.gamma
        return LossOptions(self.beta or BETAS[self.loss], gamma, self.label_smoothing, means)
