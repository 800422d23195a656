"""`search`: rounds of proposals race against the base, beside twins of it and beside its own settings; what survives is
confirmed by `compare` with fresh seeds, on text that no run of the race was scored on, at two sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..atomic_io import write_whole
from ..comparison.board import Board
from ..comparison.compare import ALONE, UNDECIDED
from ..comparison.engine import engines, outcomes_of
from ..comparison.statistics.power import PURPOSE
from ..comparison.store import Store
from ..errors import Interrupted
from ..extras import need
from ..language.model_writing import write_text
from ..ownership import claim
from ..training.failure import preemptible
from ..training.parallel.place import refuse_ranks
from ..training.progress import Progress
from .admission import Admission
from .found import RESULTS
from .hunt import ANSWERS, Hunt
from .outside import OutsideProposer
from .plan import HuntPlan, make_hunt_plan, runs_of_round
from .proposer import proposers
from .race import Race
from .records import Contender
from .report import FILES, text_of, write_hunt_report
from .settings import HuntSettings

PACKAGES = ("scipy.stats", "statsmodels.regression.linear_model")  # of the comparison that confirms


@dataclass(frozen=True, repr=False)
class HuntReport:
    """What a search found. Its `repr` is the report for a terminal, `.data` what a program reads."""

    hunt: Hunt

    @property
    def data(self) -> dict[str, Any]:
        """All of it as plain data: what results.json holds."""
        return self.hunt.data

    @property
    def exit_status(self) -> int:
        """0 where something was found, 3 where nothing may be claimed."""
        return 0 if self.hunt.data["found"] else UNDECIDED

    def write(self) -> None:
        """Write the report, the results, and each wiring that was found as a model file with its provenance."""
        write_whole(self.hunt.folder / RESULTS, (json.dumps(self.hunt.data, indent=1) + "\n").encode())
        write_hunt_report(self.hunt, self.hunt.folder)
        for name in self.hunt.data["found"]:
            one = self.hunt.candidate(name)
            path = self.hunt.folder / "found" / f"{name}.yaml"
            claim(self.hunt.folder, (f"found/{name}.yaml",))
            path.parent.mkdir(exist_ok=True)
            text = replace(self.hunt.race.admission.read(one.model), name=name, about=about(self.hunt, one))
            write_whole(path, write_text(text).encode())

    def __repr__(self) -> str:
        return f"{text_of(self.hunt).rstrip()}\n\nreport: {self.hunt.folder / 'report.html'}"


def about(hunt: Hunt, one: Contender) -> dict[str, str]:
    """Where a wiring is from, as an entry of the gallery says it."""
    verdict = None if hunt.confirmed is None else hunt.confirmed.verdict(one.name)
    return {
        "title": f"{hunt.plan.settings.base}, changed by a search",
        "why": hunt.lineage_in_words(one),
        "claim": "" if verdict is None else verdict.may or verdict.sentence,
        "claim_source": f"search {hunt.plan.hash}, seed {hunt.plan.settings.seed}, formula {one.hash}",
    }


def search(*, use: Sequence[str] = (), quiet: bool = False, **given: Any) -> HuntReport | HuntPlan:
    """Look for wirings that are better than a base, by racing, and say what may be claimed of them.

        search(base="pre-norm", data="text.txt", budget="4h", out="hunt")

    use    packages whose words, tasks, data formats and optimizers may be used
    quiet  show nothing but warnings
    given  fields of HuntSettings; `task`, fields of its settings and of TrainingSettings, numbers of the model: for all

    Everything is left in the folder `out`; runs lie in `store`. The same call goes on where one was stopped. With
    `dry_run` the plan is returned, and nothing is written. Raises ConfigError, InputError, FormulaError, DataError,
    CheckpointError; Interrupted.
    """
    refuse_ranks(os.environ, ALONE, "on a cluster with an engine of compare")
    own = given.keys() & HuntSettings.model_fields.keys()
    settings = HuntSettings.read({key: given[key] for key in own})
    shared = {key: value for key, value in given.items() if key not in own}
    for package in PACKAGES:
        need(package, PURPOSE)
    engines.need(settings.engine)
    for name in settings.proposers:
        proposers.need(name)
    outside = None if settings.proposer is None else OutsideProposer(settings.proposer)
    plan, folder = make_hunt_plan(settings, shared, use)
    if settings.dry_run:
        return plan
    claim(folder, (ANSWERS, RESULTS, *FILES))
    plan.write(folder)
    store, at_once = Store(settings.store), settings.at_once or plan.at_once
    with preemptible(), Progress("runs", quiet=quiet) as shown, nullcontext() if outside is None else closing(outside):
        rounds = plan.rounds * (2 if settings.tuning else 1)
        planned = rounds * sum(runs_of_round(settings.children + settings.twins))
        board = Board(shown, store, [], at_once, planned)
        admission = Admission(plan, tuple(use))
        try:
            with engines.get(settings.engine)(store, at_once) as engine:
                hunt = Hunt(
                    plan, folder, Race(plan, admission, partial(outcomes_of, engine=engine, board=board)), board
                )
                hunt.run(outside)
                hunt.judge(quiet)
        except Interrupted as error:
            kept = f"{board.done} runs are kept, and those under way go on"
            raise type(error)(f"{folder}: interrupted; {kept} with the same call") from None
    report = HuntReport(hunt)
    report.write()
    return report
