"""Streams side by side where an installed package is wrong, and that ours is not. See also `test_defects.py`.

What equals them stands in `cases/hyper_connections.py`.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.words.helpers import make
from transformula import Model

WIDTH, PARTS = 16, 4
REPAIRED = "it was repaired in this version: compare it with ours in tests/peers/cases, and take this test out"


def entering_the_last_norm(wiring: str, depth: int) -> float:
    """Size of the stream before the last norm over its size before the first layer, at initial values, of ours."""
    model = Model(wiring, depth=depth, width=32, heads=4, vocab=53, context=24).module.double().eval()
    seen: dict[str, Tensor] = {}
    model.get_submodule("layers.1.attention_input_norm").register_forward_pre_hook(
        lambda module, given: seen.update(first=given[0])
    )
    model.get_submodule("after.norm").register_forward_pre_hook(lambda module, given: seen.update(last=given[0]))
    with torch.no_grad():
        model(torch.arange(12)[None])
    return (seen["last"].norm() / seen["first"].norm()).item()


@pytest.mark.parametrize(("wiring", "read"), [("hyper-connections", 1), ("mhc", 1.5379), ("mhc-lite", 1.5379)])
def test_ours_do_not_multiply_the_stream(wiring: str, read: float) -> None:
    """x-transformers' streams grow by their number in each sublayer (`test_defects.py`); ours, summed at the end, are
    four times what plain pre-norm leaves, whatever the depth. `read`: how much of equal streams is read at first."""
    plain = {depth: entering_the_last_norm("pre-norm", depth) for depth in (2, 6)}
    for depth in (2, 6):
        ours = entering_the_last_norm(wiring, depth) * read
        assert ours == pytest.approx(4 * plain[depth], rel=0.25)


def test_fractions_of_the_package_do_not_start_as_a_residual_net() -> None:
    """hyper-connections 0.4 with `num_fracs=4`: what is read and what is kept are cut from one matrix across its two
    halves, so that at first, with a branch of 0, the parts of x become 1, 1, 2 and 4, and those that are read are 1, 1,
    1 and 3. The paper starts with each part for itself; so does ours."""
    package = pytest.importorskip("hyper_connections", reason="pip install transformula[peers]")
    x, made = torch.randn(2, 5, WIDTH), torch.randn(2, 5, WIDTH)
    theirs = package.HyperConnections(1, dim=WIDTH, num_fracs=PARTS, layer_index=1)
    with torch.no_grad():
        read, add = theirs(x)
        assert torch.allclose(read, taken(x, 1, 1, 1, 3)), REPAIRED
        assert torch.allclose(add(torch.zeros_like(x)), taken(x, 1, 1, 2, 4)), REPAIRED

        own_read, _ = make("read", {"X": WIDTH}, kind="frac", n=PARTS)
        own_write, _ = make("write", {"X": WIDTH, "y": WIDTH}, kind="frac", n=PARTS)
        torch.testing.assert_close(own_read(x), x)
        torch.testing.assert_close(own_write(x, made), x + made)


def taken(x: Tensor, *parts: int) -> Tensor:
    """These parts of x, counted from 1, side by side."""
    return torch.cat([x.chunk(PARTS, -1)[part - 1] for part in parts], -1)
