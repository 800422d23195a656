"""Functions and the first lines of their docstrings."""

import ast
import textwrap

import pytest

from transformula.data.records import read_records
from transformula.data.sets.python_library import EMPTY, summaries
from transformula.data.splits import split_records
from transformula.errors import DataError

MODULE = textwrap.dedent('''
    """Module."""
    def plain(a,
              b=1):
        """Add   both.

        At length.
        """

        # how
        text = """one

    two"""
        return a + b

    class A:
        """Class."""
        @property
        async def method(self):
            r"""
            Wait for it: ä.
            """
            if self:

                return "ä"
            def inner():
                "Inner."; return 2

        def one_line(self): "Told."; return "é"

        def silent(self):
            return 3

        def blank(self):
            """   """
            return 4

        def later(self):
            """Not yet."""
            ...
            raise NotImplementedError("later")

        def nothing(self): "Nothing."
''')


def test_functions_of_a_module_in_their_order():
    found = list(summaries(MODULE))
    said = [target for _, _, target in found]
    assert said == ["Add both.", "Wait for it: ä.", "Inner.", "Told.", "Not yet.", "Nothing."]
    assert [line for line, *_ in found] == sorted(line for line, *_ in found)
    plain, method, inner, one_line, later, nothing = (source for _, source, _ in found)
    assert plain == ('def plain(a,\n          b=1):\n    # how\n    text = """one\n\ntwo"""\n    return a + b')
    assert method.startswith('async def method(self):\n    if self:\n\n        return "ä"\n    def inner')
    assert inner == "def inner():\n    return 2" and one_line == 'def one_line(self): return "é"'
    assert later == "" and nothing == ""
    for source in (plain, method, inner, one_line):
        ast.parse(source)
    assert list(summaries("def f(:")) == [] and list(summaries("x = 1")) == []


def test_duplicates_and_empty_bodies_are_left_out(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(MODULE)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.py").write_text('def plain(x):\n    "More."\n    return x\n' + MODULE)
    (tmp_path / "d.py").write_bytes(b'# coding: latin-1\ndef f():\n    "\xe4"\n    return 1\n')
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    records = read_records("python-summaries")
    rows = list(records)
    assert [row.place for row in rows] == ["a:3", "a:19", "a:26", "a:29", "b.c:1"]
    assert {row.group for row in rows} == {"a", "b.c"}
    assert records.notes == [
        "python-summaries leaves out 4 functions with hardly a body, 4 functions that equal one before"
    ]
    (tmp_path / "a.py").unlink()  # made once
    assert [dict(row) for row in records] == [dict(row) for row in rows]


def test_what_it_does_not_take(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="leave out :en"):
        list(read_records("python-summaries:en"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(DataError, match="carries no standard library"):
        list(read_records("python-summaries"))


@pytest.mark.slow
def test_the_standard_library():
    records = read_records("python-summaries")
    rows = list(records)
    assert len(rows) > 4000 and len({" ".join(row["source"].split()) for row in rows}) == len(rows)
    for row in rows:
        assert row["source"].startswith(("def ", "async def ")) and "\n" not in row["target"]
        ast.parse(row["source"])
    training, held = split_records(records, 0.1)
    assert 0.03 < len(held) / len(rows) < 0.25
    assert not {row.group for row in training} & {row.group for row in held}
    assert EMPTY in records.notes[0]
