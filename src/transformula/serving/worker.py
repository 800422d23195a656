"""The thread in which a model works: texts are written together, inputs of other tasks are answered in batches.

The event loop hands it requests; what it makes of them it hands back, of one step all at once.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError, RunError, TransformulaError
from .settings import ServeSettings

if TYPE_CHECKING:
    from ..api.model import Model
    from ..generation.continuous import RunningBatch, TextRequest

MOST_TOGETHER = 256  # inputs that are answered in one go, so that running texts do not wait for long


class Unavailable(RunError):
    """A model that is being unloaded, or whose server is being stopped: who asks again later may be answered."""


@dataclass(eq=False)
class Ask:
    """Inputs that were sent together, to be answered with these settings; `answers` gets one for each: the answers,
    best first, or the error."""

    inputs: Sequence[Any]
    settings: Any
    prefixes: Sequence[str] | None
    answers: asyncio.Future[list[Any]]
    canceled: bool = False


@dataclass
class Counts:
    """What a model has done since it was loaded."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    written_tokens: int = 0
    steps: int = 0
    rows: int = 0
    inputs: int = 0
    batches: int = 0
    running: int = 0
    waiting: int = 0
    prefix_bytes: int = 0


class ModelWorker:
    """Owns a model, and makes all that is asked of it in one thread.

    loop  the event loop that is told of results
    """

    def __init__(self, model: Model, settings: ServeSettings, loop: asyncio.AbstractEventLoop) -> None:
        self.model, self.settings, self.loop = model, settings, loop
        self.predictor = model.predictor
        self.counts = Counts()
        self.closing = False  # set by the event loop, before it stops the thread
        self.load = 0  # requests that were handed over and have not ended; changed by the event loop alone
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._outbox: list[tuple[Callable[..., Any], Any]] = []
        self._asks: list[tuple[float, Ask]] = []
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        """Begin to work; returns when the thread does. Raises InputError where the settings are none for this model."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread; what still runs ends with an error."""
        self._stopping.set()
        self._inbox.put(None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    def write(self, request: TextRequest) -> None:
        """Take a request, in the event loop. Raises Unavailable."""
        self._put(request)

    def ask(self, ask: Ask) -> None:
        """Take inputs, in the event loop. Raises Unavailable."""
        self._put(ask)

    def _put(self, item: TextRequest | Ask) -> None:
        if self.closing:
            raise Unavailable("the model was unloaded meanwhile: ask again")
        self._inbox.put(item)

    # In the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        import torch

        from ..engine import quicken
        from ..model.transformer import evaluating

        module: Any = self.model.module
        engine, weights = self.settings.engine, self.settings.weights
        try:
            with torch.inference_mode(), quicken(module, evaluating(module), engine, weights, brief=True) as fast:
                self._ready.set()
                self._work(fast.model)
        except Exception as error:
            self._error = error
            self._ready.set()

    def _work(self, view: Any) -> None:
        from ..generation.continuous import RunningBatch

        batch = RunningBatch(view, most_rows=self.settings.rows, prefix_bytes=self.settings.prefix_memory << 20)
        busy = False
        while not self._stopping.is_set():
            self._take(batch, wait=not busy)
            busy = self._advance(batch)
            self._answer(busy)
            self._count(batch)
            self._hand_back()
        self._end(batch)

    def _take(self, batch: RunningBatch, wait: bool) -> None:
        """Take what has come; `wait` for something where there is nothing else to do."""
        timeout = None
        if self._asks:
            timeout = max(0.0, self._asks[0][0] + self.settings.batch_wait - time.monotonic())
        while True:
            try:
                item = self._inbox.get(wait, timeout) if wait else self._inbox.get_nowait()
            except queue.Empty:
                return
            wait = False
            if isinstance(item, Ask):
                self._asks.append((time.monotonic(), item))
            elif item is not None:
                batch.add(item)

    def _advance(self, batch: RunningBatch) -> bool:
        try:
            return batch.advance()
        except Exception as error:  # one model's failure is an answer to its clients, not the server's end
            batch.end_all(error)
            return False

    def _answer(self, busy: bool) -> None:
        """Answer the inputs that have waited long enough for others, those of equal settings together."""
        if not self._asks or (not busy and time.monotonic() < self._asks[0][0] + self.settings.batch_wait):
            return
        first = self._asks[0][1]
        now: list[Ask] = []
        left: list[tuple[float, Ask]] = []
        count = 0
        for since, ask in self._asks:
            alike = ask.settings == first.settings and (ask.prefixes is None) == (first.prefixes is None)
            if ask.canceled:
                self._outbox.append((settle, (ask, [])))
            elif alike and (not now or count + len(ask.inputs) <= MOST_TOGETHER):
                now.append(ask)
                count += len(ask.inputs)
            else:
                left.append((since, ask))
        self._asks = left
        if not now:
            return
        self.counts.batches += 1
        self.counts.inputs += count
        answers = iter(self._answers_or_error(now))
        for ask in now:
            self._outbox.append((settle, (ask, [next(answers) for _ in ask.inputs])))

    def _answers_or_error(self, asks: Sequence[Ask]) -> list[Any]:
        """The answers to the inputs of all; where they fail together, each request is asked alone, so that one's
        mistake is none of the others'."""
        try:
            return self._answers(asks)
        except Exception as error:
            if len(asks) == 1:
                return [error] * len(asks[0].inputs)
            return [answer for ask in asks for answer in self._answers_or_error([ask])]

    def _answers(self, asks: Sequence[Ask]) -> list[Any]:
        """The answers to the inputs of all, or, for one that cannot be answered, its error."""
        from ..api.inputs import Unanswered, ask_all, must_predict

        predictor = must_predict(self.predictor, self.model.folder)
        inputs = [(value, place) for ask in asks for place, value in enumerate(ask.inputs)]
        prefixes = [prefix for ask in asks for prefix in ask.prefixes or ()]
        numbered = list(enumerate(inputs))

        def answer(some: Sequence[Any]) -> Sequence[Sequence[Any]]:
            begun: dict[str, Any] = {"prefixes": [prefixes[number] for number, _ in some]} if prefixes else {}
            values = predictor.opened([value for _, (value, _) in some])
            return predictor.predict([self.model.module], values, asks[0].settings, **begun)

        answers = ask_all(answer, numbered, "skip")
        return [one.error if isinstance(one, Unanswered) else one for one in answers]

    def _count(self, batch: RunningBatch) -> None:
        counts = self.counts
        counts.prompt_tokens, counts.reused_tokens = batch.read, batch.prefixes.hits
        counts.steps, counts.rows = batch.steps, batch.rows
        counts.running, counts.prefix_bytes = len(batch.live), batch.prefixes.bytes
        counts.waiting = len(batch.waiting) + len(self._asks)

    def tell(self, call: Callable[..., Any], *values: Any) -> None:
        """Call something in the event loop when this step is over."""
        self._outbox.append((call, values))

    def _hand_back(self) -> None:
        if self._outbox:
            now, self._outbox = self._outbox, []
            self._call(now)

    def _call(self, calls: Sequence[tuple[Callable[..., Any], Any]]) -> None:
        def run() -> None:
            for call, values in calls:
                call(*values)

        try:
            self.loop.call_soon_threadsafe(run)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def _end(self, batch: RunningBatch) -> None:
        error = Unavailable("the server is being stopped")
        self._take(batch, wait=False)
        batch.end_all(error)
        for _, ask in self._asks:
            self._outbox.append((settle, (ask, [error] * len(ask.inputs))))
        self._asks = []
        self._hand_back()


def settle(ask: Ask, answers: list[Any]) -> None:
    if not ask.answers.done():
        ask.answers.set_result(answers)


def status_of(error: BaseException) -> int:
    """The status of HTTP that an error is."""
    if isinstance(error, InputError):
        return 400
    return 503 if isinstance(error, Unavailable) else 500


def message_of(error: BaseException) -> str:
    return error.message if isinstance(error, TransformulaError) else f"{type(error).__name__}: {error}"
