"""Replaced token detection: two passes by hand, exact draws, scores, the discriminator as a model of its own."""

import pytest
import torch
from torch.nn import functional as F

from transformula import Model
from transformula.api.plan import plan_run
from transformula.api.reading import check_model
from transformula.api.run import evaluate, train
from transformula.errors import InputError
from transformula.interop.weights import load_tensors, model_tensors
from transformula.model import build
from transformula.tasks.altered_text import altered_batches
from transformula.tasks.base import IGNORED, tasks
from transformula.tasks.replaced_token_detection import Detecting, measured_of, passes, sums_by_row
from transformula.tasks.scores.report import interval_of

TEXT = "".join(f"Line {i} speaks of {i * i} things. Is it so? It is.\n" for i in range(60))
SMALL = {"depth": 1, "width": 16, "heads": 4, "rank": 8, "context": 24}
KIND = tasks.get("replaced-token-detection")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(TEXT)
    return str(path)


def made(data, seed=1, **given):
    settings = KIND.settings.read({"data": data, **given})
    return KIND.make(settings, {"context": 24}, batch=4, accumulate=1, seed=seed)


def model_of(task, dtype=torch.float64):
    read = check_model("electra", {**SMALL, **task.numbers})
    KIND.check(read)
    return build(read, seed=3, dtype=dtype).eval()


def test_two_passes_by_hand(text):
    task = made(text)
    model, batch, mask = model_of(task), task.batch(2), task.masking.mask
    source, tokens, chosen = batch.inputs["source"], batch.inputs["tokens"], batch.targets != IGNORED
    assert torch.equal(tokens[chosen], batch.targets[chosen]) and torch.equal(tokens[~chosen], source[~chosen])
    both = passes(model, batch, mask)
    read = tokens.clone()
    logits = model(source=source, tokens=tokens)["logits"].detach()  # what the other stack reads changes nothing
    for row, place in chosen.nonzero().tolist():
        sums = logits[row, place, :mask].softmax(-1).cumsum(-1)
        read[row, place] = int((sums < batch.draws[row, place] * sums[-1]).sum())
    assert torch.equal(both.tokens, read) and (read[chosen] != tokens[chosen]).any()
    outputs = model(source=source, tokens=read)
    labels = (read != tokens).double()
    generator = F.cross_entropy(outputs["logits"][chosen], batch.targets[chosen])
    detection = F.binary_cross_entropy_with_logits(outputs["replaced"][..., 0], labels)
    loss = task.loss(model, batch)
    assert float(loss.detach()) == pytest.approx(float((generator + 50 * detection).detach()), rel=1e-5)
    loss.backward()
    (generator + 50 * detection).backward()  # one pass through both: twice the same gradient
    loss = task.loss(model, batch)
    twice = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    loss.backward()
    for name, p in model.named_parameters():
        torch.testing.assert_close(2 * p.grad, twice[name], rtol=1e-4, atol=1e-6)


def test_batches_are_of_seed_and_step_and_scores_of_windows_alone(text):
    task, other = made(text), made(text, seed=2)
    for name in ("draws", "targets"):
        assert torch.equal(getattr(task.batch(3), name), getattr(made(text).batch(3), name))
        assert not torch.equal(getattr(task.batch(3), name), getattr(other.batch(3), name))
    model = model_of(task)
    scores = task.evaluate(model)
    other.evaluated_at_once = 1
    assert other.evaluate(model) == pytest.approx(scores, rel=1e-6)  # one by one, the last shorter window too
    assert scores.loss == pytest.approx(scores["generator"] + 50 * scores["detection"])
    resampled = scores.resampled
    for name in ("loss", "generator", "detection", "accuracy"):
        low, high = interval_of(resampled[name])
        assert low < scores[name] < high
    both = zip(resampled["loss"], resampled["generator"], resampled["detection"], strict=True)
    assert all(loss == pytest.approx(generator + 50 * detection) for loss, generator, detection in both)
    assert scores["majority"] >= 0.5 and scores["tokens"] == len(task.data.validation)
    assert "by the more frequent answer" in task.verdict(scores) and "reference" in task.sample(model)


def test_sums_of_rows_are_those_of_the_scores(text):
    task = made(text)
    batch = next(iter(altered_batches(task, model_of(task), None)))
    chosen, both = batch.targets != IGNORED, passes(model_of(task), batch, task.masking.mask)
    sums = sums_by_row(both, chosen).detach()
    for row in range(len(chosen)):
        own = [(batch.inputs["source"][row, :n], batch.inputs["tokens"][row, :n]) for n in [int(both.real[row].sum())]]
        ((source, tokens),) = own
        outputs = model_of(task)(source=source[None], tokens=both.tokens[row, : len(tokens)][None])
        where = chosen[row, : len(tokens)]
        nats = F.cross_entropy(outputs["logits"][0, where], tokens[where], reduction="sum")
        assert float(sums[row, 0]) == pytest.approx(float(nats.detach()), rel=1e-5)
        replaced = both.tokens[row, : len(tokens)] != tokens
        right = int(((outputs["replaced"][0, :, 0] > 0) == replaced).sum())
        assert sums[row, 2:].tolist() == [right, int(replaced.sum()), int(where.sum()), len(tokens)]
    assert [each.score for each in measured_of(sums.numpy(), 50.0)][1] == pytest.approx(
        float(sums[:, 0].sum() / sums[:, 4].sum())
    )


def test_texts_alone_as_in_a_batch(text):
    task = made(text)
    model, predictor = model_of(task), task.predictor()
    assert isinstance(predictor, Detecting)
    texts = ["Line 7 speaks", "Is it so? It is.", "It"]
    together = predictor.predict([model], texts)
    for one, (marked,) in zip(texts, together, strict=True):
        ((alone,),) = predictor.predict([model], [one])
        assert alone.text == marked.text and alone.probabilities == pytest.approx(marked.probabilities)
        assert "".join(marked.tokens) == one and marked.text.replace("[", "").replace("]", "") == one
        assert marked.score == max(marked.probabilities)


@pytest.mark.slow
def test_the_discriminator_goes_on_in_another_task(text, tmp_path):
    out, quiet = str(tmp_path / "run"), {"quiet": True, "precision": "float32"}
    train("electra", task=KIND.name, data=text, out=out, batch=2, steps=2, **SMALL, **quiet)
    assert evaluate(out).scores["accuracy"] > 0 and isinstance(Model.from_folder(out).predict("It is."), str)
    rows = tmp_path / "rows.tsv"
    rows.write_text("label\ttext\n" + "".join(f"{('yes', 'no')[i % 2]}\tIt is {i}.\n" for i in range(60)))
    config = {"task": "classification", "data": str(rows), "init_from": out}
    plan = plan_run({**config, "init_stack": "discriminator"}, [])
    assert plan.start is not None and plan.start.other and plan.architecture.inputs == ["tokens"]
    given, module = load_tensors(tmp_path / "run" / "best" / "weights.safetensors"), build(plan.architecture)
    begun = plan.start.begin(module, plan.architecture)
    assert "loaded words, places, embedded, the stack; randomly initialized: output" in begun.line
    assert begun.new == ("output",)
    for name, tensor in model_tensors(module).items():
        stack = given.get(f"discriminator.{name}")
        assert name.startswith("output") or torch.equal(tensor, given[name] if stack is None else stack)
    done = train(**config, init_stack="discriminator", steps=2, out=str(tmp_path / "rows"), **quiet)
    assert train(resume=tmp_path / "rows", steps=3, quiet=True).result.steps == 3 and done.result.steps == 2
    with pytest.raises(InputError, match="give these two"):
        plan_run({**config, "init_stack": "encoder"}, [])


def test_what_is_refused():
    with pytest.raises(InputError, match="take the gallery's electra"):
        KIND.check(check_model("pre-norm", {"depth": 1}))
