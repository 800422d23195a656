"""Built-in sets, which differ between versions of Python."""

import sys
import textwrap

import pytest

from transformula.data.corpus import read_corpus
from transformula.data.sets import python_library


def test_docstrings_in_the_order_of_the_source():
    source = textwrap.dedent('''
        """Module."""
        class A:
            """Class.

            Told:
                Indented.
            """
            def f(self):
                """Method."""
                def g(): """Inner."""
        try:
            pass
        except E:
            async def h(): """Handler."""
        x = """no docstring"""
    ''')
    assert (
        python_library.docstrings(source)
        == "Module.\n\nClass.\n\nTold:\n    Indented.\n\nMethod.\n\nInner.\n\nHandler."
    )
    assert python_library.docstrings("def f(:") == "" and python_library.docstrings("x = 1") == ""


def test_no_tests_nor_tables_among_the_files(tmp_path):
    for name in ("a.py", "json/b.py", "test/c.py", "json/tests/d.py", "site-packages/e.py", "config-3/f.py", "x.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("")
    assert [p.relative_to(tmp_path).as_posix() for p in python_library.library_files(tmp_path)] == ["a.py", "json/b.py"]


@pytest.mark.slow
def test_python_docs(cache):
    before = set(sys.modules)
    corpus = read_corpus("python-docs")
    assert not {m for m in set(sys.modules) - before if m in ("antigravity", "this", "pydoc_data.topics")}
    assert len(corpus.documents) > 200 and sum(map(len, corpus.documents)) > 1_000_000
    assert corpus.documents == sorted(set(corpus.documents))
    assert any('"with" statement' in text for text in corpus.documents)
    assert read_corpus("python-docs").documents == corpus.documents


def test_made_once(monkeypatch):
    calls = []
    sources = ['"""b"""', '"""a\\ud800"""', '"""b"""', "x = 1", ""]
    monkeypatch.setattr(python_library, "library_files", lambda: calls.append(1) or sources)
    monkeypatch.setattr(python_library, "text_of", lambda source: source)
    monkeypatch.setattr(python_library, "topics", lambda: ["topic"])
    for _ in range(2):
        assert [text for _, text in python_library.python_docs("").rows] == ["a?", "b", "topic"]
    assert calls == [1]
