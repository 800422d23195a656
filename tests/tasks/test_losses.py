"""The loss and its gradients are those of the dense form; memory is that of logits and their gradient."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from transformula.errors import InputError
from transformula.tasks import losses
from transformula.tasks.losses import RowTable, smoothed_cross_entropy

VOCAB = 11


def dense(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """-sum_v q_v log p_v with the smoothed target q written out: (tokens, vocab)."""
    real = targets != -100
    wanted = F.one_hot(targets[real], VOCAB).to(logits) * (1 - smoothing) + smoothing / VOCAB
    return -(wanted * torch.log_softmax(logits[real], -1)).sum(-1).mean()


def given(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3, 7, VOCAB, generator=generator, dtype=torch.float64)
    targets = torch.randint(VOCAB, (3, 7), generator=generator)
    targets[0, 4:] = targets[2, 1:] = -100
    return logits.to(dtype).requires_grad_(), targets


@pytest.mark.parametrize("at_once", [1, 4 * VOCAB, 1 << 22], ids=["a row", "four rows", "whole"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_loss_and_gradients_are_those_of_the_dense_form(
    smoothing: float, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(losses.AT_ONCE, "cpu", at_once)
    logits, targets = given()
    expected = dense(logits, targets, smoothing)
    found = smoothed_cross_entropy(logits, targets, smoothing)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)
    (a,), (b,) = torch.autograd.grad(3 * found, logits), torch.autograd.grad(3 * expected, logits)
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-15)
    assert (a[targets == -100] == 0).all()
    flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
    torch.testing.assert_close(found, flat, rtol=1e-13, atol=0)


def test_numerical_gradient() -> None:
    logits, targets = given()
    assert torch.autograd.gradcheck(lambda x: smoothed_cross_entropy(x, targets, 0.2), logits)


def test_what_stands_at_positions_that_do_not_count_changes_nothing() -> None:
    logits, targets = given()
    expected = smoothed_cross_entropy(logits, targets)
    changed = logits.detach().clone()
    changed[targets == -100] = float("nan")
    changed.requires_grad_()
    found = smoothed_cross_entropy(changed, targets)
    found.backward()
    assert found == expected and torch.isfinite(changed.grad).all()


def test_without_a_real_position_the_loss_is_nought() -> None:
    logits, targets = given()
    found = smoothed_cross_entropy(logits, torch.full_like(targets, -100))
    found.backward()
    assert found == 0 and (logits.grad == 0).all()


def test_bfloat16_is_summed_in_float32() -> None:
    logits, targets = given(torch.bfloat16)
    found = smoothed_cross_entropy(logits, targets)
    exact = logits.detach().double().requires_grad_()
    expected = dense(exact, targets, 0.1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    found.backward()
    expected.backward()
    assert logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=4e-3, atol=1e-9)


class Peak(TorchDispatchMode):
    """The most storages of at least `size` numbers that operations made and that were alive at once."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.peak, self.alive = size, 0, {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.untyped_storage().nbytes() // result.element_size() >= self.size:
            storage = result.untyped_storage()
            self.alive[storage.data_ptr()] = StorageWeakRef(storage)
        self.alive = {place: one for place, one in self.alive.items() if not one.expired()}
        self.peak = max(self.peak, len(self.alive))
        return result


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_gradient_is_the_only_tensor_beside_the_logits(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(losses.AT_ONCE, "cpu", 4 * VOCAB)
    leaf, targets = given()
    with Peak(leaf.numel()) as held:
        smoothed_cross_entropy(leaf * 1.0, targets, smoothing).backward()
    assert held.peak == 2
    with torch.no_grad(), Peak(leaf.numel()) as held:
        smoothed_cross_entropy(leaf * 1.0, targets, smoothing)
    assert held.peak == 1
    with Peak(leaf.numel()) as held:
        dense_loss = F.cross_entropy((leaf * 1.0).flatten(0, 1), targets.flatten(), label_smoothing=smoothing)
        dense_loss.backward()
    assert held.peak > 2


def test_what_is_refused() -> None:
    logits, targets = given()
    for smoothing in (-0.1, 1.0):
        with pytest.raises(InputError, match="from 0 .none. to below 1"):
            smoothed_cross_entropy(logits, targets, smoothing)
    with pytest.raises(InputError, match=r"logits \(3, 7, 11\) with targets \(21,\)"):
        smoothed_cross_entropy(logits, targets.flatten())


def test_a_table_of_rows_holds_all_of_them_in_order() -> None:
    table = RowTable(2)
    assert table.numbers().shape == (0, 2)
    table.add(torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64))
    table.add(torch.tensor([[5.0], [6.0]], dtype=torch.float64).T)
    assert table.numbers().tolist() == [[1, 2], [3, 4], [5, 6]]


EVALUATION = """
import resource, torch
from transformula import words
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.tasks.base import Batch
from transformula.tasks.losses import target_nats

torch.set_num_threads(1)
text = "layer: x = x + attention(norm(x)); x = x + mlp(norm(x))"
sizes = {"depth": 1, "width": 32, "heads": 2, "vocab": 256, "context": 256}
model = build(check(read_text(text), words.vocabulary(), sizes), seed=0).eval()

def batches(count):
    for _ in range(count):
        tokens = torch.randint(256, (64, 257))
        yield Batch({"tokens": tokens[:, :-1]}, tokens[:, 1:].clone())

for count in (10, 60):
    target_nats(model, batches(count), torch.device("cpu"))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in other units elsewhere")
def test_an_evaluation_takes_no_memory_for_each_batch() -> None:
    """Small results that were kept one by one stood between large tensors: 2 MB a batch were lost."""
    done = subprocess.run([sys.executable, "-c", EVALUATION], capture_output=True, text=True, check=True)
    few, many = map(int, done.stdout.split())
    assert many - few < 50_000, f"{many - few} KB more for 50 batches more"
