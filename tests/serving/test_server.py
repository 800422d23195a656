"""The server: every task, limits, keys, what a stranger sends, many clients at once, how it starts and stops."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from PIL import Image

from tests.api.test_exporting import LABELED, trained
from tests.api.translator import TEXT
from tests.serving.conftest import Server, running, waiting_for, writer
from tests.tasks.tones import tones, write_sound
from transformula import Model
from transformula.cli import main
from transformula.errors import ConfigError, InputError
from transformula.serving.app import ROUTES
from transformula.serving.bodies import ChatBody, CompletionBody, EmbeddingBody, PredictBody
from transformula.serving.models import Models, Served, served
from transformula.serving.openapi import BODIES, EXAMPLES
from transformula.serving.predicting import checked
from transformula.serving.server import listen
from transformula.serving.settings import KEY, ServeSettings
from transformula.tasks.classification import Classifier

# Every task ----------------------------------------------------------------------------------------------------------


def test_inputs_are_answered_as_by_the_model(server: Server, folders: dict[str, Path]) -> None:
    texts = [str(row["text"]) for row in LABELED[:20]]
    answer = server.post("/v1/predict", {"model": "labels", "inputs": texts, "settings": {"n_best": 2}}).json()
    own = Model.from_folder(folders["labels"]).predict(texts, n_best=2)
    assert [one["index"] for one in answer["results"]] == [*range(20)]
    for one, best in zip(answer["results"], own, strict=True):
        assert [each["text"] for each in one["answers"]] == [each.text for each in best]
        assert [each["score"] for each in one["answers"]] == pytest.approx([each.score for each in best], abs=1e-4)


def test_an_input_that_cannot_be_answered_has_an_error_in_its_place(server: Server) -> None:
    answer = server.post("/v1/predict", {"model": "labels", "inputs": ["red 1", 5, "red 2"]})
    results = answer.json()["results"]
    assert answer.status_code == 200 and [set(one) for one in results] == [
        {"index", "answers"}, {"index", "error"}, {"index", "answers"},
    ]  # fmt: skip
    assert "this model reads texts" in results[1]["error"]
    alone = server.post("/v1/predict", {"model": "labels", "inputs": [5]})
    assert alone.status_code == 400 and "reads texts" in alone.json()["error"]["message"]


def test_inputs_of_many_clients_share_batches(server: Server) -> None:
    worker = server.models.by_name["labels"].worker
    assert worker is not None
    before, texts = worker.counts.batches, [f"red {n}" for n in range(32)]
    ask = lambda text: server.post("/v1/predict", {"model": "labels", "inputs": [text]}).json()  # noqa: E731
    together = server.post("/v1/predict", {"model": "labels", "inputs": texts}).json()["results"]
    with ThreadPoolExecutor(16) as pool:
        alone = list(pool.map(ask, texts))
    for one, many in zip(alone, together, strict=True):
        assert one["results"][0]["answers"][0]["text"] == many["answers"][0]["text"]
    assert worker.counts.batches - before < 1 + len(texts)


def test_one_clients_mistake_is_none_of_the_others(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a predictor raises: inputs that share a batch with it are answered."""
    predict = Classifier.predict

    def strange(kind: Any, models: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        if "bad" in inputs:
            raise KeyError("bad")
        return predict(kind, models, inputs, *given, **named)

    monkeypatch.setattr(Classifier, "predict", strange)
    with running({"labels": folders["labels"]}, batch_wait=0.3) as server, ThreadPoolExecutor(8) as pool:
        texts = ["red 1", "bad", "red 2", "blue a 3"]
        answers = list(pool.map(lambda text: server.post("/v1/predict", {"inputs": [text]}), texts))
        assert [answer.status_code for answer in answers] == [200, 500, 200, 200]
        worker = server.models.by_name["labels"].worker
        assert worker is not None and worker.load == 0 and worker.counts.batches < len(texts)


def test_a_model_that_these_settings_cannot_serve_is_told(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise InputError("weights of type int8 are for models in float32 on a CPU")

    monkeypatch.setattr("transformula.engine.quicken", refused)
    with running({"writer": folders["writer"]}, lazy=True) as server:
        answer = server.post("/v1/completions", {"prompt": "a"})
        assert answer.status_code == 400 and "int8" in answer.json()["error"]["message"]
        assert server.get("/v1/models/writer").json()["state"] == "failed"


def test_settings_of_a_task_are_checked(server: Server) -> None:
    for settings, said in (
        ({"n_bets": 2}, "n_best"),
        ({"n_best": 0}, "n_best"),
        ({"threshold": "high"}, "threshold"),
    ):
        answer = server.post("/v1/predict", {"model": "labels", "inputs": ["a"], "settings": settings})
        assert answer.status_code == 400 and said in answer.json()["error"]["message"]
    answer = server.post("/v1/predict", {"model": "writer", "inputs": ["a"], "settings": {"engine": "torch"}})
    assert answer.status_code == 400 and "the server's own" in answer.json()["error"]["message"]
    answer = server.post("/v1/predict", {"model": "labels", "inputs": ["a"], "prefix": "b"})
    assert answer.status_code == 400 and "prefix" in answer.json()["error"]["message"]


def data_url(size: int = 8, shade: int = 120) -> str:
    file = io.BytesIO()
    Image.new("RGB", (size, size), (shade,) * 3).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that translates."""
    translating = tmp_path_factory.mktemp("translating")
    rows = [{"source": f"eins zwei {n}", "target": f"one two {n}"} for n in range(40)]
    made = {"translator": trained(translating, "translation", rows, model=TEXT, inputs=("source", "tokens"))[0]}
    return made


def test_translations_with_a_prefix(others: dict[str, Path]) -> None:
    texts = ["eins zwei 3", "zwei", "eins 7 zwei"]
    own = Model.from_folder(others["translator"])
    with running({"translator": others["translator"]}) as server:
        for more in ({}, {"settings": {"beam": 2, "max_length": 9, "n_best": 2}}, {"prefix": "one"}):
            answer = server.post("/v1/predict", {"inputs": texts, **more}).json()
            found = [[each["text"] for each in one["answers"]] for one in answer["results"]]
            settings = more.get("settings", {})
            best = own.write(texts, prefix=more.get("prefix"), **settings)  # type: ignore[arg-type]
            if settings:
                assert found == [[each.text for each in one] for one in best]
            else:
                assert found == [[text] for text in best]


# Who may come, and what is refused -----------------------------------------------------------------------------------


def test_a_key(folders: dict[str, Path]) -> None:
    with running({"writer": folders["writer"]}, key="a-secret-key") as server:
        body = {"prompt": "a", "max_tokens": 2}
        for sent in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "ä"}):
            headers = {name: value.encode("utf-8") for name, value in sent.items()}
            answer = httpx.post(server.address + "/v1/completions", json=body, headers=headers)
            assert answer.status_code == 401 and "key" in answer.json()["error"]["message"]
        assert server.get("/v1/models").status_code == server.get("/metrics").status_code == 401
        assert server.get("/healthz").status_code == server.get("/readyz").status_code == 200
        assert "writer" not in server.get("/").text, "the page is open, and names no model"
        assert server.post("/v1/completions", body, Authorization="Bearer a-secret-key").status_code == 200
        assert server.client(api_key="a-secret-key").completions.create(model="", **body)  # type: ignore[call-overload]
        with pytest.raises(openai.AuthenticationError):
            server.client(api_key="another").completions.create(model="", **body)  # type: ignore[call-overload]


def test_beyond_this_machine_a_key_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    with pytest.raises(ConfigError, match=f"{KEY}, or say --no-key"):
        ServeSettings.read({"host": "0.0.0.0"})
    assert ServeSettings.read({"host": "0.0.0.0", "no_key": True}).secret is None
    monkeypatch.setenv(KEY, "of the environment")
    assert ServeSettings.read({"host": "0.0.0.0"}).secret == "of the environment"


def test_a_page_elsewhere_cannot_reach_it(server: Server) -> None:
    """DNS rebinding sends another host's name; another site's form sends no JSON; no answer allows another origin."""
    assert server.get("/v1/models", Host="evil.example").status_code == 403
    assert server.get("/v1/models", Host="[::1]:8000").status_code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = server.post("/v1/completions", {"prompt": "a"}, **{"Content-Type": kind})
        assert answer.status_code == 415
    answer = server.get("/v1/models", Origin="http://evil.example")
    assert not [name for name in answer.headers if name.startswith("access-control")]


NOT_JSON = [b"", b"{", b"[]", b"5", b'"a"', b"\xff\xfe", b"nul", b"[" * 100_000, b'{"prompt": NaN, "max_tokens": 1}']


@pytest.mark.parametrize("content", NOT_JSON, ids=range(len(NOT_JSON)))
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/predict"])
def test_what_is_no_request_is_refused(server: Server, content: bytes, path: str) -> None:
    answer = server.post(path, content)
    assert answer.status_code in (400, 404) and answer.json()["error"]["message"]


def test_limits(folders: dict[str, Path]) -> None:
    given = {"max_body": 2000, "max_tokens": 30, "max_inputs": 3, "queue": 0, "rows": 2, "timeout": 0.5}
    with running({"writer": folders["writer"]}, **given) as server:
        large = server.post("/v1/completions", {"prompt": "a" * 3000})
        assert large.status_code == 413 and "--max-body" in large.json()["error"]["message"]
        chunks = (b"x" * 500 for _ in range(9))  # without Content-Length
        with httpx.Client() as plain:
            answer = plain.post(
                server.address + "/v1/completions", content=chunks, headers={"Content-Type": "application/json"}
            )
        assert answer.status_code == 413
        assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 31}).status_code == 400
        assert server.post("/v1/predict", {"inputs": ["a"] * 4}).status_code == 400
        assert server.post("/v1/completions", {"prompt": ["a"] * 2, "n": 2}).status_code == 400
    with running({"writer": folders["writer"]}, queue=0, rows=2, timeout=0.5) as server:
        slow = {"prompt": "a", "max_tokens": 4000}
        answers: list[httpx.Response] = []
        for _ in range(5):  # on a busy machine, eight clients may come one after another
            with ThreadPoolExecutor(8) as pool:
                answers += pool.map(lambda _: server.post("/v1/completions", slow), range(8))
            if len({answer.status_code for answer in answers}) > 1:
                break
        assert {answer.status_code for answer in answers} == {429, 504}
        busy = next(answer for answer in answers if answer.status_code == 429)
        assert int(busy.headers["Retry-After"]) >= 1 and busy.json()["error"]["type"] == "rate_limit_error"
        streamed = server.post("/v1/completions", {**slow, "stream": True})
        assert "not there within 0.5 s" in streamed.text


def test_no_text_is_the_name_of_a_file(server: Server, tmp_path: Path, folders: dict[str, Path]) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("password\nother\n")
    answer = server.post(
        "/v1/predict", {"model": "vectors", "inputs": ["a"], "settings": {"among": str(secret), "n_best": 1}}
    )
    assert answer.status_code == 400 and "password" not in answer.text and "list of texts" in answer.text
    listed = server.post("/v1/predict", {"model": "vectors", "inputs": ["a"], "settings": {"among": ["x", "y"]}})
    assert listed.json()["results"][0]["answers"][0]["text"] in ("x", "y")


class Reads:
    """What a predictor says of what it reads."""

    picture = (3, 8, 8)

    def __init__(self, reads: str) -> None:
        self.reads = reads


@pytest.mark.parametrize("reads", ["pictures", "both", "texts"])
def test_pictures_come_as_data_urls(reads: str, tmp_path: Path) -> None:
    predictor: Any = Reads(reads)
    (tmp_path / "a.png").write_bytes(b"secret")
    if reads != "texts":
        picture = checked([data_url(shade=77)], predictor, "input 1")[0]
        assert tuple(picture.shape) == (3, 8, 8) and int(picture.max()) == 77
        names = [str(tmp_path / "a.png"), "A.JPEG", "x.webp", {"image": "b.jpg"}]
        for name in [*names, *(["a text"] if reads == "pictures" else [])]:
            with pytest.raises(InputError, match="a server opens no files"):
                checked(name, predictor, "input 1")
        for bad in (
            "data:image/png;base64,",
            "data:image/png,abc",
            "data:image/png;base64,@@",
            "data:image/png;base64,QUJD",
        ):
            with pytest.raises(InputError, match="input 1"):
                checked(bad, predictor, "input 1")
    if reads != "pictures":
        assert checked(["a text"], predictor, "input 1") == ["a text"]


def test_sounds_come_as_data_urls(tmp_path: Path) -> None:
    predictor: Any = Reads("sounds")
    wave = tones("ab", rate=32_000)
    content = write_sound(tmp_path / "a.wav", wave, 32_000).read_bytes()
    heard = checked("data:audio/wav;base64," + base64.b64encode(content).decode(), predictor, "input 1")
    assert heard.dim() == 1 and len(heard) == -(-len(wave) // 2)
    for name in (str(tmp_path / "a.wav"), "a text", data_url()):
        with pytest.raises(InputError, match="a server opens no files"):
            checked(name, predictor, "input 1")
    for bad in (";base64,", ",abc", ";base64,@@", ";base64,QUJD"):
        with pytest.raises(InputError, match="input 1"):
            checked(f"data:audio/wav{bad}", predictor, "input 1")


# Many clients --------------------------------------------------------------------------------------------------------


def test_64_clients_get_the_texts_that_each_gets_alone(server: Server, folders: dict[str, Path]) -> None:
    bodies = [
        {
            "model": "writer", "prompt": "the quick brown fox jumps over the lazy dog"[: 3 + n % 40], "seed": n,
            "max_tokens": 10 + n % 50, "temperature": (0, 0.7, 1.2)[n % 3], "top_k": (None, 5)[n % 2],
        }
        for n in range(64)
    ]  # fmt: skip
    text = lambda body: server.post("/v1/completions", body).json()["choices"][0]["text"]  # noqa: E731
    alone = [text(body) for body in bodies]
    with ThreadPoolExecutor(64) as pool:
        together = list(pool.map(text, bodies))
    assert together == alone
    worker = server.models.by_name["writer"].worker
    assert worker is not None and worker.load == 0 and worker.counts.rows > worker.counts.steps


def test_it_outlives_clients_that_misbehave(folders: dict[str, Path]) -> None:
    """Clients that leave in the middle, that send half of a request, or nothing; the others get their texts, and
    nothing is left behind."""
    with running({"writer": folders["writer"]}, rows=4, timeout=20) as server:
        host, port = server.address.removeprefix("http://").split(":")
        expected = server.post("/v1/completions", {"prompt": "a", "max_tokens": 20, "seed": 1}).json()["choices"]
        threads = threading.active_count()
        body = json.dumps({"prompt": "a", "max_tokens": 3000, "stream": True}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for content in (
            head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
            head + b"Content-Length: 500\r\n\r\n" + body[:10],
            head, b"", b"\x16\x03\x01\x02\x00\x01\x00", b"GET " + b"a" * 100_000,
        ) * 3:  # fmt: skip
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(content)
                time.sleep(0.02)
        answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 20, "seed": 1}).json()
        assert answer["choices"] == expected
        worker = server.models.by_name["writer"].worker
        assert worker is not None
        waiting_for(lambda: worker.load == 0)
        assert threading.active_count() <= threads


# Models --------------------------------------------------------------------------------------------------------------


def test_models_are_loaded_when_they_are_asked_for_and_unloaded(folders: dict[str, Path]) -> None:
    both = {name: folders[name] for name in ("writer", "labels")}
    with running(both, lazy=True) as server:
        states = lambda: server.get("/readyz").json()["models"]  # noqa: E731
        assert states() == {"writer": "unloaded", "labels": "unloaded"}
        before = server.post("/v1/completions", {"model": "writer", "prompt": "a", "seed": 1}).json()["choices"]
        assert states() == {"writer": "ready", "labels": "unloaded"}
        assert server.post("/v1/models/labels/load", {}).json()["state"] == "ready"
        assert server.post("/v1/models/writer/unload", {}).json()["state"] == "unloaded"
        assert states() == {"writer": "unloaded", "labels": "ready"}
        after = server.post("/v1/completions", {"model": "writer", "prompt": "a", "seed": 1}).json()["choices"]
        assert after == before
        missing = server.post("/v1/completions", {"prompt": "a"})
        assert missing.status_code == 404 and "writer" in missing.json()["error"]["message"]


def test_a_model_that_cannot_be_read_is_told(folders: dict[str, Path], tmp_path: Path) -> None:
    folder = writer(tmp_path / "broken")
    (folder / "weights.safetensors").write_bytes(b"nonsense")
    models = {"good": folders["writer"], "broken": folder}
    with running(models, lazy=True) as server:
        answer = server.post("/v1/completions", {"model": "broken", "prompt": "a"})
        assert answer.status_code == 400 and "weights.safetensors" in answer.json()["error"]["message"]
        assert server.get("/readyz").status_code == 503
        assert "weights.safetensors" in server.get("/v1/models/broken").json()["error"]
        assert server.post("/v1/completions", {"model": "good", "prompt": "a"}).status_code == 200


def test_names(folders: dict[str, Path], tmp_path: Path) -> None:
    assert served(str(folders["writer"]), {}).name == "model"
    assert served(f"mine={folders['writer']}", {}).name == "mine"
    with pytest.raises(InputError, match="NAME="):
        Models([Served("a", tmp_path), Served("a", tmp_path / "b")], ServeSettings())
    with pytest.raises(InputError, match="nowhere"):
        served(str(tmp_path / "nowhere"), {})


# What it says of itself ----------------------------------------------------------------------------------------------


def test_metrics(server: Server) -> None:
    server.post("/v1/completions", {"model": "writer", "prompt": "abc", "max_tokens": 7, "stream": True})
    page = server.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(lines['transformula_written_tokens_total{model="writer"}']) >= 7
    assert float(lines['transformula_requests_total{path="/v1/completions",status="200"}']) >= 1
    assert float(lines['transformula_first_token_seconds_count{model="writer"}']) >= 1
    assert "/v1/models/" not in page, "a path from outside is no label"


def test_every_path_is_described(server: Server) -> None:
    described = server.get("/openapi.json").json()
    assert set(described["paths"]) == {route.path for route in ROUTES}
    for path, kind in BODIES.items():
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        fields = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        assert len(fields) == len(kind.model_fields) and all(about["description"] for about in fields.values())
        kind.checked(EXAMPLES[path])
    text = json.dumps(described)
    assert all(name in described["components"]["schemas"] for name in refs(text))


def refs(text: str) -> set[str]:
    return {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}


def test_every_setting_of_the_server_is_read() -> None:
    folder = Path(sys.modules["transformula.serving"].__path__[0])
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    for name in ServeSettings.model_fields:
        assert f"settings.{name}" in source or f"self.{name}" in source, name


@pytest.mark.parametrize("kind", [CompletionBody, ChatBody, EmbeddingBody, PredictBody])
def test_no_field_is_accepted_and_ignored(kind: Any) -> None:
    """Each is read by the code, or says of itself that it changes nothing, or takes the one value that is so."""
    folder = Path(sys.modules["transformula.serving"].__path__[0])
    source = "".join((folder / name).read_text() for name in ("app.py", "openai.py", "predicting.py"))
    source += (folder / "bodies.py").read_text().partition("def _agree")[2]
    for name, field in kind.model_fields.items():
        said = field.description or ""
        read = f"body.{name}" in source or f"self.{name}" in source or f'"{name}"' in source
        assert read or "changes nothing" in said or "Literal" in str(field.annotation), name


def test_the_page_escapes_what_others_wrote(folders: dict[str, Path]) -> None:
    with running({"<script>alert(1)</script>": folders["writer"]}) as server:
        page = server.get("/").text
        assert "<script>alert(1)</script>" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page


# The command ---------------------------------------------------------------------------------------------------------


def test_the_command_serves_until_it_is_told_to_stop(folders: dict[str, Path]) -> None:
    """What runs as it is stopped comes to its end."""
    command = [sys.executable, "-m", "transformula", "serve", f"mine={folders['writer']}", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = ""
        while not said.endswith("}\n"):
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
            said += line
        address = json.loads(said)["address"]
        waiting_for(lambda: httpx.get(address + "/readyz").status_code == 200)
        body = {"prompt": "a", "max_tokens": 1500, "seed": 1}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.post, address + "/v1/completions", json=body, timeout=60)
            waiting_for(lambda: b'running{model="mine"} 1.0' in httpx.get(address + "/metrics").content)
            process.send_signal(signal.SIGTERM)
            assert answer.result().json()["usage"]["completion_tokens"] == 1500
        assert process.wait(30) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors


def test_a_port_that_is_taken(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(folders["writer"]), "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}: cannot listen there" in capsys.readouterr().err


def test_a_small_answer_is_sent_at_once() -> None:
    """Without TCP_NODELAY the second part of an answer waits for the first to be acknowledged, which takes 40 ms."""

    async def delays() -> list[int]:
        told: list[int] = []

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listen(ServeSettings(port=0)) as listening:
            async with await asyncio.start_server(connected, sock=listening):
                reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
                await reader.read()
                writer.close()
        return told

    assert asyncio.run(delays()) == [1]



def test_a_folder_that_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", str(tmp_path / "no-run")]) == 2
    assert "no-run" in capsys.readouterr().err
