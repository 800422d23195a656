"""What the hub's libraries leave open to a hub that means ill, or that is ill: answers that never end, files that
unpack to more than a disk holds. Whatever is changed inside of these libraries is changed here.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..extras import need
from .lines import Unpacked

NEEDS = "reading a data set of the hub"
SLOWEST = 1024  # bytes of an answer that come in a second, at least, on average
PATIENCE = 3  # how many times the seconds of silence, at which a request is given up, an answer may be slower
ONCE = threading.Lock()
PAGES = 1000  # of one listing, at most: each names up to 1,000 files
PACKERS = ("gzip", "zstd", "bz2", "xz", "lzma")  # as fsspec names them


def guard() -> None:
    """Guard this process's requests to the hub, and what is unpacked of its files; once for all."""
    hub = need("huggingface_hub.utils._http", NEEDS)
    with ONCE:  # a new maker closes the client that other threads may be reading from
        factory = getattr(hub, "_GLOBAL_CLIENT_FACTORY", None)
        if factory is not None and not hasattr(factory, "guarded"):  # a library before 1.0 has none
            hub.set_client_factory(guarded_factory(factory))
    packers = need("fsspec.compression", NEEDS).compr
    for name in PACKERS:
        if name in packers and not hasattr(packers[name], "guarded"):
            packers[name] = bounded_unpacker(packers[name])


@contextmanager
def single_requests() -> Iterator[None]:
    """Within it the hub's own library makes each request once. Its five retries take 23 s, and below ours they would
    hide for minutes that there is no network."""
    backoff = need("huggingface_hub.utils", NEEDS).http_backoff
    files: Any = need("huggingface_hub.file_download", NEEDS)
    stated, silent = backoff.__kwdefaults__, getattr(files, "_ETAG_RETRY_TIMEOUT", None)
    try:
        if "max_retries" in (stated or {}):
            backoff.__kwdefaults__ = {**stated, "max_retries": 0}
        if silent is not None:
            files._ETAG_RETRY_TIMEOUT = min(silent, 10)
        yield
    finally:
        backoff.__kwdefaults__ = stated
        if silent is not None:
            files._ETAG_RETRY_TIMEOUT = silent


def guarded_factory(factory: Callable[[], Any]) -> Callable[[], Any]:
    """A maker of clients that give up on silence where a request says nothing of that, on an answer that drips, and on
    a listing that never ends."""

    constants = need("huggingface_hub.constants", NEEDS)

    def silence() -> float:
        return float(constants.HF_HUB_DOWNLOAD_TIMEOUT)

    def client() -> Any:
        session, pages = factory(), dict[str, int]()
        hooks = session.event_hooks
        session.event_hooks = {
            **hooks,
            "request": [*hooks.get("request", ()), lambda request: limit_silence(request, silence())],
            "response": [
                *hooks.get("response", ()),
                lambda response: limit_slowness(response, silence()),
                lambda response: count_pages(response, pages),
            ],
        }
        return session

    client.guarded = True  # type: ignore[attr-defined]
    return client


def limit_silence(request: Any, silence: float) -> None:
    """Let a request that reads be given up after some seconds of silence, where it says nothing of that: a listing."""
    if request.method in ("GET", "HEAD"):
        stated = request.extensions.get("timeout") or {}
        limits = {name: silence if stated.get(name) is None else stated[name] for name in ("connect", "read")}
        request.extensions["timeout"] = {**stated, **limits}


def count_pages(response: Any, pages: dict[str, int]) -> None:
    """Raise the library's error for a listing of more than PAGES pages.

    pages  how many pages came before one, by the address of that one: {"https://...?cursor=3000": 3}
    """
    if following := response.links.get("next", {}).get("url"):
        url = response.request.url
        pages[str(url.join(following))] = count = pages.pop(str(url), 0) + 1
        if count >= PAGES:
            library = need(type(response).__module__.partition(".")[0], "reading from the hub")
            raise library.DecodingError(f"a listing of more than {PAGES:,} pages, and no end", request=response.request)


def limit_slowness(response: Any, silence: float) -> None:
    """Let the body of an answer be given up where it comes too slowly."""
    stream, library = response.stream, need(type(response).__module__.partition(".")[0], "reading from the hub")

    class Paced(library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            waited, received = 0.0, 0
            pieces = iter(stream)
            while True:
                begun = time.monotonic()
                piece = next(pieces, None)
                waited += time.monotonic() - begun  # not what the reader does between two of them
                if piece is None:
                    return
                received += len(piece)
                if waited > PATIENCE * silence and received < SLOWEST * waited:
                    said = f"{received:,} bytes in {waited:.1f} s of waiting"
                    raise library.ReadTimeout(f"the answer comes too slowly: {said}", request=response.request)
                yield piece

        def close(self) -> None:
            stream.close()

    response.stream = Paced()


def bounded_unpacker(unpack: Callable[..., Any]) -> Callable[..., Any]:
    """A function of fsspec that unpacks files, and refuses one of the hub that unpacks to far more than text does."""

    def unpacked(file: Any, **how: Any) -> Any:
        opened = unpack(file, **how)
        if not type(file).__name__.startswith("HfFileSystem"):
            return opened
        return io.BufferedReader(Unpacked(opened, file.tell, getattr(file, "path", "a file of the hub")))

    unpacked.guarded = True  # type: ignore[attr-defined]
    return unpacked
