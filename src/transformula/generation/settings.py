"""How text is drawn from a model's logits."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from ..settings import Settings


class SamplingSettings(Settings):
    """What `sample` and `Model.generate` take. Filters act in the order in which they stand here; see sampling.py."""

    max_tokens: int | None = Field(
        None, ge=1, description="most tokens to write; by default 200, or what the model's learned positions leave"
    )
    repetition_penalty: float = Field(
        1.0, ge=1.0, le=100.0, description="above 1 makes tokens that were seen before less likely"
    )
    temperature: float = Field(
        1.0, ge=0.0, le=100.0, description="divides the logits; 0 always takes the likeliest token (greedy)"
    )
    top_k: int | None = Field(None, ge=1, description="keep only the k likeliest tokens")
    top_p: float = Field(
        1.0, gt=0.0, le=1.0, description="keep the fewest likeliest tokens whose probabilities reach p together"
    )
    min_p: float = Field(
        0.0, ge=0.0, le=1.0, description="keep tokens at least this many times as likely as the likeliest"
    )
    stop: list[str] = Field([], description="end the text before any of these strings")
    seed: int = Field(1, ge=0, lt=2**62, description="of the random draws: same seed, same text")
    window: bool = Field(
        False, description="past the context, go on from the latter half of it instead of refusing (or running past it)"
    )

    @field_validator("stop", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value
