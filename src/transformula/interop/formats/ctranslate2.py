"""`ctranslate2`: a folder of CTranslate2, of an encoder with a decoder that it computes:
`gallery/exports/ctranslate2.yaml` says as data which those are, and what its specification calls their tensors."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import CheckpointError
from ...words.waves import waves
from ..exchange import TEXT, exporter, text_of
from ..named.exports import Export, export_of
from ..token_names import names_of, tokenizer_of

PROGRAM = "CTranslate2"
BASE = 10000.0  # of the wavelengths of sinusoids
SOURCE = "source"  # the folder of the source's tokenizer, where it has its own
TYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
NORM = {"weight": "gamma", "bias": "beta"}  # its names of what norms learn


@exporter("ctranslate2", needs=["ctranslate2"])
def write_ctranslate2(model: nn.Module, folder: Path, dtype: torch.dtype | None = None) -> None:
    """`model.bin`, `config.json` and the vocabularies, as `ctranslate2.Translator` opens them, in `dtype` or the
    model's type. A source is ended, and a target begun, by the token that ends a text. `model.yaml` stands beside them.

    Raises CheckpointError for a text that CTranslate2 does not compute, and for a folder without a tokenizer.
    """
    from ctranslate2.specs import TransformerSpec

    text = text_of(model)
    export = export_of(model, "ctranslate2")
    size = int(export.constants["vocab"])
    target, end = vocabulary_of(folder, size)
    read = int(export.constants["source_vocab"])
    source, read_end = vocabulary_of(folder / SOURCE, read) if (folder / SOURCE).is_dir() else (target, end)
    if read_end != end:
        what = f"texts that are read end with {read_end}, those that are written with {end}"
        raise CheckpointError(f"{what}, and {PROGRAM} has one end for both")
    spec = TransformerSpec(*(stack_of(export, side) for side in ("encoder", "decoder")))
    own = None
    for name, tensor in export.tensors(model):
        put(spec, name, tensor.detach().cpu().contiguous())
        own = own or TYPES.get(tensor.dtype)
    put_positions(export, spec)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token, config.decoder_start_token = end, end, end, end
    config.add_source_bos, config.add_source_eos = False, True
    config.layer_norm_epsilon = float(export.constants["eps"])
    spec.validate()
    spec.optimize(quantization=own if dtype is None else TYPES[dtype])
    spec.save(str(folder))
    (folder / TEXT).write_text(text, encoding="utf-8")


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


def put_positions(export: Export, spec: Any) -> None:
    """Tables of positions, from that of the first on."""
    said, numbers = export.said, export.constants
    for stack in (spec.encoder, spec.decoder):
        table = stack.position_encodings
        if export.value(said["waves"]):
            rows = torch.arange(numbers["context"], dtype=torch.float64)
            table.encodings = waves(rows, 0, numbers["width"], BASE, bool(export.value(said["halves"])))[0].float()
        else:
            table.encodings = table.encodings[export.value(said["first"]) :].contiguous()


def vocabulary_of(folder: Path, size: int) -> tuple[list[str], str]:
    """The names of a tokenizer's tokens, and of that which ends a text. Raises CheckpointError where there is none."""
    tokenizer, state = tokenizer_of(folder, size)
    names = names_of(tokenizer, state, size)
    if tokenizer.end_of_document is None:
        what = f"{folder.name}: its tokenizer has no token that ends a text, and {PROGRAM} needs one"
        raise CheckpointError(f"{what}; train another: --tokenizer bpe")
    return names, names[tokenizer.end_of_document]
