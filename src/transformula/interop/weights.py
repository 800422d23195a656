"""Named tensors in a safetensors file that knows its own hash: written, read, checked, and put into a model.

The hash stands in the file's own header, so that the file is exchanged by one rename and checks itself. It covers the
names, types, shapes and bytes of all tensors: without it most flips of a bit are read as other weights. A file of other
programs has none and is read all the same.

SHA-256 was the fastest of the standard library on a Xeon with SHA instructions: 1.2 GiB/s a core, blake2b 0.85, sha512
0.68, blake2s 0.5; tensors beyond a MiB are hashed in as many threads as there are cores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..cost.machine import cores
from ..errors import CheckpointError, nearest

HASH = "transformula.sha256"
OURS = "transformula"  # the other key of ours in the header: each betrays a file of ours if the other is damaged


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], hashed: bool = True, more: Mapping[str, str] | None = None
) -> None:
    """Write named tensors, with their hash in the header, and `more` notes."""
    kept = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
    notes = {OURS: "tensors", HASH: hash_of(kept)} if hashed else {}
    save_file(kept, path, metadata={"format": "pt", **notes, **(more or {})})
    sort_header(path)


def sort_header(path: Path) -> None:
    """Put the header's notes in order, which the library does not: equal tensors then give equal files."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        notes = {"__metadata__": dict(sorted(header.pop("__metadata__").items()))}
        ordered = json.dumps({**notes, **header}, separators=(",", ":"), ensure_ascii=False).encode()
        if len(ordered) <= size:  # else it was written in another way than we write: left as it is
            file.seek(8)
            file.write(ordered.ljust(size))


@contextmanager
def readable(path: Path, remedy: str = "copy it again, or use another checkpoint") -> Iterator[None]:
    """Turn what is wrong with a file that is read into an error that names it and says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: the file is missing; {remedy}") from None
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: damaged or cut off ({str(error).strip()}); {remedy}") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None


def load_tensors(path: Path, verify: bool = True) -> dict[str, Tensor]:
    """Read named tensors, on the CPU.

    verify  compare them with the hash that a file of ours holds

    Raises CheckpointError where the file is missing, cut off, of another format, or not as it was written.
    """
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path}: is no plain file; expected weights in safetensors")
    with readable(path), safe_open(path, framework="pt") as file:
        notes = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
    if verify and (HASH in notes or OURS in notes) and notes.get(HASH) != hash_of(tensors):
        what = f"{path}: damaged: its content is not what was written, by its own hash"
        raise CheckpointError(f"{what}; copy it again, or use another checkpoint")
    return tensors


def stated_hash(path: Path, key: str = HASH) -> str:
    """The hash that a file of ours says of itself, or another note in its header, unchecked; "" where there is none."""
    try:
        with safe_open(path, framework="pt") as file:
            return str((file.metadata() or {}).get(key, ""))
    except (SafetensorError, OSError):
        return ""


def hash_of(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and bytes of tensors on the CPU, whatever their order."""
    ordered = sorted(tensors.items())
    many = sum(tensor.nbytes for tensor in tensors.values()) > 2**20

    def stated(named: tuple[str, Tensor]) -> list[Any]:
        name, tensor = named
        digest = hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy().data).hexdigest()
        return [name, str(tensor.dtype), list(tensor.shape), digest]

    with ThreadPoolExecutor(cores() if many else 1) as threads:  # hashlib lets go of the interpreter's lock
        rows = list((threads.map if many else map)(stated, ordered))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def in_float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as a model's folder holds them: numbers of fewer bits in float32, without loss.

    Raises CheckpointError for float64, which would lose bits.
    """
    for name, tensor in tensors.items():
        if tensor.dtype == torch.float64:
            what = f"{name} is float64, and a model's folder holds float32"
            raise CheckpointError(f"{what}: round the model first, by `module.float()`")
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers of a model by name; a tensor that has several names stands under the first."""
    named: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        named.setdefault(id(tensor), (name, tensor.detach()))
    return dict(named.values())


@torch.no_grad()
def put_tensors(model: nn.Module | Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Fill a model, or named tensors, with those of the same names that were read from `path`.

    Raises CheckpointError where names, shapes or types differ, with the nearest names; then nothing is changed.
    """
    own = model_tensors(model) if isinstance(model, nn.Module) else model
    missing = [name for name in own if name not in tensors]
    unexpected = [name for name in tensors if name not in own]
    if missing or unexpected:
        near = {name: nearest(name, unexpected, 1) for name in missing[:5]}
        mistakes = [
            f"{name} is missing" + (f" (it holds {other[0]}, which the model lacks)" if other else "")
            for name, other in near.items()
        ]
        mistakes += [f"{name} is not in the model" for name in unexpected[:5] if not nearest(name, missing, 1)]
        more = len(missing[5:]) + len(unexpected[5:])
        mistakes += [f"and {more} more"] if more else []
        what = f"{path}: these weights belong to another model: {'; '.join(mistakes)}"
        all_near = [name for other in near.values() for name in other]
        raise CheckpointError(f"{what}. Expected the weights that were saved with this model's text", near=all_near)
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            shape, stated = tuple(tensors[name].shape), tuple(tensor.shape)
            what = f"{path}: {name} has the shape {shape}, the model's text says {stated}"
            raise CheckpointError(f"{what}; expected the weights that were saved with this text")
    check_types(own, tensors, path)
    for name, tensor in own.items():
        tensor.copy_(part_of(tensors[name], tensor))


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """What this process holds of a whole tensor, where `like` is divided among several; else the tensor itself."""
    if not hasattr(like, "device_mesh") or hasattr(tensor, "device_mesh"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    placed: Any = like
    return distribute_tensor(tensor.to(like.device), placed.device_mesh, placed.placements, src_data_rank=None)


def whole_tensors(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Each tensor with its name, whole: one that is divided is gathered, so that every process must ask for all, in
    order."""
    for name, tensor in tensors.items():
        yield name, tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def check_types(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Raise CheckpointError where a tensor that was read from `path` has another type than the model's."""
    for name, tensor in own.items():
        if name in tensors and tensors[name].dtype != tensor.dtype:
            stored, expected = (str(one.dtype).removeprefix("torch.") for one in (tensors[name], tensor))
            what = f"{path}: {name} is {stored}, the model's is {expected}, and nothing is rounded or turned unasked"
            raise CheckpointError(f"{what}; write the file with tensors in {expected}")


def check_finite(tensors: Iterable[tuple[str, Tensor]], path: Path | str) -> None:
    """Raise CheckpointError, with the name of the first tensor, where a number that was read is NaN or infinite."""
    for name, tensor in tensors:
        # A sum is as fast as memory; one that is not finite may still be of large, but finite numbers.
        if tensor.is_floating_point() and not tensor.sum().isfinite() and not tensor.isfinite().all():
            count = int((~tensor.isfinite()).sum())
            what = f"{path}: {count:,} of the {tensor.numel():,} numbers of {name} are not finite (NaN or infinite), so"
            remedy = "use another checkpoint, or train with a lower learning rate"
            raise CheckpointError(f"{what} whatever the model gives would be, too; {remedy}")


def is_divided(tensor: Tensor) -> bool:
    """Whether several processes hold a part of it each: a DTensor."""
    return hasattr(tensor, "device_mesh")
