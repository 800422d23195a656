"""`delta` against its equation, position by position: all forms, their gradients, extreme shares and decays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.words.helpers import at, make
from transformula.words.chunked_delta import moderate_chunk
from transformula.words.delta import CHUNK

HEADS, SIZE, VALUE = 4, 6, 5
FORMS = {
    "plain": "q k v b",
    "head": "q k v b decay",
    "channel": "q k v b decay",
    "erase-head": "q k v look erase decay",
    "erase-channel": "q k v look erase decay",
}


def unit(x: Tensor) -> Tensor:
    """Heads of length 1."""
    return F.normalize(x.unflatten(-1, (-1, SIZE)), dim=-1).flatten(-2)


def streams(
    form: str,
    length: int,
    key_heads: int = HEADS,
    share: float | None = None,
    decay: float | None = None,
    batch: int = 2,
) -> dict[str, Tensor]:
    """Random streams in float64: shares b between 0 and 1, and decays to e^-3, where no number is given for all."""
    keys = key_heads * SIZE

    def draw(width: int, low: float, high: float) -> Tensor:
        return torch.rand(batch, length, width, dtype=torch.float64) * (high - low) + low

    def shares(width: int) -> Tensor:
        return draw(width, 0, 1) if share is None else torch.full((batch, length, width), share, dtype=torch.float64)

    look, wide = unit(draw(keys, -1, 1)), HEADS * (SIZE if "channel" in form else 1)
    drawn = {
        "q": draw(keys, -1, 1), "k": unit(draw(keys, -1, 1)), "v": draw(HEADS * VALUE, -1, 1), "b": shares(HEADS),
        "look": look, "erase": look * shares(keys),
        "decay": draw(wide, -3, 0) if decay is None else torch.full((batch, length, wide), decay, dtype=torch.float64),
    }  # fmt: skip
    return {name: drawn[name] for name in FORMS[form].split()}


def word(given: dict[str, Tensor], key_heads: int = HEADS) -> Any:
    module, _ = make("delta", {n: t.shape[-1] for n, t in given.items()}, heads=HEADS, groups=key_heads)
    return module


def by_hand(s: dict[str, Tensor], key_heads: int = HEADS) -> Tensor:
    """S position by position, every head by itself."""
    batch, length, _ = s["v"].shape
    rows = []
    for h in range(HEADS):
        key = slice(h * key_heads // HEADS * SIZE, (h * key_heads // HEADS + 1) * SIZE)
        state = s["v"].new_zeros(batch, SIZE, VALUE)
        ys = []
        for i in range(length):
            q, k, v = s["q"][:, i, key], s["k"][:, i, key], s["v"][:, i, h * VALUE : (h + 1) * VALUE]
            kept = state
            if "decay" in s:
                wide = s["decay"].shape[-1] // HEADS
                kept = torch.exp(s["decay"][:, i, h * wide : (h + 1) * wide])[..., None] * state
            if "b" in s:
                read = torch.einsum("bkv,bk->bv", kept, k)
                state = kept + torch.einsum("b,bk,bv->bkv", s["b"][:, i, h], k, v - read)
            else:
                look, erase = s["look"][:, i, key], s["erase"][:, i, key]
                read = torch.einsum("bkv,bk->bv", state, look)
                state = kept - torch.einsum("bk,bv->bkv", erase, read) + torch.einsum("bk,bv->bkv", k, v)
            ys.append(torch.einsum("bkv,bk->bv", state, q) * SIZE**-0.5)
        rows.append(torch.stack(ys, 1))
    return torch.cat(rows, -1)


SHARES = [(0, -1), (1e-9, 0), (1, 0), (1, -40), (2, -1e-3), (2, 0)]
CASES = [(length, None, None) for length in (1, CHUNK, CHUNK + 7)]
CASES += [pytest.param(CHUNK + 9, *s, marks=pytest.mark.slow) for s in SHARES]  # type: ignore[misc]


@pytest.mark.parametrize(("length", "share", "decay"), CASES)
@pytest.mark.parametrize("form", FORMS)
def test_chunks_are_the_equation_and_so_are_their_gradients(
    form: str, length: int, share: float | None, decay: float | None
) -> None:
    key_heads = HEADS // 2 if length % 2 else HEADS
    given = streams(form, length, key_heads, share, decay)
    leaves = [t.requires_grad_() for t in given.values()]
    y, expected = word(given, key_heads)(*leaves), by_hand(given, key_heads)
    torch.testing.assert_close(y, expected, atol=1e-10, rtol=1e-10)
    weight = torch.randn_like(y)
    made = torch.autograd.grad((y * weight).sum(), leaves, allow_unused=True)
    wanted = torch.autograd.grad((expected * weight).sum(), leaves, allow_unused=True)
    for name, one, other in zip(given, made, wanted, strict=True):
        # of a single position nothing is kept, so decays do not matter
        zero = torch.zeros_like(given[name])
        one, other = (zero if g is None else g for g in (one, other))
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("form", ["channel", "erase-channel"])
@pytest.mark.parametrize(("decay", "chunk"), [(-1.2, 32), (-2.4, 16), (-4.9, 8), (-9.9, 4), (-10.1, 0)])
def test_strong_decays_make_chunks_short(form: str, decay: float, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where decays are too strong for the shortest chunk, and on other devices, halves serve; both agree."""
    given = streams(form, CHUNK + 5, HEADS, 0.9, decay, batch=1)
    chosen: list[int] = []

    def choose(decay: Tensor) -> int:
        chosen.append(moderate_chunk(decay))
        return chosen[-1]

    monkeypatch.setattr("transformula.words.delta.moderate_chunk", choose)
    leaves, low = ([t.to(d).requires_grad_() for t in given.values()] for d in (torch.float64, torch.float32))
    y, lower = word(given)(*leaves), word(given)(*low)
    assert chosen == [chunk, chunk]
    monkeypatch.setattr("transformula.words.delta.moderate_chunk", lambda decay: 0)
    by_halves = word(given)(*leaves)
    torch.testing.assert_close(y, by_hand(given), atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(y, by_halves, atol=1e-12, rtol=1e-10)
    weight = torch.randn_like(y)
    wanted, made, lower_made = (
        torch.autograd.grad((result * weight).sum(), of)
        for result, of in ((by_halves, leaves), (y, leaves), (lower, low))
    )
    for name, one, other, third in zip(given, made, wanted, lower_made, strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-10, msg=lambda text, name=name: f"{name}: {text}")
        torch.testing.assert_close(third.double(), other, atol=2e-6 if chunk else 1e-4, rtol=2e-5)


@pytest.mark.parametrize("form", ["channel", "erase-channel"])
def test_gradients_pass_through_the_state(form: str) -> None:
    """Two pieces, of which the second goes on from the first's S, have the gradients of the whole; and S its own."""
    given, cut = streams(form, 2 * CHUNK + 5, batch=1), CHUNK + 3
    leaves = [t.requires_grad_() for t in given.values()]
    module = word(given)
    both = {"S": torch.randn(1, HEADS, SIZE, VALUE, dtype=torch.float64, requires_grad=True)}
    first, pieces = both["S"], dict(both)
    y = module(*leaves, state=both, at=at([0]))
    head = module(*(t[:, :cut] for t in leaves), state=pieces, at=at([0]))
    tail = module(*(t[:, cut:] for t in leaves), state=pieces, at=at([cut]))
    torch.testing.assert_close(torch.cat((head, tail), 1), y, atol=1e-11, rtol=1e-10)
    weights = torch.randn_like(y), torch.randn_like(both["S"])
    whole = (y * weights[0]).sum() + (both["S"] * weights[1]).sum()
    parted = (torch.cat((head, tail), 1) * weights[0]).sum() + (pieces["S"] * weights[1]).sum()
    for one, other in zip(*(torch.autograd.grad(v, [first, *leaves]) for v in (parted, whole)), strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    S = first.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda S: stepped(module, leaves, S), S, atol=1e-7, fast_mode=True)


def stepped(module: Any, leaves: list[Tensor], S: Tensor) -> tuple[Tensor, Tensor]:
    state = {"S": S}
    return module(*(t.detach() for t in leaves), state=state, at=at([0])), state["S"]


def test_decays_that_differ_from_position_to_position_and_from_channel_to_channel() -> None:
    """Channels that are forgotten at once beside channels that are kept: their sums are far apart."""
    given = streams("channel", 3 * CHUNK)
    given["decay"] = -45.0 * torch.randint(0, 2, given["decay"].shape).double()
    torch.testing.assert_close(word(given)(*given.values()), by_hand(given), atol=1e-10, rtol=1e-10)


def test_what_is_above_0_counts_as_0_and_what_is_forgotten_is_forgotten() -> None:
    given = streams("head", CHUNK + 3)
    zero, above = ({**given, "decay": torch.full_like(given["decay"], d)} for d in (0, 3))
    assert torch.equal(word(zero)(*zero.values()), word(above)(*above.values()))
    never = {**given, "decay": torch.full_like(given["decay"], -torch.inf)}
    torch.testing.assert_close(word(never)(*never.values()), by_hand(never), atol=1e-10, rtol=1e-10)


def test_shares_and_decays_may_be_coefficients() -> None:
    given = streams("head", 7)
    one = {name: t[0, 0] if name in ("b", "decay") else t for name, t in given.items()}
    same = {name: t[:1, :1].expand_as(t) if name in ("b", "decay") else t for name, t in given.items()}
    torch.testing.assert_close(word(given)(*one.values()), by_hand(same), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_long_chunks_are_decoded_in_chunks(form: str) -> None:
    given, total = streams(form, 100), 100
    module = word(given)
    with torch.no_grad():
        whole = module(*given.values())
        state = module.start(2, total, torch.float64, "cpu")
        first = module.step(*(t[:, :40] for t in given.values()), state=state, at=at([0, 0]))
        # the second row has 35 real positions in this chunk, then goes on
        second = module.step(*(t[:, 40:90] for t in given.values()), state=state, at=at([40, 40], [50, 35]))
        rows = [torch.stack([t[0, 90:91], t[1, 75:76]]) for t in given.values()]
        third = module.step(*rows, state=state, at=at([90, 75]))
    close = {"atol": 1e-11, "rtol": 1e-10}
    torch.testing.assert_close(first, whole[:, :40], **close)
    torch.testing.assert_close(second[0], whole[0, 40:90], **close)
    torch.testing.assert_close(second[1, :35], whole[1, 40:75], **close)
    torch.testing.assert_close(third[:, 0], torch.stack([whole[0, 90], whole[1, 75]]), **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("form", ["channel", "erase-channel"])
@pytest.mark.parametrize("decay", [0.0, None, -1e4])
def test_many_positions_in_low_precision(form: str, dtype: torch.dtype, decay: float | None) -> None:
    """4,096 positions, gradients too; equal keys, which make the triangular systems as hard as they get."""
    given = streams(form, 4096, 1, 1.0 if form == "channel" else None, decay, batch=1)
    given["k"] = given["k"][:, :1].expand_as(given["k"]).clone()
    leaves = [t.to(dtype).requires_grad_() for t in given.values()]
    y = word(given, 1)(*leaves)
    assert y.dtype == dtype and y.isfinite().all()
    gradients = torch.autograd.grad(y.float().square().sum(), leaves)
    assert all(g.isfinite().all() for g in gradients)
    if dtype == torch.float32:
        torch.testing.assert_close(y.double(), word(given, 1)(*given.values()), atol=2e-4, rtol=2e-3)


def test_what_is_kept_grows_with_the_length_only() -> None:
    def kept(length: int) -> int:
        given = streams("channel", length)
        numbers: list[int] = []

        def keep(tensor: Tensor) -> Tensor:
            numbers.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            word(given)(*(t.requires_grad_() for t in given.values()))
        return sum(numbers)

    assert kept(16 * CHUNK) < 2.05 * kept(8 * CHUNK)


def test_in_a_stack_that_sees_all_a_position_sees_its_own_past_only() -> None:
    given = streams("head", CHUNK + 3)
    module, _ = make("delta", {n: t.shape[-1] for n, t in given.items()}, heads=HEADS, causal=False)
    torch.testing.assert_close(module(*given.values()), by_hand(given), atol=1e-10, rtol=1e-10)


def test_autocast_leaves_the_state_precise() -> None:
    given = {name: t.float() for name, t in streams("channel", 2 * CHUNK).items()}
    module = word(given)
    with torch.autocast("cpu", torch.bfloat16):
        low = module(*given.values())
    assert torch.equal(low, module(*given.values()))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["head", "channel", "erase-channel"])
def test_one_graph(form: str) -> None:
    """Compiled whole, its gradients too; exported for any length."""
    torch.compiler.reset()
    given = {name: t.float() for name, t in streams(form, CHUNK + 3).items()}
    module, leaves = word(given), [t.requires_grad_() for t in given.values()]
    expected = module(*leaves)
    y = torch.compile(module, fullgraph=True, backend="aot_eager")(*leaves)
    torch.testing.assert_close(y, expected)
    for one, other in zip(*(torch.autograd.grad(v.sum(), leaves) for v in (y, expected)), strict=True):
        torch.testing.assert_close(one, other)
    inputs = tuple(t.detach() for t in leaves)
    length = torch.export.Dim("length", min=2, max=200)
    with torch.no_grad():
        exported = torch.export.export(module, inputs, dynamic_shapes=(tuple({1: length} for _ in inputs),))
        for many in (2, CHUNK, 3 * CHUNK + 1):
            other = tuple(t.float() for t in streams(form, many).values())
            torch.testing.assert_close(exported.module()(*other), module(*other))
