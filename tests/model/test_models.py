"""All models of the language's page that are built: at full size without memory, and run small."""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import pytest
import torch

from tests.model.helpers import NOT_BUILT, architecture_of, built, randomised, texts, tokens, writers
from tests.portions import every_third
from transformula.analysis.accounting import module_sizes, summary
from transformula.errors import InputError
from transformula.model import build
from transformula.model.transformer import Transformer

CAUSAL = writers()


@cache
def random_model(name: str) -> Transformer:
    """With random weights; what uses it changes nothing in it."""
    return randomised(build(architecture_of(name)))


@pytest.mark.parametrize("name", every_third(built()))
def test_at_full_size_without_memory(name: str) -> None:
    """The accounting knows every parameter of the built module, one by one."""
    architecture = architecture_of(name, small=False)
    model = build(architecture, device="meta")
    counted = {f"{path}.{n}": size for path, own in module_sizes(architecture).items() for n, size in own.items()}
    assert counted == {n: p.numel() for n, p in model.named_parameters()}
    assert summary(architecture).totals.parameters == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", every_third(CAUSAL))
def test_small_forward_and_backward(name: str) -> None:
    model = build(architecture_of(name))
    result = model(tokens())
    assert result.shape == (2, 9, 11) and result.isfinite().all()
    result.square().mean().backward()
    unused = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not unused


@pytest.mark.parametrize("name", CAUSAL)
@pytest.mark.parametrize("chunks", [pytest.param([1] * 12, marks=pytest.mark.slow), [5, 1, 1, 5], [12]], ids=str)
def test_decoding_is_the_whole_pass(name: str, chunks: list[int]) -> None:
    model = random_model(name)
    given = tokens(3, 12)
    whole = model(given)
    decoding = model.start(3, 12)
    ends = list(accumulate(chunks))
    made = [model.step(given[:, end - count : end], decoding) for end, count in zip(ends, chunks, strict=True)]
    torch.testing.assert_close(torch.cat(made, 1), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CAUSAL)
def test_decoding_rows_of_several_lengths(name: str) -> None:
    """Prompts of different lengths in one batch; then rows chosen anew, in another order, one twice."""
    model = random_model(name)
    given, lengths = tokens(3, 12), torch.tensor([3, 9, 6])
    whole = model(given)
    padded = given[:, :9].clone()
    for row, length in enumerate(lengths.tolist()):
        padded[row, length:] = 0
    decoding = model.start(3, 12)
    first = model.step(padded, decoding, new=lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(first[row, :length], whole[row, :length], rtol=1e-9, atol=1e-9)
    rows = [2, 0, 1, 2]
    decoding.select(torch.tensor(rows))
    pieces = torch.stack([given[row, lengths[row] : lengths[row] + 3] for row in rows])
    for step in range(3):
        made = model.step(pieces[:, step : step + 1], decoding)
        wanted = torch.stack([whole[row, lengths[row] + step] for row in rows])
        torch.testing.assert_close(made[:, 0], wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_token_changes_nothing_before_it(name: str) -> None:
    model = random_model(name)
    given = tokens()
    other = given.clone()
    other[:, -1] = (other[:, -1] + 1) % 11
    torch.testing.assert_close(model(given)[:, :-1], model(other)[:, :-1], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(model(given)[:, -1], model(other)[:, -1])


@pytest.mark.parametrize(("name", "key"), NOT_BUILT.items())
def test_what_is_not_built_says_so(name: str, key: str) -> None:
    with pytest.raises(InputError, match=key.split(":")[0]):
        build(architecture_of(name, small=False), device="meta")


def test_the_list_of_what_is_not_built_is_whole() -> None:
    assert set(texts()) >= set(NOT_BUILT) and len(built()) > 50
