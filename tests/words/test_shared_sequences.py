"""Rows that stand over one sequence: queries put together and taken apart, and decoding over a memory kept once."""

import pytest
import torch

from tests.words.helpers import at, make
from transformula import gallery, words
from transformula.language.check import check
from transformula.model import build
from transformula.words.shared_sequences import SharedSequences
from transformula.words.word import At


@pytest.mark.parametrize("of_row", [[0, 0, 1, 1], [0, 0, 0, 1, 2, 2], [0, 1, 0, 2, 1], [0], [0, 0, 0]])
def test_apart_gives_back_what_was_gathered(of_row: list[int]) -> None:
    shared = SharedSequences(of_row, torch.device("cpu"))
    x = torch.randn(len(of_row), 3, 2, 4)
    gathered = shared.gather(x)
    assert gathered.shape == (shared.count, 3, shared.most * 2, 4)
    assert torch.equal(shared.scatter(gathered), x)
    assert [of_row[row] for row in shared.first] == list(range(shared.count))
    for row, sequence in enumerate(of_row):
        assert any(torch.equal(gathered[sequence, :, n : n + 2], x[row]) for n in range(0, shared.most * 2, 2))


@pytest.mark.parametrize("options", [{}, {"cap": 5.0}, {"kv_heads": 2}])
@pytest.mark.parametrize("of_row", [[0, 0, 1, 1], [0, 1, 0, 1, 1]])
def test_attention_over_a_shared_memory_is_that_over_copies(options: dict[str, float], of_row: list[int]) -> None:
    """Whether the memory is kept before its rows are copied or after, with padding, and where all is padding."""
    module, _ = make("attention", {"x": 32, "memory": 32}, causal=False, **options)
    module.eval()
    memory = torch.randn(2, 6, 32)
    real = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    x = torch.randn(len(of_row), 3, 32)
    for seen in (None, real, real & torch.tensor([[False], [True]])):
        copied = None if seen is None else seen[of_row]
        expected = module(x, memory[of_row], real=copied)
        state = module.start(len(of_row), 8, torch.float32, "cpu")
        place = At(torch.zeros(len(of_row), dtype=torch.long), 0, shared=SharedSequences(of_row, torch.device("cpu")))
        with torch.inference_mode():
            for _ in range(2):
                found = module.step(x, memory[of_row], state=state, at=place, real=copied)
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            assert state.keys.shape[0] == 2
            alone = module.start(2, 8, torch.float32, "cpu")
            module.step(x[:2], memory, state=alone, at=at([0, 0]), real=seen)
            found = module.step(x, memory[of_row], state=alone, at=place, real=copied)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_rows_chosen_again_and_again_go_on_like_rows_of_their_own() -> None:
    """Copies, new orders, sentences that come and go: each row's logits are those of its own text and source."""
    numbers = {"depth": 2, "width": 32, "heads": 4, "vocab": 50, "context": 32}
    model = build(check(gallery.entry("vaswani").text, words.vocabulary(), numbers), seed=0).double().eval()
    source, lengths = torch.randint(0, 50, (3, 7)), torch.tensor([7, 3, 5])
    of_row, tokens = torch.arange(3), torch.randint(0, 50, (3, 1))
    chosen = [None, [0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [0, 2, 4, 5, 5], [4, 0, 1], [2, 1, 0], [0, 0, 0]]
    with torch.inference_mode():
        decoding = model.start(3, 20, source=source, lengths={"source": lengths})
        for rows in chosen:
            if rows is not None:
                decoding.select(torch.tensor(rows))
                of_row = of_row[rows]
                tokens = torch.cat((tokens[rows], torch.randint(0, 50, (len(rows), 1))), 1)
            found = model.step(tokens[:, -1:], decoding)[:, -1]
            given = {"source": lengths[of_row]}
            expected = model(source=source[of_row], tokens=tokens, lengths=given)[:, -1]
            torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
