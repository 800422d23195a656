"""What `translate`, `summarise` and `caption` share: sources from arguments, a file or a pipe; targets in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .explain import USE
from .options import NO_VERIFY, Given, Parser
from .output import as_json
from .streams import as_utf8

if TYPE_CHECKING:
    from ..api.model import Model
    from ..tasks.writing import Written

WITH = "a further model that writes together with this one; may be given again"
FORMATS = ("text", "jsonl")


def writing_parser(verb: str, what: str, examples: Sequence[str], thing: str) -> Parser:
    """The options of one of the verbs. `thing` is what it is given, for its help: TEXT or PICTURE."""
    from ..generation.settings import SearchSettings

    lines = "a line" if thing == "TEXT" else "a line each, the names of pictures"
    parser = Parser(verb, what, examples, f"RUN [{thing} ...]")
    parser.add_argument("run", metavar="RUN", help="a run's folder (its best model) or a model's")
    parser.add_argument("sources", metavar=thing, nargs="*", help=f"by default standard input: {lines}")
    parser.add_argument("--input", metavar="FILE", help=f"sources: {lines}, or .jsonl, .tsv, .csv, .parquet")
    parser.add_argument("--column", metavar="NAME", help="the column of FILE (default: source, or the only one)")
    parser.add_argument("--output", metavar="FILE", help="write there, all of it or, on failure, nothing")
    parser.add_argument("--format", choices=FORMATS, default="text", help="a line for each source, or an object")
    parser.add_argument("--scores", action="store_true", help="the score before each text, with a tab between")
    parser.add_argument("--prefix", metavar="TEXT", help="what every target begins with")
    parser.add_argument("--with", action="append", metavar="RUN", default=[], dest="others", help=WITH)
    parser.add_argument("--device", metavar="TEXT", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    parser.add_argument("--threads", metavar="N", type=int, help="CPU threads (default: torch's choice)")
    parser.add_argument("--use", action="append", metavar="PACKAGE", default=[], help=USE)
    parser.add_argument("--no-verify", action="store_false", dest="verify", help=NO_VERIFY)
    parser.add_settings("search", SearchSettings)
    return parser


def write(given: Given, thing: str) -> int:
    """Run one of the verbs."""
    from ..generation.settings import SearchSettings

    settings = given.read(SearchSettings)
    check(given, thing)

    from ..api.model import Model
    from ..api.reading import set_threads
    from ..api.writing import must_write, stream
    from ..data.working import counting

    set_threads(given["threads"])
    opening = {"device": given["device"], "use": given["use"], "verify": given["verify"]}
    model = Model.from_folder(given["run"], **opening)
    verb = given.parser.verb
    refuse_other_models(verb, given["run"], model)
    modules = model.together(given["others"], **opening)
    pieces, count = arriving(given, thing)
    show = count is not None and (given["output"] is not None or not sys.stdout.isatty())
    sink = Sink(given["output"], shown=not given["json"])
    texts: list[dict[str, Any]] = []
    number = 0
    with counting(f"{verb}: sources", show) as progress:
        for found in stream(must_write(model.writing), modules, pieces, settings, prefix=given["prefix"]):
            for source, best in found:
                number += 1
                sink.add(rows(number, source, best, given, thing, settings.n_best > 1))
                if given["json"]:
                    texts.append({named(thing): source, "written": [asdict(one) for one in best]})
            sink.flush()
            progress(number, count or number)
    sink.close()
    if given["json"]:
        print(as_json({"texts": texts, "settings": settings.plain(), "output": given["output"]}))
    return 0


def check(given: Given, thing: str) -> None:
    """Raise InputError for arguments that contradict each other."""
    if given["sources"] and given["input"] is not None:
        raise InputError(f"{thing} and --input are both given: leave one out")
    if given["column"] is not None and (given["input"] is None or is_lines(Path(given["input"]))):
        raise InputError("--column: names a column of --input FILE with rows (.jsonl, .tsv, .csv, .parquet)")
    if given["input"] is not None:
        from ..data.sources import need_sources

        need_sources(given["input"])
    if "ensemble" in given.arguments and not given["others"]:
        raise InputError("--ensemble: says how several models write together; name a second one: --with RUN")
    if given["json"] and (given["format"] != "text" or given["scores"]) and given["output"] is None:
        raise InputError("--json is one object that has the scores: leave --format and --scores out")
    check_output(given["output"])


def refuse_other_models(verb: str, run: str, model: Model) -> None:
    """Raise InputError for a model of another verb, with the right one."""
    from ..api.writing import verb_of

    if model.writing is None:
        raise InputError(
            f"{run}: was not trained to write a target for a source; a language model goes on with a text:"
            f" transformula sample {run}"
        )
    right = verb_of(model.writing)
    if right != verb:
        raise InputError(f"{run}: was trained for {model.writing.task}: transformula {right} {run}")


def arriving(given: Given, thing: str) -> tuple[Iterable[list[str]], int | None]:
    """The sources in pieces, as they come; and how many they are, where that is known."""
    from ..data.lines import arriving_lines

    if given["sources"]:
        return [given["sources"]], None
    if given["input"] is None:
        if sys.stdin.isatty():
            print("one source a line; Ctrl-D ends", file=sys.stderr)
        return arriving_lines(sys.stdin.buffer, Path("standard input")), None
    found = of_file(Path(given["input"]).expanduser(), given["column"], thing)
    return [found], len(found)


def of_file(path: Path, column: str | None, thing: str) -> list[str]:
    """The sources in a file: its lines, or one column of its rows. Read whole, so that a mistake is seen at once."""
    from ..data.files import opened
    from ..data.lines import arriving_lines
    from ..data.records import columns_of, read_records

    if is_lines(path):
        with opened(path, once=True) as file:
            return [line for piece in arriving_lines(file, path) for line in piece]
    if column is None:
        names = columns_of(path).names
        column = "source" if "source" in names else names[0]
        if column != "source" and len(names) > 1:
            raise InputError(f"{path} has the columns {', '.join(names)}: say which is the source: --column NAME")
    found = [str(row["source"]) for row in read_records(path, {"source": column}, empty="keep")]
    if thing == "TEXT":
        return found
    return [str(path.parent / name) if name.strip() else "" for name in found]  # as the file that names them sees them


def is_lines(path: Path) -> bool:
    """Whether a file is read line by line: its name says no format with columns."""
    from ..data.format import has_columns

    return not has_columns(path)


def rows(number: int, source: str, best: Sequence[Written], given: Given, thing: str, several: bool) -> Iterator[str]:
    """The lines of one source: several lines of text for several targets, else one.

    text   [number of the source, where it has several targets] [score, with --scores] text, with tabs between
    jsonl  {"source": ..., "text": ...}, or {"source": ..., "written": [{"text": ...}, ...]}; with --scores the score,
           the log probability and the number of tokens beside each text
    """
    scores = given["scores"]
    if given["format"] == "jsonl":
        each = [asdict(one) if scores else {"text": one.text} for one in best]
        written: dict[str, Any] = {"written": each} if several else each[0]
        yield json.dumps({named(thing): source, **written}, ensure_ascii=False)
        return
    for one in best:
        cells = [str(number)] if several else []
        cells += [f"{one.score:.5f}"] if scores else []
        yield "\t".join([*cells, line_of(one.text)])


def named(thing: str) -> str:
    """The key of a source in an object."""
    return "source" if thing == "TEXT" else "picture"


def line_of(text: str) -> str:
    """A text on one line: a line's end becomes a space."""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


class Sink:
    """Where lines go, always in UTF-8: standard output as they come, or a file when all are there."""

    def __init__(self, output: str | None, shown: bool = True) -> None:
        self.output, self.shown, self.kept = output, shown, list[str]()
        if output is None and shown:
            as_utf8()

    def add(self, lines: Iterable[str]) -> None:
        """Take lines, without their ends."""
        self.kept += lines

    def flush(self) -> None:
        """Show what is there, unless it goes to a file."""
        if self.output is None:
            if self.shown:
                sys.stdout.writelines(f"{line}\n" for line in self.kept)
                sys.stdout.flush()
            self.kept.clear()

    def close(self) -> None:
        """Nothing more comes."""
        if self.output is not None:
            write_output(self.output, self.kept)


def check_output(output: str | None) -> None:
    """Raise InputError, before any work, for a file that cannot be written."""
    if output is None:
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        raise InputError(f"--output {output}: is there already, and no plain file; name another, or write to a pipe: >")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {path.parent}; make it first")


def write_output(output: str, lines: Iterable[str]) -> None:
    """Write a file of lines, whole or not at all. Raises InputError."""
    from ..atomic_io import write_whole

    try:
        write_whole(Path(output), "".join(f"{line}\n" for line in lines).encode("utf-8"))
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror})") from None
