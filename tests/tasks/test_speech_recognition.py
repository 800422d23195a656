"""Speech recognition: files to transcripts, alike alone, in a batch and in windows; and what damages data of sound."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tasks.tones import PAUSE, SECONDS, SMALL, goes_on_bit_for_bit, tones, write_sound, write_tones
from transformula import Model, evaluate, train
from transformula.api.inputs import predictor_in
from transformula.cli import main
from transformula.data.records import Record
from transformula.errors import DataError, InputError
from transformula.interop.folder import save_model
from transformula.tasks.base import tasks
from transformula.tasks.speech_recognition import SpeechRecognition, most_frequent, spelled
from transformula.tasks.transcripts import places_of
from transformula.tasks.verb import TranscribeSettings
from transformula.tasks.window_report import windows_beside_whole

BEFORES = {
    "frames and strides": "x = conv.two(gelu(conv.one(logmel(audio, 40), 3, width, stride=2)), 3, stride=3)",
    "samples": "x = gelu(conv.one(frames(audio, 40, hop=20), 4, width, stride=4, padding='valid'))",
}
FINITE = {"layer": "x = x + gelu(conv(x, 5))", "before": BEFORES["samples"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_tones(tmp_path, 60, longest=4, blanks=0.4)
    return tmp_path / "tones.tsv"


def made(data: Path, numbers: dict[str, int] | None = None, **settings: Any) -> SpeechRecognition:
    read = tasks.get("speech-recognition").settings.read({"data": str(data), "split": 0.2, **settings})
    numbers = {"first_sample": 159, "samples_a_position": 640} if numbers is None else numbers
    return SpeechRecognition.make(read, numbers, inputs=("audio",), batch=8)


def notes(task: Any) -> str:
    return "\n".join(task.preview().data["notes"])


def respelled(line: str, text: str) -> str:
    """A row of the table with another transcript."""
    path, label, _, speaker = line.split("\t")
    return "\t".join([path, label, text, speaker])


def model_for(task: SpeechRecognition, **text: Any) -> Model:
    keys = {**SpeechRecognition.model, **text}
    layer = keys.pop("layer", "pre-norm")
    return Model(layer, depth=2, width=16, heads=2, seed=3, **{**keys, **task.numbers})


@pytest.mark.parametrize("before", BEFORES)
def test_positions_are_those_that_the_model_makes(before: str, data: Path) -> None:
    model = model_for(made(data), before=BEFORES[before])
    places = places_of(model.architecture)
    assert places is not None
    kind = made(data, {"first_sample": places[0], "samples_a_position": places[1]}).data.kind
    for samples in (1600, 1601, 1759, 1760, 4799, 4800, 4801, 7777):
        assert model.module.eval()(audio=torch.randn(1, samples)).shape[1] == kind.positions(samples), samples


@pytest.mark.parametrize("before", BEFORES)
def test_a_row_is_the_same_alone_and_beside_longer_ones(before: str, data: Path) -> None:
    """Its loss and its transcript: padding says nothing."""
    text = model_for(made(data), before=BEFORES[before])
    places = places_of(text.architecture)
    assert places is not None
    task = made(data, {"first_sample": places[0], "samples_a_position": places[1]})
    module, side = text.module.double().eval(), task.data.training
    shortest, longest = int(side.lengths.argmin()), int(side.lengths.argmax())

    def sums(rows: list[int]) -> float:
        """The loss of rows, not divided by their symbols."""
        batch = side.batch(rows)
        given = {"audio": batch.inputs["audio"].double(), "lengths": dict(batch.lengths)}
        with torch.no_grad():
            return float(task.objective(module(**given), batch)) * task.terms(batch.targets)

    assert sums([shortest, longest]) == pytest.approx(sums([shortest]) + sums([longest]), rel=1e-5)
    kind, module = task.data.kind, text.module.float()
    inputs = [side.records[row] for row in (shortest, longest)]
    together = kind.predict([module], inputs, kind.settings())
    alone = [kind.predict([module], [each], kind.settings())[0] for each in inputs]
    assert [best[0].text for best in together] == [best[0].text for best in alone]
    assert [best[0].words for best in together] == [best[0].words for best in alone]
    assert [best[0].score for best in together] == pytest.approx([best[0].score for best in alone], abs=1e-5)


def test_windows_are_the_whole_for_a_model_that_sees_no_further(data: Path) -> None:
    """Two convolutions of five positions see 4 on each side: windows that share 8 or more change nothing."""
    model = model_for(made(data), **FINITE)
    places = places_of(model.architecture)
    assert places is not None
    kind = made(data, {"first_sample": places[0], "samples_a_position": places[1]}).data.kind
    position = kind.step / kind.rate
    for samples in (32_000, 32_077, 40_001, 9_000):
        sound = torch.randn(samples) * 0.1
        whole = kind.predict([model.module.eval()], [sound], kind.settings(window=60.0))[0][0]
        for window, shared in ((0.5, 0.2), (0.7, 8 * position), (1.0, 0.5)):
            settings = kind.settings(window=window, window_overlap=shared)
            assert len(kind.windows(samples, settings)) > 1 or samples == 9_000
            parts = kind.predict([model.module], [sound], settings)[0][0]
            assert parts.text == whole.text and parts.words == whole.words
            assert parts.score == pytest.approx(whole.score, abs=1e-6)
    torn = kind.predict([model.module], [sound.repeat(4)], kind.settings(window=0.5, window_overlap=0.0))[0][0]
    sewn = kind.predict([model.module], [sound.repeat(4)], kind.settings(window=0.5, window_overlap=0.2))[0][0]
    assert abs(torn.score - sewn.score) > 1e-6, "without an overlap the edges of windows would be heard"


def test_an_evaluation_says_what_windows_change(run: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This model attends: nothing but a measurement bounds what windows change."""
    found = evaluate(run, window=0.5, window_overlap=0.25)
    windows, plain = found.data["windows"], evaluate(run).data
    assert 0 < windows["sounds"] <= windows["of"] and windows["positions"] > 3 * windows["sounds"]
    assert windows["differ"] <= 2.5, "percent, and no word is another; a quarter of it is found"
    assert windows["word_error_rate"]["windows"] == windows["word_error_rate"]["whole"]
    torn = evaluate(run, window=0.5, window_overlap=0.0).data["windows"]
    assert torn["differ"] > max(2.5, windows["differ"]), "windows that share nothing"
    assert windows["word_error_rate"]["whole"] == pytest.approx(plain["scores"]["word error rate"]["score"])
    assert "windows" not in plain
    whole = evaluate(run, window=60.0).data["windows"]
    assert whole["sounds"] == whole["positions"] == whole["differ"] == 0
    assert main(["evaluate", str(run), "--window", "0.5"]) == 0
    assert re.search(r"windows of 0.5 s: \d+ of \d+ sounds are longer; of their \d+ positions", capsys.readouterr().out)
    for how, said in {("--window-overlap", "0.2"): "none are chosen; add window", ("--window", "0.1"): "window",
                      ("--window", "2", "--window-overlap", "1.5"): "more than half of window"}.items():  # fmt: skip
        assert main(["evaluate", str(run), *how]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(("layer", "bound"), [(FINITE["layer"], 0), ("pre-norm", 100)])
def test_windows_change_nothing_for_a_model_that_sees_no_further(layer: str, bound: int, data: Path) -> None:
    model = model_for(made(data), layer=layer, before=BEFORES["samples"])
    places = places_of(model.architecture)
    assert places is not None
    task = made(data, {"first_sample": places[0], "samples_a_position": places[1]})
    settings = TranscribeSettings(window=0.5, window_overlap=0.25)
    found = windows_beside_whole(task.data.kind, [model.module.eval()], task.data.validation.records, settings)
    assert found.sounds[0] > 3 and found.positions > 50
    assert found.share <= bound and (found.share > 0) == (bound > 0)
    torn = TranscribeSettings(window=0.5, window_overlap=0.0)
    at_edges = windows_beside_whole(task.data.kind, [model.module.eval()], task.data.validation.records, torn)
    assert at_edges.share > 0, "windows that share nothing are heard at their edges"


def test_windows_say_every_position_once(data: Path) -> None:
    kind = made(data).data.kind
    for window, shared in ((1.0, 0.3), (0.5, 0.25), (2.0, 0.0), (0.7, 0.1)):
        for samples in range(16_000, 90_000, 1_777):
            spans = kind.windows(samples, kind.settings(window=window, window_overlap=shared))
            said = [place for _, _, first, last in spans for place in range(first, last)]
            assert said == list(range(kind.positions(samples)))
            assert all(start <= first < last <= end for start, end, first, last in spans)


def test_symbols_come_from_training_and_others_are_counted(data: Path, tmp_path: Path) -> None:
    lines = data.read_text().splitlines()
    (tmp_path / "other.tsv").write_text("\n".join([lines[0], *(respelled(line, "é") for line in lines[1:8])]))
    (tmp_path / "one.tsv").write_text("\n".join([lines[0], *lines[8:]]))
    task = made(tmp_path / "one.tsv", validation=str(tmp_path / "other.tsv"))
    assert task.data.kind.symbols == [" ", "a", "b", "c", "d"] and task.numbers["vocab"] == 6
    assert "the validation rows have characters that no training transcript has" in notes(task)
    assert "'é'" in notes(task)


def test_transcripts_that_are_too_long_are_counted(data: Path, tmp_path: Path) -> None:
    lines = data.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("7."))
    lines[place] = respelled(lines[place], "ab" * 60)
    data.write_text("\n".join(lines))
    task = made(data)
    side = "validation" if any("ab" * 60 == row["text"] for row in task.data.validation.records) else "training"
    if not any("ab" * 60 == row["text"] for row in task.data.source.test):
        assert f"1 of {len(getattr(task.data, side)):,} {side} transcripts have more symbols than" in notes(task)
        assert f"tones.tsv:{place + 1}" in notes(task)
    assert torch.isfinite(task.loss(model_for(task).module, task.batch(0)))
    data.write_text("\n".join([lines[0], *(respelled(line, "abcd" * 99) for line in lines[1:])]))
    with pytest.raises(DataError, match="every training transcript, such as that of .* is longer than its sound has"):
        made(data)


@pytest.mark.parametrize(("how", "expected"), [
    ({}, "“Don't,” she SAID – é!"), ({"lower": True}, "“don't,” she said – é!"),
    ({"punctuation": False}, "Don't she SAID é"), ({"punctuation": False, "lower": True}, "don't she said é"),
])  # fmt: skip
def test_how_transcripts_are_spelled(how: dict[str, Any], expected: str) -> None:
    settings: Any = tasks.get("speech-recognition").settings.read(how)
    assert spelled("  “Don't,” she \t SAID – e\u0301! ", settings) == expected


def test_rows_without_a_transcript_are_counted(data: Path) -> None:
    lines = data.read_text().splitlines()
    for place, text in ((3, ""), (5, "!?")):
        lines[place] = respelled(lines[place], text)
    data.write_text("\n".join(lines))
    said = notes(made(data, punctuation=False))
    assert "(text 1; first:" in said and "1 of 59 transcripts have nothing but punctuation: left out" in said


def test_the_baseline_is_the_most_frequent_transcript() -> None:
    rows = [Record({"text": text}) for text in ("a", "b c", "b c")]
    found = most_frequent(rows, rows[:2])
    assert found is not None and [each.text for each in found] == ["b c", "b c"]
    assert most_frequent([], rows) is None


def test_other_models_are_refused(data: Path) -> None:
    how: dict[str, Any] = {"task": "speech-recognition", "data": str(data), **SMALL}
    with pytest.raises(InputError, match="each position says a symbol.*logits = linear\\(x, vocab\\)"):
        train("pre-norm", output="logits = linear(mean(x), vocab)", **how)
    with pytest.raises(InputError, match="this one reads tokens"):
        train("pre-norm", before="x = embed.words(tokens)", **how)
    with pytest.raises(InputError, match="the transcripts have 5 symbols, beside the blank, and the output 5"):
        train("pre-norm", output="logits = linear(x, 5)", **how)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    write_tones(folder, 160, longest=4, blanks=0.4)
    train("pre-norm", task="speech-recognition", data=str(folder / "tones.tsv"), steps=150, batch=16, split=0.1,
          out=str(folder / "run"), **SMALL)  # fmt: skip
    return folder / "run"


def test_from_files_to_transcripts_with_times(run: Path, tmp_path: Path) -> None:
    model = Model.from_folder(run)
    report = evaluate(run).data
    row = report["scores"]["word error rate"]
    assert row["score"] < 20 < row["baselines"]["constant"]
    assert {each["speaker"] for each in report["by_speaker"]} <= {f"s{number}" for number in range(6)}
    wave = tones("ab c", 5, 32_000)
    file = write_sound(tmp_path / "new.flac", np.stack([wave, wave], 1), 32_000)
    answer = model.predict(str(file), scores=True)
    assert answer.text == "ab c" and [word.text for word in answer.words] == ["ab", "c"]
    # the second word begins behind two tones, their gaps and the pause; a tone is up to a fifth longer or shorter
    first = 0.03 + 2 * (SECONDS * np.random.default_rng(5).uniform(0.8, 1.2) + 0.03) + PAUSE
    assert abs(answer.words[1].start - first) < 0.15
    assert model.predict(torch.from_numpy(tones("ab c", 5)), beam=8) == "ab c"


def test_the_verb_and_its_mistakes(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        write_sound(tmp_path / f"{name}.wav", tones({"one": "a b", "two": "dc"}[name], 9))
    (tmp_path / "list.tsv").write_text("path\tid\none.wav\tx\ntwo.wav\ty\n")
    (tmp_path / "texts.txt").write_text("a b\ndc\n")
    files = [str(tmp_path / f"{name}.wav") for name in ("one", "two")]
    assert main(["transcribe", str(run), *files]) == 0
    assert capsys.readouterr().out == "a b\ndc\n"
    listed = ["--input", str(tmp_path / "list.tsv"), "--column", "path", "--format", "jsonl"]
    assert main(["transcribe", str(run), *listed, "--beam", "8", "--ngrams", str(tmp_path / "texts.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["text"], len(row["words"])) for row in rows] == [("x", "a b", 2), ("y", "dc", 1)]
    mistakes = {
        "there is no such file of sound": [str(tmp_path / "gone.wav")],
        "ask for a beam": [files[0], "--ngrams", str(tmp_path / "texts.txt")],
        "more than beam": [files[0], "--n-best", "4"],
        "more than half of window": [files[0], "--window", "2", "--window-overlap", "1.5"],
        "there is no such file": [files[0], "--beam", "4", "--ngrams", str(tmp_path / "gone.txt")],
        "--language en: the tokens of this model's transcripts name no language": [files[0], "--language", "en"],
    }
    for said, arguments in mistakes.items():
        assert main(["transcribe", str(run), *arguments]) == 2
        assert said in capsys.readouterr().err


def test_ngrams_decide_between_what_is_heard_alike(run: Path, tmp_path: Path) -> None:
    """Where nothing is heard in a sound, the n-grams alone say what is written."""
    kind: Any = predictor_in(run / "best")
    place = 1 + kind.symbols.index("a")
    logits = torch.full((3, len(kind.symbols) + 1), -30.0)
    logits[0, [place, place + 1]] = torch.tensor([2.0, 1.9])
    logits[1:, 0] = 2.0
    sound = torch.zeros(3 * kind.step)
    for text, expected in (("a\n", "a"), ("b\n", "b")):
        (tmp_path / "texts.txt").write_text(text * 20)
        settings = kind.settings(beam=4, ngrams=str(tmp_path / "texts.txt"), ngram_weight=1.0)
        assert kind.answers([sound], [logits], settings)[0][0].text == expected
    (tmp_path / "texts.txt").write_text("\n \n")
    with pytest.raises(DataError, match="has no texts whose n-grams could be counted"):
        kind.answers([sound], [logits], settings)


def test_a_run_goes_on_bit_for_bit(data: Path, tmp_path: Path) -> None:
    goes_on_bit_for_bit(tmp_path, task="speech-recognition", data=str(data))


@pytest.mark.slow
def test_an_exported_model_says_the_same(run: Path, tmp_path: Path) -> None:
    from transformula.api.exporting import export

    out = export(run, tmp_path / "out", to="torch-export")
    said = json.loads((out / "pipeline.json").read_text())
    assert said["symbols"] == [" ", "a", "b", "c", "d"] and said["rate"] == 16_000
    assert {"predict.py", "runtime.py", "sound_steps.py"} <= {path.name for path in out.iterdir()}


def test_models_answer_together_where_they_say_the_same(run: Path, data: Path, tmp_path: Path) -> None:
    model = Model.from_folder(run)
    assert predictor_in(run / "best").alike() == predictor_in(run / "best").alike()
    task = made(data, {"first_sample": 0, "samples_a_position": 320})
    save_model(tmp_path / "other", model_for(task).module, task.predictor().save)
    with pytest.raises(InputError, match="models answer together that read and say the same"):
        predictor_in(run / "best").check_alike(predictor_in(tmp_path / "other"), "other")
    assert model.predict(torch.from_numpy(tones("a", 5)))


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small wav2vec 2.0 with the letters of the tones, as transformers writes it."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("theirs")
    signs = ["<pad>", "<s>", "</s>", "<unk>", "|", "a", "b", "c", "d"]
    (folder / "vocab.json").write_text(json.dumps({sign: number for number, sign in enumerate(signs)}))
    torch.manual_seed(5)
    config = transformers.Wav2Vec2Config(
        vocab_size=len(signs), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        conv_dim=[16, 16], conv_kernel=[10, 8], conv_stride=[10, 16], num_feat_extract_layers=2, conv_bias=True,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, feat_extract_norm="layer", pad_token_id=0,
        do_stable_layer_norm=True, initializer_range=0.5,
    )  # fmt: skip
    model = transformers.Wav2Vec2ForCTC(config)
    torch.nn.init.normal_(model.lm_head.weight, std=1)
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True).save_pretrained(folder)
    return folder


def test_a_folder_of_transformers_writes_down_what_it_does_there(theirs: Path) -> None:
    transformers = pytest.importorskip("transformers")
    heard = transformers.Wav2Vec2FeatureExtractor.from_pretrained(theirs)
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(theirs / "vocab.json"))
    module, ours = transformers.Wav2Vec2ForCTC.from_pretrained(theirs).eval(), Model.from_folder(theirs)
    texts = set()
    for seed, text in enumerate(("ab c", "d", "cab ab", "a b c d")):
        wave = tones(text, seed) * 3 + 0.1
        with torch.no_grad():
            ids = module(**heard(wave, sampling_rate=16_000, return_tensors="pt")).logits[0].argmax(-1)
        said = tokenizer.decode(ids)  # with its other marks; told to skip these, it merges what a blank parts
        expected = " ".join(re.sub("</?s>|<unk>", "", said).split())
        assert ours.predict(torch.from_numpy(wave)) == expected
        texts.add(expected)
    assert len(texts) > 1 and any(texts)


def test_a_folder_of_transformers_is_trained_further(theirs: Path, data: Path, tmp_path: Path) -> None:
    """Sounds are normalized as there, and the rows of known letters are kept."""
    run = train(init_from=str(theirs), task="speech-recognition", data=str(data), steps=1, split=0.2, threads=1,
                precision="float32", out=str(tmp_path / "run"))  # fmt: skip
    kind: Any = predictor_in(run.folder / "best")
    assert kind.normalized and kind.symbols == [" ", "a", "b", "c", "d"]
    assert run.model.predict(torch.from_numpy(tones("a"))) is not None
