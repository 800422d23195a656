"""What a proposal must be before it runs: a model that the language checks, new, of a cost near the base's, and one
that passes the gates of a comparison (loss at initialization, causality, living edges, ...).

A proposal's text is only ever read as a formula or as the text of a model file: never as a path or a name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..analysis.canonical import formula_hash
from ..api.identity import identity_of
from ..api.inheriting import completed
from ..api.reading import TASK, check_model, known_words
from ..comparison.costs import costs_of, model_text, prepare
from ..comparison.gate import check_arm, trial_of
from ..comparison.matching import matched_parameters, matched_steps
from ..comparison.records import Arm
from ..errors import TransformulaError
from ..inspection.gate import ArmTrial
from ..language.model_file import read_text
from ..language.model_text import ModelText, from_formula
from ..language.model_writing import write_text
from .plan import HuntPlan
from .records import Contender, ProposedModel

RATE = "lr_factor"  # of settings: the learning rate, over that of the base
MOST_PARAMETERS = 10.0  # over the base's, of whatever is matched


class ProposalRefused(Exception):
    """Why a proposal does not run."""


class Admission:
    """Reads, checks and matches proposals against the base of a plan.

    known   hash of a formula -> the name of the candidate that has it
    made    identity of a run -> the name of the candidate whose run it is
    """

    def __init__(self, plan: HuntPlan, use: tuple[str, ...] = ()) -> None:
        self.plan, self.use, self.vocabulary = plan, use, known_words(use)
        self.base = prepare(plan.base.config)
        self.known: dict[str, str] = {formula_hash(self.base.architecture): "base"}
        self.made = {identity_of({**plan.base.config, "steps": plan.steps[0]}): "base"}
        self._trial: ArmTrial | None = None

    def read(self, model: str) -> ModelText:
        """A proposal's text, whole: a formula takes what it does not state from the base."""
        base = model_text(self.plan.base.config)
        if model.lstrip().startswith("language:"):
            text = replace(read_text(model), about={})
            sizes = {
                key: base.numbers[key] for key in ("depth", "width", "heads", "context", "vocab") if key in base.numbers
            }
            return replace(text, numbers={**text.numbers, **sizes})
        task = str(self.plan.base.config.get("task", TASK))
        text = from_formula(model)
        text = replace(text, numbers={**base.numbers})
        return completed(text, base, {}, {}, task, self.use).text

    def hash_of(self, model: str) -> str:
        """The hash of a proposal's formula; "" of one that cannot be checked."""
        try:
            return formula_hash(check_model(self.read(model), use=self.use))
        except TransformulaError:
            return ""

    def admit(self, proposal: ProposedModel, name: str, round_: int) -> Contender:
        """A candidate; one that is refused says why."""
        candidate = Contender(name, proposal.model, proposal.reason, proposal.proposer, proposal.parent, round=round_)
        try:
            text = replace(self.read(proposal.model), name=name)
            hashed = formula_hash(check_model(text, use=self.use))
            candidate = replace(candidate, model=write_text(text), hash=hashed)
            if hashed in self.known:
                return replace(candidate, refused=f"has the formula of {self.known[hashed]}")
            arm = self.arm(candidate, self.plan.steps[0])
            same = self.made.setdefault(identity_of(arm.config), name)
            if same != name:
                return replace(candidate, refused=f"computes what {same} computes")
            self.known[hashed] = name
            self.check(arm)
        except (TransformulaError, ProposalRefused, RecursionError, OverflowError) as error:
            return replace(candidate, refused=str(error) or type(error).__name__)
        return candidate

    def arm(self, candidate: Contender, steps: int) -> Arm:
        """A candidate's configuration, matched with a run of the base of so many steps."""
        plan, base = self.plan, self.plan.base
        config: dict[str, Any] = {**base.config, "model": candidate.model, **own_settings(candidate)}
        adjusted = ""
        if plan.settings.match == "parameters" and candidate.name != "base":
            config, adjusted = matched_parameters(config, base)
        prepared = prepare(config)
        count = steps
        if candidate.name != "base" and plan.settings.match == "flops":
            count, adjusted = matched_steps("flops", costs_of(prepared, steps), costs_of(self.base, steps))
        return Arm(candidate.name, "only", {**config, "steps": count}, costs_of(prepared, count), base.lr, adjusted)

    def check(self, arm: Arm) -> None:
        """Raise ProposalRefused for an arm that costs too much, or fails a check."""
        base = self.plan.base.costs
        dearer = arm.costs.flops_per_token / base.flops_per_token
        if dearer > self.plan.settings.dearest:
            most = self.plan.settings.dearest
            raise ProposalRefused(
                f"costs {dearer:.2f} times the FLOPs a token of the base; at most {most:g} are allowed"
            )
        larger = arm.costs.parameters / base.parameters
        if larger > MOST_PARAMETERS:
            raise ProposalRefused(f"has {larger:.1f} times the parameters of the base")
        self.gates(arm)

    def gates(self, arm: Arm) -> None:
        """Raise ProposalRefused for an arm that fails a check of a comparison. Whether it learns is what the first
        runs of the race show, in no more time."""
        if self._trial is None:
            self._trial = trial_of(self.plan.base)
        results = check_arm(arm, replace(trial_of(arm), base=self._trial), training=False)
        failed = [result for result in results if result.passed is False]
        if failed:
            raise ProposalRefused(str(failed[0]))


def own_settings(candidate: Contender) -> dict[str, Any]:
    """The keys of a run's configuration that a candidate changes; its rate is the race's, times `RATE`."""
    return {key: value for key, value in candidate.settings.items() if key != RATE}
