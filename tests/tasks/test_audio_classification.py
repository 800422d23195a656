"""Classification of sounds: files to labels, speakers on one side of a split, variations, resume, export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tasks.tones import LETTERS, SMALL, goes_on_bit_for_bit, tones, write_sound, write_tones
from transformula import Model, evaluate, train
from transformula.errors import ConfigError, DataError, InputError
from transformula.tasks.audio_classification import AudioClassification, nearest_centroid
from transformula.tasks.base import tasks
from transformula.tasks.varied_sounds import vary_one


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_tones(tmp_path, 60)
    return tmp_path / "tones.tsv"


def made(data: Path, **settings: Any) -> AudioClassification:
    read = tasks.get("audio-classification").settings.read({"data": str(data), "split": 0.2, **settings})
    return AudioClassification.make(read, {}, inputs=("audio",), batch=8)


def notes(task: Any) -> str:
    return "\n".join(task.preview().data["notes"])


def test_no_speaker_is_on_both_sides(data: Path) -> None:
    rows = made(data).data.source
    sides = [{row["speaker"] for row in side} for side in (rows.training, rows.validation, rows.test)]
    assert all(sides) and not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]
    mixed = made(data, speaker="none").data.source
    assert "speaker" not in mixed.training[0]


def test_too_few_speakers_are_said(tmp_path: Path) -> None:
    write_tones(tmp_path, 40, speakers=2)
    assert "2 speakers: too few to hold some out" in notes(made(tmp_path / "tones.tsv"))


def test_speakers_in_named_sets_are_counted(data: Path, tmp_path: Path) -> None:
    lines = data.read_text().splitlines()
    for name, some in (("one", lines[1:40]), ("two", lines[40:])):
        (tmp_path / f"{name}.tsv").write_text("\n".join([lines[0], *some]))
    task = made(tmp_path / "one.tsv", validation=str(tmp_path / "two.tsv"))
    assert "6 of the 6 speakers of the validation rows are also in training" in notes(task)


def test_which_voice_is_a_label_like_any_other(data: Path) -> None:
    task = made(data, label="speaker")
    assert task.data.kind.labels == [f"s{number}" for number in range(6)]
    assert {row["label"] for row in task.data.source.validation} <= {row["label"] for row in task.data.source.training}


def test_sounds_without_samples_and_long_ones_are_counted(data: Path, tmp_path: Path) -> None:
    write_sound(tmp_path / "0.wav", [])
    write_sound(tmp_path / "1.wav", np.zeros(16_000 * 3))
    said = notes(made(data, longest=2))
    assert "1 of 60 sounds have no samples: left out" in said
    assert "1 of 60 sounds are longer than 2 s (--longest): left out" in said
    with pytest.raises(DataError, match="no sound is left"):
        made(data, longest=0.01)


def test_a_damaged_file_stops_it_with_its_row(data: Path, tmp_path: Path) -> None:
    (tmp_path / "3.wav").write_bytes(b"RIFF but no sound")
    with pytest.raises(DataError, match=r"3\.wav, named at .*tones\.tsv:5: the sound cannot be decoded"):
        made(data)


def test_a_column_that_nothing_names(tmp_path: Path) -> None:
    (tmp_path / "rows.tsv").write_text("name\ttitle\na.wav\tx\nb.wav\ty\n")
    with pytest.raises(ConfigError, match="audio: .* have the columns name, title: say which holds the audio"):
        made(tmp_path / "rows.tsv")


def test_variations_are_a_function_of_the_step(data: Path) -> None:
    how = {"speed": 0.2, "mask_time": 0.3, "mask_bands": 0.3}
    one, two, plain = made(data, **how), made(data, **how), made(data)
    for step in (0, 3):
        varied, again, still = (task.batch(step) for task in (one, two, plain))
        assert torch.equal(varied.inputs["audio"], again.inputs["audio"])
        assert varied.inputs["audio"].shape != still.inputs["audio"].shape
        assert torch.equal(varied.targets, still.targets)
    assert not torch.equal(one.batch(0).inputs["audio"][0, :1000], one.batch(3).inputs["audio"][0, :1000])


class FixedChance:
    """In the place of a generator: the same share wherever one is drawn."""

    def __init__(self, share: float) -> None:
        self.share = share

    def uniform(self, low: Any, high: Any, size: int | None = None) -> Any:
        drawn = low + (np.asarray(high) - low) * self.share
        return np.full(size, drawn) if size else drawn if np.ndim(drawn) else float(drawn)


def test_each_variation_does_what_it_says(data: Path) -> None:
    wave = torch.from_numpy(tones("a" * 8))
    settings = made(data, speed=0.25).data.settings
    chance: Any = FixedChance(1.0)
    assert len(vary_one(wave, settings, chance)) == int(np.ceil(len(wave) * 100 / 125))
    settings = made(data, mask_time=0.5).data.settings
    silent = vary_one(wave, settings, chance)
    assert (silent[: len(wave) // 2] == wave[: len(wave) // 2]).all() and not silent[len(wave) // 2 :].any()
    settings = made(data, mask_bands=0.9).data.settings
    low, high = (torch.from_numpy(tones(letter * 8)) for letter in "ad")
    heard = [float(vary_one(each, settings, chance).norm() / each.norm()) for each in (low, high)]
    assert heard[1] < 0.2, "the last nine tenths of the scale are gone"
    settings = made(data, mask_bands=0.4).data.settings
    heard = [float(vary_one(each, settings, chance).norm() / each.norm()) for each in (low, high)]
    assert heard[0] > 0.9 and heard[1] < 0.2


def test_the_baseline_tells_tones_apart(data: Path) -> None:
    rows = made(data).data.source
    answers = nearest_centroid(rows.training, rows.validation)
    assert [each.text for each in answers] == [str(row["label"]) for row in rows.validation]


def test_from_files_to_labels(data: Path, tmp_path: Path) -> None:
    """A stereo file of another rate has the same label, and a sound has the same answer alone as among others."""
    run = train("pre-norm", task="audio-classification", data=str(data), steps=60, batch=16, split=0.2,
                out=str(tmp_path / "run"), **SMALL)  # fmt: skip
    model = Model.from_folder(run.folder)
    files = []
    for number, letter in enumerate(LETTERS):
        wave = np.repeat(tones(letter, 100, 22_050), 1)
        files.append(str(write_sound(tmp_path / f"new{number}.flac", np.stack([wave, wave], 1), 22_050)))
    long = torch.from_numpy(tones("abcd" * 4))
    together = model.predict([*files, long], scores=True)
    assert [answer.text for answer in together[:4]] == list(LETTERS)
    assert model.predict(files[1], scores=True).probabilities == pytest.approx(together[1].probabilities, abs=1e-5)
    with pytest.raises(InputError, match="reads sounds: give the name of a file"):
        model.predict([3])
    with pytest.raises(InputError, match="has no samples"):
        model.predict(torch.zeros(0))
    report = evaluate(run.folder).data
    assert report["scores"]["accuracy"]["baselines"].keys() == {"most frequent label", "nearest centroid"}


def test_a_tokenizer_is_not_ignored(data: Path) -> None:
    with pytest.raises(ConfigError, match="tokenizer: sounds are no tokens"):
        made(data, tokenizer="bpe")


def test_another_model_than_one_of_sound_is_refused(data: Path) -> None:
    with pytest.raises(InputError, match="this one reads tokens: write a\n? ?`before` that makes frames"):
        train("pre-norm", task="audio-classification", data=str(data), before="x = embed.words(tokens)", **SMALL)


def test_a_run_goes_on_bit_for_bit(data: Path, tmp_path: Path) -> None:
    goes_on_bit_for_bit(tmp_path, task="audio-classification", data=str(data))
