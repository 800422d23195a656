"""TensorBoard: event files in the run's folder, which `tensorboard --logdir runs` shows."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..recorder import Recorded, Recorder, indented, recorders


@recorders.register("tensorboard", needs=("tensorboard",))
class TensorBoardRecorder(Recorder):
    """Scalars, and the settings and the sample as texts. A resume hides what was written after its checkpoint."""

    overwrites = True

    def __init__(self, run: Recorded) -> None:
        super().__init__(run)
        from torch.utils.tensorboard import SummaryWriter

        folder = run.folder / "tensorboard"
        # the first step that is written again; a run that was killed before its first checkpoint begins again
        purge = None if run.kept is None else run.step + 1 if run.step else 0
        self.writer = SummaryWriter(str(folder), purge_step=purge, flush_secs=10)
        self.where = f"{folder} (tensorboard --logdir {run.folder.parent})"
        rows = [f"| {key} | {json.dumps(value)} |" for key, value in run.settings.items() if key != "model"]
        self.text(run.step, "settings", "\n".join(["| setting | |", "| --- | --- |", *rows]))
        self.text(run.step, "model", indented(str(run.config.get("model", ""))))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def text(self, step: int, name: str, text: str) -> None:
        self.writer.add_text(name, indented(text) if name == "sample" else text, step)

    def close(self, status: str) -> None:
        self.writer.close()
