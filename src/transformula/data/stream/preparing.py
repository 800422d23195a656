"""Makes token shards ahead, with many processes or on many machines.

Each shard of the source becomes a shard of tokens, made by one process alone and put in its place when it is whole:
what a killed process had begun is made again, with the same bytes, and nothing else is. The merge looks at all
shards, their sizes and their hashes, names the first that is lost or short, and writes the index.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...atomic_io import disk_errors, is_temporary, write_whole
from ...cost.machine import cores
from ...errors import ConfigError, DataError, RunError, setting
from ...plain import several
from ...structured import Malformed, load_json
from ...tokenizers.base import load
from ..format import LATER
from ..preview import counting
from ..settings import DataSettings, PrepareSettings
from ..tokens import id_type
from .documents import StreamText
from .prepared import INDEX, KIND, PLAN
from .streamed import StreamData, read_stream, weighted_source


def prepare_shards(settings: DataSettings, how: PrepareSettings) -> dict[str, Any]:
    """Make the token shards that are not there yet, and the index, unless only a part is asked for. Returns the index,
    or what was made. Raises DataError that names a shard, RunError where a process was killed, or the disk refuses what
    is written."""
    folder = Path(how.out).expanduser()
    if settings.shuffle > 1:
        raise ConfigError("shuffle: of tokens made ahead training shuffles all windows; leave it out")
    data = read_stream(settings)
    if len(data.texts) != 1:
        raise ConfigError("data: token shards are made of one source; prepare each into a folder of its own")
    with disk_errors(folder, "finished shards stay; run the same prepare again"):
        return _prepared(settings, how, folder, data)


def _prepared(settings: DataSettings, how: PrepareSettings, folder: Path, data: StreamData) -> dict[str, Any]:
    (part, of), (text,) = how.part_of_all, data.texts
    begin_folder(folder, data, settings)
    numbers = list(range(part, len(text.source.names), of))
    missing = [number for number in numbers if about_of(folder, number) is None]
    if missing and not how.merge:
        workers = min(how.workers or cores(), len(missing))
        with counting("preparing shards") as progress:
            for done, _ in enumerate(make_shards(settings, folder, missing, workers), len(numbers) - len(missing) + 1):
                progress(done, len(numbers))
    if how.part is not None and not how.merge:
        return {"folder": str(folder), "part": how.part, "shards": len(numbers)}
    return {"folder": str(folder), **merge_shards(folder, text)}


def begin_folder(folder: Path, data: StreamData, settings: DataSettings) -> None:
    """Write what all parts share: the plan, the tokenizer and the validation set. Several jobs may do so at once: they
    write the same. Raises DataError where the folder is of other data, or was read in another way."""
    (text,) = data.texts
    identity = identity_of(data, settings)
    other = f"name another folder with {setting('out', 'FOLDER')}"
    try:
        plan = load_json(folder / PLAN)
        ours = plan["kind"] == KIND
    except (OSError, Malformed, KeyError, TypeError):
        ours = False
    if ours and plan.get("identity") != identity:
        what = "holds tokens of other data, or by another tokenizer or other settings"
        raise DataError(f"{what}; {other}", path=folder)
    if not ours and folder.is_dir():
        strange = sorted(path.name for path in folder.iterdir() if not is_temporary(path.name, PLAN))
        if strange:
            raise DataError(f"is not empty: it holds {strange[0]}; {other}", path=folder)
    folder.mkdir(parents=True, exist_ok=True)
    # The plan comes first: a folder with it is known as ours, wherever a process is killed.
    plan = {"kind": KIND, "identity": identity, "shards": list(text.source.names)}
    write_whole(folder / PLAN, as_bytes(plan))
    (folder / "shards").mkdir(exist_ok=True)
    kind, held = id_type(data.tokenizer.vocab), data.validation
    validation = {"documents": held.documents, "tokens": len(held), "bytes": held.text_bytes, "how": data.split.how}
    validation |= {"characters": held.characters, "held_out": sorted(f"{one:016x}" for one in text.held_out)}
    data.tokenizer.save(folder / "tokenizer")
    write_whole(folder / "validation.bin", np.asarray(held.ids).astype(kind).tobytes())
    write_whole(folder / "validation.json", as_bytes(validation))


def identity_of(data: StreamData, settings: DataSettings) -> str:
    """A hash of the data, of how it is read, and of the documents that are left out."""
    held_out = sorted(data.texts[0].held_out)
    reading = {key: value for key, value in settings.reading.items() if value is not None or key not in LATER}
    plain = json.dumps([data.identity, held_out, reading], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def as_bytes(plain: Mapping[str, Any]) -> bytes:
    return json.dumps(plain, indent=1).encode()


def make_shards(settings: DataSettings, folder: Path, numbers: list[int], workers: int) -> Iterator[int]:
    """Make shards, and yield the number of each that is whole."""
    if workers == 1:
        maker = Maker(settings, folder)
        for number in numbers:
            yield maker.make(number)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, start_worker, (settings.plain(), str(folder))) as pool:
        ahead = [pool.submit(make_in_worker, number) for number in numbers]
        try:
            for done in as_completed(ahead):
                yield done.result()
        except BrokenProcessPool:
            what = "a process was killed, perhaps for its memory"
            raise RunError(f"{folder}: {what}; run the same prepare again, with fewer --workers") from None
        finally:
            for one in ahead:
                one.cancel()


@dataclass
class CountedText(StreamText):
    """The same, with counts of the training documents that were given out."""

    counts: Counter[str] = field(default_factory=Counter)

    def documents(self, shard: str, start: int = 0) -> Iterator[tuple[int, str]]:
        for number, text in super().documents(shard, start):
            self.counts.update(documents=1, bytes=len(text.encode()), characters=len(text))
            yield number, text


class Maker:
    """Makes token shards of one source."""

    def __init__(self, settings: DataSettings, folder: Path) -> None:
        (name,) = several(settings.data)
        held = load_json(folder / "validation.json")["held_out"]
        held_out = frozenset(int(one, 16) for one in held)
        self.text = CountedText(weighted_source(name, settings)[1], settings.bad_shards == "skip", held_out=held_out)
        self.folder, self.tokenizer = folder, load(folder / "tokenizer")
        self.kind = id_type(self.tokenizer.vocab)

    def make(self, number: int) -> int:
        """Make a shard: a file of ids, then one that says what it holds."""
        shard, path = self.text.source.names[number], file_of(self.folder, number)
        for left in path.parent.glob(f".{path.name}.*.part"):  # of a process that was killed
            left.unlink()
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        digest, tokens = hashlib.sha256(), 0
        self.text.counts.clear()
        try:
            with open(temporary, "wb") as file:
                for _, ids in self.text.tokens(self.tokenizer, shard):
                    content = ids.astype(self.kind).tobytes()
                    digest.update(content)
                    file.write(content)
                    tokens += len(ids)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        about = {"shard": shard, "tokens": tokens, "type": self.kind.name, "sha256": digest.hexdigest()}
        about |= {key: self.text.counts[key] for key in ("documents", "bytes", "characters")}
        about["bad"] = self.text.bad.get(shard)
        write_whole(path.with_suffix(".json"), as_bytes(about))
        return number


_maker: list[Maker] = []  # of this process, where it is a worker


def start_worker(settings: dict[str, Any], folder: str) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    _maker.append(Maker(DataSettings.read(settings), Path(folder)))


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


def make_in_worker(number: int) -> int:
    return _maker[0].make(number)


def file_of(folder: Path, number: int) -> Path:
    return folder / "shards" / f"{number:06}.bin"


def about_of(folder: Path, number: int) -> dict[str, Any] | None:
    """What a shard that is made holds; None where it is not there, or not of the size that it says."""
    path = file_of(folder, number)
    try:
        about = dict(load_json(path.with_suffix(".json")))
        whole = path.stat().st_size == about["tokens"] * np.dtype(about["type"]).itemsize
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return about if whole else None


def merge_shards(folder: Path, text: StreamText) -> dict[str, Any]:
    """Check all shards and write the index. Raises DataError that names the first which is lost, short or damaged."""
    shards: list[dict[str, Any]] = []
    names = text.source.names
    with counting("checking shards") as progress:
        for number, name in enumerate(names):
            path, about = file_of(folder, number), about_of(folder, number)
            again = "run the same prepare again: it makes what is missing"
            if about is None:
                state = "is short, or longer than it was" if path.is_file() else "is not made, or is lost"
                raise DataError(
                    f"{state}: the tokens of {name}, shard {number + 1} of {len(names)}; {again}", path=path
                )
            with path.open("rb") as file:
                if about["shard"] != name or hashlib.file_digest(file, "sha256").hexdigest() != about["sha256"]:
                    raise DataError(f"damaged: it is not what was made of {name}; remove it, and {again}", path=path)
            shards.append({"file": str(path.relative_to(folder)), **about})
            progress(number + 1, len(names))
    index = {"kind": KIND, "identity": load_json(folder / PLAN)["identity"], "type": shards[0]["type"]}
    index |= {key: sum(one[key] for one in shards) for key in ("documents", "tokens", "bytes", "characters")}
    if not index["tokens"]:
        raise DataError("has no documents to train on", path=text.source.name)
    index |= {"bad": {one["shard"]: one["bad"] for one in shards if one["bad"]}}
    index |= {"validation": load_json(folder / "validation.json"), "shards": shards}
    write_whole(folder / INDEX, as_bytes(index))
    return index
