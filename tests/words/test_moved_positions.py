"""`tail`, `space_to_depth`, `masked_scatter`: positions left out, made one, and put into another sequence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import at, make, random_weights
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.model.recompute import recompute
from transformula.words import vocabulary

MARK = 7
IDS = torch.tensor([[MARK, 2, MARK, MARK, 9, 3], [2, 2, MARK, 4, MARK, MARK]])
WIDTHS = {"a": 4, "ids": 1, "b": 4}
TEXT = """
width: 8
heads: 2
depth: 2
vocab: 11
side:
  causal: false
  depth: 1
  width: 6
  before: x = {seen}
  layer: x = x + mlp(norm(x), hidden=5)
  after: x = linear(norm(x), 8)
decoder:
  causal: {causal}
  before: x = masked_scatter(embed.words(tokens), tokens, side, 7) + positions(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
"""
PICTURE, SOUND = "tail(patches(image, 4), 2)", "space_to_depth(linear(frames(audio, 5), 3), 2, dimensions=1)"


def model(seen: str = PICTURE, causal: bool = True) -> Any:
    text = TEXT.format(seen=seen, causal=str(causal).lower())
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


def image() -> Tensor:
    """Of 2 x 2 squares of 4 x 4 pixels, the first of which is left out."""
    return torch.randn(2, 3, 8, 8, dtype=torch.float64)


def test_tail_leaves_the_first_positions_out() -> None:
    x = torch.randn(2, 5, 4)
    assert torch.equal(make("tail", {"x": 4}, first=2)[0](x), torch.stack([x[:, i] for i in (1, 2, 3, 4)], 1))
    assert torch.equal(make("tail", {"x": 4}, first=1)[0](x), x)
    with pytest.raises(InputError, match=r"tail\(x, 6\): there is no position 6 in a sequence of 5"):
        make("tail", {"x": 4}, first=6)[0](x)


def test_channels_of_frames_stand_side_by_side() -> None:
    x = torch.randn(2, 8, 4)
    made = make("space_to_depth", {"x": 4}, n=3, dimensions=1)[0](x)
    assert torch.equal(made, torch.stack([torch.cat([x[:, i + k] for k in range(3)], -1) for i in (0, 3)], 1))
    assert torch.equal(make("space_to_depth", {"x": 4}, n=1, dimensions=1)[0](x), x)


@pytest.mark.parametrize("columns", [0, 4, 2])
def test_squares_of_a_grid_are_pixel_unshuffle_with_channels_last(columns: int) -> None:
    x, n = torch.randn(2, 16, 3), 2
    rows, wide = 16 // (columns or 4), columns or 4
    made = make("space_to_depth", {"x": 3}, n=n, columns=columns)[0](x)
    by_hand = [
        torch.cat([x[:, (n * r + i) * wide + n * c + k] for i in range(n) for k in range(n)], -1)
        for r in range(rows // n)
        for c in range(wide // n)
    ]
    assert torch.equal(made, torch.stack(by_hand, 1))
    unshuffled = torch.nn.functional.pixel_unshuffle(x.mT.reshape(2, 3, rows, wide), n)  # channels before squares
    assert torch.equal(made, unshuffled.unflatten(1, (3, n * n)).transpose(1, 2).flatten(1, 2).flatten(2).mT)


@pytest.mark.parametrize(
    ("length", "options", "said"),
    [
        (15, {}, "15 positions are no square grid; say columns="),
        (15, {"columns": 4}, "15 positions are no grid of 4 columns"),
        (9, {}, "a grid of 3 x 3 positions does not divide into squares of 2 x 2: crop or resize"),
        (18, {"columns": 6}, "a grid of 3 x 6 positions does not divide"),
    ],
)
def test_what_is_no_grid(length: int, options: dict[str, int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make("space_to_depth", {"x": 4}, n=2, **options)[0](torch.randn(1, length, 4))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x = space_to_depth(x, 2, dimensions=1, columns=4)", "columns= is of a grid, and dimensions=1 says that"),
        ("x = space_to_depth(x, 2, columns=5)", "a row of 5 positions does not divide into parts of 2"),
        ("x = space_to_depth(x, 2, dimensions=3)", "dimensions.* 2"),
        ("x = space_to_depth(x, 0)", "n.* 1"),
        ("x = tail(x, 0)", "first.* 1"),
        ("x = tail(x)", "first"),
        ("x = masked_scatter(x, tokens, y)", "id"),
        (
            "x = masked_scatter(x, tokens, linear(y, 3), 7)",
            r"a and b have different widths, 256 and 3.*linear\(b, 256\)",
        ),
        ("x = masked_scatter(y, tokens, x, 7)", "tokens"),
        ("x = masked_scatter(x, tokens, x, 7)", "of its own a causal stack must not see what comes later"),
    ],
)
def test_bad_options_say_what_is_right(line: str, said: str) -> None:
    text = f"width: 256\nbefore: y = patches(image, 4); x = embed(tokens); {line} + linear(y, width)\n"
    if "y" not in line:
        text = f"width: 256\nbefore: x = embed(tokens); {line}\n"
    with pytest.raises(FormulaError, match=said):
        check(read_text(text + "layer: x = x + mlp(norm(x))"), vocabulary())


def scatter() -> Any:
    return make("masked_scatter", WIDTHS, id=MARK)[0]


def streams(count: int = 3) -> tuple[Tensor, Tensor]:
    return torch.randn(2, 6, 4, dtype=torch.float64), torch.randn(2, count, 4, dtype=torch.float64)


def by_hand(a: Tensor, b: Tensor) -> Tensor:
    y = a.clone()
    for row in range(2):
        k = 0
        for i, token in enumerate(IDS[row].tolist()):
            if token == MARK:
                y[row, i] = b[row, k]
                k += 1
    return y


def test_masked_scatter_by_hand_and_by_pytorch() -> None:
    a, b = streams()
    made = scatter()(a, IDS, b)
    assert torch.equal(made, by_hand(a, b))
    assert torch.equal(made, a.masked_scatter((IDS == MARK)[..., None], b))
    one = b[:1].expand(2, -1, -1)  # one for the batch, as `learned` is
    assert torch.equal(scatter()(a, IDS, b[:1]), by_hand(a, one))


def test_gradients_go_where_values_came_from() -> None:
    a, b = (x.requires_grad_() for x in streams())
    assert torch.autograd.gradcheck(lambda a, b: scatter()(a, IDS, b), (a, b))


def test_what_is_padded_is_not_put() -> None:
    """Of what is put, only real positions are counted."""
    a, b = streams(5)
    real = torch.arange(5) < torch.tensor([3, 3])[:, None]
    padded = b.masked_fill(~real[..., None], torch.nan)
    assert torch.equal(scatter()(a, IDS, padded, real=real), by_hand(a, b))


@pytest.mark.parametrize("count", [2, 4])
def test_the_numbers_must_be_equal(count: int) -> None:
    said = rf"row 1 has 3 positions with this id, and b has {count} to put there; write the id as often"
    with pytest.raises(InputError, match=said):
        scatter()(*streams()[:1], IDS, streams(count)[1])
    real = torch.arange(3) < torch.tensor([3, 2])[:, None]
    a, b = streams(count)
    none = torch.zeros_like(IDS)
    assert torch.equal(scatter().eval()(a, none, b), a)  # a text without a picture
    with pytest.raises(InputError, match=rf"row 1 has 0 positions with this id, and b has {count}"):
        scatter().train()(a, none, b)
    with pytest.raises(InputError, match="row 2 has 3 positions with this id, and b has 2"):
        scatter()(streams()[0], IDS, streams()[1], real=real)


@pytest.mark.parametrize("chunks", [[6], [1] * 6, [3, 1, 2]])
def test_step_by_step(chunks: list[int]) -> None:
    module, (a, b) = scatter(), streams()
    state, made, done = module.start(2, 6, torch.float64, "cpu"), [], 0
    for length in chunks:
        part = slice(done, done + length)
        made.append(module.step(a[:, part], IDS[:, part], b, state=state, at=at([done, done])))
        done += length
    assert torch.equal(torch.cat(made, 1), by_hand(a, b))


def test_steps_of_rows_that_are_padded_dropped_and_copied() -> None:
    """Padding may hold the id, too."""
    module, (a, b) = scatter(), streams()
    state, whole = module.start(2, 9, torch.float64, "cpu"), by_hand(a, b)
    ids = IDS[:, :3].clone()
    ids[1, 1:] = MARK
    made = module.step(a[:, :3], ids, b, state=state, at=at([0, 0], [3, 1]))
    assert torch.equal(made[0], whole[0, :3]) and torch.equal(made[1, 0], whole[1, 0])
    assert state["placed"].tolist() == [2, 0]
    rows = torch.tensor([1, 0, 1])
    state = module.reorder(state, rows)
    places = torch.tensor([1, 3, 1])
    for _ in range(3):
        here = (rows, places)
        step = module.step(a[here][:, None], IDS[here][:, None], b[rows], state=state, at=at(places.tolist()))
        assert torch.equal(step[:, 0], whole[here])
        places = places + 1


def test_what_is_written_beyond_stays() -> None:
    """A prompt with more ids than there is to put is refused; one that the model itself writes is a token."""
    module, (a, b) = scatter(), streams(2)
    state = module.start(2, 9, torch.float64, "cpu")
    with pytest.raises(InputError, match="row 1 has 3 positions with this id, and b has 2"):
        module.step(a, IDS, b, state=state, at=at([0, 0]))
    state = module.start(2, 9, torch.float64, "cpu")
    module.step(a[:, :3], IDS[:, :3], b, state=state, at=at([0, 0]))
    assert torch.equal(module.step(a[:, 3:4], IDS[:, 3:4], b, state=state, at=at([3, 3]))[0, 0], a[0, 3])


@pytest.mark.parametrize("seen", [PICTURE, "patches(image, 4, channels=3)"])
def test_a_picture_among_tokens(seen: str) -> None:
    """Causal, rows with padding as rows alone, decoding in chunks as one pass."""
    made, pictures = model(seen), image()
    ids = IDS if "tail" in seen else torch.cat([IDS, torch.tensor([[MARK, 1], [MARK, 5]])], 1)
    whole = made(image=pictures, tokens=ids)
    decoding = made.start(2, ids.shape[1], image=pictures)
    steps = torch.cat([made.step(chunk, decoding) for chunk in ids.split([4, 1, ids.shape[1] - 5], 1)], 1)
    torch.testing.assert_close(steps, whole)
    longer = torch.cat([ids, torch.full((2, 2), 3)], 1)
    longer[1, -2:] = 5
    lengths = {"tokens": torch.tensor([ids.shape[1] + 2, ids.shape[1]])}
    padded = made(image=pictures, tokens=longer, lengths=lengths)
    torch.testing.assert_close(padded[:, : ids.shape[1]], whole)
    other = ids.clone()
    other[0, 1] = 4
    assert not (made(image=pictures, tokens=other) != whole)[0, :1].any()
    assert not torch.equal(made(image=image(), tokens=ids), whole)


def test_a_picture_in_a_stack_that_sees_all() -> None:
    made, pictures = model(causal=False), image()
    whole = made(image=pictures, tokens=IDS)
    for row in range(2):
        alone = made(image=pictures[row : row + 1], tokens=IDS[row : row + 1])
        torch.testing.assert_close(whole[row : row + 1], alone)


def test_sounds_of_different_lengths_among_tokens() -> None:
    """Two rows of samples of which one is padded: as many places as its real positions."""
    made = model(SOUND)
    audio = torch.rand(2, 30, dtype=torch.float64)
    ids = torch.tensor([[MARK, 2, MARK, MARK, 9], [2, MARK, MARK, 3, 1]])
    lengths = {"audio": torch.tensor([30, 20])}
    whole = made(audio=audio, tokens=ids, lengths=lengths)
    alone = made(audio=audio[1:, :20], tokens=ids[1:])
    torch.testing.assert_close(whole[1:], alone)
    decoding = made.start(2, 5, audio=audio, lengths=lengths)
    torch.testing.assert_close(torch.cat([made.step(c, decoding) for c in ids.split([2, 1, 2], 1)], 1), whole)
    with pytest.raises(InputError, match="row 2 has 2 positions with this id, and b has 3"):
        made(audio=audio, tokens=ids)


@pytest.mark.parametrize(("word", "more"), [("tail", ""), ("space_to_depth", ", dimensions=1")])
def test_the_shorter_sequence_is_not_decoded(word: str, more: str) -> None:
    text = f"width: 8\ndepth: 1\nbefore: x = linear({word}(embed.words(tokens), 2{more}), 8)\nlayer: x = x + mlp(x)"
    made = build(check(read_text(text), vocabulary()))
    assert made(IDS).shape[1] == (5 if word == "tail" else 3)
    with pytest.raises(
        InputError, match=f"{word} makes a sequence of its own length, which cannot be decoded step by"
    ):
        made.start(1, 4)


def test_it_is_compiled_and_learns_as_it_is_and_made_again() -> None:
    torch.compiler.reset()
    made, pictures = model().train(), image()
    compiled = torch.compile(made, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(image=pictures, tokens=IDS), made(image=pictures, tokens=IDS))
    gradients = []
    for what in ("none", "all"):
        again = model().train()
        recompute(again, what)
        again(image=pictures, tokens=IDS).square().sum().backward()
        gradients.append([p.grad for p in again.parameters()])
    assert all(one is not None and one.any() for one in gradients[0])
    torch.testing.assert_close(*gradients)


def test_a_row_with_a_picture_is_not_put_into_another_decoding() -> None:
    """What is put there are the states of its tokens; the picture, which a later token may still read, would be that of
    the row before."""
    seeing, pictures = model(), image()
    decodings = [seeing.start(1, 6, image=pictures[row : row + 1]) for row in (0, 1)]
    seeing.step(torch.tensor([[7]]), decodings[1])
    with pytest.raises(InputError, match="cannot be put into another decoding"):
        decodings[0].put([0], decodings[1], [0])


SEVERAL = torch.tensor(
    [
        [MARK, MARK, MARK, 2, MARK, MARK, MARK, 4],
        [2, 3, 4, 5, 6, 1, 1, 1],
        [MARK, MARK, MARK, MARK, MARK, MARK, 1, 2],
        [1, MARK, 2, MARK, MARK, 4, 5, 6],
    ]
)
COUNTS = torch.tensor([2, 0, 2, 1])


def test_rows_with_several_pictures_and_with_none() -> None:
    """As each row alone, in one pass and step by step, rows dropped and copied, with gradients for each picture."""
    made, pictures = model(), torch.randn(5, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    whole = made(image=pictures, tokens=SEVERAL)
    for row, own in enumerate(pictures.split(COUNTS.tolist())):
        alone = made(image=own, tokens=SEVERAL[row : row + 1])
        torch.testing.assert_close(alone, whole[row : row + 1])
    others = torch.randn(4, 8, 11, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((whole * others).sum(), pictures)
    assert gradient.flatten(1).any(1).all()
    with torch.no_grad():
        for chunks in ([8], [7, 1], [1] * 8):
            decoding = made.start(4, 8, image=pictures, lengths={"image": COUNTS})
            steps = torch.cat([made.step(chunk, decoding) for chunk in SEVERAL.split(chunks, 1)], 1)
            torch.testing.assert_close(steps, whole)
        decoding, rows = made.start(4, 8, image=pictures, lengths={"image": COUNTS}), torch.tensor([2, 0, 0, 3, 1])
        made.step(SEVERAL[:, :5], decoding)
        decoding.select(rows)
        torch.testing.assert_close(made.step(SEVERAL[rows, 5:], decoding), whole[rows, 5:])


def test_no_picture_at_all() -> None:
    """One is given that stands nowhere; what has its id is a token."""
    made, ids = model(), SEVERAL[1:2].clone()
    whole = made(image=image()[:1], tokens=ids)
    decoding = made.start(1, 9, image=image()[:1], lengths={"image": torch.tensor([0])})
    torch.testing.assert_close(torch.cat([made.step(chunk, decoding) for chunk in ids.split([3, 5], 1)], 1), whole)
    written = made.step(torch.tensor([[MARK]]), decoding)
    alone = made.start(1, 9, image=image()[:1], lengths={"image": torch.tensor([0])})
    with pytest.raises(InputError, match="row 1 has 1 positions with this id, and b has 0"):
        made.step(torch.cat([ids, torch.tensor([[MARK]])], 1), alone)
    assert torch.isfinite(written).all()


def test_as_many_rows_of_pictures_as_of_text_by_accident() -> None:
    """Two of the first row and none of the second: what each row says decides."""
    made, pictures = model(), image()
    ids = SEVERAL[:2]
    whole = made.train()(image=pictures, tokens=ids)
    torch.testing.assert_close(whole[:1], made(image=pictures, tokens=ids[:1]))
    decoding = made.eval().start(2, 8, image=pictures, lengths={"image": torch.tensor([2, 0])})
    torch.testing.assert_close(made.step(ids, decoding), whole)


def test_the_id_written_beyond_what_a_row_has() -> None:
    """A row with fewer pictures than another has no more to put, though its sequence is padded."""
    made, pictures = model(), torch.randn(3, 3, 8, 8, dtype=torch.float64)
    ids = SEVERAL[[0, 3]]
    decoding = made.start(2, 9, image=pictures, lengths={"image": torch.tensor([2, 1])})
    made.step(ids, decoding)
    more = made.step(torch.tensor([[MARK], [MARK]]), decoding)
    alone = made.start(1, 9, image=pictures[2:])
    made.step(ids[1:], alone)
    torch.testing.assert_close(more[1:], made.step(torch.tensor([[MARK]]), alone))


def test_pictures_that_are_not_as_said() -> None:
    made, pictures = model(), torch.randn(5, 3, 8, 8, dtype=torch.float64)
    ids = SEVERAL.clone()
    ids[0, 0] = 2
    with pytest.raises(InputError, match=r"rows have \[5, 0, 6, 3\] positions with this id, and b has 5 times 3"):
        made(image=pictures, tokens=ids)
    for lengths, said in (
        ({"image": torch.tensor([1, 0, 2, 1])}, "image has 5 rows, the decoding 4"),
        ({"image": torch.tensor([2.0, 0, 2, 1])}, "how many pictures each row has"),
        (None, "image has 5 rows, the decoding 4"),
    ):
        with pytest.raises(InputError, match=said):
            made.start(4, 8, image=pictures, lengths=lengths)
    decoding = made.start(4, 8, image=pictures, lengths={"image": torch.tensor([1, 1, 2, 1])})
    with pytest.raises(InputError, match="row 1 has 6 positions with this id, and b has 3"):
        made.step(SEVERAL, decoding)


def test_a_model_that_reads_pictures_otherwise_has_one_a_row() -> None:
    text = TEXT.format(seen=PICTURE, causal="true")
    text = text.replace("    x = x + mlp(norm(x))\n", "    x = x + attention(x, side)\n")
    crossing = random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()
    with pytest.raises(InputError, match="not among its tokens alone: give each row one picture"):
        crossing.start(1, 8, image=image(), lengths={"image": torch.tensor([2])})
