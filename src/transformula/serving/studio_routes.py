"""The paths of the studio's page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..errors import UnknownName
from .app import Api
from .bodies import NoBody
from .studio import FILES, PAGE, POLICY, Studio, TrainBody, index

SAFE = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def routes(studio: Studio) -> Callable[[Api], Sequence[Route]]:
    """What `application` takes as `more`."""

    def of(api: Api) -> Sequence[Route]:
        async def page(request: Request) -> Response:
            return HTMLResponse(index(), headers=SAFE)

        async def ask(request: Request) -> Response:
            return JSONResponse(await asyncio.to_thread(studio.ask, await api.json(request)))

        async def runs(request: Request) -> Response:
            return JSONResponse(await asyncio.to_thread(studio.listed))

        async def run(request: Request) -> Response:
            return JSONResponse(await asyncio.to_thread(studio.run, request.path_params["name"]))

        async def report(request: Request) -> Response:
            text = await asyncio.to_thread(studio.report, request.path_params["name"])
            return Response(text, media_type="text/plain; charset=utf-8", headers=SAFE)

        async def train(request: Request) -> Response:
            body = await api.body(request, TrainBody)
            return JSONResponse(await asyncio.to_thread(studio.train, body))

        async def act(request: Request) -> Response:
            await api.body(request, NoBody)
            name, action = request.path_params["name"], request.path_params["action"]
            actions: dict[str, Callable[[str], dict[str, Any]]] = {"stop": studio.stop, "resume": studio.resume}
            if action not in actions:
                raise UnknownName("action", action, actions)
            return JSONResponse(await asyncio.to_thread(actions[action], name))

        return [
            Route("/", page),
            *(Route(f"/{name}", file_of(name)) for name in FILES),
            Route("/studio/ask", ask, methods=["POST"]),
            Route("/studio/runs", runs),
            Route("/studio/runs/{name}", run),
            Route("/studio/runs/{name}/{action}", act, methods=["POST"]),
            Route("/studio/reports/{name}", report),
            Route("/studio/train", train, methods=["POST"]),
        ]

    def file_of(name: str) -> Callable[[Request], Any]:
        async def file(request: Request) -> Response:
            return Response((PAGE / name).read_bytes(), media_type=FILES[name], headers=SAFE)

        return file

    return of
