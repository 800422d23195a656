"""Tensors of which each rank holds a part, in files of which each rank writes one.

    weights/shard-00001-model-00001-of-00001.safetensors     the part of rank 0
    weights/shard-00002-model-00001-of-00001.safetensors     the part of rank 1

`torch.distributed.checkpoint` writes and reads them, in the form of safetensors that it has for Hugging Face: each file
says in its header where its tensors begin in the whole ones (DCP_SHARDING_INFO). The other form of that library keeps
this in `.metadata`, a pickle, which runs any code when it is loaded; nothing here writes or loads one. What several
ranks hold alike is written by one of them. Read back, the parts may be cut in any other way, or not at all.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from ..errors import CheckpointError
from ..interop.weights import is_divided

Like = Callable[[str, torch.Size], Tensor | None]
"""(name, shape) -> the tensor that one is to be cut like; None: read whole"""


class RankPart:
    """A copy, in the CPU's memory, of what this rank holds of a tensor. Later changes of the tensor leave it alone.

    shape  of the whole tensor
    chunk  where the part begins in it, and its sizes
    """

    def __init__(self, tensor: Any) -> None:
        (self.chunk,) = tensor.__create_chunk_list__()
        self.shape = tensor.shape
        self.local = copy_of(tensor.to_local())

    def __create_write_items__(self, name: str, _: Any) -> list[WriteItem]:
        """What the library asks of a tensor of which each rank has a part."""
        data = TensorWriteData(self.chunk, TensorProperties.create_from_tensor(self.local), self.shape)
        return [WriteItem(MetadataIndex(name, self.chunk.offsets), WriteItemType.SHARD, tensor_data=data)]


def copy_of(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True).contiguous()


def copies_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Copies in the CPU's memory: of a divided tensor this rank's part, of another all of it."""
    return {name: RankPart(tensor) if is_divided(tensor) else copy_of(tensor) for name, tensor in tensors.items()}


class _Planner(DefaultSavePlanner):
    def lookup_object(self, index: MetadataIndex) -> Any:
        held = self.state_dict[index.fqn]
        return held.local if isinstance(held, RankPart) else super().lookup_object(index)


def write_parts(folder: Path, copies: Mapping[str, Any], group: Any, rank: int) -> None:
    """Write what `copies_of` made into a folder, which is made, together with all ranks of a group. Each file is
    synced. Returns when all ranks have ended; raises on one that failed.
    """
    try:
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(dict(copies), storage_writer=writer, planner=_Planner(), process_group=group)
    except CheckpointException as error:
        if rank in error.failures:
            raise cause_of(error, rank) from error


def files_of_rank(folder: Path, rank: int) -> list[Path]:
    """What a rank has written into a folder of parts: at most one file."""
    return sorted(folder.glob(f"shard-{rank + 1:05d}-*"))


def cause_of(error: CheckpointException, rank: int = 0) -> Exception:
    """What went wrong on a rank."""
    cause = error.failures[rank][0]
    return cause if isinstance(cause, Exception) else RuntimeError(str(error))


class _Files(FileSystem):
    """A file system of which nothing is seen but some files."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files

    def ls(self, path: Any) -> list[str]:
        return [str(file) for file in self.files]


def read_parts(files: Sequence[Path], like: Like | None = None) -> dict[str, Tensor]:
    """The tensors of some safetensors files, which hold parts of them or all: cut like others, or whole, on the CPU.

    No rank waits for another: each reads what it needs. Raises CheckpointError.
    """
    folder = files[0].parent if len(files) > 1 else files[0]
    reader = HuggingFaceStorageReader(str(files[0].parent))
    reader.fs = _Files(files)
    with reading(folder):
        metadata = reader.read_metadata()
    check_covered(metadata, folder)
    tensors = {name: place_for(name, one, like) for name, one in metadata.state_dict_metadata.items()}
    with reading(folder), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        load(dict[str, Any](tensors), storage_reader=reader, no_dist=True)
    return tensors


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turns what a library says of a file that cannot be read into a CheckpointError."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(f"{error.filename or folder}: the file is missing; the folder is not whole") from None
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError, CheckpointException) as error:
        cause = cause_of(error) if isinstance(error, CheckpointException) else error
        what = f"{folder}: damaged or cut off ({str(cause).strip()})"
        raise CheckpointError(f"{what}; copy it again, or use another checkpoint") from None


def check_covered(metadata: Metadata, folder: Path) -> None:
    """Raise CheckpointError where the files do not hold all of a tensor."""
    for name, one in metadata.state_dict_metadata.items():
        stored: Any = one
        held, whole = sum(math.prod(chunk.sizes) for chunk in stored.chunks), math.prod(stored.size)
        if held != whole:
            what = f"{folder}: holds {held:,} of the {whole:,} numbers of {name}"
            raise CheckpointError(f"{what}: a file of it is missing; use another checkpoint")


def place_for(name: str, stored: Any, like: Like | None) -> Tensor:
    """An uninitialized tensor for a stored one: divided like the one that it is to be like, if that has its shape."""
    own = like(name, stored.size) if like is not None else None
    if own is not None and own.shape == stored.size and is_divided(own):
        return torch.empty_like(own, dtype=stored.properties.dtype, requires_grad=False)
    return torch.empty(stored.size, dtype=stored.properties.dtype)
