"""`conv2d`, `pool2d` and overlapping `patches` against their equations by loops; grids, padding, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import make, one_graph_for_every_size, random_weights, rows_of_a_grid_are_as_alone
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary
from transformula.words.grid import real_windows

ROWS, COLUMNS, WIDTH = 4, 5, 6
CONVOLUTIONS: list[dict[str, Any]] = [
    {"side": 1},
    {"side": 3, "size": 4},
    {"side": 3, "depthwise": True, "bias": False},
    {"side": 3, "groups": 3, "size": 9},
    {"side": 3, "stride": 2, "size": 4},
    {"side": 2, "stride": 2},
    {"side": 2, "padding": 1},
    {"side": 3, "dilation": 2},
    {"side": 2, "dilation": 3, "padding": 0, "stride": 2},
    {"side": 7, "depthwise": True},
]
POOLS: list[dict[str, Any]] = [
    {"side": 3, **more}
    for kind in ("mean", "max")
    for more in ({"kind": kind}, {"kind": kind, "stride": 2}, {"kind": kind, "padding": 0}, {"kind": kind, "side": 2})
]
Numbers = dict[str, Any]


def word(name: str, **options: Any) -> tuple[Any, Numbers]:
    module, names = make(name, {"x": WIDTH}, **{"columns": COLUMNS, **options})
    return random_weights(module.double()), names


def drawn(*shape: int, **more: Any) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64, **more)


def windows(names: Numbers) -> list[list[list[tuple[int, int, int]]]]:
    """For each window, row by row, the places (i, j, position) of it that are inside the grid."""
    stride, padding, dilation = names["stride"], names["padding"], names.get("dilation", 1)
    reach = dilation * (names["side"] - 1)
    starts = [[*range(-padding, side + padding - reach, stride)] for side in (ROWS, COLUMNS)]
    places = [*itertools.product(range(names["side"]), repeat=2)]
    return [
        [
            (i, j, (r + dilation * i) * COLUMNS + c + dilation * j)
            for i, j in places
            if 0 <= r + dilation * i < ROWS and 0 <= c + dilation * j < COLUMNS
        ]
        for r, c in itertools.product(*starts)
    ]  # type: ignore[return-value]


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_the_equation_of_the_convolution(options: Numbers) -> None:
    """Each product of a position with its matrix by itself; a matrix of groups is one with blocks on its diagonal."""
    module, names = word("conv2d", **options)
    x, y = drawn(2, ROWS * COLUMNS, WIDTH), []
    groups = WIDTH if names["depthwise"] else names["groups"]
    for window in windows(names):
        total = torch.zeros(2, names["size"], dtype=torch.float64)
        for i, j, place in window:
            blocks = module.weight[:, :, i, j].chunk(groups)
            total += torch.cat([part @ w.T for part, w in zip(x[:, place].chunk(groups, -1), blocks, strict=True)], -1)
        y.append(total if module.bias is None else total + module.bias)
    torch.testing.assert_close(module(x), torch.stack(y, 1), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("options", POOLS)
def test_the_equation_of_the_pool(options: Numbers) -> None:
    module, names = word("pool2d", **options)
    x, y = drawn(2, ROWS * COLUMNS, WIDTH), []
    for window in windows(names):
        seen = torch.stack([x[:, place] for _, _, place in window])
        y.append(seen.mean(0) if names["kind"] == "mean" else seen.amax(0))
    torch.testing.assert_close(module(x), torch.stack(y, 1), atol=1e-12, rtol=1e-9)


def test_they_are_those_of_pytorch() -> None:
    """A square grid by default; weights are held in the same order."""
    x = drawn(2, 49, WIDTH)
    grid = x.mT.unflatten(2, (7, 7))
    module, _ = word("conv2d", side=3, size=8, stride=2, columns=0)
    theirs = torch.nn.Conv2d(WIDTH, 8, 3, 2, padding=1, dtype=torch.float64)
    theirs.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(x), theirs(grid).flatten(2).mT)
    pool, _ = word("pool2d", side=3, kind="max", stride=2, columns=0)
    torch.testing.assert_close(pool(x), torch.nn.functional.max_pool2d(grid, 3, 2, 1).flatten(2).mT)


@pytest.mark.parametrize(("name", "options"), [("conv2d", {"side": 3}), ("pool2d", {"side": 3}), ("pool2d", POOLS[4])])
def test_gradients(name: str, options: Numbers) -> None:
    module, _ = word(name, **options)
    assert torch.autograd.gradcheck(module, (drawn(1, ROWS * COLUMNS, WIDTH, requires_grad=True),))


@pytest.mark.parametrize(
    ("name", "options"), [*(("conv2d", o) for o in CONVOLUTIONS), *(("pool2d", o) for o in POOLS)]
)
def test_padding_changes_nothing(name: str, options: Numbers) -> None:
    """A grid whose last rows are padding gives what the smaller one gives, in as many windows."""
    module, names = word(name, **options)
    x = drawn(2, ROWS * COLUMNS, WIDTH)
    real = torch.arange(ROWS * COLUMNS) < torch.tensor([ROWS * COLUMNS, (ROWS - 2) * COLUMNS])[:, None]
    windows = [names[key] for key in ("side", "stride", "padding")] + [names.get("dilation", 1)]
    kept = real_windows(real, COLUMNS, *windows)
    assert kept[0].all()
    count = int(kept[1].sum())
    assert kept[1, :count].all(), "real positions stand first"
    together = module(x.masked_fill(~real[..., None], torch.nan), real=real)
    torch.testing.assert_close(together[:1], module(x[:1]))
    if count:
        torch.testing.assert_close(together[1:, :count], module(x[1:, : (ROWS - 2) * COLUMNS]))
    else:
        with pytest.raises(InputError, match="does not fit into a grid of 2 x 5"):
            module(x[1:, : (ROWS - 2) * COLUMNS])
    assert together[kept].isfinite().all()


def test_a_window_without_real_positions_is_pooled_to_0() -> None:
    for kind in ("mean", "max"):
        module, _ = word("pool2d", side=2, stride=2, kind=kind, columns=4)
        real = torch.arange(16) < 8
        y = module(drawn(1, 16, WIDTH), real=real[None])
        assert torch.equal(y[:, 2:], torch.zeros(1, 2, WIDTH, dtype=torch.float64)) and y[:, :2].abs().min() > 0


def test_what_is_no_grid_says_so() -> None:
    with pytest.raises(InputError, match=r"conv2d\(3\): 18 positions are no grid of 5 columns; say columns="):
        word("conv2d", side=3)[0](drawn(1, 18, WIDTH))
    with pytest.raises(InputError, match=r"pool2d\(3\): 18 positions are no square grid.*; say columns="):
        word("pool2d", side=3, columns=0)[0](drawn(1, 18, WIDTH))
    with pytest.raises(InputError, match="window of 5 x 5 does not fit into a grid of 2 x 5 with padding=0: give"):
        word("conv2d", side=3, dilation=2, padding=0)[0](drawn(1, 10, WIDTH))


MODEL = """
name: stages
near:
  causal: {causal}
  depth: 2
  width: 8
  before: x = patches(image, 7, channels=1, stride=4, padding=2)
  layer: x = x + {layer}
far:
  causal: false
  depth: 1
  width: 12
  before: x = conv2d(norm(near), 2, 12, stride=2)
  layer: x = x + mlp(pool2d(norm(x), 3))
output: logits = linear(mean(x), 5)
"""


def stages(layer: str = "conv2d(norm(x), 7, depthwise=True)", causal: bool = False) -> Any:
    text = MODEL.format(layer=layer, causal=str(causal).lower())
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


def test_stages_of_several_widths_and_lengths() -> None:
    model = stages()
    for side in (16, 32):
        image = drawn(2, 1, side, side)
        assert model(image=image).shape == (2, 1, 5)
        torch.testing.assert_close(model(image=image)[1:], model(image=image[1:]))


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("conv2d(x, 3, depthwise=True, size=4)", "depthwise keeps the width: size 4 is not 8"),
        ("conv2d(x, 3, depthwise=True, groups=2)", "depthwise has a group for each channel"),
        ("conv2d(x, 3, groups=3)", "the widths 8 and 8 do not divide into 3 groups"),
        ("conv2d(x, 3, stride=2)", "different sequences"),
        ("conv2d(x, 4)", "different sequences"),
        ("pool2d(x, 3, padding=2)", "padding 2 is more than half of the window's side 3"),
        ('pool2d(x, 3, kind="median")', "kind"),
        ("conv2d(x, 0)", "side"),
        ("conv2d(x)", "side"),
    ],
)
def test_bad_options(layer: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        stages(layer)


def test_a_causal_stack_refuses_them() -> None:
    for layer in ("conv2d(x, 3)", "pool2d(x, 3)"):
        with pytest.raises(FormulaError, match="causal"):
            stages(layer, causal=True)


def test_a_sequence_of_tokens_as_a_grid() -> None:
    """Real positions of a smaller grid follow from those of the tokens: a row beside a longer one is as alone."""
    text = """
    name: rows
    width: 8
    depth: 1
    heads: 2
    causal: false
    before: x = conv2d(embed(tokens), 3, stride=2, columns=4)
    layer: x = x + attention(norm(x))
    output: logits = linear(mean(x), 5)
    """
    rows_of_a_grid_are_as_alone(text)


@pytest.mark.slow
def test_one_graph_for_every_size() -> None:
    one_graph_for_every_size(stages())


@pytest.mark.parametrize("options", [{"stride": 4, "padding": 2}, {"stride": 7}, {"padding": 3}, {"stride": 9}])
def test_overlapping_patches(options: Numbers) -> None:
    """Squares that begin every few pixels, of an image with zeros around it."""
    module, names = make("patches", {"image": 1}, size=7, width=WIDTH, channels=2, **options)
    module, image = random_weights(module.double()), drawn(2, 2, 14, 21)
    p, stride = names["padding"], names["stride"]
    padded = torch.nn.functional.pad(image, (p, p, p, p))
    starts = [range(0, side + 2 * p - 6, stride) for side in image.shape[2:]]
    squares = [padded[:, :, r : r + 7, c : c + 7].flatten(1) for r, c in itertools.product(*starts)]
    expected = torch.stack(squares, 1) @ module.weight.T + module.bias
    torch.testing.assert_close(module(image), expected)


def test_an_image_below_the_size_of_an_overlapping_patch() -> None:
    module, _ = make("patches", {"image": 1}, size=7, width=WIDTH, stride=4, padding=1)
    with pytest.raises(InputError, match="4 x 9 pixels with padding=1 has no square of 7 x 7: give a larger one"):
        module(torch.zeros(1, 3, 4, 9))


def test_windows_that_are_as_many_make_one_sequence() -> None:
    """What makes a grid smaller, and a skip beside it, are added; of other strides or columns they are not."""
    skip = "conv2d({}, 3, stride=2) + conv2d({}, 1, stride=2) + pool2d({}, 3, kind='max', stride=2)"
    text = MODEL.format(layer="conv2d(norm(x), 3)", causal="false")
    before = "x = conv2d(norm(near), 2, 12, stride=2)"
    whole = text.replace(before, "x = linear(" + skip.replace("{}", "near").replace("'", '"') + ", 12)")
    model = random_weights(build(check(read_text(whole), vocabulary()), dtype=torch.float64)).eval()
    assert model(image=drawn(2, 1, 32, 32)).shape == (2, 1, 5)
    for other in ("stride=3", "stride=2, columns=4", "stride=2, padding=0"):
        wrong = text.replace(before, f"x = conv2d(near, 3, 12, stride=2) + conv2d(near, 3, 12, {other})")
        with pytest.raises(FormulaError, match="different sequences"):
            check(read_text(wrong), vocabulary())
