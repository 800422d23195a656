"""Lists of config.json that have no entry for each layer: kept with the number of their entries, read both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transformula.errors import CheckpointError
from transformula.interop.named.config import config_of
from transformula.interop.named.matching import match
from transformula.interop.named.text import text_of_folder
from transformula.language.check import check
from transformula.language.model_file import read_text
from transformula.words import vocabulary

Folder = Callable[[str], Path]
SIZES, KERNELS = [12, 16, 16, 12], [10, 3, 3, 2]


def changed(folder: Path, into: Path, **keys: Any) -> Path:
    """The config.json of a folder with other keys, alone; a key of None is taken out."""
    config = json.loads((folder / "config.json").read_text()) | keys
    into.mkdir()
    (into / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return into


def test_the_text_holds_the_list_and_as_many_calls(tiny_folder: Folder) -> None:
    text = read_text(text_of_folder(tiny_folder("wav2vec2")))
    assert text.numbers["kernels"].text == str(KERNELS)
    assert "extract.four" in text.words["hear(w)"].text
    assert "extract.five" not in text.words["hear(w)"].text


def test_a_text_without_its_folder_gives_the_lists_back(tiny_folder: Folder) -> None:
    """Repetitions at the end of a list are entries of it."""
    found = match(check(read_text(text_of_folder(tiny_folder("wav2vec2"))), vocabulary()))
    config = config_of(found.model, found.constants)
    assert (config["conv_dim"], config["conv_kernel"], config["conv_stride"]) == (SIZES, KERNELS, [5, 2, 2, 2])
    assert config["num_feat_extract_layers"] == 4


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"conv_kernel": KERNELS[:3]}, r"conv_kernel means \(10, 3, 3\), 3 values, where conv_dim has 4"),
        ({"conv_dim": []}, r"conv_dim is \[\]; expected a list"),
        ({"conv_dim": 12}, "conv_dim is 12; expected a list"),
        ({"num_feat_extract_layers": 3}, r"num_feat_extract_layers is 3; expected 4"),
        ({"conv_stride": None}, r"conv_stride is absent, which means .* 7 values, where conv_dim has 4"),
    ],
)
def test_lists_of_other_lengths_are_refused(
    keys: dict[str, Any], wrong: str, tiny_folder: Folder, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match=wrong):
        text_of_folder(changed(tiny_folder("wav2vec2"), tmp_path / "other", **keys))
