"""`Model.write` and `evaluate`: what a model of pairs writes depends on its source alone, and is what is scored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.api.translator import translator, workplace, write_pictures
from transformula import Model, evaluate, train
from transformula.errors import CheckpointError, ConfigError, DataError, InputError
from transformula.tasks.scores.measured import bleu
from transformula.tasks.writing import Written

SOURCES = ["hund sieht katze", "eins", "der hund sieht drei katze", "zwei zwei", "katze der hund"]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with workplace(tmp_path_factory) as folder:
        translator(folder, "second", steps=30, seed=2, tokenizer="run/best")
        yield folder


@pytest.fixture
def model(work: Path) -> Model:
    return Model.from_folder("run")


def near(one: Written, other: Written) -> bool:
    scores = pytest.approx([one.score, one.log_probability], abs=1e-5)
    return (one.text, one.tokens) == (other.text, other.tokens) and [other.score, other.log_probability] == scores


def by_hand(model: Model, source: str) -> str:
    """The likeliest token after the likeliest token, from whole passes."""
    writing: Any = model.predictor
    tokens = [writing.end]
    with torch.no_grad():
        while len(tokens) < 20:
            given = {"source": torch.tensor([writing.source.encode(source) + [writing.end]])}
            token = int(model.module(**given, tokens=torch.tensor([tokens]))[0, -1].argmax())
            if token == writing.end:
                break
            tokens.append(token)
    return str(writing.target.decode(tokens[1:]))


@pytest.mark.parametrize("source", [None, 5, b"eins", {"eins": 1}, [None], [b"eins"], ["eins", 5]])
def test_what_is_no_source(model: Model, source: Any) -> None:
    with pytest.raises(InputError, match="source.*(expected a text|reads texts)"):
        model.write(source)


def test_sources_and_prefixes_at_the_border(model: Model) -> None:
    assert model.write([]) == []
    for prefix in (5, b"one", [5]):
        with pytest.raises(InputError, match="prefix"):
            model.write(["eins"], prefix=prefix)  # type: ignore[arg-type]
    assert isinstance(model.write("\0"), str)
    with pytest.raises(InputError, match="lone surrogate"):
        model.write("eins \ud800")


def test_a_beam_of_one_is_greedy(model: Model) -> None:
    assert model.write(SOURCES, beam=1) == [by_hand(model, source) for source in SOURCES]


@pytest.mark.parametrize(("penalty", "alpha"), [("gnmt", 0.6), ("average", 1.0)])
def test_scores_are_those_of_a_whole_pass(model: Model, penalty: str, alpha: float) -> None:
    writing: Any = model.predictor
    for source in SOURCES:
        found = model.write(source, scores=True, penalty=penalty, alpha=alpha)
        ids = writing.target.encode(found.text)
        assert len(ids) == found.tokens
        given = {"source": torch.tensor([writing.source.encode(source) + [writing.end]])}
        with torch.no_grad():
            logits = model.module(**given, tokens=torch.tensor([[writing.end, *ids]]))[0]
        asked = torch.tensor([*ids, writing.end])
        total = float(logits.log_softmax(-1)[torch.arange(len(asked)), asked].sum())
        length = len(asked)  # the end counts
        divided = ((5 + length) / 6) ** alpha if penalty == "gnmt" else length**alpha
        assert [found.log_probability, found.score] == pytest.approx([total, total / divided], abs=1e-4)


def test_it_has_learned(model: Model) -> None:
    assert model.write("eins zwei drei") == "one two three"
    assert evaluate("run").data["scores"]["BLEU"]["score"] > 50


def test_a_source_alone_in_a_batch_and_elsewhere_in_it(model: Model) -> None:
    together = model.write(SOURCES, scores=True)
    alone = [model.write(source, scores=True) for source in SOURCES]
    turned = model.write(SOURCES[::-1], scores=True)[::-1]
    small = model.write(SOURCES, scores=True, batch_tokens=1)
    for each in zip(together, alone, turned, small, strict=True):
        assert all(near(each[0], other) for other in each[1:])


def test_what_is_given_back(model: Model) -> None:
    one, several = model.write("eins"), model.write(["eins"])
    assert isinstance(one, str) and several == [one] and model.write([]) == []
    assert model.write("eins", scores=True).text == one
    best = model.write("hund sieht", n_best=3)
    assert len(best) == 3 and [b.score for b in best] == sorted((b.score for b in best), reverse=True)
    assert len({b.text for b in best}) == 3
    assert near(best[0], model.write("hund sieht", scores=True))
    assert near(model.write(["zwei", "hund sieht"], n_best=3)[1][2], best[2])
    heard: list[tuple[int, int]] = []
    model.write(SOURCES, progress=lambda done, whole: heard.append((done, whole)))
    assert heard[-1] == (5, 5)
    with pytest.raises(ConfigError, match="beem"):
        model.write("eins", beem=3)
    with pytest.raises(InputError, match="source 2: this model reads texts; given: int"):
        model.write(["eins", 3])


def test_nothing_is_written_for_nothing(model: Model) -> None:
    for blank in ("", "  ", "\n"):
        found = model.write(["eins", blank, "zwei"], scores=True, prefix="dog")
        assert found[1] == Written("", 0.0, 0.0, 0) and found[0].text.startswith("dog")
    assert model.write("") == "" and [len(each) for each in model.write(["", "eins"], n_best=2)] == [1, 2]


def test_a_prefix_is_kept(model: Model) -> None:
    assert model.write("eins zwei", prefix="the dog").startswith("the dog")
    first, second = model.write(["eins", "zwei"], prefix=["cat", ""])
    assert first.startswith("cat") and second == model.write("zwei")
    with pytest.raises(InputError, match="1 prefixes for 2 sources"):
        model.write(["eins", "zwei"], prefix=["cat"])


def test_several_models(model: Model, work: Path) -> None:
    for ensemble in ("probabilities", "log-probabilities"):
        twice = model.write(SOURCES, scores=True, models=["run", model], ensemble=ensemble)
        assert all(near(one, two) for one, two in zip(model.write(SOURCES, scores=True), twice, strict=True))
    both = model.write(SOURCES, scores=True, models=["second"])
    turned = Model.from_folder("second").write(SOURCES, scores=True, models=[model])
    assert all(near(one, two) for one, two in zip(both, turned, strict=True))
    translator(work, "other", steps=1, tokenizer="characters")
    with pytest.raises(InputError, match="other writes by another tokenizer than the first model.*--tokenizer"):
        model.write("eins", models=["other"])
    translator(work, "spelled", steps=1, tokenizer="run/best", lower="first")
    with pytest.raises(InputError, match="spelled spells texts otherwise than the first model.*--lower"):
        model.write("eins", models=["spelled"])


def test_a_model_that_is_saved_and_one_that_was_trained(model: Model, tmp_path: Path) -> None:
    copy = Model.from_folder(model.save(tmp_path / "copy"))
    assert copy.write(SOURCES) == model.write(SOURCES)
    pairs = tmp_path / "copy" / "pairs.json"
    infinite = json.dumps({**json.loads(pairs.read_text()), "longest": float("inf")})
    for damaged in ("{", infinite):
        pairs.write_text(damaged)
        with pytest.raises(CheckpointError, match=r"pairs\.json: damaged"):
            Model.from_folder(tmp_path / "copy")


def test_learned_positions(work: Path) -> None:
    run = translator(work, "learned", "learned.yaml", steps=2)
    longest = run.model.architecture.numbers["context"]
    assert run.model.write(["eins zwei", "eins"])  # nothing is said of a length: as much as fits
    with pytest.raises(InputError, match=f"has learned {longest} positions: shorten it .'eins eins"):
        run.model.write(["eins " * 50])
    with pytest.raises(InputError, match="set max_length to at most"):
        run.model.write("eins", max_length=100)


def test_a_decoder_alone(work: Path) -> None:
    formula = "x = x + attention(norm(x), rotary=100); x = x + mlp(norm(x))"
    sizes = {"before": "x = embed.words(tokens)", "after": "x = norm(x)", "depth": 1, "width": 32, "heads": 2}
    model = translator(work, "alone", formula, steps=3, **sizes).model
    together = model.write(SOURCES, scores=True, beam=2, max_length=6)
    alone = [model.write(source, scores=True, beam=2, max_length=6) for source in SOURCES]
    assert all(near(one, other) for one, other in zip(together, alone, strict=True))
    assert evaluate("alone", max_length=3, beam=1).data["examples"] == 40
    with pytest.raises(InputError, match="given `tokens`, and the first model `source`"):
        translator(work, "joined", steps=1, tokenizer="alone/best").model.write("eins", models=[model])


def test_models_that_write_no_targets(work: Path) -> None:
    with pytest.raises(InputError, match="`generate`"):
        Model("pre-norm", depth=1, width=8, heads=1, vocab=9, context=8).write("eins")
    with pytest.raises(InputError, match="use `write`.*transformula translate"):
        Model.from_folder("run").generate("eins")


def test_pictures(work: Path) -> None:
    from PIL import Image

    write_pictures(work)
    given = {"batch_tokens": 64, "held_out": 0.2, "evaluate_every": 40, "written": 3, "precision": "float32"}
    run = train("seeing.yaml", task="captioning", data="pictures", steps=40, out="seeing", quiet=True, **given)
    model = run.model
    assert model.write("pictures/0.png") == "dark square"
    tensor = torch.full((3, 8, 8), 235, dtype=torch.uint8)
    assert model.write([Path("pictures/1.png"), tensor]) == ["grey square", "light square"]
    Image.new("L", (8, 8), 130).save("grey.png")
    assert model.write("grey.png") == "grey square", "a picture of one channel is given as three"
    Image.new("RGB", (16, 8)).save("wide.png")
    with pytest.raises(InputError, match="reads pictures of 3 x 8 x 8 .* has 3 x 8 x 16"):
        model.write("wide.png")
    with pytest.raises(InputError, match="torch.uint8.; this one is float32 of the shape .3, 8, 8."):
        model.write(tensor / 255)
    with pytest.raises(DataError, match="no such picture"):
        model.write("pictures/none.png")
    report = evaluate("seeing")
    assert "constant" in report.data["scores"]["BLEU"]["baselines"] and len(report.written or ()) >= 1


def test_what_is_scored_is_what_is_written(model: Model, work: Path) -> None:
    report = evaluate("run", beam=3, alpha=1.0)
    sources = (work / "test.de").read_text().splitlines()
    assert list(report.written or ()) == model.write(sources, beam=3, alpha=1.0)
    score = report.data["scores"]["BLEU"]
    asked = (work / "test.en").read_text().splitlines()
    assert score["score"] == pytest.approx(bleu(report.written or (), asked).score)
    assert score["interval"][0] <= score["score"] <= score["interval"][1] and "nrefs:1" in score["signature"]
    page = repr(report)
    assert "copy" in page and "beam 3, score sum of log p / ((5 + l) / 6)^1" in page
    assert page.count("\nexample ") == 20 and report.data["examples"] == 40


def test_other_rows(work: Path) -> None:
    rows = "id\tgerman\tenglish\n1\teins\tone\n2\tzwei zwei\ttwo two\n"
    (work / "rows.tsv").write_text(rows)
    named = {"data": "rows.tsv", "source": "german", "target": "english", "overlap": "keep"}
    assert evaluate("run", **named).data["examples"] == 2  # type: ignore[arg-type]
    (work / "gaps.tsv").write_text(rows + "3\t\tthree\n")
    gaps = evaluate("run", **{**named, "data": "gaps.tsv"})  # type: ignore[arg-type]
    assert gaps.data["examples"] == 2 and "note: data: 2 rows; of others a side is empty" in repr(gaps)
    with pytest.raises(ConfigError, match="source: the rows of rows.tsv have the columns id, german, english"):
        evaluate("run", data="rows.tsv")
    known = {"data": "train.{de,en}"}
    report, alone = evaluate("run", **known), evaluate("run/best", **known)
    assert any("training" in note for note in report.data["notes"]) and report.written == alone.written
    for language, more in (("de", "neu"), ("en", "new")):
        text = (work / f"train.{language}").read_text()
        (work / f"some.{language}").write_text("".join(text.splitlines(keepends=True)[:3]) + f"{more}\n")
    with pytest.raises(DataError, match="are also training rows(.|\n)*--overlap keep"):
        evaluate("run", data="some.{de,en}")
    assert evaluate("run", data="some.{de,en}", overlap="keep").data["examples"] == 4


def test_mistakes_of_an_evaluation(work: Path) -> None:
    with pytest.raises(InputError, match="run/best: a model's folder knows no data; say which: --data ROWS"):
        evaluate("run/best")
    with pytest.raises(ConfigError, match="source: is for the rows of --data, and none are named there"):
        evaluate("run", source="de")
    with pytest.raises(ConfigError, match="n_best"):
        evaluate("run", n_best=2)
    with pytest.raises(ConfigError, match="did you mean beam"):
        evaluate("run", beem=2)


def test_several_models_are_scored(work: Path) -> None:
    one, twice = evaluate("run"), evaluate("run", models=["run"])
    assert one.written == twice.written and "2 models" in repr(twice)
