"""`scan` and `selective_scan` against their definition: forward and backward, extreme decays; decoding, traced code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.model.helpers import numbers_kept
from tests.words.helpers import VOCABULARY, at, make
from transformula import gallery
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words.scan import CHUNK

HEADS, GROUPS, KEY, VALUE = 4, 2, 3, 5
FORMS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "channels": ({"x": 8, "decay": 8}, {}),
    "channels by head": ({"x": 8, "decay": HEADS}, {}),
    "by head": ({"q": 6, "k": 6, "v": 20, "decay": 4}, {"groups": GROUPS}),
    "by channel": ({"q": 6, "k": 6, "v": 20, "decay": 12}, {"groups": GROUPS}),
    "bonus by head": ({"q": 12, "k": 12, "v": 20, "decay": 4, "bonus": 4}, {}),
    "bonus by channel": ({"q": 12, "k": 12, "v": 20, "decay": 12, "bonus": 12}, {}),
    "values of one number": ({"q": 3, "k": 3, "v": 4, "decay": 12}, {"groups": 1}),
    "the same with a bonus": ({"q": 3, "k": 3, "v": 4, "decay": 12, "bonus": 4}, {"groups": 1}),
    "steps and rates": ({"q": 3, "k": 3, "v": 4, "step": 4, "rate": 12}, {}),
}
DECAYS = {"near 0": 400.0, "near 1": 1e-4, "usual": 2.0, "none": 0.0}


def word(form: str) -> Any:
    widths, options = FORMS[form]
    return make("scan", widths, heads=HEADS, **options)[0] if "decay" in widths else make("selective_scan", widths)[0]


def streams_of(form: str, length: int, decays: float = 2, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Random streams; of the decays some are exactly 0, that is, all is kept. A bonus and rates are coefficients."""
    streams = []
    for name, width in FORMS[form][0].items():
        stream = torch.randn(*(() if name in ("bonus", "rate") else (2, length)), width, dtype=dtype)
        if name in ("decay", "step"):
            stream = torch.rand(2, length, width, dtype=dtype) * (decays if name == "step" else -decays)
            stream[:, ::7] = 0
        stream = stream.exp() if name == "rate" else stream
        streams.append(stream.requires_grad_(dtype == torch.float64))
    return streams


def by_hand(form: str, streams: list[Tensor]) -> Tensor:
    """Position by position, as the equation stands."""
    rows = []
    if "x" in FORMS[form][0]:
        x, decay = streams
        factors, h = torch.exp(decay).repeat_interleave(x.shape[-1] // decay.shape[-1], -1), torch.zeros_like(x[:, 0])
        for i in range(x.shape[1]):
            h = factors[:, i] * h + x[:, i]
            rows.append(h)
        return torch.stack(rows, 1)
    q, k, v, decay, *bonus = streams
    if form == "steps and rates":
        decay, bonus = -bonus[0] * decay.repeat_interleave(q.shape[-1], -1), []
    q, k = (t.unflatten(-1, (getattr(word(form), "groups", 1), -1)) for t in (q, k))
    q, k = (t.repeat_interleave(HEADS // t.shape[2], 2) for t in (q, k))
    v, decay = (t.unflatten(-1, (HEADS, -1)) for t in (v, decay))
    state = torch.zeros(*v[:, 0].shape[:2], q.shape[-1], v.shape[-1], dtype=v.dtype)
    for i in range(v.shape[1]):
        new = k[:, i, :, :, None] * v[:, i, :, None, :]
        after = torch.exp(decay[:, i])[..., None] * state + new
        read = state + bonus[0].view(HEADS, -1)[..., None] * new if bonus else after
        rows.append((q[:, i, :, :, None] * read).sum(-2).flatten(1))
        state = after
    return torch.stack(rows, 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decays", DECAYS)
def test_the_equation_and_its_gradients(form: str, decays: str) -> None:
    for length in (1, 7, CHUNK + 3) if decays == "usual" else (2 * CHUNK + 9,):
        streams = streams_of(form, length, DECAYS[decays])
        made, expected = word(form)(*streams), by_hand(form, streams)
        torch.testing.assert_close(made, expected, atol=1e-10, rtol=1e-10)
        weight = torch.randn_like(made)
        gradients = (
            torch.autograd.grad((y * weight).sum(), streams, allow_unused=length == 1) for y in (made, expected)
        )
        for one, other in zip(*gradients, strict=True):
            if other is not None:
                torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("form", ["channels", "by head", "by channel"])
def test_a_decay_to_nothing_starts_anew(form: str) -> None:
    """A logarithm of minus infinity: what stood before is gone, and no gradient is lost in it."""
    streams = [stream.detach() for stream in streams_of(form, 90)]
    streams[-1][:, 70] = -torch.inf
    y = word(form)(*(stream.requires_grad_() for stream in streams))
    alone = word(form)(*(stream[:, 70:] for stream in streams))
    torch.testing.assert_close(y[:, 70:], alone, atol=1e-10, rtol=1e-10)
    assert all(g.isfinite().all() for g in torch.autograd.grad(y.sum(), streams))


@pytest.mark.parametrize("form", ["channels", "by head", "by channel", "values of one number", "steps and rates"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_long_sequences_with_strong_decays_stay_finite(form: str, dtype: torch.dtype) -> None:
    streams = streams_of(form, 4096, 30, dtype)
    made = word(form)(*(stream.requires_grad_() for stream in streams))
    assert made.dtype == dtype
    assert all(g.isfinite().all() for g in torch.autograd.grad(made.float().square().mean(), streams))
    exact = word(form)(*(stream.detach().double() for stream in streams))
    bound = 1e-4 if dtype == torch.float32 else 0.05
    assert (made - exact).abs().max() < bound * exact.abs().max()


@pytest.mark.parametrize("form", FORMS)
def test_chunks_of_ragged_rows_are_decoded_as_one_pass(form: str) -> None:
    module = word(form)
    streams = [stream.detach() for stream in streams_of(form, 2 * CHUNK + 30)]

    def rows(*spans: slice) -> list[Tensor]:
        """Each row's own positions; what is padding is no number."""
        longest = max(span.stop - span.start for span in spans)
        cut = [s if s.dim() == 1 else torch.full((2, longest, s.shape[-1]), torch.nan).double() for s in streams]
        for row, span in enumerate(spans):
            for part, stream in zip(cut, streams, strict=True):
                if stream.dim() == 3:
                    part[row, : span.stop - span.start] = stream[row, span]
        return cut

    whole, state = module(*streams), module.start(2, 0, torch.float64, "cpu")
    first = module.step(*rows(slice(0, 70), slice(0, 70)), state=state, at=at([0, 0]))
    second = module.step(*rows(slice(70, 150), slice(70, 75)), state=state, at=at([70, 70], [80, 5]))
    third = module.step(*rows(slice(150, 151), slice(75, 76)), state=state, at=at([150, 75]))
    fourth = module.step(*rows(slice(151, 151), slice(76, 77)), state=state, at=at([151, 76], [0, 1]))
    fifth = module.step(*rows(slice(151, 152), slice(77, 78)), state=state, at=at([151, 77]))
    pairs = [(first, whole[:, :70]), (second[0], whole[0, 70:150]), (second[1, :5], whole[1, 70:75])]
    pairs += [(third[0, 0], whole[0, 150]), (third[1, 0], whole[1, 75]), (fourth[1, 0], whole[1, 76])]
    pairs += [(fifth[0, 0], whole[0, 151]), (fifth[1, 0], whole[1, 77])]
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_a_decay_may_be_a_coefficient() -> None:
    for form in ("channels", "by head", "by channel"):
        *streams, decay = (stream.detach() for stream in streams_of(form, 70))
        module, fixed = word(form), decay[0, 1].clone().requires_grad_()
        torch.testing.assert_close(module(*streams, fixed), module(*streams, fixed.expand_as(decay)))
        assert torch.autograd.grad(module(*streams, fixed).sum(), fixed)[0].isfinite().all()


def test_rates_may_be_a_stream() -> None:
    *streams, rate = streams_of("steps and rates", 20)
    y, same = (word("steps and rates")(*streams, rates) for rates in (rate, rate.expand(2, 20, -1)))
    torch.testing.assert_close(y, same, atol=1e-10, rtol=1e-10)


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "recurrences.md"
BEFORE = {
    "RetNet": "",
    "Mamba-2": "step = linear.step(x, heads); k = linear(x, 6); q = linear(x, 6); v = linear(x, width); ",
    "gated linear attention": "",
    "RWKV-6": "",
    "Mamba": "step = linear.step(x, inner); v = linear(x, inner); k = linear(x, state); q = linear(x, state); ",
}


@pytest.mark.parametrize("model", BEFORE)
def test_the_lines_that_the_page_shows_are_formulas(model: str) -> None:
    (line,) = re.findall(rf"^\| {re.escape(model)} \| `(.+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    given = "q = linear(x, width); k = linear(x, width); v = linear(x, width); "
    numbers = "inner: 2 * width\nstate: 3\n" if model == "Mamba" else ""
    text = f"{numbers}layer: |\n  {BEFORE[model] or given}x = x + linear({line}, width)\n"
    check(read_text(text), VOCABULARY, {"width": 32, "heads": 4, "depth": 1})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["channels", "by head", "bonus by channel", "steps and rates"])
def test_it_is_compiled_and_exported_for_any_length(form: str) -> None:
    torch.compiler.reset()
    module, streams = word(form), streams_of(form, 70)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    made, expected = compiled(*streams), module(*streams)
    torch.testing.assert_close(made, expected, atol=1e-10, rtol=1e-10)
    gradients = (torch.autograd.grad(y.square().sum(), streams) for y in (made, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)
    length = torch.export.Dim("length", min=2, max=400)
    shapes = tuple({1: length} if stream.dim() == 3 else None for stream in streams)
    with torch.no_grad():
        streams = [stream.detach() for stream in streams]
        exported = torch.export.export(
            module, tuple(streams), dynamic_shapes={"streams": shapes} if "decay" in FORMS[form][0] else shapes
        ).module()
        for longer in (streams_of(form, 9), streams_of(form, 200)):
            torch.testing.assert_close(exported(*longer), module(*longer), atol=1e-10, rtol=1e-10)


def test_what_is_kept_grows_with_the_length_only() -> None:
    """Neither the square of the length nor a matrix for each position is kept for the backward pass."""

    def kept(form: str, length: int) -> int:
        numbers: list[int] = []

        def keep(tensor: Tensor) -> Tensor:
            numbers.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            word(form)(*streams_of(form, length))
        return sum(numbers)

    for form in ("channels", "by head", "by channel", "steps and rates"):
        assert kept(form, 16 * CHUNK) < 2.05 * kept(form, 8 * CHUNK)


KEPT: dict[str, tuple[dict[str, float], int]] = {
    # in each layer its matrices, and three positions of what its convolutions read
    "mamba2": ({"state": 6, "groups": 2}, 64 * 6 + 3 * (64 + 2 * 2 * 6)),
    "jamba": ({"state": 6, "rank": 5, "hidden": 48}, 64 * 6 + 3 * 64),
    # h, three positions, and whether this is the first
    "recurrentgemma": ({"hidden": 48}, 32 + 3 * 32 + 1),
    "minimax": ({"size": 10, "hidden": 48, "routed": 3}, 4 * 10 * 10),
}


@pytest.mark.parametrize("entry", KEPT)
def test_decoding_keeps_as_many_numbers_as_published_however_long_the_text(entry: str) -> None:
    numbers, expected = KEPT[entry]
    text, sizes = gallery.load(entry), {"width": 32, "heads": 4, "depth": 2, "vocab": 11}
    model = build(check(text, VOCABULARY, {**sizes, **numbers}), seed=0)
    for length in (9, 30):
        decoding = model.start(3, length)
        model.step(torch.zeros(3, length, dtype=torch.long), decoding)
        assert numbers_kept(decoding) == 3 * 2 * expected
