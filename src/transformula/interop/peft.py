"""Low-rank adapters in the library peft's format: a folder with adapter_config.json and adapter_model.safetensors.

    W = W_0 + scale B A,   A (rank, columns), B (rows, rank),   scale = alpha / rank; of rsLoRA alpha / sqrt(rank)

`base_model.model.NAME.lora_A.weight` is the A of the matrix NAME.weight; a tensor under its own name is not adapted but
takes the place of that of the base model. Names are those of the base model's folder: ours, or those of transformers.

Hu et al. 2021, "LoRA: low-rank adaptation of large language models"; Kalajdzievski 2023 (rsLoRA).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import CheckpointError, did_you_mean, nearest
from ..structured import load_json
from .weights import hash_of, load_tensors, readable, save_tensors, stated_hash

CONFIG, ADAPTER = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
PAIR = re.compile(r"(?P<name>.+)\.lora_(?P<table>embedding_)?(?P<side>[AB])(\.weight)?\Z")
NAME = re.compile(r"(\w|\\?\.)+\Z")  # of a module, in a pattern with its dots as they are or escaped
BASE = "transformula.base_sha256"  # in the header of the tensors: a hash of the base model's matrices that are adapted
OTHER_BASES = ("pissa", "olora", "corda", "loftq")  # initializations that change the base model, too
ROUNDING = 1e-6  # of the largest weight: what sums in float32 may be off


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file()


class PeftAdapter:
    """An adapter that was read from a folder. Raises CheckpointError for what is none, or of another kind."""

    def __init__(self, folder: Path, verify: bool = True) -> None:
        self.folder = folder
        if not is_adapter(folder):
            remedy = "write one by `transformula export RUN --to peft`, or by peft's save_pretrained"
            raise CheckpointError(f"{folder}: is no adapter, for it holds no {CONFIG}; {remedy}")
        with readable(folder / CONFIG, "copy the folder again"):
            config = load_json(folder / CONFIG)
        self.config: Mapping[str, Any] = config if isinstance(config, dict) else {}
        self._check_kind()
        self.pairs: dict[str, dict[str, Tensor]] = {}
        self.tables: set[str] = set()  # embeddings, whose matrix is the transpose of what the product gives
        self.whole: dict[str, Tensor] = {}
        for name, tensor in load_tensors(folder / ADAPTER, verify).items():
            own, pair = name.removeprefix(PREFIX), PAIR.match(name.removeprefix(PREFIX))
            if "lora_" in own and pair is None:
                raise CheckpointError(f"{folder / ADAPTER}: {name} is of no kind of adapter that is known here")
            if pair is None:
                self.whole[own] = tensor
                continue
            self.pairs.setdefault(pair["name"], {})[pair["side"]] = tensor
            if pair["table"]:
                self.tables.add(pair["name"])
        for name, sides in self.pairs.items():
            if any(side.dim() < 2 for side in sides.values()):
                raise CheckpointError(f"{folder / ADAPTER}: the adapter of {name} is no matrix; copy it again")
            if len(sides) < 2:
                raise CheckpointError(f"{folder / ADAPTER}: {name} has lora_{''.join(sides)} alone; copy it again")
        self._left = {*self.pairs, *self.whole}

    def _check_kind(self) -> None:
        kind, start = str(self.config.get("peft_type", "")).upper(), str(self.config.get("init_lora_weights"))
        wrong = f"it is of the kind {kind or 'unknown'}" if kind != "LORA" else ""
        wrong = wrong or ("it has magnitudes (DoRA)" if self.config.get("use_dora") else "")
        if not wrong and start.lower().startswith(OTHER_BASES):
            wrong = f"it began by {start}, which changes the base model, too"
        alphas, path = self.config.get("alpha_pattern") or {}, self.folder / CONFIG
        numbers = [self.config.get("lora_alpha", 8), *(alphas.values() if isinstance(alphas, dict) else [None])]
        if not all(type(number) in (int, float) for number in numbers):
            raise CheckpointError(f"{path}: expected numbers as lora_alpha and in alpha_pattern; copy the folder again")
        if strange := next((name for name in alphas if not NAME.match(name)), ""):
            what = f"{path}: {strange!r} in alpha_pattern is a pattern, and only names of modules are read here"
            raise CheckpointError(f"{what}; name each module where it was made")
        if wrong:
            remedy = "merge it where it was made (merge_and_unload), and use the whole model"
            raise CheckpointError(f"{path}: {wrong}; only LoRA is read here: {remedy}")

    def scale_of(self, name: str, rank: int) -> float:
        """The factor of B A of a matrix."""
        patterns = self.config.get("alpha_pattern") or {}
        own = [alpha for pattern, alpha in patterns.items() if f".{name}".endswith("." + pattern.replace("\\", ""))]
        alpha = float(own[0] if own else self.config.get("lora_alpha", 8))
        return alpha / (math.sqrt(rank) if self.config.get("use_rslora") else rank)

    def change(self, name: str, tensor: Tensor) -> Tensor:
        """The adapted tensor in the place of the base model's of this name; the same where it is not adapted. Raises
        CheckpointError where shapes differ."""
        path = self.folder / ADAPTER
        if name in self.whole:
            self._left.discard(name)
            if self.whole[name].shape != tensor.shape:
                shapes = f"{tuple(self.whole[name].shape)}, and {tuple(tensor.shape)} in the base model"
                raise CheckpointError(f"{path}: {name} has the shape {shapes}; name the model that was adapted")
            return self.whole[name].to(tensor.dtype)
        key = name if name in self.pairs else name.removesuffix(".weight")
        if key not in self.pairs:
            return tensor
        self._left.discard(key)
        a, b = (self.pairs[key][side].float() for side in "AB")
        transposed = key in self.tables or bool(self.config.get("fan_in_fan_out"))
        expected = (*b.shape[:-1], a.shape[-1])
        stored = tensor.mT.shape if transposed else tensor.shape
        if a.shape[-2] != b.shape[-1] or expected != stored:
            shapes = f"{tuple(b.shape)} times {tuple(a.shape)}, and the base model's matrix has {tuple(tensor.shape)}"
            raise CheckpointError(f"{path}: the adapter of {key} is {shapes}; name the model that was adapted")
        added = (b @ a).mul_(self.scale_of(key, a.shape[-2]))
        return tensor.float().add(added.mT if transposed else added).to(tensor.dtype)

    def merged(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a base model of ours with this adapter in them. Raises CheckpointError for an adapter of
        another model, or of other weights."""
        changed = {name: self.change(name, tensor) for name, tensor in tensors.items()}
        self.check_used(list(tensors))
        stated = stated_hash(self.folder / ADAPTER, BASE)
        if stated and stated != base_hash(tensors, self.pairs):
            base = self.config.get("base_model_name_or_path")
            what = f"{self.folder}: was made of other weights than those of this model; it changes those of {base}"
            raise CheckpointError(f"{what}, as they were then")
        return changed

    def check_used(self, known: Sequence[str]) -> None:
        """Raise CheckpointError for what was not taken up of the adapter by tensors of these names."""
        if self._left:
            first = min(self._left)
            near = nearest(first, known)
            what = f"{self.folder / ADAPTER}: the model has no {first}, which the adapter changes"
            hint = did_you_mean(near) or " name the model that was adapted"
            raise CheckpointError(f"{what};{hint}", near=near)


def base_hash(tensors: Mapping[str, Tensor], adapted: Collection[str]) -> str:
    """A hash of a base model's matrices that have adapters."""
    names = [name for name in tensors if name in adapted or name.removesuffix(".weight") in adapted]
    return hash_of({name: tensors[name].detach().to("cpu", torch.float32).contiguous() for name in names})


def factors(change: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """B (..., rows, rank) and A (..., rank, columns), whose product is nearest to a change (..., rows, columns)."""
    with torch.random.fork_rng(devices=[]):  # the algorithm draws
        torch.manual_seed(0)
        u, s, v = torch.svd_lowrank(change.double(), q=rank, niter=4)
    root = s.sqrt()[..., None, :]
    return (u * root).float(), (v * root).mT.float()


def low_rank(before: Tensor, after: Tensor, rank: int) -> tuple[Tensor, Tensor] | None:
    """B and A of the lowest rank, from `rank` on, whose product turns one matrix (..., rows, columns) into another but
    for rounding; None where that takes more than half of the matrix's sides. (The mean of the weights of several steps
    is of a higher rank than each.)"""
    while after.dim() > 1 and 2 * rank <= min(after.shape[-2:]):
        b, a = factors(after - before, rank)
        if close(before + b @ a, after):
            return b, a
        rank *= 2
    return None


def close(one: Tensor, other: Tensor) -> bool:
    return bool((one.float() - other.float()).abs().max() <= ROUNDING * other.float().abs().max())


def write_adapter(
    folder: Path, base: Mapping[str, Tensor], tensors: Mapping[str, Tensor], rank: int, named: str
) -> list[str]:
    """Write what turns a base model's tensors into others of the same names: adapters, from `rank` on, of matrices
    where those do, else whole tensors, also of what `base` lacks. `named` is what the base model is called. Returns the
    names of the matrices that are adapted."""
    changed = [name for name, tensor in tensors.items() if name not in base or not torch.equal(tensor, base[name])]
    stored: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    for name in changed:
        pair = low_rank(base[name].float(), tensors[name].float(), rank) if name in base else None
        if pair is None:
            stored[f"{PREFIX}{name}"] = tensors[name]
        else:
            module = name.removesuffix(".weight")
            stored |= {f"{PREFIX}{module}.lora_{side}.weight": one for side, one in zip("BA", pair, strict=True)}
            ranks[module] = pair[1].shape[-2]
    whole = sorted({name.removeprefix(PREFIX).rpartition(".")[0] for name in stored if ".lora_" not in name})
    others = {module: own for module, own in ranks.items() if own != rank}
    config = {
        "alpha_pattern": others, "base_model_name_or_path": named, "bias": "none", "fan_in_fan_out": False,
        "inference_mode": True, "lora_alpha": rank, "lora_dropout": 0.0, "modules_to_save": whole or None,
        "peft_type": "LORA", "r": rank, "rank_pattern": others, "target_modules": [*ranks], "task_type": None,
    }  # fmt: skip
    save_tensors(folder / ADAPTER, stored, more={BASE: base_hash(base, ranks)})
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return [*ranks]
