"""The application: which path does what, and what holds for every request: a key, limits, errors in one shape."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import __version__
from ..errors import TYPED, InputError, TransformulaError, UnknownName
from ..settings import Settings
from ..tasks.picture_answering import PictureAnswering
from . import openai
from .bodies import ChatBody, CompletionBody, EmbeddingBody, NoBody, PredictBody, TextBody
from .metrics import Metrics
from .models import ASKED, Models, Served
from .openapi import description, page
from .predicting import answers_of, ask_of, chat_answer, chat_ask
from .settings import LOOPBACK, ServeSettings
from .texts import Ending, Text, TextPiece
from .worker import Ask, ModelWorker, message_of, status_of

OPEN = ("/", "/studio.js", "/studio.css", "/openapi.json", "/healthz", "/readyz")
"""Without a key: what a supervisor asks, and pages that hold nothing of anyone."""
GONE = 499  # what is noted of a client that went away
B = TypeVar("B", bound=Settings)
T = TypeVar("T")


class RequestRefused(Exception):
    """A request that is answered with a status, and a message that says why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class Api:
    """The requests that are answered."""

    def __init__(self, models: Models, settings: ServeSettings) -> None:
        self.models, self.settings, self.metrics = models, settings, Metrics(models)
        self.stopping = False

    # Text ------------------------------------------------------------------------------------------------------------

    async def completions(self, request: Request) -> Response:
        """Go on with prompts."""
        body = await self.body(request, CompletionBody)
        served, worker = await self.worker(body.model)
        # in a thread: a grammar may take a while to be read
        job = await asyncio.to_thread(openai.completion_job, worker, body, self.settings)
        return await self.write(request, served, worker, body, openai.AnswerShape(served.name, job, bool(body.echo)))

    async def chat(self, request: Request) -> Response:
        """Reply to messages."""
        body = await self.body(request, ChatBody)
        served, worker = await self.worker(body.model)
        if isinstance(worker.predictor, PictureAnswering):
            (answer,) = await self.answers(request, worker, chat_ask(worker, body, self.settings))
            return JSONResponse(chat_answer(served.name, answer))
        job = await asyncio.to_thread(openai.chat_job, worker, body, self.settings)
        return await self.write(request, served, worker, body, openai.ChatShape(served.name, job))

    async def write(
        self, request: Request, served: Served, worker: ModelWorker, body: TextBody, shape: openai.AnswerShape
    ) -> Response:
        self.check_queue(worker, len(shape.job.wanted))
        streamed = bool(body.stream)
        texts = [Text(worker, shape.job.tokenizer, wanted, streamed) for wanted in shape.job.wanted]
        begun = time.monotonic()
        for text in texts:
            text.start()
        if not streamed:
            try:
                rewards = None if self.models.reward is None else self.rewards
                return JSONResponse(await self.unless_gone(request, openai.whole_answer(texts, shape, rewards)))
            finally:
                cancel(texts)
        usage = body.stream_options is not None and body.stream_options.include_usage
        merged = self.merged(texts, served.name, begun)
        events = openai.streamed_answer(merged, shape, len(texts), usage, error_in_json)
        return StreamingResponse(self.until_done(events, texts), media_type="text/event-stream")

    async def rewards(self, dialogues: Sequence[Sequence[Any]]) -> list[float]:
        """What the reward model says of the replies in which dialogues end. Raises InputError for one that it cannot
        read."""
        assert self.models.reward is not None
        _, worker = await self.worker(self.models.reward.name)
        answers = await answers_to(worker, Ask(dialogues, None, None, asyncio.get_running_loop().create_future()))
        for one in answers:
            if isinstance(one, InputError):
                raise InputError(f"best_of: the reward model cannot read this: {one.message}")
            if isinstance(one, Exception):
                raise one
        return [float(best.score) for best, *_ in answers]

    async def until_done(self, events: AsyncIterator[str], texts: Sequence[Text]) -> AsyncIterator[str]:
        """Events, as long as somebody listens and the time lasts."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                async for event in events:
                    yield event
        except TimeoutError:
            yield openai.server_sent(error_in_json(RequestRefused(504, self.late)))
        finally:
            cancel(texts)

    async def merged(
        self, texts: Sequence[Text], name: str, begun: float
    ) -> AsyncIterator[tuple[int, TextPiece | Ending]]:
        """What happens to several texts, in the order in which it does."""
        queue: asyncio.Queue[tuple[int, TextPiece | Ending]] = asyncio.Queue()

        async def pass_on(index: int, text: Text) -> None:
            async for event in text.events():
                queue.put_nowait((index, event))

        tasks = [asyncio.create_task(pass_on(index, text)) for index, text in enumerate(texts)]
        try:
            left, first = len(texts), True
            while left:
                index, event = await queue.get()
                if first:
                    self.metrics.first.labels(name).observe(time.monotonic() - begun)
                    first = False
                left -= isinstance(event, Ending)
                yield index, event
        finally:
            for task in tasks:
                task.cancel()

    # Other tasks -----------------------------------------------------------------------------------------------------

    async def predict(self, request: Request) -> Response:
        """Answer inputs, whatever the model's task is."""
        body = await self.body(request, PredictBody)
        served, worker = await self.worker(body.model)
        answers = await self.answers(request, worker, ask_of(worker, body, self.settings))
        results = answers_of(answers)
        if all("error" in one for one in results):
            raise answers[0]
        return JSONResponse({"object": "list", "model": served.name, "results": results})

    async def embeddings(self, request: Request) -> Response:
        """The vectors of texts."""
        body = await self.body(request, EmbeddingBody)
        served, worker = await self.worker(body.model)
        texts = [body.input] if isinstance(body.input, str) else body.input
        if worker.predictor is None or worker.predictor.verb != "embed":
            raise InputError("this model makes no vectors: one that `transformula embed` takes does")
        ask = ask_of(worker, PredictBody(inputs=list(texts)), self.settings)
        answers = await self.answers(request, worker, ask)
        for one in answers:
            if isinstance(one, Exception):
                raise one
        tokenizer = worker.model.tokenizer
        tokens = 0 if tokenizer is None else sum(map(len, tokenizer.encode_many(list(texts))))
        return JSONResponse(openai.embeddings(body, served.name, answers, tokens))

    async def answers(self, request: Request, worker: ModelWorker, ask: Ask) -> list[Any]:
        self.check_queue(worker, 1)
        return await self.unless_gone(request, answers_to(worker, ask))

    # Models ----------------------------------------------------------------------------------------------------------

    async def list_models(self, request: Request) -> Response:
        """All models."""
        cards = [openai.model_card(one) for one in self.models.by_name.values()]
        return JSONResponse({"object": "list", "data": cards})

    async def one_model(self, request: Request) -> Response:
        """One model."""
        return JSONResponse(openai.model_card(self.models.find(request.path_params["name"])))

    async def load_model(self, request: Request) -> Response:
        """Load a model, so that the next request need not wait for it."""
        await self.body(request, NoBody)
        served, _ = await self.worker(request.path_params["name"])
        return JSONResponse(openai.model_card(served))

    async def unload_model(self, request: Request) -> Response:
        """Free the memory of a model; it is loaded again when it is asked for."""
        await self.body(request, NoBody)
        served = self.models.find(request.path_params["name"])
        await served.unload()
        return JSONResponse(openai.model_card(served))

    # The server itself -----------------------------------------------------------------------------------------------

    async def alive(self, request: Request) -> Response:
        """Whether the server runs."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def is_ready(self, request: Request) -> Response:
        """Whether it answers: its models are loaded, and it is not being stopped."""
        states = {one.name: one.state for one in self.models.by_name.values()}
        ready = self.models.ready and not self.stopping
        return JSONResponse({"ready": ready, "models": states}, 200 if ready else 503)

    async def show_metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """This interface, as OpenAPI describes one."""
        return JSONResponse(description(ROUTES))

    async def front(self, request: Request) -> Response:
        """A page for people: what there is, and how to call it."""
        shown = () if self.settings.secret else self.models.by_name.values()  # the page itself is open to all
        cards = [openai.model_card(one) for one in shown]
        return HTMLResponse(page(description(ROUTES), cards))

    # What they have in common ----------------------------------------------------------------------------------------

    async def body(self, request: Request, kind: type[B]) -> B:
        """The content of a request, checked. Raises RequestRefused, ConfigError."""
        return kind.checked(await self.json(request), "the request")

    async def json(self, request: Request) -> dict[str, Any]:
        """The content of a request, an object. Raises RequestRefused."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                content = await request.body()
        except TimeoutError:
            raise RequestRefused(408, f"the request did not come within {self.settings.timeout:g} s") from None
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json" and content:
            raise RequestRefused(415, "send JSON, and say so: Content-Type: application/json")
        try:
            data = json.loads(content or b"{}")
        except (ValueError, RecursionError) as error:
            raise RequestRefused(400, f"the request is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise RequestRefused(400, "the request is JSON, but no object")
        return data

    async def worker(self, name: str) -> tuple[Served, ModelWorker]:
        """The model of a request, loaded."""
        return await self.models.load(name)

    def check_queue(self, worker: ModelWorker, more: int) -> None:
        """Raise RequestRefused where too much waits already."""
        most = self.settings.queue + self.settings.rows
        if worker.load + more > most and worker.load:
            after = str(max(1, round(worker.load / max(1, self.settings.rows))))
            what = f"{worker.load} requests are being answered or wait; this server takes {most} at a time"
            raise RequestRefused(429, f"{what}: try again in {after} s", {"Retry-After": after})

    @property
    def late(self) -> str:
        return f"the answer was not there within {self.settings.timeout:g} s (transformula serve --timeout)"

    async def unless_gone(self, request: Request, answer: Awaitable[T]) -> T:
        """An answer, for as long as its client waits. Raises RequestRefused when it has gone, or the time is over."""
        task = asyncio.ensure_future(answer)
        leaving = asyncio.create_task(left(request))
        try:
            done, _ = await asyncio.wait(
                {task, leaving}, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if task in done:
                return task.result()
            if not done:
                raise RequestRefused(504, self.late)
            raise RequestRefused(GONE, "the client has gone")
        finally:
            task.cancel()
            leaving.cancel()


async def answers_to(worker: ModelWorker, ask: Ask) -> list[Any]:
    """The answers to inputs, or their errors."""
    worker.load += 1
    ask.answers.add_done_callback(lambda _: setattr(worker, "load", worker.load - 1))
    worker.ask(ask)
    try:
        return await ask.answers
    finally:
        ask.canceled = True


async def left(request: Request) -> None:
    """Return when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def cancel(texts: Sequence[Text]) -> None:
    for text in texts:
        if not text.ended:
            text.cancel()


def error_in_json(error: Exception) -> dict[str, Any]:
    """An error in the shape of OpenAI's."""
    status = status_for(error)
    kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}.get(status)
    kind = kind or ("invalid_request_error" if status < 500 else "server_error")
    message = error.message if isinstance(error, RequestRefused) else message_of(error)
    code = "model_not_found" if isinstance(error, UnknownName) else None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def status_for(error: Exception) -> int:
    if isinstance(error, RequestRefused):
        return error.status
    return 404 if isinstance(error, UnknownName) and error.kind in ("model", "run", "report") else status_of(error)


def error_response(request: Request, error: Exception) -> Response:
    headers = error.headers if isinstance(error, RequestRefused) else None
    return JSONResponse(error_in_json(error), status_for(error), headers=headers)


def of_framework(request: Request, error: Exception) -> Response:
    """Errors of the framework, such as a path that does not exist."""
    assert isinstance(error, HTTPException)
    paths = ", ".join(route.path for route in ROUTES)
    said = {404: f"there is no {request.url.path}; there are {paths}", 405: f"{request.url.path} is called otherwise"}
    return error_response(request, RequestRefused(error.status_code, said.get(error.status_code, error.detail)))


class Doorkeeper:
    """What holds for each request: who may come, how large it is, and that it is counted."""

    def __init__(self, app: ASGIApp, api: Api) -> None:
        self.app, self.api, self.settings = app, api, api.settings
        self.secret = self.settings.secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        TYPED.set(None)  # errors name fields of the request, not options of the command
        begun, status, read = time.monotonic(), [GONE], [0]

        async def counted() -> Message:
            message = await receive()
            read[0] += len(message.get("body", b""))
            if read[0] > self.settings.max_body:
                raise RequestRefused(413, self.too_large)
            return message

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self.refused(scope, headers)
        asked: list[Served] = []
        ASKED.set(asked)
        try:
            if refused is not None:
                await error_response(Request(scope), refused)(scope, receive, noted)
            else:
                await self.app(scope, counted, noted)
        except ClientDisconnect:  # in the middle of its request
            status[0] = GONE
        finally:
            for one in asked:
                one.requests -= 1
            path = scope["path"] if scope["path"] in {route.path for route in ROUTES} else "other"
            self.api.metrics.requests.labels(path, str(status[0])).inc()
            self.api.metrics.durations.labels(path).observe(time.monotonic() - begun)

    @property
    def too_large(self) -> str:
        return f"the request is larger than {self.settings.max_body:,} bytes (transformula serve --max-body)"

    def refused(self, scope: Scope, headers: Mapping[str, str]) -> RequestRefused | None:
        """Why a request is not even read; None: it is."""
        host = headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if self.settings.host in LOOPBACK and name not in LOOPBACK:  # a page elsewhere that was given our address
            return RequestRefused(403, f"this server answers at {self.settings.host}, not as {name!r}")
        if scope["path"] not in OPEN and self.secret is not None:
            sent = headers.get("authorization", "").removeprefix("Bearer ").strip()
            if not secrets.compare_digest(sent.encode(), self.secret.encode()):
                hint = {"WWW-Authenticate": "Bearer"}
                return RequestRefused(401, "send the key of this server: Authorization: Bearer KEY", hint)
        if (
            headers.get("content-length", "0").isdigit()
            and int(headers.get("content-length", 0)) > self.settings.max_body
        ):
            return RequestRefused(413, self.too_large)
        return None


def routes_of(api: Api | None) -> list[Route]:
    """What there is; without an api only to be described."""

    def of(name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(Api if api is None else api, name)
        return method

    return [
        Route("/", of("front")),
        Route("/v1/chat/completions", of("chat"), methods=["POST"]),
        Route("/v1/completions", of("completions"), methods=["POST"]),
        Route("/v1/embeddings", of("embeddings"), methods=["POST"]),
        Route("/v1/predict", of("predict"), methods=["POST"]),
        Route("/v1/models", of("list_models")),
        Route("/v1/models/{name}", of("one_model")),
        Route("/v1/models/{name}/load", of("load_model"), methods=["POST"]),
        Route("/v1/models/{name}/unload", of("unload_model"), methods=["POST"]),
        Route("/healthz", of("alive")),
        Route("/readyz", of("is_ready")),
        Route("/metrics", of("show_metrics")),
        Route("/openapi.json", of("openapi")),
    ]


ROUTES = routes_of(None)


def application(
    models: Models, settings: ServeSettings, lazy: bool = False, more: Callable[[Api], Sequence[Route]] = lambda _: (),
    ending: Callable[[], object] = lambda: None,
) -> Starlette:  # fmt: skip
    """The application. `lazy`: models are loaded when they are first asked for; `more`: routes before the others;
    `ending`: called when the server is being stopped."""
    api = Api(models, settings)
    first = list(more(api))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        loading = [] if lazy else [asyncio.create_task(load(one, settings)) for one in models.first]
        try:
            yield
        finally:
            api.stopping = True
            for task in loading:
                task.cancel()
            await asyncio.to_thread(ending)
            await models.stop()

    handlers: dict[Any, Any] = {
        **dict.fromkeys((RequestRefused, TransformulaError, Exception), error_response), HTTPException: of_framework,
    }  # fmt: skip
    app = Starlette(routes=[*first, *routes_of(api)], lifespan=lifespan, exception_handlers=handlers)
    app.add_middleware(Doorkeeper, api=api)
    return app


async def load(one: Served, settings: ServeSettings) -> None:
    """Load a model; the error of one that cannot be loaded is told by /readyz and /v1/models."""
    with contextlib.suppress(Exception):
        await one.load(settings)
