"""Attention with given scores, formulas over scores, masks, padding and another sequence: against loops by hand, step
by step, traced, on every path."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.words.helpers import FILE, at, make, random_weights
from transformula.errors import InputError
from transformula.language.context import read_definition
from transformula.language.score_binding import ScoreBinding
from transformula.language.source import Source
from transformula.model.second_level import SecondLevel
from transformula.words import scores as machinery
from transformula.words.word import select_rows

LENGTH, HEADS = 11, 4
TEXTS = {
    "alibi(s, h, i, j)": "s = s - 2 ** (-8 * h / heads) * (i - j)",
    "decay(s, h, i, j)": "s = s * (1 - 2 ** (-h)) ** (i - j)",
    "learned(s, h, i, j)": "s = s + table(h, min(i - j, 5))",
    "twice(s, h, i, j)": "d = i - j\ns = s * exp(table(h, min(d, 3))) + table((h - 1) // 2, d)",
    "kerple(s, h, i, j)": "s = s - exp(table(h, 1)) * log(1 + exp(table(h, 2)) * (i - j))",
    "inputs(s, h, i, j)": "s = s + h * (rank(j) - rank(i)) if document(i) == document(j) else s - 1",
    "soft(s, h)": "s = max(min(s, 2), -h)",
    "band(i, j)": "m = i - j < 4 and (i - j) % 3 != 1",
    "heads(h, i, j)": "m = i - j < 2 * h",
    "same(i, j)": "m = document(i) == document(j)",
    "strict(i, j)": "m = rank(j) < rank(i)",
}


def formula(name: str, causal: bool = True) -> Any:
    """The module of one of the definitions above, its tables random."""
    header = next(h for h in TEXTS if h.startswith(f"{name}("))
    definition = read_definition(header, Source(name, TEXTS[header]), 0)
    option = "score" if "(s" in header else "mask"
    bound = ScoreBinding(
        definition,
        option,
        heads=HEADS,
        numbers={**FILE, "context": 40},
        inputs={"document", "rank"},
        used=set(),
        causal=causal,
    ).formula()
    return random_weights(SecondLevel(bound).double())


def new_score(name: str, module: Any, s: Tensor, h: int, i: int, j: int, inputs: dict[str, Tensor], b: int) -> Tensor:
    """What the definitions above say, in Python."""
    document, rank = inputs["document"][b], inputs["rank"][b]
    match name:
        case "alibi":
            return s - 2 ** (-8 * h / HEADS) * (i - j)
        case "decay":
            return s * (1 - 2 ** (-h)) ** (i - j)
        case "learned":
            return s + module.table[h - 1, min(i - j, 5) - (0 if module.causal else -39)]
        case "twice":
            return s * module.table[h - 1, min(i - j, 3)].exp() + module.table_2[(h - 1) // 2, i - j]
        case "kerple":
            return s - module.table[h - 1, 0].exp() * torch.log(1 + module.table_2[h - 1, 0].exp() * (i - j))
        case "inputs":
            return s + h * float(rank[j] - rank[i]) if document[i] == document[j] else s - 1
        case "soft":
            return s.clamp(-h, 2)
    return s


def sees(name: str, h: int, i: int, j: int, inputs: dict[str, Tensor], b: int) -> bool:
    match name:
        case "band":
            return i - j < 4 and (i - j) % 3 != 1
        case "heads":
            return i - j < 2 * h
        case "same":
            return bool(inputs["document"][b, i] == inputs["document"][b, j])
        case "strict":
            return bool(inputs["rank"][b, j] < inputs["rank"][b, i])
    return True


def by_hand(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = True,
    window: int = 0,
    cap: float = 0,
    softmax: bool = True,
    score: str = "",
    mask: str = "",
    module: Any = None,
    scores: Tensor | None = None,
    real: Tensor | None = None,
    inputs: dict[str, Tensor] | None = None,
) -> Tensor:
    """Position by position, head by head: q (batch, length, 32), k (batch, keys, 32), v (batch, keys, 32)."""
    given: dict[str, Tensor] = inputs or {"document": torch.zeros(9, 99), "rank": torch.zeros(9, 99)}
    result = torch.zeros_like(q)
    for b in range(q.shape[0]):
        for n in range(HEADS):
            part = slice(8 * n, 8 * n + 8)
            for i in range(q.shape[1]):
                found: list[Tensor] = []
                values: list[Tensor] = []
                for j in range(k.shape[1]):
                    hidden = (causal and j > i) or (window and not i - window < j <= i)
                    if hidden or not sees(mask, n + 1, i, j, given, b) or (real is not None and not real[b, j]):
                        continue
                    s = q[b, i, part] @ k[b, j, part] / math.sqrt(8)
                    s = cap * torch.tanh(s / cap) if cap else s
                    if scores is not None:
                        s = s + scores.expand(q.shape[0], HEADS, -1, -1)[b, n, i, j]
                    found.append(new_score(score, module, s, n + 1, i, j, given, b))
                    values.append(v[b, j, part])
                if found:
                    weights = torch.softmax(torch.stack(found), 0) if softmax else torch.stack(found)
                    result[b, i, part] = weights @ torch.stack(values)
    return result


def streams(keys: int = LENGTH, batch: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(batch, n, 32, dtype=torch.float64, generator=generator) for n in (LENGTH, keys, keys))
    return q, k, v


def given(batch: int = 2, length: int = LENGTH) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    rank = torch.stack([torch.randperm(length, generator=generator) for _ in range(batch)])
    return {"document": torch.randint(2, (batch, length), generator=generator).sort(1)[0], "rank": rank}


def core(causal: bool = True, **options: Any) -> Any:
    """dot_attention with formulas by name."""
    for key in ("score", "mask"):
        if options.get(key):
            options[key] = formula(options[key], causal)
    module, _ = make("dot_attention", {"q": 32, "k": 32, "v": 32}, causal=causal, **options)
    return module.double()


def table_of(module: Any) -> Any:
    """The score formula of a word, for `by_hand`."""
    found = module._modules.get("score", module.settings.score)
    if found is not None:
        found.causal = module.settings.causal
    return found


CASES: list[dict[str, Any]] = [
    *[{"score": name} for name in ("alibi", "decay", "learned", "twice", "kerple", "inputs", "soft")],
    *[{"mask": name} for name in ("band", "heads", "same", "strict")],
    {"score": "alibi", "mask": "band"},
    {"score": "alibi", "mask": "strict", "window": 4},
    {"score": "learned", "mask": "same", "cap": 2},
    {"score": "decay", "softmax": False},
    {"score": "inputs", "mask": "strict", "softmax": False},
    {"score": "alibi", "window": 3},
    {"score": "decay", "window": 3, "cap": 1.5},
]
NAMES = ["-".join(f"{k}_{v}" for k, v in case.items()) for case in CASES]


def inputs_for(module: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those that the formulas of a word read."""
    formulas = [f for f in (table_of(module), module.settings.mask) if f is not None]
    return {name: inputs[name] for f in formulas for name in f.names}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("port", [False, True])
def test_equation(case: dict[str, Any], port: bool) -> None:
    module, (q, k, v), inputs = core(**case), streams(), given()
    scores = torch.randn(2, HEADS, LENGTH, LENGTH, dtype=torch.float64) if port else None
    plain = {key: value for key, value in case.items() if key != "score" and key != "mask"}
    told = {"score": case.get("score", ""), "mask": case.get("mask", ""), "module": table_of(module)}
    expected = by_hand(q, k, v, inputs=inputs, scores=scores, **plain, **told)
    passed = inputs_for(module, inputs)
    with torch.no_grad():
        torch.testing.assert_close(module(q, k, v, scores=scores, **passed), expected, atol=1e-12, rtol=1e-9)
        # with a tap the scores are a tensor; in evaluation and in training other paths are taken
        y, made = module(q, k, v, scores=scores, taps=("scores",), **passed)
        torch.testing.assert_close(y, expected, atol=1e-12, rtol=1e-9)
    assert made.shape == (2, HEADS, LENGTH, LENGTH) and made.isfinite().all()
    if port:
        one = module(q, k, v, scores=scores[:1, :1], **passed)  # type: ignore[index]
        more = module(q, k, v, scores=scores[:1, :1].expand(2, HEADS, -1, -1), **passed)  # type: ignore[index]
        torch.testing.assert_close(one, more, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_float32_training_is_the_same_function(case: dict[str, Any]) -> None:
    """Products on a CPU, where there are learned tables; gradients everywhere, and finite."""
    module, (q, k, v), inputs = core(**case), streams(), given()
    passed = inputs_for(module, inputs)
    along = torch.randn(2, LENGTH, 32, dtype=torch.float64)
    wide = [x.clone().requires_grad_() for x in (q, k, v)]
    result = module(*wide, **passed)
    wanted = torch.autograd.grad(result, [*wide, *module.parameters()], along)
    low = copy.deepcopy(module).float()
    narrow = [x.float().requires_grad_() for x in (q, k, v)]
    made = low(*narrow, **passed)
    torch.testing.assert_close(made.double(), result, atol=2e-5, rtol=2e-4)
    found = torch.autograd.grad(made, [*narrow, *low.parameters()], along.float())
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, atol=2e-4, rtol=2e-3)


@pytest.mark.parametrize("case", [{"score": "alibi"}, {"mask": "strict"}, {"score": "learned"}, {"score": "inputs"}])
def test_dropout_on_a_cpu_keeps_the_mean(case: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module, (q, k, v), inputs = core(**case, dropout=0.25).float().train(), streams(), given()
    passed = inputs_for(module, inputs)
    q, k, v = (x.float().requires_grad_() for x in (q, k, v))
    drawn = torch.stack([module(q, k, v, **passed).detach() for _ in range(600)])
    plain = module.eval()(q, k, v, **passed).detach()
    off = (drawn.mean(0) - plain).abs() / (drawn.std(0) / 600**0.5).clamp(min=1e-6)
    assert (off > 5).double().mean() < 0.01


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("port", [False, True])
def test_step_by_step(case: dict[str, Any], port: bool) -> None:
    module, (q, k, v), inputs = core(**case), streams(batch=3), given(3)
    scores = torch.randn(3, 1, LENGTH, LENGTH, dtype=torch.float64) if port else None
    passed = inputs_for(module, inputs)

    def chunk(begin: list[int], size: int, state: Any, new: list[int] | None, taps: tuple[str, ...] = ()) -> Any:
        """Each row's own positions; those past `new` hold anything."""
        end = max(begin) + size
        wanted = None
        if scores is not None:
            wanted = torch.randn(3, 1, size, end, dtype=torch.float64)
            for r in range(3):
                real, most = min(size, LENGTH - begin[r]), min(end, LENGTH)
                wanted[r, :, :real, :most] = scores[r, :, begin[r] : begin[r] + real, :most]
        rows = []
        for x in (q, k, v):
            part = torch.full((3, size, 32), 1e3, dtype=torch.float64)
            for r in range(3):
                real = size if new is None else new[r]
                part[r, :real] = x[r, begin[r] : begin[r] + real]
            rows.append(part)
        here: dict[str, Tensor] = {}
        for name, x in passed.items():
            here[name] = torch.full((3, size), 77)
            for r in range(3):
                real = size if new is None else new[r]
                here[name][r, :real] = x[r, begin[r] : begin[r] + real]
        with torch.inference_mode():
            return module.step(*rows, state=state, at=at(begin, new), scores=wanted, taps=taps, **here)

    with torch.no_grad():
        whole, tap = module(q, k, v, scores=scores, taps=("scores",), **passed)
    for sizes in ([1] * LENGTH, [LENGTH], [3, 1, 5, 2]):
        state, done = module.start(3, LENGTH, torch.float64, "cpu"), 0
        for size in sizes:
            made = chunk([done] * 3, size, state, None)
            torch.testing.assert_close(made, whole[:, done : done + size], atol=1e-11, rtol=1e-9)
            done += size
    state, lengths = module.start(3, LENGTH, torch.float64, "cpu"), [0, 0, 0]
    for new in ([3, 6, 1], [1, 1, 1], [2, 1, 3], [1, 1, 1]):
        size = max(new)
        made, seen = chunk(lengths, size, state, None if min(new) == size else new, ("scores",))
        assert seen.shape == (3, HEADS, size, max(lengths) + size)
        for r in range(3):
            here = slice(lengths[r], lengths[r] + new[r])
            torch.testing.assert_close(made[r, : new[r]], whole[r, here], atol=1e-11, rtol=1e-9)
            torch.testing.assert_close(
                seen[r, :, : new[r], : here.start + 1], tap[r, :, here, : here.start + 1], atol=1e-11, rtol=1e-9
            )
        lengths = [a + b for a, b in zip(lengths, new, strict=True)]
    # rows are dropped and copied; what formulas read of the past goes with them
    state = module.start(3, LENGTH, torch.float64, "cpu")
    chunk([0] * 3, 6, state, None)
    order = torch.tensor([2, 0, 2])
    state = module.reorder(state, order)
    q, k, v = (x[order] for x in (q, k, v))
    passed = {name: x[order] for name, x in passed.items()}
    scores = None if scores is None else scores[order]
    torch.testing.assert_close(chunk([6] * 3, 2, state, None), whole[order, 6:8], atol=1e-11, rtol=1e-9)


def test_inputs_are_kept_a_number_a_position() -> None:
    module, (q, k, v), inputs = core(score="inputs", mask="same"), streams(), given()
    state = module.start(2, LENGTH, torch.float64, "cpu")
    module.step(q, k, v, state=state, at=at([0, 0]), **inputs)
    assert sorted(state.inputs) == ["document", "rank"]
    tensors = [kept.tensor for kept in state.inputs.values()]
    assert all(tensor.shape == (2, 1, LENGTH, 1) and tensor.dtype == torch.int64 for tensor in tensors)
    select_rows(state, torch.tensor([1]))
    assert state.inputs["rank"].tensor.shape[0] == 1


MEMORY: list[dict[str, Any]] = [
    {},
    {"cap": 2},
    {"window": 4},
    {"mask": "heads"},
    {"mask": "strict"},
    {"score": "soft"},
    {"score": "alibi"},
    {"softmax": False},
]


@pytest.mark.parametrize("case", MEMORY, ids=[str(c) for c in MEMORY])
@pytest.mark.parametrize("keys", [5, LENGTH, 17])
@pytest.mark.parametrize("padded", [False, True])
def test_another_sequence(case: dict[str, Any], keys: int, padded: bool) -> None:
    """All of it is seen, but for padding; a query that sees nothing gets 0; step by step it is the same."""
    if case.get("mask") == "strict" and keys != LENGTH:
        return
    module, (q, k, v), inputs = core(causal=False, **case), streams(keys), given()
    real = torch.arange(keys) < torch.tensor([[3], [0]]) if padded else None
    k, v = (torch.where(real[..., None], x, 1e3) if real is not None else x for x in (k, v))
    passed = inputs_for(module, inputs)
    plain = {key: value for key, value in case.items() if key not in ("score", "mask")}
    told = {"score": case.get("score", ""), "mask": case.get("mask", ""), "module": table_of(module)}
    expected = by_hand(q, k, v, causal=False, real=real, inputs=inputs, **plain, **told)
    with torch.no_grad():
        torch.testing.assert_close(module(q, k, v, real=real, **passed), expected, atol=1e-11, rtol=1e-9)
    trained = [x.clone().requires_grad_() for x in (q, k, v)]
    torch.testing.assert_close(module(*trained, real=real, **passed), expected, atol=1e-11, rtol=1e-9)
    if case.get("mask") == "strict":
        return  # one input cannot be of the queries' positions and of all keys
    state, done = module.start(2, LENGTH, torch.float64, "cpu"), 0
    for size in (1, 4, 6):
        made = module.step(q[:, done : done + size], k, v, state=state, at=at([done] * 2), real=real, **passed)
        torch.testing.assert_close(made, expected[:, done : done + size], atol=1e-11, rtol=1e-9)
        done += size


@pytest.mark.parametrize("form", ["memory", "qkv"])
@pytest.mark.parametrize("options", [{}, {"rotary": 100, "kv_heads": 2}, {"qk_norm": "full", "v_norm": True}])
def test_attention_over_memory(form: str, options: dict[str, Any]) -> None:
    """As over its own sequence where that is the memory; keys and values are made at the first step and kept."""
    widths = {"x": 32, "memory": 12} if form == "memory" else {"q": 32, "k": 12, "v": 12}
    module, _ = make("attention", widths, causal=False, **options)
    module = random_weights(module.double())
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    memory = torch.randn(2, 9, 12, dtype=torch.float64)
    streams = [x, memory] if form == "memory" else [x, memory, memory]
    own, _ = make("attention", {"q": 32, "k": 12, "v": 12}, causal=False, **options)
    own.double().load_state_dict(module.state_dict())
    with torch.no_grad():
        whole, q, k, v, scores = module(*streams, taps=("q", "k", "v", "scores"))
        assert q.shape[1] == 7 and k.shape[1] == v.shape[1] == 9 and scores.shape == (2, 4, 7, 9)
        # the same length: the path of one sequence
        torch.testing.assert_close(own(x, memory[:, :7], memory[:, :7]), module(x, *(m[:, :7] for m in streams[1:])))
        state = module.start(2, 9, torch.float64, "cpu")
        made = [module.step(x[:, :3], *streams[1:], state=state, at=at([0, 0]))]
        broken = [torch.full_like(m, math.nan) for m in streams[1:]]
        made += [module.step(x[:, i : i + 1], *broken, state=state, at=at([i, i])) for i in range(3, 7)]
        torch.testing.assert_close(torch.cat(made, 1), whole, atol=1e-11, rtol=1e-9)
        rows = torch.tensor([1, 1, 0])
        state = module.reorder(state, rows)
        again = module.step(x[rows, 6:], *broken, state=state, at=at([6] * 3))
        torch.testing.assert_close(again, whole[rows, 6:], atol=1e-11, rtol=1e-9)


def test_rows_of_the_batch_and_one_for_all() -> None:
    """Learned queries, or a memory without rows of its own, serve every row; also when rows are copied."""
    module, _ = make("attention", {"x": 32, "memory": 32}, causal=False)
    one, many = torch.randn(1, 4, 32), torch.randn(3, 6, 32)
    torch.testing.assert_close(module(one, many), module(one.expand(3, -1, -1), many))
    torch.testing.assert_close(module(many, one), module(many, one.expand(3, -1, -1)))
    state = module.start(3, 6, torch.float32, "cpu")
    module.step(many[:, :2], one, state=state, at=at([0] * 3))
    state = module.reorder(state, torch.tensor([2, 2]))
    made = module.step(many[[2, 2], 2:], one, state=state, at=at([2, 2]))
    torch.testing.assert_close(made, module(many, one)[[2, 2], 2:])


def test_padding_in_a_stack_that_sees_the_future() -> None:
    module, _ = make("attention", {"x": 32}, causal=False, rotary=100)
    x, lengths = torch.randn(3, 8, 32), [8, 3, 5]
    real = torch.arange(8) < torch.tensor(lengths)[:, None]
    other = torch.where(real[..., None], x, torch.randn(3, 8, 32))
    made = module(x, real=real)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(made[row, :length], module(x[row : row + 1, :length])[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(made[real], module(other, real=real)[real])
    assert module(x, real=torch.zeros(3, 8, dtype=torch.bool)).isfinite().all()


def test_order_of_cap_scores_and_formula() -> None:
    """LANGUAGE: scale, cap, scores added, score formula, masks; the tap is of before masks."""
    module, (q, k, v) = core(score="decay", cap=1.5, scale=0.7), streams()
    added = torch.randn(1, HEADS, LENGTH, LENGTH, dtype=torch.float64)
    _, tap = module(q, k, v, scores=added, taps=("scores",))
    parts = [x.unflatten(2, (HEADS, 8)).transpose(1, 2) for x in (q, k)]
    s = 1.5 * torch.tanh(0.7 * parts[0] @ parts[1].mT / 1.5) + added
    h = torch.arange(1, HEADS + 1, dtype=torch.float64).view(-1, 1, 1)
    i, j = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    # what lies ahead is never seen: there the formula is evaluated at j = i
    torch.testing.assert_close(tap, s * (1 - 2**-h) ** (i - j).clamp(min=0))


@pytest.mark.slow
@pytest.mark.parametrize("score", ["alibi", "decay"])
def test_far_ahead_nothing_overflows(score: str) -> None:
    """The decay of what is never seen would be infinite: neither result nor gradient knows."""
    module, _ = make("dot_attention", {"q": 8, "k": 8, "v": 8}, heads=HEADS, score=formula(score), softmax=False)
    q = torch.randn(1, 3000, 8, requires_grad=True)
    result = module(q, q, q)
    result.sum().backward()
    assert result.isfinite().all() and q.grad is not None and q.grad.isfinite().all()


def test_tables_of_positions_are_made_once() -> None:
    machinery._SEEN.clear()
    modules = [core(score="alibi", mask="band") for _ in range(3)]
    q, k, v = streams()
    with torch.inference_mode():
        for module in modules:
            module(q, k, v)
            module(q[:, :7], k[:, :7], v[:, :7])
    assert len(machinery._SEEN) == 1
    modules[0](q.requires_grad_(), k, v).sum().backward()  # what was made in inference serves training
    assert len(machinery._SEEN) == 1
    core(score="alibi")(q, k, v)
    assert len(machinery._SEEN) == 2
    place = at([5, 5])
    for module in modules:
        state = module.start(2, LENGTH, torch.float64, "cpu")
        with torch.no_grad():
            module.step(q[:, :5], k[:, :5], v[:, :5], state=state, at=at([0, 0]))
            module.step(q[:, 5:6], k[:, 5:6], v[:, 5:6], state=state, at=place)
    assert len(place.kept) == 1  # the table of the formulas, one for all three


def test_past_the_end_of_a_table() -> None:
    module = core(score="twice")
    q = torch.randn(1, 41, 32, dtype=torch.float64)
    with pytest.raises(InputError, match="41 positions is longer than the table of its score formula reaches: 40"):
        module(q, q, q)
    core(score="learned")(q, q, q)  # its argument is within bounds


def test_tables_of_a_stack_that_sees_the_future_hold_both_sides() -> None:
    module, (q, k, v) = core(causal=False, score="learned"), streams()
    assert module.score.table.shape == (HEADS, 45)
    expected = by_hand(q, k, v, causal=False, score="learned", module=table_of(module))
    torch.testing.assert_close(module(q, k, v), expected, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("name", ["attention", "dot_attention"])
def test_tables_are_parameters_with_names(name: str) -> None:
    widths = {"x": 32} if name == "attention" else {"q": 32, "k": 32, "v": 32}
    module, _ = make(name, widths, score=formula("twice"), mask=formula("band"))
    own = {n: tuple(p.shape) for n, p in module.named_parameters() if n.startswith("score")}
    assert own == {"score.table": (HEADS, 4), "score.table_2": (2, 40)}
    assert module.score.table.abs().max() == 0  # as if it were not there
    plain, _ = make(name, widths, score=formula("alibi"), mask=formula("band"))
    assert not [n for n, _ in plain.named_parameters() if "score" in n]
    x = [torch.randn(2, 6, 32)] * len(widths)
    for one in (module.float(), plain.float()):
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert torch.equal(one(*x), other(*x))


class Around(torch.nn.Module):
    """A word with what it is given, for tracing."""

    def __init__(self, word: Any, **passed: Any) -> None:
        super().__init__()
        self.word, self.passed = word, passed

    def forward(self, *streams: Tensor) -> Tensor:
        cut = {n: x[:, : streams[0].shape[1]] if x.dim() == 2 else x for n, x in self.passed.items()}
        made: Tensor = self.word(*streams, **cut)
        return made


EACH_FORM = [CASES[0], {"real": True, "memory": True}]
OTHER_FORMS = [case for case in [*CASES, {"real": True}] if case not in EACH_FORM]
OTHER_FORMS = [pytest.param(case, marks=pytest.mark.slow) for case in OTHER_FORMS]


@pytest.mark.parametrize("case", [*EACH_FORM, *OTHER_FORMS], ids=str)
def test_one_graph(case: dict[str, Any]) -> None:
    """Compiled and exported, forward and backward; lengths may vary."""
    torch.compiler.reset()
    memory = case.get("memory", False)
    causal = "real" not in case
    options = {k: v for k, v in case.items() if k not in ("real", "scores", "memory")}
    module, inputs = core(causal=causal, **options), given(2, 40)
    passed: dict[str, Any] = inputs_for(module, inputs)
    if case.get("real"):
        passed["real"] = torch.arange(LENGTH) < torch.tensor([[4], [9]])
    if case.get("scores"):
        passed["scores"] = torch.randn(1, HEADS, LENGTH, LENGTH, dtype=torch.float64)
    around, found = Around(module, **passed), streams()
    if memory:
        found = (found[0][:, :6], *found[1:])
        around.passed = {"real": passed["real"]}
        around.forward = lambda *x: module(*x, real=passed["real"])  # type: ignore[method-assign]
    compiled = torch.compile(around, fullgraph=True, backend="aot_eager")
    compiled(*[x.clone().requires_grad_() for x in found]).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(compiled(*found), around(*found))
    if case.get("real") or case.get("scores"):
        return
    length = torch.export.Dim("length", min=2, max=30)
    with torch.no_grad():
        exported = torch.export.export(around, found, dynamic_shapes=((({1: length},) * 3),))
        longer = [torch.randn(2, 19, 32, dtype=torch.float64) for _ in range(3)]
        torch.testing.assert_close(exported.module()(*longer), around(*longer))


@pytest.mark.parametrize("case", [{"score": "alibi"}, {"score": "decay"}, {"score": "learned"}, {"mask": "same"}])
def test_low_precision(case: dict[str, Any]) -> None:
    """Positions are not rounded to bfloat16; under autocast too."""
    module, (q, k, v), inputs = core(**case), streams(), given()
    passed = inputs_for(module, inputs)
    expected = module(q, k, v, **passed)
    low = copy.deepcopy(module).bfloat16()
    made = low(*(x.bfloat16() for x in (q, k, v)), **passed)
    assert made.dtype == torch.bfloat16
    torch.testing.assert_close(made.double(), expected, atol=0.05, rtol=0.05)
    with torch.autocast("cpu", torch.bfloat16):
        made = module.float()(*(x.float().requires_grad_() for x in (q, k, v)), **passed)
        made.sum().backward()
    torch.testing.assert_close(made.double(), expected, atol=0.05, rtol=0.05)


def test_distances_are_exact_in_bfloat16() -> None:
    """Far along, neighbours differ by one: a position of 8 bits could not tell."""
    module = formula("alibi")
    grid = machinery.Grid(600, 600, True, 0, torch.device("cpu"))
    settings = machinery.AttentionSettings(1, score=module)
    made = machinery.seen_by(settings, machinery.NO_EXTRAS, grid, torch.bfloat16, True).bias
    assert made is not None and made.dtype == torch.bfloat16
    i, j = torch.arange(600)[:, None], torch.arange(600)
    wanted = -(2.0 ** (-8 * 1 / HEADS)) * (i - j).clamp(min=0)
    torch.testing.assert_close(made[0, 0].float(), wanted.bfloat16().float())


def test_realformers_scores_travel() -> None:
    """The tap of one attention is the port of the next: scores plus given scores."""
    one, other = core(), core()
    q, k, v = streams()
    _, first = one(q, k, v, taps=("scores",))
    y, second = other(k, q, v, scores=first, taps=("scores",))
    parts = [x.unflatten(2, (HEADS, 8)).transpose(1, 2) for x in (q, k)]
    product = parts[0] @ parts[1].mT / math.sqrt(8)
    torch.testing.assert_close(second, product + product.mT)
    torch.testing.assert_close(y, by_hand(k, q, v, scores=product))


def test_the_plain_path_makes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without formulas, scores and padding nothing of all this is touched."""

    def refuse(*given: Any, **named: Any) -> Any:
        raise AssertionError("the plain path came here")

    monkeypatch.setattr(machinery, "_with_bias", refuse)
    monkeypatch.setattr(machinery, "_with_scores", refuse)
    module, _ = make("attention", {"x": 32}, rotary=100, window=3)
    x = torch.randn(2, 9, 32)
    module(x)
    state = module.start(2, 9, torch.float32, "cpu")
    for i in range(9):
        module.step(x[:, i : i + 1], state=state, at=at([i, i]))
    across, _ = make("attention", {"x": 32, "memory": 32}, causal=False)
    across(x, x[:, :4])
