"""Low-rank adapters of one model, chosen by request: each text is that of the model with the adapter merged."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from openai import NotFoundError

from tests.serving.conftest import Server, running, waiting_for, writer
from transformula import Model
from transformula.cli import main
from transformula.errors import CheckpointError, InputError, UnknownName
from transformula.interop.peft import write_adapter
from transformula.interop.weights import load_tensors
from transformula.serving.models import Served, adapted

NAMES = ("base", "polite", "brief", "odd")


def adapter(base: Path, folder: Path, seed: int) -> Path:
    """An adapter of random numbers of some matrices."""
    tensors = load_tensors(base / "weights.safetensors")
    draw = torch.Generator().manual_seed(seed)
    changed = dict(tensors)
    for name, tensor in tensors.items():
        if name.endswith(("query.weight", "up.weight")):
            rows, columns = tensor.shape
            changed[name] = tensor + torch.randn(rows, 2, generator=draw) @ torch.randn(2, columns, generator=draw) / 2
    folder.mkdir(parents=True)
    write_adapter(folder, tensors, changed, 2, "base")
    return folder


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("adapters")
    base = writer(place / "base")
    return {"base": base, **{name: adapter(base, place / name, seed) for seed, name in enumerate(NAMES[1:])}}


@pytest.fixture(scope="module")
def expected(places: dict[str, Path]) -> dict[str, str]:
    models = {
        name: Model.from_folder(places["base"], adapter=None if name == "base" else place)
        for name, place in places.items()
    }
    return {name: model.generate("a ", max_tokens=24, temperature=0.0) for name, model in models.items()}


def options(places: dict[str, Path]) -> list[str]:
    return [f"{name}={places[name]}" for name in NAMES[1:]]


@pytest.fixture(scope="module")
def server(places: dict[str, Path]) -> Iterator[Server]:
    with running({"base": places["base"]}, adapters=options(places), max_adapters=2) as server:
        yield server


def write(client: Any, name: str) -> str:
    answer = client.completions.create(model=name, prompt="a ", max_tokens=24, temperature=0)
    return str(answer.choices[0].text)


def test_each_request_gets_its_adapter(server: Server, expected: dict[str, str]) -> None:
    assert len({*expected.values()}) == 4, "adapters change what is written"
    client = server.client()
    asked = [name for _ in range(6) for name in NAMES]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda name: write(client, name), asked))
    assert texts == [expected[name] for name in asked]
    assert write(client, "") == expected["base"], "without a name the model itself answers"
    with pytest.raises(NotFoundError, match="did you mean polite"):
        write(client, "polit")


def test_what_no_adapter_changes_is_in_memory_once(server: Server) -> None:
    assert write(server.client(), "polite")
    models = server.models.by_name
    base, own = (dict(models[name].worker.model.module.named_parameters()) for name in ("base", "polite"))  # type: ignore[union-attr]
    alone = {name for name in own if own[name].data_ptr() != base[name].data_ptr()}
    assert len(alone) == 4 and all(name.endswith(("query.weight", "up.weight")) for name in alone)


def test_the_least_recently_used_leaves(server: Server, expected: dict[str, str]) -> None:
    client, models = server.client(), server.models.by_name
    for name in NAMES[1:]:
        assert write(client, name) == expected[name]
    waiting_for(lambda: [models[name].state for name in NAMES] == ["ready", "unloaded", "ready", "ready"])
    assert write(client, "polite") == expected["polite"]
    waiting_for(lambda: [models[name].state for name in NAMES] == ["ready", "ready", "unloaded", "ready"])
    assert server.get("/readyz").status_code == 200


def test_clients_see_what_is_an_adapter_of_what(server: Server) -> None:
    cards = {card["id"]: card for card in server.get("/v1/models").json()["data"]}
    assert {name: cards[name].get("parent") for name in NAMES} == {"base": None, **dict.fromkeys(NAMES[1:], "base")}


def test_how_an_adapter_is_named(places: dict[str, Path], tmp_path: Path) -> None:
    one, two = Served("one", places["base"]), Served("two", places["base"])
    place = str(places["polite"])
    assert adapted(place, [one]).name == "polite" and adapted(f"kind={place}", [one]).name == "kind"
    assert adapted(f"kind=two+{place}", [one, two]).base is two
    with pytest.raises(InputError, match="of which model. one, two; say adapter=polite=MODEL"):
        adapted(place, [one, two])
    with pytest.raises(UnknownName, match="did you mean two"):
        adapted(f"kind=tow+{place}", [one, two])
    with pytest.raises(CheckpointError, match="is no adapter"):
        adapted(str(tmp_path), [one])


def test_two_of_one_name_are_refused(places: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    given = ["serve", f"polite={places['base']}", "--adapter", str(places["polite"]), "--port", "0"]
    assert main(given) == 2
    said = capsys.readouterr().err
    assert "two models are named polite" in said and str(places["polite"]) in said
