"""The verbs of tasks: inputs from arguments, a file or a pipe, answers in order. `sample` goes on with prompts."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .answers import FORMATS, Answers
from .converse import converse
from .options import RUN, USE, WITH, Command, Given, Parser, machine, option
from .output import ESCAPES, write_array, write_output
from .verb_inputs import VerbInputs, check, first_column, inputs_of

if TYPE_CHECKING:
    from ..api.kept_answers import KeptAnswers
    from ..api.model import Model
    from ..settings import Settings
    from ..tasks.verb import Verb


FEWEST_KEPT = 64  # inputs of a file, for its answers to be kept while they are made
SECONDS_TOLD = 5  # after which it is said how many inputs were answered a second
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
    folder = next((each for each in arguments if Path(each).expanduser().is_dir() or each.startswith("hf:")), None)
    if folder is not None:
        parser = Parser("", "", [], arguments=arguments)
        USE(parser)

        from ..api.inputs import must_predict, predictor_in
        from ..api.reading import import_packages, model_folder

        import_packages(parser.begin().use)
        place = model_folder(folder)
        predictor = must_predict(predictor_in(place), place)
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
    return Command("predict", PREDICT, about, "RUN [INPUT ...]", options, examples, refuse_missing)


def refuse_missing(given: Given) -> int:
    """Raise the error that says why there is no model here."""
    from ..api.reading import model_folder

    raise InputError(f"{model_folder(given['run'])}: is no folder")


def add_options(verb: Verb, parser: Parser) -> None:
    """The options of a task's verb."""
    thing = verb.takes
    parser.add("run", "RUN", RUN)
    if verb.live:
        parser.add("sources", thing, "what the text begins with", nargs="*")
        what = "a smaller model of the same tokens, which guesses some at a time (--speculate, by default 4)"
        parser.add("--draft", "RUN", f"{what}: the same text, sooner where it is right")
    else:
        lines = "names of pictures, one per line" if thing == "PICTURE" else "one per line"
        parser.add("sources", thing, f"default: standard input, {lines}", nargs="*")
        parser.add("--input", "FILE", f"inputs: {lines}, or .jsonl, .tsv, .csv, .parquet")
        usual = "one that is known" if verb.reads else f"{first_column(verb)}, or the only one"
        parser.add("--column", "NAME", f"the column of FILE (default: {usual})")
        for name in verb.columns[1:]:
            parser.add(f"--{name}", "FILE", f"a text, the {name} of all inputs (default: each row of --input has one)")
        if verb.picture:
            place = ", in the place of a text" if verb.columns[1:] else ""
            several = f"a picture that all inputs are about{place}; may be repeated, for several in their order"
            parser.add(f"--{verb.picture}", "FILE", several, action="append")
        array = "; FILE.npy: as one array" if verb.arrays else ""
        whole = "whole or not at all; of a long --input that was stopped the same command goes on"
        parser.add("--output", "FILE", f"write the answers there{array}, {whole}")
        what = "one line or one JSON object per input, or a row with the input's columns"
        parser.add_argument("--format", choices=FORMATS, help=f"{what} (default: text, but csv of and to a .csv)")
        parser.add("--scores", None, "print each text's score before it, separated by a tab")
        bad = "a line or a row that cannot be read or answered: stop there, or give it an empty answer and count it"
        parser.add_argument("--bad-rows", choices=("stop", "skip"), default="stop", help=bad)
    if verb.live or verb.converses:
        parser.add("--best-of", "N", "draw so many, and give the one that --reward-model scores highest", type=int)
        parser.add("--reward-model", "RUN", "a model that scores replies")
    if verb.prefix:
        parser.add("--prefix", "TEXT", "text that every output begins with")
    if verb.ensemble:
        WITH(parser)
    machine(parser, "cpu" if verb.live else "auto")
    title = "sampling" if thing == "PROMPT" else "search" if verb.prefix else "answers"
    parser.add_settings(title, verb.options)


def use_model(verb: Verb, given: Given) -> int:
    """Run a task's verb: read the model, and answer the inputs."""
    settings = verb.options.read(given.of(verb.options))
    if not verb.live:
        check(verb, given)

    from ..api.inputs import must_predict
    from ..api.model import Model
    from ..api.reading import set_threads

    set_threads(given["threads"])
    opening = {key: given[key] for key in ("device", "use", "verify")}
    model = Model.from_folder(given["run"], **opening)
    if model.predictor is not None or not verb.live:
        must_predict(model.predictor, model.folder)
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
    best = model._best_of(given["best_of"], given["reward_model"]) if verb.converses else None
    predictor = best.replying(must_predict(predictor)) if best is not None else predictor
    taking_turns = verb.converses and not given["sources"] and given["input"] is None and sys.stdin.isatty()
    if taking_turns and given["output"] is None and not given["json"] and given["format"] in (None, "text"):
        return converse(predictor.conversation(model.module, settings), given["picture"] or ())  # type: ignore[union-attr]
    modules = model.together(given["others"], **opening) if verb.ensemble else [model.module]
    return answer(verb, model, predictor, modules, given, settings)


def answer(
    verb: Verb, model: Model, predictor: Any, modules: Sequence[Any], given: Given, settings: Settings
) -> int:
    """Print the answers to inputs as these come."""
    from ..api.inputs import stream
    from ..data.preview import counting

    output, direct = given["output"], given["output"] is None and not given["json"]
    if direct and isinstance(sys.stdout, io.TextIOWrapper):  # lines of text, whatever the machine's encoding is
        sys.stdout.reconfigure(encoding="utf-8", errors=ESCAPES, newline="\n")
    inputs = inputs_of(verb, given)
    answers = Answers(verb, given, getattr(settings, "n_best", 1) > 1, inputs)
    prefix = given["prefix"] if verb.prefix else None
    show = inputs.count is not None and (output is not None or not sys.stdout.isatty())
    kept = kept_answers(model, given, settings, inputs, answers)
    arriving, begun, before = inputs.pieces, time.monotonic(), answers.number
    if kept is not None:
        arriving = [values[kept.count :] for values in inputs.pieces]
    with counting(f"{verb.name}: inputs", show) as progress, ExitStack() as ending:
        if kept is not None:
            ending.callback(kept.leave)
        pieces = stream(predictor, modules, arriving, settings, prefix=prefix, bad_rows=inputs.bad_rows)
        for some in pieces:
            for value, best in some:
                answers.add(value, best)
            if direct:
                sys.stdout.writelines(f"{line}\n" for line in answers.take())
                sys.stdout.flush()
            if kept is not None:
                kept.add(answers.number, answers.take())
            progress(answers.number, inputs.count or answers.number)
    answers.print()
    if output is not None:
        lines = answers.take() if kept is None else kept.all_lines
        (write_array if answers.as_array else write_output)(output, lines)
    if kept is not None:
        kept.remove()
        seconds = time.monotonic() - begun
        if seconds > SECONDS_TOLD:
            rate = (answers.number - before) / seconds
            print(f"{answers.number - before:,} inputs, {rate:,.3g} a second", file=sys.stderr)
    if given["json"]:
        given.show("", {"texts": answers.texts, "settings": settings.plain(), "output": output})
    return 0


def kept_answers(
    model: Model, given: Given, settings: Settings, inputs: VerbInputs, answers: Answers
) -> KeptAnswers | None:
    """What keeps the answers to a long file while they are made, with those that an earlier command has kept; None
    where nothing is kept."""
    lines = given["output"] is not None and not answers.as_array and not given["json"]
    if not lines or given["input"] is None or (inputs.count or 0) < FEWEST_KEPT or model.folder is None:
        return None
    from ..api.kept_answers import KeptAnswers, question

    how = {key: value for key, value in given.arguments.items() if key not in ("output", "input", "threads")}
    asked = question(model.folder, Path(given["input"]).expanduser(), settings.plain(), how)
    kept = KeptAnswers(given["output"], asked, answers.take())
    if kept.count:
        answers.number = kept.count
        print(f"{kept.count:,} of {inputs.count:,} inputs were answered before: going on from there", file=sys.stderr)
    return kept


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

    beside = {key: given[key] for key in ("draft", "best_of", "reward_model")}
    texts = model.generate(prompts, on_text=show if live else None, **beside, **settings.plain())
    if live:
        print(before)
        return 0
    rows = [{"prompt": prompt, "text": text} for prompt, text in zip(prompts, texts, strict=True)]
    shown = "\n".join(f"--- {number}\n{row['prompt']}{row['text']}" for number, row in enumerate(rows, 1))
    return given.show(shown, {"texts": rows, "settings": settings.plain()})
