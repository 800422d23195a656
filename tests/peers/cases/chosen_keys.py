"""Attention over the keys that scores choose: DeepSeek-V3.2's lightning indexer, Doge's dynamic mask."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tests.peers.carry import Theirs, Weights
from tests.peers.case import HEADS, LENGTH, VOCAB, WIDTH, Pair
from tests.peers.cases.experts import HEAD, LATENT, LOOPS, QUERY, ROTATING, latent
from tests.peers.cases.llama import GATED, INNER, MATRICES
from tests.peers.cases.routers import FOUR, NUMBERS, ROUTER, sparse
from tests.peers.hub import HIDDEN, KV_HEADS, USUAL, decoder, hub_case, model, rope

TOP = 4
"""Fewer than there are positions."""

INDEXER = {"index_query": "wq_b", "index_key": "wk", "index_norm": "k_norm", "index_weights": "weights_proj"}
INDEX_HEADS, INDEX_HEAD = 16, 8
"""So many heads that a sum of what relu leaves is never 0: theirs says nothing of equal keys."""

DEEPSEEK = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
  latent(x): |
    b = norm.query_norm(linear.query_down(x, query_width, bias=False))
    c = norm.latent_norm(linear.latent_down(x, latent_width, bias=False))
    r = rotary(linear.key_rotary(x, rotating, bias=False), heads=1, pairs=True)
    q = join(linear.query_up(b, heads * head, bias=False), rotary(linear.query_rotary(b, heads * rotating, bias=False), pairs=True), parts=heads)
    k = join(linear.key_up(c, heads * head, bias=False), repeat(r, heads), parts=heads)
    i = rotary(linear.index_query(b, index_heads * index_head, bias=False), heads=index_heads, part=rotating / index_head)
    j = rotary(layernorm.index_norm(linear.index_key(x, index_head, bias=False), eps=1e-6), heads=1, part=rotating / index_head)
    w = linear.index_weights(x, index_heads, bias=False) * index_heads ** -0.5
    index = sum_heads(relu(dot_scores(i, j, heads=index_heads)), w)
    v = linear.value_up(c, heads * head, bias=False)
    y = linear.output(dot_attention(q, k, v, top=top, ranking=index), width, bias=False)
before: x = embed.words(tokens)
layers:
  dense: |
    x = x + latent(norm(x))
    x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
  sparse: |
    x = x + latent(norm(x))
    x = x + experts(norm(x), n=routed_experts, active=active, groups=expert_groups, active_groups=active_groups, hidden=expert, shared=1, gated=True, activation="silu", bias=False, scoring="sigmoid", scale=2.5, selection_bias=True)
order: dense if layer <= 3 else sparse
after: x = norm(x)
output: logits = unembed(x)
"""  # noqa: E501


@hub_case("DeepseekV32ForCausalLM (index_topk=4)")
def deepseek_v32() -> Pair:
    theirs = model(
        "DeepseekV32ForCausalLM", **FOUR, **ROUTER, num_key_value_heads=HEADS, first_k_dense_replace=3,
        kv_lora_rank=LATENT, q_lora_rank=QUERY, qk_nope_head_dim=HEAD, v_head_dim=HEAD, qk_rope_head_dim=ROTATING,
        index_topk=TOP, index_head_dim=INDEX_HEAD, index_n_heads=INDEX_HEADS, **LOOPS, **rope(10000),
    )  # fmt: skip

    def attention(n: int, theirs: Theirs) -> Weights:
        yield from latent(f"layers.{n}.latent", theirs)
        for ours, name in INDEXER.items():
            yield f"layers.{n}.latent.{ours}", theirs(f"indexer.{name}")

    return decoder(
        theirs, DEEPSEEK, sparse(theirs, 3, attention, "latent"), **NUMBERS, depth=4, head=HEAD, rotating=ROTATING,
        latent_width=LATENT, query_width=QUERY, index_heads=INDEX_HEADS, index_head=INDEX_HEAD, top=TOP,
    )  # fmt: skip


DOGE = """
words:
  norm: x = rmsnorm(x, eps=1e-6)
  masked(x): |
    v = linear.value(x, kv_heads * size, bias=False)
    t = exp(vector.rate(0, size=kv_heads) * softplus(linear.times(v, kv_heads, bias=False)))
    s = dot_scores(ones(x, heads), repeat(t, heads // kv_heads, each=True), heads=heads, scale=1)
    q = rotary(rmsnorm.query_norm(linear.query(x, heads * size, bias=False), eps=1e-6, size=size))
    k = rotary(rmsnorm.key_norm(linear.key(x, kv_heads * size, bias=False), eps=1e-6, size=size), heads=kv_heads)
    y = linear.output(dot_attention(q, k, v, scores=s, top=top, ranking=s), width, bias=False)
before: x = embed.words(tokens)
layer: |
  x = vector.kept(1) * x + masked(norm(x))
  x = vector.passed(1) * x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
after: x = norm(x)
output: logits = unembed(x)
"""


@hub_case("DogeForCausalLM (keep_window_size=4)")
def doge() -> Pair:
    """No token stands twice: in the first layer its keys would be equal, and theirs says nothing of equal keys."""
    theirs = model("DogeForCausalLM", **USUAL, num_key_value_heads=KV_HEADS, keep_window_size=TOP, **rope(10000))

    def weights(theirs: Theirs) -> Weights:
        yield "words", theirs("model.embed_tokens")
        for n, layer in theirs.layers("model.layers"):
            own = layer("self_attn")
            yield f"layers.{n}.masked_input_norm", layer("input_layernorm")
            yield f"layers.{n}.mlp_input_norm", layer("post_attention_layernorm")
            yield f"layers.{n}.masked.rate.weight", own["A"]
            yield f"layers.{n}.masked.times", own("dt_proj")
            for ours, name in {**MATRICES, **INNER}.items():
                yield f"layers.{n}.masked.{ours}", own(name)
            for ours, name in GATED.items():
                yield f"layers.{n}.mlp.{ours}", layer(f"mlp.{name}")
            yield f"layers.{n}.kept.weight", layer["input_residual"]
            yield f"layers.{n}.passed.weight", layer["post_attention_residual"]
        yield "after.norm", theirs("model.norm")
        yield "output.unembed", theirs("lm_head")

    def inputs() -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(2)
        return {"tokens": torch.stack([torch.randperm(VOCAB, generator=generator)[:LENGTH] for _ in range(2)])}

    pair = decoder(theirs, DOGE, weights, hidden=HIDDEN, kv_heads=KV_HEADS, size=WIDTH // HEADS, top=TOP)
    return replace(pair, inputs=inputs)
