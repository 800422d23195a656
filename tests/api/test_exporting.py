"""What an export says and does of a model's use: predict.py beside the program answers as the model does here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.api.translator import write_pictures
from transformula import Model
from transformula.api.exporting import export, own_texts
from transformula.errors import CheckpointError
from transformula.generation.settings import SamplingSettings, SearchSettings
from transformula.interop.folder import save_model
from transformula.tasks import pipeline
from transformula.tasks.base import tasks

NAMES = ["Anna", "Bob", "Köln", "東京", "red", "blue", "sees", "runs", "the", "a", ",", "!"]


def trained(folder: Path, task: str, rows: Sequence[dict[str, Any]], **given: Any) -> Any:
    """The folder of a model of random weights that reads as a task on some rows says; and its predictor."""
    data = folder / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    settings = {key: given.pop(key) for key in list(given) if key in tasks.get(task).settings.model_fields}
    read = tasks.get(task).settings.read({"data": str(data), "split": 0.2, **settings})
    inputs = given.pop("inputs", ("tokens",))
    made = tasks.get(task).make(read, given.pop("numbers", {}), inputs=inputs)
    given = {"depth": 1, "width": 16, "heads": 2, "seed": 3, **tasks.get(task).model, **made.numbers, **given}
    model, predictor = Model(given.pop("model", "pre-norm"), **given), made.predictor()
    assert predictor is not None
    save_model(folder / "model", model.module, predictor.save)
    return folder / "model", model.module.eval(), predictor


def said(folder: Path, lines: Sequence[str]) -> list[str]:
    """What predict.py prints for lines of standard input, as someone runs it."""
    made = subprocess.run([sys.executable, str(folder / "predict.py")], input="\n".join([*lines, ""]).encode(),
                          capture_output=True, check=True, timeout=300)  # fmt: skip
    return made.stdout.decode().removesuffix("\n").split("\n")


def texts(count: int = 50) -> list[str]:
    """Short and long ones, an empty one, and some that no training text is like."""
    each = [" ".join(NAMES[(n * k + k * k) % len(NAMES)] for k in range(n % 40)) for n in range(count - 3)]
    return [*each, "<|endoftext|> [SEP]", "Ein naïver  Café – Ω", "x" * 3000]


def same(ours: Sequence[str], theirs: Sequence[str]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert pipeline.same_answer(one, other), (one, other)


LABELED = [
    {"text": f"{text} {n} {NAMES[n % 12]} x", "label": label}
    for n in range(30)
    for label, text in enumerate(("red", "blue a"))
]


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("to", "tokenizer"),
    [
        ("onnx", "bpe"),
        pytest.param("onnx", "bytes", marks=slow),
        pytest.param("torch-export", "characters", marks=slow),
    ],
)
def test_labels(to: str, tokenizer: str, tmp_path: Path) -> None:
    folder, module, kind = trained(tmp_path, "classification", LABELED, tokenizer=tokenizer, max_tokens=20)
    out = export(folder, tmp_path / "out", to=to)
    known = {character for row in LABELED for character in str(row["text"])}
    lines = [text for text in texts() if tokenizer != "characters" or known.issuperset(text)]
    answers, theirs = kind.predict([module], lines, kind.settings()), said(out, lines)
    assert len({f"{best.score:.4f}" for best, *_ in answers}) > 9
    assert [best.text for best, *_ in answers] == [line.partition("\t")[0] for line in theirs]
    same([f"{best.score:.4f}" for best, *_ in answers], [line.partition("\t")[2] for line in theirs])
    about = json.loads((out / "pipeline.json").read_text())
    assert about["labels"] == ["0", "1"] and about["most"] == kind.most and about["marks"][0]
    # the tokenizer's file alone does the same: marks, and the cut
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(out / "tokenizer.json"))
    backend.encode_special_tokens = True
    for line in lines:
        assert backend.encode(line).ids == kind.encode([line])[0]["tokens"].tolist()


TAGGED = [
    {"tokens": [NAMES[(n + k) % 12] for k in range(2 + n % 8)], "tags": ["O", "B-X", "I-X", "B-Y"][: 1 + n % 4] * 3}
    for n in range(40)
]
TAGGED = [{**row, "tags": (row["tags"] * 3)[: len(row["tokens"])]} for row in TAGGED]
ENTITIES = [
    {"tokens": [NAMES[(n + k * k) % 12] for k in range(8)], "tags": ["B-X", "I-X", "E-X", "S-Y"] * 2}
    for n in range(40)
]


@pytest.mark.parametrize(
    ("rows", "given"),
    [
        (TAGGED, {"inputs": ("tokens", "characters"), "before": "x = embed.words(tokens) + spell(characters)"}),
        pytest.param(TAGGED, {"tokenizer": "bpe", "lower": True}, marks=slow),
        pytest.param(ENTITIES, {"output": "logits = transitions(linear(x, classes))"}, marks=slow),
        pytest.param(ENTITIES, {"scheme": "bioes"}, marks=slow),
    ],
)
def test_tags(rows: Any, given: dict[str, Any], tmp_path: Path) -> None:
    folder, module, kind = trained(tmp_path, "tagging", rows, max_tokens=14, **given)
    out = export(folder, tmp_path / "out", to="onnx")
    answers = [best.text for best, *_ in kind.predict([module], texts(), kind.settings())]
    assert len(set(" ".join(answers).split())) > 20
    assert said(out, texts()) == answers


PAIRS = [{"text": f"the {n} is red", "text_2": f"a blue {n} runs", "score": n % 5} for n in range(40)]


@slow
def test_vectors_and_their_cosines(tmp_path: Path) -> None:
    folder, module, kind = trained(tmp_path, "sentence-embeddings", PAIRS, tokenizer="bpe", lower=True)
    out = export(folder, tmp_path / "out", to="onnx")
    lines = [*texts(), "a red\tthe blue one", "A Red\ta red"]
    answers = [best.text for best, *_ in kind.predict([module], kind.opened(lines), kind.settings())]
    same(answers, said(out, lines))


@slow
def test_labels_of_pairs_and_several_labels(tmp_path: Path) -> None:
    rows = [{"text": f"red {n} of a", "text_2": f"{n}", "label": ["x", "y"][: n % 3]} for n in range(40)]
    given: Any = {"text": "text", "text_2": "text_2", "several": True, "max_tokens": 12}
    folder, module, kind = trained(tmp_path, "classification", rows, tokenizer="bytes", **given)
    out = export(folder, tmp_path / "out", to="onnx")
    lines = [f"{one}\t{other}" for one, other in zip(texts(), texts()[::-1], strict=True)]
    answers = kind.predict([module], kind.opened(lines), kind.settings())
    same([f"{best.text}\t{best.score:.4f}" for best, *_ in answers], said(out, lines))


@pytest.mark.parametrize("tokenizer", ["bpe", pytest.param("characters", marks=slow)])
def test_a_text_is_gone_on_with(tokenizer: str, tmp_path: Path) -> None:
    rows = [{"text": f"{text}\n"} for text in texts()[:40]]
    given: Any = {"tokenizer": tokenizer, "context": 64, "numbers": {"context": 64}}
    folder, module, kind = trained(tmp_path, "language-modeling", rows, **given)
    out = export(folder, tmp_path / "out", to="onnx")
    lines = [text for text in texts()[:9] if text]
    written = [kind.generate(module, [line], SamplingSettings(temperature=0))[0] for line in lines]
    assert "\n".join(said(out, lines)) == "\n".join(written)


TRANSLATED = [{"source": " ".join(NAMES[n % 7 : n % 12]) + " a", "target": f"{NAMES[-n % 12]} sees"} for n in range(60)]


@slow
@pytest.mark.parametrize(
    "given",
    [{"tokenizer": "bpe", "lower": "first"}, {"tokenizer": "bpe", "joint": False, "model": "separate", "lower": "all"}],
)
def test_a_text_for_a_text(given: dict[str, Any], tmp_path: Path) -> None:
    given = {"model": "translator", "inputs": ("source", "tokens"), "source": "source", "target": "target", **given}
    if given["model"] == "separate":  # each side has a tokenizer, and a table, of its own
        text = Model("translator").text
        text = text.replace("embed.words(source)", "embed(source, rows=source_vocab)")
        given["model"] = text.replace("vocab:", "source_vocab: 9\nvocab:", 1)
        given["numbers"] = {"source_vocab": 290, "vocab": 280}
    folder, module, kind = trained(tmp_path, "translation", TRANSLATED, **given)
    out = export(folder, tmp_path / "out", to="onnx")
    lines = [" ".join(NAMES[n % 5 : n % 11]) for n in range(50)]
    written = [best.text for best, *_ in kind.predict([module], lines, SearchSettings(beam=1))]
    assert "\n".join(said(out, lines)) == "\n".join(written)


@pytest.mark.parametrize(
    ("model", "given", "dtype"),
    [
        ("learned", {"lower": "first"}, None),
        pytest.param("translator", {"lower": "all", "joint": False}, "float16", marks=slow),
    ],
)
def test_a_folder_of_ctranslate2_answers_texts(model: str, given: dict[str, Any], dtype: str | None, tmp_path: Path):
    """And longer ones than it has positions: what is cut is said, and there is no error of its own."""
    pytest.importorskip("ctranslate2")
    text = Model("translator").text
    if model == "learned":
        text = text.replace("sinusoids", "positions")
    else:
        text = text.replace("embed.words(source)", "embed(source, rows=source_vocab)")
        text = text.replace("vocab:", "source_vocab: 9\nvocab:", 1)
        given = {**given, "numbers": {"source_vocab": 290, "vocab": 280}}
    given = {"inputs": ("source", "tokens"), "source": "source", "target": "target", "tokenizer": "bpe", **given}
    folder, module, kind = trained(tmp_path, "translation", TRANSLATED, model=text, **given)
    out = export(folder, tmp_path / "out", to="ctranslate2", dtype=dtype)
    lines = [" ".join(NAMES[n % 5 : n % 11]) for n in range(20)]
    module = module.half().float() if dtype else module
    written = [best.text for best, *_ in kind.predict([module], lines, SearchSettings(beam=1))]
    assert "\n".join(said(out, lines)) == "\n".join(written)
    long = subprocess.run([sys.executable, str(out / "predict.py"), "red " * 9000], capture_output=True, text=True)
    rows = 4096 if model == "translator" else json.loads((out / "programs.json").read_text())["context"]
    assert long.returncode == 0 and f"1 of 1 texts are longer than the {rows} tokens" in long.stderr


@slow
def test_a_part_of_a_text_for_a_question(tmp_path: Path) -> None:
    context = " ".join(texts()[20:26])
    rows = [{"question": f"who {n}", "context": f"{context} {n}", "answers": [NAMES[n % 4]]} for n in range(30)]
    rows += [{"question": f"what {n}", "context": f"{context} {n}", "answers": []} for n in range(9)]
    given: Any = {"inputs": ("tokens",), "output": "logits = linear(x, 2)", "tokenizer": "bytes", "max_tokens": 60}
    folder, module, kind = trained(tmp_path, "question-answering", rows, **given, stride=16)
    out = export(folder, tmp_path / "out", to="onnx")
    pairs = [(f"who {n}", " ".join(texts()[20 + n % 9 :][:9])) for n in range(50)]
    answers = kind.predict([module], [dict(zip(kind.columns, pair, strict=True)) for pair in pairs], kind.settings())
    same([f"{best.text}\t{best.score:.4f}" for best, *_ in answers], said(out, ["\t".join(pair) for pair in pairs]))


@slow
def test_gaps(tmp_path: Path) -> None:
    rows = [{"text": text} for text in texts()[:40]]
    given: Any = {"tokenizer": "bpe", "vocab": 300, "context": 48, "numbers": {"context": 48}}
    folder, module, kind = trained(tmp_path, "masked-language-modeling", rows, **given)
    out = export(folder, tmp_path / "out", to="onnx")
    lines = [f"{text} [MASK] {text}[MASK]a" for text in texts()[:12]]
    answers = kind.predict([module], lines, kind.settings())
    assert said(out, lines) == [best.text for best, *_ in answers]


@pytest.mark.parametrize("tokenizer", ["bpe", "bytes"])
def test_transformers_puts_the_same_marks(tokenizer: str, tmp_path: Path) -> None:
    theirs = pytest.importorskip("transformers").AutoTokenizer
    given: Any = {"model": "t5", "inputs": ("source", "tokens"), "source": "source", "target": "target"}
    folder, _, kind = trained(tmp_path, "translation", TRANSLATED, tokenizer=tokenizer, max_source=20, **given)
    out = export(folder, tmp_path / "out", to="transformers")
    lines, read = texts(), theirs.from_pretrained(out)
    assert [read(line, truncation=True)["input_ids"] for line in lines] == [ids.tolist() for ids in kind.ids(lines)]
    assert json.loads((out / "config.json").read_text())["decoder_start_token_id"] == kind.end
    read_again: Any = Model.from_folder(out).predictor
    assert [ids.tolist() for ids in read_again.ids(lines[:3])] == [ids.tolist() for ids in kind.ids(lines[:3])]


def test_code_in_a_model_s_folder_is_neither_run_nor_taken_along(tmp_path: Path) -> None:
    """A folder that someone sent may hold a file of a name that predict.py imports."""
    folder, _, _ = trained(tmp_path, "classification", LABELED, tokenizer="bytes", max_tokens=20)
    (folder / "more").mkdir()
    (folder / "more" / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    for name in ("json.py", "numpy.py", "onnxruntime.py", "predict.py", "runtime.py", "more/__init__.py"):
        (folder / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (folder / "notes.txt").write_text("kept")
    with pytest.warns(UserWarning, match="code is left out: json.py, numpy.py, onnxruntime.py, predict.py, runtime.py"):
        out = export(folder, tmp_path / "out", to="onnx")
    assert sorted(path.name for path in out.rglob("*.py")) == ["predict.py", "runtime.py"]
    assert (out / "notes.txt").exists() and (out / "more" / "tokenizer.json").exists()
    said(out, ["Anna"])
    assert not (tmp_path / "ran").exists()


@slow
def test_labels_of_pictures(tmp_path: Path) -> None:
    """Of files with other channels than the model reads, and with transparency."""
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    draw, lines = np.random.default_rng(1), ["file_name\tlabel"]
    for n in range(20):
        Image.fromarray(draw.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(tmp_path / f"pictures/{n}.png")
        lines.append(f"{n}.png\t{'ab'[n % 2]}")
    (tmp_path / "pictures" / "captions.tsv").write_text("\n".join(lines) + "\n")
    task = tasks.get("image-classification")
    made = task.make(task.settings.read({"data": str(tmp_path / "pictures"), "split": 0.2}), {}, inputs=("image",))
    model = Model("pre-norm", depth=1, width=16, heads=2, seed=3, **{**task.model, **made.numbers})
    save_model(tmp_path / "model", model.module, made.predictor().save)
    out = export(tmp_path / "model", tmp_path / "out", to="torch-export")
    Image.new("LA", (8, 8), (90, 120)).save(tmp_path / "clear.png")
    names = [*(str(tmp_path / f"pictures/{n}.png") for n in range(8)), str(tmp_path / "clear.png")]
    kind, module = made.predictor(), model.module.eval()
    best = [each[0] for each in kind.predict([module], kind.opened(names), kind.settings())]
    same([f"{one.text}\t{one.score:.4f}" for one in best], said(out, names))
    said_of = json.loads((out / "pipeline.json").read_text())
    assert said_of["labels"] == ["a", "b"] and said_of["picture"] == [3, 8, 8]
    Image.new("RGB", (9, 8)).save(tmp_path / "large.png")
    script = [sys.executable, str(out / "predict.py"), str(tmp_path / "large.png")]
    made_of = subprocess.run(script, capture_output=True, text=True)
    assert made_of.returncode and "has (8, 9) pixels (height, width), and the model reads (8, 8)" in made_of.stderr


@slow
def test_replies(tmp_path: Path) -> None:
    """To a message, to a dialogue, to one that is longer than the model reads."""
    rows = [
        {"messages": [{"role": "user", "content": f"{NAMES[n % 12]} {n}"}, {"role": "assistant", "content": NAMES[-n]}]}
        for n in range(12)
    ]
    folder, module, kind = trained(tmp_path, "dialogue", rows, tokenizer="bytes", numbers={"context": 60})
    out = export(folder, tmp_path / "out", to="torch-export")
    long = [{"role": role, "content": f"{'long ' * 9}{role}"} for role in ("user", "assistant", "user")]
    system = [{"role": "system", "content": "short"}, {"role": "user", "content": "hello"}]
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    called = [
        {"role": "user", "content": "f"}, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]  # fmt: skip
    lines = ["Anna", " ", "x" * 200, *map(json.dumps, (long, called))]
    lines += [json.dumps(system)] if "system" in kind.template else []
    given = [json.loads(line) if line.startswith("[") else line for line in lines]
    ours = [best.text for best, *_ in kind.predict([module], kind.opened(given), kind.settings())]
    assert "\n".join(said(out, lines)) == "\n".join(ours)


@pytest.mark.parametrize("to", ["onnx", pytest.param("torch-export", marks=slow)])
def test_numbers_of_replies(to: str, tmp_path: Path) -> None:
    """The program scores a reply to a message, one that ends a dialogue, and those longer than the model reads."""
    rows = [{"prompt": f"{NAMES[n % 12]} {n}", "chosen": NAMES[-n % 12], "rejected": f"no {n}"} for n in range(12)]
    numbers = {"context": 60}
    folder, module, kind = trained(tmp_path, "reward-model", rows, tokenizer="bytes", numbers=numbers)
    out = export(folder, tmp_path / "out", to=to)
    roles = ("system", "user", "assistant", "user", "assistant")
    dialogues = [[{"role": role, "content": role * times} for role in roles] for times in (1, 3, 9)]
    dialogues.append([{"role": "system", "content": "x" * 70}, *dialogues[0][1:3]])
    lines = ["Anna\tBob", " Anna\t Bob ", "\t", "x" * 200 + "\tBob", "Anna\t" + "y" * 200, *map(json.dumps, dialogues)]
    given = [json.loads(line) if line.startswith("[") else line for line in lines]
    answers = [best for best, in kind.predict([module], kind.opened(given), kind.settings())]
    assert len({best.text for best in answers}) > 5 and sum(bool(best.note) for best in answers) == 6
    assert answers[0].text == answers[1].text
    same([best.text for best in answers], said(out, lines))


def test_what_is_read_again_answers_as_the_model_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _, _ = trained(tmp_path, "classification", LABELED, tokenizer="bytes", max_tokens=20)
    export(folder, tmp_path / "out", to="pytorch")
    whole = torch.save
    monkeypatch.setattr(torch, "save", lambda state, file: whole({n: t + 0.1 for n, t in state.items()}, file))
    with pytest.raises(CheckpointError, match="what was written, read again, says of .*This is a defect"):
        export(folder, tmp_path / "other", to="pytorch")
    assert not (tmp_path / "other").exists()


def test_texts_of_the_run_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _, _ = trained(tmp_path, "classification", LABELED, tokenizer="bytes", max_tokens=20)
    (tmp_path / "run").mkdir()
    folder = folder.rename(tmp_path / "run" / "best")
    sample = "a    red 1 Bob x\n\nb    blue ``` x\n"
    summary = f"# run\n\n## What it writes\n\n````\n{sample}````\n\n## How to go on\n"
    (tmp_path / "run" / "summary.md").write_text(summary)
    assert own_texts(folder) == ["a red 1 Bob x", "b blue ``` x"]
    tried: list[str] = []
    real = pipeline.check_again
    monkeypatch.setattr(pipeline, "check_again", lambda p, m, a, own: (tried.extend(own), real(p, m, a, own)))
    export(tmp_path / "run", tmp_path / "out", to="pytorch")
    assert tried == own_texts(folder)


@slow
@pytest.mark.parametrize("task", ["captioning", "image-text-retrieval"])
def test_texts_and_pictures(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text for a picture; the vectors of both."""
    monkeypatch.chdir(tmp_path)
    write_pictures(tmp_path)
    settings = tasks.get(task).settings.read({"data": "pictures", "split": 0.2, "tokenizer": "bytes"})
    names = ["image", "tokens"]
    made = tasks.get(task).make(settings, {}, inputs=names)
    given = {**tasks.get(task).model, **made.numbers, "width": 16, "heads": 2, "seed": 3}
    if task == "captioning":
        text = Path("seeing.yaml").read_text().replace("size=4", "size=2").replace("rows=4", "rows=16")
        model = Model(text, **{key: given[key] for key in ("vocab", "context", "seed")})
    else:
        text = Model("clip").text.replace("patches(image, 32,", "patches(image, 2, channels=3,")
        model = Model(text.replace("rows=50", "rows=17"), **given, depth=1)
    kind, module = made.predictor(), model.module.eval()
    save_model(tmp_path / "model", model.module, kind.save)
    out = export(tmp_path / "model", tmp_path / "out", to="onnx")
    lines = [f"pictures/{n}.png" for n in range(5)] + ([] if task == "captioning" else ["dark square", "x" * 99])
    settings = {"beam": 1} if task == "captioning" else {}
    ours = kind.predict([module], kind.opened(lines), kind.settings.read(settings))
    paths = [str(tmp_path / line) if line.endswith("png") else line for line in lines]
    same("\n".join(best.text for best, *_ in ours).split("\n"), said(out, paths))


@slow
def test_what_seems_to_be_replaced(tmp_path: Path) -> None:
    rows = [{"text": f"{NAMES[n % 12]} {n} sees"} for n in range(60)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = tasks.get("replaced-token-detection")
    made = task.make(task.settings.read({"data": str(tmp_path / "t.jsonl"), "tokenizer": "bytes"}), {}, batch=2)
    model = Model("electra", depth=1, width=16, heads=2, seed=3, **made.numbers)
    kind, module = made.predictor(), model.module.eval()
    save_model(tmp_path / "model", model.module, kind.save)
    out = export(tmp_path / "model", tmp_path / "out", to="onnx")
    lines = [text[:20] for text in texts(20)]
    assert "\n".join(said(out, lines)) == "\n".join(best.text for best, *_ in kind.predict([module], lines))
