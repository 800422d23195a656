"""Pre-training by repair: batches by hand, the same evaluation always, ids above the tokenizer's, what is refused."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transformula.api.reading import check_model
from transformula.errors import ConfigError, DataError, InputError
from transformula.model import build
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.repairing import hide_spans, infill, reorder, sentence_ends
from transformula.tasks.repairing import shown as shown_ids
from transformula.tasks.trained import Trained
from transformula.tokenizers.base import load, tokenizers

TEXT = "".join(f"Line {i} speaks of {i * i} things. Is it so? It is.\n" for i in range(120))
LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
KINDS = ("span", "denoising")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(TEXT)
    return str(path)


def made(name, data, numbers=None, batch=4, accumulate=1, seed=1, **given):
    kind = tasks.get(name)
    settings = kind.settings.read({"data": data, **given})
    return kind.make(
        settings, {"context": 32} if numbers is None else numbers, batch=batch, accumulate=accumulate, seed=seed
    )


def model_of(task):
    numbers = {"depth": 1, "width": 16, "heads": 2, "family": "encoder-decoder", **task.numbers}
    read = check_model(LAYER, numbers)
    type(task).check(read)
    return build(read, seed=3, dtype=torch.float64).eval()


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_by_hand(name, text):
    task = made(name, text, accumulate=2, seed=5)
    ids, tokenizer = np.asarray(task.data.training.ids), task.data.tokenizer
    end, first = tokenizer.end_of_document, tokenizer.vocab
    for step, micro in ((0, 0), (7, 1)):
        batch = task.batch(step, micro)
        for row, start in enumerate(task.windows.starts(step, micro)):
            window, chance = ids[start : start + 31], np.random.default_rng((5, step, micro, row))
            if name == "span":
                source, target = hide_spans(window, 0.15, 3.0, first, chance)
            else:
                source, target = reorder(window, sentence_ends(tokenizer), chance), window
                source = infill(source, 0.3, 3.0, first, chance)
            read, written = batch.inputs["source"][row].tolist(), batch.inputs["tokens"][row].tolist()
            asked = [one for one in batch.targets[row].tolist() if one != IGNORED]
            assert read[: len(source) + 1] == [*source, end] and not any(read[len(source) + 1 :])
            assert asked == [*target, end] and written[: len(asked)] == [end, *target]
            for key, size in (("source", len(source) + 1), ("tokens", len(asked))):
                assert int(batch.lengths[key][row] if key in batch.lengths else batch.inputs[key].shape[1]) == size
        assert batch.inputs["source"].shape[1] <= 32 and batch.targets.shape[1] <= 32
        assert task.units(batch) == int((batch.targets != IGNORED).sum())


@pytest.mark.parametrize("name", KINDS)
def test_another_seed_another_damage_but_the_same_evaluation(name, text):
    one, other = made(name, text, seed=1), made(name, text, seed=2)
    assert not torch.equal(one.batch(0).inputs["source"][0], other.batch(0).inputs["source"][0])
    again = made(name, text, seed=1)
    for given, same in zip(one.batch(3).given.values(), again.batch(3).given.values(), strict=True):
        assert torch.equal(given, same) if isinstance(given, torch.Tensor) else given.keys() == same.keys()
    pairs = list(zip(one.altered, other.altered, strict=True))
    assert pairs and all((a.source == b.source).all() and (a.target == b.target).all() for a, b in pairs)


@pytest.mark.parametrize("name", KINDS)
def test_the_validation_text_is_measured_as_a_whole(name, text):
    task = made(name, text)
    model = model_of(task).train()
    scores = task.evaluate(model)
    assert model.training and set(task.measures) <= set(scores)
    nats, tokens = 0.0, 0
    model.eval()
    for row in task.altered:  # one by one, without padding
        said = model(source=torch.tensor(row.source)[None], tokens=torch.tensor([task.end, *row.target[:-1]])[None])
        nats += float(F.cross_entropy(said[0].double(), torch.tensor(row.target), reduction="sum").detach())
        tokens += len(row.target)
    # Logits are looked at in float32, so that this is not closer.
    assert scores.loss == pytest.approx(nats / tokens, rel=1e-6) and scores["tokens"] == tokens
    if name == "denoising":
        whole = [token for row in task.altered for token in row.target[:-1]]
        assert whole == task.data.validation.ids[: len(whole)].tolist() and len(task.data.validation) - len(whole) < 2


@pytest.mark.parametrize("name", KINDS)
def test_loss_is_that_of_the_targets(name, text):
    task = made(name, text)
    model, batch = model_of(task), task.batch(0)
    logits = model(**batch.given)
    wanted = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
    assert task.loss(model, batch).item() == pytest.approx(wanted.item(), rel=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_a_baseline_that_knows_only_how_often(name, text):
    task = made(name, text)
    found = task.baselines()["unigram"]
    assert 1 < found < math.log(task.numbers["vocab"])
    assert (
        task.verdict({"loss": found - 0.5})
        == f"{found - 0.5:.2f} nats per target token: below the unigram ({found:.2f})"
    )


@pytest.mark.parametrize(("name", "extra"), [("span", 100), ("denoising", 1)])
def test_ids_above_the_tokenizers(name, extra, text, tmp_path):
    task = made(name, text)
    tokenizer = task.data.tokenizer
    assert tokenizer.kind == "characters" and tokenizer.end_of_document is not None  # though it is a single text
    assert task.numbers == {"vocab": tokenizer.vocab + extra, "context": 32}
    assert made(name, text, {"context": 32, "vocab": 900}, tokenizer="bytes").numbers["vocab"] == 900
    learnt = made(name, text, {"context": 32, "vocab": 400}, tokenizer="bpe")
    assert learnt.data.tokenizer.vocab <= 400 - extra and learnt.numbers["vocab"] == 400
    with pytest.raises(ConfigError, match=f"vocab: the model says 257; .* has 257, and {extra} more"):
        made(name, text, {"vocab": 257}, tokenizer="bytes")
    # A task from a source to a target that goes on with the tokenizer lets the model keep what it has above.
    task.predictor().save(tmp_path)
    assert load(tmp_path).identity == tokenizer.identity
    rows = tmp_path / "rows.tsv"
    rows.write_text("source\ttarget\n" + "".join(f"Line {i}\tthings {i}\n" for i in range(40)))
    kind = tasks.get("translation")
    later = kind.make(
        kind.settings.read({"data": str(rows), "tokenizer": str(tmp_path)}), {"vocab": task.numbers["vocab"]}
    )
    assert later.numbers["vocab"] == task.numbers["vocab"] and later.data.writing.end == task.end


def test_a_trained_model_is_scored(text, tmp_path):
    task = made("span", text)
    model = model_of(task)
    task.predictor().save(tmp_path)
    read = check_model(LAYER, {"family": "encoder-decoder", **task.numbers})
    trained = Trained("here", tmp_path, read, [model], task.numbers, {"data": text, "tokenizer": "characters"})
    found = tasks.get("span").report(trained, None, {})
    scores = task.evaluate(model)
    assert found.data["scores"] == scores and found.data["baselines"] == task.baselines()
    assert found.data["validation"] == f"{scores['tokens']:,} target tokens"


def test_what_is_shown(text):
    task = made("span", text, {"context": 64})
    model = model_of(task)
    shown = task.sample(model)
    assert (
        shown.count("input ") == shown.count("output ") == 3
        and "<1>" in shown
        and "\n" not in shown_ids(task, [0, 1])
    )
    assert "<mask>" in made("denoising", text).sample(model_of(made("denoising", text)))
    assert "validation_tokens" in task.preview().data and task.describe()["mean_span"] == 3.0


def test_settings_that_do_not_fit(text, tmp_path):
    with pytest.raises(ConfigError, match="windows of 511 tokens have 26 spans, and there are 20 sentinels"):
        made("span", text, {"context": 512}, sentinels=20)
    with pytest.raises(InputError, match="context: 2 is too small"):
        made("span", text, {"context": 2})
    with pytest.raises(DataError, match="too short"):
        made("denoising", text, {"context": 100_000})
    with pytest.raises(ConfigError, match="stride: unknown key"):
        tasks.get("span").settings.read({"stride": 3})
    tokenizers.get("characters").train([TEXT]).save(tmp_path)
    with pytest.raises(InputError, match="no token that ends a text"):
        made("denoising", text, tokenizer=str(tmp_path))


def test_models_that_do_not_fit(text):
    with pytest.raises(InputError, match="an encoder and a decoder; this one reads tokens.*--family encoder-decoder"):
        tasks.get("span").check(check_model(LAYER))
