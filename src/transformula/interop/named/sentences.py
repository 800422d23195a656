"""The files of sentence-transformers beside config.json: how the vectors of positions become that of a text.

    modules.json                 the steps: Transformer, Pooling, perhaps Normalize
    1_Pooling/config.json        pooling_mode_mean_tokens or pooling_mode_cls_token
    sentence_bert_config.json    max_seq_length: how many tokens are read
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import CheckpointError
from ...structured import load_json
from .entries import NamedModel

KEY = "sentence_transformers"  # what these files say, in a config.json in memory; cross-encoders have other keys there
MODULES, LIMITS, ABOUT = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
POOLING, NORMALIZE = "1_Pooling", "2_Normalize"
TYPE = "sentence_transformers.models."
STEPS = ("Transformer", "Pooling", "Normalize")
MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


def gives_vectors(model: NamedModel) -> bool:
    """Whether a named model reads what these files say."""
    return any(key.startswith(f"{KEY}.") for key in model.config)


def has_steps(folder: Path) -> bool:
    """Whether a folder is one of sentence-transformers."""
    return (folder / MODULES).is_file()


def sentence_keys(folder: Path) -> dict[str, Any]:
    """What the files of a folder say: `pooling`, `normalize`, and limits of what is read; {} where there are none.

    Raises CheckpointError for steps that the text has no form for.
    """
    path = folder / MODULES
    if not has_steps(folder):
        return {}
    modules = read(path)
    names = [str(module.get("type", "")).rpartition(".")[2] for module in modules if isinstance(module, Mapping)]
    if len(names) != len(modules) or tuple(names) not in (STEPS[:2], STEPS):
        what = f"{path}: its steps are {', '.join(names) or 'none'}; expected {' and '.join(STEPS[:2])}"
        raise CheckpointError(f"{what}, with or without {STEPS[2]}: other steps are no part of a family's text")
    if modules[0].get("path"):
        raise CheckpointError(f"{path}: the weights are in {modules[0]['path']}; expected them beside {MODULES}")
    pooling = folder / str(modules[1].get("path", POOLING)) / "config.json"
    said = read(pooling)
    chosen = [key for key, value in said.items() if key.startswith("pooling_mode_") and value]
    mode = said.get("pooling_mode") or next((name for name, key in MODES.items() if chosen == [key]), None)
    if mode not in MODES:
        what = f"{pooling}: the vector of a text is by {', '.join(chosen) or mode or 'no mode'}"
        raise CheckpointError(f"{what}; known: {', '.join(MODES.values())}, one of them")
    about = read(folder / ABOUT) if (folder / ABOUT).is_file() else {}
    if name := about.get("default_prompt_name"):
        what = f"{folder / ABOUT}: default_prompt_name is {name!r}, which stands before each text"
        raise CheckpointError(f"{what}; expected null: write it before texts yourself")
    limits = read(folder / LIMITS) if (folder / LIMITS).is_file() else {}
    kept = {key: limits[key] for key in ("max_seq_length", "do_lower_case") if limits.get(key)}
    return {KEY: {"pooling": mode, "normalize": len(names) == len(STEPS), **kept}}


def read(path: Path) -> Any:
    try:
        return load_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); copy the folder again") from None


def write_sentence_files(folder: Path, said: Mapping[str, Any], width: int) -> None:
    """Write them; `said` is what `sentence_keys` gives."""
    steps = STEPS if said.get("normalize") else STEPS[:2]
    paths = ["", POOLING, NORMALIZE]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": TYPE + step}
        for n, (step, path) in enumerate(zip(steps, paths, strict=False))
    ]
    mode = said.get("pooling", "mean")
    limits = {"max_seq_length": said.get("max_seq_length"), "do_lower_case": bool(said.get("do_lower_case"))}
    about: dict[str, Any] = {"similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None}
    files = {
        MODULES: modules,
        LIMITS: limits,
        ABOUT: about,
        f"{POOLING}/config.json": {"word_embedding_dimension": width} | {MODES[name]: name == mode for name in MODES},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if len(steps) == len(STEPS):
        (folder / NORMALIZE).mkdir(exist_ok=True)
