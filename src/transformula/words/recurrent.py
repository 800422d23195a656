"""Recurrent networks: `rnn`, `gru`, `lstm`. Each runs forward along the positions, in any stack."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .cpu import autocast_type, numberless, tracing, without_autocast
from .word import At, GeneratorFor, Matrix, Word, empty, spread, whole, word

State = tuple[Tensor, ...]  # carried from one position to the next, each (batch, size); the first is the result there


class _Recurrent(Word):
    """What recurrences share: matrices of the input and of the state, one block of `size` rows a gate, and a bias.

    PyTorch's own kernels run them. They keep a second bias, of the state's matrix, which is 0 here. Where torch traces
    the code (compile, export), those would unroll every position; there `cell` is scanned.
    """

    gates: ClassVar[int]
    names: ClassVar[tuple[str, ...]] = ("h",)
    kernel: ClassVar[Callable[..., Any]]

    def __init__(self, x: int, size: int, causal: bool) -> None:
        super().__init__()
        self.size, self.state_sizes = size, dict.fromkeys(self.names, (size,))
        self.input = Matrix(x, self.gates * size)
        self.state = Matrix(size, self.gates * size)
        self.bias = empty(self.gates * size)
        self.constants, self.deviations = {"bias": 0}, {"input.weight": spread(x)}

    @torch.no_grad()
    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        if self.state.weight.is_meta:
            return
        # each gate's block from the orthogonal matrices, evenly: what it carries keeps its length
        generator, shape = generator_for("state.weight"), (self.gates, self.size, self.size)
        drawn = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float32)
        q, r = torch.linalg.qr(drawn)
        # the signs make the draw even: Mezzadri, math-ph/0609050
        q = q * torch.diagonal(r, dim1=1, dim2=2).sign()[:, None]
        self.state.weight.copy_(q.flatten(0, 1))

    def cell(self, given: Tensor, *before: Tensor) -> State:
        """One position: `given` (batch, gates * size) is W x + b, `before` what the last one left."""
        raise NotImplementedError

    def _kernel(self, x: Tensor | PackedSequence, before: State) -> tuple[Any, State]:
        """(the state at every position, that after the last)."""
        weights = [self.input.weight, self.state.weight, self.bias, torch.zeros_like(self.bias)]
        if self.bias.is_cuda:
            # cuDNN wants them one behind the other
            parts = torch.split(torch.cat([w.flatten() for w in weights]), [w.numel() for w in weights])
            weights = [part.view_as(w) for part, w in zip(parts, weights, strict=True)]
        first = tuple(b[None] for b in before)
        hidden = first if len(first) > 1 else first[0]
        train = torch.is_grad_enabled() and self.bias.requires_grad
        settings = (True, 1, 0.0, train, False)  # biases, layers, dropout, training, both ways
        kernel = type(self).kernel
        if isinstance(x, PackedSequence):
            y, *after = kernel(x.data, x.batch_sizes, hidden, weights, *settings)
            y = x._replace(data=y)
        else:
            y, *after = kernel(x, hidden, weights, *settings, True)
        return y, tuple(a[0] for a in after)

    def _run(self, x: Tensor, before: State) -> tuple[Tensor, State]:
        """The same; while torch traces, in a way that holds for any length."""
        if not tracing():
            return self._kernel(x, before)
        from torch._higher_order_ops.scan import scan

        # what is carried is one tensor: two that start as zeros would be made one, which scan does not allow
        def cell(carried: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
            after = self.cell(inputs, *torch.split(carried, self.size, -1))
            return torch.cat(after, -1), after[0].clone()

        inputs = F.linear(x, self.input.weight, self.bias).transpose(0, 1)
        after, y = scan(cell, torch.cat(before, -1), inputs, dim=0)
        return y.transpose(0, 1), tuple(torch.split(after, self.size, -1))

    def forward(self, x: Tensor, *, state: Any = None, at: At | None = None) -> Tensor:
        """In decoding the chunk; `state` becomes that after the last real position, in rows that have one."""
        x = x.to(self.bias.dtype)
        before = tuple(state[name] if state else x.new_zeros(x.shape[0], self.size) for name in self.names)
        y, after = self._run(x, before) if at is None or at.new is None else self._ragged(x, before, at.new)
        if state:
            state.update(zip(self.names, after, strict=True))
        return y

    step = forward

    def _ragged(self, x: Tensor, before: State, new: Tensor) -> tuple[Tensor, State]:
        """Rows of which only the first `new` positions count; the rest repeat the last of them: where a formula divides
        by the result, 0 would make of padding what is no number, which no mask downstream takes back."""
        count = new.clamp(min=1)
        packed = pack_padded_sequence(x, count.cpu(), batch_first=True, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        assert order is not None and back is not None
        y, after = self._kernel(packed, tuple(b[order] for b in before))
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        place = torch.minimum(torch.arange(x.shape[1], device=x.device), count.to(x.device)[:, None] - 1)
        y = y.gather(1, place[..., None].expand_as(y))
        some = (new > 0)[:, None]
        return y, tuple(torch.where(some, a[back], b) for a, b in zip(after, before, strict=True))


@word(
    "rnn",
    streams=("x",),
    numbers=("size",),
    kind="positions",
    width="size",
    reach="past",
    order="'recurrent'",
    ordered=True,
    options={"size": whole("hidden size", "x", minimum=1, shapes=True)},
    parameters={"input.weight": "size * x", "state.weight": "size * size", "bias": "size"},
    flops="2 * size * (x + size)",
    state="size / length",
    saved="x + size",
    example="x = x + rnn(norm(x))",
    equation="h_i = tanh(W x_i + U h_(i-1) + b)",
    source="Elman 1990",
)
class RNN(_Recurrent):
    """h_i = tanh(W x_i + U h_(i-1) + b), h_0 = 0; x (batch, length, x) to h (batch, length, size). Forward only.

    input.weight W (size, x), from N(0, 1 / (3 x)); state.weight U (size, size), orthogonal; bias b (size,), 0. As
    PyTorch's RNN with weight_ih, weight_hh and the sum of both its biases.
    """

    gates = 1
    kernel = torch.rnn_tanh

    def cell(self, given: Tensor, *before: Tensor) -> State:
        return (torch.tanh(given + self.state(before[0])),)


@word(
    "gru",
    like="rnn",
    parameters={"input.weight": "3 * size * x", "state.weight": "3 * size * size", "bias": "3 * size"},
    flops="6 * size * (x + size)",
    saved="x + 5 * size",
    example="x = x + gru(norm(x))",
    equation="r, z = sigmoid(W x_i + U h_(i-1) + b), n = tanh(W' x_i + b' + r (U' h_(i-1))), "
    "h_i = (1 - z) n + z h_(i-1)",
    source="Cho et al., 1406.1078",
)
class GRU(_Recurrent):
    """A gated recurrent unit; x (batch, length, x) to h (batch, length, size), h_0 = 0. Forward only.

        r = sigmoid(W_r x_i + U_r h_(i-1) + b_r)         what to read of the past
        z = sigmoid(W_z x_i + U_z h_(i-1) + b_z)         what to keep of it
        n = tanh(W_n x_i + b_n + r * (U_n h_(i-1)))
        h_i = (1 - z) * n + z * h_(i-1)

    input.weight: W_r, W_z, W_n, each (size, x), from N(0, 1 / (3 x)); state.weight: U_r, U_z, U_n, each (size, size),
    orthogonal; bias: b_r, b_z, b_n, 0.

    The reset gate r stands after the matrix U_n, which is the form of PyTorch and cuDNN (theirs has one bias more, of
    U_n, which is 0 here). In the paper it stands before: U_n (r * h_(i-1)), and z and 1 - z change places.
    """

    gates = 3
    kernel = torch.gru

    def cell(self, given: Tensor, *before: Tensor) -> State:
        (h,) = before
        r, z, n = given.chunk(3, -1)
        of_r, of_z, of_n = self.state(h).chunk(3, -1)
        z = torch.sigmoid(z + of_z)
        n = torch.tanh(n + torch.sigmoid(r + of_r) * of_n)
        return ((1 - z) * n + z * h,)


def _lstm(x: Tensor, *given: Any) -> Any:
    """torch.lstm; in the type of the weights where autocast asks for a type in which this CPU has none."""
    low = autocast_type("cpu") if x.device.type == "cpu" and not numberless(x) else None
    if low and not _lstm_runs_in(low):
        with without_autocast("cpu"):
            return torch.lstm(x, *given)
    return torch.lstm(x, *given)


@lru_cache
def _lstm_runs_in(low: torch.dtype) -> bool:
    """Whether an LSTM runs under autocast to a low type on this CPU, tried once.

    PyTorch asks what the CPU can do before it hands a product or a convolution in a low type to oneDNN. Under autocast
    it does not ask for an LSTM, and oneDNN has none in bfloat16 without AVX-512, and one in float16 on few CPUs.
    """
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", low):
        weights = [torch.zeros(shape, requires_grad=True) for shape in ((4, 1), (4, 1), (4,), (4,))]
        zero = torch.zeros(1, 1, 1)
        try:
            y, *_ = torch.lstm(zero, (zero, zero), weights, True, 1, 0.0, True, False, True)
            torch.autograd.backward(y.sum())
        except RuntimeError:
            return False
    return True


@word(
    "lstm",
    like="rnn",
    parameters={"input.weight": "4 * size * x", "state.weight": "4 * size * size", "bias": "4 * size"},
    flops="8 * size * (x + size)",
    state="2 * size / length",
    saved="x + 6 * size",
    example="x = x + lstm(norm(x))",
    equation="i, f, o = sigmoid(W x_i + U h_(i-1) + b), g = tanh(W' x_i + U' h_(i-1) + b'), c_i = f c_(i-1) + i g, "
    "h_i = o tanh(c_i)",
    source="Hochreiter and Schmidhuber 1997; the gate f: Gers et al. 2000",
)
class LSTM(_Recurrent):
    """Long short-term memory; x (batch, length, x) to h (batch, length, size), h_0 = c_0 = 0. Forward only.

        i, f, o = sigmoid(W x_i + U h_(i-1) + b)         each with matrices of its own
        g = tanh(W_g x_i + U_g h_(i-1) + b_g)
        c_i = f * c_(i-1) + i * g
        h_i = o * tanh(c_i)

    input.weight: W_i, W_f, W_g, W_o, each (size, x), from N(0, 1 / (3 x)); state.weight: U_i, U_f, U_g, U_o, each
    (size, size), orthogonal; bias: b_i, b_f, b_g, b_o: 0, but b_f 1, so that at first it remembers (Jozefowicz et al.
    2015). As PyTorch's LSTM with weight_ih, weight_hh and the sum of both its biases.
    """

    gates = 4
    names = ("h", "c")
    kernel = _lstm

    def initial_values(self, generator_for: GeneratorFor) -> None:
        super().initial_values(generator_for)
        with torch.no_grad():
            self.bias[self.size : 2 * self.size] = 1

    def cell(self, given: Tensor, *before: Tensor) -> State:
        h, c = before
        i, f, g, o = (given + self.state(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
