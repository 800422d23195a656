"""Where an installed reference is wrong: what it does is shown, and that ours does not.

The assertions about them are of the versions that are pinned. If one fails after an update, the package was repaired:
then the case becomes one of equality.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.invariants.harness import built, tokens
from tests.peers.carry import in_double, randomize
from tests.peers.case import CONTEXT, HEADS, VOCAB, WIDTH, ids
from transformula import Model
from transformula.errors import InputError

REPAIRED = "it was repaired in this version: compare it with ours in tests/peers/cases, and take this test out"


def x_decoder(depth: int = 2, randomly: bool = True, **options: object) -> nn.Module:
    """A causal language model of x-transformers; `randomly`: weights are not the initial ones."""
    from x_transformers import Decoder, TransformerWrapper

    torch.manual_seed(0)
    with in_double():
        stack = Decoder(dim=WIDTH, depth=depth, heads=HEADS, attn_dim_head=WIDTH // HEADS, verbose=False, **options)
        made = TransformerWrapper(num_tokens=VOCAB, max_seq_len=CONTEXT, attn_layers=stack).eval()
    return randomize(made) if randomly else made


@torch.no_grad()
def leak(model: nn.Module, tokens: Tensor, other: int) -> float:
    """How much the results before the last position change with the last token, over the largest of them."""
    with in_double():
        before = model(tokens)[:, :-1]
        changed = tokens.clone()
        changed[:, -1] = other
        return ((model(changed)[:, :-1] - before).abs().max() / before.abs().max()).item()


def test_the_measure_sees_no_leak_where_there_is_none() -> None:
    assert leak(x_decoder(), ids(), 7) < 1e-12


def test_x_transformers_orthogonal_residual_sees_the_future() -> None:
    """The projection is of all positions of a sequence as one vector, so what a position adds depends on later ones."""
    assert leak(x_decoder(orthog_residual=True), ids(), 7) > 1e-3, REPAIRED


def test_ours_projects_position_by_position() -> None:
    assert leak(built("orthogonal"), tokens(), 7) < 1e-12


def test_x_transformers_mean_split_residual_sees_the_future() -> None:
    """It adds the mean of the branch over the whole sequence, in a causal decoder too. Ours has no such wiring: the
    word `mean` sees all positions, and a causal stack refuses it by name."""
    assert leak(x_decoder(mv_split_residual=True), ids(), 7) > 1e-3, REPAIRED


def test_ours_refuses_a_mean_in_a_causal_stack() -> None:
    with pytest.raises(InputError, match="mean"):
        Model("a = attention(norm(x)); x = x + 0.03 * (a - mean(a)); x = x + mlp(norm(x))", depth=2, width=16, heads=2)


def entering_the_last_norm(depth: int, streams: int) -> float:
    """Size of the stream before the last norm over its size before the first layer, at initial values."""
    model = x_decoder(depth, randomly=False, num_residual_streams=streams)
    seen: dict[str, Tensor] = {}
    layers = model.attn_layers
    layers.register_forward_pre_hook(lambda module, given: seen.update(first=given[0]))
    layers.final_norm.register_forward_pre_hook(lambda module, given: seen.update(last=given[0]))
    with torch.no_grad(), in_double():
        model(ids())
    return (seen["last"].norm() / seen["first"].norm()).item()


def test_x_transformers_hyper_connections_multiply_the_stream() -> None:
    """The mixing matrix is built with one row in the place of n and normed by columns: ones everywhere. Each sublayer
    so gives every stream the sum of all of them, and the streams grow by their number in each."""
    assert entering_the_last_norm(6, 1) < 10
    growth = [entering_the_last_norm(depth, 4) for depth in (2, 4, 6)]
    assert growth[0] > 100 and growth[2] > 1e6, f"{growth}: {REPAIRED}"
    # two layers more are four sublayers, each of which multiplies by 4
    assert growth[1] / growth[0] == pytest.approx(4**4, rel=0.2)


def test_x_transformers_mixing_matrix_is_all_ones() -> None:
    """The cause: `(s1 s2) -> s1 s2` with s2 = n of n numbers leaves s1 = 1."""
    from x_transformers.x_transformers import HyperConnection

    with in_double(), torch.no_grad():
        made = HyperConnection(WIDTH, layer_index=0, num_residual_streams=4)
        streams = torch.randn(4, 3, WIDTH)
        _, mixed, _ = made.prepare(streams)
        total = streams.sum(0)
        assert torch.allclose(mixed, total[:, None].expand_as(mixed)[None]), REPAIRED


def test_pytorch_adds_a_second_last_norm() -> None:
    """nn.Transformer ends its stacks with a norm also where every layer ends with one (issue 24930)."""
    post = nn.Transformer(WIDTH, HEADS, 1, 1, 4 * WIDTH, batch_first=True, norm_first=False)
    assert isinstance(post.encoder.norm, nn.LayerNorm), REPAIRED
    assert isinstance(post.encoder.layers[-1].norm2, nn.LayerNorm)
    names = [name for name, _ in built("post-norm").named_parameters()]
    assert not [name for name in names if name.startswith("after.")]


def test_transformers_reformer_has_a_bias_that_nothing_adds() -> None:
    """It is trained, saved and loaded, and does nothing. In ours what nothing reads is an error."""
    from tests.peers.case import cases

    theirs = cases()["reformer"].make().theirs.eval()
    with torch.no_grad():
        before = theirs(ids(), use_cache=False).logits
        theirs.lm_head.bias.fill_(7.0)
        assert torch.equal(theirs(ids(), use_cache=False).logits, before), REPAIRED


def test_ours_refuses_what_nothing_reads() -> None:
    with pytest.raises(InputError, match="never read"):
        Model("b = vector(0); x = x + attention(norm(x)); x = x + mlp(norm(x))", depth=2, width=16, heads=2)
