"""Texts that programs write are those of the model's own code, and what cannot be a program is left to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests.engine.test_kernels import rounded
from tests.invariants.harness import CAUSAL, built, every_day, fixed_inputs, fresh, inputs
from transformula import Model
from transformula.engine import build as kernels
from transformula.engine import machine as machines
from transformula.engine import quicken
from transformula.engine.packing import GROUP, Packing
from transformula.engine.recording import NoProgram
from transformula.errors import InputError
from transformula.generation.decoding import generate
from transformula.generation.settings import SamplingSettings
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.model import build as make_module
from transformula.model.transformer import evaluating
from transformula.words import vocabulary
from transformula.words.experts import Experts

PRE_NORM = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
SIZES = {"depth": 2, "width": 32, "heads": 2, "vocab": 19, "context": 64}
NEW = 40
MANY_KINDS = {
    "pre-norm", "gemma3", "hyper-connections", "value-residual", "mixtral", "t5", "mamba2", "mla", "yoco", "rwkv7",
}  # fmt: skip
"""Windows, streams, history, experts, recurrences, shared caches, another sequence."""


def module(formula: str = PRE_NORM, **more: Any) -> nn.Module:
    return Model(formula, **{**SIZES, **more}).module


def written(model: Any, rows: int = 2, **settings: Any) -> tuple[list[list[int]], Any]:
    """Greedy texts of prompts of unlike lengths, and the machine that wrote them; None: there was none."""
    prompts = [[1 + row, 2, 3][: 1 + row % 3] for row in range(rows)]
    texts = generate(model, prompts, SamplingSettings(**{"max_tokens": NEW, "temperature": 0.0, **settings}))
    _, idle = machines._MACHINES.get(model, ((), []))
    return texts, idle[-1] if idle else None


def prompts_of(name: str, limit: int | None) -> tuple[dict[str, Tensor], dict[str, Tensor], int]:
    """Inputs of an entry step by step and at the start, and how many positions there is room for."""
    given = {k: v.float() if v.is_floating_point() else v for k, v in inputs(name, length=10).items()}
    fixed = fixed_inputs(name, given)
    return {k: v for k, v in given.items() if k not in fixed}, fixed, min(48, limit or 48)


@pytest.mark.parametrize("name", every_day(CAUSAL, MANY_KINDS))
def test_every_wiring_writes_what_its_own_code_writes(name: str) -> None:
    """Greedy tokens of two rows, to the end of its positions; all steps but the last few by programs."""
    model = fresh(name, torch.float32)
    given, fixed, room = prompts_of(name, built(name).context_limit)
    view = evaluating(model)

    def texts() -> Tensor:
        decoding = view.start(2, room, **fixed)
        outputs = view.step(**{k: v[:, :3] for k, v in given.items()}, decoding=decoding)
        tokens = []
        while len(tokens) < room - 3:
            logits = outputs if isinstance(outputs, Tensor) else outputs["logits"]
            tokens.append(logits[:, -1].argmax(-1))
            others = {k: v[:, :1] for k, v in given.items() if k != "tokens"}
            outputs = view.step(tokens[-1][:, None], decoding, **others)
        return torch.stack(tokens)

    with torch.inference_mode():
        expected = texts()
        with quicken(model, view) as fast:
            assert torch.equal(texts(), expected)
    assert fast.machine is not None
    assert fast.machine.made > 0 and fast.machine.left.total() <= 3, fast.machine.left


def test_a_picture_among_the_tokens() -> None:
    """What has been placed is a part of the state; the steps after it are programs."""
    text = """
width: 16
heads: 2
depth: 1
vocab: 19
context: 64
side: {causal: false, depth: 1, before: "x = patches(image, 4)", layer: x = x + mlp(norm(x))}
decoder:
  before: x = masked_scatter(embed.words(tokens), tokens, side, 7) + positions(tokens)
  layer: x = x + attention(norm(x))
"""
    model = make_module(check(read_text(text), vocabulary()), seed=1)
    view, image = evaluating(model), torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))

    def texts() -> Tensor:
        decoding = view.start(2, 40, image=image)
        logits, tokens = view.step(torch.tensor([[7, 2, 7, 7, 7], [7, 7, 3, 7, 7]]), decoding), []
        while len(tokens) < 30:
            tokens.append(8 + logits[:, -1, 8:].argmax(-1))
            logits = view.step(tokens[-1][:, None], decoding)
        return torch.stack(tokens)

    with torch.inference_mode():
        expected = texts()
        with quicken(model, view) as fast:
            assert torch.equal(texts(), expected)
    assert fast.machine is not None and fast.machine.made > 0 and fast.machine.left.total() <= 3


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "top_k": 5}, {"repetition_penalty": 1.5}])
def test_rows_of_unlike_lengths_that_leave_one_by_one(settings: dict[str, Any]) -> None:
    model = module()
    prompts = [[1], [2, 3, 4], [5, 6], [7, 8, 9], [10]]

    def texts(engine: str) -> tuple[list[list[int]], list[tuple[int, int]]]:
        told: list[tuple[int, int]] = []
        asked = SamplingSettings(max_tokens=NEW, engine=engine, **{"temperature": 0.0, **settings})
        texts = generate(
            model, prompts, asked, finished=lambda row, text: len(text) > 6 * row,
            on_token=lambda row, token: told.append((row, token)),
        )  # fmt: skip
        return texts, sorted(told)

    assert texts("auto") == texts("torch")
    (machine,) = machines._MACHINES[model][1]
    assert machine.made > 0 and len(machine.programs) <= 4, "rows that are done stay until half of them are"


def test_a_program_serves_the_next_text_and_new_weights_get_new_ones() -> None:
    model = module()
    first, machine = written(model)
    (programs,) = [[*made] for made in machine.programs.values()]
    assert written(model) == (first, machine) and [*machine.programs.values()] == [programs]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    changed, other = written(model)
    assert other is not machine and changed == written(model, engine="torch")[0]


def test_no_program_is_kept_that_another_stands_for() -> None:
    """Prompts that become shorter: each begins before the program that there is, and a new one takes its place."""
    model = module(PRE_NORM.replace("norm(x))", "norm(x), rotary=10000)", 1))
    for length in (30, 20, 10, 5, 12, 25):
        generate(model, [[3] * length], SamplingSettings(max_tokens=20, temperature=0.0, engine="kernels"))
    _, idle = machines._MACHINES[model]
    assert idle[-1].made and all(len(programs) == 1 for programs in idle[-1].programs.values())
    firsts = [program.first for programs in idle[-1].programs.values() for program in programs]
    assert min(firsts) == 5


def test_a_text_does_not_depend_on_its_batch() -> None:
    model = module()
    together = written(model, 5, temperature=1.0)[0]
    alone = generate(model, [[1]], SamplingSettings(max_tokens=NEW))
    assert together[:1] == alone


def test_nothing_is_made_where_it_would_not_be_right_or_was_not_asked_for() -> None:
    model = module()
    assert written(model, engine="torch")[1] is None
    for other in (module().double(), module().bfloat16()):
        assert written(other)[1] is None
    watched = module()
    watched.layers["1"].register_forward_hook(lambda *given: None)
    assert written(watched)[1] is None


def said(machine: Any, reason: str) -> bool:
    """Whether steps were left to the model's own code for a reason."""
    return any(reason in why for why in machine.left)


class Reading(nn.Module):
    """Adds one where a number that it has computed is positive."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if bool((x[0, -1, 0] > 0).item()) else x


def test_what_reads_its_own_numbers_is_left_to_its_code() -> None:
    model = module()
    model.layers["1"].mlp = nn.Sequential(model.layers["1"].mlp, Reading())
    texts, machine = written(model)
    assert machine.made == 0 and said(machine, "depends on numbers that it has computed")
    assert texts == written(model, engine="torch")[0]


def test_a_mistake_in_making_a_program_costs_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformula.engine.lowering import Lowering
    from transformula.engine.views import NoKernel

    def mistaken(low: Lowering) -> None:
        raise NoKernel

    monkeypatch.setattr(Lowering, "leave", mistaken)
    model = module()
    texts, machine = written(model)
    assert machine.made == 0 and said(machine, "NoKernel")
    assert texts == written(model, engine="torch")[0]


def test_wrong_kernels_are_found_by_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformula.engine.lowering import Lowering

    monkeypatch.setattr(Lowering, "two", lambda low, name, out, x, y: low.function("copy", out, x))
    model = module()
    texts, machine = written(model)
    assert machine.made == 0 and said(machine, "other numbers")
    assert texts == written(model, engine="torch")[0]


def test_wrong_kernels_are_found_by_what_the_first_step_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of a step is made of the position before it alone: a mistake shows in the second."""
    from transformula.engine.lowering import Lowering

    model = module("x = x + mlp(norm(x))", after="x = shift(norm(x))")
    assert written(model)[1].made
    monkeypatch.setattr(Lowering, "two", lambda low, name, out, x, y: low.function("copy", out, x))
    texts, machine = written(module("x = x + mlp(norm(x))", after="x = shift(norm(x))"))
    assert machine.made == 0 and said(machine, "other numbers")
    assert texts == written(model, engine="torch")[0]


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setattr(kernels, "KERNELS", kernels.Kernels())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path


def test_without_a_compiler_a_text_is_the_same(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(no_library))
    monkeypatch.delenv("CXX", raising=False)
    model = module()
    texts, machine = written(model)
    assert machine.made == 0 and said(machine, "no C++ compiler")
    assert texts == written(model, engine="torch")[0]


def test_a_cache_that_cannot_be_written_costs_no_text(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (no_library / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(no_library / "file"))
    model = module()
    texts, machine = written(model)
    assert machine.made == 0 and said(machine, "cannot be kept or loaded")
    assert texts == written(model, engine="torch")[0]


def test_a_compiler_that_fails_is_told(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = no_library / "broken"
    broken.write_text("#!/bin/sh\necho a flag is unknown >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(NoProgram, match="a flag is unknown"):
        kernels.library(wait=True)
    assert not [*no_library.rglob("*.so")]


def test_a_text_is_written_while_the_kernels_are_compiled(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = no_library / "slow"
    slow.write_text('#!/bin/sh\ncase "$1" in --version) exit;; esac\nsleep 60\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    texts, machine = written(module())
    assert machine.made == 0 and said(machine, "are being compiled") and len(texts[0]) == NEW
    assert kernels.KERNELS.compiling is not None
    kernels.KERNELS.compiling.kill()


def test_two_threads_have_a_machine_each() -> None:
    model = module()
    expected = written(model, 3, engine="torch")[0]
    found: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(written(model, 3)[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def logits_of(model: nn.Module, mode: Any = nullcontext, **engine: str) -> Tensor:
    """The logits of a text that is read to its fifth token, and then step by step."""
    view, tokens = evaluating(model), torch.randint(19, (2, NEW), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode(), quicken(model, view, **engine) as fast, mode():
        decoding = view.start(2, NEW + 4)
        logits = [view.step(tokens[:, :5], decoding)]
        logits += [view.step(tokens[:, n : n + 1], decoding).clone() for n in range(5, NEW)]
        assert not fast.here or not fast.machine.left
    return torch.cat(logits, 1)


class Rounded(TorchFunctionMode):
    """Linear layers with both sides of their products rounded to bytes and back."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.nn.functional.linear and isinstance(args[1], nn.Parameter):
            x, matrix, *bias = args
            groups = []
            for group in x.split(GROUP, -1):
                most = group.abs().amax(-1, keepdim=True)
                groups.append((group * (127 / most)).round() * most / 127)
            numbers, scales = rounded(matrix)
            args = (torch.cat(groups, -1), numbers * scales[:, None], *bias)
        return function(*args, **(kwargs or {}))


def test_weights_of_one_byte_are_numbers_times_the_scale_of_their_row() -> None:
    """What is computed is what PyTorch computes of the rounded numbers, where a text is read and where it is written;
    of more columns than a group, and of rows that fill no panel."""
    model = module(width=80, output="logits = unembed(x)")
    made, expected = logits_of(model, weights="int8"), logits_of(model, Rounded, engine="torch")
    near = {"rtol": 0, "atol": 2e-3 * float(expected.abs().max())}
    torch.testing.assert_close(made, expected, **near)
    assert not torch.allclose(logits_of(model), expected, **near)


@pytest.mark.parametrize(
    "options", ["", ", weigh_input=True, renormalise=False", ", gated=True, bias=True", ", shared=1"], ids=str
)
def test_kernels_multiply_with_the_experts_that_each_row_chose(options: str) -> None:
    """In float32 and with weights of one byte, where a text is read and where it is written; PyTorch makes nothing."""
    model = module(f"x = x + attention(norm(x)); x = x + experts(norm(x), n=5, active=2, hidden=24{options})")
    expected = logits_of(model, engine="torch")
    torch.testing.assert_close(logits_of(model), expected, rtol=1e-4, atol=1e-5)
    bytes_ = logits_of(model, weights="int8")
    apart = (bytes_ - expected).abs().amax((0, 2))
    assert (apart > 1e-5).all() and apart.median() < 0.03 * expected.abs().max()
    texts, machine = written(model)
    assert texts == written(model, engine="torch")[0] and machine.made
    assert not any(program.code.callbacks for programs in machine.programs.values() for program in programs)
    packing, experts = Packing("int8", model), next(word for word in model.modules() if isinstance(word, Experts))
    assert packing.of(experts.router.weight) is None, "a rounded score may choose another expert"
    assert packing.of(experts.down.weight) is not None


def test_a_formula_is_the_router_of_experts() -> None:
    """What it chooses by is never rounded, and the texts are those of the model's own code."""
    router = "h = norm(x); w = topk(sigmoid(linear.router(h, 5)), 2)"
    model = module(f"x = x + attention(norm(x)); {router}; x = x + experts(h, n=5, active=2, hidden=24, weights=w)")
    expected = logits_of(model, engine="torch")
    torch.testing.assert_close(logits_of(model), expected, rtol=1e-4, atol=1e-5)
    bytes_ = logits_of(model, weights="int8")
    assert (bytes_ - expected).abs().amax((0, 2)).median() < 0.03 * expected.abs().max()
    assert written(model)[0] == written(model, engine="torch")[0]
    packing, parts = Packing("int8", model), dict(model.named_parameters())
    assert packing.of(parts["layers.1.router.weight"]) is None, "a rounded score may choose another expert"
    assert packing.of(parts["layers.1.experts.down.weight"]) is not None


def test_weights_that_nothing_multiplies_with_are_refused(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="float32 on a CPU.*weights=int8"):
        written(module().double(), weights="int8")
    with pytest.raises(ValidationError, match="leave engine at auto"):
        SamplingSettings(weights="int8", engine="torch")
    monkeypatch.setenv("PATH", str(no_library))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError, match="no C.. compiler.*leave out"):
        written(module(), weights="int8")


def test_kernels_that_are_asked_for_make_every_step_or_say_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = module()
    expected, _ = written(model, max_tokens=3, engine="torch")
    texts, machine = written(model, max_tokens=3, engine="kernels")
    assert texts == expected and machine.made == 2 and not machine.left
    _, machine = written(model, engine="auto")
    assert not machine.must
    with pytest.raises(InputError, match="kernels are for models in float32 on a CPU.*leave out engine=kernels"):
        written(module().double(), engine="kernels")
    model.layers["1"].mlp = nn.Sequential(model.layers["1"].mlp, Reading())
    with pytest.raises(InputError, match="engine=kernels: PyTorch would make a step .* computed .*leave it at auto"):
        written(model, engine="kernels")


def test_kernels_that_are_asked_for_need_a_compiler(no_library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(no_library))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError, match="kernels cannot be had: there is no C.. compiler.*leave out engine=kernels"):
        written(module(), engine="kernels")


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("settings", [{}, {"temperature": 0.8, "seed": 4}, {"weights": "int8"}], ids=str)
def test_guessed_tokens_go_by_programs(rows: int, settings: dict[str, Any]) -> None:
    model = module()
    expected, _ = written(model, rows, engine="kernels", **settings)
    texts, machine = written(model, rows, engine="kernels", speculate=4, **settings)
    assert texts == expected and not machine.left
    if not settings:  # what repeats itself is guessed
        assert {key[1] for key in machine.programs} == {1, 5}
