"""Records with named fields from files of every kind, right and wrong."""

import gzip
import io
import json
import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from transformula.data.format import formats
from transformula.data.lines import lines_of
from transformula.data.records import columns_of, read_records
from transformula.errors import ConfigError, DataError


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def rows(*arguments, **options) -> list[dict]:
    return [dict(record) for record in read_records(*arguments, **options)]


def png(image: Image.Image, kind: str = "PNG") -> bytes:
    made = io.BytesIO()
    image.save(made, kind)
    return made.getvalue()


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


class TestLines:
    def test_a_line_ends_at_newline_only(self, tmp_path):
        path = write(tmp_path / "a", b"\xef\xbb\xbfone\r\ntwo\rstill\xe2\x80\xa8two\x0b\x0c\n")
        assert list(lines_of(Path(path))) == [(1, "one"), (2, "two\rstill\u2028two\x0b\x0c")]
        assert [text for _, text in lines_of(Path(write(tmp_path / "b", "a\n\nb")))] == ["a", "", "b"]

    def test_gzip(self, tmp_path):
        path = Path(write(tmp_path / "a.gz", gzip.compress("é\nb\n".encode())))
        assert list(lines_of(path)) == [(1, "é"), (2, "b")]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"good\nbad \xe9\xe8 here\n", ":2: is not UTF-8: byte 9 of the file is 0xe9"),
            (b"\xef\xbb\xbfa \xff\n", ":1: is not UTF-8: byte 5 of the file is 0xff"),
            (b"a\nb\0\n", ":2: is binary: byte 3 is zero"),
            ("a".encode("utf-16")[:3], ": is not whole UTF-16"),
            (b"a\0b\0c\0\n\0", ":1: is binary: byte 1 is zero; expected text in UTF-8; if it is text in UTF-16, name"),
            (b"", ": is empty"),
        ],
    )
    def test_other_encodings(self, tmp_path, content, said):
        path = Path(write(tmp_path / "a", content))
        with pytest.raises(DataError) as error:
            list(lines_of(path))
        assert f"{path}{said}" in str(error.value)

    def test_the_line_is_shown(self, tmp_path):
        with pytest.raises(DataError, match="'bad .*xe9 here'"):
            list(lines_of(Path(write(tmp_path / "a", b"good\nbad \xe9 here\n"))))

    def test_a_gzip_file_that_is_cut(self, tmp_path):
        whole = gzip.compress("".join(f"line {n} {n * n}\n" for n in range(20_000)).encode())
        path = Path(write(tmp_path / "a.gz", whole[: len(whole) // 2]))
        seen = []
        with pytest.raises(DataError, match=r"a.gz:\d+: is not a whole gzip file .*copy it again") as error:
            for number, text in lines_of(path):
                seen.append(number)
                assert text.startswith(f"line {number - 1} ")
        assert len(seen) > 100 and error.value.line == len(seen) + 1
        with pytest.raises(DataError, match="a.gz:1: is not a whole gzip file"):
            list(lines_of(Path(write(tmp_path / "a.gz", b"nonsense"))))

    def test_a_file_that_is_not_there(self, tmp_path):
        write(tmp_path / "train.de", "a")
        with pytest.raises(DataError, match="there is no such file; did you mean train.de?"):
            list(lines_of(tmp_path / "train.dee"))


class TestParallel:
    def test_line_by_line(self, tmp_path):
        de = write(tmp_path / "train.de", 'eins\tzwei "x\nzwei\r\n')
        en = write(tmp_path / "train.en", "one\u2028more\ntwo\n")
        expected = [{"source": 'eins\tzwei "x', "target": "one\u2028more"}, {"source": "zwei", "target": "two"}]
        assert rows({"source": de, "target": en}) == expected
        assert rows(str(tmp_path / "train.{de,en}"), {"source": "de", "target": "en"}) == expected
        assert list(rows(str(tmp_path / "train.{de,en}"))[0]) == ["de", "en"]
        places = [record.place for record in read_records({"source": de, "target": en})]
        assert places == [f"{de}:1", f"{de}:2"]

    def test_empty_lines_stay_aligned(self, tmp_path):
        files = {"s": write(tmp_path / "s", "a\n\nc\n \ne\n"), "t": write(tmp_path / "t", "A\nB\n\n\nE\n")}
        records = read_records(files)
        assert [dict(r) for r in records] == [{"s": "a", "t": "A"}, {"s": "e", "t": "E"}]
        assert records.tally.rows == 5 and records.tally.kept == 2 and records.tally.empty == {"s": 2, "t": 2}
        assert f"2 rows; of others a side is empty (s 2, t 2; first: {files['s']}:2): 3 left out" in str(records.tally)
        assert len(rows(files, empty="keep")) == 5
        with pytest.raises(DataError, match=r"s:2: 's' is empty; fill it"):
            rows(files, empty="refuse")
        with pytest.raises(ConfigError, match="empty: 'skip' is none of"):
            rows(files, empty="skip")

    def test_unequal_line_counts(self, tmp_path):
        files = {"s": write(tmp_path / "s", "a\nb\nc\nd\n"), "t": write(tmp_path / "t", "A\nB\n")}
        with pytest.raises(DataError) as error:
            rows(files)
        assert f"{files['s']}:3: has no partner: {files['s']} has 4, {files['t']} has 2 lines" in str(error.value)
        assert str(error.value).endswith(": 'c'")

    def test_lazy_and_again(self, tmp_path):
        files = {"s": write(tmp_path / "s", "a\nb\n"), "t": write(tmp_path / "t", b"A\n\xff\n")}
        records = read_records(files)
        assert next(iter(records))["t"] == "A"  # the second line is not yet read
        for _ in range(2):
            with pytest.raises(DataError):
                list(records)

    def test_several_sources(self, tmp_path):
        for number, name in enumerate(("a.s", "a.t", "b.s", "b.t")):
            write(tmp_path / name, f"{number}\n")
        assert len(rows([str(tmp_path / "a.{s,t}"), str(tmp_path / "b.{s,t}")])) == 2


class TestTables:
    def test_columns_by_name_and_number(self, tmp_path):
        path = write(tmp_path / "a.tsv", 'id\tde\ten\n1\tein "x\tone\n\n2\tzwei\ttwo\n')
        assert rows(path, {"source": "de", "target": "en"})[0] == {"source": 'ein "x', "target": "one"}
        assert rows(path)[1] == {"id": "2", "de": "zwei", "en": "two"}
        assert rows(path, ["en"])[1] == {"en": "two"}
        assert rows(path, {"a": 2}, header=True) == [{"a": 'ein "x'}, {"a": "zwei"}]
        assert rows(path, {"a": "2"}) == [{"a": "de"}, {"a": 'ein "x'}, {"a": "zwei"}]
        assert [r.place for r in read_records(path)][-1] == f"{path}:4"
        twice = write(tmp_path / "b.tsv", "text\tlabel\ttext\n1\t2\t3\n")
        for read in (rows, columns_of):
            with pytest.raises(DataError, match=r"b.tsv:1: columns 1 and 3 are both called 'text'; give one .* name"):
                read(twice)
        same = write(tmp_path / "c.tsv", "Title\tTitle\nName\tNom\n")
        assert columns_of(same) == (["1", "2"], False)
        assert rows(twice, {"a": 2}, header=True) == [{"a": "2"}]

    def test_csv_quotes(self, tmp_path):
        path = write(tmp_path / "a.csv", 'a,b\n"x, ""y""\nz\rw",1\nlone\rreturn,2\r\n')
        assert rows(path) == [{"a": 'x, "y"\nz\rw', "b": "1"}, {"a": "lone\rreturn", "b": "2"}]
        assert [r.place for r in read_records(path)][-1] == f"{path}:4"
        assert rows(write(tmp_path / "b.csv", 'a,b\n"x,y\n'), quoted=False) == [{"a": '"x', "b": "y"}]
        assert rows(write(tmp_path / "b.tsv", 'a\tb\n"x\ty"\t1\n'), quoted=True) == [{"a": "x\ty", "b": "1"}]
        assert rows(write(tmp_path / "c.csv.gz", gzip.compress(b"a\n" + b"w" * 200_000)))[0]["a"] == "w" * 200_000

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            (
                "a.tsv",
                "a\tb\n1\t2\n3\t4\t5\n",
                ":3: has 3 fields here, and 2 in its first row; no field may hold a tab",
            ),
            ("a.csv", 'a,b\n1,2\n"open,4\n5,6\n', ":3: broken table: a quote is opened and never closed"),
            ("a.csv", 'a,b\n"x" y,4\n', ":2: broken table"),
            ("a.csv", "a,b\n1\n", ":2: has 1 fields here"),
        ],
    )
    def test_broken(self, tmp_path, name, content, said):
        path = write(tmp_path / name, content)
        with pytest.raises(DataError) as error:
            rows(path)
        line = content.split("\n")[error.value.line - 1]
        assert f"{path}{said}" in str(error.value) and str(error.value).endswith(repr(line))

    def test_a_column_that_is_not_there(self, tmp_path):
        path = write(tmp_path / "a.tsv", "german\tenglish\nja\tyes\n")
        with pytest.raises(DataError, match=r"a.tsv:2: has no column 'germann'; did you mean german.*ja.*yes"):
            rows(path, {"s": "germann"})
        with pytest.raises(DataError, match="has no column number 3; it has 2"):
            rows(path, {"s": 3})


class TestJson:
    def test_paths_into_a_row(self, tmp_path):
        row = {"translation": {"de": "a\u2028b", "en": "x"}, "refs": ["r", "s"], "n": 3, "flag": True, "a.b": "dot"}
        path = write(tmp_path / "a.jsonl", json.dumps(row, ensure_ascii=False) + "\n\n")
        fields = {"s": "translation.de", "r": "refs.2", "n": "n", "f": "flag", "d": "a.b"}
        assert rows(path, fields) == [{"s": "a\u2028b", "r": "s", "n": "3", "f": "true", "d": "dot"}]
        assert rows(path, ["refs"], join=" | ") == [{"refs": "r | s"}]
        with pytest.raises(DataError, match="a.jsonl:1: 'refs' is a list of 2 texts; .* refs.1"):
            rows(path, ["refs"])
        with pytest.raises(DataError, match="no column 'translation.dee'; did you mean translation.de"):
            rows(path, ["translation.dee"])
        with pytest.raises(DataError, match="'translation' is a dict"):
            rows(path, ["translation"])

    def test_lines_in_a_file_that_is_called_json(self, tmp_path):
        path = write(tmp_path / "a.json", '\n{"a": "x", "l": [1]}\r\n\n{"a": "y"}\n')
        assert [(record.place, record["a"]) for record in read_records(path, ["a"])] == [
            (f"{path}:2", "x"),
            (f"{path}:4", "y"),
        ]
        assert rows(write(tmp_path / "b.json", '"x"\n"y"')) == [{"text": "x"}, {"text": "y"}]
        with pytest.raises(DataError, match=r"c.json:2: broken JSON at column 6: .*expected an object on each line"):
            rows(write(tmp_path / "c.json", '{"a": "x"}\n{"a" 3}\n'))
        for whole in ('[{"a": "x"},\n{"a": "y"}]', '[\n{"a": "x"},\n{"a": "y"}\n]'):
            assert rows(write(tmp_path / "d.json", whole)) == [{"a": "x"}, {"a": "y"}]

    def test_nulls_are_empty(self, tmp_path):
        records = read_records(write(tmp_path / "a.jsonl", '{"a": null}\n{"a": "x"}\n'))
        assert len(list(records)) == 1 and records.tally.empty == {"a": 1}

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ('{"a": "x"', ":2: broken JSON at column 10"),
            ('["x"]', ":2: the row is a list; expected an object with columns by name"),
            ('{"b": "x"}', ":2: has no column 'a';"),
            ('{"a": "\\ud800"}', ":2: 'a' holds half a character"),
        ],
    )
    def test_broken(self, tmp_path, line, said):
        path = write(tmp_path / "a.jsonl", '{"a": "x"}\n' + line + "\n")
        with pytest.raises(DataError) as error:
            rows(path, ["a"])
        assert f"{path}{said}" in str(error.value)
        assert (line in str(error.value)) == ("ud800" not in line)


class TestParquet:
    def test_rows(self, tmp_path):
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        table = arrow.table({"t": [{"de": "a", "en": "b"}] * 3, "n": [1, 2, 3], "big": ["x"] * 3})
        path = tmp_path / "a.parquet"
        parquet.write_table(table, path)
        assert rows(path, {"s": "t.de", "n": "n"})[2] == {"s": "a", "n": "3"}
        assert rows(path, {"n": 2})[0] == {"n": "1"}
        with pytest.raises(DataError, match="no column 'bigg'; did you mean big"):
            rows(path, ["bigg"])
        same = tmp_path / "same.parquet"
        parquet.write_table(arrow.table([[1], [2]], names=["n", "n"]), same)
        with pytest.raises(DataError, match="same.parquet: columns 1 and 2 are both called 'n'"):
            rows(same)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(DataError, match="a.parquet:1: is not a whole parquet file .*copy it again"):
            rows(path)
        with pytest.raises(DataError, match="no such file"):
            rows(tmp_path / "b.parquet")


class TestPictures:
    def test_a_folder_with_captions(self, tmp_path):
        red = Image.new("RGB", (3, 2), (255, 0, 7))
        write(tmp_path / "in" / "red.png", png(red))
        write(tmp_path / "grey.jpg", png(Image.new("L", (4, 5), 128), "JPEG"))
        write(tmp_path / "captions.tsv", "file_name\tcaption\nin/red.png\tred one\ngrey.jpg\ta grey\n")
        records = list(read_records(str(tmp_path)))
        assert [r["caption"] for r in records] == ["red one", "a grey"]
        image = records[0]["file_name"]
        assert image.dtype == torch.uint8 and image.shape == (3, 2, 3) and image[:, 0, 0].tolist() == [255, 0, 7]
        assert records[1]["file_name"].shape == (1, 5, 4)
        assert torch.equal(pickle.loads(pickle.dumps(records[0]))["file_name"], image)
        named = list(read_records(str(tmp_path), {"picture": "file_name", "text": "caption"}, channels=3))
        assert named[1]["picture"].shape == (3, 5, 4) and named[1]["text"] == "a grey"
        by_file = read_records(str(tmp_path / "captions.tsv"), {"p": 1, "t": 2}, images=["p"], header=True)
        assert next(iter(by_file))["p"].shape == (3, 2, 3)

    def test_modes(self, tmp_path):
        from transformula.data.pictures import pixels

        clear = Image.new("RGBA", (1, 1), (0, 0, 0, 0))
        assert pixels(clear).flatten().tolist() == [255] * 3
        deep = Image.fromarray(np.full((1, 1), 32896, dtype=np.uint16))
        assert pixels(deep).flatten().tolist()[0] == 128
        turned = Image.new("L", (2, 3))
        turned.getexif()[0x0112] = 6
        made = io.BytesIO()
        turned.save(made, "JPEG", exif=turned.getexif())
        assert pixels(Image.open(made)).shape == (1, 2, 3)
        assert pixels(Image.new("P", (1, 1))).shape == (3, 1, 1) and pixels(Image.new("1", (1, 1))).shape == (1, 1, 1)
        with pytest.raises(ConfigError, match="channels: 2; expected 1 or 3"):
            pixels(clear, 2)

    def test_pictures_that_cannot_be_used(self, tmp_path):
        noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), dtype=np.uint8))
        write(tmp_path / "cut.png", png(noise)[:1500])
        write(tmp_path / "text.png", "not a picture")
        path = write(tmp_path / "captions.csv", "image,caption\ncut.png,a\ntext.png,b\ncutt.png,c\n")
        cut, text, gone = read_records(str(tmp_path))
        with pytest.raises(DataError, match=rf"cut.png, named at {path}:2: the picture cannot be decoded"):
            cut["image"]
        with pytest.raises(DataError, match=rf"named at {path}:3: .*is no picture that is known"):
            text["image"]
        with pytest.raises(DataError, match=rf"named at {path}:4: there is no such picture; did you mean cut.png"):
            gone["image"]

    def test_folders_without_captions(self, tmp_path):
        with pytest.raises(DataError, match="expected one file of captions, captions.tsv or .*found: none"):
            read_records(str(tmp_path))
        write(tmp_path / "captions.tsv", "picture\ttext\na\tb\n")
        with pytest.raises(DataError, match="captions.tsv:1: has no column that names pictures"):
            read_records(str(tmp_path))


class TestIdx:
    def test_pictures_and_labels(self, tmp_path):
        images = np.arange(3 * 4 * 5, dtype=np.uint8).reshape(3, 4, 5)
        files = {
            "image": write(tmp_path / "images-idx3-ubyte.gz", gzip.compress(idx(images))),
            "label": write(tmp_path / "labels-idx1-ubyte", idx(np.array([7, 0, 9], dtype=np.uint8))),
        }
        records = list(read_records(files))
        assert [r["label"] for r in records] == ["7", "0", "9"]
        assert np.array_equal(torch.stack([r["image"] for r in records])[:, 0].numpy(), images)
        assert rows(files, channels=3)[0]["image"].shape == (3, 4, 5)
        files["label"] = write(tmp_path / "words", "seven\nnought\nnine\n")
        assert rows(files)[2]["label"] == "nine"

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (idx(np.zeros((3, 2, 2), np.uint8))[:-5], ":2: ends here; its head says 3 rows"),
            (idx(np.zeros((3, 2, 2), np.uint8)) + b"x", ":3: goes on after the 3 rows"),
            (b"\0\0\x0d\x01\0\0\0\0", "IDX of another type than unsigned bytes"),
            (b"\0\0\x08\x02\0\0\0\1\0\0\0\1x", "is IDX of 2 dimensions"),
        ],
    )
    def test_broken(self, tmp_path, content, said):
        with pytest.raises(DataError) as error:
            rows({"image": write(tmp_path / "a", content)})
        assert said in str(error.value)


class TestOptions:
    @pytest.mark.parametrize(
        ("name", "option"),
        [
            ("a.jsonl", {"header": True}),
            ("a.jsonl", {"quoted": True}),
            ("a.tsv", {"join": " "}),
            ("a.tsv", {"channels": 3}),
            ("hf:a/b", {"header": True}),
        ],
    )
    def test_what_has_no_meaning_is_refused(self, tmp_path, name, option):
        source = name if name.startswith("hf:") else write(tmp_path / name, "a\n")
        with pytest.raises(ConfigError, match=f"{next(iter(option))}: has no meaning for"):
            read_records(source, **option)

    def test_parallel_files_take_no_table_options(self, tmp_path):
        with pytest.raises(ConfigError, match="quoted: has no meaning"):
            read_records({"a": write(tmp_path / "a", "x\n")}, quoted=True)

    def test_images_are_fields(self, tmp_path):
        path = write(tmp_path / "a.tsv", "image\ttext\nx.png\ty\n")
        with pytest.raises(ConfigError, match="images: 'imag' is no field; did you mean image"):
            read_records(path, ["image", "text"], images=["imag"])

    def test_unknown_formats(self, tmp_path):
        with pytest.raises(
            DataError,
            match="did you mean tsv. .*file_format=tsv, .*: bio, conll, .*csv, .*json, .*tsv, xlsx; .*train.{de,en}",
        ):
            read_records(write(tmp_path / "a.tsvv", "x"))
        assert rows(write(tmp_path / "a.txt", "x\ty\n1\t2\n"), file_format="tsv") == [{"x": "1", "y": "2"}]
        with pytest.raises(ConfigError, match="file_format: has no meaning"):
            read_records({"a": str(tmp_path / "a.txt")}, file_format="tsv")
        with pytest.raises(ConfigError, match="none is named"):
            read_records([])

    def test_a_format_is_one_function(self, tmp_path):
        @formats.register("rows")
        def read_rows(path, options):
            for line, text in lines_of(path):
                yield line, {"text": text}

        assert rows(write(tmp_path / "a.rows", "x\ny\n")) == [{"text": "x"}, {"text": "y"}]


class TestDamagedPictures:
    @pytest.fixture
    def listed(self, tmp_path):
        write(tmp_path / "captions.tsv", "file_name\ttext\na.png\twords\n")
        return tmp_path

    def load(self, folder):
        return next(iter(read_records(folder)))["file_name"]

    def test_a_picture_that_says_it_is_enormous(self, listed):
        held = io.BytesIO()
        Image.new("L", (8, 8)).save(held, "PNG")
        content = held.getvalue()
        head = b"IHDR" + struct.pack(">II", 60_000, 60_000) + content[24:29]
        write(listed / "a.png", content[:12] + head + struct.pack(">I", zlib.crc32(head)) + content[33:])
        with pytest.raises(DataError, match="a.png, named at .*captions.tsv:2: "):
            self.load(listed)

    def test_a_pipe_is_not_waited_for(self, listed):
        os.mkfifo(listed / "a.png")
        with pytest.raises(DataError, match="a.png: is a pipe"):
            self.load(listed)

    @pytest.mark.parametrize("shape", [(0, 4), (2**31, 2**31), (60_000, 60_000)])
    def test_idx_of_impossible_sizes(self, tmp_path, shape):
        path = write(tmp_path / "images", struct.pack(">HBB3I", 0, 8, 3, 5, *shape) + b"\1" * 80)
        with pytest.raises(DataError, match="its head says .* bytes a picture; expected 1 to"):
            list(read_records({"image": path, "text": path}))
