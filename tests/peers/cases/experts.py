"""Mixtures of experts: Mixtral, OLMoE, DeepSeek-V2 with its latent attention."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from tests.peers.carry import Leaf, Theirs, Weights, each, split
from tests.peers.case import HEADS, Pair
from tests.peers.cases.llama import GATED, named
from tests.peers.hub import HIDDEN, KV_HEADS, USUAL, decoder, hub_case, model, rope

EXPERT, ROUTED, ACTIVE = 20, 5, 2

NORMS = {"attention_input_norm": "input_layernorm", "experts_input_norm": "post_attention_layernorm"}

LOOPS = {"experts_implementation": "eager"}
"""Their experts one by one: the fused product knows no float64."""


def experts(name: str, theirs: Theirs, router: str = "gate") -> Weights:
    """Their matrices of all experts, gate and up in one."""
    gate, up = theirs("experts")["gate_up_proj"].chunk(2, 1)
    yield f"{name}.router", theirs(router)
    yield f"{name}.gate.weight", gate
    yield f"{name}.up.weight", up
    yield f"{name}.down.weight", theirs("experts")["down_proj"]


def decoder_weights(theirs: Theirs) -> Weights:
    """LLaMA's names, experts in every layer."""
    yield from named(norms=NORMS, mlp={})(theirs)
    for n, layer in theirs.layers("model.layers"):
        yield from experts(f"layers.{n}.experts", layer("mlp"))


@hub_case("MixtralForCausalLM", "mixtral")
def mixtral() -> Pair:
    theirs = model(
        "MixtralForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, rms_norm_eps=1e-5, sliding_window=None,
        num_local_experts=ROUTED, num_experts_per_tok=ACTIVE, **LOOPS, **rope(1000000),
    )  # fmt: skip
    return decoder(theirs, "mixtral", decoder_weights, hidden=HIDDEN, kv_heads=KV_HEADS, routed=ROUTED, active=ACTIVE)


@hub_case("OlmoeForCausalLM")
def olmoe() -> Pair:
    """Weights that are shares of the softmax over all experts."""
    theirs = model(
        "OlmoeForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, num_experts=ROUTED, num_experts_per_tok=ACTIVE,
        norm_topk_prob=False, **LOOPS, **rope(10000),
    )  # fmt: skip
    text = """
words:
  norm: x = rmsnorm(x, eps=1e-5)
before: x = embed.words(tokens)
layer: |
  x = x + attention(norm(x), kv_heads=kv_heads, qk_norm="full", rotary=10000, bias=False)
  x = x + experts(
    norm(x), n=routed, active=active, hidden=hidden, gated=True, activation="silu", bias=False, renormalise=False)
after: x = norm(x)
output: logits = unembed(x)
"""
    numbers = {"hidden": HIDDEN, "kv_heads": KV_HEADS, "routed": ROUTED, "active": ACTIVE}
    return decoder(theirs, text, decoder_weights, **numbers)


HEAD, ROTATING, LATENT, QUERY = 6, 4, 8, 9


def of_heads(leaf: Leaf, *sizes: int) -> list[dict[str, Tensor]]:
    """Rows that go head by head, in each `sizes[0]` of one matrix, `sizes[1]` of the next, ..."""

    def part(tensor: Tensor, n: int) -> Tensor:
        return tensor.unflatten(0, (HEADS, sum(sizes))).split(sizes, 1)[n].flatten(0, 1)

    return [each(leaf, lambda t, n=n: part(t, n)) for n in range(len(sizes))]


def latent(name: str, theirs: Theirs) -> Weights:
    """DeepSeek's attention: three matrices hold two of ours each."""
    whole: Mapping[str, str] = {
        "query_down": "q_a_proj", "query_norm": "q_a_layernorm", "latent_norm": "kv_a_layernorm", "output": "o_proj",
    }  # fmt: skip
    for ours, part in whole.items():
        yield f"{name}.{ours}", theirs(part)
    pairs = {
        ("query_up", "query_rotary"): of_heads(theirs("q_b_proj"), HEAD, ROTATING),
        ("key_up", "value_up"): of_heads(theirs("kv_b_proj"), HEAD, HEAD),
        ("latent_down", "key_rotary"): split(theirs("kv_a_proj_with_mqa"), LATENT, ROTATING),
    }
    for names, leaves in pairs.items():
        for ours, leaf in zip(names, leaves, strict=True):
            yield f"{name}.{ours}", leaf


@hub_case("DeepseekV2ForCausalLM", "mla")
def deepseek_v2() -> Pair:
    """Experts chosen among all, rotary positions as they are."""
    theirs = model(
        "DeepseekV2ForCausalLM", **USUAL, num_key_value_heads=HEADS, first_k_dense_replace=1, kv_lora_rank=LATENT,
        q_lora_rank=QUERY, qk_nope_head_dim=HEAD, v_head_dim=HEAD, qk_rope_head_dim=ROTATING, n_shared_experts=2,
        n_routed_experts=ROUTED, num_experts_per_tok=ACTIVE, moe_intermediate_size=EXPERT, routed_scaling_factor=16.0,
        topk_method="greedy", **LOOPS, **rope(10000),
    )  # fmt: skip

    norms = {"latent_input_norm": "input_layernorm", "mlp_input_norm": "post_attention_layernorm"}

    def weights(theirs: Theirs) -> Weights:
        yield from named(norms=norms, matrices={}, mlp={})(theirs)
        for n, layer in theirs.layers("model.layers"):
            yield from latent(f"layers.{n}.latent", layer("self_attn"))
            for ours, name in GATED.items():
                yield f"layers.{n}.mlp.{ours}", layer("mlp")(name if n == 1 else f"shared_experts.{name}")
            if n > 1:
                yield from experts(f"layers.{n}.experts", layer("mlp"))

    return decoder(
        theirs, "mla", weights, hidden=HIDDEN, expert=EXPERT, routed=ROUTED, active=ACTIVE, head=HEAD,
        rotating=ROTATING, latent_width=LATENT, query_width=QUERY,
    )  # fmt: skip
