"""A server that listens, until it is told to stop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import InputError, setting
from ..extras import need
from .app import application
from .models import Models, Served
from .settings import ServeSettings
from .studio import RunModels, Studio
from .studio_routes import routes

BACKLOG = 512  # connections that the system holds until they are taken


def serve(
    named: Iterable[Served], settings: ServeSettings, lazy: bool, say: Callable[[str], Any],
    reward: Served | None = None,
) -> None:  # fmt: skip
    """Serve models until SIGTERM or SIGINT; what runs then comes to its end within `settings.grace` seconds.

    say     is told where the server listens
    reward  the model that scores replies, of which the best are sent

    Raises InputError where it cannot listen there.
    """
    run(application(Models(named, settings, reward), settings, lazy), settings, say)


def serve_studio(folder: Path, settings: ServeSettings, say: Callable[[str], Any]) -> None:
    """Serve the studio's page, with the runs of a folder, until SIGTERM or SIGINT. Raises as `serve` does."""
    studio = Studio(folder)
    models = RunModels(folder, settings)
    run(application(models, settings, lazy=True, more=routes(studio), ending=studio.close), settings, say)


def run(app: Any, settings: ServeSettings, say: Callable[[str], Any]) -> None:
    uvicorn: Any = need("uvicorn", "a server")
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it says of each client that left in the middle of a text
    listening = listen(settings)
    host, port = listening.getsockname()[:2]
    say(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="on", backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(settings.grace)),
    )  # fmt: skip
    with suppress(KeyboardInterrupt):  # the server has ended, as it was told to
        uvicorn.Server(config).run(sockets=[listening])


def listen(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) where the protocol is named; else a small answer waits 40 ms for its client
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(BACKLOG)  # who is told the address may come before the first request is taken
    except OSError as error:
        listening.close()
        remedy = f"name another port, or 0 for one that is free: {setting('port', '0')}"
        raise InputError(f"{settings.host}:{settings.port}: cannot listen there: {error.strerror}; {remedy}") from None
    return listening
