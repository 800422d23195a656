"""The door: which verb, and the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import errno
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..errors import TYPED, InputError, Interrupted, RunError, TransformulaError, UnknownName, out_of_memory, shortened
from .options import VERBS, Command
from .output import EXIT_CODES, OPTION, OutputLost, as_json, discard_output, open_streams

FILES = (
    "runs", "distilling", "serving", "comparison", "searching", "inspect", "formulas", "planning", "files", "families",
    "completion",
)  # fmt: skip
"""Files that register verbs, in the order of `transformula --help`. A verb is the function of its name."""

ELSEWHERE = {
    **dict.fromkeys(("fit", "finetune", "fine-tune", "pretrain", "resume"), ["train"]),
    **dict.fromkeys(("generate", "write"), ["sample", "translate"]),
    **dict.fromkeys(("infer", "inference", "apply"), ["predict"]),
    **dict.fromkeys(("eval", "test", "validate", "benchmark"), ["evaluate"]),
    **dict.fromkeys(("draw", "diff", "list"), ["gallery"]),
    "complete": ["sample"],
    "run": ["train", "reproduce"],
    "convert": ["export", "import"],
    "load": ["import"],
    **dict.fromkeys(("estimate", "cost", "budget"), ["plan"]),
    "info": ["explain", "summary"],
    **dict.fromkeys(("look", "analyze", "probe", "visualize"), ["inspect"]),
    **dict.fromkeys(("clean", "purge"), ["prune", "cache"]),
    "show": ["explain", "gallery"],
}
"""What other programs call these verbs."""

REMEDY = "end other programs, raise the limit that this process has (ulimit -v), or take less at a time"

HELP = """\
usage: transformula VERB ...

Transformers whose layers are written as their equations.

{verbs}

  transformula VERB --help     its options, with examples; of train and compare --help all shows all
  transformula help VERB       the same
  transformula --version

example: transformula explain "x = x + attention(norm(x)); x = x + mlp(norm(x))" --after "x = norm(x)"
{codes}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status. Errors meant for a user are printed without a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    status = 0
    try:
        try:
            status = attempt(arguments)
        finally:
            sys.stdout.flush()
    except OutputLost as error:
        discard_output()
        if error.errno != errno.EPIPE:  # a reader that left has read enough: `| head`
            print(f"error: standard output takes nothing more: {error.strerror}", file=sys.stderr)
            status = RunError.exit_status
    return status


def say_note(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object
) -> None:
    """Print a warning as a line: of ours what it says, of others with the place in their code."""
    place = "" if category is UserWarning else f" ({category.__name__}, {filename}:{lineno})"
    print(f"note: {message}{place}", file=sys.stderr)


def reason_of(error: Exception) -> str:
    """What an error says, in brackets."""
    said = shortened(" ".join(str(error).split()), 160)
    return f" ({said})" if said else ""


def attempt(arguments: list[str]) -> int:
    """Run one command; print the error in which it ends, if it does."""
    before = TYPED.set(frozenset())  # the verb's parser says which options there are
    ended: TransformulaError
    try:
        with warnings.catch_warnings():
            warnings.showwarning = say_note
            return dispatch(arguments)
    except TransformulaError as error:
        ended, text = error, f"error: {error}"
    except KeyboardInterrupt:
        ended, text = Interrupted("interrupted"), "\ninterrupted"
    except OutputLost:
        raise
    except OSError as error:  # of the machine: a full disk, a file that may not be read
        ended = RunError(("" if error.filename is None else f"{error.filename}: ") + (error.strerror or str(error)))
        text = f"error: {ended}"
    except (MemoryError, ImportError, RuntimeError, SystemError) as error:
        if not out_of_memory(error):
            raise
        ended = RunError(f"there is no memory for this{reason_of(error)}: {REMEDY}")
        text = f"error: {ended}"
    finally:
        TYPED.reset(before)
    # Looked up without the verb's options, so that a mistake in those is an object too.
    if OPTION in (arguments[: arguments.index("--")] if "--" in arguments else arguments):
        print(as_json({"error": ended.data}))
    else:
        sys.stdout.flush()
        print(text, file=sys.stderr)
    return ended.exit_status


def dispatch(arguments: list[str]) -> int:
    """Find the verb and run it."""
    if "_ARGCOMPLETE" in os.environ:
        from .completion import complete

        return complete(all_verbs(), command_of)
    if not arguments:
        print(usage(), file=sys.stderr)
        return InputError.exit_status
    verb, *rest = arguments
    if verb in ("-h", "--help", "help"):
        if rest:
            return dispatch([rest[0], "--help", *rest[1:]])
        print(usage())
        return 0
    if verb in ("-V", "--version"):
        from .. import __version__

        if rest not in ([], [OPTION]):
            raise InputError(f"--version takes nothing beside it but {OPTION} (got {' '.join(rest)})")
        print(as_json({"version": __version__}) if rest else f"transformula {__version__}")
        return 0
    command = command_of(verb, rest)
    return command.run(command.parser(rest).parse(rest))


def load_verbs(name: str = r"\w+") -> None:
    """Import the files in which the verbs stand whose name fits a pattern."""
    function = re.compile(rf"^def {name}_?\(given: Given\)", re.MULTILINE)
    for file in FILES:
        path = Path(__file__).with_name(f"{file}.py")
        if not path.is_file() or function.search(path.read_text(encoding="utf-8")):
            import_module(f".{file}", __package__)


def all_verbs() -> dict[str, str]:
    """Verb -> what it is for: those of the tasks after `train`."""
    from ..tasks.verb import built_in_verbs
    from .verbs import PREDICT

    load_verbs()
    verbs = sorted(VERBS.values(), key=lambda verb: FILES.index(verb.run.__module__.rpartition(".")[2]))
    ours = {verb.name: verb.help for verb in verbs}
    of_tasks = {verb.name: verb.help for verb in built_in_verbs().values()}
    return {"train": ours["train"], "predict": PREDICT, **of_tasks, **ours}


def usage() -> str:
    return HELP.format(verbs="\n".join(f"  {verb:<13} {what}" for verb, what in all_verbs().items()), codes=EXIT_CODES)


def command_of(verb: str, arguments: Sequence[str] = ()) -> Command:
    """The verb of that name, which may be that of a task, also of a package that the arguments name by --use.

    Raises InputError for what is none, with the verb that was meant.
    """
    load_verbs(re.escape(verb.replace("-", "_")))
    if verb in VERBS:
        return VERBS[verb]
    if verb.startswith("-"):
        raise InputError(f"{verb}: options stand after the verb, as in: transformula VERB {verb}; see: transformula -h")
    if "=" in verb:
        raise InputError("a formula stands where a verb is expected; did you mean: transformula explain FORMULA?")
    from .verbs import predict_verb, task_verb

    if verb == "predict":
        return predict_verb(arguments)
    if (command := task_verb(verb, arguments)) is None:
        raise UnknownName("verb", verb, all_verbs(), meant=ELSEWHERE.get(verb.lower(), ()))
    return command
