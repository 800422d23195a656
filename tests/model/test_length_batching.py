"""An encoder that reads rows of like lengths together gives what it gives for all at once."""

import pytest
import torch
from torch import Tensor

from transformula import gallery, words
from transformula.errors import InputError
from transformula.language.check import check
from transformula.model import Transformer, build
from transformula.model.decoding import PART_ROWS, by_length

LENGTHS = torch.tensor([9, 3, 1, 4] * PART_ROWS).sort(descending=True).values
IDS = torch.randint(0, 50, (len(LENGTHS), 9), generator=torch.Generator().manual_seed(0))


def model_of(name: str = "vaswani") -> Transformer:
    numbers = {"depth": 1, "width": 32, "heads": 4, "vocab": 50, "context": 32}
    return build(check(gallery.entry(name).text, words.vocabulary(), numbers), seed=0).double().eval()


def test_each_row_is_made_as_if_all_were_made_at_once() -> None:
    def make(ids: Tensor, lengths: Tensor) -> list[Tensor]:
        sizes.append(tuple(ids.shape))
        real = torch.arange(ids.shape[1]) < lengths[:, None]
        return [ids[..., None] * torch.tensor([1, 2]), real]

    sizes: list[tuple[int, ...]] = []
    twice, real = by_length(make, IDS, LENGTHS) or []
    assert sizes == [(PART_ROWS, size) for size in (9, 4, 3, 1)]
    assert torch.equal(real, torch.arange(9) < LENGTHS[:, None])
    assert torch.equal(twice, torch.where(real, IDS, 0)[..., None] * torch.tensor([1, 2]))


@pytest.mark.parametrize("lengths", [torch.full_like(LENGTHS, 9), LENGTHS - 1, LENGTHS + 1, LENGTHS[1:], LENGTHS[:1]])
def test_nothing_is_made_where_parts_are_no_gain_or_lengths_are_wrong(lengths: Tensor) -> None:
    assert by_length(lambda ids, _: pytest.fail("made"), IDS, lengths) is None


def test_what_has_no_value_for_each_position_is_made_at_once() -> None:
    assert by_length(lambda ids, _: [ids.double().mean(1, keepdim=True)], IDS, LENGTHS) is None


def test_decoding_over_parts_is_decoding_over_the_whole() -> None:
    model, tokens = model_of(), torch.randint(0, 50, (len(LENGTHS), 3))
    expected = model(source=IDS, tokens=tokens, lengths={"source": LENGTHS})
    with torch.inference_mode():
        decoding = model.start(len(LENGTHS), 3, source=IDS, lengths={"source": LENGTHS})
        assert all(not value[LENGTHS == 1, 1:].any() for value in decoding.fixed)
        torch.testing.assert_close(model.step(tokens, decoding), expected, atol=1e-9, rtol=1e-9)


def test_wrong_lengths_are_refused_as_in_a_whole_pass() -> None:
    with pytest.raises(InputError, match="lengths"):
        model_of().start(len(LENGTHS), 3, source=IDS, lengths={"source": LENGTHS + 1})
