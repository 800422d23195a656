"""What words state of themselves, held to the built modules: names and numbers of parameters, widths, states."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from typing import Any

import pytest
import torch
from torch.backends import mkldnn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.words.helpers import VOCABULARY, at, generator_for, make
from transformula.errors import InputError
from transformula.language.numbers import evaluate_text
from transformula.model.segment_memory import tensors_of
from transformula.words.attention import DotAttention
from transformula.words.grid import results
from transformula.words.scores import AttentionSettings
from transformula.words.word import word_class

X, Q = {"x": 32}, {"q": 32, "k": 16, "v": 24}
ATTENTIONS: list[dict[str, Any]] = [
    {},
    {"heads": 2, "kv_heads": 1, "size": 12, "bias": False},
    {"kv_heads": 2, "qk_norm": "head", "rotary": 10000, "rotary_part": 0.5},
    {"qk_norm": "full", "v_norm": True, "kv_heads": 2},
    {"v_norm": True, "cap": 5, "window": 3, "rotary": 100, "rotary_pairs": True},
    {"sinks": True, "rotary": 100, "rotary_scale": 2},
    {"output_bias": False, "key_bias": False, "width": 20},
    {"bias": False, "query_bias": True, "qk_norm": "head", "rotary": 100, "rotary_first": True},
]
NORMS: list[dict[str, Any]] = [
    {},
    {"size": 8},
    {"offset": 1},
    {"weight": False},
    {"bias": False},
    {"bias": True, "eps": 1e-3},
]
STREAMS: list[dict[str, Any]] = [{}, {"dynamic": False}]

CASES: list[tuple[str, dict[str, int], dict[str, Any]]] = [
    *[("attention", X, options) for options in ATTENTIONS],
    *[("attention", {"q": 32, "k": 20, "v": 16}, options) for options in ATTENTIONS],
    *[("attention", {"x": 32, "memory": 12}, options) for options in ATTENTIONS],
    ("dot_attention", {"q": 32, "k": 32, "v": 32}, {}),
    ("dot_attention", {"q": 32, "k": 32, "v": 64}, {"window": 4}),
    ("dot_attention", Q, {"softmax": False}),
    ("dot_attention", Q, {"sinks": True}),
    *[("mlp", X, o) for o in ({}, {"gated": True}, {"bias": False, "hidden": 7}, {"gated": True, "bias": False})],
    *[("mlp", X, {"activation": a}) for a in ("gelu_tanh", "relu", "silu", "quick_gelu")],
    *[("experts", X, {"n": 5, "hidden": 6, **o}) for o in ({}, {"gated": True, "shared": 2}, {"active": 4})],
    *[("experts", X, {"n": 3, "bias": False, **o}) for o in ({}, {"gated": True, "shared": 1}, {"active": 3})],
    *[("experts", {"x": 32, "weights": 5}, {"n": 5, "hidden": 6, **o}) for o in ({}, {"active": 2, "gated": True})],
    ("linear", X, {"size": 5}),
    ("linear", X, {"size": 5, "bias": False}),
    ("lowrank", X, {"rank": 3}),
    ("lowrank", X, {"rank": 3, "size": 6, "bias": True}),
    *[(name, X, options) for name in ("norm", "layernorm", "rmsnorm") for options in NORMS],
    *[(name, X, {}) for name in ("scalenorm", "l2norm", "dyt", "gate", "shift", "rotary")],
    ("l2norm", X, {"size": 8}),
    ("dyt", X, {"weight": False, "bias": False}),
    ("gate", X, {"size": 1, "bias": 0}),
    ("shift", X, {"n": 3}),
    ("rotary", X, {"heads": 1, "part": 0.25, "pairs": True}),
    ("gru_gate", {"x": 32, "y": 32}, {}),
    *[("embed", {"tokens": 1}, o) for o in ({}, {"rows": 2}, {"size": 8})],
    *[("pointer", {"x": 32, "memory": 12, "ids": 1}, o) for o in ({}, {"size": 8}, {"rows": 3})],
    *[("unembed", X, o) for o in ({}, {"bias": True}, {"rows": 3})],
    *[("positions", X, o) for o in ({}, {"rows": 30, "first": 2, "size": 8})],
    *[("sinusoids", X, o) for o in ({}, {"size": 7}, {"at": 3}, {"halves": True}, {"first": -3})],
    ("sinusoids", {}, {"rows": 9}),
    ("scalar", {}, {"init": 0.5}),
    ("vector", {}, {"init": 0.5}),
    ("vector", {}, {"init": 0.5, "size": 4, "stored": 0.1}),
    ("arange", {}, {"size": 5}),
    ("mix", {"entries": 32}, {}),
    ("mix", {"entries": 32}, {"dynamic": True}),
    ("mix", {"entries": 32}, {"dynamic": True, "hidden": 12}),
    ("attend", {"entries": 32}, {}),
    ("expand", X, {"n": 4}),
    ("collapse", {"X": 128}, {}),
    ("collapse", {"X": 60}, {"n": 5}),
    *[("read", {"X": 96}, {"kind": kind, **o}) for kind in ("hc", "mhc", "mhc_lite") for o in STREAMS],
    *[("write", {"X": 96, "y": 32}, {"kind": kind, **o}) for kind in ("hc", "mhc") for o in STREAMS],
    ("write", {"X": 96, "y": 32}, {"kind": "mhc_lite"}),
    *[("read", {"X": 32}, {"kind": "frac", "n": 4, **o}) for o in STREAMS],
    *[("write", {"X": 32, "y": 32}, {"kind": "frac", "n": 4, **o}) for o in STREAMS],
    ("read", {"X": 60}, {"n": 5, "first": 7}),
    ("write", {"X": 60, "y": 12}, {"kind": "mhc", "steps": 3, "eps": 1e-3}),
    ("part", X, {"i": 2, "n": 4}),
    *[("slice", X, {"first": 3, **o}) for o in ({}, {"size": 7})],
    ("join", {"a": 32, "b": 16}, {}),
    ("join", {"a": 32, "b": 16}, {"parts": 4}),
    ("repeat", X, {"n": 3}),
    ("repeat", X, {"n": 3, "each": True}),
    *[("dot", {"a": 32, "b": 32}, o) for o in ({}, {"size": 8})],
    ("dropout", X, {"p": 0.3}),
    ("droppath", X, {}),
    *[("conv", X, {"length": 3, **o}) for o in ({}, {"size": 12, "bias": False}, {"depthwise": True}, {"stride": 2})],
    ("conv", X, {"length": 1}),
    *[("conv", X, {"length": 3, "padding": "valid", **o}) for o in ({}, {"groups": 4}, {"stride": 2, "size": 12})],
    *[("conv2d", X, {"side": 3, "columns": 3, **o}) for o in ({}, {"size": 12, "stride": 2}, {"depthwise": True})],
    *[("conv2d", X, {"side": 2, "columns": 3, **o}) for o in ({"groups": 4}, {"dilation": 2, "padding": 2})],
    *[("pool2d", X, {"side": 3, "columns": 3, **o}) for o in ({}, {"kind": "max", "stride": 2})],
    *[("window_attention", {"q": 12, "k": 12, "v": 16}, {"side": 2, **o}) for o in ({}, {"shift": 1, "scale": 2})],
    ("grid_scores", {"table": 4}, {"side": 2}),
    ("grid_distances", {}, {"side": 2}),
    *[(name, X, options) for name in ("rnn", "gru", "lstm") for options in ({}, {"size": 12})],
    *[("linear_attention", X, o) for o in ({}, {"heads": 2, "size": 6, "bias": False})],
    *[("scan", {"x": 32, "decay": d}, {}) for d in (32, 4)],
    *[("scan", {"q": 12, "k": 12, "v": 16, "decay": d}, {"groups": g}) for d, g in ((4, 4), (4, 2), (12, 4), (24, 2))],
    ("scan", {"q": 12, "k": 12, "v": 16, "decay": 12, "bonus": 12}, {}),
    ("scan", {"q": 3, "k": 3, "v": 4, "decay": 12}, {"groups": 1}),
    ("selective_scan", {"q": 3, "k": 3, "v": 4, "step": 4, "rate": 12}, {}),
    ("delta", {"q": 8, "k": 8, "v": 12, "b": 4}, {}),
    ("delta", {"q": 8, "k": 8, "v": 12, "b": 4, "decay": 4}, {"groups": 2}),
    ("delta", {"q": 8, "k": 8, "v": 12, "b": 4, "decay": 16}, {"groups": 2}),
    ("delta", {"q": 8, "k": 8, "v": 12, "look": 8, "erase": 8, "decay": 4}, {}),
    ("delta", {"q": 8, "k": 8, "v": 12, "look": 8, "erase": 8, "decay": 8}, {}),
    ("mean", X, {}),
    ("maxpool", X, {}),
    ("join", {"a": 8, "b": 4, "c": 2, "d": 6}, {"parts": 2}),
    ("transitions", {"x": 5}, {}),
    *[("ngrams", {"tokens": 1}, {"n": 3, **o}) for o in ({"rows": 99}, {"rows": 7, "size": 5})],
    *[("spell", {"characters": 1}, o) for o in ({}, {"size": 7, "window": 4, "rows": 9, "channels": 5, "longest": 3})],
    *[("pick", X, o) for o in ({"n": 2}, {"at": "end"})],
    *[("groupnorm", X, {"groups": 4, **o}) for o in ({}, {"weight": False}, {"bias": False, "eps": 1e-3})],
    *[("frames", {"audio": 1}, o) for o in ({}, {"size": 3}, {"size": 4, "hop": 2})],
    *[("logmel", {"audio": 1}, {"size": 5, "frame": 8, "hop": 4, **o}) for o in ({}, {"rate": 8000, "dynamic": 2})],
    *[("values", {"series": n}, {"size": n}) for n in (1, 3)],
    *[("batchnorm", X, o) for o in ({}, {"weight": False}, {"bias": False, "eps": 1e-3, "momentum": 0.5})],
    *[("learned", {}, {"rows": 9, **o}) for o in ({}, {"size": 7})],
    *[("relative", {"q": 32, "table": 32}, o) for o in ({}, {"by": "key"}, {"span": 6, "buckets": True, "reach": 20})],
    *[("relative_bias", X, o) for o in ({}, {"buckets": 8, "reach": 20, "heads": 3})],
    *[("dot_scores", {"q": 32, "k": k}, o) for k in (32, 8) for o in ({}, {"scale": 2})],
    *[("sum_heads", {"s": 1, "w": 4}, o) for o in ({}, {"size": 2}, {"size": 4})],
    *[("mix_heads", {"s": 1}, o) for o in ({}, {"size": 6})],
    ("attention_weights", {"s": 1}, {}),
    *[("weighted_sum", {"s": 1, "v": v}, o) for v, o in ((32, {}), (10, {"kv_heads": 2}))],
    ("prepend", {"a": 32, "b": 32}, {}),
    *[("patches", {"image": 1}, {"size": 4, **o}) for o in ({}, {"bias": False}, {"width": 12})],
    ("patches", {"image": 1}, {"size": 7, "stride": 4, "padding": 2}),
    *[(f, X, {}) for f in "relu gelu gelu_tanh quick_gelu elu silu tanh sigmoid softplus softmax exp log sqrt".split()],
    *[(f, X, {}) for f in "abs sin cos running_sum channel_mean running_max channel_max stop_gradient".split()],
    ("softmax", X, {"size": 8}),
    *[("where", {"test": test, "a": 32, "b": b}, {}) for test, b in ((32, 32), (1, 32), (32, 1))],
    ("indicator", {"tokens": 1}, {"id": 1}),
    *[("dynamic_conv", {"x": 32, "w": w}, {"length": 3, **o}) for w, o in ((12, {}), (6, {"heads": 2}))],
    ("fourier", X, {}),
    ("clamp", X, {"low": 0.2, "high": 0.8}),
    *[("topk", {"x": 32, **by}, {"k": 3, **o}) for by in ({}, {"by": 32}) for o in ({}, {"size": 8})],
    *[(f, {"a": 32, "b": width}, {}) for f in ("min", "max") for width in (32, 1)],
    ("pad", X, {"size": 40}),
    *[("ones", X, o) for o in ({}, {"size": 7})],
    *[("pick", {"x": 32, "ids": 1}, {"id": 1, **o}) for o in ({}, {"at": "first"})],
    ("tail", X, {"first": 3}),
    *[("space_to_depth", X, {"n": 2, **o}) for o in ({}, {"dimensions": 1}, {"columns": 2})],
    ("masked_scatter", {"a": 32, "ids": 1, "b": 32}, {"id": 1}),
    *[("depth_to_space", X, {"n": 2, "columns": 3, **o}) for o in ({}, {"parts": "channel"})],
    ("depth_to_space", X, {"n": 4, "dimensions": 1}),
    *[("upsample", X, {"n": 2, "columns": 3, "kind": kind}) for kind in ("nearest", "bilinear")],
    ("upsample", X, {"to_rows": 5, "to_columns": 4, "columns": 3, "kind": "bilinear", "align_corners": True}),
]
IDS = [f"{name}-{'-'.join(widths)}-{n}" for n, (name, widths, _) in enumerate(CASES)]
BATCH, LENGTH, ENTRIES = 2, 6, 3
GRID = 16  # positions of the words that need a grid whose sides are even
OF_OTHER_LENGTHS = ("prepend", "tail", "space_to_depth", "depth_to_space")


def streams_of(
    name: str, widths: dict[str, int], dtype: torch.dtype = torch.float32, length: int = LENGTH
) -> list[Any]:
    """Random streams for a word."""
    if name in ("embed", "ngrams", "indicator"):
        return [torch.randint(2, (BATCH, length))]
    if name == "spell":
        return [torch.randint(9, (BATCH, length, 20))]
    if name == "pointer":
        memory = torch.randn(BATCH, length, widths["memory"], dtype=dtype)
        return [torch.randn(BATCH, length, widths["x"], dtype=dtype), memory, torch.randint(3, (BATCH, length))]
    if name == "masked_scatter":
        a, b = (torch.randn(BATCH, n, widths["a"], dtype=dtype) for n in (length, length // 2))
        return [a, torch.arange(length).repeat(BATCH, 1) % 2, b]
    if name in ("space_to_depth", "window_attention"):
        return [torch.randn(BATCH, GRID, width, dtype=dtype) for width in widths.values()]
    if name == "grid_scores":
        return [torch.randn(1, 9, widths["table"], dtype=dtype)]  # of a grid of 2 x 2
    if "ids" in widths:
        return [torch.randn(BATCH, length, widths["x"], dtype=dtype), torch.arange(length).repeat(BATCH, 1) % 2]
    if name == "patches":
        return [torch.rand(BATCH, 3, 8, 2 * length, dtype=dtype)]
    if "audio" in widths:
        return [torch.rand(BATCH, 4 * length, dtype=dtype) - 0.5]
    if "s" in widths:
        others = [torch.rand(BATCH, length, width, dtype=dtype) for stream, width in widths.items() if stream != "s"]
        return [torch.rand(BATCH, 4, length, length, dtype=dtype), *others]
    copies = ENTRIES if "entries" in widths else 1
    return [torch.rand(BATCH, length, w, dtype=dtype) + 0.1 for w in widths.values() for _ in range(copies)]


def built(name: str, widths: dict[str, int], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return make(name, widths, ENTRIES if "entries" in widths else 0, causal="memory" not in widths, **options)


def with_lengths(name: str, names: dict[str, Any], length: int) -> dict[str, Any]:
    """The names of an expression of costs, at a length: an option that is called so hides the sequence's."""
    hidden = {option: names[option] for option in VOCABULARY[name].options}
    return {**names, "span": length, "length": length, **hidden, "positions": length}


def test_every_built_word_is_here() -> None:
    own = {
        r.name for r in VOCABULARY.values() if r.built and r.module.startswith("transformula.")
    }  # others announce theirs
    assert {name for name, _, _ in CASES} == own


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_parameters_are_those_stated(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    module, names = built(name, widths, options)
    record = VOCABULARY[name]
    stated = {p: evaluate_text(text, names) for p, text in record.parameters.items()}
    for role, text in record.inner.items():
        if size := evaluate_text(text, names):
            stated |= {f"{role}.weight": size, f"{role}.bias": size}
    found = {n: p.numel() for n, p in module.named_parameters()} if isinstance(module, torch.nn.Module) else {}
    assert {n: c for n, c in stated.items() if c} == found


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_width_is_the_one_stated(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    module, names = built(name, widths, options)
    record = VOCABULARY[name]
    streams = streams_of(name, widths)
    result = module(*streams)
    if record.value == "scores":
        heads = names["size"] if "size" in names else names["heads"]
        length = names["side"] ** 2 if name == "grid_scores" else LENGTH
        assert result.shape in [(batch, heads, length, length) for batch in (1, BATCH)]
        return
    assert result.shape[-1] == evaluate_text(record.width, names)
    if record.value == "stream":
        lengths = {"mean": 1, "maxpool": 1, "pick": 1, "prepend": 2 * LENGTH}
        expected = lengths.get(name, GRID if name == "window_attention" else LENGTH)
        if record.real == "strided":
            first, step = (evaluate_text(text, names) for text in record.strided)
            expected = len(range(first, streams[0].shape[1], step))
        if record.real == "larger":
            n, dimensions, _, rows, columns = (evaluate_text(text, names) for text in record.strided)
            expected = rows * columns or LENGTH * n**dimensions
        if record.real == "grid":
            sides = LENGTH // names["columns"], names["columns"]
            options = {key: names[key] for key in ("stride", "padding", "dilation") if key in names}
            expected = math.prod(results(side, names["side"], **options) for side in sides)
        if not widths:
            expected = (2 * names["side"] - 1) ** 2 if name == "grid_distances" else names["rows"]
        assert result.dim() == 3 and result.shape[1] == expected


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_result_keeps_the_type(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        module, _ = built(name, widths, options)
        if isinstance(module, torch.nn.Module):
            module = module.to(dtype)
        result = module(*streams_of(name, widths, dtype))
        assert result.dtype == dtype and result.isfinite().all()


@pytest.mark.parametrize("low", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_it_learns_under_autocast(
    name: str, widths: dict[str, int], options: dict[str, Any], low: torch.dtype
) -> None:
    """On every CPU, whatever it has instructions for, a result is near that in float32, and gradients come back."""
    module, _ = built(name, widths, options)
    streams = [x.requires_grad_() if x.is_floating_point() else x for x in streams_of(name, widths)]
    with torch.autocast("cpu", low):
        result = module(*streams)
    if VOCABULARY[name].kind != "chance" and name != "experts":  # of two that are alike another expert may be chosen
        torch.testing.assert_close(result.float(), module(*streams), atol=0.05, rtol=0.1)
    if result.requires_grad:
        result.float().sum().backward()
        assert all(x.grad is None or x.grad.isfinite().all() for x in streams)


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_flops_are_those_stated(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    if options.get("window") or options.get("sinks"):
        return  # fewer products than the square that the counter sees; a key and a channel more
    module, names = built(name, widths, options)
    # PyTorch's own attention and LSTM on a CPU are not counted; by plain products they are
    plain = mkldnn.flags(enabled=False)  # type: ignore[no-untyped-call]
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), plain:
        module(*streams_of(name, widths))
    length = GRID if name == "window_attention" else LENGTH
    stated = evaluate_text(VOCABULARY[name].flops, with_lengths(name, names, length)) * BATCH * length
    assert counter.get_total_flops() == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_state_is_the_one_stated(name: str, widths: dict[str, int], options: dict[str, Any]) -> None:
    record = VOCABULARY[name]
    if record.reach != "past":
        return
    module, names = built(name, widths, options)
    if name in OF_OTHER_LENGTHS or names.get("stride", 1) > 1 or names.get("padding") == "valid":
        with pytest.raises(InputError, match="cannot be decoded step by step"):
            module.start(BATCH, 64, torch.float32, "cpu")
        return
    if "memory" in widths:
        return  # what is kept of another sequence does not grow with the past
    state = module.start(BATCH, 64, torch.float32, "cpu")
    streams = streams_of(name, widths, length=64)
    if name == "relative":
        streams[1] = streams[1][:, : names["span"] or None]
    module.step(*streams, state=state, at=at([0, 0]))
    kept = sum(t.numel() for _, t in tensors_of(state))
    assert kept == BATCH * 64 * evaluate_text(record.state, with_lengths(name, names, 64))


@pytest.mark.parametrize(("name", "widths", "options"), CASES, ids=IDS)
def test_modules_are_pickled_copied_and_made_on_meta(
    name: str, widths: dict[str, int], options: dict[str, Any]
) -> None:
    module, _ = built(name, widths, options)
    if not isinstance(module, torch.nn.Module):
        return
    streams = streams_of(name, widths)
    result = module(*streams)
    assert torch.equal(pickle.loads(pickle.dumps(module))(*streams), result)
    assert torch.equal(copy.deepcopy(module)(*streams), result)
    with torch.device("meta"):
        empty, _ = built(name, widths, options)
    assert all(p.is_meta for p in empty.parameters())
    assert empty.to_empty(device="cpu").load_state_dict(module.state_dict()).missing_keys == []
    assert torch.equal(empty(*streams), result)


def test_initial_values_do_not_depend_on_what_else_there_is() -> None:
    plain, _ = make("mlp", X)
    gated, _ = make("mlp", X, gated=True, bias=False)
    assert torch.equal(plain.up.weight, gated.up.weight)
    double, _ = make("mlp", X)
    double = double.double()
    double.initial_values(generator_for)
    assert torch.equal(double.up.weight.float(), plain.up.weight)


def test_a_matrix_starts_with_the_variance_of_the_default() -> None:
    module, _ = make("linear", {"x": 300}, size=400)
    assert module.weight.std().item() == pytest.approx((1 / 900) ** 0.5, rel=0.02)
    assert module.bias.abs().max() == 0


def test_defaults_of_the_constructors_are_those_of_the_records() -> None:
    for record in VOCABULARY.values():
        if not (record.built and record.options) or not record.module.startswith("transformula."):
            continue
        made = word_class(record)
        own = vars(made)
        called = made.function if "function" in own else made.layer if "layer" in own else made.__init__
        parameters = dict(inspect.signature(called).parameters)
        if "settings" in parameters:  # attention hands these on
            parameters |= inspect.signature(DotAttention.__init__).parameters
            parameters |= inspect.signature(AttentionSettings).parameters
        for option in record.options.values():
            if "options" in parameters and option.name not in parameters:
                continue  # all that are not named, which have no defaults of their own
            assert option.name in parameters, f"{record.name}: {option.name}"
            default = parameters[option.name].default
            literal = option.default is not None and (not isinstance(option.default, str) or option.type == "choice")
            if literal and default is not inspect.Parameter.empty:
                assert default == option.default, f"{record.name}: {option.name}"
