"""Recurrences: Mamba-2, Jamba with Mamba's first form, RecurrentGemma, MiniMax with its lightning attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tests.peers.carry import QKV, Theirs, Weights, plus_one, split, together
from tests.peers.case import DEPTH, HEADS, VOCAB, WIDTH, Pair
from tests.peers.cases.experts import LOOPS, ROUTED, experts, of_heads
from tests.peers.cases.llama import GATED, MATRICES
from tests.peers.hub import HIDDEN, KV_HEADS, SIZE, USUAL, WINDOW, decoder, hub_case, model, rope

INNER, STATE, GROUPS, RANK = 2 * WIDTH, 6, 2, 5


def dynamic(config: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=config)


def one_by_one(pair: Pair, cache: Callable[[Any], Any], key: str = "past_key_values") -> Pair:
    """Their decoding: a first chunk, then one position after another, which is all that their recurrences do. The
    cache is `cache(configuration)`; positions are given, since it may count those of a layer that keeps none."""

    def steps(tokens: Tensor, chunks: tuple[int, ...]) -> Tensor:
        kept, made, count = cache(pair.theirs.config), [], 0
        for chunk in tokens.split([chunks[0]] + [1] * (tokens.shape[1] - chunks[0]), 1):
            places = {"position_ids": torch.arange(count, count + chunk.shape[1])[None]} if "past" in key else {}
            made.append(pair.theirs(chunk, use_cache=True, **{key: kept}, **places).logits)
            count += chunk.shape[1]
        return torch.cat(made, 1)

    pair.steps = steps
    return pair


@hub_case("Mamba2ForCausalLM", "mamba2")
def mamba2() -> Pair:
    theirs = model(
        "Mamba2ForCausalLM", vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=DEPTH, state_size=STATE,
        num_heads=HEADS, head_dim=INNER // HEADS, n_groups=GROUPS, chunk_size=5, tie_word_embeddings=True,
    )  # fmt: skip
    sizes = (INNER, GROUPS * STATE, GROUPS * STATE)

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("backbone.embeddings")
        for n, layer in theirs.layers("backbone.layers"):
            yield f"layers.{n}.mamba_input_norm", layer("norm")
            own, mixer = f"layers.{n}.mamba", layer("mixer")
            gate, v, k, q, step = split(mixer("in_proj"), INNER, *sizes, HEADS)
            local = split(mixer("conv1d"), *sizes)
            for part, matrix, conv in zip(("value", "key", "query"), (v, k, q), local, strict=True):
                yield f"{own}.{part}", matrix
                yield f"{own}.local_{part}", conv
            yield f"{own}.gate", gate
            yield f"{own}.step", {**step, "bias": mixer["dt_bias"]}
            yield f"{own}.rate.weight", mixer["A_log"]
            yield f"{own}.skip.weight", mixer["D"]
            yield f"{own}.norm", mixer("norm")
            yield f"{own}.output", mixer("out_proj")
        yield "after.norm", theirs("backbone.norm_f")

    return one_by_one(decoder(theirs, "mamba2", weights, state=STATE, groups=GROUPS), dynamic, "cache_params")


def attention(name: str, theirs: Theirs) -> Weights:
    yield from ((f"{name}.{ours}", theirs(part)) for ours, part in MATRICES.items())


@hub_case("JambaForCausalLM", "jamba")
def jamba() -> Pair:
    theirs = model(
        "JambaForCausalLM", **{**USUAL, "num_hidden_layers": 6}, num_key_value_heads=KV_HEADS, num_experts=ROUTED,
        mamba_d_state=STATE, mamba_dt_rank=RANK, **LOOPS,
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            own, feed = f"layers.{n}", "experts" if n % 2 == 0 else "mlp"
            mixer = "attention" if n == 5 else "mamba"
            yield f"{own}.{mixer}_input_norm", layer("input_layernorm")
            yield f"{own}.{feed}_input_norm", layer("pre_ff_layernorm")
            if n == 5:
                yield from attention(f"{own}.attention", layer("self_attn"))
            else:
                yield from mamba(f"{own}.mamba", layer("mamba"))
            if n % 2 == 0:
                yield from experts(f"{own}.experts", layer("feed_forward"), "router")
            else:
                yield from ((f"{own}.mlp.{ours}", layer(f"feed_forward.{part}")) for ours, part in GATED.items())
        yield "after.norm", theirs("model.final_layernorm")
        yield "output.unembed", theirs("lm_head")

    numbers = {"hidden": HIDDEN, "kv_heads": KV_HEADS, "routed": ROUTED, "state": STATE, "rank": RANK, "depth": 6}
    return one_by_one(decoder(theirs, "jamba", weights, **numbers), dynamic)


def mamba(own: str, mixer: Theirs) -> Weights:
    """Mamba's first form: their matrices hold several of ours."""
    value, gate = split(mixer("in_proj"), INNER, INNER)
    low, key, query = split(mixer("x_proj"), RANK, STATE, STATE)
    parts = {"value": value, "gate": gate, "low": low, "key": key, "query": query}
    theirs = {"conv": "conv1d", "step": "dt_proj", "output": "out_proj"}
    norms = {"step_norm": "dt_layernorm", "key_norm": "b_layernorm", "query_norm": "c_layernorm"}
    yield from ((f"{own}.{name}", leaf) for name, leaf in parts.items())
    yield from ((f"{own}.{name}", mixer(part)) for name, part in {**theirs, **norms}.items() if mixer.has(part))
    yield f"{own}.rate.weight", mixer["A_log"].flatten()
    yield f"{own}.skip.weight", mixer["D"]


MAMBA = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
  mamba(x): |
    v = silu(conv(linear.value(x, inner, bias=False), 4, depthwise=True))
    step = softplus(linear.step(linear.low(v, rank, bias=False), inner))
    k = linear.key(v, state, bias=False)
    q = linear.query(v, state, bias=False)
    decay = -exp(vector.rate(0, inner * state)) * repeat(step, state, each=True)
    y = scan(q, k, step * v, decay, heads=inner, groups=1) + vector.skip(1, inner) * v
    y = linear.output(y * silu(linear.gate(x, inner, bias=False)), width, bias=False)
before: x = embed.words(tokens)
layer: x = x + mamba(norm(x))
after: x = norm(x)
output: logits = unembed.words(x)
"""


def mamba_alone(kind: str, text: str) -> Pair:
    """Mamba's first form in every layer."""
    theirs = model(
        kind, vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=DEPTH, state_size=STATE, time_step_rank=RANK,
        tie_word_embeddings=True,
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("backbone.embeddings")
        for n, layer in theirs.layers("backbone.layers"):
            yield f"layers.{n}.mamba_input_norm", layer("norm")
            yield from mamba(f"layers.{n}.mamba", layer("mixer"))
        yield "after.norm", theirs("backbone.norm_f")

    pair = decoder(theirs, text, weights, state=STATE, rank=RANK, inner=INNER)
    return one_by_one(pair, dynamic, "cache_params")


@hub_case("MambaForCausalLM", name="mamba")
def mamba_1() -> Pair:
    return mamba_alone("MambaForCausalLM", MAMBA)


@hub_case("FalconMambaForCausalLM")
def falcon_mamba() -> Pair:
    """With norms without weights on what is made of the input."""
    text = MAMBA.replace("linear.low(v, rank, bias=False)", "unit(linear.low(v, rank, bias=False))")
    for part in ("key", "query"):
        text = text.replace(f"linear.{part}(v, state, bias=False)", f"unit(linear.{part}(v, state, bias=False))")
    text = text.replace("  mamba(x)", "  unit: x = rmsnorm(x, eps=1e-6, weight=False)\n  mamba(x)")
    return mamba_alone("FalconMambaForCausalLM", text)


@hub_case("RecurrentGemmaForCausalLM", "recurrentgemma", note="the square root of the width as it is, not in bfloat16")
def recurrentgemma() -> Pair:
    theirs = model(
        "RecurrentGemmaForCausalLM", **{**USUAL, "intermediate_size": 2 * HIDDEN}, num_key_value_heads=1,
        attention_window_size=WINDOW, **rope(10000, 0.5),
    )  # fmt: skip
    theirs.get_submodule("model").normalizer = torch.tensor(WIDTH**0.5, dtype=torch.float64)  # theirs has 8 bits
    names = {"input": "linear_x", "gate": "linear_y", "output": "linear_out", "local": "conv_1d"}

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            own, block = f"layers.{n}", layer("temporal_block")
            mixer = "local" if n % 3 == 0 else "recurrence"
            yield f"{own}.{mixer}_input_norm", plus_one(layer("temporal_pre_norm"))
            yield f"{own}.mlp_input_norm", plus_one(layer("channel_pre_norm"))
            yield from ((f"{own}.mlp.{ours}", layer(f"mlp_block.{part}")) for ours, part in GATED.items())
            if n % 3 == 0:
                yield from attention(f"{own}.local", block)
                continue
            yield from ((f"{own}.recurrence.{ours}", block(part)) for ours, part in names.items())
            unit = block("rg_lru")
            yield f"{own}.recurrence.rate.weight", unit["recurrent_param"]
            for ours, part in (("input_gate", "input_gate"), ("recurrence_gate", "recurrent_gate")):
                yield f"{own}.recurrence.{ours}.weight", unit[f"{part}_weight"].transpose(1, 2).flatten(0, 1)[..., None]
                yield f"{own}.recurrence.{ours}.bias", unit[f"{part}_bias"].flatten()
        yield "after.norm", plus_one(theirs("model.final_norm"))

    return one_by_one(decoder(theirs, "recurrentgemma", weights, hidden=HIDDEN, window=WINDOW), dynamic)


@hub_case("MiniMaxForCausalLM", "minimax", note="heads turn whole, not by half")
def minimax() -> Pair:
    factors = {f"{part}_{factor}_factor": value for part in ("full_attn", "linear_attn", "mlp")
               for factor, value in (("alpha", 1.5), ("beta", 1.0))}  # fmt: skip
    theirs = model(
        "MiniMaxForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=SIZE, num_local_experts=ROUTED,
        block_size=5, layer_types=["full_attention", "linear_attention", "linear_attention"], **factors, **LOOPS,
        **rope(10000000),
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            own, mixer = f"layers.{n}", layer("self_attn")
            yield f"{own}.norm", layer("input_layernorm")
            kind = "attention" if n == 1 else "lightning"
            yield f"{own}.{kind}_sum_norm", layer("post_attention_layernorm")
            yield from experts(f"{own}.mixture", layer("mlp"))
            if n == 1:
                yield from attention(f"{own}.attention", mixer)
                continue
            parts = of_heads(mixer("qkv_proj"), SIZE, SIZE, SIZE)
            yield from together(f"{own}.lightning", QKV, parts)
            yield f"{own}.lightning.gate", mixer("output_gate")
            yield f"{own}.lightning.norm", mixer("norm")
            yield f"{own}.lightning.output", mixer("out_proj")
        yield "after.norm", theirs("model.norm")
        yield "output.unembed", theirs("lm_head")

    numbers = {"hidden": HIDDEN, "kv_heads": KV_HEADS, "routed": ROUTED, "size": SIZE, "turned": 1, "alpha": 1.5}
    pair = decoder(theirs, "minimax", weights, **numbers)
    pair.changed = {ORDER: "order: [softmax, lightning, lightning]"}
    return pair


ORDER = "order: [lightning, lightning, lightning, lightning, lightning, lightning, lightning, softmax]"
