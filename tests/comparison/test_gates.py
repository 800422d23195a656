"""Gates catch planted faults, and pass every wiring of the gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.invariants.harness import STRUCTURES, every_day, inputs, reduced, small
from transformula import gallery
from transformula.comparison.gate import check_arm, check_arms
from transformula.comparison.records import Arm, GateResult, RunCosts
from transformula.inspection.gate import ArmTrial, tensors_of
from transformula.inspection.gates import overfitting
from transformula.language.graph import Architecture
from transformula.language.messages import FormulaError
from transformula.language.model_text import from_formula
from transformula.model import build
from transformula.training.settings import TrainingSettings
from transformula.words import streams
from transformula.words.attention import Attention
from transformula.words.norms import LayerNorm
from transformula.words.word import CLASSES, Word, word

LAYER = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
COSTS = RunCosts(1, 1, 1.0, 1.0, 1.0, 1, 1)
TITLES = {
    "G1": "loss at initialization",
    "G2": "one batch can be overfitted",
    "G3": "causality and masks",
    "G4": "every edge of the formula is alive",
    "G5": "neutral values give the base",
    "G6": "norm by depth at initialization",
}


def trial_of(architecture: Architecture, given: dict[str, Tensor], base: ArmTrial | None = None) -> ArmTrial:
    """A trial on random targets: of logits over the vocabulary cross-entropy, of other outputs their mean square."""
    given = {key: value.float() if value.is_floating_point() else value for key, value in given.items()}
    values = architecture.output.leaves.values()
    logits = all(value.sequence and value.width == architecture.numbers["vocab"] for value in values)

    def guessing(module: nn.Module) -> Tensor:
        total = torch.zeros(())
        for output in tensors_of(module(**given)):
            rows = output.reshape(-1, output.shape[-1])
            targets = torch.randint(rows.shape[-1], rows.shape[:1], generator=torch.Generator().manual_seed(5))
            signs = (torch.arange(len(rows)) % 2).float()
            wide = rows.shape[-1] > 1
            one = F.cross_entropy(rows, targets) if wide else F.binary_cross_entropy_with_logits(rows[:, 0], signs)
            total = total + one
        return total

    def squares(module: nn.Module) -> Tensor:
        return torch.stack([output.pow(2).mean() for output in tensors_of(module(**given))]).sum()

    return ArmTrial(architecture, given, guessing, guessing if logits else squares, TrainingSettings(), 0.02, base)


def trial(text: str, base: ArmTrial | None = None, **numbers: float) -> ArmTrial:
    """A formula's, on tokens."""
    tokens = torch.randint(19, (2, 7), generator=torch.Generator().manual_seed(2))
    return trial_of(reduced(from_formula(text), depth=2, **numbers), {"tokens": tokens}, base)


def test_gates_that_train_can_be_left_out() -> None:
    results = check_arm(Arm("variant", "only", {}, COSTS, 0.02), trial(LAYER), training=False)
    assert [result.name for result in results] == ["G1", "G3", "G4", "G5", "G6"]


def found(one: ArmTrial) -> dict[str, GateResult]:
    """What each gate finds."""
    return {result.name: result for result in check_arm(Arm("variant", "only", {}, COSTS, 0.02), one)}


def failed(one: ArmTrial) -> dict[str, str]:
    return {name: result.text for name, result in found(one).items() if result.passed is False}


@pytest.fixture(autouse=True)
def no_words_left() -> Iterator[None]:
    """Words of a test are forgotten after it."""
    before = dict(CLASSES)
    yield
    for name in set(CLASSES) - set(before):
        if not CLASSES[name].__module__.startswith("transformula."):
            del CLASSES[name]


@pytest.mark.parametrize("name", every_day(gallery.names(), (*STRUCTURES[:5], "rezero", "llava")))
def test_wirings_of_the_gallery_pass(name: str) -> None:
    assert failed(trial_of(small(name, deep=False), inputs(name))) == {}


def test_each_gate_says_what_it_found() -> None:
    results = found(trial(LAYER))
    assert {name: result.title for name, result in results.items()} == TITLES
    assert all(result.text for result in results.values())
    assert [results[name].passed for name in TITLES] == [True, True, True, True, None, True]
    assert len(results["G6"].values["x"]) == 2 and results["G4"].values["edges"] > 10


def ignored_stream() -> str:
    @word("first_of", streams=("x", "y"), kind="function", width="x", equation="y = x")
    class FirstOf(Word):
        """Reads two streams, and uses one."""

        @staticmethod
        def function(x: Tensor, y: Tensor) -> Tensor:
            return x

    return "x = x + first_of(mlp(norm(x)), attention(norm(x)))"


def mean_of_all() -> str:
    @word("mean_before", streams=("x",), kind="positions", width="x", reach="past", equation="y = mean(x)")
    class MeanBefore(Word):
        """Says that it looks at the past, and takes the mean over all positions."""

        def forward(self, x: Tensor, real: Any = None) -> Tensor:
            return x.mean(1, keepdim=True).expand_as(x)

    return "x = x + mean_before(norm(x)); x = x + mlp(norm(x))"


def stopped_coefficient() -> str:
    @word(
        "stopped", streams=((),), kind="coefficient", value="coefficient", sequence="none", width="1",
        parameters={"weight": "1"}, equation="y = a number",
    )  # fmt: skip
    class Stopped(Word):
        """A number that is learned by its record alone."""

        def __init__(self) -> None:
            super().__init__()
            self.constants = {"weight": 1.0}
            self.weight = nn.Parameter(torch.empty(1))

        def forward(self) -> Tensor:
            return self.weight.detach()

    return "x = x + stopped() * mlp(norm(x))"


@pytest.mark.parametrize(
    "plant, caught, said",
    [
        (ignored_stream, "G4", "first_of.input.y changes nothing"),
        (mean_of_all, "G3", "a position sees later ones"),
        (stopped_coefficient, "G4", "no gradient by step"),
    ],
)
def test_faults_in_words_are_caught(plant: Callable[[], str], caught: str, said: str) -> None:
    faults = failed(trial(plant()))
    assert list(faults) == [caught] and said in faults[caught]


def test_a_line_that_nothing_reads_is_refused_by_the_language() -> None:
    """So an edge that is computed and not used can be planted in a module alone."""
    with pytest.raises(FormulaError, match="is never read"):
        trial("y = attention(norm(x)); x = x + mlp(norm(x))")


def changed(one: ArmTrial, change: Callable[[nn.Module], None]) -> ArmTrial:
    """The trial of a model in whose modules something is changed."""

    def made(architecture: Architecture, dtype: torch.dtype) -> nn.Module:
        module = build(architecture, seed=1, dtype=dtype)
        change(module)
        return module

    return replace(one, made=made)


def test_a_norm_that_is_never_built_is_caught() -> None:
    def without_norms(module: nn.Module) -> None:
        for path, part in list(module.named_modules()):
            if isinstance(part, LayerNorm):
                owner, _, name = path.rpartition(".")
                setattr(module.get_submodule(owner), name, nn.Identity())

    faults = failed(changed(trial(LAYER), without_norms))
    assert "is not built" in faults["G4"] and "does not normalize" in faults["G4"]


def test_a_mixing_matrix_of_ones_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that are mixed by ones are equal, and stay so; a mixture that no weight changes has no gradient."""
    mixed = trial_of(small("hyper-connections-static", deep=False), inputs("hyper-connections-static"))

    def ones(module: nn.Module) -> None:
        for part in module.modules():
            if isinstance(part, streams.Write):
                nn.init.ones_(part.static)

    assert "what they mix is equal" in failed(changed(mixed, ones))["G4"]
    sinkhorn = trial_of(small("mhc", deep=False), inputs("mhc"))
    assert "G4" not in failed(sinkhorn)
    monkeypatch.setattr(streams, "sinkhorn", lambda logits, steps: torch.ones_like(logits) / logits.shape[-1])
    text = failed(trial_of(small("mhc", deep=False), inputs("mhc")))["G4"]
    assert "no gradient" in text and "static" in text


def test_attention_whose_weights_are_equal_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean(self: Any, x: Tensor, **_: Any) -> Tensor:
        values = self.value(x)
        count = torch.arange(1, x.shape[1] + 1)[:, None]
        return self.output(values.cumsum(1) / count)  # type: ignore[no-any-return]

    monkeypatch.setattr(Attention, "forward", mean)
    text = failed(trial(LAYER))["G4"]
    assert "no gradient" in text and "query" in text and "key" in text


def test_outputs_that_are_too_large_are_caught() -> None:
    large = changed(trial(LAYER), lambda module: module.words.weight.data.mul_(60))  # type: ignore[union-attr,operator]
    assert "above that of guessing" in failed(large)["G1"]


def test_a_model_that_learns_nothing_is_caught() -> None:
    still = trial(LAYER)
    stopped = replace(still, loss=lambda module: still.loss(module).detach().requires_grad_())
    assert "learns hardly anything" in failed(stopped)["G2"]


def test_a_batch_that_is_passed_is_known_by_heart() -> None:
    """Each of its targets is right, and surely so."""
    result = found(trial(LAYER))["G2"]
    assert result.passed and "known by heart" in result.text
    assert result.values["lowest"] <= 0.05 * result.values["first"] and result.values["steps"] < 200


@pytest.mark.parametrize("time_left, steps", [(True, 200), (False, 2)])
def test_a_model_that_learns_slowly_is_called_so_and_not_broken(
    monkeypatch: pytest.MonkeyPatch, time_left: bool, steps: int
) -> None:
    """Half of the loss stays, whatever is learned; or there is no time."""
    quick = trial(LAYER)
    with torch.no_grad():
        first = float(quick.loss(quick.module().eval()))
    slow = replace(quick, loss=lambda module: quick.loss(module) / 2 + first / 2) if time_left else quick
    monkeypatch.setattr(overfitting, "SECONDS", 600.0 if time_left else 0.0)
    result = found(slow)["G2"]
    assert (result.passed, result.word, result.values["steps"]) == (None, "learns slowly", steps)
    assert ("for which there was time" in result.text) != time_left
    assert "it learns, and does not know the batch by heart" in result.text


def test_a_gradient_that_is_stopped_is_caught_however_short_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overfitting, "SECONDS", 0.0)
    still = trial(LAYER)
    stopped = replace(still, loss=lambda module: still.loss(module).detach().requires_grad_())
    assert "learns hardly anything" in failed(stopped)["G2"]


def test_a_stream_that_overflows_is_caught() -> None:
    faults = failed(trial("x = 1e9 * x; x = 1e9 * x; x = 1e9 * x; x = x + mlp(norm(x))"))
    assert "not finite" in faults["G6"]


def test_padding_that_is_read_is_caught() -> None:
    """An encoder that takes the mean over all positions, the padding with them."""

    @word("mean_all", streams=("x",), kind="positions", width="x", reach="all", equation="y = mean(x)")
    class MeanAll(Word):
        """Does not ask which positions are real."""

        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1, keepdim=True).expand_as(x)

    text = from_formula("x = x + mean_all(norm(x)); x = x + mlp(norm(x))").override({"causal": False})
    one = trial_of(reduced(text, depth=1), {"tokens": torch.arange(14).view(2, 7)})
    assert "padding of tokens changes the outputs" in failed(one)["G3"]
    sound = from_formula(LAYER).override({"causal": False})
    assert failed(trial_of(reduced(sound, depth=1), {"tokens": torch.arange(14).view(2, 7)})) == {}


def test_padding_of_rows_that_differ_in_length() -> None:
    """Rows come with their lengths: what stands after the real positions is changed, and nothing else."""
    architecture = reduced(from_formula(LAYER).override({"causal": False}), depth=1)
    lengths = {"tokens": torch.tensor([4, 7])}
    one = trial_of(architecture, {"tokens": torch.arange(14).view(2, 7)})
    one = replace(one, given={**one.given, "lengths": lengths})
    result = found(one)["G3"]
    assert result.passed and "padding changes nothing" in result.text
    full = replace(one, given={**one.given, "lengths": {"tokens": torch.tensor([7, 7])}})
    assert found(full)["G3"].passed is None


@pytest.mark.parametrize(
    "variant, base, passed",
    [
        ("x = x + scalar(0) * attention(x); x = x + vector(1) * mlp(x)", "x = x + attention(x); x = x + mlp(x)", True),
        ("x = x + mlp(norm(x)) + scalar(0) * attention(norm(x))", "x = x + mlp(norm(x))", True),
        ("x = x + mlp(norm(x))", "x = x + mlp(norm(x))", True),
        ("x = norm(x + mlp(x))", "x = x + mlp(norm(x))", None),
        ("x = x + scalar(0) * mlp(x)", "x = x + mlp(norm(x))", None),
    ],
)
def test_neutral_values_give_the_base(variant: str, base: str, passed: bool | None) -> None:
    result = found(trial(variant, base=trial(base)))["G5"]
    assert result.passed is passed and result.text


def test_a_coefficient_that_is_used_elsewhere_too_is_caught() -> None:
    """The module adds its coefficient to the stream as well, so that 1 is not neutral."""
    base = trial("x = x + mlp(x)")
    one = trial("x = x + scalar(1) * mlp(x)", base=base)

    def doubled(module: nn.Module) -> None:
        for part in module.modules():
            if type(part).__name__ == "Scalar":
                part.forward = lambda part=part: 2 * part.weight  # type: ignore[assignment,misc]

    assert found(one)["G5"].passed
    assert "it is not the base" in failed(changed(one, doubled))["G5"]


def test_arms_are_checked_on_their_data(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gates of a planned comparison: the base's first, each arm with the same base."""
    from transformula.comparison.planning import make_plan
    from transformula.comparison.settings import ComparisonSettings

    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("to be, or not to be, that is the question\n" * 20)
    given = {
        "data": "text.txt", "steps": 5, "depth": 1, "width": 16, "heads": 2, "context": 16, "batch": 4,
        "tokenizer": "characters",
    }  # fmt: skip
    settings = ComparisonSettings.read({"protocol": "quick", "lr": 0.02})
    plan, _ = make_plan(["x = x + mlp(norm(x))", "x = x + scalar(0) * mlp(norm(x))"], settings, given)
    results = check_arms(plan)
    assert [(r.variant, r.name) for r in results] == [(v.name, name) for v in plan.variants for name in TITLES]
    assert {r.name: r.text for r in results if r.passed is False} == {}
    assert [r.passed for r in results if r.name == "G5"] == [None, True]
