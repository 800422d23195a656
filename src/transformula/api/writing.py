"""Targets for sources: one text or picture, many of them, or a stream that has no end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..data.record import Value
    from ..generation.settings import SearchSettings
    from ..tasks.writing import Writing, Written

FIRST, MOST = 16, 512
"""Sources of a stream that are looked up together: few at first, so that something is seen early, then more, since
those of like length share a batch."""


def write(
    writing: Writing,
    modules: Sequence[nn.Module],
    source: Any,
    *,
    prefix: str | Sequence[str] | None = None,
    scores: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **search: Any,
) -> Any:
    """What `Model.write` does, with the modules that write together."""
    from torch import Tensor

    from ..generation.settings import SearchSettings

    settings = SearchSettings.read(search)
    one = isinstance(source, (str, Path, Tensor))
    if not one and (isinstance(source, (bytes, Mapping)) or not isinstance(source, Iterable)):
        raise InputError(f"source: expected a text, a picture or a list of these; this is {source!r:.40}")
    sources = [source] if one else list(source)
    found = writing.write(
        modules, opened(writing, sources), settings, prefixes=prefixes_of(prefix, len(sources)), progress=progress
    )
    each: list[Any] = found if settings.n_best > 1 else [best[0] if scores else best[0].text for best in found]
    return each[0] if one else each


def prefixes_of(prefix: Any, count: int) -> list[str] | None:
    """What each of `count` targets begins with; None: nothing. Raises InputError for what is no text."""
    if prefix is None:
        return None
    if isinstance(prefix, bytes) or not isinstance(prefix, Iterable):
        raise InputError(f"prefix: expected a text, or a list of one for each source; this is {prefix!r:.40}")
    prefixes = [prefix] * count if isinstance(prefix, str) else list(prefix)
    if len(prefixes) != count:
        raise InputError(f"{len(prefixes)} prefixes for {count} sources: give one for each, or one text for all")
    for number, text in enumerate(prefixes, 1):
        if not isinstance(text, str):
            raise InputError(f"prefix {number}: expected a text; this is {text!r:.40}")
    return prefixes


def stream(
    writing: Writing,
    modules: Sequence[nn.Module],
    arriving: Iterable[Sequence[str]],
    settings: SearchSettings,
    *,
    prefix: str | None = None,
) -> Iterator[list[tuple[str, list[Written]]]]:
    """Sources that come in pieces, each with its targets, in order, a few at a time: later ones are not waited for.

    modules   that write together
    arriving  texts, or the names of pictures
    """
    size = FIRST
    for piece in arriving:
        first = 0
        while some := piece[first : first + size]:
            begun = None if prefix is None else [prefix] * len(some)
            found = writing.write(modules, opened(writing, some), settings, prefixes=begun)
            yield list(zip(some, found, strict=True))
            first, size = first + size, min(2 * size, MOST)


def must_write(writing: Writing | None) -> Writing:
    """How a model is asked for a target. Raises InputError for one that was not trained for that."""
    if writing is None:
        raise InputError(
            "this model was not trained to write a target for a source: a language model goes on with a text, by"
            " `generate` (on the command line: transformula sample). One that writes targets is trained by --task"
            " translation, summarisation or captioning"
        )
    return writing


def check_alike(first: Writing, other: Writing, named: str) -> None:
    """Raise InputError where two models that write together read or write by other tokens."""
    for side, one, two in (("writes", first.target, other.target), ("reads", first.source, other.source)):
        if (one and one.identity) != (two and two.identity):
            raise InputError(
                f"{named} {side} by another tokenizer than the first model: models write together only if they know"
                " the same tokens; train them with one: --tokenizer RUN/best of the first"
            )
    if first.spelling != other.spelling:
        raise InputError(
            f"{named} spells texts otherwise than the first model: train both with the same --split-names and --lower"
        )
    if first.input != other.input:
        raise InputError(f"{named} is given `{other.input}`, and the first model `{first.input}`")


def opened(writing: Writing, sources: Sequence[Any]) -> list[Value]:
    """Sources as the model is given them: texts as they are, pictures from their files.

    Raises InputError for a picture where a text is read, and DataError for a file that is no picture.
    """
    if writing.input == "image":
        return [_picture(writing, source) for source in sources]
    for number, source in enumerate(sources, 1):
        if not isinstance(source, str):
            raise InputError(f"source {number}: this model reads texts; given: {type(source).__name__}")
    return list(sources)


def _picture(writing: Writing, source: str | Path | Tensor) -> Value:
    from torch import Tensor

    from ..data.pictures import Picture

    if isinstance(source, Tensor):
        return source
    if not isinstance(source, (str, Path)):
        raise InputError(f"this model reads pictures: give the name of a file, or a tensor; this is {source!r:.40}")
    if not str(source).strip():
        return ""
    channels = None if writing.picture is None else writing.picture[0]
    return Picture(Path(source).expanduser(), "what was given", channels).load()


def verb_of(writing: Writing) -> str:
    """The command that uses a model; also where its task is of a package that is not here."""
    from ..tasks.base import tasks

    usage = tasks.get(writing.task).usage if writing.task in tasks else ""
    return usage.split()[0] if usage else "caption" if writing.input == "image" else "translate"
