"""OpenAI's own client asks for the best of several texts: by a reward model, or by log probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from openai import OpenAI

from tests.serving.conftest import LAYER, Server, running
from transformula import Model
from transformula.cli import main
from transformula.errors import InputError
from transformula.serving.models import Models, Served, rewarding
from transformula.serving.settings import ServeSettings
from transformula.tasks.best_of import SEEDS_APART
from transformula.tasks.dialogue import TEMPLATE, Chat
from transformula.tasks.rewards import ReplyScorer

ASKED: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}]
DRAWN: dict[str, Any] = {"max_tokens": 6, "temperature": 1.0, "seed": 7}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of random weights: one that replies, one that goes on with texts, and one that scores replies."""
    folder, sizes = tmp_path_factory.mktemp("models"), {"depth": 1, "width": 16, "heads": 2, "context": 64}
    outputs = {"chat": {}, "writer": {}, "reward": {"output": "reward = linear(x, 1)"}}
    models = {name: Model(LAYER, tokenizer="bytes", seed=4, **sizes, **more) for name, more in outputs.items()}
    with torch.no_grad():
        for parameter in (*models["chat"].module.parameters(), *models["reward"].module.parameters()):
            parameter.mul_(3)
    models["chat"].predictor = Chat("dialogue", TEMPLATE, 64, 8, models["chat"].tokenizer)  # type: ignore[arg-type]
    models["reward"].predictor = ReplyScorer(
        "reward-model", TEMPLATE, 64, models["reward"].tokenizer  # type: ignore[arg-type]
    )  # fmt: skip
    return {name: model.save(folder / name) for name, model in models.items()}


@pytest.fixture(scope="module")
def judged(made: dict[str, Path]) -> Iterator[OpenAI]:
    """The client of a server with a reward model."""
    named = {name: made[name] for name in ("chat", "writer")}
    with running(named, rows=8, reward=rewarding(str(made["reward"]), {})) as server:
        yield server.client()


@pytest.fixture(scope="module")
def alone(made: dict[str, Path]) -> Iterator[Server]:
    """A server without a reward model."""
    with running({name: made[name] for name in ("chat", "writer")}, rows=8) as server:
        yield server


def test_the_reply_is_that_of_chat(judged: OpenAI, made: dict[str, Path]) -> None:
    answer: Any = judged.chat.completions.create(
        model="chat", messages=ASKED, **DRAWN, extra_body={"best_of": 5}
    )  # fmt: skip
    (choice,) = answer.choices
    chat, given = Model.from_folder(made["chat"]), {"best_of": 5, "reward_model": made["reward"]}
    best: Any = chat.predict(ASKED, scores=True, **given, **DRAWN)
    assert choice.message.content == best.text and choice.reward == pytest.approx(best.reward, abs=1e-4)
    drawn = [
        judged.chat.completions.create(model="chat", messages=ASKED, **{**DRAWN, "seed": 7 + SEEDS_APART * number})
        for number in range(5)
    ]
    texts = [one.choices[0].message.content for one in drawn]
    assert best.text in texts and texts[0] != best.text
    assert answer.usage.completion_tokens == sum(one.usage.completion_tokens for one in drawn if one.usage)
    assert answer.usage.prompt_tokens == drawn[0].usage.prompt_tokens  # type: ignore[union-attr]


def test_the_texts_are_those_of_generate(judged: OpenAI, made: dict[str, Path]) -> None:
    answer: Any = judged.completions.create(model="writer", prompt=["the", "a"], best_of=4, **DRAWN)
    model, given = Model.from_folder(made["writer"]), {"best_of": 4, "reward_model": made["reward"]}
    assert [one.text for one in answer.choices] == model.generate(["the", "a"], **given, **DRAWN)
    assert [one.index for one in answer.choices] == [0, 1]
    echoed = judged.completions.create(model="writer", prompt=["the", "a"], best_of=4, echo=True, **DRAWN)
    assert [one.text for one in echoed.choices] == [
        "the" + answer.choices[0].text, "a" + answer.choices[1].text
    ]  # fmt: skip


def test_the_best_come_first(judged: OpenAI, made: dict[str, Path]) -> None:
    given: dict[str, Any] = {"model": "writer", "prompt": ["the", "a"], **DRAWN}
    some, more = (judged.completions.create(**given, n=n, best_of=6) for n in (2, 5))
    rewards: list[Any] = [one.reward for one in more.choices]  # type: ignore[attr-defined]
    assert rewards[:5] == sorted(rewards[:5], reverse=True) and rewards[5:] == sorted(rewards[5:], reverse=True)
    texts = [one.text for one in more.choices]
    assert [one.text for one in some.choices] == [*texts[:2], *texts[5:7]]
    scores = [
        [{"role": "user", "content": "the"}, {"role": "assistant", "content": text}] for text in texts[:5]
    ]  # fmt: skip
    read = [one.score for one in Model.from_folder(made["reward"]).predict(scores, scores=True)]
    assert rewards[:5] == pytest.approx(read, abs=1e-4)


def test_without_a_reward_model_the_likeliest_is_sent(alone: Server) -> None:
    client = alone.client()
    given: dict[str, Any] = {"model": "writer", "prompt": "the", **{**DRAWN, "max_tokens": 12}}
    best = client.completions.create(**given, n=3, best_of=6)
    drawn = [
        client.completions.create(**{**given, "seed": 7 + SEEDS_APART * number}, logprobs=0) for number in range(6)
    ]
    means = {}
    for one in [answer.choices[0] for answer in drawn]:
        values: Any = one.logprobs and one.logprobs.token_logprobs
        means[one.text] = sum(values) / len(values)
    assert [one.text for one in best.choices] == sorted(means, key=lambda text: -means[text])[:3]
    assert all(one.logprobs is None and not hasattr(one, "reward") for one in best.choices)
    usage = [answer.usage.completion_tokens for answer in drawn if answer.usage]
    assert best.usage and best.usage.completion_tokens == sum(usage) and best.usage.prompt_tokens == 3
    told = client.completions.create(**given, n=3, best_of=6, logprobs=2).choices
    assert [one.text for one in told] == [one.text for one in best.choices]
    assert all(one.logprobs and one.logprobs.tokens for one in told)


def test_all_that_are_drawn_are_sent_where_nothing_is_chosen(alone: Server, judged: OpenAI) -> None:
    given: dict[str, Any] = {"model": "writer", "prompt": "the", **DRAWN}
    plain = [one.text for one in alone.client().completions.create(**given, n=3).choices]
    for client in (alone.client(), judged):
        assert [one.text for one in client.completions.create(**given, n=3, best_of=3).choices] == plain
    chunks = judged.completions.create(**given, n=3, best_of=3, stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices[0].index == 0) == plain[0]


def test_texts_in_a_form(judged: OpenAI) -> None:
    form = {"type": "regex", "regex": "[0-9]{4}"}
    answer = judged.completions.create(
        model="writer", prompt="a", n=2, best_of=4, max_tokens=9, extra_body={"response_format": form}
    )
    assert all(len(one.text) == 4 and one.text.isdigit() for one in answer.choices)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 3, "best_of": 2}, "best_of is 2, n 3: of so few no 3 can be sent"),
        ({"best_of": 2, "stream": True}, "best_of: which texts are the best is known when all are written"),
        ({"best_of": 2, "temperature": 0}, "without a temperature all replies are the same"),
        ({"best_of": 600}, "best_of: 600 texts of 1 prompts are more than 512 at once"),
        ({"best_of": 0}, "best_of"),
    ],
)
@pytest.mark.parametrize("kind", ["completions", "chat"])
def test_what_is_refused(judged: OpenAI, kind: str, given: dict[str, Any], said: str) -> None:
    create: Any = {"completions": judged.completions.create, "chat": judged.chat.completions.create}[kind]
    asked = {"prompt": "a"} if kind == "completions" else {"messages": ASKED}
    known = {key: given[key] for key in given if kind == "completions" or key != "best_of"}
    beside = {} if kind == "completions" else {"extra_body": {"best_of": given["best_of"]}}
    with pytest.raises(openai.BadRequestError, match=said) as caught:
        create(model="writer" if kind == "completions" else "chat", **asked, **known, **beside)
    assert "--" not in caught.value.body["message"]  # type: ignore[index,call-overload]


def test_a_dialogue_that_the_reward_model_does_not_read_is_told(made: dict[str, Path], tmp_path: Path) -> None:
    model = Model.from_folder(made["reward"])
    roles = {role: text for role, text in TEMPLATE.items() if role != "system"}
    model.predictor = ReplyScorer("reward-model", roles, 64, model.tokenizer)  # type: ignore[arg-type]
    with running({"chat": made["chat"]}, reward=rewarding(str(model.save(tmp_path / "reward")), {})) as server:
        create: Any = server.client().chat.completions.create
        given = {"model": "chat", **DRAWN, "extra_body": {"best_of": 2}}
        with pytest.raises(openai.BadRequestError, match="best_of: the reward model cannot read this: .*system"):
            create(messages=ASKED, **given)
        assert create(messages=ASKED[1:], **given).choices[0].reward


def test_the_reward_model_is_one_of_the_models(made: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    settings, reward = ServeSettings(), rewarding(str(made["reward"]), {})
    beside = Models([Served("chat", made["chat"])], settings, reward)
    assert [*beside.by_name] == ["chat", "reward"] and beside.find("").name == "chat" and beside.reward is reward
    own = Served("judge", made["reward"])
    named = Models([Served("chat", made["chat"]), own], settings, reward)
    assert [*named.by_name] == ["chat", "judge"] and named.reward is own
    with pytest.raises(InputError, match="two models are named chat"):
        Models([Served("chat", made["chat"])], settings, rewarding(f"chat={made['reward']}", {}))
    assert main(["serve", str(made["chat"]), "--reward-model", str(made["writer"])]) == 2
    assert "--reward-model" in (said := capsys.readouterr().err) and "scores no replies" in said


def test_one_request_at_the_page_scores_replies(made: dict[str, Path]) -> None:
    """The reward model answers /v1/predict as any other, and is loaded with the server."""
    with running({"chat": made["chat"]}, reward=rewarding(str(made["reward"]), {})) as server:
        assert {one["id"]: one["state"] for one in server.get("/v1/models").json()["data"]} == {
            "chat": "ready", "reward": "ready"
        }  # fmt: skip
        asked = {"model": "reward", "inputs": ["Hello\tHi"]}
        (result,) = server.post("/v1/predict", asked).json()["results"]
        score = Model.from_folder(made["reward"]).predict("Hello\tHi", scores=True).score  # type: ignore[union-attr]
        assert result["answers"][0]["score"] == pytest.approx(score, abs=1e-4)
        answer = server.client().chat.completions.create(
            model="", messages=ASKED, **DRAWN, extra_body={"best_of": 3}
        )  # fmt: skip
        assert answer.model == "chat"
