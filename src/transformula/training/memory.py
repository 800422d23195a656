"""What memory a step of training takes, known before the first: a step is made without its numbers, and each storage
is noted as it is made and let go.

On a CPU the step runs on torch's FakeTensors, which take the code and the shapes of real ones; for a GPU on tensors of
the meta device, with the operations of a GPU where those keep other tensors. Nothing is allocated, so that a model of
70 billion parameters, built on the meta device, costs nothing. Every wiring is followed as it runs; no formula for
the size of anything stands here.

Not counted: memory that kernels take for themselves (oneDNN compiles one for each shape in bf16), and what an allocator
cannot give away again. What libraries and data take is read from the process, beside the estimate.
Where experts share positions, each is given an equal load.
"""

from __future__ import annotations

import linecache
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from ..cost.memory import FLOAT, GRADIENTS, UPDATE, LineMemory, MemoryEstimate, Moment
from ..errors import InputError
from ..language.graph import Architecture
from ..model.head_in_chunks import set_chunks
from ..model.recompute import recompute
from ..model.transformer import Layer, Transformer
from ..tasks.base import Batch, outputs_of
from ..tasks.chunked_loss import token_loss
from ..words.rms import _RMSNorm
from .adapters import Trainable, choose_trained
from .copies import copy_with
from .gradients import named_losses, whole_loss
from .machine import BF16, DTYPES
from .optimizer import optimizers
from .settings import TrainingSettings
from .weights import Weights

WEIGHTS, MASTERS, BUFFERS, AVERAGES, OPTIMIZER = "weights", "masters", "buffers", "averages", "optimizer"
FORWARD, LOSS, BACKWARD = "activations", "loss", "workspace"
SECTIONS = ("before", "layer", "after", "output")  # names of the functions that a formula's sections become
MAX_FRAMES = 100  # between an operation and the line of the formula that it belongs to


Loss = Callable[[nn.Module, Batch], Tensor]
"""A batch's loss under a model: `Task.loss`."""


class MadeAt(NamedTuple):
    """Where a storage was made: the part that it counts to, and the line of the formula."""

    part: str
    section: str = ""
    line: str = ""


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes each storage that an operation makes, and when it is let go.

    events  (number of a storage, its bytes; below 0 as it is let go), in order
    places  where each was made
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names  # of layers, by the identity of their modules
        self.events: list[tuple[int, int]] = []
        self.places: list[MadeAt] = []
        self.part = WEIGHTS
        self._known: dict[int, tuple[int, Any]] = {}  # by the storage's address: its number, and a reference to it

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in tree_iter(result):
            if isinstance(one, Tensor):
                self.note(one)
        return result

    def note(self, tensor: Tensor, place: MadeAt | None = None) -> None:
        """Take a tensor's storage in, once; with a `place`, say that this is where it belongs."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self._known:
            if place is not None:
                self.places[self._known[address][0]] = place
            return
        number, size = len(self.places), storage.nbytes()

        def gone(_: Any) -> None:
            self.events.append((number, -size))
            self._known.pop(address, None)

        self._known[address] = number, weakref.ref(storage, gone)
        self.places.append(place or self.place())
        self.events.append((number, size))

    def place(self) -> MadeAt:
        """Where a tensor that is made now comes from: in the forward pass the innermost line of the formula that is
        being computed."""
        if self.part not in (FORWARD, LOSS):
            return MadeAt(self.part)
        frame = sys._getframe(2)
        for _ in range(MAX_FRAMES):
            code = frame.f_code
            if code.co_name == "loss_in_chunks":
                return MadeAt(LOSS)
            if code.co_name in SECTIONS and code.co_filename.startswith("<formula "):
                section = self.names.get(id(frame.f_locals.get("self")), code.co_name)
                section = code.co_name if code.co_name != "layer" else section
                part = LOSS if code.co_name == "output" else self.part
                return MadeAt(part, section, linecache.getline(code.co_filename, frame.f_lineno).strip())
            if frame.f_back is None:
                break
            frame = frame.f_back
        return MadeAt(self.part)

    def peak(self, begin: int, *parts: str) -> tuple[int, set[int]]:
        """From event `begin` on: the most bytes that are held at once, of these parts or of all; and the storages that
        are held then."""
        total, most, at = 0, 0, begin
        for index, (number, size) in enumerate(self.events):
            if not parts or self.places[number].part in parts:
                total += size
                if index >= begin and total > most:
                    most, at = total, index
        return most, self.live(at + 1)

    def live(self, end: int | None = None) -> set[int]:
        """The storages that are held after so many events; after all by default."""
        live: set[int] = set()
        for number, size in self.events[:end]:
            (live.add if size >= 0 else live.discard)(number)
        return live

    def size(self, numbers: set[int], *parts: str) -> int:
        """Bytes of those of some storages that count to these parts."""
        return sum(size for n, size in self.events if size > 0 and n in numbers and self.places[n].part in parts)

    def moment(self, numbers: set[int], kept: set[int]) -> Moment:
        """What is held, by part: of what the forward pass has made, `kept` are the activations."""
        passing = {n for n in numbers - kept if self.places[n].part == FORWARD}
        sizes = {part: self.size(numbers - passing, part) for part in Moment().data}
        sizes["workspace"] += self.size(passing, FORWARD)
        return Moment(**sizes)


class OnGpu(TorchFunctionMode):
    """On the meta device: the operations that keep what those of a GPU keep, in place of their compositions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and args[0].is_meta and args[0].shape[-1] == args[2].shape[-1]:
            # a fused kernel keeps q, k, v, the result and a number for each query, of any device
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args[:3], 0.0, False)[0]
        if func is F.rms_norm and args[0].is_meta:
            given = dict(zip(("input", "normalized_shape", "weight", "eps"), args, strict=False)) | kwargs
            return _RMSNorm.apply(given["input"], given.get("weight"), given.get("eps") or 0.0)  # type: ignore[no-untyped-call]
        return func(*args, **kwargs)


@contextmanager
def without_numbers(device: str) -> Iterator[str]:
    """Within it tensors have no numbers; gives the device that they say they are on."""
    if device == "cpu":
        with FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor", UserWarning)
            yield device
    else:
        with OnGpu():
            yield "meta"


def copy_without_numbers(model: nn.Module, device: str) -> nn.Module:
    """A copy of a model with parameters and buffers that hold nothing, on a device."""

    def like(tensor: Tensor) -> Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)

    copied = copy_with(model, like, like)
    for parameter in copied.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    return copied


def batch_of(architecture: Architecture, rows: int, context: int) -> Batch:
    """A batch for a model that reads ids and predicts one for each position. Raises InputError for other inputs."""
    names = architecture.inputs
    if "image" in names or "characters" in names or not names:
        reads = ", ".join(names) or "nothing"
        raise InputError(f"the memory of a step is known for models that read tokens; this one reads {reads}")
    ids = torch.empty(rows, context, dtype=torch.int64, device="meta")
    return Batch({name: ids for name in names}, ids)


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of a model's one output."""
    if isinstance(model, Transformer) and len(outputs_of(model.architecture)) > 1:
        raise InputError("the memory of a step is known for models of one output, a row of logits for each position")
    return token_loss(model, batch)


def memory_of(
    model: Transformer, rows: int, context: int, settings: TrainingSettings | None = None, device: str = "cpu"
) -> MemoryEstimate:
    """The memory of a step of language modeling, of a model that may be on the meta device.

    rows, context  of a batch, which `settings.micro_batches` cuts
    settings       precision ("auto" counts as bf16), optimizer, accumulate, micro_batches, average, lora, freeze,
                   recompute, loss_chunks
    device         "cpu", or "cuda" for a GPU, which need not be here
    """
    settings = settings or TrainingSettings()
    parts = min(rows, settings.micro_batches)
    batch = batch_of(model.architecture, -(-rows // parts), context)
    before, chunks = recompute(model, settings.recompute), set_chunks(model, settings.loss_chunks)
    try:
        return memory_of_step(model, loss_of, batch, settings, device, parts * settings.accumulate)
    finally:
        recompute(model, before)
        set_chunks(model, chunks)


def memory_of_step(
    model: nn.Module, loss: Loss, batch: Batch, settings: TrainingSettings, device: str = "cpu", parts: int = 1
) -> MemoryEstimate:
    """The memory of a step over `parts` batches such as this one, one after the other.

    Raises InputError where a step cannot be followed without its numbers, since a shape depends on them.
    """
    precision = BF16 if settings.precision == "auto" else settings.precision
    update, update_held = _update(model, settings, precision)
    with without_numbers(device) as place:
        ledger = Ledger({})
        with ledger:
            weights, trained = _weights(ledger, copy_without_numbers(model, place), settings, precision)
        ledger.names = {id(one): name for name, one in weights.model.named_modules() if isinstance(one, Layer)}
        given = _like(batch, place)
        begin = len(ledger.events)
        try:
            with ledger:
                kept = [_gradients(ledger, weights, trained, loss, given, parts) for _ in range(min(parts, 2))][-1]
        except (RuntimeError, NotImplementedError) as error:
            what = "the memory of a step cannot be followed: what it does depends on numbers that are not known before"
            raise InputError(f"{what} ({type(error).__name__}: {str(error).strip().splitlines()[0]})") from error
    moment = ledger.moment(ledger.peak(begin)[1], kept)
    optimizer = update.size(update_held, OPTIMIZER)
    averages = sum(p.numel() * FLOAT for p in model.parameters() if p.requires_grad) if settings.average else 0
    gradients = Moment(**{**moment.data, OPTIMIZER: optimizer, AVERAGES: averages})
    changing = update.moment(update_held, set())
    working = {name: getattr(gradients, name) for name in (WEIGHTS, MASTERS, BUFFERS, AVERAGES)}
    changing = Moment(**{**changing.data, **working})
    return MemoryEstimate(
        {GRADIENTS: gradients, UPDATE: changing},
        ledger.size(kept, FORWARD),
        ledger.peak(begin, LOSS)[0],
        _lines(ledger, kept),
        {
            "rows": len(batch.targets),
            "parts": parts,
            "shape": list(batch.targets.shape),
            "device": device,
            "precision": precision,
            "optimizer": settings.optimizer,
        },
    )


def _weights(
    ledger: Ledger, model: nn.Module, settings: TrainingSettings, precision: str
) -> tuple[Weights, Trainable]:
    """The weights of a run, as `Trainer` has them."""
    trained = choose_trained(model, settings)
    weights = Weights(model, precision, trained.adapters)
    of_masters = WEIGHTS if weights.model is model else MASTERS
    for buffer in model.buffers():
        ledger.note(buffer, MadeAt(BUFFERS))
    for parameter in model.parameters():
        ledger.note(parameter, MadeAt(of_masters))
    for parameter in weights.model.parameters():
        ledger.note(parameter, MadeAt(WEIGHTS))
    for adapter in weights.adapters.each:
        for tensor in (adapter.base, adapter.a, adapter.b):
            ledger.note(tensor, MadeAt(MASTERS))
    return weights, trained


def _gradients(ledger: Ledger, weights: Weights, trained: Trainable, loss: Loss, batch: Batch, parts: int) -> set[int]:
    """Make the gradients of one batch; gives the storages that the forward pass has left."""
    model = weights.model.train()
    ledger.part = FORWARD
    hooks = [
        model.register_forward_pre_hook(lambda *_: setattr(ledger, "part", FORWARD)),
        model.register_forward_hook(lambda *_: setattr(ledger, "part", LOSS)),
    ]
    value = loss(model, batch)
    for hook in hooks:
        hook.remove()
    value = whole_loss(value, named_losses(model))
    kept = {n for n in ledger.live() if ledger.places[n].part == FORWARD}
    ledger.part = BACKWARD

    def made(parameter: Tensor) -> None:
        if parameter.grad is not None:
            ledger.note(parameter.grad, MadeAt(GRADIENTS))

    trained_here: list[Any] = [p for p in model.parameters() if p.requires_grad]
    handles = [p.register_post_accumulate_grad_hook(made) for p in trained_here]
    # a number that is known even here: a loss looks whether it is 1, and then need not multiply its gradient
    torch.autograd.backward(value, torch.tensor(1 / parts, dtype=value.dtype))
    del value
    for handle in handles:
        handle.remove()
    weights.collect()
    for tensor in (*(p for p in weights.master.parameters()), *(p.tensor for p in trained.parameters)):
        if tensor.grad is not None:
            ledger.note(tensor.grad, MadeAt(GRADIENTS))
    return kept


def _update(model: nn.Module, settings: TrainingSettings, precision: str) -> tuple[Ledger, set[int]]:
    """Two steps of the optimizer on masters: its storages where the second, before which all it keeps is there, holds
    most."""
    with without_numbers("cpu"):
        ledger = Ledger({})
        with ledger:
            master = copy_without_numbers(model, "cpu")
            trained = choose_trained(master, settings)
            optimizer = optimizers.get(settings.optimizer)(
                trained.parameters, settings.model_copy(update={"lr": settings.lr or 1e-3}), DTYPES[precision]
            )
            for one in (*master.parameters(), *master.buffers(), *(p.tensor for p in trained.parameters)):
                ledger.note(one, MadeAt(MASTERS))
            for p in trained.parameters:
                p.tensor.grad = torch.empty_like(p.tensor)
                ledger.note(p.tensor.grad, MadeAt(GRADIENTS))
            ledger.part = BACKWARD
            with torch.no_grad():
                optimizer.step(1e-3)
                begin = len(ledger.events)
                optimizer.step(1e-3)
            for tensor in optimizer.tensors().values():
                ledger.note(tensor, MadeAt(OPTIMIZER))
    return ledger, ledger.peak(begin)[1]


def _like(batch: Batch, device: str) -> Batch:
    """A batch of the same shapes without numbers."""
    made = {id(t): torch.empty_like(t, device=device) for t in (*batch.inputs.values(), batch.targets)}
    known, said = (
        {name: torch.empty_like(t, device=device) for name, t in tensors.items()}
        for tensors in (batch.lengths, batch.said)
    )
    inputs = {name: made[id(t)] for name, t in batch.inputs.items()}
    return replace(batch, inputs=inputs, targets=made[id(batch.targets)], lengths=known, said=said)


def _lines(ledger: Ledger, kept: set[int]) -> tuple[LineMemory, ...]:
    """The activations by line, in order."""
    sizes: dict[tuple[str, str], int] = {}
    for number, size in ledger.events:
        if size > 0 and number in kept:
            place = ledger.places[number]
            key = place.section.replace("layers.", "layer "), place.line
            sizes[key] = sizes.get(key, 0) + size
    return tuple(LineMemory(section, line, size) for (section, line), size in sizes.items())
