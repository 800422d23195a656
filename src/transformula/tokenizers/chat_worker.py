"""Renders one chat template, as a program of its own within limits: `chat_template.py` starts and asks it.

Jinja's sandbox keeps a template from files and from Python's insides, and from nothing else: `'a' * 10**9`, loops
within loops and macros that call themselves take all memory and time. The operating system stops these, whatever they
are.

It reads lines of JSON: first {"paths", "template", "seconds", "bytes", "characters"}, then the values of each
rendering; and answers each with {"text"}, or {"said", "refused"}: what is wrong, and whether the template itself says
so.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any


def main() -> None:
    first = json.loads(sys.stdin.readline())
    sys.path += first["paths"]  # of jinja2, which this isolated Python may not find
    jinja = environment()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program that asks
    for kind, most in ((resource.RLIMIT_AS, first["bytes"]), (resource.RLIMIT_FSIZE, 0)):
        with contextlib.suppress(OSError, ValueError):  # a system that lacks one still has the others
            resource.setrlimit(kind, (most, most))
    template: Any = None
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, first["seconds"])  # the processor's time; the signal ends the process
        reply, template = answer(first, jinja, template, json.loads(line))
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(reply), flush=True)


def answer(first: dict[str, Any], jinja: Any, template: Any, values: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The text of these values, or what is wrong; and the template, compiled."""
    from jinja2.exceptions import TemplateSyntaxError

    parts, length, most = [], 0, first["characters"]
    jinja.marks = values.pop("_marks", ("", ""))
    try:
        template = template or jinja.from_string(first["template"])
        for part in template.generate(values):
            length += len(part)
            if length > most:
                return {"said": f"it writes more than {most:,} characters", "refused": False}, template
            parts.append(part)
        return {"text": "".join(parts)}, template
    except Refused as error:
        return {"said": str(error), "refused": True}, template
    except MemoryError:
        said = f"it needs more than {first['bytes'] >> 20} MiB of memory"
    except RecursionError:
        said = "it calls itself without an end, or is nested too deeply"
    except TemplateSyntaxError as error:
        said = f"line {error.lineno}: {error.message}"
    except Exception as error:  # whatever a template may cause
        said = f"{type(error).__name__}: {error}"[:500]
    return {"said": said, "refused": False}, template


class Refused(Exception):
    """What a template says by `raise_exception`."""


def environment() -> Any:
    """Jinja as transformers has it: the same options, filters and functions."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks what an assistant says: marks stand around it, where some are asked for."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

        def said(self, caller: Any) -> Any:
            before, after = self.environment.marks  # type: ignore[attr-defined]
            return f"{before}{caller()}{after}"

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = strftime_now
    return environment


def to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON without the marks that HTML needs."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message: Any) -> Iterator[str]:
    raise Refused(str(message))


def strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


if __name__ == "__main__":
    main()
