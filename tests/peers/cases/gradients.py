"""Models that stop gradients, which in one pass changes nothing and is seen in what the parameters get; and numbers in
the places of one token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import QKV, Theirs, Weights, together
from tests.peers.case import CONTEXT, VOCAB, Pair, case, ids
from tests.peers.cases import x_transformers as x
from tests.peers.cases.llama import INNER, MATRICES
from tests.peers.cases.vision import rows
from tests.peers.hub import HIDDEN, KV_HEADS, USUAL, decoder, hub_case, model, rope
from transformula.interop.named.entries import FOLDER
from transformula.structured import load_yaml

NORM = """
words:
  norm: x = layernorm(x, bias=False)
"""


@case("x-shrunk-embedding", "x-transformers", "TransformerWrapper(emb_frac_gradient=0.1)")
def shrunk_embedding() -> Pair:
    """CogView's and GLM-130B's: the embedding learns by a tenth of its gradient."""
    text = (
        NORM
        + """
before: |
  x = embed.words(tokens) + positions(tokens)
  x = 0.1 * x + 0.9 * stop_gradient(x)
layer: |
  x = x + attention(norm(x), bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
"""
    )

    def weights(theirs: Theirs) -> Weights:
        yield from x.ends(theirs)
        yield from x.pre_norm_layers(theirs)

    return x.decoder(x.model(emb_frac_gradient=0.1), text, weights)


def straight_through(chosen: str, **options: Any) -> Pair:
    """Attention by the keys that are `chosen`, whose weights learn as if they were those of the softmax over all."""
    text = (
        NORM
        + f"""
  straight(x): |
    q = linear.query(x, width, bias=False)
    k = linear.key(x, width, bias=False)
    v = linear.value(x, width, bias=False)
    s = dot_scores(q, k)
    w = attention_weights(s)
    y = {chosen} + weighted_sum(w - stop_gradient(w), v)
    z = linear.output(y, width, bias=False)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + straight(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
"""
    )

    def weights(theirs: Theirs) -> Weights:
        yield from x.ends(theirs)
        yield from ((name.replace("attention", "straight"), leaf) for name, leaf in x.pre_norm_layers(theirs))

    return x.decoder(x.model(**options), text, weights)


@x.xt_case("attn_hard=True", note="")
def hard_attention() -> Pair:
    """The one key of the largest score."""
    return straight_through("dot_attention(q, k, v, top=1, ranking=s)", attn_hard=True)


@x.xt_case("attn_sparse_topk=3, attn_sparse_topk_straight_through=True", note="")
def sparse_straight_through() -> Pair:
    """The three keys of the largest scores, whose own softmax learns nothing (2505.22074)."""
    chosen = "dot_attention(stop_gradient(q), stop_gradient(k), v, top=3, ranking=s)"
    return straight_through(chosen, attn_sparse_topk=3, attn_sparse_topk_straight_through=True)


SQUARE, SIDE = 8, 32
"""Pixels: of a patch, and of a picture."""


@hub_case("Ovis2VisionModel (tokenize_function='st_argmax')")
def ovis2_vision() -> Pair:
    """A visual word for each patch: the most likely one, which learns as if all were taken by their probabilities."""
    from transformers.models.ovis2.configuration_ovis2 import Ovis2VisionConfig
    from transformers.models.ovis2.modeling_ovis2 import Ovis2VisionModel

    keys = {key: value for key, value in USUAL.items() if key != "max_position_embeddings"}
    keys |= {"vocab_size": VOCAB + 5, "num_visual_indicator_tokens": 5, "tokenize_function": "st_argmax"}
    theirs = Ovis2VisionModel(
        Ovis2VisionConfig(**keys, image_size=SIDE, patch_size=SQUARE, attn_implementation="eager")
    )
    text = f"""
causal: false
words:
  norm: x = rmsnorm(x, eps=1e-5)
before: |
  p = patches(image, {SQUARE})
  x = norm(p) + positions(p, rows={(SIDE // SQUARE) ** 2})
layer: |
  x = x + attention(norm(x), bias=False)
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: |
  r = layernorm.head(linear(x, vocab, bias=False))
  s = softmax(r)
  y = topk(ones(r, vocab), 1, by=r) + s - stop_gradient(s)
"""

    def weights(theirs: Theirs) -> Weights:
        first = theirs("transformer.embeddings")
        patches = first("patch_embedding")
        yield "before.patches", {"weight": rows(patches["weight"]), "bias": patches["bias"]}
        yield "before.positions", first("position_embedding")
        yield "before.norm", first("rms_norm")
        for n, layer in theirs.layers("transformer.encoder.layers"):
            yield f"layers.{n}.attention_input_norm", layer("rms_norm1")
            four = [layer(f"attention.{name}_proj") for name in ("q", "k", "v", "out")]
            yield from together(f"layers.{n}.attention", (*QKV, "output"), four)
            yield f"layers.{n}.mlp_input_norm", layer("rms_norm2")
            for ours in ("gate", "up", "down"):
                yield f"layers.{n}.mlp.{ours}", layer(f"ffn.{ours}_proj")
        yield "after.norm", theirs("transformer.rms_norm")
        yield "output.linear", theirs("head_linear")
        yield "head", theirs("head_norm")

    def pictures() -> dict[str, Tensor]:
        return {"image": torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))}

    return Pair(
        theirs, text, weights, {"hidden": HIDDEN}, run=lambda image: theirs(image).pooler_output, inputs=pictures,
        decodes=False,
    )  # fmt: skip


@hub_case("ApertusForCausalLM")
def apertus() -> Pair:
    """Two numbers of its activation are stored, and not trained: there ours has no gradient."""
    theirs = model("ApertusForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, **rope(10000))
    xielu = load_yaml(FOLDER / "apertus.yaml")["words"]["xielu(x)"].replace("\n", "\n    ")
    text = f"""
words:
  norm: x = rmsnorm(x, eps=1e-5)
  xielu(x): |
    {xielu}
before: x = embed(tokens)
layer: |
  x = x + attention(norm(x), kv_heads={KV_HEADS}, qk_norm="head", rotary=10000, bias=False)
  x = x + linear.down(xielu.act(linear.up(norm(x), hidden, bias=False)), width, bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    stored: Mapping[str, Tensor] = dict(theirs.named_buffers())

    def weights(given: Theirs) -> Weights:
        yield "before.embed", given("model.embed_tokens")
        for n, layer in given.layers("model.layers"):
            yield f"layers.{n}.attention_input_norm", layer("attention_layernorm")
            yield f"layers.{n}.up_input_norm", layer("feedforward_layernorm")
            for ours, name in {**MATRICES, **INNER}.items():
                yield f"layers.{n}.attention.{ours}", layer(f"self_attn.{name}")
            yield f"layers.{n}.up", layer("mlp.up_proj")
            yield f"layers.{n}.down", layer("mlp.down_proj")
            yield f"layers.{n}.act.positive.weight", layer("mlp.act_fn")["alpha_p"]
            yield f"layers.{n}.act.negative.weight", layer("mlp.act_fn")["alpha_n"]
            for name in ("beta", "eps"):
                yield f"layers.{n}.act.{name}.weight", stored[f"model.layers.{n - 1}.mlp.act_fn.{name}"][None]
        yield "after.norm", given("model.norm")
        yield "output.unembed", given("lm_head")

    made = decoder(theirs, text, weights, hidden=HIDDEN)
    return replace(made, still=("beta.weight", "eps.weight"))


NUMBER = 7
"""The token that says that a number stands here."""


@case("x-val", "x-transformers", "XValTransformerWrapper")
def xval() -> Pair:
    """The embedding of one token is multiplied by the number that stands there; logits and a number are compared."""
    from x_transformers import XValTransformerWrapper

    theirs = XValTransformerWrapper(
        num_tokens=VOCAB, max_seq_len=CONTEXT, numerical_token_id=NUMBER, attn_layers=x.stack()
    )
    text = (
        NORM
        + f"""
inputs: {{numbers: tokens}}
before: |
  t = embed(tokens) * where(indicator(tokens, {NUMBER}), values(numbers, 1), 1)
  x = t + positions(tokens)
layer: |
  x = x + attention(norm(x), bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
output: y = join(linear.words(x, vocab), linear.number(x, 1))
"""
    )

    def weights(theirs: Theirs) -> Weights:
        ends = {"words": "before.embed"}
        yield from ((ends.get(name, name), leaf) for name, leaf in x.ends(theirs))
        yield from x.pre_norm_layers(theirs)
        yield "words", theirs("to_logits")
        yield "number", theirs("to_numerical_output.0")

    def inputs() -> dict[str, Tensor]:
        """A third of the tokens are numbers."""
        numbers = torch.randn(2, 12, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        return {"tokens": ids().where(ids(seed=4) > VOCAB // 3, NUMBER), "numbers": numbers}

    def run(tokens: Tensor, numbers: Tensor) -> Tensor:
        logits, number = theirs(tokens, numbers[..., 0])
        return torch.cat((logits, number[..., None]), -1)

    return Pair(theirs, text, weights, run=run, inputs=inputs, decodes=False)
