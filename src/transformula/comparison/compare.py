"""`compare`: plans, checks, tunes, runs and judges; the result is a report."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from ..api.configuration import on_each_data
from ..atomic_io import write_whole
from ..errors import InputError, Interrupted, setting
from ..extras import need
from ..notebook import page
from ..ownership import claim
from ..plain import plain
from ..structured import Malformed, load_json
from ..training.failure import preemptible
from ..training.parallel.place import refuse_ranks
from ..training.progress import Progress
from .board import Board
from .budget import run_seconds
from .engine import engines, outcomes_of
from .foreseen import foreseen
from .jobs import interleaved
from .plan import ComparisonPlan
from .planning import FOLDER, folder_name, make_plan
from .records import Arm, GateResult, Job, Key, Outcome, Results, Stage, Verdict
from .repeated import repeats, write_repeats
from .report.document import Paragraph
from .report.files import FILES, write_report
from .report.page import notebook_html_of, section_html
from .report.sections.plain_words import lead_of
from .report.terminal import section_lines, text_of
from .settings import LOOKS, ComparisonSettings
from .statistics.power import PURPOSE, both, noise_of_tuning
from .statistics.rates import fit_rates, octaves
from .statistics.sequential import undecided
from .statistics.terms import Terms
from .statistics.verdicts import judge
from .stopped import different, stopped_variants, with_stopped, without
from .store import Store
from .study import Study, read_study
from .tuning import RunJobs, Tuned, tune

GATES = "gates.json"
UNDECIDED = 3  # exit status
ALONE = "compare makes many runs, each by one process"


class Comparison:
    """What a comparison found. Its `repr` is the report for a terminal, `.data` what a program reads.

    results  all of it, see `Results`
    folder   where plan, results and report lie
    plan     what was run
    """

    def __init__(self, plan: ComparisonPlan, results: Results, folder: Path) -> None:
        self.plan, self.results, self.folder = plan, results, folder

    @property
    def data(self) -> dict[str, Any]:
        """The results as plain data: what results.json holds."""
        read: dict[str, Any] = load_json(self.folder / "results.json")
        return read

    @property
    def verdicts(self) -> list[Verdict]:
        """Those at the largest size: what the comparison claims."""
        return [verdict for verdict in self.results.verdicts if verdict.size == self.plan.sizes[-1]]

    @property
    def exit_status(self) -> int:
        """0 where every variant is decided, 3 where one is not, or was stopped by a check."""
        return UNDECIDED if any(verdict.word == "inconclusive" for verdict in self.verdicts) else 0

    def show(self) -> None:
        """Print the report; in a notebook, show it."""
        from ..notebook import in_notebook

        if in_notebook():
            from IPython import display

            display.display(self)  # type: ignore[no-untyped-call]
        else:
            print(self)

    def save(self, folder: str | Path) -> list[Path]:
        """Write the report into another folder; returns its files."""
        return write_report(self.results, folder)

    def __repr__(self) -> str:
        return f"{text_of(self.results).rstrip()}\n\nreport: {self.folder / 'report.html'}"

    def _repr_html_(self) -> str:
        return str(notebook_html_of(self.results))


class StudyReport:
    """What the comparisons of a study found, or those of one on several data sets. Its `repr` is whether what was found
    repeats, where there are such, then their reports, one after the other.

    parts    by name: a comparison, or its plan where `dry_run` was asked for
    columns  names of parts that are one comparison on several data sets, together
    folder   where the report on these lies
    """

    def __init__(
        self, title: str, parts: Mapping[str, Comparison | ComparisonPlan], columns: Iterable[Iterable[str]] = (),
        folder: Path = FOLDER,
    ) -> None:  # fmt: skip
        self.title, self.parts, self.folder = title, parts, folder
        self.results = {name: part.results for name, part in parts.items() if isinstance(part, Comparison)}
        beside = [{name: self.results[name] for name in column if name in self.results} for column in columns]
        self.repeats = [repeats(found) for found in beside if len(found) > 1]

    @property
    def data(self) -> dict[str, Any]:
        said = [item.text for part in self.repeats for item in part.items if isinstance(item, Paragraph) and item.brief]
        return {"title": self.title, "repeats": said, "parts": {name: part.data for name, part in self.parts.items()}}

    @property
    def exit_status(self) -> int:
        """0 where every variant of every part is decided, 3 where one is not."""
        return max(getattr(part, "exit_status", 0) for part in self.parts.values())

    def __repr__(self) -> str:
        parts = (f"{name}\n\n{part!r}" for name, part in self.parts.items())
        where = [f"report: {self.folder / FILES[1]}"] if self.repeats else []
        return "\n\n".join(["\n".join([self.title, *section_lines(self.repeats)]), *parts, *where])

    def _repr_html_(self) -> str:
        pages = (one._repr_html_() if isinstance(one, Comparison) else page(repr(one)) for one in self.parts.values())
        parts = (f"<h2>{escape(name)}</h2>{html}" for name, html in zip(self.parts, pages, strict=True))
        return f"<h1>{escape(self.title)}</h1>{''.join([*section_html(self.repeats), *parts])}"


def compare(
    variants: Sequence[Any] = (), *, study: str | Path | None = None, root: str | Path | None = None,
    use: Sequence[str] = (), quiet: bool = False, **given: Any,
) -> Comparison | ComparisonPlan | StudyReport:  # fmt: skip
    """Is A better than B? Train variants alike, with paired seeds and a learning rate tuned for each, and test.

        compare(["pre-norm", "post-norm"], data="shakespeare.txt", budget="20m").show()
        compare(["pre-norm"], vary="optimizer=adamw,muon", data="shakespeare.txt", steps=500, seeds=6)
        compare(study="norm-placement", data="shakespeare.txt")

    variants  names of the gallery, formulas, model files; in Python also {"model": ..., "name": ..., key: value}. The
              first one is the base with which the others are compared
    study     the name of a study, or its file: it has the variants and settings, of which `given` changes some
    root      the folder in which the study's data lies
    use       packages whose words, tasks, data formats and optimizers may be used
    quiet     show nothing but warnings
    given     fields of ComparisonSettings; `task`, fields of its settings and of TrainingSettings, numbers and formulas
              of the model: for all variants

    Everything is left in the folder `out`: the plan, written before anything runs, results.json and the report. Runs
    lie in `store`, and other comparisons use them again. The same call goes on where one was stopped; with more
    variants or seeds it adds to it. With `dry_run` the plan is returned, and nothing is written.

    Raises ConfigError with all mistakes, InputError (also where torchrun has started it several times), FormulaError,
    DataError; Interrupted.
    """
    clusters = " or ".join(setting("engine", name) for name in ("slurm", "ray"))
    refuse_ranks(os.environ, ALONE, f"on a cluster with {clusters}")
    if study is None and root is not None:
        raise InputError(f"{setting('root', str(root))} is the folder of a study's data; name the study too")
    if study is not None and variants:
        raise InputError(f"{setting('study', str(study))} has its own variants; leave the others out")
    whole, out = None if study is None else read_study(study), given.pop("out", None)
    columns = [on_each_data(*part) for part in (whole.comparisons(root, given) if whole else [("", given)])]
    parts = {name: settings for column in columns for name, settings in column.items()}
    if whole is None and len(parts) == 1:
        return comparison(variants, {**parts[""], "out": out}, use, quiet)
    folder = Path(out or FOLDER / (folder_name([*map(str, variants), *parts]) if study is None else Path(study).stem))
    if not given.get("dry_run") and any(len(column) > 1 for column in columns):
        claim(folder, FILES[:2])  # before the comparisons' own folders lie in it
    variants, reports = whole.variants if whole else variants, dict[str, Comparison | ComparisonPlan]()
    for name, settings in parts.items():
        settings["out"] = str(folder / name.replace(" ", "-").replace("/", "-"))
        reports[name] = comparison(variants, settings, use, quiet, whole, name)
    if len(reports) == 1:
        return reports[name]
    report = StudyReport(whole.title if whole else folder.name, reports, columns, folder)
    if report.repeats:
        write_repeats(report.title, report.repeats, report.results, folder)
    return report


def comparison(
    variants: Sequence[Any], given: Mapping[str, Any], use: Sequence[str], quiet: bool, study: Study | None = None,
    part: str = "",
) -> Comparison | ComparisonPlan:  # fmt: skip
    """One comparison, see `compare`; of a study, or of a part of one."""
    of_comparison = given.keys() & ComparisonSettings.model_fields.keys()
    settings = ComparisonSettings.read({key: given[key] for key in given if key in of_comparison})
    for package in ("scipy.stats", "statsmodels.regression.linear_model"):
        need(package, PURPOSE)
    engines.need(settings.engine)
    shared = {key: value for key, value in given.items() if key not in of_comparison}
    plan, folder = make_plan(variants, settings, shared, use)
    if study is not None:
        plan = replace(plan, notes=[*plan.notes, *study.unstated(plan.audit)])
    if settings.dry_run:
        return with_runs_there(plan, Store(settings.store))
    left = different(plan)
    claim(folder, (GATES, *FILES))
    plan.write(folder)
    store = Store(settings.store)
    with preemptible(), Progress("runs", quiet=quiet) as shown:
        at_once = settings.at_once or plan.at_once
        gates = gates_of(left, folder, shown)
        stopped = stopped_variants(left, gates)
        running = without(left, stopped)
        for name, reason in stopped.items():
            shown.say(f"{name} is not run: it fails {reason}", warning=True)
        if plan.foreseen:
            shown.say(plan.foreseen, warning=True)
        board = Board(shown, store, running.arms, at_once, sum(map(running.runs, running.arms)))
        try:
            with engines.get(settings.engine)(store, at_once) as engine:
                run = partial(outcomes_of, engine=engine, board=board)
                tuned = tune(running, run)
                running = revised(running, tuned, board)
                plan = replace(plan, measured=running.measured)
                plan.write(folder)
                results = with_stopped(results_of(running, tuned, gates, run), plan, stopped)
        except Interrupted as error:
            kept = f"{board.done} of {board.total} runs are kept, and those under way go on"
            raise type(error)(f"{folder}: interrupted; {kept} with the same call") from None
    if study is not None:
        claims = [(one.says, one.source) for one in study.claims]
        title = f"{study.title}: {part}" if part else study.title
        results = replace(results, name=title, question=study.question, claims=claims)
    write_report(results, folder)
    return Comparison(plan, results, folder)


def with_runs_there(plan: ComparisonPlan, store: Store) -> ComparisonPlan:
    """A plan that says how many of its runs the store has: it is gone through as it would be run, and nothing runs."""
    there = Counter[tuple[Key, Stage]]()

    def look(jobs: Sequence[Job]) -> list[Outcome]:
        known = [outcome for job in jobs if (outcome := store.outcome_of(job)) is not None]
        there.update((outcome.arm_key, outcome.stage) for outcome in known)
        return known

    if not store.path.is_dir():
        return plan
    tuned, arms = tune(plan, look), [arm for arm in plan.arms if plan.runs(arm)]
    for arm in arms:
        look(confirming(plan, arm, tuned, plan.seeds))
    kept = [min(there[arm.arm_key, "tune"], plan.tuning_runs(arm)) + there[arm.arm_key, "confirm"] for arm in arms]
    costs = [(run_seconds(arm), plan.runs(arm)) for arm in arms]
    left = sum(seconds * (runs - known) for (seconds, runs), known in zip(costs, kept, strict=True))
    share = left / sum(seconds * runs for seconds, runs in costs)
    return replace(plan, there=sum(kept), seconds=plan.seconds and plan.seconds * share)


def gates_of(plan: ComparisonPlan, folder: Path, shown: Progress) -> list[GateResult]:
    """The checks of all arms, made once for a plan."""
    from .gate import check_arms

    path = folder / GATES
    try:
        read = load_json(path)
        if read["plan"] == plan.hash:
            return [GateResult(**each) for each in read["gates"]]
    except (OSError, Malformed, KeyError, TypeError):
        pass
    shown.say("checking each variant before it is trained")
    gates = check_arms(plan)
    content = {"plan": plan.hash, "gates": [asdict(each) for each in gates]}
    write_whole(path, (json.dumps(plain(content), indent=1) + "\n").encode())
    return gates


def revised(plan: ComparisonPlan, tuned: Tuned, board: Board) -> ComparisonPlan:
    """The plan with the noise that the runs have shown which tuned the rates, and what it can show by that, said before
    it is confirmed; and whether by these runs the base learns more than a simple model."""
    known = [outcome for outcome in tuned.outcomes if outcome.arm_key == plan.base_arms[-1].arm_key]
    if known and (expected := foreseen(plan, known)):
        board.say(expected, warning=True)
    size = plan.sizes[-1]
    measured = noise_of_tuning(tuned.outcomes, plan.base, size, tuned.rates)
    if measured is None:
        return plan
    used = {arm.variant: octaves(tuned.rates[arm.arm_key], arm) for arm in plan.arms_of(size)}
    fit = replace(fit_rates(tuned.outcomes, plan.arms, plan.lower)[size], used=used)
    common = math.sqrt(max(fit.error({name: 1, plan.base: -1})[0] for name in used if name != plan.base))
    noise = replace(both(plan.noise or 0.0, measured), common=common)
    plan = replace(plan, measured=noise)
    board.say(plan.revision)
    if why := plan.shortfall(noise.difference, common)[0]:
        board.say(why, warning=True)
    return plan


def results_of(plan: ComparisonPlan, tuned: Tuned, gates: Sequence[GateResult], run: RunJobs) -> Results:
    """Confirm, judge."""
    outcomes, verdicts = confirm(plan, tuned, run)
    names = {variant.name for variant in plan.variants}
    forced = [
        f"{gate.variant} ({gate.size}) fails {gate.name}: {gate.text}; it was run all the same"
        for gate in gates
        if gate.passed is False and gate.variant in names
    ]
    failed = [f"{o.variant} ({o.size}), seed {o.seed}: failed: {o.reason}" for o in outcomes if o.status == "failed"]
    results = Results(
        name=plan.name, settings=plan.settings.plain(), base=plan.base, score=plan.score, unit=plan.unit,
        lower=plan.lower, variants=list(plan.variants), arms=list(plan.arms), gates=list(gates), outcomes=outcomes,
        verdicts=verdicts, rates=tuned.rates, sensitivity=tuned.sensitivity,
        environment=environment_of(plan.arms[0].config, plan.hash, plan.given),
        notes=[*plan.notes, *tuned.notes, *forced, *failed], audit=list(plan.audit), revision=plan.revision,
    )  # fmt: skip
    return replace(results, lead=lead_of(results))


def confirm(plan: ComparisonPlan, tuned: Tuned, run: RunJobs) -> tuple[list[Outcome], list[Verdict]]:
    """All outcomes, and the verdicts on them, once the paired seeds are run; with `until decided`, look by look, and no
    further than it takes."""
    settings = plan.settings
    noises = [noise_of_tuning(tuned.outcomes, plan.base, size, tuned.rates) for size in plan.sizes]
    # by the largest noise of all sizes an arm may stop after one seed
    noise = max(filter(None, noises), key=lambda each: each.difference, default=None)
    decided = settings.until == "decided"
    changed = {audit.variant: audit.names for audit in plan.audit}
    terms = Terms(plan.base, plan.unit, plan.lower, settings.effect, settings.lr, decided, noise, changed)
    outcomes, verdicts = list(tuned.outcomes), list[Verdict]()
    most, before = len(plan.seeds), 0
    going = {arm.arm_key for arm in plan.arms}
    for count in [1, *(look for look in LOOKS if look < most), most] if decided else [most]:
        arms = [arm for arm in plan.arms if arm.arm_key in going]
        outcomes += run(interleaved([confirming(plan, arm, tuned, plan.seeds[before:count]) for arm in arms]))
        verdicts, before = judge(outcomes, plan.arms, terms), count
        left = undecided(verdicts) if count > 1 else {v.arm_key for v in verdicts if v.word != "worse"}
        going &= left | {(plan.base, size) for _, size in left}
        if not going:
            break
    return outcomes, verdicts


def confirming(plan: ComparisonPlan, arm: Arm, tuned: Tuned, seeds: Sequence[int]) -> list[Job]:
    """Runs of an arm with some of the paired seeds. All models are inspected; that of the first seed writes samples."""
    asked, first = plan.settings, plan.seeds[0]
    jobs = plan.jobs("confirm", arm, [tuned.rates[arm.arm_key]], seeds)
    jobs = [replace(job, inspect_rows=asked.inspect_rows, contexts=asked.contexts) for job in jobs]
    return [replace(job, samples=asked.samples) if job.seed == first else job for job in jobs]


def environment_of(config: Mapping[str, Any], plan: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """With what runs of a configuration were made: the machine, versions, the plan's hash, what was typed for all."""
    from ..runs.identity import versions
    from ..training.machine import describe, pick_device

    device = pick_device(str(config.get("device") or "auto"))
    machine = {key: value for key, value in describe(device).items() if key != "threads"}
    return {"machine": machine, "versions": dict(versions()), "plan": plan, "given": plain(dict(given))}
