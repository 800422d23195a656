"""The studio's server: a key for everything but the page itself, runs that are commands, and nothing outside its
folder."""

from __future__ import annotations

import inspect
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import uvicorn

from tests.api.test_exporting import LABELED
from tests.serving.conftest import waiting_for
from transformula import train
from transformula.serving.app import application
from transformula.serving.server import listen
from transformula.serving.settings import ServeSettings
from transformula.serving.studio import FILES, RunModels, Studio, TrainBody
from transformula.serving.studio_routes import routes

PRE = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
SMALL = {"depth": 1, "width": 32, "heads": 2, "context": 32}
OWN = "the cat sees the bird and the dog sees the tree. " * 400
KEY = "key-of-the-link"


class Page:
    """What the page sends, by the key of its link."""

    def __init__(self, address: str, studio: Studio) -> None:
        self.address, self.studio = address, studio

    def get(self, path: str) -> Any:
        return self.answered(httpx.get(self.address + path, headers={"Authorization": f"Bearer {KEY}"}, timeout=60))

    def post(self, path: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {KEY}"}
        return self.answered(httpx.post(self.address + path, json=body, headers=headers, timeout=120))

    def answered(self, response: httpx.Response) -> Any:
        data = response.json() if response.headers["content-type"].startswith("application/json") else response.text
        assert isinstance(data, str) or response.status_code == 200 or "error" in data
        return data

    def until(self, name: str, state: str) -> dict[str, Any]:
        waiting_for(lambda: self.get(f"/studio/runs/{name}")["state"] == state, 120)
        found: dict[str, Any] = self.get(f"/studio/runs/{name}")
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("studio") / "runs"
    settings = ServeSettings.read({"port": 0, "key": KEY})
    models = RunModels(folder, settings)
    studio = Studio(folder)
    listening = listen(settings)
    app = application(models, settings, lazy=True, more=routes(studio), ending=studio.close)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    host, port = listening.getsockname()[:2]
    try:
        waiting_for(lambda: server.started)
        yield Page(f"http://{host}:{port}", studio)
    finally:
        server.should_exit = True
        thread.join(120)
        assert not thread.is_alive()
    assert all(process.poll() is not None for process in studio.processes.values())


def test_the_page_is_open_and_all_else_is_not(page: Page) -> None:
    front = httpx.get(page.address + "/")
    assert 'data-mode="server"' in front.text and "script-src 'self'" in front.headers["content-security-policy"]
    assert "<script>" not in front.text and "onclick" not in front.text
    for name in FILES:
        assert httpx.get(f"{page.address}/{name}").status_code == 200
    for path in ("/studio/runs", "/studio/runs/a", "/studio/reports/a", "/v1/models"):
        assert httpx.get(page.address + path).status_code == 401
    for path in ("/studio/ask", "/studio/train", "/studio/runs/a/stop", "/v1/completions"):
        assert httpx.post(page.address + path, json={}).status_code == 401
    assert httpx.get(page.address + "/", headers={"Host": "evil.example"}).status_code == 403
    sent = {"Authorization": f"Bearer {KEY}", "Content-Type": "text/plain"}
    assert httpx.post(page.address + "/studio/train", content=b"{}", headers=sent).status_code == 415


def test_the_editor_is_answered(page: Page) -> None:
    said = page.post("/studio/ask", {"call": "explain", "text": PRE})
    assert said["svg"].startswith("<svg") and said["size"]
    assert (
        "attenion" in page.post("/studio/ask", {"call": "explain", "text": "x = x + attenion(x)"})["error"]["message"]
    )


@pytest.fixture(scope="module")
def trained(page: Page) -> str:
    run = page.post("/studio/train", {"text": PRE, "numbers": SMALL, "own": OWN, "minutes": 0.03})
    assert run["state"] == "running", run
    return str(run["name"])


@pytest.fixture(scope="module")
def labels(page: Page) -> str:
    """A run of another task in the folder."""
    rows = page.studio.folder.parent / "rows.jsonl"
    rows.write_text("\n".join(map(json.dumps, LABELED)), encoding="utf-8")
    sizes: dict[str, Any] = {"depth": 1, "width": 16, "heads": 2, "steps": 3, "tokenizer": "bytes", "quiet": True}
    train("pre-norm", task="classification", data=str(rows), out=str(page.studio.folder / "labels"), **sizes)
    return "labels"


def test_a_run_is_trained_shown_and_written_with(page: Page, trained: str) -> None:
    run = page.until(trained, "ended")
    assert run["training"] and run["validation"] and run["writes"] and run["sample"] and run["baselines"]
    assert trained in [one["name"] for one in page.get("/studio/runs")["runs"]]
    body = {"model": trained, "prompt": "the cat", "max_tokens": 20, "temperature": 0}
    assert len(page.post("/v1/completions", body)["choices"][0]["text"]) == 20


def test_a_run_says_how_its_model_is_tried(page: Page, trained: str, labels: str) -> None:
    use = page.until(trained, "ended")["use"]
    assert use["text"] and use["verb"] == "sample" and use["reads"] == "texts"
    use = page.get(f"/studio/runs/{labels}")["use"]
    assert not use["text"] and use["verb"] == "classify" and use["fields"] == ["input"]
    assert not page.get(f"/studio/runs/{labels}")["baselines"], "accuracies have no place in a curve of losses"
    answers = page.post("/v1/predict", {"model": labels, "inputs": [str(LABELED[0]["text"])]})["results"][0]["answers"]
    assert answers[0]["text"] in {str(row["label"]) for row in LABELED}


def test_scores_and_worst_examples(page: Page, trained: str, labels: str) -> None:
    page.until(trained, "ended")
    shown = page.post(f"/studio/runs/{trained}/scores", {})
    assert "bits_per_byte" in shown["text"] and shown["command"].endswith(f"{trained} --by frequency")
    shown = page.post(f"/studio/runs/{labels}/scores", {})
    assert "example" in shown["text"] and "confusion" in shown["text"] and shown["svg"].startswith("<")
    assert "unknown run 'none'" in page.post("/studio/runs/none/scores", {})["error"]["message"]


def test_the_command_that_is_shown_is_what_was_run(page: Page, trained: str) -> None:
    page.until(trained, "ended")
    typed = page.studio.typed[trained]
    assert typed.startswith("transformula train '") and "--minutes 0.03" in typed and "--depth 1" in typed
    assert page.get(f"/studio/runs/{trained}")["command"].endswith("--minutes 0.06"), "to go on takes as long again"


@pytest.mark.slow
def test_a_run_is_stopped_and_goes_on(page: Page) -> None:
    run = page.post("/studio/train", {"text": PRE, "numbers": SMALL, "own": OWN, "minutes": 5})
    name = run["name"]
    waiting_for(lambda: page.get(f"/studio/runs/{name}")["training"], 60)
    assert page.post(f"/studio/runs/{name}/stop", {})["state"] == "stopped"
    stopped = page.get(f"/studio/runs/{name}")
    assert stopped["state"] != "running" and stopped["resumable"]
    assert "was not begun here, or has ended" in page.post(f"/studio/runs/{name}/stop", {})["error"]["message"]
    assert page.post(f"/studio/runs/{name}/resume", {})["state"] == "running"
    more = stopped["training"][-1]["step"]
    waiting_for(lambda: page.get(f"/studio/runs/{name}")["training"][-1]["step"] > more, 60)
    page.post(f"/studio/runs/{name}/stop", {})


@pytest.mark.parametrize("look", ["attention", "norms", "gradients", "lens", "ablate", "collapse", "training"])
def test_looks_inside(page: Page, trained: str, look: str) -> None:
    page.until(trained, "ended")
    shown = page.post(f"/studio/runs/{trained}/inside", {"look": look, "text": "the cat sees the bird"})
    assert shown["svg"].lstrip().startswith("<") and "<svg" in shown["svg"] and shown["text"]
    assert shown["command"].startswith(f"transformula inspect {page.studio.folder / trained} {look}")


def test_an_edge_is_silenced(page: Page, trained: str) -> None:
    page.until(trained, "ended")
    names = [one["name"] for one in page.get(f"/studio/runs/{trained}/places")["places"]]
    assert "layers.1.attention.input" in names and "layers.1.line1.add.left" in names
    body = {"look": "ablate", "silence": "layers.1.line1.add.left"}
    shown = page.post(f"/studio/runs/{trained}/inside", body)
    assert "layers.1.line1.add.left" in shown["text"] and "--at layers.1.line1.add.left" in shown["command"]
    wrong: list[tuple[dict[str, str], str]] = [
        ({"look": "norms", "silence": "x"}, "ablate"),
        ({"look": "ablate", "silence": "nowhere"}, "nowhere"),
        ({"look": "patch"}, "look"),
    ]
    for bad, said in wrong:
        assert said in page.post(f"/studio/runs/{trained}/inside", bad)["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"text": "x = x + attenion(x)", "source": "python-docs"}, "attenion"),
        ({"text": PRE}, "source"),
        ({"text": PRE, "source": "python-docs", "own": OWN}, "source"),
        ({"text": PRE, "own": "  "}, "own"),
        ({"text": PRE, "source": "/etc/passwd"}, "source"),
        ({"text": PRE, "own": OWN, "minutes": 0}, "minutes"),
        ({"text": PRE, "own": OWN, "numbers": {"out": 3}}, "numbers"),
        ({"text": PRE, "own": OWN, "out": "/tmp/x"}, "out"),
        ({"text": PRE, "own": "a", "numbers": SMALL}, "too short"),
        ({"text": "--help", "own": OWN}, "one assignment"),
    ],
)
def test_what_cannot_be_trained_is_said(page: Page, body: dict[str, Any], said: str) -> None:
    before = sorted(page.studio.folder.rglob("*"))
    answer = page.post("/studio/train", body)
    assert said in answer["error"]["message"]
    assert sorted(page.studio.folder.rglob("*")) == before, "nothing is left behind"


STRANGE = ["..", "../..", "a/b", "%2e%2e", ".studio", "", "a\0b", "<script>alert(1)</script>", "a" * 300]


@pytest.mark.parametrize("name", STRANGE, ids=range(len(STRANGE)))
def test_no_name_leads_out_of_the_folder(page: Page, name: str) -> None:
    (page.studio.folder.parent / "config.yaml").write_text("task: x\n")
    (page.studio.folder.parent / "report.html").write_text("secret")
    for path in ("/studio/runs/", "/studio/reports/"):
        answer = httpx.get(page.address + path + quote(name, safe=""), headers={"Authorization": f"Bearer {KEY}"})
        assert answer.status_code in (307, 404, 405) and "secret" not in answer.text
    with pytest.raises(Exception, match="unknown run"):
        page.studio.run(name)
    with pytest.raises(Exception, match="unknown report"):
        page.studio.report(name)
    with pytest.raises(Exception, match="unknown model"):
        RunModels(page.studio.folder, ServeSettings()).find(name or "x")


def test_reports_of_comparisons(page: Page) -> None:
    folder = page.studio.folder / "comparison"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text("<h1>better</h1>")
    assert page.get("/studio/runs")["reports"] == ["comparison"]
    answer = httpx.get(f"{page.address}/studio/reports/comparison", headers={"Authorization": f"Bearer {KEY}"})
    assert answer.text == "<h1>better</h1>"
    assert answer.headers["content-type"].startswith("text/plain"), "opened by itself it is no page of this address"
    shutil.rmtree(folder)


def test_every_field_of_a_training_is_read() -> None:
    text = Path(inspect.getfile(Studio)).read_text("utf-8")
    assert all(f"body.{name}" in text for name in TrainBody.model_fields)


def test_the_command_line_opens_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "transformula", "studio", "--port", "0", "--no-open", "--json", "--runs"]
    process = subprocess.Popen([*command, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        link = json.loads("".join(process.stdout.readline() for _ in range(3)))["link"]
        address, _, key = link.partition("/#key=")
        assert httpx.get(address + "/studio/runs").status_code == 401
        found = httpx.get(address + "/studio/runs", headers={"Authorization": f"Bearer {key}"})
        assert found.json() == {"runs": [], "reports": []}
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
