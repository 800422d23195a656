"""`ctranslate2`: a folder of CTranslate2, of an encoder with a decoder that it computes:
`gallery/exports/ctranslate2.yaml` says as data which those are, and what its specification calls their tensors."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import CheckpointError
from ...tokenizers.base import Tokenizer
from ...words.waves import waves
from ..exchange import TEXT, condition, exporter, text_of
from ..named.exports import Export, export_of
from ..programs import ABOUT
from ..token_names import names_of, tokenizer_of

PROGRAM = "CTranslate2"
BASE = 10000.0  # of the wavelengths of sinusoids
POSITIONS = 4096  # rows of a table of sinusoids, of which our model needs none: it reads texts of any length
SOURCE = "source"  # the folder of the source's tokenizer, where it has its own
TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
NORM = {"weight": "gamma", "bias": "beta"}  # its names of what norms learn


@exporter("ctranslate2", needs=["ctranslate2"])
def write_ctranslate2(model: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """`model.bin`, `config.json` and the vocabularies, as `ctranslate2.Translator` opens them, in `dtype` or the
    model's type. CTranslate2 itself puts the marks around a source that the tokenizer says. `model.yaml` stands beside
    them, and `programs.json`, whose `context` is how many positions it has, of a source and of a target.

    Raises CheckpointError for a text that CTranslate2 does not compute, and for a folder without a tokenizer.
    """
    from ctranslate2.specs import TransformerSpec

    text = text_of(model)
    export = export_of(model, "ctranslate2")
    kind = TYPES.get(dtype or next(model.parameters()).dtype)
    if kind is None:
        raise CheckpointError(f"{PROGRAM} has weights in {', '.join(TYPES.values())}; name one, e.g. --dtype float32")
    source, target, marks, written = vocabularies_of(export, folder)
    spec = TransformerSpec(*(stack_of(export, side) for side in ("encoder", "decoder")))
    for name, tensor in export.tensors(model):
        put(spec, name, tensor.detach().cpu().contiguous())
    rows = put_positions(export, spec)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    for key, value in {**marks, "layer_norm_epsilon": float(export.constants["eps"])}.items():
        setattr(spec.config, key, value)
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(folder))
    (folder / TEXT).write_text(text, encoding="utf-8")
    about = {"format": 1, "programs": {"model": {"file": "model.bin"}}, "context": rows, "end": sorted(written.ends)}
    (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")


@condition("ctranslate2")
def check_computed(model: nn.Module, folder: Path | None) -> None:
    export = export_of(model, "ctranslate2")
    if folder is not None:
        vocabularies_of(export, folder)
    export.tensors(model)


def vocabularies_of(export: Export, folder: Path) -> tuple[list[str], list[str], dict[str, Any], Tokenizer]:
    """The names of the tokens that are read and of those that are written, the marks, and the tokenizer of what is
    written. Raises CheckpointError."""
    target, written = vocabulary_of(folder, int(export.constants["vocab"]))
    own = folder / SOURCE if (folder / SOURCE).is_dir() else folder
    source, read = vocabulary_of(own, int(export.constants["source_vocab"]))
    return source, target, marks_of(source, read, target, written), written


def stack_of(export: Export, side: str) -> Any:
    """The specification of the encoder or the decoder, without weights."""
    from ctranslate2.specs import common_spec, transformer_spec

    kind = {"encoder": transformer_spec.TransformerEncoderSpec, "decoder": transformer_spec.TransformerDecoderSpec}
    said, numbers = export.said, export.constants
    activation = common_spec.Activation[said["activations"][numbers["act"]]]
    arguments = {name: bool(export.value(text)) for name, text in said["arguments"].items()}
    stack = kind[side](numbers[f"{side}_depth"], numbers[f"{side}_heads"], activation=activation, **arguments)
    stack.scale_embeddings = bool(export.value(said["scaled"]))
    return stack


def put(spec: Any, name: str, tensor: Tensor) -> None:
    """Set a variable by its name, `encoder.layer.0.ffn.linear_0.weight`."""
    *path, last = name.split(".")
    place = reduce(lambda at, key: at[int(key)] if key.isdigit() else getattr(at, key), path, spec)
    setattr(place, NORM[last] if hasattr(place, "gamma") else last, tensor)


def put_positions(export: Export, spec: Any) -> int:
    """Tables of positions, from that of the first on; how many positions both have."""
    said, numbers, sizes = export.said, export.constants, []
    for stack in (spec.encoder, spec.decoder):
        table = stack.position_encodings
        if export.value(said["waves"]):
            rows = torch.arange(max(numbers["context"], POSITIONS), dtype=torch.float64)
            table.encodings = waves(rows, 0, numbers["width"], BASE, bool(export.value(said["halves"])))[0].float()
        else:
            table.encodings = table.encodings[export.value(said["first"]) :].contiguous()
        sizes.append(len(table.encodings))
    return min(sizes)


def vocabulary_of(folder: Path, size: int) -> tuple[list[str], Tokenizer]:
    """The names of a tokenizer's tokens, and the tokenizer. Raises CheckpointError where there is none, or where no
    token ends a text."""
    tokenizer, state = tokenizer_of(folder, size)
    if tokenizer.end_of_document is None:
        what = f"{folder.name}: its tokenizer has no token that ends a text, and {PROGRAM} needs one"
        raise CheckpointError(f"{what}; train another: --tokenizer bpe", brief="no token ends a text")
    return names_of(tokenizer, state, size), tokenizer


def marks_of(source: list[str], read: Tokenizer, target: list[str], written: Tokenizer) -> dict[str, Any]:
    """The tokens that stand around a source and before a target, as CTranslate2's configuration names them. Raises
    CheckpointError for more than it has: one before and one after a source, one before a target, one end for both."""
    end = target[written.end_of_document or 0]
    before, after = ([source[number] for number in side] for side in read.marks.source)
    begin = [target[number] for number in written.marks.target] or [end]
    if len(before) > 1 or after not in ([], [end]) or len(begin) > 1:
        what = f"a source stands between {before} and {after}, and a target begins with {begin} and ends with {end}"
        why = f"{what}; {PROGRAM} has one token for each, and the same end for both"
        raise CheckpointError(why, brief="marks around a source")
    marks = {"unk_token": end, "eos_token": end, "decoder_start_token": begin[0], "bos_token": (before or begin)[0]}
    return {**marks, "add_source_bos": bool(before), "add_source_eos": bool(after)}
