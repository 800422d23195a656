"""Models that others' programs wrote, and chat templates, are served like our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.conftest import running
from transformula import Model
from transformula.api.exporting import export
from transformula.tokenizers.byte_level import BPE

TEXT = "the cat sees the bird and the dog sees the tree. " * 200
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of transformers, with a tokenizer."""
    place = tmp_path_factory.mktemp("theirs")
    sizes = {"depth": 1, "width": 32, "heads": 2, "kv_heads": 2, "hidden": 64, "context": 128}
    Model("llama", tokenizer=BPE.train([TEXT], 300), seed=3, **sizes).save(place / "ours")
    return export(place / "ours", place / "transformers", to="transformers")


def test_a_folder_of_transformers(folder: Path) -> None:
    with running({"theirs": folder}) as server:
        body = {"prompt": "the cat", "max_tokens": 12, "temperature": 0}
        answer = server.post("/v1/completions", body).json()
        own = Model.from_folder(folder).generate("the cat", max_tokens=12, temperature=0.0)
        assert answer["choices"][0]["text"] == own
        refused = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
        assert refused.status_code == 400 and "use /v1/completions" in refused.json()["error"]["message"]


def test_its_chat_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    try:
        with running({"theirs": folder}) as server:
            messages = [{"role": "user", "content": "the cat"}]
            answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "temperature": 0})
            assert answer.status_code == 200, answer.text
            said = answer.json()["choices"][0]["message"]["content"]
            assert said == Model.from_folder(folder).predict(messages, max_tokens=8)
    finally:
        (folder / "chat_template.jinja").unlink()
