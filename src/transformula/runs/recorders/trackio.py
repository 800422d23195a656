"""Trackio: a run of the project "transformula", in the folder that TRACKIO_DIR names, else in Trackio's own.

TRACKIO_SPACE_ID and TRACKIO_SERVER_URL send it elsewhere, as Trackio reads them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from ...extras import need
from ..recorder import Recorded, Recorder, indented, recorders

PROJECT = "transformula"


@recorders.register("trackio", needs=("trackio",))
class TrackioRecorder(Recorder):
    """Scalars, config, the sample as Markdown. The run's name, with its identity, is kept: a resume goes on with it."""

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.trackio: Any = need("trackio", "recording in Trackio")
        self.name = f"{run.name}-{run.identity[:8]}" if run.kept is None else str(run.kept["name"])
        with redirect_stdout(io.StringIO()):  # standard output is for results
            self.record = self.trackio.init(
                project=PROJECT, name=self.name, config=dict(run.config), resume="allow", embed=False,
                auto_log_cpu=False, auto_log_gpu=False,
            )  # fmt: skip
        self.where = f"{self.name} (trackio show --project {PROJECT})"

    @property
    def keep(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.record.log(dict(values), step=step)

    def text(self, step: int, name: str, text: str) -> None:
        self.record.log({name: self.trackio.Markdown(indented(text))}, step=step)

    def close(self, status: str) -> None:
        with redirect_stdout(io.StringIO()):
            self.record.finish()
