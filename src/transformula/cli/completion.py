"""`transformula completion`: what a shell needs to complete verbs, options and names."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from functools import partial

from ..errors import InputError
from ..extras import need
from .options import Command, Given, option, verb

SHELLS = ("bash", "zsh", "fish")


@verb(
    "print a shell-completion script",
    "SHELL",
    option("shell", "SHELL", ", ".join(SHELLS), choices=SHELLS),
    examples=[
        'transformula completion bash   # in ~/.bashrc: eval "$(transformula completion bash)"',
        'transformula completion zsh    # in ~/.zshrc: eval "$(transformula completion zsh)"',
        "transformula completion fish   # in ~/.config/fish/config.fish: transformula completion fish | source",
    ],
)
def completion(given: Given) -> int:
    """Print a script by which a shell completes verbs, options, their choices and the names of the gallery. Put the
    line that fits into your shell's start-up file. It needs the extra `completion`."""
    script = need("argcomplete", "shell completion").shellcode(["transformula"], shell=given["shell"])
    return given.show(script, {"shell": given["shell"], "script": script})


def complete(verbs: Iterable[str], command_of: Callable[[str], Command]) -> int:
    """Answer a shell that asks how the line that is typed may continue (COMP_LINE, as the script passes it)."""
    argcomplete = need("argcomplete", "shell completion")
    lexers = need("argcomplete.lexers", "shell completion")
    words = lexers.split_line(os.environ["COMP_LINE"], int(os.environ["COMP_POINT"]))[3]
    if len(words) > 1 and words[1] in verbs:
        os.environ["_ARGCOMPLETE"] = "2"  # the verb stands where argcomplete expects the program
        command = command_of(words[1])
        try:
            parser: argparse.ArgumentParser = command.parser(words[2:])
        except InputError:  # of a line that is half typed
            parser = command.parser()
        for action in parser._actions:
            choices = str(action.metavar)
            if choices == "MODEL":
                action.completer = models  # type: ignore[attr-defined]
            elif choices.startswith("{"):
                action.completer = partial(beginning_with, choices.strip("{}").split(","))  # type: ignore[attr-defined]
    else:
        parser = argparse.ArgumentParser("transformula")
        parser.add_argument("--version", "-V", action="version")
        parser.add_argument("verb", choices=[*verbs, "help"])
    argcomplete.autocomplete(parser, always_complete_options="long")
    return 0


def models(prefix: str, **_: object) -> list[str]:
    """Names of the gallery, and files and folders."""
    from argcomplete.completers import FilesCompleter

    from .. import gallery

    return [*beginning_with(gallery.names(), prefix), *FilesCompleter()(prefix)]


def beginning_with(names: Iterable[str], prefix: str, **_: object) -> list[str]:
    return [name for name in names if name.startswith(prefix)]
