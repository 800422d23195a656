"""Fuzzing: files of data of every format, whole, damaged byte by byte and made strange, read as `train` reads them."""

from __future__ import annotations

import contextlib
import decimal
import gzip
import io
import json
import os
import random
import shutil
import struct
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transformula.data.prepare import prepare
from transformula.data.settings import Seq2SeqSettings, TextSettings
from transformula.data.source_target import read_source_target
from transformula.errors import TransformulaError
from transformula.tasks.seq2seq_data import EncodedRows, picture_shape
from transformula.tasks.writing import Writing
from transformula.tokenizers.base import tokenizers

from .harness import check, portions

TEXTS = [
    "A man is sleeping.",
    "Ein Mann schläft.",
    "東京 に 行く",
    "",
    " ",
    "\t",
    "é",
    "👍🏽",
    "x" * 3_000,
    '"',
    "''",
    "a,b;c\td",
    "\r",
] + [
    "\u2028",
    "\x1c",
    "\x85",
    "\ufeff",
    "<|endoftext|>",
    "0",
    "-1.5e9",
    "NaN",
    "null",
    "{}",
    "text",
    "source",
    "\0",
    "\x7f",
]
"""What fields hold."""

NAMES = [
    "source",
    "target",
    "text",
    "label",
    "id",
    "de",
    "en",
    "1",
    "2",
    "",
    "a.b",
    "image",
    "file_name",
    "référence",
    "text",
]
"""How columns are called."""

STRANGE = [
    '{"text": "\\ud800"}',
    '{"text": "\\udc00\\ud800", "source": "\\ud83d", "target": "x"}',
    "[" * 5_000,
    '{"a":' * 3_000 + "1" + "}" * 3_000,
    '{"a":' * 940 + "1" + "}" * 940,
    '{"text": ' + "[" * 900 + "]" * 900 + "}",
    '{"text": ' + "9" * 5_000 + "}",
    '{"text": NaN, "source": Infinity, "target": -Infinity}',
    '{"text": 1e999}',
    '{"text": "a", "text": "b"}',
    '{"source": {"x": "y"}, "target": ["z", "w"]}',
    '{"": ""}',
    "null",
    "3",
    '"bare"',
    "",
    " ",
]
"""Lines of JSON that are no usual ones."""

ENCODINGS = [
    *["utf-8"] * 12,
    "utf-8-sig",
    "utf-16",
    "utf-32",
    "utf-16-le",
    "utf-32-be",
    "latin-1",
    "shift_jis",
    "utf-7",
]


class Case:
    """Files by name, and which of them is data and how it is asked for."""

    def __init__(self, files: dict[str, bytes], data: str, settings: dict[str, Any], links: dict[str, str]) -> None:
        self.files, self.data, self.settings, self.links = files, data, settings, links

    def __repr__(self) -> str:
        return f"{self.data!r} {self.settings!r} {self.links!r} { ({n: c[:300] for n, c in self.files.items()})!r}"


# Whole files.


def text(chance: random.Random) -> str:
    return "".join(chance.choice(TEXTS) + chance.choice(["", " ", "\n"]) for _ in range(chance.randrange(1, 8)))


def plain(chance: random.Random) -> str:
    """A field that no format needs to quote."""
    return " ".join(chance.choice(["one", "zwei", "Haus", f"x{chance.randrange(999)}", "é"]) for _ in range(4))


def rows(chance: random.Random) -> list[dict[str, Any]]:
    names = chance.sample(NAMES, chance.randrange(1, 4)) if chance.random() < 0.3 else ["source", "target"]
    filled = plain if chance.random() < 0.8 else text
    return [{name: filled(chance) for name in names} for _ in range(chance.randrange(1, 40))]


def as_lines(chance: random.Random) -> bytes:
    lines = [plain(chance) if chance.random() < 0.8 else text(chance) for _ in range(chance.randrange(1, 40))]
    return chance.choice(["\n", "\n", "\r\n", "\r"]).join(lines).encode(chance.choice(ENCODINGS), "replace")


def as_json(chance: random.Random, whole: bool) -> bytes:
    found = [json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows(chance)]
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        found.insert(chance.randrange(len(found) + 1), chance.choice(STRANGE))
    return (f"[{','.join(found)}]" if whole else "\n".join(found)).encode("utf-8", "surrogatepass")


def as_table(chance: random.Random, delimiter: str) -> bytes:
    made = rows(chance)
    lines = [list(made[0])] if chance.random() < 0.7 else []
    lines += [list(row.values()) for row in made]
    if chance.random() < 0.2:
        lines[chance.randrange(len(lines))].append("one more")
    if chance.random() < 0.1:
        lines.append(["w" * 140_000] * len(lines[0]))
    quote = chance.random() < 0.5

    def field(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if quote and chance.random() < 0.5 else value

    ends = chance.choice(["\n", "\n", "\r\n", "\r"])
    return ends.join(delimiter.join(map(field, line)) for line in lines).encode(
        chance.choice(ENCODINGS[:15]), "replace"
    )


def as_parquet(chance: random.Random) -> bytes:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    count = chance.randrange(0, 20)
    kinds: dict[str, Any] = {
        "text": lambda: arrow.array([plain(chance) for _ in range(count)]),
        "nulls": lambda: arrow.nulls(count),
        "some null": lambda: arrow.array([chance.choice([plain(chance), None]) for _ in range(count)], "string"),
        "large": lambda: arrow.array([plain(chance) for _ in range(count)], "large_string"),
        "dictionary": lambda: arrow.array([plain(chance) for _ in range(count)], "string").dictionary_encode(),
        "binary": lambda: arrow.array([chance.randbytes(4) for _ in range(count)], "binary"),
        "decimal": lambda: arrow.array([decimal.Decimal(7)] * count, arrow.decimal128(9, 2)),
        "number": lambda: arrow.array([float("nan")] * count),
        "nested": lambda: arrow.array([{"de": "x", "en": {"y": ["z"]}}] * count, arrow.struct(
            [("de", arrow.string()), ("en", arrow.struct([("y", arrow.list_(arrow.string()))]))])),
        "list": lambda: arrow.array([["a", None, "b"]] * count, arrow.list_(arrow.string())),
        "time": lambda: arrow.array([0] * count, arrow.timestamp("s")),
        "map": lambda: arrow.array([[("k", "v")]] * count, arrow.map_(arrow.string(), arrow.string())),
    }  # fmt: skip
    names = chance.sample(sorted(set(NAMES)), chance.randrange(1, 4)) if chance.random() < 0.3 else ["source", "target"]
    likely = [*sorted(kinds), *["text"] * len(kinds)]
    table = arrow.table({name: kinds[chance.choice(likely)]() for name in names})
    held = io.BytesIO()
    parquet.write_table(table, held)
    return held.getvalue()


def as_picture(chance: random.Random) -> bytes:
    image = pytest.importorskip("PIL.Image")
    mode = chance.choice(["RGB"] * 9 + ["1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16", "CMYK", "F"])
    size = chance.choice([(8, 8)] * 12 + [(1, 1), (3, 5), (200, 1)])
    kind = "TIFF" if mode in ("CMYK", "F", "I") else "PNG"
    held = io.BytesIO()
    image.new(mode, size).save(held, kind)
    content = held.getvalue()
    if chance.random() < 0.1 and kind == "PNG":  # of enormous size, by what its head says
        head = struct.pack(">II", chance.choice([0, 60_000, 2**31 - 1]), chance.choice([1, 60_000, 2**31 - 1]))
        content = content[:16] + head + content[24:]
        check_sum = zlib.crc32(content[12:29])
        content = content[:29] + struct.pack(">I", check_sum) + content[33:]
    return content


def as_idx(chance: random.Random, count: int, shape: tuple[int, ...]) -> bytes:
    kind = chance.choice([8] * 12 + [0, 9, 13, 255])
    sizes = [count, *shape]
    if chance.random() < 0.2:
        sizes[chance.randrange(len(sizes))] = chance.choice([0, 1, 2**31, 2**32 - 1, 70_000])
    dimensions = len(sizes) if chance.random() < 0.9 else chance.randrange(256)
    return struct.pack(">HBB", 0, kind, dimensions) + struct.pack(f">{len(sizes)}I", *sizes) + chance.randbytes(
        count * int(np.prod(shape))
    )  # fmt: skip


# Cases.


def draw(chance: random.Random) -> Case:
    files, data, settings = chance.choice([corpus, pairs, pairs, parallel, pictures, idx])(chance)
    for name in list(files):
        files[name] = damaged(chance, files[name])
        if chance.random() < 0.1 and not name.endswith(".gz"):
            packed = gzip.compress(files.pop(name))
            files[f"{name}.gz"] = damaged(chance, packed)
            data = data.replace(name, f"{name}.gz") if data.endswith(name) else data
    links = {
        chance.choice(["loop.txt", "b.txt", "gone.jsonl"]): chance.choice(["loop.txt", "nowhere", ".", "/dev/zero"])
    }
    return Case(files, data, settings, links if chance.random() < 0.1 else {})


def damaged(chance: random.Random, content: bytes) -> bytes:
    """The content with some bytes changed, taken out or put in; or cut; or as it is."""
    how = chance.random()
    if how < 0.7 or not content:
        return content
    if how < 0.78:
        return content[: chance.randrange(len(content))]
    whole = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(whole) + 1)
        part = chance.choice([b"\0", b"\xff", b"\n", b'"', b"\t", b",", b"\xed\xa0\x80", b"{", chance.randbytes(3)])
        whole[at : at + chance.choice([0, 1, 1, len(part)])] = part
    return bytes(whole)


Drawn = tuple[dict[str, bytes], str, dict[str, Any]]


def table_of(chance: random.Random) -> tuple[str, bytes]:
    ending = chance.choice(["jsonl", "json", "csv", "tsv", "parquet", "ndjson"])
    if ending in ("jsonl", "ndjson", "json"):
        return ending, as_json(chance, ending == "json")
    return ending, as_parquet(chance) if ending == "parquet" else as_table(chance, "," if ending == "csv" else "\t")


def corpus(chance: random.Random) -> Drawn:
    ending, content = ("txt", as_lines(chance)) if chance.random() < 0.4 else table_of(chance)
    files = {f"a.{ending}": content}
    if chance.random() < 0.3:
        files["deep/b.md"] = as_lines(chance)
    named = chance.choice([f"a.{ending}"] * 8 + [".", "*", "a.*", "/dev/zero", "x" * 5_000, "a\0b", "**/*"])
    column, tokenizer = (
        chance.choice([None] * 6 + ["source"] * 6 + NAMES),
        chance.choice(["auto", "bytes", "characters"]),
    )
    return files, named, {"task": "text", "column": column, "tokenizer": tokenizer}


def columns(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 0.7:
        return {}
    return {"source": chance.choice(NAMES), "target": chance.choice(NAMES), "join": chance.choice([None, " "])}


def pairs(chance: random.Random) -> Drawn:
    ending, content = table_of(chance)
    return {f"p.{ending}": content}, f"p.{ending}", {"task": "pairs", **columns(chance)}


def parallel(chance: random.Random) -> Drawn:
    count = chance.randrange(1, 40)
    files = {f"t.{lang}": "".join(f"{plain(chance)}\n" for _ in range(count)).encode() for lang in ("de", "en")}
    if chance.random() < 0.2:
        files["t.en"] = as_lines(chance)
    return files, "t.{de,en}", {"task": "pairs"}


def pictures(chance: random.Random) -> Drawn:
    names = [f"{number}.{chance.choice(['png', 'png', 'jpg'])}" for number in range(chance.randrange(1, 9))]
    files = {name: as_picture(chance) for name in names}
    listed = names if chance.random() < 0.8 else [*names, "gone.png"]
    head = chance.choice([*["file_name\ttext"] * 5, "image\tcaption", "x\ty"])
    files["captions.tsv"] = "\n".join([head, *(f"{name}\t{plain(chance)}" for name in listed)]).encode()
    return files, ".", {"task": "pictures"}


def idx(chance: random.Random) -> Drawn:
    count = chance.randrange(1, 12)
    shape = chance.choice([(4, 4), (4, 4), (1, 9), (3, 2, 2)])
    files = {"images": as_idx(chance, count, shape), "labels": as_idx(chance, count, ())}
    return files, "{images,labels}", {"task": "pictures"}


# What is done with a case.


@contextlib.contextmanager
def laid_out(case: Case) -> Iterator[None]:
    before = Path.cwd()
    folder = Path(tempfile.mkdtemp())
    try:
        os.chdir(folder)
        for name, content in case.files.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_bytes(content)
        for name, target in case.links.items():
            Path(name).unlink(missing_ok=True)
            Path(name).symlink_to(target)
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


def run(case: Case) -> None:
    """Read, split, encode: up to the first batch."""
    settings = dict(case.settings)
    task = settings.pop("task")
    with laid_out(case), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of damaged pictures
        if task == "text":
            data = prepare(TextSettings.read({"data": case.data, **settings}))
            assert data.identity and repr(data.preview())
            sides = [data.tokenizer.decode_bytes(side.ids) for side in (data.training, data.validation)]
            texts = [data.split.training, data.split.validation]
            assert sides == [b"".join(bytes(one) for one in side.contents) for side in texts]
            return
        if task == "pairs":
            rows = read_source_target(Seq2SeqSettings.read({"data": case.data, "overlap": "drop", **settings}), "")
        else:
            rows = read_source_target(Seq2SeqSettings.read({"data": case.data, "overlap": "drop"}), "", images=True)
        tokenizer = tokenizers.get("bytes")()
        source = None if task == "pictures" else tokenizer
        picture = picture_shape(rows.training[0]["source"], None)
        writing = Writing("translation", tokenizer, source, "image" if source is None else "source", picture=picture)
        side = EncodedRows.of(rows.training, writing)
        side.batch(np.arange(len(side))[:4])


@pytest.fixture(autouse=True)
def no_cache_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMULA_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("cases", portions())
def test_data(cases: range) -> None:
    check("data", cases, draw, run)


def test_the_whole_files_among_them_are_read(tmp_path: Path) -> None:
    """So that the fuzzer does not only see refusals."""
    taken, refused = 0, 0
    for number in range(80):
        case = draw(random.Random(f"taken/{number}"))
        try:
            run(case)
            taken += 1
        except TransformulaError:
            refused += 1
    assert taken > 5 and refused > 10
