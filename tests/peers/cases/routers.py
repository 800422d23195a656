"""Mixtures of experts by their routers: sigmoid shares, selection biases, groups, weighed inputs, bounded gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from tests.peers.carry import Theirs, Weights
from tests.peers.case import HEADS, Pair
from tests.peers.cases.experts import (
    ACTIVE,
    EXPERT,
    HEAD,
    LATENT,
    LOOPS,
    NORMS,
    QUERY,
    ROTATING,
    ROUTED,
    decoder_weights,
    experts,
    latent,
)
from tests.peers.cases.llama import GATED, INNER, MATRICES, named
from tests.peers.hub import HIDDEN, KV_HEADS, SIZE, USUAL, WINDOW, decoder, hub_case, model, rope

OF_GROUPS, GROUPS, ACTIVE_GROUPS = 8, 4, 2
FOUR = {**USUAL, "num_hidden_layers": 4}
"""With a fourth layer, the first that is not dense, or that differs."""

ROUTER = {
    "moe_intermediate_size": EXPERT,
    "n_routed_experts": OF_GROUPS,
    "num_experts_per_tok": ACTIVE,
    "n_shared_experts": 1,
    "n_group": GROUPS,
    "topk_group": ACTIVE_GROUPS,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
}
NUMBERS = {
    "hidden": HIDDEN,
    "expert": EXPERT,
    "routed_experts": OF_GROUPS,
    "expert_groups": GROUPS,
    "active_groups": ACTIVE_GROUPS,
    "active": ACTIVE,
}


def biases(theirs: nn.Module) -> dict[int, Tensor]:
    """Their selection biases by layer, drawn anew: at 0 they would choose nothing."""
    generator = torch.Generator().manual_seed(7)
    found = {}
    for name, buffer in theirs.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(torch.randn(buffer.shape, generator=generator) * 0.2)
            found[int(name.split(".")[2]) + 1] = buffer
    assert found
    return found


def sparse(
    theirs: nn.Module, dense: int, attention: Callable[[int, Theirs], Weights], of: str
) -> Callable[..., Weights]:
    """DeepSeek's names: `dense` layers with an MLP, then experts with a selection bias and a shared one."""
    chosen_by = biases(theirs)

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            sublayer = "mlp" if n <= dense else "experts"
            yield f"layers.{n}.{of}_input_norm", layer("input_layernorm")
            yield f"layers.{n}.{sublayer}_input_norm", layer("post_attention_layernorm")
            yield from attention(n, layer("self_attn"))
            for ours, name in GATED.items():
                if n <= dense:
                    yield f"layers.{n}.mlp.{ours}", layer("mlp")(name)
                else:
                    yield f"layers.{n}.experts.shared.{ours}", layer("mlp")(f"shared_experts.{name}")
            if n > dense:
                yield from experts(f"layers.{n}.experts", layer("mlp"))
                yield f"layers.{n}.experts.selection_bias", chosen_by[n]
        yield "after.norm", theirs("model.norm")
        yield "output.unembed", theirs("lm_head")

    return weights


def with_norms(n: int, theirs: Theirs) -> Weights:
    """Attention under LLaMA's names, with norms of queries and keys where there are some."""
    for ours, name in {**MATRICES, **INNER}.items():
        if theirs.has(name):
            yield f"layers.{n}.attention.{ours}", theirs(name)


@hub_case("DeepseekV3ForCausalLM", "deepseek-v3")
def deepseek_v3() -> Pair:
    theirs = model(
        "DeepseekV3ForCausalLM", **FOUR, **ROUTER, num_key_value_heads=HEADS, first_k_dense_replace=3,
        kv_lora_rank=LATENT, q_lora_rank=QUERY, qk_nope_head_dim=HEAD, v_head_dim=HEAD, qk_rope_head_dim=ROTATING,
        **LOOPS, **rope(10000),
    )  # fmt: skip
    weights = sparse(theirs, 3, lambda n, attention: latent(f"layers.{n}.latent", attention), "latent")
    return decoder(
        theirs, "deepseek-v3", weights, **NUMBERS, depth=4, head=HEAD, rotating=ROTATING, latent_width=LATENT,
        query_width=QUERY,
    )  # fmt: skip


ROUTED_TEXT = """
words:
  norm: x = rmsnorm(x, eps={eps})
before: x = embed.words(tokens)
layers:
  dense: |
    x = x + attention(norm(x), {attention})
    x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
  sparse: |
    x = x + attention(norm(x), {attention})
    x = x + experts(norm(x), n=routed_experts, active=active, groups=expert_groups, active_groups=active_groups, hidden=expert, shared=1, gated=True, activation="silu", bias=False, scoring="sigmoid", scale=2.5, selection_bias=True)
order: dense if layer == 1 else sparse
after: x = norm(x)
output: logits = unembed(x)
"""  # noqa: E501


@hub_case("Glm4MoeForCausalLM")
def glm4_moe() -> Pair:
    """Half of each head turns; norms of queries and keys."""
    theirs = model(
        "Glm4MoeForCausalLM", **USUAL, **ROUTER, num_key_value_heads=KV_HEADS, head_dim=SIZE, first_k_dense_replace=1,
        use_qk_norm=True, pad_token_id=0, **LOOPS, **rope(10000, 0.4),
    )  # fmt: skip
    attention = 'kv_heads=kv_heads, size=size, qk_norm="head", rotary=10000, rotary_part=0.4, bias=False'
    text = ROUTED_TEXT.format(eps=1e-5, attention=attention)
    return decoder(theirs, text, sparse(theirs, 1, with_norms, "attention"), **NUMBERS, kv_heads=KV_HEADS, size=SIZE)


@hub_case("Dots1ForCausalLM")
def dots1() -> Pair:
    theirs = model(
        "Dots1ForCausalLM", **USUAL, **ROUTER, num_key_value_heads=KV_HEADS, first_k_dense_replace=1,
        sliding_window=None, **LOOPS, **rope(10000),
    )  # fmt: skip
    attention = 'kv_heads=kv_heads, qk_norm="head", rotary=10000, bias=False'
    text = ROUTED_TEXT.format(eps=1e-6, attention=attention)
    return decoder(theirs, text, sparse(theirs, 1, with_norms, "attention"), **NUMBERS, kv_heads=KV_HEADS)


@hub_case("Qwen3MoeForCausalLM")
def qwen3_moe() -> Pair:
    theirs = model(
        "Qwen3MoeForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=SIZE, num_experts=ROUTED,
        num_experts_per_tok=ACTIVE, moe_intermediate_size=EXPERT, norm_topk_prob=True, **LOOPS, **rope(1000000),
    )  # fmt: skip
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, size=size, qk_norm="head", rotary=1000000, bias=False)
  x = x + experts(norm(x), n=routed, active=active, hidden=expert, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    numbers = {"kv_heads": KV_HEADS, "size": SIZE, "routed": ROUTED, "active": ACTIVE, "expert": EXPERT}
    return decoder(theirs, text, decoder_weights, **numbers)


@hub_case("GptOssForCausalLM (swiglu_limit=0.5, which bends what random weights give)", "gpt-oss")
def gpt_oss() -> Pair:
    """Gates and what they multiply take turns in the rows of one matrix."""
    theirs = model(
        "GptOssForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, head_dim=SIZE, num_local_experts=ROUTED,
        num_experts_per_tok=ACTIVE, sliding_window=WINDOW, swiglu_limit=0.5, **LOOPS,
    )  # fmt: skip

    def weights(theirs: Theirs) -> Weights:
        yield from named(norms=NORMS, mlp={})(theirs)
        for n, layer in theirs.layers("model.layers"):
            yield f"layers.{n}.attention.sinks", layer("self_attn")["sinks"]
            own, name = layer("mlp.experts"), f"layers.{n}.experts"
            yield f"{name}.router", layer("mlp.router")
            for first, part in enumerate(("gate", "up")):
                yield f"{name}.{part}.weight", own["gate_up_proj"][..., first::2].transpose(1, 2)
                yield f"{name}.{part}.bias", own["gate_up_proj_bias"][:, first::2].flatten()
            yield f"{name}.down.weight", own["down_proj"].transpose(1, 2)
            yield f"{name}.down.bias", own["down_proj_bias"].flatten()

    pair = decoder(
        theirs, "gpt-oss", weights, hidden=HIDDEN, kv_heads=KV_HEADS, size=SIZE, window=WINDOW, routed=ROUTED,
        active=ACTIVE,
    )  # fmt: skip
    return replace(pair, changed={"limit=7": "limit=0.5"})


def llama4_weights(theirs: Theirs) -> Weights:
    """Experts or an MLP in each layer; `near` where positions turn."""
    shared: Mapping[str, str] = {f"shared.{ours}": f"shared_expert.{name}" for ours, name in GATED.items()}
    yield "words", theirs("model.embed_tokens")
    for n, layer in theirs.layers("model.layers"):
        sublayer, own = ("near" if n % 4 else "attention"), layer("feed_forward")
        for ours, name in MATRICES.items():
            yield f"layers.{n}.{sublayer}.{ours}", layer(f"self_attn.{name}")
        yield f"layers.{n}.{sublayer}_input_norm", layer("input_layernorm")
        mixed = own.has("router")
        yield f"layers.{n}.{'experts' if mixed else 'mlp'}_input_norm", layer("post_attention_layernorm")
        for ours, name in (shared if mixed else GATED).items():
            yield f"layers.{n}.{'experts' if mixed else 'mlp'}.{ours}", own(name)
        if mixed:
            yield f"layers.{n}.experts.router", own("router")
            gate, up = own("experts")["gate_up_proj"].transpose(1, 2).chunk(2, 1)
            yield f"layers.{n}.experts.gate.weight", gate
            yield f"layers.{n}.experts.up.weight", up
            yield f"layers.{n}.experts.down.weight", own("experts")["down_proj"].transpose(1, 2)
    yield "after.norm", theirs("model.norm")
    yield "output.unembed", theirs("lm_head")


def llama4_model(**keys: object) -> nn.Module:
    return model(
        "Llama4ForCausalLM", "Llama4TextConfig", **{**FOUR, "intermediate_size": EXPERT}, num_key_value_heads=KV_HEADS,
        head_dim=SIZE, num_local_experts=ROUTED, attention_chunk_size=WINDOW, floor_scale=WINDOW, pad_token_id=None,
        **rope(500000), **keys,
    )  # fmt: skip


@hub_case("Llama4ForCausalLM", "llama4")
def llama4() -> Pair:
    theirs = llama4_model()
    return decoder(
        theirs, "llama4", llama4_weights, depth=4, expert=EXPERT, kv_heads=KV_HEADS, head=SIZE, routed=ROUTED,
        chunk=WINDOW,
    )  # fmt: skip


@hub_case("Llama4ForCausalLM (Maverick: experts in every other layer, no norms of queries and keys)", name="maverick")
def maverick() -> Pair:
    theirs = llama4_model(interleave_moe_layer_step=2, use_qk_norm=False, intermediate_size_mlp=HIDDEN)
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
  together(i, j): m = i // chunk == j // chunk
  sharper(s, i): s = s * (1 + 0.1 * log(1 + (i + 1) // chunk))
  near(x): y = attention(x, kv_heads=kv_heads, size=size, rotary=500000, rotary_pairs=True, bias=False, mask=together)
  experts(x): y = experts(x, n=routed, active=1, hidden=expert, shared=1, gated=True, activation="silu", bias=False, scoring="sigmoid", renormalise=False, weigh_input=True)
before: x = embed.words(tokens)
layer: |
  x = x + (near(norm(x)) if layer % 4 > 0 else attention(norm(x), kv_heads=kv_heads, size=size, bias=False, score=sharper))
  x = x + (mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False) if layer % 2 > 0 else experts(norm(x)))
after: x = norm(x)
output: logits = unembed(x)
"""  # noqa: E501
    numbers = {"hidden": HIDDEN, "expert": EXPERT, "kv_heads": KV_HEADS, "size": SIZE, "routed": ROUTED}
    return decoder(theirs, text, llama4_weights, depth=4, chunk=WINDOW, **numbers)


@hub_case("PhimoeForCausalLM (router_jitter_noise=0.3)")
def phimoe() -> Pair:
    """The weight of an expert is a softmax over those that come near the largest; the second's is without the first."""
    theirs = model(
        "PhimoeForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, num_local_experts=ROUTED, router_jitter_noise=0.3,
        **LOOPS, **rope(10000),
    )  # fmt: skip
    text = """
jitter: 0.3
words:
  best(s, r): |
    top = channel_max(s)
    far = (top - r) / max(abs(r), top) - 2 * jitter
    y = topk(softmax(where(far, -1e9, s)), 1)
  mixture(x): |
    r = linear.router(x, routed, bias=False)
    w = best(r, r)
    w = w + best(where(w, -1e9, r), r)
    y = experts(x, n=routed, active=2, hidden=hidden, gated=True, activation="silu", bias=False, weights=w)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, rotary=10000, bias=False)
  x = x + mixture(norm(x))
after: x = norm(x)
output: logits = unembed(x)
"""

    def weights(theirs: Theirs) -> Weights:
        norms = {"attention_input_norm": "input_layernorm", "mixture_input_norm": "post_attention_layernorm"}
        yield from named(norms=norms, mlp={})(theirs)
        for n, layer in theirs.layers("model.layers"):
            for ours, leaf in experts(f"layers.{n}.mixture.experts", layer("mlp"), "router"):
                yield ours.replace("experts.router", "router"), leaf

    return decoder(theirs, text, weights, hidden=HIDDEN, kv_heads=KV_HEADS, routed=ROUTED)
