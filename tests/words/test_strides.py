"""How a tensor lies in memory changes nothing: streams that were transposed, parts of wider ones, one row for all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.test_records import CASES, IDS, VOCABULARY, built, streams_of

LAYS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "part of wider": lambda x: torch.cat((x, x), -1)[..., : x.shape[-1]],
    "every other position": lambda x: x.repeat_interleave(2, 1)[:, ::2],
}


def lay(x: Tensor, how: str) -> Tensor:
    """x, otherwise in memory."""
    if not x.is_floating_point():
        return x
    made: Tensor = LAYS[how](x.detach()).requires_grad_()
    return made


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_values_and_gradients(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    record = VOCABULARY[name]
    if record.kind in ("chance", "coefficient") or {"image", "audio"} & {*widths}:
        pytest.skip("random, without a stream, or of images and sound")
    module, _ = built(name, widths, options)
    streams = streams_of(name, widths, torch.float64)
    if isinstance(module, torch.nn.Module):
        module = module.double()
    for how in LAYS:
        plain = [x.detach().requires_grad_() if x.is_floating_point() else x for x in streams]
        laid = [lay(x, how) for x in streams]
        results = [module(*given) for given in (plain, laid)]
        torch.testing.assert_close(*results, msg=lambda text, how=how: f"{how}: {text}")
        # the gradient that comes back has this layout, too
        weights = torch.rand(results[0].shape, dtype=torch.float64)
        for result, weight in zip(results, (weights, lay(weights, how).detach()), strict=True):
            if result.requires_grad:
                result.backward(weight)
        for one, other in zip(plain, laid, strict=True):
            if one.is_floating_point() and one.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, msg=lambda text, how=how: f"{how}: {text}")
