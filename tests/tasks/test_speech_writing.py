"""Speech recognition by an encoder and a decoder: alike alone, in a batch and in windows; what is searched for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tasks.tones import SMALL, goes_on_bit_for_bit, tones, write_sound, write_tones
from transformula import Model, evaluate, train
from transformula.api.inputs import predictor_in
from transformula.api.reading import check_model
from transformula.cli import main
from transformula.errors import ConfigError, DataError, InputError
from transformula.tasks.base import tasks
from transformula.tasks.speech_recognition import SpeechRecognition
from transformula.tasks.speech_windows import SpokenText, joined_windows, quietest
from transformula.tasks.speech_writing import SpeechWriter

TEXT = """\
language: 1
name: small-whisper
depth: 1
width: 16
heads: 2
encoder:
  causal: false
  before: |
    m = gelu(conv.one(logmel(audio, 20), 3, width))
    x = gelu(conv.two(m, 3, stride=4))
    x = x + sinusoids(x)
  layer: |
    x = x + attention(norm(x))
    x = x + mlp(norm(x))
  after: x = norm(x)
decoder:
  before: x = embed.words(tokens) + positions(tokens)
  layer: |
    x = x + attention(norm(x))
    x = x + attention(norm(x), memory)
    x = x + mlp(norm(x))
  after: x = norm(x)
output: logits = unembed.words(x)
"""
PADDED = TEXT.replace("sinusoids(x)", "positions(x, rows=50)")  # 50 positions of 640 samples: 2 seconds


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_tones(tmp_path, 60, longest=4, blanks=0.4)
    return tmp_path / "tones.tsv"


def made(data: Path, text: str = TEXT, stated: tuple[str, ...] = (), **settings: Any) -> SpeechRecognition:
    read = tasks.get("speech-recognition").settings.read({"data": str(data), "split": 0.2, **settings})
    architecture = check_model(text)
    numbers = SpeechRecognition.numbers_of(architecture, stated)
    return SpeechRecognition.make(read, numbers, inputs=tuple(architecture.inputs), batch=8)


def module_for(task: SpeechRecognition, text: str = TEXT) -> Any:
    """A model with random weights that make it sure of something, in float64."""
    module = Model(text, seed=3, **task.numbers).module.double().eval()
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.6 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def sounds(*texts: str) -> list[torch.Tensor]:
    return [torch.from_numpy(tones(text, seed)) for seed, text in enumerate(texts)]


@pytest.mark.parametrize("text", [TEXT, PADDED], ids=["of any length", "padded"])
def test_a_row_is_the_same_alone_and_beside_longer_ones(text: str, data: Path) -> None:
    """Its loss, and what is written for it by greedy and by beam search."""
    task = made(data, text)
    module, side, kind = module_for(task, text), task.data.training, task.data.kind
    sizes = [row.samples for row in side.rows]
    shortest, longest = sizes.index(min(sizes)), sizes.index(max(sizes))
    assert (kind.padded == 50 * 640) == (text == PADDED)

    def sums(rows: list[int]) -> float:
        batch = kind.filled(side.batch(rows))
        given = {**batch.inputs, "audio": batch.inputs["audio"].double(), "lengths": dict(batch.lengths)}
        with torch.no_grad():
            return float(task.objective(module(**given), batch)) * task.terms(batch.targets)

    assert sums([shortest, longest]) == pytest.approx(sums([shortest]) + sums([longest]), rel=1e-9)
    inputs = [side.records[row] for row in (shortest, longest)]
    for beam in (1, 3):
        settings = kind.settings(beam=beam)
        together = kind.predict([module], inputs, settings)
        alone = [kind.predict([module], [each], settings)[0] for each in inputs]
        assert [best[0].text for best in together] == [best[0].text for best in alone]
        assert [best[0].score for best in together] == pytest.approx([best[0].score for best in alone], abs=1e-9)
    assert together[0][0].text != together[1][0].text


def test_what_is_written_is_what_whole_passes_write(data: Path) -> None:
    """Greedily: the likeliest token each time; the score is the mean of log probabilities. A beam finds no less."""
    task = made(data)
    module, kind = module_for(task), task.data.kind
    for wave in sounds("a", "cab d", "bb"):
        written, total = [], 0.0
        while len(kind.begin) + len(written) <= kind.most and kind.end not in written:
            with torch.no_grad():
                logits = module(audio=wave[None].double(), tokens=torch.tensor([[*kind.begin, *written]]))
            logs = logits[0, -1].log_softmax(-1)
            total, written = total + float(logs.max()), [*written, int(logs.argmax())]
        best = kind.predict([module], [wave], kind.settings())[0][0]
        if written[-1] == kind.end:
            assert best.text == kind.tokenizer.decode(written[:-1]).strip()
            assert best.score == pytest.approx(total / len(written), abs=1e-6)
        several = kind.predict([module], [wave], kind.settings(beam=6, n_best=3))[0]
        assert len(several) == 3 and several[0].score >= best.score - 1e-9
        assert [each.score for each in several] == sorted((each.score for each in several), reverse=True)


def test_a_long_sound_is_read_in_windows_that_meet_where_it_is_quiet(data: Path) -> None:
    """Three sounds with silence between them are what each is alone."""
    task = made(data, PADDED)
    module, kind = module_for(task, PADDED), task.data.kind
    parts, gap = sounds("ab c", "d", "cab"), torch.zeros(6_000)
    whole = torch.cat([torch.cat([part, gap]) for part in parts])
    settings = kind.settings(window=1.1)
    spans = kind.windows(kind.encode([whole])[0], settings)
    assert spans[0][0] == 0 and spans[-1][1] == len(whole)
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(spans))
    assert all(0 < end - start <= 1.1 * kind.rate for start, end in spans)
    for _, end in spans[:-1]:
        assert whole[end - 800 : end + 800].abs().max() == 0, "a tone was cut"
    best = kind.predict([module], [whole], settings)[0][0]
    alone = [kind.predict([module], [whole[start:end]], settings)[0][0] for start, end in spans]
    assert best.text == " ".join(each.text for each in alone)
    seconds = [each / kind.rate for span in spans for each in span]
    assert [time for each in best.windows for time in (each.start, each.end)] == pytest.approx(seconds, abs=1e-3)
    assert len(kind.windows(kind.encode([whole])[0], kind.settings())) == 2, "as long as the model hears"


def test_the_quietest_place_is_found() -> None:
    wave = torch.ones(1_000)
    wave[420:470] = 0.1
    assert quietest(wave, 100, 900, 50) == 445
    assert 100 + 25 <= quietest(torch.ones(1_000), 100, 900, 50) <= 875


def test_the_best_of_several_windows_are_those_with_the_highest_sum() -> None:
    parts = [[SpokenText("a", -0.1), SpokenText("b", -0.5)], [SpokenText("c", -0.2), SpokenText("d", -0.3)]]
    best = joined_windows(parts, [(0, 16_000), (16_000, 24_000)], 16_000, 3)
    every = sorted(itertools.product(*parts), key=lambda pair: -sum(each.score for each in pair))[:3]
    assert [each.text for each in best] == [" ".join(one.text for one in pair) for pair in every]
    assert best[0].score == pytest.approx(-0.15) and best[0].windows[1].start == 1.0


def test_what_only_ctc_has_is_refused(data: Path, tmp_path: Path) -> None:
    task = made(data, PADDED)
    kind, (wave,), module = task.data.kind, sounds("a"), module_for(task, PADDED)
    mistakes: dict[str, dict[str, Any]] = {
        "ngrams: is for models that say a symbol at each position": {"ngrams": "texts.txt", "beam": 4},
        "window_overlap: is for models": {"window_overlap": 0.1},
        "name no language; leave it out": {"language": "en"},
        "the model hears 2 s at once": {"window": 3.0},
    }
    for said, settings in mistakes.items():
        with pytest.raises(InputError, match=said):
            kind.predict([module], [wave], kind.settings(**settings))


def test_what_only_a_decoder_has_is_refused_for_ctc(data: Path) -> None:
    how: dict[str, Any] = {"task": "speech-recognition", "data": str(data), **SMALL}
    for key, value in (("tokenizer", "bpe"), ("language", "en")):
        with pytest.raises(InputError, match=f"{key}={value}: is for an encoder and a decoder that writes tokens"):
            train("pre-norm", **{key: value}, **how)
    with pytest.raises(InputError, match="sees the answers"):
        train(TEXT.replace("decoder:\n", "decoder:\n  causal: false\n"), **how)
    with pytest.raises(InputError, match="tokens of this model's transcripts name no language"):
        made(data, language="en")


def test_what_does_not_fit_is_refused_with_its_place(data: Path) -> None:
    with pytest.raises(ConfigError, match="the longest transcript has 8 tokens, those before it and its end included"):
        made(data, TEXT.replace("depth", "context: 7\ndepth"), stated=("context",))
    with pytest.raises(DataError, match=r"sounds are longer than the 0.4 s that it hears.*longest=0.4"):
        made(data, PADDED.replace("rows=50", "rows=10"))
    with pytest.raises(ConfigError, match="vocab: the model says 3, and the tokenizer has 6"):
        made(data, TEXT.replace("depth", "vocab: 3\ndepth"), stated=("vocab",))


def test_a_text_of_two_stacks_needs_no_output_of_its_own(data: Path, tmp_path: Path) -> None:
    """Its tokens are written by the table that reads them."""
    text = "\n".join(TEXT.splitlines()[:-1])
    how: dict[str, Any] = {"data": str(data), "split": 0.2, "batch": 8, "threads": 1, "precision": "float32"}
    run = train(text, task="speech-recognition", steps=1, out=str(tmp_path / "run"), **how)
    assert isinstance(predictor_in(run.folder / "best"), SpeechWriter)


def test_tokens_of_other_kinds(data: Path) -> None:
    for name, kind in (("auto", "characters"), ("bpe", "bpe"), ("bytes", "bytes")):
        writer = made(data, tokenizer=name).data.kind
        assert writer.tokenizer.kind == kind
        assert writer.tokenizer.decode(writer.ids("ab c")[:-1]) == "ab c" and writer.ids("ab c")[-1] == writer.end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    write_tones(folder, 160, longest=2, blanks=0.4)
    train(TEXT, task="speech-recognition", data=str(folder / "tones.tsv"), steps=150, batch=16, split=0.1,
          out=str(folder / "run"), **SMALL)  # fmt: skip
    return folder / "run"


def test_from_files_to_transcripts(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model.from_folder(run)
    row = evaluate(run).data["scores"]["word error rate"]
    assert row["score"] < 40 < row["baselines"]["constant"]
    texts = ["a b", "dc", "b"]
    files = [str(write_sound(tmp_path / f"{n}.flac", tones(text, n + 5))) for n, text in enumerate(texts)]
    assert model.predict(files) == texts
    assert model.predict(files, beam=4) == texts
    assert main(["transcribe", str(run), *files, "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in rows] == texts
    assert all(row["windows"][0]["start"] == 0 and len(row["windows"]) == 1 for row in rows)
    assert main(["transcribe", str(run), files[0], "--ngrams", files[0], "--beam", "8"]) == 2
    assert "is for models that say a symbol at each position (CTC)" in capsys.readouterr().err
    wave = np.concatenate([part for n, text in enumerate(texts) for part in (tones(text, n + 5), np.zeros(3_000))])
    longer = model.predict(torch.from_numpy(wave.astype(np.float32)), scores=True)
    assert len(longer.windows) > 1 and longer.text == " ".join(each.text for each in longer.windows)


def test_an_evaluation_says_what_a_search_finds_beside_the_greedy_one(run: Path) -> None:
    asked = evaluate(run, beam=3, window=1.0).data["asked_search"]
    assert asked["settings"] == {"beam": 3, "window": 1.0}
    assert asked["word_error_rate"]["best_path"] == evaluate(run).data["scores"]["word error rate"]["score"]
    with pytest.raises(InputError, match="lm: is for models that say a symbol at each position"):
        evaluate(run, beam=3, lm=str(run))


def test_the_predictor_of_a_folder_is_that_of_its_run(run: Path) -> None:
    kind: Any = predictor_in(run / "best")
    assert isinstance(kind, SpeechWriter)
    assert kind.alike() == predictor_in(run / "best").alike()  # type: ignore[union-attr]
    assert kind.tokenizer.kind == "characters" and kind.padded == 0 and kind.written == 4


@pytest.mark.parametrize("text", [TEXT, PADDED], ids=["of any length", "padded"])
def test_a_run_goes_on_bit_for_bit(text: str, data: Path, tmp_path: Path) -> None:
    goes_on_bit_for_bit(tmp_path, text, task="speech-recognition", data=str(data))
