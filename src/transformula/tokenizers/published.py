"""The files of a tokenizer in a model folder as transformers writes it. Nothing in them is executed.

    tokenizer.json           the tokenizer, as the tokenizers library writes it
    tokenizer_config.json    the names of special tokens, and further tokens
    special_tokens_map.json  the same, in older folders
    generation_config.json   which ids end a text (older folders: config.json)
    chat_template.jinja      how messages become a text (older folders: a key of tokenizer_config.json)

Folders of only vocab.txt, or vocab.json and merges.txt, are converted where their kind is known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from ..atomic_io import write_whole
from ..errors import CheckpointError
from ..structured import MAX_JSON_BYTES, load_json, load_text
from .base import FILE
from .byte_level import alphabet, library_errors

CONFIG, MODEL, GENERATION = "tokenizer_config.json", "config.json", "generation_config.json"
OLD_NAMES, OLD_TOKENS, TEMPLATE = "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"
WORDS, VOCAB, MERGES = "vocab.txt", "vocab.json", "merges.txt"
SENTENCEPIECE = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "source.spm", "spm.model")
ENDING = ("eos_token_id", "decoder_start_token_id", "forced_bos_token_id")  # of what config.json says

SIGNS = 200  # of the 256 that stand for bytes: whose vocabulary has as many is a tokenizer of bytes

REMEDY = (
    "open the folder with transformers once and save what it reads: AutoTokenizer.from_pretrained(FOLDER)"
    ".save_pretrained(FOLDER)"
)


@dataclass(frozen=True)
class Published:
    """The files of a folder.

    tokenizer   the text of tokenizer.json
    config      tokenizer_config.json without the chat template, and what older files add to it
    generation  generation_config.json
    template    the chat template; None where there is none
    template_from  the file that has it
    """

    tokenizer: str
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    template: str | None
    template_from: str = TEMPLATE

    def write(self, folder: Path) -> Path:
        """Write the files into a folder, which is made if it is not there, so that transformers opens it. Returns that
        of the tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", **self.config}
        files = {FILE: self.tokenizer, CONFIG: json.dumps(config, ensure_ascii=False, indent=2) + "\n"}
        if self.generation:
            files[GENERATION] = json.dumps(self.generation, indent=2) + "\n"
        if self.template is not None:
            files[TEMPLATE] = self.template
        for name, text in files.items():
            write_whole(folder / name, text.encode("utf-8", "surrogatepass"))
        return folder / FILE


def is_published(named: Path, state: Any) -> bool:
    """Whether a path, with the JSON of its tokenizer.json (None: there is none), is a tokenizer of such a folder. A
    byte-level file with nothing beside it is none: the kinds that are trained here read it."""
    if state is None:
        return named.is_dir() and any((named / name).is_file() for name in (WORDS, VOCAB, *SENTENCEPIECE))
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict) or "kind" in state:
        return False
    folder = named if named.is_dir() else named.parent
    beside = named.is_dir() or named.name == FILE
    if beside and any((folder / name).is_file() for name in (CONFIG, MODEL)):
        return True
    # One of bytes, even a damaged one, must not be read as one that may lose something of a text.
    vocab = state["model"].get("vocab")
    rows = [str(one[0]) for one in vocab if isinstance(one, list) and one] if isinstance(vocab, list) else []
    signs = set(alphabet()).intersection(vocab if isinstance(vocab, dict) else rows)
    parts = json.dumps([state.get(name) for name in ("pre_tokenizer", "decoder", "post_processor")])
    return '"ByteLevel"' not in parts and len(signs) < SIGNS


def is_tokenizer(folder: Path) -> bool:
    """Whether a folder holds a tokenizer, or older files of one."""
    return any((folder / name).is_file() for name in (FILE, WORDS, VOCAB, *SENTENCEPIECE))


def read_published(named: Path) -> Published:
    """The files of a folder, or of a tokenizer.json that is named itself. Raises CheckpointError, with the remedy, for
    what cannot be read."""
    folder = named if named.is_dir() else named.parent
    beside = named.is_dir() or named.name == FILE
    config = _config(folder) if beside else {}
    template = config.pop("chat_template", None)
    model = _object(folder / MODEL) if beside else {}
    generation = _object(folder / GENERATION) if beside else {}
    generation = generation or {key: model[key] for key in ENDING if model.get(key) is not None}
    path = named / FILE if named.is_dir() else named
    text = _text(path) if path.is_file() else _converted(folder, config, model)
    source = TEMPLATE if (folder / TEMPLATE).is_file() else CONFIG
    return Published(text, config, generation, _template(folder, template) if beside else None, str(folder / source))


def _config(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json says, with what older folders keep beside it."""
    config = _object(folder / CONFIG)
    if "AutoTokenizer" in (config.get("auto_map") or ()):
        raise CheckpointError(
            f"{folder / CONFIG}: auto_map: the tokenizer is code of its own ({config['auto_map']['AutoTokenizer']}),"
            f" and nothing of a folder is run; if you trust it, {REMEDY}"
        )
    if "added_tokens_decoder" not in config:
        config |= _object(folder / OLD_NAMES)
        if (folder / OLD_TOKENS).is_file():
            names = special_names(config).values()
            config["added_tokens_decoder"] = {
                number: {"content": name, "normalized": name not in names, "special": name in names}
                for name, number in _object(folder / OLD_TOKENS).items()
            }
    return config


def special_names(config: Mapping[str, Any]) -> dict[str, str]:
    """The contents of the special tokens that a configuration names, by what they are for."""
    tokens = special_tokens(config).items()
    return {key: str(token["content"]) if isinstance(token, Mapping) else token for key, token in tokens}


def special_tokens(config: Mapping[str, Any]) -> dict[str, Any]:
    """The special tokens that a configuration names, texts or objects, by what they are for (`eos_token`, ...)."""
    named = {key: value for key, value in config.items() if key.endswith("_token") and isinstance(value, (str, dict))}
    for key in ("additional_special_tokens", "extra_special_tokens"):
        others = config.get(key) or ()
        pairs = others.items() if isinstance(others, Mapping) else ((f"{key} {n}", one) for n, one in enumerate(others))
        named |= dict(pairs)
    return named


def backend_of(files: Published) -> Tokenizer:
    """The library's tokenizer, with all special tokens that the configuration names. Raises ValueError."""
    with library_errors():
        backend = Tokenizer.from_str(files.tokenizer)
        known = {token.content: token for token in backend.get_added_tokens_decoder().values()}
        declared = files.config.get("added_tokens_decoder") or {}
        stated = [_added(declared[number]) for number in sorted(declared, key=int)]
        fresh = [token for token in stated if repr(token) != repr(known.get(token.content))]
        named = special_tokens(files.config).values()
        if "added_tokens_decoder" in files.config:
            known = {token.content: token for token in stated}
        special = [_special(token, known) for token in named]
        # as transformers does: first what is new, in the order of its ids, then all again as special tokens
        backend.add_tokens(fresh)
        backend.add_special_tokens(special)
        return backend


def _added(token: Mapping[str, Any]) -> AddedToken:
    return AddedToken(**{key: value for key, value in token.items() if key != "__type"})


def _special(token: Any, known: Mapping[str, AddedToken]) -> AddedToken:
    """A special token that is named, with what is known of it."""
    content = token if isinstance(token, str) else str(token["content"])
    if content in known:
        return known[content]
    return _added({**token, "special": True}) if isinstance(token, Mapping) else AddedToken(content, normalized=False)


def _template(folder: Path, value: Any) -> str | None:
    """The chat template of a file, else of the configuration; of several that which is called default."""
    if (folder / TEMPLATE).is_file():
        return _text(folder / TEMPLATE)
    if isinstance(value, list):
        value = next((one.get("template") for one in value if one.get("name") == "default"), None)
    return value if isinstance(value, str) else None


def _text(path: Path) -> str:
    try:
        return load_text(path, MAX_JSON_BYTES)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); copy it again") from None


def _object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; {} where it is not there."""
    try:
        content = load_json(path) if path.is_file() else {}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); copy it again") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: expected a JSON object; copy it again")
    return content


# Files that are older than tokenizer.json. Which template they mean is said by the class that transformers takes.

WORD_PIECES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer")
BYTES_ALONE = ("GPT2Tokenizer",)
BYTES_IN_MARKS = ("RobertaTokenizer", "BartTokenizer", "LongformerTokenizer")
CLASSES = {one.removesuffix("Tokenizer").lower(): one for one in (*WORD_PIECES, *BYTES_ALONE, *BYTES_IN_MARKS)}
# Their special tokens, where the configuration does not name others.
NAMES: dict[tuple[str, ...], dict[str, Any]] = {
    WORD_PIECES: {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
                  "mask_token": "[MASK]"},
    BYTES_ALONE: {"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
    BYTES_IN_MARKS: {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "sep_token": "</s>",
                     "pad_token": "<pad>", "cls_token": "<s>",
                     "mask_token": {"content": "<mask>", "lstrip": True, "normalized": False}},
}  # fmt: skip


def _converted(folder: Path, config: dict[str, Any], model: Mapping[str, Any]) -> str:
    """The text of a tokenizer.json for a folder that has older files; `config` gets the names of special tokens."""
    stated = str(config.get("tokenizer_class") or CLASSES.get(str(model.get("model_type"))) or "")
    stated = stated.removesuffix("Fast")
    kinds = next((kinds for kinds in NAMES if stated in kinds), ())
    files = (WORDS,) if kinds == WORD_PIECES else (VOCAB, MERGES)
    if not kinds or not all((folder / name).is_file() for name in files):
        what = f"{folder}: there is no {FILE}"
        other = next((name for name in (*SENTENCEPIECE, WORDS, VOCAB) if (folder / name).is_file()), "nothing else")
        raise CheckpointError(f"{what}, and {other} alone does not say how texts are cut; {REMEDY}")
    for key, token in NAMES[kinds].items():
        config.setdefault(key, token)
    try:
        backend = _word_pieces(folder, config) if kinds == WORD_PIECES else _bytes(folder, config, stated)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder}: {', '.join(files)}: no vocabulary of {stated} ({error}); {REMEDY}") from None
    return str(backend.to_str())


def _word_pieces(folder: Path, config: dict[str, Any]) -> Tokenizer:
    """BERT's: words in pieces, between [CLS] and [SEP]."""
    ids = {line: number for number, line in enumerate(_text(folder / WORDS).removesuffix("\n").split("\n"))}
    named = special_names(config)
    backend = Tokenizer(models.WordPiece(ids, unk_token=named["unk_token"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    first, end = named["cls_token"], named["sep_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {end}:0",
        pair=f"{first}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(first, ids[first]), (end, ids[end])],
    )
    return backend


def _bytes(folder: Path, config: dict[str, Any], stated: str) -> Tokenizer:
    """GPT-2's byte-level BPE, and RoBERTa's, which stands between <s> and </s>."""
    lines = _text(folder / MERGES).split("\n")
    pairs = (line.partition(" ") for line in lines if line.count(" ") == 1 and not line.startswith("#version"))
    merges = [(first, second) for first, _, second in pairs]
    ids = _object(folder / VOCAB)
    with library_errors():
        backend = Tokenizer(models.BPE(vocab=ids, merges=merges))
    space = bool(config.get("add_prefix_space", False))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=space), decoders.ByteLevel()
    named = special_names(config)
    if stated in BYTES_IN_MARKS:
        first, end = ((named[key], ids[named[key]]) for key in ("cls_token", "sep_token"))
        backend.post_processor = processors.RobertaProcessing(end, first, trim_offsets=True, add_prefix_space=space)
    elif config.get("add_bos_token"):
        first = named["bos_token"], ids[named["bos_token"]]
        single = f"{first[0]}:0 $A:0"
        backend.post_processor = processors.TemplateProcessing(
            single=single, pair=f"{single} {first[0]}:1 $B:1", special_tokens=[first]
        )
    return backend
