"""A folder of LLaVA is asked as it comes: what is written is what transformers writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.tokenizers.published_folders import write_plain
from transformula import Model
from transformula.cli import main
from transformula.errors import InputError
from transformula.generation.settings import SearchSettings
from transformula.tasks.picture_answering import PictureAnswering

transformers = pytest.importorskip("transformers")

TEMPLATE = """\
{{- bos_token }}{% for message in messages %}USER: {% for part in message.content %}
{%- if part.type == 'image' %}<image>{{ '\n' }}{% else %}{{ part.text }}{% endif %}
{%- endfor %}{% endfor %} ASSISTANT:"""
SIDE, PATCH = 32, 8
GREEDY = SearchSettings(beam=1, alpha=0.0, engine="torch", max_length=5)
TEXT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 128}  # fmt: skip
VISION = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40,
          "image_size": SIDE, "patch_size": PATCH, "model_type": "clip_vision_model"}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with a tokenizer, a template, and how pictures become numbers."""
    root = tmp_path_factory.mktemp("llava")
    tokenizer = transformers.AutoTokenizer.from_pretrained(write_plain("llama3", root))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    marker = tokenizer.convert_tokens_to_ids("<image>")
    text = {**TEXT, "model_type": "llama", "vocab_size": len(tokenizer) + 7}
    config = transformers.LlavaConfig(text_config=text, vision_config=VISION, image_token_index=marker)
    torch.manual_seed(1)
    model = transformers.LlavaForConditionalGeneration(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3 if parameter.dim() > 1 else 0.5)
    made = root / "made"
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    processor.save_pretrained(made)
    (made / "chat_template.jinja").write_text(TEMPLATE)
    return made


@pytest.fixture(scope="module")
def pictures(folder: Path) -> list[str]:
    """Of other sizes than the model reads, one in gray."""
    names = []
    for number, size in enumerate([(40, 33), (20, 50), (32, 32)]):
        pixels = np.random.default_rng(number).integers(0, 255, (*size, 3), dtype=np.uint8)
        names.append(str(folder.parent / f"{number}.png"))
        Image.fromarray(pixels).convert("L" if number == 1 else "RGB").save(names[-1])
    return names


QUESTIONS = ["the cat", "the dog and the cat?", "and"]


@pytest.mark.filterwarnings("ignore")
def test_it_writes_what_transformers_writes(folder: Path, pictures: list[str]) -> None:
    """Greedily, alone and in a batch of unlike prompts, which are padded, decoded with a cache. Theirs makes norms in
    float32 whatever the type is; test_parity.py holds the logits to float64 all the same."""
    ours = Model.from_folder(folder)
    kind = ours.predictor
    assert isinstance(kind, PictureAnswering)
    assert kind.places == (SIDE // PATCH) ** 2
    theirs = transformers.LlavaForConditionalGeneration.from_pretrained(folder).double().eval()
    processor = transformers.CLIPImageProcessor.from_pretrained(folder)
    module = ours.module.double().eval()
    asked = [{"question": text, "picture": name} for text, name in zip(QUESTIONS, pictures, strict=True)]
    together = kind.predict([module], kind.opened(asked), GREEDY)
    for each, answers in zip(asked, together, strict=True):
        opened = kind.opened([each])
        (prompt,), given = kind.prompts(opened)
        image = processor(Image.open(each["picture"]).convert("RGB"), return_tensors="pt")["pixel_values"]
        torch.testing.assert_close(given["image"][0], image[0], rtol=0, atol=1e-5)
        image = given["image"][0][None].double()
        inputs: dict[str, Any] = {"input_ids": torch.tensor([prompt]), "pixel_values": image}
        with torch.no_grad():
            expected = theirs(**inputs).logits
            found = module(image=image, tokens=torch.tensor([prompt]))
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))
            written = theirs.generate(**inputs, do_sample=False, max_new_tokens=5)[0, len(prompt) :].tolist()
        text = kind.target.decode(
            [token for token in written if token < kind.target.vocab and token not in kind.target.ends]
        )
        assert answers[0].text == kind.predict([module], opened, GREEDY)[0][0].text == text


@pytest.mark.filterwarnings("ignore")
def test_transparent_pictures_are_read_as_transformers_reads_them(folder: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(5).integers(0, 255, (40, 33, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "clear.png")
    kind: Any = Model.from_folder(folder).predictor
    ((found,),) = kind.pictures(kind.opened([{"question": "the cat", "picture": str(tmp_path / "clear.png")}]))
    processor = transformers.CLIPImageProcessor.from_pretrained(folder)
    expected = processor(Image.open(tmp_path / "clear.png").convert("RGB"), return_tensors="pt")["pixel_values"][0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_it_is_asked_by_the_verb(folder: Path, pictures: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["answer", str(folder), "the cat", "--picture", pictures[0], "--max-answer", "3"]) == 0
    assert capsys.readouterr().out.endswith("\n")
    assert main(["answer", str(folder), "the <image> cat", "--picture", pictures[0]]) == 2
    assert "holds <image>" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")
def test_folders_that_do_not_say_all(folder: Path, pictures: list[str]) -> None:
    kind: Any = Model.from_folder(folder).predictor
    template = folder / "chat_template.jinja"
    template.write_text(TEMPLATE.replace("<image>", ""))
    try:
        without: Any = Model.from_folder(folder).predictor
        with pytest.raises(InputError, match="writes 0 signs of a picture"):
            without.prompts(kind.opened([{"question": "the cat", "picture": pictures[0]}]))
        template.unlink()
        assert Model.from_folder(folder).predictor is None
        with pytest.raises(InputError, match="no chat template"):
            Model.from_folder(folder).predict({"question": "the cat", "picture": pictures[0]})
    finally:
        template.write_text(TEMPLATE)
