"""Masked language modeling: what is hidden, by hand; the same evaluation always; gaps filled; what is refused."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transformula import Model
from transformula.api.reading import check_model
from transformula.api.run import evaluate, train
from transformula.errors import ConfigError, InputError
from transformula.generation.settings import FillSettings
from transformula.model import build
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.masked_language_modeling import Filling, masked_logits
from transformula.tasks.masking import Masking, MaskSettings
from transformula.tokenizers.base import tokenizers

TEXT = "".join(f"Line {i} speaks of {i * i} things. Is it so? It is.\n" for i in range(120))
LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"depth": 1, "width": 16, "heads": 2}


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(TEXT)
    return str(path)


def made(data, numbers=None, batch=4, seed=1, **given):
    kind = tasks.get("masked")
    settings = kind.settings.read({"data": data, **given})
    return kind.make(settings, {"context": 32, **(numbers or {})}, batch=batch, accumulate=2, seed=seed)


def model_of(task, dtype=torch.float64):
    read = check_model(LAYER, {**SMALL, **type(task).model, **task.numbers})
    type(task).check(read)
    return build(read, seed=3, dtype=dtype).eval()


def test_a_batch_by_hand(text):
    task = made(text, seed=5)
    ids, mask = np.asarray(task.data.training.ids).astype(np.int64), task.data.tokenizer.vocab
    batch = task.batch(7, 1)
    for row, start in enumerate(task.windows.starts(7, 1)):
        window, chance = ids[start : start + 32], np.random.default_rng((5, 7, 1, row))
        chosen = set(chance.permutation(32)[:5].tolist())  # 15 % of 32
        drawn, random = chance.random(32), chance.integers(mask, size=32)
        for place in range(32):
            read, asked = int(batch.inputs["tokens"][row, place]), int(batch.targets[row, place])
            assert asked == (window[place] if place in chosen else IGNORED)
            hidden = mask if drawn[place] < 0.8 else random[place] if drawn[place] < 0.9 else window[place]
            assert read == (hidden if place in chosen else window[place])
    assert task.units(batch) == 4 * 32 and task.numbers["vocab"] == mask + 1
    again = made(text, seed=5).batch(7, 1)
    assert torch.equal(again.inputs["tokens"], batch.inputs["tokens"]) and torch.equal(again.targets, batch.targets)


def test_shares_of_what_is_chosen():
    tokenizer = tokenizers.get("bytes").train(())
    ids = np.full(40_000, 65)
    tokens, targets, _ = Masking(MaskSettings(mask_rate=0.25), tokenizer).apply(ids, np.random.default_rng(1))
    chosen = targets != IGNORED
    assert chosen.sum() == 10_000 and (tokens[~chosen] == 65).all() and (targets[chosen] == 65).all()
    assert abs((tokens[chosen] == tokenizer.vocab).mean() - 0.8) < 0.02
    changed = (tokens[chosen] != tokenizer.vocab) & (tokens[chosen] != 65)
    assert abs(changed.mean() - 0.1) < 0.02
    ids[::2] = tokenizer.end_of_document
    _, targets, _ = Masking(MaskSettings(), tokenizer).apply(ids, np.random.default_rng(1))
    assert (targets[::2] == IGNORED).all() and (targets != IGNORED).sum() == 3000


def test_whole_words_are_chosen_whole():
    tokenizer = tokenizers.get("characters").train([TEXT])
    masking = Masking(MaskSettings(mask_words=True, mask_rate=0.3), tokenizer)
    ids = np.array(tokenizer.encode(TEXT[:300]))
    for seed in range(5):
        chosen = masking.apply(ids, np.random.default_rng(seed)).targets != IGNORED
        begins = np.array([character.isspace() for character in TEXT[:300]])
        word = np.cumsum(begins)
        assert all(chosen[word == one].all() or not chosen[word == one].any() for one in set(word))
        assert 0 < chosen.sum() <= 90 and chosen.sum() > 70


def test_loss_and_scores_by_hand(text):
    task, other = made(text), made(text, seed=2)
    model = model_of(task)
    batch = task.batch(0)
    log_p = model(batch.inputs["tokens"]).log_softmax(-1)
    chosen = batch.targets != IGNORED
    expected = -log_p[chosen].gather(-1, batch.targets[chosen][:, None]).mean()
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)

    nats, right, count = 0.0, 0, 0
    for tokens, targets, _ in other.altered:  # the same of every seed, one by one
        logits = model(torch.from_numpy(tokens)[None])[0]
        asked = torch.from_numpy(targets)
        nats += float(F.cross_entropy(logits, asked, reduction="sum", ignore_index=IGNORED).detach())
        right += int((logits.argmax(-1) == asked).sum())
        count += int((asked != IGNORED).sum())
    scores = task.evaluate(model)
    assert scores.loss == pytest.approx(nats / count, rel=1e-5) and scores["accuracy"] == right / count
    assert scores["pseudo_perplexity"] == pytest.approx(math.exp(scores.loss)) and scores["tokens"] == count
    assert 2 < task.baselines()["unigram"] < math.log(task.numbers["vocab"])
    part = task.on_sample(int(task.cost_of(16)))
    assert part is not None and len(part.altered) == 16 < len(task.altered)


def filled(model, predictor, texts, **settings):
    return predictor.predict([model], texts, FillSettings(**settings))


def test_gaps_are_filled_alone_as_in_a_batch():
    tokenizer = tokenizers.get("bpe").train([TEXT], 300)
    read = check_model(LAYER, {**SMALL, **tasks.get("masked").model, "vocab": 301, "context": 32})
    model, predictor = build(read, seed=3).eval(), Filling(tokenizer, documents=True)
    texts = ["Line [MASK] speaks", "[MASK] it [MASK]? It is.", "so[MASK]"]
    together = filled(model, predictor, texts, n_best=4)
    for text, answers in zip(reversed(texts), filled(model, predictor, texts[::-1], n_best=4), strict=True):
        (alone,), same = filled(model, predictor, [text], n_best=4), together[texts.index(text)]
        assert [one.text for one in alone] == [one.text for one in answers] == [one.text for one in same]
        assert [one.score for one in alone] == pytest.approx([one.score for one in same], rel=1e-4)

    end, mask = tokenizer.end_of_document, 300
    logits = model(torch.tensor([[end, *tokenizer.encode("so"), mask, end]]))[0, -2, :300].detach()
    logits[end] = -torch.inf  # no gap is the end of a document
    best = logits.softmax(-1).topk(4)
    assert [one.score for one in together[2]] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert [one.text for one in together[2]] == ["so" + tokenizer.decode([token]) for token in best.indices.tolist()]
    several = together[1]  # the most probable combinations
    assert [math.prod(one.probabilities) for one in several] == pytest.approx([one.score for one in several])
    assert several[0].score >= several[1].score and len({one.probabilities for one in several}) == 4
    (other,) = filled(model, predictor, ["so ___ __"], sign="___", n_best=1)
    assert other[0].text.endswith(" __")
    with pytest.raises(InputError, match=r"no gap in .*write \[MASK\]"):
        filled(model, predictor, ["Line 7 speaks"])
    with pytest.raises(InputError, match="text 2 has 3[45] tokens, and the model has learned 32 positions"):
        filled(model, predictor, ["Line [MASK]", "?" * 32 + "[MASK]"])


@pytest.mark.slow
def test_a_run_is_used_from_its_folder(text, tmp_path):
    out = tmp_path / "run"
    given = {"tokenizer": "characters", "batch": 2, "context": 24, "steps": 2, "precision": "float32", "quiet": True}
    train(LAYER, task="masked", data=text, out=str(out), **SMALL, **given)
    report = evaluate(out)
    assert report.baselines.keys() == {"unigram"} and "most frequent token" in report.verdict
    model = Model.from_folder(out)
    answer = model.predict("Line [MASK] speaks", scores=True)
    assert len(answer.text) == len("Line 7 speaks") and answer.tokens[0] == answer.text[5]
    assert train(resume=out, steps=3, quiet=True).result.steps == 3


def test_types_are_all_the_first(text):
    task = made(text)
    numbers = {"depth": 1, "width": 16, "heads": 2, **task.numbers}
    read = check_model("bert", numbers)
    type(task).check(read)
    model, batch = build(read, seed=3).eval(), task.batch(0)
    tokens = batch.inputs["tokens"]
    assert torch.equal(masked_logits(model, batch), model(tokens, torch.zeros_like(tokens)))


def test_what_is_refused(text):
    kind = tasks.get("masked-language-modeling")
    with pytest.raises(InputError, match="--family encoder"):
        kind.check(check_model(LAYER, SMALL))
    with pytest.raises(InputError, match="reads source, tokens"):
        kind.check(check_model(LAYER, {**SMALL, "family": "encoder-decoder"}))
    with pytest.raises(ConfigError, match="more than all of them"):
        made(text, mask_share=0.8, random_share=0.3)
