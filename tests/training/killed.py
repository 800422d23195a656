"""A run in its own process, to be killed. Usage: killed.py FOLDER new|resume"""

import sys
from pathlib import Path

from tests.training.toy import ToyModel, ToyTask
from transformula.training import TrainingSettings, train


class Telling(ToyTask):
    """Says on standard output when it begins a step."""

    def batch(self, step: int, micro: int):  # noqa: ANN201
        print(step, flush=True)
        return super().batch(step, micro)


SETTINGS = TrainingSettings(
    steps=80, batch=4, precision="float32", checkpoint_every=2, evaluate_every=9, threads=1, optimiser="muon"
)

if __name__ == "__main__":
    train(Telling(), ToyModel(), SETTINGS, Path(sys.argv[1]), resume=sys.argv[2] == "resume", quiet=True)
