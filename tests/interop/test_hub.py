"""Models of the hub: the real huggingface_hub fetches from a hub on the loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.data.hub_server import HubServer, Repository, point_to
from transformula import Model, load, train
from transformula.api.exporting import export
from transformula.cli import main
from transformula.errors import CheckpointError, InputError, RunError
from transformula.interop.folder import load_model
from transformula.interop.hub import hub_folder
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
        "someone/hears": Repository(files(folder, **{"preprocessor_config.json": b"{}"})),
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


def test_how_pictures_and_sounds_become_numbers_is_fetched_too(hub: HubServer) -> None:
    assert (hub_folder("hf:someone/hears") / "preprocessor_config.json").read_bytes() == b"{}"


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


@pytest.fixture
def login(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.logins["hf_mine"] = "me"
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sent")
    (path / "text.txt").write_text("the cat sees the bird. " * 200)
    train(
        "x = x + 2 * attention(norm(x))", data=str(path / "text.txt"), tokenizer="bytes", steps=1, batch=2, depth=1,
        width=16, heads=2, context=16, out=path / "own", quiet=True,
    )  # fmt: skip
    return path


def test_a_folder_is_sent_and_read_by_its_name(
    login: None, hub: HubServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of transformers; a second time what is no longer of it is taken away, and what is of others stays."""
    assert main(["export", str(folder), "--to", "transformers", "--out", "hf:me/first"]) == 0
    sent = hub.repositories["me/first"]
    assert capsys.readouterr().out.strip() == f"sent hf:me/first@{sent.sha}" and hub.private == {"me/first": True}
    assert {"config.json", "model.safetensors", "README.md", ".gitattributes"} <= sent.files.keys()
    assert same(load("hf:me/first").module, load_model(folder)[0])
    hub.repositories["me/first"] = Repository({**sent.files, "notes.md": b"mine"})
    assert main(["export", str(folder), "--to", "transformula", "--out", "hf:me/first"]) == 0
    files = hub.repositories["me/first"].files
    assert "config.json" not in files and files["notes.md"] == b"mine" and "model.yaml" in files
    assert same(load("hf:me/first").module, load_model(folder)[0])


def test_a_formula_of_ones_own_is_sent_too(login: None, hub: HubServer, run: Path) -> None:
    name = export(run / "own", "hf:me/own", to="transformula", public=True)
    assert hub.private == {"me/own": False}
    model, sent = Model.from_folder(run / "own"), load(str(name))
    assert same(sent.module, model.module)
    assert sent.generate("the ", max_tokens=3) == model.generate("the ", max_tokens=3)


def test_what_others_wrote_there_is_not_replaced(login: None, hub: HubServer, folder: Path) -> None:
    before = hub.repositories["me/theirs"] = Repository({"config.json": b"{}"})
    with pytest.raises(InputError, match="hf:me/theirs: config.json is there, and this program did not write it"):
        export(folder, "hf:me/theirs", to="transformers")
    assert hub.repositories["me/theirs"] is before


UNSENT: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no name": ({"out": "hf:mine"}, InputError, "expected hf:OWNER/NAME"),
    "revision": ({"out": "hf:me/one@main"}, InputError, "without a revision"),
    "format": ({"to": "pytorch"}, InputError, "is not read at the hub, as transformers, transformula, peft are"),
    "of another": ({"out": "hf:other/one"}, RunError, "hf:other/one: could not be sent"),
    "public folder": ({"out": "folder", "public": True}, InputError, "is for what is sent to the hub"),
}


@pytest.mark.parametrize("why", UNSENT)
def test_what_is_not_sent(why: str, login: None, hub: HubServer, folder: Path) -> None:
    given, kind, said = UNSENT[why]
    with pytest.raises(kind, match=said):
        export(folder, **{"out": "hf:me/one", "to": "transformers", **given})
    assert not hub.private


def test_nobody_is_logged_in(hub: HubServer, folder: Path) -> None:
    with pytest.raises(InputError, match="nobody is logged in to the hub; do so with `hf auth login`"):
        export(folder, "hf:me/one", to="transformers")


def test_a_hub_that_fails_while_it_is_sent(login: None, hub: HubServer, folder: Path) -> None:
    """Nothing is there then: a commit is whole, or not made. The same again works."""
    hub.fail("api:commit", *[503] * 40)
    with pytest.raises(RunError, match="hf:me/one: could not be sent"):
        export(folder, "hf:me/one", to="transformers")
    assert [*hub.repositories["me/one"].files] == [".gitattributes"]
    hub.be_well()
    assert same(load(str(export(folder, "hf:me/one", to="transformers"))).module, load_model(folder)[0])
