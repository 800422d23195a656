"""Data sets of the Hugging Face hub, read through the package datasets, a file of theirs after the other.

    hf:OWNER/NAME                       its only config, or the one that it names as its default; the split `train`
    hf:OWNER/NAME:CONFIG                this config
    hf:OWNER/NAME:CONFIG:SPLIT          another split; of train[:1000] the first 1,000 rows
    hf:OWNER/NAME@REVISION:CONFIG       as it was at a commit, a branch or a tag

NAME may be a folder on this machine. Rows are streamed: no file is kept. A connection that breaks is tried again, with
waits of 1, 2, 4, ... seconds, and reading goes on at the row that was next: no row is lost or given twice. A hub that
cannot be reached at all is tried three times, within about half a minute. `TRANSFORMULA_HUB_RETRIES` says how often in
a row is tried again (6; 2 to reach the hub), `TRANSFORMULA_HUB_WAIT` how many seconds the first wait takes (1; 3).

Where the hub is not reached, or `HF_HUB_OFFLINE=1` forbids to ask it, the copy is read that `datasets.load_dataset` has
kept on this machine, if there is one.
"""

from __future__ import annotations

import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar

from ..errors import DataError, InputError, RunError, did_you_mean, listing, nearest, shortened
from ..extras import need
from .hub_guard import NEEDS, guard, single_requests

T = TypeVar("T")

FORM = "expected hf:OWNER/NAME, hf:OWNER/NAME:CONFIG or hf:OWNER/NAME:CONFIG:SPLIT; SPLIT may be as in train[:1000]"
NAME = re.compile(
    r"hf:(?P<repository>[^:@]+)(?:@(?P<revision>[^:]+))?"
    r"(?::(?P<config>[^:\[\]]+)(?::(?P<split>[^:\[\]]+)(?:\[:(?P<first>\d+)\])?)?)?"
)
AGAIN = (408, 429, 500, 502, 503, 504)  # statuses of a server that may soon do better
MAX_WAIT_SECONDS = 60.0
RETRIES, WAIT = 6, 1.0  # while data are read
REACH_RETRIES, REACH_WAIT, REACH_SECONDS = 2, 3.0, 30.0  # before the hub has answered once


@dataclass(frozen=True)
class HubName:
    """The parts of a data set's name."""

    text: str
    repository: str
    revision: str | None = None
    config: str | None = None
    split: str = "train"
    first: int | None = None  # rows that are read; None: all

    @classmethod
    def parse(cls, text: str) -> HubName:
        """Raises DataError for a name of another form."""
        if text.startswith("hub:"):
            raise DataError(f"a data set of the hub is named with hf: in place of hub:; {FORM}", path=text)
        parts = NAME.fullmatch(text)
        if parts is None:
            raise DataError(FORM, path=text)
        first = None if parts["first"] is None else int(parts["first"])
        return cls(text, parts["repository"], parts["revision"], parts["config"], parts["split"] or "train", first)


def library() -> ModuleType:
    """The package datasets, told to leave it to us to try again: its own 20 times of 5 s, below ours, would hide a hub
    that is gone for half an hour. What it loads from tries each request six times, too. Raises MissingExtra."""
    datasets = need("datasets", NEEDS)
    config = getattr(datasets, "config", None)
    for name in ("STREAMING_READ", "STREAMING_OPEN"):
        setattr(config, f"{name}_MAX_RETRIES", 1)
        setattr(config, f"{name}_RETRY_INTERVAL", 0)
    for name in ("SERVER_UNAVAILABLE", "RATE_LIMIT"):
        setattr(config, f"STREAMING_READ_{name}_RETRY_INTERVAL", 0)
    guard()
    return datasets


class Patience:
    """Tries again after a connection broke: at most `retries` times in a row, with waits that double.

    what     the data set, for messages
    retries  unless the environment says how many; wait: the seconds of the first wait
    seconds  no try begins that would end later than this, were it as long as the one before; counted from the first
    remedy   what else may help, once it is over
    """

    def __init__(
        self, what: str, retries: int = RETRIES, wait: float = WAIT, seconds: float = math.inf, remedy: str = ""
    ) -> None:
        self.what, self.seconds, self.remedy = what, seconds, remedy
        self.retries, self.first_wait = int(environment_number("RETRIES", retries)), environment_number("WAIT", wait)
        self.over()

    def over(self) -> None:
        """Something came: count anew."""
        self.met, self.waited = 0, 0.0
        self.began = self.tried = time.monotonic()

    def wait(self, error: Exception, where: str) -> None:
        """Wait before the next try. Raises RunError when there have been enough, InputError at once for an error that
        another try does not mend."""
        if not is_passing(error):
            raise explanation(error, self.what, where) from None
        said = f"{self.what}: {where}: {error_in_short(error)}"
        pause, now = min(MAX_WAIT_SECONDS, self.first_wait * 2**self.met), time.monotonic()
        if self.met >= self.retries or (now - self.began) + pause + (now - self.tried) > self.seconds:
            times = f"{self.met + 1} times" if self.met else "once"
            raise RunError(
                f"{said}. Tried {times}, with {self.waited:g} s of waiting, and the hub"
                f" ({endpoint()}) did not answer as it should: see that the network and the hub work, then run this"
                " again, or a run that had begun with --resume; TRANSFORMULA_HUB_RETRIES sets how often is tried"
                f"{self.remedy}"
            ) from None
        self.met += 1
        self.waited += pause
        warnings.warn(f"{said}; trying again in {pause:g} s ({self.met} of {self.retries})", stacklevel=2)
        time.sleep(pause)
        self.tried = time.monotonic()

    def until_done(self, do: Callable[[], T], where: str) -> T:
        """What `do` gives, at the first try that works."""
        self.over()
        while True:
            try:
                done = do()
            except InputError:
                raise
            except Exception as error:
                self.wait(error, where)
            else:
                self.over()
                return done


def environment_number(name: str, default: float) -> float:
    """The number in TRANSFORMULA_HUB_NAME. Raises InputError for anything else."""
    variable = f"TRANSFORMULA_HUB_{name}"
    try:
        value = float(os.environ.get(variable) or default)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise InputError(f"{variable} is {os.environ[variable]!r}; expected a number from 0 on")
    return value


def endpoint() -> str:
    """The address of the hub."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co")


def copies_folder() -> str:
    """The folder of the copies that `datasets.load_dataset` keeps."""
    return str(getattr(library().config, "HF_DATASETS_CACHE", "its cache"))


def error_in_short(error: BaseException) -> str:
    """The kind of an error, and the beginning of what it says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what caused it, what caused that, ..."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def is_offline(error: BaseException) -> bool:
    """Whether the hub was not asked, since HF_HUB_OFFLINE forbids it."""
    return any("OfflineModeIsEnabled" in (type(one).__name__, *str(one).strip(")").split("(")) for one in causes(error))


def is_passing(error: BaseException) -> bool:
    """Whether another try may go well: the connection broke or was silent, or the server was busy or broken."""
    if is_offline(error):
        return False
    for one in causes(error):
        kinds = {kind.__name__ for kind in type(one).__mro__}
        if status := getattr(getattr(one, "response", None), "status_code", None):
            return status in AGAIN
        if "UnsupportedProtocol" in kinds:  # it sends us to a file of this machine
            return False
        if kinds & {"TransportError", "ConnectionError", "TimeoutError", "ClientError", "IncompleteRead"}:
            return True
    return False


def explanation(error: Exception, what: str, where: str) -> InputError:
    """The error that names the remedy."""
    if isinstance(error, InputError):
        return error
    kinds = {kind.__name__ for one in causes(error) for kind in type(one).__mro__}
    text = error_in_short(error)
    if is_offline(error):
        remedy = "HF_HUB_OFFLINE forbids to ask the hub: unset it, or name files on this machine"
        remedy += f" (datasets.load_dataset has kept no copy of it in {copies_folder()})"
    elif "is a gated dataset" in text or "GatedRepoError" in kinds:
        remedy = f"is gated: accept its terms on its page at {endpoint()}, then set HF_TOKEN to a token of yours"
    elif "Revision '" in text or "RevisionNotFoundError" in kinds:
        remedy = f"has no such revision; name a commit, a branch or a tag after the @ ({text})"
    elif "DatasetNotFoundError" in kinds:
        remedy = (
            f"there is no such data set at {endpoint()}, nor such a folder here, or it is private: write OWNER/NAME as"
            " its page does; for a private one set HF_TOKEN"
        )
    elif kinds & {"JSONDecodeError", "DecodingError", "TooManyRedirects", "UnsupportedProtocol"}:
        remedy = (
            f"{where}: what answers in the place of the hub ({endpoint()}) does not speak as a hub does ({text}): see"
            " whether the network asks you to sign in, what a proxy says, and where HF_ENDPOINT points"
        )
    elif kinds & {"ArrowInvalid", "ArrowException"}:
        remedy = f"{where}: is not a whole file ({text}); name another revision, or tell its owner"
    else:
        remedy = f"{where}: {text}"
    return DataError(remedy, path=what)


def is_copy(builder: Any) -> bool:
    """Whether the library found a data set on this machine alone, as `load_dataset` keeps it: it names no files."""
    return not builder.config.data_files and bool(builder.info.splits)


def check_revision(name: HubName, commit: str) -> None:
    """Say that a copy on this machine is read. Raises DataError where it is known to be of another revision than the
    one that is asked for: the library does not look."""
    asked = name.revision
    if asked is not None and not commit.startswith(asked):
        what = f"the hub was not reached; the copy on this machine is of commit {commit}, and {asked} is asked for"
        raise DataError(f"{what}: leave the revision out to read the copy", path=name.text)
    what = f"the hub was not reached: this reads the copy on this machine, of commit {commit}"
    warnings.warn(f"{name.text}: {what}", stacklevel=2)


def undecoded(rows: Any) -> Any:
    """A data set of the library whose columns of sound give the bytes of files, which are decoded later."""
    for name, feature in (rows.features or {}).items():
        if type(feature).__name__ == "Audio":
            rows = rows.cast_column(name, type(feature)(decode=False))
    return rows


class HubSet:
    """A data set of the hub: the names of its files, and the rows of each.

    Raises, here and when it is read: DataError where another try would not help, with the remedy; RunError for a hub
    that does not answer; MissingExtra without datasets.
    """

    def __init__(self, name: str) -> None:
        self.name = HubName.parse(name)
        self._library = library()
        remedy = (
            ". Without a network HF_HUB_OFFLINE=1 reads the copy that datasets.load_dataset keeps: there is none of it"
            f" in {copies_folder()}, so make one where there is a network, and bring it here (HF_HOME names another"
            " folder)"
        )
        self._reaching = Patience(name, REACH_RETRIES, REACH_WAIT, REACH_SECONDS, remedy)

    @cached_property
    def _builder(self) -> Any:
        name = self.name

        def build() -> Any:
            try:
                with single_requests():
                    return self._library.load_dataset_builder(name.repository, name.config, revision=name.revision)
            except ValueError:
                self._check_config()
                raise

        builder = self._reaching.until_done(build, "looking for it")
        if is_copy(builder):
            check_revision(name, str(builder.hash))
        known = list(map(str, builder.info.splits if is_copy(builder) else builder.config.data_files or {}))
        if name.split not in known:
            near = did_you_mean(nearest(name.split, known))
            raise DataError(f"has no split {name.split!r};{near} it has: {listing(known)}", path=name.text)
        if not is_copy(builder):
            self._check_files(builder.config.data_files[name.split])
        if hasattr(builder.config, "fragment_scan_options"):  # of parquet: by default a file is fetched far ahead
            parts = need("pyarrow.dataset", NEEDS)
            builder.config.fragment_scan_options = parts.ParquetFragmentScanOptions(
                pre_buffer=False, use_buffered_stream=True, buffer_size=1 << 20
            )
        return builder

    def _check_files(self, files: Iterable[Any]) -> None:
        """Raise DataError for files that lie outside of the data set: the head of a data set may name any file of this
        machine, or any address."""
        folder = os.path.realpath(self.name.repository) if os.path.isdir(self.name.repository) else None
        for file in map(str, files):
            own = file.rpartition("::")[2]  # of gzip://a.txt::hf://...
            if folder is not None:
                path = own.removeprefix("file://")
                inside = "://" not in path and os.path.commonpath([folder, os.path.realpath(path)]) == folder
            else:
                start = own.removeprefix(f"hf://datasets/{self.name.repository}@")
                inside = start != own and ".." not in start.split("/")
            if not inside:
                message = f"names a file that is not its own: {shortened(file)}; if that is meant, name it as the data"
                raise DataError(message, path=self.name.text)

    def _check_config(self) -> None:
        """Raise DataError that lists the configs, if none or one that is not there was named."""
        name = self.name
        known = list(self._library.get_dataset_config_names(name.repository, revision=name.revision))
        if name.config in known or (name.config is None and len(known) < 2):
            return
        near = did_you_mean(nearest(name.config or "", known))
        wrong = f"has no config {name.config!r};{near}" if name.config else "has several configs, name one:"
        example = f"hf:{name.repository}:{known[0]}"
        raise DataError(
            f"{wrong} it has: {listing(known)}; the config stands before the split, as in {example}:train",
            path=name.text,
        )

    @property
    def commit(self) -> str:
        """The commit that is read, whatever the branch becomes; of a folder on this machine a hash."""
        return str(self._builder.hash)

    @cached_property
    def _copy(self) -> Any:
        """The rows that are kept on this machine, where the hub was not reached or may not be asked; None: it was."""
        return undecoded(self._builder.as_dataset(split=self.name.split)) if is_copy(self._builder) else None

    @cached_property
    def _stream(self) -> Any:
        if self._copy is not None:
            return self._copy
        streamed = Patience(self.name.text).until_done(
            lambda: self._builder.as_streaming_dataset(split=self.name.split), "reading the head of its first file"
        )
        return undecoded(streamed)

    @cached_property
    def _paths(self) -> list[str]:
        return list(map(str, self._builder.config.data_files[self.name.split]))

    @property
    def files(self) -> list[str]:
        """The files, in order, each by its path in the repository; of a copy on this machine the split's name."""
        if self._copy is not None:
            return [self.name.split]
        return [re.sub(r"^hf://datasets/[^@]*@[^/]*/", "", path) for path in self._paths]

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns; None where only the rows tell."""
        features = self._stream.features
        return None if features is None else list(features)

    def rows(self, file: int, start: int = 0) -> Iterator[Mapping[str, Any]]:
        """The rows of a file from number `start` on, counted from 0; after a break from the row that was next."""
        if self._copy is not None:
            yield from self._copy.select(range(start, len(self._copy))) if start < len(self._copy) else ()
            return
        if self._stream.num_shards != len(self._paths):
            raise DataError(
                f"its {len(self._paths):,} files are read as {self._stream.num_shards:,} parts; a data set of parquet,"
                " JSON, CSV or text files is expected",
                path=self.name.text,
            )
        patience, number = Patience(self.name.text), start
        while True:
            try:
                for row in self._from(file, number):
                    patience.over()
                    number += 1
                    yield row
                return
            except Exception as error:
                patience.wait(error, f"{self.files[file]}, row {number + 1:,}")

    def _from(self, file: int, start: int) -> Iterator[Mapping[str, Any]]:
        """The rows from `start` on. Of a parquet file no row group before is fetched."""
        one = self._stream.shard(num_shards=self._stream.num_shards, index=file)
        groups = one.reshard() if start and self._builder.name == "parquet" else one
        if groups.num_shards == 1:
            yield from one.skip(start) if start else one
            return
        for group, size in enumerate(self._group_sizes(file)):
            if start < size:
                part = groups.shard(num_shards=groups.num_shards, index=group)
                yield from part.skip(start) if start else part
            start = max(0, start - size)

    def _group_sizes(self, file: int) -> list[int]:
        """How many rows each row group of a parquet file has."""
        import fsspec  # which datasets brings

        parquet = need("pyarrow.parquet", NEEDS)
        with fsspec.open(self._paths[file], "rb") as opened:
            head = parquet.read_metadata(opened)
        return [head.row_group(group).num_rows for group in range(head.num_row_groups)]
