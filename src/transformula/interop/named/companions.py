"""What lies beside the weights of a folder of transformers, and what config.json says of it: the tokenizer, in a file
that the tokenizers library reads, the ids of its special tokens, and the names of classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers as library

from ...structured import load_json
from ...tokenizers.base import END, FILE, load

CONFIG = "tokenizer_config.json"
PREDICTOR = "predictor.json"
SPECIAL = ("pad", "bos", "eos", "unk", "sep", "cls", "mask")


def companion_keys(folder: Path, stacks: int) -> dict[str, Any]:
    """Keys of config.json that the files of a folder say: `eos_token_id`, `id2label`, ...

    A tokenizer of bytes or characters is written in the library's form, with `tokenizer_config.json` beside it, so that
    AutoTokenizer opens it. stacks: of the model.
    """
    keys = labels(folder)
    if not (folder / FILE).is_file():
        return keys
    tokenizer = load(folder)
    state = load_json(folder / FILE)
    if "kind" in state:
        tokenizer.in_library().save(str(folder / FILE))
    if tokenizer.end_of_document is not None:
        keys["eos_token_id"] = tokenizer.end_of_document
    if not (folder / CONFIG).exists():
        end = {"eos_token": END} if tokenizer.end_of_document is not None else {}
        said = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **end}
        (folder / CONFIG).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    keys |= special_ids(folder)
    if stacks > 1:
        begin = tokenizer.marks.target or (
            (tokenizer.end_of_document,) if tokenizer.end_of_document is not None else ()
        )
        keys |= {"is_encoder_decoder": True, **({"decoder_start_token_id": begin[-1]} if begin else {})}
    return keys


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
