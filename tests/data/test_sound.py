"""Sound: decoding, rates, folders with transcripts, and what damaged files are refused with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tasks.tones import tones, write_sound
from transformula.data.records import columns_of, read_records
from transformula.data.sound import SoundFile, length_at, resampled
from transformula.data.splits import find_overlap, short_row
from transformula.errors import DataError
from transformula.tasks.scripts.sound_steps import resampled as resampled_by_script

soundfile = pytest.importorskip("soundfile", reason="needs soundfile: pip install 'transformula[sound]'")
AUDIO = {"audio": "sound"}


def sine(hertz: float, rate: int, seconds: float = 1.0) -> torch.Tensor:
    return torch.sin(2 * torch.pi * hertz * torch.arange(int(rate * seconds), dtype=torch.float64) / rate).float()


@pytest.mark.parametrize(("rate", "to"), [(22_050, 16_000), (8_000, 16_000), (44_100, 16_000), (16_001, 16_000)])
def test_a_sine_is_the_same_sine_at_another_rate(rate: int, to: int) -> None:
    made, inside = resampled(sine(1000, rate), rate, to), slice(to // 50, -to // 50)
    assert len(made) == length_at(rate, rate, to) == to
    assert (made - sine(1000, to))[inside].abs().max() < 2e-3
    assert np.abs(made.numpy() - resampled_by_script(sine(1000, rate).numpy(), rate, to)).max() < 1e-5


def test_what_the_lower_rate_has_no_room_for_is_taken_out() -> None:
    made = resampled(sine(9_000, 22_050), 22_050, 16_000)
    assert made[300:-300].abs().max() < 0.01, "else it would be heard as another tone"


def test_the_filter_is_that_of_scipy_but_for_its_edge() -> None:
    signal = pytest.importorskip("scipy.signal")
    wave = torch.from_numpy(tones("abc", 3, 22_050))
    theirs = signal.resample_poly(wave.double().numpy(), 320, 441)
    ours = resampled(wave, 22_050, 16_000).numpy()
    assert len(ours) == len(theirs) and np.abs(ours - theirs)[100:-100].max() < 0.02


def test_any_length_has_as_many_samples_as_is_said() -> None:
    for count in (1, 2, 159, 160, 441, 70_001):
        assert len(resampled(torch.ones(count), 441, 160)) == length_at(count, 441, 160)


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg"])
def test_formats_channels_and_rates(ending: str, tmp_path: Path) -> None:
    """Two channels become their mean; the head alone says how many samples there will be."""
    left = tones("ab", 1, 32_000)
    file = SoundFile(write_sound(tmp_path / f"a.{ending}", np.stack([left, 0 * left], 1), 32_000), "row 1")
    wave = file.load()
    assert wave.dtype == torch.float32 and wave.dim() == 1 and len(wave) == file.samples == length_at(len(left), 2, 1)
    alone = resampled(torch.from_numpy(left), 32_000, 16_000) / 2
    assert (wave - alone).abs().max() < (0.1 if ending == "ogg" else 1e-3)
    assert torch.equal(SoundFile((tmp_path / f"a.{ending}").read_bytes(), "row 1").load(), wave)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "there is no such file of sound; did you mean sound.wav"), (b"", "is empty, a file of 0 bytes"),
     (b"no sound" * 99, "the sound cannot be decoded"), (b"RIFF" + bytes(40), "the sound cannot be decoded")],
)  # fmt: skip
def test_what_is_no_sound_is_named_with_its_row(content: bytes | None, said: str, tmp_path: Path) -> None:
    write_sound(tmp_path / "sound.wav", tones("a"))
    if content is not None:
        (tmp_path / "sound1.wav").write_bytes(content)
    for look in (SoundFile.load, lambda file: file.samples):
        with pytest.raises(DataError, match=rf"sound1\.wav, named at rows\.tsv:7: {said}"):
            look(SoundFile(tmp_path / "sound1.wav", "rows.tsv:7"))


def test_a_flac_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "a.flac", np.random.default_rng(1).normal(0, 0.1, 64_000))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(DataError, match="copy it again"):
        SoundFile(path, "row 1").load()


CUT = {  # kinds of files whose samples libsndfile reads as far as they go
    "wav": {}, "floats.wav": {"subtype": "FLOAT"}, "large.wav": {"format": "RF64"}, "aiff": {}, "au": {},
    "big.wav": {"endian": "BIG"}, "mp3": {},
}  # fmt: skip


@pytest.mark.parametrize("kind", CUT)
def test_a_file_that_is_cut_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    soundfile.write(path, tones("abcd" * 4), 16_000, **CUT[kind])
    content = path.read_bytes()
    assert SoundFile(path, "row 1").samples == len(SoundFile(content, "row 1").load()) == len(tones("abcd" * 4))
    for share in (0.5, 0.9):
        path.write_bytes(content[: int(share * len(content))])
        for file in (SoundFile(path, "row 1"), SoundFile(path.read_bytes(), "row 1")):
            for look in (SoundFile.load, lambda file: file.samples):
                with pytest.raises(DataError, match=r"row 1: was cut: its head says [\d,]+ bytes of sound, and [\d,]+"):
                    look(file)


def test_a_streamed_head_is_no_cut_and_neither_is_what_stands_behind_the_samples(tmp_path: Path) -> None:
    """Who writes to a pipe does not know the size: ffmpeg says 0xFFFFFFFF, espeak-ng and sox almost 2 GB."""
    wave = tones("abcd")
    content = bytearray(write_sound(tmp_path / "a.wav", wave).read_bytes())
    assert content[36:40] == b"data" and int.from_bytes(content[40:44], "little") == 2 * len(wave)
    for size in (0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF):
        content[40:44] = size.to_bytes(4, "little")
        assert SoundFile(bytes(content), "row 1").samples == len(wave)
    content[40:44] = (0).to_bytes(4, "little")
    assert SoundFile(bytes(content), "row 1").samples == 0, "which is left out and counted, and not called cut"
    content[40:44] = (2 * len(wave) + 44).to_bytes(4, "little")
    assert SoundFile(bytes(content), "row 1").samples == len(wave), "a head that counts itself"
    content[40:44] = (2 * len(wave)).to_bytes(4, "little")
    behind = bytes(content) + b"LIST" + (400).to_bytes(4, "little") + bytes(30)
    assert SoundFile(behind, "row 1").samples == len(wave), "the sound is whole; what is said of it was cut"


def test_a_cut_file_of_a_table_is_named_before_training(tmp_path: Path) -> None:
    from tests.tasks.tones import write_tones
    from transformula import train

    write_tones(tmp_path, 12)
    (tmp_path / "7.wav").write_bytes((tmp_path / "7.wav").read_bytes()[:1500])
    how = {"data": str(tmp_path / "tones.tsv"), "split": 0.2, "steps": 1, "depth": 1, "width": 16, "heads": 2}
    with pytest.raises(DataError, match=r"7\.wav, named at .*tones\.tsv:9: was cut"):
        train("pre-norm", task="speech-recognition", **how)


def test_a_head_that_says_years_and_numbers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sound(tmp_path / "a.wav", tones("abc"))
    monkeypatch.setattr("transformula.data.sound.MAX_SECONDS", 0.1)
    with pytest.raises(DataError, match="its head says that it lasts .*; at most"):
        _ = SoundFile(tmp_path / "a.wav", "row 1").samples
    soundfile.write(tmp_path / "b.wav", np.array([0.0, np.nan]), 16_000, subtype="FLOAT")
    with pytest.raises(DataError, match="numbers that are not finite"):
        SoundFile(tmp_path / "b.wav", "row 1").load()


def test_a_table_names_files_from_where_it_lies(tmp_path: Path) -> None:
    """As in Common Voice: a table, and the sounds in the folder `clips` beside it."""
    for folder in ("clips", "other"):
        (tmp_path / folder).mkdir()
    write_sound(tmp_path / "clips" / "1.wav", tones("a"))
    write_sound(tmp_path / "other" / "2.wav", tones("bb"))
    (tmp_path / "train.tsv").write_text("client_id\tpath\tsentence\nx\t1.wav\tA one.\ny\tother/2.wav\tB two.\n")
    rows = list(read_records(str(tmp_path / "train.tsv"), {"audio": "path", "text": "sentence"}, kinds=AUDIO))
    assert [len(row["audio"]) for row in rows] == [len(tones("a")), len(tones("bb"))]
    assert short_row(rows[0]) == "audio: sound of 0.2 s  text: 'A one.'"


def test_librispeech(tmp_path: Path) -> None:
    for name, text in (("12-3-0000", "ab"), ("12-3-0001", "c"), ("40-1-0000", "d")):
        speaker, chapter, _ = name.split("-")
        folder = tmp_path / speaker / chapter
        folder.mkdir(parents=True, exist_ok=True)
        write_sound(folder / f"{name}.flac", tones(text))
        with (folder / f"{speaker}-{chapter}.trans.txt").open("a") as file:
            file.write(f"{name} {' '.join(text).upper()}\n")
    write_sound(tmp_path / "12" / "3" / "12-3-0009.flac", tones("a"))
    assert columns_of(str(tmp_path))[0] == ["audio", "text", "speaker"]
    records = read_records(str(tmp_path), kinds=AUDIO)
    found = {(str(row["text"]), str(row["speaker"]), len(row["audio"])) for row in records}
    assert found == {("A B", "12", len(tones("ab"))), ("C", "12", len(tones("c"))), ("D", "40", len(tones("d")))}
    assert any("1 of 4 sounds have no transcript: left out" in note for note in records.notes)
    (tmp_path / "40" / "1" / "40-1.trans.txt").write_text("40-1-0007 GONE\n")
    with pytest.raises(DataError, match=r"40-1\.trans\.txt:1: names the sound 40-1-0007, and there is none beside it"):
        list(read_records(str(tmp_path), kinds=AUDIO))


def test_texts_beside_sounds_and_folders_of_classes(tmp_path: Path) -> None:
    for label in ("yes", "no"):
        (tmp_path / "classes" / label).mkdir(parents=True)
        write_sound(tmp_path / "classes" / label / "1.wav", tones("a"))
    rows = list(read_records(str(tmp_path / "classes"), kinds=AUDIO))
    assert [(row["label"], len(row["audio"])) for row in rows] == [("no", len(tones("a"))), ("yes", len(tones("a")))]
    for label in ("yes", "no"):
        (tmp_path / "classes" / label / "1.txt").write_text(f"I say\n {label}\n")
    assert [row["text"] for row in read_records(str(tmp_path / "classes"), kinds=AUDIO)] == ["I say no", "I say yes"]


def test_sounds_of_the_hub_are_bytes_in_a_column(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    write_sound(tmp_path / "a.flac", tones("ab"))
    cell = {"bytes": (tmp_path / "a.flac").read_bytes(), "path": "a.flac"}
    features = {"info": {"features": {"audio": {"_type": "Audio"}, "text": {"dtype": "string", "_type": "Value"}}}}
    table = pyarrow.table({"audio": [cell], "text": ["a b"]})
    (tmp_path / "set").mkdir()
    file = tmp_path / "set" / "train.parquet"
    parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), file)
    sources = [str(file)]
    try:
        import datasets  # noqa: F401

        sources.append(f"hf:{tmp_path / 'set'}")
    except ImportError:
        pass
    for source in sources:
        (row,) = read_records(source, {"audio": "audio", "text": "text"}, kinds=AUDIO)
        assert len(row["audio"]) == len(tones("ab")) and row["text"] == "a b"


def test_equal_sounds_are_an_overlap_and_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("a", "a"), ("again", "a"), ("b", "b")):
        write_sound(tmp_path / f"{name}.wav", tones(text))
    for name, files in (("one", ["a", "b"]), ("two", ["again"])):
        (tmp_path / f"{name}.tsv").write_text("path\ttext\n" + "".join(f"{file}.wav\tx\n" for file in files))
    monkeypatch.setattr(SoundFile, "load", lambda self: pytest.fail("was decoded"))
    one, two = (list(read_records(str(tmp_path / f"{n}.tsv"), {"audio": "path"}, kinds=AUDIO)) for n in ("one", "two"))
    assert (find_overlap(one, two).rows, find_overlap(one, two).of) == (1, 1)
