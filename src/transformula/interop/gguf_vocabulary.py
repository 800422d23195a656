"""A tokenizer as a GGUF file has it: tokens with their types, merges of bytes, and a name for how texts are cut."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..tokenizers.base import FILE
from ..tokenizers.byte_level import parts_in_sequence
from .named.exports import content
from .token_names import names_of, tokenizer_of

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # types of tokens
NEVER = "ÿ ÿ"  # a merge of bytes that no UTF-8 has: a list of none cannot be written
REMEDY = f"train with --tokenizer bpe, bytes or characters, or export a copy of the folder without {FILE}: ids alone"


@dataclass(frozen=True)
class TokenList:
    """Tokens in the order of their ids, and what stands beside them. No tokens: the model takes and gives ids."""

    tokens: Sequence[str] = ()
    types: Sequence[int] = ()
    merges: Sequence[str] = ()
    cut: str = ""
    end: int | None = None
    begin: int | None = None  # stands before each text
    chat: str = ""  # how messages become a text, for jinja2

    def write(self, writer: Any) -> None:
        if not self.tokens:
            writer.add_tokenizer_model("none")
            return
        writer.add_tokenizer_model(content("gguf")["tokenizer"])
        writer.add_tokenizer_pre(self.cut)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        writer.add_token_merges(self.merges or [NEVER])
        first = self.end if self.begin is None else self.begin
        if first is not None:
            writer.add_bos_token_id(first)
        if self.end is not None:
            writer.add_eos_token_id(self.end)
        writer.add_add_bos_token(self.begin is not None)
        writer.add_add_eos_token(False)
        if self.chat:
            writer.add_chat_template(self.chat)


def vocabulary_of(folder: Path, size: int) -> TokenList:
    """That of a folder's tokenizer, with as many tokens as the model has. Raises CheckpointError for one that such a
    file cannot express."""
    if not (folder / FILE).is_file():
        warnings.warn(f"there is no {FILE}: the model takes and gives token ids, no text", stacklevel=2)
        return TokenList()
    tokenizer, state = tokenizer_of(folder, size)
    names = names_of(tokenizer, state, size)
    if "model" not in state:  # bytes or characters
        types = [UNUSED if n >= tokenizer.vocab else NORMAL if tokenizer.pieces[n] else CONTROL for n in range(size)]
        return TokenList(names, types, joined_bytes(names, types), content("gguf")["pieces"], tokenizer.end_of_document)
    refuse(state, tokenizer.kind)
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in state["model"]["merges"]]
    cut, begin = cut_of(state), beginning(state)
    chat = "" if tokenizer.chat is None else tokenizer.chat.text
    return TokenList(names, types_of(state, size), merges, cut, tokenizer.end_of_document, begin, chat)


def joined_bytes(names: Sequence[str], types: Sequence[int]) -> list[str]:
    """Merges that make each token that stands for a character of its bytes."""
    words = [name for name, kind in zip(names, types, strict=True) if kind == NORMAL]
    starts = {(word[:end], word[end]): None for word in words for end in range(1, len(word))}
    return [f"{start} {sign}" for start, sign in sorted(starts, key=lambda pair: len(pair[0]))]


def types_of(state: Mapping[str, Any], size: int) -> list[int]:
    """The type of each of `size` ids of a file of the tokenizers library."""
    ids = set(state["model"]["vocab"].values())
    types = [NORMAL if number in ids else UNUSED for number in range(size)]
    for token in state.get("added_tokens") or ():
        types[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    return types


def refuse(state: Mapping[str, Any], kind: str) -> None:
    """Raise CheckpointError for a tokenizer that is no BPE of bytes as such a file has it."""
    title = content("gguf")["title"]
    for loss in unlike(state):
        what = f"{FILE}: {title} cannot express this tokenizer ({kind}): {loss}; {REMEDY}"
        raise CheckpointError(what, brief=f"tokenizer: {loss}")
    if state.get("normalizer"):  # NFC, as `unlike` says
        warnings.warn(f"{FILE}: {title} does not normalize texts (NFC): give it texts in that form", stacklevel=3)


def unlike(state: Mapping[str, Any]) -> Iterator[str]:
    model, decoder = state["model"], state.get("decoder") or {}
    if "merges" not in model or decoder.get("type") != "ByteLevel":
        yield "it is no BPE of bytes"
    normalizers = [part.get("type") for part in parts_in_sequence(state.get("normalizer"), "normalizers")]
    if normalizers not in ([], ["NFC"]):
        yield f"its normalizer {', '.join(map(str, normalizers))} changes texts"
    if cut_of(state) is None:
        yield f"it cuts texts in a way that has no name there: {cuts_of(state)}"


def cuts_of(state: Mapping[str, Any]) -> list[str]:
    """How texts are cut, as the data file says it."""
    cuts = []
    for part in parts_in_sequence(state.get("pre_tokenizer"), "pretokenizers"):
        match part:
            case {"type": "ByteLevel", "add_prefix_space": False}:
                cuts += ["ByteLevel"] if part.get("use_regex", True) else []
            case {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {"Regex": pattern}}:
                cuts.append(pattern)
            case {"type": "Digits", "individual_digits": True}:
                cuts.append("Digits")
            case _:
                cuts.append(str(part))
    return cuts


def cut_of(state: Mapping[str, Any]) -> Any:
    """What such a file calls the way in which texts are cut; None where it has no name for it."""
    how = {"cuts": cuts_of(state), "whole": bool(state["model"].get("ignore_merges"))}
    named = content("gguf")["pretokenizers"]
    return next((one["name"] for one in named if {key: one[key] for key in how} == how), None)


def beginning(state: Mapping[str, Any]) -> int | None:
    """The token that stands before each text."""
    for part in parts_in_sequence(state.get("post_processor"), "processors"):
        first = (part.get("single") or [{}])[0].get("SpecialToken")
        if part.get("type") == "TemplateProcessing" and first:
            number: int = part["special_tokens"][first["id"]]["ids"][0]
            return number
    return None
