"""The studio: what its page asks of a server. An editor of equations, runs that are trained as commands, their curves.

A run is the command that the page shows, in a process of its own, in the folder of runs: it outlives the page, and
whatever is done here can be done in a shell.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ..api.editing import FILE, NUMBERS, answer, architecture_of
from ..errors import InputError, TransformulaError, UnknownName
from ..plain import several
from ..runs.folder import CONFIG, RunFolder
from ..runs.log import points_of, read_log
from ..settings import Settings
from .models import Models, Served
from .settings import ServeSettings

PAGE = Path(__file__).parent / "page"
FILES = {"studio.js": "text/javascript", "studio.css": "text/css"}
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}\Z")  # of a run: one folder, in the folder of runs
NOTES = ".studio"  # in the folder of runs: what was typed, and what the commands print
BASELINE = re.compile(r"^\| baseline: (.+?) \| ([\d.]+) \|$", re.M)
SECONDS_TO_END = 60  # that a run gets to save itself
REPORT = "report.html"
MOST_PLACES = 500  # that are listed
NO_TEXT = ("ablate", "training")  # looks at the validation set, or at the log
MOST_TEXT = 2_000_000  # characters
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class TrainBody(Settings):
    """POST /studio/train"""

    text: str = Field(min_length=1, max_length=100_000, description="a formula, or a model file's text")
    numbers: dict[Literal["depth", "width", "heads", "context", "vocab"], int] = Field({}, description="its numbers")
    source: Literal["python-docs", "python-code"] | None = Field(None, description="a built-in text to learn from")
    own: str | None = Field(None, max_length=MOST_TEXT, description="or a text of one's own")
    minutes: float = Field(0.5, gt=0, le=600, description="for how long")


class InsideBody(Settings):
    """POST /studio/runs/NAME/inside"""

    look: Literal["attention", "norms", "gradients", "lens", "ablate", "collapse", "training"] = Field(
        description="what is looked at"
    )
    text: str | None = Field(None, max_length=10_000, description="at a text, in the place of the validation set")
    silence: str | None = Field(None, max_length=200, description="with ablate: the one place or edge to silence")


class RunModels(Models):
    """The runs of a folder as models: each is loaded when it is first asked for."""

    def __init__(self, folder: Path, settings: ServeSettings) -> None:
        super().__init__((), settings)
        self.folder = folder

    def find(self, name: str) -> Served:
        if name not in self.by_name and NAME.match(name) and (self.folder / name / CONFIG).is_file():
            from ..api.reading import model_folder

            self.by_name[name] = Served(name, model_folder(self.folder / name))
        return super().find(name)


@dataclass(eq=False)
class Studio:
    """The runs of a folder, and those that were begun here. Nothing outside the folder is read or written."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _uses: dict[tuple[str, int], dict[str, Any] | None] = field(default_factory=dict)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the editor asks: see `api.editing`."""
        return answer(request)

    def listed(self) -> dict[str, Any]:
        """All runs, the newest first, and the comparisons that have a report."""
        places = [place for place in self.folder.iterdir() if NAME.match(place.name)] if self.folder.is_dir() else []
        runs = sorted((p for p in places if (p / CONFIG).is_file()), key=lambda p: p.stat().st_mtime, reverse=True)
        reports = sorted(place.name for place in places if (place / REPORT).is_file())
        return {"runs": [self.brief(place) for place in runs], "reports": reports}

    def brief(self, place: Path) -> dict[str, Any]:
        events = list(read_log(place / "log.jsonl"))
        validation = [point for points in points_of(events, "evaluation") for point in points]
        best = f"loss {min(loss for _, loss in validation):.4f}" if validation else "no evaluation yet"
        return {"name": place.name, "title": best, "state": self.state(place, events)}

    def state(self, place: Path, events: Sequence[Mapping[str, Any]]) -> str:
        process = self.processes.get(place.name)
        if process is not None and process.poll() is None:
            return "running"
        return "ended" if any(event.get("event") == "end" for event in events) else "stopped"

    def place(self, name: str) -> Path:
        """The folder of a run. Raises UnknownName."""
        place = self.folder / name
        if not NAME.match(name) or not (place / CONFIG).is_file():
            raise UnknownName("run", name, [one["name"] for one in self.listed()["runs"]])
        return place

    def run(self, name: str) -> dict[str, Any]:
        """A run: its curve, what it printed last, a sample of what it writes."""
        place = self.place(name)
        events = list(read_log(place / "log.jsonl"))
        whole, sampled = points_of(events, "evaluation")
        end = last_of(events, "end")
        written = last_of(events, "sample")
        state = self.state(place, events)
        printed = self.folder / NOTES / f"{name}.log"
        lines = printed.read_text("utf-8", "replace").strip().splitlines() if printed.is_file() else []
        return {
            "name": name,
            "state": state,
            "training": points(points_of(events, "step")[0]),
            "validation": points(sorted({**dict(sampled), **dict(whole)}.items())),
            "baselines": baselines(place, events),
            "said": "" if state == "running" and not lines else "\n".join(lines[-3:]),
            "sample": str(end.get("sample") or written.get("text") or ""),
            "sampled": int(end.get("step") or written.get("step") or 0),
            "command": self.resume_command(place) if state != "running" else self.typed.get(name, ""),
            "resumable": any((place / "checkpoints").glob("step-*")),
            "writes": (place / "best").is_dir(),
            "use": self.use(place),
        }

    def use(self, place: Path) -> dict[str, Any] | None:
        """How a run's best model is tried: the verb, whether it goes on with a text, else the fields of an input and
        what these are ("texts", "pictures" or "both"); None where it cannot be, as the page sends no sounds."""
        if not (place / "best").is_dir():
            return None
        key = (place.name, (place / CONFIG).stat().st_mtime_ns)
        if key not in self._uses:
            from ..api.inputs import predictor_in
            from ..tasks.verb import built_in_verbs

            predictor = None
            with suppress(TransformulaError):  # of a package that is not here
                predictor = predictor_in(place / "best")
            if predictor is None or predictor.reads == "sounds" or not (predictor.verb or predictor.continues):
                self._uses[key] = None
            else:
                verb = built_in_verbs().get(predictor.verb)
                fields = list(verb.columns) if verb is not None and verb.columns else ["input"]
                self._uses[key] = {
                    "verb": predictor.verb, "text": predictor.continues, "fields": fields, "reads": predictor.reads,
                    "folder": str(place),
                }  # fmt: skip
        return self._uses[key]

    def scores(self, name: str) -> dict[str, Any]:
        """The scores of a run's best model beside its baselines, the worst examples, and the command that prints them;
        of a text, where its loss lies."""
        from ..api.reading import TASK, of_task
        from ..api.run import evaluate

        place = self.place(name)
        settings = of_task(str(RunFolder(place).config().get("task") or TASK), "evaluation")
        options: dict[str, Any] = {"by": ["frequency"]} if "by" in settings.model_fields else {}
        report = evaluate(place, **options)
        typed = ["transformula", "evaluate", str(place), *(["--by", "frequency"] if options else [])]
        return {"svg": report.svg or "", "text": repr(report), "command": shlex.join(typed)}

    def places(self, name: str) -> dict[str, Any]:
        """What can be silenced in a run's model: the edges of its layers, each with the line that it stands in."""
        from ..analysis.places import edges
        from ..api.reading import check_model, model_folder

        architecture = check_model(model_folder(self.place(name)))
        named = [each for each in edges(architecture) if each.where == "layer"]
        return {"places": [{"name": each.name, "text": each.text} for each in named[:MOST_PLACES]]}

    def inside(self, name: str, body: InsideBody) -> dict[str, Any]:
        """A look inside a run's best model: a picture, a table, and the command that prints them. Raises InputError."""
        from ..api.inspect import inspect

        options: dict[str, Any] = {} if body.text is None or body.look in NO_TEXT else {"text": body.text}
        if body.silence is not None:
            if body.look != "ablate":
                raise InputError("silence: stands with the look ablate")
            options["at"] = [body.silence]
        place = self.place(name)
        shown = inspect(place, body.look, **options)
        typed = ["transformula", "inspect", str(place), body.look]
        typed += [word for key, value in options.items() for word in (f"--{key}", *several(value))]
        return {"svg": shown.svg, "text": repr(shown), "command": shlex.join(typed)}

    def report(self, name: str) -> str:
        """The report of a comparison. Raises UnknownName."""
        place = self.folder / name / REPORT
        if not NAME.match(name) or not place.is_file():
            raise UnknownName("report", name, self.listed()["reports"])
        return place.read_text("utf-8")

    @property
    def typed(self) -> dict[str, str]:
        """The command of each run that was begun here."""
        return {path.stem: path.read_text("utf-8") for path in (self.folder / NOTES).glob("*.command")}

    def train(self, body: TrainBody) -> dict[str, Any]:
        """Begin a run. Raises FormulaError, InputError."""
        architecture_of(body.text, {str(key): value for key, value in body.numbers.items()})
        if (body.source is None) == (body.own is None):
            raise InputError("source: name a built-in text, or send one of your own as `own`")
        if body.own is not None and not body.own.strip():
            raise InputError("own: there is no text to learn from")
        notes, number = self.folder / NOTES, 1
        while (self.folder / f"studio-{number}").exists() or (notes / f"studio-{number}.command").exists():
            number += 1
        name = f"studio-{number}"
        typed: dict[str, str] = {}  # files that hold what was typed
        model, data = body.text, str(body.source)
        if body.text.lstrip().startswith(FILE):
            model = str(notes / f"{name}.yaml")
            typed[model] = body.text
        if body.own is not None:
            data = str(notes / f"{name}.txt")
            typed[data] = body.own
        numbers = [word for key in NUMBERS if key in body.numbers for word in (f"--{key}", str(body.numbers[key]))]
        arguments = ["train", model, "--data", data, "--minutes", f"{body.minutes:g}", "--watch", *numbers]
        return self.begin(name, [*arguments, "--out", str(self.folder / name)], typed)

    def begin(self, name: str, arguments: Sequence[str], typed: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Start a command of a run, with files of what was `typed`; returns when the run's log is there. Raises
        InputError with what the command said where it ends before that: then a new run leaves nothing behind."""
        notes, begins = self.folder / NOTES, typed is not None
        notes.mkdir(parents=True, exist_ok=True)
        for path, text in (typed or {}).items():
            Path(path).write_text(text, encoding="utf-8")
        (notes / f"{name}.command").write_text("transformula " + shlex.join(arguments), encoding="utf-8")
        printed = notes / f"{name}.log"
        with open(printed, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "transformula", *arguments, "--quiet"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        log, before = self.folder / name / "log.jsonl", self.log_time(name)
        while process.poll() is None and not (log.is_file() and self.log_time(name) != before):
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        if process.poll() not in (None, 0):
            said = printed.read_text("utf-8", "replace").strip().removeprefix("error: ")
            for path in [*(typed or {}), *(map(str, notes.glob(f"{name}.*")) if begins else ())]:
                Path(path).unlink(missing_ok=True)
            if begins and not any(notes.iterdir()):
                notes.rmdir()
            raise InputError(said or f"the run ended at once, with status {process.returncode}")
        self.processes[name] = process
        return {"name": name, "state": "running"}

    def log_time(self, name: str) -> int:
        """When something was written into a run's log; 0 where there is none."""
        log = self.folder / name / "log.jsonl"
        return log.stat().st_mtime_ns if log.is_file() else 0

    def stop(self, name: str) -> dict[str, Any]:
        """Let a run end after its step, with a checkpoint."""
        self.place(name)
        process = self.processes.get(name)
        if process is None or process.poll() is not None:
            raise InputError(f"{name}: was not begun here, or has ended")
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            raise InputError(f"{name}: is still saving; look again in a while") from None
        return {"name": name, "state": "stopped"}

    def resume(self, name: str) -> dict[str, Any]:
        """Go on with a run, exactly where it stopped; one that came to its end, for as long again."""
        place = self.place(name)
        return self.begin(name, shlex.split(self.resume_command(place))[1:])

    def resume_command(self, place: Path) -> str:
        run = RunFolder(place)
        config = run.config()
        limits = {key: config[key] for key in ("minutes", "steps", "epochs", "tokens") if config.get(key)}
        ended = self.state(place, list(read_log(place / "log.jsonl"))) == "ended"
        return run.resume_command({key: 2 * limit for key, limit in limits.items()} if ended else None)

    def close(self) -> None:
        """Let all runs that were begun here save themselves."""
        running = [process for process in self.processes.values() if process.poll() is None]
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                process.kill()


def points(pairs: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    return [{"step": step, "loss": loss} for step, loss in pairs]


def last_of(events: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The last event of a name; an empty one where there is none."""
    return next((event for event in reversed(events) if event.get("event") == name), {})


def baselines(place: Path, events: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The n-grams beside a run, in the unit of the loss: its log and its summary have them in that of its score. Of
    many, the two nearest to the run's own."""
    scores: Mapping[str, Any] = last_of(events, "end").get("scores") or last_of(events, "evaluation")
    known: Mapping[str, float] = last_of(events, "baselines").get("scores") or {}
    summary = place / "summary.md"
    if not known and summary.is_file():
        known = {name: float(value) for name, value in BASELINE.findall(summary.read_text("utf-8"))}
    if "loss" not in scores:
        return {}
    factor = scores["loss"] / scores["bits_per_byte"] if scores.get("bits_per_byte") else 1.0
    found = {name: value * factor for name, value in known.items() if name.endswith("-gram")}  # others are no losses
    nearest = sorted(found, key=lambda name: abs(found[name] - scores["loss"]))[:2]
    return {name: found[name] for name in nearest}


def index() -> str:
    """The page, of a server."""
    return (PAGE / "index.html").read_text("utf-8").replace('data-mode="static"', 'data-mode="server"')
