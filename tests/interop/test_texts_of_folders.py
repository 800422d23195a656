"""Folders of transformers with their tokenizers: from text to text as transformers does."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tokenizers.published_folders import write_folder
from transformula import Model
from transformula.tasks.masked_language_modeling import Filling

TEXT = "The cat and the dog. Zwei Hunde 東京"
TEMPLATE = (
    "{{ bos_token }}{% for one in messages %}{{ '<|start_header_id|>' + one.role + '<|end_header_id|>' + one.content }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>' }}{% endif %}"
)
PAIR: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64,
}  # fmt: skip
FOLDERS: dict[str, tuple[str, str, dict[str, Any]]] = {  # model -> tokenizer, class, configuration
    "llama": ("llama3", "LlamaForCausalLM", {
        "vocab_size": 416, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 128, "bos_token_id": 400, "eos_token_id": [401, 402]}),
    "t5": ("t5", "T5ForConditionalGeneration", {
        "vocab_size": 128, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2,
        "decoder_start_token_id": 0}),
    "bart": ("roberta", "BartForConditionalGeneration", {
        **PAIR, "vocab_size": 408, "decoder_start_token_id": 2}),
    "marian": ("t5", "MarianMTModel", {
        **PAIR, "vocab_size": 128, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}),
    "bert": ("bert", "BertForMaskedLM", {
        "vocab_size": 240, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "max_position_embeddings": 64}),
}  # fmt: skip


def opened(name: str, folder: Path) -> tuple[Model, Any, Any]:
    """Ours, theirs and their tokenizer of a folder with random weights."""
    import transformers

    tokenizer, kind, configuration = FOLDERS[name]
    write_folder(tokenizer, folder)
    model = getattr(transformers, kind)
    torch.manual_seed(1)
    theirs = model(model.config_class(**configuration)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:  # Marian's waves stay
                parameter.add_(0.3 * torch.randn_like(parameter))  # so that greedy texts are no repetition
    if theirs.can_generate():
        theirs.generation_config.forced_bos_token_id = 0 if name == "bart" else None
        theirs.generation_config.forced_eos_token_id = None  # which is written at the last place, whatever stands there
    theirs.save_pretrained(folder)
    return Model.from_folder(folder), theirs, transformers.AutoTokenizer.from_pretrained(folder)


def written(theirs: Any, tokenizer: Any, ids: list[int], **others: Any) -> str:
    out = theirs.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False, num_beams=1, **others)[0]
    start = 0 if theirs.config.is_encoder_decoder else len(ids)
    return str(tokenizer.decode(out[start:], skip_special_tokens=True))


def test_a_decoder_goes_on_and_replies(tmp_path: Path) -> None:
    ours, theirs, tokenizer = opened("llama", tmp_path)
    assert ours.generate(TEXT, temperature=0, max_tokens=12) == written(theirs, tokenizer, tokenizer(TEXT)["input_ids"])
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    chat, messages = Model.from_folder(tmp_path), [{"role": "user", "content": TEXT}]
    ids = tokenizer.apply_chat_template(messages, chat_template=TEMPLATE, add_generation_prompt=True)["input_ids"]
    assert chat.predict(TEXT, max_tokens=12) == written(theirs, tokenizer, ids)


@pytest.mark.parametrize("name", ["t5", *(pytest.param(one, marks=pytest.mark.slow) for one in ("bart", "marian"))])
def test_an_encoder_and_a_decoder_write(name: str, tmp_path: Path) -> None:
    ours, theirs, tokenizer = opened(name, tmp_path)
    expected = written(theirs, tokenizer, tokenizer(TEXT)["input_ids"])
    most = 11 if name == "bart" else 12  # what is forced counts there
    assert ours.write(TEXT, beam=1, max_length=most) == expected != ""
    again = Model.from_folder(ours.save(tmp_path / "ours"))
    assert again.write(TEXT, beam=1, max_length=most) == expected


@pytest.mark.slow
def test_an_encoder_fills(tmp_path: Path) -> None:
    ours, theirs, tokenizer = opened("bert", tmp_path)
    assert isinstance(ours.predictor, Filling)
    ids = tokenizer("The [MASK] and the dog", return_tensors="pt")
    logits = theirs(**ids).logits[0, 2]
    assert ours.predict("The [MASK] and the dog", scores=True).tokens == (tokenizer.decode([int(logits.argmax())]),)


@pytest.mark.slow
def test_a_folder_without_a_tokenizer_is_read_by_ids(tmp_path: Path) -> None:
    _, theirs, tokenizer = opened("llama", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    (tmp_path / "tokenizer.model").write_text("")
    with pytest.warns(UserWarning, match="tokenizer.model alone does not say how texts are cut; open the folder with"):
        ours = Model.from_folder(tmp_path)
    assert ours.tokenizer is None and len(ours.generate(tokens=[1, 2], max_tokens=3)) == 3
    assert json.loads((tmp_path / "config.json").read_text())["eos_token_id"] == [401, 402]
