"""Names of sources: each name that a file may have is one name, never a list of its characters."""

import os
from pathlib import Path

import pytest

from transformula import compare, train
from transformula.cli.door import command_of
from transformula.data.corpus import read_corpus
from transformula.data.records import columns_of, read_records
from transformula.data.settings import DataSettings
from transformula.data.sources import missing_sources, need_sources, recorded_settings
from transformula.errors import ConfigError, InputError
from transformula.plain import several
from transformula.runs.folder import RunFolder
from transformula.tasks.multiple_choice import sources_by_name

NAMES = [
    "my notes.txt",
    'it\'s "so".txt',
    "a, b.txt",
    "a [1].txt",
    "a {b}.txt",
    "-a.txt",
    "--steps.txt",
    "\N{GRINNING FACE}.txt",
    "a\r\n.txt",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_list", [False, True])
def test_a_name_is_taken_as_it_is(tmp_path, name, in_list):
    path = tmp_path / name
    path.write_text("some text\n")
    for given in (str(path), path):
        settings = DataSettings.read({"data": [given] if in_list else given})
        assert several(settings.data) == [str(path)]
        assert len(read_corpus(settings.data).documents) == 1
        need_sources(settings.data, texts=True)
        assert missing_sources(settings.data) == [] and list(sources_by_name(settings.data).values()) == [str(path)]
        rows = read_records(settings.data, {"text": 1}, file_format="tsv")
        assert [row["text"] for row in rows] == ["some text"]
        assert columns_of(settings.data, file_format="tsv") == (["some text"], True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_list", [False, True])
def test_a_name_that_is_typed_is_taken_and_recorded_as_it_is(tmp_path, monkeypatch, name, in_list):
    monkeypatch.chdir(tmp_path)
    for file in (name, "other.txt"):
        Path(file).write_text("some text\n")
    typed = ["x = x", f"--data={name}", *(["--data", "other.txt"] if in_list else [])]
    given = command_of("train", typed).parser(typed).parse(typed)
    settings = DataSettings.read(given.of(DataSettings))
    assert settings.data == ([name, "other.txt"] if in_list else name)
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_config(recorded_settings(settings.plain()))
    again = DataSettings.read({"data": run.config()["data"]})
    assert len(read_corpus(again.data).documents) == 1 + in_list


def test_a_name_with_a_dash_in_front_is_typed_behind_an_equals_sign():
    typed = ["x = x", "--data", "-a.txt"]
    with pytest.raises(InputError, match=r"one that begins with a dash stands behind =, as in --data=-a.txt"):
        command_of("train", typed).parser(typed).parse(typed)


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (None, []),
        ("a b", ["a b"]),
        ("", [""]),
        (["a b", "c"], ["a b", "c"]),
        (("a", "b"), ["a", "b"]),
        (Path("a b"), [Path("a b")]),
        ({"de": "a"}, [{"de": "a"}]),
        (5, [5]),
        (iter("ab"), ["a", "b"]),
    ],
)
def test_one_value_or_several(value, values):
    assert several(value) == values


@pytest.mark.parametrize("name", ["", "  ", [], ["a.txt", " "]])
def test_a_blank_name_is_refused(name):
    with pytest.raises(ConfigError, match="a source without a name"):
        DataSettings.read({"data": name})


NO_UTF8 = "caf\udce9"  # as Python holds the bytes caf\xe9
RENAME = r"is not in UTF-8, so that no run can record it; rename it: \S*caf\\xe9"


@pytest.mark.parametrize(
    "given",
    [
        {"data": f"{NO_UTF8}.txt"},
        {"data": ["a.txt", Path(f"{NO_UTF8}.txt")]},
        {"data": "a.txt", "validation": NO_UTF8},
        {"data": "a.txt", "out": Path(NO_UTF8) / "run"},
        {"data": "a.txt", "tokenizer": NO_UTF8},
        {"data": "a.txt", "model": f"{NO_UTF8}.yaml"},
        {"data": "a.txt", "model": None, "init_from": f"runs/{NO_UTF8}"},
    ],
)
def test_a_name_that_no_run_can_record_is_refused_before_its_folder_is_made(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("some text\n")
    with pytest.raises(InputError, match=RENAME) as error:
        train(**{"model": "x = x + mlp(norm(x))", "out": "run", **given})
    str(error.value).encode("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    if "init_from" not in given:
        with pytest.raises(InputError, match=RENAME):
            compare([given.pop("model", "pre-norm"), "post-norm"], **{"out": "comparison", **given}, dry_run=True)
        assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_so_is_one_that_only_the_folder_of_work_makes_so(tmp_path, monkeypatch):
    folder = tmp_path / NO_UTF8
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("the file system takes names in UTF-8 alone")
    monkeypatch.chdir(folder)
    Path("a.txt").write_text("some text\n")
    with pytest.raises(ConfigError, match=f"data: {RENAME}/a.txt"):
        train("x = x + mlp(norm(x))", data="a.txt", out="run", depth=1, width=8, heads=1, context=8, steps=1)
    assert os.listdir() == ["a.txt"]
