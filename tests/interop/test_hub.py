"""Models of the hub: the real huggingface_hub fetches from a hub on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.data.hub_server import HubServer, Repository, point_to
from transformula import Model, load, train
from transformula.cli import main
from transformula.errors import CheckpointError, InputError, RunError
from transformula.interop.folder import load_model
from transformula.structured import load_yaml

pytest.importorskip("transformers")
pytest.importorskip("datasets")

NAME = "hf:openai-community/gpt2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of bytes."""
    import transformers

    path = tmp_path_factory.mktemp("tiny") / "gpt2"
    sizes = {"vocab_size": 257, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(path)
    return path


def files(folder: Path, **more: bytes) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} | more


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    code = {"modeling.py": b"raise SystemExit", "pytorch_model.bin": b"pickle", "flax_model.msgpack": b"large"}
    repositories = {
        "openai-community/gpt2": Repository(files(folder, **code), revisions=("main", "v1")),
        "someone/gated": Repository(files(folder), gated="hf_mine"),
        "someone/pickles": Repository({"config.json": b"{}", "pytorch_model.bin": b"pickle"}),
        "someone/none": Repository({"README.md": b"# a data set"}),
    }
    with HubServer(repositories) as server:
        point_to(server, monkeypatch, tmp_path / "cache")
        yield server
        assert not server.unknown


def same(one: Any, other: Any) -> bool:
    tensors, others = one.state_dict(), other.state_dict()
    return tensors.keys() == others.keys() and all(torch.equal(tensors[key], others[key]) for key in tensors)


@pytest.mark.parametrize("name", [NAME, f"{NAME}@v1"])
def test_a_model_of_the_hub_is_that_of_its_folder(name: str, hub: HubServer, folder: Path) -> None:
    expected, _ = load_model(folder)
    assert same(load(name).module, expected) and same(Model.from_folder(name).module, expected)
    fetched = {line.rpartition("/")[2] for line in hub.asked if line.startswith("GET") and "resolve" in line}
    assert fetched == {"config.json", "generation_config.json", "model.safetensors"}  # no code, no pickle


def test_it_is_imported_as_a_folder_is(hub: HubServer, folder: Path, tmp_path: Path) -> None:
    assert main(["import", NAME, "--format", "transformers", "--out", str(tmp_path / "ours")]) == 0
    assert same(load(tmp_path / "ours").module, load_model(folder)[0])


def test_what_was_fetched_is_read_from_the_cache(hub: HubServer, folder: Path) -> None:
    load(NAME)
    before = sum("resolve" in line for line in hub.asked.elements())
    load(NAME)
    assert sum("resolve" in line for line in hub.asked.elements()) == before


def test_a_run_records_the_commit_that_it_began_with(hub: HubServer, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sees the bird. " * 200)
    out = tmp_path / "run"
    train(init_from=NAME, data=str(text), tokenizer="bytes", steps=2, batch=2, out=out, quiet=True)
    commit = hub.repositories["openai-community/gpt2"].sha
    assert load_yaml(out / "config.yaml")["init_from"] == f"{NAME}@{commit}"


MISTAKES = {
    "hf:gpt2": (InputError, "hf:gpt2: expected hf:OWNER/NAME"),
    "hf:someone/unknown": (InputError, "the hub knows no such model, or it is private"),
    f"{NAME}@v9": (InputError, "it has no such commit, branch or tag"),
    "hf:someone/gated": (InputError, "its owner wants you to ask"),
    "hf:someone/pickles": (CheckpointError, "no safetensors, and pickles, which can run code, are not read"),
    "hf:someone/none": (CheckpointError, "the repository has no config.json"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_cannot_be_had(name: str, hub: HubServer) -> None:
    kind, said = MISTAKES[name]
    with pytest.raises(kind, match=said):
        load(name)


def test_a_hub_that_is_gone(hub: HubServer) -> None:
    hub.fail("model.safetensors", *["drop"] * 40)
    with pytest.raises(RunError, match=f"{NAME}: could not be fetched"):
        load(NAME)
