"""What lies beside exported weights: the tokenizer, special tokens' ids, names of classes; a model fine-tuned here is
scored by transformers as it is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from transformula import Model, train
from transformula.interop.folder import convert
from transformula.tokenizers.base import Tokenizer, load, tokenizers

transformers = pytest.importorskip("transformers")

TEXTS = ("the cat sees\nthe bird", "", "a", "the the  the")
SST2 = Path(__file__).parents[4] / "shared" / "data" / "sst2"


def exported(folder: Path, tokenizer: Tokenizer) -> Path:
    layer = "x = x + attention(norm(x)); x = x + mlp(norm(x))"
    model = Model(layer, after="x = norm(x)", depth=1, width=8, heads=2, context=9, tokenizer=tokenizer)
    model.save(folder / "ours")
    return convert(folder / "ours", folder / "theirs", write="transformers")


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram"])
def test_a_tokenizer_is_opened_by_transformers(kind: str, tmp_path: Path) -> None:
    tokenizer = tokenizers.get(kind).train([*TEXTS, "é 東京"], *([300] if tokenizers.get(kind).sized else []))
    folder = exported(tmp_path, tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [*TEXTS, "é 東京"]
    assert [theirs(text)["input_ids"] for text in texts] == [tokenizer.encode(text) for text in texts]
    assert [theirs.decode(tokenizer.encode(text)) for text in texts] == texts
    config = json.loads((folder / "config.json").read_text())
    assert config["eos_token_id"] == tokenizer.end_of_document == theirs.eos_token_id
    # and ours again: the same ids, the same model
    assert [load(folder).encode(text) for text in texts] == [tokenizer.encode(text) for text in texts]
    assert Model.from_folder(folder).tokenizer is not None


def bert_folder(folder: Path, texts: list[str]) -> Path:
    """A BERT of random weights with a WordPiece tokenizer, as transformers writes it."""
    from tokenizers import BertWordPieceTokenizer

    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(texts, vocab_size=4000)
    marks = {f"{name.lower()}_token": f"[{name}]" for name in ("UNK", "SEP", "PAD", "CLS", "MASK")}
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=pieces._tokenizer, model_max_length=64, **marks)
    sizes: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 128, "max_position_embeddings": 64, "pad_token_id": theirs.pad_token_id}
    torch.manual_seed(0)
    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(theirs), **sizes)).save_pretrained(folder)
    theirs.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.skipif(not SST2.is_dir(), reason="SST-2 is not there: ../shared/data/sst2")
def test_a_fine_tuned_classifier_scores_the_same_in_transformers(tmp_path: Path) -> None:
    """One command fine-tunes a BERT for SST-2; exported, transformers has the same accuracy with it."""
    texts = [row.split("\t")[0] for row in (SST2 / "sent_train.tsv").read_text().splitlines()]
    start = bert_folder(tmp_path / "bert", texts)
    rows = [row.rsplit("\t", 1) for row in (SST2 / "sent_dev.tsv").read_text().splitlines()]
    run = train(
        task="classification", init_from=str(start), data=str(SST2 / "sent_train.tsv"),
        validation=str(SST2 / "sent_dev.tsv"), epochs=1, optimizer="adamw", lr=1e-3, batch=64, precision="float32",
        out=str(tmp_path / "run"), quiet=True,
    )  # fmt: skip
    folder = convert(run.folder / "best", tmp_path / "theirs", write="transformers")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    right = 0
    for first in range(0, len(rows), 64):
        batch, labels = zip(*rows[first : first + 64], strict=True)
        encoded = tokenizer(list(batch), padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            logits = model(encoded["input_ids"], attention_mask=encoded["attention_mask"]).logits
        right += sum(
            model.config.id2label[n] == label for n, label in zip(logits.argmax(-1).tolist(), labels, strict=True)
        )
    ours = Model.from_folder(run.folder).predict([text for text, _ in rows])
    agree = sum(one == label for one, (_, label) in zip(ours, rows, strict=True))
    assert right == agree
    assert right > 0.55 * len(rows)  # it has learned something
