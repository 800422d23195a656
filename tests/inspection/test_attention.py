"""Attention maps: they are what the word weighs its values by, and the picture holds them."""

from __future__ import annotations

import base64
import gzip
import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from transformula import Model, inspect
from transformula.errors import InputError, UnknownName
from transformula.inspection.attention import attention, levels, shrink
from transformula.language.model_file import read_text
from transformula.model.transformer import evaluating

SIZES = {"depth": 2, "width": 8, "heads": 2, "vocab": 11, "context": 16}
IDS = [1, 2, 3, 1, 2, 3, 4]
FILE = "layer: x = x + {}\nafter: x = norm(x)\n"
WORDS = """
words:
  "nearer(s, h, i, j)": s = 2 * s - (i - j)
  "near(i, j)": seen = i - j <= 2
"""
ATTENTIONS = {
    "plain": "attention(norm(x), bias=False)",
    "rotary, grouped": "attention(norm(x), rotary=10000, kv_heads=1, qk_norm='head')",
    "window, cap": "attention(norm(x), window=3, cap=2, rotary=100, rotary_first=True, qk_norm='full')",
    "sinks": "attention(norm(x), sinks=True, size=8)",
    "formulas": "attention(norm(x), score=nearer, mask=near)",
    "no softmax": "dot_attention(norm(x), norm(x), norm(x), softmax=False, dropout=0.5)",
    "chosen keys": "attention(norm(x), top=2, ranking=dot_scores(norm(x), norm(x), heads=1))",
    "added scores": "attention(norm(x), scores=relative_bias(x))",
    "linear": "linear_attention(norm(x))",
    "no matrices": "dot_attention(norm(x), linear.k(x, 4), linear.v(x, 4))",
}


def model_of(layer: str = ATTENTIONS["plain"], **more: Any) -> Model:
    """A small model whose maps differ from uniform ones."""
    model = Model(read_text(FILE.format(layer) + WORDS * ("nearer" in layer)), **SIZES | more)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(
                0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
            )
    return model


def calls_in(model: Model, name: str) -> list[tuple[Any, tuple[Any, ...], dict[str, Any], torch.Tensor]]:
    """What each module of that name was called with over IDS, and what it gave."""
    calls: list[Any] = []
    view = evaluating(model.module)
    modules = [module for path, module in view.named_modules() if path.split(".")[-1] == name]
    for module in modules:
        module.register_forward_hook(lambda *given: calls.append(given), with_kwargs=True)
    with torch.no_grad():
        view(torch.tensor([IDS]))
    return calls


@pytest.mark.parametrize("layer", ATTENTIONS.values(), ids=ATTENTIONS)
def test_the_map_applied_to_the_values_is_the_words_result(layer: str) -> None:
    calls = calls_in(model_of(layer), layer.partition("(")[0])
    assert len(calls) == 2
    for module, streams, ports, result in calls:
        with torch.no_grad():
            weights = module.attention_weights(*streams, **ports)
            if "linear_attention" in layer:
                v = module.by_heads(module.value(streams[0]))
                again = module.output((weights @ v).transpose(1, 2).flatten(2))
            else:
                q, k, v = streams + streams[-1:] * (3 - len(streams))
                _, _, v = module.by_heads(q, k, v)
                again = module.joined(weights @ v.repeat_interleave(weights.shape[1] // v.shape[1], 1))
        torch.testing.assert_close(again, result, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", ATTENTIONS.values(), ids=ATTENTIONS)
def test_causal_maps_see_no_future_and_sum_to_one(layer: str) -> None:
    look = inspect(model_of(layer), "attention", tokens=IDS)
    assert [call.place.rpartition(".")[0] for call in look.calls] == ["layers.1", "layers.2"]
    for weights in look.maps:
        assert weights.shape == (2, len(IDS), len(IDS))
        assert not np.triu(weights, 1).any()
        if "softmax=False" not in layer:
            sums = weights.sum(-1)
            assert sums.max() < 0.9999 if "sinks" in layer else np.allclose(sums, 1, atol=1e-4)


def test_each_row_is_looked_at_as_if_alone() -> None:
    model = model_of()
    rows = [{"tokens": torch.tensor([IDS])}, {"tokens": torch.tensor([[5, 6, 5]])}]
    both, second = attention(model.module, rows), attention(model.module, rows[1:])
    first = attention(model.module, rows[:1])
    assert both.rows == 2 and all(np.array_equal(*pair) for pair in zip(both.maps, first.maps, strict=True))
    for mean, one, other in zip(both.summary, first.summary, second.summary, strict=True):
        assert mean["itself"] == pytest.approx((6 * one["itself"] + 2 * other["itself"]) / 8)


def test_kinds_of_heads() -> None:
    """Heads made by formulas over scores: what sees the position before it, and what sees what came after its token."""
    text = """
words:
  "before(i, j)": seen = i - j == 1
  "first(i, j)": seen = j == 0
layer: |
  x = x + attention.a(x, mask=before)
  x = x + attention.b(x, mask=first)
"""
    look = inspect(Model(read_text(text), **SIZES | {"depth": 1}), "attention", tokens=[1, 2, 3, 1])
    first, second = look.summary[0], look.summary[2]
    assert first["previous"] == 1 and first["itself"] == 0 and first["entropy"] == 0
    assert first["distance"] == 3 / 4  # the first position sees nothing
    assert second["first"] == 1 and second["induction"] == 0 and first["induction"] == 0
    again = inspect(Model(read_text(text), **SIZES | {"depth": 1}), "attention", tokens=[1, 2, 1, 2])
    assert again.summary[0]["induction"] == 1  # what stood behind the token is the position before


def test_an_encoder_and_a_decoder_have_maps_of_three_kinds() -> None:
    model = Model("vaswani", depth=1, width=8, heads=2, vocab=11, context=16)
    rows = [{"source": torch.tensor([[1, 2, 3, 4, 5]]), "tokens": torch.tensor([[6, 7, 8]])}]
    look = attention(model.module, rows)
    assert [weights.shape[1:] for weights in look.maps] == [(5, 5), (3, 3), (3, 5)]
    across = look.summary[4]
    assert across["entropy"] > 0 and across["previous"] is None and "-" in repr(look).splitlines()[-1]
    assert np.triu(look.maps[0], 1).any() and not np.triu(look.maps[1], 1).any()


def test_shared_layers_have_maps_of_their_own() -> None:
    look = inspect(Model("pre-norm", share="1", **SIZES), "attention", tokens=IDS, at=["layers.2"])
    assert [call.place for call in look.calls] == ["layers.2.attention"]


def test_the_picture_holds_the_maps() -> None:
    look = inspect(model_of(), "attention", tokens=IDS)
    images = re.findall(r"data:image/png;base64,([^\"]+)", look.svg)
    drawn = [np.asarray(Image.open(io.BytesIO(base64.b64decode(image))).convert("RGBA"))[..., 3] for image in images]
    assert [image.tolist() for image in drawn] == [levels(head).tolist() for layer in look.maps for head in layer]
    ElementTree.fromstring(look.svg)
    assert "prefers-color-scheme: dark" in look.svg and 'href="http' not in look.svg and "<script" not in look.svg
    named = look.data["maps"][0]
    read = np.frombuffer(base64.b64decode(named["bytes"]), np.uint8).reshape(named["shape"])
    assert np.abs((read / 255) ** 2 - look.maps[0]).max() < 0.01


def test_many_large_maps_stay_under_a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformula.inspection.attention.MAX_MAP_BYTES", 4000)
    model = Model("pre-norm", **SIZES | {"context": 64, "heads": 4})
    small = inspect(model, "attention", tokens=[n % 11 for n in range(64)])
    assert len(set(np.unique(np.concatenate([levels(m, 7) for m in small.maps])))) <= 8
    images = re.findall(r"data:image/png;base64,([^\"]+)", small.svg)
    assert sum(len(base64.b64decode(image)) for image in images) < 3 * 4000


def test_weights_below_zero_are_told() -> None:
    look = inspect(model_of(ATTENTIONS["no softmax"]), "attention", tokens=IDS)
    named = look.data["maps"][0]
    signs = np.unpackbits(np.frombuffer(base64.b64decode(named["negative"]), np.uint8))[: look.maps[0].size]
    assert signs.any() and np.array_equal(signs.reshape(named["shape"]) == 1, look.maps[0] < 0)
    images = re.findall(r"data:image/png;base64,([^\"]+)", look.svg)
    first = np.asarray(Image.open(io.BytesIO(base64.b64decode(images[0]))).convert("RGBA"))
    below = look.maps[0][0] < 0
    assert (
        len(np.unique(first[below][:, :3], axis=0)) == 1 and len(np.unique(first[..., :3].reshape(-1, 3), axis=0)) == 2
    )


def test_larger_maps_are_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformula.inspection.attention.MAX_POINTS", 50)
    look = inspect(model_of(), "attention", tokens=IDS)
    block, drawn = shrink(look.maps)
    assert block == 2 and look.data["block"] == 2 and [each.shape for each in drawn] == [(2, 4, 4)] * 2
    assert drawn[0][1, 2, 0] == look.maps[0][1, 4:6, 0:2].max() and drawn[0][0, 3, 3] == look.maps[0][0, 6, 6]
    assert look.data["maps"][0]["shape"] == [2, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1, 1.6, 2.5])
def test_twelve_layers_of_twelve_heads_over_128_tokens_stay_under_a_megabyte(factor: float) -> None:
    model = Model("pre-norm", depth=12, width=144, heads=12, vocab=50, context=128)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(factor)  # from weights that are nearly equal to weights that are nearly 0 or 1
    generator = torch.Generator().manual_seed(1)
    look = inspect(model, "attention", tokens=torch.randint(50, (128,), generator=generator).tolist())
    assert len(look._repr_html_()) < 1_000_000 and len(gzip.compress(look.svg.encode())) < 680_000


def test_files(tmp_path: Any) -> None:
    look = inspect(model_of(), "attention", tokens=IDS, head=2)
    for name in ("a.svg", "a.png", "a.html"):
        assert look.save(tmp_path / name).stat().st_size > 500
    assert "head" in (tmp_path / "a.html").read_text() and "<script" not in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"at": ["layers.7"]}, r"unknown place 'layers.7'"),
        ({"head": 3}, "heads 1 to 2"),
        ({"text": "a"}, "no tokenizer"),
        ({"text": "a", "rows": 3}, "leave one out"),
        ({"target": "a"}, "give text"),
        ({"tokens": None}, "comes from no folder"),
        ({"haed": 1}, "did you mean head"),
    ],
)
def test_wrong_options(changes: dict[str, Any], says: str) -> None:
    given = {} if {"text", "target"} & {*changes} else {"tokens": IDS}
    with pytest.raises((InputError, UnknownName), match=says):
        inspect(model_of(), "attention", **{**given, **changes})


def test_a_model_without_maps_says_which_words_have_some() -> None:
    with pytest.raises(InputError, match=r"no attention maps; .* is gru\. Words that have them: attention, dot_"):
        inspect(Model("x = x + gru(norm(x))", **SIZES), "attention", tokens=IDS)
    mixed = Model("x = x + gru(norm(x)) + attention(norm(x))", **SIZES)
    assert "without maps: gru" in repr(inspect(mixed, "attention", tokens=IDS))
