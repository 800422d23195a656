"""Keys and values that are linear in one narrower value, as in multi-head latent attention: decoding keeps that value.

    k = join(linear.key_up(c), repeat(r, heads), parts=heads)
    v = linear.value_up(c)

From c and r follow the keys and values of all heads; the sum of their widths is less than that of the keys, or of the
values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language.graph import Value
from ..language.numbers import evaluate_text


@dataclass(frozen=True)
class LatentPiece:
    """Some channels of each head: `matrix` times a source, or, without one, a source that all heads share."""

    source: int
    size: int  # channels of a head
    matrix: Value | None = None


@dataclass(frozen=True)
class Latent:
    """What the keys and values of one call are made of: sources, those of the keys first; the parts of a key, in order;
    the values, which are one part; how many heads they are of."""

    sources: tuple[Value, ...]
    keys: tuple[LatentPiece, ...]
    value: LatentPiece
    heads: int


def latent_of(value: Value) -> Latent | None:
    """That of a call that is given queries, keys and values; None where it keeps them as they are."""
    call = value.called
    if call.word.attends != "qkv" or call.streams != ("q", "k", "v") or value.reads_across or not call.word.kept:
        return None
    _, k, v = value.args[:3]
    heads = int(evaluate_text(call.word.kept["k"], call.numbers))
    joined = k.call is not None and k.call.word.lays_out == "parts" and k.call.options["parts"] == heads
    pieces = [piece_of(one, heads) for one in (k.args if joined else (k,))]
    last = piece_of(v, heads)
    if last is None or last[1] is None or None in pieces or not any(piece and piece[1] for piece in pieces):
        return None
    sources: list[Value] = []
    parts: list[LatentPiece] = []
    for piece in [*pieces, last]:
        source, matrix, size = piece  # type: ignore[misc]
        if source not in sources:
            sources.append(source)
        parts.append(LatentPiece(sources.index(source), size, matrix))
    narrow = sum(source.width for source in sources) < min(k.width, v.width)
    return Latent(tuple(sources), tuple(parts[:-1]), parts[-1], heads) if narrow else None


def piece_of(value: Value, heads: int) -> tuple[Value, Value | None, int] | None:
    """A value as a matrix times a source, or as a source that all heads share, and its channels in each head."""
    if value.call is None or value.width % heads:
        return None
    word, options = value.call.word, value.call.options
    if word.linear and value.args[0].kind == "stream":
        return value.args[0], value, value.width // heads
    if word.lays_out == "copies" and options["n"] == heads and not options["each"]:
        return value.args[0], None, value.width // heads
    return None
