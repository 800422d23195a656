"""`patches`, `learned`, `prepend`: what a sequence is made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.words.helpers import make, random_weights
from transformula.errors import InputError
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build
from transformula.words import vocabulary


def patches(**options: Any) -> Any:
    module, _ = make("patches", {"image": 1}, **{"size": 4, "width": 6, **options})
    return random_weights(module.double())


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_are_squares_row_by_row(channels: int) -> None:
    module, image = patches(channels=channels), torch.randn(2, channels, 8, 12, dtype=torch.float64)
    y = module(image)
    assert y.shape == (2, 6, 6)
    place = 0
    for row in range(2):
        for column in range(3):
            square = image[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            numbers = torch.stack([square[:, c, i, j] for c in range(channels) for i in range(4) for j in range(4)], 1)
            torch.testing.assert_close(y[:, place], numbers @ module.weight.T + module.bias)
            place += 1


def test_patches_are_the_convolution_of_vit() -> None:
    module, image = patches(), torch.randn(2, 3, 8, 12, dtype=torch.float64)
    theirs = torch.nn.Conv2d(3, 6, 4, 4, dtype=torch.float64)
    theirs.load_state_dict({"weight": module.weight.view(6, 3, 4, 4), "bias": module.bias})
    torch.testing.assert_close(module(image), theirs(image).flatten(2).transpose(1, 2))


def test_what_is_no_image_says_so() -> None:
    module = patches()
    for wrong in (torch.zeros(2, 8, 8, 3), torch.zeros(3, 8, 8), torch.zeros(2, 1, 8, 8)):
        with pytest.raises(InputError, match=r"an image \(batch, 3, height, width\)"):
            module(wrong)
    with pytest.raises(InputError, match="8 x 10 pixels does not divide into squares of 4 x 4"):
        module(torch.zeros(2, 3, 8, 10))
    with pytest.raises(InputError, match="divide it by 255"):
        module(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def test_learned_is_one_for_the_batch() -> None:
    module, _ = make("learned", {}, rows=500, size=40)
    assert module().shape == (1, 500, 40)
    assert module.weight.std().item() == pytest.approx(0.02, rel=0.05)
    y = module() + torch.zeros(3, 500, 40)
    y.sum().backward()
    assert torch.equal(module.weight.grad, torch.full((500, 40), 3.0))


def test_prepend_repeats_what_is_one_for_the_batch() -> None:
    prepend, _ = make("prepend", {"a": 4, "b": 4})
    one, many = torch.randn(1, 2, 4), torch.randn(3, 5, 4)
    for a, b in ((one, many), (many, one), (many, many[:, :1]), (one, one)):
        y = prepend(a, b)
        assert y.shape == (max(len(a), len(b)), a.shape[1] + b.shape[1], 4)
        assert torch.equal(y[:, : a.shape[1]], a.expand(len(y), -1, -1))
        assert torch.equal(y[:, a.shape[1] :], b.expand(len(y), -1, -1))


class Tokens(torch.nn.Module):
    """A class token before an image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = patches().float()
        self.learned, _ = make("learned", {}, rows=1, size=6)
        self.prepend, _ = make("prepend", {"a": 6, "b": 6})

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.prepend(self.learned(), self.patches(image))


def test_one_graph() -> None:
    torch.compiler.reset()
    module, image = Tokens(), torch.randn(2, 3, 8, 12)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    compiled(image).square().sum().backward()
    torch.testing.assert_close(compiled(image), module(image))
    batch = torch.export.Dim("batch", min=2, max=64)
    exported = torch.export.export(module, (image,), dynamic_shapes=({0: batch},))
    more = torch.randn(5, 3, 8, 12)
    torch.testing.assert_close(exported.module()(more), module(more))


SOFT = """
name: soft
width: 8
depth: 2
heads: 2
causal: {causal}
before: x = prepend(learned(3), embed.words(tokens))
layer: |
  x = x + linear_attention(norm(x))
  x = x + conv(norm(x), 3)
"""


def soft(causal: bool) -> Any:
    text = SOFT.format(causal=str(causal).lower())
    return random_weights(build(check(read_text(text), vocabulary()), dtype=torch.float64)).eval()


def test_soft_prompts() -> None:
    """They stand before the tokens; padding stays on the right; causal, what is later changes nothing."""
    ids = torch.randint(9, (3, 6))
    lengths = torch.tensor([6, 2, 4])
    for causal in (True, False):
        model = soft(causal)
        together = model(ids, lengths=lengths)
        assert together.shape[:2] == (3, 9)
        for row, length in enumerate(lengths.tolist()):
            alone = model(ids[row : row + 1, :length])[0]
            torch.testing.assert_close(together[row, : length + 3], alone)
    other = ids.clone()
    other[:, -1] = (ids[:, -1] + 1) % 9
    model = soft(True)
    assert torch.equal(model(ids)[:, :-1], model(other)[:, :-1])


def test_what_is_prepended_cannot_be_decoded_step_by_step() -> None:
    with pytest.raises(InputError, match="the sequence that prepend makes.*cannot be decoded step by step"):
        soft(True).start(1, 8)
