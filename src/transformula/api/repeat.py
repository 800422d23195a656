"""`repeat`: a run made again from its own configuration, compared with its log, bit for bit.

`reproduce` (recipe.py) asks whether a score is reached again, anywhere; this asks whether the same numbers come, here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, InputError, NotFinite
from ..plain import plain
from ..training.settings import LIMITS, UNPAIRED
from .configuration import read_config
from .plan import plan_run
from .reading import path_of
from .run import run_of

if TYPE_CHECKING:
    from ..runs.differences import Difference
    from ..runs.folder import RunFolder


@dataclass(frozen=True)
class Repetition:
    """What `repeat` found. Its `repr` is what a person reads, `.data` what a program reads.

    run          the folder of the run that was repeated, and `folder` that of the repetition
    steps        up to which both are the same
    compared     lines of the log that are the same
    loss         the last one, where the log has one
    weights      whether the last weights were compared, too
    difference   the first one; None: there is none
    environment  what differs in versions, machine, data and code, in words
    """

    run: Path
    folder: Path
    steps: int
    compared: int
    loss: float | None
    weights: bool
    difference: Difference | None
    environment: Sequence[str]

    @property
    def same(self) -> bool:
        """Whether no number differs."""
        return self.difference is None

    @property
    def exit_status(self) -> int:
        """0 where the runs are the same, 3 where they differ."""
        return 0 if self.same else 3

    @property
    def data(self) -> dict[str, Any]:
        """As plain data."""
        return dict(plain({**asdict(self), "same": self.same}))

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", last loss {self.loss:.6g}"
        if self.same:
            weights = ", the weights included" if self.weights else ""
            rows = [f"the same: {self.steps:,} steps, bit for bit{weights}{loss}"]
        else:
            before = f"the same up to step {self.steps:,}, then" if self.compared else "differs from the start:"
            nothing = "nothing differs in what was recorded of versions, machine, data and code"
            reasons = ["what else differs:", *(f"  {row}" for row in self.environment)]
            rows = [f"{before} {self.difference}", *(reasons if self.environment else [nothing])]
        return "\n".join([*rows, f"run: {self.run}, repeated in {self.folder}"])


def repeat(
    run: str | Path, *, out: str | Path | None = None, use: Sequence[str] = (), quiet: bool = False
) -> Repetition:
    """Train a run again from its own configuration, and compare each line of its log, and the last weights.

        repeat("runs/first")

    run  the folder of a run, ended or not
    out  the folder of the repetition: by default that of the run with "-repeat" after it
    use  packages that the run uses: a file that is loaded imports nothing

    It ends at the first difference. On the same machine with the same versions there is none. `reproduce` is for
    recipes: it asks whether a score is reached.

    Raises CheckpointError for a folder that is no run's or a log without a step; InputError for a run whose numbers
    follow the clock (`minutes`) or whose length a resume changed; DataError for data that is gone; Interrupted.
    """
    from ..runs.differences import Difference, LogComparison, different_environment, different_weights
    from ..runs.folder import CONFIG, RunFolder
    from ..runs.log import read_log

    folder = RunFolder.open(path_of(run, "run"))
    config, events = read_config(folder.path), list(read_log(folder.log.path))
    check_repeatable(folder, config, events)
    comparison = LogComparison(events)
    if not comparison.ahead:
        raise CheckpointError(f"{folder.log.path}: holds no step that could be compared; go on with the run first")
    ends = [event for event in events if event.get("event") == "end"]
    whole = bool(ends) and ends[-1].get("stopped") != "interrupted"

    def follow(event: Mapping[str, Any]) -> bool:
        """Whether the repetition may end: at a difference, or where a log that stops in the middle is over."""
        comparison.hear(event)
        return comparison.difference is not None or not (comparison.ahead or whole)

    target = free_folder(folder.path) if out is None else path_of(out, "out")
    stated = {**config, "out": str(target), "log_to": []}
    plan = plan_run(stated, use, source=str(folder.path / CONFIG), beside=("out", "log_to"))
    try:
        made = run_of(plan, quiet, follow).result
    except NotFinite:  # as the run itself may have ended
        made = None
    if made is not None and comparison.ahead and comparison.difference is None:
        made.check_ended(f"the repetition was interrupted at step {made.steps:,}; up to there it is the same")
    comparison.end()
    now = RunFolder.open(target)
    weights = whole and made is not None and ends[-1].get("step") == made.steps and comparison.difference is None
    difference = comparison.difference
    if weights and (tensor := different_weights(folder.last, now.last)) is not None:
        difference = Difference(comparison.step, "weights", *tensor)
    environment = different_environment(folder.manifest(), now.manifest())
    if resumed := [str(event.get("step")) for event in events if event.get("event") == "resumed"]:
        environment.append(f"the run was resumed at step {', '.join(resumed)}")
    return Repetition(
        folder.path, now.path, comparison.step, comparison.compared, comparison.loss, weights, difference, environment
    )


def check_repeatable(folder: RunFolder, config: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
    """Raise InputError for a run that its configuration alone does not decide."""
    if clock := next((key for key in LIMITS if key in UNPAIRED and config.get(key) is not None), None):
        what = f"is limited by {clock}, so that its learning rate follows the clock and no repetition is the same"
        raise InputError(f"{folder.path}: {what}; train with --steps to repeat a run")
    resumed = [event for event in events if event.get("event") == "resumed"]
    lengths = [folder.manifest().get("length"), *(event.get("length") for event in resumed)]
    known = [length for length in lengths if isinstance(length, Mapping)]
    for before, after in zip(known, known[1:], strict=False):
        if before != after:
            words = ", then ".join(
                " ".join(f"{key} {value:g}" for key, value in one.items()) for one in (before, after)
            )
            what = f"a resume changed its length ({words}), which the learning rate follows"
            raise InputError(f"{folder.path}: {what}, so its configuration alone does not repeat it")


def free_folder(run: Path) -> Path:
    """The first of runs/first-repeat, runs/first-repeat-2, ... that is not there."""
    names = (f"{run.name}-repeat" if number == 1 else f"{run.name}-repeat-{number}" for number in count(1))
    return next(path for name in names if not (path := run.with_name(name)).exists())
