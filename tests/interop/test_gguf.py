"""Models for llama.cpp: what is written is the model, its tokenizer cuts alike, and what cannot be said is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers as library
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from tests.interop import llama_cpp
from tests.interop.named import tiny
from tests.peers.hub import SIZE
from transformula import Model
from transformula.errors import CheckpointError, InputError
from transformula.interop.folder import convert, load_model
from transformula.interop.gguf_vocabulary import vocabulary_of
from transformula.interop.named.exports import content
from transformula.interop.named.tensors import Solver, parse_tensor, read_expression, refs
from transformula.tokenizers.base import load
from transformula.tokenizers.byte_level import BPE, END, alphabet
from transformula.tokenizers.characters import Bytes, Characters

SIZES = {"vocab": 300, "depth": 2, "width": 32, "heads": 4, "kv_heads": 2, "hidden": 48, "context": 64}
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
TEXT = (
    "The  WITH statement's don't DON'T 12345 3.14\n\n\t'naïve' 東京 e\u0301\u200b \u00a0\r\n\U0001f600 x1234 a-b (c)"
    " <s> <|endoftext|>  end  "
)
SENTENCE = "the cat sees the bird and the dog sees the tree. "
LAYER = """\
x = x + attention(norm(x), kv_heads=kv_heads, rotary=500000, bias=False)
x = x + mlp(norm(x), hidden=hidden, gated=True, activation="silu", bias=False)
"""


def untrained(**changes: Any) -> Model:
    """A LLaMA whose every parameter counts: drawn wide, so that a wrong order of rows changes logits."""
    model = Model("llama", **{**SIZES, **changes})
    with torch.no_grad():
        for number, tensor in enumerate(model.module.parameters()):
            tensor.add_(0.2 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(number)))
    return model


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`ours`, a model with a tokenizer, and `gguf`, the same for llama.cpp."""
    folder = tmp_path_factory.mktemp("written")
    untrained().save(folder / "ours")
    BPE.train([SENTENCE * 20], 300).save(folder / "ours")
    convert(folder / "ours", folder / "gguf", write="gguf")
    return folder


def test_transformers_reads_the_same_model(written: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.logging.disable_progress_bar()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(written / "gguf", gguf_file="model.gguf")
    ours, _ = load_model(written / "ours")
    ids = torch.tensor([TOKENS])
    torch.testing.assert_close(ours(ids), theirs.eval()(ids).logits, rtol=0, atol=1e-5)


def test_llama_cpp_computes_the_same_logits(written: Path) -> None:
    ours, _ = load_model(written / "ours")
    np.testing.assert_allclose(
        llama_cpp.logits(written / "gguf", TOKENS), ours(torch.tensor([TOKENS]))[0].detach(), rtol=0, atol=1e-3
    )


SCALED = {"query_pre_attn_scalar": SIZE}  # the one scale of scores that llama.cpp has
FAMILIES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("llama", "llama-tied-biases", "llama-linear", "llama-llama3", "llama-yarn", "mistral-whole"), {}),
    **dict.fromkeys(("qwen2", "qwen2-yarn", "qwen3", "mixtral", "olmo2", "phi3"), {}),
    "qwen2-linear": tiny.rope(10000, "linear", factor=2.0),
    "gemma2": SCALED,
    "gemma3": SCALED,
    "gemma3-linear": SCALED,
    "gpt2": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_llama_cpp_computes_the_family(name: str, tmp_path: Path) -> None:
    """Folders of transformers: rotary scaling, biases, windows, experts. Its gelu is a table in float16."""
    row = tiny.rows()["qwen2" if name == "qwen2-linear" else name]
    replace(row, keys={**row.keys, **FAMILIES[name]}).make().save_pretrained(tmp_path / "theirs")
    ours, _ = load_model(tmp_path / "theirs")
    with pytest.warns(UserWarning, match="takes and gives token ids"):
        logits = llama_cpp.logits(convert(tmp_path / "theirs", tmp_path / "gguf", write="gguf"), TOKENS)
    expected = ours(torch.tensor([TOKENS]))[0].detach()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=5e-3 if name.startswith(("gemma", "gpt2")) else 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mistral", "qwen2-window", "qwen3-window", "mixtral-window", "phi3-window"])
def test_what_llama_cpp_leaves_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="window is 5; its attention in this family has no window"):
        convert(tiny.written(tmp_path, name), tmp_path / "gguf", write="gguf")


@pytest.mark.slow
def test_types_of_weights(written: Path, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    folder = convert(written / "ours", tmp_path / "out", write="gguf", dtype=torch.bfloat16)
    types = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(folder / "model.gguf").tensors}
    assert types["blk.0.attn_q.weight"] == "BF16" and types["blk.0.attn_norm.weight"] == "F32"
    with pytest.raises(InputError, match="dtype=float16: the format pytorch has a type of its own; leave the option"):
        convert(written / "ours", tmp_path / "other", write="pytorch", dtype=torch.float16)


def test_pairs_are_read_both_ways() -> None:
    query, bias = torch.randn(12, 5), torch.randn(12)
    for tensor in (query, bias):
        expression, solver = read_expression(parse_tensor("pairs(heads, query)")), Solver({"heads": 2})
        theirs = solver.theirs(expression, lambda _, tensor=tensor: tensor)
        order = [0, 3, 1, 4, 2, 5]  # of a head: the first row of each half, the second, ...
        assert torch.equal(theirs, tensor[[*order, *(6 + row for row in order)]])
        ((one, back),) = solver.to_ours(expression, theirs, {"query": tensor.shape})
        assert one == refs(expression)[0] and torch.equal(back, tensor)


REFUSED = {
    "activation": ('activation="silu"', 'activation="gelu"', "does not compute this text: act is gelu; its gated MLP"),
    "positions": (
        "rotary=500000",
        "rotary=0",
        r"equals none that llama.cpp computes; the nearest is \w+.*\n.*\n.*rotary",
    ),
}


@pytest.mark.parametrize("name", ["activation", pytest.param("positions", marks=pytest.mark.slow)])
def test_refused_texts(name: str, tmp_path: Path) -> None:
    old, new, message = REFUSED[name]
    Model("llama", layer=LAYER.replace(old, new), **SIZES).save(tmp_path / "ours")
    with pytest.raises(CheckpointError, match=message):
        convert(tmp_path / "ours", tmp_path / "out", write="gguf")
    assert not (tmp_path / "out").exists()


def bpe(cuts: list[str], whole: bool = False) -> library.Tokenizer:
    """A tokenizer as others train it, which begins each text with a token of its own."""
    backend = library.Tokenizer(models.BPE(ignore_merges=whole))
    parts = [
        pre_tokenizers.Digits(individual_digits=True)
        if cut == "Digits"
        else pre_tokenizers.ByteLevel(add_prefix_space=False)
        if cut == "ByteLevel"
        else pre_tokenizers.Split(library.Regex(cut), "isolated")
        for cut in cuts
    ]
    if "ByteLevel" not in cuts:
        parts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Sequence(parts), decoders.ByteLevel()
    special = [END, "<s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=299, special_tokens=special, initial_alphabet=alphabet(), show_progress=False
    )
    backend.train_from_iterator([TEXT * 3, SENTENCE * 20 + "1234 2024 they're"], trainer)
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return backend


def every_tokenizer() -> Iterator[tuple[str, Any]]:
    for one in content("gguf")["pretokenizers"]:
        yield one["name"], bpe(one["cuts"], one["whole"])
    yield "bytes", Bytes()
    yield "characters", Characters.train([TEXT, "a"])


@pytest.mark.slow
def test_llama_cpp_cuts_texts_alike(written: Path, tmp_path: Path) -> None:
    for name, tokenizer in every_tokenizer():
        folder = tmp_path / name
        shutil.copytree(written / "ours", folder)
        tokenizer.save(str(folder / "tokenizer.json") if isinstance(tokenizer, library.Tokenizer) else folder)
        ours = load(folder)
        theirs = llama_cpp.opened(convert(folder, tmp_path / f"{name}-gguf", write="gguf"), vocab_only=True)
        ids = theirs.tokenize(TEXT.encode(), special=False)
        begin = [1] if isinstance(tokenizer, library.Tokenizer) else []
        assert ids == [*begin, *ours.encode(TEXT)], name
        assert theirs.detokenize(ours.encode(TEXT)).decode() == TEXT
        assert theirs.token_eos() == ours.end_of_document


def test_refused_tokenizers(tmp_path: Path) -> None:
    other = bpe(["ByteLevel"])
    other.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), other.pre_tokenizer])
    for tokenizer, message in (
        (library.Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")), "it is no BPE of bytes; train with"),
        (other, "it cuts texts in a way that has no name there: .*Punctuation"),
    ):
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        with pytest.raises(CheckpointError, match=f"llama.cpp cannot express this tokenizer.*{message}"):
            vocabulary_of(tmp_path, 300)
    with pytest.raises(CheckpointError, match="go up to 298, added tokens included, and the model has 298 rows"):
        vocabulary_of(tmp_path, 298)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.warns(UserWarning, match="there is no tokenizer.json: the model takes and gives token ids, no text"):
        assert vocabulary_of(tmp_path, 300).tokens == ()


def test_the_chat_template_goes_along(tmp_path: Path) -> None:
    bpe(["ByteLevel"]).save(str(tmp_path / "tokenizer.json"))
    assert vocabulary_of(tmp_path, 300).chat == ""
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END, "chat_template": template}))
    tokens = vocabulary_of(tmp_path, 300)
    assert (tokens.chat, tokens.begin, tokens.tokens[tokens.end or 0]) == (template, 1, END)


@pytest.mark.slow
def test_a_trained_model_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformula import train

    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "animals.txt").write_text(SENTENCE * 400)
    text = Model("llama", **SIZES).text.replace("vocab: 300\n", "")
    (tmp_path / "small.yaml").write_text(text)
    train(
        str(tmp_path / "small.yaml"),
        data=str(tmp_path / "animals.txt"),
        tokenizer="bpe",
        steps=30,
        batch=8,
        out=str(tmp_path / "run"),
        quiet=True,
    )
    best = tmp_path / "run" / "best"
    theirs = llama_cpp.opened(convert(best, tmp_path / "gguf", write="gguf"), n_ctx=64)
    said = theirs.create_completion("the cat", temperature=0, max_tokens=20)["choices"][0]["text"]
    assert said == Model.from_folder(best).generate("the cat", temperature=0, max_tokens=20)
    assert "the" in said
