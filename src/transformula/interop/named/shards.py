"""The tensors of a folder by name: one safetensors file, or several with an index, memory-mapped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ...errors import CheckpointError
from ...structured import load_json
from ..weights import readable

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_SHARD_BYTES = 5 * 10**9  # as transformers writes them
AGAIN = "copy the folder again"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


class Shards(Mapping[str, Tensor]):
    """The tensors of a folder. Raises CheckpointError where a file is missing, damaged, or no safetensors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = self._files()
        self._opened: dict[str, Any] = {}
        for file in sorted(set(self.files.values())):
            with readable(folder / file, AGAIN):
                self._opened[file] = safe_open(folder / file, "pt")
        held = {file: set(opened.keys()) for file, opened in self._opened.items()}
        for file, names in held.items():
            if unlisted := sorted(names - self.files.keys()):
                what = f"{folder / file}: holds {unlisted[0]}, which {INDEX} does not name"
                raise CheckpointError(f"{what}; {AGAIN}, or take the files' names from where it was made")
        for name, file in self.files.items():
            if name not in held[file]:
                raise CheckpointError(f"{folder / file}: {name}, which {INDEX} names, is not in it; {AGAIN}")

    def _files(self) -> dict[str, str]:
        """The file of each tensor."""
        index, single = self.folder / INDEX, self.folder / SINGLE
        if index.is_file():
            with readable(index, AGAIN):
                said = load_json(index)
            files = said.get("weight_map") if isinstance(said, dict) else None
            if not isinstance(files, dict) or not all(is_plain(file) for file in files.values()):
                raise CheckpointError(f"{index}: expected `weight_map`, the name of a file for each tensor")
            return files
        if single.is_file():
            with readable(single, AGAIN), safe_open(single, "pt") as opened:
                return dict.fromkeys(opened.keys(), SINGLE)
        others = [path.name for pattern in PICKLES for path in sorted(self.folder.glob(pattern))]
        what = f"{self.folder}: holds neither {SINGLE} nor {INDEX}"
        if others:
            what += f", but {others[0]}, a format that can run code or that is not read here"
            raise CheckpointError(
                f"{what}; where the folder was made, write it as safetensors: "
                "AutoModel.from_pretrained(FOLDER).save_pretrained(OUT)"
            )
        raise CheckpointError(f"{what}; {AGAIN}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the files."""
        return (INDEX, *sorted(set(self.files.values())))

    def __getitem__(self, name: str) -> Tensor:
        with readable(self.folder / self.files[name], AGAIN):
            tensor: Tensor = self._opened[self.files[name]].get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


def is_plain(name: Any) -> bool:
    """Whether this is the name of a file in the folder itself."""
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name


def write_shards(folder: Path, tensors: Iterator[tuple[str, Tensor]], max_bytes: int = MAX_SHARD_BYTES) -> None:
    """Write tensors into files of at most `max_bytes`, or of one tensor, and an index where there are several."""
    files: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors:
        if files[-1] and sum(t.nbytes for t in files[-1].values()) + tensor.nbytes > max_bytes:
            files.append({})
        files[-1][name] = tensor
    weight_map: dict[str, str] = {}
    for number, file in enumerate(files, 1):
        name = SINGLE if len(files) == 1 else f"model-{number:05d}-of-{len(files):05d}.safetensors"
        save_file({key: alone(tensor) for key, tensor in file.items()}, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(file, name)
    if len(files) > 1:
        total = sum(tensor.nbytes for file in files for tensor in file.values())
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")


def alone(tensor: Tensor) -> Tensor:
    """The tensor with memory of its own, contiguous, as the library wants it."""
    tensor = tensor.detach().cpu().contiguous()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()
