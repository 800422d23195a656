"""Named tensors in a safetensors file: written, read with errors that name the file, and put into a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import CheckpointError, nearest


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> None:
    """Write named tensors. `about` is kept in the header, e.g. {"format": "pt"}."""
    kept = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
    save_file(kept, path, metadata={"format": "pt", **(about or {})})


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read named tensors, on the CPU. Raises CheckpointError where it is missing, cut off or of another format."""
    try:
        return load_file(path)
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: the file is missing; the folder is not whole: copy it again, or use another checkpoint"
        ) from None
    except (SafetensorError, json.JSONDecodeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: damaged or cut off ({str(error).strip()}); copy it again, or use another checkpoint"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from None


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers of a model by name; a tensor that has several names stands under the first."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def put_tensors(model: nn.Module, tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Fill a model with tensors that were read from `path`; see `fill`."""
    fill(model_tensors(model), tensors, path)


@torch.no_grad()
def fill(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Fill named tensors with those of the same names that were read from `path`.

    Raises CheckpointError where names or shapes differ, with the nearest names; then nothing is changed.
    """
    missing = [name for name in own if name not in tensors]
    unexpected = [name for name in tensors if name not in own]
    if missing or unexpected:
        mistakes = []
        for name in missing[:5]:
            near = nearest(name, unexpected, 1)
            mistakes.append(f"{name} is missing" + (f" (it holds {near[0]}, which the model lacks)" if near else ""))
        for name in unexpected[:5]:
            near = nearest(name, missing, 1)
            if not near:
                mistakes.append(f"{name} is not in the model")
        more = max(0, len(missing) - 5) + max(0, len(unexpected) - 5)
        mistakes += [f"and {more} more"] if more else []
        raise CheckpointError(
            f"{path}: these weights belong to another model: "
            + "; ".join(mistakes)
            + ". Expected the weights that were saved with this model's text",
            near=[n for name in missing[:5] for n in nearest(name, unexpected, 1)],
        )
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: {name} has the shape {tuple(tensors[name].shape)}, the model's text says"
                f" {tuple(tensor.shape)}; expected the weights that were saved with this text"
            )
    for name, tensor in own.items():
        tensor.copy_(tensors[name])
