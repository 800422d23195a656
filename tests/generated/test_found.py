"""Model files that once failed, as small as they could be made: what each showed stands beside it."""

from __future__ import annotations

import pytest

from tests.generated.examine import BUILT, REFUSED, examine

FOUND = [
    (
        "the backward pass of an RMS norm viewed a gradient as what its strides forbade",
        BUILT,
        """
causal: false
layer: x = x + rmsnorm(conv(x, length=1))
""",
    ),
    (
        "two sequences side by side, one of them a convolution's with a stride, were joined",
        REFUSED,
        """
layer: x = x + part(join(conv(x, length=2, stride=2), x), 1, 2)
""",
    ),
    (
        "keys of a sequence and values of one position were taken for one sequence",
        REFUSED,
        """
causal: false
layer: x = x + attention(x, x, pick(x, 1))
""",
    ),
    (
        "a sum over depth with the mean of all first was taken for one position, and attended to as such",
        BUILT,
        """
encoder:
  causal: false
  before: x = embed(source)
  layer: x = attend(mean(x), x[:])
decoder:
  before: x = embed.words(tokens) + positions(tokens)
  layer: x = x + attention(x, encoder)
""",
    ),
    (
        "a line of which only a tap is read was not counted",
        BUILT,
        """
words:
  w: |
    u = x
    z = 2 * u
layer: |
  h = 0.5 * w.l(gru(x))
  x = x + (h if layer == 2 else l.u)
""",
    ),
    (
        "explain offered the text itself as its relative",
        BUILT,
        """
causal: false
layer: |
  x = norm(x + norm(gate(norm(x, weight=False), size=8) * norm(x, weight=False)))
  x = collapse(expand(sqrt(width) / 3 * (x if not layer < 2 else x), 3))
""",
    ),
    (
        "a memory of one position, seen by all, was taken for the tokens' own past",
        BUILT,
        """
encoder:
  causal: false
  before: x = mean(embed(source))
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: x = x + attention(norm(x), encoder)
""",
    ),
    (
        "another sequence saw all tokens, and told each what follows it",
        REFUSED,
        """
encoder:
  causal: false
  before: x = embed(source)
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: x = x + attention(norm(x), attention(encoder, x))
""",
    ),
    (
        "what a convolution with a stride makes of the tokens to come was seen",
        REFUSED,
        """
layer: x = x + attention(x, conv(x, length=2, stride=2))
""",
    ),
    (
        "the mean of all tokens came back by a stack before, as a stream of no sequence",
        REFUSED,
        """
encoder:
  causal: false
  before: x = mean(embed(tokens))
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: x = x + encoder
""",
    ),
    (
        "values of another sequence, read by a tap, were taken for the queries' own",
        REFUSED,
        """
encoder:
  causal: false
  before: x = embed(source)
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: |
    x = x + attention.l(norm(x), encoder)
    x = x + l.v
""",
    ),
    (
        "values of another sequence, read by a tap, did not stand beside its keys",
        BUILT,
        """
encoder:
  causal: false
  before: x = embed(source)
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: |
    x = x + attention.l(norm(x), encoder)
    x = x + attention(x, encoder, l.v)
""",
    ),
    (
        "scores of other keys were added",
        REFUSED,
        """
encoder:
  causal: false
  before: x = embed(source)
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens)
  layer: |
    x = x + attention.l(norm(x), encoder)
    x = x + attention(x, scores=l.scores)
""",
    ),
    (
        "scores of all positions were added to those of one",
        REFUSED,
        """
causal: false
before: |
  x = embed.words(tokens)
  s = 0
layer: |
  x = x + attention.l(x, scores=s)
  s = l.scores
  x = pick(x, 1)
""",
    ),
    (
        "a table of distances of another number of rows was found at the first pass only, without a place",
        REFUSED,
        """
layer: x = x + attention(x, scores=relative(x, linear(learned(9), 8), span=4))
""",
    ),
    (
        "the norm of a coefficient was taken for a stream",
        REFUSED,
        """
layer: x = x + attention(norm(vector(1)))
""",
    ),
    (
        "an output without a sequence",
        REFUSED,
        """
layer: x = x + mlp(x)
after: x = norm(vector(1))
""",
    ),
    (
        "coefficients beside a stream were taken for coefficients",
        BUILT,
        """
layer: x = x + attention(part(join(vector(1), x), 2, 2))
""",
    ),
    (
        "a batch norm of coefficients",
        REFUSED,
        """
causal: false
layer: x = x + batchnorm(vector(1)) * mlp(x)
""",
    ),
    (
        "scores of a coefficient",
        REFUSED,
        """
layer: x = x + attention(x, scores=relative_bias(vector(1)))
""",
    ),
    (
        "padding of prompts divided by the 0 that a recurrence gave it, and a sum took that in",
        BUILT,
        """
layer: x = x + linear_attention(x / lstm(x)) + attention(x / gru(x))
""",
    ),
    (
        "a module shared by a number and another word's of that layer had one name",
        REFUSED,
        """
layer: x = x + (rmsnorm.l(x, share=2) if layer == 1 else mlp.l(x))
""",
    ),
    (
        "queries of one position that all see, of a recurrence",
        BUILT,
        """
causal: false
layer: x = x + scan(pick(x, n=1), x, x, -softplus(x))
""",
    ),
    (
        "one position beside others gave a recurrence wrong gradients without a word",
        BUILT,
        """
causal: false
layer: |
  h = linear(x, 2)
  x = x + selective_scan(pick(h, n=1), h, x, softplus(x), exp(vector(0, 16))) / 4
  x = x + selective_scan(h, h, x, softplus(pick(x, n=1)), exp(vector(0, 16))) / 4
""",
    ),
    (
        "one position beside others, of the delta rule",
        BUILT,
        """
causal: false
layer: x = x + delta(pick(x, n=1), l2norm(x, size=4), x, sigmoid(linear(mean(x), 2)))
""",
    ),
    (
        "one position beside others, of a convolution with kernels of a formula",
        BUILT,
        """
causal: false
layer: |
  x = x + dynamic_conv(maxpool(x), softmax(linear(x, 3), size=3), 3, heads=1)
  x = x + dynamic_conv(x, pick(linear(x, 3), n=1), 3, heads=1)
""",
    ),
    (
        "windows of an even side, beside padding: one more was real than the smaller grid has",
        BUILT,
        """
encoder:
  causal: false
  before: x = pool2d(embed.words(source) + positions(source), side=2, columns=2)
  layer: x = x + mlp(x)
decoder:
  before: x = embed.words(tokens) + positions(tokens)
  layer: x = x + attention(x, encoder)
""",
    ),
    (
        "one position placed in turn with those of a sequence",
        BUILT,
        """
causal: false
layer: |
  x = x + mean(depth_to_space(join(maxpool(x), x), 2, dimensions=1))
  x = x + window_attention(mean(x), x, x, side=1, columns=2)
""",
    ),
    (
        "a kernel that is a coefficient looked ahead in a causal stack",
        BUILT,
        """
layer: x = x + dynamic_conv(x, vector(0.5, size=3), 3, heads=1)
""",
    ),
    (
        "scores of 1e22, whose gradients are no numbers in torch's fused attention under a mask: not ours",
        BUILT,
        """
words:
  even(i, j): m = (i - j) % 2 == 0
  w0(x, y): |
      z = scalar(0) * (x + x) + y
encoder:
  before: |
    x = embed.words(source) + positions(source)
    r = (x + x)
  layer: |
    h0 = x
    h1 = scan(linear(attention(r, rotary=100), 8), x, x, -softplus((h0 + h0)))
    r = r + linear(dot(h1, (h1 + x[0])), 8)
    x = x + r
decoder:
  before: |
    x = embed.words(tokens) + positions(tokens)
    r = rotary(x, scale=0.1)
    s = 0
  layers:
    near: |
      h0 = linear_attention(r, size=2)
      h1 = ones((h0 + collapse(write(expand(h0, 2), h0, kind="hc"))))
      x = x + delta(x, l2norm(x, size=4), x, sigmoid(linear(x, 2)))
      x = x + lowrank(attention(linear(x, 12), encoder, mask=even), 2, 8)
      x = x + h1
    far: |
      x = norm(x + ((attend(r[:]) / (1 + abs(w0.l0(r, x))))))
  order: [near]
  after: |
    x = x + s
""",
    ),
    (
        "zeros that are brought to length 1 have gradients of 1e12, which cancel, and hide the digits of all others",
        BUILT,
        """
causal: false
before: x = embed.words(tokens) + positions(tokens)
layer: |
  h = (x[0] if layer % 2 == 0 else x) - x
  k = l2norm(h, size=4)
  x = x + clamp(delta(x, k, x, k, sigmoid(h) * k, -softplus(h)), -2, 2)
""",
    ),
]


@pytest.mark.parametrize(("what", "expected", "text"), FOUND, ids=[what for what, _, _ in FOUND])
def test_what_was_found(what: str, expected: str, text: str) -> None:
    numbers = "depth: 2\nwidth: 8\nheads: 2\nvocab: 11\ncontext: 12"
    assert examine(numbers + text) == expected
