"""`--fit` on three models where the system gives no more memory: what it finds runs, and the next larger does not."""

import gc
import resource
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.forked import context
from tests.training.test_loop import run
from tests.training.toy import ToyTask
from transformula import Model
from transformula.cost.machine import of_process, resident
from transformula.errors import RunError
from transformula.model.builder import build
from transformula.runs.folder import RunFolder
from transformula.tasks.base import Batch
from transformula.tasks.chunked_loss import token_loss
from transformula.training import machine
from transformula.training.fit import USABLE_SHARE, parts_of

ROWS, CONTEXT, VOCAB = 12, 512, 500
NO_MEMORY = 7
KINDS = {
    "decoder": "x = x + attention(norm(x))\nx = x + mlp(norm(x))",
    "convolution": "x = x + conv(norm(x), length=3)\nx = x + mlp(norm(x), gated=True)",
    "post-norm with dropout": "x = norm(x + dropout(attention(x), 0.1))\nx = norm(x + dropout(mlp(x), 0.1))",
}


class Tokens(ToyTask):
    """Random tokens, each to be told from itself."""

    def batch(self, step: int, micro: int = 0) -> Batch:
        ids = torch.randint(VOCAB, (ROWS, CONTEXT), generator=torch.Generator().manual_seed(step))
        return Batch({"tokens": ids}, ids)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return token_loss(model, batch)

    def evaluate(self, model: nn.Module, progress: object = None) -> dict[str, float]:
        with torch.no_grad():
            return {"loss": float(self.loss(model, parts_of(self.batch(0), ROWS)[0]))}


def limit_memory(more: int) -> None:
    """Let this process take so many bytes more."""
    gc.collect()
    used = of_process("VmData:")
    resource.setrlimit(resource.RLIMIT_DATA, (used + more, resource.RLIM_INFINITY))


def fit_in_little(kind: str, folder: Path) -> None:
    """Fit where there is memory for four rows and not for six; then try one part less than was found."""
    give_back = machine.keep_memory
    machine.keep_memory = lambda needed=0: give_back(1 << 60)  # type: ignore[assignment]  # so that a limit holds
    numbers = {"depth": 2, "width": 128, "heads": 2, "vocab": VOCAB, "context": CONTEXT}
    given = {"task": Tokens(), "model": build(Model(KINDS[kind], **numbers).architecture), "steps": 2}
    run(folder / "first", micro_batches=ROWS, **given)  # libraries are loaded, threads begun
    taken = []
    for rows in (4, 6):
        gc.collect()
        before = resident() or 0
        Path("/proc/self/clear_refs").write_text("5")  # the most that was held is counted anew
        run(folder / f"{rows}", micro_batches=ROWS // rows, **given)
        taken.append(of_process("VmHWM:") - before)
    usable = sum(taken) // 2
    limit_memory(int(usable / USABLE_SHARE))
    run(folder / "fit", fit=True, **given)
    found = RunFolder.open(folder / "fit").config()["micro_batches"]
    limit_memory(usable)  # as much as a trial has
    try:
        run(folder / "larger", micro_batches=found - 1, **given)
    except RunError as error:
        sys.exit(NO_MEMORY if "there is no memory" in str(error) else 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a limit of memory that holds is one of Linux")
@pytest.mark.parametrize("kind", KINDS)
def test_what_fits_runs_and_the_next_larger_does_not(kind: str, tmp_path: Path) -> None:
    process = context().Process(target=fit_in_little, args=(kind, tmp_path))
    process.start()
    process.join()
    found = RunFolder.open(tmp_path / "fit").config()["micro_batches"]
    assert 1 < found < ROWS
    assert (tmp_path / "fit" / "last").exists()
    assert process.exitcode == NO_MEMORY
