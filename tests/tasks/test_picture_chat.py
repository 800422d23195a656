"""Chats with pictures: a run of visual question answering, a folder of LLaVA, and models that read no picture."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.interop.named.test_llava_as_shipped import folder, pictures
from tests.tasks.test_several_pictures import rows
from tests.tasks.test_visual_question_answering import SHORT, reader
from transformula import Model, train
from transformula.cli import main
from transformula.errors import InputError
from transformula.tasks.picture_chat import SeeingChat

__all__ = ["folder", "pictures", "reader", "rows"]
GREEDY = {"beam": 1, "alpha": 0.0, "engine": "torch"}


@pytest.fixture(scope="module")
def run(rows: Path, reader: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(train(reader, data=str(rows), out=tmp_path_factory.mktemp("runs") / "run", steps=2, **SHORT).folder)


def seeing(folder: str | Path, **settings: Any) -> Any:
    model = Model.from_folder(folder)
    chat: Any = SeeingChat.view(model.predictor, model.architecture)
    return chat, model, chat.settings(**settings)


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A terminal at which these lines are typed."""
    left = iter(lines)
    monkeypatch.setattr("builtins.input", lambda _: next(left, "/quit"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)


def test_a_run_replies_what_it_answers(run: str, rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = [str(rows.parent / name) for name in ("1-0.png", "1-1.png")]
    own = Model.from_folder(run).predict({"question": "which", "picture": shown}, max_length=6, **GREEDY)
    named = ["--picture", shown[0], "--picture", shown[1]]
    assert main(["chat", run, "which", *named, "--max-tokens", "6"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == " ".join(own.split("\n")).rstrip()
    assert main(["chat", run, "which", "what", *named, "--max-tokens", "6", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["source"] for one in said["texts"]] == ["which", "what"]
    assert said["texts"][0]["replies"][0]["text"].strip() == own.strip()


def test_piped(run: str, rows: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"which\nwhat\n")))
    assert main(["chat", run, "--picture", str(rows.parent / "0-0.png"), "--format", "jsonl"]) == 0
    assert [json.loads(line)["source"] for line in capsys.readouterr().out.splitlines()] == ["which", "what"]


def test_a_conversation_shows_pictures(run: str, rows: Path, monkeypatch: Any, capsys: Any) -> None:
    """Each question is about those that were shown last; what is typed wrong is said, and the conversation goes on."""
    chat, model, settings = seeing(run, max_tokens=3)
    files = [str(rows.parent / name) for name in ("0-0.png", "1-1.png", "2-0.png")]
    expected = [
        chat.predict([model.module], chat.opened([{"messages": "which", "picture": shown}]), settings)[0][0]
        for shown in (files[0], files[0], files[1:])
    ]
    typed(monkeypatch, "which", f"/picture {files[0]}", "which", "which", "/picture none.png", f"/picture {files[1]}",
          f"/picture {files[2]}", "which", "/reset", "which")  # fmt: skip
    assert main(["chat", run, "--max-tokens", "3"]) == 0
    out, err = capsys.readouterr()
    assert "/picture FILE shows one" in err
    assert err.count("none is shown: --picture FILE, or in a conversation /picture FILE") == 2
    assert "none.png, named at the conversation: there is no such picture" in err
    assert "one question at a time" in err
    assert out == "".join(f"{reply.text}\n" for reply in expected) + "\n" * out.endswith("\n\n")
    typed(monkeypatch, "which")
    assert main(["chat", run, "--picture", files[0], "--max-tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith(f"{expected[0].text}\n")


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_others_reads_the_whole_dialogue(folder: Path, pictures: list[str]) -> None:
    """Cached as in one pass, in a batch as alone, by what its chat template writes; also without any picture."""
    chat, model, settings = seeing(folder, max_tokens=4)
    said = {"role": "assistant", "content": "the dog"}
    shown = [{"type": "text", "text": "the cat"}, {"type": "image", "image": pictures[1]}]
    dialogues = [
        {"messages": "the cat", "picture": pictures[:2]},
        {"messages": [{"role": "user", "content": shown}, said, {"role": "user", "content": "and"}]},
        {"messages": [{"role": "user", "content": shown}, said, {"role": "user", "content": "and"}],
         "picture": pictures[2]},
        "the dog and the cat",
    ]  # fmt: skip
    opened = chat.opened(dialogues)
    prompts = [chat.prompt(messages, settings) for messages in opened]
    kind = chat.answering
    assert [prompt.ids.count(kind.marker) for prompt in prompts] == [kind.places * n for n in (2, 1, 2, 0)]
    together = chat.predict([model.module], opened, settings)
    for messages, prompt, (reply,) in zip(opened, prompts, together, strict=True):
        given = chat.inputs(messages, prompt)["image"]
        given = given if given.numel() else torch.zeros(1, 3, 32, 32)
        ((alone,),) = chat.predict([model.module], [messages], settings)
        assert (alone.text, alone.ended) == (reply.text, reply.ended)
        assert alone.score == pytest.approx(reply.score, rel=1e-4)
        tokens, total = list(prompt.ids), []
        for _ in range(4):
            with torch.no_grad():
                logs = model.module.eval()(image=given, tokens=torch.tensor([tokens]))[0, -1].log_softmax(0)
            tokens.append(int(logs.argmax()))
            total.append(float(logs.max()))
            if tokens[-1] in kind.target.ends:
                break
        assert reply.score == pytest.approx(sum(total) / len(total), rel=1e-4)
    drawn = [chat.predict([model.module], opened, settings.model_copy(update={"temperature": 2.0, "seed": seed}))
             for seed in (1, 1, 2)]  # fmt: skip
    texts = [[reply.text for (reply,) in replies] for replies in drawn]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.filterwarnings("ignore")
def test_the_context_leaves_the_oldest_out_with_their_pictures(folder: Path, pictures: list[str]) -> None:
    chat, model, settings = seeing(folder, max_tokens=4)
    conversation = chat.conversation(model.module, settings)
    for picture in [*pictures, *pictures]:
        conversation.show(picture)
        reply = conversation.reply("the cat", lambda _: None)
    assert reply.left_out > 0
    assert len(conversation.messages) == 12
    asked = conversation.messages[:-1]
    prompt = chat.prompt(asked, settings)
    image = chat.inputs(asked, prompt)["image"]
    assert prompt.ids.count(chat.answering.marker) == len(image) * chat.answering.places
    assert 0 < len(image) < 6
    assert torch.equal(image, chat.inputs(asked[-2 * len(image) + 1 :], prompt._replace(left_out=0))["image"])


@pytest.mark.parametrize("of", ["run", "folder"])
@pytest.mark.filterwarnings("ignore")
def test_what_is_refused(of: str, run: str, folder: Path, pictures: list[str], rows: Path, capsys: Any) -> None:
    named = {"run": run, "folder": str(folder)}[of]
    shown = str(rows.parent / "0-0.png")
    for words, says in (
        (["which", "--picture", "none.png"], "none.png"),
        (["which", "--picture", str(rows)], "no picture that is known"),
        (["which", "--picture", shown, "--tools", "[]"], "--tools"),
        (["which", "--picture", shown, "--speculate", "2"], "--speculate"),
        *([(["which"], "--picture FILE, or in a conversation /picture FILE"),
           (["which", "--picture", shown, "--system", "be kind"], "no message of the role system"),
           (["which " * 30, "--picture", shown], "shorten it, or show fewer")] if of == "run" else []),
    ):  # fmt: skip
        assert main(["chat", named, *words]) == 2
        assert says in capsys.readouterr().err
    chat = seeing(named)[0]
    refused: list[tuple[Any, str]] = [
        ({"messages": [{"role": "user", "content": [{"type": "video", "url": shown}]}]}, "part 1 is .*expected"),
        ({"messages": [{"role": "assistant", "content": "which"}]}, "a message of the user at the end"),
        ({"messages": "which", "picture": 3}, "a picture is the name of a file, or a tensor"),
        ({"messages": "which", "tools": []}, "`messages` and `picture` and nothing else; here: tools"),
    ]
    for given, says in refused:
        with pytest.raises(InputError, match=says):
            chat.opened([given])


def test_models_that_read_no_picture(tmp_path: Path, rows: Path, monkeypatch: Any, capsys: Any) -> None:
    chats = tmp_path / "chats.jsonl"
    said = [{"role": "assistant", "content": "hi"}]
    rows_of = ({"messages": [{"role": "user", "content": f"hello {n}"}, *said]} for n in range(8))
    chats.write_text("\n".join(map(json.dumps, rows_of)))
    settings = {"depth": 1, "width": 16, "heads": 2, "tokenizer": "bytes", "steps": 1, "quiet": True, "threads": 1}
    settings |= {"split": 0.25}
    run = train("pre-norm", task="dialogue", data=str(chats), out=tmp_path / "run", **settings)
    shown = str(rows.parent / "0-0.png")
    assert main(["chat", str(run.folder), "hello", "--picture", shown]) == 2
    assert "reads no picture among its messages" in capsys.readouterr().err
    typed(monkeypatch, f"/picture {shown}")
    assert main(["chat", str(run.folder)]) == 0
    err = capsys.readouterr().err
    assert "error: this model reads no picture among its messages" in err
    assert "/picture FILE shows" not in err
    with pytest.raises(InputError, match="reads no picture"):
        Model.from_folder(run.folder).predict({"messages": "hello", "picture": shown})
