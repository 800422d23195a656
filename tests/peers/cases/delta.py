"""The delta rule: Qwen3-Next, OLMo Hybrid and Kimi Linear."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tests.peers.carry import Leaf, Theirs, Weights, each, plus_one, split, thirds
from tests.peers.case import DEPTH, HEADS, Pair
from tests.peers.cases.experts import ACTIVE, EXPERT, LOOPS, ROUTED, experts
from tests.peers.cases.llama import GATED, MATRICES, named
from tests.peers.hub import HIDDEN, KV_HEADS, USUAL, decoder, hub_case, model, rope

STATE, STATES, KEYS, HEAD = 6, 4, 2, 8
"""Size of a key and of a value, heads of values, heads of keys; size of an attention's head."""

LINEAR = {
    "linear_key_head_dim": STATE, "linear_value_head_dim": STATE, "linear_num_key_heads": KEYS,
    "linear_num_value_heads": STATES,
}  # fmt: skip


def grouped(leaf: Leaf, groups: int, sizes: Sequence[int]) -> list[dict[str, Tensor]]:
    """Rows that go group by group, in each `sizes[0]` of one matrix, `sizes[1]` of the next, ..."""

    def part(tensor: Tensor, n: int) -> Tensor:
        return tensor.unflatten(0, (groups, sum(sizes))).split(list(sizes), 1)[n].flatten(0, 1)

    return [each(leaf, lambda tensor, n=n: part(tensor, n)) for n in range(len(sizes))]


def steps(ours: str, theirs: Theirs) -> Weights:
    """How much is kept: A and what is added to the step."""
    yield f"{ours}.step_bias.weight", theirs["dt_bias"]
    yield f"{ours}.log_decay.weight", theirs["A_log"].flatten()


@hub_case("Qwen3NextForCausalLM", "qwen3-next")
def qwen3_next() -> Pair:
    theirs = model(
        "Qwen3NextForCausalLM", **{**USUAL, "num_hidden_layers": 4}, **LINEAR, num_key_value_heads=KV_HEADS,
        head_dim=HEAD, num_experts=ROUTED, num_experts_per_tok=ACTIVE, moe_intermediate_size=EXPERT,
        shared_expert_intermediate_size=EXPERT, **LOOPS, **rope(10000000, 0.25),
    )  # fmt: skip
    return decoder(
        theirs, "qwen3-next", qwen3_next_weights, depth=4, kv_heads=KV_HEADS, head_size=HEAD, key_heads=KEYS,
        value_heads=STATES, state_size=STATE, routed=ROUTED, active=ACTIVE, expert=EXPERT,
    )  # fmt: skip


def qwen3_next_weights(theirs: Theirs) -> Weights:
    yield "words", theirs("model.embed_tokens")
    for n, layer in theirs.layers("model.layers"):
        if layer.has("self_attn"):
            ours, inner = f"layers.{n}.gated_attention", layer("self_attn")
            for name, leaf in zip(("query", "gate"), grouped(inner("q_proj"), HEADS, (HEAD, HEAD)), strict=True):
                yield f"{ours}.{name}", leaf
            for name, leaf in (("key", "k_proj"), ("value", "v_proj"), ("output", "o_proj")):
                yield f"{ours}.{name}", inner(leaf)
            yield f"{ours}.query_norm", plus_one(inner("q_norm"))
            yield f"{ours}.key_norm", plus_one(inner("k_norm"))
        else:
            ours, inner = f"layers.{n}.gated_delta", layer("linear_attn")
            each_value = STATES // KEYS * STATE
            rows = grouped(inner("in_proj_qkvz"), KEYS, (STATE, STATE, each_value, each_value))
            for name, leaf in zip(("query.linear", "key.linear", "value.linear", "gate"), rows, strict=True):
                yield f"{ours}.{name}", leaf
            rows = grouped(inner("in_proj_ba"), KEYS, (STATES // KEYS, STATES // KEYS))
            for name, leaf in zip(("rate", "step"), rows, strict=True):
                yield f"{ours}.{name}", leaf
            kernels = split(inner("conv1d"), KEYS * STATE, KEYS * STATE, STATES * STATE)
            for name, leaf in zip(("query", "key", "value"), kernels, strict=True):
                yield f"{ours}.{name}.conv", leaf
            yield from steps(ours, inner)
            yield f"{ours}.gate_output_rmsnorm", inner("norm")
            yield f"{ours}.output", inner("out_proj")
        yield f"{ours}_input_norm", plus_one(layer("input_layernorm"))
        yield f"layers.{n}.mixture_input_norm", plus_one(layer("post_attention_layernorm"))
        yield from experts(f"layers.{n}.mixture.experts", layer("mlp"))
        for name, leaf in GATED.items():
            yield f"layers.{n}.mixture.shared.{name}", layer(f"mlp.shared_expert.{leaf}")
        yield f"layers.{n}.mixture.shared_gate", layer("mlp.shared_expert_gate")
    yield "after.norm", plus_one(theirs("model.norm"))
    yield "output.unembed", theirs("lm_head")


@hub_case("OlmoHybridForCausalLM")
def olmo_hybrid() -> Pair:
    """Shares b up to 2; the last layer attends, with norms after its branches."""
    theirs = model(
        "OlmoHybridForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, **{**LINEAR, "linear_num_key_heads": STATES},
        pad_token_id=None, **rope(10000),
    )  # fmt: skip
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
  unit(x): y = rmsnorm(x, size=state_size, eps=1e-6 / state_size, weight=False) / sqrt(state_size)
  mixed(x): y = silu(conv(linear(x, states * state_size, bias=False), 4, depthwise=True, bias=False))
  gated_delta(x): |
    b = 2 * sigmoid(linear.rate(x, states, bias=False))
    step = softplus(linear.step(x, states, bias=False) + vector.step_bias(0, size=states))
    decay = -exp(vector.log_decay(0, size=states)) * step
    y = delta(unit(mixed.query(x)), unit(mixed.key(x)), mixed.value(x), b, decay, heads=states)
    g = silu(linear.gate(x, states * state_size, bias=False))
    y = linear.output(g * rmsnorm(y, size=state_size, eps=1e-5), width, bias=False)
before: x = embed.words(tokens)
layers:
  recurrent: |
    x = x + gated_delta(norm(x))
    x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
  attending: |
    x = x + norm(attention(x, kv_heads=kv_heads, qk_norm="full", rotary=10000, bias=False))
    x = x + norm(mlp(x, hidden=hidden, gated=True, activation="silu", bias=False))
order: attending if layer == depth else recurrent
after: x = norm(x)
output: logits = unembed(x)
"""

    def weights(theirs: Theirs) -> Weights:
        yield from named(norms={}, matrices={})(theirs)
        for n, layer in theirs.layers("model.layers"):
            if layer.has("self_attn"):
                for ours, name in MATRICES.items():
                    yield f"layers.{n}.attention.{ours}", layer(f"self_attn.{name}")
                yield f"layers.{n}.attention_output_norm", layer("post_attention_layernorm")
                yield f"layers.{n}.mlp_output_norm", layer("post_feedforward_layernorm")
                continue
            inner, ours = layer("linear_attn"), f"layers.{n}.gated_delta"
            for part, letter in (("query", "q"), ("key", "k"), ("value", "v")):
                yield f"{ours}.{part}.linear", inner(f"{letter}_proj")
            for part, name in (("rate", "b"), ("step", "a"), ("gate", "g"), ("output", "o")):
                yield f"{ours}.{part}", inner(f"{name}_proj")
            for part, leaf in zip(("query", "key", "value"), thirds(inner("conv1d")), strict=True):
                yield f"{ours}.{part}.conv", leaf
            yield from steps(ours, inner)
            yield f"{ours}.gate_output_rmsnorm", inner("o_norm")
            yield f"layers.{n}.gated_delta_input_norm", layer("input_layernorm")
            yield f"layers.{n}.mlp_input_norm", layer("post_attention_layernorm")

    return decoder(
        theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS, states=STATES, state_size=STATE
    )  # fmt: skip


@hub_case("KimiLinearForCausalLM (no layer attends or has experts)")
def kimi_linear() -> Pair:
    """A decay for each channel of the keys."""
    theirs = model(
        "KimiLinearForCausalLM", **USUAL, linear_head_dim=STATE, linear_num_heads=STATES, rms_norm_eps=1e-5,
        layer_types=["linear_attention"] * DEPTH, mlp_layer_types=["dense"] * DEPTH, num_key_value_heads=HEADS,
        pad_token_id=None,
    )  # fmt: skip
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
  unit(x): y = rmsnorm(x, size=state_size, eps=1e-6 / state_size, weight=False) / sqrt(state_size)
  mixed(x): y = silu(conv(linear(x, states * state_size, bias=False), 4, depthwise=True, bias=False))
  kda(x): |
    step = softplus(lowrank.step(x, state_size, states * state_size) + vector.step_bias(0, size=states * state_size))
    decay = -repeat(exp(vector.log_decay(0, size=states)), state_size, each=True) * step
    b = sigmoid(linear.rate(x, states, bias=False))
    y = delta(unit(mixed.query(x)), unit(mixed.key(x)), mixed.value(x), b, decay, heads=states)
    g = sigmoid(lowrank.gate(x, state_size, states * state_size))
    y = linear.output(g * rmsnorm(y, size=state_size, eps=1e-5), width, bias=False)
before: x = embed.words(tokens)
layer: |
  x = x + kda(norm(x))
  x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""

    norms = {"kda_input_norm": "input_layernorm", "mlp_input_norm": "post_attention_layernorm"}

    def weights(theirs: Theirs) -> Weights:
        yield from named(norms=norms, matrices={})(theirs)
        for n, layer in theirs.layers("model.layers"):
            inner, ours = layer("self_attn"), f"layers.{n}.kda"
            kernels = zip(("query", "key", "value"), "qkv", thirds(inner("conv1d")), strict=True)
            for part, letter, leaf in kernels:
                yield f"{ours}.{part}.linear", inner(f"{letter}_proj")
                yield f"{ours}.{part}.conv", leaf
            for part, name in (
                ("step.down", "forget_gate.f_a_proj"), ("step.up", "forget_gate.f_b_proj"), ("gate.down", "g_a_proj"),
                ("gate.up", "g_b_proj"), ("rate", "b_proj"), ("output", "o_proj"), ("gate_output_rmsnorm", "o_norm"),
            ):  # fmt: skip
                yield f"{ours}.{part}", inner(name)
            yield from steps(ours, inner("forget_gate"))

    pair = decoder(theirs, text, weights, hidden=HIDDEN, states=STATES, state_size=STATE)
    pair.steps = None  # their cache needs a layer that attends
    return pair
