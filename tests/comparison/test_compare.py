"""`compare` from what is typed to the report. Runs are made without training, but for the few tests that say so."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comparison.arms import SIZES, write_text
from transformula import compare
from transformula.cli.door import main
from transformula.comparison import compare as module
from transformula.comparison import gate
from transformula.comparison.compare import Comparison
from transformula.comparison.gate import check_arms
from transformula.comparison.records import GateResult, Outcome
from transformula.comparison.report.files import json_of, write_report
from transformula.comparison.settings import ComparisonSettings
from transformula.errors import CheckpointError, InputError
from transformula.ownership import MARKER

PAIR = ["pre-norm", "rezero"]
TWIN = "twin: x = x + attention.other(norm(x)); x = x + mlp(norm(x))"
EFFECTS = {"pre-norm": 0.0, "rezero": -0.2, "twin": 0.0, "worse": 0.9}


class Runs:
    """Makes outcomes without training: a loss around 2 by the variant, noise by the seed, best at the default rate."""

    def __init__(self, noise: float = 0.01) -> None:
        self.noise, self.jobs, self.stop_at, self.baselines = noise, [], None, {}

    def __call__(self, job, store) -> Outcome:
        known = store.outcome_of(job)
        if known is not None:
            return known
        if self.stop_at == len(self.jobs):
            raise KeyboardInterrupt
        self.jobs.append(job)
        common = random.Random(f"{job.seed}").gauss(0, 0.02)
        own = random.Random(f"{job.variant} {job.seed}").gauss(0, self.noise)
        score = 2 + EFFECTS.get(job.variant, 0.0) + common + own + abs(job.lr - 0.02)
        curve = ((2, 64, 0.1, 3.0), (6, 192, 0.3, 2.5))
        known = Outcome(job.variant, job.size, job.stage, job.seed, job.lr, job.key, "done", score, curve=curve,
                        scores={"loss": score}, samples=("a text",) * job.samples, tokens=192, seconds=0.3,
                        baselines=self.baselines)  # fmt: skip
        return store.keep(job, known)


@pytest.fixture
def runs(monkeypatch):
    runs = Runs()
    monkeypatch.setattr("transformula.comparison.engines.here.run_job", runs)
    return runs


@pytest.fixture
def without_report(monkeypatch):
    """Only results.json is written, and no arm is checked: pictures and checks take seconds."""

    def write(results, folder) -> None:
        (Path(folder) / "results.json").write_text(json_of(results))

    monkeypatch.setattr(module, "write_report", write)
    monkeypatch.setattr(gate, "check_arms", lambda plan: [])


@pytest.fixture
def given(tmp_path, monkeypatch, without_report):
    """What is said of every comparison here."""
    monkeypatch.chdir(tmp_path)
    text = write_text(tmp_path)
    return {
        "data": text.name, "tokenizer": "characters", "engine": "here", "sizes": 1, "seeds": 4, "lr": 0.02,
        "quiet": True, "out": "comparison", **SIZES,
    }  # fmt: skip


def test_a_comparison_says_what_was_found(runs, given) -> None:
    compared = compare(PAIR, **given)
    assert isinstance(compared, Comparison)
    (verdict,) = compared.verdicts
    assert (verdict.variant, verdict.base, verdict.word) == ("rezero", "pre-norm", "better")
    assert compared.exit_status == 0
    assert [job.seed for job in runs.jobs] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [job.variant for job in runs.jobs] == [*PAIR, *reversed(PAIR)] * 2  # neither always goes first
    assert {path.name for path in Path("comparison").iterdir()} == {
        MARKER, "plan.json", "gates.json", "results.json"
    }  # fmt: skip
    assert compared.data == json.loads(Path("comparison/results.json").read_text())
    page = (Path(__file__).parents[2] / "docs/reference/output.md").read_text()
    assert set(re.findall(r"`(\w+)`", next(row for row in page.splitlines() if "results.json" in row))) == {
        *compared.data, "compare",
    }  # fmt: skip
    assert "rezero" in repr(compared) and "report.html" in repr(compared)
    samples = [len(outcome.samples) for outcome in compared.results.outcomes]
    assert samples == [3, 3, 0, 0, 0, 0, 0, 0]  # of the first seed


def test_a_comparison_whose_base_learns_nothing_says_so_before_the_runs_and_first_after_them(
    runs, given, capsys
) -> None:
    runs.baselines = {"3-gram": 0.5, "4-gram": 0.4}
    compared = compare(PAIR, **{**given, "lr": "tune", "lr_points": 3, "lr_seeds": 2})
    before = "pre-norm will probably learn nothing that a 3-gram does not know"
    told = capsys.readouterr().err
    assert told.count(before) == 2
    assert "as a rule of thumb" in told and "runs that tuned its rate, it takes far more" in told
    lead = "Nothing was learned that a 3-gram does not know: this comparison says only how fast the first steps go."
    assert compared.data["lead"].startswith(lead)
    (verdict,) = compared.data["verdicts"]
    assert verdict["early"] == 6 and verdict["sentence"].startswith("In the first 6 steps, rezero is better than")
    start = "In the first 6 steps on this data, while pre-norm is still no better than a 3-gram ("
    assert verdict["may"].startswith(start)
    assert "models that have learned more (pre-norm did not come up to a 3-gram)" in verdict["may_not"]
    runs.baselines = {"3-gram": 3.0}
    learned = compare(PAIR, **{**given, "seed": 50, "out": "learned"})
    assert learned.data["lead"] == "" and learned.verdicts[0].early == 0 and "In the first" not in repr(learned)


@pytest.mark.parametrize("told", [{"WORLD_SIZE": "2", "RANK": "1"}, {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}])
def test_a_comparison_is_not_started_by_several_processes(runs, given, monkeypatch, capsys, told) -> None:
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=rf"many runs.*{next(iter(told))} is 2.*without torchrun.*engine.*slurm.*ray"):
        compare(PAIR, **given)
    assert main(["compare", "--study", "norm-placement"]) == 2
    assert "--engine slurm" in capsys.readouterr().err
    assert not Path("comparison").exists() and not runs.jobs
    monkeypatch.setenv(next(iter(told)), "1")
    monkeypatch.delenv("RANK", raising=False)
    assert compare(PAIR, dry_run=True, **given).variants


def test_a_grid_of_settings_says_the_effect_of_each(runs, given, monkeypatch) -> None:
    effects = {"0, optimizer=adamw": 0.0, "0, optimizer=muon": 0.1, "0.1, optimizer=adamw": 0.0,
               "0.1, optimizer=muon": 0.1}  # fmt: skip
    for name, effect in effects.items():
        monkeypatch.setitem(EFFECTS, f"warmup={name}", effect)
    said = repr(compare(["pre-norm"], vary=["warmup=0,0.1", "optimizer=adamw,muon"], **given))
    assert re.search(r"\noptimizer=muon +\+0\.(09|1)\d* +\+0\.\d+ to \+0\.\d+ ", said)
    assert re.search(r"\nwarmup=0.1 with optimizer=muon ", said)


def test_variants_whose_curves_do_not_differ_confirm_at_one_rate(runs, given) -> None:
    """The rate costs both alike, and is tuned once for both."""
    results = compare(PAIR, **{**given, "lr": "tune"}).results
    assert len(set(results.rates.values())) == 1 and len(results.rates) == 2
    confirmed = {o.lr for o in results.outcomes if o.stage == "confirm"}
    assert confirmed == set(results.rates.values())
    (verdict,) = results.verdicts
    assert "tuned for both" in verdict.may and "rates" not in verdict.noise


def test_the_same_call_makes_no_run_again_and_ends_with_the_same_results(runs, given) -> None:
    first = compare(PAIR, **given).data
    made = len(runs.jobs)
    assert compare(PAIR, **given).data == first
    assert len(runs.jobs) == made


def test_an_interrupted_comparison_says_how_it_goes_on_and_does(runs, given, capsys) -> None:
    runs.stop_at = 5
    options = {key: value for key, value in given.items() if key != "quiet"}
    typed = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    assert main(["compare", *PAIR, *typed, "--quiet"]) == 130
    said = capsys.readouterr().err
    assert "5 of 8 runs are kept" in said
    assert sorted(sum(job.variant == name for job in runs.jobs) for name in PAIR) == [2, 3]  # both are equally far
    assert f"to go on: transformula compare pre-norm rezero --data {given['data']}" in said
    runs.stop_at = None
    assert main(["compare", *PAIR, *typed, "--quiet", "--json"]) == 0
    assert len(runs.jobs) == 8
    assert json.loads(capsys.readouterr().out) == json.loads(Path("comparison/results.json").read_text())
    assert compare(PAIR, **given).exit_status == 0 and len(runs.jobs) == 8  # in Python, what was begun by typing


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT is heard, which a shell lets a command in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("signal_name, status", [("SIGTERM", 75), ("SIGUSR1", 75), ("SIGINT", 130)])
def test_a_signal_ends_a_comparison_and_says_how_it_goes_on(
    runs, given, capsys, monkeypatch, signal_name, status
) -> None:
    def signalled(job, store):
        if len(runs.jobs) == 3:
            os.kill(os.getpid(), getattr(signal, signal_name))
        return runs(job, store)

    monkeypatch.setattr("transformula.comparison.engines.here.run_job", signalled)
    before = signal.getsignal(signal.SIGTERM)
    options = {key: value for key, value in given.items() if key != "quiet"}
    typed = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    assert main(["compare", *PAIR, *typed, "--quiet"]) == status
    said = capsys.readouterr().err
    assert "3 of 8 runs are kept" in said and "to go on: transformula compare pre-norm rezero" in said
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_plan_of_an_extended_comparison_says_which_runs_are_there(runs, given) -> None:
    tuned = {**given, "lr": "tune", "lr_points": 3, "lr_seeds": 2}
    assert "there already" not in repr(compare(PAIR, dry_run=True, **tuned))
    compare(PAIR, **tuned)
    made = len(runs.jobs)
    whole, more = (compare(each, dry_run=True, **tuned) for each in (PAIR, [*PAIR, TWIN]))
    assert "runs: 20, of which 20 are there already" in repr(whole) and whole.seconds == 0
    assert "runs: 30, of which 20 are there already" in repr(more) and more.seconds > 0
    assert "runs: 22, of which 20 are there already" in repr(compare(PAIR, dry_run=True, **{**tuned, "seeds": 5}))
    assert len(runs.jobs) == made


@pytest.mark.parametrize("theirs", ["report.md", "results.json", "figures/mine.svg", "plan.json", "verdicts.csv"])
def test_files_of_others_in_the_folder_are_left_alone(runs, given, monkeypatch, theirs) -> None:
    monkeypatch.setattr(module, "write_report", write_report)
    mine = Path("comparison") / theirs
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(CheckpointError, match=f"holds {theirs}, which .* name another folder, or move the file away"):
        compare(PAIR, **given)
    assert runs.jobs == [] and mine.read_text() == "mine"
    assert [path.name for path in Path("comparison").rglob("*") if path.is_file()] == [mine.name]


def test_a_folder_of_figures_of_others_stays_in_a_comparisons_folder(runs, given, monkeypatch) -> None:
    compare(PAIR, **given)
    mine = Path("comparison/figures/mine.svg")
    mine.parent.mkdir()
    mine.write_text("mine")
    compare([*PAIR, TWIN], **given)
    assert mine.read_text() == "mine"


def test_variants_and_seeds_are_added_to_what_is_there(runs, given) -> None:
    compare(PAIR, **given)
    made = len(runs.jobs)
    compare([*PAIR, TWIN], **{**given, "seeds": 5})
    added = [(job.variant, job.seed) for job in runs.jobs[made:]]
    assert sorted(added) == [("pre-norm", 5), ("rezero", 5), *(("twin", seed) for seed in range(1, 6))]


def test_another_comparison_with_the_same_arms_uses_its_runs(runs, given) -> None:
    compare(PAIR, **given)
    made = len(runs.jobs)
    compare([*reversed(PAIR)], **{**given, "out": "other", "seeds": 3})
    assert len(runs.jobs) == made


def test_until_decided_looks_and_stops(runs, given) -> None:
    looked = compare(PAIR, **{**given, "seeds": 12, "until": "decided"})
    assert {job.seed for job in runs.jobs} == {1, 2, 3, 4}  # the first look decides so large a difference
    assert looked.verdicts[0].word == "better"


def test_an_arm_that_is_far_worse_stops_after_one_seed(runs, given) -> None:
    tuned = {**given, "seeds": 12, "until": "decided", "lr": "tune", "lr_points": 3, "lr_seeds": 4}
    formula = "worse: x = x + attention(norm(x)); x = x + mlp(x)"
    compared = compare([*PAIR, formula], **tuned)
    confirmed = {(job.variant, job.seed) for job in runs.jobs if job.stage == "confirm"}
    assert {seed for variant, seed in confirmed if variant == "worse"} == {1}
    assert len({seed for variant, seed in confirmed if variant == "rezero"}) >= 4
    assert {verdict.variant: verdict.word for verdict in compared.verdicts}["worse"] == "worse"


def test_the_noise_of_the_runs_that_tune_revises_the_plan_before_anything_is_confirmed(runs, given, capsys) -> None:
    runs.noise = 0.1
    tuned = {**given, "lr": "tune", "lr_points": 3, "lr_seeds": 4, "effect": 0.02, "quiet": False}
    compared = compare(PAIR, **tuned)
    plan, said = compared.plan, capsys.readouterr().err
    assert plan.measured is not None and plan.measured.degrees == 4 + 9
    assert 0.1 < plan.measured.difference < 0.2 < 2 * plan.noise and plan.noise_source.startswith("assumed")
    before, _, after = said.partition("noise measured before the runs that confirm")
    assert "seed 1000001" in before and "seed 1:" not in before and "seed 1:" in after
    now = plan.smallest(plan.measured.difference)
    assert f"detectable now {now:.2g} bits per byte in place of {plan.detectable:.2g}" in after
    assert "4 seeds find a difference of" in after.partition("seed 1:")[0]
    assert re.search(r"the effect that matters is 0.02: it needs about \d+ seeds", after.partition("seed 1:")[0])
    kept = json.loads(Path("comparison/plan.json").read_text())
    assert kept["measured"]["difference"] == plan.measured.difference and kept["hash"] == plan.hash
    assert compared.data["revision"] == plan.revision and plan.revision in repr(plan)
    again = compare(PAIR, **tuned)
    assert again.plan.measured == plan.measured and again.data == compared.data


def test_a_plan_expects_the_noise_of_earlier_runs_on_the_same_data(runs, given) -> None:
    runs.noise = 0.1
    compare(PAIR, **{**given, "seeds": 12})
    for path in Path("comparisons/runs").glob("*/outcome.json"):  # as a run leaves its folder
        outcome = json.loads(path.read_text())
        config = {"task": "language-modeling", "data": given["data"], "tokenizer": "characters", "steps": 6}
        config |= {"model": outcome["variant"], "seed": outcome["seed"], "lr": outcome["lr"]}
        (path.parent / "config.yaml").write_text(json.dumps(config))
        path.write_text(json.dumps({**outcome, "scores": {"bits_per_byte": outcome["score"]}}))
    plan = compare([*PAIR, TWIN], **{**given, "out": "other"}, dry_run=True)
    assert plan.noise == pytest.approx(0.1 * 2**0.5, rel=0.5) and "earlier runs" in plan.noise_source
    longer = compare(PAIR, **{**given, "out": "longer", "steps": 60}, dry_run=True)
    assert longer.noise_source.startswith("assumed")


def test_an_undecided_comparison_has_an_exit_status_of_its_own(runs, given) -> None:
    runs.noise = 2.0
    assert compare(PAIR, **given).exit_status == 3


def test_a_dry_run_writes_nothing_and_runs_nothing(runs, given, capsys) -> None:
    plan = compare(PAIR, dry_run=True, **given)
    assert plan.seeds == [1, 2, 3, 4] and runs.jobs == [] and not Path("comparison").exists()


def failing(variant: str) -> GateResult:
    return GateResult(variant, "only", "G3", "causality", False, "position 3 sees position 4")


def test_a_variant_that_fails_a_check_is_not_run_and_the_others_are(runs, given, monkeypatch, capsys) -> None:
    monkeypatch.setattr(gate, "check_arms", lambda plan: [failing("rezero")])
    compared = compare([*PAIR, TWIN], **given)
    assert {job.variant for job in runs.jobs} == {"pre-norm", "twin"}
    stopped, other = compared.verdicts
    assert (stopped.variant, stopped.word, other.variant) == ("rezero", "inconclusive", "twin")
    assert stopped.sentence == "rezero was not run: it fails a check, G3, causality: position 3 sees position 4."
    assert stopped.p_holm is None and other.p_holm == other.p  # one variant is tested, not two
    assert [variant.name for variant in compared.results.variants] == ["pre-norm", "rezero", "twin"]
    assert "rezero is not run" in capsys.readouterr().err and compared.exit_status == 3
    assert "rezero was not run (it fails G3" in repr(compared)


def test_no_comparison_is_left_where_the_base_or_all_others_fail(runs, given, monkeypatch) -> None:
    for names, why in [(["pre-norm"], "the base fails"), (["rezero", "twin"], "fewer than two")]:
        monkeypatch.setattr(gate, "check_arms", lambda plan, names=names: [*map(failing, names)])
        with pytest.raises(InputError, match=rf"{why}[^$]*{names[0]}.*G3.*sees position 4"):
            compare([*PAIR, TWIN], **given)
        Path("comparison/gates.json").unlink()
    assert runs.jobs == []


def test_force_runs_what_fails_a_check_and_says_so(runs, given, monkeypatch) -> None:
    monkeypatch.setattr(gate, "check_arms", lambda plan: [failing("rezero")])
    compared = compare(PAIR, **given, force=True)
    assert compared.results.gates == [failing("rezero")] and compared.verdicts[0].word == "better"
    assert any("fails G3" in note and "run all the same" in note for note in compared.results.notes)


def test_every_setting_is_read() -> None:
    files = [path for path in Path(module.__file__).parent.rglob("*.py")]
    read = {
        node.attr for path in files for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    }
    assert ComparisonSettings.model_fields.keys() - read == {"repeat_on"}  # which `on_each_data` takes apart


@pytest.mark.slow
def test_a_real_comparison_and_its_report(given, monkeypatch) -> None:
    monkeypatch.setattr(module, "write_report", write_report)
    monkeypatch.setattr(gate, "check_arms", check_arms)
    tuned = {**given, "lr": "tune", "lr_points": 3, "lr_seeds": 1, "sizes": 2, "seeds": 2, "engine": "local"}
    compared = compare(PAIR, **tuned, at_once=2)
    outcomes = compared.results.outcomes
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert {outcome.size for outcome in outcomes} == {"small", "large"}
    assert all(0 < outcome.score < 10 for outcome in outcomes)
    names = {path.name for path in Path("comparison").iterdir()}
    assert names >= {"plan.json", "gates.json", "results.json", "report.md", "report.html", "runs.csv", "verdicts.csv"}
    assert compared.data == json.loads(Path("comparison/results.json").read_text())
    assert compared._repr_html_().lstrip().startswith("<")
    assert {path.name for path in compared.save("copy")} >= {"report.md", "results.json"}


@pytest.mark.parametrize(("levels", "best", "inside"), [("auto", "auto/2", True), ("auto,auto*2", "auto", False)])
def test_a_sweep_of_learning_rates_says_the_best_and_whether_it_lies_inside(
    levels: str, best: str, inside: bool, runs, monkeypatch, tmp_path
) -> None:
    """The loss of these runs is least at 0.02; the default at this width is twice that."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gate, "check_arms", lambda plan: [])
    monkeypatch.setattr("transformula.comparison.arms.default_rate", lambda prepared: 0.04)
    monkeypatch.setattr("transformula.comparison.report.document.png_of", lambda figure: b"\x89PNG")
    monkeypatch.setattr("transformula.comparison.report.document.svg_of", lambda figure: "<svg/>")
    given = {"data": str(write_text(tmp_path)), "tokenizer": "characters", **SIZES}
    compared = compare(["pre-norm"], vary=f"lr={levels}", sizes=1, seeds=4, engine="here", quiet=True, **given)
    assert isinstance(compared, Comparison) and compared.results.base == "lr=auto"
    assert {job.stage for job in runs.jobs} == {"confirm"}, "no rate is tuned"
    said = " ".join(repr(compared).split())
    assert f"({best}) has the best mean of 4 runs" in said
    assert ("It lies inside of those that were run." in said) == inside
    assert ("It is the lowest that was run" in said and "so run lr=auto/2, too" in said) != inside
    assert "tuned for each" not in said
