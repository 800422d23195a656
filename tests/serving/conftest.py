"""A server in this process, with small models of random weights, and OpenAI's own client."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from openai import OpenAI

from tests.api.test_exporting import LABELED, PAIRS, trained
from transformula import Model
from transformula.serving.app import application
from transformula.serving.models import Models, Served, adapted
from transformula.serving.server import listen
from transformula.serving.settings import ServeSettings
from transformula.tokenizers.characters import Characters

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJ0123456789.,:;!?-_'\"{}[]()\\/+\n"
LAYER = "x = x + attention(norm(x), rotary=10000)\nx = x + mlp(norm(x))"


def writer(folder: Path, **numbers: int) -> Path:
    """A model that goes on with texts, a character at a time."""
    sizes = {"width": 32, "heads": 2, "depth": 2, "context": 256, "seed": 5, **numbers}
    model = Model(LAYER, tokenizer=Characters.train([ALPHABET]), **sizes)
    model.save(folder)
    return folder


def learned(folder: Path) -> Path:
    """A model that has learned 32 positions."""
    text = LAYER.replace(", rotary=10000", "")
    model = Model(text, tokenizer=Characters.train([ALPHABET]), width=16, heads=2, depth=1, context=32, seed=5)
    model.save(folder)
    return folder


def chatter(folder: Path) -> Path:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {n}?"},
                {"role": "assistant", "content": f"It is {n}." + n * " Yes."},
            ]
        }
        for n in range(40)
    ]
    return Path(trained(folder, "dialogue", rows, tokenizer="bytes", model=LAYER)[0])


@pytest.fixture(scope="package")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {name: tmp_path_factory.mktemp(name) for name in ("writer", "chat", "labels", "vectors")}
    return {
        "writer": writer(made["writer"] / "model"),
        "chat": chatter(made["chat"]),
        "labels": Path(trained(made["labels"], "classification", LABELED, tokenizer="bytes", max_tokens=20)[0]),
        "vectors": Path(trained(made["vectors"], "sentence-embeddings", PAIRS, tokenizer="bytes")[0]),
    }


class Server:
    """A server that runs."""

    def __init__(self, address: str, models: Models, server: uvicorn.Server) -> None:
        self.address, self.models, self.server = address, models, server

    def client(self, **given: Any) -> OpenAI:
        return OpenAI(base_url=f"{self.address}/v1", **{"api_key": "none", "max_retries": 0, "timeout": 60, **given})

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers}
        return httpx.post(self.address + path, content=content, headers=sent, timeout=60)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.address + path, headers=headers, timeout=60)


@contextmanager
def running(
    folders: dict[str, Path], lazy: bool = False, adapters: Sequence[str] = (), reward: Served | None = None,
    **given: Any,
) -> Iterator[Server]:  # fmt: skip
    settings = ServeSettings.read({"port": 0, **given})
    named = [Served(name, folder) for name, folder in folders.items()]
    models = Models([*named, *(adapted(each, named) for each in adapters)], settings, reward)
    listening = listen(settings)
    config = uvicorn.Config(application(models, settings, lazy), log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    host, port = listening.getsockname()[:2]
    try:
        waiting_for(lambda: server.started and (lazy or models.ready))
        yield Server(f"http://{host}:{port}", models, server)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def waiting_for(true: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "this never became true"
        time.sleep(0.01)


@pytest.fixture(scope="package")
def server(folders: dict[str, Path]) -> Iterator[Server]:
    with running(folders, rows=8) as server:
        yield server


@pytest.fixture(scope="package")
def client(server: Server) -> OpenAI:
    return server.client()
