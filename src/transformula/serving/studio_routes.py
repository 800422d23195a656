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
from .studio import FILES, PAGE, POLICY, InsideBody, Studio, TrainBody, index

SAFE = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class StudioApi:
    """What the page asks; whatever reads files or computes does so in a thread."""

    def __init__(self, studio: Studio, api: Api) -> None:
        self.studio, self.api = studio, api

    async def page(self, request: Request) -> Response:
        return HTMLResponse(index(), headers=SAFE)

    async def file(self, request: Request) -> Response:
        name = request.url.path[1:]
        return Response((PAGE / name).read_bytes(), media_type=FILES[name], headers=SAFE)

    async def ask(self, request: Request) -> Response:
        return await self.told(self.studio.ask, await self.api.json(request))

    async def runs(self, request: Request) -> Response:
        return await self.told(self.studio.listed)

    async def run(self, request: Request) -> Response:
        return await self.told(self.studio.run, request.path_params["name"])

    async def places(self, request: Request) -> Response:
        return await self.told(self.studio.places, request.path_params["name"])

    async def inside(self, request: Request) -> Response:
        body = await self.api.body(request, InsideBody)
        return await self.told(self.studio.inside, request.path_params["name"], body)

    async def scores(self, request: Request) -> Response:
        await self.api.body(request, NoBody)
        return await self.told(self.studio.scores, request.path_params["name"])

    async def act(self, request: Request) -> Response:
        await self.api.body(request, NoBody)
        actions: dict[str, Callable[..., Any]] = {"stop": self.studio.stop, "resume": self.studio.resume}
        name, action = request.path_params["name"], request.path_params["action"]
        if action not in actions:
            raise UnknownName("action", action, actions)
        return await self.told(actions[action], name)

    async def train(self, request: Request) -> Response:
        return await self.told(self.studio.train, await self.api.body(request, TrainBody))

    async def report(self, request: Request) -> Response:
        text = await asyncio.to_thread(self.studio.report, request.path_params["name"])
        return Response(text, media_type="text/plain; charset=utf-8", headers=SAFE)

    async def told(self, call: Callable[..., Any], *values: Any) -> Response:
        return JSONResponse(await asyncio.to_thread(call, *values))


def routes(studio: Studio) -> Callable[[Api], Sequence[Route]]:
    """What `application` takes as `more`."""

    def of(api: Api) -> Sequence[Route]:
        asked = StudioApi(studio, api)
        return [
            Route("/", asked.page),
            *(Route(f"/{name}", asked.file) for name in FILES),
            Route("/studio/ask", asked.ask, methods=["POST"]),
            Route("/studio/runs", asked.runs),
            Route("/studio/runs/{name}", asked.run),
            Route("/studio/runs/{name}/places", asked.places),
            Route("/studio/runs/{name}/inside", asked.inside, methods=["POST"]),
            Route("/studio/runs/{name}/scores", asked.scores, methods=["POST"]),
            Route("/studio/runs/{name}/{action}", asked.act, methods=["POST"]),
            Route("/studio/reports/{name}", asked.report),
            Route("/studio/train", asked.train, methods=["POST"]),
        ]

    return of
