"""Multi-token prediction: loss and scores by hand, texts written by the first output, what is refused."""

import math

import pytest
import torch
from torch.nn import functional as F

from transformula.api.reading import check_model
from transformula.errors import InputError
from transformula.generation import SamplingSettings, generate
from transformula.generation.beam import search
from transformula.generation.settings import SearchSettings
from transformula.model import build
from transformula.tasks.base import tasks

TEXT = "".join(f"Line {i} speaks of {i * i} things. Is it so? It is.\n" for i in range(60))
LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SMALL = {"depth": 1, "width": 16, "heads": 2, "context": 24}
KIND = tasks.get("multi-token-prediction")


def model_of(numbers, **changes):
    read = check_model(LAYER, {**SMALL, **KIND.model, **numbers, **changes})
    KIND.check(read)
    return build(read, seed=3, dtype=torch.float64).eval()


def test_loss_and_scores_by_hand(tmp_path):
    (tmp_path / "one.txt").write_text(TEXT)
    task = KIND.make(KIND.settings.read({"data": str(tmp_path / "one.txt")}), {"context": 24}, batch=4, seed=1)
    model, batch = model_of(task.numbers), task.batch(0)
    tokens, targets = batch.inputs["tokens"], batch.targets
    outputs = model(tokens)
    assert list(outputs) == ["logits", "logits_2", "logits_3", "logits_4"]
    losses = []
    for ahead, logits in enumerate(outputs.values()):
        log_p = logits.log_softmax(-1)
        each = [-log_p[row, at, targets[row, at + ahead]] for row in range(4) for at in range(24 - ahead)]
        losses.append(torch.stack(each).mean())
    expected = torch.stack(losses).mean()
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(expected.detach()), rel=1e-6)

    scores = task.evaluate(model)
    ids = torch.from_numpy(task.data.validation.ids.astype("int64"))
    first, second, count = 0.0, [], 0
    for start in range(0, len(ids) - 1, 24):
        window = ids[start : start + 25]
        outputs = {name: logits[0].detach() for name, logits in model(window[None, :-1]).items()}
        first += float(F.cross_entropy(outputs["logits"], window[1:], reduction="sum"))
        second += F.cross_entropy(outputs["logits_2"][:-2], window[2:-1], reduction="none").tolist()
        count += len(window) - 1
    assert scores.loss == pytest.approx(first / count, rel=1e-6) and scores["tokens"] == count == len(ids) - 1
    assert scores["perplexity"] == pytest.approx(math.exp(scores.loss)) and {"loss_3", "loss_4"} < scores.keys()
    assert scores["loss_2"] == pytest.approx(sum(second) / len(second), rel=1e-6)


def test_a_text_is_written_by_the_output_logits():
    model, greedy = model_of({"vocab": 30}), SamplingSettings(max_tokens=6, temperature=0.0)
    alone = build(check_model(LAYER, {**SMALL, "vocab": 30}), seed=3, dtype=torch.float64).eval()
    alone.load_state_dict({name: model.state_dict()[name] for name in alone.state_dict()})
    prompts = [[1, 2, 3], [4]]
    assert generate(model, prompts, greedy) == generate(alone, prompts, greedy)
    settings = SearchSettings(beam=2, max_length=5)
    best, same = (search(one, prompts, settings, end=0) for one in (model, alone))
    assert [[h.tokens for h in row] for row in best] == [[h.tokens for h in row] for row in same]
    other = build(check_model(LAYER, {**SMALL, "output": "a = linear.a(x, 5); b = linear.b(x, 5)"}), seed=3)
    with pytest.raises(InputError, match="an output named logits; those of this model: a, b"):
        generate(other, prompts, greedy)


@pytest.mark.parametrize("output", ["logits = unembed.words(x)", "logits = unembed.words(x); ahead = unembed.words(x)"])
def test_what_is_refused(output):
    with pytest.raises(InputError, match="needs the outputs logits, logits_2 and so on"):
        KIND.check(check_model(LAYER, {**SMALL, "output": output}))
