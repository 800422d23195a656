"""Which sequence a call belongs to, and what may not be mixed."""

from __future__ import annotations

import pytest

from tests.words.helpers import VOCABULARY
from transformula.language.check import check
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_file import read_text


def checked(lines: list[str]) -> Architecture:
    return check(read_text("causal: false\nlayer: |\n" + "".join(f"  {line}\n" for line in lines)), VOCABULARY)


@pytest.mark.parametrize(
    "call",
    [
        "join(x, y)",
        "gru_gate(x, y)",
        "dot(x, y) * x",
        "mix(x, y)",
        "attend(y, x)",
        "write(expand(x, 2), y)",
        "attention(x, x, y)",
        "dot_attention(x, y, x)",
        "attention(x, x, mean(x))",
        "delta(x, y, y, linear(y, heads))",
    ],
)
def test_what_reads_position_by_position_reads_one_sequence(call: str) -> None:
    """A convolution with a stride makes a sequence of its own. Keys and values are of one, too."""
    with pytest.raises(FormulaError) as caught:
        checked(["y = conv(x, 3, stride=2)", f"x = x + linear({call}, width) + pick(y, 1)"])
    assert caught.value.code == "sequences"


def test_the_result_has_the_sequence_of_the_one_that_has_one() -> None:
    """As with sums: what has none, such as the mean of all, is seen by all positions."""
    made = checked(["m = mean(x)", "x = attend(m, x) + mix(m, x) + gru_gate(m, x) + attention(m, x)"])
    found = {v.call.word.name: v.sequence for v in made.main.layers[0].calls() if v.call is not None}
    assert found == {
        "mean": "", "attend": "tokens", "mix": "tokens", "gru_gate": "tokens", "attention": ""
    }  # fmt: skip
