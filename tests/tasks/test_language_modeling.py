"""The task of language modeling: batches, exact scores, baselines in words."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from transformula import evaluate, gallery, train
from transformula.data.cache import cache_entries
from transformula.data.settings import DataSettings
from transformula.errors import ConfigError, DataError, InputError, UnknownName
from transformula.language.check import check
from transformula.tasks import scored_text
from transformula.tasks.base import Scores, task, tasks
from transformula.tasks.language_modeling import LanguageModeling
from transformula.tasks.scored_text import ScoredWindow, spans
from transformula.tasks.scores.report import interval_of, standing
from transformula.tokenizers.base import load
from transformula.words import vocabulary

TEXT = "".join(f"line {i} speaks of {i * i} things.\n" for i in range(200))


class Bigram(nn.Module):
    """Logits from the last token alone; counts what it is asked."""

    def __init__(self, vocab: int, scale: float = 1.0) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, vocab)
        nn.init.normal_(self.table.weight, std=scale)
        self.dropout = nn.Dropout(0.5)
        self.lengths: list[int] = []

    def forward(self, tokens):
        self.lengths.append(tokens.shape[1])
        return self.dropout(self.table(tokens))


@pytest.fixture
def one(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def many(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"text": line + " é"}) + "\n" for line in TEXT.splitlines()))
    return str(path)


def make(data, batch=4, numbers=None, accumulate=1, seed=1, **settings):
    numbers = {"context": 16} if numbers is None else numbers
    return LanguageModeling.make(
        DataSettings(data=data, **settings), numbers, batch=batch, accumulate=accumulate, seed=seed
    )


def by_hand(model, ids, context):
    """Nats of each token but the first, in windows without overlap, one window after the other."""
    model.eval()
    total = 0.0
    for start in range(0, len(ids) - 1, context):
        row = torch.tensor(ids[start : start + context + 1].tolist())
        logs = model(row[None, :-1])[0].double().log_softmax(-1)
        total -= logs.gather(1, row[1:, None]).sum().item()
    return total


def test_found_by_name():
    assert tasks.get("language-modeling") is LanguageModeling and LanguageModeling.name == "language-modeling"
    assert tasks.get("language-modelling") is LanguageModeling
    with pytest.raises(UnknownName, match="did you mean language-modeling"):
        tasks.get("language-model")


def test_a_task_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in ("_known", "_needed", "_records"):  # for other tests it is not there
        monkeypatch.setattr(tasks, kept, dict(getattr(tasks, kept)))

    @task("outside")
    class Outside(LanguageModeling):
        pass

    assert tasks.get("outside").name == "outside" and LanguageModeling.name == "language-modeling"


def test_numbers_and_batches(one):
    task = make(one)
    assert task.numbers == {"vocab": len(set(TEXT)), "context": 16} and task.unit == "tokens"
    batch = task.batch(3)
    assert batch.inputs["tokens"].shape == (4, 16) and task.units(batch) == 64
    assert torch.equal(batch.inputs["tokens"], make(one).batch(3).inputs["tokens"])
    assert not torch.equal(batch.inputs["tokens"], make(one, seed=2).batch(3).inputs["tokens"])
    assert torch.equal(batch.to("cpu").targets, batch.targets)
    assert make(one, numbers={}).numbers["context"] == 128


def test_loss_is_the_mean_in_float32(one):
    task = make(one)
    model = Bigram(task.numbers["vocab"]).eval()
    batch = task.batch(0)
    loss = task.loss(model, batch)
    logs = model(batch.inputs["tokens"]).log_softmax(-1)
    assert loss.dtype == torch.float32 and loss.ndim == 0
    assert loss.item() == pytest.approx(-logs.gather(2, batch.targets[..., None]).mean().item(), rel=1e-5)
    assert task.loss(model.bfloat16(), batch).dtype == torch.float32


@pytest.mark.parametrize("tokens", [2, 3, 16, 17, 18, 33, 100])
@pytest.mark.parametrize(("context", "stride"), [(16, 0), (16, 16), (16, 4), (16, 1), (5, 3), (1, 0)])
def test_spans_predict_each_token_once(tokens, context, stride):
    seen = []
    for span in spans(tokens, context, stride):
        assert 0 <= span.start and span.length <= context and span.start + span.length < tokens
        targets = range(span.start + span.first + 1, span.start + span.length + 1)
        assert len(targets) and (not seen or not stride or span.first >= context - stride)
        seen += targets
    assert seen == list(range(1, tokens))


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe"])
@pytest.mark.parametrize("kind", ["one", "many"])
def test_scores_are_exact(request, kind, tokenizer):
    task = make(request.getfixturevalue(kind), tokenizer=tokenizer)
    torch.manual_seed(0)
    model = Bigram(task.numbers["vocab"])
    scores = task.evaluate(model)
    ids = task.data.validation.ids
    nats = by_hand(model, ids, 16)
    text = "".join(task.data.split.validation)
    predicted = len(text.encode()) - (0 if task.data.split.whole else len(task.data.tokenizer.pieces[ids[0]]))
    assert scores["tokens"] == len(ids) - 1 and scores["bytes"] == predicted
    assert scores.loss == pytest.approx(nats / (len(ids) - 1), rel=1e-6)
    assert scores["bits_per_byte"] == pytest.approx(nats / math.log(2) / predicted, rel=1e-6)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))


@pytest.mark.parametrize("settings", [{}, {"stride": 4}, {"tokenizer": "bpe"}])
def test_some_windows_are_made_alone(many, settings, monkeypatch):
    scored, made = make(many, **settings).scored, []
    whole = list(scored.spans)
    monkeypatch.setattr(scored_text, "ScoredWindow", lambda *given: made.append(given) or ScoredWindow(*given))
    part = scored.kept([3, 1, len(whole) - 1]).kept([2, 0])
    assert part.spans == [whole[-1], whole[3]] and len(made) == 2
    pieces, ids = scored.data.tokenizer.pieces, scored.data.validation.ids
    targets = [ids[w.start + 1 + w.first : w.start + 1 + w.length] for w in part.spans]
    assert part.bytes == sum(len(pieces[token]) for row in targets for token in row) > 0
    assert scored.kept(range(len(whole))).bytes == scored.bytes


def test_each_score_of_a_text_has_resamples(one):
    task = make(one)
    scores = task.evaluate(Bigram(task.numbers["vocab"]))
    loss, each = scores.resampled["loss"], scores.resampled
    assert len(set(loss)) > 100 and each["perplexity"] == [math.exp(nats) for nats in loss]
    assert each["bits_per_byte"] == pytest.approx([nats / loss[0] * each["bits_per_byte"][0] for nats in loss])
    assert interval_of(each["perplexity"])[0] < scores["perplexity"] < interval_of(each["perplexity"])[1]


def test_a_uniform_model_scores_the_logarithm(many):
    task = make(many, tokenizer="bytes")
    assert task.evaluate(Bigram(257, 0.0)).loss == pytest.approx(math.log(257), rel=1e-6)


def test_evaluation_leaves_modes_and_reports_progress(one):
    task = make(one)
    model = Bigram(task.numbers["vocab"]).train()
    model.table.eval()
    seen = []
    first = task.evaluate(model, lambda done, total: seen.append((done, total)))
    assert model.training and model.dropout.training and not model.table.training
    assert seen[-1] == (first["tokens"], first["tokens"])
    assert task.evaluate(model) == first  # no dropout in it
    assert max(model.lengths) == 16 and all(p.grad is None for p in model.parameters())


def test_a_stride_changes_the_context_and_nothing_else(one):
    torch.manual_seed(0)
    plain = make(one)
    model = Bigram(plain.numbers["vocab"])
    scores, strided = plain.evaluate(model), make(one, stride=4).evaluate(model)
    assert strided["tokens"] == scores["tokens"] and strided.loss == pytest.approx(scores.loss, rel=1e-6)
    with pytest.raises(ConfigError, match="stride: 17 is more than the context, 16"):
        make(one, stride=17)


def test_a_diverged_model_has_scores_too(one):
    task = make(one)
    model = Bigram(task.numbers["vocab"], 1e5)
    assert task.evaluate(model)["perplexity"] == math.inf


def test_too_short_for_a_window(one):
    with pytest.raises(DataError, match="one.txt is too short: .* a window of context 100000 needs 100001"):
        make(one, numbers={"context": 100_000})


def test_baselines_are_cached_and_in_the_unit_of_the_score(one, many):
    characters, data = make(one), make(many)
    assert characters.score_unit == "nats per character" and data.score_unit == "bits per byte"
    found = characters.baselines()
    assert list(found) == ["3-gram", "4-gram", "5-gram", "6-gram"] and all(0 < v < 3 for v in found.values())
    count = len(cache_entries())
    assert characters.baselines() == found and len(cache_entries()) == count
    as_bytes = make(one, tokenizer="bytes").baselines()
    assert as_bytes["3-gram"] == pytest.approx(found["3-gram"] / math.log(2))
    (entry,) = [e for e in cache_entries() if e.kind == "baselines"]
    (entry.path / "about.json").write_text("{}")
    assert characters.baselines() == found


def test_verdicts():
    baselines = {"3-gram": 2.04, "4-gram": 1.72, "5-gram": 1.57, "6-gram": 1.54}
    assert standing(1.88, baselines) == "below the 3-gram (2.04), above the 4-gram (1.72)"
    assert standing(1.47, baselines) == "below the 6-gram (1.54) and the 5-gram (1.57)"
    assert standing(3.0, baselines) == "above the 3-gram (2.04) and the 4-gram (1.72)"
    assert standing(1.54, baselines) == "below the 5-gram (1.57), above the 6-gram (1.54)"
    assert standing(math.nan, baselines) == "not a finite number" and standing(1.0, {}) == "no baseline"


def test_verdict_of_a_task(one, many):
    text = make(many).verdict(Scores(loss=9.0, bits_per_byte=0.01))
    assert text.startswith("0.01 bits per byte: below the ") and "-gram (" in text
    assert make(one).verdict(Scores(loss=9.0, bits_per_byte=0.01)).startswith("9.00 nats per character: above the ")


def test_saved_and_described(many, tmp_path):
    task = make(many)
    task.predictor().save(tmp_path / "model")
    assert load(tmp_path / "model").identity == task.data.tokenizer.identity
    described = json.loads(json.dumps(task.describe()))
    assert described["identity"] == make(many).describe()["identity"] and described["task"] == "language-modeling"
    assert described["identity"] != make(many, split=0.3).describe()["identity"]
    assert described["validation_tokens"] == len(task.data.validation) and described["context"] == 16


class Writer(Bigram):
    """Steps as generation asks for them."""

    context_limit = None

    def start(self, batch, capacity):
        return self

    def step(self, tokens, decoding, new=None):
        return self(tokens)

    def select(self, rows):
        return self


@pytest.mark.parametrize("tokenizer", ["characters", "bytes", "bpe"])
def test_a_sample_is_text_of_its_seed(one, many, tokenizer):
    for data in (one, many):
        task = make(data, tokenizer=tokenizer)
        torch.manual_seed(0)
        model = Writer(task.numbers["vocab"]).train()
        text = task.sample(model, seed=3)
        assert isinstance(text, str) and text and text == task.sample(model, seed=3)
        assert model.training and text != task.sample(model, seed=4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vaswani", "and `document` alone; this one reads source, tokens"),
        ("roberta", "sees the answers"),
    ],
)
def test_models_of_another_task_are_refused(name, message):
    architecture = check(gallery.load(name), vocabulary())
    with pytest.raises(InputError, match=message):
        LanguageModeling.check(architecture)
    LanguageModeling.check(check(gallery.load("pre-norm"), vocabulary()))


def test_an_evaluation_says_how_sure_its_scores_are(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one two three four five six seven\n" * 200)
    sizes: dict[str, Any] = {"depth": 1, "width": 8, "heads": 1, "context": 16, "batch": 2, "steps": 2}
    run = train("x = x + mlp(norm(x))", data=str(path), tokenizer="characters", out=str(tmp_path / "run"), **sizes)
    report = evaluate(run.folder)
    scores, intervals = report.data["scores"], report.data["intervals"]
    assert set(intervals) == {"loss", "bits_per_byte", "perplexity"}
    assert all(low < scores[name] < high for name, (low, high) in intervals.items())
    assert intervals["perplexity"] == pytest.approx([math.exp(end) for end in intervals["loss"]], rel=1e-3)
    assert f"({intervals['loss'][0]:.4f} to {intervals['loss'][1]:.4f})" in repr(report)
