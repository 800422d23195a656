"""The verb that looks for wirings: search."""

from __future__ import annotations

import shlex

from ..errors import Interrupted
from .comparison import add_task
from .options import Given, Parser, option, verb


def search_options(parser: Parser) -> None:
    """Its options; those of the task come once the task is known."""
    from ..search.settings import HuntSettings
    from ..training.settings import UNPAIRED

    task = add_task(parser)
    parser.add_settings("search", HuntSettings)
    parser.add_run_options(task, without=[*HuntSettings.model_fields, *UNPAIRED])


@verb(
    "look for wirings that are better than a base, and say what may be claimed of them",
    "",
    search_options,
    examples=[
        "transformula search --base pre-norm --budget 40m --dry-run",
        "transformula search --base pre-norm --data text.txt --budget 4h --out hunt",
        'transformula search --base post-norm --data text.txt --budget 2h --proposer "python mine.py" --out hunt',
    ],
)
def search(given: Given) -> int:
    """Look for wirings: edits of a base's graph and crossings with the gallery race against it, at equal cost and with
    paired seeds, in rounds of which each changes the best of those before. Renamed copies of the base run beside them:
    how far the best of these climbs is what luck alone gives. The base's own settings get as many runs. What is left is
    confirmed by `compare`, with fresh seeds and on text that no run was chosen by. The folder holds the plan, the
    report and each wiring that was found as a model file; runs lie in the store. Ctrl-C and SIGTERM save; the same
    command goes on. The exit status is 3 where nothing may be claimed."""
    from ..search.search import search

    try:
        hunt = given.call(search, **given.some("task"))
    except Interrupted as error:
        typed = shlex.join(["transformula", "search", *given.parser.arguments])
        raise type(error)(f"{error}\nto go on: {typed}") from None
    given.show(hunt)
    return getattr(hunt, "exit_status", 0)


@verb(
    "let a language model look things up and propose wirings (Model Context Protocol)",
    "",
    option("--hunt", "FOLDER", "the search to which it may propose, and of which it reads the results"),
    examples=["transformula mcp --hunt hunt"],
)
def mcp(given: Given) -> int:
    """A server of the Model Context Protocol over standard input and output, for a program that runs a language model.
    Its tools check formulas and show words and published wirings; with --hunt, also propose to a search that runs, and
    say how it goes. No tool names a file or runs what it is given. It needs the extra `mcp`."""
    from ..search.protocol import server_of

    server_of(given["hunt"]).run("stdio")
    return 0
