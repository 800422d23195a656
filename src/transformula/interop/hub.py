"""Models of the Hugging Face hub by their names.

    hf:OWNER/NAME             as it is now
    hf:OWNER/NAME@REVISION    as it was at a commit, a branch or a tag

What a folder of transformers is read by is fetched into the hub's own cache on this machine: config.json, safetensors,
the files of the tokenizer and of sentence-transformers; never code, nor pickles. With `HF_HUB_OFFLINE=1` the cache
alone is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, InputError, RunError

PREFIX = "hf:"
NAME = re.compile(r"hf:(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w./-]+))?")
WANTED = (
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "model-*-of-*.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "vocab.txt", "vocab.json", "merges.txt", "spiece.model",
    "tokenizer.model", "sentencepiece.bpe.model", "source.spm", "spm.model", "modules.json",
    "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json",
    "adapter_config.json", "adapter_model.safetensors",
)  # fmt: skip
"""Files that are read, as patterns."""
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors")


def is_hub_name(name: Any) -> bool:
    """Whether a model is named as one of the hub."""
    return isinstance(name, (str, Path)) and str(name).startswith(PREFIX)


def parts_of(name: str | Path) -> tuple[str, str | None]:
    """The repository and the revision, None for none. Raises InputError for a name of another form."""
    parts = NAME.fullmatch(str(name))
    if parts is None:
        raise InputError(f"{name}: expected hf:OWNER/NAME, or hf:OWNER/NAME@REVISION with a commit, a branch or a tag")
    return parts["repository"], parts["revision"]


def hub_folder(name: str | Path) -> Path:
    """The folder on this machine with the files of a model of the hub, which are fetched where they are not there.

    Raises InputError for a name that the hub does not know, RunError where it does not answer, CheckpointError for a
    repository without what is read.
    """
    from huggingface_hub import snapshot_download

    repository, revision = parts_of(name)
    try:
        folder = Path(snapshot_download(repository, revision=revision, allow_patterns=list(WANTED)))
    except Exception as error:  # the library raises errors of many kinds, and those of what it is made of
        raise explained(str(name), error) from error
    if not (folder / "config.json").is_file() and not (folder / "adapter_config.json").is_file():
        raise CheckpointError(f"{name}: the repository has no config.json; expected a model in transformers' layout")
    if not any((folder / file).is_file() for file in WEIGHTS):
        what = f"{name}: the repository has no safetensors, and pickles, which can run code, are not read"
        remedy = "where you trust it: AutoModel.from_pretrained(NAME).save_pretrained(FOLDER), then name FOLDER"
        raise CheckpointError(f"{what}; {remedy}")
    return folder


def local_folder(name: str | Path) -> Path:
    """The folder of that name, or to which a model of the hub was fetched."""
    return hub_folder(name) if is_hub_name(name) else Path(name).expanduser()


def pinned(name: str | Path) -> str:
    """The name with the commit that it stands for now. Errors as of `hub_folder`."""
    return f"{PREFIX}{parts_of(name)[0]}@{hub_folder(name).name}"


def explained(name: str, error: Exception) -> InputError | RunError:
    """What an error of the hub's library means, and what to do."""
    from huggingface_hub import errors

    kinds: list[tuple[type[Exception], str]] = [
        (errors.GatedRepoError, "its owner wants you to ask: do so at its page, then log in with `hf auth login`"),
        (errors.RepositoryNotFoundError, "the hub knows no such model, or it is private: see its spelling, or log in"
         " with `hf auth login`"),
        (errors.RevisionNotFoundError, "it has no such commit, branch or tag"),
    ]  # fmt: skip
    for kind, what in kinds:
        if isinstance(error, kind):
            return InputError(f"{name}: {what}")
    said = str(error).strip().splitlines()
    short = f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    remedy = "see that the network and the hub work, or name a folder that you copied; HF_HUB_OFFLINE=1 reads the cache"
    return RunError(f"{name}: could not be fetched ({short[:200]}); {remedy}")
