"""Tables as people have them: what parts their columns, rows of unlike length, and what a person is told of both."""

import csv
import io
import random
from pathlib import Path

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.dialect import Dialect, fields_of
from transformula.data.format import Options
from transformula.data.records import read_records
from transformula.data.settings import DataSettings, Seq2SeqSettings, SourceSettings
from transformula.data.source_target import read_source_target
from transformula.data.stream.shards import FileShards
from transformula.errors import TYPED, ConfigError, DataError

ROWS = [["text", "label"], ["A film, fine; so", "good"], ["Dull | long", "bad"], ['He said "no"', "bad"]]


def table(path: Path, sign: str, rows: list[list[str]] = ROWS, quoted: bool = True) -> str:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quoted and (sign in text or '"' in text) else text

    path.write_text("".join(sign.join(map(field, row)) + "\n" for row in rows))
    return str(path)


def read(path: str, columns: object = None, **options: object) -> tuple[list[list[object]], list[str]]:
    records = read_records(path, columns, **options)
    return [list(record.values()) for record in records], records.notes


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
@pytest.mark.parametrize(("sign", "called"), [(",", "commas"), (";", "semicolons"), ("|", "pipes"), ("\t", "tabs")])
def test_the_sign_that_parts_the_columns_is_found_and_told(tmp_path, ending, sign, called):
    path = table(tmp_path / f"a.{ending}", sign, quoted=sign != "\t" and ending != "tsv" or sign in ";|")
    if ending == "tsv" and sign in ";|":  # in .tsv quotes are text, unless it is said
        rows, notes = read(path, quoted=True)
    elif ending == "tsv" and sign == ",":
        path = table(tmp_path / "a.tsv", sign, [row for row in ROWS if "," not in row[0]], quoted=False)
        rows, notes = read(path)
        assert rows == [row for row in ROWS[1:] if "," not in row[0]]
        rows = ROWS[1:]
    else:
        rows, notes = read(path)
    assert rows == ROWS[1:]
    own = (ending, sign) in (("csv", ","), ("tsv", "\t"))
    assert notes == [] if own else (f"{path}: columns are parted by {called}" in notes[0] and len(notes) == 1)


def test_a_sign_inside_texts_parts_nothing(tmp_path):
    one = ["text", "First, a film.", "Second, another.", "Third, dull."]
    for name in ("a.tsv", "b.csv"):
        path = table(tmp_path / name, "\0", [[line] for line in one], quoted=False)
        if name == "a.tsv":
            assert read(path) == ([[line] for line in one[1:]], [])
        else:
            with pytest.raises(DataError, match=r"b.csv:2: has 2 fields here, and 1 in its first row; quotes"):
                read(path)
    for lines in (["10,000 men", "20,000 men", "30,000 men"], ["a; b", "c; d", "e; f"], ["a;b", "c;d"], ["a|b", "c"]):
        path = table(tmp_path / "c.tsv", "\0", [[line] for line in lines], quoted=False)
        assert read(path, {"text": 1})[0] == [[line] for line in lines], lines
    # commas part all of these rows, though a semicolon stands in each
    path = table(tmp_path / "d.csv", ",", [["text", "label"], ["a;b", "x"], ["c;d", "y"]])
    assert read(path) == ([["a;b", "x"], ["c;d", "y"]], [])


def test_numbers_with_commas_between_semicolons(tmp_path):
    path = table(tmp_path / "a.csv", ";", [["score", "text"], ["1,5", "gut"], ["2,25", "sehr gut, ja"]], quoted=False)
    assert read(path)[0] == [["1,5", "gut"], ["2,25", "sehr gut, ja"]]


def test_a_delimiter_is_named(tmp_path):
    path = table(tmp_path / "a.csv", ";", [["a;b", "x,y"]], quoted=False)
    assert read(path, {"1": 1, "2": 2}, delimiter="comma")[0] == [["a;b;x", "y"]]
    assert read(path, {"3": 3}, delimiter="semicolon")[0] == [["x,y"]]
    for name, sign in (("' ||| '", " ||| "), ("::", "::"), ("\\t", "\t")):
        path = table(tmp_path / "b.txt", sign, [["ein Satz", "a sentence"], ["zwei", "two"]], quoted=False)
        assert read(path, {"2": 2}, delimiter=name.strip("'"))[0] == [["a sentence"], ["two"]]
    (tmp_path / "c.txt").write_text("a  1\t2\n b 3 4\n")
    assert read(str(tmp_path / "c.txt"), {"3": 3}, delimiter="blanks")[0] == [["2"], ["4"]]
    for wrong in ("", '"', "\n"):
        with pytest.raises(ConfigError, match="delimiter: .* parts no columns; expected comma, "):
            read_records(path, delimiter=wrong)
        with pytest.raises(ConfigError, match="delimiter: .* parts no columns"):
            SourceSettings.read({"delimiter": wrong})
    with pytest.raises(ConfigError, match="quoted: .* where one sign parts them"):
        read(path, {"1": 1}, delimiter="::", quoted=True)


def test_a_label_and_a_question_as_trec_has_them(tmp_path):
    (tmp_path / "train_5500.label").write_bytes(b"DESC:manner How did it go ?\nHUM:ind Who is Ren\xe9 ?\n")
    path = str(tmp_path / "train_5500.label")
    options = {"file_format": "tsv", "delimiter": "first-blank", "encoding": "latin-1"}
    expected = [["DESC:manner", "How did it go ?"], ["HUM:ind", "Who is René ?"]]
    assert read(path, {"label": 1, "text": 2}, **options)[0] == expected
    (tmp_path / "train.txt").write_text("DESC:manner How did it go ?\nHUM:ind Who ?\n")
    said = TYPED.set(frozenset(["--delimiter", "--file-format"]))
    with pytest.raises(DataError, match=r"train.txt:1: .*--delimiter NAME, of .*first-blank .*format tsv.*'DESC:"):
        read(str(tmp_path / "train.txt"))
    with pytest.raises(DataError, match=r"its ending .label is no format.*--file-format tsv"):
        read(path)
    TYPED.reset(said)


STSB = ['main\t0\t5.0\tA plane takes off.\tA "plane" flies.', "main\t1\t1.5\ta\tb", "news\t2\t3.0\tc\td\tsource\tmore"]


def test_rows_of_unlike_length_as_stsb_has_them(tmp_path):
    path = tmp_path / "sts-train.csv"
    path.write_text("\n".join([*STSB, "news\t3\t2.0"]) + "\n")
    columns = {"score": 3, "source": 4, "target": 5}
    typed = TYPED.set(frozenset(["--ragged", "--delimiter", "--quoted"]))
    with pytest.raises(DataError, match=r"csv:3: has 7 fields here, and 5 in its first row; .*--ragged pad, --ragged"):
        read(str(path), columns)
    with pytest.raises(DataError, match=r"csv:3: has 7 fields here"):
        read(str(path), columns, ragged="pad")
    TYPED.reset(typed)
    rows, notes = read(str(path), columns, ragged="fit", empty="keep")
    expected = [["5.0", "A plane takes off.", 'A "plane" flies.'], ["1.5", "a", "b"], ["3.0", "c", "d"]]
    assert rows == [*expected, ["2.0", "", ""]]
    assert notes == [
        f"{path}: columns are parted by tabs",
        f"{path}: left out: the further fields of 1 rows that have more than the first",
        f"{path}: 1 rows of fewer fields than the first are filled up with empty ones",
    ]
    records = read_records(str(path), columns, ragged="skip")
    for _ in range(2):  # a second pass does not count twice
        assert [list(record.values()) for record in records] == expected[:2]
        assert records.notes[1:] == [f"{path}: left out: 2 rows of more or fewer fields than the first"]
    with pytest.raises(ConfigError, match="ragged: 'x' is none of: refuse, pad"):
        read_records(str(path), ragged="x")


def test_quotes_that_are_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id\ttext\n1\t"No," he said\n2\tyes\n')
    rows, notes = read(str(path))
    assert rows == [["1", '"No," he said'], ["2", "yes"]] and notes[0].endswith("parted by tabs, quotes are text")
    path.write_text("id,text\n" + "".join(f"{n},a\n" for n in range(30)) + '31,"No" he said\n')
    with pytest.raises(DataError, match=r"a.csv:32: broken table: .* quotes are text like any other, say quoted=False"):
        read(str(path))


def test_no_option_is_without_effect(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    for option in ({"delimiter": "tab"}, {"ragged": "fit"}):
        name = next(iter(option))
        with pytest.raises(ConfigError, match=f"{name}: has no meaning for .jsonl files"):
            read_records(str(tmp_path / "a.jsonl"), **option)
        with pytest.raises(ConfigError, match=f"{name}: has no meaning for .jsonl files"):
            list(FileShards(str(tmp_path / "a.jsonl"), None, Options(**option)).rows(str(tmp_path / "a.jsonl")))


def test_what_was_found_is_in_the_preview_and_the_notes(tmp_path):
    from transformula.data.prepare import prepare

    path = table(tmp_path / "a.csv", ";", [["n", "text"], *([str(n), f"a text, number {n}"] for n in range(40))])
    assert read_corpus(path).notes == (f"{path}: columns are parted by semicolons",)
    shown = repr(prepare(DataSettings.read({"data": path, "tokenizer": "bytes"})).preview())
    assert f"note        {path}: columns are parted by semicolons" in shown
    path = table(tmp_path / "b.csv", ";", [["de", "en"], *([f"Satz, {n}", f"sentence {n}"] for n in range(40))])
    found = read_source_target(Seq2SeqSettings(data=path), "")
    assert f"{path}: columns are parted by semicolons" in found.notes
    other = table(tmp_path / "c.csv", ";", [[f"Satz, {n}", f"text {n}"] for n in range(50, 60)])
    found = read_source_target(Seq2SeqSettings(data=path, validation=other, source="de", target="en"), "")
    assert len(found.validation) == 10  # read under the names of the training table, parted by semicolons as well


@pytest.mark.parametrize("task", ["tagging", "question-answering", "sentence-embeddings", "classification", "dialogue"])
def test_each_task_tells_what_was_found(tmp_path, task):
    from transformula.data.conversations import read_conversations
    from transformula.tasks.base import tasks

    columns, row = {
        "tagging": ("tokens tags", "a b"),
        "question-answering": ("context question answer", "a? b a"),
        "sentence-embeddings": ("text text_2", "a b"),
        "classification": ("text label", "a b"),
        "dialogue": ("instruction output", "a b"),
    }[task]
    path = table(tmp_path / "a.csv", ";", [columns.split(), row.split(), row.split()])
    notes: list[str] = []
    if task == "dialogue":
        list(read_conversations(path, notes=notes))
    else:
        kind = tasks.get(task)
        kind.reader.read(path, kind.settings.read({"data": path}), "data", notes)
    assert f"{path}: columns are parted by semicolons" in notes


def test_rows_in_quotes_are_those_of_the_csv_module(tmp_path):
    pieces = ["a", '"', '""', ",", "\r", "é", " ", '"b"', "\n"]
    draw, whole = random.Random(3), 0
    for number in range(400):
        fields = ["x", "", 'say "so"', "a,b", "two\nlines", '5" pipe', "ö"]
        rows = [draw.choices(fields, k=3) for _ in range(2)]
        text = "".join([*draw.choices(pieces, k=12), "\n"]) if number % 2 else written_rows(rows)
        path = tmp_path / "a.csv"
        path.write_text(text, newline="", encoding="utf-8")
        plain = text.replace("\r\n", "\n").replace("\r", "\0")  # a line ends at \n alone
        try:
            expected = [*csv.reader(io.StringIO(plain), strict=True)]
        except csv.Error:
            with pytest.raises(DataError, match="broken table|is empty"):
                list(fields_of(path, Dialect(",", True)))
            continue
        if expected:
            found = [row for _, _, row in fields_of(path, Dialect(",", True))]
            assert found == [[field.replace("\0", "\r") for field in row] for row in expected if row], text
            whole += 1
    assert whole > 250


def written_rows(rows: list[list[str]]) -> str:
    held = io.StringIO()
    csv.writer(held, lineterminator="\n").writerows(rows)
    return held.getvalue()
