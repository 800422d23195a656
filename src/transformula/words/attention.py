"""Attention: `attention`, and its core without weights, `dot_attention`."""

from __future__ import annotations

from .word import Word, word


@word(
    "attention",
    streams=(("x",), ("x", "memory"), ("q", "k", "v")),
    ports=("scores",),
    kind="positions",
    width="x if x > 0 else q",
    reach="past",
    positional=True,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "shapes": True, "help": "how many heads"},
        "kv_heads": {
            "type": "whole",
            "default": "heads",
            "minimum": 1,
            "shapes": True,
            "help": "how many heads of keys and values, each used by heads / kv_heads of queries",
        },
        "size": {
            "type": "whole",
            "default": "(x if x > 0 else q) / heads",
            "minimum": 1,
            "shapes": True,
            "help": "channels of a head",
        },
        "rotary": {"type": "number", "default": 0, "minimum": 0, "help": "base of rotary positions; 0: none"},
        "rotary_part": {
            "type": "number",
            "default": 1,
            "minimum": 0,
            "maximum": 1,
            "help": "share of a head that turns",
        },
        "rotary_pairs": {"type": "flag", "default": False, "help": "turn pairs of neighbours, not of halves"},
        "window": {"type": "whole", "default": 0, "minimum": 0, "help": "i sees i-window < j <= i; 0: all"},
        "qk_norm": {
            "type": "choice",
            "default": "none",
            "choices": ["none", "head", "full"],
            "shapes": True,
            "help": "norm of queries and keys: by the head, or of all heads at once",
        },
        "v_norm": {
            "type": "flag",
            "default": False,
            "shapes": True,
            "help": "norm of values, by the head unless qk_norm is full",
        },
        "cap": {
            "type": "number",
            "default": 0,
            "minimum": 0,
            "help": "scores become cap * tanh(scores / cap); 0: none",
        },
        "scale": {
            "type": "number",
            "default": "size ** -0.5",
            "minimum": 0,
            "help": "factor of the scores; 0: size ** -0.5",
        },
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether the four matrices have biases"},
        "dropout": {"type": "number", "default": 0, "minimum": 0, "maximum": 1, "help": "chance of dropping a weight"},
        "score": {"type": "definition", "default": "", "help": "definition over s, h, i, j that changes the scores"},
        "mask": {"type": "definition", "default": "", "help": "definition over i, j that says what is seen"},
    },
    parameters={
        "query.weight": "heads * size * (x if x > 0 else q)",
        "query.bias": "heads * size if bias else 0",
        "key.weight": "kv_heads * size * (k if k > 0 else memory if memory > 0 else x)",
        "key.bias": "kv_heads * size if bias else 0",
        "value.weight": "kv_heads * size * (v if v > 0 else memory if memory > 0 else x)",
        "value.bias": "kv_heads * size if bias else 0",
        "output.weight": "(x if x > 0 else q) * heads * size",
        "output.bias": "(x if x > 0 else q) if bias else 0",
    },
    checks={"heads % kv_heads == 0": "{heads} heads of queries cannot share {kv_heads} heads of keys"},
    inner={
        "query_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else heads * size",
        "key_norm": "0 if qk_norm == 'none' else size if qk_norm == 'head' else kv_heads * size",
        "value_norm": "0 if not v_norm else kv_heads * size if qk_norm == 'full' else size",
    },
    flops="4 * heads * size * (x if x > 0 else q) + 2 * kv_heads * size * "
    "((k if k > 0 else memory if memory > 0 else x) + (v if v > 0 else memory if memory > 0 else x)) "
    "+ 4 * heads * size * span",
    state="0 if memory > 0 else 2 * kv_heads * size",
    saved="x + memory + q + k + v + 2 * heads * size + 2 * kv_heads * size + heads",
    taps={"q": "heads * size", "k": "kv_heads * size", "v": "kv_heads * size", "scores": ""},
    equation="y = W_o softmax(scale q k^T) v, with q = W_q x, k = W_k x, v = W_v x, head by head",
    source="Vaswani et al. 2017; kv_heads: Ainslie et al., 2305.13245; qk_norm: 2302.05442; cap: Gemma 2, 2408.00118",
)
class Attention(Word):
    """To come."""


@word(
    "dot_attention",
    streams=("q", "k", "v"),
    ports=("scores",),
    kind="positions",
    width="v * q // k",
    reach="past",
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "help": "how many heads of queries"},
        "scale": {"type": "number", "default": "(q / heads) ** -0.5", "minimum": 0, "help": "factor of the scores"},
        "softmax": {
            "type": "flag",
            "default": True,
            "help": "whether the scores pass a softmax; else they are the weights",
        },
        "window": {"type": "whole", "default": 0, "minimum": 0, "help": "i sees i-window < j <= i; 0: all"},
        "cap": {
            "type": "number",
            "default": 0,
            "minimum": 0,
            "help": "scores become cap * tanh(scores / cap); 0: none",
        },
        "dropout": {"type": "number", "default": 0, "minimum": 0, "maximum": 1, "help": "chance of dropping a weight"},
        "score": {"type": "definition", "default": "", "help": "definition over s, h, i, j that changes the scores"},
        "mask": {"type": "definition", "default": "", "help": "definition over i, j that says what is seen"},
    },
    checks={
        "q % heads == 0": "the queries' width {q} does not divide into {heads} heads",
        "q % k == 0 and k * heads % q == 0": "keys of width {k} are not whole heads of size {q} / {heads}",
        "v * q % (k * heads) == 0": "values of width {v} do not divide among the heads of the keys",
    },
    flops="2 * (q + v * q // k) * span",
    state="k + v",
    saved="q + k + v + v * q // k + heads",
    taps={"scores": ""},
    equation="y = softmax(scale q k^T) v, head by head",
    source="Vaswani et al. 2017",
)
class DotAttention(Word):
    """To come."""
