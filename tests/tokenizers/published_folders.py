"""Tiny tokenizers of the families that people publish, trained here and written as folders by transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers as library
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = [
    "The with statement is used to wrap the execution of a block with methods defined by a context manager.",
    "We'll see: 12345 + 67 = 12412; x[i] -> y, isn't it? Don't. \u00dcber na\u00efve caf\u00e9s, they're there!",
    "def encode(text):\n    return [ord(c) for c in text]\n\n\tprint('the cat and the dog and the bird')",
    "Zwei Hunde laufen über die Straße. Дождь идёт. 東京は雨です。 \N{GRINNING FACE}\N{SNOWMAN}",
] * 3
BLOCKS = r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"


def train(backend: library.Tokenizer, trainer: Any) -> library.Tokenizer:
    backend.train_from_iterator(TEXT, trainer)
    return backend


def template(backend: library.Tokenizer, single: str, pair: str | None = None) -> None:
    names = {part.split(":")[0] for part in f"{single} {pair or ''}".split() if not part.startswith("$")}
    special = [(name, backend.token_to_id(name)) for name in sorted(names)]
    backend.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)


def bert() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = library.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    train(backend, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False))
    template(backend, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
    return backend, {**names, "clean_up_tokenization_spaces": True}


def unigram(special: list[str]) -> library.Tokenizer:
    backend = library.Tokenizer(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(library.Regex(" {2,}"), " ")])
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=250, special_tokens=special, unk_token="<unk>", show_progress=False)
    return train(backend, trainer)


def t5() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = unigram(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    template(backend, "$A </s>", "$A </s> $B </s>")
    return backend, {"eos": "</s>", "pad": "<pad>", "unk": "<unk>", "extra_special_tokens": ["<extra_id_0>"]}


def xlnet() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = unigram(["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"])
    template(backend, "$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2")
    names = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "cls": "<cls>", "pad": "<pad>"}
    return backend, {**names, "clean_up_tokenization_spaces": True}


def byte_level(special: list[str], size: int = 400, split: str | None = None) -> library.Tokenizer:
    backend = library.Tokenizer(models.BPE(ignore_merges=split is not None))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
    cut = pre_tokenizers.Split(library.Regex(split or ""), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([cut, level]) if split else level
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    return train(backend, trainer)


def gpt2() -> tuple[library.Tokenizer, dict[str, Any]]:
    return byte_level(["<|endoftext|>"]), dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")


def roberta() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    ends = [(name, backend.token_to_id(name)) for name in ("</s>", "<s>")]
    backend.post_processor = processors.RobertaProcessing(*ends, trim_offsets=True, add_prefix_space=False)
    names = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>"}
    return backend, {**names, "mask": library.AddedToken("<mask>", lstrip=True, special=True)}


def llama3() -> tuple[library.Tokenizer, dict[str, Any]]:
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"]
    backend = byte_level([], split=BLOCKS)
    backend.add_special_tokens(special)
    backend.add_tokens(["<think>"])
    first = (special[0], backend.token_to_id(special[0]))
    single = processors.TemplateProcessing(single=f"{special[0]} $A", pair=f"{special[0]} $A $B:1",
                                           special_tokens=[first])  # fmt: skip
    backend.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), single])
    return backend, {"bos": special[0], "eos": "<|eot_id|>"}


def byte_fallback(prepends: bool) -> library.Tokenizer:
    backend = library.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    blanks = normalizers.Replace(" ", "\u2581")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), blanks]) if prepends else blanks
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if prepends else parts)
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, limit_alphabet=60, max_token_length=8, show_progress=False
    )
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # no token goes over the end of a word
    train(backend, trainer)
    backend.pre_tokenizer = None
    state = json.loads(backend.to_str())  # the bytes are tokens like others
    state["added_tokens"] = [token for token in state["added_tokens"] if not token["content"].startswith("<0x")]
    return library.Tokenizer.from_str(json.dumps(state))


def llama2() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = byte_fallback(prepends=True)
    template(backend, "<s> $A", "<s> $A <s>:1 $B:1")
    return backend, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}


def gemma() -> tuple[library.Tokenizer, dict[str, Any]]:
    backend = byte_fallback(prepends=False)
    backend.add_special_tokens(["<start_of_turn>", "<end_of_turn>"])
    template(backend, "<s> $A", "<s> $A <s>:1 $B:1")
    return backend, {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>"}  # which the file does not have


FAMILIES: dict[str, Callable[[], tuple[library.Tokenizer, dict[str, Any]]]] = {
    one.__name__: one for one in (bert, t5, xlnet, gpt2, roberta, llama3, llama2, gemma)
}


def write_folder(name: str, folder: Path) -> Path:
    """The folder of a family, by `save_pretrained`."""
    from transformers import PreTrainedTokenizerFast

    backend, other = FAMILIES[name]()
    named = {f"{key}_token" if len(key) < 5 else key: value for key, value in other.items()}
    PreTrainedTokenizerFast(tokenizer_object=backend, **named).save_pretrained(folder)
    return folder


def write_plain(name: str, folder: Path) -> Path:
    """The folder of a family without transformers."""
    backend, other = FAMILIES[name]()
    backend.save(str(folder / "tokenizer.json"))
    named = {f"{key}_token": value for key, value in other.items() if isinstance(value, str)}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder
