"""The batches of a step, accumulated: the gradient of every task is that of all their rows in one batch."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tests.tasks.tones import write_tones
from tests.training.test_loop import run
from tests.training.toy import ToyModel, ToyTask
from transformula.comparison.costs import prepare
from transformula.interop.weights import load_tensors
from transformula.model import build
from transformula.tasks.algorithmic import Algorithmic
from transformula.tasks.base import Batch, Task, tasks
from transformula.tasks.row_predictor import padded
from transformula.training.fit import shares_of
from transformula.training.parallel.data_parallel import parts_of_rank
from transformula.training.parallel.place import RankPlace
from transformula.training.parallel.world import Ranks

WORDS = "the with statement a cat dog sat on mat moon sees bird old tree where can i eat wrote it in winter".split()
MODELS = {"translation": "translator", "summarization": "translator", "captioning": "captioner", "span": "translator"}
MODELS |= {"denoising": "translator", "replaced-token-detection": "electra", "visual-question-answering": "llava"}
DATA = {
    "classification": "labels.tsv", "image-classification": "pictures", "tagging": "tags.jsonl",
    "question-answering": "questions.jsonl", "translation": "pairs.tsv", "summarization": "pairs.tsv",
    "captioning": "pictures", "dialogue": "chats.jsonl", "multiple-choice": "choices.jsonl",
    "visual-question-answering": "pictures/questions.jsonl",
    "audio-classification": "tones.tsv", "speech-recognition": "tones.tsv",
    "preference": "preferred.jsonl", "reward-model": "preferred.jsonl",
}  # fmt: skip
COLUMNS = {"source": "text", "target": "other"}
OPTIONS: dict[str, dict[str, Any]] = {
    "translation": COLUMNS, "summarization": COLUMNS, "classification": {"text": "text", "label": "label"},
    "image-classification": {"patch": 4}, "visual-question-answering": {"side": 16, "patch": 4},
    "preference": {"loss": "orpo"},
    "masked-language-modeling": {"mask_words": True}, "replaced-token-detection": {"mask_words": True},
}  # fmt: skip
BYTES = {"multiple-choice", "dialogue", "question-answering", "preference", "reward-model"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of very different lengths for every task."""
    folder, draw = tmp_path_factory.mktemp("ragged"), random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=1 + draw.randrange(12))) for _ in range(60)]
    rows: dict[str, list[Any]] = {"tags.jsonl": [], "questions.jsonl": [], "chats.jsonl": [], "choices.jsonl": []}
    rows["preferred.jsonl"] = []
    for number, text in enumerate(texts):
        words = text.split()
        rows["tags.jsonl"].append({"tokens": words, "tags": [draw.choice("AB") for _ in words]})
        answers = [words[0]] * (number % 3 > 0)
        rows["questions.jsonl"].append({"question": f"{number}?", "context": f"{number} {text}", "answers": answers})
        said = [{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": text}]
        rows["chats.jsonl"].append({"messages": said})
        rows["preferred.jsonl"].append({"prompt": f"{number}?", "chosen": text, "rejected": f"no {words[0]}"})
        rows["choices.jsonl"].append({"context": f"{number} {text}", "choices": [text, "no"], "label": number % 2})
    for name, each in rows.items():
        (folder / name).write_text("\n".join(map(json.dumps, each)))
    labels = [f"{text} {number}\t{draw.choice('ab')}" for number, text in enumerate(texts)]
    (folder / "labels.tsv").write_text("\n".join(["text\tlabel", *labels]))
    pairs = [f"{text} {number}\t{text[: 3 + number]}" for number, text in enumerate(texts)]
    (folder / "pairs.tsv").write_text("\n".join(["text\tother", *pairs]))
    (folder / "notes.txt").write_text("\n".join(texts * 4))
    write_tones(folder, 60)
    (folder / "pictures").mkdir()
    for number in range(60):
        pixels = np.random.default_rng(number).integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{number}.png")
    captions = [f"{number}.png\t{'a cat' if number % 2 else 'an old dog'}" for number in range(60)]
    (folder / "pictures" / "captions.tsv").write_text("\n".join(["file_name\tlabel", *captions]))
    asked = [{"image": f"{n}.png", "question": text[:40], "answer": text[-9:]} for n, text in enumerate(texts)]
    (folder / "pictures" / "questions.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return folder


def task_and_model(name: str, data: Path) -> tuple[Task, nn.Module]:
    """Of "classification+" with what `WEIGHTED` says."""
    name, weighted = name.removesuffix("+"), name.endswith("+")
    given: dict[str, Any] = {"model": MODELS.get(name, "pre-norm"), "task": name, "width": 16, "heads": 2}
    kind = tasks.get(name)
    if not issubclass(kind, Algorithmic):
        given["data"] = str(data / DATA.get(name, "notes.txt"))
    if "tokenizer" in kind.settings.model_fields and name in BYTES:
        given["tokenizer"] = "bytes"
    given |= {"context": 24} if name not in DATA and not issubclass(kind, Algorithmic) else {}
    if "batch_tokens" in kind.settings.model_fields:
        given["batch_tokens"] = 300 if name in BYTES else 80
    elif kind.sequences:
        given["batch"] = 4
    given |= WEIGHTED[name] if weighted else {}
    ready = prepare({**given, "depth": 1, "accumulate": 2, **OPTIONS.get(name, {})})
    return ready.task, build(ready.architecture, seed=3, dtype=torch.float64).eval()  # without dropout


def joined(batches: list[Batch]) -> Batch:
    """All rows of batches in one."""

    def tensors(of: list[Any], filled: float = 0) -> Tensor:
        return padded([row for each in of for row in each], filled)

    first = batches[0]
    inputs = {name: tensors([batch.inputs[name] for batch in batches]) for name in first.inputs}
    lengths = {}
    for name in {name for batch in batches for name in batch.lengths} | set(first.lengths):
        whole = [torch.full(b.inputs[name].shape[:-1], b.inputs[name].shape[-1]) for b in batches]
        lengths[name] = torch.cat([b.lengths.get(name, size) for b, size in zip(batches, whole, strict=True)])
    for name in inputs:  # without padding in each, and with in all
        sizes = [batch.inputs[name].shape[-1] for batch in batches]
        sequences = inputs[name].dtype == torch.int64 or inputs[name].dim() == 2  # no pictures
        if sequences and len(set(sizes)) > 1 and name not in lengths:
            shapes = [batch.inputs[name].shape for batch in batches]
            lengths[name] = torch.cat([torch.full(shape[:-1], shape[-1]) for shape in shapes])
    more = {"draws": tensors([batch.draws for batch in batches])} if hasattr(first, "draws") else {}  # type: ignore[attr-defined]
    return replace(first, inputs=inputs, targets=tensors([b.targets for b in batches], -100), lengths=lengths, **more)


def gradient(task: Task, model: nn.Module, shared: list[tuple[Batch, float]]) -> dict[str, Tensor]:
    model.zero_grad()
    for part, share in shared:
        part = replace(part, inputs={n: t.double() if t.is_floating_point() else t for n, t in part.inputs.items()})
        (task.loss(model, part) * share).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


NAMES = [name for name in tasks.names() if tasks.get(name).__module__.startswith("transformula.")]


WEIGHTED = {name: {"class_weights": "a=5,b=0.5"} for name in ("classification",)}


@pytest.mark.parametrize("name", [name for name in NAMES if not tasks.get(name).compares] + [f"{n}+" for n in WEIGHTED])
def test_the_gradient_of_a_step_is_that_of_all_its_rows(name: str, data: Path) -> None:
    task, model = task_and_model(name, data)
    batches = [task.batch(step, micro) for step in (0, 1) for micro in (0, 1)]
    batches = sorted(batches, key=lambda batch: len(batch.targets))
    few = joined(batches[2:])  # more rows than the others, and longer ones
    whole = gradient(task, model, [(joined(batches), 1.0)])
    some = shares_of(task, [*batches[:2], few], 1)
    assert sum(share for _, share in some) == pytest.approx(1)
    for shared in (some, of_two_ranks(some)):
        found = gradient(task, model, shared)
        assert found.keys() == whole.keys() and any(each.any() for each in whole.values())
        for key in whole:
            # a loss is made in float32 from logits in some tasks
            torch.testing.assert_close(found[key], whole[key], atol=2e-6, rtol=1e-5, msg=key)


def of_two_ranks(shared: list[tuple[Batch, float]]) -> list[tuple[Batch, float]]:
    """What two ranks make of a step, one after the other."""
    ranks = [Ranks(RankPlace(number, 2, number, 2)) for number in range(2)]
    return [(batch, share) for each in ranks for _, batch, share in parts_of_rank(each, shared)]


class RowLoss(ToyTask):
    """Counts positions, and its loss is a mean over rows: every other batch has few rows that are long."""

    def batch(self, step: int, micro: int = 0) -> Batch:
        parts = [super(RowLoss, self).batch(step, number) for number in range(2)]
        rows = parts[0].inputs["tokens"][:1], parts[1].inputs["tokens"][:, :2]
        batches = [Batch({"tokens": each}, each[:, 0]) for each in rows]
        return batches[micro]

    def units(self, batch: Batch) -> int:
        return batch.inputs["tokens"].numel()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        targets = batch.targets if batch.targets.dim() == 1 else batch.targets[:, 0]  # those of the validation set
        return nn.functional.cross_entropy(model(**batch.given)[:, 0], targets)


def test_a_run_that_accumulates_weighs_rows_and_not_positions(tmp_path: Path) -> None:
    class Whole(RowLoss):
        def batch(self, step: int, micro: int = 0) -> Batch:
            both = [super(Whole, self).batch(step, number) for number in range(2)]
            rows = padded([row for each in both for row in each.inputs["tokens"]])
            return Batch({"tokens": rows}, torch.cat([each.targets for each in both]))

    for name, task, count in (("parts", RowLoss(), 2), ("whole", Whole(), 1)):
        run(tmp_path / name, task=task, model=ToyModel(dropout=0.0), steps=3, accumulate=count)
    one, other = (load_tensors(tmp_path / name / "last/weights.safetensors") for name in ("parts", "whole"))
    for key in one.keys() - {"seen"}:
        torch.testing.assert_close(one[key], other[key], atol=1e-4, rtol=1e-3)
