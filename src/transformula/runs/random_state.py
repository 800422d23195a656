"""Random state: the state of every generator that training may draw from, as named tensors."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed(number: int) -> None:
    """Seed every generator, so that equal runs draw equally."""
    random.seed(number)
    np.random.seed(number % 2**32)
    seed_torch(number)


def seed_torch(number: int) -> None:
    """As torch.manual_seed, which on a CPU alone writes down the whole stack of calls three times, for devices that may
    come: 0.3 ms at every step, and more where the stack is deep."""
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


def capture() -> dict[str, Tensor]:
    """The state of Python's, NumPy's and torch's generators (each CUDA device its own, and mps)."""
    version, internal, gauss = random.getstate()
    numbers: Any = np.random.get_state(legacy=False)
    if version != 3 or numbers["bit_generator"] != "MT19937":
        raise RuntimeError(f"unknown generators: Python's of version {version}, NumPy's {numbers['bit_generator']}")
    streams = {
        "python": torch.tensor(internal, dtype=torch.int64),
        "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
        "numpy": torch.from_numpy(numbers["state"]["key"].astype(np.int64)),
        "numpy_position": torch.tensor([numbers["state"]["pos"], numbers["has_gauss"]], dtype=torch.int64),
        "numpy_gauss": torch.tensor([numbers["gauss"]], dtype=torch.float64),
        "torch": torch.random.get_rng_state(),
    }
    if torch.cuda.is_available():
        streams.update({f"cuda/{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())})
    if torch.backends.mps.is_available():
        streams["mps"] = torch.mps.get_rng_state()
    return streams


@contextmanager
def preserve() -> Iterator[None]:
    """Whatever is drawn within it, the generators are afterwards as they were."""
    before = capture()
    try:
        yield
    finally:
        restore(before)


def restore(streams: Mapping[str, Tensor]) -> None:
    """Set every generator to a captured state; those of devices that are not here are passed over."""
    gauss = streams["python_gauss"].tolist()
    random.setstate((3, tuple(streams["python"].tolist()), gauss[0] if gauss else None))
    position, has_gauss = streams["numpy_position"].tolist()
    keys = streams["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, position, has_gauss, streams["numpy_gauss"].item()))
    torch.random.set_rng_state(streams["torch"])
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            if f"cuda/{i}" in streams:
                torch.cuda.set_rng_state(streams[f"cuda/{i}"], i)
    if "mps" in streams and torch.backends.mps.is_available():
        torch.mps.set_rng_state(streams["mps"])
