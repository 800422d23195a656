"""Weights & Biases: one run of the project that WANDB_PROJECT names, else of "transformula".

The variables of W&B's own hold (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, WANDB_DIR, WANDB_NAME, ...). Without a key the
run is recorded offline, in the folder `wandb`, to be sent by `wandb sync`. Nobody is asked for a key: the training may
run where nobody sits.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...extras import need
from ..recorder import FAILED, Recorded, Recorder, recorders


@recorders.register("wandb", needs=("wandb",))
class WandbRecorder(Recorder):
    """Scalars, config, the sample as HTML. The run's identity is W&B's id, so that a resume goes on with the same."""

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.wandb: Any = need("wandb", "recording in W&B")
        settings = self.wandb.Settings(console="off", silent=True, init_timeout=60)
        mode = os.environ.get("WANDB_MODE")
        if mode is None and not self.wandb.login(prompt=False, verify=False):
            mode = "offline"
        given = {} if mode is None else {"mode": mode}
        self.record = self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", "transformula"),
            name=os.environ.get("WANDB_NAME", run.name),
            id=run.identity or None, resume="allow", config={**run.config, "manifest": run.about},
            reinit="create_new", settings=settings, **given,
        )  # fmt: skip
        self.record.define_metric("*", step_metric="step")
        if self.record.offline:
            folder = Path(self.record.dir).parent
            self.where = f"offline in {folder} (to send it: wandb sync {folder})"
        else:
            self.where = str(self.record.url or "")

    @property
    def keep(self) -> Mapping[str, Any]:
        return {"id": self.record.id}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        # W&B's own steps never go back, where an evaluation may: `step` beside the numbers is the axis.
        self.record.log({**values, "step": step}, step=max(step, self.record.step))

    def text(self, step: int, name: str, text: str) -> None:
        shown = self.wandb.Html(f"<pre>{html.escape(text)}</pre>")
        self.record.log({name: shown, "step": step}, step=max(step, self.record.step))

    def close(self, status: str) -> None:
        self.record.finish(exit_code=int(status == FAILED))
