"""Folders of Whisper: what transformers makes of a sound is made here, before and after training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.references.whisper import log_mel
from tests.tasks.tones import SMALL, tones, write_sound, write_tones
from transformula import Model, train
from transformula.api.exporting import export
from transformula.api.inputs import predictor_in
from transformula.cli import main
from transformula.errors import CheckpointError, InputError
from transformula.generation.settings import SearchSettings
from transformula.interop.folder import load_model
from transformula.tasks.speech_writing import SpeechWriter, searched
from transformula.tasks.whisper_folders import opening_of
from transformula.tokenizers.base import load

transformers = pytest.importorskip("transformers")
SECONDS, LANGUAGES = 2, ("en", "de")
SAID = ("ab c", "d", "cab ab", "bb")
NEVER = list(range(100, 180))
HOW: dict[str, Any] = {"threads": 1, "precision": "float32"}


def write_folder(folder: Path, mels: int = 80, several: bool = True, seed: int = 5) -> Path:
    """A small Whisper with random weights, as transformers writes it; of several languages, or of English alone."""
    from tokenizers import AddedToken
    from tokenizers.pre_tokenizers import ByteLevel

    signs = sorted(ByteLevel.alphabet())
    vocab = {sign: number for number, sign in enumerate([*signs, "Ġa", "cd"])}
    tokenizer = transformers.WhisperTokenizer(vocab=vocab, merges=[("Ġ", "a"), ("c", "d")])
    names = ["endoftext", "startoftranscript", *LANGUAGES, "translate", "transcribe", "notimestamps"]
    special = [AddedToken(f"<|{name}|>", special=True, normalized=False) for name in names]
    tokenizer.add_tokens(special, special_tokens=True)
    ids = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in names}
    end, start = ids["endoftext"], ids["startoftranscript"]
    torch.manual_seed(seed)
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer), num_mel_bins=mels, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
        max_source_positions=SECONDS * 50, max_target_positions=24, pad_token_id=end, bos_token_id=end,
        eos_token_id=end, decoder_start_token_id=start, suppress_tokens=None, begin_suppress_tokens=None, init_std=0.3,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config)
    languages: dict[str, Any] = {
        "lang_to_id": {f"<|{name}|>": ids[name] for name in LANGUAGES},
        "task_to_id": {name: ids[name] for name in ("transcribe", "translate")},
    }
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=end, pad_token_id=end, bos_token_id=end, decoder_start_token_id=start, max_length=24,
        suppress_tokens=NEVER, begin_suppress_tokens=[vocab["!"], end], is_multilingual=several,
        no_timestamps_token_id=ids["notimestamps"], return_timestamps=False, **(languages if several else {}),
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=mels, chunk_length=SECONDS).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("theirs"))


def features(wave: torch.Tensor, mels: int = 80) -> torch.Tensor:
    """What theirs is given of a sound, in float64, by the spectrogram that is written by hand in the tests."""
    padded = torch.nn.functional.pad(wave.double(), (0, SECONDS * 16_000 - len(wave)))
    return log_mel(padded[None], mels).mT


@cache
def opened_by_theirs(folder: Path) -> tuple[Any, Any]:
    """The model, in float64, and the tokenizer."""
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float64).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def written_by_theirs(folder: Path, wave: torch.Tensor, mels: int = 80, **said: Any) -> tuple[list[int], str]:
    """The tokens and the text that transformers writes greedily, in float64."""
    model, tokenizer = opened_by_theirs(folder)
    ids = model.generate(features(wave, mels), num_beams=1, do_sample=False, **said)[0].tolist()
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return ids, " ".join(text.split())


def waves() -> list[torch.Tensor]:
    return [torch.from_numpy(tones(text, seed)) for seed, text in enumerate(SAID)]


@pytest.mark.parametrize(
    ("mels", "several", "seed"), [(80, True, 7), (128, False, 3)], ids=["several languages", "one"]
)
def test_a_folder_writes_down_what_it_does_there(mels: int, several: bool, seed: int, tmp_path: Path) -> None:
    """The language is found or said; tokens that are not written there are not written here."""
    folder = write_folder(tmp_path / "theirs", mels, several, seed)
    module, kind = load_model(folder, dtype=torch.float64)[0], predictor_in(folder)
    assert isinstance(kind, SpeechWriter)
    free, texts, freely = replace(kind, never=[], never_first=[]), set(), set()
    for language in (None, *LANGUAGES) if several else (None,):
        said = {} if language is None else {"language": language}
        for wave in waves()[: 2 if several else 4]:
            ids, text = written_by_theirs(folder, wave, mels, **said, **({"task": "transcribe"} if several else {}))
            best = kind.predict([module], [wave], kind.settings.read(said))[0][0]
            assert best.text == text
            texts.add(text)
            assert not {*ids} & {*NEVER}
            freely.add(free.predict([module], [wave], kind.settings.read(said))[0][0].text)
    assert len(texts) > 1 and freely != texts


def test_what_a_folder_says_of_writing(theirs: Path, tmp_path: Path) -> None:
    opening = opening_of(load(theirs))
    assert opening is not None
    named = {name: number for number, name in enumerate(load(theirs).names)}
    assert opening.begin == [named[f"<|{name}|>"] for name in ("startoftranscript", "transcribe", "notimestamps")]
    assert opening.languages == {name: named[f"<|{name}|>"] for name in LANGUAGES}
    assert opening.never == NEVER
    assert opening.never_first == [*load(theirs).encode("!"), named["<|endoftext|>"]]
    kind: Any = predictor_in(theirs)
    assert kind.opening("de") == [opening.begin[0], named["<|de|>"], *opening.begin[1:]]
    one = opening_of(load(write_folder(tmp_path / "one", several=False)))
    assert one is not None and one.languages == {} and named["<|transcribe|>"] not in one.begin
    assert one.begin == [named["<|startoftranscript|>"], named["<|notimestamps|>"]]


@pytest.mark.parametrize(("change", "said"), [
    ({"n_fft": 512}, "n_fft is 512, and the model's text reads 400"),
    ({"chunk_length": 30}, "chunk_length is 30, and the model's text reads 2"),
    ({"feature_size": 128}, "feature_size is 128, and the model's text reads 80"),
    ({"do_normalize": True}, "do_normalize and dither change a sound"),
    ({"feature_extractor_type": "SpeechT5FeatureExtractor"}, "SpeechT5FeatureExtractor makes other numbers of sound"),
    (None, "preprocessor_config.json is not there"),
])  # fmt: skip
def test_other_numbers_of_sound_are_refused(
    change: dict[str, Any] | None, said: str, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "other"
    shutil.copytree(theirs, folder)
    path = folder / "preprocessor_config.json"
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.warns(UserWarning, match=said):
        assert predictor_in(folder) is None
    file = str(write_sound(tmp_path / "one.wav", tones("a")))
    assert main(["transcribe", str(folder), file]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def run(theirs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    write_tones(folder, 80, longest=2, blanks=0.4)
    train(init_from=str(theirs), data=str(folder / "tones.tsv"), language="de", steps=80, batch=8, split=0.1,
          speed=0.1, out=str(folder / "run"), **HOW)  # fmt: skip
    return folder / "run"


def test_a_folder_is_trained_and_goes_back(run: Path, theirs: Path, tmp_path: Path) -> None:
    """Of the folder that is written, transformers makes the logits and the texts of the run."""
    kind: Any = predictor_in(run / "best")
    assert kind.padded == SECONDS * 16_000 and kind.language == "de" and kind.blank
    assert kind.tokenizer.identity == load(theirs).identity
    back = export(run, tmp_path / "back", to="transformers")
    assert isinstance(back, Path)
    for name in ("tokenizer.json", "preprocessor_config.json"):
        ours, own = (json.loads((folder / name).read_text()) for folder in (back, theirs))
        assert {key: ours.get(key) for key in own} == own, name
    heard = transformers.WhisperFeatureExtractor.from_pretrained(back)
    assert heard.feature_size == 80 and heard.n_samples == SECONDS * 16_000
    model, _ = opened_by_theirs(back)
    module = load_model(run / "best", dtype=torch.float64)[0]
    texts = set()
    for wave in waves():
        tokens = torch.tensor([[*kind.opening(), *kind.ids("ab c")]])
        with torch.no_grad():
            made = module(audio=kind.fill(wave[None].double()), tokens=tokens)
            expected = model(features(wave), decoder_input_ids=tokens, use_cache=False).logits
        assert (made - expected).abs().max() < 1e-9
        ids, text = written_by_theirs(back, wave)  # the language is in generation_config.json
        best = kind.predict([module], [wave], kind.settings())[0][0]
        assert best.text == text
        more = {"ends": [kind.end], "never": kind.never, "never_first": kind.never_first, "usual": 19}
        (found,) = searched([module], [kind.opening()], [kind.fill(wave)], SearchSettings(beam=1), **more)
        assert found[0].tokens == [n for n in ids if n != kind.end]
        texts.add(text)
    assert len(texts) > 1
    again: Any = predictor_in(back)
    assert again.language == "de" and again.begin == kind.begin and again.never_first == kind.never_first


def test_transcripts_of_training_begin_as_whisper_has_them(run: Path) -> None:
    """The loss is that of the transcript and its end; the tokens before them are given."""
    kind: Any = predictor_in(run / "best")
    (row,) = kind.encode([waves()[0]])
    batch = kind.batch([row, row], [torch.tensor(kind.ids("ab c")), torch.tensor(kind.ids("d"))])
    opening = kind.opening()
    assert batch.inputs["tokens"][0].tolist() == [*opening, *kind.ids("ab c")[:-1]]
    assert batch.targets[0].tolist() == [-100] * (len(opening) - 1) + kind.ids("ab c")
    assert kind.tokenizer.decode(kind.ids("ab c")) == " ab c"
    filled = kind.filled(batch)
    assert filled.inputs["audio"].shape == (2, SECONDS * 16_000) and "audio" not in filled.lengths


def test_a_language_must_be_one_that_the_tokens_name(theirs: Path, run: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"init_from": str(theirs), "data": str(run.parent / "tones.tsv"), "out": str(tmp_path / "no")}
    with pytest.raises(InputError, match="begins with the token of its language; say which it is, one of: de, en"):
        train(**how, **HOW)
    with pytest.raises(InputError, match="language=fr: the tokens of transcripts name others: de, en"):
        train(language="fr", **how, **HOW)
    with pytest.raises(InputError, match="language=fr: the tokens of transcripts name others"):
        Model.from_folder(theirs).predict(waves()[0], language="fr")


def test_a_model_that_hears_sounds_of_any_length_leaves_with_a_note(run: Path, tmp_path: Path) -> None:
    """Its folder is one of Whisper's weights, and says no more than these."""
    how: dict[str, Any] = {"data": str(run.parent / "tones.tsv"), "steps": 1, **SMALL}
    train("whisper", task="speech-recognition", vocab=6, out=str(tmp_path / "run"), **how)
    with pytest.warns(UserWarning, match="transformers pads sounds to one length"):
        out = Path(export(tmp_path / "run", tmp_path / "out", to="transformers"))
    assert not (out / "preprocessor_config.json").exists()
    with pytest.warns(UserWarning, match=r"its tokenizer has no <\|startoftranscript\|>"):
        assert predictor_in(out) is None


def test_a_classifier_of_whispers_kind_is_not_read_as_one_of_any_length(theirs: Path, run: Path) -> None:
    how: dict[str, Any] = {"data": str(run.parent / "tones.tsv"), "steps": 1, **HOW}
    with pytest.raises(CheckpointError, match="makes other numbers of sound than its samples"):
        train(init_from=str(theirs), task="audio-classification", out=str(run.parent / "labels"), **how)
    from transformula.tasks.sounds import heard_by_others

    assert heard_by_others(theirs, spectrum=True) == (16_000, False)
    with pytest.raises(CheckpointError, match="makes other numbers of sound than its samples"):
        heard_by_others(theirs)


@pytest.mark.slow
def test_an_exported_program_writes_the_same(run: Path, tmp_path: Path) -> None:
    """The script beside it is held to the predictor when it is written."""
    out = Path(export(run, tmp_path / "out", to="torch-export"))
    said = json.loads((out / "pipeline.json").read_text())
    kind: Any = predictor_in(run / "best")
    assert said["begin"] == kind.opening() and said["never"] == NEVER and said["padded"] == SECONDS * 16_000
    assert {"predict.py", "runtime.py", "sound_steps.py"} <= {path.name for path in out.iterdir()}
