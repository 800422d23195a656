"""The verb that answers over HTTP: serve."""

from __future__ import annotations

import sys

from ..serving.settings import KEY, ServeSettings
from .options import RUN, Given, Parser, machine, option, verb


def serve_options(parser: Parser) -> None:
    """The models, and the settings of the server."""
    parser.add("runs", "RUN", f"{RUN}, or NAME=RUN: the name by which clients ask for it", nargs="+")
    option("--lazy", None, "load a model when it is first asked for, not at once")(parser)
    machine(parser, "cpu")
    parser.add_settings("server", ServeSettings)


@verb(
    "answer over HTTP with trained models, also for OpenAI's clients",
    "RUN [RUN ...]",
    serve_options,
    examples=[
        "transformula serve runs/demo",
        "curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json'"
        ' -d \'{"prompt": "The with statement", "max_tokens": 40}\'',
        "transformula serve writer=runs/demo runs/reviews runs/translator --weights int8",
        f"{KEY}=$(openssl rand -hex 16) transformula serve runs/demo --host 0.0.0.0",
    ],
)
def serve(given: Given) -> int:
    """Answer over HTTP with trained models: texts by OpenAI's interface (/v1/completions, /v1/chat/completions,
    /v1/embeddings), every other task by /v1/predict. Requests are answered together, and each as it would be alone.
    The page at / shows what there is; /metrics is for Prometheus. Ctrl-C or SIGTERM ends the server when what runs has
    come to its end."""
    settings = ServeSettings.read(given.of(ServeSettings))

    from ..api.reading import set_threads
    from ..extras import need_later

    for module in ("starlette", "uvicorn", "prometheus_client"):
        need_later(module, "a server")
    from ..serving.models import served
    from ..serving.server import serve

    opening = {"device": given["device"], "use": given["use"], "verify": given["verify"]}
    named = [served(each, opening) for each in given["runs"]]
    set_threads(given["threads"])

    def say(address: str) -> None:
        names = ", ".join(one.name for one in named)
        line = f"{names}: listening at {address} (a page for people; /v1 for programs); Ctrl-C ends"
        given.show(line, {"address": address, "models": [one.name for one in named]})
        sys.stdout.flush()  # who started the server may read it

    serve(named, settings, given["lazy"], say)
    return 0
