"""A hub that means ill, or is ill: whatever it answers, reading ends in an error that says so, in bounded time; nothing
is written beside the cache, and nothing that is not whole is left in it."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.hub_server import HubServer, Repository, fineweb_edu, point_to, silence
from transformula.data.corpus import read_corpus
from transformula.data.hub import HubSet
from transformula.errors import DataError, InputError, RunError

pytest.importorskip("datasets")

NAME = "hf:o/n:sample-10BT"
SPOKEN = "does not speak as a hub does"
GONE = "did not answer as it should"
EVERYWHERE = ("api:revision", "api:tree", "README", "000_00000")
SECRET = "hf_a_token_of_mine"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    monkeypatch.setenv("TRANSFORMULA_HUB_RETRIES", "0")
    with HubServer({"o/n": fineweb_edu(files=1)}) as server:
        point_to(server, monkeypatch, tmp_path / "hub", block=2000)
        monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
        yield server


def read(name: str = NAME) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = HubSet(name)
        return sum(len(list(known.rows(file))) for file in range(len(known.files)))


def left(folder: Path) -> list[str]:
    """The files in a folder that are not whole, and those outside of the hub's cache."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if path.suffix == ".incomplete" or path.relative_to(folder).parts[0] != "hub"]


FAULTS = [
    *((place, "loop", SPOKEN if place != "000_00000" else GONE) for place in ("api:revision", "api:tree", "000_00000")),
    *((place, fault, SPOKEN) for place in ("api:revision", "api:tree") for fault in ("html", "cut")),
    *((place, fault, GONE) for place in EVERYWHERE for fault in ("drip", "stall", "drop")),
    *(("README", fault, "Consistency check failed") for fault in ("html", "short")),
    *(("000_00000", fault, "is not a whole file") for fault in ("html", "short")),
    ("api:tree", "to file:///etc/passwd", SPOKEN),
    ("api:tree", "endless", "a listing of more than 20 pages"),
]


@pytest.mark.parametrize(("place", "fault", "said"), FAULTS)
def test_whatever_it_answers_an_error_says_so(
    hub: HubServer, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, place: str, fault: str, said: str
) -> None:
    point_to(hub, monkeypatch, tmp_path / "hub", block=2000, timeout=silence() / 5)
    monkeypatch.setattr("transformula.data.hub_guard.PAGES", 20)
    hub.fail(place, *[fault] * 200)
    with pytest.raises((RunError, DataError), match=said) as error:
        read()
    assert NAME in str(error.value) and hub.faulted and hub.unknown == []
    assert left(tmp_path) == [] and not any(cache.iterdir())
    hub.be_well()
    point_to(hub, monkeypatch, tmp_path / "hub")
    assert read() == 40, "it can be read when the hub is well"


@pytest.mark.parametrize("place", EVERYWHERE)
def test_what_follows_an_answer_is_not_read(hub: HubServer, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server hangs up after it; a client that has just sent its next request on that connection sends it again."""
    monkeypatch.setenv("TRANSFORMULA_HUB_RETRIES", "5")
    hub.fail(place, *["long"] * 20)
    assert read() == 40 and hub.faulted


def test_a_token_is_not_shown_to_another_host(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hub sends clients to the machines that keep its files; these see no token."""
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with HubServer({"o/n": fineweb_edu(files=1)}) as other:
        place = f"{other.url.replace('127.0.0.1', 'localhost')}/datasets/o/n/resolve/main/sample/10BT/000_00000.parquet"
        hub.fail("000_00000", *[f"to {place}"] * 20)
        assert read() == 40
        assert other.tokens and set(other.tokens) == {None}
        assert f"Bearer {SECRET}" in hub.tokens


def head(path: str) -> bytes:
    configs = [{"config_name": "default", "data_files": [{"split": "train", "path": path}]}]
    return f"---\n{json.dumps({'configs': configs})}\n---\n".encode()


@pytest.mark.parametrize("place", ["{secret}", "file://{secret}", "../../../../../../../..{secret}", "{url}/a.jsonl"])
def test_a_data_set_reads_no_file_but_its_own(hub: HubServer, tmp_path: Path, place: str) -> None:
    """The head of a data set names its files: it may name any of this machine, or any address that this one can ask."""
    secret = tmp_path / "hub" / "secret.jsonl"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text('{"text": "a secret"}\n')
    path = place.format(secret=secret, url="hf://datasets/o/n")
    files = {"README.md": head(path), "a.jsonl": b'{"text": "a"}\n'}
    hub.repositories["o/evil"] = Repository(files)
    with pytest.raises(InputError, match="is not its own|looking for it"):
        read_corpus("hf:o/evil")
    folder = tmp_path / "hub" / "folder"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    if "secret" in place:
        with pytest.raises(InputError, match="is not its own|looking for it"):
            read_corpus(f"hf:{folder}")


@pytest.mark.parametrize("name", ["../../../evil.parquet", "/evil.parquet", "a/../../evil.parquet", "C:\\evil.parquet"])
def test_names_that_climb_out_of_a_folder_write_nothing(hub: HubServer, tmp_path: Path, name: str) -> None:
    repository = fineweb_edu(files=2)
    hub.repositories["o/n"] = Repository(
        repository.files, listed={"sample/10BT/001_00000.parquet": f"sample/10BT/{name}"}
    )
    try:
        read()
    except (RunError, DataError) as error:
        assert NAME in str(error)
    assert left(tmp_path) == [] and not list(tmp_path.parent.rglob("evil*")) and not Path("/evil.parquet").exists()


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_file_that_unpacks_to_far_more_than_it_is(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: str
) -> None:
    monkeypatch.setattr("transformula.data.lines.UNPACKED", 10**6)
    line = b'{"text": "' + b"a" * 20_000_000 + b'"}\n'
    good = "".join(json.dumps({"text": f"row {n} {n * n * 7919}"}) + "\n" for n in range(300)).encode()
    if ending == "gz":
        pack = gzip.compress
    else:
        pack = pytest.importorskip("zstandard").compress  # without it fsspec reads none
    hub.repositories["o/bomb"] = Repository({f"train.jsonl.{ending}": pack(line)})
    hub.repositories["o/good"] = Repository({f"train.jsonl.{ending}": pack(good)})
    with pytest.raises(DataError, match=f"train.jsonl.{ending}: unpacks to more than 200 times its size"):
        read("hf:o/bomb")
    assert read("hf:o/good") == 300
    assert left(tmp_path) == []
