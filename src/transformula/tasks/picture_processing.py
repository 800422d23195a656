"""How pictures become numbers, as preprocessor_config.json of a folder of transformers says: resized, cropped, scaled
and normalized. What the file leaves out follows from the class that it names: `picture_processors.yaml`.

    y = (factor * crop(resize(x)) - mean) / std     x from 0 to 255, (channels, height, width)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import CheckpointError, did_you_mean, nearest, shortened
from ..structured import load_json, load_yaml
from .predictor import FILE as PREDICTOR
from .scripts.picture_steps import picture_numbers

FILE = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # which has the same under a key, as later versions of transformers write it
TYPE, FORMER_TYPE = "image_processor_type", "feature_extractor_type"  # keys that name the class
COMMON = {
    "do_resize": True, "do_center_crop": False, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
}  # fmt: skip
NEEDED = ("size", "resample", "crop_size", "crop_pct", "image_mean", "image_std")
# Keys that change no numbers of a picture in colors, which is what is read.
UNUSED = (TYPE, FORMER_TYPE, "processor_class", "do_convert_rgb", "do_reduce_labels", "reduce_labels", "data_format",
    "input_data_format", "return_tensors", "device", "disable_grouping", "image_seq_length", "default_to_square",
    "feature_extractor_class", "_valid_processor_keys")  # fmt: skip
COUNTS = ("min_size", "min_patches", "max_patches")  # keys that are whole numbers
FILTERS = 6  # of Pillow, by their numbers from 0
MOST = 10_000  # pixels of a side
STEPS: Any = picture_numbers
TILES, SPLIT, PROPORTIONS = "tiles", "split", "padded"  # sizings of `picture_tiles.py`
LARGE = 384  # a side from which on the sizing `crop` crops nothing

Processing = Mapping[str, Any]
"""What preprocessor_config.json says, with every key that is read."""


@cache
def known() -> dict[str, Any]:
    said: dict[str, Any] = load_yaml(Path(__file__).with_name("picture_processors.yaml"))
    return said


def processing_in(folder: Path, channels: int) -> dict[str, Any]:
    """What the folder of a model says of pictures: one of transformers, or one of ours that was trained as such a
    folder says. Raises CheckpointError."""
    own = load_json(folder / PREDICTOR) if (folder / PREDICTOR).is_file() else {}
    processing: dict[str, Any] = own.get("processing") or read_processing(folder, channels)
    return processing


def read_processing(folder: Path, channels: int) -> dict[str, Any]:
    """What the folder of a model says of pictures with so many channels. Raises CheckpointError, with the file and
    what to do."""
    path = folder / FILE
    if not path.is_file() and (folder / PROCESSOR).is_file():
        path = folder / PROCESSOR
    if not path.is_file():
        what = f"{path}: the file is missing, which says how a picture becomes numbers"
        remedy = "copy it from where the model was made, or write it there by AutoImageProcessor's save_pretrained"
        raise CheckpointError(f"{what}; {remedy}")
    try:
        said = load_json(path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); copy it again") from None
    if not isinstance(said, dict):
        raise CheckpointError(f"{path}: expected a mapping of keys to values; copy it again")
    if path.name == PROCESSOR:
        said = said.get("image_processor") or {}
    name = class_named(path, said)
    processing = {TYPE: name, **resolved(path, said, name)}
    check_processing(path, processing, channels)
    return processing


def class_named(path: Path, said: Mapping[str, Any]) -> str:
    """The class that makes the numbers: as it is called now, or that of the model. Raises CheckpointError."""
    classes = known()["classes"]
    named = said.get(TYPE) or said.get(FORMER_TYPE)
    if named is None:
        config = path.with_name("config.json")
        model_type = load_json(config).get("model_type") if config.is_file() else None
        name = next((name for name, own in classes.items() if model_type in own["models"]), None)
        if name is None:
            what = f"{path}: {TYPE} is missing, and no class is known of the model_type {model_type!r}"
            raise CheckpointError(f"{what}; expected one of {', '.join(classes)}")
        return str(name)
    name = str(named).replace("FeatureExtractor", "ImageProcessor").removesuffix("Fast").removesuffix("Pil")
    if name not in classes:
        near = nearest(name, classes)
        what = f"{path}: {TYPE} is {shortened(repr(named))}, whose steps are not known;{did_you_mean(near)}"
        raise CheckpointError(f"{what} known are {', '.join(classes)}", near=near)
    return name


def resolved(path: Path, said: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The keys that are read, each with its value: that of the class where the file has none. Raises CheckpointError
    for a key that the class does not know, unless it is null or false, which asks for nothing."""
    own = known()["classes"][name]
    usual = {**COMMON, **own["keys"]}
    readable = [*COMMON, *(key for key in NEEDED if key in usual or key == "crop_size")]
    ignored, more = own.get("ignored", ()), own.get("more", {})
    readable += more
    usual |= more
    for key, value in said.items():
        if key not in (*readable, *UNUSED, *own.get("padding", ())) and value not in (None, False):
            near = nearest(key, readable)
            what = f"{path}: {key} is {shortened(repr(value))}, which {name} is not known to read"
            remedy = "take the key out, if the model was trained so"
            raise CheckpointError(f"{what};{did_you_mean(near)} {remedy}", near=near)
    values = {key: usual.get(key) if said.get(key) is None else said[key] for key in readable if key not in ignored}
    square = own["sizing"] == "square" if said.get("default_to_square") is None else said["default_to_square"]
    if own["sizing"] == SPLIT:
        for key in ("size", "max_image_size"):
            values[key] = longest_of(path, key, values[key])
        return values
    values["size"] = sides_of(path, "size", values["size"], bool(square))
    if values.get("crop_size") is not None:
        values["crop_size"] = sides_of(path, "crop_size", values["crop_size"], True)
    return values


def sides_of(path: Path, key: str, value: Any, square: bool) -> dict[str, int]:
    """{"height": h, "width": w} or {"shortest_edge": s} of what a file says. Raises CheckpointError."""
    sides = value
    if isinstance(value, int):
        sides = {"height": value, "width": value} if square else {"shortest_edge": value}
    elif isinstance(value, list) and len(value) == 2:
        sides = {"height": value[0], "width": value[1]}
    sides = {name: n for name, n in sides.items() if n is not None} if isinstance(sides, dict) else {}
    whole = all(type(side) is int and 1 <= side <= MOST for side in sides.values())
    if not whole or {*sides} not in ({"height", "width"}, {"shortest_edge"}):
        expected = f"expected height and width, or shortest_edge, whole numbers from 1 to {MOST:,}"
        raise CheckpointError(f"{path}: {key} is {shortened(repr(value))}: {expected}")
    return dict(sides)


def longest_of(path: Path, key: str, value: Any) -> dict[str, int]:
    """{"longest_edge": n} of what a file says. Raises CheckpointError."""
    side = value.get("longest_edge") if isinstance(value, dict) else value
    if type(side) is not int or not 1 <= side <= MOST:
        expected = f"expected longest_edge, a whole number from 1 to {MOST:,}"
        raise CheckpointError(f"{path}: {key} is {shortened(repr(value))}: {expected}")
    return {"longest_edge": side}


def check_simple(processing: Processing, refuse: Callable[[str, str], CheckpointError]) -> None:
    """Raise CheckpointError for a switch, a number or a filter that is none."""
    for key, value in processing.items():
        if key.startswith(("do_", "crop_to")) and not isinstance(value, bool):
            raise refuse(key, "true or false")
        if key in COUNTS and (type(value) is not int or not 1 <= value <= MOST):
            raise refuse(key, f"a whole number from 1 to {MOST:,}")
    if type(processing["resample"]) is not int or not 0 <= processing["resample"] < FILTERS:
        raise refuse("resample", f"the number of a filter of Pillow, 0 to {FILTERS - 1}")


def check_processing(path: Path, processing: Processing, channels: int) -> None:
    """Raise CheckpointError for a value that no picture of so many channels can be processed by."""

    def refuse(key: str, expected: str) -> CheckpointError:
        return CheckpointError(f"{path}: {key} is {shortened(repr(processing[key]))}: expected {expected}")

    def numbers(value: Any) -> bool:
        return all(type(n) in (int, float) and math.isfinite(n) for n in value)

    check_simple(processing, refuse)
    if not numbers([processing["rescale_factor"]]) or processing["rescale_factor"] <= 0:
        raise refuse("rescale_factor", "a number above 0")
    if "crop_pct" in processing and (not numbers([processing["crop_pct"]]) or not 0 < processing["crop_pct"] <= 1):
        raise refuse("crop_pct", "a number above 0, at most 1")
    for key in ("image_mean", "image_std") if processing["do_normalize"] else ():
        each = spread(processing[key], channels)
        if len(each) != channels or not numbers(each) or (key == "image_std" and not all(each)):
            raise refuse(key, f"a number for each of the {channels} channels{', not 0' if key == 'image_std' else ''}")
    if processing.get("do_center_crop") and "height" not in (processing.get("crop_size") or {}):
        raise refuse("crop_size", "height and width, since do_center_crop is true")
    if processing["do_resize"] and sizing_of(processing) == "crop" and "shortest_edge" not in processing["size"]:
        raise refuse("size", f"shortest_edge, which is what {processing[TYPE]} reads")


def spread(value: Any, channels: int) -> list[Any]:
    """A list as it is, a number for each channel."""
    return list(value) if isinstance(value, (list, tuple)) else [value] * channels


def sizing_of(processing: Processing) -> str:
    return str(known()["classes"][processing[TYPE]]["sizing"])


def steps_of(processing: Processing, channels: int) -> dict[str, Any]:
    """The same as steps in order: see `scripts/picture_steps.py`."""
    resize, crops = resizing_of(processing) if processing["do_resize"] else (None, [])
    if processing.get("do_center_crop"):
        crops = [*crops, [processing["crop_size"][side] for side in ("height", "width")]]
    mean, std = (spread(processing[key], channels) for key in ("image_mean", "image_std"))
    return {
        "resize": resize,
        "resample": processing["resample"],
        "crops": crops,
        "factor": processing["rescale_factor"] if processing["do_rescale"] else None,
        "mean": mean if processing["do_normalize"] else None,
        "std": std if processing["do_normalize"] else None,
    }


def resizing_of(processing: Processing) -> tuple[list[Any], list[list[int]]]:
    """How a picture is resized, and what is cropped with that; of one that is cut into tiles, the whole."""
    size, sizing, crops = processing["size"], sizing_of(processing), list[list[int]]()
    if sizing == SPLIT:
        return ["exact", *[processing["max_image_size"]["longest_edge"]] * 2], crops
    share = processing["crop_pct"] if sizing in ("crop", "scaled") else 1
    if sizing == "crop":
        side = size["shortest_edge"]
        if side >= LARGE:
            return ["exact", side, side], crops
        return ["shorter", int(side / share)], [[side, side]]
    sides = [int(size[key] / share) if share != 1 else size[key] for key in ("height", "width") if key in size]
    if not sides:
        return ["shorter", int(size["shortest_edge"] / share)], crops
    if sizing == "scaled" and sides[0] == sides[1]:
        return ["shorter", sides[0]], crops
    return ["exact", *sides], crops


def size_made(processing: Processing) -> tuple[int, int] | None:
    """(height, width) of the processed pictures; None where it depends on the picture."""
    steps = steps_of(processing, 1)
    if steps["crops"]:
        height, width = steps["crops"][-1]
        return height, width
    kind, *sides = steps["resize"] or [""]
    return (sides[0], sides[1]) if kind == "exact" else None


def processed(picture: Tensor, processing: Processing) -> Tensor:
    """A picture (channels, height, width) uint8 as numbers, float32."""
    from PIL import Image

    array = picture.numpy()
    image = Image.fromarray(array[0] if len(array) == 1 else array.transpose(1, 2, 0))
    return torch.from_numpy(STEPS(image, steps_of(processing, len(picture))))
