"""Words that are checked, explained and counted, and not yet built: their records alone."""

from __future__ import annotations

from .word import word


@word(
    "patches",
    streams=("image",),
    numbers=("size",),
    kind="input",
    width="width",
    sequence="own",
    built=False,
    options={
        "size": {"type": "whole", "minimum": 1, "shapes": True, "help": "side of a patch, in pixels"},
        "channels": {"type": "whole", "default": 3, "minimum": 1, "shapes": True, "help": "colours of a pixel"},
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether b is there"},
    },
    parameters={"weight": "width * channels * size * size", "bias": "width if bias else 0"},
    flops="2 * width * channels * size * size",
    saved="channels * size * size",
    silent="unknown",
    equation="y_i = W patch_i + b",
    source="ViT: Dosovitskiy et al., 2010.11929",
)
def patches() -> None:
    """An image (batch, channels, height, width) as a sequence of flattened squares, each through one matrix."""


@word(
    "learned",
    streams=((),),
    numbers=("rows", "size"),
    kind="input",
    width="size",
    sequence="own",
    built=False,
    options={
        "rows": {"type": "whole", "minimum": 1, "shapes": True, "help": "how many positions"},
        "size": {"type": "whole", "default": "width", "minimum": 1, "shapes": True, "help": "width of the result"},
    },
    parameters={"weight": "rows * size"},
    silent="unknown",
    equation="y = a learned sequence",
)
def learned() -> None:
    """A learned sequence of `rows` vectors, from N(0, 0.02^2)."""


@word(
    "prepend",
    streams=("a", "b"),
    kind="input",
    width="a",
    sequence="own",
    equal=True,
    reach="past",
    built=False,
    silent="unknown",
    equation="y = the positions of a, then those of b",
)
def prepend() -> None:
    """Two sequences one after the other."""


@word(
    "relative",
    streams=("q", "table"),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    ordered=True,
    positional=True,
    built=False,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "help": "how many heads"},
        "span": {
            "type": "whole",
            "default": 0,
            "minimum": 0,
            "help": "furthest distance told apart; 0: the table's rows",
        },
        "by": {"type": "choice", "default": "query", "choices": ["query", "key"], "help": "whose content is compared"},
        "buckets": {"type": "flag", "default": False, "help": "distances in logarithmic buckets (DeBERTa v3)"},
    },
    checks={"q % heads == 0": "the width {q} does not divide into {heads} heads"},
    equal=True,
    flops="2 * q * span",
    silent="unknown",
    equation="s_ij = q_i . table[i - j], by key: s_ij = q_j . table[j - i]",
    source="Transformer-XL, 1901.02860; DeBERTa, 2006.03654",
)
def relative() -> None:
    """Scores of queries against a table of distances, head by head."""


@word(
    "relative_bias",
    streams=("x",),
    kind="scores",
    value="scores",
    width="1",
    reach="past",
    ordered=True,
    positional=True,
    built=False,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "shapes": True, "help": "how many heads"},
        "buckets": {
            "type": "whole",
            "default": 32,
            "minimum": 2,
            "shapes": True,
            "help": "how many distances told apart",
        },
        "reach": {"type": "whole", "default": 128, "minimum": 1, "help": "distance from which all share a bucket"},
    },
    parameters={"weight": "buckets * heads"},
    silent="unknown",
    equation="s_ij = B[bucket(i - j), head]",
    source="T5: Raffel et al., 1910.10683",
)
def relative_bias() -> None:
    """Scores that depend on the distance, in logarithmic buckets, and on the head; made once, given to every layer."""


@word(
    "conv",
    streams=("x",),
    numbers=("length", "size"),
    kind="positions",
    width="size",
    reach="past",
    back="length - 1",
    built=False,
    options={
        "length": {"type": "whole", "minimum": 1, "shapes": True, "help": "positions that the kernel spans"},
        "size": {"type": "whole", "default": "x", "minimum": 1, "shapes": True, "help": "width of the result"},
        "depthwise": {"type": "flag", "default": False, "shapes": True, "help": "each channel by itself"},
        "stride": {"type": "whole", "default": 1, "minimum": 1, "help": "every so many positions"},
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether b is there"},
    },
    parameters={"weight": "length * size * (1 if depthwise else x)", "bias": "size if bias else 0"},
    checks={"not depthwise or size == x": "depthwise keeps the width: size {size} is not {x}"},
    flops="2 * length * size * (1 if depthwise else x) / stride",
    saved="x",
    equation="y_i = sum over k of W_k x_(i - k) + b",
)
def conv() -> None:
    """A convolution along the positions: causal in a causal stack, centred elsewhere."""


@word(
    "rnn",
    streams=("x",),
    numbers=("size",),
    kind="positions",
    width="size",
    reach="past",
    ordered=True,
    built=False,
    options={"size": {"type": "whole", "default": "x", "minimum": 1, "shapes": True, "help": "width of the state"}},
    parameters={"input.weight": "size * x", "state.weight": "size * size", "bias": "size"},
    flops="2 * size * (x + size)",
    state="size / length",
    saved="x + size",
    equation="h_i = tanh(W x_i + U h_(i-1) + b)",
    source="Elman 1990",
)
def rnn() -> None:
    """A simple recurrent network."""


@word(
    "gru",
    streams=("x",),
    numbers=("size",),
    kind="positions",
    width="size",
    reach="past",
    ordered=True,
    built=False,
    options={"size": {"type": "whole", "default": "x", "minimum": 1, "shapes": True, "help": "width of the state"}},
    parameters={"input.weight": "3 * size * x", "state.weight": "3 * size * size", "bias": "3 * size"},
    flops="6 * size * (x + size)",
    state="size / length",
    saved="x + 5 * size",
    equation="h_i = (1 - z) n + z h_(i-1)",
    source="Cho et al., 1406.1078",
)
def gru() -> None:
    """A gated recurrent unit."""


@word(
    "lstm",
    streams=("x",),
    numbers=("size",),
    kind="positions",
    width="size",
    reach="past",
    ordered=True,
    built=False,
    options={"size": {"type": "whole", "default": "x", "minimum": 1, "shapes": True, "help": "width of the state"}},
    parameters={"input.weight": "4 * size * x", "state.weight": "4 * size * size", "bias": "4 * size"},
    flops="8 * size * (x + size)",
    state="2 * size / length",
    saved="x + 6 * size",
    equation="c_i = f c_(i-1) + i g, h_i = o tanh(c_i)",
    source="Hochreiter and Schmidhuber 1997",
)
def lstm() -> None:
    """Long short-term memory."""


@word(
    "linear_attention",
    streams=("x",),
    kind="positions",
    width="x",
    reach="past",
    built=False,
    options={
        "heads": {"type": "whole", "default": "heads", "minimum": 1, "shapes": True, "help": "how many heads"},
        "size": {"type": "whole", "default": "x / heads", "minimum": 1, "shapes": True, "help": "channels of a head"},
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether the four matrices have biases"},
    },
    parameters={
        "query.weight": "heads * size * x",
        "query.bias": "heads * size if bias else 0",
        "key.weight": "heads * size * x",
        "key.bias": "heads * size if bias else 0",
        "value.weight": "heads * size * x",
        "value.bias": "heads * size if bias else 0",
        "output.weight": "heads * size * x",
        "output.bias": "x if bias else 0",
    },
    flops="8 * heads * size * x + 4 * heads * size * size",
    state="heads * size * (size + 1) / length",
    saved="x + 4 * heads * size",
    equation="y_i = f(q_i) S_i / (f(q_i) z_i), S_i = S_(i-1) + f(k_i) v_i^T, f(x) = elu(x) + 1",
    source="Katharopoulos et al., 2006.16236",
)
def linear_attention() -> None:
    """Attention without a softmax, whose state does not grow."""


@word(
    "mean",
    streams=("x",),
    kind="positions",
    width="x",
    sequence="none",
    reach="all",
    built=False,
    saved="0",
    equation="y = mean of x over the positions",
)
def mean() -> None:
    """The mean of all real positions, (batch, 1, x), seen by all."""


@word(
    "pick",
    streams=("x",),
    numbers=("n",),
    kind="shape",
    width="x",
    sequence="none",
    reach="all",
    built=False,
    options={
        "n": {"type": "whole", "default": 0, "minimum": 0, "help": "which position, from 1; 0: as `at` says"},
        "at": {"type": "choice", "default": "", "choices": ["", "end"], "help": "the last real position"},
    },
    checks={
        "n > 0 or at == 'end'": 'it needs a position: pick(x, 1), or pick(x, at="end")',
        "n == 0 or at == ''": "it takes a position or at=, not both",
    },
    silent="same",
    equation="y = x_n",
)
def pick() -> None:
    """One position, (batch, 1, x), seen by all."""


@word(
    "batchnorm",
    streams=("x",),
    kind="norm",
    width="x",
    reach="all",
    built=False,
    options={
        "eps": {"type": "number", "default": 1e-5, "minimum": 0, "help": "added under the root"},
        "weight": {"type": "flag", "default": True, "shapes": True, "help": "whether w is there"},
        "bias": {"type": "flag", "default": True, "shapes": True, "help": "whether b is there"},
        "momentum": {"type": "number", "default": 0.1, "minimum": 0, "maximum": 1, "help": "of the running statistics"},
    },
    parameters={"weight": "x if weight else 0", "bias": "x if bias else 0"},
    saved="x",
    silent="unknown",
    equation="y = w (x - mean) / sqrt(variance + eps) + b, over batch and positions",
    source="Ioffe and Szegedy, 1502.03167",
)
def batchnorm() -> None:
    """Statistics of the batch in training, running ones in evaluation; every position sees all others."""


@word(
    "expand",
    streams=("x",),
    numbers=("n",),
    kind="streams",
    width="n * x",
    built=False,
    options={"n": {"type": "whole", "minimum": 1, "help": "how many streams"}},
    silent="same",
    equation="X = [x, ..., x]",
    source="Hyper-Connections, 2409.19606",
)
def expand() -> None:
    """n copies of a stream, side by side."""


@word(
    "read",
    streams=("X",),
    kind="streams",
    width="width",
    built=False,
    options={
        "kind": {"type": "choice", "default": "hc", "choices": ["hc", "mhc"], "help": "free weights, or positive ones"},
    },
    parameters={
        "norm.weight": "X",
        "static": "X // width",
        "dynamic.weight": "X // width * X",
        "scale": "1",
    },
    checks={"X % width == 0": "its {X} channels are not streams of width {width}; make them by expand(x, n)"},
    flops="2 * X + 2 * X // width * X",
    saved="2 * X",
    silent="unknown",
    equation="y = a(X) X, a weight for each stream",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880",
)
def read() -> None:
    """What a branch reads of n streams: their weighted sum."""


@word(
    "write",
    streams=("X", "y"),
    kind="streams",
    width="X",
    built=False,
    options={
        "kind": {"type": "choice", "default": "hc", "choices": ["hc", "mhc"], "help": "free, or doubly stochastic"},
        "steps": {"type": "whole", "default": 20, "minimum": 1, "help": "Sinkhorn's steps (mhc)"},
    },
    parameters={
        "norm.weight": "X",
        "mix": "(X // y) ** 2",
        "mix.weight": "(X // y) ** 2 * X",
        "gain": "X // y",
        "gain.weight": "X // y * X",
        "scale": "2",
    },
    checks={"X % y == 0": "its {X} channels are not streams of the branch's width {y}"},
    flops="2 * X * X // y * (1 + X // y) + 2 * X * X // y",
    saved="2 * X + y",
    silent="unknown",
    equation="X = A(X) X + b(X) y^T",
    source="Hyper-Connections, 2409.19606; mHC, 2512.24880",
)
def write() -> None:
    """Mixes n streams and adds a branch's result to each."""


@word(
    "collapse",
    streams=("X",),
    kind="streams",
    width="width",
    built=False,
    checks={"X % width == 0": "its {X} channels are not streams of width {width}; make them by expand(x, n)"},
    silent="unknown",
    equation="x = sum of the streams",
    source="Hyper-Connections, 2409.19606",
)
def collapse() -> None:
    """The sum of n streams."""
