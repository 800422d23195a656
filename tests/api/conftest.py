"""What `train` was about to do, where a test stops it."""

from typing import Any

import pytest

from transformula.api.run import train
from transformula.interop.weights import model_tensors


class Stopped(Exception):
    """Raised where the first step would be."""


@pytest.fixture
def before_the_first_step(monkeypatch):
    """What `train` was about to train: its tensors, its task, what was said."""
    seen: dict[str, Any] = {}

    def stop(task, model, *_, progress, config, **__):
        seen.update(tensors=model_tensors(model), model=model, task=task, config=config)
        raise Stopped

    def begun(*arguments, **given):
        with monkeypatch.context() as patched, pytest.raises(Stopped):
            patched.setattr("transformula.training.train", stop)
            patched.setattr("transformula.api.leaving.export_line", lambda *_: "")  # it takes time
            train(*arguments, **given)
        return seen

    return begun
