"""Folders of models that read a picture in tiles, or among a frame: as transformers reads and answers."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.interop.named.pictures_in_text import IMAGE, INTERNVL, SIGLIP, of
from tests.tokenizers.published_folders import write_plain
from transformula import Model
from transformula.errors import CheckpointError, InputError
from transformula.generation.settings import SearchSettings
from transformula.tasks.picture_processing import read_processing
from transformula.tasks.picture_tiles import grid_of, tiles_of

transformers = pytest.importorskip("transformers")

GREEDY = SearchSettings(beam=1, alpha=0.0, engine="torch", max_length=4)
SIDE = 32
SPLIT = {"size": {"longest_edge": 96}, "max_image_size": {"longest_edge": SIDE}}
SQUARE = {"size": {"height": SIDE, "width": SIDE}}
TILED = {**SQUARE, "crop_to_patches": True, "max_patches": 4}
IDEFICS = (
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{r}_col_{c}>" for r in (1, 2, 3) for c in (1, 2, 3)),
)
AYA = ("<|IMG_PATCH|>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "TILE_GLOBAL", "TILE_1", "TILE_2", "TILE_3", "TILE_4")
# by model_type: class, config, class of pictures, what its file says, tokens of which the first is the marker
FAMILIES: dict[str, tuple[str, dict[str, Any], str, dict[str, Any], tuple[str, ...]]] = {
    "idefics3": ("Idefics3", {"text_config": of("llama"), "vision_config": IMAGE}, "idefics3.Idefics3", SPLIT, IDEFICS),
    "smolvlm": ("SmolVLM", {"text_config": of("llama"), "vision_config": IMAGE}, "smolvlm.SmolVLM", SPLIT, IDEFICS),
    "internvl": ("InternVL", {"text_config": of("qwen2"), "vision_config": INTERNVL}, "got_ocr2.GotOcr2", TILED,
                 ("<IMG_CONTEXT>", "<img>", "</img>")),
    "aya_vision": (
        "AyaVision", {"text_config": of("cohere2", sliding_window=64), "vision_config": {**SIGLIP, "patch_size": 8},
                      "alignment_intermediate_size": 20}, "got_ocr2.GotOcr2", TILED, AYA),
    "deepseek_vl": ("DeepseekVL", {"text_config": of("llama"), "vision_config": SIGLIP}, "deepseek_vl.DeepseekVL",
                    SQUARE, ("<image_placeholder>",)),
}  # fmt: skip
SIZES = [(40, 33), (20, 90), (32, 32), (70, 31), (96, 96), (17, 16)]


def class_of_pictures(named: str, **keys: Any) -> Any:
    module, _, kind = named.partition(".")
    found = importlib.import_module(f"transformers.models.{module}.image_processing_pil_{module}")
    return getattr(found, f"{kind}ImageProcessorPil")(**keys)


def picture(number: int) -> Image.Image:
    height, width = SIZES[number]
    return Image.fromarray(np.random.default_rng(number).integers(0, 255, (height, width, 3), dtype=np.uint8))


def text_of(family: str, sign: str, places: int, made: Any) -> str:
    """What transformers' processor writes for a picture."""
    named = {
        "fake_image_token": IDEFICS[1],
        "global_image_tag": IDEFICS[2],
        "image_token": sign,
        "image_seq_len": places,
    }
    named |= {"start_image_token": "<img>", "end_image_token": "</img>", "image_seq_length": places, "img_size": SIDE}
    named |= {"start_of_img_token": AYA[1], "end_of_img_token": AYA[2], "img_patch_token": AYA[0], "tile_token": "TILE"}
    named |= {"tile_global_token": AYA[3], "patch_size": SIDE // round(places**0.5), "num_image_tokens": places}
    module = importlib.import_module(f"transformers.models.{family}.processing_{family}")
    if family == "smolvlm":
        (rows,), (columns,) = made["rows"][0], made["cols"][0]
        return str(module.get_image_prompt_string(rows, columns, places, IDEFICS[1], sign, IDEFICS[2]))
    kind = getattr(module, f"{FAMILIES[family][0]}Processor")
    return str(kind.replace_image_token(SimpleNamespace(**named), made, 0))


def folder_of(family: str, root: Path) -> tuple[Path, Any]:
    """A tiny folder of a family, and the class of pictures of transformers."""
    name, keys, pictures, said, tokens = FAMILIES[family]
    tokenizer = transformers.AutoTokenizer.from_pretrained(write_plain("llama3", root))
    tokenizer.add_special_tokens({"additional_special_tokens": list(tokens)})
    marker = tokenizer.convert_tokens_to_ids(tokens[0])
    text = {**keys["text_config"], "vocab_size": len(tokenizer) + 7, "max_position_embeddings": 512}
    text |= {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos")}
    config = getattr(transformers, f"{name}Config")(**{**keys, "text_config": text, "image_token_id": marker})
    torch.manual_seed(1)
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3 if parameter.dim() > 1 else 0.5)
    made = root / family
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    kind = pictures.partition(".")[2]
    (made / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": f"{kind}ImageProcessor", **said})
    )
    sign = "<image>" if family == "aya_vision" else tokens[0]
    (made / "chat_template.jinja").write_text(
        "{% for message in messages %}{% for part in message.content %}{% if part.type == 'image' %}" + sign
        + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %} so:"
    )  # fmt: skip
    return made, class_of_pictures(pictures, **said)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_answers_as_transformers_does(family: str, tmp_path: Path) -> None:
    """The numbers of each tile, what is written for it, logits in float64, and what is written after pictures of unlike
    sizes, two of them at once, alone and in a batch, with a cache."""
    folder, theirs_of = folder_of(family, tmp_path)
    ours = Model.from_folder(folder)
    kind: Any = ours.predictor
    theirs = (
        getattr(transformers, f"{FAMILIES[family][0]}ForConditionalGeneration").from_pretrained(folder).double().eval()
    )
    module = ours.module.double().eval()
    shown, asked, texts, tiles = [], [], [], []
    for number in range(len(SIZES)):
        picture(number).save(tmp_path / f"{number}.png")
        made = theirs_of(
            picture(number),
            return_tensors="pt",
            **({"return_row_col_info": True} if "idefics" in family or family == "smolvlm" else {}),
        )
        tiles.append(made["pixel_values"].reshape(-1, 3, SIDE, SIDE))
        texts.append(text_of(family, kind.sign, kind.places, made))
        shown.append(str(tmp_path / f"{number}.png"))
    wanted = [[0], [1], [2], [3, 4], [5]]
    for numbers in wanted:
        asked.append({"question": " the cat", "picture": [shown[number] for number in numbers]})
    opened = kind.opened(asked)
    together = kind.predict([module], opened, GREEDY)
    assert len({len(each) for each in kind.pictures(opened)}) > 1 or family == "deepseek_vl"
    for numbers, each, answers in zip(wanted, opened, together, strict=True):
        (prompt,), given = kind.prompts([each])
        image = given["image"][0].reshape(-1, 3, SIDE, SIDE)
        expected = torch.cat([tiles[number] for number in numbers])
        torch.testing.assert_close(image, expected, rtol=0, atol=1e-5)
        written = "".join(texts[number] for number in numbers) + " the cat so:"
        assert prompt == kind.target.encode_special(written, template=False)
        ids, image = torch.tensor([prompt]), image.double()
        pixels = image[None] if "idefics" in family or family == "smolvlm" else image
        with torch.no_grad():
            logits = theirs(input_ids=ids, pixel_values=pixels).logits
            found = module(image=image, tokens=ids)
            torch.testing.assert_close(found, logits, rtol=0, atol=1e-6 * float(logits.abs().max()))
            text = theirs.generate(input_ids=ids, pixel_values=pixels, do_sample=False, max_new_tokens=4)[
                0, len(prompt) :
            ]
        after = [token for token in text.tolist() if token < kind.target.vocab and token not in kind.target.ends]
        (alone,) = kind.predict([module], [each], GREEDY)
        assert answers[0].text == alone[0].text == kind.target.decode(after)
    with pytest.raises(InputError, match="which to this model is a sign of its own"):
        kind.prompts(
            kind.opened([{"question": "the <image>" if family == "aya_vision" else kind.sign, "picture": shown[0]}])
        )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("idefics3.Idefics3", {**SPLIT, "do_image_splitting": False}),
        ("idefics3.Idefics3", {**SPLIT, "do_resize": False}),
        ("smolvlm.SmolVLM", {"size": {"longest_edge": 60}, "max_image_size": {"longest_edge": 20}}),
        ("got_ocr2.GotOcr2", SQUARE),
        ("got_ocr2.GotOcr2", {**TILED, "min_patches": 2, "max_patches": 12, "resample": 2}),
        ("deepseek_vl.DeepseekVL", {"size": {"height": 24, "width": 24}, "min_size": 9, "image_mean": [0.1, 0.5, 0.9]}),
    ],
)
def test_numbers_of_tiles(name: str, said: dict[str, Any], tmp_path: Path) -> None:
    kind = name.partition(".")[2]
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": f"{kind}ImageProcessor", **said})
    )
    processing, theirs = read_processing(tmp_path, 3), class_of_pictures(name, **said)
    for number in range(len(SIZES)):
        image = picture(number)
        expected = theirs(image, return_tensors="pt")["pixel_values"]
        tensor = torch.from_numpy(np.ascontiguousarray(np.array(image).transpose(2, 0, 1)))
        found = tiles_of(tensor, processing)
        torch.testing.assert_close(found, expected.reshape(-1, *expected.shape[-3:]), rtol=0, atol=1e-5)
        rows, columns = grid_of(processing, *SIZES[number])
        assert len(found) == rows * columns + 1


@pytest.mark.parametrize(
    ("name", "said", "says"),
    [
        ("Idefics3", {"size": {"height": 4, "width": 4}}, "size is .*expected longest_edge"),
        ("Idefics3", {"max_image_size": {"longest_edge": 0}}, "max_image_size is .*from 1 to"),
        ("Idefics3", {"do_image_splitting": "yes"}, "do_image_splitting is .*true or false"),
        ("GotOcr2", {"crop_to_patches": 1}, "crop_to_patches is 1: expected true or false"),
        ("GotOcr2", {"max_patches": "many"}, "max_patches is 'many': expected a whole number"),
        ("DeepseekVL", {"min_size": 0}, "min_size is 0: expected a whole number"),
    ],
)
def test_values_that_are_none(name: str, said: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_processor_type": f"{name}ImageProcessor", **said})
    )
    with pytest.raises(CheckpointError, match=says):
        read_processing(tmp_path, 3)


def test_the_file_that_later_versions_write(tmp_path: Path) -> None:
    """The same under a key of another file."""
    said = {"image_processor_type": "GotOcr2ImageProcessor", **TILED}
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": said, "processor_class": "X"}))
    assert read_processing(tmp_path, 3)["max_patches"] == 4
