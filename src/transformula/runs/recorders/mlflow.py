"""MLflow: one run of the experiment that MLFLOW_EXPERIMENT_NAME names, else of "transformula".

It is written to where MLFLOW_TRACKING_URI says (a server, `sqlite:///mlflow.db`), by default to where MLflow writes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...extras import need
from ..recorder import FAILED, FINISHED, Recorded, Recorder, recorders

PARAMETERS = 100  # that one request may have
CHARACTERS = 6000  # that a parameter may have
ENDS = {FINISHED: "FINISHED", FAILED: "FAILED"}  # all others were killed, as MLflow says


@recorders.register("mlflow", needs=("mlflow",))
class MlflowRecorder(Recorder):
    """Parameters, metrics, the sample as an artifact. The run's id is kept, by which a resume goes on with the same."""

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        self.mlflow: Any = need("mlflow", "recording in MLflow")
        self.client: Any = self.mlflow.MlflowClient()
        uri = self.mlflow.get_tracking_uri()
        if run.kept is None:
            self.id = self.client.create_run(self.experiment(), run_name=run.name).info.run_id
            known: Mapping[str, str] = {}
        else:
            self.id = str(run.kept["run_id"])
            known = self.client.get_run(self.id).data.params
            self.client.update_run(self.id, status="RUNNING")
        self.where = f"run {self.id} at {uri}"
        stated = {key: str(value)[:CHARACTERS] for key, value in run.settings.items()}
        new = [self.mlflow.entities.Param(key, value) for key, value in stated.items() if key not in known]
        for part in parts(new, PARAMETERS):
            self.client.log_batch(self.id, params=part)
        for key, value in stated.items():  # a parameter cannot be changed: a resume may be longer, say
            if known.get(key, value) != value:
                self.client.set_tag(self.id, f"resumed.{key}", value)

    def experiment(self) -> str:
        """The id of the experiment, which is made if it is not there."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "transformula")
        found = self.client.get_experiment_by_name(name)
        return str(found.experiment_id if found is not None else self.client.create_experiment(name))

    @property
    def keep(self) -> Mapping[str, Any]:
        return {"run_id": self.id}

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [self.mlflow.entities.Metric(named(name), value, now, step) for name, value in values.items()]
        for part in parts(metrics, 1000):
            self.client.log_batch(self.id, metrics=part)

    def text(self, step: int, name: str, text: str) -> None:
        self.client.log_text(self.id, text, f"{name}-step-{step}.txt")

    def close(self, status: str) -> None:
        self.client.set_terminated(self.id, status=ENDS.get(status, "KILLED"))


def named(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def parts(items: Sequence[Any], most: int) -> Iterator[Sequence[Any]]:
    """The items, at most so many at a time."""
    return (items[begin : begin + most] for begin in range(0, len(items), most))
