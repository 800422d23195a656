"""`carry`: segments behind segments are one pass, cut where the text says so; no gradient flows into a former one."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn import functional as F

from tests.model.helpers import SMALL, SMALLER, checked, make, randomised, texts, tokens, writers
from tests.portions import every_third
from tests.references.transformer_xl import wave
from transformula.errors import CheckpointError, InputError
from transformula.language.check import check
from transformula.model import Transformer, build
from transformula.model.segment_memory import Carried, check_carry, put, tensors_of
from transformula.words import tables, vocabulary

BEFORE = "x = embed.words(tokens)"
ROTARY = "x = x + attention(norm(x), rotary=100)\nx = x + mlp(norm(x))"

XL = """
depth: 2
words:
  attend(x, r): |
    q = linear.query(x, width, bias=False)
    s = relative(q + vector.place(0), linear.place_key(r, width, bias=False)) / sqrt(width / heads)
    k = linear.key(x, width, bias=False)
    v = linear.value(x, width, bias=False)
    y = linear.output(dot_attention(q + vector.what(0), k, v, scores=s), width, bias=False)
before: |
  x = embed.words(tokens)
  r = sinusoids(rows=context, halves=True)
layer: |
  x = norm(x + attend(x, r))
  x = norm(x + mlp(x, activation="relu"))
output: logits = unembed.words(x)
carry: 3
"""


def read(model: Transformer, given: Tensor, cuts: list[int], **others: Tensor) -> tuple[Tensor, list[Carried]]:
    """(logits of all segments, what each of them left)."""
    made, left, begin, carried = [], [], 0, None
    for length in cuts:
        part = slice(begin, begin + length)
        logits, carried = model.segment(given[:, part], carried, **{n: t[:, part] for n, t in others.items()})
        made.append(logits)
        left.append(carried)
        begin += length
    return torch.cat(made, 1), left


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", every_third(writers()))
def test_segments_that_see_all_are_one_pass(name: str) -> None:
    """Every model of the language's page that reads tokens alone; those whose positions end say so."""
    given = {**SMALL, **SMALLER.get(name, {}), "carry": 100}
    try:
        model = randomised(build(check(texts()[name], vocabulary(), given)))
    except InputError as error:
        assert "carry: positions go on counting" in error.message
        assert build(check(texts()[name], vocabulary(), {**given, "carry": None}), device="meta").context_limit or (
            "table of" in error.message
        )
        return
    same(read(model, tokens(2, 14), [5, 1, 5, 3])[0], model(tokens(2, 14)))


def test_most_models_without_learned_positions_can_carry() -> None:
    def refused(name: str) -> bool:
        try:
            check_carry(check(texts()[name], vocabulary(), {**SMALL, **SMALLER.get(name, {}), "carry": 8}))
        except InputError:
            return True
        return False

    assert sum(not refused(name) for name in writers()) > 12


@pytest.mark.parametrize(
    "word",
    ["rnn(norm(x))", "gru(x)", "lstm(x)", "linear_attention(x)", "conv(x, 4)", "shift(x, 3)", "mlp(shift(x))"],
)
def test_a_state_of_fixed_size_knows_the_whole_past(word: str) -> None:
    model = make(f"x = x + {word}", before=BEFORE, carry=1)
    made, left = read(model, tokens(2, 12), [4, 1, 5, 2])
    same(made, model(tokens(2, 12)))
    assert {k: t.shape for k, t in left[0].tensors.items()} == {k: t.shape for k, t in left[-1].tensors.items()}


DEFINITIONS = {
    "seen": "seen(i, j): m = j >= i - i % 4 - 3",
    "same": "same(i, j): m = document(i) == document(j)",
    "both": "both(i, j): m = document(i) == document(j) and j >= i - i % 4 - 3",
    "alibi": "alibi(s, h, i, j): s = s - 2 ** (-8 * h / heads) * (i - j)",
    "odd": "odd(s, h, i, j): s = s * exp(-h * (i - j) / 9) + i % 3",
}
"""Formulas over scores; `seen` and `both` are what segments of 4 with `carry: 3` see."""


def text(layer: str) -> str:
    """A model of this layer, with the definitions that it names."""
    used = [row for name, row in DEFINITIONS.items() if f"={name}" in layer]
    rows = ["", *(["words:", *(f"  {row}" for row in used)] if used else []), f"before: {BEFORE}", "layer: |"]
    return "\n".join([*rows, *(f"  {row}" for row in layer.splitlines())])


@pytest.mark.parametrize(
    "layer",
    [
        "x = x + attention(norm(x), rotary=100 MASK)",
        "x = x + attention(norm(x), rotary=7, rotary_pairs=True, rotary_part=0.5, kv_heads=2, window=6 MASK)",
        "x = x + attention(norm(x), score=alibi, cap=3 MASK)",
        "x = norm(x + attention(x, score=odd MASK))",
        "x = x + attention(norm(x), scores=relative(linear.place(x, width), sinusoids(rows=5)) MASK)",
        'x = x + attention(x, scores=relative(linear.place(x, width), sinusoids(rows=20), by="key") MASK)',
        "x = x + attention(norm(x), scores=relative_bias(x, buckets=6, reach=9) MASK)",
        "x = x + dot_attention(rotary(x), norm(x), x, softmax=False MASK) + mlp(norm(x))",
        "y = attention(norm(x), rotary=9 MASK)\nx = x + y * attention.v * dot(attention.q, attention.k)",
    ],
)
def test_a_short_memory_is_a_mask(layer: str) -> None:
    """A segment of 4 sees j >= its start - 3, in every layer and at true distances."""
    model = make(text(layer.replace(" MASK", "")), carry=3)
    whole = make(text(layer.replace(" MASK", ", mask=seen")))
    whole.load_state_dict(model.state_dict())
    made, left = read(model, tokens(2, 16), [4, 4, 4, 4])
    same(made, whole(tokens(2, 16)))
    assert not torch.allclose(made, model(tokens(2, 16)))
    assert (left[-1].length, left[-1].first) == (16, 13)
    for tensor in left[-1].tensors.values():
        assert tensor.shape[2] == 3 and not tensor.requires_grad
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size(), "no part of a larger one"


def test_inputs_of_formulas_are_kept_too() -> None:
    layer = "x = x + attention(norm(x), rotary=9, mask=same)"
    model, whole = make(text(layer), carry=3), make(text(layer.replace("same", "both")))
    documents = torch.tensor([[0] * 6 + [1] * 10, [0, 1] * 8])
    made, left = read(model, tokens(2, 16), [4, 4, 4, 4], document=documents)
    same(made, whole(tokens(2, 16), document=documents))
    assert left[-1].tensors["1.0.inputs.document"].flatten(1).tolist() == documents[:, 13:].tolist()


def xl_by_hand(p: dict[str, Tensor], given: Tensor, cuts: list[int], keep: int, heads: int) -> list[Tensor]:
    """Transformer-XL in plain tensors: each layer's keys and values of the segments before are joined, detached."""
    width = p["words.weight"].shape[1]
    size, batch = width // heads, len(given)
    waves = torch.stack([wave(n, width) for n in range(SMALL["context"])])
    memory: dict[int, tuple[Tensor, Tensor]] = {}
    made, begin = [], 0

    def split(x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], heads, size).transpose(-3, -2)

    for length in cuts:
        x = p["words.weight"][given[:, begin : begin + length]]
        for layer in (1, 2):
            own = {k.removeprefix(f"layers.{layer}."): v for k, v in p.items() if k.startswith(f"layers.{layer}.")}
            q, k, v = (x @ own[f"attend.{name}.weight"].T for name in ("query", "key", "value"))
            if layer in memory:
                k, v = torch.cat((memory[layer][0], k), 1), torch.cat((memory[layer][1], v), 1)
            past = k.shape[1] - length
            memory[layer] = k[:, -keep:].detach(), v[:, -keep:].detach()
            distance = past + torch.arange(length)[:, None] - torch.arange(past + length)
            content = split(q + own["attend.what.weight"]) @ split(k).transpose(-1, -2)
            rows = split(waves @ own["attend.place_key.weight"].T)
            place = split(q + own["attend.place.weight"]) @ rows.transpose(-1, -2)
            place = place.gather(3, distance.clamp(min=0).expand(batch, heads, -1, -1))
            scores = ((content + place) / math.sqrt(size)).masked_fill(distance < 0, -math.inf)
            y = (scores.softmax(-1) @ split(v)).transpose(1, 2).flatten(2) @ own["attend.output.weight"].T
            norms = [(own[f"{name}_sum_norm.weight"], own[f"{name}_sum_norm.bias"]) for name in ("attend", "mlp")]
            x = F.layer_norm(x + y, (width,), *norms[0])
            up = F.relu(x @ own["mlp.up.weight"].T + own["mlp.up.bias"])
            x = F.layer_norm(x + up @ own["mlp.down.weight"].T + own["mlp.down.bias"], (width,), *norms[1])
        made.append(x @ p["words.weight"].T)
        begin += length
    return made


def test_transformer_xl_by_hand_with_its_gradients() -> None:
    """Logits of three segments, and the gradients of a loss over all of them, each into its own segment only."""
    model = make(XL)
    given, cuts = tokens(3, 12), [4, 4, 4]
    weights = torch.randn(3, 12, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    made, _ = read(model, given, cuts)
    (made * weights).sum().backward()
    p = {name: t.detach().clone().requires_grad_() for name, t in model.named_parameters()}
    hand = torch.cat(xl_by_hand(p, given, cuts, 3, SMALL["heads"]), 1)
    (hand * weights).sum().backward()
    same(made, hand)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and p[name].grad is not None, name
        same(parameter.grad, p[name].grad)
    model.zero_grad()
    (model(given) * weights).sum().backward()
    assert not torch.allclose(
        model.get_parameter("layers.1.attend.key.weight").grad, p["layers.1.attend.key.weight"].grad
    )


def test_a_segment_can_be_read_again() -> None:
    """What is carried is not changed by whoever reads on from it; files hold it bit for bit."""
    model = make(ROTARY, before=BEFORE, carry=4)
    _, left = read(model, tokens(2, 10), [5, 5])
    more = tokens(2, 6, seed=3)
    first, after = model.segment(more, left[-1])
    from_file = Carried.read(load(save(left[-1].flat())))
    for carried in (left[-1], from_file):
        again, then = model.segment(more, carried)
        assert torch.equal(first, again) and (then.length, then.first) == (after.length, after.first) == (16, 12)
        assert all(torch.equal(t, after.tensors[name]) for name, t in then.tensors.items())
    with pytest.raises(CheckpointError, match="does not say how many positions"):
        Carried.read({})


def test_what_is_kept_does_not_grow() -> None:
    model = make(ROTARY, before=BEFORE, carry=4)
    _, left = read(model, tokens(2, 30), [2] * 15)
    assert [next(iter(c.tensors.values())).shape[2] for c in left] == [2] + [4] * 14
    assert all(after.first - before.first in (0, 2) for before, after in pairwise(left))


@pytest.mark.parametrize("before", [BEFORE, "x = embed.words(tokens) + sinusoids(tokens, first=2)"])
def test_positions_far_out_need_no_table(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    model = make(ROTARY, before=before, carry=30)
    whole = model(tokens(2, 20))
    monkeypatch.setattr(tables, "MAX_KEPT_ROWS", 8)
    same(read(model, tokens(2, 20), [5, 5, 5, 5])[0], whole)


def test_a_stack_that_does_not_grow_is_made_anew_in_each_segment() -> None:
    """What is read from another sequence has today's weights, and learns."""
    model = make(
        """
latents:
  causal: false
  depth: 1
  before: x = learned(3)
  layer: x = x + attention(norm(x))
reader:
  depth: 2
  before: x = embed.words(tokens)
  layer: |
    x = x + attention(norm(x), rotary=9)
    x = x + attention(norm(x), latents)
carry: 30
"""
    )
    made, left = read(model, tokens(2, 9), [3, 3, 3])
    same(made, model(tokens(2, 9)))
    assert left[-1].first == 0 and len(left[-1].tensors) == 4
    made[:, 6:].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for n, p in model.named_parameters() if "latents" in n)


def test_in_training_weights_are_dropped_and_words_report_their_losses() -> None:
    layer = "x = x + attention(norm(x), rotary=9, dropout=0.5)\nx = x + experts(norm(x), n=4, active=2)"
    model = make(layer, before=BEFORE, carry=6)
    _, left = read(model, tokens(2, 5), [5])

    def once(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model.segment(tokens(2, 5, seed=1), left[-1])[0]

    assert torch.equal(once(1), once(2))
    model.train()
    assert torch.equal(once(1), once(1)) and not torch.allclose(once(1), once(2))
    assert model.named_losses()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_in_low_precision(dtype: torch.dtype) -> None:
    """On a CPU attention that learns goes by products of its own there; float64 does not."""
    layer = "x = x + attention(norm(x), scores=relative_bias(x, buckets=6, reach=9), kv_heads=2)"

    def gradients(kind: torch.dtype) -> dict[str, Tensor]:
        model = make(layer, before=BEFORE, carry=5, depth=1).to(kind)
        made, _ = read(model, tokens(2, 12), [4, 4, 4])
        made[:, 8:].double().square().mean().backward()
        return {n: p.grad.double() for n, p in model.named_parameters() if p.grad is not None}

    exact, rough = gradients(torch.float64), gradients(dtype)
    assert exact.keys() == rough.keys() and any("relative_bias" in name for name in exact)
    tolerance = 1e-4 if dtype == torch.float32 else 0.1
    for name, gradient in exact.items():
        assert (rough[name] - gradient).norm() <= tolerance * (gradient.norm() + 1e-3), name


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (
            "x = x + attention(x)",
            {},
            r"before, line 1: carry: positions go on counting.*'positions' has learned.*\^\^\^",
        ),
        (
            "\nwords:\n  far(s, h, i, j): s = s + table(h, i - j)\nlayer: x = x + attention(x, score=far)",
            {"before": BEFORE},
            r"the table of 'far' reaches 24; put its arguments within bounds",
        ),
        ("\ncausal: false\nlayer: x = x + attention(x, rotary=9)", {"before": BEFORE}, "causal: false"),
        ("x = x + attention(x, s)", {"before": f"{BEFORE}\ns = embed.words(source)"}, "source would not"),
        (ROTARY, {"before": BEFORE, "policy": "layerdrop(p=0.1)"}, "`policy: layerdrop` does not say"),
        (ROTARY, {"before": "x = prepend(learned(1), embed.words(tokens))"}, "carry: the sequence that prepend makes"),
    ],
)
def test_what_cannot_carry_says_why(text: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        build(checked(text, carry=8, **changes), device="meta")


def test_wrong_segments_are_refused() -> None:
    model = make(ROTARY, before=BEFORE, carry=4)
    _, left = model.segment(tokens(2, 3))
    with pytest.raises(InputError, match="has 2 rows, the segment 3"):
        model.segment(tokens(3, 3), left)
    with pytest.raises(InputError, match=r"must be a tensor \(batch, length\)"):
        model.segment(tokens(2, 3)[0], left)
    with pytest.raises(InputError, match="carries nothing"):
        make(ROTARY, before=BEFORE).segment(tokens(2, 3))
    assert (model.carry, make(ROTARY).carry) == (4, 0)


def test_halting_goes_on_from_segment_to_segment() -> None:
    layer = "p = sigmoid(linear.halt(x, 1) + 1)\nx = norm(x + attention(x, rotary=9))"
    model = make(layer, before=BEFORE, carry=30, policy="halt(p)")
    same(read(model, tokens(2, 9), [4, 5])[0], model(tokens(2, 9)))


def test_states_are_objects_mappings_and_lists() -> None:
    """What a word from outside may keep: tensors are found in it by their paths and put back there."""

    class State:
        def __init__(self, value: float) -> None:
            self.number, self.none = 3, None
            self.own, self.more = torch.full((2,), value), {"a": [torch.full((2,), value + 1)]}

    found = dict(tensors_of([State(5)], "1"))
    assert list(found) == ["1.0.own", "1.0.more.a.0"]
    fresh = [[], [State(0)]]
    for path, tensor in found.items():
        put(fresh, path.split("."), tensor)
    assert {k: t.tolist() for k, t in dict(tensors_of(fresh[1], "1")).items()} == {
        k: t.tolist() for k, t in found.items()
    }
    with pytest.raises(InputError, match="holds a tuple"):
        dict(tensors_of({"both": (torch.ones(1), torch.ones(1))}, "0"))
