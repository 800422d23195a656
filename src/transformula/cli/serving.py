"""The verbs that answer over HTTP: serve for programs, studio for people."""

from __future__ import annotations

import secrets
import sys
import webbrowser
from pathlib import Path

from ..serving.settings import KEY, ServeSettings
from .options import RUN, Given, Parser, machine, option, verb


def serve_options(parser: Parser) -> None:
    """The models, and the settings of the server."""
    parser.add("runs", "RUN", f"{RUN}, or NAME=RUN: the name by which clients ask for it", nargs="+")
    parser.add(
        "--adapter", "NAME=FOLDER", "a low-rank adapter of the model, peft's folder or FILE.gguf (of several models:"
        " NAME=MODEL+FOLDER): clients ask for it as for a model; may be repeated",
        action="append", dest="adapter_folders",
    )  # fmt: skip
    parser.add(
        "--reward-model", "RUN", "a model that scores replies: it says which texts are the best, of requests with"
        " best_of (default: those of the highest log probability of a token)",
    )  # fmt: skip
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
        "transformula serve runs/demo --adapter polite=adapters/polite --adapter brief=adapters/brief",
        "transformula serve runs/polite --reward-model runs/reward",
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
    from ..serving.models import adapted, rewarding, served
    from ..serving.server import serve

    opening = {"device": given["device"], "use": given["use"], "verify": given["verify"]}
    named = [served(each, opening) for each in given["runs"]]
    named += [adapted(each, tuple(named)) for each in given["adapter_folders"] or ()]
    reward = None if given["reward_model"] is None else rewarding(given["reward_model"], opening)
    set_threads(given["threads"])

    def say(address: str) -> None:
        names = ", ".join(one.name for one in named)
        line = f"{names}: listening at {address} (a page for people; /v1 for programs); Ctrl-C ends"
        given.show(line, {"address": address, "models": [one.name for one in named]})
        sys.stdout.flush()  # who started the server may read it

    serve(named, settings, given["lazy"], say, reward)
    return 0


@verb(
    "a page to write equations, train and play with them",
    "",
    option("--runs", "FOLDER", "folder of the runs that the page shows and begins (default: runs)", default="runs"),
    option("--port", "N", "port to listen at; 0: one that is free (default: 8008)", type=int, default=8008),
    option("--no-open", None, "do not open a browser", action="store_false", dest="browser"),
    examples=["transformula studio", "transformula studio --runs experiments --port 0 --no-open"],
)
def studio(given: Given) -> int:
    """Open a page in the browser: an editor of equations with their diagram, size and warnings while you type; train
    what you wrote on built-in or own text and see the loss as it falls; write with any run of the folder; read the
    reports of comparisons. The page is for this machine alone, by the key in its link. Each run is a command that the
    page shows. Ctrl-C ends the server; runs that go on save themselves first."""
    from ..extras import need_later

    for module in ("starlette", "uvicorn", "prometheus_client"):
        need_later(module, "the studio")
    settings = ServeSettings.read({"port": given["port"], "key": secrets.token_urlsafe(24)})

    from ..serving.server import serve_studio

    def say(address: str) -> None:
        link = f"{address}/#key={settings.key}"
        given.show(f"open {link} (Ctrl-C ends)", {"link": link})
        sys.stdout.flush()
        if given["browser"]:
            webbrowser.open(link)

    serve_studio(Path(given["runs"]).expanduser(), settings, say)
    return 0
