"""`gguf`: one file that holds a language model with its tokenizer, of a family that its programs compute:
`gallery/exports/gguf.yaml` says as data which those are, and what keys and tensors are called."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...errors import CheckpointError, setting
from ...words.waves import Turning
from ..exchange import TEXT, condition, exporter, text_of
from ..gguf_vocabulary import TokenList, vocabulary_of
from ..named.exports import Export, export_of

FILE, ADAPTER = "model.gguf", "adapter.gguf"
TABLES = ("token_embd.weight", "output.weight")  # whose adapters the program lays out otherwise, or not at all
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}  # its names of types
FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32}  # its numbers of those of most tensors
KINDS = ("uint32", "float32", "string", "bool", "array")  # of metadata


@exporter("gguf", needs=["gguf"])
def write_gguf(model: Any, folder: Path, dtype: torch.dtype | None = None) -> None:
    """`model.gguf`: metadata, the tokenizer of the folder, matrices in `dtype` or their own type, and vectors in
    float32, as programs want them. Without a tokenizer it takes and gives token ids alone. `model.yaml` stands beside
    it.

    Raises CheckpointError for a text that they do not compute, and for a tokenizer that they cannot express.
    """
    import gguf

    text = text_of(model)
    export, vocabulary, named = prepare(model, folder)
    tensors = {**dict(named), **frequencies(export, model)}
    matrices = [tensor.dtype for tensor in tensors.values() if tensor.dim() > 1]
    kind = TYPES.get(dtype or matrices[0])
    if kind is None:
        raise CheckpointError(f"{FILE} holds float32, float16 or bfloat16; name one, e.g. --dtype float32")
    writer = gguf.GGUFWriter(folder / FILE, export.said["architecture"])
    writer.add_name(model.architecture.name or export.model.name)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_string("transformula.text", text)
    for name, value, value_kind in metadata(export):
        getattr(writer, f"add_{value_kind}")(name, value)
    vocabulary.write(writer)
    for name, tensor in tensors.items():
        add(writer, name, tensor, kind if tensor.dim() > 1 else "F32")
    finish(writer)
    (folder / TEXT).write_text(text, encoding="utf-8")


def write_gguf_adapter(model: Any, base: Mapping[str, Tensor], folder: Path, rank: int) -> None:
    """`adapter.gguf`: what turns the model of the base tensors into this one, as low-rank matrices, from `rank` on, of
    the matrices that the programs know: W + (alpha / rank) B A with alpha = rank.

    Raises CheckpointError for a text that it does not compute, and where more than matrices was trained.
    """
    import gguf

    from ..peft import low_rank
    from ..weights import model_tensors, put_tensors

    export, own = export_of(model, "gguf"), model_tensors(model)
    remedy = f"export the whole model: {setting('to', 'gguf')}"
    if whole := sorted(own.keys() - base.keys()):
        raise CheckpointError(f"{whole[0]} was trained as a whole, for which an adapter has no place; {remedy}")
    before = copy.deepcopy(model)
    put_tensors(before, base, folder)
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    for (name, old), (_, new) in zip(export.tensors(before), export.tensors(model), strict=True):
        if torch.equal(old, new):
            continue
        pair = low_rank(old.float(), new.float(), rank) if old.dim() > 1 and name not in TABLES else None
        if pair is None:
            raise CheckpointError(f"{name} was trained, and is no matrix that has an adapter in this format; {remedy}")
        pairs[name] = pair
    if not pairs:
        raise CheckpointError(f"no matrix differs from the base model's; {remedy}")
    most = max(a.shape[-2] for _, a in pairs.values())
    writer = gguf.GGUFWriter(folder / ADAPTER, export.said["architecture"])
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(most))
    for name, (b, a) in pairs.items():  # the program divides alpha by each one's own rank
        add(writer, f"{name}.lora_a", a * (a.shape[-2] / most), "F32")
        add(writer, f"{name}.lora_b", b, "F32")
    finish(writer)


def finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def prepare(model: Any, folder: Path | None) -> tuple[Export, TokenList, Iterator[tuple[str, Tensor]]]:
    """A model and its tokenizer as the programs know them, and its tensors by their names. Raises CheckpointError."""
    export = export_of(model, "gguf")
    vocabulary = TokenList() if folder is None else vocabulary_of(folder, int(export.constants["vocab"]))
    return export, vocabulary, export.tensors(model)


@condition("gguf")
def check_computed(model: Any, folder: Path | None) -> None:
    prepare(model, folder)


def metadata(export: Export) -> Iterator[tuple[str, Any, str]]:
    """Keys with their values and types."""
    for kind in KINDS:
        for key, text in export.said.get(kind, {}).items():
            value = export.value(text)
            if kind == "array":  # one value a layer
                value = [value[n % len(value)] for n in range(export.constants["depth"])]
            if value is not None:
                yield f"{export.said['architecture']}.{key}", value, kind


def frequencies(export: Export, model: nn.Module) -> Mapping[str, Tensor]:
    """The tensor that divides the rates of rotary positions, where the text gives them rates of its own."""
    name = export.said.get("frequencies")
    each = (getattr(module, "turning", None) for module in model.modules())
    turning: Turning | None = next(filter(None, each), None)
    if name is None or turning is None or not turning.rates:
        return {}
    rates = torch.tensor(turning.rates, dtype=torch.float64)
    plain = turning.base ** (-torch.arange(0, turning.size, 2, dtype=torch.float64) / turning.size)
    return {name: (plain / rates).float()}


def add(writer: Any, name: str, tensor: Tensor, kind: str) -> None:
    import gguf

    array: np.ndarray = tensor.detach().cpu().float().contiguous().numpy()
    quantization = gguf.GGMLQuantizationType[kind]
    writer.add_tensor(name, gguf.quants.quantize(array, quantization), raw_dtype=quantization)
