"""Low-rank adapters in a file of llama.cpp, as `export --to gguf-lora` and its own scripts write them.

    W = W_0 + (alpha / rank) B A,   A (rank, columns), B (rows, rank),   in the program's order of rows

`NAME.lora_a` and `NAME.lora_b` are A and B of the matrix NAME, by the program's names of tensors;
`gallery/exports/gguf.yaml` says which of ours they are. Alpha stands in the metadata, one for all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CheckpointError, did_you_mean, nearest
from ..extras import need
from .named.exports import export_of
from .named.tensors import Equations, Solver, refs
from .weights import model_tensors

FILE = "adapter.gguf"
MAGIC = b"GGUF"
SIDE = re.compile(r"(?P<name>.+)\.lora_(?P<side>[ab])\Z")
TABLE = "token_embd.weight"  # whose A and B the program's own scripts lay out in another way
ARCHITECTURE, KIND, ADAPTER_KIND = "general.architecture", "general.type", "adapter.type"
ALPHA, CALLED = "adapter.lora.alpha", "adapter.alora.invocation_tokens"
PLAIN = ("F32", "F16", "BF16")  # types of tensors that hold each number by itself


def file_of(adapter: Path) -> Path | None:
    """The file of an adapter for llama.cpp: itself, or that in a folder; None for what is none."""
    if adapter.is_dir():
        return adapter / FILE if (adapter / FILE).is_file() else None
    return adapter if adapter.suffix == ".gguf" else None


class GgufAdapter:
    """An adapter that was read from a file. Raises CheckpointError for what is none, or of another kind.

    architecture  that of the base model, by the program's name
    alpha         divided by the rank of each matrix, the factor of B A
    pairs         A and B by the program's name of the matrix, as they are stored
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        gguf = need("gguf", "reading an adapter of llama.cpp")
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no such file; name the adapter, or the folder that holds {FILE}")
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise CheckpointError(f"{path}: is no GGUF, which begins with {MAGIC.decode()}; copy it again")
        try:
            reader = gguf.GGUFReader(path)
            self.said: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
            stored = {str(tensor.name): self.numbers(gguf, tensor) for tensor in reader.tensors}
        except CheckpointError:
            raise
        except Exception as error:  # the reader raises whatever a damaged file makes it meet
            raise CheckpointError(f"{path}: damaged ({type(error).__name__}: {error}); copy it again") from None
        self.architecture, self.alpha = str(self.said.get(ARCHITECTURE)), self._alpha()
        self.pairs = self._pairs(stored)

    def numbers(self, gguf: Any, tensor: Any) -> Tensor:
        """The numbers of a tensor, float32."""
        kind = tensor.tensor_type.name
        if kind not in PLAIN:
            remedy = f"write it as one of {', '.join(PLAIN)}"
            raise CheckpointError(f"{self.path}: {tensor.name} is stored as {kind}, which is not read; {remedy}")
        array = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(array.copy()).float()

    def _alpha(self) -> float:
        """The metadata's alpha. Raises CheckpointError for a file that is no low-rank adapter."""
        for key, expected in ((KIND, "adapter"), (ADAPTER_KIND, "lora")):
            if self.said.get(key) != expected:
                what = f"{self.path}: {key} is {self.said.get(key)!r}: expected {expected!r}"
                raise CheckpointError(f"{what}; write one by `transformula export RUN --to gguf-lora`")
        if CALLED in self.said:
            what = f"{self.path}: {CALLED}: the adapter begins at certain tokens, which has no form here"
            raise CheckpointError(f"{what}; use one that is always there")
        alpha = self.said.get(ALPHA)
        if not isinstance(alpha, float) or not math.isfinite(alpha) or alpha <= 0:
            raise CheckpointError(f"{self.path}: {ALPHA} is {alpha!r}: expected a number above 0; copy it again")
        return float(alpha)

    def _pairs(self, stored: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
        """A and B by the name of their matrix. Raises CheckpointError where one is missing, or they do not fit."""
        sides: dict[str, dict[str, Tensor]] = {}
        for name, tensor in stored.items():
            match = SIDE.match(name)
            if match is None:
                raise CheckpointError(f"{self.path}: {name} is no part of a low-rank adapter, .lora_a or .lora_b")
            if not tensor.isfinite().all():
                raise CheckpointError(f"{self.path}: {name} holds numbers that are not finite; copy it again")
            sides.setdefault(match["name"], {})[match["side"]] = tensor
        if not sides:
            raise CheckpointError(f"{self.path}: holds no tensors; copy it again")
        for name, pair in sides.items():
            if len(pair) < 2:
                other = "b" if "a" in pair else "a"
                raise CheckpointError(f"{self.path}: {name}.lora_{other} is missing; copy it again")
            a, b = pair["a"], pair["b"]
            if a.dim() != b.dim() or a.dim() < 2 or a.shape[-2] != b.shape[-1] or a.shape[:-2] != b.shape[:-2]:
                what = f"{self.path}: {name}.lora_b is {tuple(b.shape)} and .lora_a {tuple(a.shape)}"
                raise CheckpointError(f"{what}, which have no product; copy it again")
        return {name: (pair["a"], pair["b"]) for name, pair in sides.items()}

    def change(self, name: str, tensor: Tensor) -> Tensor:
        """The adapted matrix in the place of the base model's. Raises CheckpointError where shapes differ."""
        a, b = self.pairs[name]
        shape = (*b.shape[:-1], a.shape[-1])
        if shape != tensor.shape:
            what = f"{self.path}: the adapter of {name} is {shape}, and the base model's matrix {tuple(tensor.shape)}"
            raise CheckpointError(f"{what}; name the model that was adapted")
        return tensor.float().add((b @ a).mul_(self.alpha / a.shape[-2])).to(tensor.dtype)

    def merged(self, module: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a base model of ours with this adapter in them; of `module`, that model, the text alone is
        read. Raises CheckpointError for an adapter of another model."""
        export = export_of(module, "gguf")
        if export.said["architecture"] != self.architecture:
            what = f"{self.path}: adapts a model of the architecture {self.architecture!r}"
            own = f"and this one is, for llama.cpp, a {export.said['architecture']!r}"
            raise CheckpointError(f"{what}, {own}; name the model that was adapted")
        equations = Equations(export.model, export.constants, model_tensors(module))
        rows = {row.theirs: row for row in equations.rows if not row.again}
        for name in self.pairs:
            if name == TABLE or name not in rows:
                near = [] if name == TABLE else nearest(name, rows)
                what = f"{self.path}: {name} has an adapter, and the base model has no such matrix of its own"
                what = f"{self.path}: {name} has an adapter, which is not read of tables" if name == TABLE else what
                raise CheckpointError(f"{what};{did_you_mean(near)} name the model that was adapted", near=near)
        solver, changed = Solver(export.constants), dict(tensors)

        def ours(one: Any) -> Tensor:
            return changed[one.name] if one.number is None else changed[one.name][one.number]

        for name in self.pairs:
            row = rows[name]
            new = self.change(name, solver.theirs(row.expression, ours))
            for one in refs(row.expression):
                if one.number is not None:  # one matrix of a table
                    changed[one.name] = changed[one.name].clone()
            for one, part in solver.to_ours(row.expression, new, equations.shapes):
                if one.number is None:
                    changed[one.name] = part
                else:
                    changed[one.name][one.number] = part
        return changed
