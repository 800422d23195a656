"""An accelerator that does not exist, by shapes alone: `python -m tests.devices.pretended NAMES SETTINGS`, in JSON.

PyTorch sets up its private device for a backend in Python, and FakeTensorMode makes tensors of it without memory, so
numbers are never computed. Two tensors of different devices raise, as on a GPU; a read of numbers is counted as a wait
for the device, and answered with ones. It prints what comes of entries of the gallery, and of training steps with these
settings. It is a process of its own, since the device stays once it is set up.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.invariants.harness import CAUSAL, chunk_of, fixed_inputs, inputs, loss_of, single, small
from transformula import Model
from transformula.data.settings import DataSettings
from transformula.model import build
from transformula.runs.folder import RunFolder
from transformula.tasks.language_modeling import LanguageModeling
from transformula.training import TrainingSettings, machine
from transformula.training.adapters import choose_trained
from transformula.training.loop import Trainer
from transformula.training.optimizer import optimizers
from transformula.training.progress import Progress
from transformula.training.state import RunState

DEVICE = "pretended"
FORMULA = "x = x + dropout(attention(norm(x)), 0.1); x = x + scalar(0.5) * experts(norm(x), n=4, active=2)"
READS = {"item", "__bool__", "__int__", "__float__", "__index__", "tolist", "numpy", "cpu"}


class Waits(TorchFunctionMode):
    """Counts where numbers of the device are read, by the line of the program, and answers each with ones."""

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[str] = Counter()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        moved = name == "to" and any(str(each) == "cpu" for each in (*args[1:], *(kwargs or {}).values()))
        if (name in READS or moved) and isinstance(args[0], Tensor):
            if args[0].device.type == DEVICE:
                self.places[place(traceback.extract_stack())] += 1
            return answer(name, args[0])
        return function(*args, **(kwargs or {}))


def answer(name: str, tensor: Tensor) -> Any:
    """Ones, in the form in which the numbers of a tensor are asked for."""
    if name in ("cpu", "to"):
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    if name == "tolist":
        one: Any = 1.0 if tensor.is_floating_point() else 1
        for size in reversed(tensor.shape):
            one = [one] * size
        return one
    return {"__bool__": bool, "__int__": int, "__index__": int, "item": float, "__float__": float}[name](1)


def place(frames: Any) -> str:
    """'words/scores.py:242 ...': the innermost line of the program."""
    own = [frame for frame in frames if "/transformula/" in frame.filename] or frames
    return f"{own[-1].filename.split('/transformula/')[-1]}: {own[-1].line or ''}"


def there(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=DEVICE)


def move(module: nn.Module) -> None:
    """Put a model there."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(there(parameter), requires_grad=parameter.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = there(buffer)


def entry(name: str) -> dict[str, Any]:
    """What comes of an entry of the gallery in training, in evaluation and, where it writes, in decoding: the lines
    that wait for the device, and how often, or an error."""
    module, given = build(small(name), seed=0, dtype=torch.float32), single(inputs(name))
    results: dict[str, Any] = {}
    with FakeTensorMode(allow_non_fake_inputs=True):
        move(module)
        here = {key: there(value) for key, value in given.items()}
        for what, make in (("train", train), ("evaluate", evaluate), ("decode", decode)):
            if what == "decode" and name not in CAUSAL:
                continue
            try:
                with Waits():
                    make(name, module, here)  # what is made once, and kept, is no wait of a step
                with Waits() as waits:
                    make(name, module, here)
                results[what] = dict(waits.places)
            except Exception as error:
                line = place(traceback.extract_tb(error.__traceback__))
                results[what] = f"{type(error).__name__}: {str(error)[:200]} @ {line}"
    return results


def train(_: str, module: Any, given: dict[str, Tensor]) -> None:
    loss = loss_of(module.train()(**given))
    assert loss.device.type == DEVICE
    loss.backward()


@torch.no_grad()
def evaluate(_: str, module: Any, given: dict[str, Tensor]) -> None:
    module.eval()(**given)


@torch.no_grad()
def decode(name: str, module: Any, given: dict[str, Tensor]) -> None:
    module.eval()
    rows, length = given["tokens"].shape
    state = module.start(rows, length, **fixed_inputs(name, given))
    module.step(decoding=state, **chunk_of(name, given, 0, 3))
    module.step(decoding=state, **chunk_of(name, given, 3, 4))


def steps(folder: Path, **settings: Any) -> list[dict[str, int]]:
    """The lines at which each of two training steps waits for the device, and how often."""
    (folder / "text.txt").write_text("a pretended text of a few letters " * 100)
    data = DataSettings.read({"data": str(folder / "text.txt"), "tokenizer": "characters"})
    task = LanguageModeling.make(data, {"context": 16}, batch=4, seed=1)
    model = Model(FORMULA, depth=2, width=16, heads=2, after="x = norm(x)", **task.numbers).module
    batch = task.batch(0, 0)
    read = TrainingSettings.read({"steps": 100, "lr": 0.001, "log_every": 1, **settings})
    with FakeTensorMode(allow_non_fake_inputs=True):
        without_numbers = replace(
            batch, inputs={name: torch.empty_like(ids) for name, ids in batch.inputs.items()},
            targets=torch.empty_like(batch.targets),
        )  # fmt: skip
        move(model)
        trained = choose_trained(model, read)
        optimizer = optimizers.get(read.optimizer)(trained.parameters, read, machine.DTYPES[read.precision])
        run = RunFolder(folder / "run")
        run.create({}, {})
        shown = Progress(task.unit, quiet=True)
        state = RunState(task, model, optimizer, read, run, shown, torch.device(DEVICE), trained)
        vars(task)["batch"] = lambda step, micro: without_numbers
        trainer = Trainer(state)
        state.weights.publish()
        waited: list[dict[str, int]] = []
        for _ in range(2):
            with Waits() as waits:
                trainer.step()
            waited.append(dict(waits.places))
        assert {p.device.type for p in model.parameters()} == {DEVICE}
    run.log.close()
    return waited


def main(names: list[str], settings: list[dict[str, Any]]) -> None:
    warnings.filterwarnings("ignore")
    _setup_privateuseone_for_python_backend(DEVICE)
    FakeTensor.tolist = Tensor.tolist  # its own reads one number after the other
    results: dict[str, Any] = {"entries": {name: entry(name) for name in names}, "steps": []}
    for each in settings:
        with tempfile.TemporaryDirectory() as folder:
            results["steps"].append(steps(Path(folder), **each))
    print(json.dumps(results))


if __name__ == "__main__":
    main(*map(json.loads, sys.argv[1:]))
