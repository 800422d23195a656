"""The verbs of tasks: inputs from arguments, a file or a pipe, answers in order. `sample` goes on with prompts."""

from __future__ import annotations

import io
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .converse import converse
from .options import RUN, USE, WITH, Command, Given, Parser, machine, option
from .output import ESCAPES, Notes, check_output, line_of, write_array, write_output

if TYPE_CHECKING:
    from ..api.model import Model
    from ..settings import Settings
    from ..tasks.predictor import Answer
    from ..tasks.verb import Verb


PREDICT = "answer inputs with a trained model, whatever its task is"


def task_verb(name: str, arguments: Sequence[str]) -> Command | None:
    """The verb of a task: of one here, or of a package that is named by --use. None where no task has it."""
    from ..tasks.verb import built_in_verbs

    verbs = list(built_in_verbs().values())
    if all(name not in (verb.name, *verb.aliases) for verb in verbs):
        parser = Parser("", "", [], arguments=arguments)
        USE(parser)
        packages = parser.begin().use
        if not packages:
            return None
        from ..api.reading import import_packages

        import_packages(packages)
        from ..tasks.base import tasks

        verbs = [verb for task in tasks.names() if (verb := tasks.get(task).verb) is not None]
    verb = next((verb for verb in verbs if name in (verb.name, *verb.aliases)), None)
    if verb is None:
        return None
    takes, options = f"RUN [{verb.takes} ...]", [partial(add_options, verb)]
    return Command(verb.name, verb.help, verb.about, takes, options, verb.examples, partial(use_model, verb))


def predict_verb(arguments: Sequence[str]) -> Command:
    """`predict`: the verb of the model that is named; without a model, what there is to say of all."""
    folder = next((each for each in arguments if Path(each).expanduser().is_dir()), None)
    if folder is not None:
        parser = Parser("", "", [], arguments=arguments)
        USE(parser)

        from ..api.inputs import must_predict
        from ..api.reading import import_packages, model_folder
        from ..tasks.writing import load_predictor

        import_packages(parser.begin().use)
        predictor = must_predict(load_predictor(model_folder(folder)))
        command = task_verb(predictor.verb, arguments)
        if command is None:
            raise InputError(f"{folder}: no verb answers by this model; in Python: Model.from_folder(...).predict(...)")
        return replace(command, name="predict")
    about = """\
Answer inputs with a trained model, whatever its task: classify, tag, translate, write on. It is the verb of the model's
task by another name, with the options of that: transformula predict RUN --help."""
    examples = (
        'transformula predict runs/reviews "A film that I will not forget."',
        "transformula predict runs/translator --input test.de --beam 5",
        "transformula predict runs/reviews --help",
    )
    options = [option("run", "RUN", RUN), option("sources", "INPUT", "inputs of the task", nargs="*"), USE]
    return Command("predict", PREDICT, about, "RUN [INPUT ...]", options, examples, missing)


def missing(given: Given) -> int:
    """Raise the error that says why there is no model here."""
    from ..api.reading import model_folder

    raise InputError(f"{model_folder(given['run'])}: is no folder")


def add_options(verb: Verb, parser: Parser) -> None:
    """The options of a task's verb."""
    thing = verb.takes
    parser.add("run", "RUN", RUN)
    if verb.live:
        parser.add("sources", thing, "what the text begins with", nargs="*")
    else:
        lines = "names of pictures, one per line" if thing == "PICTURE" else "one per line"
        parser.add("sources", thing, f"default: standard input, {lines}", nargs="*")
        parser.add("--input", "FILE", f"inputs: {lines}, or .jsonl, .tsv, .csv, .parquet")
        usual = "one that is known" if verb.reads else f"{first_column(verb)}, or the only one"
        parser.add("--column", "NAME", f"the column of FILE (default: {usual})")
        for name in verb.columns[1:]:
            parser.add(f"--{name}", "FILE", f"a text, the {name} of all inputs (default: each row of --input has one)")
        array = "; FILE.npy: as one array" if verb.arrays else ""
        parser.add("--output", "FILE", f"write the answers there{array}; on failure nothing is written")
        what = "one line or one JSON object per input"
        parser.add_argument("--format", choices=("text", "jsonl"), default="text", help=what)
        parser.add("--scores", None, "print each text's score before it, separated by a tab")
    if verb.prefix:
        parser.add("--prefix", "TEXT", "text that every output begins with")
    if verb.ensemble:
        WITH(parser)
    machine(parser, "cpu" if verb.live else "auto")
    title = "sampling" if thing == "PROMPT" else "search" if verb.prefix else "answers"
    parser.add_settings(title, verb.options)


def first_column(verb: Verb) -> str:
    return verb.columns[0] if verb.columns else "source"


def use_model(verb: Verb, given: Given) -> int:
    """Run a task's verb: read the model, and answer the inputs."""
    settings = verb.options.read(given.of(verb.options))
    if not verb.live:
        check(verb, given)

    from ..api.model import Model
    from ..api.reading import set_threads

    set_threads(given["threads"])
    opening = {key: given[key] for key in ("device", "use", "verify")}
    model = Model.from_folder(given["run"], **opening)
    if verb.views:
        from ..tasks.predictor import predictors

        model.predictor = predictors.get(verb.views).view(model.predictor, model.architecture)
    predictor = model.predictor
    if predictor is not None and predictor.verb != verb.name and not (verb.live and predictor.continues):
        task = getattr(predictor, "task", "")
        what = f"was trained for {task}" if task else f"was not trained for what `{verb.name}` does"
        raise InputError(f"{given['run']}: {what}: transformula {predictor.verb} {given['run']}")
    if verb.live:
        return go_on(model, given, settings)
    taking_turns = verb.converses and not given["sources"] and given["input"] is None and sys.stdin.isatty()
    if taking_turns and given["output"] is None and not given["json"] and given["format"] == "text":
        return converse(predictor.conversation(model.module, settings))  # type: ignore[union-attr]
    modules = model.together(given["others"], **opening) if verb.ensemble else [model.module]
    return answer(verb, model, modules, given, settings)


def check(verb: Verb, given: Given) -> None:
    """Raise InputError for arguments that contradict each other."""
    from ..data.format import has_columns
    from ..data.sources import need_sources

    if given["sources"] and given["input"] is not None:
        raise InputError(f"{verb.takes} and --input are both given: leave one out")
    if given["column"] is not None and (given["input"] is None or not has_columns(Path(given["input"]))):
        raise InputError("--column: names a column of --input FILE with rows (.jsonl, .tsv, .csv, .parquet)")
    if given["input"] is not None:
        need_sources(given["input"])
    without = [name for name in verb.columns[1:] if given[name] is None]
    if without and (given["input"] is None or not has_columns(Path(given["input"]))):
        raise InputError(
            f"--{without[0]}: name the file of the {without[0]} of all inputs; or rows with the columns"
            f" {', '.join(verb.columns)}: --input FILE (.jsonl, .json, .tsv, .csv, .parquet)"
        )
    if "ensemble" in given.arguments and not given["others"]:
        raise InputError("--ensemble: says how models are averaged; name a second model: --with RUN")
    if given["json"] and (given["format"] != "text" or given["scores"]) and given["output"] is None:
        raise InputError("--json is one object that has the scores: leave --format and --scores out")
    check_output(given["output"])


def answer(verb: Verb, model: Model, modules: Sequence[Any], given: Given, settings: Settings) -> int:
    """Print the answers to inputs as these come.

    text   [number of the input, where it has several answers] [score, with --scores] text, with tabs between
    jsonl  {"source": ..., "text": ...}, or {"source": ..., "written": [{"text": ...}, ...]}; with --scores all that is
           known of an answer beside its text; of rows with several columns, their `id` in front
    """
    from ..api.inputs import must_predict, stream
    from ..data.preview import counting

    output, direct = given["output"], given["output"] is None and not given["json"]
    if direct and isinstance(sys.stdout, io.TextIOWrapper):  # lines of text, whatever the machine's encoding is
        sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPES, newline="\n")
    pieces, count = arriving(verb, given)
    several = getattr(settings, "n_best", 1) > 1
    key = verb.columns[0] if verb.columns else "picture" if verb.takes == "PICTURE" else "source"
    texts: list[dict[str, Any]] = []
    lines: list[Any] = []  # of text, or vectors
    as_array = verb.arrays and str(output).endswith(".npy")
    notes = Notes()

    def rows(number: int, named: Mapping[str, Any], best: Sequence[Answer]) -> Iterator[str]:
        if given["format"] == "jsonl":
            each = [plain(answer) if given["scores"] else answer.brief for answer in best]
            answers: dict[str, Any] = {verb.answers: each} if several else each[0]
            yield json.dumps({**named, **answers}, ensure_ascii=False)
            return
        for answer in best:
            cells = [str(number)] if several else []
            cells += [f"{answer.score:.5f}"] if given["scores"] else []
            yield "\t".join([*cells, line_of(answer.text)])

    number, prefix = 0, given["prefix"] if verb.prefix else None
    show = count is not None and (output is not None or not sys.stdout.isatty())
    with counting(f"{verb.name}: inputs", show) as progress:
        for answers in stream(must_predict(model.predictor), modules, pieces, settings, prefix=prefix):
            for opened, best in answers:
                fields = opened if verb.columns else {key: opened}
                named = {name: fields[name] for name in ("id", key) if name in fields}
                number += 1
                lines += [best[0].value] if as_array else rows(number, named, best)
                for one in best[:1]:
                    notes.add(one)
                if given["json"]:
                    texts.append({**named, verb.answers: list(map(plain, best))})
            if direct:
                sys.stdout.writelines(f"{line}\n" for line in lines)
                sys.stdout.flush()
                lines.clear()
            progress(number, count or number)
    notes.tell()
    if output is not None:
        (write_array if as_array else write_output)(output, lines)
    if given["json"]:
        given.show("", {"texts": texts, "settings": settings.plain(), "output": output})
    return 0


def plain(answer: Answer) -> dict[str, Any]:
    """All that is known of an answer; of a note only where there is one."""
    return {key: value for key, value in asdict(answer).items() if key != "note" or value}


def arriving(verb: Verb, given: Given) -> tuple[Iterable[list[Any]], int | None]:
    """The inputs in pieces, as they come; and how many they are, where that is known."""
    from ..data.lines import utf8_of
    from ..data.records import columns_of, read_records

    beside = {name: given[name] for name in verb.columns[1:]}
    if any(path is None for path in beside.values()):
        columns = {name: given["column"] or name if name == verb.columns[0] else name for name in verb.columns}
        columns |= {"id": "id"} if "id" in columns_of(given["input"])[0] else {}
        rows = [dict(row) for row in read_records(given["input"], columns, empty="keep")]
        return [rows], len(rows)
    pieces, count = arriving_texts(verb, given)
    if not beside:
        return pieces, count
    texts = {name: str(utf8_of(Path(path).expanduser()), "utf-8") for name, path in beside.items()}
    return ([{verb.columns[0]: text, **texts} for text in piece] for piece in pieces), count


def arriving_texts(verb: Verb, given: Given) -> tuple[Iterable[list[str]], int | None]:
    """Inputs that are texts or names of pictures. A file is read whole, its lines or one column of its rows: a mistake
    is seen at once."""
    from ..data.format import has_columns
    from ..data.lines import arriving_lines, opened
    from ..data.records import columns_of, read_records

    if given["sources"]:
        return [given["sources"]], None
    if given["input"] is None:
        if sys.stdin.isatty():
            print("one input per line; Ctrl-D ends", file=sys.stderr)
        return arriving_lines(sys.stdin.buffer, Path("standard input")), None
    path, column = Path(given["input"]).expanduser(), given["column"]
    if verb.reads and has_columns(path):
        rows = pkgutil.resolve_name(verb.reads)(path, column)
        return [rows], len(rows)
    if not has_columns(path):
        with opened(path, once=True) as file:
            inputs = [line for piece in arriving_lines(file, path) for line in piece]
        return [inputs], len(inputs)
    if column is None:
        names, _ = columns_of(path)
        main = first_column(verb)
        column = main if main in names else names[0]
        if column != main and len(names) > 1:
            raise InputError(f"{path} has the columns {', '.join(names)}: say which is the {main}: --column NAME")
    inputs = [str(row["source"]) for row in read_records(path, {"source": column}, empty="keep")]
    if verb.takes == "PICTURE":  # named as the file that names them sees them
        inputs = [str(path.parent / name) if name.strip() else "" for name in inputs]
    return [inputs], len(inputs)


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
