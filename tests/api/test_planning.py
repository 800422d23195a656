"""Plans of runs: published runs, invariants of memory and time, every number that is stated is read, errors."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from transformula import Model, plan, summary
from transformula.analysis.planning.assumptions import NOT_NONE, Assumptions
from transformula.analysis.planning.devices import Device, device, devices
from transformula.analysis.planning.estimate import LayoutEstimate, StepTime, estimate
from transformula.analysis.planning.planned import PlannedRun
from transformula.analysis.planning.setting import ParallelLayout, PlannedSetting, amount
from transformula.analysis.planning.work import ModelWork, work_of
from transformula.analysis.tensor_plan import tensor_plan
from transformula.api.planning import compare_published
from transformula.api.reading import check_model
from transformula.cli import main
from transformula.errors import InputError, UnknownName
from transformula.training.optimizers import keeps_of

SMALL: dict[str, Any] = {"tokens": "1B", "gpu": "h100", "gpus": 8, "vocab": 50304}
FSDP = ParallelLayout("fsdp", 1, 16, 2, 2, "half")


@pytest.fixture(scope="module")
def work() -> ModelWork:
    return work_of(check_model("gpt2", {"dropout": 0}), 1024)


@pytest.fixture(scope="module")
def setting(work: ModelWork) -> PlannedSetting:
    given: dict[str, Any] = {"gpus": 16, "node": 8, "tokens": 1e9, "batch_tokens": 65_536, "optimizer": "adamw"}
    return PlannedSetting(work, device("h100"), **given, keeps=keeps_of("adamw"))


@pytest.mark.parametrize("row", compare_published(), ids=lambda row: f"{row['run'].name}, {row['what']}")
def test_plans_agree_with_published_runs(row: dict[str, Any]) -> None:
    """Within 25 %, and as a plan that fits on the devices where the run was."""
    assert abs(row["planned"] / row["published"] - 1) < 0.25
    assert row["run"].source and row["plan"].chosen.layout.micro_batch == row["run"].settings["micro_batch"]


@pytest.mark.parametrize(
    "model, sizes",
    [("gpt2", {}), ("llama", {}), ("gpt2", {"depth": 48, "width": 1600, "heads": 25}), ("mixtral", {}), ("mamba2", {})],
)
def test_the_work_is_that_of_the_accounting(model: str, sizes: dict[str, int]) -> None:
    found = work_of(check_model(model, sizes), 512)
    totals = summary(model, length=512, **sizes).data["totals"]
    assert found.parameters == totals["parameters"]
    assert found.flops == pytest.approx(totals["flops_per_token"])
    products = sum(n * (part.scores + sum(2 * a * b for a, b in part.matrices)) for part, n in found.parts)
    assert products == pytest.approx(totals["flops_forward"])
    kept = found.kept(layer=True) + found.kept(layer=False)
    assert kept * 512 * 4 == pytest.approx(totals["activation_bytes"], rel=1e-6)


@pytest.mark.parametrize("model, length", [("gpt2", 256), ("llama", 512)])
def test_kept_numbers_are_those_of_a_step_that_is_followed(model: str, length: int) -> None:
    """A step on tensors without numbers keeps as many bytes as the plan says, layers and what is outside them."""
    import torch

    from transformula.model import build
    from transformula.training.memory import memory_of
    from transformula.training.settings import TrainingSettings

    for depth in (1, 2):
        small = check_model(model, {"depth": depth, "dropout": 0} if model == "gpt2" else {"depth": depth})
        with torch.device("meta"):
            module = build(small, seed=0)
        followed = memory_of(module, 1, length, TrainingSettings(precision="bf16"), device="cuda")
        sizes: dict[str, Any] = {"gpus": 1, "node": 8, "tokens": 1e9, "batch_tokens": length, "keeps": keeps_of("muon")}
        setting = PlannedSetting(work_of(small, length), device("h100"), **sizes, compiled=False)
        ours = estimate(setting, ParallelLayout("none", 1, 1, 1, 1, "none")).memory
        assert ours.activations == pytest.approx(followed.activations, rel=0.02)
        assert ours.masters == followed.at.masters and ours.weights == followed.at.weights
        assert ours.optimizer == pytest.approx(followed.at.optimizer, rel=0.01)


def test_parts_sum_to_the_whole(setting: PlannedSetting) -> None:
    found = estimate(setting, FSDP)
    parts = found.parts
    assert sum(size for name, size in parts.items() if name != "total") == pytest.approx(parts["total"], rel=1e-6)
    times = found.time.data
    shown = sum(size for name, size in times.items() if name not in ("total", "hidden"))
    assert shown == pytest.approx(times["total"])
    assert all(size >= 0 for size in (*parts.values(), *times.values()))
    assert sum(found.memory.data.values()) == parts["total"]
    assert {field.name for field in fields(StepTime)} - {"teacher"} | {"total"} == set(times)  # it has no teacher


def test_more_devices_never_take_more_memory_of_a_rank_under_fsdp(setting: PlannedSetting) -> None:
    sizes = [estimate(setting, replace(FSDP, data=data)).memory.total for data in (2, 4, 8, 16, 64, 1024)]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    copies = estimate(setting, replace(FSDP, parallel="ddp")).memory
    assert copies.masters == 4 * setting.work.parameters and copies.total > sizes[0]


def test_recomputation_takes_time_and_saves_memory(setting: PlannedSetting) -> None:
    found = [estimate(setting, replace(FSDP, recompute=which)) for which in ("none", "half", "layers")]
    times = [one.time.total for one in found]
    memory = [one.memory.activations for one in found]
    assert times == sorted(times) and times[0] < times[-1]
    assert memory[0] > memory[1] > memory[2]


def test_sharing_matrices_divides_layers_and_is_paid_in_communication(setting: PlannedSetting) -> None:
    alone, shared = (estimate(setting, ParallelLayout("tp", n, 1, 2, 2, "none")) for n in (1, 4))
    assert shared.memory.masters < alone.memory.masters and shared.memory.activations < alone.memory.activations
    assert shared.memory.loss == alone.memory.loss
    assert shared.time.matmul < alone.time.matmul
    assert alone.time.communication == 0 < shared.time.communication and shared.time.hidden == 0


def test_what_is_shared_is_what_the_words_say() -> None:
    """Of 25 heads two ranks share nothing of attention; of 51 rows of a table nothing, and of a norm never."""
    even, odd = (check_model("gpt2", {"width": 64 * heads, "heads": heads}) for heads in (24, 25))
    for model in (even, odd):
        found, totals = work_of(model, 1024), tensor_plan(model, 2).data["totals"]
        share, rest = found.share(2), found.parameters - found.layered
        assert share.layers * found.layered + share.outside * rest == pytest.approx(totals["parameters_of_a_device"])
        assert found.share(1).layers == found.share(1).outside == found.share(1).scores == 1
    assert work_of(even, 1024).share(2).layers == pytest.approx(0.5, abs=0.01)
    assert work_of(odd, 1024).share(2).layers > 0.6 and work_of(odd, 1024).share(2).scores == 1
    found = plan("gpt2", **SMALL, parallel="fsdp,tp=2")
    assert any("holds 50% of the parameters" in note for note in found.notes)
    small: dict[str, Any] = {**SMALL, "gpus": 2, "vocab": 51, "width": 64, "heads": 2, "context": 64, "depth": 2}
    with pytest.raises(InputError, match=r"tp=2 is no layout of 2 devices.*rows = 51 does not divide among 2 devices"):
        plan("x = x + norm(x)", **small, parallel="tp=2")
    assert {one.layout.tensor for one in plan("x = x + norm(x)", **small).compared} == {1}


def test_an_output_that_is_shared_saves_memory_and_gathers_logits(setting: PlannedSetting) -> None:
    layout, works = ParallelLayout("tp", 2, 1, 2, 2, "none"), {}
    for vocab in (50303, 50304):
        works[vocab] = work_of(check_model("gpt2", {"dropout": 0, "vocab": vocab}), 1024)
    whole, shared = (estimate(replace(setting, work=work), layout) for work in works.values())
    assert works[50303].share(2).outside == 1
    tables = works[50303].parameters - works[50303].layered
    assert whole.memory.masters - shared.memory.masters > 1.9 * tables  # four bytes of almost half of them
    assert shared.time.communication > whole.time.communication and shared.time.matmul < whole.time.matmul


def test_small_products_reach_a_smaller_share(setting: PlannedSetting) -> None:
    """A row takes less time among many, and a wider model reaches more of the peak."""
    few, many = (estimate(setting, replace(FSDP, micro_batch=rows, accumulate=1)) for rows in (1, 16))
    assert many.time.matmul < 16 * few.time.matmul
    narrow, wide = (plan("gpt2", **SMALL, width=width, heads=4).mfu for width in (256, 2048))
    assert narrow < wide < 1


def seen(setting: PlannedSetting, layout: ParallelLayout = FSDP) -> tuple[Any, ...]:
    """All numbers of a plan of this setting that a change could show in."""
    found = estimate(setting, layout)
    run = PlannedRun("", setting, found, (found,))
    return (*found.parts.values(), *found.time.data.values(), found.free, run.seconds, run.mfu, run.steps)


def settings_that_differ(setting: PlannedSetting) -> list[tuple[PlannedSetting, ParallelLayout]]:
    """Settings in which each number counts: little work a kernel, a slow network, unfused attention, odd sizes."""
    odd = replace(setting, work=work_of(check_model("gpt2", {"vocab": 50257}), 1024))
    tiny = replace(setting, work=work_of(check_model("gpt2", {"width": 8, "heads": 1, "vocab": 8, "context": 8}), 8))
    return [
        (setting, FSDP),
        (replace(setting, compiled=False), FSDP),
        (replace(setting, attention="unfused"), FSDP),
        (odd, FSDP),
        (tiny, replace(FSDP, data=1, parallel="none")),
        (replace(tiny, compiled=False), replace(FSDP, data=1, parallel="none")),
        (replace(setting, device=device("l40s")), FSDP),
        (replace(setting, device=replace(device("h100"), between=0.1, within=0.1)), FSDP),
        (setting, ParallelLayout("fsdp+tp", 2, 8, 2, 2, "none")),
        (replace(setting, precision="float32", optimizer="muon", newton_schulz=5), FSDP),
    ]


@pytest.mark.parametrize("name", [field.name for field in fields(Assumptions)])
def test_every_assumption_is_read(name: str, setting: PlannedSetting) -> None:
    changed = Assumptions.read({name: getattr(Assumptions(), name) / 2})
    cases = settings_that_differ(setting)
    assert any(seen(one, layout) != seen(replace(one, assumptions=changed), layout) for one, layout in cases)
    assert Assumptions().data[name]["why"]


NUMBERS = ("memory", "bf16", "float32", "matmul", "bandwidth", "within", "between")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_figure_of_a_device_is_read(name: str, setting: PlannedSetting) -> None:
    cases = settings_that_differ(setting)
    halved = [
        (replace(one, device=replace(one.device, **{name: (getattr(one.device, name) or 1) / 2})), layout)
        for one, layout in cases
    ]
    assert any(seen(*one) != seen(*other) for one, other in zip(cases, halved, strict=True))
    said = {"name", "title", "source", "matmul_source", "node"}
    assert {field.name for field in fields(Device)} == {*NUMBERS, *said}


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": "2B"}, {"gpu": "h200"}, {"gpus": 16}, {"batch_tokens": "1M"}, {"length": 512},
        {"precision": "float32"}, {"optimizer": "adamw"}, {"attention": "unfused"}, {"compiled": False},
        {"parallel": "fsdp"}, {"micro_batch": 2}, {"recompute": "layers"}, {"price": 3}, {"assume": ["outside=0.5"]},
        {"depth": 6}, {"teacher": "gpt2"},
    ],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_every_option_is_read(given: dict[str, Any]) -> None:
    usual, changed = plan("gpt2", **SMALL).data, plan("gpt2", **{**SMALL, **given}).data
    numbers = ("tokens_per_second", "steps", "seconds", "cost", "layout")
    assert any(usual[name] != changed[name] for name in numbers)


def test_devices_of_one_node_or_of_many() -> None:
    one, many = (plan("llama", tokens="1B", gpu="h100", gpus=64, gpus_per_node=n, parallel="fsdp") for n in (64, 1))
    assert one.chosen.time.total < many.chosen.time.total


def test_what_follows_of_time_and_price() -> None:
    found = plan("gpt2", **SMALL, price=2.5, assume={"outside": 0})
    assert found.seconds == pytest.approx(1e9 / found.chosen.rate)
    assert found.gpu_hours == pytest.approx(8 * found.seconds / 3600)
    assert found.cost == pytest.approx(2.5 * found.gpu_hours)
    assert found.rate == pytest.approx(found.chosen.rate / 8)
    assert found.mfu == pytest.approx(
        found.rate * summary("gpt2", vocab=50304).data["totals"]["flops_per_token"] / 989e12
    )
    text = json.dumps(found.data)
    assert json.loads(text)["layout"]["fits"] is True


def test_the_chosen_layout_fits_and_no_simpler_one_is_as_fast() -> None:
    for gpus, gpu in ((1, "rtx-4090"), (8, "a100-40"), (64, "h100")):
        found = plan("gpt2", tokens="1B", gpu=gpu, gpus=gpus, vocab=50304)
        fitting = [one for one in found.compared if one.fits]
        assert found.chosen in fitting
        assert found.chosen.rate >= 0.98 * max(one.rate for one in fitting)
        assert found.chosen.memory.total <= found.chosen.free


def test_a_model_too_large_for_a_copy_is_sharded_and_the_page_says_why() -> None:
    found = plan("llama", tokens="10B", gpu="h100", gpus=64)
    assert found.chosen.layout.parallel == "fsdp" and "ddp takes" in found.why
    page = repr(found)
    assert found.why in page and "does not fit" not in page.split("compared")[0]
    for name in Assumptions().data:
        assert f"  {name} " in page


def test_a_teacher_takes_its_weights_and_a_forward_pass() -> None:
    given: dict[str, Any] = {"tokens": "1B", "gpu": "a100-80", "gpus": 2, "parallel": "ddp", "micro_batch": 8}
    small = {"depth": 4, "width": 256, "heads": 4, "vocab": 512, "context": 128}
    alone = plan("pre-norm", **given, **small)
    teacher = Model("pre-norm", **{**small, "depth": 8})
    taught = plan("pre-norm", teacher=teacher, **given, **small)
    itself = plan("pre-norm", teacher=Model("pre-norm", **small), **given, **small)
    weights = 2 * sum(p.numel() for p in teacher.module.parameters())
    logits = 2 * 2 * 8 * 128 * 512
    assert taught.chosen.memory.total - alone.chosen.memory.total == weights + logits
    assert taught.chosen.parts["teacher"] == weights and "teacher" not in alone.chosen.parts
    step, before = taught.chosen.time, alone.chosen.time
    assert step.total - before.total == pytest.approx(step.teacher) and step.teacher > itself.chosen.time.teacher
    assert itself.chosen.time.teacher == pytest.approx(before.computing / 3)
    assert step.data["teacher"] == step.teacher and "teacher" not in before.data
    assert taught.seconds > alone.seconds and "asked in each step" in repr(taught) and "teacher" not in repr(alone)


def test_sizes_that_make_products_slow_are_told() -> None:
    slow = plan("gpt2", **{**SMALL, "vocab": 50257}, micro_batch=16)
    quick = plan("gpt2", **SMALL, micro_batch=16)
    assert any("50,257" in note and "50,304" in note for note in slow.notes) and not quick.notes
    assert slow.chosen.rate < quick.chosen.rate


@pytest.mark.parametrize(
    "given, said",
    [
        ({"gpu": "h1000"}, "known: a100-40, a100-80, b200, cpu, h100"),
        ({"gpu": "v100"}, "has no bf16; take float32"),
        ({"tokens": "ten"}, "tokens: expected a number such as 10B"),
        ({"batch_tokens": "5Q"}, "batch_tokens: expected a number"),
        ({"batch_tokens": 100}, "less than one row of 1,024"),
        ({"batch_tokens": 2048, "parallel": "fsdp"}, "too few for 8 devices"),
        ({"gpus": 0}, "gpus must be at least 1"),
        ({"micro_batch": 0}, "micro_batch must be at least 1"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
        ({"optimizer": "sgd"}, "optimizer: expected adamw, muon"),
        ({"attention": "slow"}, "attention: expected fused, unfused"),
        ({"recompute": "all"}, "recompute: expected auto, none, half, layers"),
        ({"parallel": "zero"}, "parallel: expected auto, none, ddp"),
        ({"parallel": "tp=5"}, "is no layout of 8 devices"),
        ({"price": -1}, "price must not be negative"),
        ({"assume": ["overlap"]}, "expected NAME=NUMBER"),
        ({"assume": {"overlaps": 1}}, "did you mean overlap"),
        ({"assume": {"overlap": "much"}}, "expected a number"),
        ({"assume": {"overlap": -1}}, "expected a number from 0"),
        ({"assume": {"link_share": 0}}, "expected a number above 0"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")):
        plan("gpt2", **{**SMALL, **given})


def test_an_unknown_assumption_has_its_kind() -> None:
    with pytest.raises(UnknownName):
        Assumptions.read({"speed": 1})
    assert set(NOT_NONE) <= {field.name for field in fields(Assumptions)}


def test_a_model_that_fits_no_layout_is_told_what_would() -> None:
    with pytest.raises(InputError, match=r"no layout fits 1 x .* takes .* GiB of .* GiB; what would: --gpus 16"):
        plan("llama", tokens="1B", gpu="rtx-4090")
    assert plan("llama", tokens="1B", gpu="rtx-4090", gpus=16).chosen.fits
    with pytest.raises(InputError, match=r"what would: --parallel fsdp --micro-batch 1 --recompute none"):
        plan("llama", tokens="1B", gpu="h100", gpus=64, micro_batch=8, recompute="none")


def test_amounts_are_read_as_people_write_them() -> None:
    assert amount("10B", "tokens") == amount("10e9", "tokens") == amount(10_000_000_000, "tokens") == 10**10
    assert amount("0.5M", "tokens") == amount("500_000", "tokens") == amount("500,000", "tokens") == 500_000
    assert amount("1.5t", "tokens") == 1_500_000_000_000


def test_names_of_devices_are_read_loosely() -> None:
    assert device("A100") is devices()["a100-80"] and device("RTX 4090") is devices()["rtx-4090"]
    for one in devices().values():
        assert one.source and one.memory > 0 and one.bandwidth > 0 and (one.matmul is None or one.matmul_source)
        assert one.matmul is None or one.bf16 is None or one.matmul < one.bf16


def test_steps_are_measured_where_the_device_is_here() -> None:
    sizes: dict[str, Any] = {"depth": 3, "width": 32, "heads": 2, "vocab": 64, "context": 32, "precision": "float32"}
    found = plan("pre-norm", tokens="1M", gpu="cpu", compiled=False, measure=True, **sizes)
    assert found.measured > 0 and any("2 layers" in note for note in found.notes)
    assert "measured" in found.setting.device.source and found.setting.device.memory > 0
    again: LayoutEstimate = estimate(found.setting, found.chosen.layout, 2 * found.measured)
    assert again.time.computing == pytest.approx(2 * found.chosen.time.computing, rel=1e-6)


def test_a_device_that_is_not_here_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="there is no CUDA device here"):
        plan("gpt2", **SMALL, measure=True)
    with pytest.raises(InputError, match="one stack that reads tokens"):
        plan("translator", tokens="1M", gpu="cpu", measure=True, precision="float32")


def test_the_verb_says_what_the_function_says(capsys: pytest.CaptureFixture[str]) -> None:
    typed = "plan gpt2 --vocab 50304 --tokens 10B --gpus 8 --gpu a100-80 --no-compile --assume outside=0.1 --json"
    assert main(typed.split()) == 0
    said = json.loads(capsys.readouterr().out)
    made = plan("gpt2", vocab=50304, tokens="10B", gpus=8, gpu="a100-80", compiled=False, assume={"outside": 0.1})
    assert said == json.loads(json.dumps(made.data))
    assert main(["plan", "gpt2", "--tokens", "10B", "--gpu", "z9"]) == 2
    assert "unknown GPU" in capsys.readouterr().err


def test_an_optimizer_that_takes_much_of_a_step_is_told() -> None:
    given: dict[str, Any] = {"tokens": "10B", "gpu": "h100", "gpus": 64}
    muon, adamw = plan("llama", **given), plan("llama", optimizer="adamw", **given)
    assert any("--optimizer adamw" in note for note in muon.notes) and not adamw.notes
    divided = plan("llama", **given, assume={"muon_ranks": 64})
    assert divided.chosen.time.update < muon.chosen.time.update / 8
    assert muon.chosen.memory.optimizer < adamw.chosen.memory.optimizer
