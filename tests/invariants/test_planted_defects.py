"""Defects planted on purpose: each is caught by the invariant that is there for it, which the sound model passes.

The first are those that these invariants found in well-known code; `where` says in which. The others are such as any
of us makes: a sign, an offset, a mask, a forgotten line. A defect is planted into the text of an entry (`text`: what
stands there and what is put in its place) or into the modules (`module`: a patch of ours; `words`: words from outside).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.invariants import checks
from tests.invariants.harness import LENGTH, randomize, reduced, reference, tokens
from transformula import gallery
from transformula.analysis.analysis import analyze
from transformula.errors import InputError
from transformula.language.model_file import read_text
from transformula.model import build, decoding
from transformula.words import attention, experts, vocabulary
from transformula.words.attention import Attention
from transformula.words.embed import Positions
from transformula.words.mlp import MLP
from transformula.words.norms import LayerNorm
from transformula.words.shapes import Dot
from transformula.words.word import CLASSES, At, Word, word

Check = Callable[[nn.Module, Mapping[str, Tensor]], Any]


def gain(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """(a), of a text that predicts it."""
    assert checks.gain(model)


def size(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """(a), what the text says of itself."""
    checks.keeps_its_size(model)


def equal_to(name: str) -> Check:
    """(c), against the entry's equation by hand."""

    def equation(model: nn.Module, given: Mapping[str, Tensor]) -> None:
        checks.equation(model, reference(name), given)

    return equation


@dataclass(frozen=True)
class Defect:
    """entry: the gallery's, or a text of its own; caught: the invariants that see it, each alone."""

    name: str
    entry: str
    caught: tuple[Check, ...]
    text: Mapping[str, str] = field(default_factory=dict)
    module: Callable[[pytest.MonkeyPatch], None] | None = None
    words: Callable[[], None] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    where: str = ""

    def model(self, planted: bool, check: Check) -> nn.Module:
        """The entry, with the defect's text or without."""
        source = self.entry if "\n" in self.entry else gallery.entry(self.entry).source
        for old, new in self.text.items() if planted else ():
            assert old in source, f"{old!r} does not stand in the text of {self.entry}"
            source = source.replace(old, new)
        made = build(reduced(read_text(source), **self.numbers), seed=0, dtype=torch.float64).eval()
        return made if check in (gain, size) else randomize(made)


# What is planted into modules.


def ones_for_a_mixture(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("transformula.words.streams.sinkhorn", lambda logits, steps: torch.ones_like(logits))


def products_over_all_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dot, "function", staticmethod(lambda a, b, size: (a * b).sum((1, 2), keepdim=True)))


def branches_that_do_not_run(patch: pytest.MonkeyPatch) -> None:
    for made in (Attention, MLP):
        patch.setattr(made, "forward", lambda self, x, **given: torch.zeros_like(x))


def mean_over_the_sequence() -> None:
    @word("half_mean", streams=("x",), kind="function", width="x", equation="y = x + mean(x)")
    class HalfMean(Word):
        """States that it acts on each position alone, and adds the mean of all."""

        @staticmethod
        def function(x: Tensor) -> Tensor:
            return x + x.mean(1, keepdim=True)


def nothing_initialised() -> None:
    @word("scaled", streams=("x",), kind="function", width="x", equation="y = 2 x")
    class Scaled(Word):
        """Never calls the constructor of its base."""

        def __init__(self, x: int) -> None:
            object.__setattr__(self, "factor", 2.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.factor * x


def around(patch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replace owner.name by a function that is given the old one first."""
    old = getattr(owner, name)
    patch.setattr(owner, name, lambda *given, **named: change(old, *given, **named))


def next_is_seen(patch: pytest.MonkeyPatch) -> None:
    def masked(old: Any, q: Tensor, k: Tensor, v: Tensor, settings: Any, *_: Any, **given: Any) -> Any:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(1)
        return F.scaled_dot_product_attention(q, k, v, seen, scale=settings.scale), None

    around(patch, attention, "attend", masked)


def itself_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    def masked(old: Any, q: Tensor, k: Tensor, v: Tensor, settings: Any, *_: Any, **given: Any) -> Any:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(-1)
        seen[0, 0] = True
        return F.scaled_dot_product_attention(q, k, v, seen, scale=settings.scale), None

    around(patch, attention, "attend", masked)


def heads_share_keys_in_turn(patch: pytest.MonkeyPatch) -> None:
    def turned(old: Any, q: Tensor, k: Tensor, v: Tensor, *settings: Any, **given: Any) -> Any:
        count = q.shape[1] // k.shape[1]
        return old(q, k.repeat(1, count, 1, 1), v.repeat(1, count, 1, 1), *settings, **given)

    around(patch, attention, "attend", turned)


def rotation_from_zero(patch: pytest.MonkeyPatch) -> None:
    def tables(old: Any, like: Tensor, turning: Any, at: At | None, *inputs: Any) -> Any:
        return old(like, turning, None, *inputs)

    around(patch, attention, "rotation_tables", tables)


def positions_from_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Positions, "step", lambda self, x, at: self.forward(x))


def a_window_too_wide(patch: pytest.MonkeyPatch) -> None:
    around(patch, At, "mask", lambda old, at, length, window=0, first=0: old(at, length, window + 1, first))


def rows_that_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decoding.Decoding, "_select_caches", lambda *given: False)


def padding_is_seen(patch: pytest.MonkeyPatch) -> None:
    around(patch, Attention, "forward", lambda old, *given, real=None, **named: old(*given, **named))


def statistics_of_the_batch(patch: pytest.MonkeyPatch) -> None:
    def norm(self: LayerNorm, x: Tensor) -> Tensor:
        y = (x - x.mean((0, -1), keepdim=True)) / (x.var((0, -1), keepdim=True, correction=0) + self.eps).sqrt()
        return y * self.weight + self.bias

    patch.setattr(LayerNorm, "norm", norm)


def a_second_dropout(patch: pytest.MonkeyPatch) -> None:
    def dropped(old: Any, self: MLP, x: Tensor) -> Tensor:
        return F.dropout(old(self, x), 0.1, self.training)

    around(patch, MLP, "forward", dropped)


def dropout_that_never_stops(patch: pytest.MonkeyPatch) -> None:
    around(patch, MLP, "forward", lambda old, self, x: F.dropout(old(self, x), 0.1, True))


def full_experts(patch: pytest.MonkeyPatch) -> None:
    """No expert takes more than two rows: the others are passed over."""

    def within(old: Any, flat: Tensor, chosen: Tensor, weights: Tensor, mixture: Any, on: Any = None) -> Tensor:
        place = F.one_hot(chosen, len(mixture.down[0])).flatten(0, 1).cumsum(0).gather(1, chosen.flatten()[:, None])
        return old(flat, chosen, weights * (place.view_as(chosen) <= 2), mixture, on)

    around(patch, experts, "mix_routed", within)


# The defects.

MHC = """
before: X = expand(embed.words(tokens) + positions(tokens), 3)
layer: |
  X = write(X, attention(norm(read(X, kind="mhc"))), kind="mhc")
  X = write(X, mlp(norm(read(X, kind="mhc"))), kind="mhc")
after: x = norm(collapse(X))
"""

ENCODER = """
causal: false
layer: |
  x = x + attention(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
"""

WINDOW = """
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), window=3, rotary=100)
  x = x + mlp(norm(x))
after: x = norm(x)
"""

DEFECTS = [
    Defect(
        "streams mixed by a matrix of ones",
        MHC,
        (gain,),
        module=ones_for_a_mixture,
        where="x-transformers, HyperConnection.prepare",
    ),
    Defect(
        "a projection over all tokens",
        "orthogonal",
        (checks.last_token, equal_to("orthogonal")),
        module=products_over_all_tokens,
        where="x-transformers, orthog_residual",
    ),
    Defect(
        "a mean over the sequence",
        "pre-norm",
        (checks.last_token, checks.steps),
        text={"+ attention(norm(x))": "+ half_mean(attention(norm(x)))"},
        words=mean_over_the_sequence,
        where="x-transformers, mv_split_residual",
    ),
    Defect(
        "no identity beside the low rank",
        "laurel",
        (size, equal_to("laurel")),
        text={" + scalar.b1(1) * x": "", " + scalar.b2(1) * x": ""},
        where="fairseq2, LAuReLResidualConnect",
    ),
    Defect(
        "no branch ever runs",
        "lns",
        (checks.past_is_read, equal_to("lns")),
        module=branches_that_do_not_run,
        where="LayerNorm-Scaling, a name compared in the wrong case",
    ),
    Defect(
        "a skip counted twice",
        "b2t",
        (size, equal_to("b2t")),
        text={"norm(x + attention(x))": "x + attention(norm(x))", "norm(x + y + mlp(y))": "x + y + mlp(norm(y))"},
        where="what skip-2 becomes when its norms are moved into the branches",
    ),
    Defect("a norm before the output left out", "gpt2", (equal_to("gpt2"),), text={"after: x = norm(x)\n": ""}),
    Defect("one norm for two sublayers", "pre-norm", (equal_to("pre-norm"),), text={"(norm(x))": "(norm.both(x))"}),
    Defect("an output that is not tied", "gpt2", (equal_to("gpt2"),), text={"unembed.words(x)": "unembed(x)"}),
    Defect("history off by one", "unet", (equal_to("unet"),), text={"x[depth + 1 - layer]": "x[depth - layer]"}),
    Defect("a factor on the skip left out", "deepnorm", (equal_to("deepnorm"),), text={"(2 * depth) ** 0.25 * x": "x"}),
    Defect("a factor on the wrong term", "depth-mup", (size,), text={"x = x + ": "x = 2 * x + "}),
    Defect(
        "the present value for the first layer's", "value-residual", (equal_to("value-residual"),), text={"v[1]": "v"}
    ),
    Defect("another epsilon", "llama", (equal_to("llama"),), text={"eps=1e-5": "eps=1e-6"}),
    Defect(
        "scores over the size, not its root",
        "llama",
        (equal_to("llama"),),
        text={"rotary=500000": "rotary=500000, scale=1 / 8"},
    ),
    Defect("a gate's sign", "highway", (equal_to("highway"),), text={"(1 - g) * x": "g * x"}),
    Defect("the next position is seen", "pre-norm", (checks.last_token, checks.steps), module=next_is_seen),
    Defect(
        "a position does not see itself", "pre-norm", (equal_to("pre-norm"), checks.steps), module=itself_is_not_seen
    ),
    Defect(
        "heads share keys in turn, not by neighbours",
        "llama",
        (equal_to("llama"),),
        module=heads_share_keys_in_turn,
        numbers={"heads": 4, "kv_heads": 2},
    ),
    Defect(
        "decoding turns every chunk from position 0", "llama", (checks.steps, checks.prompts), module=rotation_from_zero
    ),
    Defect(
        "decoding takes learned positions from row 0",
        "gpt2",
        (checks.steps, checks.prompts),
        module=positions_from_zero,
    ),
    Defect("decoding sees one position more than the window", WINDOW, (checks.steps,), module=a_window_too_wide),
    Defect("states stay where rows change places", "gpt2", (checks.prompts,), module=rows_that_stay),
    Defect("padding is seen", ENCODER, (checks.padding, checks.padding_unread), module=padding_is_seen),
    Defect("statistics of the batch", "pre-norm", (checks.rows_alone,), module=statistics_of_the_batch),
    Defect("a second dropout", "vaswani", (checks.chance,), module=a_second_dropout),
    Defect("dropout in evaluation", "gpt2", (checks.chance, equal_to("gpt2")), module=dropout_that_never_stops),
    Defect("experts that are full", "switch", (checks.rows_alone, equal_to("switch")), module=full_experts),
]
EACH = [(defect, check) for defect in DEFECTS for check in defect.caught]
IDS = [f"{defect.name}, {check.__name__}" for defect, check in EACH]


@pytest.fixture
def no_words_left() -> Any:
    """Words from outside are forgotten after the test."""
    before = dict(CLASSES)
    yield
    for name in set(CLASSES) - set(before):
        if not CLASSES[name].__module__.startswith("transformula."):
            del CLASSES[name]


def inputs_of(model: nn.Module, check: Check) -> dict[str, Tensor]:
    """Random ids for every input."""
    rows = 4 if check is checks.last_token else 3
    return {name: tokens(rows, LENGTH, seed) for seed, name in enumerate(model.inputs, 2)}


@pytest.mark.parametrize(("defect", "check"), EACH, ids=IDS)
def test_it_is_caught(defect: Defect, check: Check, monkeypatch: pytest.MonkeyPatch, no_words_left: None) -> None:
    if defect.words is not None:
        defect.words()
    sound = defect.model(False, check)
    given = inputs_of(sound, check)
    check(sound, given)
    if defect.module is not None:
        defect.module(monkeypatch)
    with pytest.raises(AssertionError):
        check(defect.model(True, check), given)


def test_a_module_that_was_never_initialised_fails_when_it_is_made(no_words_left: None) -> None:
    """fairseq2, ScaledResidualConnect: no test called it."""
    nothing_initialised()
    with pytest.raises((AttributeError, InputError)):
        build(reduced(read_text("layer: x = x + scaled(mlp(x))\n")), seed=0)(tokens())


def test_a_norm_that_was_never_made_is_seen_by_explain() -> None:
    """TransformerLens: a norm's kind is compared with a name that it never has, and no norm is made."""
    for name in ("pre-norm", "post-norm"):
        source, told = gallery.entry(name).source, []
        for text in (source, source.replace("norm(", "(")):
            found = analyze(reduced(read_text(text)), vocabulary()).data["stacks"][0]["layers"][0]["norming"]
            told.append(found)
        assert told[0] == name != told[1]


def test_every_invariant_has_a_defect() -> None:
    asked = {check.__name__ for _, check in EACH}
    known = "gain size last_token rows_alone past_is_read equation steps prompts padding padding_unread chance"
    assert set(known.split()) <= asked
