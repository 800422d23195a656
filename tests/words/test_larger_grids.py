"""`upsample` and `depth_to_space` against loops and PyTorch; streams in turn; padding; what is refused."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.words.helpers import make, random_weights
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary
from transformula.words.grid import Upsample, larger

ROWS, COLUMNS, WIDTH = 3, 5, 4
Numbers = dict[str, Any]
SIZES: list[Numbers] = [
    {"n": 1},
    {"n": 2},
    {"n": 3},
    {"to_rows": 7, "to_columns": 4},
    {"to_rows": 4},
    {"to_rows": 2, "to_columns": 3},
    {"to_rows": 1, "to_columns": 1},
]
KINDS: list[Numbers] = [{"kind": "nearest"}, {"kind": "bilinear"}, {"kind": "bilinear", "align_corners": True}]
RESIZED = [{**size, **kind} for size in SIZES for kind in KINDS]


def drawn(*shape: int, **more: Any) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64, **more)


def upsample(**options: Any) -> Any:
    return make("upsample", {"x": WIDTH}, **{"columns": COLUMNS, **options})[0]


def like_another(to_columns: int) -> Upsample:
    """The module of a call with `like=`."""
    return Upsample(WIDTH, 0, "bilinear", False, COLUMNS, 0, to_columns)


def size_of(options: Numbers) -> tuple[int, int]:
    if rows := options.get("to_rows"):
        return rows, options.get("to_columns", rows)
    return options["n"] * ROWS, options["n"] * COLUMNS


def weights(old: int, new: int, options: Numbers) -> Tensor:
    """(new, old): with which weights each new row is made of the old ones."""
    matrix = torch.zeros(new, old, dtype=torch.float64)
    for r in range(new):
        if options["kind"] == "nearest":
            matrix[r, r * old // new] = 1
            continue
        aligned = options.get("align_corners")
        place = (r * (old - 1) / (new - 1) if new > 1 else 0) if aligned else max(0, (r + 0.5) * old / new - 0.5)
        low = min(math.floor(place), old - 1)
        matrix[r, low] += 1 - (place - low)
        matrix[r, min(low + 1, old - 1)] += place - low
    return matrix


@pytest.mark.parametrize("options", RESIZED)
def test_the_equation_of_upsample(options: Numbers) -> None:
    """Each new position is a mean of old ones, whose weights are products of those of rows and of columns."""
    x, (rows, columns) = drawn(2, ROWS * COLUMNS, WIDTH), size_of(options)
    by_rows, by_columns = weights(ROWS, rows, options), weights(COLUMNS, columns, options)
    expected = torch.einsum("ri,cj,bijx->brcx", by_rows, by_columns, x.unflatten(1, (ROWS, COLUMNS))).flatten(1, 2)
    torch.testing.assert_close(upsample(**options)(x), expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("options", RESIZED)
def test_it_is_pytorchs(options: Numbers) -> None:
    x = drawn(2, ROWS * COLUMNS, WIDTH)
    grid, more = x.mT.unflatten(2, (ROWS, COLUMNS)), {"mode": options["kind"]}
    if options["kind"] == "bilinear":
        more["align_corners"] = options.get("align_corners", False)
    size = {"scale_factor": options["n"]} if "n" in options else {"size": size_of(options)}
    assert torch.equal(upsample(**options)(x), F.interpolate(grid, **size, **more).flatten(2).mT)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: Numbers) -> None:
    for size in ({"n": 2}, {"to_rows": 4, "to_columns": 3}):
        x = drawn(1, ROWS * COLUMNS, WIDTH, requires_grad=True)
        assert torch.autograd.gradcheck(upsample(**size, **kind), (x,))


@pytest.mark.parametrize("kind", KINDS[:2])
def test_padding_changes_nothing(kind: Numbers) -> None:
    """A grid whose last rows are padding becomes what the smaller one does, and its real positions n by n each."""
    module, x = upsample(n=3, **kind), drawn(2, ROWS * COLUMNS, WIDTH)
    real = torch.arange(ROWS * COLUMNS) < torch.tensor([ROWS * COLUMNS, 2 * COLUMNS])[:, None]
    together = module(x.masked_fill(~real[..., None], torch.nan), real=real)
    torch.testing.assert_close(together[:1], module(x[:1]))
    alone = module(x[1:, : 2 * COLUMNS])
    torch.testing.assert_close(together[1:, : alone.shape[1]], alone)
    kept = larger(real, 3, 2, COLUMNS)
    assert kept.shape == together.shape[:2] and kept[0].all() and int(kept[1].sum()) == alone.shape[1]
    assert kept[1, : alone.shape[1]].all()


@pytest.mark.parametrize("options", [{"to_rows": 4}, {"n": 2, **KINDS[2]}, {"to_rows": 2, **KINDS[1]}])
def test_of_grids_of_several_sizes_only_a_factor_is_known(options: Numbers) -> None:
    module, x = upsample(**options), drawn(1, ROWS * COLUMNS, WIDTH)
    real = torch.arange(ROWS * COLUMNS)[None] < 2 * COLUMNS
    with pytest.raises(InputError, match=r"needs grids of equally many rows.* or say upsample\(x, 2\)"):
        module(x, real=real)
    assert torch.equal(module(x, real=torch.ones_like(real)), module(x))


def test_what_is_no_grid_says_so() -> None:
    with pytest.raises(InputError, match=r"upsample: 14 positions are no grid of 5 columns; say columns="):
        upsample(n=2)(drawn(1, 14, WIDTH))
    with pytest.raises(InputError, match=r"upsample\(like=\): 14 positions are no square grid.*; say columns="):
        like_another(to_columns=0)(drawn(1, 15, WIDTH), like=drawn(1, 14, WIDTH))
    with pytest.raises(InputError, match=r"depth_to_space\(x, 2\): 15 positions are no square grid"):
        make("depth_to_space", {"x": WIDTH}, n=2)[0](drawn(1, 15, WIDTH))


@pytest.mark.parametrize("columns", [0, 2, 8])
def test_depth_to_space_undoes_space_to_depth(columns: int) -> None:
    x = drawn(2, 16, WIDTH)
    smaller = make("space_to_depth", {"x": WIDTH}, n=2, columns=columns)[0](x)
    undone = make("depth_to_space", {"x": 4 * WIDTH}, n=2, columns=columns // 2)[0]
    assert torch.equal(undone(smaller), x)
    frames = make("space_to_depth", {"x": WIDTH}, n=4, dimensions=1)[0](x)
    assert torch.equal(make("depth_to_space", {"x": 4 * WIDTH}, n=4, dimensions=1)[0](frames), x)


def test_depth_to_space_by_channels_is_pixel_shuffle() -> None:
    x = drawn(2, ROWS * COLUMNS, 9 * WIDTH)
    module = make("depth_to_space", {"x": 9 * WIDTH}, n=3, columns=COLUMNS, parts="channel")[0]
    expected = F.pixel_shuffle(x.mT.unflatten(2, (ROWS, COLUMNS)), 3).flatten(2).mT
    assert torch.equal(module(x), expected)
    row = make("depth_to_space", {"x": 9 * WIDTH}, n=3, dimensions=1, parts="channel")[0]
    assert torch.equal(row(x), x.unflatten(2, (3 * WIDTH, 3)).transpose(2, 3).flatten(1, 2))


def test_a_transposed_convolution_without_overlap() -> None:
    """As the docstring has it: a linear map to the channels of all new positions, which are then put apart."""
    theirs = torch.nn.ConvTranspose2d(WIDTH, 6, 2, 2, bias=False, dtype=torch.float64)
    x = drawn(2, ROWS * COLUMNS, WIDTH)
    made = x @ theirs.weight.flatten(1)
    ours = make("depth_to_space", {"x": 24}, n=2, columns=COLUMNS, parts="channel")[0](made)
    torch.testing.assert_close(ours, theirs(x.mT.unflatten(2, (ROWS, COLUMNS))).flatten(2).mT)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_in_turn_by_hand_and_back(count: int) -> None:
    """As the docstrings have it: of a join `depth_to_space`, back `part` of `space_to_depth`."""
    streams = [drawn(2, 5, WIDTH) + k for k in range(count)]
    joined = make("join", dict.fromkeys("abcd"[:count], WIDTH))[0](*streams)
    y = make("depth_to_space", {"x": count * WIDTH}, n=count, dimensions=1)[0](joined)
    assert torch.equal(y, torch.stack([s[:, i] for i in range(5) for s in streams], 1))
    apart = make("space_to_depth", {"x": WIDTH}, n=count, dimensions=1)[0](y)
    for k, stream in enumerate(streams, 1):
        assert torch.equal(make("part", {"x": count * WIDTH}, i=k, n=count)[0](apart), stream)


def model(text: str) -> Any:
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


TURNS = """
width: 8
depth: 1
heads: 2
vocab: 11
causal: {causal}
words:
  turns(a, b, c): x = depth_to_space(join(a, b, c), 3, dimensions=1)
  turn(x, k): y = part(space_to_depth(x, 3, dimensions=1), k, 3)
before: t = embed(tokens); x = turns(t, linear(t, width), {third})
layer: x = x + attention(norm(x), rotary=10000); x = x + mlp(norm(x))
output: logits = linear(turn(x, {place}), 5)
"""
IDS = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("causal", ["true", "false"])
def test_positions_in_turn_see_those_before(causal: str) -> None:
    """The last stream's position sees the other two of its place; in a causal stack nothing that comes later."""
    changed = IDS.clone()
    changed[:, 3] = (IDS[:, 3] + 1) % 11
    for place in (1, 3):
        made = model(TURNS.format(causal=causal, place=place, third="sin(t)"))
        same = (made(IDS) == made(changed)).all(-1)
        assert made(IDS).shape == (2, 6, 5)
        assert same[:, :3].all() == (causal == "true") and not same[:, 3:].any()


@pytest.mark.parametrize(
    ("causal", "third"), [("true", "sin(t)"), ("false", "sin(t)"), ("false", "pick(learned(1), 1)")]
)
def test_padding_of_positions_in_turn(causal: str, third: str) -> None:
    """A padded row beside a longer one gets what it gets alone; one position, which all see, may be a turn."""
    made = model(TURNS.format(causal=causal, place=2, third=third))
    together = made(IDS, lengths=torch.tensor([6, 4]))
    torch.testing.assert_close(together[1:, :4], made(IDS[1:, :4]))
    torch.testing.assert_close(together[:1], made(IDS[:1]))


@pytest.mark.parametrize("word", ["space_to_depth", "depth_to_space"])
def test_what_makes_a_sequence_is_not_decoded(word: str) -> None:
    before = f"t = embed.words(tokens); x = linear({word}(t, 2, dimensions=1), 8)"
    text = f"width: 8\ndepth: 1\nvocab: 11\nbefore: {before}\nlayer: x = x + mlp(x)"
    with pytest.raises(InputError, match=r"makes a sequence of its own length, which cannot be decoded step by step"):
        model(text).start(1, 4)


TOKENS = """
width: 8
depth: 1
heads: 2
vocab: 11
causal: false
before: |
  t = embed(tokens)
  x = {made}
layer: x = x + attention(norm(x)); x = x + mlp(norm(x))
output: logits = linear(mean(x), 5)
"""
LARGER = [
    "upsample(t, 2, columns=3)",
    'upsample(t, 2, kind="bilinear", columns=3)',
    "depth_to_space(linear(t, 32), 2, columns=3)",
    "depth_to_space(linear(t, 24), 3, dimensions=1)",
    "conv2d(upsample(t, 2, columns=3), 3, columns=6)",
    "upsample(t, 2, columns=3) + depth_to_space(linear(t, 32), 2, columns=3)",
    "depth_to_space(join(t, linear(t, 8)), 2, dimensions=1) + depth_to_space(linear(t, 16), 2, dimensions=1)",
    "space_to_depth(depth_to_space(join(t, linear(t, 24)), 4, dimensions=1), 2, dimensions=1)",
]


@pytest.mark.parametrize("made", LARGER)
def test_a_row_beside_a_longer_one(made: str) -> None:
    """Which positions of a larger grid are real follows from the tokens; what is equally made may be added."""
    whole, ids = model(TOKENS.format(made=made)), IDS.repeat(1, 2)
    together = whole(ids, lengths=torch.tensor([12, 6]))
    torch.testing.assert_close(together[0], whole(ids[:1])[0])
    torch.testing.assert_close(together[1], whole(ids[1:, :6])[0])


def test_a_size_that_is_stated_is_real_throughout() -> None:
    whole = model(TOKENS.format(made='upsample(t, to_rows=3, to_columns=4, kind="bilinear", columns=3)'))
    ids = IDS.repeat(1, 2)
    torch.testing.assert_close(whole(ids, lengths=torch.tensor([12, 12])), whole(ids))
    with pytest.raises(InputError, match="grids of equally many rows"):
        whole(ids, lengths=torch.tensor([12, 6]))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("upsample(t)", "it needs one size"),
        ("upsample(t, 2, to_rows=4)", "it needs one size"),
        ("upsample(t, 2, like=t)", "it needs one size"),
        ("upsample(t, 2, to_columns=4)", "to_columns= goes with to_rows= or like=; the factor 2"),
        ("upsample(t, to_rows=2, to_columns=0)", "a grid of 2 rows has a column at least"),
        ("upsample(t, 2, align_corners=True)", 'align_corners= is of kind="bilinear"'),
        ('upsample(t, 2, kind="cubic")', "kind"),
        ("upsample(t, like=vector(1))", "like= is .*, which has no positions"),
        ("upsample(t, like=tokens[0])", "tokens"),
        ("t + upsample(t, 2, columns=3)", "different sequences"),
        ("upsample(t, 2, columns=3) + upsample(t, 2, columns=2)", "different sequences"),
        ("upsample(t, 2, columns=3) + depth_to_space(linear(t, 72), 3, columns=3)", "different sequences"),
        ("depth_to_space(t, 3)", r"the width 8 does not divide into 3 \*\* 2 positions"),
        ("depth_to_space(t, 2, dimensions=1, columns=4)", "columns= is of a grid"),
        ("depth_to_space(join(t, tail(t, 2)), 2, dimensions=1)", "different sequences"),
        ("interleave(t, t)", "did you mean depth_to_space"),
        ("every(t, 3, 2)", "did you mean space_to_depth"),
    ],
)
def test_bad_options(made: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        check(read_text(TOKENS.format(made=made)), vocabulary())


def test_a_causal_stack_refuses_upsample() -> None:
    text = TOKENS.format(made="t").replace("causal: false", "causal: true")
    with pytest.raises(FormulaError, match="causal"):
        check(read_text(text.replace("layer: ", "layer: x = upsample(x, like=x); ")), vocabulary())


PYRAMID = """
name: pyramid
near:
  causal: false
  depth: 1
  width: 8
  before: x = patches(image, 4, channels=1)
  layer: x = x + conv2d(norm(x), 3, depthwise=True)
far:
  causal: false
  depth: 1
  width: 12
  before: x = conv2d(norm(near), 3, 12, stride=2)
  layer: x = x + mlp(norm(x))
output: |
  h = join(linear(near, 4), upsample(linear(far, 6), like=near{kind}))
  p = depth_to_space(linear(conv2d(h, 3, 6), 8 * 16), 4, parts="channel") + upsample(near, 4) * scalar(1)
  pixels = linear(p, 1) + upsample(linear(near, 1), 4, kind="bilinear")
"""


@pytest.mark.parametrize("kind", ["", ', kind="bilinear"', ', kind="bilinear", align_corners=True'])
def test_stages_on_the_grid_of_the_first(kind: str) -> None:
    """Any size, also one that the stride does not divide; one number a pixel."""
    made = model(PYRAMID.format(kind=kind))
    for side in (16, 28):
        image = drawn(2, 1, side, side)
        assert made(image=image).shape == (2, side * side, 1)
        torch.testing.assert_close(made(image=image)[1:], made(image=image[1:]))


def test_like_is_a_grid_of_stated_columns() -> None:
    x = drawn(2, ROWS * COLUMNS, WIDTH)
    made = like_another(to_columns=4)(x, like=drawn(2, 8, 1))
    assert torch.equal(made, upsample(to_rows=2, to_columns=4, kind="bilinear")(x))


@pytest.mark.slow
def test_one_graph_for_every_size() -> None:
    torch.compiler.reset()
    made = model(PYRAMID.format(kind=', kind="bilinear"'))
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager", dynamic=True)
    for side in (16, 32):
        image = drawn(2, 1, side, side)
        compiled(image).square().sum().backward()
        torch.testing.assert_close(compiled(image), made(image))


def test_every_pair_of_positions_of_a_square() -> None:
    """Row by row: position (r, c) of a larger grid is part (r % n, c % n) of the old one at (r // n, c // n)."""
    x, n = drawn(1, ROWS * COLUMNS, 4 * WIDTH), 2
    y = make("depth_to_space", {"x": 4 * WIDTH}, n=n, columns=COLUMNS)[0](x)
    for r, c in itertools.product(range(n * ROWS), range(n * COLUMNS)):
        part = x[0, (r // n) * COLUMNS + c // n].chunk(n * n)[(r % n) * n + c % n]
        assert torch.equal(y[0, r * n * COLUMNS + c], part)
