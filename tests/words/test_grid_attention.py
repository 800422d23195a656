"""`window_attention` and `grid_scores` against their equations by loops; shifts, padding, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.words.helpers import make, one_graph_for_every_size, random_weights, rows_of_a_grid_are_as_alone
from transformula.errors import InputError
from transformula.interop.programs import programs_of
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.language.numbers import evaluate_text
from transformula.model import build
from transformula.words import vocabulary

ROWS, COLUMNS, WIDTH, HEADS, SIDE = 6, 9, 8, 2, 3
AREA, APART = SIDE**2, (2 * SIDE - 1) ** 2
PLACES = [*itertools.product(range(ROWS), range(COLUMNS))]
SHIFTS = (0, 1, 2)


def word(**options: Any) -> tuple[Any, dict[str, Any]]:
    widths = {"q": WIDTH, "k": WIDTH, "v": 6}
    return make("window_attention", widths, **{"side": SIDE, "heads": HEADS, "columns": COLUMNS, **options})


def drawn(*shape: int, seed: int = 1, **more: Any) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, **more)


def streams(batch: int = 2, length: int = ROWS * COLUMNS) -> list[Tensor]:
    return [drawn(batch, length, width, seed=n) for n, width in enumerate((WIDTH, WIDTH, 6))]


def by_hand(q: Tensor, k: Tensor, v: Tensor, shift: int, table: Tensor | None, scale: float, real: Tensor) -> Tensor:
    """Each query by itself, over the keys whose window is its own in a grid without end that begins at the shift."""
    y = torch.zeros_like(v)
    for b, (i, (row, column)) in itertools.product(range(len(q)), enumerate(PLACES)):
        window = (row - shift) // SIDE, (column - shift) // SIDE
        keys = [
            j
            for j, (r, c) in enumerate(PLACES)
            if ((r - shift) // SIDE, (c - shift) // SIDE) == window and bool(real[b, j])
        ]
        for h in range(HEADS) if keys else ():
            part, wide = (slice(h * n // HEADS, (h + 1) * n // HEADS) for n in (WIDTH, v.shape[2]))
            scores = scale * (k[b, keys, part] @ q[b, i, part])
            if table is not None:
                by_places = table[0, :, h].view(2 * SIDE - 1, 2 * SIDE - 1)
                apart = [(row - PLACES[j][0] + SIDE - 1, column - PLACES[j][1] + SIDE - 1) for j in keys]
                scores = scores + torch.stack([by_places[each] for each in apart])
            y[b, i, wide] = scores.softmax(0) @ v[b, keys, wide]
    return y


def scores_of(table: Tensor) -> Tensor:
    module, _ = make("grid_scores", {"table": HEADS}, side=SIDE)
    return module(table)  # type: ignore[no-any-return]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("biased", [False, True])
def test_the_equation(shift: int, biased: bool) -> None:
    module, _ = word(shift=shift)
    table = drawn(1, APART, HEADS, seed=5) if biased else None
    everything = torch.ones(2, ROWS * COLUMNS, dtype=torch.bool)
    expected = by_hand(*streams(), shift, table, (WIDTH // HEADS) ** -0.5, everything)
    y = module(*streams(), scores=None if table is None else scores_of(table))
    torch.testing.assert_close(y, expected, atol=1e-12, rtol=1e-9)


def test_distances_stand_in_the_order_of_the_table() -> None:
    """The score of the row difference, and of the column difference, is that difference."""
    module, _ = make("grid_distances", {}, side=SIDE)
    rows, columns = scores_of(module.double()())[0]
    places = torch.arange(AREA, dtype=torch.float64)
    assert torch.equal(rows, places[:, None] // SIDE - places // SIDE)
    assert torch.equal(columns, places[:, None] % SIDE - places % SIDE)


@pytest.mark.parametrize("shift", SHIFTS)
def test_padding_is_not_seen(shift: int) -> None:
    """Whatever stands there; a row that is all padding gives 0."""
    module, _ = word(shift=shift, scale=1.5)
    real = torch.arange(ROWS * COLUMNS) < torch.tensor([ROWS * COLUMNS, 2 * COLUMNS + 4, 0])[:, None]
    q, k, v = streams(3)
    table = drawn(1, APART, HEADS, seed=5)
    expected = by_hand(q, k, v, shift, table, 1.5, real)
    k, v = (x.masked_fill(~real[..., None], 1e3) for x in (k, v))
    y = module(q, k, v, scores=scores_of(table), real=real)
    torch.testing.assert_close(y, expected, atol=1e-12, rtol=1e-9)
    assert torch.equal(y[2], torch.zeros_like(y[2]))


def test_a_grid_of_one_window_is_attention_and_not_shifted() -> None:
    module, _ = word(shift=1, columns=0)
    whole, _ = make("dot_attention", {"q": WIDTH, "k": WIDTH, "v": 6}, heads=HEADS, causal=False)
    x, scores = streams(length=AREA), scores_of(drawn(1, APART, HEADS))
    torch.testing.assert_close(module(*x, scores=scores), whole(*x, scores=scores))


def test_a_grid_of_one_window_that_is_always_shifted_falls_into_four_parts() -> None:
    module, _ = word(shift=1, columns=0, always=True)
    whole, _ = make("dot_attention", {"q": WIDTH, "k": WIDTH, "v": 6}, heads=HEADS, causal=False)
    x = streams(length=AREA)
    y = module(*x)
    for part in ([0], [1, 2], [3, 6], [4, 5, 7, 8]):
        torch.testing.assert_close(y[:, part], whole(*(stream[:, part] for stream in x)))


def test_dropout_is_of_training_alone() -> None:
    module, _ = word(dropout=0.5, shift=1)
    plain, _ = word(shift=1)
    torch.testing.assert_close(module.eval()(*streams()), plain(*streams()))
    assert not torch.allclose(module.train()(*streams()), plain(*streams()))


def test_gradients() -> None:
    module, _ = word(shift=1, columns=6)
    table = drawn(1, APART, HEADS, requires_grad=True)
    given = [x.requires_grad_() for x in streams(1, 36)]
    assert torch.autograd.gradcheck(lambda table, *x: module(*x, scores=scores_of(table)), (table, *given))


def test_what_a_window_costs() -> None:
    """As many products as are counted for each position, however large the grid is."""
    module, names = word(columns=0)
    text = vocabulary()["window_attention"].flops
    for side in (6, 12):
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            module(*streams(1, side * side), scores=scores_of(drawn(1, APART, HEADS)))
        assert counter.get_total_flops() == side * side * evaluate_text(text, names)


def test_what_is_refused_when_it_is_called() -> None:
    with pytest.raises(InputError, match=r"window_attention\(side=3\): 50 positions are no grid of 9 columns; say col"):
        word()[0](*streams(length=50))
    with pytest.raises(InputError, match="a grid of 4 x 9 positions does not divide into windows of 3 x 3: crop or"):
        word()[0](*streams(length=36))
    with pytest.raises(InputError, match=r"of 2 heads needs .* 9 x 9 positions; they are 1 x 9 x 9: grid_scores"):
        word()[0](*streams(), scores=torch.zeros(1, 1, AREA, AREA))
    with pytest.raises(InputError, match=r"grid_scores\(3\) needs a table of 25 rows; it has 24"):
        scores_of(drawn(1, 24, HEADS))


MODEL = """
name: windows
causal: {causal}
depth: 2
width: 8
heads: 2
before: x = {before}
layer: |
  h = norm(x)
  x = x + {layer}
output: logits = linear(mean(x), 5)
"""
LAYER = "window_attention(linear.q(h, 8), linear.k(h, 8), linear.v(h, 8), 2, {})"
TABLE = "shift=layer % 2, scores=grid_scores(learned(9, heads), 2)"


def text(options: str = TABLE, causal: bool = False, before: str = "patches(image, 4, channels=1)") -> str:
    return MODEL.format(layer=LAYER.format(options), causal=str(causal).lower(), before=before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("shift=2", "windows of 2 are moved by less than their side, not by 2"),
        ("heads=3", "the widths 8 and 8 do not both divide into 3 heads"),
        ("columns=3", "a row of 3 positions does not divide into windows of 2"),
        ("scores=grid_scores(learned(8, heads), 2)", "needs a table of 9 rows; this one has 8"),
        ("scores=h", "scores"),
        ("shift=-1", "shift"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        check(read_text(text(options)), vocabulary())


def test_a_causal_stack_refuses_them() -> None:
    for options in ("", TABLE):
        with pytest.raises(FormulaError, match="causal"):
            check(read_text(text(options, causal=True)), vocabulary())
    unlike = text().replace("linear.k(h, 8)", "linear.k(h, 4)")
    with pytest.raises(FormulaError, match="queries of width 8 and keys of width 4 have no product"):
        check(read_text(unlike), vocabulary())


def test_scores_of_a_grid_go_with_any_sequence_and_number_of_pictures() -> None:
    model = random_weights(build(check(read_text(text()), vocabulary()), dtype=torch.float64)).eval()
    for side in (16, 32):
        image = drawn(3, 1, side, side)
        y = model(image=image)
        assert y.shape == (3, 1, 5)
        torch.testing.assert_close(y[1:], model(image=image[1:]))


def test_scores_of_a_whole_grid_are_given_to_attention() -> None:
    whole = text().replace(LAYER.format(TABLE), "attention(h, scores=grid_scores(learned(49, heads), 4))")
    model = random_weights(build(check(read_text(whole), vocabulary()), dtype=torch.float64)).eval()
    assert model(image=drawn(2, 1, 16, 16)).isfinite().all()
    with pytest.raises(InputError, match=r"scores of 16 x 16 positions .* 64 queries and 64 keys"):
        model(image=drawn(2, 1, 32, 32))


def test_a_program_for_every_size_is_refused() -> None:
    model = build(check(read_text(text()), vocabulary())).eval()
    with pytest.raises(InputError, match=r"window_attention\(side=2\) needs a grid of one size, .* use this"):
        programs_of(model)


def test_tokens_as_a_grid_beside_longer_ones() -> None:
    """A row with padding is as it is alone."""
    whole = text("shift=layer % 2, columns=4", before="embed(tokens)")
    rows_of_a_grid_are_as_alone(whole)


@pytest.mark.slow
def test_one_graph_for_every_size() -> None:
    one_graph_for_every_size(random_weights(build(check(read_text(text()), vocabulary()), dtype=torch.float64)).eval())
