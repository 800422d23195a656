"""The models of a server: by name, loaded at its start or when they are first asked for, and unloaded on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError, TransformulaError, UnknownName, setting
from .settings import ServeSettings
from .worker import ModelWorker

if TYPE_CHECKING:
    from torch import nn

    from ..api.model import Model

ASKED: ContextVar[list[Served] | None] = ContextVar("asked", default=None)  # the models that a request has asked for
State = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(eq=False)
class Served:
    """A model of a server.

    opening  keywords of `Model.from_folder`
    base     the model of which this is one with an adapter; what the adapter does not change is in memory once
    about    what is said of the model to clients, once it is loaded
    used     when it was last asked for
    requests  that have asked for it and have not ended
    """

    name: str
    folder: Path
    opening: Mapping[str, Any] = field(default_factory=dict)
    base: Served | None = None
    state: State = "unloaded"
    worker: ModelWorker | None = None
    error: str = ""
    created: int = field(default_factory=lambda: int(time.time()))
    about: dict[str, Any] = field(default_factory=dict)
    used: float = 0.0
    requests: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self, settings: ServeSettings) -> ModelWorker:
        """The worker, started if it is not. Raises the error of a folder that cannot be read."""
        async with self.lock:
            if self.worker is not None and self.worker.alive:
                return self.worker
            self.state, self.error = "loading", ""
            try:
                base = None if self.base is None else (await self.base.load(settings)).model
                model = await asyncio.to_thread(self._read, base)
            except Exception as error:
                self.fail(error)
                raise
            worker = ModelWorker(model, settings, asyncio.get_running_loop())
            try:
                await asyncio.to_thread(worker.start)
            except Exception as error:
                self.fail(error)
                raise
            self.worker, self.state, self.about = worker, "ready", about(model)
            return worker

    def fail(self, error: Exception) -> None:
        self.state = "failed"
        self.error = error.message if isinstance(error, TransformulaError) else str(error)

    def _read(self, base: Model | None) -> Model:
        from ..api.model import Model

        model = Model.from_folder(self.folder, **self.opening)
        module = model.module  # weights are read now, not by the first request
        if base is not None:
            share(module, base.module)
        return model

    @property
    def source(self) -> Path:
        """The folder that was named."""
        adapter = self.opening.get("adapter")
        return self.folder if adapter is None else Path(adapter)

    @property
    def busy(self) -> bool:
        return self.requests > 0 or (self.worker is not None and self.worker.load > 0)

    async def unload(self) -> None:
        """Stop the worker and forget the weights. Raises InputError while requests are being answered."""
        async with self.lock:
            if self.worker is None:
                return
            if self.busy:
                count = max(self.requests, self.worker.load)
                raise InputError(f"{self.name}: {count} requests are being answered; try again later")
            worker, self.worker, self.state = self.worker, None, "unloaded"
            worker.closing = True
            await asyncio.to_thread(worker.stop)


def share(module: nn.Module, other: nn.Module) -> None:
    """Let parameters of a model that equal those of another lie in memory once."""
    import torch

    known = dict(other.named_parameters())
    for name, parameter in module.named_parameters():
        if name in known and torch.equal(parameter, known[name]):
            parameter.data = known[name].data


def about(model: Model) -> dict[str, Any]:
    """What clients may want to know of a model: what it was trained for, its size, its formula's hash."""
    from ..analysis.canonical import formula_hash
    from ..api.reading import TASK

    predictor = model.predictor
    numbers = model.architecture.numbers
    known: dict[str, Any] = {
        "task": getattr(predictor, "task", "") or (TASK if predictor is not None and predictor.continues else ""),
        "verb": "" if predictor is None else predictor.verb,
        "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
        "formula": formula_hash(model.architecture),
    }
    return known | ({"context": int(numbers["context"])} if "context" in numbers else {})


class Models:
    """All models of a server, by name.

    reward  the one that scores replies, of which the best are sent; one of the others, or beside them
    """

    def __init__(self, named: Iterable[Served], settings: ServeSettings, reward: Served | None = None) -> None:
        self.settings = settings
        self.by_name: dict[str, Served] = {}
        self._leaving: asyncio.Task[None] | None = None
        models = list(named)
        alike = [one for one in models if reward is not None and one.source == reward.source]
        self._beside = None if alike else reward
        self.reward = alike[0] if alike else reward
        for one in (*models, *([] if self._beside is None else [self._beside])):
            if one.name in self.by_name:
                what = f"two models are named {one.name}: {self.by_name[one.name].source} and {one.source}"
                raise InputError(f"{what}; name one of them otherwise: NAME={one.source}")
            self.by_name[one.name] = one

    def find(self, name: str) -> Served:
        """The model of this name; "" stands for the only one, its adapters and a reward model beside it aside. Raises
        UnknownName."""
        bases = [one for one in self.by_name.values() if one.base is None and one is not self._beside]
        if not name and len(bases) == 1:
            return bases[0]
        if name not in self.by_name:
            raise UnknownName("model", name, self.by_name)
        return self.by_name[name]

    async def load(self, name: str) -> tuple[Served, ModelWorker]:
        """The model of this name, loaded. Of models with adapters at most `settings.max_adapters` stay loaded, and
        those with requests: first that one leaves that was not asked for for longest."""
        one = self.find(name)
        one.used = time.monotonic()
        asked = ASKED.get()
        if asked is not None:
            one.requests += 1
            asked.append(one)
        worker = await one.load(self.settings)
        if one.base is not None and (self._leaving is None or self._leaving.done()):
            self._leaving = asyncio.create_task(self._unload_idle())
        return one, worker

    async def _unload_idle(self) -> None:
        loaded = [each for each in self.by_name.values() if each.base is not None and each.worker is not None]
        idle = sorted((each for each in loaded if not each.busy), key=lambda each: each.used)
        for each in idle[: max(0, len(loaded) - self.settings.max_adapters)]:
            with suppress(InputError):  # it was asked for again meanwhile
                await each.unload()

    @property
    def first(self) -> list[Served]:
        """What is loaded when the server starts: all models, and as many adapters as stay loaded."""
        models = [one for one in self.by_name.values() if one.base is None]
        return [*models, *[one for one in self.by_name.values() if one.base][: self.settings.max_adapters]]

    @property
    def ready(self) -> bool:
        return all(one.state in ("ready", "unloaded") for one in self.by_name.values())

    async def stop(self) -> None:
        workers = [one.worker for one in self.by_name.values() if one.worker is not None]
        await asyncio.gather(*(asyncio.to_thread(worker.stop) for worker in workers))


def served(written: str, opening: Mapping[str, Any]) -> Served:
    """A model as it is typed: RUN, or NAME=RUN. Raises CheckpointError for a folder that holds no model."""
    from ..api.reading import model_folder

    name, folder = named(written)
    found = model_folder(folder)
    return Served(name or name_of(Path(folder)), found, opening)


def rewarding(written: str, opening: Mapping[str, Any]) -> Served:
    """A reward model as it is typed: RUN, or NAME=RUN. Raises CheckpointError, InputError for one that scores none."""
    from ..api.inputs import predictor_in
    from ..api.reading import import_packages
    from ..tasks.best_of import best_of

    one = served(written, opening)
    import_packages(opening.get("use", ()))
    best_of(2, predictor_in(one.folder), None, written)
    return one


def named(written: str) -> tuple[str, str]:
    """NAME=FOLDER as name and folder; "" as the name where none is typed."""
    name, equals, folder = written.partition("=")
    return ("", written) if not equals or not name or "/" in name or Path(written).is_dir() else (name, folder)


def adapted(written: str, models: Sequence[Served]) -> Served:
    """A model with an adapter as it is typed: ADAPTER, NAME=ADAPTER, or, of several models, NAME=MODEL+ADAPTER. Raises
    CheckpointError for what holds no adapter, InputError where it is not said of which model, UnknownName."""
    from ..interop.folder import check_adapter
    from ..interop.hub import local_folder

    name, rest = named(written)
    of, plus, folder = rest.partition("+")
    if not plus or Path(rest).is_dir():
        of, folder = "", rest
    bases = {one.name: one for one in models}
    if of and of not in bases:
        raise UnknownName("model", of, bases)
    if not of and len(models) > 1:
        what = f"{setting('adapter', written)}: of which model? {', '.join(bases)}"
        raise InputError(f"{what}; say {setting('adapter', f'{name or name_of(Path(folder))}=MODEL+{folder}')}")
    place, base = local_folder(folder), bases[of] if of else models[0]
    check_adapter(place)  # one that cannot be read is told before the server listens
    return Served(name or name_of(Path(folder)), base.folder, {**base.opening, "adapter": place}, base)


def name_of(folder: Path) -> str:
    """runs/first -> first; runs/first/best -> first; polite.gguf -> polite."""
    place = folder.expanduser().resolve()
    if place.suffix == ".gguf":
        return place.stem
    return place.parent.name if place.name in ("best", "last") and place.parent.name else place.name
