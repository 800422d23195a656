"""ReZero's own package."""

from __future__ import annotations

from torch import Tensor, nn

from tests.peers.around import Around, around, causal
from tests.peers.carry import Theirs, Weights
from tests.peers.case import DEPTH, HEADS, WIDTH, Pair, case
from tests.peers.cases.torch import attention


def call(block: nn.Module, x: Tensor) -> Tensor:
    """Causally; positions come first there."""
    return block(x.transpose(0, 1), src_mask=causal(x.shape[1])).transpose(0, 1)


@case("rezero", "rezero", "RZTXEncoderLayer(activation='gelu')", "rezero")
def rezero() -> Pair:
    """One factor is shared by both branches of a layer."""
    from rezero.transformer import RZTXEncoderLayer

    blocks = [RZTXEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, activation="gelu") for _ in range(DEPTH)]

    def layer(name: str, theirs: Theirs) -> Weights:
        yield f"{name}.gain.weight", theirs["resweight"]
        yield from ((f"{name}.{part}", leaf) for part, leaf in attention(theirs("self_attn")))
        yield f"{name}.mlp.up", theirs("linear1")
        yield f"{name}.mlp.down", theirs("linear2")

    return Pair(Around(blocks, call, norm=False), "rezero", around(layer))
