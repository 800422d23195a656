"""What lies beside the weights of a folder of transformers, and what config.json says of it: the tokenizer, in a file
that the tokenizers library reads, the ids of its special tokens, and the names of classes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers as library

from ...structured import load_json
from ...tokenizers.base import END, FILE, Tokenizer, load
from ..exchange import PIPELINE

CONFIG = "tokenizer_config.json"
PREDICTOR = "predictor.json"
SPECIAL = ("pad", "bos", "eos", "unk", "sep", "cls", "mask")


def companion_keys(folder: Path, stacks: int) -> dict[str, Any]:
    """Keys of config.json that the files of a folder say: `eos_token_id`, `id2label`, ...

    A tokenizer of bytes is written in the library's form, with `tokenizer_config.json` beside it, so that AutoTokenizer
    opens it. One of characters stays as it is: it refuses what it does not know, and here a tokenizer of the library is
    read only if it knows each text. stacks: of the model.
    """
    keys = labels(folder)
    if not (folder / FILE).is_file():
        return keys
    tokenizer = load(folder)
    state = load_json(folder / FILE)
    if state.get("kind") == "bytes":
        tokenizer.in_library().save(str(folder / FILE))
    if tokenizer.end_of_document is not None:
        keys["eos_token_id"] = tokenizer.end_of_document
    if "model" in state or state.get("kind") == "bytes":
        if not (folder / CONFIG).exists():
            (folder / CONFIG).write_text(json.dumps(config_for(folder, tokenizer), indent=2) + "\n", encoding="utf-8")
        keys |= special_ids(folder)
    else:
        what = f"AutoTokenizer opens no tokenizer of {state.get('kind')}, and {FILE} stays one"
        warnings.warn(f"{what}; train with --tokenizer bpe or bytes for a folder that transformers uses", stacklevel=2)
    if stacks > 1:
        begin = tokenizer.marks.target or (
            (tokenizer.end_of_document,) if tokenizer.end_of_document is not None else ()
        )
        keys |= {"is_encoder_decoder": True, **({"decoder_start_token_id": begin[-1]} if begin else {})}
    return keys


def config_for(folder: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    """What tokenizer_config.json says of a tokenizer that was trained here: texts that hold the name of a special token
    are spelled out, and longer ones than the model reads can be cut (`truncation=True`)."""
    said: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    said |= {"eos_token": END} if tokenizer.end_of_document is not None else {}
    pipeline = load_json(folder / PIPELINE) if (folder / PIPELINE).is_file() else {}
    most = pipeline.get("most") if pipeline.get("cut") == "end" else None
    return {**said, "split_special_tokens": True, **({} if most is None else {"model_max_length": most})}


def special_ids(folder: Path) -> dict[str, int]:
    """The ids of the special tokens that a folder names."""
    backend = library.Tokenizer.from_file(str(folder / FILE))
    said: Mapping[str, Any] = load_json(folder / CONFIG)
    ids = {}
    for kind in SPECIAL:
        token = said.get(f"{kind}_token")
        name = token.get("content") if isinstance(token, dict) else token
        number = backend.token_to_id(name) if isinstance(name, str) else None
        if number is not None:
            ids[f"{kind}_token_id"] = number
    return ids


def labels(folder: Path) -> dict[str, Any]:
    """The names of the classes, as the folder's predictor has them."""
    path = folder / PREDICTOR
    names = load_json(path).get("labels") if path.is_file() else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return {}
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
    }
