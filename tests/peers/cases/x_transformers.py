"""Wirings of the package x-transformers: options of its Decoder.

Its matrices of attention have no biases, nor do its LayerNorms: where ours have, they are 0. Weights of norms are
stored less 1, learned positions are multiplied by the inverse root of the width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.peers.carry import QKV, Leaf, Theirs, Weights, biased, each, halves_of_pairs, split, together
from tests.peers.case import CONTEXT, DEPTH, HEADS, VOCAB, WIDTH, Pair, case

HEAD = WIDTH // HEADS
ZEROS = "biases that they lack are 0"


def stack(depth: int = DEPTH, **options: Any) -> nn.Module:
    """So many blocks."""
    from x_transformers import Decoder

    made: nn.Module = Decoder(dim=WIDTH, depth=depth, heads=HEADS, attn_dim_head=HEAD, verbose=False, **options)
    return made


def model(
    positions: bool = True,
    depth: int = DEPTH,
    post_emb_norm: bool = False,
    emb_frac_gradient: float = 1,
    **options: Any,
) -> nn.Module:
    """A language model of so many blocks, its output tied to its embedding."""
    from x_transformers import TransformerWrapper

    return TransformerWrapper(
        num_tokens=VOCAB,
        max_seq_len=CONTEXT,
        attn_layers=stack(depth, **options),
        use_abs_pos_emb=positions,
        post_emb_norm=post_emb_norm,
        emb_frac_gradient=emb_frac_gradient,
        tie_embedding=True,
        tie_embedding_scale=1.0,
    )


def decoder(theirs: nn.Module, text: str, weights: Callable[[Theirs], Weights], **more: Any) -> Pair:
    """Decodes with their cache. They keep what their rotary and rolling layers need for that; not all options do."""

    def steps(tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        kept, made, done = None, [], 0
        for length in chunks:
            given = {} if kept is None else {"cache": kept, "input_not_include_cache": True}
            done += length
            chunk = tokens[:, done - length : done]
            if kept is None:
                logits, kept = theirs(chunk, return_intermediates=True)
                made.append(logits)
                continue
            for place in range(length):  # theirs takes one new position at a time
                given = {"cache": kept, "input_not_include_cache": True}
                logits, kept = theirs(chunk[:, place : place + 1], return_intermediates=True, **given)
                made.append(logits)
        return torch.cat(made, 1)

    return Pair(theirs, text, weights, steps=steps, **more)


def xt_case(options: str, entry: str = "", note: str = ZEROS) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """A case of this package; its name is the function's."""

    def announce(make: Callable[[], Pair]) -> Callable[[], Pair]:
        name = make.__name__.replace("_", "-")
        return case(f"x-{name}", "x-transformers", f"Decoder({options})", entry, note)(make)

    return announce


def layer_norm(leaf: Leaf) -> Leaf:
    """Their LayerNorm."""
    return biased({"weight": leaf["gamma"] + 1})


def rms_norm(leaf: Leaf) -> Leaf:
    """Their RMSNorm and ScaleNorm."""
    return {"weight": leaf["g"] + 1}


def dynamic_tanh(leaf: Leaf) -> Leaf:
    """Their DynamicTanh: its factor is stored less the initial 1."""
    return {"alpha": leaf["pre_tanh_scale"][None] + 1, "weight": leaf["gamma"] + 1, "bias": leaf["beta"]}


def matrices(theirs: Theirs, *, turned: bool = False) -> Weights:
    """Those of attention, or of the MLP."""
    if theirs.has("to_q"):
        q, k = biased(theirs("to_q")), biased(theirs("to_k"))
        if turned:
            q, k = halves_of_pairs(q, HEADS), halves_of_pairs(k, HEADS)
        yield from zip((*QKV, "output"), (q, k, biased(theirs("to_v")), biased(theirs("to_out"))), strict=True)
    else:
        yield "up", theirs("ff.0.0")
        yield "down", theirs("ff.2")


PRE: Mapping[int, str] = {0: "{}_input_norm"}
POST: Mapping[int, str] = {2: "{}_sum_norm"}
SANDWICH: Mapping[int, str] = {0: "{}_input_norm", 1: "{}_output_norm"}
BOTH: Mapping[int, str] = {0: "{}_input_norm", 2: "{}_sum_norm"}
"""Their three places of norms (before the branch, after it, after the sum) -> our names."""


def named(
    norms: Mapping[int, str] = PRE,
    norm: Callable[[Leaf], Leaf] = layer_norm,
    sublayers: Sequence[str] = ("attention", "mlp"),
    more: Callable[[str, Theirs], Weights] = lambda name, theirs: (),
    turned: bool = False,
) -> Callable[[Theirs], Weights]:
    """Their names by ours. `sublayers`: our names of a block's; `more`: what else belongs to one of them."""

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("token_emb.emb")
        if theirs.has("pos_emb"):
            yield "before.positions.weight", theirs("pos_emb.emb")["weight"] * WIDTH**-0.5
        for n, layer in theirs.layers("attn_layers.layers"):
            place, name = (n - 1) // len(sublayers) + 1, sublayers[(n - 1) % len(sublayers)]
            for stands, ours in norms.items():
                yield f"layers.{place}.{ours.format(name)}", norm(layer(f"0.{stands}"))
            inner = layer("1.fn") if layer.has("1.fn") else layer("1")
            for part, leaf in matrices(inner, turned=turned):
                yield f"layers.{place}.{name}.{part}", leaf
            for part, leaf in more(name, layer):
                yield f"layers.{place}.{part}", leaf
        if theirs.has("attn_layers.final_norm"):
            yield "after.norm", norm(theirs("attn_layers.final_norm"))

    return weights


@xt_case("", "pre-norm")
def pre_norm() -> Pair:
    return decoder(model(), "pre-norm", named())


@xt_case("pre_norm=False", "post-norm")
def post_norm() -> Pair:
    return decoder(model(pre_norm=False), "post-norm", named(POST))


@xt_case("sandwich_norm=True", "sandwich")
def sandwich() -> Pair:
    return decoder(model(sandwich_norm=True), "sandwich", named(SANDWICH))


@xt_case("use_scalenorm=True", "scalenorm", f"{ZEROS}; eps is 0, as theirs")
def scalenorm() -> Pair:
    theirs = model(use_scalenorm=True)
    return decoder(theirs, "scalenorm", named(norm=rms_norm), changed={"scalenorm(x)": "scalenorm(x, eps=0)"})


@xt_case("use_dynamic_tanh=True", "dyt")
def dyt() -> Pair:
    return decoder(model(use_dynamic_tanh=True), "dyt", named(norm=dynamic_tanh))


@xt_case("macaron=True", "macaron")
def macaron() -> Pair:
    return decoder(model(macaron=True), "macaron", named(sublayers=("first", "attention", "last")))


KEEL = "pre_and_post_norm=True, use_rmsnorm=True, scale_residual_constant=6"


@xt_case(KEEL, "keel", f"{ZEROS}; eps is 0, as theirs; 6 is the number of sublayers")
def keel() -> Pair:
    theirs = model(pre_and_post_norm=True, use_rmsnorm=True, scale_residual_constant=2 * DEPTH)
    return decoder(theirs, "keel", named(BOTH, rms_norm), changed={"rmsnorm(x)": "rmsnorm(x, eps=0)"})


@xt_case("pre_norm=False, scale_residual_constant=6 ** 0.25", "deepnorm")
def deepnorm() -> Pair:
    theirs = model(pre_norm=False, scale_residual_constant=(2 * DEPTH) ** 0.25)
    return decoder(theirs, "deepnorm", named(POST))


@xt_case("depth_scale_residual=3 ** -0.5", "depth-mup")
def depth_mup() -> Pair:
    return decoder(model(depth_scale_residual=DEPTH**-0.5), "depth-mup", named())


@xt_case("depth_scale_residual=1 / 3", "completep")
def completep() -> Pair:
    return decoder(model(depth_scale_residual=1 / DEPTH), "completep", named())


@xt_case("use_layerscale=True", "layerscale")
def layerscale() -> Pair:
    def vector(name: str, theirs: Theirs) -> Weights:
        yield f"{name}_output_vector.weight", theirs("1")["gamma"] + 1

    return decoder(model(use_layerscale=True), "layerscale", named(more=vector))


@xt_case("sandwich_coef=2", "sandwich-order")
def sandwich_order() -> Pair:
    """Depth 3 with a coefficient of 2: a a, a f, f f. Ours counts sublayers: 6 of them, 2 at either end."""

    def weights(theirs: Theirs) -> Weights:
        kinds = ("attention", "attention", "attention", "mlp", "mlp", "mlp")
        yield "words", theirs("token_emb.emb")
        yield "before.positions.weight", theirs("pos_emb.emb")["weight"] * WIDTH**-0.5
        for (n, layer), kind in zip(theirs.layers("attn_layers.layers"), kinds, strict=True):
            yield f"layers.{n}.{kind}_input_norm", layer_norm(layer("0.0"))
            yield from ((f"layers.{n}.{kind}.{part}", leaf) for part, leaf in matrices(layer("1")))
        yield "after.norm", layer_norm(theirs("attn_layers.final_norm"))

    return decoder(model(sandwich_coef=2), "sandwich-order", weights, numbers={"depth": 6, "k": 2})


@xt_case(
    "add_value_residual=True, learned_value_residual_mix=False, rotary_pos_emb=True",
    "value-residual",
    f"{ZEROS}; their rotary turns neighbors, ours halves: rows of queries and keys are put in that order",
)
def value_residual() -> Pair:
    theirs = model(add_value_residual=True, learned_value_residual_mix=False, rotary_pos_emb=True, rotary_emb_dim=HEAD)
    return decoder(theirs, "value-residual", named(sublayers=("residual", "mlp"), turned=True))


BARE = """
words:
  norm: x = layernorm(x, bias=False)
before: x = embed.words(tokens) + positions(tokens)
"""
"""What the formulas below share: no biases in norms; attention says so itself."""


def bare(leaf: Leaf) -> Leaf:
    """Their LayerNorm, without a bias."""
    return {"weight": leaf["gamma"] + 1}


def plain(theirs: Theirs) -> Weights:
    """Their matrices of attention, without biases."""
    return (
        (ours, theirs(name)) for ours, name in zip((*QKV, "output"), ("to_q", "to_k", "to_v", "to_out"), strict=True)
    )


def ends(theirs: Theirs) -> Weights:
    """What stands outside the layers."""
    yield "words", theirs("token_emb.emb")
    if theirs.has("pos_emb"):
        yield "before.positions.weight", theirs("pos_emb.emb")["weight"] * WIDTH**-0.5
    yield "after.norm", bare(theirs("attn_layers.final_norm"))


def feed(theirs: Theirs) -> Weights:
    """Their MLP."""
    yield "mlp.up", theirs("ff.0.0")
    yield "mlp.down", theirs("ff.2")


def blocks(theirs: Theirs) -> Any:
    """(number from 1, its attention's layer, its MLP's layer)."""
    every = [layer for _, layer in theirs.layers("attn_layers.layers")]
    return ((n // 2 + 1, every[n], every[n + 1]) for n in range(0, len(every), 2))


def pre_norm_layers(theirs: Theirs) -> Weights:
    """Their layers as they are without options."""
    for n, attention, mlp in blocks(theirs):
        yield f"layers.{n}.attention_input_norm", bare(attention("0.0"))
        yield f"layers.{n}.mlp_input_norm", bare(mlp("0.0"))
        yield from ((f"layers.{n}.attention.{part}", leaf) for part, leaf in plain(attention("1")))
        yield from ((f"layers.{n}.{part}", leaf) for part, leaf in feed(mlp("1")))


@xt_case("gate_residual=True", note="")
def gru_gating() -> Pair:
    """Their gate is PyTorch's GRUCell: the reset gate stands after the matrix, and z weighs what stays. GTrXL's own
    (the word `gru_gate`) has the reset before it, and z weighs what is new; and a bias of its own."""
    text = (
        BARE
        + """
layer: |
  x = cell.one(attention(norm(x), bias=False), x)
  x = cell.two(mlp(norm(x)), x)
after: x = norm(x)
"""
    )
    text = text.replace(
        "before:",
        """  cell(f, x): |
    r = sigmoid(linear.fr(f, width) + linear.xr(x, width))
    z = sigmoid(linear.fz(f, width) + linear.xz(x, width))
    h = tanh(linear.fh(f, width) + r * linear.xh(x, width))
    y = (1 - z) * h + z * x
before:""",
        1,
    )

    def cell(leaf: Leaf) -> Weights:
        for begin, end in (("f", "ih"), ("x", "hh")):
            both = {"weight": leaf[f"weight_{end}"], "bias": leaf[f"bias_{end}"]}
            yield from zip((f"{begin}r", f"{begin}z", f"{begin}h"), split(both, *[WIDTH] * 3), strict=True)

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        yield from pre_norm_layers(theirs)
        for n, attention, mlp in blocks(theirs):
            for label, layer in (("one", attention), ("two", mlp)):
                yield from ((f"layers.{n}.{label}.{part}", leaf) for part, leaf in cell(layer("2.gru")))

    return decoder(model(gate_residual=True), text, weights)


@xt_case("unet_skips=True", note="")
def unet_skips() -> Pair:
    """A matrix joins the skip and the stream; the first skip is the layer's own input where the depth is odd, else the
    last layer's of the first half."""
    text = (
        BARE
        + """
layer: |
  x = linear.skip(join(x[depth - layer], x), width, bias=False) if layer > depth / 2 else x
  x = x + attention(norm(x), bias=False)
  x = x + mlp(norm(x))
after: x = norm(x)
"""
    )

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        yield from pre_norm_layers(theirs)
        for n in range(1, 5):
            skip = f"attn_layers.skip_combines.{2 * (n - 1)}"
            if theirs.has(skip):
                yield f"layers.{n}.skip", theirs(f"{skip}.combine")

    return decoder(model(unet_skips=True, depth=4), text, weights, numbers={"depth": 4})


@xt_case("shift_tokens=1", "token-shift")
def shift_tokens() -> Pair:
    """Half of a sublayer's channels come from the position before. Their cache keeps nothing of that."""
    ours = {"attention_input_norm": "shifted_input_norm", "mlp_input_norm": "shifted_2_input_norm"}

    def weights(theirs: Theirs) -> Weights:
        for name, leaf in named()(theirs):
            begin, _, end = name.rpartition(".")
            yield f"{begin}.{ours.get(end, end)}" if begin else name, leaf

    made = decoder(model(shift_tokens=1), "token-shift", weights)
    made.steps = None
    return made


@xt_case("add_value_residual=True", note="")
def learned_value_residual() -> Pair:
    """How much of the first layer's values: one gate for each head, from what attention reads."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
  mixing(x, first): |
    v = linear.value(x, width, bias=False)
    g = repeat(sigmoid(linear.mix(x, heads)), width // heads, each=True) if layer > 1 else 1
    w = first + g * (v - first) if layer > 1 else v
    q = linear.query(x, width, bias=False)
    k = linear.key(x, width, bias=False)
    y = linear.output(dot_attention(q, k, w), width, bias=False)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + mixing(norm(x), 0 if layer == 1 else v[1])
  v = mixing.v
  x = x + mlp(norm(x))
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        for n, attention, mlp in blocks(theirs):
            yield f"layers.{n}.mixing_input_norm", bare(attention("0.0"))
            yield f"layers.{n}.mlp_input_norm", bare(mlp("0.0"))
            yield from ((f"layers.{n}.mixing.{part}", leaf) for part, leaf in plain(attention("1")))
            yield from ((f"layers.{n}.{part}", leaf) for part, leaf in feed(mlp("1")))
            if n > 1:
                yield f"layers.{n}.mixing.mix", attention("1.to_value_residual_mix.0")

    return decoder(model(add_value_residual=True), text, weights)


@xt_case("attn_head_scale=True, ff_post_act_ln=True, sandwich_norm=True, scale_residual=True", note="")
def normformer_parts() -> Pair:
    """NormFormer's parts, with a norm and a vector on the stream in both sublayers; eps of norms 1e-5."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
  scaled(x): |
    q = linear.query(x, width, bias=False)
    k = linear.key(x, width, bias=False)
    y = dot_attention(q, k, linear.value(x, width, bias=False))
    z = linear.output(repeat(vector.head_scale(1, size=heads), width // heads, each=True) * y, width, bias=False)
  inner: y = linear.down(norm.middle(gelu(linear.up(x, 4 * width))), width)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = vector.a(1) * x + norm(scaled(norm(x)))
  x = vector.b(1) * x + norm(inner(norm(x)))
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        for n, attention, mlp in blocks(theirs):
            for name, layer, label in (("scaled", attention, "a"), ("inner", mlp, "b")):
                yield f"layers.{n}.{name}_input_norm", bare(layer("0.0"))
                yield f"layers.{n}.{name}_output_norm", bare(layer("0.1"))
                yield f"layers.{n}.{label}.weight", layer("2")["residual_scale"]
            yield from ((f"layers.{n}.scaled.{part}", leaf) for part, leaf in plain(attention("1")))
            yield f"layers.{n}.scaled.head_scale.weight", attention("1")["head_scale_params"].flatten()
            yield f"layers.{n}.inner.up", mlp("1.ff.0.0")
            yield f"layers.{n}.inner.middle.weight", mlp("1.ff.1")["gamma"]
            yield f"layers.{n}.inner.down", mlp("1.ff.3")

    theirs = model(attn_head_scale=True, ff_post_act_ln=True, sandwich_norm=True, scale_residual=True)
    return decoder(theirs, text, weights)


@xt_case("integrate_layers=True", note="")
def lime() -> Pair:
    """LIMe: what a sublayer reads is a sum over the stream as it entered each sublayer so far, weighted by a matrix and
    a softmax; attention's queries, keys and values have weights of their own. Two layers, written out."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
  unit: x = rmsnorm(x, eps=0)
  two(w, a, b): y = part(w, 1, 2) * a + part(w, 2, 2) * b
  three(w, a, b, c): y = part(w, 1, 3) * a + part(w, 2, 3) * b + part(w, 3, 3) * c
  four(w, a, b, c, d): y = part(w, 1, 4) * a + part(w, 2, 4) * b + part(w, 3, 4) * c + part(w, 4, 4) * d
before: x = embed.words(tokens) + positions(tokens)
layers:
  one: |
    a = x
    x = x + attention(norm.first(softmax(linear.wa(unit.ua(a), 1)) * a), bias=False)
    b = x
    x = x + mlp(norm.second(two(softmax(linear.wb(unit.ub(b), 2)), a, b)))
  last: |
    c = x
    u = unit.uc(c)
    q = three(softmax(linear.wq(u, 3)), a, b, c)
    k = three(softmax(linear.wk(u, 3)), a, b, c)
    v = three(softmax(linear.wv(u, 3)), a, b, c)
    x = x + attention(norm.first(q), norm.first(k), norm.first(v), bias=False)
    d = x
    x = x + mlp(norm.second(four(softmax(linear.wd(unit.ud(d), 4)), a, b, c, d)))
order: one if layer == 1 else last
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        for n, attention, mlp in blocks(theirs):
            yield f"layers.{n}.first", bare(attention("0.0"))
            yield f"layers.{n}.second", bare(mlp("0.0"))
            yield from ((f"layers.{n}.attention.{part}", leaf) for part, leaf in plain(attention("1")))
            yield from ((f"layers.{n}.{part}", leaf) for part, leaf in feed(mlp("1")))
        for letter, (n, integrator) in zip("abcd", theirs.layers("attn_layers.layer_integrators"), strict=True):
            layer = f"layers.{(n + 1) // 2}"
            yield f"{layer}.u{letter}.weight", integrator("to_weights.0")["g"]
            matrix = integrator("to_weights.1")
            if letter == "c":
                yield from together(layer, ("wq", "wk", "wv"), split(matrix, 3, 3, 3))
            else:
                yield f"{layer}.w{letter}", matrix

    return decoder(model(integrate_layers=True, depth=2), text, weights, numbers={"depth": 2})


@xt_case(
    "ff_glu=True, ff_swish=True, attn_kv_heads=2, rotary_pos_emb=True, use_rmsnorm=True, softclamp_output=True", note=""
)
def llama_like() -> Pair:
    """Their heads of queries share keys in turn (head h has keys h modulo 2), ours, as the paper, by neighbours: heads
    are put in that order. Their gated MLP's matrix holds the branch that is multiplied first, the gate second."""
    text = """
words:
  norm: x = rmsnorm(x, eps=0)
  gated: y = linear.down(linear.up(x, 4 * width) * silu(linear.gate(x, 4 * width)), width)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=2, rotary=10000, rotary_part=0.5, rotary_pairs=True, bias=False)
  x = x + gated(norm(x))
after: x = norm(30 * tanh(x / 30))
"""

    def neighbours(leaf: Leaf, part: str) -> Leaf:
        if part in ("key", "value"):
            return leaf
        along = 0 if part == "query" else 1
        return each(
            leaf, lambda t: t.unflatten(along, (2, 2, HEAD)).transpose(along, along + 1).flatten(along, along + 2)
        )

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("token_emb.emb")
        for n, attention, mlp in blocks(theirs):
            yield f"layers.{n}.attention_input_norm", rms_norm(attention("0.0"))
            yield f"layers.{n}.gated_input_norm", rms_norm(mlp("0.0"))
            for part, leaf in plain(attention("1")):
                yield f"layers.{n}.attention.{part}", neighbours(leaf, part)
            yield from together(f"layers.{n}.gated", ("up", "gate"), split(mlp("1.ff.0.proj"), 4 * WIDTH, 4 * WIDTH))
            yield f"layers.{n}.gated.down", mlp("1.ff.2")
        yield "after.norm", rms_norm(theirs("attn_layers.final_norm"))

    theirs = model(
        ff_glu=True, ff_swish=True, attn_kv_heads=2, rotary_pos_emb=True, use_rmsnorm=True, softclamp_output=True
    )
    return decoder(theirs, text, weights)


@xt_case("attn_gate_values=True, attn_qk_norm=True, attn_qk_norm_dim_scale=True", note="")
def gated_values() -> Pair:
    """A gate from attention's input on its result; queries and keys of length 1, times learned vectors."""
    text = """
words:
  norm: x = layernorm(x, bias=False)
  gating(x): |
    q = vector.query_scale(1) * l2norm(linear.query(x, width, bias=False), size=width // heads)
    k = vector.key_scale(1) * l2norm(linear.key(x, width, bias=False), size=width // heads)
    y = dot_attention(q, k, linear.value(x, width, bias=False))
    z = linear.output(sigmoid(linear.gate(x, width, bias=False)) * y, width, bias=False)
before: x = embed.words(tokens) + positions(tokens)
layer: |
  x = x + gating(norm(x))
  x = x + mlp(norm(x))
after: x = norm(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from ends(theirs)
        for n, attention, mlp in blocks(theirs):
            yield f"layers.{n}.gating_input_norm", bare(attention("0.0"))
            yield f"layers.{n}.mlp_input_norm", bare(mlp("0.0"))
            yield from ((f"layers.{n}.gating.{part}", leaf) for part, leaf in plain(attention("1")))
            yield f"layers.{n}.gating.gate", attention("1.to_v_gate")
            yield f"layers.{n}.gating.query_scale.weight", attention("1")["qk_norm_q_scale"].flatten()
            yield f"layers.{n}.gating.key_scale.weight", attention("1")["qk_norm_k_scale"].flatten()
            yield from ((f"layers.{n}.{part}", leaf) for part, leaf in feed(mlp("1")))

    return decoder(model(attn_gate_values=True, attn_qk_norm=True, attn_qk_norm_dim_scale=True), text, weights)


@xt_case(
    "orthog_residual=True",
    "orthogonal",
    f"{ZEROS}; sequences of one position: theirs takes all positions as one vector",
)
def orthogonal_residual() -> Pair:
    """`test_defects.py` shows what theirs does with more than one position."""

    def one_position() -> dict[str, Tensor]:
        return {"tokens": torch.arange(VOCAB)[:, None]}

    made = decoder(model(orthog_residual=True), "orthogonal", named())
    made.inputs, made.decodes, made.steps = one_position, False, None
    return made
