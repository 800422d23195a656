"""Questions about pictures over HTTP: by /v1/predict, and as messages with a picture in OpenAI's parts."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.conftest import Server, running
from tests.tasks.test_visual_question_answering import READER, SHORT, written
from transformula import Model, train


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def folder(rows: Path) -> Path:
    """A model that reads pictures among its tokens."""
    text = rows.parent / "reader.yaml"
    text.write_text(READER)
    return Path(train(text, data=str(rows), out=rows.parent / "run", steps=2, **SHORT).folder)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with running({"seeing": folder}) as server:
        yield server


@pytest.fixture(scope="module")
def url(rows: Path) -> str:
    return "data:image/png;base64," + base64.b64encode((rows.parent / "0.png").read_bytes()).decode()


def asked(url: Any, text: str = "is it red", **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    return {"messages": [{"role": "user", "content": content}], **more}


def test_it_answers_as_the_model_does(server: Server, folder: Path, rows: Path, url: str) -> None:
    row = {"question": "is it red", "picture": str(rows.parent / "0.png")}
    own = Model.from_folder(folder).predict(row, beam=1, alpha=0.0, max_length=4)
    answer = server.post("/v1/chat/completions", asked(url, max_tokens=4, temperature=0, user="me"))
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": own, "refusal": None}
    body = {"inputs": [{**row, "picture": url}], "settings": {"beam": 1, "alpha": 0.0, "max_length": 4}}
    results = server.post("/v1/predict", body).json()["results"]
    assert results[0]["answers"][0]["text"] == own


def test_no_picture_is_the_name_of_a_file(server: Server, rows: Path, url: str) -> None:
    """Whatever its ending is: a server opens no files."""
    for name in (str(rows.parent / "0.png"), "/etc/passwd", "nothing", "https://example.org/a"):
        part = {"type": "image", "path": name}
        for path, body in (
            ("/v1/predict", {"inputs": [{"question": "is it red", "picture": name}]}),
            ("/v1/chat/completions", asked(name)),
            ("/v1/predict", {"inputs": [{"question": "is it red", "picture": [url, name]}]}),
            ("/v1/predict", {"inputs": [asked(name)]}),
            ("/v1/predict", {"inputs": [{"messages": [{"role": "user", "content": [part]}]}]}),
        ):
            answer = server.post(path, body)
            assert answer.status_code == 400
            assert "a server opens no files" in answer.json()["error"]["message"]


def test_several_pictures_in_their_order(server: Server, folder: Path, rows: Path, url: str) -> None:
    other = "data:image/png;base64," + base64.b64encode((rows.parent / "1.png").read_bytes()).decode()
    model = Model.from_folder(folder)
    for urls in ([url, other], [other, url], [url, url]):
        body = asked(urls[0], max_tokens=4)
        body["messages"][0]["content"].append({"type": "image_url", "image_url": {"url": urls[1]}})
        files = [str(rows.parent / ("0.png" if one == url else "1.png")) for one in urls]
        (own,) = model.predict([{"question": "is it red", "picture": files}], beam=1, alpha=0.0, max_length=4)
        assert server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"] == own
        inputs = [{"question": "is it red", "picture": urls}]
        found = server.post("/v1/predict", {"inputs": inputs, "settings": {"beam": 1, "alpha": 0.0, "max_length": 4}})
        assert found.json()["results"][0]["answers"][0]["text"] == own


def test_messages_that_it_does_not_answer(server: Server, url: str) -> None:
    whole = asked(url)
    two = {"messages": whole["messages"] * 2}
    text = {"messages": [{"role": "user", "content": "is it red"}]}
    for body, said in (
        (two, "one message of the user"),
        (text, "one message of the user"),
        ({**whole, "stream": True}, "stream: a model that answers"),
        ({**whole, "n": 2}, "n: a model that answers"),
        ({**whole, "temperature": 1}, "temperature: a model that answers"),
        (asked(url, text=" "), "the question is empty"),
        (asked(3), "a picture is the name of a file, or a tensor"),
        (asked("data:image/png;base64,QUJD"), "no picture that is known"),
        ({**whole, "max_tokens": 10**6}, "writes at most"),
    ):
        answer = server.post("/v1/chat/completions", body)
        assert answer.status_code == 400, answer.text
        assert said in answer.json()["error"]["message"]
