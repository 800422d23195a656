"""Expressions of tensors that are read both ways."""

from __future__ import annotations

import pytest
import torch

from transformula.errors import CheckpointError
from transformula.interop.named.tensors import Solver, parse_tensor, read_expression, refs

CONVOLUTIONS = {"query": torch.randn(6, 4, 3), "key": torch.randn(2, 4, 3), "value": torch.randn(2, 4, 3)}
BIASES = {name: tensor[:, 0, 0] for name, tensor in CONVOLUTIONS.items()}
IMAGES = {name: tensor[..., None] for name, tensor in CONVOLUTIONS.items()}


@pytest.mark.parametrize("tensors", [CONVOLUTIONS, BIASES, IMAGES], ids=["of a sequence", "biases", "of a grid"])
def test_outputs_of_convolutions_are_joined_along_the_first_axis(tensors: dict[str, torch.Tensor]) -> None:
    expression, solver = read_expression(parse_tensor("outputs(query | key | value)")), Solver({})
    theirs = solver.theirs(expression, lambda one: tensors[one.name])
    assert torch.equal(theirs, torch.cat([*tensors.values()]))
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    assert solver.shape(expression, shapes) == theirs.shape
    back = {one.name: part for one, part in solver.to_ours(expression, theirs, shapes)}
    assert [one.name for one in refs(expression)] == [*back] == [*tensors]
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("parts", [2, 3])
def test_rows_of_several_parts_in_turn_are_read_back(parts: int) -> None:
    rows = torch.arange(12.0)[:, None].expand(-1, 2)
    expression = read_expression(parse_tensor(f"pairs(2, query, {parts})"))
    theirs = Solver({}).theirs(expression, lambda one: rows)
    first = [n + part * (6 // parts) for n in range(6 // parts) for part in range(parts)]
    assert theirs[:, 0].tolist() == [*first, *(n + 6 for n in first)]
    ((one, back),) = Solver({}).to_ours(expression, theirs, {"query": rows.shape})
    assert one.name == "query" and torch.equal(back, rows)


@pytest.mark.parametrize("text", ["outputs()", "pairs(2, a, 3, 4)", "T(a, b)", "join(a)", "a * b", "a[1]"])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(CheckpointError, match="is no expression of tensors"):
        read_expression(parse_tensor(text))
