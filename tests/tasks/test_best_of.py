"""Best of n: the reply that the reward model scores highest, the same alone and among others, and refusals."""

import json

import pytest
import torch

from transformula import Model
from transformula.cli.converse import converse
from transformula.cli.door import main
from transformula.errors import InputError
from transformula.generation.settings import ReplySettings
from transformula.tasks.best_of import SEEDS_APART
from transformula.tasks.dialogue import TEMPLATE, Chat
from transformula.tasks.rewards import ReplyScorer

LAYER = "x = x + attention(norm(x))\nx = x + mlp(norm(x))"
DRAWN = {"max_tokens": 6, "temperature": 1.0}


@pytest.fixture(scope="module")
def models():
    """A model that replies, and one that scores replies: both with random weights."""
    sizes = {"depth": 1, "width": 16, "heads": 2, "context": 64}
    outputs = ({}, {"output": "reward = linear(x, 1)"})
    chat, reward = (Model(LAYER, tokenizer="bytes", seed=4, **sizes, **output) for output in outputs)
    with torch.no_grad():
        for parameter in (*chat.module.parameters(), *reward.module.parameters()):
            parameter.mul_(3)
    chat.predictor = Chat("dialogue", TEMPLATE, 64, 8, chat.tokenizer)
    reward.predictor = ReplyScorer("reward-model", TEMPLATE, 64, reward.tokenizer)
    return chat, reward


def scored(reward, asked, replies):
    given = [[{"role": "user", "content": asked}, {"role": "assistant", "content": reply}] for reply in replies]
    return [one.score for one in reward.predict(given, scores=True)]


def test_the_best_reply_is_given(models):
    chat, reward = models
    asked = ["What is 3?", "Hello", "Who?"]
    best = chat.predict(asked, best_of=5, reward_model=reward, scores=True, seed=7, **DRAWN)
    draws = [chat.predict(asked, seed=7 + SEEDS_APART * number, **DRAWN) for number in range(5)]
    assert len({*map(tuple, draws)}) > 1
    for row, (text, one) in enumerate(zip(asked, best, strict=True)):
        rewards = scored(reward, text, [each[row] for each in draws])
        assert one.reward == pytest.approx(max(rewards), abs=1e-5)
        assert one.text == draws[rewards.index(max(rewards))][row] and one.full["reward"] == one.reward
    assert [one.text for one in best] != draws[0]
    again = chat.predict(asked[0], best_of=5, reward_model=reward, scores=True, seed=7, **DRAWN)
    assert again == best[0]
    assert chat.predict([" ", asked[0]], best_of=5, reward_model=reward, seed=7, **DRAWN) == ["", best[0].text]
    other = chat.predict(asked[0], best_of=5, reward_model=reward, seed=7, system="Be kind.", **DRAWN)
    assert isinstance(other, str)


def test_the_best_text_is_given(models):
    _, reward = models
    model = Model(LAYER, tokenizer="bytes", depth=1, width=16, heads=2, context=64, seed=5)
    pieces = []
    show = lambda row, text: pieces.append((row, text))  # noqa: E731
    best = model.generate(["the", "a"], best_of=4, reward_model=reward, on_text=show, seed=3, **DRAWN)
    draws = [model.generate(["the", "a"], seed=3 + SEEDS_APART * number, **DRAWN) for number in range(4)]
    for row, asked in enumerate(["the", "a"]):
        rewards = scored(reward, asked, [each[row] for each in draws])
        assert best[row] == draws[rewards.index(max(rewards))][row]
    assert pieces == [(0, best[0]), (1, best[1])]


def test_what_is_refused(models):
    chat, reward = models
    plain = Model(LAYER, tokenizer="bytes", depth=1, width=16, heads=2, context=64)
    for model, given, said in [
        (chat, {"best_of": 4}, "nothing says what chooses among the replies: add reward_model=RUN"),
        (chat, {"reward_model": reward}, "nothing says how many replies are drawn: add best_of=8"),
        (chat, {"best_of": 1, "reward_model": reward}, "expected 2 to 1,024 replies"),
        (chat, {"best_of": 4, "reward_model": plain}, "scores no replies"),
        (chat, {"best_of": 4, "reward_model": reward, "temperature": 0}, "without a temperature all replies are the"),
        (reward, {"best_of": 4, "reward_model": reward}, "this model replies to no messages"),
    ]:
        with pytest.raises(InputError, match=said):
            model.predict("Hello\tHi", **given)
    with pytest.raises(InputError, match="a reward model reads texts"):
        plain.generate(tokens=[1, 2], best_of=4, reward_model=reward)


def test_at_the_command_line(models, tmp_path, capsys, monkeypatch):
    chat, reward = models
    folders = [str(model.save(tmp_path / name)) for name, model in (("chat", chat), ("reward", reward))]
    plain = Model(LAYER, tokenizer="bytes", depth=1, width=16, heads=2, context=64).save(tmp_path / "plain")
    options = ["--best-of", "3", "--reward-model", folders[1], "--max-tokens", "6", "--seed", "7"]
    given = {"best_of": 3, "reward_model": folders[1], "seed": 7}
    assert main(["chat", folders[0], "Hello", "--temperature", "1", "--json", *options]) == 0
    ((shown, *_),) = (each["replies"] for each in json.loads(capsys.readouterr().out)["texts"])
    assert shown["text"] == chat.predict("Hello", **given, **DRAWN)
    assert main(["sample", str(plain), "the", *options]) == 0
    assert capsys.readouterr().out == "the" + Model.from_folder(plain).generate("the", **given, **DRAWN) + "\n"
    assert main(["chat", folders[0], "Hello", "--best-of", "3"]) == 2
    assert "--reward-model RUN" in capsys.readouterr().err
    typed = iter(["Hello"])
    monkeypatch.setattr("builtins.input", lambda _: next(typed, "/quit"))
    replying = chat._best_of(3, reward).replying(chat.predictor)
    assert converse(replying.conversation(chat.module, ReplySettings(seed=7, **DRAWN))) == 0
    assert capsys.readouterr().out.strip() == chat.predict("Hello", **given, **DRAWN).strip()
