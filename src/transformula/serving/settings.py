"""What `serve` is told."""

from __future__ import annotations

import os
from typing import Literal, Self

from pydantic import Field, model_validator

from ..settings import Settings

KEY = "TRANSFORMULA_API_KEY"  # the environment variable that holds the key
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ServeSettings(Settings):
    """A server: where it listens, how much it takes at a time, and how its models compute."""

    host: str = Field("127.0.0.1", description="address to listen at; 0.0.0.0: any of this machine, then with a key")
    port: int = Field(8000, ge=0, le=65535, description="port to listen at; 0: one that is free")
    key: str | None = Field(
        None, min_length=8, description=f"clients must send it as a bearer token (better: the variable {KEY})"
    )
    no_key: bool = Field(False, description="listen beyond this machine without a key: a proxy in front checks clients")
    rows: int = Field(32, ge=1, le=1024, description="texts that a model writes at a time")
    queue: int = Field(256, ge=0, description="requests that wait for a model; with more it answers 429")
    max_tokens: int = Field(4096, ge=1, description="tokens of a text that may be asked for at most")
    max_inputs: int = Field(512, ge=1, description="inputs of one request, and prompts times texts of each, at most")
    max_body: int = Field(4 << 20, ge=1024, description="size of a request at most, in bytes")
    timeout: float = Field(600.0, gt=0, description="seconds that a request may take, its time in the queue included")
    grace: float = Field(30.0, ge=0, description="seconds that running requests get to end when the server is stopped")
    prefix_memory: int = Field(
        256, ge=0, description="MiB for each model to keep what prompts begin with, so that it is read once; 0: nothing"
    )
    max_adapters: int = Field(
        8, ge=1, description="models with an adapter that stay loaded; of more, the least recently used leave"
    )
    batch_wait: float = Field(
        0.005, ge=0, le=1, description="seconds that an input of /v1/predict waits for others to share its batch"
    )
    engine: Literal["auto", "kernels", "torch"] = Field(
        "auto",
        description="what makes each step of a text: this program's kernels where they can (auto), always, never",
    )
    weights: Literal["float32", "int8"] = Field(
        "float32", description="numbers that the kernels multiply with; int8 is faster, and texts may differ"
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.weights != "float32" and self.engine == "torch":
            raise ValueError(f"weights ({self.weights}) are those of this program's kernels: leave engine at auto")
        if self.host not in LOOPBACK and self.secret is None and not self.no_key:
            raise ValueError(
                f"host: {self.host} is reached from other machines, and there is no key: set the environment variable"
                f" {KEY}, or say --no-key where a proxy checks who comes"
            )
        return self

    @property
    def secret(self) -> str | None:
        """The key that clients must send; None: none."""
        return self.key or os.environ.get(KEY) or None
