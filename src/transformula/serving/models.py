"""The models of a server: by name, loaded at its start or when they are first asked for, and unloaded on demand."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError, TransformulaError, UnknownName
from .settings import ServeSettings
from .worker import ModelWorker

if TYPE_CHECKING:
    from ..api.model import Model

State = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(eq=False)
class Served:
    """A model of a server.

    opening  keywords of `Model.from_folder`
    about    what is said of the model to clients, once it is loaded
    """

    name: str
    folder: Path
    opening: Mapping[str, Any] = field(default_factory=dict)
    state: State = "unloaded"
    worker: ModelWorker | None = None
    error: str = ""
    created: int = field(default_factory=lambda: int(time.time()))
    about: dict[str, Any] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def load(self, settings: ServeSettings) -> ModelWorker:
        """The worker, started if it is not. Raises the error of a folder that cannot be read."""
        async with self.lock:
            if self.worker is not None and self.worker.alive:
                return self.worker
            self.state, self.error = "loading", ""
            try:
                model = await asyncio.to_thread(self._read)
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

    def _read(self) -> Model:
        from ..api.model import Model

        model = Model.from_folder(self.folder, **self.opening)
        model.module  # noqa: B018  weights are read now, not by the first request
        return model

    async def unload(self) -> None:
        """Stop the worker and forget the weights. Raises InputError while requests are being answered."""
        async with self.lock:
            if self.worker is None:
                return
            if self.worker.load:
                raise InputError(f"{self.name}: {self.worker.load} requests are being answered; try again later")
            worker, self.worker, self.state = self.worker, None, "unloaded"
            await asyncio.to_thread(worker.stop)


def about(model: Model) -> dict[str, Any]:
    """What clients may want to know of a model: what it was trained for, its size, its formula's hash."""
    from ..analysis.canonical import formula_hash
    from ..api.reading import TASK

    predictor = model.predictor
    numbers = model.architecture.numbers
    known: dict[str, Any] = {
        "task": getattr(predictor, "task", "") or ("" if predictor is None else TASK),
        "verb": "" if predictor is None else predictor.verb,
        "parameters": sum(parameter.numel() for parameter in model.module.parameters()),
        "formula": formula_hash(model.architecture),
    }
    return known | ({"context": int(numbers["context"])} if "context" in numbers else {})


class Models:
    """All models of a server, by name."""

    def __init__(self, named: Iterable[Served], settings: ServeSettings) -> None:
        self.settings = settings
        self.by_name: dict[str, Served] = {}
        for one in named:
            if one.name in self.by_name:
                what = f"two models are named {one.name}: {self.by_name[one.name].folder} and {one.folder}"
                raise InputError(f"{what}; name one of them otherwise: NAME=RUN")
            self.by_name[one.name] = one

    def find(self, name: str) -> Served:
        """The model of this name; "" stands for the only one. Raises UnknownName."""
        if not name and len(self.by_name) == 1:
            return next(iter(self.by_name.values()))
        if name not in self.by_name:
            raise UnknownName("model", name, self.by_name)
        return self.by_name[name]

    @property
    def ready(self) -> bool:
        return all(one.state in ("ready", "unloaded") for one in self.by_name.values())

    async def stop(self) -> None:
        workers = [one.worker for one in self.by_name.values() if one.worker is not None]
        await asyncio.gather(*(asyncio.to_thread(worker.stop) for worker in workers))


def served(written: str, opening: Mapping[str, Any]) -> Served:
    """A model as it is typed: RUN, or NAME=RUN. Raises CheckpointError for a folder that holds no model."""
    from ..api.reading import model_folder

    name, equals, folder = written.partition("=")
    if not equals or not name or "/" in name or Path(written).is_dir():
        name, folder = "", written
    found = model_folder(folder)
    return Served(name or name_of(Path(folder)), found, opening)


def name_of(folder: Path) -> str:
    """runs/first -> first; runs/first/best -> first."""
    place = folder.expanduser().resolve()
    return place.parent.name if place.name in ("best", "last") and place.parent.name else place.name
