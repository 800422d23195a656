"""A hub on the loopback: the part of the Hugging Face hub's protocol by which `datasets` and `huggingface_hub` read
data sets and models and send models, with faults as a test asks for them. Standard library alone.

    with HubServer({"HuggingFaceFW/fineweb-edu": fineweb_edu(files)}) as hub:
        hub.fail("000_00000.parquet", 500, "drop", "stall")     the first three answers for its data
        ...                                                      HF_ENDPOINT=hub.url
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import string
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests import pace
from tests.data.hub_sending import Repository as Repository
from tests.data.hub_sending import Sending

COLUMNS = (
    "text", "id", "dump", "url", "file_path", "language", "language_score", "token_count", "score", "int_score",
)  # fmt: skip
"""FineWeb-Edu's, in its order."""


def page(number: int, text: str | None = None) -> dict[str, Any]:
    """Row `number` in FineWeb-Edu's columns; the text of a row is its own, so that a row seen twice is found."""
    words = " ".join(f"page {number} says that {number} and {n} are {number + n}." for n in range(4))
    score = 1.0 + (number * 37 % 40) / 10
    return {
        "text": words if text is None else text,
        "id": f"<urn:uuid:{number:08d}>",
        "dump": "CC-MAIN-2024-10",
        "url": f"https://example.org/{number}",
        "file_path": "s3://commoncrawl/crawl-data/CC-MAIN-2024-10/0.warc.gz",
        "language": "de" if number % 5 == 4 else "en",
        "language_score": 0.65 + (number % 35) / 100,
        "token_count": len(words.split()),
        "score": score,
        "int_score": round(score),
    }


def parquet(rows: Sequence[Mapping[str, Any]], group: int = 10) -> bytes:
    """Rows as a parquet file with `group` rows in each row group."""
    import pyarrow
    import pyarrow.parquet

    body = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), body, row_group_size=group)
    return body.getvalue()


def fineweb_edu(
    files: int = 3, rows: int = 40, gated: str | None = None, config: str = "sample-10BT", group: int = 10
) -> Repository:
    """A data set laid out as FineWeb-Edu is: configs in the head of its README, the sample's files in a folder."""
    names = [f"sample/10BT/{file:03d}_00000.parquet" for file in range(files)]
    content = {
        name: parquet([page(file * rows + row) for row in range(rows)], group) for file, name in enumerate(names)
    }
    head = {
        "configs": [
            {"config_name": "default", "data_files": [{"split": "train", "path": "data/*/*"}]},
            {"config_name": config, "data_files": [{"split": "train", "path": "sample/10BT/*"}]},
        ]
    }
    readme = f"---\n{json.dumps(head)}\n---\n# A data set\n".encode()
    other = parquet([page(10**6 + row) for row in range(3)])
    return Repository({"README.md": readme, "data/CC-MAIN-2024-10/train-0.parquet": other, **content}, gated)


def long_pages(rows: int = 60, letters: int = 3000) -> list[dict[str, Any]]:
    """Rows that are too long, and too mixed, for a file of them to come in one answer."""
    drawn = random.Random(1)
    return [page(n, "".join(drawn.choices(string.ascii_letters, k=letters)) + str(n)) for n in range(rows)]


class HubServer(ThreadingHTTPServer):
    """The server; it answers from its start to the end of the `with`.

    asked    how often each path was asked for, "GET /datasets/..."
    faulted  the faults that were met, "500 000_00000.parquet"
    ranges   (path, first byte, end) of the files' parts that were asked for
    unknown  requests that it has no answer for: a test that passes with one of them tests less than it says
    page     entries of a listing that are sent at once
    tokens   what clients showed to prove who they are
    drip     seconds between two bytes of a "drip"
    logins   the user of each token
    private  of repositories that were made, whether they are private
    uploads  large files that were sent, by their hashes
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, repositories: Mapping[str, Repository], page: int = 1000) -> None:
        self.repositories, self.page = dict(repositories), page
        self.asked: Counter[str] = Counter()
        self.unknown: list[str] = []
        self.tokens: list[str | None] = []
        self.drip = 0.02
        self.logins: dict[str, str] = {}
        self.private: dict[str, bool] = {}
        self.uploads: dict[str, bytes] = {}
        self.faulted: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []
        self._faults: list[tuple[str, deque[int | str | None]]] = []
        self._lock, self.ended = threading.Lock(), threading.Event()
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> HubServer:
        pace.unit()  # parses Python, which ends in a SystemError where a thread prints a traceback meanwhile (3.11)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, address: Any) -> None:
        """Clients that hang up are what the faults are about."""

    def fail(self, place: str, *faults: int | str | None) -> None:
        """Let the next answers for the data of paths that contain `place` be faults, in order.

        None                no fault
        500, 503, 429, ...  this status
        "drop"              the connection ends in the middle of the body
        "stall"             half of the body comes, and then nothing more
        "short"             a body that lacks its second half, and says so: a file that lost its end
        "long"              twice the body, and the length of one
        "html"              a page for people, with the status 200
        "cut"               the first half of the JSON, as if that were all
        "drip"              the body, a byte at a time
        "loop"              sent to the same place again
        "endless"           a listing whose every page names a next one
        "to URL"            sent to another place

        What is said of a data set, and not its data, is at a place that begins with "api:", as in "api:tree".
        """
        self._faults.append((place, deque(faults)))

    def be_well(self) -> None:
        """Let no further answer be a fault."""
        self._faults.clear()

    def fault(self, path: str) -> int | str | None:
        with self._lock:
            for place, faults in self._faults:
                if place in path and faults and place.startswith("api:") == path.startswith("api:"):
                    if faults[0] is not None:
                        self.faulted.append(f"{faults[0]} {path}")
                    return faults.popleft()
        return None

    def noted(self, line: str) -> None:
        with self._lock:
            self.asked[line] += 1


def silence() -> float:
    """Seconds without a byte after which a test takes the hub to be stalled: many times what it takes to answer."""
    return 15 * pace.unit()


def point_to(hub: HubServer, monkeypatch: Any, cache: Any, block: int = 5 * 2**20, timeout: float = 60) -> None:
    """Let datasets and huggingface_hub of this process read from `hub`, as HF_ENDPOINT does for a process that begins.
    They try again at once.

    block    bytes that are asked for at once
    timeout  seconds of silence after which an answer is given up
    """
    import datasets
    import fsspec.spec
    from huggingface_hub import constants
    from huggingface_hub.utils import _http
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("TRANSFORMULA_HUB_WAIT", "0")
    for module, values in (
        (constants, {"ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": False,
                     "AGENT_HARNESSES_PATH": f"{cache}/agents.json", "HF_HUB_DOWNLOAD_TIMEOUT": timeout,
                     "HF_HUB_ETAG_TIMEOUT": timeout,
                     "HF_TOKEN_PATH": f"{cache}/token",
                     "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}"}),
        (datasets.config, {"HF_ENDPOINT": hub.url, "HF_DATASETS_CACHE": cache, "HF_HUB_OFFLINE": False,
                           "HUB_DATASETS_URL": hub.url + "/datasets/{repo_id}/resolve/{revision}/{path}"}),
        (fsspec.spec.AbstractBufferedFile, {"DEFAULT_BLOCK_SIZE": block}),
        (_http, {"time": SimpleNamespace(sleep=lambda _: None, time=time.time)}),
    ):  # fmt: skip
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


class Answer(Sending, BaseHTTPRequestHandler):
    """One connection."""

    server: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        self.posted = self.rfile.read(length) if length else b""
        parts = [unquote(part) for part in address.path.strip("/").split("/")]
        self.server.noted(f"{self.command} {unquote(address.path)}")
        self.server.tokens.append(self.headers.get("Authorization"))
        self.due: int | str | None = None
        if parts[:2] == ["api", "models"] and parts[4:5] in (["preupload"], ["commit"]):
            self.committed("/".join(parts[2:4]), parts[4])
        elif parts[:2] in (["api", "datasets"], ["api", "models"]) and len(parts) >= 4:
            self.about("/".join(parts[2:4]), parts[4:])
        elif len(parts) >= 5 and parts[2] == "resolve":
            self.file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        elif parts[0] == "datasets" and len(parts) >= 6 and parts[3] == "resolve":
            self.file("/".join(parts[1:3]), parts[4], "/".join(parts[5:]))
        elif parts == ["api", "agent-harnesses"]:
            self.send({})
        elif self.sent_to(parts):
            pass
        else:
            self.nothing()

    def nothing(self) -> None:
        self.server.unknown.append(f"{self.command} {self.path}")
        self.refuse(404, "", "no such address")

    def about(self, name: str, rest: list[str]) -> None:
        """Of a repository: what it is, the listing of a folder, what some paths are."""
        verb, revision = (rest + ["revision", "main"][len(rest) :])[:2] if rest else ("revision", "main")
        self.due = self.server.fault(f"api:{verb}/{name}")
        if isinstance(self.due, int) or (self.due or "").startswith(("loop", "to ")):
            return self.astray(self.due)
        repository = self.found(name, revision)
        if repository is None:
            return
        if verb == "revision":
            siblings = [{"rfilename": path} for path in sorted(repository.files)]
            gated: str | bool = "auto" if repository.gated else False
            self.send({"id": name, "sha": repository.sha, "private": False, "gated": gated, "disabled": False,
                       "downloads": 0, "likes": 0, "tags": [], "siblings": siblings})  # fmt: skip
        elif verb == "tree":
            self.tree(repository, "/".join(rest[2:]))
        elif verb == "paths-info":
            asked = parse_qs(self.posted.decode()).get("paths") or json.loads(self.posted or b"{}").get("paths", [])
            wanted = [asked] if isinstance(asked, str) else asked
            self.send([entry for entry in entries(repository, "", True) if entry["path"] in wanted])
        else:
            self.nothing()

    def tree(self, repository: Repository, folder: str) -> None:
        """A page of the entries in a folder; `Link` names the next."""
        listed = entries(repository, folder, self.query.get("recursive", "").lower() in ("true", "1"))
        if folder and not listed:
            return self.refuse(404, "EntryNotFound", f"{folder} does not exist on main")
        start = int(self.query.get("cursor", 0))
        end = start + self.server.page
        further = {}
        if end < len(listed) or self.due == "endless":
            query = "&".join(f"{key}={value}" for key, value in {**self.query, "cursor": end}.items())
            further["Link"] = f'<{self.server.url}{urlsplit(self.path).path}?{query}>; rel="next"'
        return self.send(listed[start:end], further)

    def found(self, name: str, revision: str) -> Repository | None:
        repository = self.server.repositories.get(name)
        if repository is None:  # as the hub says it to people who show no token: it may be private
            self.refuse(401, "RepoNotFound", "Invalid username or password.")
        elif not repository.knows(revision):
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repository
        return None

    def file(self, name: str, revision: str, path: str) -> None:
        """A file or a range of it, unless a fault is due."""
        repository = self.found(name, revision)
        if repository is None:
            return
        if repository.gated and self.headers.get("Authorization") != f"Bearer {repository.gated}":
            return self.refuse(401, "GatedRepo", f"Access to dataset {name} is restricted. You must have access to it.")
        body = repository.files.get(path)
        if body is None:
            return self.refuse(404, "EntryNotFound", f"Entry not found: {path}")
        head = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": repository.sha,
                "Accept-Ranges": "bytes", "X-Linked-Size": str(len(body))}  # fmt: skip
        fault = self.server.fault(path) if self.command == "GET" else None
        if isinstance(fault, int) or (fault or "").startswith(("loop", "to ")):
            return self.astray(fault)
        if fault == "html":
            return self.page_for_people()
        status, part = 200, body
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last) + 1 if last else len(body), len(body))
            if start >= len(body):
                return self.refuse(416, "", "no such range")
            status, part = 206, body[start:end]
            self.server.ranges.append((path, start, end))
            head["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
        sent = part[: len(part) // 2] if fault in ("drop", "stall", "short") else part
        self.begin(status, len(sent if fault == "short" else part), head)
        if self.command != "HEAD":
            self.give(sent * 2 if fault == "long" else sent, fault == "drip")
        if fault == "stall":
            self.connection.settimeout(0.01)
            while not self.server.ended.is_set() and self.open():
                pass
        if fault in ("drop", "stall", "long"):
            self.close_connection = True
        return None

    def astray(self, fault: int | str | None) -> None:
        """An answer without what was asked for: a status, or another place."""
        if isinstance(fault, int):
            return self.refuse(fault, "", "the hub has a bad day", {"Retry-After": "0"} if fault == 429 else {})
        to = str(fault).removeprefix("to ") if fault != "loop" else self.server.url + self.path
        self.begin(302, 0, {"Location": to})
        return None

    def page_for_people(self) -> None:
        body = b"<!doctype html><title>Sign in</title><p>Sign in to the network of the hotel." + b"<p>" * 2000
        self.begin(200, len(body), {"Content-Type": "text/html"})
        if self.command != "HEAD":
            self.give(body)

    def give(self, body: bytes, slowly: bool = False) -> None:
        """Send a body; `slowly`: a byte at a time, each before a client's patience with silence ends."""
        for start in range(0, len(body), 1 if slowly else len(body) or 1):
            self.wfile.write(body[start : start + 1] if slowly else body)
            self.wfile.flush()
            if slowly and self.server.ended.wait(self.server.drip):
                return

    def open(self) -> bool:
        """Whether the client still holds on."""
        try:
            return bool(self.connection.recv(1))
        except TimeoutError:
            return True
        except OSError:
            return False

    def send(self, content: Any, head: Mapping[str, str] | None = None) -> None:
        due = self.due
        if due == "html":
            return self.page_for_people()
        body = json.dumps(content).encode()
        sent = body[: len(body) // 2] if due in ("cut", "drop", "stall") else body * 2 if due == "long" else body
        self.begin(200, len(sent if due == "cut" else body), {"Content-Type": "application/json", **(head or {})})
        if self.command != "HEAD":
            self.give(sent, due == "drip")
        if due == "stall":
            self.connection.settimeout(0.01)
            while not self.server.ended.is_set() and self.open():
                pass
        if due in ("drop", "stall", "long"):
            self.close_connection = True
        return None

    def refuse(
        self, status: int, code: str, message: str, head: Mapping[str, str] | None = None, **more: str
    ) -> None:
        body = json.dumps({"error": message, **more}).encode()
        known = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
        self.begin(status, len(body), {"Content-Type": "application/json", **known, **(head or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status: int, length: int, head: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**head, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()


def entries(repository: Repository, folder: str, recursive: bool) -> list[dict[str, Any]]:
    """What a folder of a repository holds, as the hub lists it."""
    prefix = f"{folder}/" if folder else ""
    found: dict[str, dict[str, Any]] = {}
    for path, body in sorted(repository.files.items()):
        if not path.startswith(prefix):
            continue
        parts = path.removeprefix(prefix).split("/")
        for depth in range(1, len(parts) if recursive else min(2, len(parts))):
            at = prefix + "/".join(parts[:depth])
            found.setdefault(at, {"type": "directory", "oid": hashlib.sha1(at.encode()).hexdigest(), "size": 0,
                                  "path": at})  # fmt: skip
        if recursive or len(parts) == 1:
            oid = hashlib.sha1(body).hexdigest()
            name = repository.listed.get(path, path)
            found[name] = {"type": "file", "oid": oid, "size": len(body), "path": name}
    return list(found.values())
