"""The tokens of a tokenizer by name, as other programs list them: bytes are written in the printable signs of the
tokenizers library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..structured import load_json
from ..tokenizers.base import END, FILE, Tokenizer, check_rows, load
from ..tokenizers.byte_level import alphabet


def tokenizer_of(folder: Path, size: int) -> tuple[Tokenizer, Mapping[str, Any]]:
    """A folder's tokenizer, and what its file holds. Raises CheckpointError where it has more than `size` tokens."""
    tokenizer = load(folder)
    check_rows(tokenizer, size, folder / FILE)
    return tokenizer, load_json(folder / FILE)


def names_of(tokenizer: Tokenizer, state: Mapping[str, Any], size: int) -> list[str]:
    """The name of each of `size` ids; those that are no token have one, too."""
    if "model" in state:
        vocab = state["model"]["vocab"]
        ids = vocab if isinstance(vocab, dict) else {name: number for number, (name, _) in enumerate(vocab)}
        names = {number: name for name, number in ids.items()}
        names |= {token["id"]: token["content"] for token in state.get("added_tokens") or ()}
    else:
        names = {number: signs_of(piece) or END for number, piece in enumerate(tokenizer.pieces)}
    return [names.get(number, f"[unused {number}]") for number in range(size)]


def signs_of(piece: bytes) -> str:
    """Bytes in their signs: printable Latin-1 is the sign of itself; the other bytes, in order, are the signs from
    U+0100 on."""
    signs = alphabet()
    others = [byte for byte in range(256) if chr(byte) not in signs]
    return "".join(chr(0x100 + others.index(byte)) if byte in others else chr(byte) for byte in piece)
