"""A language model in the search of a recognizer: the scores are those of the equation, whatever its tokens; and which
models are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.tasks.tones import SMALL, tones, write_sound, write_tones
from transformula import Model, evaluate, train
from transformula.api.inputs import guiding_model
from transformula.cli import main
from transformula.errors import InputError
from transformula.tasks.ctc import BLANK, Prefix, search
from transformula.tasks.ngram import MAX_ORDER, KneserNey, favor_of, grams_of
from transformula.tasks.scores.edits import word_error_rate
from transformula.tasks.speech_recognition import SpeechRecognition
from transformula.tasks.text_guide import GuidingModel, TextGuide
from transformula.tasks.writing import TextGenerator, generator_of
from transformula.tokenizers.base import tokenizers

SYMBOLS = [" ", "a", "b"]
LINES = "a b\nab a\nba\nab ab\na bb\n"


class NgramModel(nn.Module):
    """A language model over bytes that says what n-grams of some lines say; byte 0 is the end of a document."""

    def __init__(self, lines: str, end: int) -> None:
        super().__init__()
        self.counted, self.end = KneserNey(b"\0" + "\0".join(lines.splitlines()).encode() + b"\0"), end
        self.read: list[int] = []

    def forward(self, tokens: Tensor) -> Tensor:
        logits = torch.full((*tokens.shape, 257), -math.inf)
        self.read.append(tokens.shape[1])
        for row, ids in enumerate(tokens.tolist()):
            text = bytes(0 if number == self.end else number for number in ids)
            for place in range(len(text)):
                before = grams_of(text[max(0, place - 5) : place + 1])[-1] << np.uint64(8)
                grams = (before & np.uint64((1 << 48) - 1)) | np.arange(256, dtype=np.uint64)
                logs = np.log(self.counted.probabilities(grams, (MAX_ORDER,))[MAX_ORDER])
                logits[row, place, :256] = torch.from_numpy(logs)
                logits[row, place, self.end] = float(logs[0])
                if self.end:
                    logits[row, place, 0] = -math.inf
        return logits


@pytest.fixture(scope="module")
def architecture() -> Any:
    return Model("pre-norm", depth=1, width=16, heads=2, tokenizer="bytes").architecture


@pytest.fixture
def ngrams(architecture: Any) -> GuidingModel:
    kind = tokenizers.get("bytes").train(())
    assert kind.end_of_document == 256
    return GuidingModel("ngrams", NgramModel(LINES, 256), generator_of(kind), architecture)


@pytest.fixture
def lines(tmp_path: Path) -> str:
    (tmp_path / "lines.txt").write_text(LINES)
    return str(tmp_path / "lines.txt")


@pytest.fixture(scope="module")
def logs() -> np.ndarray:
    generator = torch.Generator().manual_seed(3)
    return np.asarray(torch.randn(6, 4, dtype=torch.float64, generator=generator).log_softmax(-1).numpy())


def spelled(text: str) -> Prefix:
    return tuple(1 + SYMBOLS.index(sign) for sign in text)


def plain(found: list[tuple[Prefix, float]]) -> dict[str, float]:
    """Of texts with single blanks between words, for others count as these."""
    texts = {"".join(SYMBOLS[number - 1] for number in text): value for text, value in found}
    return {text: value for text, value in texts.items() if text == " ".join(text.split())}


def test_a_text_model_and_ngrams_that_say_the_same_give_the_same_scores(
    ngrams: GuidingModel, lines: str, logs: np.ndarray
) -> None:
    """Letter by letter, and at the end: with all beginnings kept the sums are one."""
    by_ngrams = search(logs, 10**6, favor_of(lines, SYMBOLS, 0.7))
    by_letter = search(logs, 10**6, TextGuide(ngrams, SYMBOLS, 0.7))
    assert dict(by_letter) == pytest.approx(dict(by_ngrams), abs=1e-4), "of any blanks"
    for beam in (1, 3):
        assert [text for text, _ in search(logs, beam, TextGuide(ngrams, SYMBOLS, 0.7))] == [
            text for text, _ in search(logs, beam, favor_of(lines, SYMBOLS, 0.7))
        ]
    rescored = plain(search(logs, 10**6, TextGuide(ngrams, SYMBOLS, 0.7).of_texts))
    assert len(rescored) > 100 and rescored == pytest.approx(plain(by_ngrams), abs=1e-4)
    unguided = plain(search(logs, 10**6))
    counted = KneserNey(b"\0" + LINES.strip().replace("\n", "\0").encode() + b"\0")
    for text in ("", "a", "ab a", "bb"):  # the equation itself: both marks are a part of the text
        grams = grams_of(b"\0" + text.encode() + b"\0")[1:]
        likely = float(np.log(counted.probabilities(grams, (MAX_ORDER,))[MAX_ORDER]).sum())
        assert rescored[text] == pytest.approx(unguided[text] + 0.7 * likely, abs=1e-4)


def test_a_weight_of_0_is_no_model(ngrams: GuidingModel, logs: np.ndarray) -> None:
    for beam in (2, 5, 10**6):
        assert search(logs, beam, TextGuide(ngrams, SYMBOLS, 0.0)) == search(logs, beam)


def test_a_long_text_is_read_no_further_back_than_the_context(ngrams: GuidingModel) -> None:
    """Six bytes are all that these n-grams read."""
    near, far = TextGuide(ngrams, SYMBOLS, 1.0), TextGuide(ngrams, SYMBOLS, 1.0)
    near.most, far.most = 12, 10**6
    module: Any = ngrams.module
    letters = [spelled("ab a bb ba ab ab bb a"[:place]) for place in range(1, 22)]
    assert near(letters) == pytest.approx(far(letters), abs=1e-5) and near(letters)[-1] < 0
    text = (*spelled("ab a bb ba ab ab bb"), BLANK)
    module.read.clear()
    found = near.of_texts([text[:-1], text])
    assert max(module.read) == 12
    assert found == pytest.approx(far.of_texts([text[:-1], text]), abs=1e-5) and max(module.read) > 15
    assert found[0] == 0 > found[1], "texts count where they end"


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe", "unigram"])
def test_what_letters_add_is_the_text_whatever_the_tokens(kind: str) -> None:
    """The sum of what its letters, or its words, and its end add is log P of the whole text between its marks."""
    corpus = [line for line in LINES.splitlines() * 30]
    tokenizer = tokenizers.get(kind).train(corpus, 280 if kind in ("bpe", "unigram") else None)
    model = Model("pre-norm", depth=1, width=16, heads=2, tokenizer=tokenizer, seed=5)
    guide = TextGuide(GuidingModel("x", model.module.eval(), model.predictor, model.architecture), SYMBOLS, 2.0)
    for text in ("a", "ab ba", "bb a ab"):
        beginnings = [spelled(text[: end + 1]) for end in range(len(text))] + [(*spelled(text), BLANK)]
        added, at_end = guide(beginnings), guide.of_texts(beginnings)
        assert sum(added) == pytest.approx(sum(at_end), abs=1e-4) and not any(at_end[:-1])
        assert (added == at_end) == (kind in ("bpe", "unigram"))
        ids = torch.tensor([*guide.opening, *tokenizer.encode(text)])
        said = model.module(ids[None])[0].detach().log_softmax(-1).double()
        each = [float(said[place, number]) for place, number in enumerate(ids[1:])]
        assert sum(added) == pytest.approx(2 * (sum(each) + float(said[-1, guide.ends].logsumexp(0))), abs=1e-4)


def test_texts_end_by_the_mark_that_the_model_says_behind_letters(architecture: Any) -> None:
    """A model of one long text has never seen an end of a document: there a new line parts texts."""
    kind = tokenizers.get("bytes").train(())

    class Says(nn.Module):
        def __init__(self, mark: int) -> None:
            super().__init__()
            self.mark = mark

        def forward(self, tokens: Tensor) -> Tensor:
            return torch.nn.functional.one_hot(torch.full_like(tokens, self.mark), 257).float() * 3

    for mark in (10, 256):
        guide = TextGuide(GuidingModel("x", Says(mark), generator_of(kind), architecture), SYMBOLS, 1.0)
        assert (guide.opening, guide.ends) == ((mark,), [mark])
    alone = tokenizers.get("characters").train(["ab ab"])
    with pytest.raises(InputError, match="neither an end of documents nor a new line"):
        TextGuide(GuidingModel("x", Says(1), TextGenerator(alone), architecture), SYMBOLS, 1.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recognizer, and language models of its letters and of others."""
    folder = tmp_path_factory.mktemp("guides")
    write_tones(folder, 24, longest=3, blanks=0.4)
    train("pre-norm", task="speech-recognition", data=str(folder / "tones.tsv"), steps=2, batch=8, split=0.2,
          out=str(folder / "speech"), **SMALL)  # fmt: skip
    for name, text in (("lm", "ab a\nba d\nc d\n"), ("other", "xy zx\nzy x\n")):
        (folder / f"{name}.txt").write_text(text * 200)
        train("pre-norm", data=str(folder / f"{name}.txt"), steps=20, batch=4, context=16, tokenizer="characters",
              out=str(folder / name), **SMALL)  # fmt: skip
    return folder


def test_a_language_model_decides_between_what_is_heard_alike(runs: Path, architecture: Any) -> None:
    kind: Any = Model.from_folder(runs / "speech").predictor
    bytewise = tokenizers.get("bytes").train(())
    place = 1 + kind.symbols.index("a")
    logits = torch.full((3, len(kind.symbols) + 1), -30.0)
    logits[0, [place, place + 1]] = torch.tensor([2.0, 1.9])
    logits[1:, 0] = 2.0
    for text in ("a", "b"):
        model = GuidingModel("x", NgramModel(f"{text}\n" * 20, 256), generator_of(bytewise), architecture)
        settings = kind.settings(beam=4, lm_weight=1.0).model_copy(update={"lm": model})
        assert kind.answers([torch.zeros(3 * kind.step)], [logits], settings)[0][0].text == text


def test_the_verb_and_other_models(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = str(write_sound(tmp_path / "one.wav", tones("ab c")))
    speech, lm = str(runs / "speech"), str(runs / "lm")
    written = {}
    for weight in ("0", "0.5"):
        assert main(["transcribe", speech, sound, "--beam", "8", "--lm", lm, "--lm-weight", weight, "--json"]) == 0
        written[weight] = capsys.readouterr().out
    assert main(["transcribe", speech, sound, "--beam", "8", "--json"]) == 0
    plainly = capsys.readouterr().out
    model = Model.from_folder(speech)
    scores = [model.predict(sound, beam=8, scores=True, **how).score for how in (
        {}, {"lm": lm, "lm_weight": 0.0}, {"lm": lm, "lm_weight": 0.5})]  # fmt: skip
    assert scores[0] == scores[1] != scores[2] and '"text"' in plainly
    mistakes = {
        "is no language model, its verb is transcribe": ["--beam", "8", "--lm", speech],
        "it does not know 'abcd'": ["--beam", "8", "--lm", str(runs / "other")],
        "lm guides a search, and beam is 1": ["--lm", lm],
        "leave one of them out": ["--beam", "8", "--lm", lm, "--ngrams", str(runs / "lm.txt")],
        "there is no such folder": ["--beam", "8", "--lm", str(tmp_path / "gone")],
    }
    for said, arguments in mistakes.items():
        assert main(["transcribe", speech, sound, *arguments]) == 2, said
        assert said in capsys.readouterr().err


def test_an_evaluation_says_what_a_search_changes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"beam": 8, "lm": str(runs / "lm"), "lm_weight": 0.0}
    without = evaluate(runs / "speech", **asked).data["asked_search"]
    assert without["settings"] == asked and "asked_search" not in evaluate(runs / "speech").data
    guided = evaluate(runs / "speech", **{**asked, "lm_weight": 10.0}).data["asked_search"]
    scores = evaluate(runs / "speech").data["scores"]
    for name in ("word error rate", "character error rate"):
        key = name.replace(" ", "_")
        assert without[key]["best_path"] == guided[key]["best_path"] == scores[name]["score"]
    model, heard = Model.from_folder(runs / "speech"), {}
    rows = SpeechRecognition.settings.read({"data": str(runs / "tones.tsv"), "split": 0.2})
    task = SpeechRecognition.make(rows, {"first_sample": 159, "samples_a_position": 640}, inputs=("audio",), batch=8)
    test = task.data.source.test
    for weight in (0.0, 10.0):
        texts = model.predict([row.held("audio").load() for row in test], **{**asked, "lm_weight": weight})
        heard[weight] = word_error_rate(texts, [str(row["text"]) for row in test]).score
    assert heard == {0.0: without["word_error_rate"]["searched"], 10.0: guided["word_error_rate"]["searched"]}
    assert main(["evaluate", str(runs / "speech"), "--beam", "8", "--ngrams", str(runs / "lm.txt")]) == 0
    assert "searched with beam 8, ngrams" in capsys.readouterr().out
    assert main(["evaluate", str(runs / "speech"), "--lm", str(runs / "lm")]) == 2
    assert "lm guides a search, and beam is 1" in capsys.readouterr().err


def test_a_guide_reads_nothing_but_texts(runs: Path) -> None:
    opened = guiding_model(str(runs / "lm"))
    assert isinstance(opened, GuidingModel) and opened.check_writes(list(" abcd"))
    with pytest.raises(InputError, match=r"does not know 'é', of the letters of the transcripts; train it on texts"):
        TextGuide(opened, [" ", "a", "é"], 1.0)
    sounds = Model.from_folder(runs / "speech").architecture
    with pytest.raises(InputError, match="it reads audio, and there are texts alone"):
        GuidingModel("x", opened.module, opened.predictor, sounds).check_writes(["a"])


@pytest.mark.parametrize("name", ["lm", "ngrams"])
def test_no_client_of_a_server_names_its_files(name: str, runs: Path) -> None:
    options_of = pytest.importorskip("transformula.serving.predicting", reason="needs the extra serve").options_of
    from transformula.serving.settings import ServeSettings

    kind = Model.from_folder(runs / "speech").predictor
    given = {"beam": 8, name: str(runs / "lm.txt")}
    with pytest.raises(InputError, match=f"settings: {name} names what lies on the server, which no client chooses"):
        options_of(kind, given, ServeSettings())
    assert options_of(kind, {"beam": 8}, ServeSettings()).beam == 8
