"""Models for CTranslate2: it writes the same targets, and what it does not compute is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers as library
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from tests.api.translator import WORDS, translated, translator, write_rows
from transformula import Model
from transformula.errors import CheckpointError
from transformula.interop.folder import convert
from transformula.tokenizers.byte_level import BPE, alphabet

SIZES = {"vocab": 270, "context": 40, "width": 32, "heads": 4}
LONGEST = 12
TEXT = """\
language: 1
name: small
encoder:
  causal: false
  depth: 1
  before: x = {source}
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x){mlp})
  after: x = norm(x)
decoder:
  depth: 2
  before: x = {tokens}
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
    x = x + mlp(norm(x){mlp})
  after: x = norm(x)
output: logits = {output}
"""


def text(before: str, mlp: str, output: str, norm: str = "") -> str:
    tokens = before.replace("embed(source)", "embed.words(tokens)").replace("source", "tokens")
    whole = TEXT.format(source=before, tokens=tokens, mlp=mlp, output=output)
    return whole.replace("encoder:", f"words:\n  norm: {norm}\nencoder:", 1) if norm else whole


TEXTS = {
    "learned positions": text("embed.words(source) + positions(source)", "", "unembed.words(x)"),
    "gated": text(
        "norm(sqrt(width) * embed.words(source) + positions(source))",
        ', gated=True, activation="silu", bias=False, hidden=48',
        "unembed(x)",
        norm="x = rmsnorm(x, eps=1e-3)",
    ),
    "tables of their own": text(
        "embed(source) + sinusoids(source)", ', activation="gelu_tanh"', "unembed(x, bias=True)"
    ),
    "sines first": text(
        "embed.words(source) + sinusoids(source, halves=True)", ', activation="quick_gelu"', "unembed.words(x)"
    ),
}
ENTRIES = ("bart", "vaswani", "vaswani-pre", "pegasus")  # of the gallery


def drawn(name: str) -> Model:
    """An untrained model whose every parameter counts."""
    if name in ENTRIES:
        model = Model(name, depth=2, **SIZES)
    else:
        Path("model.yaml").write_text(TEXTS[name])
        model = Model.from_file("model.yaml", **SIZES)
    with torch.no_grad():
        for number, tensor in enumerate(model.module.parameters()):
            tensor.add_(0.15 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(number)))
    return model


def greedy(module: Any, source: list[int], end: int) -> Iterator[int]:
    """The likeliest token, one after the other."""
    decoding = module.start(1, LONGEST + 1, source=torch.tensor([[*source, end]]))
    token = end
    for _ in range(LONGEST):
        token = int(module.step(torch.tensor([[token]]), decoding)[0, -1].argmax())
        if token == end:
            return
        yield token


def opened(folder: Path) -> tuple[Any, list[str]]:
    """CTranslate2's model of a folder, and the names of its tokens."""
    library = pytest.importorskip("ctranslate2")
    names = json.loads((folder / "shared_vocabulary.json").read_text())
    return library.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1), names


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "gated" else pytest.mark.slow) for n in (*ENTRIES, *TEXTS)]
)
def test_the_same_targets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = drawn(name)
    model.save("ours")
    BPE.train(["the cat sees the bird and the dog sees the tree. " * 20], SIZES["vocab"]).save("ours")
    theirs, names = opened(convert("ours", "theirs", write="ctranslate2"))
    lengths = []
    for seed in range(4):
        source = torch.randint(1, 260, (4 + seed,), generator=torch.Generator().manual_seed(seed)).tolist()
        ours = [names[token] for token in greedy(model.module.eval(), source, 0)]
        words = [[names[token] for token in source]]
        result = theirs.translate_batch(words, beam_size=1, max_decoding_length=LONGEST, min_decoding_length=0)
        assert result[0].hypotheses[0] == ours
        lengths.append(len(ours))
    assert max(lengths) > 2 or name == "vaswani-pre"


@pytest.mark.slow
def test_marks_of_tokenizers_that_others_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template puts <s> before and </s> after a source; generation_config.json says what a target begins with."""
    monkeypatch.chdir(tmp_path)
    model = drawn("bart")
    model.save("ours")
    backend = library.Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=265, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet(), show_progress=False
    )
    backend.train_from_iterator(["the cat sees the bird " * 20], trainer)
    marks = [("<s>", 0), ("</s>", 1)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=marks)
    backend.save("ours/tokenizer.json")
    Path("ours/tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    Path("ours/generation_config.json").write_text('{"decoder_start_token_id": 1, "eos_token_id": 1}')
    theirs, names = opened(convert("ours", "theirs", write="ctranslate2"))
    source = [20, 30, 40, 50]
    ours = [names[token] for token in greedy(model.module.eval(), [0, *source], 1)]
    words = [[names[token] for token in source]]
    assert theirs.translate_batch(words, beam_size=1, max_decoding_length=LONGEST)[0].hypotheses[0] == ours
    Path("ours/generation_config.json").write_text('{"decoder_start_token_id": 1, "forced_bos_token_id": 0}')
    with pytest.raises(CheckpointError, match=r"a target begins with \['</s>', '<s>'\] and ends with .*one token for"):
        convert("ours", "out", write="ctranslate2")


REFUSED = {
    "rotary": ("attention(norm(x))", "attention(norm(x), rotary=10000)", "layer 1: .*rotary=10000"),
    "a third sublayer": ("x = x + mlp(norm(x))", "x = x + mlp(norm(x))\n    x = x + mlp(norm(x))", "layer 1: "),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_refused_texts(name: str, tmp_path: Path) -> None:
    old, new, row = REFUSED[name]
    (tmp_path / "m.yaml").write_text(TEXTS["learned positions"].replace(old, new))
    Model.from_file(tmp_path / "m.yaml", **SIZES).save(tmp_path / "ours")
    message = rf"the text equals none that CTranslate2 computes; the nearest is (.*\n)*    this text: +{row}"
    with pytest.raises(CheckpointError, match=message):
        convert(tmp_path / "ours", tmp_path / "out", write="ctranslate2")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_types_of_weights(tmp_path: Path) -> None:
    Model("vaswani", depth=1, **SIZES).save(tmp_path / "ours")
    BPE.train(["the cat sees the bird. "], SIZES["vocab"]).save(tmp_path / "ours")
    with pytest.raises(CheckpointError, match="has weights in float32, float16, bfloat16; name one"):
        convert(tmp_path / "ours", tmp_path / "theirs", write="ctranslate2", dtype=torch.float64)
    sizes = [
        (convert(tmp_path / "ours", tmp_path / str(kind), write="ctranslate2", dtype=kind) / "model.bin").stat().st_size
        for kind in (torch.float16, None)
    ]
    assert 1.8 < sizes[1] / sizes[0] < 2


@pytest.mark.slow
@pytest.mark.parametrize("joint", [True, False])
def test_a_trained_translator(joint: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What our translator writes, from its own folder, CTranslate2 writes, too."""
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    if not joint:
        text = (tmp_path / "small.yaml").read_text()
        text = text.replace("embed.words(source)", "embed(source, rows=source_vocab)")
        (tmp_path / "small.yaml").write_text(text.replace("depth: 1", "depth: 1\nvocab: 270\nsource_vocab: 280"))
    run = translator(tmp_path, model="learned.yaml" if joint else "small.yaml", steps=150, lr=0.01, joint=joint)
    folder = convert(tmp_path / "run" / "best", tmp_path / "theirs", write="ctranslate2")
    library = pytest.importorskip("ctranslate2")
    theirs = library.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    names = {
        side: json.loads((folder / f"{'shared' if joint else side}_vocabulary.json").read_text())
        for side in ("source", "target")
    }
    writing = run.model.predictor
    sentences = [f"{word} der {word}" for word in WORDS]
    ours = run.model.write(sentences, beam=1)
    for sentence, expected in zip(sentences, ours, strict=True):
        words = [names["source"][token] for token in writing.source.encode(sentence)]
        (written,) = theirs.translate_batch([words], beam_size=1)[0].hypotheses
        assert writing.target.decode([names["target"].index(name) for name in written]) == expected
    assert any(text == translated(sentence) for text, sentence in zip(ours, sentences, strict=True))
