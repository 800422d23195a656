"""The GPU of a Mac, pretended: none of what runs on it is float64, and where there is none the error says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformula import Model
from transformula.errors import ConfigError, InputError
from transformula.generation.sampling import choose
from transformula.generation.settings import SamplingSettings
from transformula.model import build
from transformula.runs import random_state
from transformula.tasks.base import Batch
from transformula.tasks.replaced_token_detection import DrawnBatch
from transformula.training import machine
from transformula.training.choices import choose_precision
from transformula.training.memory import Ledger, memory_of
from transformula.training.parallel.world import Ranks
from transformula.training.settings import TrainingSettings
from transformula.words.cpu import autocast_type, wide

MPS = torch.device("mps")


def on_mps(operation: Any, tensors: Any) -> int:
    """How many tensors of an operation are on mps, or on "meta", which stands for what is no CPU. Raises TypeError for
    float64 there, as the device does."""
    kinds = ("mps", "meta")
    there = [one for one in tree_leaves(tensors) if isinstance(one, torch.Tensor) and one.device.type in kinds]
    if any(one.dtype in (torch.float64, torch.complex128) for one in there):
        raise TypeError(f"{operation}: mps has no float64")
    return len(there)


class NoFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = operation(*args, **(kwargs or {}))
        on_mps(operation, (args, made))
        return made


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[NoFloat64]:
    """A device of this kind, whose tensors have no numbers."""
    for name in ("is_built", "is_available"):
        monkeypatch.setattr(torch.backends.mps, name, lambda: True)
    with FakeTensorMode(), NoFloat64() as refusing:
        yield refusing


def test_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.backends.mps.is_built():
        with pytest.raises(ConfigError, match="^device: 'mps' is the GPU of a Mac, .* this build of PyTorch"):
            machine.pick_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="this machine has none: it takes Apple silicon, .*; try cpu or auto"):
        machine.pick_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(ConfigError, match="'mps:1' is .* there is one such device alone: mps"):
        machine.pick_device("mps:1")


def test_where_there_is_one(there: NoFloat64) -> None:
    assert machine.pick_device("mps") == MPS and machine.pick_device("mps:0").type == "mps"
    precision, line = choose_precision("auto", None, None, MPS, None, 1.0)  # type: ignore[arg-type]
    assert precision == "float32" and "--precision bf16 asks for it" in line
    assert autocast_type("mps") is None
    with torch.autocast("mps", dtype=torch.float16):
        assert autocast_type("mps") == torch.float16


def test_processes_do_not_share_one() -> None:
    class Several(Ranks):
        several, size = True, 2  # type: ignore[assignment]

        def __init__(self) -> None:
            """Of no group."""

    with pytest.raises(InputError, match="mps trains in one process, and there are 2"):
        Several().device("mps")


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("name", ["pre-norm", "gpt2", "llama"])
def test_a_step_takes_no_float64(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step of which the memory is found out, without numbers, is that of training."""
    ran, follow = [], Ledger.__torch_dispatch__

    def checked(self: Ledger, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = follow(self, operation, types, args, kwargs)
        ran.append(on_mps(operation, (args, made)))
        return made

    monkeypatch.setattr(Ledger, "__torch_dispatch__", checked)
    sizes = {"depth": 2, "width": 32, "heads": 8, "vocab": 64, "context": 16}
    model: Any = build(Model(name, **sizes).architecture, device="meta")
    memory_of(model, 4, 16, TrainingSettings(precision=precision), device="mps")
    assert sum(ran) > 100


def test_tokens_are_drawn_without_float64(there: NoFloat64) -> None:
    generators = [torch.Generator().manual_seed(number) for number in range(3)]
    for given in ({}, {"temperature": 0.7, "top_k": 5, "top_p": 0.9}, {"temperature": 0.0}):
        seen = torch.zeros(3, 9, dtype=torch.bool, device=MPS)
        chosen = choose(torch.randn(3, 9, device=MPS), SamplingSettings(**given), generators, seen)
        assert chosen.device.type == "mps" and chosen.shape == (3,)


def test_batches_go_there(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[tuple[torch.dtype, bool]] = []

    def to(self: torch.Tensor, device: torch.device | str, non_blocking: bool = False) -> torch.Tensor:
        assert torch.device(device) == MPS
        moved.append((self.dtype, non_blocking))
        return self

    monkeypatch.setattr(torch.Tensor, "to", to)
    ids = torch.zeros(2, 3, dtype=torch.int64)
    Batch({"tokens": ids}, ids).to(MPS)
    DrawnBatch({"tokens": ids}, ids, draws=torch.zeros(2, 3, dtype=torch.float64)).to("mps")
    assert moved == [(torch.int64, False)] * 4  # nothing is float64, and nothing is pinned


def test_what_is_wide_is_made_on_the_cpu(there: NoFloat64) -> None:
    assert wide(torch.ones(3, device=MPS)).device.type == "cpu"
    assert wide(torch.ones(3)).dtype == torch.float64


def test_its_random_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    state = [torch.arange(5, dtype=torch.uint8)]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda given: state.__setitem__(0, given))
    captured = random_state.capture()
    state[0] = torch.zeros(5, dtype=torch.uint8)
    random_state.restore(captured)
    assert state[0].tolist() == [0, 1, 2, 3, 4]
