"""What a name of data stands for: a file, several, parallel ones, a folder, a pattern, a data set of the Hugging Face
hub or a built-in set; and the rows of each.

    texts/, texts/*.md, a.txt, rows.tsv               files, by their extension, see `format`; a .txt file is a table
                                                      where rows are asked for
    train.{de,en}, {"de": "train.de", ...}            parallel files, line by line: a column each
    a folder with captions.tsv, where pictures are    pictures, and a file of captions that names them
      asked for
    {"image": "train-images-idx3-ubyte.gz", ...}      IDX files, parallel too
    positive=reviews.pos                              a class: lines, or the files of a folder, with its label
    a folder of folders, where rows are asked for     a class each: the files in it, texts, pictures or sounds
    a folder of sounds with transcripts               a sound with its text each; see `sound`
    hf:OWNER/NAME:CONFIG:SPLIT                        a data set of the Hugging Face hub, streamed; see `hub`
    python-docs, cldr-dates:en-de                     built-in sets; see `built_in`
"""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError, did_you_mean, listing, nearest, setting, shortened
from ..extras import need
from ..plain import several
from ..tokenizers.base import tokenizers
from .built_in import ROWS, built_in_names, built_in_sets, is_built_in
from .format import LATER, Format, Options, extension, formats, has_columns, place_of, without_null
from .formats.table import read_unnamed
from .lines import access_error, check_regular, excerpt, lines_of, near_files, utf8_of
from .pictures import CAPTIONS, PICTURES, captions_of, idx_values, is_idx
from .sound import SOUNDS, transcribed

Source = str | Path | Mapping[str, str | Path]
Named = str | Sequence[str] | None  # a source, several, or none, as a configuration names them
PlacedRow = tuple[str, Mapping[str, Any]]  # where a row stands, "train.de:12", and its values by column

SOURCES = ("data", "validation", "test")  # keys of a run's configuration that name data


@dataclass(frozen=True)
class Origin:
    """One file, set, or group of parallel files that rows come from."""

    name: str  # as a person named it
    read: Callable[[Options], Iterator[PlacedRow]]
    takes: tuple[str, ...] = ()  # which of `Options` mean something to it
    where: str = ""  # its name in the error about another one
    folder: Path = Path()  # from which the names of pictures in it are seen
    image: str | None = None  # the column that names a picture, where a folder's captions do
    columns: bool = True  # whether rows have columns; else each is one text
    grouped: bool = False  # places are GROUP:LINE, and a split keeps a group on one side
    pictures: bool | None = None  # whether it holds any; None: not known
    said: tuple[str, ...] = ()  # what a person is told of it, and of the files beside it
    left_out: dict[str, int] = field(default_factory=dict)  # of a built-in set, once it is read: see `Rows`
    met: Counter[str] = field(default_factory=Counter)  # of a file, once it is read: see `Options`

    @property
    def notes(self) -> list[str]:
        """What a person is told of it, once it is read."""
        left_out = ", ".join(f"{count:,} {what}" for what, count in self.left_out.items())
        told = [f"{self.name} leaves out {left_out}"] if left_out else []
        met = [what.replace("{n}", f"{count:,}") for what, count in self.met.items()]
        return [*self.said, *told, *(f"{self.name}: {what}" for what in met)]

    @property
    def table(self) -> bool:
        """Whether the first row may name the columns."""
        return "header" in self.takes

    def check(self, options: Options, images: bool) -> None:
        """Raise ConfigError for an option that would have no effect. `images`: pictures are wanted."""
        if images and self.pictures is False:
            raise ConfigError(f"images: {self.name} has none; leave it out")
        if options.where is not None and not self.columns:
            raise ConfigError(f"where: {self.where or self.name} have no columns; leave it out")
        takes = {*self.takes, *({"channels"} if images and not is_built_in(self.name) else ())}
        where = self.where or self.name
        names = ("file_format", "header", "quoted", *LATER, "encoding", "join")
        options.check_taken(takes, where, names)
        options.check_taken(takes, where if images else f"{where}, no images", ("channels",))


def origins(source: Source, file_format: str | None = None, texts: bool = False) -> list[Origin]:
    """Where the rows of a source come from, in order. A folder with a file of captions is read as this file, unless
    documents are wanted.

    file_format  of its files, by its extension
    texts        documents are wanted: a file of an unknown extension is one

    Raises DataError for what is missing, unreadable, or of no known format.
    """
    if is_built_in(source):
        return [_built_in(str(source))]
    files = source if isinstance(source, Mapping) else parallel_files(source)
    if files:
        return [_parallel({name: Path(file).expanduser() for name, file in files.items()})]
    assert not isinstance(source, Mapping)
    if is_hub(source):
        return [_hub(str(source))]
    label, file = split_label(source)
    if label.endswith(":"):
        raise ConfigError(f"data: {source} has a weight, which is for streams; add {setting('stream')}")
    if label:
        return _labeled(label.removesuffix("="), Path(file).expanduser(), file_format)
    path = Path(source).expanduser()
    if not texts and os.path.isdir(path):
        sounds = _of_sounds(path)
        if sounds is not None:
            return [sounds]
        classes = class_folders(path)
        if classes and not any((path / name).is_file() for name in CAPTIONS):
            return [_of_classes(path, classes)]
        if any((path / name).is_file() for name in CAPTIONS) or not known_files(path)[0]:
            captions, image = captions_of(path)
            return [file_origin(captions, file_format, texts, image)]
    of_files = [file_origin(file, file_format, texts) for file in files_of(source)]
    left_out = endings_left_out(source)
    return [replace(of_files[0], said=(left_out,)), *of_files[1:]] if left_out else of_files


def file_origin(path: Path, file_format: str | None, texts: bool, image: str | None = None) -> Origin:
    """The rows of a file. Raises DataError for one of no known format; of `texts` one is a text."""
    kind = file_format or extension(path)
    known = [name for name in formats.names() if texts or formats.has_columns(name)]
    if kind not in known and texts and file_format is None:
        kind = "txt"
    unnamed = kind == "txt" and not texts and file_format is None
    if kind not in known and not unnamed:
        near = did_you_mean([*nearest(kind, known), *nearest(str(path), built_in_sets.names())])
        ending = f"its ending .{kind} is" if kind else "its name has no ending that is"
        raise DataError(
            f"{ending} no format with columns;{near} say how it is read with {setting('file_format', 'tsv')}, or with"
            f" another of: {', '.join(known)}; parallel files are named together, as in train.{{de,en}};"
            f" built in: {', '.join(built_in_names(*ROWS))}",
            path=path,
        )
    reader = Format(read_unnamed, formats.get("csv").takes) if unnamed else formats.get(kind)
    met = Counter[str]()

    def rows(options: Options) -> Iterator[PlacedRow]:
        met.clear()
        before = f"{path}:"
        for at, row in reader.read(path, replace(options, met=met)):
            yield f"{before}{at}" if isinstance(at, int) else place_of(path, at), row

    takes = ("file_format", *reader.takes)
    return Origin(str(path), rows, takes, f".{kind} files", path.parent, image, reader.columns, met=met)


def _built_in(name: str) -> Origin:
    kind, _, variant = name.partition(":")
    known = built_in_sets.get(kind)
    left_out: dict[str, int] = {}

    def rows(options: Options) -> Iterator[PlacedRow]:
        records = known.read(variant)
        left_out.update(records.left_out)
        for place, *values in records.rows:
            yield place, dict(zip(known.columns, values, strict=True))

    where = f"{name}, which is built in"
    return Origin(name, rows, (), where, grouped=known.grouped, pictures=known.pictures, left_out=left_out)


def _parallel(files: Mapping[str, Path]) -> Origin:
    """Files that lie beside each other: line n of each is row n."""
    paths = list(files.values())

    def values(path: Path, options: Options) -> Iterator[tuple[int, Any]]:
        yield from idx_values(path, options.channels) if is_idx(path) else lines_of(path, options.encoding)

    def rows(options: Options) -> Iterator[PlacedRow]:
        columns = [values(path, options) for path in paths]
        for number, row in enumerate(itertools.zip_longest(*columns), 1):
            if None in row:
                raise unequal(columns, row, number)
            yield f"{paths[0]}:{number}", {name: value for name, (_, value) in zip(files, row, strict=True)}

    def unequal(columns: list[Iterator[Any]], row: Sequence[Any], number: int) -> DataError:
        """The error that says how many lines each file has, and shows the first one without a partner."""
        each = list(zip(paths, row, columns, strict=True))
        counts = [number - 1 if value is None else number + sum(1 for _ in rest) for _, value, rest in each]
        listed = ", ".join(f"{path} has {count:,}" for path, count in zip(paths, counts, strict=True))
        path, value = next((path, one[1]) for path, one, _ in each if one is not None)
        line = excerpt(value) if isinstance(value, str) else "a picture"
        message = f"{listed} lines (a line ends at \\n only); the files must be equal line by line: {line}"
        return DataError(f"has no partner: {message}", path=path, line=number)

    return Origin(" + ".join(map(str, paths)), rows, ("encoding", "channels"))


def _labeled(label: str, path: Path, file_format: str | None) -> list[Origin]:
    """The rows of a class, with its label: a file's lines, or its rows if it has columns; the files of a folder."""
    if path.is_dir():
        return [_of_classes(path, {label: path})]

    def one(file: Path) -> Origin:
        known = file_format is not None or has_columns(file)
        origin = file_origin(file, file_format, texts=False) if known else _parallel({"text": file})

        def rows(options: Options) -> Iterator[PlacedRow]:
            return ((place, {**row, "label": label}) for place, row in origin.read(options))

        return replace(origin, read=rows)

    return [one(file) for file in files_of(path)]


def _of_classes(folder: Path, classes: Mapping[str, Path]) -> Origin:
    """A row for each file in the folders of some classes: a picture, if any of them is one, or else a whole text."""
    files = [(label, file) for label, place in classes.items() for file in visible_files(place)]
    images = [(label, file) for label, file in files if extension(file) in PICTURES]
    left_out = {"files that are no pictures": len(files) - len(images)} if len(files) > len(images) else {}

    def pictures(options: Options) -> Iterator[PlacedRow]:
        return ((str(file), {"image": str(file.relative_to(folder)), "label": label}) for label, file in images)

    def documents(options: Options) -> Iterator[PlacedRow]:
        for label, file in files:
            yield str(file), {"text": text_of(file, options), "label": label}

    where = f"{folder}, a folder of classes"
    if not images and (heard := [(label, file) for label, file in files if extension(file) in SOUNDS]):
        left_out = {"files that are no sounds": len(files) - len(heard)} if len(files) > len(heard) else {}

        def sounds(options: Options) -> Iterator[PlacedRow]:
            return ((str(file), {"audio": str(file.relative_to(folder)), "label": label}) for label, file in heard)

        return Origin(str(folder), sounds, (), where, folder, pictures=False, left_out=left_out)
    if images:
        return Origin(str(folder), pictures, (), where, folder, "image", pictures=True, left_out=left_out)
    if not files:
        raise DataError("the folder holds no files", path=folder)
    return Origin(str(folder), documents, ("encoding",), where, pictures=False)


def _of_sounds(folder: Path) -> Origin | None:
    """A row for each sound in a folder that has a transcript there; None where none has, or a table names them."""
    if any((folder / name).is_file() for name in CAPTIONS):
        return None
    found = transcribed(folder, visible_files(folder))
    if found is None:
        return None
    rows, notes = found

    def read(options: Options) -> Iterator[PlacedRow]:
        return ((str(folder / row["audio"]), row) for row in rows)

    return Origin(str(folder), read, (), f"{folder}, a folder of sounds", folder, pictures=False, said=tuple(notes))


def text_of(file: Path, options: Options) -> Any:
    """The text of a file that is one document, read as its ending says; of any other ending as it is."""
    kind = extension(file)
    if kind in formats and not formats.get(kind).columns:
        return "".join(str(row["text"], "utf-8") if isinstance(row["text"], memoryview) else row["text"]
                       for _, row in formats.get(kind).read(file, options))  # fmt: skip
    return utf8_of(file, options.encoding)


def _hub(name: str) -> Origin:
    """The rows of a data set of the hub; where the name says how many, no more is fetched."""

    from .hub import HubName, HubSet

    def rows(options: Options) -> Iterator[PlacedRow]:
        known = HubSet(name)
        of_all = itertools.chain.from_iterable(known.rows(file) for file in range(len(known.files)))
        for number, row in enumerate(itertools.islice(of_all, known.name.first), 1):
            yield f"{name}, row {number}", without_null(row) if options.sparse else row

    HubName.parse(name)
    return Origin(name, rows, ("join",))


def is_hub(source: object) -> bool:
    """Whether a source is the name of a data set of the hub; `hub:`, their earlier spelling, is refused later."""
    return str(source).startswith(("hf:", "hub:"))


# Files.


def split_label(source: Source) -> tuple[str, str]:
    """What a name such as positive=reviews.pos says before the file, "positive=", and the file; of web=0.7:pages, a
    source with a weight, "web=0.7:" and the file; of any other, nothing and all of it."""
    parts = re.fullmatch(r"([^=/\\:{}*?]+=(?:[0-9.]+:)?)(.+)", source) if isinstance(source, str) else None
    if parts is None or os.path.exists(str(source)):
        return "", str(source)
    return parts[1], parts[2]


def parallel_files(source: Source) -> dict[str, str]:
    """The parallel files of a name such as train.{de,en}, by what stands in the braces; none for any other source."""
    braces = re.fullmatch(r"(.*)\{([^{}]*,[^{}]*)\}(.*)", source) if isinstance(source, str) else None
    if braces is None or Path(str(source)).exists():
        return {}
    start, middle, end = braces.groups()
    return {name.strip(): f"{start}{name.strip()}{end}" for name in middle.split(",")}


def files_of(source: str | Path) -> list[Path]:
    """The files of one source, sorted: of a folder those of known extensions, at any depth, hidden ones left out; of a
    pattern with *, ? or ** those that fit. Raises DataError."""
    name = str(source)
    try:
        path = Path(source).expanduser()
        if path.is_dir():
            known, others = known_files(path)
            if known:
                return known
            held = f"it holds {', '.join(others[:8])}" if others else "it is empty"
            raise DataError(
                f"the folder has no file of a known format ({held}; known: {', '.join(formats.names())});"
                f" read others as text by a pattern, such as '{path}/**/*'",
                path=path,
            )
        if path.exists() or path.is_symlink():
            check_regular(path)
            return [path]
        if glob.has_magic(name):
            if files := [Path(p) for p in sorted(glob.glob(str(path), recursive=True)) if Path(p).is_file()]:
                return files
            raise DataError("the pattern fits no file", path=name)
        near = [str(path.parent / file) if str(path.parent) != "." else file for file in near_files(path)]
        near += nearest(path.name, built_in_sets.names())
        where = "" if path.parent.is_dir() else f"; there is no folder {path.parent} either"
        message = f"there is no such file{where};{did_you_mean(near)} built in: {', '.join(built_in_names())}"
        raise DataError(message, path=name)
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, a zero in it, the home of an unknown user
        reason = getattr(error, "strerror", None) or error
        message = f"cannot be looked up ({reason}); expected the name of a file, not its text"
        raise DataError(message, path=shortened(name)) from None


def known_files(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of known formats in a folder, and the endings of all."""
    files = visible_files(folder)
    return [file for file in files if extension(file) in formats], sorted({file.suffix or file.name for file in files})


def endings_left_out(source: str | Path) -> str:
    """What a person is told of the files of a folder that are of no known format: "texts: left out, of no known format:
    3 .png, 1 .exe". "" for none, and for any other source."""
    folder = Path(source).expanduser()
    if not os.path.isdir(folder):
        return ""
    others = Counter(f.suffix or "without an ending" for f in visible_files(folder) if extension(f) not in formats)
    listed = [f"{count:,} {ending}" for ending, count in others.most_common()]
    return f"{source}: left out, of no known format: {listing(listed, 12)}" if listed else ""


def visible_files(folder: Path) -> list[Path]:
    """The files in a folder, at any depth, sorted, hidden ones left out. Raises DataError for a folder in it that may
    not be read."""

    def refused(error: OSError) -> None:
        raise access_error(Path(error.filename or folder), error)

    paths = sorted(Path(place) / name for place, _, names in os.walk(folder, onerror=refused) for name in names)
    return [p for p in paths if p.is_file() and not any(part.startswith(".") for part in p.relative_to(folder).parts)]


def class_folders(folder: Path) -> dict[str, Path]:
    """The folders in a folder by their names, if there are two or more, and no file in it holds rows with columns."""
    files = visible_files(folder)
    names = sorted({file.relative_to(folder).parts[0] for file in files if file.parent != folder})
    return {name: folder / name for name in names} if len(names) > 1 and not any(map(has_columns, files)) else {}


# Names of data in a configuration.


def source_exists(source: str) -> bool:
    """Whether a source is a set, or files that exist."""
    if is_built_in(source) or is_hub(split_label(source)[1]):
        return True
    try:
        files = [os.path.expanduser(file) for file in parallel_files(source).values() or [split_label(source)[1]]]
        return all(os.path.exists(file) or (glob.has_magic(file) and glob.glob(file, recursive=True)) for file in files)
    except (OSError, ValueError):
        return False


def missing_sources(sources: Named) -> list[str]:
    """Those of the sources whose files are not there."""
    return [source for source in map(str, several(sources)) if not source_exists(source)]


def absolute_names(value: Any) -> Any:
    """Names of files as they are found from every folder; what names no file that is there stays as it is."""
    if isinstance(value, list):
        return [absolute_names(one) for one in value]
    if not isinstance(value, str) or is_built_in(value) or not source_exists(value):
        return value
    label, file = split_label(value)
    if is_hub(file):
        return value
    return label + os.path.abspath(os.path.expanduser(file))


def recorded_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of data as a run records them: its files, and the folders of a tokenizer, of a frozen reference and of
    how pictures are read, are found from every folder."""
    files = {key: absolute_names(settings[key]) for key in SOURCES if key in settings}
    tokenizer, pictures = settings.get("tokenizer"), settings.get("preprocessing")
    if tokenizer is not None and tokenizer not in tokenizers:
        files["tokenizer"] = absolute_names(tokenizer)
    if pictures not in (None, "none"):
        files["preprocessing"] = absolute_names(pictures)
    if settings.get("reference") is not None:
        files["reference"] = absolute_names(settings["reference"])
    return {**settings, **files}


def need_sources(sources: Named, texts: bool = False, pictures: bool = False, sounds: bool = False) -> None:
    """Raise MissingExtra unless all packages are here that the sources are read by, before anything is read; DataError
    for files of texts that are not there."""
    for source in map(str, several(sources)):
        if is_built_in(source):
            built_in_sets.need(source.partition(":")[0])
            continue
        _, file = split_label(source)
        if is_hub(file):
            need("datasets", "reading a data set of the hub")
        elif not parallel_files(source):
            for path in files_of(file) if texts else [Path(file)]:
                if extension(path) in formats:
                    formats.need(extension(path))
        if pictures:
            need("PIL", "reading pictures")
        if sounds:
            need("soundfile", "reading sound")
