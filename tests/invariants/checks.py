"""The invariants, as functions of a model: each fails where the model breaks it.

The tests beside this file ask them of every gallery entry; `test_planted_defects.py` shows that each catches what it is
there for. `model` evaluates in float64, with random weights where nothing else is said; `given` are its inputs by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.invariants.harness import LENGTH, SMALL, close, joined, left_by, outputs, parts
from tests.references.plain import Parameters
from transformula.analysis.initial_scale import stream_scale_of, trace_layers

Given = Mapping[str, Tensor]
VOCAB = int(SMALL["vocab"])
LENGTHS = {"tokens": (4, 7, 2), "source": (9, 3, 5)}
"""How many positions of each row are real, where rows are padded."""


# (a) The size of the streams.


def gain(model: nn.Module, scale: float = 1.0) -> bool:
    """With silent branches every stream leaves every layer as large as the text alone predicts. Initial weights.

    Returns whether the text predicts it of all streams."""
    stack = model.architecture.main
    predicted, measured = trace_layers(stack, scale)[1], left_by(model, scale)
    assert len(predicted) == len(measured) == stack.depth
    known = True
    for number, (sizes, found) in enumerate(zip(predicted, measured, strict=True), 1):
        for stream, size in found.items():
            if sizes[stream] is None:
                known = False
            else:
                expected = pytest.approx(sizes[stream], rel=1e-4, abs=1e-12)
                assert size == expected, f"{stream} leaving layer {number}"
    return known


def keeps_its_size(model: nn.Module) -> None:
    """The text says of its own stream that it neither vanishes nor compounds: it leaves the last layer about as large
    as it entered the first, or, where norms stand on it, as it left the first of these."""
    one, two = (trace_layers(model.architecture.main, scale)[1] for scale in (1.0, 2.0))
    for name in ("x", "h"):
        if all(name in sizes for sizes in one):
            found = stream_scale_of(name, [sizes[name] for sizes in one], [sizes[name] for sizes in two], "")
            assert found.kind != "zero" and 0.5 <= (found.growth or 1) <= 2, f"{name}: {found}"


# (b) Who sees what.


def marked(model: nn.Module) -> set[int]:
    """The ids in whose places `masked_scatter` puts another sequence: a row has one for each of its positions."""
    calls = [v.called for s in model.architecture.sections() for v in s.calls()]
    return {int(call.options["id"]) for call in calls if call.word.name == "masked_scatter"}


def other_ids(model: nn.Module, ids: Tensor, by: Tensor | int) -> Tensor:
    """Other ids, none of which is marked, in the places of those that are not."""
    made = (ids + by) % VOCAB
    for marker in marked(model):
        made = torch.where(made == marker, 0, made)
        made = torch.where(ids == marker, ids, made)
    return made



def last_token(model: nn.Module, given: Given) -> None:
    """Another last token, at random, changes nothing before it; the first tokens alone give what they give in all."""
    one = given["tokens"]
    # a constant added to a stream would be invisible to a LayerNorm
    changes = torch.tensor([1, 5, 8, 13]).repeat(len(one))[: len(one), None]
    other = {**given, "tokens": torch.cat([one[:, :-1], other_ids(model, one[:, -1:], changes)], 1)}
    # how many rows an expert's product has depends on all positions, and on that how it is rounded
    exactly = not any(v.call.word.active for s in model.architecture.sections() for v in s.calls())
    with torch.no_grad():
        before, after = joined(model(**given)), joined(model(**other))
        if exactly:
            assert torch.equal(before[:, :-1], after[:, :-1]), "the last token is seen before it"
        else:
            close(before[:, :-1], after[:, :-1], 1e-12)
        assert (before[:, -1] - after[:, -1]).abs().amax(-1).min() > 1e-6, "the last token is read"
        placed = max((int((one == marker).sum(1).max()) for marker in marked(model)), default=1)
        for length in range(placed, one.shape[1]):
            first = joined(model(**fixed(model, given), **piece(model, given, 0, length)))
            assert torch.allclose(first, before[:, :length], rtol=1e-9, atol=1e-11), f"the first {length} tokens alone"


def rows_alone(model: nn.Module, given: Given) -> None:
    """Rows of a batch do not see each other."""
    with torch.no_grad():
        together = outputs(model(**given))
        for row in range(len(next(iter(given.values())))):
            single = outputs(model(**{key: value[row : row + 1] for key, value in given.items()}))
            for one, all_rows in zip(single, together, strict=True):
                assert torch.allclose(one[0], all_rows[row], rtol=1e-9, atol=1e-11), f"row {row}"


def past_is_read(model: nn.Module, given: Given) -> None:
    """Every position depends on the first, through windows too if there are layers enough; in one document."""
    one, given = given["tokens"], {k: v * 0 if k == "document" else v for k, v in given.items()}
    other = {**given, "tokens": torch.cat([(one[:, :1] + 7) % VOCAB, one[:, 1:]], 1)}
    if marked(model):  # the first token is a position of the image
        other = {**given, "image": given["image"] + 1}
    with torch.no_grad():
        assert ((joined(model(**given)) - joined(model(**other))).abs().amax(-1) > 1e-9).all(), (
            "the first token is not read by all"
        )


# (c) The equation.


def equation(model: nn.Module, by_hand: Callable[..., Any], given: Given, tolerance: float = 1e-9) -> None:
    """The model is its equation by hand, and has no parameter that the equation lacks."""
    parameters = Parameters({key: value.double() for key, value in model.state_dict().items()})
    alone = given["tokens"] if set(given) == {"tokens"} else given
    with torch.no_grad():
        like = next(model.parameters()).dtype
        inputs = {key: value.to(like) if value.is_floating_point() else value for key, value in given.items()}
        made = model(**inputs)
        try:
            expected = by_hand(parameters, alone, model.architecture.numbers)
        except KeyError as missing:
            raise AssertionError(f"the equation has a parameter that the model lacks: {missing}") from None
        for one, other in zip(outputs(made), outputs(expected), strict=True):
            close(one.double(), other, tolerance)
    assert not parameters.unread(), "parameters that the equation does not have"


# (d) Decoding.


def fixed(model: nn.Module, given: Given) -> dict[str, Tensor]:
    """The inputs that decoding is given at its start."""
    return {key: given[key] for key in model.given_at_start}


def piece(model: nn.Module, given: Given, begin: int, end: int) -> dict[str, Tensor]:
    """Positions begin to end of the inputs that it is given step by step."""
    return {key: value[:, begin:end] for key, value in given.items() if key not in model.given_at_start}


def steps(model: nn.Module, given: Given) -> None:
    """Single steps and chunks are one pass over the whole."""
    batch, length = given["tokens"].shape
    with torch.no_grad():
        whole = joined(model(**given))
        for sizes in (itertools.repeat(1), iter((3, 1, 2, 1)), iter((5, 2))):
            decoding = model.start(batch, length, **fixed(model, given))
            pieces = [piece(model, given, begin, end) for begin, end in parts(length, sizes)]
            close(torch.cat([joined(model.step(decoding=decoding, **p)) for p in pieces], 1), whole)


def prompts(model: nn.Module, given: Given) -> None:
    """Three prompts of different lengths in one batch, padded on the right with ids that mean something; then single
    steps; then rows that are dropped and copied."""
    growing = piece(model, given, 0, LENGTH)
    lengths = torch.tensor([2, 5, 3])
    with torch.no_grad():
        whole = joined(model(**given))
        decoding = model.start(3, LENGTH, **fixed(model, given))
        real = torch.arange(5) < lengths[:, None]
        padded = {key: torch.where(real, ids[:, :5], ids[:, :5].flip(1)) for key, ids in growing.items()}
        first = joined(model.step(decoding=decoding, new=lengths, **padded))
        again = model.start(3, LENGTH, **fixed(model, given))
        ends = joined(model.step(decoding=again, new=lengths, last=True, **padded))
        for row, length in enumerate(lengths.tolist()):
            close(first[row, :length], whole[row, :length])
            close(ends[row, -1 if ends.shape[1] == 1 else length - 1], whole[row, length - 1])
        now = lengths.clone()

        def following(rows: list[int]) -> dict[str, Tensor]:
            return {k: torch.stack([ids[r, now[r] : now[r] + 1] for r in rows]) for k, ids in growing.items()}

        for _ in range(2):
            made = joined(model.step(decoding=decoding, **following([0, 1, 2])))
            for row, at in enumerate(now.tolist()):
                close(made[row], whole[row, at : at + 1])
            now = now + 1
        kept = torch.tensor([2, 0, 2])
        decoding.select(kept)
        made = joined(model.step(decoding=decoding, **following(kept.tolist())))
        for place, row in enumerate(kept.tolist()):
            close(made[place], whole[row, now[row] : now[row] + 1])


def rows_that_come_and_go(model: nn.Module, given: Given) -> None:
    """Rows of a batch that begin at different times: what each gives is what it gives alone. Three rows; two places, of
    which one is free before, and is taken again when its row has left. Not of models that are given other sequences."""
    growing = piece(model, given, 0, LENGTH)

    def read(row: int, count: int) -> Any:
        alone = model.start(1, LENGTH)
        model.step(decoding=alone, **{key: ids[row : row + 1, :count] for key, ids in growing.items()})
        return alone

    with torch.no_grad():
        whole = joined(model(**given))
        running, now = model.start(2, LENGTH), {0: 0, 1: 0}
        running.set_apart(True)
        of_place: dict[int, int] = {}
        for place, row, count in ((1, 0, 4), (0, 1, 2), (1, 2, 3), (0, 0, 5)):
            if place in of_place:
                running.free([place])
            running.put([place], read(row, count), [0])
            of_place[place], now[place] = row, count
            rows = [(of_place.get(each, 0), now[each]) for each in range(2)]
            chunk = {key: torch.stack([ids[row, at : at + 1] for row, at in rows]) for key, ids in growing.items()}
            made = joined(model.step(decoding=running, **chunk))
            for each, (row, at) in enumerate(rows):
                if each in of_place:
                    close(made[each, 0], whole[row, at])
                now[each] += each in of_place


# (e) Padding.


def lengths_of(given: Given) -> dict[str, Tensor]:
    """How many positions of each row of those inputs that can be padded are real."""
    return {key: torch.tensor(LENGTHS[key]) for key in ("source", "tokens") if key in given}


def cut(key: str, value: Tensor, row: int) -> Tensor:
    """One row of an input without its padding."""
    of = "tokens" if key in ("types", "targets", "document", "rank") else key
    return value[row : row + 1, : LENGTHS[of][row]] if of in LENGTHS else value[row : row + 1]


def padding(model: nn.Module, given: Given) -> None:
    """A row beside longer ones gives what it gives alone. Three rows."""
    with torch.no_grad():
        together = outputs(model(**given, lengths=lengths_of(given)))
        for row in range(3):
            alone = outputs(model(**{key: cut(key, value, row) for key, value in given.items()}))
            for one, all_rows in zip(alone, together, strict=True):
                close(all_rows[row, : one.shape[1]], one[0])


def padding_unread(model: nn.Module, given: Given) -> None:
    """What lies in the padding changes nothing. Three rows."""
    lengths, other = lengths_of(given), dict(given)
    for key, length in lengths.items():
        real = torch.arange(given[key].shape[1]) < length[:, None]
        other[key] = torch.where(real, given[key], other_ids(model, given[key], 5))
    with torch.no_grad():
        before, after = outputs(model(**given, lengths=lengths)), outputs(model(**other, lengths=lengths))
        real_of = {given[key].shape[1]: LENGTHS[key] for key in lengths}  # by the length of what an output stands for
        for one, two in zip(before, after, strict=True):
            for row in range(3):
                last = real_of[one.shape[1]][row] if one.shape[1] in real_of else one.shape[1]
                close(one[row, :last], two[row, :last])


# (f) Chance.


class Draws(TorchDispatchMode):
    """Counts the operations that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # attention is announced as random though without dropout it is not; with dropout it is made of several
        attention = "scaled_dot_product" in function.name()
        self.count += torch.Tag.nondeterministic_seeded in function.tags and not attention
        return function(*args, **(kwargs or {}))


def chance(model: nn.Module, given: Given) -> None:
    """Training draws random numbers once for each call of chance in the text, and each dropout of attention's weights;
    evaluation draws none."""
    calls = [v.call for s in model.architecture.sections() for v in s.calls()]
    wanted = sum(bool(c.options.get("p" if c.word.kind == "chance" else "dropout", 0)) for c in calls)
    with torch.no_grad():
        with Draws() as drawn:
            model.eval()(**given)
        assert not drawn.count, "evaluation draws random numbers"
        try:
            with Draws() as drawn:
                model.train()(**given)
        finally:
            model.eval()
    assert drawn.count == wanted, f"training draws {drawn.count} times, the text says {wanted}"
