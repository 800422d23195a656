"""Models of the Hugging Face hub by their names.

    hf:OWNER/NAME             as it is now
    hf:OWNER/NAME@REVISION    as it was at a commit, a branch or a tag

What a folder of transformers is read by is fetched into the hub's own cache on this machine: config.json, safetensors,
the files of the tokenizer and of sentence-transformers; or a folder of ours, with model.yaml; never code, nor pickles.
With `HF_HUB_OFFLINE=1` the cache alone is read.

A folder is sent there under the user's own login, which `hf auth login` makes; see `send_folder`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, InputError, RunError
from ..ownership import MARKER, marked_files, names_in

PREFIX = "hf:"
NAME = re.compile(r"hf:(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w./-]+))?")
WANTED = (
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "model-*-of-*.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", "vocab.txt", "vocab.json", "merges.txt", "spiece.model",
    "tokenizer.model", "sentencepiece.bpe.model", "source.spm", "spm.model", "modules.json",
    "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json",
    "adapter_config.json", "adapter_model.safetensors", "model.yaml", "preprocessor_config.json",
)  # fmt: skip
"""Files that are read, as patterns."""
OURS = ("*.json", "*.yaml", "*.safetensors")  # of a folder of ours, beside these
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors", "weights.safetensors")
FETCHED = (
    "could not be fetched",
    "see that the network and the hub work, or name a folder that you copied; HF_HUB_OFFLINE=1 reads the cache",
)
SENT = (
    "could not be sent",
    "see that you may write there, and that the network and the hub work; a commit is whole or not made, so try again",
)
KEPT = (".gitattributes",)  # files of the hub's own


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
        if (folder / "model.yaml").is_file():
            wanted = [*WANTED, *OURS]
            folder = Path(snapshot_download(repository, revision=folder.name, allow_patterns=wanted))
    except Exception as error:  # the library raises errors of many kinds, and those of what it is made of
        raise explained(str(name), error) from error
    if not any((folder / file).is_file() for file in ("config.json", "adapter_config.json", "model.yaml")):
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


def check_login(name: str) -> None:
    """Raise InputError where a model of that name cannot be sent to the hub: no such name, or nobody is logged in."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import LocalTokenNotFoundError

    if parts_of(name)[1] is not None:
        raise InputError(f"{name}: a model is sent to hf:OWNER/NAME, without a revision; the commit is named then")
    try:
        HfApi().whoami()
    except LocalTokenNotFoundError:
        remedy = "do so with `hf auth login`, or set HF_TOKEN"
        raise InputError(f"{name}: nobody is logged in to the hub; {remedy}") from None
    except Exception as error:
        raise explained(name, error, *SENT) from error


def send_folder(folder: Path, name: str, public: bool = False) -> str:
    """Send a folder that this program wrote to the hub, as one commit, under the user's login; its name there, with the
    commit. A repository that is not there is made, private unless it is to be `public`. What this program sent there
    before is replaced, other files stay.

    Raises InputError for a name that is none, for no login, and where a file of others would be replaced; RunError
    where the hub does not take it.
    """
    from huggingface_hub import HfApi

    check_login(name)
    api, (repository, _) = HfApi(library_name="transformula"), parts_of(name)
    try:
        api.create_repo(repository, private=not public, exist_ok=True)
        there = set(api.list_repo_files(repository)) - {*KEPT}
        before = files_sent(api, repository, there)
    except Exception as error:
        raise explained(name, error, *SENT) from error
    new = {*names_in(folder)}
    if foreign := sorted((there & new) - before):
        what = f"{name}: {foreign[0]} is there, and this program did not write it"
        raise InputError(f"{what}; name a repository of its own, which is made, or take the file away there")
    try:
        stale = sorted((before & there) - new)
        message = "Upload a model of transformula"
        info = api.upload_folder(
            repo_id=repository, folder_path=folder, commit_message=message, delete_patterns=stale or None
        )
    except Exception as error:
        raise explained(name, error, *SENT) from error
    return f"{PREFIX}{repository}@{info.oid}"


def files_sent(api: Any, repository: str, there: Collection[str]) -> frozenset[str]:
    """The files of a repository that this program sent there, by the marker in it."""
    if MARKER not in there:
        return frozenset()
    with tempfile.TemporaryDirectory() as folder:
        api.hf_hub_download(repository, MARKER, local_dir=folder)
        return marked_files(Path(folder))


def explained(name: str, error: Exception, failed: str = FETCHED[0], remedy: str = FETCHED[1]) -> InputError | RunError:
    """What an error of the hub's library means, and what to do: what could not be done, and what helps."""
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
    return RunError(f"{name}: {failed} ({short[:200]}); {remedy}")
