"""The verbs of tasks: inputs from arguments, a file or a pipe, answers in order. `sample` goes on with prompts."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .options import RUN, Given, Parser
from .output import ESCAPES, check_output, line_of, write_output

if TYPE_CHECKING:
    from ..api.model import Model
    from ..settings import Settings
    from ..tasks.predictor import Answer
    from ..tasks.verb import Verb


def task_verb(name: str, arguments: Sequence[str]) -> TaskVerb | None:
    """The verb of a task: of one here, or of a package that is named by --use. None where no task has it."""
    from ..tasks.verb import built_in_verbs

    verbs = list(built_in_verbs().values())
    if all(name not in (verb.name, *verb.aliases) for verb in verbs):
        parser = Parser("", "", [])
        parser.add_use()
        packages = parser.begin(arguments).use
        if not packages:
            return None
        from ..api.reading import import_packages

        import_packages(packages)
        from ..tasks.base import tasks

        verbs = [verb for task in tasks.names() if (verb := tasks.get(task).verb) is not None]
    return next((TaskVerb(verb) for verb in verbs if name in (verb.name, *verb.aliases)), None)


@dataclass(frozen=True)
class TaskVerb:
    """A verb as the door runs it."""

    verb: Verb

    def make_parser(self, *_: str) -> Parser:
        verb, thing = self.verb, self.verb.takes
        parser = Parser(verb.name, verb.about, verb.examples, f"RUN [{thing} ...]")
        parser.add("run", "RUN", RUN)
        if verb.live:
            parser.add("sources", thing, "what the text begins with", nargs="*")
        else:
            lines = "one per line" if thing == "TEXT" else "names of pictures, one per line"
            parser.add("sources", thing, f"default: standard input, {lines}", nargs="*")
            parser.add("--input", "FILE", f"inputs: {lines}, or .jsonl, .tsv, .csv, .parquet")
            parser.add("--column", "NAME", "the column of FILE (default: source, or the only one)")
            parser.add("--output", "FILE", "write the answers there; on failure nothing is written")
            what = "one line or one JSON object per input"
            parser.add_argument("--format", choices=("text", "jsonl"), default="text", help=what)
            what = "print each text's score before it, separated by a tab"
            parser.add_argument("--scores", action="store_true", help=what)
        if verb.prefix:
            parser.add("--prefix", "TEXT", "text that every output begins with")
        if verb.ensemble:
            parser.add_with()
        parser.add_machine("cpu" if verb.live else "auto")
        titles = {"PROMPT": "sampling"}
        parser.add_settings(titles.get(thing, "search" if verb.prefix else "answers"), verb.options)
        return parser

    def run(self, given: Given) -> int:
        settings = given.read(self.verb.options)
        if not self.verb.live:
            self.check(given)

        from ..api.model import Model
        from ..api.reading import set_threads

        set_threads(given["threads"])
        opening = {key: given[key] for key in ("device", "use", "verify")}
        model = Model.from_folder(given["run"], **opening)
        predictor = model.predictor
        alike = predictor is None or predictor.verb == self.verb.name or (self.verb.live and predictor.continues)
        if predictor is not None and not alike:
            task = getattr(predictor, "task", "")
            what = f"was trained for {task}" if task else f"is used by `{predictor.method}`"
            raise InputError(f"{given['run']}: {what}: transformula {predictor.verb} {given['run']}")
        if self.verb.live:
            return go_on(model, given, settings)
        modules = model.together(given["others"], **opening) if self.verb.ensemble else [model.module]
        return self.answer(model, modules, given, settings)

    def answer(self, model: Model, modules: Sequence[Any], given: Given, settings: Settings) -> int:
        """Print the answers to inputs as these come."""
        from ..api.inputs import must_predict, stream
        from ..data.working import counting

        output, direct = given["output"], given["output"] is None and not given["json"]
        if direct and isinstance(sys.stdout, io.TextIOWrapper):  # lines of text, whatever the machine's encoding is
            sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPES, newline="\n")
        pieces, count = self.arriving(given)
        several = getattr(settings, "n_best", 1) > 1
        prefix = given["prefix"] if self.verb.prefix else None
        texts: list[dict[str, Any]] = []
        lines: list[str] = []
        number = 0
        show = count is not None and (output is not None or not sys.stdout.isatty())
        with counting(f"{self.verb.name}: inputs", show) as progress:
            for answers in stream(must_predict(model.predictor), modules, pieces, settings, prefix=prefix):
                for source, best in answers:
                    number += 1
                    lines += self.rows(number, source, best, given, several)
                    if given["json"]:
                        texts.append({self.key: source, self.verb.answers: [asdict(answer) for answer in best]})
                if direct:
                    sys.stdout.writelines(f"{line}\n" for line in lines)
                    sys.stdout.flush()
                    lines.clear()
                progress(number, count or number)
        if output is not None:
            write_output(output, lines)
        if given["json"]:
            given.show("", {"texts": texts, "settings": settings.plain(), "output": output})
        return 0

    @property
    def key(self) -> str:
        """The key of an input in an object."""
        return "picture" if self.verb.takes == "PICTURE" else "source"

    def check(self, given: Given) -> None:
        """Raise InputError for arguments that contradict each other."""
        if given["sources"] and given["input"] is not None:
            raise InputError(f"{self.verb.takes} and --input are both given: leave one out")
        if given["column"] is not None and (given["input"] is None or is_lines(Path(given["input"]))):
            raise InputError("--column: names a column of --input FILE with rows (.jsonl, .tsv, .csv, .parquet)")
        if given["input"] is not None:
            from ..data.sources import need_sources

            need_sources(given["input"])
        if "ensemble" in given.arguments and not given["others"]:
            raise InputError("--ensemble: says how models are averaged; name a second model: --with RUN")
        if given["json"] and (given["format"] != "text" or given["scores"]) and given["output"] is None:
            raise InputError("--json is one object that has the scores: leave --format and --scores out")
        check_output(given["output"])

    def arriving(self, given: Given) -> tuple[Iterable[list[str]], int | None]:
        """The inputs in pieces, as they come; and how many they are, where that is known."""
        from ..data.lines import arriving_lines

        if given["sources"]:
            return [given["sources"]], None
        if given["input"] is None:
            if sys.stdin.isatty():
                print("one input per line; Ctrl-D ends", file=sys.stderr)
            return arriving_lines(sys.stdin.buffer, Path("standard input")), None
        inputs = self.of_file(Path(given["input"]).expanduser(), given["column"])
        return [inputs], len(inputs)

    def of_file(self, path: Path, column: str | None) -> list[str]:
        """The inputs in a file: its lines, or one column of its rows. Read whole: a mistake is seen at once."""
        from ..data.lines import arriving_lines, opened
        from ..data.records import columns_of, read_records

        if is_lines(path):
            with opened(path, once=True) as file:
                return [line for piece in arriving_lines(file, path) for line in piece]
        if column is None:
            names, _ = columns_of(path)
            column = "source" if "source" in names else names[0]
            if column != "source" and len(names) > 1:
                raise InputError(f"{path} has the columns {', '.join(names)}: say which is the source: --column NAME")
        inputs = [str(row["source"]) for row in read_records(path, {"source": column}, empty="keep")]
        if self.verb.takes == "PICTURE":  # named as the file that names them sees them
            inputs = [str(path.parent / name) if name.strip() else "" for name in inputs]
        return inputs

    def rows(self, number: int, source: str, best: Sequence[Answer], given: Given, several: bool) -> Iterator[str]:
        """The lines of one input: several lines of text for several answers, else one.

        text   [number of the input, where it has several answers] [score, with --scores] text, with tabs between
        jsonl  {"source": ..., "text": ...}, or {"source": ..., "written": [{"text": ...}, ...]}; with --scores all that
               is known of an answer beside its text
        """
        if given["format"] == "jsonl":
            each = [asdict(answer) if given["scores"] else {"text": answer.text} for answer in best]
            answers: dict[str, Any] = {self.verb.answers: each} if several else each[0]
            yield json.dumps({self.key: source, **answers}, ensure_ascii=False)
            return
        for answer in best:
            cells = [str(number)] if several else []
            cells += [f"{answer.score:.5f}"] if given["scores"] else []
            yield "\t".join([*cells, line_of(answer.text)])


def is_lines(path: Path) -> bool:
    """Whether a file is read line by line: its name says no format with columns."""
    from ..data.format import has_columns

    return not has_columns(path)


def go_on(model: Model, given: Given, settings: Settings) -> int:
    """Go on with prompts: the text of a single one is shown while it is written."""
    prompts = given["sources"] or [""]
    live = len(prompts) == 1 and not given["json"]
    before = prompts[0]

    def show(_: int, piece: str) -> None:
        nonlocal before  # the prompt waits for the first piece: a refusal prints nothing else
        sys.stdout.write(before + piece)
        sys.stdout.flush()
        before = ""

    texts = model.generate(prompts, on_text=show if live else None, **settings.plain())
    if live:
        print(before)
        return 0
    rows = [{"prompt": prompt, "text": text} for prompt, text in zip(prompts, texts, strict=True)]
    shown = "\n".join(f"--- {number}\n{row['prompt']}{row['text']}" for number, row in enumerate(rows, 1))
    return given.show(shown, {"texts": rows, "settings": settings.plain()})
