"""Minutes of load: clients that are killed, slow readers, huge bodies, malformed requests beside good ones.

Memory stays flat, no thread is left, and every request is answered or refused. LOAD_SECONDS says for how long, by
default a minute.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.conftest import waiting_for

SECONDS = float(os.environ.get("LOAD_SECONDS", "60"))
CLIENTS, GROWTH = 24, 0.1  # of the memory that it had when all was warm, beside what prefixes are kept in
JSON = {"Content-Type": "application/json"}


def of_process(number: int, name: str) -> int:
    """Threads, or VmRSS in KiB, of a process."""
    text = Path(f"/proc/{number}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+)", text, re.M)
    assert found
    return int(found[1])


class Clients:
    """Clients of all kinds, and what they got."""

    def __init__(self, address: str) -> None:
        self.address, self.got = address, Counter[str]()
        self.known: dict[int, str] = {}
        self.lock = threading.Lock()
        self.kinds: list[Callable[[random.Random], str]] = [
            self.good, self.good, self.good, self.stream, self.classify, self.leaves, self.reads_slowly, self.huge,
            self.malformed, self.half,
        ]  # fmt: skip

    def one(self, seed: int, until: float) -> None:
        rng = random.Random(seed)
        while time.monotonic() < until:
            what = rng.choice(self.kinds)(rng)
            with self.lock:
                self.got[what] += 1

    def post(self, path: str, body: Any, **given: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return httpx.post(self.address + path, content=content, headers=JSON, **{"timeout": 60, **given})

    def body(self, seed: int) -> dict[str, Any]:
        return {"model": "writer", "prompt": "the quick brown"[: 1 + seed % 15], "seed": seed, "max_tokens": 30}

    def good(self, rng: random.Random) -> str:
        """The same request has the same text each time."""
        seed = rng.randrange(50)
        answer = self.post("/v1/completions", self.body(seed))
        if answer.status_code != 200:
            return f"good {answer.status_code}"
        text = answer.json()["choices"][0]["text"]
        with self.lock:
            assert self.known.setdefault(seed, text) == text
        return "good 200"

    def stream(self, rng: random.Random) -> str:
        answer = self.post("/v1/completions", {**self.body(rng.randrange(50)), "stream": True})
        return f"stream {answer.status_code} {answer.text.endswith('data: [DONE]' + chr(10) * 2)}"

    def classify(self, rng: random.Random) -> str:
        inputs = ["red", "blue a"] * rng.randrange(1, 20)
        return f"classify {self.post('/v1/predict', {'model': 'labels', 'inputs': inputs}).status_code}"

    def leaves(self, rng: random.Random) -> str:
        with httpx.Client(timeout=60) as client:
            body = {**self.body(1), "max_tokens": 3000, "stream": True}
            with client.stream("POST", self.address + "/v1/completions", json=body) as answer:
                for _ in zip(range(rng.randrange(3)), answer.iter_lines(), strict=False):
                    pass
                return f"leaves {answer.status_code}"

    def connection(self, content: bytes) -> socket.socket:
        host, port = self.address.removeprefix("http://").split(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.sendall(content)
        return connection

    def reads_slowly(self, rng: random.Random) -> str:
        body = json.dumps({**self.body(2), "max_tokens": 200, "stream": True}).encode()
        head = (
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close"
        )
        received = b""
        with self.connection(head + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body) as connection:
            while piece := connection.recv(997):
                received += piece
                time.sleep(0.01)
        return f"slowly {received[9:12].decode()}"

    def huge(self, rng: random.Random) -> str:
        answer = self.post("/v1/completions", b'{"prompt": "' + b"a" * rng.choice([70_000, 300_000]) + b'"}')
        return f"huge {answer.status_code}"

    def malformed(self, rng: random.Random) -> str:
        content = rng.choice([b"{", b"\xff", b"[" * 9000, b'{"prompt": 5}', b'{"prompt": "a", "n": 0}', b'"'])
        return f"malformed {self.post('/v1/completions', content).status_code}"

    def half(self, rng: random.Random) -> str:
        with self.connection(b"POST /v1/predict HTTP/1.1\r\nContent-Length: 90\r\n\r\n{"[: rng.randrange(60)]):
            pass
        return "half"


@pytest.mark.slow
def test_minutes_of_load(folders: dict[str, Path]) -> None:
    named = [f"{name}={folders[name]}" for name in ("writer", "labels")]
    options = ["--port", "0", "--json", "--rows", "8", "--queue", "6", "--max-body", "65536", "--prefix-memory", "4"]
    command = [sys.executable, "-m", "transformula", "serve", *named, *options, "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = ""
        while not said.endswith("\n}\n"):
            said += process.stdout.readline()
        clients = Clients(json.loads(said)["address"])
        waiting_for(lambda: httpx.get(clients.address + "/readyz").status_code == 200)

        def load(seconds: float) -> None:
            until = time.monotonic() + seconds
            with ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(lambda seed: clients.one(seed, until), range(CLIENTS)))

        load(SECONDS / 3)  # what is made once has been made
        before, threads = of_process(process.pid, "VmRSS"), of_process(process.pid, "Threads")
        load(SECONDS)
        waiting_for(lambda: 'running{model="writer"} 0.0' in httpx.get(clients.address + "/metrics").text)
        after = of_process(process.pid, "VmRSS")
        print(dict(sorted(clients.got.items())), f"{before / 1024:.0f} MiB, then {after / 1024:.0f} MiB")
        assert after < (1 + GROWTH) * before
        assert of_process(process.pid, "Threads") <= threads + 2, "a few that the event loop keeps"
        statuses = {what.split()[1] for what in clients.got if " " in what}
        assert statuses <= {"200", "400", "413", "429"}
        assert clients.got["good 200"] > 20 and clients.got["stream 200 True"] > 5
        assert not clients.got["stream 200 False"] and clients.got["huge 413"]
    finally:
        process.terminate()
        assert process.wait(60) is not None
