"""Models of images: published sizes, and what their squares are."""

from __future__ import annotations

import torch

from transformula import gallery
from transformula.analysis.accounting import summary
from transformula.language.check import check
from transformula.model import build
from transformula.words import vocabulary


def test_vit_has_its_published_size() -> None:
    model = build(check(gallery.load("vit"), vocabulary()), device="meta")
    assert sum(p.numel() for p in model.parameters()) == 86_567_656
    layers = sum(p.numel() for name, p in model.named_parameters() if name.startswith("layers."))
    assert layers == 85_054_464
    counted = summary(model.architecture)
    assert counted.data["totals"]["parameters"] == 86_567_656
    assert counted.length == 197, "a picture's squares and the class token, not a text's context"
    assert summary(model.architecture, length=64).length == 64


def test_an_image_is_read_row_by_row() -> None:
    """Squares that change places change nothing but by their positions."""
    model = build(check(gallery.load("vit"), vocabulary(), {"depth": 1, "width": 16, "heads": 2})).eval()
    image = torch.randn(1, 3, 32, 48)
    swapped = image.clone()
    swapped[..., :16, 16:32], swapped[..., 16:, :16] = image[..., 16:, :16], image[..., :16, 16:32]
    with torch.no_grad():
        assert not torch.allclose(model(image), model(swapped))
        positions = model.get_submodule("before.positions").weight
        # the class token is position 1; the squares, by rows of three, are positions 2 to 7
        positions[[2, 4]] = positions[[4, 2]]
        kept = model(swapped)
        positions[[2, 4]] = positions[[4, 2]]
        torch.testing.assert_close(model(image), kept)
