"""Answers of a trained model: to one input, to many, or to a stream that has no end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from ..settings import Settings
    from ..tasks.predictor import Answer, Predictor

FIRST, MOST = 16, 512
"""Inputs of a stream that are answered together: few at first, so that something is seen early, then more, since those
of like length share a batch."""


def predict(
    predictor: Predictor,
    modules: Sequence[nn.Module],
    source: Any,
    settings: Settings,
    *,
    prefix: str | Sequence[str] | None = None,
    scores: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """What `Model.predict` does, with the modules that answer together."""
    from torch import Tensor

    one = isinstance(source, (str, Path, Tensor))
    if not one and (isinstance(source, (bytes, Mapping)) or not isinstance(source, Iterable)):
        raise InputError(f"source: expected a text, a picture or a list of these; this is {source!r:.40}")
    sources = [source] if one else list(source)
    prefixes = prefixes_of(prefix, len(sources))
    begun: dict[str, Any] = {} if prefixes is None else {"prefixes": prefixes}
    answers: Sequence[Any] = predictor.predict(modules, predictor.opened(sources), settings, progress=progress, **begun)
    if getattr(settings, "n_best", 1) == 1:
        answers = [best[0] if scores else best[0].text for best in answers]
    return answers[0] if one else answers


def prefixes_of(prefix: Any, count: int) -> list[str] | None:
    """What each of `count` answers begins with; None: nothing. Raises InputError for what is no text."""
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
    predictor: Predictor,
    modules: Sequence[nn.Module],
    arriving: Iterable[Sequence[str]],
    settings: Settings,
    *,
    prefix: str | None = None,
) -> Iterator[list[tuple[str, Sequence[Answer]]]]:
    """Inputs that come in pieces, each with its answers, in order, a few at a time: later ones are not waited for.

    modules   that answer together
    arriving  texts, or the names of pictures
    """
    size = FIRST
    for piece in arriving:
        first = 0
        while some := piece[first : first + size]:
            begun: dict[str, Any] = {} if prefix is None else {"prefixes": [prefix] * len(some)}
            answers = predictor.predict(modules, predictor.opened(some), settings, **begun)
            yield list(zip(some, answers, strict=True))
            first, size = first + size, min(2 * size, MOST)


def must_write(predictor: Predictor | None) -> Predictor:
    """The predictor of a model that writes targets. Raises InputError for one that was not trained for that."""
    from ..tasks.writing import Writing

    if not isinstance(predictor, Writing):
        instead = "`generate` (on the command line: transformula sample)"
        if predictor is not None and predictor.method != "generate":
            instead = f"`{predictor.method}` (on the command line: transformula {predictor.verb})"
        raise InputError(
            f"this model was not trained to write a target for a source; what it does is done by {instead}. One that"
            " writes targets is trained by --task translation, summarization or captioning"
        )
    return predictor


def must_predict(predictor: Predictor | None) -> Predictor:
    """The predictor of a model. Raises InputError for a model that was not trained on a task."""
    if predictor is None:
        raise InputError("this model has learned no task, so it has no answer to give: train it, or load a trained one")
    return predictor
